//! Sign-in of browsers: the key is the password of `Authorization: Basic`, and becomes a bearer for the
//! guard.

use crate::base64::decode;
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderValue};

/// Returns the headers with a basic password as a bearer.
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

#[cfg(test)]
mod tests {
    use super::*;

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
