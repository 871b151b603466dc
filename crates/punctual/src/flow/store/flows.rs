//! Flows: definitions with their versions. A survey is one.
//!
//! A draft may be edited any number of times; publishing it writes a version, which is never changed
//! afterwards, and makes it the one that events are matched against. Every change of the triggers raises the
//! tenant's stamp in the same transaction: a process that has read the published versions before
//! ([`Store::published`]) only compares the stamp.
//!
//! Publishing also makes the lanes that entries need, so that no ingest has to, and lets
//! the tenant's events come to the flows ([`crate::queue::store::interest`]).

use crate::access::store::tenants;
use crate::base::clock::Timestamp;
use crate::base::error::{Error, Result};
use crate::base::id::{FlowId, LaneId};
use crate::base::tenant::Tenant;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::Tx;
use crate::database::tx::VerbFuture;
use crate::database::value::{Row, Value as Cell, params};
use crate::flow::rules::entry::EntryKind;
use crate::queue::rules::purpose::Purpose;
use crate::queue::store::interest::{InterestLevel, set_interest};
use crate::queue::store::queues::own_lane;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// A definition, as it is edited.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// Its id.
    pub id: FlowId,
    /// Its name, for people.
    pub name: String,
    /// The name it has in another system.
    pub integration_id: Option<String>,
    /// The draft.
    pub draft: Value,
    /// The version that events meet.
    pub published: Option<u32>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When its draft was last changed.
    pub updated_at: Timestamp,
}

/// The input that creates or changes a flow.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowDraft {
    /// Its name, for people.
    pub name: String,
    /// The name it has in another system.
    pub integration_id: Option<String>,
    /// The draft.
    pub definition: Value,
}

/// One version, as it was published.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowVersion {
    /// The flow.
    pub flow: FlowId,
    /// The tenant of the flow.
    pub tenant: Tenant,
    /// Its number, from 1.
    pub number: u32,
    /// The published definition.
    pub definition: Value,
    /// The name the flow has in another system.
    pub integration_id: Option<String>,
    /// When.
    pub published_at: Timestamp,
}

/// The published flows of a tenant, and the stamp that they are valid for.
#[derive(Clone, Debug)]
pub struct PublishedFlows {
    /// While the tenant's stamp is this, nothing has changed.
    pub stamp: i64,
    /// The published versions.
    pub versions: Vec<FlowVersion>,
    /// Where entries wait for their next send, once something was published.
    pub lane: Option<LaneId>,
    /// The tenant's zone.
    pub time_zone: String,
}

impl Store {
    /// Unpublishes a flow: events begin no entries of it any more. Its existing entries go on.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub fn unpublish_flow(&self, tenant: Tenant, id: FlowId) -> VerbFuture<'_, ()> {
        self.of(tenant).write((tenant, id), |tx, (tenant, id)| {
            Box::pin(async move {
                if tx.execute(UNPUBLISH, params![id.0, tenant.id()]).await? == 0 {
                    return Err(no_flow(*id));
                }
                raise_stamp(tx, *tenant).await?;
                set_interest(tx, *tenant, &source_of(*id), InterestLevel::Nothing, None).await
            })
        })
    }

    /// One flow of a tenant.
    pub fn flow(&self, tenant: Tenant, id: FlowId) -> VerbFuture<'_, Option<Flow>> {
        self.of(tenant).read((tenant, id), |tx, (tenant, id)| Box::pin(find(tx, *tenant, *id, BY_ID)))
    }

    /// Flows of a tenant with ids above `after`, by id.
    pub fn flows(&self, tenant: Tenant, after: FlowId, limit: usize) -> VerbFuture<'_, Vec<Flow>> {
        self.of(tenant).read((tenant, after, limit), |tx, (tenant, after, limit)| {
            Box::pin(async move {
                let most = i64::try_from(*limit).unwrap_or(i64::MAX);
                let rows = tx.query(LIST, params![tenant.id(), after.0, most]).await?;
                rows.iter().map(read_flow).collect()
            })
        })
    }

    /// One version of a flow, of whichever tenant: an entry names it.
    pub fn flow_version(&self, id: FlowId, number: u32) -> VerbFuture<'_, Option<FlowVersion>> {
        self.read((id, number), |tx, (id, number)| {
            Box::pin(async move {
                let row = tx.first(VERSION, params![id.0, i64::from(*number)]).await?;
                row.as_ref().map(read_version).transpose()
            })
        })
    }

    /// Reads the published flows of a tenant, `None` if `known` is their stamp; and the time at which this is
    /// so.
    pub fn published(
        &self,
        tenant: Tenant,
        known: Option<i64>,
    ) -> VerbFuture<'_, (Timestamp, Option<PublishedFlows>)> {
        self.of(tenant).read((tenant, known), |tx, (tenant, known)| Box::pin(published(tx, *tenant, *known)))
    }
}

