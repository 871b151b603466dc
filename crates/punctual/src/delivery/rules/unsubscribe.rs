//! The token of an unsubscribe link: the recipient's address is sealed inside it.
//!
//! A token is made without asking or writing anything, works for as long as the database's secret does, and
//! does not reveal its recipient: an address in a URL would end up in the logs of every proxy on the way. The
//! scheme is a synthetic IV (SIV) over HMAC-SHA256: the tag is the MAC of the text, and the text is hidden by
//! a key stream that begins from the tag. So the same link has always the same token, and a token that was
//! touched anywhere opens to nothing. Why no table: `docs/adr/0016-unsubscribe-links.md`.

use crate::base::tenant::Tenant;
use hmac_sha256::HMAC;
use serde_json::json;

/// The key that tokens of one database are sealed with. Never shown.
#[derive(Clone, Copy)]
pub struct Secret([u8; 32]);

/// The contents of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The tenant of the recipient.
    pub tenant: Tenant,
    /// The address, as consent compares it.
    pub address: String,
    /// The kind of the channel, in lower case.
    pub channel: String,
    /// The kind of events; every kind if `None`.
    pub kind: Option<String>,
    /// The language of what was sent.
    pub locale: Option<String>,
}

/// Bytes of the tag: 128 bits cannot be guessed.
const TAG_BYTES: usize = 16;
/// The longest token that is looked at, in characters; none that is made is as long.
const TOKEN_CHARS_MAX: usize = 4_000;
const BLOCK_BYTES: usize = 32;

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// A secret of random bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The token of a link.
    #[must_use]
    pub fn seal(&self, link: &Link) -> String {
        let parts = json!([link.tenant.id(), link.address, link.channel, link.kind, link.locale]);
        let mut text = parts.to_string().into_bytes();
        let tag = self.tag(&text);
        self.stream(&tag, &mut text);
        base64(tag.into_iter().chain(text))
    }

    /// Returns the link of a token; `None` if the text is not a token of this database.
    #[must_use]
    pub fn open(&self, token: &str) -> Option<Link> {
        let bytes = (token.len() <= TOKEN_CHARS_MAX).then(|| from_base64(token))??;
        let (tag, rest) = bytes.split_first_chunk::<TAG_BYTES>()?;
        let mut text = rest.to_vec();
        self.stream(tag, &mut text);
        // All of both tags is compared: the time it takes reveals nothing.
        let differs = tag.iter().zip(self.tag(&text)).fold(0, |differs, (a, b)| differs | (a ^ b));
        if differs != 0 {
            return None;
        }
        let (tenant, address, channel, kind, locale): Parts = serde_json::from_slice(&text).ok()?;
        Some(Link { tenant: Tenant::from_row(tenant), address, channel, kind, locale })
    }

    fn tag(&self, text: &[u8]) -> [u8; TAG_BYTES] {
        let mut mac = HMAC::new(self.key(b"tag"));
        mac.update(text);
        let mut tag = [0; TAG_BYTES];
        tag.copy_from_slice(&mac.finalize()[..TAG_BYTES]);
        tag
    }

    /// Hides a text, or shows it again.
    fn stream(&self, tag: &[u8; TAG_BYTES], text: &mut [u8]) {
        let key = self.key(b"stream");
        for (number, block) in (0_u64..).zip(text.chunks_mut(BLOCK_BYTES)) {
            let mut mac = HMAC::new(key);
            mac.update(tag);
            mac.update(number.to_be_bytes());
            block.iter_mut().zip(mac.finalize()).for_each(|(byte, mask)| *byte ^= mask);
        }
    }

    /// A key for one use, so that a tag never is a piece of the stream.
    fn key(&self, what_for: &[u8]) -> [u8; 32] {
        HMAC::mac(what_for, self.0)
    }
}

