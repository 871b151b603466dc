//! The keys that seal secrets: a variable of the environment, never a flag or a line of the file.
//!
//! One key is 32 bytes in base64. For a rotation there are several, each as `id:key`, with commas or white
//! space between them; the first one seals, all of them open.

use crate::base64::decode;
use crate::cli::failure::{CommandFailure, Outcome};
use punctual::base::sealing::{EncryptionKey, EncryptionKeys};
use std::collections::BTreeSet;

/// The variable.
pub const VARIABLE: &str = "PUNCTUAL_ENCRYPTION_KEY";
/// The bytes of a key.
const KEY_BYTES: usize = 32;
/// The id of a key that stands alone without one.
const ID_DEFAULT: &str = "default";

/// Reads the variable; there are no keys if it is not set.
///
/// # Errors
/// One sentence about the first key that cannot be used, which it does not repeat.
pub(super) fn decide() -> Outcome<EncryptionKeys> {
    let text = match std::env::var(VARIABLE) {
        Ok(text) => text,
        Err(std::env::VarError::NotPresent) => return Ok(EncryptionKeys::default()),
        Err(std::env::VarError::NotUnicode(_)) => return Err(refusal("is not text")),
    };
    read_keys(&text).map_err(|said: String| refusal(&said))
}

fn refusal(said: &str) -> CommandFailure {
    CommandFailure::usage(format!(
        "{VARIABLE} {said}; make a key with `openssl rand -base64 32`, and write several as id:key,id:key"
    ))
}

fn read_keys(text: &str) -> Result<EncryptionKeys, String> {
    let entries: Vec<&str> = text.split([',', ' ', '\n', '\t', '\r']).filter(|e| !e.is_empty()).collect();
    let mut ids = BTreeSet::new();
    let mut keys = Vec::with_capacity(entries.len());
    for (n, entry) in entries.iter().enumerate() {
        let place = if entries.len() == 1 { String::new() } else { format!("has a key {} that ", n + 1) };
        let (id, key) = entry.split_once(':').map_or((None, *entry), |(id, key)| (Some(id), key));
        if id.is_some_and(str::is_empty) || (id.is_none() && entries.len() > 1) {
            return Err(format!("{place}has no id before a colon"));
        }
        if !ids.insert(id) {
            return Err(format!("{place}has the id of another one"));
        }
        let bytes = read_key(key).map_err(|said| format!("{place}{said}"))?;
        keys.push(EncryptionKey::new(id.unwrap_or(ID_DEFAULT), bytes));
    }
    Ok(EncryptionKeys(keys))
}

fn read_key(text: &str) -> Result<[u8; KEY_BYTES], String> {
    let bytes = decode(text).ok_or_else(|| "is not base64".to_owned())?;
    let wrong = |bytes: Vec<u8>| format!("is {} bytes long, but must be {KEY_BYTES}", bytes.len());
    bytes.try_into().map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PRD-14: what cannot seal a secret is refused, and not repeated.
    #[test]
    fn prd_14_a_malformed_encryption_key_is_refused() {
        let key = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
        let bare = key.trim_end_matches('=');
        let two = format!("a:{key},b:{key}");
        for (fine, ids) in [
            ("", [].as_slice()),
            (key, &["default"]),
            (bare, &["default"]),
            (&two[..two.len() / 2], &["a"]),
            (&two, &["a", "b"]),
            (&format!("b:{key} a:{bare}\n"), &["b", "a"]),
        ] {
            assert_eq!(read_keys(fine).unwrap().ids(), ids, "{fine}");
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
            let found = read_keys(text).unwrap_err();
            assert!(found.contains(said) && !found.contains("hush"), "{text}: {found}");
        }
    }
}
