//! Notifications with their deliveries, and the event that people were last told of.

use super::super::super::Store;
use super::super::super::messages::{MESSAGE_BY_ID, read_message};
use super::super::super::tx::Tx;
use super::super::super::value::{Row, Value, params};
use super::super::entity;
use super::{Logged, in_flight, logged, status, wanted, with_tries};
use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::{EntryId, MessageId};
use crate::base::limits;
use crate::base::tenant::Tenant;
use crate::rules::message::{Entity, Message};
use crate::rules::notification::{NotificationStatus, own_key};
use crate::store::tx::VerbFuture;
use std::collections::HashMap;

/// Which notifications; what is `None` does not count.
#[derive(Clone, Debug, Default)]
pub struct NotificationFilter {
    /// About an entity of this type, in any case of its letters.
    pub entity_type: Option<String>,
    /// About the entity of this id.
    pub entity_id: Option<String>,
    /// Of this key: the notification's own, its number, or the key of one of its deliveries.
    pub key: Option<String>,
    /// Only those that are on hold, or only those that are not.
    pub held: Option<bool>,
    /// That stand so; with whether something of them is in flight, if that matters.
    pub status: Option<(NotificationStatus, Option<bool>)>,
}

/// A notification with its deliveries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// Its number.
    pub id: EntryId,
    /// The event.
    pub message: MessageId,
    /// The event's kind.
    pub kind: String,
    /// What the event is about.
    pub entity: Option<Entity>,
    /// The story of the event.
    pub correlation_id: Option<String>,
    /// The name of the request it was made for, and who asked.
    pub request: Option<(String, String)>,
    /// How it stands.
    pub status: NotificationStatus,
    /// The word for why.
    pub reason: Option<String>,
    /// The sentence for why, or what went wrong last.
    pub error: Option<String>,
    /// Deliveries that wait, that were sent, and that were given up.
    pub counts: Counts,
    /// Why it is on hold, if it is.
    pub hold: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When nothing was left to do.
    pub ended_at: Option<Timestamp>,
    /// Its deliveries, in order.
    pub deliveries: Vec<Logged>,
}

/// How the deliveries of a notification stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// These wait.
    pub open: u32,
    /// These were sent.
    pub sent: u32,
    /// These were given up.
    pub failed: u32,
}

impl Notification {
    /// Its own key.
    #[must_use]
    pub fn key(&self) -> String {
        let entity = self.entity.as_ref().map(|entity| entity.id.as_str());
        own_key(self.message, entity, &self.kind, self.request.as_ref().map(|request| request.0.as_str()))
    }

    /// Whether something of it is being sent now.
    #[must_use]
    pub fn in_flight(&self) -> bool {
        self.deliveries.iter().any(|delivery| delivery.in_flight)
    }
}

impl Store {
    /// Notifications of a tenant with ids below `before`, the newest first, with their deliveries.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn notifications(
        &self,
        tenant: Tenant,
        filter: NotificationFilter,
        before: EntryId,
        limit: usize,
    ) -> VerbFuture<'_, Vec<Notification>> {
        self.of(tenant).read((tenant, filter, before, limit), |tx, (tenant, filter, before, limit)| {
            Box::pin(notifications(tx, *tenant, filter, *before, *limit))
        })
    }

    /// One notification of a tenant, with its deliveries.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn notification(&self, tenant: Tenant, id: EntryId) -> VerbFuture<'_, Option<Notification>> {
        self.of(tenant).read((tenant, id), |tx, (tenant, id)| {
            Box::pin(async move {
                let rows = tx.query(ONE_NOTIFICATION, params![tenant.id(), id.0]).await?;
                Ok(whole(tx, rows).await?.pop())
            })
        })
    }

    /// The latest event that a notification about this entity was made of; of these kinds, if some are
    /// given. Where none was made of such an event, the latest of these kinds that says itself it is
    /// about the entity, if it is among the newest [`limits::UNTOLD_MESSAGES_MAX`] messages.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn latest_event(
        &self,
        tenant: Tenant,
        entity: Entity,
        kinds: Option<Vec<String>>,
    ) -> VerbFuture<'_, LatestEvent> {
        self.of(tenant).read((tenant, entity, kinds), |tx, (tenant, entity, kinds)| {
            Box::pin(latest(tx, *tenant, entity, kinds.as_deref()))
        })
    }
}

