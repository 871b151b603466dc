//! Message templates: texts, by version.
//!
//! Editing writes a new version beside the old ones, which a log may name, and never changes one. Switching a
//! template on or off is no edit. A template that the communication log refers to is only switched off when
//! it is to be deleted; another is never used again and no longer listed, and its versions stay. Every change
//! raises the tenant's stamp in the same transaction: a process that keeps templates in memory reads the
//! stamp *before* the templates, so a cached set is never older than its stamp.

use crate::access::store::tenants::locale_and_zone;
use crate::base::clock::Timestamp;
use crate::base::error::{Error, Result};
use crate::base::id::TemplateId;
use crate::base::tenant::Tenant;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::Tx;
use crate::database::tx::VerbFuture;
use crate::database::value::{Row, Value, params};
use crate::delivery::rules::template::event_type::OwnEventType;
use crate::delivery::rules::template::{TemplateDefinition, TemplateScope};
use crate::flow::rules::entry_events::{BEGINNINGS, INSTANCE_SENT};
use crate::queue::store::interest::{InterestLevel, set_interest};
use std::collections::BTreeSet;

/// A template as it is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredTemplate {
    /// Its id.
    pub id: TemplateId,
    /// Its current version, from 1.
    pub version: u32,
    /// Whether the template is used.
    pub active: bool,
    /// The current version.
    pub definition: TemplateDefinition,
    /// Since when it exists.
    pub created_at: Timestamp,
    /// When it was last edited or switched.
    pub updated_at: Timestamp,
}

/// Selects templates for a list; a field that is `None` matches all.
#[derive(Clone, Debug, Default)]
pub struct TemplateFilter {
    /// For this kind of events.
    pub event_type: Option<String>,
    /// For this channel, as it is written.
    pub channel: Option<String>,
    /// In this language, as it is written.
    pub language: Option<String>,
    /// With a scope of this type.
    pub scope_type: Option<String>,
    /// With a scope of this id.
    pub scope_id: Option<String>,
    /// In use, or not.
    pub active: Option<bool>,
}

/// The active templates of a tenant.
#[derive(Clone, Debug, PartialEq)]
pub struct ActiveTemplates {
    /// The stamp that all this is at least as new as.
    pub stamp: i64,
    /// The templates in use, by id.
    pub templates: Vec<StoredTemplate>,
    /// Whether there are templates for such events, or were, in use or not.
    pub known: bool,
    /// The tenant's language.
    pub default_locale: String,
    /// The tenant's time zone.
    pub time_zone: String,
}

/// The outcome of deleting a template.
#[derive(Clone, Debug, PartialEq)]
pub enum TemplateDeletion {
    /// There was none.
    Unknown,
    /// The template was deleted.
    Gone,
    /// Messages were rendered from the template: it is only deactivated.
    SwitchedOff(Box<StoredTemplate>),
}

