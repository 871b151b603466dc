//! Attempts that did not end well: their rows, their snoozes, and one log line for each.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::{LaneId, MessageId};
use crate::base::reason_class::reason_class;
use crate::database::statement::statements;
use crate::database::tx::Tx;
use crate::database::value::Value;
use crate::queue::rules::claim::ClaimItem;
use crate::queue::store::queues::Lane;
use std::collections::BTreeMap;

/// One attempt that did not end well.
pub(crate) struct FailedAttempt {
    item: ClaimItem,
    tenant: i64,
    topic: String,
    subscription: String,
    /// The kind of the message, once it was looked up.
    kind: String,
    outcome: &'static str,
    error: String,
    reason_class: String,
    /// When the item comes back; `None` if it is dead.
    next_due: Option<Timestamp>,
}

impl FailedAttempt {
    pub(crate) fn new(
        item: &ClaimItem,
        lane: Option<&Lane>,
        outcome: &'static str,
        error: String,
        next_due: Option<Timestamp>,
    ) -> Self {
        Self {
            item: item.clone(),
            tenant: lane.map_or(1, |lane| lane.tenant.id()),
            topic: lane.map(|lane| lane.topic.clone()).unwrap_or_default(),
            subscription: lane.map(|lane| lane.subscription.clone()).unwrap_or_default(),
            kind: String::new(),
            outcome,
            reason_class: reason_class(&error),
            error,
            next_due,
        }
    }

    pub(crate) fn row<'a>(&'a self, owner: &'a str, now: Timestamp) -> Vec<Value<'a>> {
        vec![
            self.item.message().0.into(),
            self.item.lane().0.into(),
            i64::from(self.item.attempt()).into(),
            now.into(),
            owner.into(),
            self.outcome.into(),
            self.error.as_str().into(),
            self.next_due.map(Timestamp::as_micros).into(),
            self.reason_class.as_str().into(),
        ]
    }

    /// The row of its dead letter; `None` if the item comes back.
    pub(crate) fn dead_row(&self, now: Timestamp) -> Option<Vec<Value<'_>>> {
        self.next_due.is_none().then(|| {
            vec![
                self.tenant.into(),
                self.item.lane().0.into(),
                self.item.message().0.into(),
                self.item.key().into(),
                i64::from(self.item.attempt()).into(),
                now.into(),
                self.error.as_str().into(),
                self.reason_class.as_str().into(),
            ]
        })
    }

    /// Logs the attempt, and the dead letter if it was the last one. To be called once it is committed.
    pub(crate) fn log(&self) {
        let (id, attempt) = (self.item.message().0, self.item.attempt());
        let Self { tenant, topic, subscription, kind, outcome, error, .. } = self;
        let next_due = self.next_due.map(tracing::field::display);
        if *outcome == "snoozed" {
            tracing::info!(
                target: "punctual", tenant, topic, subscription, kind, id, attempt, error, next_due,
                "handler asked for a wait"
            );
            return;
        }
        tracing::warn!(
            target: "punctual", tenant, topic, subscription, kind, id, attempt, outcome, error, next_due,
            "attempt failed"
        );
        if self.next_due.is_none() {
            tracing::error!(
                target: "punctual", tenant, topic, subscription, kind, id, attempt, error,
                "message is dead: replay it once the cause is mended"
            );
        }
    }
}

/// Looks up the kinds of the messages.
pub(crate) async fn fetch_kinds(tx: &mut Tx, attempts: &mut [FailedAttempt]) -> Result<()> {
    if attempts.is_empty() {
        return Ok(());
    }
    let ids: Vec<i64> = attempts.iter().map(|attempt| attempt.item.message().0).collect();
    let rows = tx.query(KINDS, &[Value::Ints(&ids)]).await?;
    let kinds: BTreeMap<i64, String> =
        rows.iter().map(|row| Ok((row.int(0)?, row.text(1)?))).collect::<Result<_>>()?;
    for attempt in attempts {
        attempt.kind = kinds.get(&attempt.item.message().0).cloned().unwrap_or_default();
    }
    Ok(())
}

statements! {
    const KINDS = "
        select id, kind
        from punctual.message
        where id = any($1::bigint[])
    ";
}

/// Counts the snoozes of each of these items since it was enqueued or replayed.
pub(crate) async fn fetch_snoozes(
    tx: &mut Tx,
    items: impl Iterator<Item = &ClaimItem>,
) -> Result<BTreeMap<(MessageId, LaneId), u32>> {
    // The first attempt has none before it.
    let mut last: BTreeMap<(MessageId, LaneId), u32> = items
        .filter(|item| item.attempt() > 1)
        .map(|item| ((item.message(), item.lane()), item.attempt()))
        .collect();
    let mut snoozes = BTreeMap::new();
    if last.is_empty() {
        return Ok(snoozes);
    }
    let ids: Vec<i64> = last.keys().map(|(message, _)| message.0).collect();
    let lanes: Vec<i64> = last.keys().map(|(_, lane)| lane.0).collect();
    for row in tx.query(ATTEMPTS_BACKWARDS, &[Value::Ints(&ids), Value::Ints(&lanes)]).await? {
        let place = (MessageId(row.int(0)?), LaneId(row.int(1)?));
        let (number, snoozed) = (row.count(2)?, row.flag(3)?);
        // Numbers grow until a replay begins again with 1: attempts beyond that are from before the replay.
        match last.get_mut(&place) {
            Some(least) if number < *least => *least = number,
            Some(least) => {
                *least = 0;
                continue;
            }
            None => continue,
        }
        if snoozed {
            *snoozes.entry(place).or_default() += 1;
        }
    }
    Ok(snoozes)
}

statements! {
    const ATTEMPTS_BACKWARDS = "
        select message_id, lane_id, number, case when outcome = 'snoozed' then 1 else 0 end
        from punctual.attempt
        where message_id = any($1::bigint[]) and lane_id = any($2::bigint[])
        order by id desc
    ";
}
