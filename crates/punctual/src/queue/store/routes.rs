//! Routes: which lanes a topic's messages go to.
//!
//! Routes are read by every enqueue and written rarely: a lane for each enabled subscription, and the topic's
//! own lane if that queue is declared (by a setting, a claim, or a handler in a process) or no other consumer
//! takes the messages: no subscription, and no event kind that names the topic and recipients. In a tenant
//! with notifications or surveys of events, each topic also has a lane for the flows: the event planner knows
//! which kinds are meant, the routes do not. The topic that surveys publish to has no such lane while only
//! surveys listen and none is begun by another, since every send publishes a message.
//!
//! A transaction that changes one of these takes the topic first, which is the row of its own lane, and then
//! has the routes made anew: two changes never see half of each other. A transaction that changes the
//! messages for the flows, of all topics, takes the tenant: a topic that is just being made waits for it, or
//! it for the topic. Enqueuers never wait; one that read the routes before a change and commits after it
//! counts as before it.
//!
//! A message whose topic has no route yet waits in lane 0; [`Store::route_waiting`] gives each such topic its
//! routes and moves the waiting messages, so a host's transaction never creates anything. A transaction that
//! makes a topic's route moves all messages that wait for it, however many, before anybody sees the route:
//! else messages that find the route would overtake earlier ones of their key. Only a transaction that has
//! taken a topic moves its messages, so none of them is in another router's hands when a route is made. All
//! topics are taken before the first message is locked, and in one order.
//!
//! Not promised: the order of a key where the earlier message was written in a transaction of the host's own
//! that was open while the topic got its first route. Its message waits in lane 0 until the next look, and a
//! later one, which finds the route, may be claimed before that.

mod handled;

use crate::base::error::{Error, Result};
use crate::base::id::LaneId;
use crate::base::limits;
use crate::base::tenant::Tenant;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::Tx;
use crate::database::tx::VerbFuture;
use crate::database::value::{Value, params};
use crate::queue::store::routes::handled::{declare_handled, note_handled};
use std::collections::{BTreeMap, BTreeSet};

/// The lanes of a topic; the unrouted lane when there is none.
pub(crate) async fn lanes_of(tx: &mut Tx, tenant: Tenant, topic: &str) -> Result<Vec<i64>> {
    let rows = tx.query(LANES_OF, params![tenant.id(), topic]).await?;
    let lanes = rows.iter().map(|row| row.int(0)).collect::<Result<Vec<_>>>()?;
    Ok(if lanes.is_empty() { vec![LaneId::UNROUTED.0] } else { lanes })
}

statements! {
    const DECLARE = "
        update punctual.lane
        set declared = 1
        where id = $1 and declared = 0
    ";

    const LANES_OF = "
        select lane_id
        from punctual.route
        where tenant_id = $1 and topic = $2
    ";
}

/// Gives a topic its routes if it has none, with what waited for that.
pub(crate) async fn ensure(tx: &mut Tx, tenant: Tenant, topic: &str) -> Result<()> {
    if lanes_of(tx, tenant, topic).await? == [LaneId::UNROUTED.0] {
        take(tx, tenant, topic).await?;
        recompute(tx, tenant, topic).await?;
        fetch_waiting(tx, tenant, topic).await?;
    }
    Ok(())
}

/// The topic's own lane, made if need be, declared and routed.
pub(crate) async fn declare(tx: &mut Tx, tenant: Tenant, topic: &str) -> Result<LaneId> {
    if let Some(row) = tx.first(DECLARED, params![tenant.id(), topic]).await? {
        return row.int(0).map(LaneId);
    }
    let own = take(tx, tenant, topic).await?;
    tx.execute(DECLARE, params![own.0]).await?;
    if recompute(tx, tenant, topic).await? {
        fetch_waiting(tx, tenant, topic).await?;
    }
    Ok(own)
}

statements! {
    const DECLARED = "
        select l.id
        from punctual.lane l
        where l.tenant_id = $1
            and l.topic = $2
            and l.subscription = ''
            and l.purpose = 'dispatch'
            and l.declared = 1
            and exists (
                select 1
                from punctual.route r
                where r.tenant_id = l.tenant_id and r.topic = l.topic and r.lane_id = l.id
            )
    ";
}

