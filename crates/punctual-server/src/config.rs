//! Settings: a flag goes before the environment, that before the file, that before the
//! default.
//!
//! The file is TOML. A key that nobody knows is refused with the nearest one that somebody
//! does: a setting that is silently ignored is worse than a server that does not start.

pub mod channels;
mod encryption_key;
mod file;
mod retention;
mod root_key;
mod shown;

pub use file::{CONNECTION_KEYS, ConnectionsFile, File, KEYS, PUBLIC_KEYS, PublicFile};
pub use root_key::{ROOT_KEY_CHARS_MIN, decide as root_key};
pub use shown::{SettingView, Sources, show};

use crate::app::{Exposure, Role};
use crate::cli::failure::{CommandFailure, Outcome};
use crate::http::host::is_loopback;
use crate::http::public::visitor::REQUESTS_PER_MINUTE_DEFAULT;
use clap::ValueEnum;
use punctual::ClockMode;
use punctual::base::duration;
use punctual::base::limits::SCHEMA_PATIENCE;
use punctual::base::sealing::EncryptionKeys;
use punctual::operate::run::prune::RetentionSettings;
use punctual::queue::run::inbox::InboxSettings;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The default database.
pub const DATABASE_DEFAULT: &str = "sqlite:punctual.db";
/// The default listening address.
pub const LISTEN_DEFAULT: &str = "127.0.0.1:8080";
/// The default limit of a stop.
pub const STOP_LIMIT_DEFAULT: Duration = Duration::from_secs(10);
/// The default number of connections to PostgreSQL.
pub const POOL_SIZE_DEFAULT: usize = 8;

/// Settings of a server as flags and environment give them.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Flags {
    /// Address and port to listen on; port 0 takes a free one [default: 127.0.0.1:8080]
    #[arg(long, env = "PUNCTUAL_LISTEN", value_name = "ADDR")]
    pub listen: Option<String>,
    /// Role of this process [default: all]
    #[arg(long, env = "PUNCTUAL_ROLE")]
    pub role: Option<Role>,
    /// Clock source; `manual` is for tests and staging [default: system]
    #[arg(long, env = "PUNCTUAL_CLOCK")]
    pub clock: Option<Clock>,
    /// Continue with the system clock on a database that ran on a manual one
    #[arg(long)]
    pub leave_manual_clock: bool,
    /// Migrate the schema at start [default: true]
    #[arg(long, env = "PUNCTUAL_MIGRATE", value_name = "BOOL")]
    pub migrate: Option<bool>,
    /// Time to wait for another process to migrate, if this one does not [default: 5m]
    #[arg(long, env = "PUNCTUAL_SCHEMA_WAIT", value_name = "DURATION")]
    pub schema_wait: Option<String>,
    /// Time limit of a stop before running work is handed back [default: 10s]
    #[arg(long, env = "PUNCTUAL_STOP_LIMIT", value_name = "DURATION")]
    pub stop_limit: Option<String>,
    /// Retention of finished messages [default: 30d]
    #[arg(long, env = "PUNCTUAL_RETENTION", value_name = "DURATION")]
    pub retention: Option<String>,
    /// Retention of the communication log [default: 400d]
    #[arg(long, env = "PUNCTUAL_LOG_RETENTION", value_name = "DURATION")]
    pub log_retention: Option<String>,
    /// Retention of surveys with their answers, after their last event [default: 400d]
    #[arg(long, env = "PUNCTUAL_SURVEY_RETENTION", value_name = "DURATION")]
    pub survey_retention: Option<String>,
    /// Retention of job runs, after their end [default: 30d]
    #[arg(long, env = "PUNCTUAL_RUN_RETENTION", value_name = "DURATION")]
    pub run_retention: Option<String>,
    /// Retention of leases, after their end [default: 30d]
    #[arg(long, env = "PUNCTUAL_LEASE_RETENTION", value_name = "DURATION")]
    pub lease_retention: Option<String>,
    /// Retention of message ids, within which each is admitted once [default: 800d]
    #[arg(long, env = "PUNCTUAL_MESSAGE_ID_RETENTION", value_name = "DURATION")]
    pub message_id_retention: Option<String>,
    /// Retention of processed and failed messages in the inbox [default: 30d]
    #[arg(long, env = "PUNCTUAL_INBOX_RETENTION", value_name = "DURATION")]
    pub inbox_retention: Option<String>,
    /// Time past its lease after which a received message is stuck [default: 1h]
    #[arg(long, env = "PUNCTUAL_INBOX_STUCK_AFTER", value_name = "DURATION")]
    pub inbox_stuck_after: Option<String>,
    /// Interval of cleaning and checking the inbox [default: 6h]
    #[arg(long, env = "PUNCTUAL_INBOX_EVERY", value_name = "DURATION")]
    pub inbox_every: Option<String>,
    /// Connections to PostgreSQL [default: 8]
    #[arg(long, env = "PUNCTUAL_POOL_SIZE", value_name = "N")]
    pub pool_size: Option<usize>,
    /// Link of invitations, with {publicId} in it [default: this server's address]
    #[arg(long, env = "PUNCTUAL_SURVEY_URL", value_name = "URL")]
    pub survey_url: Option<String>,
    /// Format of log lines, on stderr [default: text]
    #[arg(long, env = "PUNCTUAL_LOG_FORMAT", value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
}

