//! A browser sends a key as the password of `Authorization: Basic`; for the guard it
//! becomes a bearer.

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderValue};

/// The same headers, with a basic password as a bearer.
pub(super) fn as_bearer(headers: &HeaderMap) -> HeaderMap {
    let mut out = headers.clone();
    let bearer = password(headers).and_then(|key| HeaderValue::try_from(format!("Bearer {key}")).ok());
    if let Some(bearer) = bearer {
        out.insert(AUTHORIZATION, bearer);
    }
    out
}

fn password(headers: &HeaderMap) -> Option<String> {
    let (scheme, encoded) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let plain = String::from_utf8(decode(encoded.trim())?).ok()?;
    plain.split_once(':').map(|(_, password)| password.to_owned())
}

/// Base64 with the standard letters, padded or not.
fn decode(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=');
    let (mut bits, mut held) = (0_u32, 0);
    let mut out = Vec::with_capacity(text.len() * 3 / 4);
    for letter in text.bytes() {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push(u8::try_from(bits >> held & 0xff).ok()?);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read() {
        for (text, want) in [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v", "foo"), ("Zm9vYmFy", "foobar")]
        {
            assert_eq!(decode(text).unwrap(), want.as_bytes());
        }
        assert_eq!(decode("Zm9v!"), None);
    }

    #[test]
    fn a_password_becomes_a_bearer() {
        let basic =
            HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static("Basic YW5uYTpwa19hYmM="))]);
        assert_eq!(as_bearer(&basic)[AUTHORIZATION], "Bearer pk_abc");
        let bearer = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static("Bearer x"))]);
        assert_eq!(as_bearer(&bearer)[AUTHORIZATION], "Bearer x");
        assert!(as_bearer(&HeaderMap::new()).is_empty());
    }
}
