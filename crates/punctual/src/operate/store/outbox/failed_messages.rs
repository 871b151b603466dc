//! The failed messages of the outbox, consumer by consumer, which a replay would send again.
//!
//! Read only: [`Store::replay`] requeues them, tenant by tenant.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::{DeadLetterId, MessageId};
use crate::base::tenant::Tenant;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::Tx;
use crate::database::tx::VerbFuture;
use crate::database::value::{Row, Value};
use crate::delivery::store::deliveries::FLOWS_LANE;
use crate::operate::store::outbox::OutboxFilter;

/// A message that failed for one consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedMessage {
    /// Its dead letter.
    pub letter: DeadLetterId,
    /// The message.
    pub message: MessageId,
    /// The tenant of the message.
    pub tenant: Tenant,
    /// Its topic.
    pub topic: String,
    /// The subscription, empty for the topic's own queue.
    pub subscription: String,
    /// Its kind.
    pub kind: String,
    /// Its key.
    pub key: Option<String>,
    /// The last error.
    pub error: String,
    /// Whether a consumer exists: messages of a deleted subscription are not replayed.
    pub served: bool,
}

impl FailedMessage {
    /// Whether the message failed in a lane of the flows.
    #[must_use]
    pub fn is_for_people(&self) -> bool {
        self.subscription == FLOWS_LANE
    }
}

impl Store {
    /// Reads the failures of these messages, or of all, behind `after`, in the order in which they died. A
    /// status in the filter is ignored.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn outbox_failed(
        &self,
        filter: OutboxFilter,
        ids: Option<Vec<MessageId>>,
        after: DeadLetterId,
        limit: usize,
    ) -> VerbFuture<'_, Vec<FailedMessage>> {
        self.read((filter, ids, after, limit), |tx, (filter, ids, after, limit)| {
            Box::pin(list(tx, filter, ids.as_deref(), *after, *limit))
        })
    }
}

async fn list(
    tx: &mut Tx,
    filter: &OutboxFilter,
    ids: Option<&[MessageId]>,
    after: DeadLetterId,
    limit: usize,
) -> Result<Vec<FailedMessage>> {
    let only: Vec<i64> = ids.iter().copied().flatten().map(|id| id.0).collect();
    let values = [
        after.0.into(),
        ids.is_none().into(),
        Value::Ints(&only),
        filter.tenant.map(Tenant::id).into(),
        filter.topic.as_deref().into(),
        filter.kind.as_deref().into(),
        filter.from.unwrap_or(Timestamp::MIN).into(),
        filter.to.unwrap_or(Timestamp::from_micros(i64::MAX)).into(),
        i64::try_from(limit).unwrap_or(i64::MAX).into(),
    ];
    tx.query(LIST, &values).await?.iter().map(read).collect()
}

statements! {
    const LIST = "
        select d.id, d.message_id, d.tenant_id, m.topic, l.subscription, m.kind, m.key, d.error,
            case
                when l.subscription in ('', '/flows')
                    or exists (select 1 from punctual.subscription s where s.lane_id = l.id) then 1
                else 0
            end
        from punctual.dead_letter d
        join punctual.lane l on l.id = d.lane_id
        join punctual.message m on m.id = d.message_id
        where d.id > $1
            and ($2 = 1 or d.message_id = any($3::bigint[]))
            and ($4::bigint is null or d.tenant_id = $4)
            and ($5::text is null or m.topic = $5)
            and ($6::text is null or m.kind = $6)
            and m.created_at >= $7
            and m.created_at < $8
        order by d.id
        limit $9
    ";
}

fn read(row: &Row) -> Result<FailedMessage> {
    Ok(FailedMessage {
        letter: DeadLetterId(row.int(0)?),
        message: MessageId(row.int(1)?),
        tenant: Tenant::from_row(row.int(2)?),
        topic: row.text(3)?,
        subscription: row.text(4)?,
        kind: row.text(5)?,
        key: row.maybe_text(6)?,
        error: row.text(7)?,
        served: row.flag(8)?,
    })
}
