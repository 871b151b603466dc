//! Every setting with its value and where it came from, for people who look for a mistake.
//!
//! Secrets are not shown, only whether they are there.

use super::{Config, File, PublicConfig, encryption_key, root_key};
use clap::ArgMatches;
use clap::parser::ValueSource;
use punctual::ClockMode;
use punctual::base::duration;
use serde::Serialize;
use std::collections::BTreeMap;

/// In place of a secret.
const MASK: &str = "***";

/// Which settings are flags, and which come from the environment.
#[derive(Clone, Debug, Default)]
pub struct Sources(BTreeMap<String, &'static str>);

impl Sources {
    /// Looks through the arguments of the innermost command.
    #[must_use]
    pub fn of(matches: &ArgMatches) -> Self {
        let mut inner = matches;
        while let Some((_, next)) = inner.subcommand() {
            inner = next;
        }
        let word = |source| match source {
            ValueSource::CommandLine => Some("flag"),
            ValueSource::EnvVariable => Some("environment"),
            _ => None,
        };
        let source = |id: &clap::Id| {
            let name = id.as_str();
            let found = inner.try_contains_id(name).is_ok().then(|| inner.value_source(name)).flatten();
            Some((name.to_owned(), found.and_then(word)?))
        };
        Self(inner.ids().filter_map(source).collect())
    }

    fn source(&self, name: &str, file: &File) -> &'static str {
        let in_file = || if file.named.contains(name) { "file" } else { "default" };
        self.0.get(name).copied().unwrap_or_else(in_file)
    }
}

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SettingView {
    /// Its name in the file.
    pub name: String,
    /// Its value; `None` if it has none.
    pub value: Option<String>,
    /// `flag`, `environment`, `file` or `default`.
    pub source: &'static str,
}

/// Every setting, in the order of the file's documentation.
#[must_use]
pub fn show(config: &Config, file: &File, sources: &Sources) -> Vec<SettingView> {
    let setting = |(name, value): (&str, Option<String>)| {
        let source = sources.source(name, file);
        SettingView { name: name.to_owned(), value, source }
    };
    let mut all: Vec<SettingView> =
        of_process(config).into_iter().chain(of_retention(config)).map(setting).collect();
    all.extend(secrets(config, file));
    all.extend(of_public(&config.public).into_iter().map(setting));
    let connections = [
        ("connections.max", file.connections.max),
        ("connections.per_address", file.connections.per_address),
    ];
    all.extend(connections.map(|(name, n)| setting((name, n.map(|n| n.to_string())))));
    all.extend(channels(config));
    all
}

fn of_process(config: &Config) -> Vec<(&'static str, Option<String>)> {
    let clock = if config.clock == ClockMode::Manual { "manual" } else { "system" };
    let log_format = format!("{:?}", config.log_format).to_lowercase();
    vec![
        ("database", Some(without_password(&config.database))),
        ("listen", Some(config.listen.to_string())),
        ("role", Some(config.role.word().to_owned())),
        ("clock", Some(clock.to_owned())),
        ("leave_manual_clock", Some(config.leave_manual_clock.to_string())),
        ("migrate", Some(config.migrate.to_string())),
        ("schema_wait", Some(duration::write(config.schema_wait))),
        ("stop_limit", Some(duration::write(config.stop_limit))),
        ("pool_size", Some(config.pool_size.to_string())),
        ("log_format", Some(log_format)),
        ("survey_url", config.survey_url.clone()),
    ]
}

fn of_retention(config: &Config) -> Vec<(&'static str, Option<String>)> {
    let inbox = &config.inbox;
    let kept = &config.retention;
    [
        ("retention", kept.messages),
        ("log_retention", kept.log),
        ("survey_retention", kept.surveys),
        ("run_retention", kept.runs),
        ("lease_retention", kept.leases),
        ("message_id_retention", kept.message_ids),
        ("inbox_retention", inbox.retention),
        ("inbox_stuck_after", inbox.stuck_after),
        ("inbox_every", inbox.every),
    ]
    .map(|(name, length)| (name, Some(duration::write(length))))
    .into()
}

fn of_public(public: &PublicConfig) -> Vec<(&'static str, Option<String>)> {
    vec![
        ("public.url", public.url.clone()),
        ("public.trust_forwarded_for", Some(public.trust_forwarded_for.to_string())),
        ("public.requests_per_minute", Some(public.requests_per_minute.to_string())),
    ]
}

/// Secrets are never flags, so the command line does not know of them.
fn secrets(config: &Config, file: &File) -> [SettingView; 2] {
    let is_set = |variable: &str| std::env::var_os(variable).is_some_and(|value| !value.is_empty());
    let secret = |name: &str, variable: &str, is_there: bool| {
        let in_file = if file.named.contains(name) { "file" } else { "default" };
        let source = if is_set(variable) { "environment" } else { in_file };
        SettingView { name: name.to_owned(), value: is_there.then(|| MASK.to_owned()), source }
    };
    let sealing = encryption_key::VARIABLE;
    [
        secret("root_key", root_key::VARIABLE, config.root_key.is_some()),
        secret("encryption_key", sealing, is_set(sealing)),
    ]
}

fn channels(config: &Config) -> Vec<SettingView> {
    let shown = |key: &String, value: String| SettingView {
        name: format!("channels.\"{key}\""),
        value: Some(value),
        source: "file",
    };
    let real = config.channels.real.iter().map(|real| {
        let settings: Vec<String> =
            real.shown.iter().map(|(name, value)| format!("{name} {value}")).collect();
        shown(&real.key, format!("{} ({})", real.provider, settings.join(", ")))
    });
    real.chain(config.channels.sandboxed.iter().map(|key| shown(key, "memory".to_owned()))).collect()
}

/// A database's address without its password.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (place, query) = rest.split_once('?').map_or((rest, None), |(place, query)| (place, Some(query)));
    let place = match place.rsplit_once('@') {
        Some((who, place)) => {
            let masked =
                who.split_once(':').map_or_else(|| who.to_owned(), |(name, _)| format!("{name}:{MASK}"));
            format!("{masked}@{place}")
        }
        None => place.to_owned(),
    };
    let parameter = |pair: &str| match pair.split_once('=') {
        Some((name, _)) if name.eq_ignore_ascii_case("password") => format!("{name}={MASK}"),
        _ => pair.to_owned(),
    };
    let query = query.map(|query| query.split('&').map(parameter).collect::<Vec<_>>().join("&"));
    format!("{scheme}://{place}{}", query.map_or_else(String::new, |query| format!("?{query}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_masked_wherever_it_stands() {
        for (url, want) in [
            ("sqlite:punctual.db", "sqlite:punctual.db"),
            ("postgres://anna:hu@sh@db/x", "postgres://anna:***@db/x"),
            ("postgres://anna@db/x?a=1&password=hush", "postgres://anna@db/x?a=1&password=***"),
        ] {
            assert_eq!(without_password(url), want);
        }
    }
}
