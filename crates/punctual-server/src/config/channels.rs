//! Channels as the configuration names them: `[channels."sms:twilio"]`.
//!
//! Each has a provider: `memory` keeps what it is given in the sandbox of this process, `smtp` hands
//! mail to a relay, the others are files, shipped or in a folder `providers` beside the configuration.
//! A channel's settings are its provider's, and those that every channel has ([`ChannelPolicy`]). A
//! setting is a text, `{ env = "NAME" }` or `{ file = "PATH" }`.
//!
//! A mistake is one sentence, and the server does not start: a channel that fails at its first letter
//! is found too late.

mod policy;

use super::root_key::Secret;
use crate::cli::failure::{CommandFailure, Outcome};
use punctual::base::suggestion::hint;
use punctual::delivery::rules::channel::{ChannelPolicy, MEMORY as MEMORY_KEYS, check_key};
use punctual::engine::Builder;
use punctual::{ClockMode, Problems, Sandbox};
use punctual_providers::file::RESERVED;
use punctual_providers::{AnyChannel, Catalogue, OpenedProvider, Provider, Receipts};
use std::collections::BTreeMap;
use std::path::Path;

/// The provider that keeps what it is given.
const MEMORY: &str = "memory";

/// The channels of the file, as they are written.
pub type Written = BTreeMap<String, toml::Table>;

/// The channels of a server, all decided.
#[derive(Clone, Debug, Default)]
pub struct Channels {
    /// The keys of channels that are in the sandbox, in order.
    pub sandboxed: Vec<String>,
    /// Those that reach people, in order of keys.
    pub real: Vec<RealChannel>,
    /// How each of them is used, by key.
    pub policies: BTreeMap<String, ChannelPolicy>,
}

impl Channels {
    /// Gives an engine these channels; `demo` adds every channel of the sandbox.
    pub(crate) fn add_to(&self, mut builder: Builder, clock: ClockMode, demo: bool) -> Builder {
        if let Some(sandbox) = sandbox(&self.sandboxed, clock, demo) {
            builder = builder.sandbox(sandbox);
        }
        for real in &self.real {
            builder = builder.channel(&real.key, real.channel.clone());
        }
        for (key, policy) in &self.policies {
            builder = builder.channel_policy(key, policy.clone());
        }
        builder
    }
}

/// A channel that reaches people.
#[derive(Clone, Debug)]
pub struct RealChannel {
    /// Its key.
    pub key: String,
    /// The name of its provider.
    pub provider: String,
    /// What may be shown of its settings: no secrets.
    pub shown: Vec<(String, String)>,
    /// What sends.
    pub channel: AnyChannel,
    /// What reads the provider's callbacks, if it makes any.
    pub receipts: Option<Receipts>,
}

/// One channel, decided.
enum Decided {
    Memory,
    Real(Box<RealChannel>),
}

/// Decides every channel. Files of one's own are in `folder`.
///
/// # Errors
/// One sentence about the first channel that cannot be used.
pub(crate) fn decide(written: &Written, folder: Option<&Path>) -> Outcome<Channels> {
    if written.is_empty() {
        return Ok(Channels::default());
    }
    let mut catalogue = Catalogue::shipped().map_err(CommandFailure::usage)?;
    folder.map_or(Ok(()), |folder| catalogue.add_folder(folder)).map_err(CommandFailure::usage)?;
    let mut channels = Channels::default();
    for (key, table) in written {
        let wrong = |said: String| CommandFailure::usage(format!("channels.\"{key}\": {said}"));
        let policy = policy::read(key, table, written).map_err(wrong)?;
        channels.policies.insert(key.clone(), policy);
        match decide_one(key, table, &catalogue).map_err(wrong)? {
            Decided::Memory => channels.sandboxed.push(key.clone()),
            Decided::Real(real) => channels.real.push(*real),
        }
    }
    Ok(channels)
}

/// How each channel is used, without the secrets of any: enough to tell what would be sent.
///
/// # Errors
/// One sentence about the first channel that cannot be used.
pub fn policies(written: &Written) -> Outcome<BTreeMap<String, ChannelPolicy>> {
    let policy = |(key, table): (&String, &toml::Table)| {
        let read = policy::read(key, table, written);
        read.map(|policy| (key.clone(), policy))
            .map_err(|said| CommandFailure::usage(format!("channels.\"{key}\": {said}")))
    };
    written.iter().map(policy).collect()
}

