//! Retention of leases: rows that ended long ago are deleted, and fencing tokens grow all the same.
//!
//! The greatest deleted token of a tenant is kept as a floor, one row for each tenant, and the first token of
//! a new row is above it. A row is deleted only if the floor covers its token. On PostgreSQL an acquisition
//! that waited for the deletion of its row has read the floor before it rose: it compares once more, after
//! its own row is written.

use super::columns;
use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::limits;
use crate::base::tenant::Tenant;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::{Tx, VerbFuture};
use crate::database::value::{Row, params};
use std::time::Duration;

impl Store {
    /// Deletes a bounded number of leases that ended longer ago than `kept_for`; returns how many.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn prune_leases(&self, kept_for: Duration) -> VerbFuture<'_, u64> {
        self.write(kept_for, |tx, kept_for| {
            Box::pin(async move {
                let before = tx.now().await?.minus(*kept_for);
                prune(tx, before).await
            })
        })
    }
}

async fn prune(tx: &mut Tx, before: Timestamp) -> Result<u64> {
    let limit = i64::try_from(limits::PRUNE_ROWS).unwrap_or(1_000);
    if tx.execute(RAISE_FLOORS, params![before, limit]).await? == 0 {
        return Ok(0);
    }
    tx.execute(DELETE, params![before, limit]).await
}

/// Raises the token of a lease that was acquired beside a deletion above the floor; returns its row if it was
/// too small.
pub(super) async fn raise_token(tx: &mut Tx, tenant: Tenant, name: &str) -> Result<Option<Row>> {
    tx.first(RAISE_TOKEN, params![tenant.id(), name]).await
}

/// An acquired lease that is held for months stays at the front of this list, and no other row does.
macro_rules! ended {
    () => {
        "
        from punctual.lease l
        where l.acquired_at < $1 and l.lease_until < $1
        order by l.acquired_at, l.tenant_id, l.name
        limit $2
        "
    };
}

statements! {
    const RAISE_FLOORS = "
        insert into punctual.lease_floor as f (tenant_id, token)
        select e.tenant_id, max(e.token)
        from (select l.tenant_id, l.token ", ended!(), ") e
        where true
        group by e.tenant_id
        order by e.tenant_id
        on conflict (tenant_id)
        do update set token = case when excluded.token > f.token then excluded.token else f.token end
    ";

    /// A row that another transaction acquires at this moment is skipped, or asked again when it is locked.
    const DELETE = "
        delete from punctual.lease as d
        where (tenant_id, name) in (select l.tenant_id, l.name ", ended!(), " for update skip locked)
            and lease_until < $1
            and token <= (select f.token from punctual.lease_floor f where f.tenant_id = d.tenant_id)
    ";

    const RAISE_TOKEN = "
        update punctual.lease
        set token = 1 + (select f.token from punctual.lease_floor f where f.tenant_id = $1)
        where tenant_id = $1
            and name = $2
            and token <= (select f.token from punctual.lease_floor f where f.tenant_id = $1)
        returning ", columns!();
}