impl Store {
    /// Makes a template.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every problem; nothing is written then.
    pub fn create_template(
        &self,
        tenant: Tenant,
        definition: TemplateDefinition,
    ) -> VerbFuture<'_, StoredTemplate> {
        VerbFuture::new(async move {
            definition.compile()?;
            self.of(tenant)
                .write((tenant, definition), |tx, (tenant, definition)| {
                    Box::pin(create(tx, *tenant, definition))
                })
                .await
        })
    }

    /// Makes a template say this from now on. The same again changes nothing.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every problem, [`Error::NotFound`] when there is none.
    pub fn change_template(
        &self,
        tenant: Tenant,
        id: TemplateId,
        definition: TemplateDefinition,
    ) -> VerbFuture<'_, StoredTemplate> {
        VerbFuture::new(async move {
            definition.compile()?;
            self.of(tenant)
                .write((tenant, id, definition), |tx, (tenant, id, definition)| {
                    Box::pin(change(tx, *tenant, *id, definition))
                })
                .await
        })
    }

    /// Deletes a template, or deactivates it if messages were rendered from it. The lookup of its use is made
    /// before, since that may take a while; a message that is planned just then keeps its version, and
    /// nothing else of the template.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn delete_template(&self, tenant: Tenant, id: TemplateId) -> VerbFuture<'_, TemplateDeletion> {
        VerbFuture::new(async move {
            let place = self.of(tenant);
            let used = place
                .read((tenant, id), |tx, (tenant, id)| {
                    Box::pin(async move { Ok(tx.first(USED, params![tenant.id(), id.0]).await?.is_some()) })
                })
                .await?;
            place
                .write((tenant, id, used), |tx, (tenant, id, used)| Box::pin(delete(tx, *tenant, *id, *used)))
                .await
        })
    }

    /// A template by its id.
    pub fn template(&self, tenant: Tenant, id: TemplateId) -> VerbFuture<'_, Option<StoredTemplate>> {
        self.of(tenant).read((tenant, id), |tx, (tenant, id)| Box::pin(find(tx, *tenant, *id)))
    }

    /// Reads a version of a template, also of a deleted one.
    pub fn template_version(
        &self,
        tenant: Tenant,
        id: TemplateId,
        number: u32,
    ) -> VerbFuture<'_, Option<TemplateDefinition>> {
        self.of(tenant).read((tenant, id, number), |tx, (tenant, id, number)| {
            Box::pin(async move {
                let row = tx.first(VERSION, params![tenant.id(), id.0, i64::from(*number)]).await?;
                row.map(|row| definition_of(&row.text(0)?)).transpose()
            })
        })
    }

    /// Reads versions of templates, also of deleted ones. A version that does not exist is left out.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn template_versions(
        &self,
        wanted: BTreeSet<(TemplateId, u32)>,
    ) -> VerbFuture<'_, Vec<(TemplateId, u32, TemplateDefinition)>> {
        self.read(wanted, |tx, wanted| Box::pin(versions(tx, wanted)))
    }

    /// Templates of a tenant by id, those behind `after`.
    pub fn templates(
        &self,
        tenant: Tenant,
        filter: TemplateFilter,
        after: TemplateId,
        limit: usize,
    ) -> VerbFuture<'_, Vec<StoredTemplate>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.of(tenant).read((tenant, filter, after, limit), |tx, (tenant, filter, after, limit)| {
            Box::pin(async move {
                let active: Value<'_> = filter.active.map(i64::from).into();
                let texts = [
                    &filter.event_type,
                    &filter.channel,
                    &filter.language,
                    &filter.scope_type,
                    &filter.scope_id,
                ];
                let mut row = vec![tenant.id().into(), after.0.into(), (*limit).into(), active];
                row.extend(texts.map(|text| Value::from(text.as_deref())));
                tx.query(LIST, &row).await?.iter().map(read_template).collect()
            })
        })
    }

    /// The stamp of a tenant's templates; 0 before the first.
    pub fn template_stamp(&self, tenant: Tenant) -> VerbFuture<'_, i64> {
        self.of(tenant).read(tenant, |tx, tenant| Box::pin(stamp(tx, *tenant)))
    }

    /// All that wording a tenant's messages of one kind takes.
    pub fn active_templates(&self, tenant: Tenant, event_type: &str) -> VerbFuture<'_, ActiveTemplates> {
        self.of(tenant).read((tenant, event_type.to_owned()), |tx, (tenant, event_type)| {
            Box::pin(active(tx, *tenant, event_type))
        })
    }
}

/// The columns that [`read_template`] reads.
macro_rules! columns {
    () => {
        "
        select t.id, t.version, t.active, v.definition, t.created_at, t.updated_at
        from punctual.message_template t
        join punctual.message_template_version v on v.template_id = t.id and v.number = t.version
        where t.tenant_id = $1 and t.deleted_at is null
        "
    };
}

