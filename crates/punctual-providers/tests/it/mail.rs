//! Mail over HTTP: SendGrid, Azure Communication Services.

use crate::letters::{UUID, channel, class, classes, letter, retry_after, send};
use crate::stub::{Answer, Stub, reply};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use punctual::RenderedMessage;
use ring::{digest, hmac};
use serde_json::json;
use std::time::Duration;

const ADA: &str = "ada@example.com";
const SENDGRID: [(&str, &str); 3] =
    [("api_key", "SG.s3cr3t"), ("sender", "noreply@eventhub.example"), ("sender_name", "Event Hub")];
/// `access-key` in base64.
const AZURE: [(&str, &str); 2] = [("access_key", "YWNjZXNzLWtleQ=="), ("sender", "noreply@eventhub.example")];

fn rich() -> RenderedMessage {
    RenderedMessage {
        html: Some("<p>Hello</p>".into()),
        unsubscribe_url: Some("https://punctual.example/u/abc".into()),
        ..letter(ADA)
    }
}

/// NTF-13: SendGrid gets text, HTML and the headers of one-click unsubscribing.
#[tokio::test]
async fn ntf_13_sendgrid_is_asked_as_documented() {
    let taken = || Answer::Reply {
        status: 202,
        headers: vec![("x-message-id", "14c5d75c".into())],
        body: String::new(),
    };
    let stub = Stub::start([taken(), taken()]).await;
    let channel = channel("sendgrid", &stub, &SENDGRID);
    let sent = send(&channel, rich()).await.unwrap();
    assert_eq!((sent.message_id.as_deref(), sent.answer), (Some("14c5d75c"), None));
    send(&channel, letter(ADA)).await.unwrap();
    let asked = stub.asked();
    assert_eq!(
        (asked[0].target.as_str(), asked[0].header("authorization")),
        ("/v3/mail/send", "Bearer SG.s3cr3t")
    );
    let key = "12345:booking.confirmed:SMS:7";
    let want = json!({
        "from": {"email": "noreply@eventhub.example", "name": "Event Hub"},
        "subject": "Your \"stay\"",
        "personalizations": [{"to": [{"email": ADA}], "custom_args": {"idempotency_key": key}}],
        "content": [{"type": "text/plain", "value": rich().body},
            {"type": "text/html", "value": "<p>Hello</p>"}],
        "headers": {"List-Unsubscribe": "<https://punctual.example/u/abc>",
            "List-Unsubscribe-Post": "List-Unsubscribe=One-Click"},
    });
    assert_eq!(asked[0].json(), want);
    let plain = asked[1].json();
    assert_eq!((plain["content"].as_array().unwrap().len(), plain.get("headers")), (1, None));
}

/// NTF-12: SendGrid's answers, each in its class, and its Retry-After.
#[tokio::test]
async fn ntf_12_sendgrid_errors_are_classed() {
    let error = |message: &str| json!({"errors": [{"message": message, "field": "from", "help": null}]});
    let table = vec![
        (reply(400, error("Does not contain a valid address.")), "permanent", "valid address"),
        (
            reply(401, error("The provided authorization grant is invalid")),
            "permanent",
            "authorization grant",
        ),
        (
            reply(403, error("The from address does not match a verified Sender")),
            "permanent",
            "verified Sender",
        ),
        (reply(413, error("too large")), "permanent", "too large"),
        (reply(429, error("too many requests")), "transient", "too many requests"),
        (reply(500, error("oops")), "transient", "oops"),
        (Answer::Cut, "no answer", "it may have been sent"),
    ];
    classes("sendgrid", &SENDGRID, || letter(ADA), table).await;
    let stub = Stub::start([reply(429, error("too many requests")).with("retry-after", "60")]).await;
    let channel = channel("sendgrid", &stub, &SENDGRID);
    let sent = send(&channel, letter(ADA)).await;
    assert_eq!(retry_after(&sent), Some(Duration::from_secs(60)));
    for bad in ["ada", "ada@example.com\r\nBcc: eve@example.com", "a,b@example.com", "+919876543210"] {
        assert_eq!(class(&send(&channel, letter(bad)).await).0, "permanent", "{bad}");
    }
    assert_eq!(stub.asked().len(), 1, "no call was made for those");
}

/// NTF-13: Azure's signature covers method, path, time, host and body; its operation id is our key.
#[tokio::test]
async fn ntf_13_azure_is_asked_and_signed_as_documented() {
    let taken = json!({"id": UUID, "status": "Running", "error": null});
    let stub = Stub::start([reply(202, taken)]).await;
    let sent = send(&channel("azure-email", &stub, &AZURE), rich()).await.unwrap();
    assert_eq!(sent.message_id.as_deref(), Some(UUID));
    let asked = stub.only();
    assert_eq!(asked.target, "/emails:send?api-version=2023-03-31");
    assert_eq!(asked.header("operation-id"), UUID);
    let want = json!({
        "senderAddress": "noreply@eventhub.example",
        "content": {"subject": "Your \"stay\"", "plainText": rich().body, "html": "<p>Hello</p>"},
        "recipients": {"to": [{"address": ADA}]},
        "headers": {"List-Unsubscribe": "<https://punctual.example/u/abc>",
            "List-Unsubscribe-Post": "List-Unsubscribe=One-Click"},
    });
    assert_eq!(asked.json(), want);
    let body_digest = STANDARD.encode(digest::digest(&digest::SHA256, &asked.body));
    assert_eq!(asked.header("x-ms-content-sha256"), body_digest);
    let (date, host) = (asked.header("x-ms-date"), asked.header("host"));
    assert!(date.ends_with(" GMT") && date.len() == 29, "{date}");
    let content = format!("POST\n/emails:send?api-version=2023-03-31\n{date};{host};{body_digest}");
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, b"access-key"), content.as_bytes());
    let want = format!(
        "HMAC-SHA256 SignedHeaders=x-ms-date;host;x-ms-content-sha256&Signature={}",
        STANDARD.encode(tag)
    );
    assert_eq!(asked.header("authorization"), want);
}

/// NTF-12: Azure's answers, each in its class.
#[tokio::test]
async fn ntf_12_azure_errors_are_classed() {
    let error = |code: &str, message: &str| json!({"error": {"code": code, "message": message}});
    let table = vec![
        (reply(400, error("BadRequest", "Invalid format for email address")), "permanent", "Invalid format"),
        (reply(401, error("Denied", "Denied by the resource provider.")), "permanent", "Denied"),
        (
            reply(404, error("DomainNotLinked", "The specified sender domain has not been linked.")),
            "permanent",
            "linked",
        ),
        (reply(409, error("Conflict", "in progress")), "unknown", "in progress"),
        (reply(429, error("TooManyRequests", "try again after 30 seconds")), "transient", "try again"),
        (reply(500, error("InternalServerError", "oops")), "transient", "oops"),
        (Answer::Cut, "no answer", "it may have been sent"),
    ];
    classes("azure-email", &AZURE, || letter(ADA), table).await;
}
