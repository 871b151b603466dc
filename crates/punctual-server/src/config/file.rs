//! The settings file.

use super::channels::Written;
use super::root_key::Secret;
use super::{Clock, LogFormat};
use crate::app::Role;
use crate::cli::failure::{CommandFailure, Outcome};
use punctual::base::suggestion::hint;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::Path;

/// Every key of the file.
pub const KEYS: [&str; 24] = [
    "database",
    "listen",
    "role",
    "clock",
    "leave_manual_clock",
    "migrate",
    "schema_wait",
    "stop_limit",
    "retention",
    "log_retention",
    "survey_retention",
    "run_retention",
    "lease_retention",
    "message_id_retention",
    "inbox_retention",
    "inbox_stuck_after",
    "inbox_every",
    "pool_size",
    "log_format",
    "root_key",
    "survey_url",
    "channels",
    "public",
    "connections",
];
/// Every key of its table `[public]`.
pub const PUBLIC_KEYS: [&str; 3] = ["requests_per_minute", "trust_forwarded_for", "url"];

/// Every key of its table `[connections]`.
pub const CONNECTION_KEYS: [&str; 2] = ["max", "per_address"];

/// The file as it is written; what it leaves out is decided elsewhere.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct File {
    /// The database's URL.
    pub database: Option<String>,
    /// Where to listen.
    pub listen: Option<String>,
    /// What this process does.
    pub role: Option<Role>,
    /// Whose hand moves time.
    pub clock: Option<Clock>,
    /// Whether a database on a manual clock may go on with the system's.
    pub leave_manual_clock: Option<bool>,
    /// Whether the schema is brought up to date at start.
    pub migrate: Option<bool>,
    /// How long to wait for another process to bring the schema up to date.
    pub schema_wait: Option<String>,
    /// How long a stop may take.
    pub stop_limit: Option<String>,
    /// How long finished messages are kept.
    pub retention: Option<String>,
    /// How long the communication log is kept.
    pub log_retention: Option<String>,
    /// How long surveys are kept after their last event, with their answers.
    pub survey_retention: Option<String>,
    /// How long runs of jobs are kept.
    pub run_retention: Option<String>,
    /// How long ended leases are kept.
    pub lease_retention: Option<String>,
    /// How long the ids of messages are remembered.
    pub message_id_retention: Option<String>,
    /// How long processed and failed messages are remembered in the inbox.
    pub inbox_retention: Option<String>,
    /// How far past its lease a received message is stuck.
    pub inbox_stuck_after: Option<String>,
    /// How often the inbox is cleaned and looked through.
    pub inbox_every: Option<String>,
    /// Connections to PostgreSQL.
    pub pool_size: Option<usize>,
    /// How log lines are written.
    pub log_format: Option<LogFormat>,
    /// A key with all rights, or where to find it.
    pub root_key: Option<Secret>,
    /// The link to a survey, with `{publicId}` in it.
    pub survey_url: Option<String>,
    /// Channels by their key.
    pub channels: Written,
    /// What needs no key.
    pub public: Option<PublicFile>,
    /// How many connections there may be.
    pub connections: ConnectionsFile,
    /// The names of all settings in the file; those of an inner table behind its name and a dot.
    #[serde(skip)]
    pub named: BTreeSet<String>,
}

/// The table `[connections]`: how many there may be.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ConnectionsFile {
    /// In all.
    pub max: Option<usize>,
    /// From one address.
    pub per_address: Option<usize>,
}

/// The table `[public]`: what needs no key.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PublicFile {
    /// Public requests from one address.
    pub requests_per_minute: Option<u32>,
    /// Whether a proxy of ours writes `X-Forwarded-For`.
    pub trust_forwarded_for: Option<bool>,
    /// The address under which the world reaches this server.
    pub url: Option<String>,
}

