//! Entities: the latest known state of what events are about, and that it is gone.
//!
//! A state with a version is fenced by it in the statement that writes it: an older one never replaces a
//! newer one, in whatever order they come, and a deleted entity comes back only with a newer version, or
//! with none. Deleting keeps the row without its state. States that come with events are written in
//! the transaction that writes the messages, and only those of messages that are new: an event that is
//! delivered again says nothing new.

use crate::base::clock::Timestamp;
use crate::base::error::{Error, Problems, Result};
use crate::base::tenant::Tenant;
use crate::database::columns::Column;
use crate::database::crash_points::{CrashPoint, reach};
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::Tx;
use crate::database::tx::VerbFuture;
use crate::database::value::{Row, params};
use crate::flow::rules::entity::{EntitySnapshot, NewEntityState, check_entity, settled};
use crate::queue::rules::message::{Entity, NewMessage};
use crate::queue::store::messages::{Batch, EnqueueOutcome, check, enqueue_new};
use serde_json::Value;
use std::collections::HashMap;

/// An entity as it is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredEntity {
    /// Which one.
    pub entity: Entity,
    /// The latest known state.
    pub snapshot: EntitySnapshot,
    /// The version of its latest state, if one was given.
    pub version: Option<i64>,
    /// When it was last reported.
    pub updated_at: Timestamp,
}

/// The outcome of writing a state or a deletion.
#[derive(Clone, Debug, PartialEq)]
pub enum EntityOutcome {
    /// The state or deletion was stored.
    Kept(StoredEntity),
    /// A newer state was reported before, and stays.
    Older(StoredEntity),
}

impl EntityOutcome {
    /// Returns the entity as it is stored now.
    #[must_use]
    pub fn into_entity(self) -> StoredEntity {
        match self {
            Self::Kept(standing) | Self::Older(standing) => standing,
        }
    }
}

impl Store {
    /// Stores the state of an entity.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every problem.
    pub fn put_entity(&self, tenant: Tenant, new: NewEntityState) -> VerbFuture<'_, EntityOutcome> {
        VerbFuture::new(async move {
            let mut problems = Problems::default();
            new.check("", &mut problems);
            problems.into_result()?;
            self.of(tenant)
                .write((tenant, [new]), |tx, (tenant, new)| {
                    Box::pin(async move {
                        let written = !write(tx, *tenant, new).await?.is_empty();
                        outcome(tx, *tenant, &new[0].entity, written).await
                    })
                })
                .await
        })
    }

    /// Marks an entity as deleted; with a version, unless a newer state is known.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the name is none.
    pub fn delete_entity(
        &self,
        tenant: Tenant,
        entity: Entity,
        version: Option<i64>,
    ) -> VerbFuture<'_, EntityOutcome> {
        VerbFuture::new(async move {
            let mut problems = Problems::default();
            check_entity(&entity, &mut problems);
            problems.into_result()?;
            self.of(tenant)
                .write((tenant, entity, version), |tx, (tenant, entity, version)| {
                    Box::pin(async move {
                        let now = tx.now().await?;
                        let row = params![tenant.id(), &entity.kind, &entity.id, *version, now];
                        let written = tx.execute(DELETE, row).await? == 1;
                        outcome(tx, *tenant, entity, written).await
                    })
                })
                .await
        })
    }

    /// Reads an entity; `None` if it was never reported.
    pub fn entity(&self, tenant: Tenant, entity: Entity) -> VerbFuture<'_, Option<StoredEntity>> {
        self.of(tenant).read((tenant, entity), |tx, (tenant, entity)| Box::pin(find(tx, *tenant, entity)))
    }

    /// Reads the snapshots of many entities. An entity that was never reported is absent.
    pub fn snapshots(
        &self,
        tenant: Tenant,
        entities: Vec<Entity>,
    ) -> VerbFuture<'_, HashMap<Entity, EntitySnapshot>> {
        self.of(tenant)
            .read((tenant, entities), |tx, (tenant, entities)| Box::pin(read_entities(tx, *tenant, entities)))
    }

    /// Writes messages and, in the same transaction, the states that come with those of them that are new:
    /// each with the number of its message.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every problem; nothing is written then.
    pub fn enqueue_with_states(
        &self,
        tenant: Tenant,
        messages: Vec<NewMessage>,
        states: Vec<(usize, NewEntityState)>,
    ) -> VerbFuture<'_, Vec<EnqueueOutcome>> {
        VerbFuture::new(async move {
            check(&messages)?;
            let mut problems = Problems::default();
            states.iter().for_each(|(_, state)| state.check("entity", &mut problems));
            problems.into_result()?;
            let batch = Batch { tenant, messages };
            let enqueued = self.of(tenant).write((batch, states), |tx, (batch, states)| {
                Box::pin(async move {
                    let enqueued = enqueue_new(tx, batch).await?;
                    let is_new = |n: usize| matches!(enqueued.get(n), Some(EnqueueOutcome::New(_)));
                    let new = states.iter().filter(|(n, _)| is_new(*n)).map(|(_, state)| state.clone());
                    write(tx, batch.tenant, &settled(new.collect())).await?;
                    Ok(enqueued)
                })
            });
            let enqueued = enqueued.await;
            reach(CrashPoint::EnqueuedBeforeAnswer);
            enqueued
        })
    }
}