statements! {
    const FIND = columns!(), "
            and t.id = $2
    ";

    const TAKE = "
        select id
        from punctual.message_template
        where tenant_id = $1 and id = $2 and deleted_at is null
        for update
    ";

    const LIST = columns!(), "
            and t.id > $2
            and ($4::int is null or t.active = $4)
            and ($5::text is null or t.event_type = $5)
            and ($6::text is null or t.channel = $6)
            and ($7::text is null or t.language = $7)
            and ($8::text is null or t.scope_type = $8)
            and ($9::text is null or t.scope_id = $9)
        order by t.id
        limit $3
    ";

    const ACTIVE = columns!(), "
            and t.event_type = $2 and t.active = 1
        order by t.id
    ";

    const KNOWN = "
        select 1
        from punctual.message_template
        where tenant_id = $1 and event_type = $2
        limit 1
    ";

    const VERSION = "
        select v.definition
        from punctual.message_template_version v
        join punctual.message_template t on t.id = v.template_id
        where t.tenant_id = $1 and t.id = $2 and v.number = $3
    ";

    const VERSIONS = "
        select template_id, number, definition
        from punctual.message_template_version
        where template_id = any($1::bigint[]) and number = any($2::bigint[])
        order by template_id, number
    ";

    const INSERT = "
        insert into punctual.message_template (
            event_type, channel, language, scope_type, scope_id, active, updated_at, created_at,
            tenant_id
        )
        values ($1, $2, $3, $4, $5, $6, $7, $7, $8)
        returning id
    ";

    const CHANGE = "
        update punctual.message_template
        set event_type = $1, channel = $2, language = $3, scope_type = $4, scope_id = $5, active = $6,
            updated_at = $7, version = $9
        where id = $8
    ";

    const INSERT_VERSION = "
        insert into punctual.message_template_version (template_id, number, definition, created_at)
        values ($1, $2, $3, $4)
    ";

    const DELETE = "
        update punctual.message_template
        set deleted_at = $3, updated_at = $3, active = 0
        where tenant_id = $1 and id = $2 and deleted_at is null
    ";

    const SWITCH_OFF = "
        update punctual.message_template
        set updated_at = $3, active = 0
        where tenant_id = $1 and id = $2 and deleted_at is null
    ";

    const USED = "
        select d.id
        from punctual.delivery d
        where d.tenant_id = $1 and d.template_id = $2
        limit 1
    ";

    const RAISE = "
        insert into punctual.template_stamp as s (tenant_id, stamp)
        values ($1, 1)
        on conflict (tenant_id)
        do update set stamp = s.stamp + 1
    ";

    const STAMP = "
        select stamp
        from punctual.template_stamp
        where tenant_id = $1
    ";
}

fn read_template(row: &Row) -> Result<StoredTemplate> {
    Ok(StoredTemplate {
        id: TemplateId(row.int(0)?),
        version: row.count(1)?,
        active: row.flag(2)?,
        definition: definition_of(&row.text(3)?)?,
        created_at: row.time(4)?,
        updated_at: row.time(5)?,
    })
}

fn definition_of(text: &str) -> Result<TemplateDefinition> {
    let json = serde_json::from_str(text).map_err(|error| Error::Database(error.into()))?;
    Ok(TemplateDefinition::kept(&json))
}

fn text_of(definition: &TemplateDefinition) -> String {
    serde_json::Value::Object(definition.to_json()).to_string()
}

/// The columns of a template's row but the last, which follow.
fn head(definition: &TemplateDefinition, active: bool, now: Timestamp) -> Vec<Value<'_>> {
    let scope = |of: fn(&TemplateScope) -> &String| definition.scope.as_ref().map(|scope| of(scope).as_str());
    vec![
        definition.event_type.as_str().into(),
        definition.channel.as_str().into(),
        definition.language.as_str().into(),
        scope(|scope| &scope.kind).into(),
        scope(|scope| &scope.id).into(),
        active.into(),
        now.into(),
    ]
}

async fn create(tx: &mut Tx, tenant: Tenant, definition: &TemplateDefinition) -> Result<StoredTemplate> {
    let now = tx.now().await?;
    let active = definition.active.unwrap_or(true);
    let mut row = head(definition, active, now);
    row.push(tenant.id().into());
    let made = tx.first(INSERT, &row).await?;
    let id = made.ok_or_else(|| Error::Database("an insert returned no id".into()))?.int(0)?;
    tx.execute(INSERT_VERSION, params![id, 1, &text_of(definition), now]).await?;
    raise_stamp(tx, tenant).await?;
    note_interest(tx, tenant).await?;
    let definition = TemplateDefinition { active: None, ..definition.clone() };
    Ok(StoredTemplate {
        id: TemplateId(id),
        version: 1,
        active,
        definition,
        created_at: now,
        updated_at: now,
    })
}

async fn change(
    tx: &mut Tx,
    tenant: Tenant,
    id: TemplateId,
    definition: &TemplateDefinition,
) -> Result<StoredTemplate> {
    let missing = || Error::NotFound(format!("there is no message template `{id}`"));
    tx.first(TAKE, params![tenant.id(), id.0]).await?.ok_or_else(missing)?;
    let old = find(tx, tenant, id).await?.ok_or_else(missing)?;
    let active = definition.active.unwrap_or(old.active);
    let text = text_of(definition);
    let edited = text != text_of(&old.definition);
    if !edited && active == old.active {
        return Ok(old);
    }
    let now = tx.now().await?;
    let version = old.version + u32::from(edited);
    if edited {
        tx.execute(INSERT_VERSION, params![id.0, i64::from(version), &text, now]).await?;
    }
    let mut row = head(definition, active, now);
    row.extend_from_slice(params![id.0, i64::from(version)]);
    tx.execute(CHANGE, &row).await?;
    raise_stamp(tx, tenant).await?;
    note_interest(tx, tenant).await?;
    find(tx, tenant, id).await?.ok_or_else(missing)
}