impl File {
    /// Reads the file.
    ///
    /// # Errors
    /// One sentence: it is not there, not TOML, or says something that nobody knows.
    pub fn read(path: &Path) -> Outcome<Self> {
        let place = path.display();
        let text = std::fs::read_to_string(path).map_err(|e| {
            CommandFailure::usage(format!("the configuration file {place} cannot be read: {e}"))
        })?;
        Self::parse(&text).map_err(|said| CommandFailure::usage(format!("{place}: {said}")))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let table: toml::Table = toml::from_str(text).map_err(|e| at_line(text, &e))?;
        if let Some(unknown) = table.keys().find(|key| !KEYS.contains(&key.as_str())) {
            return Err(format!("`{unknown}` is not a setting{}", hint(unknown, &KEYS)));
        }
        check_keys(&table, "public", &PUBLIC_KEYS)?;
        check_keys(&table, "connections", &CONNECTION_KEYS)?;
        // From the text once more, so that a wrong value can be named with its line.
        let file: Self = toml::from_str(text).map_err(|e| at_line(text, &e))?;
        Ok(Self { named: names(&table), ..file })
    }
}

fn names(table: &toml::Table) -> BTreeSet<String> {
    let inner = |(name, value): (&String, &toml::Value)| {
        let keys = value.as_table().filter(|_| name != "root_key").into_iter().flat_map(toml::Table::keys);
        let dotted: Vec<String> = keys.map(|key| format!("{name}.{key}")).collect();
        if dotted.is_empty() { vec![name.clone()] } else { dotted }
    };
    table.iter().flat_map(inner).collect()
}

/// Refuses an unknown key of an inner table.
fn check_keys(table: &toml::Table, name: &str, known: &[&str]) -> Result<(), String> {
    let inner = table.get(name).and_then(toml::Value::as_table);
    let mut keys = inner.into_iter().flat_map(toml::Table::keys);
    match keys.find(|key| !known.contains(&key.as_str())) {
        Some(unknown) => Err(format!("`{name}.{unknown}` is not a setting{}", hint(unknown, known))),
        None => Ok(()),
    }
}

fn at_line(text: &str, error: &toml::de::Error) -> String {
    let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
    let said = error.message().replace('\n', " ");
    line.map_or_else(|| said.clone(), |line| format!("line {line}: {said}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read() {
        let file = File::parse("listen = \"[::1]:9\"\nrole = \"worker\"\nclock = \"manual\"\npool_size = 4")
            .unwrap();
        assert_eq!(file.listen.as_deref(), Some("[::1]:9"));
        assert_eq!(
            (file.role, file.clock, file.pool_size),
            (Some(Role::Worker), Some(Clock::Manual), Some(4))
        );
    }

    #[test]
    fn a_wrong_file_is_refused_with_what_would_be_right() {
        let table = [
            ("databse = \"x\"", "`databse` is not a setting; did you mean `database`?"),
            ("stop_limits = \"1s\"", "did you mean `stop_limit`?"),
            ("something_else = 1", "known are database, listen"),
            ("\nrole = \"boss\"", "line 2: unknown variant `boss`"),
            ("pool_size = \"many\"", "line 1: invalid type"),
            ("listen = ", "line 1:"),
            ("[public]\nrequest_per_minute = 1", "did you mean `requests_per_minute`?"),
            ("[public]\nrequests_per_minute = -1", "line 2: invalid value"),
            ("[connections]\nper_addres = 1", "did you mean `per_address`?"),
        ];
        for (text, said) in table {
            let found = File::parse(text).unwrap_err();
            assert!(found.contains(said), "{text}: {found}");
            assert!(!found.contains('\n'), "{found}");
        }
    }

    #[test]
    fn every_field_is_a_known_key() {
        let all = "database=''\nlisten=''\nrole='all'\nclock='system'\nleave_manual_clock=true\n\
                   migrate=false\nschema_wait=''\nstop_limit=''\nretention=''\nlog_retention=''\n\
                   survey_retention=''\nrun_retention=''\nlease_retention=''\n\
                   message_id_retention=''\ninbox_retention=''\n\
                   inbox_stuck_after=''\ninbox_every=''\npool_size=2\nlog_format='json'\nroot_key='x'\n\
                   survey_url=''\n\
                   public={requests_per_minute=9,trust_forwarded_for=true,url='https://x'}\n\
                   connections={max=9,per_address=3}\nchannels={}";
        let file = File::parse(all).unwrap();
        assert!(file.root_key.is_some() && file.retention.is_some());
        assert_eq!(all.lines().count(), KEYS.len());
    }
}
