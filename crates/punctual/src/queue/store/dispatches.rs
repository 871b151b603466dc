//! Dispatches: the status of one message for each of its subscribers.
//!
//! Nothing is stored for them: they are read from waiting work, claims, failed attempts and dead letters. So
//! a message without a trace counts as dispatched: one that was handled, one that a filter did not admit, and
//! one that was dropped with a deleted subscription.

use crate::base::error::Result;
use crate::base::id::{LaneId, MessageId};
use crate::base::tenant::Tenant;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::Tx;
use crate::database::tx::VerbFuture;
use crate::database::value::{Row, Value, params};
use crate::queue::store::timers::own_due;
use std::collections::{BTreeSet, HashMap, HashSet};

/// The status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DispatchStatus {
    /// The message waits, or is in flight.
    Pending,
    /// The message was handled.
    Dispatched,
    /// The message ran out of attempts.
    Failed,
}

impl DispatchStatus {
    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Dispatched => "Dispatched",
            Self::Failed => "Failed",
        }
    }
}

/// One message for one subscriber.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dispatch {
    /// The subscription's name, empty for the topic's own queue.
    pub subscriber: String,
    /// The status.
    pub status: DispatchStatus,
    /// How often it was tried, over all its lives.
    pub attempts: u32,
    /// The last error, unless a later attempt succeeded.
    pub error: Option<String>,
}

impl Store {
    /// Reads the status of a message for these subscribers, in their order. A message that was dropped by age
    /// was handled; a name that its topic never had was never tried.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn dispatches(
        &self,
        tenant: Tenant,
        message: MessageId,
        names: &[String],
    ) -> VerbFuture<'_, Vec<Dispatch>> {
        let asked = vec![(message, names.to_vec())];
        VerbFuture::new(async move {
            let found = self.dispatches_of(tenant, asked).await?;
            Ok(found.into_iter().next().unwrap_or_default())
        })
    }

    /// Reads the same for many messages, each with its subscribers, in their order: the statements are as
    /// many as for one.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn dispatches_of(
        &self,
        tenant: Tenant,
        asked: Vec<(MessageId, Vec<String>)>,
    ) -> VerbFuture<'_, Vec<Vec<Dispatch>>> {
        self.of(tenant).read((tenant, asked), |tx, (tenant, asked)| Box::pin(read(tx, *tenant, asked)))
    }
}

async fn read(tx: &mut Tx, tenant: Tenant, asked: &[(MessageId, Vec<String>)]) -> Result<Vec<Vec<Dispatch>>> {
    let messages: Vec<i64> = asked.iter().map(|(message, _)| message.0).collect();
    let names: BTreeSet<&str> = asked.iter().flat_map(|(_, names)| names).map(String::as_str).collect();
    let names: Vec<Option<&str>> = names.into_iter().map(Some).collect();
    let row = [tenant.id().into(), Value::Ints(&messages), Value::Texts(&names)];
    let rows = tx.query(LANES, &row).await?;
    let held = if rows.is_empty() { HashSet::new() } else { in_flight(tx, &messages).await? };
    let mut known: HashMap<(MessageId, String), Dispatch> = HashMap::new();
    for row in &rows {
        let message = MessageId(row.int(6)?);
        let dispatch = stand(row, held.contains(&(message, LaneId(row.int(1)?))))?;
        known.insert((message, dispatch.subscriber.clone()), dispatch);
    }
    let of = |message: MessageId, name: &String| {
        known.get(&(message, name.clone())).cloned().unwrap_or_else(|| untold(name))
    };
    Ok(asked.iter().map(|(message, names)| names.iter().map(|name| of(*message, name)).collect()).collect())
}

fn untold(name: &str) -> Dispatch {
    Dispatch { subscriber: name.into(), status: DispatchStatus::Dispatched, attempts: 0, error: None }
}

fn stand(row: &Row, in_flight: bool) -> Result<Dispatch> {
    let (failures, died, last) = (row.count(2)?, row.maybe_text(3)?, row.maybe_text(4)?);
    let (status, attempts, error) = match died {
        Some(error) => (DispatchStatus::Failed, failures, Some(error)),
        None if in_flight => (DispatchStatus::Pending, failures + 1, last),
        None if row.flag(5)? => (DispatchStatus::Pending, failures, last),
        None => (DispatchStatus::Dispatched, failures + 1, None),
    };
    Ok(Dispatch { subscriber: row.text(0)?, status, attempts, error })
}

statements! {
    /// A work row stands at the time its last attempt named, or at the message's own.
    const LANES = "
        select l.subscription, l.id,
            (select count(*) from punctual.attempt a where a.message_id = m.id and a.lane_id = l.id),
            (select d.error from punctual.dead_letter d where d.lane_id = l.id and d.message_id = m.id),
            (
                select a.error
                from punctual.attempt a
                where a.message_id = m.id and a.lane_id = l.id
                order by a.id desc
                limit 1
            ),
            case
                when exists (
                    select 1
                    from punctual.work w
                    where w.lane_id = l.id
                        and w.message_id = m.id
                        and w.due_at = coalesce(
                            (
                                select a.next_due
                                from punctual.attempt a
                                where a.message_id = m.id and a.lane_id = l.id
                                order by a.id desc
                                limit 1
                            ),
                            ", own_due!(), "
                        )
                )
                    or exists (
                        select 1
                        from punctual.follower f
                        where f.lane_id = l.id and f.key = m.key and f.message_id = m.id
                    ) then 1
                else 0
            end,
            m.id
        from punctual.message m
        join punctual.lane l on l.tenant_id = m.tenant_id and l.topic = m.topic
        where m.tenant_id = $1
            and m.id = any($2::bigint[])
            and l.purpose = 'dispatch'
            and l.subscription = any($3::text[])
    ";
}

/// The lanes in which messages are in flight. The open claims of their range are read, and those are few.
async fn in_flight(tx: &mut Tx, messages: &[i64]) -> Result<HashSet<(MessageId, LaneId)>> {
    let (Some(first), Some(last)) = (messages.iter().min(), messages.iter().max()) else {
        return Ok(HashSet::new());
    };
    let mut lanes = HashSet::new();
    for row in tx.query(HOLDING, params![*first, *last]).await? {
        let items = super::settle::read_items(&row.text(0)?)?;
        lanes.extend(items.iter().map(|item| (item.message(), item.lane())));
    }
    Ok(lanes)
}

statements! {
    const HOLDING = "
        select coalesce(open, items)
        from punctual.claim
        where finished_at is null and purpose = 'dispatch' and first_id <= $2 and last_id >= $1
    ";
}
