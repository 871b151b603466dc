//! Mutated provider files, answers and callbacks: none panics, and none is believed that should not be.

use super::destination::ALLOW_HOST;
use super::judge::{Judge, ProviderResponse};
use crate::mutation::try_all;
use crate::{Callback, CallbackOutcome, Catalogue, HttpChannel, ProviderFile, Receipts, Settings};
use reqwest::header::HeaderMap;
use ring::hmac;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

const SECRET: &str = "s3cr3t-t0k3n";
/// The headers that the shipped providers prove themselves by.
const PROOFS: [&str; 7] = [
    "x-hub-signature-256",
    "x-twilio-signature",
    "x-twilio-email-event-webhook-signature",
    "x-twilio-email-event-webhook-timestamp",
    "interakt-signature",
    "x-webhook-token",
    "authorization",
];

fn mutated(name: &str, target: impl FnMut(&[u8])) {
    try_all(env!("CARGO_MANIFEST_DIR"), name, target);
}

/// Something for every setting of a provider.
fn given(file: &ProviderFile) -> BTreeMap<String, String> {
    let own = file.settings().iter().filter(|setting| setting.name != ALLOW_HOST);
    own.map(|setting| {
        let value = if setting.url { "https://api.example.com" } else { SECRET };
        (setting.name.clone(), value.to_owned())
    })
    .collect()
}

/// The first line of an input, and the rest.
fn split(input: &[u8]) -> (String, &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    (String::from_utf8_lossy(&input[..end]).into_owned(), input.get(end + 1..).unwrap_or_default())
}

/// PRD-7: a provider's file is refused with every problem, or makes a channel or says why not.
#[test]
#[ignore = "slow"]
fn prd_7_mutated_provider_files_are_read_or_refused() {
    mutated("provider-files", |input| match ProviderFile::parse("own", &String::from_utf8_lossy(input)) {
        Err(problems) => assert!(!problems.0.is_empty(), "a refusal says why"),
        Ok(file) => {
            let given = given(&file);
            if let Ok(channel) = HttpChannel::new(Arc::new(file), given) {
                assert!(!format!("{channel:?}").contains(SECRET));
            }
        }
    });
}

/// PRD-7, NTF-12: a body that says no is never taken for a success, and no secret is kept.
#[test]
#[ignore = "slow"]
fn prd_7_mutated_answers_are_never_taken_for_a_success() {
    let catalogue = Catalogue::shipped().unwrap();
    let file = catalogue.get("meta-whatsapp").unwrap();
    let settings = Settings::new(file.settings(), given(file)).unwrap();
    let clean = |text: &str| settings.redacted(text);
    mutated("answers", |input| {
        let (status, body) = split(input);
        let status = status.trim().parse().unwrap_or(200);
        let body = [body, b" ", SECRET.as_bytes()].concat();
        for body in [&body[..], &body[..body.len() - SECRET.len() - 1]] {
            let heard = ProviderResponse::of(status, HeaderMap::new(), body);
            let said = heard.judge(&Judge { file, settings: &settings, clean: &clean });
            assert!(!format!("{said:?}").contains(SECRET), "{said:?}");
            let json: Option<Value> = serde_json::from_slice(body).ok();
            let refused = json.is_some_and(|json| json["error"]["code"].is_number());
            assert!(!(refused && said.is_ok()), "{said:?}");
        }
    });
}

/// PRD-7, NTF-16: no callback is believed whose proof was not made with the secret, whatever it says.
#[test]
#[ignore = "slow"]
fn prd_7_mutated_signatures_prove_nothing() {
    let catalogue = Catalogue::shipped().unwrap();
    let all: Vec<Receipts> = catalogue
        .names()
        .filter_map(|name| {
            let file = catalogue.get(name).unwrap();
            Receipts::of(file, &Settings::new(file.settings(), given(file)).unwrap())
        })
        .collect();
    assert!(all.len() > 5);
    let meta = catalogue.get("meta-whatsapp").unwrap();
    let signed = Receipts::of(meta, &Settings::new(meta.settings(), given(meta)).unwrap()).unwrap();
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    mutated("signatures", |input| {
        let (proof, body) = split(input);
        let headers = PROOFS.map(|name| (name, proof.as_str()));
        let url = format!("https://x.example/webhooks/x?token={proof}");
        let callback = Callback { method: "POST", url: &url, headers: &headers, body };
        for receipts in all.iter().filter(|_| !proof.contains(SECRET)) {
            let heard = receipts.hear(&callback);
            assert!(!matches!(heard, Ok(CallbackOutcome::Receipts(_))), "{heard:?}");
        }
        let tag: String = hmac::sign(&key, body).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let proof = format!("sha256={tag}");
        let headers = [("x-hub-signature-256", proof.as_str())];
        let _ = signed.hear(&Callback { method: "POST", url: &url, headers: &headers, body });
    });
}
