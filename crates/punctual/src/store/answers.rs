//! First answers to requests with an Idempotency-Key.
//!
//! A key is reserved before the request is carried out and filled with its answer
//! afterwards. A reservation that stays empty (a crash in between) can be taken over
//! after a while: the request is then carried out again, which is why ids of messages,
//! not this table, are what makes an enqueue happen once.

use super::Store;
use super::value::params;
use crate::base::tenant::Tenant;
use crate::store::tx::VerbFuture;
use std::time::Duration;

/// A reservation without an answer is given up after this long.
const RESERVED_FOR: Duration = Duration::from_secs(60);

/// What is known of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Nothing: it is now reserved, carry out the request.
    First,
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
    pub fn reserve_answer(&self, tenant: Tenant, key: &str, digest: &str) -> VerbFuture<'_, Asked> {
        let request = (tenant, key.to_owned(), digest.to_owned());
        self.of(tenant).write(request, |tx, (tenant, key, digest)| {
            Box::pin(async move {
                let now = tx.now().await?;
                let stale = now.minus(RESERVED_FOR);
                if tx.execute(RESERVE, params![tenant.id(), key, digest, now, stale]).await? == 1 {
                    return Ok(Asked::First);
                }
                let Some(row) = tx.first(FIND, params![tenant.id(), key]).await? else {
                    return Ok(Asked::Running);
                };
                if row.text(0)? != *digest {
                    return Ok(Asked::Other);
                }
                Ok(match row.maybe_int(1)? {
                    None => Asked::Running,
                    Some(status) => Asked::Answered {
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
        self.of(tenant).write((tenant, key.to_owned()), |tx, (tenant, key)| {
            Box::pin(async move {
                tx.execute(FREE, params![tenant.id(), key]).await?;
                Ok(())
            })
        })
    }
}

const RESERVE: &str = "insert into punctual.answer as a (tenant_id, idempotency_key, digest, asked_at) \
    values ($1, $2, $3, $4) on conflict (tenant_id, idempotency_key) do update \
    set asked_at = excluded.asked_at, digest = excluded.digest where a.status is null and a.asked_at < $5";
const FIND: &str = "select digest, status, body from punctual.answer \
    where tenant_id = $1 and idempotency_key = $2";
const KEEP: &str = "update punctual.answer set status = $3, body = $4 \
    where tenant_id = $1 and idempotency_key = $2";
const FREE: &str = "delete from punctual.answer \
    where tenant_id = $1 and idempotency_key = $2 and status is null";
