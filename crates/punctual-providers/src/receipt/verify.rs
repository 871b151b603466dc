//! Whether a callback comes from whom it says.

use super::{Callback, CallbackError, Receipts};
use crate::file::receipt::{Stamp, Verification};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use punctual::Timestamp;
use punctual::base::{digest, duration};
use ring::hmac;
use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use std::time::Duration;

/// What a P-256 key of X.509 begins with, in bytes; then comes the point itself.
const P256_POINT_BYTES: usize = 65;

impl Receipts {
    /// Checks who sent a callback, and that it was signed lately where the provider signs a time. Returns
    /// that time.
    pub(super) fn verify(
        &self,
        callback: &Callback<'_>,
        came_at: Timestamp,
    ) -> Result<Option<Timestamp>, CallbackError> {
        let stamp = match &self.form.verify {
            Verification::Hmac { stamp, .. } => stamp.as_ref(),
            Verification::Ecdsa { stamp, .. } => Some(stamp),
            Verification::Twilio { .. } | Verification::Token { .. } => None,
        };
        if !self.is_proved(callback)? {
            return Err(CallbackError::Unproved("the signature or token is wrong".into()));
        }
        stamp.map(|stamp| signed_lately(stamp, needed(callback, &stamp.header)?, came_at)).transpose()
    }

    fn is_proved(&self, callback: &Callback<'_>) -> Result<bool, CallbackError> {
        Ok(match &self.form.verify {
            Verification::Hmac { secret, header, prefix, sha1, base64, stamp } => {
                let secret = self.secret(secret)?;
                let given = needed(callback, header)?.strip_prefix(prefix.as_str()).unwrap_or_default();
                let given = if *base64 { STANDARD.decode(given).ok() } else { unhex(given) };
                let stamp = stamp.as_ref().map(|stamp| needed(callback, &stamp.header)).transpose()?;
                let content = stamp.map(|stamp| [stamp.as_bytes(), b".", callback.body].concat());
                let content = content.as_deref().unwrap_or(callback.body);
                given.is_some_and(|given| signed(*sha1, &secret, content, &given))
            }
            Verification::Twilio { secret } => {
                let secret = self.secret(secret)?;
                let given = STANDARD.decode(needed(callback, "x-twilio-signature")?).unwrap_or_default();
                signed(true, &secret, &twilio_content(callback), &given)
            }
            Verification::Ecdsa { public_key, header, stamp } => {
                let key = self.secret(public_key)?;
                let given = STANDARD.decode(needed(callback, header)?).unwrap_or_default();
                let content = [needed(callback, &stamp.header)?.as_bytes(), callback.body].concat();
                point(&key).is_some_and(|point| {
                    UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point).verify(&content, &given).is_ok()
                })
            }
            Verification::Token { secret, header, query } => {
                let secret = self.secret(secret)?;
                let in_header = header.as_deref().and_then(|name| callback.header(name)).map(Into::into);
                let given = in_header.or_else(|| query.as_deref().and_then(|name| callback.query(name)));
                same(given.unwrap_or_default().as_bytes(), secret.as_bytes())
            }
        })
    }
}

/// The signed time, unless it is too far from the time at which the callback came.
fn signed_lately(stamp: &Stamp, text: &str, came_at: Timestamp) -> Result<Timestamp, CallbackError> {
    let unusable = || {
        CallbackError::Unproved(format!(
            "`{}` is not a time, such as 1789650000 in Unix seconds",
            stamp.header
        ))
    };
    let signed_at = super::time(text).ok_or_else(unusable)?;
    let apart = Duration::from_micros(came_at.as_micros().abs_diff(signed_at.as_micros()));
    if apart > stamp.tolerance {
        let (signed, limit) = (signed_at.to_string(), duration::write(stamp.tolerance));
        let said = format!(
            "it was signed at {signed}, which is more than {limit} from now; check this server's clock"
        );
        return Err(CallbackError::Unproved(said));
    }
    Ok(signed_at)
}

fn needed<'a>(callback: &Callback<'a>, header: &str) -> Result<&'a str, CallbackError> {
    callback.header(header).ok_or_else(|| CallbackError::Unproved(format!("the header {header} is missing")))
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
