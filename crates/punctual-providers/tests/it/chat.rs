//! Rooms: Slack-compatible webhooks.

use crate::letters::{class, letter, retry_after, send, settings};
use crate::stub::{Answer, Stub, words};
use punctual::RenderedMessage;
use punctual_providers::{Catalogue, HttpChannel};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

fn channel(stub: &Stub) -> HttpChannel {
    let catalogue = Catalogue::shipped().unwrap();
    let url = format!("{}/services/T000/B000/s3cr3tXXXX", stub.url);
    let given = settings(&[("webhook_url", &url), ("allow_host", "127.0.0.1")]);
    HttpChannel::new(Arc::clone(catalogue.get("slack-webhook").unwrap()), given).unwrap()
}

/// NTF-13, NTF-12: a room gets the text, and its one-word answers are classed.
#[tokio::test]
async fn ntf_13_a_slack_webhook_is_asked_as_documented() {
    let script = [
        words(200, "ok"),
        words(200, "ok"),
        words(400, "invalid_payload"),
        words(403, "action_prohibited"),
        words(404, "no_service"),
        words(410, "channel_is_archived"),
        words(429, "rate_limited").with("retry-after", "30"),
        words(500, "rollup_error"),
        Answer::Cut,
    ];
    let stub = Stub::start(script).await;
    let channel = channel(&stub);
    assert!(!format!("{channel:?}").contains("s3cr3tXXXX"), "the address is the secret: {channel:?}");
    assert_eq!(send(&channel, letter("#ops")).await.unwrap().message_id, None);
    send(&channel, RenderedMessage { subject: None, ..letter("") }).await.unwrap();
    let asked = stub.asked();
    assert_eq!(asked[0].target, "/services/T000/B000/s3cr3tXXXX");
    assert_eq!(asked[0].json(), json!({"text": format!("*Your \"stay\"*\n{}", letter("").body)}));
    assert_eq!(asked[1].json(), json!({"text": letter("").body}));
    for said in ["invalid_payload", "action_prohibited", "no_service", "channel_is_archived"] {
        let sent = send(&channel, letter("#ops")).await;
        assert!(matches!(class(&sent), ("permanent", error) if error.contains(said)), "{sent:?}");
    }
    let busy = send(&channel, letter("#ops")).await;
    assert_eq!((class(&busy).0, retry_after(&busy)), ("transient", Some(Duration::from_secs(30))));
    let rollup = send(&channel, letter("#ops")).await;
    assert_eq!((class(&rollup).0, retry_after(&rollup)), ("transient", Some(Duration::from_secs(30))));
    let cut = send(&channel, letter("#ops")).await;
    let (kind, error) = class(&cut);
    assert_eq!(kind, "no answer");
    assert!(!error.contains("s3cr3t"), "the address is a secret: {error}");
}
