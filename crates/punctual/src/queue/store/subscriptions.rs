//! Subscriptions: the further consumers of a topic. Each has a lane of its own, and so its own retries, log
//! and dead letters: a failing subscription does not affect the others.
//!
//! Every change takes the topic first ([`super::routes`]). A disabled subscription gets nothing new; messages
//! that wait in its lane are still handed out. A deleted one leaves its lane behind: messages in flight end
//! there, dead letters stay until they are purged, and waiting messages are dropped, also those that come
//! back or were being written while it was deleted ([`Store::drop_orphaned`]).
//!
//! Not promised: that a message which was enqueued at the same moment as a subscription was put or
//! deleted goes to it, or does not.

use crate::base::clock::Timestamp;
use crate::base::error::{Error, Problems, Result};
use crate::base::id::{LaneId, MessageId};
use crate::base::outcome::PutOutcome;
use crate::base::tenant::Tenant;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::Tx;
use crate::database::tx::VerbFuture;
use crate::database::value::{Row, Value, params};
use crate::queue::rules::subscription::{NewSubscription, SubscriptionTarget, check_names};
use crate::queue::store::queues;
use crate::queue::store::queues::{QueueState, lane_columns, lane_counts};
use crate::queue::store::routes;
use crate::queue::store::sequences;

/// A subscription as it is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Subscription {
    /// Its lane.
    pub lane: LaneId,
    /// The tenant of the subscription.
    pub tenant: Tenant,
    /// The topic.
    pub topic: String,
    /// Its name.
    pub name: String,
    /// Which messages; all without one.
    pub filter: Option<serde_json::Value>,
    /// Where to.
    pub target: SubscriptionTarget,
    /// Whether messages come.
    pub enabled: bool,
}

/// A subscription with its retries and its waiting work.
#[derive(Clone, Debug)]
pub struct SubscriptionState {
    /// The subscription.
    pub subscription: Subscription,
    /// Its lane.
    pub queue: QueueState,
}

/// The rest of a deleted subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscriptionRemainder {
    /// Its lane, to be emptied with [`Store::drop_orphaned`].
    pub lane: LaneId,
    /// Items that are in flight and end by themselves.
    pub in_flight: i64,
}

struct Definition {
    tenant: Tenant,
    topic: String,
    name: String,
    new: NewSubscription,
}