/// Takes a topic: no other transaction changes its routes until the commit. Returns its own lane, which is
/// made if need be. The lock does not block statements that only refer to that lane.
pub(crate) async fn take(tx: &mut Tx, tenant: Tenant, topic: &str) -> Result<LaneId> {
    if let Some(row) = tx.first(TAKE, params![tenant.id(), topic]).await? {
        return row.int(0).map(LaneId);
    }
    let now = tx.now().await?;
    tx.execute(ADD_LANE, params![tenant.id(), topic, now]).await?;
    let row = tx.first(TAKE, params![tenant.id(), topic]).await?;
    row.map_or_else(|| Err(no_lane()), |row| row.int(0)).map(LaneId)
}

fn no_lane() -> Error {
    Error::Database("a lane that was just written is not there".into())
}

statements! {
    const TAKE = "
        select id
        from punctual.lane
        where tenant_id = $1 and topic = $2 and subscription = '' and purpose = 'dispatch'
        for no key update
    ";

    const TRY_TAKE = "
        select id
        from punctual.lane
        where tenant_id = $1 and topic = $2 and subscription = '' and purpose = 'dispatch'
        for no key update skip locked
    ";

    const ADD_LANE = "
        insert into punctual.lane (tenant_id, topic, created_at)
        values ($1, $2, $3)
        on conflict do nothing
    ";
}

/// Recomputes the routes of a topic whose row the caller has locked; returns whether one is new. The caller
/// then fetches the messages that wait in lane 0.
pub(crate) async fn recompute(tx: &mut Tx, tenant: Tenant, topic: &str) -> Result<bool> {
    let now = tx.now().await?;
    tx.execute(ADD_FLOWS, params![tenant.id(), topic, now]).await?;
    tx.execute(REMOVE_ROUTES, params![tenant.id(), topic]).await?;
    Ok(tx.execute(ADD_ROUTES, params![tenant.id(), topic]).await? > 0)
}

