//! Leases: a name that one owner holds at a time, across processes and machines.
//!
//! The database's clock decides whether a lease is held. Every acquisition gets a fencing token greater than
//! the one before it, also after a release, and also after retention has deleted the row of a lease that
//! ended long ago: see `leases/prune.rs`. An owner keeps a lease until it ends or is released; an acquisition
//! by the *same* owner is refused like any other, so that two processes under one name cannot both believe
//! that they hold it. A lease that has ended cannot be renewed, only acquired anew.
//! See `docs/adr/0009-leases-and-inbox.md`.
//!
//! Not promised: that a holder has stopped when its lease ends. Its writes elsewhere must be fenced there, by
//! refusing a token smaller than the greatest one seen.

mod prune;

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::FencingToken;
use crate::base::tenant::Tenant;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::Tx;
use crate::database::tx::VerbFuture;
use crate::database::value::{Row, params};
use crate::jobs::rules::lease::check;
use std::time::Duration;

/// A lease as it was at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Its name.
    pub name: String,
    /// The owner that holds it, or held it last.
    pub owner: String,
    /// The token of that acquisition.
    pub token: FencingToken,
    /// When it was acquired.
    pub acquired_at: Timestamp,
    /// When it was acquired or renewed last.
    pub renewed_at: Timestamp,
    /// When it ends, or ended.
    pub expires_at: Timestamp,
    /// When it was given back, if it was.
    pub released_at: Option<Timestamp>,
    /// The database's time at which this was read.
    pub now: Timestamp,
}

impl Lease {
    /// Whether the lease is held.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.released_at.is_none() && self.expires_at > self.now
    }

    /// Returns the present owner, if there is one.
    #[must_use]
    pub fn holder(&self) -> Option<&str> {
        self.is_held().then_some(self.owner.as_str())
    }
}

/// One acquisition, by those who hold it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseHold {
    /// The lease's name.
    pub name: String,
    /// The owner that acquired it.
    pub owner: String,
    /// The token they were given.
    pub token: FencingToken,
}

/// The outcome of an acquisition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AcquireOutcome {
    /// The lease is held now, under this token.
    Acquired(Lease),
    /// Another owner holds it, or the same owner does.
    Held(Lease),
}

/// The outcome of a renewal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RenewOutcome {
    /// The lease is held for longer.
    Renewed(Lease),
    /// This token holds nothing any more; nothing was written.
    Lost,
}

/// The outcome of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseOutcome {
    /// Any owner may acquire the lease now.
    Released,
    /// This token holds nothing any more; nothing was written.
    Lost,
}

impl Store {
    /// Acquires a lease for this long, if it is free.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) with every problem.
    pub fn acquire_lease<'a>(
        &'a self,
        tenant: Tenant,
        name: &'a str,
        owner: &'a str,
        duration: Duration,
    ) -> VerbFuture<'a, AcquireOutcome> {
        VerbFuture::new(async move {
            check(name, owner, duration)?;
            let request = (tenant, name.to_owned(), owner.to_owned(), duration);
            self.of(tenant)
                .write(request, |tx, (tenant, name, owner, duration)| {
                    Box::pin(acquire(tx, *tenant, name, owner, *duration))
                })
                .await
        })
    }

    /// Moves a lease's end to this long from now, if it is still held under this token.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for a length that no lease has.
    pub fn renew_lease(
        &self,
        tenant: Tenant,
        held: LeaseHold,
        duration: Duration,
    ) -> VerbFuture<'_, RenewOutcome> {
        VerbFuture::new(async move {
            check(&held.name, &held.owner, duration)?;
            self.of(tenant)
                .write((tenant, held, duration), |tx, (tenant, held, duration)| {
                    Box::pin(renew(tx, *tenant, held, *duration))
                })
                .await
        })
    }

    /// Gives a lease back, if it is still held under this token.
    pub fn release_lease(&self, tenant: Tenant, held: LeaseHold) -> VerbFuture<'_, ReleaseOutcome> {
        self.of(tenant).write((tenant, held), |tx, (tenant, held)| Box::pin(release(tx, *tenant, held)))
    }

    /// One lease, held or not; `None` if it never was.
    pub fn lease(&self, tenant: Tenant, name: &str) -> VerbFuture<'_, Option<Lease>> {
        self.of(tenant).read((tenant, name.to_owned()), |tx, (tenant, name)| {
            Box::pin(async move {
                let now = tx.now().await?;
                find(tx, *tenant, name, now).await
            })
        })
    }

    /// Leases of a tenant by name, beginning behind `after`.
    pub fn leases(&self, tenant: Tenant, after: &str, limit: usize) -> VerbFuture<'_, Vec<Lease>> {
        self.of(tenant).read((tenant, after.to_owned(), limit), |tx, (tenant, after, limit)| {
            Box::pin(async move {
                let now = tx.now().await?;
                let limit = i64::try_from(*limit).unwrap_or(i64::MAX);
                let rows = tx.query(LIST, params![tenant.id(), after, limit]).await?;
                rows.iter().map(|row| read(row, now)).collect()
            })
        })
    }
}