impl Store {
    /// Makes a subscription, or changes it into this. The same again changes nothing.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the names cannot be.
    pub fn put_subscription<'a>(
        &'a self,
        tenant: Tenant,
        topic: &'a str,
        name: &'a str,
        new: NewSubscription,
    ) -> VerbFuture<'a, (PutOutcome, Subscription)> {
        VerbFuture::new(async move {
            let mut problems = Problems::default();
            check_names(topic, name, &mut problems);
            problems.into_result()?;
            let definition = Definition { tenant, topic: topic.to_owned(), name: name.to_owned(), new };
            self.of(tenant).write(definition, |tx, definition| Box::pin(put(tx, definition))).await
        })
    }

    /// Deletes a subscription. The caller then drops the messages that wait in its lane with
    /// [`Store::drop_orphaned`], a bounded number at a time.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is none.
    pub fn delete_subscription(
        &self,
        tenant: Tenant,
        topic: &str,
        name: &str,
    ) -> VerbFuture<'_, SubscriptionRemainder> {
        let request = (tenant, topic.to_owned(), name.to_owned());
        self.of(tenant).write(request, |tx, (tenant, topic, name)| Box::pin(delete(tx, *tenant, topic, name)))
    }

    /// One subscription.
    pub fn subscription(
        &self,
        tenant: Tenant,
        topic: &str,
        name: &str,
    ) -> VerbFuture<'_, Option<SubscriptionState>> {
        let request = (tenant, topic.to_owned(), name.to_owned());
        self.of(tenant).read(request, |tx, (tenant, topic, name)| {
            Box::pin(async move {
                let now = tx.now().await?;
                let values = params![tenant.id(), now, queues::COUNT_MAX, topic, name];
                let rows = tx.query(ONE, values).await?;
                Ok(read_states(tx, &rows).await?.pop())
            })
        })
    }

    /// Subscriptions of a tenant, of one topic or all, by topic and name, those behind `after`.
    pub fn subscriptions(
        &self,
        tenant: Tenant,
        topic: Option<String>,
        after: (String, String),
        limit: usize,
    ) -> VerbFuture<'_, Vec<SubscriptionState>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.of(tenant).read((tenant, topic, after, limit), |tx, (tenant, topic, after, limit)| {
            Box::pin(async move {
                let now = tx.now().await?;
                let topic = topic.as_deref();
                let place = params![tenant.id(), now, queues::COUNT_MAX, topic, &after.0, &after.1, *limit];
                let rows = tx.query(LIST, place).await?;
                read_states(tx, &rows).await
            })
        })
    }

    /// The subscriptions that have these lanes.
    pub fn subscriptions_of(&self, lanes: Vec<LaneId>) -> VerbFuture<'_, Vec<Subscription>> {
        self.read(lanes, |tx, lanes| {
            Box::pin(async move {
                let lanes: Vec<i64> = lanes.iter().map(|lane| lane.0).collect();
                let rows = tx.query(BY_LANE, &[Value::Ints(&lanes)]).await?;
                rows.iter().map(|row| read(row, 0)).collect()
            })
        })
    }

    /// Lanes of deleted subscriptions in which something waits.
    pub fn orphaned_lanes(&self) -> VerbFuture<'_, Vec<LaneId>> {
        self.read((), |tx, ()| {
            Box::pin(async move {
                let rows = tx.query(ORPHANED, &[]).await?;
                rows.iter().map(|row| row.int(0).map(LaneId)).collect()
            })
        })
    }

    /// Drops what waits in the lane of a deleted subscription, a bounded number at a time; answers how
    /// much. Of a lane that is not such it drops nothing.
    pub fn drop_orphaned(&self, lane: LaneId) -> VerbFuture<'_, usize> {
        self.write(lane, |tx, lane| Box::pin(drop_orphaned(tx, *lane)))
    }
}