/// The level of events that a tenant's definitions want, 0 if none does.
macro_rules! events_wanted {
    ($tenant:literal) => {
        concat! {"
            coalesce(
                (
                    select max(i.level)
                    from punctual.topic_interest i
                    where i.tenant_id = ", $tenant, " and i.topic = ''
                ),
                0
            )
        "}
    };
}

/// Whether messages of a topic come to the flows of a tenant. Those that were handed in have been planned
/// already.
macro_rules! is_event_topic {
    ($tenant:literal, $topic:literal) => {
        concat! {$topic, " <> 'punctual.ingest' and ", events_wanted!($tenant), " >= case
                when ", $topic, " = 'survey.responses' then 2
                else 1
            end
        "}
    };
}

/// Whether messages of its topic go to a lane `l`.
macro_rules! wanted {
    () => {
        concat! {"
            l.purpose = 'dispatch'
                and (
                    (l.subscription = '/flows' and ", is_event_topic!("l.tenant_id", "l.topic"), ")
                        or exists (
                            select 1
                            from punctual.subscription s
                            where s.lane_id = l.id and s.enabled = 1
                        )
                        or (
                            l.subscription = ''
                                and l.topic <> 'punctual.ingest'
                                and (
                                    l.declared = 1
                                        or exists (
                                            select 1
                                            from punctual.handled_topic h
                                            where h.topic = l.topic
                                        )
                                        or not (
                                            exists (
                                                select 1
                                                from punctual.subscription s
                                                where s.tenant_id = l.tenant_id
                                                    and s.topic = l.topic
                                                    and s.enabled = 1
                                            )
                                                or (
                                                    ", is_event_topic!("l.tenant_id", "l.topic"), "
                                                        and exists (
                                                            select 1
                                                            from punctual.topic_interest i
                                                            where i.tenant_id = l.tenant_id
                                                                and i.topic = l.topic
                                                        )
                                                )
                                        )
                                )
                        )
                )
        "}
    };
}

statements! {
    const ADD_FLOWS = "
        insert into punctual.lane (tenant_id, topic, subscription, created_at)
        select $1, $2, '/flows', $3
        where ", is_event_topic!("$1", "$2"), "
        on conflict do nothing
    ";

    const EVENTS_WANTED = "
        select ", events_wanted!("$1");

    const TAKE_TENANT = "
        select id
        from punctual.tenant
        where id = $1
        for no key update
    ";

    const REMOVE_ROUTES = "
        delete from punctual.route
        where tenant_id = $1
            and topic = $2
            and lane_id not in (
                select l.id
                from punctual.lane l
                where l.tenant_id = $1 and l.topic = $2 and ", wanted!(), "
            )
    ";

    const ADD_ROUTES = "
        insert into punctual.route (tenant_id, topic, lane_id)
        select l.tenant_id, l.topic, l.id
        from punctual.lane l
        where l.tenant_id = $1 and l.topic = $2 and ", wanted!(), "
        on conflict do nothing
    ";
}

/// Returns which messages of a tenant come to the flows. Until the commit no other transaction changes that,
/// so that no two changes miss each other.
pub(crate) async fn events_wanted(tx: &mut Tx, tenant: Tenant) -> Result<i64> {
    tx.query(TAKE_TENANT, params![tenant.id()]).await?;
    tx.first(EVENTS_WANTED, params![tenant.id()]).await?.map_or(Ok(0), |row| row.int(0))
}

/// Makes the routes of all topics of a tenant anew.
pub(crate) async fn reroute_all(tx: &mut Tx, tenant: Tenant) -> Result<()> {
    for row in tx.query(TOPICS, params![tenant.id()]).await? {
        route_anew(tx, tenant, &row.text(0)?).await?;
    }
    Ok(())
}

/// Makes the routes of a topic anew.
pub(crate) async fn route_anew(tx: &mut Tx, tenant: Tenant, topic: &str) -> Result<()> {
    take(tx, tenant, topic).await?;
    if recompute(tx, tenant, topic).await? {
        fetch_waiting(tx, tenant, topic).await?;
    }
    Ok(())
}

statements! {
    const TOPICS = "
        select topic
        from punctual.lane
        where tenant_id = $1 and subscription = '' and purpose = 'dispatch'
        order by topic
    ";
}

/// Moves all messages that wait in lane 0 for this topic, which the caller has taken.
pub(crate) async fn fetch_waiting(tx: &mut Tx, tenant: Tenant, topic: &str) -> Result<()> {
    let lanes = lanes_of(tx, tenant, topic).await?;
    let place = (tenant.id(), topic.to_owned());
    move_waiting(tx, &BTreeMap::from([(place, lanes)]), i64::MAX).await?;
    Ok(())
}

/// The lanes of a topic, by its tenant and name.
type LanesByTopic = BTreeMap<(i64, String), Vec<i64>>;

/// Moves messages that wait in lane 0 to the lanes of their topics, which the caller has taken; answers how
/// many. Rows that are locked are left alone: a timer that is being cancelled goes anyway.
async fn move_waiting(tx: &mut Tx, topics: &LanesByTopic, limit: i64) -> Result<usize> {
    if topics.is_empty() {
        return Ok(0);
    }
    let names: Vec<String> = topics.keys().map(|(tenant, topic)| format!("{tenant}/{topic}")).collect();
    let names: Vec<Option<&str>> = names.iter().map(|name| Some(name.as_str())).collect();
    let waiting = tx.query(UNROUTED_OF, &[Value::Texts(&names), limit.into()]).await?;
    let keys = waiting.iter().map(|row| row.maybe_text(2)).collect::<Result<Vec<_>>>()?;
    let (mut gone, mut moved) = (Vec::with_capacity(waiting.len()), Vec::with_capacity(waiting.len()));
    for (row, key) in waiting.iter().zip(&keys) {
        let (message, due) = (row.int(0)?, row.int(1)?);
        gone.push(vec![Value::Int(due), Value::Int(message)]);
        for lane in topics.get(&(row.int(3)?, row.text(4)?)).into_iter().flatten() {
            moved.push(vec![message.into(), (*lane).into(), due.into(), key.as_deref().into()]);
        }
    }
    tx.each(DELETE_UNROUTED, &gone).await?;
    tx.each(super::messages::INSERT_WORK, &moved).await?;
    Ok(gone.len())
}

statements! {
    /// The name of no topic contains a slash.
    const UNROUTED_OF = "
        select w.message_id, w.due_at, w.key,
            (select m.tenant_id from punctual.message m where m.id = w.message_id),
            (select m.topic from punctual.message m where m.id = w.message_id)
        from punctual.work w
        where w.lane_id = 0
            and exists (
                select 1
                from punctual.message m
                where m.id = w.message_id and m.tenant_id || '/' || m.topic = any($1::text[])
            )
        order by w.due_at, w.message_id
        limit $2
        for update skip locked
    ";

    const DELETE_UNROUTED = "
        delete from punctual.work
        where lane_id = 0 and due_at = $1 and message_id = $2
    ";
}

impl Store {
    /// Gives topics their routes before anything is written to them.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn ensure_routes(&self, tenant: Tenant, topics: Vec<String>) -> VerbFuture<'_, ()> {
        self.of(tenant).write((tenant, topics), |tx, (tenant, topics)| {
            Box::pin(async move {
                for topic in topics {
                    ensure(tx, *tenant, topic).await?;
                }
                Ok(())
            })
        })
    }

    /// Remembers that a process has handlers for these topics: no subscription that is put from now on
    /// takes their own queues away. Those of before are for [`Store::declare_handled`], afterwards.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn note_handled(&self, topics: Vec<String>) -> VerbFuture<'_, ()> {
        self.write(topics, |tx, topics| Box::pin(note_handled(tx, topics)))
    }

    /// Declares the own queues of these topics wherever subscriptions have taken their place.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn declare_handled(&self, topics: Vec<String>) -> VerbFuture<'_, ()> {
        self.write(topics, |tx, topics| Box::pin(declare_handled(tx, topics)))
    }

    /// Moves what waits in lane 0 to the lanes of its topics; answers how much was moved. What waits for a
    /// new route is moved whole, other messages a bounded number at a time.
    pub fn route_waiting(&self) -> VerbFuture<'_, usize> {
        self.write((), |tx, ()| Box::pin(route_waiting(tx)))
    }
}

