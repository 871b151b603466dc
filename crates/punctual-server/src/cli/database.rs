//! Access of commands to the database.

use super::GlobalOptions;
use super::failure::{CommandFailure, Outcome};
use crate::config::{DATABASE_DEFAULT, Flags, channels, inbox_stuck_after_of, survey_url_of};
use clap::Parser;
use punctual::engine::Builder;
use punctual::{ClockMode, Component, Engine, Error, Store, Tenant};
use std::time::Duration;

/// The pool size of a command.
const POOL_SIZE: usize = 2;

impl GlobalOptions {
    /// The database's URL.
    pub(super) fn url(&self) -> &str {
        self.database.as_deref().unwrap_or(DATABASE_DEFAULT)
    }

    /// Opens an existing database without changing it.
    pub(super) fn existing(&self) -> Outcome<Store> {
        self.must_exist()?;
        Ok(Store::open(self.url(), POOL_SIZE)?)
    }

    /// Opens the database with a fitting schema, on its own clock.
    pub(super) async fn store(&self) -> Outcome<Store> {
        let store = self.existing()?;
        store.check_schema().await?;
        keep_clock(&store).await?;
        Ok(store)
    }

    /// Opens an engine without loops, with a fitting schema; for commands that write messages.
    pub(super) async fn engine(&self) -> Outcome<Engine> {
        let store = self.existing()?;
        store.check_schema().await?;
        let clock = keep_clock(&store).await?;
        Ok(self.builder(&store, clock).await?.open().await?)
    }

    /// Opens an engine that forecasts what a server with the same settings would do. It knows only the names
    /// of the channels, so it needs none of their secrets, and it sends nothing.
    pub(super) async fn forecaster(&self) -> Outcome<Engine> {
        let store = self.existing()?;
        store.check_schema().await?;
        let clock = keep_clock(&store).await?;
        let policies = channels::policies(&self.file.channels)?;
        let keys: Vec<String> = policies.keys().cloned().collect();
        let mut builder = self.builder(&store, clock).await?;
        if let Some(sandbox) = channels::sandbox(&keys, clock, false) {
            builder = builder.sandbox(sandbox);
        }
        for (key, policy) in policies {
            builder = builder.channel_policy(&key, policy);
        }
        Ok(builder.open().await?)
    }

    async fn builder(&self, store: &Store, clock: ClockMode) -> Outcome<Builder> {
        // A database of single components is used as it is, and not waited for.
        let there: Vec<Component> = store.components().await?.iter().collect();
        let builder = Engine::builder(self.url()).pool_size(POOL_SIZE).without_migrations();
        let builder = builder.components(&there).clock(clock);
        if !there.contains(&Component::Flows) {
            return Ok(builder);
        }
        let survey_url = survey_url_of(&Self::environment()?, &self.file)?;
        let own = survey_url.strip_suffix("/s/{publicId}").map(str::to_owned);
        let builder = builder.survey_url(survey_url);
        Ok(match own {
            Some(own) => builder.unsubscribe_url(format!("{own}/u/{{token}}")),
            None => builder,
        })
    }

    /// Returns the time past its lease after which a received message is stuck.
    pub(super) fn inbox_stuck_after(&self) -> Outcome<Duration> {
        inbox_stuck_after_of(&Self::environment()?, &self.file)
    }

    /// Returns the server settings from the environment, for commands without these flags.
    fn environment() -> Outcome<Flags> {
        let parsed = Environment::try_parse_from(["punctual"]);
        parsed.map(|environment| environment.flags).map_err(|error| {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            CommandFailure::usage(first.trim_start_matches("error: "))
        })
    }

    /// Refuses a missing file: a misspelt path must not create a new, empty database.
    fn must_exist(&self) -> Outcome {
        let Some(path) = self.url().strip_prefix("sqlite:").map(|path| path.trim_start_matches("//")) else {
            return Ok(());
        };
        if path.is_empty() || path == ":memory:" || std::path::Path::new(path).exists() {
            return Ok(());
        }
        Err(CommandFailure::unreachable(format!(
            "there is no database {path}; `punctual serve` or `punctual migrate` makes one, \
             --database names another"
        )))
    }
}

/// The environment alone.
#[derive(Debug, clap::Parser)]
struct Environment {
    #[command(flatten)]
    flags: Flags,
}

/// Returns the clock of the database; only `serve` chooses one.
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

/// The tenant of a command.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct TenantOption {
    /// The tenant, by its slug
    #[arg(long, value_name = "SLUG", default_value = Tenant::DEFAULT_SLUG)]
    tenant: String,
}

impl TenantOption {
    /// Looks the tenant up.
    pub(super) async fn find(&self, store: &Store) -> Outcome<Tenant> {
        let row = store.tenant(&self.tenant).await?;
        row.map(|row| row.tenant).ok_or_else(|| {
            CommandFailure::failed(format!(
                "there is no tenant `{}`; see `punctual tenants list`",
                self.tenant
            ))
        })
    }
}
