//! Whether a callback comes from whom it says.

use super::{Callback, Receipts, Refused};
use crate::file::receipt::Verify;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use punctual::rules::digest;
use ring::hmac;
use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};

/// What a P-256 key of X.509 begins with, in bytes; then comes the point itself.
const P256_POINT_BYTES: usize = 65;

impl Receipts {
    pub(super) fn verify(&self, callback: &Callback<'_>) -> Result<(), Refused> {
        let holds = match &self.form.verify {
            Verify::Hmac { secret, header, prefix, sha1, base64, stamp } => {
                let secret = self.secret(secret)?;
                let given = needed(callback, header)?.strip_prefix(prefix.as_str()).unwrap_or_default();
                let given = if *base64 { STANDARD.decode(given).ok() } else { unhex(given) };
                let stamp = stamp.as_deref().map(|name| needed(callback, name)).transpose()?;
                let content = stamp.map(|stamp| [stamp.as_bytes(), b".", callback.body].concat());
                let content = content.as_deref().unwrap_or(callback.body);
                given.is_some_and(|given| signed(*sha1, &secret, content, &given))
            }
            Verify::Twilio { secret } => {
                let secret = self.secret(secret)?;
                let given = STANDARD.decode(needed(callback, "x-twilio-signature")?).unwrap_or_default();
                signed(true, &secret, &twilio_content(callback), &given)
            }
            Verify::Ecdsa { public_key, header, timestamp } => {
                let key = self.secret(public_key)?;
                let given = STANDARD.decode(needed(callback, header)?).unwrap_or_default();
                let content = [needed(callback, timestamp)?.as_bytes(), callback.body].concat();
                point(&key).is_some_and(|point| {
                    UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point).verify(&content, &given).is_ok()
                })
            }
            Verify::Token { secret, header, query } => {
                let secret = self.secret(secret)?;
                let in_header = header.as_deref().and_then(|name| callback.header(name)).map(Into::into);
                let given = in_header.or_else(|| query.as_deref().and_then(|name| callback.query(name)));
                same(given.unwrap_or_default().as_bytes(), secret.as_bytes())
            }
        };
        if holds { Ok(()) } else { Err(Refused::Unproved("the signature or token is wrong".into())) }
    }
}

fn needed<'a>(callback: &Callback<'a>, header: &str) -> Result<&'a str, Refused> {
    callback.header(header).ok_or_else(|| Refused::Unproved(format!("the header {header} is missing")))
}

fn signed(sha1: bool, secret: &str, content: &[u8], given: &[u8]) -> bool {
    let algorithm = if sha1 { hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY } else { hmac::HMAC_SHA256 };
    hmac::verify(&hmac::Key::new(algorithm, secret.as_bytes()), content, given).is_ok()
}

/// The URL, then each field's name and value, in order of names.
fn twilio_content(callback: &Callback<'_>) -> Vec<u8> {
    let mut fields: Vec<_> = form_urlencoded::parse(callback.body).collect();
    fields.sort();
    let mut content = callback.url.as_bytes().to_vec();
    for (name, value) in fields {
        content.extend_from_slice(name.as_bytes());
        content.extend_from_slice(value.as_bytes());
    }
    content
}

/// The point of a public key in base64, with or without the lines of PEM around it.
fn point(key: &str) -> Option<Vec<u8>> {
    let lines = key.lines().filter(|line| !line.starts_with("-----"));
    let bare: String = lines.flat_map(str::chars).filter(|c| !c.is_whitespace()).collect();
    let mut der = STANDARD.decode(bare).ok()?;
    let start = der.len().checked_sub(P256_POINT_BYTES)?;
    Some(der.split_off(start))
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let pair = |two: &[u8]| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok();
    digits.len().is_multiple_of(2).then(|| digits.chunks(2).map(pair).collect()).flatten()
}

/// Whether two secrets are the same, in a time that does not tell how far they are.
pub(super) fn same(a: &[u8], b: &[u8]) -> bool {
    digest::of([a]) == digest::of([b])
}