/// The clock source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// The system clock.
    System,
    /// A clock that stands still until it is moved.
    Manual,
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Settings of a server, all decided.
#[derive(Clone, Debug)]
pub struct Config {
    /// The database's URL.
    pub database: String,
    /// Where to listen.
    pub listen: SocketAddr,
    /// What this process does.
    pub role: Role,
    /// Whose hand moves time.
    pub clock: ClockMode,
    /// Whether a database on a manual clock may go on with the system's.
    pub leave_manual_clock: bool,
    /// Whether the schema is brought up to date at start.
    pub migrate: bool,
    /// How long to wait for another process to bring the schema up to date.
    pub schema_wait: Duration,
    /// How long a stop may take.
    pub stop_limit: Duration,
    /// How long each sort of history is kept.
    pub retention: RetentionSettings,
    /// How the inbox is kept.
    pub inbox: InboxSettings,
    /// Connections to PostgreSQL.
    pub pool_size: usize,
    /// How log lines are written.
    pub log_format: LogFormat,
    /// A key with all rights in all tenants.
    pub root_key: Option<String>,
    /// The keys that seal secrets in the database.
    pub encryption_keys: EncryptionKeys,
    /// The link to a survey, with `{publicId}` in it; this server's own address if `None`.
    pub survey_url: Option<String>,
    /// Ways to reach people.
    pub channels: channels::Channels,
    /// What needs no key.
    pub public: PublicConfig,
    /// How many connections there may be; what it leaves out follows the descriptors that the process may
    /// have.
    pub connections: ConnectionsFile,
}

/// Settings of what needs no key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicConfig {
    /// Public requests from one address.
    pub requests_per_minute: u32,
    /// Whether a proxy of ours writes `X-Forwarded-For`.
    pub trust_forwarded_for: bool,
    /// The address under which the world reaches this server, without a slash at its end.
    pub url: Option<String>,
}

impl PublicConfig {
    fn decide(file: Option<PublicFile>) -> Outcome<Self> {
        let file = file.unwrap_or_default();
        let requests_per_minute = file.requests_per_minute.unwrap_or(REQUESTS_PER_MINUTE_DEFAULT);
        if requests_per_minute == 0 {
            let said = "public.requests_per_minute is 0, which refuses all; give a large number for no limit";
            return Err(CommandFailure::usage(said));
        }
        let url = file.url.map(|url| url.trim_end_matches('/').to_owned());
        if let Some(url) = url.as_ref().filter(|url| !is_address(url)) {
            let said =
                format!("public.url is `{url}`, but must be an address such as https://notify.example.com");
            return Err(CommandFailure::usage(said));
        }
        let trust_forwarded_for = file.trust_forwarded_for.unwrap_or(false);
        Ok(Self { requests_per_minute, trust_forwarded_for, url })
    }
}

