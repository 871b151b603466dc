//! Suppressions: messages that an address is never sent, until the suppression is lifted.
//!
//! There is at most one in force for an address, a channel and a kind; the first stands, with its reason.
//! One that is lifted stays as history.

use crate::base::clock::Timestamp;
use crate::base::error::{Error, Problems, Result};
use crate::base::id::SuppressionId;
use crate::base::tenant::Tenant;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::Tx;
use crate::database::tx::VerbFuture;
use crate::database::value::{Row, Value, params};
use crate::delivery::rules::consent::address::{check, normal};
use crate::delivery::rules::consent::{ConsentScope, SuppressionReason};
use crate::delivery::store::consent::{note, reason, scope};

/// A suppression as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suppression {
    /// Its id.
    pub id: SuppressionId,
    /// The address, in the form it is compared by.
    pub address: String,
    /// The messages that are not sent.
    pub scope: ConsentScope,
    /// Why.
    pub reason: SuppressionReason,
    /// Since when.
    pub since: Timestamp,
    /// By whose word.
    pub by: String,
    /// When it was lifted, and by whom.
    pub lifted: Option<(Timestamp, String)>,
}

/// A suppression to be made.
#[derive(Clone, Debug)]
pub struct NewSuppression {
    /// The address, however it is written.
    pub address: String,
    /// The messages that are not to be sent.
    pub scope: ConsentScope,
    /// Why.
    pub reason: SuppressionReason,
    /// By whose word.
    pub by: String,
    /// When the recipient said so, if that was before now.
    pub told_at: Option<Timestamp>,
}

/// Selects suppressions for a list; a field that is `None` matches all.
#[derive(Clone, Debug, Default)]
pub struct SuppressionFilter {
    /// Of this address, however it is written.
    pub address: Option<String>,
    /// Made for this kind of channel; empty for those made for all.
    pub channel: Option<String>,
    /// Made for this kind of event; empty for those made for all.
    pub kind: Option<String>,
    /// For this reason.
    pub reason: Option<SuppressionReason>,
    /// Lifted ones, too.
    pub lifted: bool,
}

/// The suppressions that were lifted, and those still in force for that address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiftOutcome {
    /// The suppressions that were in force until now.
    pub lifted: Vec<Suppression>,
    /// The suppressions that still are.
    pub left: Vec<Suppression>,
}

/// Tries to write or to find one while others lift it.
const TRIES_MAX: usize = 5;

impl Store {
    /// Suppresses an address; answers what is in force, and whether it is new.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the address is none.
    pub fn suppress(&self, tenant: Tenant, new: NewSuppression) -> VerbFuture<'_, (Suppression, bool)> {
        VerbFuture::new(async move {
            let mut problems = Problems::default();
            check(&new.address, "address", &mut problems);
            problems.into_result()?;
            self.of(tenant)
                .write((tenant, new), |tx, (tenant, new)| Box::pin(suppress(tx, *tenant, new)))
                .await
        })
    }

    /// Lifts what was made for an address: for this channel and kind, or all of it.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn lift_suppressions(
        &self,
        tenant: Tenant,
        filter: SuppressionFilter,
        by: &str,
    ) -> VerbFuture<'_, LiftOutcome> {
        self.of(tenant).write((tenant, filter, by.to_owned()), |tx, (tenant, filter, by)| {
            Box::pin(lift(tx, *tenant, filter, None, by))
        })
    }

    /// Suppressions of a tenant by id, those behind `after`.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn suppressions(
        &self,
        tenant: Tenant,
        filter: SuppressionFilter,
        after: SuppressionId,
        limit: usize,
    ) -> VerbFuture<'_, Vec<Suppression>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.of(tenant).read((tenant, filter, after, limit), |tx, (tenant, filter, after, limit)| {
            Box::pin(list(tx, *tenant, filter, *after, *limit))
        })
    }
}

macro_rules! columns {
    () => {
        "id, address, channel, kind, reason, since, made_by, lifted_at, lifted_by"
    };
}

/// Those that a filter names: address, channel, kind and reason from `$2` on.
macro_rules! named {
    () => {
        "
        tenant_id = $1
            and ($2::text is null or address = $2)
            and ($3::text is null or channel = $3)
            and ($4::text is null or kind = $4)
            and ($5::text is null or reason = $5)
        "
    };
}