type Parts = (i64, String, String, Option<String>, Option<String>);

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Base64 for URLs, without padding.
fn base64(bytes: impl Iterator<Item = u8>) -> String {
    let mut out = String::new();
    let (mut bits, mut held) = (0_u32, 0);
    for byte in bytes {
        bits = bits << 8 | u32::from(byte);
        held += 8;
        while held >= 6 {
            held -= 6;
            out.push(letter(bits >> held));
        }
    }
    if held > 0 {
        out.push(letter(bits << (6 - held)));
    }
    out
}

fn letter(bits: u32) -> char {
    char::from(ALPHABET[(bits & 63) as usize])
}

/// Only the text that [`base64`] writes is read: each token has one.
fn from_base64(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut held) = (0_u32, 0);
    for byte in text.bytes() {
        let value = ALPHABET.iter().position(|known| *known == byte)?;
        bits = bits << 6 | u32::try_from(value).ok()?;
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held & 0xff) as u8);
        }
    }
    (held < 6 && bits & ((1 << held) - 1) == 0).then_some(out)
}

/// The headers that a mail has for one-click unsubscribing (RFC 8058): names and values.
#[must_use]
pub fn mail_headers(url: &str) -> [(&'static str, String); 2] {
    [
        ("List-Unsubscribe", format!("<{url}>")),
        ("List-Unsubscribe-Post", "List-Unsubscribe=One-Click".to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn link(address: &str) -> Link {
        Link {
            tenant: Tenant::DEFAULT,
            address: address.into(),
            channel: "email".into(),
            kind: Some("newsletter".into()),
            locale: Some("ar".into()),
        }
    }

    /// NTF-18: a token reveals its recipient to this engine only.
    #[test]
    fn ntf_18_a_token_opens_to_its_link_and_shows_nothing() {
        let secret = Secret::new([7; 32]);
        let token = secret.seal(&link("ana@example.org"));
        assert_eq!(secret.open(&token), Some(link("ana@example.org")));
        assert_eq!(token, secret.seal(&link("ana@example.org")), "the same link has one token");
        assert!(token.bytes().all(|b| ALPHABET.contains(&b)), "{token}");
        let shown = String::from_utf8_lossy(&from_base64(&token).unwrap()).into_owned();
        assert!(!shown.contains("ana") && !shown.contains("email"), "{shown}");
        assert_ne!(token[..20], secret.seal(&link("bob@example.org"))[..20]);
        assert_eq!(Secret::new([8; 32]).open(&token), None, "another database's");
        assert_eq!(format!("{secret:?}"), "Secret");
    }

    /// NTF-18: a token cannot be forged, by changing one or from nothing.
    #[test]
    fn ntf_18_a_touched_token_opens_to_nothing() {
        let secret = Secret::new([7; 32]);
        let token = secret.seal(&link("ana@example.org"));
        for at in 0..token.len() {
            let mut bytes = token.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let touched = String::from_utf8(bytes).unwrap();
            assert_eq!(secret.open(&touched), None, "character {at}");
            assert_eq!(secret.open(&token[..at]), None, "cut at {at}");
        }
        for wrong in ["", "x", "ä", "AAAAAAAAAAAAAAAAAAAAAA", &format!("{token}="), &format!("{token}A")] {
            assert_eq!(secret.open(wrong), None, "{wrong}");
        }
        assert_eq!(secret.open(&"A".repeat(TOKEN_CHARS_MAX + 4)), None);
    }

    #[test]
    fn base64_is_what_everybody_calls_so() {
        for (bytes, text) in [("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg")] {
            assert_eq!(base64(bytes.bytes()), text);
            assert_eq!(from_base64(text).as_deref(), Some(bytes.as_bytes()));
        }
        assert_eq!(from_base64("Zh"), None, "bits beyond the last byte");
    }

    proptest! {
        #[test]
        fn every_link_comes_back(
            address in "[^\\p{Cc}]{0,320}",
            kind in proptest::option::of("[^\\p{Cc}]{0,255}"),
        ) {
            let secret = Secret::new([9; 32]);
            let link = Link { kind, locale: None, ..link(&address) };
            prop_assert_eq!(secret.open(&secret.seal(&link)), Some(link));
        }
    }
}
