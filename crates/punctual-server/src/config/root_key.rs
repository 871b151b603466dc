//! The root key: a secret, so never a flag (the process list shows flags).

use crate::cli::failure::{CommandFailure, Outcome};
use serde::Deserialize;
use std::path::PathBuf;

/// A shorter root key can be guessed.
pub const ROOT_KEY_CHARS_MIN: usize = 32;
/// The variable that goes before the file.
pub(super) const VARIABLE: &str = "PUNCTUAL_ROOT_KEY";

/// A secret in the settings file: itself, or where to find it.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
pub enum Secret {
    /// The secret itself.
    Plain(String),
    /// In a variable of the environment.
    Env {
        /// The variable.
        env: String,
    },
    /// In a file, without the line end.
    File {
        /// The file.
        file: PathBuf,
    },
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Secret {
    /// The secret, wherever it is.
    pub(super) fn reveal(self) -> Result<String, String> {
        match self {
            Self::Plain(secret) => Ok(secret),
            Self::Env { env } => std::env::var(&env).map_err(|_| format!("the variable {env} is not set")),
            Self::File { file } => std::fs::read_to_string(&file)
                .map(|text| text.trim_end_matches(['\r', '\n']).to_owned())
                .map_err(|e| format!("{} cannot be read: {e}", file.display())),
        }
    }
}

/// The root key from the environment or the file.
///
/// # Errors
/// One sentence when it is too short or cannot be found.
pub fn decide(file: Option<Secret>) -> Outcome<Option<String>> {
    let variable = std::env::var(VARIABLE).ok().filter(|key| !key.is_empty());
    let (place, key) = match (variable, file) {
        (Some(key), _) => (VARIABLE, Some(key)),
        (None, Some(secret)) => {
            let key = secret.reveal().map_err(|e| CommandFailure::usage(format!("root_key: {e}")))?;
            ("root_key", Some(key))
        }
        (None, None) => return Ok(None),
    };
    key.map(|key| check(place, key)).transpose()
}

fn check(place: &str, key: String) -> Outcome<String> {
    let chars = key.chars().count();
    if chars < ROOT_KEY_CHARS_MIN {
        return Err(CommandFailure::usage(format!(
            "{place} has {chars} characters, but needs at least {ROOT_KEY_CHARS_MIN}; \
             make one with `openssl rand -hex 32`"
        )));
    }
    if key.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(CommandFailure::usage(format!("{place} must not contain white space")));
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_key_is_refused_without_repeating_it() {
        let said = check("PUNCTUAL_ROOT_KEY", "hush".into()).unwrap_err().sentence;
        assert!(said.contains("has 4 characters, but needs at least 32"), "{said}");
        assert!(!said.contains("hush"), "{said}");
        assert!(check("k", "k".repeat(32)).is_ok());
        assert!(check("k", "k ".repeat(32)).is_err());
    }

    #[test]
    fn a_secret_does_not_show_itself() {
        assert!(!format!("{:?}", Secret::Plain("hush".into())).contains("hush"));
    }
}
