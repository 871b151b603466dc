//! Flows: definitions with their versions. A survey is one.
//!
//! A draft is edited as often as one likes; publishing it writes a version, which is never changed
//! afterwards, and makes it the one that events meet. Whatever changes what an event may trigger
//! raises the tenant's stamp in the same transaction: who has read the published versions
//! before ([`Store::published`]) asks whether the stamp is the same, and nothing else.
//!
//! Publishing also makes the lanes that entries need, so that no ingest has to, and lets
//! the tenant's events come to the flows (`hears`, see [`super::routes`]).

use super::Store;
use super::entries::tell;
use super::routes::{self, EVENTS, MOMENTS};
use super::tx::Tx;
use super::value::{Row, params};
use crate::base::clock::Timestamp;
use crate::base::error::{Error, Problems, Result};
use crate::base::id::{FlowId, LaneId};
use crate::base::limits;
use crate::base::tenant::Tenant;
use crate::rules::entry::EntryKind;
use crate::rules::message::check_name;
use crate::rules::purpose::Purpose;
use crate::rules::survey::Survey;
use crate::store::tx::VerbFuture;
use serde_json::Value;

/// How often a draft is read again because somebody changed it meanwhile.
const DRAFTS_READ_MAX: usize = 10;

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

/// What is said of a flow when it is made or changed.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowDraft {
    /// Its name, for people.
    pub name: String,
    /// The name it has in another system.
    pub integration_id: Option<String>,
    /// The draft.
    pub definition: Value,
}

impl FlowDraft {
    /// Everything that is wrong with it, and what is doubtful.
    #[must_use]
    pub fn check(&self) -> (Problems, Problems) {
        let (mut problems, mut warnings) = (Problems::default(), Problems::default());
        check_name(&self.name, "name", &mut problems);
        if let Some(id) = &self.integration_id {
            check_name(id, "integrationId", &mut problems);
        }
        let (mut inside, mut doubts) = (Problems::default(), Problems::default());
        Survey::read(&self.definition, &mut inside, &mut doubts);
        for (from, to) in [(inside, &mut problems), (doubts, &mut warnings)] {
            for problem in from.0 {
                to.push(crate::rules::document::join("definition", &problem.path), problem.message);
            }
        }
        if self.definition.to_string().len() > limits::PAYLOAD_BYTES_MAX {
            problems.push("definition", "is larger than 1 MiB");
        }
        (problems, warnings)
    }
}

/// One version, as it was published.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowVersion {
    /// The flow.
    pub flow: FlowId,
    /// Whose it is.
    pub tenant: Tenant,
    /// Its number, from 1.
    pub number: u32,
    /// What was published.
    pub definition: Value,
    /// The name the flow has in another system.
    pub integration_id: Option<String>,
    /// When.
    pub published_at: Timestamp,
}

/// What events meet in a tenant, and the stamp it is valid for.
#[derive(Clone, Debug)]
pub struct Published {
    /// While the tenant's stamp is this, nothing has changed.
    pub stamp: i64,
    /// The published versions.
    pub versions: Vec<FlowVersion>,
    /// Where entries wait for their next send, once something was published.
    pub lane: Option<LaneId>,
}

