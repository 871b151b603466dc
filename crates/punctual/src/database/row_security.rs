//! Row security between tenants, the second protection.
//!
//! The first one is that every statement names its tenant, and that a verb without a [`Tenant`] does not
//! compile. The second one is PostgreSQL's row-level security: the transaction of a verb that is for one
//! tenant runs as a role that sees that tenant's rows and no others, so a statement with a forgotten
//! condition shows and changes no rows of another tenant. The tenant travels with `BEGIN`, without a round
//! trip of its own. Where the role is not available, verbs run without row security, and
//! [`Store::check_row_security`] says so.
//!
//! Not promised: row security for transactions that serve no single tenant. Loops work for all tenants, and
//! so do verbs that begin with a secret (a key, a link, a claim's token) or with the lane of one tenant:
//! claims, settlements. Plain enqueues are one statement without a transaction, which inserts for the
//! tenant it is given. SQLite has only the first protection. ADR 18 gives the reasons.

use crate::base::error::Result;
use crate::base::tenant::Tenant;
use crate::database::dialect::Dialect;
use crate::database::statement::statements;
use crate::database::store::{Store, TransactionKind};
use crate::database::tx::{Tx, TxFuture, Verb, VerbCall, VerbFuture};

/// A store whose verbs are one tenant's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TenantStore<'s> {
    store: &'s Store,
    tenant: Tenant,
}

impl Store {
    /// Returns the store for verbs of one tenant.
    pub(crate) const fn of(&self, tenant: Tenant) -> TenantStore<'_> {
        TenantStore { store: self, tenant }
    }

    /// Returns whether row security is active for this connection's role; `None` on SQLite.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn check_row_security(&self) -> VerbFuture<'_, Option<bool>> {
        VerbFuture::new(async move {
            if self.dialect() == Dialect::Sqlite {
                return Ok(None);
            }
            let active = self.of(Tenant::DEFAULT).read((), |tx, ()| {
                Box::pin(async move {
                    let row = tx.first(STANDS, &[]).await?;
                    row.map_or(Ok(false), |row| row.flag(0))
                })
            });
            active.await.map(Some)
        })
    }

    /// Checks whether row security can be active from now on.
    pub(crate) async fn refresh_row_security(&self) -> Result<()> {
        match &self.backend {
            #[cfg(feature = "postgres")]
            super::store::Backend::Postgres(db) => db.refresh_row_security().await,
            #[allow(unreachable_patterns, reason = "reachable with other features")]
            _ => Ok(()),
        }
    }

    /// Runs a statement as a tenant's verb would, for tests that omit a condition.
    ///
    /// # Errors
    /// When the database refuses it.
    #[cfg(feature = "testing")]
    pub fn execute_as(&self, tenant: Tenant, sql: &'static str) -> VerbFuture<'_, u64> {
        self.of(tenant).write(sql, |tx, sql| Box::pin(async move { tx.execute(sql, &[]).await }))
    }
}

impl<'s> TenantStore<'s> {
    /// Runs a verb in one writing transaction.
    #[cfg_attr(feature = "testing", track_caller)]
    pub(crate) fn write<R, T>(self, request: R, verb: Verb<R, T>) -> VerbFuture<'s, T>
    where
        R: Send + Sync + 'static,
        T: Send + 'static,
    {
        VerbFuture::from_call(self.carry(
            VerbCall::new(request, verb, self.store.fault, self.store.parts.clone()),
            TransactionKind::Write,
        ))
    }

    /// Runs a verb that only reads.
    #[cfg_attr(feature = "testing", track_caller)]
    pub(crate) fn read<R, T>(self, request: R, verb: Verb<R, T>) -> VerbFuture<'s, T>
    where
        R: Send + Sync + 'static,
        T: Send + 'static,
    {
        VerbFuture::from_call(self.carry(
            VerbCall::new(request, verb, self.store.fault, self.store.parts.clone()),
            TransactionKind::Read,
        ))
    }

    fn carry(self, mut call: VerbCall, kind: TransactionKind) -> TxFuture<'s, VerbCall> {
        call.tenant = Some(self.tenant);
        self.store.carry(call, kind)
    }
}

statements! {
    /// Printed migrations end with it, too.
    pub(crate) const RAISE for Postgres = "
        select punctual.raise_wall()
    ";

    const STANDS for Postgres = "
        select (current_user = 'punctual_tenant' and row_security_active('punctual.tenant'))::int
    ";
}

/// Makes the role ready, as far as this connection's may; on PostgreSQL only.
pub(crate) async fn raise(tx: &mut Tx) -> Result<()> {
    tx.query(RAISE, &[]).await?;
    Ok(())
}