/// The latest event that people were told of.
#[derive(Clone, Debug)]
pub enum LatestEvent {
    /// There was none.
    Never,
    /// There was one, and it was dropped by age.
    Dropped,
    /// This one, and what its notification says it is about.
    Event(Box<Message>, Entity),
}

async fn latest(
    tx: &mut Tx,
    tenant: Tenant,
    entity: &Entity,
    kinds: Option<&[String]>,
) -> Result<LatestEvent> {
    let named: Vec<Option<&str>> = kinds.into_iter().flatten().map(|kind| Some(kind.as_str())).collect();
    let of =
        [tenant.id().into(), entity.kind.as_str().into(), entity.id.as_str().into(), Value::Texts(&named)];
    let told = match kinds {
        Some(_) => tx.first(LATEST_OF, &of).await?,
        None => tx.first(LATEST, &of[..3]).await?,
    };
    let found = match told {
        None if !named.is_empty() => {
            let [tenant, kind, id, kinds] = of;
            let newest = i64::try_from(limits::UNTOLD_MESSAGES_MAX).unwrap_or(i64::MAX);
            tx.first(LATEST_UNTOLD, &[tenant, kind, id, kinds, newest.into()]).await?
        }
        told => told,
    };
    let Some(found) = found else { return Ok(LatestEvent::Never) };
    let about = Entity { kind: found.text(1)?, id: entity.id.clone() };
    let event = tx.first(MESSAGE_BY_ID, params![tenant.id(), found.int(0)?]).await?;
    Ok(match event {
        Some(mut row) => LatestEvent::Event(Box::new(read_message(&mut row, 0)?), about),
        None => LatestEvent::Dropped,
    })
}

macro_rules! latest {
    ($condition:literal) => {
        concat!(
            "select n.message_id, n.entity_type from punctual.entry n \
             where n.tenant_id = $1 and n.kind = 'notification' and lower(n.entity_type) = lower($2) \
                and n.entity_id = $3",
            $condition,
            " order by n.message_id desc limit 1"
        )
    };
}
const LATEST: &str = latest!("");
const LATEST_OF: &str = latest!(" and n.event_kind = any($4::text[])");
/// Messages have no index by entity, which would cost every one of them; so only the newest are looked at.
const LATEST_UNTOLD: &str = "select m.id, m.entity_type from punctual.message m \
    where m.id > (select coalesce(max(id), 0) from punctual.message) - $5 \
        and m.tenant_id = $1 and lower(m.entity_type) = lower($2) and m.entity_id = $3 \
        and m.kind = any($4::text[]) order by m.id desc limit 1";

async fn notifications(
    tx: &mut Tx,
    tenant: Tenant,
    filter: &NotificationFilter,
    before: EntryId,
    limit: usize,
) -> Result<Vec<Notification>> {
    let of_key = match &filter.key {
        Some(key) => of_key(tx, tenant, key).await?,
        None => Vec::new(),
    };
    let sql = match filter {
        NotificationFilter { key: Some(_), .. } => NOTIFICATIONS_BY_KEY,
        NotificationFilter { entity_id: Some(_), .. } => NOTIFICATIONS_BY_ENTITY,
        _ => NOTIFICATIONS,
    };
    let (status, must_fly) = wanted(filter.status.map(|(status, flying)| (status.code(), flying)));
    let flying = if must_fly.is_some() { in_flight(tx).await? } else { Vec::new() };
    let row = [
        tenant.id().into(),
        before.0.into(),
        i64::try_from(limit).unwrap_or(i64::MAX).into(),
        filter.entity_type.as_deref().into(),
        filter.entity_id.as_deref().into(),
        status.into(),
        must_fly.into(),
        Value::Ints(&flying),
        Value::Ints(&of_key),
        filter.key.is_none().into(),
        filter.held.map(i64::from).into(),
    ];
    let rows = tx.query(sql, &row).await?;
    whole(tx, rows).await
}

macro_rules! notified {
    ($condition:literal) => {
        concat!(
            "select n.id, n.message_id, n.event_kind, n.entity_type, n.entity_id, n.correlation_id, \
                    n.request_id, \
                n.triggered_by, n.status, n.reason, n.error, n.open, n.sent, n.failed, n.created_at, \
                n.ended_at, n.hold_reason \
            from punctual.entry n where n.kind = 'notification' and ",
            $condition
        )
    };
}
macro_rules! notification_page {
    ($condition:literal) => {
        concat!(
            notified!("n.tenant_id = $1 and n.id < $2 and "),
            $condition,
            " and ($4::text is null or lower(n.entity_type) = lower($4)) \
              and ($5::text is null or n.entity_id = $5) and ($6::bigint is null or n.status = $6) \
              and ($7::bigint is null or ($7 = 1) = (n.id in (select d.entry_id \
                from punctual.delivery d where d.id = any($8::bigint[])))) \
              and ($10 = 1 or n.id = any($9::bigint[])) \
              and ($11::bigint is null or ($11 = 1) = (n.held_at is not null)) \
              order by n.id desc limit $3"
        )
    };
}