macro_rules! columns {
    () => {
        "name, owner, token, acquired_at, renewed_at, lease_until, released_at"
    };
}
use columns;

/// On PostgreSQL the insert locks the row also when it does not take it, so that who is
/// shown is who was in the way. `now` was read before any wait for that lock: a time that is
/// too early only makes the other's lease last.
async fn acquire(
    tx: &mut Tx,
    tenant: Tenant,
    name: &str,
    owner: &str,
    duration: Duration,
) -> Result<AcquireOutcome> {
    let now = tx.now().await?;
    let row = tx.first(ACQUIRE, params![tenant.id(), name, owner, now, now.plus(duration)]).await?;
    if let Some(row) = row {
        let raised = if row.flag(7)? { prune::raise_token(tx, tenant, name).await? } else { None };
        return Ok(AcquireOutcome::Acquired(read(raised.as_ref().unwrap_or(&row), now)?));
    }
    let held = find(tx, tenant, name, now).await?;
    held.map(AcquireOutcome::Held)
        .ok_or_else(|| crate::base::error::Error::Database(format!("the lease `{name}` vanished").into()))
}

async fn renew(tx: &mut Tx, tenant: Tenant, held: &LeaseHold, duration: Duration) -> Result<RenewOutcome> {
    let now = tx.now().await?;
    let values = params![tenant.id(), &held.name, &held.owner, held.token.0, now, now.plus(duration)];
    let row = tx.first(RENEW, values).await?;
    row.map_or(Ok(RenewOutcome::Lost), |row| read(&row, now).map(RenewOutcome::Renewed))
}

async fn release(tx: &mut Tx, tenant: Tenant, held: &LeaseHold) -> Result<ReleaseOutcome> {
    let now = tx.now().await?;
    let values = params![tenant.id(), &held.name, &held.owner, held.token.0, now];
    let released = tx.execute(RELEASE, values).await? == 1;
    Ok(if released { ReleaseOutcome::Released } else { ReleaseOutcome::Lost })
}

async fn find(tx: &mut Tx, tenant: Tenant, name: &str, now: Timestamp) -> Result<Option<Lease>> {
    let row = tx.first(FIND, params![tenant.id(), name]).await?;
    row.map(|row| read(&row, now)).transpose()
}

fn read(row: &Row, now: Timestamp) -> Result<Lease> {
    Ok(Lease {
        name: row.text(0)?,
        owner: row.text(1)?,
        token: FencingToken(row.int(2)?),
        acquired_at: row.time(3)?,
        renewed_at: row.time(4)?,
        expires_at: row.time(5)?,
        released_at: row.maybe_time(6)?,
        now,
    })
}

/// The first token of a new row, above all that were deleted.
macro_rules! first_token {
    () => {
        "1 + coalesce((select f.token from punctual.lease_floor f where f.tenant_id = $1), 0)"
    };
}

statements! {
    /// The last column says that the row may be new: its token is the first one.
    const ACQUIRE = "
        insert into punctual.lease as l (
            tenant_id, name, owner, token, acquired_at, renewed_at, lease_until
        )
        values ($1, $2, $3, ", first_token!(), ", $4, $4, $5)
        on conflict (tenant_id, name)
        do update set owner = excluded.owner, token = l.token + 1, acquired_at = excluded.acquired_at,
            renewed_at = excluded.renewed_at, lease_until = excluded.lease_until, released_at = null
        where l.released_at is not null or l.lease_until <= $4
        returning ", columns!(), ", case when token = ", first_token!(), " then 1 else 0 end
    ";

    const RENEW = "
        update punctual.lease
        set renewed_at = $5, lease_until = $6
        where tenant_id = $1
            and name = $2
            and owner = $3
            and token = $4
            and released_at is null
            and lease_until > $5
        returning ", columns!();

    const RELEASE = "
        update punctual.lease
        set released_at = $5
        where tenant_id = $1
            and name = $2
            and owner = $3
            and token = $4
            and released_at is null
            and lease_until > $5
    ";

    const FIND = "
        select ", columns!(), "
        from punctual.lease
        where tenant_id = $1 and name = $2
    ";

    const LIST = "
        select ", columns!(), "
        from punctual.lease
        where tenant_id = $1 and name > $2
        order by name
        limit $3
    ";
}
