//! API keys: only a digest of the secret is kept.

use crate::base::clock::Timestamp;
use crate::base::digest;
use crate::base::error::{Error, Problems, Result};
use crate::base::id::KeyId;
use crate::base::name::check_name;
use crate::base::random;
use crate::base::tenant::Tenant;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::VerbFuture;
use crate::database::value::{Row, params};

/// The role of a key; from the viewer on, each role includes the rights of those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Reads the metrics of all tenants, and nothing else.
    Metrics,
    /// Reads, with personal data masked.
    Viewer,
    /// Also replays, holds, cancels.
    Support,
    /// Also edits definitions.
    Author,
    /// Also keys, users, tenant settings.
    Admin,
    /// Across tenants.
    Ops,
}

impl Role {
    /// All roles, with their words.
    pub const ALL: [(Self, &'static str); 6] = [
        (Self::Metrics, "metrics"),
        (Self::Viewer, "viewer"),
        (Self::Support, "support"),
        (Self::Author, "author"),
        (Self::Admin, "admin"),
        (Self::Ops, "ops"),
    ];

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(role, _)| *role == self).map_or("viewer", |(_, word)| word)
    }

    /// Whether a key of this role may make and revoke keys of the other. Metrics are those of all tenants, so
    /// only operators hand out keys for them.
    #[must_use]
    pub fn can_manage(self, other: Self) -> bool {
        other <= self && (other != Self::Metrics || self == Self::Ops)
    }

    /// The role of a word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, w)| *w == word).map(|(role, _)| *role)
    }
}

/// A key's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// Its id.
    pub id: KeyId,
    /// The tenant of the key.
    pub tenant: Tenant,
    /// Its name; also the default source of what it publishes.
    pub name: String,
    /// The role of the key.
    pub role: Role,
    /// The first characters of the secret, to recognise it by.
    pub prefix: String,
    /// Since when it exists.
    pub created_at: Timestamp,
    /// Until when it works.
    pub expires_at: Option<Timestamp>,
}

/// The outcome of a revocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevokeOutcome {
    /// The key no longer works.
    Revoked,
    /// The tenant has no such key, or it is revoked already.
    NotFound,
    /// The key has this role, which the caller may not manage.
    AboveCaller(Role),
}

/// Characters of a secret that may be shown.
const PREFIX_CHARS: usize = 12;

impl Store {
    /// Makes a key; the secret is returned once and never kept.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a bad name or an end in the past.
    pub fn create_key<'a>(
        &'a self,
        tenant: Tenant,
        name: &'a str,
        role: Role,
        expires_at: Option<Timestamp>,
    ) -> VerbFuture<'a, (ApiKey, String)> {
        VerbFuture::new(async move {
            let mut problems = Problems::default();
            check_name(name, "name", &mut problems);
            problems.into_result()?;
            let secret = format!("pk_{}", random::hex::<32>());
            let request = (tenant, name.to_owned(), role, expires_at, secret.clone());
            let key = self
                .of(tenant)
                .write(request, |tx, (tenant, name, role, expires_at, secret)| {
                    Box::pin(async move {
                        let now = tx.now().await?;
                        if expires_at.is_some_and(|end| end <= now) {
                            return Err(Error::invalid("expiresAt", "must lie in the future"));
                        }
                        let digest = digest::of([secret.as_bytes()]);
                        let prefix = &secret[..PREFIX_CHARS];
                        let end = expires_at.map(Timestamp::as_micros);
                        let row = params![tenant.id(), name, role.word(), prefix, &digest, now, end];
                        let row = tx.first(CREATE, row).await?;
                        row.as_ref()
                            .map(read_key)
                            .transpose()?
                            .ok_or_else(|| Error::Conflict("try again".into()))
                    })
                })
                .await?;
            Ok((key, secret))
        })
    }

    /// The key of a secret, if it works at this moment.
    pub fn key_of_secret(&self, secret: &str) -> VerbFuture<'_, Option<ApiKey>> {
        let digest = digest::of([secret.as_bytes()]);
        self.read(digest, |tx, digest| {
            Box::pin(async move {
                let now = tx.now().await?;
                tx.first(BY_DIGEST, params![digest, now]).await?.as_ref().map(read_key).transpose()
            })
        })
    }

    /// A tenant's keys that are not revoked, after `after`.
    pub fn keys(&self, tenant: Tenant, after: KeyId, limit: usize) -> VerbFuture<'_, Vec<ApiKey>> {
        self.of(tenant).read((tenant, after, limit), |tx, (tenant, after, limit)| {
            Box::pin(async move {
                let limit = i64::try_from(*limit).unwrap_or(0);
                let rows = tx.query(LIST, params![tenant.id(), after.0, limit]).await?;
                rows.iter().map(read_key).collect()
            })
        })
    }

    /// Revokes a key at once, unless `by`, the role of the caller, may not manage its role.
    pub fn revoke_key(&self, tenant: Tenant, id: KeyId, by: Role) -> VerbFuture<'_, RevokeOutcome> {
        self.of(tenant).write((tenant, id, by), |tx, (tenant, id, by)| {
            Box::pin(async move {
                let Some(row) = tx.first(ONE, params![tenant.id(), id.0]).await? else {
                    return Ok(RevokeOutcome::NotFound);
                };
                let role = read_key(&row)?.role;
                if !by.can_manage(role) {
                    return Ok(RevokeOutcome::AboveCaller(role));
                }
                let now = tx.now().await?;
                let revoked = tx.execute(REVOKE, params![tenant.id(), id.0, now]).await? == 1;
                Ok(if revoked { RevokeOutcome::Revoked } else { RevokeOutcome::NotFound })
            })
        })
    }
}

macro_rules! columns {
    () => {
        "id, tenant_id, name, role, prefix, created_at, expires_at"
    };
}

statements! {
    const CREATE = "
        insert into punctual.api_key (tenant_id, name, role, prefix, digest, created_at, expires_at)
        values ($1, $2, $3, $4, $5, $6, $7)
        on conflict do nothing
        returning ", columns!();

    const BY_DIGEST = "
        select ", columns!(), "
        from punctual.api_key
        where digest = $1 and revoked_at is null and (expires_at is null or expires_at > $2)
    ";

    const LIST = "
        select ", columns!(), "
        from punctual.api_key
        where tenant_id = $1 and id > $2 and revoked_at is null
        order by id
        limit $3
    ";

    const ONE = "
        select ", columns!(), "
        from punctual.api_key
        where tenant_id = $1 and id = $2 and revoked_at is null
    ";

    const REVOKE = "
        update punctual.api_key
        set revoked_at = $3
        where tenant_id = $1 and id = $2 and revoked_at is null
    ";
}

fn read_key(row: &Row) -> Result<ApiKey> {
    let role = row.text(3)?;
    Ok(ApiKey {
        id: KeyId(row.int(0)?),
        tenant: Tenant::from_row(row.int(1)?),
        name: row.text(2)?,
        role: Role::from_word(&role).unwrap_or(Role::Viewer),
        prefix: row.text(4)?,
        created_at: row.time(5)?,
        expires_at: row.maybe_time(6)?,
    })
}
