//! Ids that publishers give to their messages: each is admitted once for its tenant and source.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::MessageId;
use crate::base::tenant::Tenant;
use crate::database::statement::statements;
use crate::database::tx::Tx;
use crate::database::value::{Row, params};
use crate::queue::rules::message::NewMessage;
use crate::queue::store::messages::EnqueueOutcome;

/// `None` when the id is new; else what it is a duplicate of.
pub(super) async fn admit(
    tx: &mut Tx,
    tenant: Tenant,
    message: &NewMessage,
    (source, id): (&str, &str),
    now: Timestamp,
) -> Result<Option<EnqueueOutcome>> {
    let digest = message.content_digest();
    let admitted = tx.execute(ADMIT, params![tenant.id(), source, id, &digest, now]).await?;
    if admitted == 1 {
        return Ok(None);
    }
    let row = tx.first(ADMITTED, params![tenant.id(), source, id]).await?;
    let gone = EnqueueOutcome::Duplicate { of: None, same: true };
    Ok(Some(row.map_or(Ok(gone), |row| read_duplicate(&row, &digest))?))
}

pub(super) fn read_duplicate(row: &Row, digest: &str) -> Result<EnqueueOutcome> {
    let (known, of) = (row.text(0)?, row.maybe_int(1)?.map(MessageId));
    Ok(EnqueueOutcome::Duplicate { of, same: known == digest })
}

statements! {
    const ADMIT = "
        insert into punctual.admitted (tenant_id, source, external_id, digest, seen_at)
        values ($1, $2, $3, $4, $5)
        on conflict do nothing
    ";

    pub(super) const ADMITTED = "
        select a.digest,
            (
                select max(m.id)
                from punctual.message m
                where m.tenant_id = a.tenant_id
                    and m.external_id = a.external_id
                    and (m.source = a.source or (m.source is null and a.source = ''))
            )
        from punctual.admitted a
        where a.tenant_id = $1 and a.source = $2 and a.external_id = $3
    ";
}