impl Config {
    /// Decides every setting; `file` is the settings file with its path.
    ///
    /// # Errors
    /// One sentence about the first setting that cannot be used.
    pub fn decide(database: Option<String>, flags: Flags, file: (Option<&Path>, File)) -> Outcome<Self> {
        let encryption_keys = encryption_key::decide()?;
        let folder = file.0.map(providers_folder);
        let file = file.1;
        let retention = retention::decide(&flags, &file)?;
        let stuck_after = inbox_stuck_after_of(&flags, &file)?;
        let stop_limit = flags.stop_limit.or(file.stop_limit);
        let pool_size = flags.pool_size.or(file.pool_size).unwrap_or(POOL_SIZE_DEFAULT);
        if !(2..=1_000).contains(&pool_size) {
            return Err(CommandFailure::usage(format!(
                "pool_size is {pool_size}, but must be between 2 and 1000"
            )));
        }
        let usual = InboxSettings::default();
        let inbox = InboxSettings {
            retention: length("inbox_retention", flags.inbox_retention.or(file.inbox_retention))?
                .unwrap_or(usual.retention),
            stuck_after,
            every: length("inbox_every", flags.inbox_every.or(file.inbox_every))?.unwrap_or(usual.every),
        };
        let clock = flags.clock.or(file.clock);
        Ok(Self {
            database: database.or(file.database).unwrap_or_else(|| DATABASE_DEFAULT.into()),
            listen: address(&flags.listen.or(file.listen).unwrap_or_else(|| LISTEN_DEFAULT.into()))?,
            role: flags.role.or(file.role).unwrap_or_default(),
            clock: if clock == Some(Clock::Manual) { ClockMode::Manual } else { ClockMode::System },
            leave_manual_clock: flags.leave_manual_clock || file.leave_manual_clock.unwrap_or(false),
            migrate: flags.migrate.or(file.migrate).unwrap_or(true),
            schema_wait: length("schema_wait", flags.schema_wait.or(file.schema_wait))?
                .unwrap_or(SCHEMA_PATIENCE),
            stop_limit: length("stop_limit", stop_limit)?.unwrap_or(STOP_LIMIT_DEFAULT),
            retention,
            inbox,
            pool_size,
            log_format: flags.log_format.or(file.log_format).unwrap_or_default(),
            root_key: root_key(file.root_key)?,
            encryption_keys,
            survey_url: flags.survey_url.or(file.survey_url),
            channels: channels::decide(&file.channels, folder.as_deref())?,
            public: PublicConfig::decide(file.public)?,
            connections: check_connections(file.connections)?,
        })
    }

    /// The address under which the world reaches this server: as configured, or where the survey's page is
    /// if that has its usual path, or the listener's own.
    #[must_use]
    pub fn public_url(&self, listener: SocketAddr) -> String {
        let known = known_url(&self.public, self.survey_url.as_deref());
        known.map_or_else(|| format!("http://{listener}"), str::to_owned)
    }

    /// Who can reach the server. An address that the world uses, and trust in what a proxy writes, mean that
    /// there is a proxy.
    #[must_use]
    pub fn exposure(&self) -> Exposure {
        if !self.listen.ip().is_loopback() {
            return Exposure::Public;
        }
        let mut urls = self.public.url.iter().chain(&self.survey_url);
        let is_proxied = self.public.trust_forwarded_for || urls.any(|url| !is_loopback(host_of(url)));
        if is_proxied { Exposure::Proxied } else { Exposure::Local }
    }
}

/// Whether a text is the address of a server, with nothing behind its path.
fn is_address(url: &str) -> bool {
    let host = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    host.is_some_and(|rest| !rest.is_empty() && !rest.contains(['?', '#', ' ', '@']))
}

/// The host of an address, with its port.
fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}

/// The link to a survey that a server with these settings sends.
///
/// # Errors
/// One sentence about what cannot be used.
pub fn survey_url_of(flags: &Flags, file: &File) -> Outcome<String> {
    let survey_url = flags.survey_url.clone().or_else(|| file.survey_url.clone());
    if let Some(url) = survey_url {
        return Ok(url);
    }
    let public = PublicConfig::decide(file.public.clone())?;
    let listen = flags.listen.as_deref().or(file.listen.as_deref()).unwrap_or(LISTEN_DEFAULT);
    let own = public.url.unwrap_or_else(|| format!("http://{listen}"));
    Ok(format!("{own}/s/{{publicId}}"))
}

/// How far past its lease a received message is stuck.
///
/// # Errors
/// One sentence: it is no duration.
pub fn inbox_stuck_after_of(flags: &Flags, file: &File) -> Outcome<Duration> {
    let text = flags.inbox_stuck_after.clone().or_else(|| file.inbox_stuck_after.clone());
    let decided = length("inbox_stuck_after", text)?;
    Ok(decided.unwrap_or_else(|| InboxSettings::default().stuck_after))
}

/// Where files of providers are: beside the configuration.
fn providers_folder(config: &Path) -> PathBuf {
    config.with_file_name("providers")
}

