//! Channels as the configuration names them: `[channels."whatsapp:default"]`.
//!
//! So far there is one provider, `memory`: what such a channel is given stays in the sandbox of
//! this process and reaches nobody.

use crate::cli::failure::{Failure, Outcome};
use punctual::rules::channel::check_key;
use punctual::rules::nearest::hint;
use punctual::{ClockMode, Problems, Sandbox};
use std::collections::BTreeMap;

/// The provider that keeps what it is given.
const MEMORY: &str = "memory";

/// The channels of the file, as they are written.
pub type Written = BTreeMap<String, toml::Table>;

/// The keys of channels that are in the sandbox, in order.
///
/// # Errors
/// One sentence about the first channel that cannot be used.
pub(super) fn decide(written: &Written) -> Outcome<Vec<String>> {
    for (key, table) in written {
        check(key, table).map_err(|said| Failure::usage(format!("channels.\"{key}\": {said}")))?;
    }
    Ok(written.keys().cloned().collect())
}

fn check(key: &str, table: &toml::Table) -> Result<(), String> {
    let mut problems = Problems::default();
    check_key(key, "", &mut problems);
    if !problems.0.is_empty() {
        return Err(problems.to_string());
    }
    match table.get("provider") {
        None => return Err("`provider` is missing; this version knows `memory`".into()),
        Some(toml::Value::String(name)) if name == MEMORY => {}
        Some(other) => {
            let shown = other.as_str().map_or_else(|| other.to_string(), str::to_owned);
            return Err(format!("this version has no provider `{shown}` yet, only `memory`"));
        }
    }
    let known = ["provider"];
    match table.keys().find(|name| !known.contains(&name.as_str())) {
        Some(name) => {
            Err(format!("`{name}` is not a setting of the provider `memory`{}", hint(name, &known)))
        }
        None => Ok(()),
    }
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
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<String>, String> {
        let file: BTreeMap<String, Written> = toml::from_str(text).unwrap();
        decide(&file["channels"]).map_err(|failure| failure.sentence)
    }

    /// TRG-17: channels by configuration.
    #[test]
    fn trg_17_a_channel_of_the_configuration_may_be_in_the_sandbox() {
        let two = "[channels.\"whatsapp:default\"]\nprovider = \"memory\"\n\
                   [channels.\"email:smtp\"]\nprovider = \"memory\"";
        assert_eq!(read(two).unwrap(), ["email:smtp", "whatsapp:default"]);
    }

    #[test]
    fn a_channel_that_cannot_be_used_is_refused_in_a_sentence() {
        let table = [
            ("sms", "provider = \"memory\"", "channels.\"sms\": `sms` is not a channel's key"),
            ("sms:a", "", "channels.\"sms:a\": `provider` is missing"),
            ("sms:a", "provider = \"twilio-sms\"\nfrom = \"+1\"", "has no provider `twilio-sms` yet, only"),
            ("sms:a", "provider = 5", "has no provider `5` yet"),
            ("sms:a", "provider = \"memory\"\nfrom = \"+1\"", "`from` is not a setting of the provider"),
        ];
        for (key, lines, want) in table {
            let said = read(&format!("[channels.\"{key}\"]\n{lines}")).unwrap_err();
            assert!(said.contains(want) && !said.contains('\n'), "{said}");
        }
    }

    #[test]
    fn the_sandbox_is_there_when_it_is_asked_for() {
        let keys = ["whatsapp:default".to_owned()];
        let takes = |keys: &[String], clock, demo| {
            sandbox(keys, clock, demo).map(|one| (one.takes("memory:x"), one.takes("whatsapp:default")))
        };
        assert_eq!(takes(&[], ClockMode::System, false), None);
        assert_eq!(takes(&[], ClockMode::System, true), Some((true, false)));
        assert_eq!(takes(&[], ClockMode::Manual, false), Some((true, false)));
        assert_eq!(takes(&keys, ClockMode::Manual, false), Some((true, true)));
        assert_eq!(takes(&keys, ClockMode::System, false), Some((false, true)));
    }
}