/// Writes states, one for each entity, in the order of their names; a state older than the stored one is left
/// out. Returns those that were written.
async fn write(tx: &mut Tx, tenant: Tenant, states: &[NewEntityState]) -> Result<Vec<Row>> {
    let now = tx.now().await?;
    let texts = |pick: fn(&NewEntityState) -> &String| {
        Column::Texts(states.iter().map(|state| Some(pick(state).as_str())).collect())
    };
    let columns = [
        texts(|state| &state.entity.kind),
        texts(|state| &state.entity.id),
        texts(|state| &state.state),
        Column::MaybeInts(states.iter().map(|state| state.version).collect()),
    ];
    tx.in_columns(WRITE, params![tenant.id(), now], &columns).await
}

/// Reads the snapshots of many entities, within a transaction of the caller's. An entity that was never
/// reported is absent.
pub(crate) async fn read_entities(
    tx: &mut Tx,
    tenant: Tenant,
    entities: &[Entity],
) -> Result<HashMap<Entity, EntitySnapshot>> {
    let texts = |pick: fn(&Entity) -> &String| {
        Column::Texts(entities.iter().map(|entity| Some(pick(entity).as_str())).collect())
    };
    let columns = [texts(|entity| &entity.kind), texts(|entity| &entity.id)];
    let rows = tx.in_columns(READ, params![tenant.id()], &columns).await?;
    rows.iter().map(|row| read_entity(row).map(|kept| (kept.entity, kept.snapshot))).collect()
}

/// A state is written unless a newer one is known; one of the same version is the same state again, but
/// does not bring back what was deleted.
macro_rules! unless_newer {
    () => {
        "
        on conflict (tenant_id, type, id)
        do update set state = excluded.state, version = coalesce(excluded.version, e.version),
            updated_at = excluded.updated_at, deleted_at = excluded.deleted_at
        where excluded.version is null
            or e.version is null
            or excluded.version > e.version
            or (
                excluded.version = e.version
                    and (e.deleted_at is null or excluded.deleted_at is not null)
            )
        "
    };
}

/// On PostgreSQL, and on SQLite.
const WRITE: (&str, &str) = (WRITE_AT_ONCE, WRITE_ONE);

statements! {
    const WRITE_AT_ONCE for Postgres = "
        insert into punctual.entity as e (tenant_id, updated_at, type, id, state, version)
        select $1::int, $2::bigint, n.*
        from unnest($3::text[], $4::text[], $5::text[], $6::bigint[]) n
        ", unless_newer!(), "
        returning e.type
    ";

    const WRITE_ONE = "
        insert into punctual.entity as e (tenant_id, updated_at, type, id, state, version)
        values ($1, $2, $3, $4, $5, $6)
        ", unless_newer!(), "
        returning type
    ";

    const DELETE = "
        insert into punctual.entity as e (tenant_id, type, id, version, updated_at, deleted_at)
        values ($1, $2, $3, $4, $5, $5)
        ", unless_newer!();
}
macro_rules! columns {
    () => {
        "
        select e.type, e.id, e.version, e.state, e.updated_at
        from punctual.entity e
        "
    };
}

statements! {
    const FIND_AT_ONCE for Postgres = columns!(), "
        join (
            select distinct *
            from unnest($2::text[], $3::text[]) w (type, id)
        ) w on e.type = w.type and e.id = w.id
        where e.tenant_id = $1
    ";

    const FIND = columns!(), "
        where e.tenant_id = $1 and e.type = $2 and e.id = $3
    ";
}
/// On PostgreSQL, and on SQLite.
const READ: (&str, &str) = (FIND_AT_ONCE, FIND);

fn read_entity(row: &Row) -> Result<StoredEntity> {
    let state = row.maybe_text(3)?;
    let read = |text: String| serde_json::from_str::<Value>(&text).map_err(|e| Error::Database(e.into()));
    Ok(StoredEntity {
        entity: Entity { kind: row.text(0)?, id: row.text(1)? },
        version: row.maybe_int(2)?,
        snapshot: state.map(read).transpose()?.map_or(EntitySnapshot::Deleted, EntitySnapshot::State),
        updated_at: row.time(4)?,
    })
}

async fn find(tx: &mut Tx, tenant: Tenant, entity: &Entity) -> Result<Option<StoredEntity>> {
    let row = tx.first(FIND, params![tenant.id(), &entity.kind, &entity.id]).await?;
    row.as_ref().map(read_entity).transpose()
}

async fn outcome(tx: &mut Tx, tenant: Tenant, entity: &Entity, written: bool) -> Result<EntityOutcome> {
    let standing = find(tx, tenant, entity).await?;
    let standing =
        standing.ok_or_else(|| Error::Database("an entity that was written is not there".into()))?;
    Ok(if written { EntityOutcome::Kept(standing) } else { EntityOutcome::Older(standing) })
}