async fn delete(tx: &mut Tx, tenant: Tenant, id: TemplateId, used: bool) -> Result<TemplateDeletion> {
    let now = tx.now().await?;
    let sql = if used { SWITCH_OFF } else { DELETE };
    if tx.execute(sql, params![tenant.id(), id.0, now]).await? == 0 {
        return Ok(TemplateDeletion::Unknown);
    }
    raise_stamp(tx, tenant).await?;
    note_interest(tx, tenant).await?;
    let left = find(tx, tenant, id).await?;
    Ok(left.map_or(TemplateDeletion::Gone, |template| TemplateDeletion::SwitchedOff(Box::new(template))))
}

/// A tenant with templates for events wants events. Templates of own event types, such as invitations, do not
/// count.
async fn note_interest(tx: &mut Tx, tenant: Tenant) -> Result<()> {
    let own: Vec<Option<&str>> = OwnEventType::ALL.iter().map(|own| Some(own.name)).collect();
    let published: Vec<Option<&str>> =
        BEGINNINGS.iter().chain([&INSTANCE_SENT]).map(|kind| Some(*kind)).collect();
    let row = [tenant.id().into(), Value::Texts(&own), Value::Texts(&published)];
    let level = match tx.first(FOR_EVENTS, &row).await? {
        Some(found) if found.flag(0)? => InterestLevel::AllEvents,
        Some(_) => InterestLevel::Events,
        None => InterestLevel::Nothing,
    };
    set_interest(tx, tenant, "templates", level, None).await
}

statements! {
    const FOR_EVENTS = "
        select case when t.event_type = any($3::text[]) then 1 else 0 end as published
        from punctual.message_template t
        where t.tenant_id = $1 and t.deleted_at is null and not (t.event_type = any($2::text[]))
        order by published desc
        limit 1
    ";
}

async fn find(tx: &mut Tx, tenant: Tenant, id: TemplateId) -> Result<Option<StoredTemplate>> {
    tx.first(FIND, params![tenant.id(), id.0]).await?.as_ref().map(read_template).transpose()
}

/// One statement for all of them: the result may have more versions than are wanted, which are dropped.
async fn versions(
    tx: &mut Tx,
    wanted: &BTreeSet<(TemplateId, u32)>,
) -> Result<Vec<(TemplateId, u32, TemplateDefinition)>> {
    let ids: Vec<i64> = wanted.iter().map(|(id, _)| id.0).collect();
    let numbers: Vec<i64> = wanted.iter().map(|(_, number)| i64::from(*number)).collect();
    let mut found = Vec::with_capacity(wanted.len());
    for row in tx.query(VERSIONS, &[Value::Ints(&ids), Value::Ints(&numbers)]).await? {
        let (id, number) = (TemplateId(row.int(0)?), row.count(1)?);
        if wanted.contains(&(id, number)) {
            found.push((id, number, definition_of(&row.text(2)?)?));
        }
    }
    Ok(found)
}

async fn raise_stamp(tx: &mut Tx, tenant: Tenant) -> Result<()> {
    tx.execute(RAISE, params![tenant.id()]).await?;
    Ok(())
}

async fn stamp(tx: &mut Tx, tenant: Tenant) -> Result<i64> {
    tx.first(STAMP, params![tenant.id()]).await?.map_or(Ok(0), |row| row.int(0))
}

async fn active(tx: &mut Tx, tenant: Tenant, event_type: &str) -> Result<ActiveTemplates> {
    // The stamp first: a change that comes in between is read again later, not missed.
    let stamp = stamp(tx, tenant).await?;
    let rows = tx.query(ACTIVE, params![tenant.id(), event_type]).await?;
    let templates = rows.iter().map(read_template).collect::<Result<_>>()?;
    let known = !rows.is_empty() || tx.first(KNOWN, params![tenant.id(), event_type]).await?.is_some();
    let (default_locale, time_zone) = locale_and_zone(tx, tenant).await?;
    Ok(ActiveTemplates { stamp, templates, known, default_locale, time_zone })
}