impl Store {
    /// Makes a flow from its draft.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every problem of the draft.
    pub fn create_flow(&self, tenant: Tenant, draft: FlowDraft) -> VerbFuture<'_, Flow> {
        VerbFuture::new(async move {
            draft.check().0.into_result()?;
            self.of(tenant)
                .write((tenant, draft), |tx, (tenant, draft)| Box::pin(create(tx, *tenant, draft)))
                .await
        })
    }

    /// Replaces the draft of a flow. What is published stays as it is.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every problem of the draft, [`Error::NotFound`].
    pub fn change_flow(&self, tenant: Tenant, id: FlowId, draft: FlowDraft) -> VerbFuture<'_, Flow> {
        VerbFuture::new(async move {
            draft.check().0.into_result()?;
            self.of(tenant)
                .write((tenant, id, draft), |tx, (tenant, id, draft)| {
                    Box::pin(change(tx, *tenant, *id, draft))
                })
                .await
        })
    }

    /// Publishes the draft of a flow as its next version; answers its number.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the draft is not ready, [`Error::NotFound`], and [`Error::Conflict`] when the
    /// draft changes over and over meanwhile.
    pub fn publish_flow(&self, tenant: Tenant, id: FlowId) -> VerbFuture<'_, u32> {
        VerbFuture::new(async move {
            for _ in 0..DRAFTS_READ_MAX {
                // The draft is read here, outside of the transaction that publishes it.
                let flow = self.flow(tenant, id).await?.ok_or_else(|| no_flow(id))?;
                let hears = hears(&ready(&flow.draft)?);
                let request = (tenant, flow, hears);
                let published = self
                    .of(tenant)
                    .write(request, |tx, (tenant, flow, hears)| Box::pin(publish(tx, *tenant, flow, *hears)));
                if let Some(number) = published.await? {
                    return Ok(number);
                }
            }
            Err(Error::Conflict(format!("the draft of survey {id} was changed meanwhile; publish it again")))
        })
    }

    /// Lets no event meet a flow any more. Its entries go on.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub fn unpublish_flow(&self, tenant: Tenant, id: FlowId) -> VerbFuture<'_, ()> {
        self.of(tenant).write((tenant, id), |tx, (tenant, id)| {
            Box::pin(async move {
                let before = routes::tells(tx, *tenant).await?;
                if tx.execute(UNPUBLISH, params![id.0, tenant.id()]).await? == 0 {
                    return Err(no_flow(*id));
                }
                raise_stamp(tx, *tenant).await?;
                routes::told_changed(tx, *tenant, before).await
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

    /// What events meet in a tenant, `None` if that is what `known` stands for; and the time at which it is
    /// so.
    pub fn published(
        &self,
        tenant: Tenant,
        known: Option<i64>,
    ) -> VerbFuture<'_, (Timestamp, Option<Published>)> {
        self.of(tenant).read((tenant, known), |tx, (tenant, known)| Box::pin(published(tx, *tenant, *known)))
    }
}

fn no_flow(id: FlowId) -> Error {
    Error::NotFound(format!("there is no survey {id}"))
}

async fn create(tx: &mut Tx, tenant: Tenant, draft: &FlowDraft) -> Result<Flow> {
    let now = tx.now().await?;
    let text = draft.definition.to_string();
    let row = params![tenant.id(), &draft.name, draft.integration_id.as_deref(), &text, now];
    let made = tx.first(INSERT, row).await?;
    made.as_ref().map_or_else(|| Err(Error::Database("a flow was not written".into())), read_flow)
}

async fn change(tx: &mut Tx, tenant: Tenant, id: FlowId, draft: &FlowDraft) -> Result<Flow> {
    let now = tx.now().await?;
    let text = draft.definition.to_string();
    let row = params![id.0, tenant.id(), &draft.name, draft.integration_id.as_deref(), &text, now];
    let changed = tx.first(CHANGE, row).await?;
    let flow = changed.as_ref().map_or_else(|| Err(no_flow(id)), read_flow)?;
    // What is told of an answer names the integration id.
    raise_stamp(tx, tenant).await?;
    Ok(flow)
}

/// Publishes a draft that was read before; `None` if it is another one by now.
async fn publish(tx: &mut Tx, tenant: Tenant, read: &Flow, hears: i64) -> Result<Option<u32>> {
    let (id, now) = (read.id, tx.now().await?);
    let before = routes::tells(tx, tenant).await?;
    let flow = find(tx, tenant, id, BY_ID_LOCKED).await?.ok_or_else(|| no_flow(id))?;
    if flow.draft != read.draft {
        return Ok(None);
    }
    let last = tx.first(LAST_NUMBER, params![id.0]).await?.map_or(Ok(0), |row| row.int(0))?;
    let number = last + 1;
    let text = flow.draft.to_string();
    tx.execute(ADD_VERSION, params![id.0, number, &text, now]).await?;
    tx.execute(SET_PUBLISHED, params![id.0, number, hears]).await?;
    super::queues::own_lane(tx, tenant, Purpose::Advance, (EntryKind::Survey.word(), "")).await?;
    super::queues::own_lane(tx, tenant, Purpose::Expire, ("", "")).await?;
    routes::ensure(tx, tenant, tell::TOPIC).await?;
    raise_stamp(tx, tenant).await?;
    routes::told_changed(tx, tenant, before).await?;
    Ok(Some(u32::try_from(number).unwrap_or(u32::MAX)))
}

/// Which messages may begin or stop entries of a survey.
fn hears(survey: &Survey) -> i64 {
    let mut kinds = survey.triggers.iter().map(|trigger| trigger.event_kind.as_str());
    match survey.triggers.is_empty() {
        true => 0,
        false if kinds.any(|kind| tell::BEGINNINGS.contains(&kind)) => MOMENTS,
        false => EVENTS,
    }
}

/// The survey of a draft that may be published.
fn ready(draft: &Value) -> Result<Survey> {
    let (mut problems, mut warnings) = (Problems::default(), Problems::default());
    let survey = Survey::read(draft, &mut problems, &mut warnings);
    if let Some(survey) = &survey {
        survey.ready(|_| true, &mut problems, &mut warnings);
    }
    match survey {
        Some(survey) if problems.0.is_empty() => Ok(survey),
        _ => Err(Error::Invalid(problems)),
    }
}

async fn raise_stamp(tx: &mut Tx, tenant: Tenant) -> Result<()> {
    tx.execute(RAISE_STAMP, params![tenant.id()]).await?;
    Ok(())
}

/// The tenant's stamp.
pub(super) async fn stamp(tx: &mut Tx, tenant: Tenant) -> Result<i64> {
    tx.first(STAMP, params![tenant.id()]).await?.map_or(Ok(0), |row| row.int(0))
}

async fn published(
    tx: &mut Tx,
    tenant: Tenant,
    known: Option<i64>,
) -> Result<(Timestamp, Option<Published>)> {
    // The time and the stamp are read first: what is read after them may be newer, never older.
    let now = tx.now().await?;
    let stamp = stamp(tx, tenant).await?;
    if known == Some(stamp) {
        return Ok((now, None));
    }
    let rows = tx.query(PUBLISHED, params![tenant.id()]).await?;
    let versions = rows.iter().map(read_version).collect::<Result<_>>()?;
    let row = tx.first(ADVANCE_LANE, params![tenant.id(), EntryKind::Survey.word()]).await?;
    let lane = row.map(|row| row.int(0)).transpose()?.map(LaneId);
    Ok((now, Some(Published { stamp, versions, lane })))
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
const INSERT: &str = concat!(
    "insert into punctual.flow (tenant_id, name, integration_id, draft, created_at, updated_at) \
     values ($1, $2, $3, $4, $5, $5) returning ",
    flow_columns!()
);
const CHANGE: &str = concat!(
    "update punctual.flow set name = $3, integration_id = $4, draft = $5, updated_at = $6 \
     where id = $1 and tenant_id = $2 and deleted_at is null returning ",
    flow_columns!()
);
macro_rules! by_id {
    () => {
        concat!(
            "select ",
            flow_columns!(),
            " from punctual.flow where id = $1 and tenant_id = $2 and deleted_at is null"
        )
    };
}
const BY_ID: &str = by_id!();
const BY_ID_LOCKED: &str = concat!(by_id!(), " for update");
const LIST: &str = concat!(
    "select ",
    flow_columns!(),
    " from punctual.flow where tenant_id = $1 and id > $2 and deleted_at is null order by id limit $3"
);
const SET_PUBLISHED: &str = "update punctual.flow set published = $2, hears = $3 where id = $1";
const UNPUBLISH: &str = "update punctual.flow set published = null, hears = 0 \
    where id = $1 and tenant_id = $2 and deleted_at is null";
const LAST_NUMBER: &str = "select coalesce(max(number), 0) from punctual.flow_version where flow_id = $1";
const ADD_VERSION: &str = "insert into punctual.flow_version (flow_id, number, definition, published_at) \
    values ($1, $2, $3, $4)";
const RAISE_STAMP: &str = "insert into punctual.flow_stamp as s (tenant_id, stamp) values ($1, 1) \
    on conflict (tenant_id) do update set stamp = s.stamp + 1";
const STAMP: &str = "select stamp from punctual.flow_stamp where tenant_id = $1";
macro_rules! version_columns {
    () => {
        "select v.flow_id, f.tenant_id, v.number, v.definition, f.integration_id, v.published_at \
         from punctual.flow_version v join punctual.flow f on f.id = v.flow_id "
    };
}
const VERSION: &str = concat!(version_columns!(), "where v.flow_id = $1 and v.number = $2");
const PUBLISHED: &str = concat!(
    version_columns!(),
    "where f.tenant_id = $1 and f.deleted_at is null and v.number = f.published order by f.id"
);
const ADVANCE_LANE: &str =
    "select id from punctual.lane where tenant_id = $1 and purpose = 'advance' and topic = $2";
