//! Secrets and addresses in what a provider answers: nothing of them is kept.

use crate::letters::{INDIAN, class, letter, send, settings};
use crate::stub::{Stub, reply, words};
use crate::trouble::{FILE, own};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use punctual_providers::{Callback, CallbackOutcome, Catalogue, Receipts, Settings};
use serde_json::json;

/// The secret of [`own`] in forms that providers echo.
fn echoes() -> Vec<String> {
    vec![
        "s3cr3t-t0k3n".into(),
        format!("Basic {}", STANDARD.encode("account:s3cr3t-t0k3n")),
        format!("Basic {}", STANDARD.encode("an:s3cr3t-t0k3n")),
        STANDARD.encode("s3cr3t-t0k3n"),
        URL_SAFE_NO_PAD.encode("?s3cr3t-t0k3n?"),
        "s3cr3t%2Dt0k3n".into(),
        "%73%33cr3t%2dt0k3n".into(),
        "s3cr3t\\u002dt0k3n".into(),
    ]
}

/// SECURITY.md, "Answers of providers": no encoding of a secret gets into an error, an answer or an id.
#[tokio::test]
async fn no_encoding_of_a_secret_is_kept() {
    for echo in echoes() {
        let body = format!("denied: {echo} for %2B919876543210 \u{1b}[31m\u{7}");
        let id = json!({"id": echo, "why": body});
        let stub = Stub::start([words(400, &body), reply(200, id)]).await;
        let channel = own(FILE, &stub.url);
        let refused = send(&channel, letter(INDIAN)).await;
        let taken = send(&channel, letter(INDIAN)).await.unwrap();
        for text in [class(&refused).1, &taken.answer.unwrap(), &taken.message_id.unwrap()] {
            assert!(text.contains("•••"), "{text}");
            assert!(!text.contains(&echo) && !text.contains("t0k3n"), "{text}");
            assert!(!text.contains("9876543210") && !text.chars().any(char::is_control), "{text:?}");
        }
    }
}

/// A secret that stands where a text is cut is hidden before it is cut.
#[tokio::test]
async fn a_secret_at_the_cut_is_hidden() {
    for before in [290, 295, 990, 995] {
        let body = format!("{}s3cr3t-t0k3n", "x".repeat(before));
        let stub = Stub::start([reply(400, json!({"why": body})), words(200, &body)]).await;
        let channel = own(FILE, &stub.url);
        let refused = send(&channel, letter(INDIAN)).await;
        let taken = send(&channel, letter(INDIAN)).await.unwrap();
        for text in [class(&refused).1, &taken.answer.unwrap()] {
            assert!(!text.contains("s3c"), "{text}");
        }
    }
}

/// SECURITY.md, "Answers of providers": callbacks are redacted as answers are, so that ids still match.
#[test]
fn callbacks_are_redacted_as_answers_are() {
    let pairs = [("account_sid", "AC1"), ("auth_token", "s3cr3t-t0k3n"), ("from", "+15005550006")];
    let catalogue = Catalogue::shipped().unwrap();
    let file = catalogue.get("twilio-sms").unwrap();
    let settings = Settings::new(file.settings(), settings(&pairs)).unwrap();
    let body = "MessageSid=SM-s3cr3t-t0k3n&MessageStatus=failed&ErrorCode=s3cr3t%252Dt0k3n%1B%5B31m&To=%2B1";
    let url = "https://x.example/webhooks/twilio-sms";
    let mut signed = url.to_owned();
    let mut fields: Vec<_> = form_urlencoded::parse(body.as_bytes()).into_owned().collect();
    fields.sort();
    fields.iter().for_each(|(name, value)| signed.push_str(&format!("{name}{value}")));
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, b"s3cr3t-t0k3n");
    let proof = STANDARD.encode(ring::hmac::sign(&key, signed.as_bytes()));
    let headers = [("X-Twilio-Signature", proof.as_str())];
    let callback = Callback { method: "POST", url, headers: &headers, body: body.as_bytes() };
    let heard = Receipts::of(file, &settings).unwrap().hear(&callback).unwrap();
    let CallbackOutcome::Receipts(receipts) = heard else { panic!("{heard:?}") };
    assert_eq!(receipts[0].message_id.as_deref(), Some("SM-•••"));
    assert_eq!(receipts[0].error.as_deref(), Some("••• [31m"));
}
