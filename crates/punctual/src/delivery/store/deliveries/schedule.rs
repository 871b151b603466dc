//! The schedule: entries of every kind with their deliveries, for support; and the latest event about an
//! entity.

use crate::base::error::Result;
use crate::base::id::EntryId;
use crate::base::limits;
use crate::base::tenant::Tenant;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::{Tx, VerbFuture};
use crate::database::value::{Value, params};
use crate::delivery::store::deliveries::in_flight::deliveries_in_flight;
use crate::delivery::store::deliveries::key::key_holders;
use crate::delivery::store::deliveries::log::{LoggedDelivery, deliveries_of};
use crate::flow::store::entries::lists::{EntryFilter, list, named_entries};
use crate::flow::store::entries::{Entry, entries_by_id};
use crate::queue::rules::message::{Entity, Message};
use crate::queue::store::messages::{MESSAGE_BY_ID, read_message};

/// An entry with its deliveries.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduledEntry {
    /// The entry.
    pub entry: Entry,
    /// Its deliveries, in order.
    pub deliveries: Vec<LoggedDelivery>,
}

impl ScheduledEntry {
    /// Whether something of it is being sent now.
    #[must_use]
    pub fn is_in_flight(&self) -> bool {
        self.deliveries.iter().any(|delivery| delivery.in_flight)
    }
}

impl Store {
    /// Entries of a tenant with ids below `before`, the newest first, with their deliveries.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn schedule(
        &self,
        tenant: Tenant,
        filter: EntryFilter,
        before: EntryId,
        limit: usize,
    ) -> VerbFuture<'_, Vec<ScheduledEntry>> {
        self.of(tenant).read((tenant, filter, before, limit), |tx, (tenant, filter, before, limit)| {
            Box::pin(schedule(tx, *tenant, filter, (*before, *limit)))
        })
    }

    /// One entry of a tenant, by its number, with its deliveries.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn scheduled_entry(&self, tenant: Tenant, id: EntryId) -> VerbFuture<'_, Option<ScheduledEntry>> {
        self.of(tenant).read((tenant, id), |tx, (tenant, id)| {
            Box::pin(async move {
                let mut entries = entries_by_id(tx, &[id.0]).await?;
                entries.retain(|entry| entry.tenant == *tenant && !entry.deleted);
                Ok(with_deliveries(tx, entries).await?.pop())
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

async fn schedule(
    tx: &mut Tx,
    tenant: Tenant,
    filter: &EntryFilter,
    page: (EntryId, usize),
) -> Result<Vec<ScheduledEntry>> {
    let mut named = Vec::new();
    if let Some(key) = &filter.key {
        named = named_entries(tx, tenant, key).await?;
        named.extend(key_holders(tx, &[(tenant, key)], false).await?.values().filter_map(|one| one.entry));
    }
    let mut flying = Vec::new();
    if filter.in_flight.is_some() {
        let deliveries = deliveries_in_flight(tx).await?;
        let rows = tx.query(ENTRIES_OF, &[Value::Ints(&deliveries)]).await?;
        flying = rows.iter().map(|row| row.int(0)).collect::<Result<_>>()?;
    }
    let entries = list(tx, tenant, filter, (&named, &flying), page).await?;
    with_deliveries(tx, entries).await
}

statements! {
    const ENTRIES_OF = "
        select distinct entry_id
        from punctual.delivery
        where id = any($1::bigint[])
    ";
}

async fn with_deliveries(tx: &mut Tx, entries: Vec<Entry>) -> Result<Vec<ScheduledEntry>> {
    let ids: Vec<i64> = entries.iter().map(|entry| entry.id.0).collect();
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let flying = deliveries_in_flight(tx).await?;
    let mut deliveries = deliveries_of(tx, &ids, &flying).await?;
    let scheduled = entries.into_iter().map(|entry| {
        let deliveries = deliveries.remove(&entry.id).unwrap_or_default();
        ScheduledEntry { entry, deliveries }
    });
    Ok(scheduled.collect())
}

/// The latest event that led to notifications.
#[derive(Clone, Debug)]
pub enum LatestEvent {
    /// There was none.
    Never,
    /// There was one, and it was dropped by age.
    Dropped,
    /// This event, and the entity of its notification.
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
        concat! {"
            select n.message_id, n.entity_type
            from punctual.entry n
            where n.tenant_id = $1
                and n.kind = 'notification'
                and lower(n.entity_type) = lower($2)
                and n.entity_id = $3 ", $condition, "
            order by n.message_id desc
            limit 1
        "}
    };
}

statements! {
    const LATEST = latest!("");

    const LATEST_OF = latest!(" and n.event_kind = any($4::text[])");

    /// Messages have no index by entity, which would cost every one of them; so only the newest are looked
    /// at.
    const LATEST_UNTOLD = "
        select m.id, m.entity_type
        from punctual.message m
        where m.id > (select coalesce(max(id), 0) from punctual.message) - $5
            and m.tenant_id = $1
            and lower(m.entity_type) = lower($2)
            and m.entity_id = $3
            and m.kind = any($4::text[])
        order by m.id desc
        limit 1
    ";
}