statements! {
    const INSERT = "
        insert into punctual.suppression (
            tenant_id, address, channel, kind, reason, since, made_by, told_at
        )
        values ($1, $2, $3, $4, $5, $6, $7, $8)
        on conflict do nothing
        returning ", columns!();

    /// One statement, so that a suppression that is lifted meanwhile is made anew instead of being renewed.
    const RENEW = "
        update punctual.suppression
        set told_at = case when told_at < $5 then $5 else told_at end
        where tenant_id = $1 and address = $2 and channel = $3 and kind = $4 and lifted_at is null
        returning ", columns!();

    const LIFT = "
        update punctual.suppression
        set lifted_at = $6, lifted_by = $7
        where ", named!(), " and lifted_at is null and ($8::bigint is null or told_at < $8)
        returning ", columns!();

    const LIST = "
        select ", columns!(), "
        from punctual.suppression
        where ", named!(), " and id > $6 and ($7 = 1 or lifted_at is null)
        order by id
        limit $8
    ";

    const OF_ADDRESS = "
        select ", columns!(), "
        from punctual.suppression
        where tenant_id = $1 and address = $2 and lifted_at is null
        order by id
    ";
}

pub(crate) async fn suppress(
    tx: &mut Tx,
    tenant: Tenant,
    new: &NewSuppression,
) -> Result<(Suppression, bool)> {
    note(tx, tenant).await?;
    let now = tx.now().await?;
    let address = normal(&new.address);
    let (channel, kind) = names(&new.scope);
    for _ in 0..TRIES_MAX {
        let told_at = new.told_at.unwrap_or(now);
        let row = params![tenant.id(), &address, channel, kind, new.reason.word(), now, &new.by, told_at];
        if let Some(row) = tx.first(INSERT, row).await? {
            return Ok((read(&row)?, true));
        }
        let again = params![tenant.id(), &address, channel, kind, told_at];
        if let Some(row) = tx.first(RENEW, again).await? {
            return Ok((read(&row)?, false));
        }
    }
    Err(Error::Conflict("another request changes this suppression at the same time; try again".into()))
}

/// A scope as its columns.
pub(crate) fn names(scope: &ConsentScope) -> (&str, &str) {
    (scope.channel.as_deref().unwrap_or_default(), scope.kind.as_deref().unwrap_or_default())
}

/// Lifts the suppressions that the filter names; where a time is given, only those reported before it.
pub(crate) async fn lift(
    tx: &mut Tx,
    tenant: Tenant,
    filter: &SuppressionFilter,
    told_before: Option<Timestamp>,
    by: &str,
) -> Result<LiftOutcome> {
    let now = tx.now().await?;
    let address = filter.address.as_deref().map(normal);
    let mut values = of_filter(tenant, filter, address.as_deref());
    values.extend_from_slice(params![now, by, told_before]);
    let rows = tx.query(LIFT, &values).await?;
    let mut lifted = rows.iter().map(read).collect::<Result<Vec<_>>>()?;
    lifted.sort_by_key(|one| one.id);
    let left = tx.query(OF_ADDRESS, params![tenant.id(), address.as_deref()]).await?;
    Ok(LiftOutcome { lifted, left: left.iter().map(read).collect::<Result<_>>()? })
}

async fn list(
    tx: &mut Tx,
    tenant: Tenant,
    filter: &SuppressionFilter,
    after: SuppressionId,
    limit: i64,
) -> Result<Vec<Suppression>> {
    let address = filter.address.as_deref().map(normal);
    let mut values = of_filter(tenant, filter, address.as_deref());
    values.extend_from_slice(params![after.0, filter.lifted, limit]);
    tx.query(LIST, &values).await?.iter().map(read).collect()
}

fn of_filter<'a>(tenant: Tenant, filter: &'a SuppressionFilter, address: Option<&'a str>) -> Vec<Value<'a>> {
    vec![
        tenant.id().into(),
        address.into(),
        filter.channel.as_deref().into(),
        filter.kind.as_deref().into(),
        filter.reason.map(SuppressionReason::word).into(),
    ]
}

fn read(row: &Row) -> Result<Suppression> {
    let lifted_at = row.maybe_time(7)?;
    let lifted_by = row.maybe_text(8)?;
    Ok(Suppression {
        id: SuppressionId(row.int(0)?),
        address: row.text(1)?,
        scope: scope(row.text(2)?, row.text(3)?),
        reason: reason(&row.text(4)?)?,
        since: row.time(5)?,
        by: row.text(6)?,
        lifted: lifted_at.zip(lifted_by),
    })
}