const NOTIFICATIONS: &str = notification_page!("1 = 1");
const NOTIFICATIONS_BY_ENTITY: &str = notification_page!("n.entity_id = $5");
const NOTIFICATIONS_BY_KEY: &str = notification_page!("n.id = any($9::bigint[])");
const ONE_NOTIFICATION: &str = notified!("n.tenant_id = $1 and n.id = $2");

/// Colons of a key that are tried as the end of an entity's id.
const COLONS_TRIED: usize = 32;

/// The notifications that a key names. Where an entity's id ends in a notification's own key is not
/// known, since ids may have colons, so each place is tried, up to a number that no id of anybody has.
async fn of_key(tx: &mut Tx, tenant: Tenant, key: &str) -> Result<Vec<i64>> {
    let rest = key.strip_prefix("manual:").unwrap_or(key);
    let ends = |text: &str| text.match_indices(':').map(|(at, _)| at).take(COLONS_TRIED).collect::<Vec<_>>();
    let mut entities: Vec<Option<&str>> = ends(key).into_iter().map(|at| Some(&key[..at])).collect();
    entities.extend(ends(rest).into_iter().map(|at| Some(&rest[..at])));
    let row = [
        tenant.id().into(),
        key.into(),
        key.parse::<i64>().unwrap_or_default().into(),
        Value::Texts(&entities),
    ];
    tx.query(OF_KEY, &row).await?.iter().map(|row| row.int(0)).collect()
}

const OF_KEY: &str = "select n.id from punctual.entry n \
        where n.tenant_id = $1 and n.id = $3 and n.kind = 'notification' \
    union select d.entry_id from punctual.delivery d \
        where d.tenant_id = $1 and d.idempotency_key = $2 \
    union select n.id from punctual.entry n \
        where n.tenant_id = $1 and n.kind = 'notification' and n.entity_id = any($4::text[]) \
        and $2 = case when n.request_id is null then n.entity_id || ':' || n.event_kind \
            else 'manual:' || n.entity_id || ':' || n.request_id end";

async fn whole(tx: &mut Tx, rows: Vec<Row>) -> Result<Vec<Notification>> {
    let mut all: Vec<Notification> = rows.iter().map(read_notification).collect::<Result<_>>()?;
    let ids: Vec<i64> = all.iter().map(|notification| notification.id.0).collect();
    if ids.is_empty() {
        return Ok(all);
    }
    let flying = in_flight(tx).await?;
    let rows = tx.query(OF_NOTIFICATIONS, &[Value::Ints(&ids)]).await?;
    let mut deliveries: HashMap<EntryId, Vec<Logged>> = HashMap::new();
    for one in with_tries(tx, &rows, &flying, false).await? {
        deliveries.entry(one.entry).or_default().push(one);
    }
    for notification in &mut all {
        notification.deliveries = deliveries.remove(&notification.id).unwrap_or_default();
    }
    Ok(all)
}

const OF_NOTIFICATIONS: &str = logged!("d.entry_id = any($1::bigint[]) order by d.id");

fn read_notification(row: &Row) -> Result<Notification> {
    Ok(Notification {
        id: EntryId(row.int(0)?),
        message: MessageId(row.int(1)?),
        kind: row.text(2)?,
        entity: entity(row, 3)?,
        correlation_id: row.maybe_text(5)?,
        request: row.maybe_text(6)?.zip(Some(row.maybe_text(7)?.unwrap_or_default())),
        status: status(NotificationStatus::from_code, row.int(8)?)?,
        reason: row.maybe_text(9)?,
        error: row.maybe_text(10)?,
        counts: Counts { open: row.count(11)?, sent: row.count(12)?, failed: row.count(13)? },
        created_at: row.time(14)?,
        ended_at: row.maybe_time(15)?,
        hold: row.maybe_text(16)?,
        deliveries: Vec::new(),
    })
}