async fn route_waiting(tx: &mut Tx) -> Result<usize> {
    let limit = i64::try_from(limits::BATCH_ITEMS_MAX).unwrap_or(i64::MAX);
    let (mut new, mut known) = (LanesByTopic::new(), LanesByTopic::new());
    let mut moved = 0;
    let rows = tx.query(WAITING_TOPICS, params![limit]).await?;
    let places = rows.iter().map(|row| Ok(row.maybe_int(0)?.zip(row.maybe_text(1)?)));
    // In one order, so that two routers never wait for each other in a circle.
    for place in places.collect::<Result<BTreeSet<_>>>()? {
        let Some((tenant, topic)) = place else {
            // The message itself was dropped; then so is its work.
            moved += tx.execute(DROP_ORPHANS, params![limit]).await?;
            continue;
        };
        let of = Tenant::from_row(tenant);
        let is_known = lanes_of(tx, of, &topic).await? != [LaneId::UNROUTED.0];
        if !is_known {
            take(tx, of, &topic).await?;
            recompute(tx, of, &topic).await?;
        } else if tx.first(TRY_TAKE, params![tenant, &topic]).await?.is_none() {
            // Another router moves them, or the routes change at this moment: the next look finds the rest.
            continue;
        }
        let lanes = lanes_of(tx, of, &topic).await?;
        // Messages that have no route even now must not be counted as moved: the caller goes on until nothing
        // moves.
        if lanes != [LaneId::UNROUTED.0] {
            let topics = if is_known { &mut known } else { &mut new };
            topics.insert((tenant, topic), lanes);
        }
    }
    let moved = usize::try_from(moved).unwrap_or(usize::MAX);
    Ok(moved + move_waiting(tx, &new, i64::MAX).await? + move_waiting(tx, &known, limit).await?)
}

statements! {
    const WAITING_TOPICS = "
        select distinct m.tenant_id, m.topic
        from (
            select w.message_id
            from punctual.work w
            where w.lane_id = 0
            order by w.due_at, w.message_id
            limit $1
        ) x
        left join punctual.message m on m.id = x.message_id
    ";

    const DROP_ORPHANS = "
        delete from punctual.work
        where lane_id = 0
            and message_id in (
                select w.message_id
                from punctual.work w
                where w.lane_id = 0
                    and not exists (select 1 from punctual.message m where m.id = w.message_id)
                order by w.due_at, w.message_id
                limit $1
                for update skip locked
            )
    ";
}