/// There is no such flow.
pub(crate) fn no_flow(id: FlowId) -> Error {
    Error::NotFound(format!("there is no survey {id}"))
}

/// Makes a flow from a draft that was checked.
pub(crate) async fn create(tx: &mut Tx, tenant: Tenant, draft: &FlowDraft) -> Result<Flow> {
    let now = tx.now().await?;
    let text = draft.definition.to_string();
    let row = params![tenant.id(), &draft.name, draft.integration_id.as_deref(), &text, now];
    let made = tx.first(INSERT, row).await?;
    made.as_ref().map_or_else(|| Err(Error::Database("a flow was not written".into())), read_flow)
}

/// Replaces the draft of a flow by one that was checked. The published version does not change.
pub(crate) async fn change(tx: &mut Tx, tenant: Tenant, id: FlowId, draft: &FlowDraft) -> Result<Flow> {
    let now = tx.now().await?;
    let text = draft.definition.to_string();
    let row = params![id.0, tenant.id(), &draft.name, draft.integration_id.as_deref(), &text, now];
    let changed = tx.first(CHANGE, row).await?;
    let flow = changed.as_ref().map_or_else(|| Err(no_flow(id)), read_flow)?;
    // Messages about an answer contain the integration id.
    raise_stamp(tx, tenant).await?;
    Ok(flow)
}

/// The name under which a flow wants events.
fn source_of(id: FlowId) -> String {
    format!("flow:{id}")
}

/// Publishes the draft of a flow as its next version, for entries of a kind; answers its number, or `None` if
/// the draft is another one by now than was read.
pub(crate) async fn publish(
    tx: &mut Tx,
    tenant: Tenant,
    read: &Flow,
    kind: EntryKind,
    level: InterestLevel,
) -> Result<Option<u32>> {
    let (id, now) = (read.id, tx.now().await?);
    let flow = find(tx, tenant, id, BY_ID_LOCKED).await?.ok_or_else(|| no_flow(id))?;
    if flow.draft != read.draft {
        return Ok(None);
    }
    let last = tx.first(LAST_NUMBER, params![id.0]).await?.map_or(Ok(0), |row| row.int(0))?;
    let number = last + 1;
    let text = flow.draft.to_string();
    tx.execute(ADD_VERSION, params![id.0, number, &text, now]).await?;
    tx.execute(SET_PUBLISHED, params![id.0, number]).await?;
    own_lane(tx, tenant, Purpose::Advance, (kind.word(), "")).await?;
    own_lane(tx, tenant, Purpose::Expire, ("", "")).await?;
    raise_stamp(tx, tenant).await?;
    set_interest(tx, tenant, &source_of(id), level, None).await?;
    Ok(Some(u32::try_from(number).unwrap_or(u32::MAX)))
}

async fn raise_stamp(tx: &mut Tx, tenant: Tenant) -> Result<()> {
    tx.execute(RAISE_STAMP, params![tenant.id()]).await?;
    Ok(())
}

/// The tenant's stamp.
pub(crate) async fn stamp(tx: &mut Tx, tenant: Tenant) -> Result<i64> {
    tx.first(STAMP, params![tenant.id()]).await?.map_or(Ok(0), |row| row.int(0))
}

async fn published(
    tx: &mut Tx,
    tenant: Tenant,
    known: Option<i64>,
) -> Result<(Timestamp, Option<PublishedFlows>)> {
    // The time and the stamp are read first: the versions read after them may be newer, never older.
    let now = tx.now().await?;
    let stamp = stamp(tx, tenant).await?;
    if known == Some(stamp) {
        return Ok((now, None));
    }
    let rows = tx.query(PUBLISHED, params![tenant.id()]).await?;
    let versions = rows.iter().map(read_version).collect::<Result<_>>()?;
    let row = tx.first(ADVANCE_LANE, params![tenant.id(), EntryKind::Survey.word()]).await?;
    let lane = row.map(|row| row.int(0)).transpose()?.map(LaneId);
    let (_, time_zone) = tenants::locale_and_zone(tx, tenant).await?;
    Ok((now, Some(PublishedFlows { stamp, versions, lane, time_zone })))
}