/// The channels of a configuration file, and the address it gives the server, without anything else of it.
///
/// # Errors
/// One sentence about the first thing that cannot be used.
pub fn channels_of(config: &Path) -> Outcome<(channels::Channels, Option<String>)> {
    let file = File::read(config)?;
    let channels = channels::decide(&file.channels, Some(&providers_folder(config)))?;
    let public = PublicConfig::decide(file.public)?;
    Ok((channels, known_url(&public, file.survey_url.as_deref()).map(str::to_owned)))
}

/// The address that the settings give the server.
fn known_url<'a>(public: &'a PublicConfig, survey_url: Option<&'a str>) -> Option<&'a str> {
    let surveys = || survey_url.and_then(|url| url.strip_suffix("/s/{publicId}"));
    public.url.as_deref().or_else(surveys)
}

fn check_connections(file: ConnectionsFile) -> Outcome<ConnectionsFile> {
    for (name, value) in [("max", file.max), ("per_address", file.per_address)] {
        if value == Some(0) {
            return Err(CommandFailure::usage(format!(
                "connections.{name} is 0: set it to 1 or more, or leave it out"
            )));
        }
    }
    Ok(file)
}

fn length(name: &str, text: Option<String>) -> Outcome<Option<Duration>> {
    let read =
        |text: String| duration::parse(&text).map_err(|e| CommandFailure::usage(format!("{name}: {e}")));
    text.map(read).transpose()
}

fn address(text: &str) -> Outcome<SocketAddr> {
    let found = text.to_socket_addrs().ok().and_then(|mut all| all.next());
    found.ok_or_else(|| {
        CommandFailure::usage(format!(
            "`{text}` is not an address to listen on; write one such as 127.0.0.1:8080"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(flags: Flags) -> Outcome<Config> {
        Config::decide(Some("sqlite::memory:".into()), flags, (None, File::default()))
    }

    #[test]
    fn defaults_are_what_the_documentation_says() {
        let config = Config::decide(None, Flags::default(), (None, File::default())).unwrap();
        assert_eq!(config.database, "sqlite:punctual.db");
        assert_eq!(config.listen.to_string(), "127.0.0.1:8080");
        assert_eq!((config.role, config.clock, config.migrate), (Role::All, ClockMode::System, true));
        assert_eq!(config.stop_limit, Duration::from_secs(10));
        assert_eq!(config.schema_wait, Duration::from_secs(5 * 60));
        assert_eq!(config.exposure(), Exposure::Local);
    }

    /// PRD-15: whoever configures a public address or a proxy is reached by strangers.
    #[test]
    fn prd_15_a_public_address_or_a_proxy_is_no_private_server() {
        let plain = decide(Flags::default()).unwrap();
        let public = |url: Option<&str>, trust_forwarded_for| PublicConfig {
            url: url.map(str::to_owned),
            trust_forwarded_for,
            ..plain.public.clone()
        };
        for (config, want) in [
            (
                Config { public: public(Some("https://notify.example"), false), ..plain.clone() },
                Exposure::Proxied,
            ),
            (
                Config { public: public(Some("http://localhost:8080/x"), false), ..plain.clone() },
                Exposure::Local,
            ),
            (Config { public: public(None, true), ..plain.clone() }, Exposure::Proxied),
            (
                Config { survey_url: Some("https://s.example/{publicId}".into()), ..plain.clone() },
                Exposure::Proxied,
            ),
            (
                Config { survey_url: Some("http://[::1]:9/s/{publicId}".into()), ..plain.clone() },
                Exposure::Local,
            ),
            (Config { listen: "0.0.0.0:8080".parse().unwrap(), ..plain.clone() }, Exposure::Public),
        ] {
            assert_eq!(config.exposure(), want, "{:?} {:?}", config.public, config.survey_url);
        }
    }

    #[test]
    fn what_cannot_be_used_is_refused_in_a_sentence() {
        let listen = |text: &str| Flags { listen: Some(text.into()), ..Flags::default() };
        let table = [
            (listen("nowhere"), "`nowhere` is not an address"),
            (listen("127.0.0.1:99999"), "is not an address"),
            (
                Flags { stop_limit: Some("soon".into()), ..Flags::default() },
                "stop_limit: `soon` is not a duration",
            ),
            (Flags { pool_size: Some(1), ..Flags::default() }, "pool_size is 1"),
        ];
        for (flags, said) in table {
            let failure = decide(flags).unwrap_err();
            assert!(failure.sentence.contains(said), "{failure}");
            assert_eq!(failure.kind.code(), 2);
        }
    }
}
