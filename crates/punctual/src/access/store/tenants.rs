//! Tenants: the only place that turns a slug into a [`Tenant`].

use crate::base::clock::Timestamp;
use crate::base::error::{Error, Problems, Result};
use crate::base::limits;
use crate::base::name::check_name;
use crate::base::tenant::Tenant;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::{Tx, VerbFuture};
use crate::database::value::{Row, params};

/// A tenant's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantRow {
    /// The tenant.
    pub tenant: Tenant,
    /// Its short name in requests.
    pub slug: String,
    /// Its name for people.
    pub name: String,
    /// Its time zone, an IANA name.
    pub time_zone: String,
    /// Its default language.
    pub default_locale: String,
    /// Since when it exists.
    pub created_at: Timestamp,
}

/// A tenant to be made.
#[derive(Clone, Debug, Default)]
pub struct NewTenant {
    /// Lower-case letters, digits and hyphens.
    pub slug: String,
    /// For people.
    pub name: String,
    /// An IANA name; UTC if absent.
    pub time_zone: Option<String>,
    /// A language tag; `en` if absent.
    pub default_locale: Option<String>,
}

impl NewTenant {
    fn check(&self) -> Result<()> {
        let mut problems = Problems::default();
        let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let ends = self.slug.starts_with('-') || self.slug.ends_with('-');
        let length = (1..=limits::SLUG_CHARS_MAX).contains(&self.slug.len());
        if !length || ends || !self.slug.chars().all(fine) {
            problems.push("slug", "must be 1 to 63 lower-case letters, digits or hyphens, such as `acme-eu`");
        }
        check_name(&self.name, "name", &mut problems);
        if let Some(zone) = &self.time_zone
            && jiff::tz::TimeZone::get(zone).is_err()
        {
            problems.push("timeZone", format!("`{zone}` is not an IANA time zone such as Europe/Berlin"));
        }
        let tag = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let fine = |l: &String| (2..=LOCALE_CHARS_MAX).contains(&l.len()) && l.chars().all(tag);
        if self.default_locale.as_ref().is_some_and(|l| !fine(l)) {
            problems.push("defaultLocale", "must be a language tag such as `de` or `pt-BR`");
        }
        problems.into_result()
    }
}

/// Language tags, in characters: the longest that BCP 47 requires implementations to accept.
const LOCALE_CHARS_MAX: usize = 35;

impl Store {
    /// Makes a tenant.
    ///
    /// # Errors
    /// [`Error::Conflict`] when the slug is taken.
    pub fn create_tenant(&self, new: NewTenant) -> VerbFuture<'_, TenantRow> {
        VerbFuture::new(async move {
            new.check()?;
            self.write(new, |tx, new| {
                Box::pin(async move {
                    let now = tx.now().await?;
                    let zone = new.time_zone.as_deref().unwrap_or("UTC");
                    let locale = new.default_locale.as_deref().unwrap_or("en");
                    let row = params![&new.slug, &new.name, zone, locale, now];
                    match tx.first(CREATE, row).await? {
                        Some(row) => read_tenant(&row),
                        None => Err(Error::Conflict(format!("there is a tenant `{}` already", new.slug))),
                    }
                })
            })
            .await
        })
    }

    /// One tenant by its id.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn tenant_by_id(&self, tenant: Tenant) -> VerbFuture<'_, Option<TenantRow>> {
        self.of(tenant).read(tenant, |tx, tenant| {
            Box::pin(async move {
                let row = tx.first(BY_ID, params![tenant.id()]).await?;
                row.as_ref().map(read_tenant).transpose()
            })
        })
    }

    /// The tenant of a slug.
    pub fn tenant(&self, slug: &str) -> VerbFuture<'_, Option<TenantRow>> {
        self.read(slug.to_owned(), |tx, slug| {
            Box::pin(
                async move { tx.first(BY_SLUG, params![slug]).await?.as_ref().map(read_tenant).transpose() },
            )
        })
    }

    /// All tenants after `after`, by number.
    pub fn tenants(&self, after: i64, limit: usize) -> VerbFuture<'_, Vec<TenantRow>> {
        self.read((after, limit), |tx, (after, limit)| {
            Box::pin(async move {
                let rows = tx.query(LIST, params![*after, i64::try_from(*limit).unwrap_or(0)]).await?;
                rows.iter().map(read_tenant).collect()
            })
        })
    }
}

/// The default locale and the time zone of a tenant.
///
/// # Errors
/// [`Error::NotFound`] when there is no such tenant.
pub(crate) async fn locale_and_zone(tx: &mut Tx, tenant: Tenant) -> Result<(String, String)> {
    let row = tx.first(BY_ID, params![tenant.id()]).await?;
    let row = row.ok_or_else(|| Error::NotFound("there is no such tenant".into()))?;
    let found = read_tenant(&row)?;
    Ok((found.default_locale, found.time_zone))
}

macro_rules! columns {
    () => {
        "id, slug, name, time_zone, default_locale, created_at"
    };
}

statements! {
    const CREATE = "
        insert into punctual.tenant (slug, name, time_zone, default_locale, created_at)
        values ($1, $2, $3, $4, $5)
        on conflict do nothing
        returning ", columns!();

    const BY_ID = "
        select ", columns!(), "
        from punctual.tenant
        where id = $1
    ";

    const BY_SLUG = "
        select ", columns!(), "
        from punctual.tenant
        where slug = $1
    ";

    const LIST = "
        select ", columns!(), "
        from punctual.tenant
        where id > $1
        order by id
        limit $2
    ";
}

fn read_tenant(row: &Row) -> Result<TenantRow> {
    Ok(TenantRow {
        tenant: Tenant::from_row(row.int(0)?),
        slug: row.text(1)?,
        name: row.text(2)?,
        time_zone: row.text(3)?,
        default_locale: row.text(4)?,
        created_at: row.time(5)?,
    })
}