fn decide_one(key: &str, table: &toml::Table, catalogue: &Catalogue) -> Result<Decided, String> {
    let mut problems = Problems::default();
    check_key(key, "", &mut problems);
    if !problems.0.is_empty() {
        return Err(problems.to_string());
    }
    let name = match table.get("provider") {
        Some(toml::Value::String(name)) => name.as_str(),
        Some(other) => return Err(format!("`provider` must be a name such as \"twilio-sms\", not {other}")),
        None => {
            return Err("`provider` is missing: the name of one, such as \"twilio-sms\" or \"smtp\"".into());
        }
    };
    if name == MEMORY {
        return check_memory(table).map(|()| Decided::Memory);
    }
    let Some(provider) = catalogue.provider(name) else {
        let known: Vec<&str> = [MEMORY, "smtp"].into_iter().chain(catalogue.names()).collect();
        return Err(format!("there is no provider `{name}`{}", hint(name, &known)));
    };
    check_kind(key, name, &provider)?;
    let given = given(table)?;
    let OpenedProvider { channel, receipts } =
        provider.open(given).map_err(|problems| problems.to_string())?;
    let shown = shown(&provider, &channel);
    let (key, provider) = (key.to_owned(), name.to_owned());
    Ok(Decided::Real(Box::new(RealChannel { key, provider, shown, channel, receipts })))
}

fn check_memory(table: &toml::Table) -> Result<(), String> {
    match table.keys().find(|name| !RESERVED.contains(&name.as_str())) {
        Some(name) => {
            Err(format!("`{name}` is not a setting of the provider `memory`{}", hint(name, &RESERVED)))
        }
        None => Ok(()),
    }
}

/// A key says what kind of address its letters have; a provider must take that kind.
fn check_kind(key: &str, name: &str, provider: &Provider) -> Result<(), String> {
    if key.starts_with(MEMORY_KEYS) {
        return Err(format!("a key that begins with `{MEMORY_KEYS}` is the sandbox's, not for `{name}`"));
    }
    let kind = key.split(':').next().unwrap_or_default();
    if kind.eq_ignore_ascii_case(provider.kind()) {
        return Ok(());
    }
    let (serves, rest) = (provider.kind(), key.split_once(':').map_or("", |(_, rest)| rest));
    Err(format!("the provider `{name}` serves {serves}, not {kind}: call the channel \"{serves}:{rest}\""))
}

/// The provider's settings, as they are given.
fn given(table: &toml::Table) -> Result<BTreeMap<String, String>, String> {
    let own = table.iter().filter(|(name, _)| !RESERVED.contains(&name.as_str()));
    own.map(|(name, value)| Ok((name.clone(), text(value).map_err(|said| format!("{name}: {said}"))?)))
        .collect()
}

fn text(value: &toml::Value) -> Result<String, String> {
    match value {
        toml::Value::String(text) => Ok(text.clone()),
        toml::Value::Integer(_) | toml::Value::Float(_) | toml::Value::Boolean(_) => Ok(value.to_string()),
        toml::Value::Table(table) if table.len() == 1 => {
            let secret: Result<Secret, _> = value.clone().try_into();
            secret.map_err(|_| FORMS.to_owned())?.reveal()
        }
        _ => Err(FORMS.to_owned()),
    }
}

/// What a setting may be.
const FORMS: &str = "must be a text, { env = \"NAME\" } or { file = \"PATH\" }";

fn shown(provider: &Provider, channel: &AnyChannel) -> Vec<(String, String)> {
    let settings = provider.settings();
    let open = settings.iter().filter(|setting| !setting.secret);
    open.filter_map(|setting| {
        let value = channel.settings().get(&setting.name)?;
        Some((setting.name.clone(), value.to_owned()))
    })
    .collect()
}

/// The sandbox of a server: for every `memory:` key on a manual clock and in the demo, and for the
/// channels that the configuration puts there.
#[must_use]
pub fn sandbox(keys: &[String], clock: ClockMode, demo: bool) -> Option<Sandbox> {
    if demo || clock == ClockMode::Manual {
        return Some(keys.iter().fold(Sandbox::new(), |sandbox, key| sandbox.also(key)));
    }
    (!keys.is_empty()).then(|| Sandbox::of(keys.iter().cloned()))
}

#[cfg(test)]
mod tests;
