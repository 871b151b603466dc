//! How commands reach the database.

use super::Everywhere;
use super::failure::{Failure, Outcome};
use crate::config::{DATABASE_DEFAULT, channels_of};
use punctual::engine::Builder;
use punctual::{ClockMode, Component, Engine, Error, Store, Tenant};

/// A command needs few connections.
const POOL_SIZE: usize = 2;

impl Everywhere {
    /// The database's URL.
    pub(super) fn url(&self) -> &str {
        self.database.as_deref().unwrap_or(DATABASE_DEFAULT)
    }

    /// The database as it is: it must be there, and nothing about it is changed.
    pub(super) fn existing(&self) -> Outcome<Store> {
        self.must_exist()?;
        Ok(Store::open(self.url(), POOL_SIZE)?)
    }

    /// The database with a schema that fits, on whatever clock it is.
    pub(super) async fn store(&self) -> Outcome<Store> {
        let store = self.existing()?;
        store.check_schema().await?;
        keep_clock(&store).await?;
        Ok(store)
    }

    /// An engine without loops, on a schema that fits; for commands that write messages.
    pub(super) async fn engine(&self) -> Outcome<Engine> {
        Ok(self.builder().await?.0.open().await?)
    }

    /// The same with the channels and the address of the configuration file, as the server with that file has
    /// them; for commands that say what is sent.
    pub(super) async fn engine_with_channels(&self) -> Outcome<Engine> {
        let (mut builder, clock) = self.builder().await?;
        if let Some((channels, url)) = self.config.as_deref().map(channels_of).transpose()? {
            builder = channels.add_to(builder, clock, false);
            if let Some(url) = url {
                builder = builder.survey_url(format!("{url}/s/{{publicId}}"));
                builder = builder.unsubscribe_url(format!("{url}/u/{{token}}"));
            }
        }
        Ok(builder.open().await?)
    }

    async fn builder(&self) -> Outcome<(Builder, ClockMode)> {
        let store = self.existing()?;
        store.check_schema().await?;
        let clock = keep_clock(&store).await?;
        // A database of single components is used as it is, and not waited for.
        let there: Vec<Component> = store.components().await?.iter().collect();
        let builder = Engine::builder(self.url()).pool_size(POOL_SIZE).without_migrations();
        Ok((builder.components(&there).clock(clock), clock))
    }

    /// A misspelt path must not become a new, empty database.
    fn must_exist(&self) -> Outcome {
        let Some(path) = self.url().strip_prefix("sqlite:").map(|path| path.trim_start_matches("//")) else {
            return Ok(());
        };
        if path.is_empty() || path == ":memory:" || std::path::Path::new(path).exists() {
            return Ok(());
        }
        Err(Failure::unreachable(format!(
            "there is no database {path}; `punctual serve` or `punctual migrate` makes one, \
             --database names another"
        )))
    }
}

/// A command goes by the clock the database is on; only `serve` chooses.
async fn keep_clock(store: &Store) -> Outcome<ClockMode> {
    match store.use_clock(ClockMode::System, false).await {
        Ok(()) => Ok(ClockMode::System),
        // The one refusal there is: the database is on a manual clock.
        Err(Error::Config(_)) => {
            store.use_clock(ClockMode::Manual, false).await?;
            Ok(ClockMode::Manual)
        }
        Err(other) => Err(other.into()),
    }
}

/// Which tenant a command is about.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct OfTenant {
    /// The tenant, by its slug
    #[arg(long, value_name = "SLUG", default_value = Tenant::DEFAULT_SLUG)]
    tenant: String,
}

impl OfTenant {
    /// Looks the tenant up.
    pub(super) async fn find(&self, store: &Store) -> Outcome<Tenant> {
        let row = store.tenant(&self.tenant).await?;
        row.map(|row| row.tenant).ok_or_else(|| {
            Failure::failed(format!("there is no tenant `{}`; see `punctual tenants list`", self.tenant))
        })
    }
}
