//! The token of an unsubscribe link: the recipient's address is sealed inside it.
//!
//! A token is made without asking or writing anything, works for as long as the database's secret does, and
//! does not reveal its recipient: an address in a URL would end up in the logs of every proxy on the way.
//! `base/sealing.rs` seals it, so the same link has always the same token, and a token that was touched
//! anywhere opens to nothing. Why no table: `docs/adr/0016-unsubscribe-links.md`.

use crate::base::base64;
use crate::base::sealing::SealingKey;
use crate::base::tenant::Tenant;
use serde_json::json;

/// The key that tokens of one database are sealed with. Never shown.
#[derive(Clone, Copy)]
pub struct UnsubscribeSecret(SealingKey);

/// The contents of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsubscribeLink {
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

/// The longest token that is looked at, in characters; none that is made is as long.
const TOKEN_CHARS_MAX: usize = 4_000;

impl std::fmt::Debug for UnsubscribeSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl UnsubscribeSecret {
    /// A secret of random bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(SealingKey::new(bytes))
    }

    /// The token of a link.
    #[must_use]
    pub fn seal(&self, link: &UnsubscribeLink) -> String {
        let parts = json!([link.tenant.id(), link.address, link.channel, link.kind, link.locale]);
        base64::encode(&self.0.seal(parts.to_string().as_bytes()))
    }

    /// Returns the link of a token; `None` if the text is not a token of this database.
    #[must_use]
    pub fn open(&self, token: &str) -> Option<UnsubscribeLink> {
        let sealed = (token.len() <= TOKEN_CHARS_MAX).then(|| base64::decode(token))??;
        let text = self.0.open(&sealed)?;
        let (tenant, address, channel, kind, locale): Parts = serde_json::from_slice(&text).ok()?;
        Some(UnsubscribeLink { tenant: Tenant::from_row(tenant), address, channel, kind, locale })
    }
}

type Parts = (i64, String, String, Option<String>, Option<String>);

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

    fn link(address: &str) -> UnsubscribeLink {
        UnsubscribeLink {
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
        let secret = UnsubscribeSecret::new([7; 32]);
        let token = secret.seal(&link("ana@example.org"));
        assert_eq!(secret.open(&token), Some(link("ana@example.org")));
        assert_eq!(token, secret.seal(&link("ana@example.org")), "the same link has one token");
        let shown = String::from_utf8_lossy(&base64::decode(&token).unwrap()).into_owned();
        assert!(!shown.contains("ana") && !shown.contains("email"), "{shown}");
        assert_ne!(token[..20], secret.seal(&link("bob@example.org"))[..20]);
        assert_eq!(UnsubscribeSecret::new([8; 32]).open(&token), None, "another database's");
        assert_eq!(format!("{secret:?}"), "Secret");
    }

    /// NTF-18: a token cannot be forged, by changing one or from nothing.
    #[test]
    fn ntf_18_a_touched_token_opens_to_nothing() {
        let secret = UnsubscribeSecret::new([7; 32]);
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

    proptest! {
        #[test]
        fn every_link_comes_back(
            address in "[^\\p{Cc}]{0,320}",
            kind in proptest::option::of("[^\\p{Cc}]{0,255}"),
        ) {
            let secret = UnsubscribeSecret::new([9; 32]);
            let link = UnsubscribeLink { kind, locale: None, ..link(&address) };
            prop_assert_eq!(secret.open(&secret.seal(&link)), Some(link));
        }
    }
}
