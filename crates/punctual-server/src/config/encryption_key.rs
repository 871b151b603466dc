//! The keys that seal secrets: a variable of the environment, never a flag or a line of the file.
//!
//! One key is 32 bytes in base64. For a rotation there are several, each as `id:key`, with commas or white
//! space between them; the first one seals, all of them open.

use crate::base64::decode;
use crate::cli::failure::{Failure, Outcome};
use std::collections::BTreeSet;

/// The variable.
pub const VARIABLE: &str = "PUNCTUAL_ENCRYPTION_KEY";
/// The bytes of a key.
const KEY_BYTES: usize = 32;

/// Checks the variable, if it is set.
///
/// # Errors
/// One sentence about the first key that cannot be used, which it does not repeat.
pub(super) fn check() -> Outcome {
    let text = match std::env::var(VARIABLE) {
        Ok(text) => text,
        Err(std::env::VarError::NotPresent) => return Ok(()),
        Err(std::env::VarError::NotUnicode(_)) => return Err(refusal("is not text")),
    };
    check_text(&text).map_err(|said| refusal(&said))
}

fn refusal(said: &str) -> Failure {
    Failure::usage(format!(
        "{VARIABLE} {said}; make a key with `openssl rand -base64 32`, and write several as id:key,id:key"
    ))
}

fn check_text(text: &str) -> Result<(), String> {
    let entries: Vec<&str> = text.split([',', ' ', '\n', '\t', '\r']).filter(|e| !e.is_empty()).collect();
    let mut ids = BTreeSet::new();
    for (n, entry) in entries.iter().enumerate() {
        let place = if entries.len() == 1 { String::new() } else { format!("has a key {} that ", n + 1) };
        let (id, key) = entry.split_once(':').map_or((None, *entry), |(id, key)| (Some(id), key));
        if id.is_some_and(str::is_empty) || (id.is_none() && entries.len() > 1) {
            return Err(format!("{place}has no id before a colon"));
        }
        if !ids.insert(id) {
            return Err(format!("{place}has the id of another one"));
        }
        match decode(key).map(|bytes| bytes.len()) {
            Some(KEY_BYTES) => {}
            Some(bytes) => return Err(format!("{place}is {bytes} bytes long, but must be {KEY_BYTES}")),
            None => return Err(format!("{place}is not base64")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PRD-14: what cannot seal a secret is refused, and not repeated.
    #[test]
    fn prd_14_a_malformed_encryption_key_is_refused() {
        let key = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
        let bare = key.trim_end_matches('=');
        for fine in
            ["", key, bare, &format!("a:{key}"), &format!("a:{key},b:{key}"), &format!("a:{key} b:{bare}\n")]
        {
            assert_eq!(check_text(fine), Ok(()), "{fine}");
        }
        for (text, said) in [
            ("hush", "is 3 bytes long, but must be 32"),
            ("hush!", "is not base64"),
            (&format!("{key}{key}"), "is not base64"),
            (&format!(":{key}"), "has no id"),
            (&format!("{key},{key}"), "has a key 1 that has no id"),
            (&format!("a:{key},a:{key}"), "has a key 2 that has the id of another"),
            (&format!("a:{key},b:hush"), "has a key 2 that is 3 bytes long"),
        ] {
            let found = check_text(text).unwrap_err();
            assert!(found.contains(said) && !found.contains("hush"), "{text}: {found}");
        }
    }
}
