//! SHA-256 in hexadecimal: of key secrets, request bodies and message contents.

use hmac_sha256::Hash;
use std::fmt::Write;

/// The digest of the parts, each preceded by its length, so that no two lists of parts
/// have the same text.
#[must_use]
pub fn of<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hash = Hash::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hex(&hash.finalize())
}

/// The digest in hexadecimal.
#[must_use]
pub fn hex(digest: &[u8; 32]) -> String {
    digest.iter().fold(String::with_capacity(64), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn moving_a_boundary_changes_the_digest() {
        assert_ne!(super::of([b"ab".as_slice(), b"c"]), super::of([b"a".as_slice(), b"bc"]));
        assert_eq!(super::of([b"".as_slice()]).len(), 64);
    }
}
