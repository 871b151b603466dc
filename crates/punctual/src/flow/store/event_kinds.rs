//! Kinds of events: one document for each, as it was last put.
//!
//! Putting the same document again changes nothing. Every change raises the tenant's stamp in the same
//! transaction: a process that keeps kinds in memory reads the stamp *before* the kinds, so a cached set is
//! never older than its stamp. A deleted kind leaves nothing behind: the deliveries that were sent by it have
//! their own data.

use crate::base::clock::Timestamp;
use crate::base::error::{Error, Problems, Result};
use crate::base::limits;
use crate::base::name::check_name;
use crate::base::tenant::Tenant;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::Tx;
use crate::database::tx::VerbFuture;
use crate::database::value::{Row, params};
use crate::flow::rules::entry_events::{ENTRY_EVENTS, is_entry_event};
use crate::flow::rules::event_kind::EventKind;
use crate::queue::store::interest::{InterestLevel, set_interest};
use serde_json::Value;

/// A kind as it is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredEventKind {
    /// Its name.
    pub kind: String,
    /// How often it was changed, from 1.
    pub version: u32,
    /// Its document.
    pub document: Value,
    /// Since when it exists.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// The kinds of a tenant.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantEventKinds {
    /// The stamp that they are at least as new as.
    pub stamp: i64,
    /// The kinds, by name.
    pub kinds: Vec<StoredEventKind>,
}

impl Store {
    /// Makes a kind, or makes it this from now on. The same again changes nothing.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every problem, [`Error::Conflict`] when there are too many.
    pub fn put_event_kind<'a>(
        &'a self,
        tenant: Tenant,
        kind: &'a str,
        document: Value,
    ) -> VerbFuture<'a, StoredEventKind> {
        VerbFuture::new(async move {
            let mut problems = Problems::default();
            check_name(kind, "kind", &mut problems);
            let read = EventKind::read(&document, &mut problems);
            problems.into_result()?;
            let new = read.unwrap_or_default();
            self.of(tenant)
                .write((tenant, kind.to_owned(), new), |tx, (tenant, kind, new)| {
                    Box::pin(put(tx, *tenant, kind, new))
                })
                .await
        })
    }

    /// Forgets a kind. Answers whether there was one.
    pub fn delete_event_kind(&self, tenant: Tenant, kind: &str) -> VerbFuture<'_, bool> {
        self.of(tenant).write((tenant, kind.to_owned()), |tx, (tenant, kind)| {
            Box::pin(async move {
                let deleted = tx.execute(DELETE, params![tenant.id(), kind]).await? == 1;
                if deleted {
                    tx.execute(RAISE, params![tenant.id()]).await?;
                    set_interest(tx, *tenant, &source_of(kind), InterestLevel::Nothing, None).await?;
                }
                Ok(deleted)
            })
        })
    }

    /// A kind by its name.
    pub fn event_kind(&self, tenant: Tenant, kind: &str) -> VerbFuture<'_, Option<StoredEventKind>> {
        self.of(tenant)
            .read((tenant, kind.to_owned()), |tx, (tenant, kind)| Box::pin(find(tx, *tenant, kind)))
    }

    /// Kinds of a tenant by name, those behind `after`.
    pub fn event_kinds(
        &self,
        tenant: Tenant,
        after: &str,
        limit: usize,
    ) -> VerbFuture<'_, Vec<StoredEventKind>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.of(tenant).read((tenant, after.to_owned(), limit), |tx, (tenant, after, limit)| {
            Box::pin(async move {
                let rows = tx.query(LIST, params![tenant.id(), after, *limit]).await?;
                rows.iter().map(read_kind).collect()
            })
        })
    }

    /// The stamp of a tenant's kinds; 0 before the first.
    pub fn event_kind_stamp(&self, tenant: Tenant) -> VerbFuture<'_, i64> {
        self.of(tenant).read(tenant, |tx, tenant| Box::pin(stamp(tx, *tenant)))
    }

    /// All kinds of a tenant.
    pub fn all_event_kinds(&self, tenant: Tenant) -> VerbFuture<'_, TenantEventKinds> {
        self.of(tenant).read(tenant, |tx, tenant| {
            Box::pin(async move {
                // The stamp first: a change that comes in between is read again later, not missed.
                let stamp = stamp(tx, *tenant).await?;
                let rows = tx.query(LIST, params![tenant.id(), "", i64::MAX]).await?;
                Ok(TenantEventKinds { stamp, kinds: rows.iter().map(read_kind).collect::<Result<_>>()? })
            })
        })
    }
}

