//! Where requests go: what a message brings cannot decide it, and the configuration only by name.

use crate::letters::{INDIAN, class, letter, send, settings};
use crate::stub::{Stub, reply};
use punctual::RenderedMessage;
use punctual_providers::{Catalogue, HttpChannel, ProviderFile};
use serde_json::{Value, json};
use std::sync::Arc;

/// A provider whose path has values of the event in it.
const FILE: &str = r#"
kind = "sms"
address = "phone"
[settings]
base_url = { about = "where", url = true }
[request]
url = "{{setting.base_url}}/v1/{{payload.a}}{{payload.b}}/{{payload.c}}/send?q={{payload.q}}"
[request.body]
json = { text = "{{body}}" }
"#;

fn open(url: &str, base: &str, allowed: Option<&str>) -> Result<HttpChannel, String> {
    let text = FILE.replace(
        "{{setting.base_url}}/v1/{{payload.a}}{{payload.b}}/{{payload.c}}/send?q={{payload.q}}",
        url,
    );
    let file = ProviderFile::parse("own", &text).map_err(|problems| problems.to_string())?;
    let mut given = settings(&[("base_url", base)]);
    given.extend(allowed.map(|host| ("allow_host".to_owned(), host.to_owned())));
    HttpChannel::new(Arc::new(file), given).map_err(|problems| problems.to_string())
}

fn carrying(payload: Value) -> RenderedMessage {
    RenderedMessage { payload: Arc::new(payload), ..letter(INDIAN) }
}

/// SECURITY.md, "Destinations": a value of an event is a part of one segment, or the message is refused.
#[tokio::test]
async fn a_value_stays_within_its_segment() {
    let stub = Stub::start(std::iter::repeat_n(reply(200, json!({})), 8)).await;
    let file = Arc::new(ProviderFile::parse("own", FILE).unwrap());
    let given = settings(&[("base_url", &stub.url), ("allow_host", "127.0.0.1")]);
    let channel = HttpChannel::new(file, given).unwrap();
    let kept = [
        ("a", "b", "c", "/v1/ab/c/send"),
        ("..", "x", "...", "/v1/..x/.../send"),
        ("../", "admin", "c", "/v1/..%2Fadmin/c/send"),
        ("%2e", "%2e", "c", "/v1/%252e%252e/c/send"),
        ("a?x=1", "#f", "\\..\\", "/v1/a%3Fx%3D1%23f/%5C..%5C/send"),
        ("@evil.example", ":99", "c", "/v1/%40evil.example%3A99/c/send"),
    ];
    for (a, b, c, want) in kept {
        send(&channel, carrying(json!({"a": a, "b": b, "c": c, "q": "../&x=1"}))).await.unwrap();
        assert_eq!(stub.asked().last().unwrap().target, format!("{want}?q=..%2F%26x%3D1"));
    }
    for (a, b, c) in
        [("..", "", "c"), (".", ".", "c"), ("a", "b", ".."), ("a", "b", "."), ("", "", "c"), ("a", "b", "")]
    {
        let sent = send(&channel, carrying(json!({"a": a, "b": b, "c": c}))).await;
        let said = class(&sent);
        assert!(said.0 == "permanent" && said.1.contains("would change the path"), "{a} {b} {c}: {said:?}");
    }
    assert_eq!(stub.asked().len(), kept.len(), "what is refused is not asked");
}

/// SECURITY.md, "Destinations": a file that takes the host or the port from an event is refused.
#[test]
fn an_event_cannot_name_the_host() {
    let wrong = [
        "https://{{payload.host}}/send",
        "https://{{ payload.host | lower }}.example.com/send",
        "https://api.example.com:{{payload.port}}/send",
        "https://api.example.com{{payload.rest}}",
        "https://{{to}}@example.com/",
        "{{setting.base_url}}{{payload.rest}}",
        "{{setting.base_url}}.{{body}}/x",
        "{{setting.base_url}}:{{payload.port}}/x",
    ];
    for url in wrong {
        let said = open(url, "https://api.example.com", None).unwrap_err();
        assert!(said.contains("only settings may decide the host"), "{url}: {said}");
    }
    for url in ["{{payload.url}}", "{{to}}/x", "http://api.example.com/"] {
        assert!(open(url, "https://api.example.com", None).is_err(), "{url}");
    }
    for url in ["{{setting.base_url}}", "{{setting.base_url}}?to={{to}}", "https://api.example.com/{{to}}"] {
        assert!(open(url, "https://api.example.com", None).is_ok(), "{url}");
    }
}

/// SECURITY.md, "Destinations": what is not public, or plain http with a secret, needs `allow_host`.
#[test]
fn a_base_url_that_is_not_public_must_be_allowed_by_name() {
    let url = "{{setting.base_url}}/send";
    for (base, host) in [
        ("http://127.0.0.1:8080", "127.0.0.1"),
        ("https://2130706433", "127.0.0.1"),
        ("https://169.254.169.254", "169.254.169.254"),
        ("https://10.1.2.3", "10.1.2.3"),
        ("https://[::ffff:10.1.2.3]", "::ffff:10.1.2.3"),
        ("https://[64:ff9b::7f00:1]", "64:ff9b::7f00:1"),
        ("https://localhost", "localhost"),
    ] {
        let said = open(url, base, None).unwrap_err();
        assert!(said.starts_with("base_url: leads to ") && said.contains("allow_host"), "{base}: {said}");
        assert!(open(url, base, Some(host)).is_ok(), "{base}");
        assert!(open(url, base, Some("api.example.com")).is_err(), "{base}");
    }
    let catalogue = Catalogue::shipped().unwrap();
    let twilio = |base: &str| {
        let given = [("account_sid", "AC1"), ("auth_token", "t0k3n"), ("from", "+1"), ("base_url", base)];
        HttpChannel::new(Arc::clone(catalogue.get("twilio-sms").unwrap()), settings(&given))
    };
    assert!(twilio("https://api.twilio.com").is_ok());
    assert!(twilio("http://api.twilio.com").unwrap_err().to_string().contains("plain http"));
}