/// The names that flows have in another system.
pub(crate) async fn integration_ids(
    tx: &mut Tx,
    flows: &[FlowId],
) -> Result<HashMap<FlowId, Option<Arc<str>>>> {
    let mut ids: Vec<i64> = flows.iter().map(|flow| flow.0).collect();
    ids.sort_unstable();
    ids.dedup();
    let rows = tx.query(INTEGRATION_IDS, &[Cell::Ints(&ids)]).await?;
    rows.iter().map(|row| Ok((FlowId(row.int(0)?), row.maybe_text(1)?.map(Into::into)))).collect()
}

statements! {
    const INTEGRATION_IDS = "
        select id, integration_id
        from punctual.flow
        where id = any($1::bigint[])
    ";
}

async fn find(tx: &mut Tx, tenant: Tenant, id: FlowId, sql: &'static str) -> Result<Option<Flow>> {
    tx.first(sql, params![id.0, tenant.id()]).await?.as_ref().map(read_flow).transpose()
}

fn read_flow(row: &Row) -> Result<Flow> {
    Ok(Flow {
        id: FlowId(row.int(0)?),
        name: row.text(1)?,
        integration_id: row.maybe_text(2)?,
        draft: read_document(&row.text(3)?)?,
        published: row.maybe_int(4)?.and_then(|n| u32::try_from(n).ok()),
        created_at: row.time(5)?,
        updated_at: row.time(6)?,
    })
}

fn read_version(row: &Row) -> Result<FlowVersion> {
    Ok(FlowVersion {
        flow: FlowId(row.int(0)?),
        tenant: Tenant::from_row(row.int(1)?),
        number: row.count(2)?,
        definition: read_document(&row.text(3)?)?,
        integration_id: row.maybe_text(4)?,
        published_at: row.time(5)?,
    })
}

fn read_document(text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|e| Error::Database(e.into()))
}

macro_rules! flow_columns {
    () => {
        "id, name, integration_id, draft, published, created_at, updated_at"
    };
}

statements! {
    const INSERT = "
        insert into punctual.flow (tenant_id, name, integration_id, draft, created_at, updated_at)
        values ($1, $2, $3, $4, $5, $5)
        returning ", flow_columns!();

    const CHANGE = "
        update punctual.flow
        set name = $3, integration_id = $4, draft = $5, updated_at = $6
        where id = $1 and tenant_id = $2 and deleted_at is null
        returning ", flow_columns!();
}
macro_rules! by_id {
    () => {
        concat! {"
            select ", flow_columns!(), "
            from punctual.flow
            where id = $1 and tenant_id = $2 and deleted_at is null
        "}
    };
}

statements! {
    const BY_ID = by_id!();

    const BY_ID_LOCKED = by_id!(), "
        for update
    ";

    const LIST = "
        select ", flow_columns!(), "
        from punctual.flow
        where tenant_id = $1 and id > $2 and deleted_at is null
        order by id
        limit $3
    ";

    const SET_PUBLISHED = "
        update punctual.flow
        set published = $2
        where id = $1
    ";

    const UNPUBLISH = "
        update punctual.flow
        set published = null
        where id = $1 and tenant_id = $2 and deleted_at is null
    ";

    const LAST_NUMBER = "
        select coalesce(max(number), 0)
        from punctual.flow_version
        where flow_id = $1
    ";

    const ADD_VERSION = "
        insert into punctual.flow_version (flow_id, number, definition, published_at)
        values ($1, $2, $3, $4)
    ";

    const RAISE_STAMP = "
        insert into punctual.flow_stamp as s (tenant_id, stamp)
        values ($1, 1)
        on conflict (tenant_id)
        do update set stamp = s.stamp + 1
    ";

    const STAMP = "
        select stamp
        from punctual.flow_stamp
        where tenant_id = $1
    ";
}
macro_rules! version_columns {
    () => {
        "
        select v.flow_id, f.tenant_id, v.number, v.definition, f.integration_id, v.published_at
        from punctual.flow_version v
        join punctual.flow f on f.id = v.flow_id
        "
    };
}

statements! {
    const VERSION = version_columns!(), "
        where v.flow_id = $1 and v.number = $2
    ";

    const PUBLISHED = version_columns!(), "
        where f.tenant_id = $1 and f.deleted_at is null and v.number = f.published
        order by f.id
    ";

    const ADVANCE_LANE = "
        select id
        from punctual.lane
        where tenant_id = $1 and purpose = 'advance' and topic = $2
    ";
}