macro_rules! columns {
    () => {
        "
        select kind, version, document, created_at, updated_at
        from punctual.event_kind
        where tenant_id = $1
        "
    };
}

statements! {
    const FIND = columns!(), "
            and kind = $2
    ";

    const LIST = columns!(), "
            and kind > $2
        order by kind
        limit $3
    ";

    const COUNT = "
        select count(*)
        from punctual.event_kind
        where tenant_id = $1
    ";

    const PUT = "
        insert into punctual.event_kind as k (tenant_id, kind, document, created_at, updated_at)
        values ($1, $2, $3, $4, $4)
        on conflict (tenant_id, kind)
        do update set document = excluded.document, version = k.version + 1,
            updated_at = excluded.updated_at
        where k.document <> excluded.document
    ";

    const DELETE = "
        delete from punctual.event_kind
        where tenant_id = $1 and kind = $2
    ";

    const RAISE = "
        insert into punctual.event_kind_stamp as s (tenant_id, stamp)
        values ($1, 1)
        on conflict (tenant_id)
        do update set stamp = s.stamp + 1
    ";

    const STAMP = "
        select stamp
        from punctual.event_kind_stamp
        where tenant_id = $1
    ";
}

fn read_kind(row: &Row) -> Result<StoredEventKind> {
    Ok(StoredEventKind {
        kind: row.text(0)?,
        version: row.count(1)?,
        document: serde_json::from_str(&row.text(2)?).map_err(|error| Error::Database(error.into()))?,
        created_at: row.time(3)?,
        updated_at: row.time(4)?,
    })
}

/// The name under which a kind wants events.
fn source_of(kind: &str) -> String {
    format!("kind:{kind}")
}

/// Which messages a definition looks at that is about events of one kind.
fn level_of(kind: &str, new: &EventKind) -> InterestLevel {
    let of_entries = is_entry_event(kind) || new.topic.as_deref() == Some(ENTRY_EVENTS);
    if of_entries { InterestLevel::AllEvents } else { InterestLevel::Events }
}

async fn put(tx: &mut Tx, tenant: Tenant, kind: &str, new: &EventKind) -> Result<StoredEventKind> {
    let now = tx.now().await?;
    let document = new.document().to_string();
    if tx.execute(PUT, params![tenant.id(), kind, document.as_str(), now]).await? == 1 {
        // Also makes those who put at once wait for each other, so that the count is right.
        tx.execute(RAISE, params![tenant.id()]).await?;
        let count = tx.first(COUNT, params![tenant.id()]).await?.map_or(Ok(0), |row| row.int(0))?;
        if usize::try_from(count).is_ok_and(|count| count > limits::EVENT_KINDS_MAX) {
            let most = limits::EVENT_KINDS_MAX;
            return Err(Error::Conflict(format!("there are {most} event kinds already; delete one first")));
        }
        set_interest(tx, tenant, &source_of(kind), level_of(kind, new), new.told_topic()).await?;
    }
    let kept = find(tx, tenant, kind).await?;
    kept.ok_or_else(|| Error::NotFound(format!("the event kind `{kind}` was deleted meanwhile")))
}

async fn find(tx: &mut Tx, tenant: Tenant, kind: &str) -> Result<Option<StoredEventKind>> {
    tx.first(FIND, params![tenant.id(), kind]).await?.as_ref().map(read_kind).transpose()
}

async fn stamp(tx: &mut Tx, tenant: Tenant) -> Result<i64> {
    tx.first(STAMP, params![tenant.id()]).await?.map_or(Ok(0), |row| row.int(0))
}
