//! First answers to requests with an Idempotency-Key.
//!
//! A key is reserved before the request is carried out and filled with its answer
//! afterwards. A reservation that stays empty (a crash in between, or a commit whose outcome is unknown) can
//! be taken over by the same request: that is then carried out again under the same token, from which its
//! messages have their ids, so that they are written once.

use crate::base::random;
use crate::base::tenant::Tenant;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::VerbFuture;
use crate::database::value::params;
use std::time::Duration;

/// A reservation without an answer is given up after this long.
const RESERVED_FOR: Duration = Duration::from_secs(60);

/// The state of an idempotency key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdempotencyStatus {
    /// Nothing, or the same request, whose outcome is unknown: carry out the request.
    First {
        /// Names the request in the ids of what it writes; the same until its outcome is known.
        token: String,
    },
    /// The same request was answered with this.
    Answered {
        /// The HTTP status.
        status: u16,
        /// The body.
        body: String,
    },
    /// The same request is being carried out.
    Running,
    /// Another request used this key.
    Other,
}

impl Store {
    /// Reserves a key for a request with this digest.
    pub fn reserve_answer(
        &self,
        tenant: Tenant,
        key: &str,
        digest: &str,
    ) -> VerbFuture<'_, IdempotencyStatus> {
        let request = (tenant, key.to_owned(), digest.to_owned());
        self.of(tenant).write(request, |tx, (tenant, key, digest)| {
            Box::pin(async move {
                let now = tx.now().await?;
                let stale = now.minus(RESERVED_FOR);
                let token = random::hex::<16>();
                let reservation = params![tenant.id(), key, digest, now, stale, &token];
                if let Some(row) = tx.first(RESERVE, reservation).await? {
                    return Ok(IdempotencyStatus::First { token: row.text(0)? });
                }
                let Some(row) = tx.first(FIND, params![tenant.id(), key]).await? else {
                    return Ok(IdempotencyStatus::Running);
                };
                if row.text(0)? != *digest {
                    return Ok(IdempotencyStatus::Other);
                }
                Ok(match row.maybe_int(1)? {
                    None => IdempotencyStatus::Running,
                    Some(status) => IdempotencyStatus::Answered {
                        status: u16::try_from(status).unwrap_or(200),
                        body: row.maybe_text(2)?.unwrap_or_default(),
                    },
                })
            })
        })
    }

    /// Keeps the answer to a reserved key.
    pub fn keep_answer(&self, tenant: Tenant, key: &str, status: u16, body: &str) -> VerbFuture<'_, ()> {
        let request = (tenant, key.to_owned(), status, body.to_owned());
        self.of(tenant).write(request, |tx, (tenant, key, status, body)| {
            Box::pin(async move {
                tx.execute(KEEP, params![tenant.id(), key, i64::from(*status), body]).await?;
                Ok(())
            })
        })
    }

    /// Gives a reservation back: the request was not carried out.
    pub fn free_answer(&self, tenant: Tenant, key: &str) -> VerbFuture<'_, ()> {
        self.execute_on_answer(FREE, tenant, key)
    }

    /// Leaves a reservation to the same request, which may be carried out again at once: whether it was
    /// carried out is unknown.
    pub fn suspend_answer(&self, tenant: Tenant, key: &str) -> VerbFuture<'_, ()> {
        self.execute_on_answer(SUSPEND, tenant, key)
    }

    fn execute_on_answer(&self, sql: &'static str, tenant: Tenant, key: &str) -> VerbFuture<'_, ()> {
        self.of(tenant).write((sql, tenant, key.to_owned()), |tx, (sql, tenant, key)| {
            Box::pin(async move {
                tx.execute(sql, params![tenant.id(), key]).await?;
                Ok(())
            })
        })
    }
}

statements! {
    const RESERVE = "
        insert into punctual.answer as a (tenant_id, idempotency_key, digest, asked_at, token)
        values ($1, $2, $3, $4, $6)
        on conflict (tenant_id, idempotency_key)
        do update set asked_at = excluded.asked_at, suspended = 0
        where a.status is null and a.digest = excluded.digest and (a.suspended = 1 or a.asked_at < $5)
        returning token
    ";

    const SUSPEND = "
        update punctual.answer
        set suspended = 1
        where tenant_id = $1 and idempotency_key = $2 and status is null
    ";

    const FIND = "
        select digest, status, body
        from punctual.answer
        where tenant_id = $1 and idempotency_key = $2
    ";

    const KEEP = "
        update punctual.answer
        set status = $3, body = $4
        where tenant_id = $1 and idempotency_key = $2
    ";

    const FREE = "
        delete from punctual.answer
        where tenant_id = $1 and idempotency_key = $2 and status is null
    ";
}
