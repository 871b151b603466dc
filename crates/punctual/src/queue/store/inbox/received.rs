//! Lists received messages, and requeues dead ones.

use crate::base::error::Result;
use crate::base::id::InboxId;
use crate::base::tenant::Tenant;
use crate::database::statement::statements;
use crate::database::tx::Tx;
use crate::database::value::{Row, Value};
use crate::queue::rules::inbox::InboxStatus;
use crate::queue::store::inbox::{InboxFilter, InboxMessage, InboxReplayOutcome, status};

/// Messages replayed by one transaction.
const REPLAY_MAX: usize = 1_000;
pub(super) async fn select(
    tx: &mut Tx,
    tenant: Tenant,
    which: &InboxFilter,
    limit: usize,
) -> Result<Vec<Row>> {
    let ids: Vec<i64> = which.ids.iter().flatten().map(|id| id.0).collect();
    let values = [
        tenant.id().into(),
        which.after.into(),
        which.source.as_deref().into(),
        which.status.map(InboxStatus::word).into(),
        which.ids.is_none().into(),
        Value::Ints(&ids),
        i64::try_from(limit).unwrap_or(i64::MAX).into(),
    ];
    tx.query(LIST, &values).await
}

pub(super) fn read(row: &Row) -> Result<InboxMessage> {
    Ok(InboxMessage {
        id: InboxId(row.int(0)?),
        source: row.text(1)?,
        message_id: row.text(2)?,
        hash: row.maybe_text(3)?,
        status: status(row, 4)?,
        attempts: row.count(5)?,
        lease_until: row.time(6)?,
        first_seen: row.time(7)?,
        last_seen: row.time(8)?,
        finished_at: row.maybe_time(9)?,
        error: row.maybe_text(10)?,
    })
}

pub(super) async fn replay(
    tx: &mut Tx,
    tenant: Tenant,
    which: &InboxFilter,
    dry_run: bool,
) -> Result<InboxReplayOutcome> {
    let rows = select(tx, tenant, which, REPLAY_MAX).await?;
    let mut ids = rows.iter().map(|row| row.int(0)).collect::<Result<Vec<_>>>()?;
    let more = ids.len() == REPLAY_MAX;
    if !dry_run {
        // Another replay may have been faster: it counts the messages that it moved.
        let now = tx.now().await?;
        let moved = tx.query(REVIVE, &[Value::Ints(&ids), now.into()]).await?;
        ids = moved.iter().map(|row| row.int(0)).collect::<Result<Vec<_>>>()?;
        ids.sort_unstable();
    }
    Ok(InboxReplayOutcome { ids: ids.into_iter().map(InboxId).collect(), more })
}

statements! {
    const LIST = "
        select id, source, message_id, hash, status, attempts, lease_until, first_seen, last_seen,
            finished_at, error
        from punctual.inbox
        where tenant_id = $1
            and id > $2
            and ($3::text is null or source = $3)
            and ($4::text is null or status = $4)
            and ($5 = 1 or id = any($6::bigint[]))
        order by id
        limit $7
    ";

    const REVIVE = "
        update punctual.inbox
        set status = 'failed', token = '', attempts = 0, finished_at = $2
        where id = any($1::bigint[]) and status = 'dead'
        returning id
    ";
}
