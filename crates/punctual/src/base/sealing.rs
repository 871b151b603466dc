//! Sealing: a key hides bytes and proves later that they are unchanged.
//!
//! The scheme is a synthetic IV (SIV) over HMAC-SHA256: the tag is the MAC of the bytes, and the bytes are
//! hidden by a key stream that begins from the tag. The same bytes are always sealed alike, no nonce can be
//! used twice, and bytes that were touched anywhere open to nothing. Not hidden: the length, and whether two
//! sealed values are equal.

use hmac_sha256::HMAC;
use std::fmt;

/// Bytes of the tag: 128 bits cannot be guessed.
const TAG_BYTES: usize = 16;
const BLOCK_BYTES: usize = 32;
/// The first characters of a sealed value that is stored as text.
const SEALED_PREFIX: &str = "sealed:";

/// A key of 32 bytes. Never shown.
#[derive(Clone, Copy)]
pub struct SealingKey([u8; 32]);

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealingKey")
    }
}

impl SealingKey {
    /// Makes a key of random bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Seals bytes: the tag, and the hidden bytes after it.
    #[must_use]
    pub fn seal(&self, plain: &[u8]) -> Vec<u8> {
        let tag = self.tag(plain);
        let mut hidden = plain.to_vec();
        self.apply_stream(&tag, &mut hidden);
        [tag.as_slice(), &hidden].concat()
    }

    /// Opens what [`Self::seal`] returned; `None` if this key did not seal it, or it was changed.
    #[must_use]
    pub fn open(&self, sealed: &[u8]) -> Option<Vec<u8>> {
        let (tag, hidden) = sealed.split_first_chunk::<TAG_BYTES>()?;
        let mut plain = hidden.to_vec();
        self.apply_stream(tag, &mut plain);
        // All of both tags is compared: the time it takes reveals nothing.
        let difference = tag.iter().zip(self.tag(&plain)).fold(0, |seen, (a, b)| seen | (a ^ b));
        (difference == 0).then_some(plain)
    }

    fn tag(&self, plain: &[u8]) -> [u8; TAG_BYTES] {
        let mut mac = HMAC::new(self.derive_key(b"tag"));
        mac.update(plain);
        let mut tag = [0; TAG_BYTES];
        tag.copy_from_slice(&mac.finalize()[..TAG_BYTES]);
        tag
    }

    /// Hides bytes, or shows them again.
    fn apply_stream(&self, tag: &[u8; TAG_BYTES], bytes: &mut [u8]) {
        let key = self.derive_key(b"stream");
        for (number, block) in (0_u64..).zip(bytes.chunks_mut(BLOCK_BYTES)) {
            let mut mac = HMAC::new(key);
            mac.update(tag);
            mac.update(number.to_be_bytes());
            block.iter_mut().zip(mac.finalize()).for_each(|(byte, mask)| *byte ^= mask);
        }
    }

    /// Derives the key for one use, so that a tag never is a piece of the stream.
    fn derive_key(&self, usage: &[u8]) -> [u8; 32] {
        HMAC::mac(usage, self.0)
    }
}

/// An operator's key, with the id that is stored beside the sealed bytes.
#[derive(Clone, Debug)]
pub struct EncryptionKey {
    /// The id, without a colon. It is not a secret.
    pub id: String,
    key: SealingKey,
}

impl EncryptionKey {
    /// Names a key.
    #[must_use]
    pub fn new(id: impl Into<String>, bytes: [u8; 32]) -> Self {
        Self { id: id.into(), key: SealingKey::new(bytes) }
    }

    /// Derives the key for values of one name, so that no value can stand in the place of another.
    fn key_for(&self, name: &str) -> SealingKey {
        SealingKey::new(self.key.derive_key(name.as_bytes()))
    }
}

/// The keys of the operator's: the first one seals, all of them open.
#[derive(Clone, Debug, Default)]
pub struct EncryptionKeys(pub Vec<EncryptionKey>);

/// A stored value, read with the keys of this process.
#[derive(Debug, PartialEq, Eq)]
pub enum StoredValue {
    /// It is not sealed.
    Plain,
    /// The first key has sealed it.
    Sealed(Vec<u8>),
    /// Another key has sealed it.
    SealedByOlderKey(Vec<u8>),
    /// None of the keys opens it; the id of the key that has sealed it.
    Locked(String),
}

impl EncryptionKeys {
    /// Seals a value by the first key as `sealed:{id}:{base64}`; `None` without keys.
    #[must_use]
    pub fn seal(&self, name: &str, plain: &[u8]) -> Option<String> {
        let first = self.0.first()?;
        let sealed = super::base64::encode(&first.key_for(name).seal(plain));
        Some(format!("{SEALED_PREFIX}{}:{sealed}", first.id))
    }

    /// Reads a stored value. A key may have been renamed, so each one is tried.
    #[must_use]
    pub fn read(&self, name: &str, stored: &str) -> StoredValue {
        let Some((id, text)) = stored.strip_prefix(SEALED_PREFIX).and_then(|rest| rest.split_once(':'))
        else {
            return StoredValue::Plain;
        };
        let sealed = super::base64::decode(text).unwrap_or_default();
        let opened =
            self.0.iter().enumerate().find_map(|(n, key)| Some((n, key.key_for(name).open(&sealed)?)));
        match opened {
            Some((0, plain)) => StoredValue::Sealed(plain),
            Some((_, plain)) => StoredValue::SealedByOlderKey(plain),
            None => StoredValue::Locked(id.to_owned()),
        }
    }

    /// The ids, for messages to people.
    #[must_use]
    pub fn ids(&self) -> Vec<&str> {
        self.0.iter().map(|key| key.id.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(all: &[(&str, u8)]) -> EncryptionKeys {
        EncryptionKeys(all.iter().map(|(id, byte)| EncryptionKey::new(*id, [*byte; 32])).collect())
    }

    /// PRD-14: the first key seals, all of them open, under whatever id.
    #[test]
    fn prd_14_the_first_key_seals_and_all_open() {
        let stored = keys(&[("a", 1)]).seal("n", b"hush").unwrap();
        assert!(stored.starts_with("sealed:a:") && !stored.contains("hush"), "{stored}");
        let plain = b"hush".to_vec();
        for (with, wanted) in [
            (keys(&[("a", 1), ("b", 2)]), StoredValue::Sealed(plain.clone())),
            (keys(&[("renamed", 1)]), StoredValue::Sealed(plain.clone())),
            (keys(&[("b", 2), ("a", 1)]), StoredValue::SealedByOlderKey(plain)),
            (keys(&[("a", 2)]), StoredValue::Locked("a".into())),
            (keys(&[]), StoredValue::Locked("a".into())),
        ] {
            assert_eq!(with.read("n", &stored), wanted, "{with:?}");
        }
        assert_eq!(keys(&[("a", 1)]).read("other", &stored), StoredValue::Locked("a".into()));
        assert_eq!(keys(&[("a", 1)]).read("n", "0123"), StoredValue::Plain);
        assert_eq!(keys(&[]).seal("n", b"hush"), None);
    }

    #[test]
    fn keys_are_not_shown() {
        let shown = format!("{:?}", keys(&[("a", 173)]));
        assert!(shown.contains("\"a\"") && !shown.contains("173"), "{shown}");
    }
}
