//! SHA-256 in hexadecimal: of key secrets, request bodies and message contents.

use hmac_sha256::Hash;

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

/// The SHA-256 of some bytes.
#[must_use]
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Hash::hash(bytes)
}

/// Bytes in hexadecimal, in lower case.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn bytes_have_two_digits_each() {
        assert_eq!(crate::base::digest::hex(&[0, 9, 0x1f, 0xa0, 0xff]), "00091fa0ff");
    }

    #[test]
    fn moving_a_boundary_changes_the_digest() {
        assert_ne!(
            crate::base::digest::of([b"ab".as_slice(), b"c"]),
            crate::base::digest::of([b"a".as_slice(), b"bc"])
        );
        assert_eq!(crate::base::digest::of([b"".as_slice()]).len(), 64);
    }
}