/// The columns that [`read`] reads, from a table called `s`.
macro_rules! subscription_columns {
    () => {
        "s.lane_id, s.tenant_id, s.topic, s.name, s.filter, s.target, s.enabled"
    };
}
macro_rules! states {
    ($rest:literal) => {
        concat! {"
            select ", lane_columns!(), ", ", lane_counts!(), ", ", subscription_columns!(), "
            from punctual.subscription s
            join punctual.lane l on l.id = s.lane_id ", $rest}
    };
}
/// Columns of a lane and its counts.
const STATE_COLUMNS: usize = 15;

statements! {
    const ONE = states!("where s.tenant_id = $1 and s.topic = $4 and s.name = $5");

    const LIST = states!("
        where s.tenant_id = $1
            and ($4::text is null or s.topic = $4)
            and (s.topic, s.name) > ($5, $6)
        order by s.topic, s.name
        limit $7
    ");

    const BY_NAME = "
        select ", subscription_columns!(), "
        from punctual.subscription s
        where s.tenant_id = $1 and s.topic = $2 and s.name = $3
    ";

    const BY_LANE = "
        select ", subscription_columns!(), "
        from punctual.subscription s
        where s.lane_id = any($1::int[])
    ";
}

fn read(row: &Row, at: usize) -> Result<Subscription> {
    let json = |text: &str| serde_json::from_str(text).map_err(|e| Error::Database(e.into()));
    let target = json(&row.text(at + 5)?)?;
    let mut problems = Problems::default();
    let target = SubscriptionTarget::read(&target, "target", &mut problems);
    Ok(Subscription {
        lane: LaneId(row.int(at)?),
        tenant: Tenant::from_row(row.int(at + 1)?),
        topic: row.text(at + 2)?,
        name: row.text(at + 3)?,
        filter: row.maybe_text(at + 4)?.map(|text| json(&text)).transpose()?,
        target: target.ok_or_else(|| Error::Database(problems.to_string().into()))?,
        enabled: row.flag(at + 6)?,
    })
}

async fn read_states(tx: &mut Tx, rows: &[Row]) -> Result<Vec<SubscriptionState>> {
    let in_flight = queues::in_flight(tx).await?;
    let read_one = |row: &Row| {
        Ok(SubscriptionState {
            subscription: read(row, STATE_COLUMNS)?,
            queue: queues::read_state(row, &in_flight)?,
        })
    };
    rows.iter().map(read_one).collect()
}

async fn find(tx: &mut Tx, of: &Definition) -> Result<Option<Row>> {
    tx.first(BY_NAME, params![of.tenant.id(), &of.topic, &of.name]).await
}

async fn put(tx: &mut Tx, definition: &Definition) -> Result<(PutOutcome, Subscription)> {
    let Definition { tenant, topic, name, new } = definition;
    routes::take(tx, *tenant, topic).await?;
    let old = find(tx, definition).await?;
    let was = old.as_ref().map(|row| row.flag(6)).transpose()?;
    let enabled = new.enabled.or(was).unwrap_or(true);
    let now = tx.now().await?;
    let lane = lane(tx, definition, now).await?;
    let filter = new.filter.as_ref().map(|filter| filter.to_json().to_string());
    let target = new.target.to_json().to_string();
    let values = params![
        tenant.id(),
        topic,
        name,
        lane.0,
        &target,
        new.target.handler(),
        filter.as_deref(),
        enabled,
        now
    ];
    let written = tx.execute(UPSERT, values).await? > 0;
    let backoff = new.backoff.as_ref().map(|backoff| backoff.to_json().to_string());
    let retry = params![lane.0, new.max_attempts.map(i64::from), backoff.as_deref()];
    let retried = tx.execute(SET_RETRY, retry).await? > 0;
    if routes::recompute(tx, *tenant, topic).await? {
        routes::fetch_waiting(tx, *tenant, topic).await?;
    }
    let put = match old {
        None => PutOutcome::Created,
        Some(_) if written || retried => PutOutcome::Changed,
        Some(_) => PutOutcome::Same,
    };
    let row = find(tx, definition).await?;
    let gone = || Error::Database("a subscription that was just written is not there".into());
    Ok((put, read(&row.ok_or_else(gone)?, 0)?))
}

/// Its lane; one that was deleted before gets the same again.
async fn lane(tx: &mut Tx, of: &Definition, now: Timestamp) -> Result<LaneId> {
    tx.execute(ADD_LANE, params![of.tenant.id(), &of.topic, &of.name, now]).await?;
    let row = tx.first(LANE, params![of.tenant.id(), &of.topic, &of.name]).await?;
    let gone = || Error::Database("a lane that was just written is not there".into());
    row.ok_or_else(gone)?.int(0).map(LaneId)
}

statements! {
    const ADD_LANE = "
        insert into punctual.lane (tenant_id, topic, subscription, declared, created_at)
        values ($1, $2, $3, 1, $4)
        on conflict do nothing
    ";

    const LANE = "
        select id
        from punctual.lane
        where tenant_id = $1 and topic = $2 and subscription = $3 and purpose = 'dispatch'
    ";

    /// Changes no row that is the same already. So every column that can be set stands in `set` and in
    /// `where`.
    const UPSERT = "
        insert into punctual.subscription as s (
            tenant_id, topic, name, lane_id, target, handler, filter, enabled, created_at, updated_at
        )
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9)
        on conflict (tenant_id, topic, name)
        do update set target = excluded.target, handler = excluded.handler, filter = excluded.filter,
            enabled = excluded.enabled, updated_at = excluded.updated_at
        where (s.target, coalesce(s.filter, ''), s.enabled) <> (
            excluded.target, coalesce(excluded.filter, ''), excluded.enabled
        )
    ";

    const SET_RETRY = "
        update punctual.lane
        set max_attempts = $2::int, backoff = $3::text
        where id = $1
            and (
                coalesce(max_attempts, 0), coalesce(backoff, '')
            ) <> (coalesce($2::int, 0), coalesce($3::text, ''))
    ";
}

async fn delete(tx: &mut Tx, tenant: Tenant, topic: &str, name: &str) -> Result<SubscriptionRemainder> {
    let known = tx.first(BY_NAME, params![tenant.id(), topic, name]).await?;
    if known.is_none() {
        return Err(not_found(topic, name));
    }
    routes::take(tx, tenant, topic).await?;
    let gone = tx.first(DELETE, params![tenant.id(), topic, name]).await?;
    let lane = LaneId(gone.ok_or_else(|| not_found(topic, name))?.int(0)?);
    if routes::recompute(tx, tenant, topic).await? {
        routes::fetch_waiting(tx, tenant, topic).await?;
    }
    let in_flight = queues::in_flight(tx).await?.get(&lane).copied().unwrap_or(0);
    Ok(SubscriptionRemainder { lane, in_flight })
}

/// There is no such subscription.
fn not_found(topic: &str, name: &str) -> Error {
    Error::NotFound(format!("there is no subscription `{topic}/{name}`"))
}

statements! {
    const DELETE = "
        delete from punctual.subscription
        where tenant_id = $1 and topic = $2 and name = $3
        returning lane_id
    ";

    /// The lane of the flows is not a subscription, but the engine's own.
    const ORPHANED = "
        select l.id
        from punctual.lane l
        where l.purpose = 'dispatch'
            and l.subscription not in ('', '/flows')
            and not exists (select 1 from punctual.subscription s where s.lane_id = l.id)
            and exists (select 1 from punctual.work w where w.lane_id = l.id)
        order by l.id
    ";
}

async fn drop_orphaned(tx: &mut Tx, lane: LaneId) -> Result<usize> {
    let Some(row) = tx.first(TOPIC_OF, params![lane.0]).await? else { return Ok(0) };
    routes::take(tx, Tenant::from_row(row.int(0)?), &row.text(1)?).await?;
    if tx.first(IS_SERVED, params![lane.0]).await?.is_some() {
        return Ok(0);
    }
    let rows = tx.query(DROP, params![lane.0, DROP_MAX]).await?;
    let keys = rows.iter().map(|row| row.maybe_text(1)).collect::<Result<Vec<_>>>()?;
    let mut messages = Vec::with_capacity(rows.len());
    let mut heads = Vec::new();
    for (row, key) in rows.iter().zip(&keys) {
        let message = MessageId(row.int(0)?);
        messages.push(message);
        heads.extend(key.as_deref().map(|key| (lane, key, message)));
    }
    sequences::leave(tx, &heads).await?;
    tx.settlement_hooks().await?.after_drop(tx, lane, &messages).await?;
    Ok(rows.len())
}

/// Items that one transaction drops.
const DROP_MAX: i64 = 1_000;
statements! {
    const TOPIC_OF = "
        select tenant_id, topic
        from punctual.lane
        where id = $1 and purpose = 'dispatch' and subscription not in ('', '/flows')
    ";

    const IS_SERVED = "
        select 1
        from punctual.subscription
        where lane_id = $1
    ";

    const DROP = "
        delete from punctual.work
        where lane_id = $1
            and (due_at, message_id) in (
                select w.due_at, w.message_id
                from punctual.work w
                where w.lane_id = $1
                order by w.due_at, w.message_id
                limit $2
                for update skip locked
            )
        returning message_id, key
    ";
}
