//! What can go wrong with any provider: silence, cuts, redirects, answers without an end.

use crate::letters::{INDIAN, class, letter, retry_after, send, settings};
use crate::stub::{Answer, Stub, reply, words};
use punctual::RenderedMessage;
use punctual_providers::{Catalogue, HttpChannel, ProviderFile};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) const FILE: &str = r#"
kind = "sms"
address = "phone"
[settings]
base_url = { about = "where", url = true }
token = { about = "secret", secret = true }
[request]
url = "{{setting.base_url}}/send/{{to}}?who={{subject}}"
timeout = "1s"
headers = { X-Token = "{{setting.token}}" }
idempotency_header = "Idempotency-Key"
[request.body]
json = { text = "{{body}}" }
[response]
message_id = "id"
error = "why"
"#;

pub(crate) fn own(text: &str, url: &str) -> HttpChannel {
    let file = ProviderFile::parse("own", text).unwrap_or_else(|problems| panic!("{problems}"));
    let given = [("base_url", url), ("token", "s3cr3t-t0k3n"), ("allow_host", "127.0.0.1")];
    HttpChannel::new(Arc::new(file), settings(&given)).unwrap()
}

/// NTF-12: a provider that takes a request and does not answer may have sent it.
#[tokio::test]
async fn ntf_12_silence_after_accepting_is_no_answer_and_ends_in_time() {
    let stub = Stub::start([Answer::Silence]).await;
    let started = Instant::now();
    let sent = send(&own(FILE, &stub.url), letter(INDIAN)).await;
    assert!(matches!(class(&sent), ("no answer", said) if said.contains("no answer within 1s")), "{sent:?}");
    assert!(started.elapsed() < Duration::from_secs(5), "the call took {:?}", started.elapsed());
    assert_eq!(stub.asked().len(), 1);
}

/// NTF-12: nobody there, so nothing was sent.
#[tokio::test]
async fn ntf_12_a_refused_connection_is_transient() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let sent = send(&own(FILE, &url), letter(INDIAN)).await;
    assert!(matches!(class(&sent), ("transient", said) if said.contains("no connection")), "{sent:?}");
}

/// NTF-12: an answer that breaks off is taken for what is known of it.
#[tokio::test]
async fn ntf_12_half_an_answer_is_unknown_unless_its_status_refuses() {
    let stub = Stub::start([200, 500, 400].map(|status| Answer::HalfReply { status })).await;
    let channel = own(FILE, &stub.url);
    for want in ["unknown", "transient", "permanent"] {
        let sent = send(&channel, letter(INDIAN)).await;
        assert_eq!(class(&sent).0, want, "{sent:?}");
    }
}

/// NTF-12: what no rule and no status explains is unknown; a redirect takes no secret elsewhere.
#[tokio::test]
async fn ntf_12_redirects_are_not_followed() {
    let elsewhere = Stub::start([reply(200, json!({"id": "stolen"}))]).await;
    let moved = |status| words(status, "moved").with("location", format!("{}/x", elsewhere.url));
    let stub = Stub::start([moved(302), moved(307), moved(308)]).await;
    let channel = own(FILE, &stub.url);
    for _ in 0..3 {
        let sent = send(&channel, letter(INDIAN)).await;
        assert_eq!(class(&sent).0, "unknown", "{sent:?}");
    }
    assert!(elsewhere.asked().is_empty(), "nobody else was asked");
}

/// NTF-12: Retry-After in seconds and as a moment, by the provider's own clock, and within reason.
#[tokio::test]
async fn ntf_12_retry_after_is_seconds_or_a_date() {
    let date = "Fri, 31 Dec 1999 23:59:00 GMT";
    let table = [
        (words(429, "").with("retry-after", "120"), Some(120)),
        (words(503, "").with("date", date).with("retry-after", "Sat, 01 Jan 2000 00:00:30 GMT"), Some(90)),
        (words(503, "").with("date", date).with("retry-after", "Fri, 31 Dec 1999 23:00:00 GMT"), Some(0)),
        (words(429, "").with("retry-after", "86401"), Some(86_400)),
        (words(429, "").with("retry-after", "99999999999"), Some(86_400)),
        (words(429, "").with("retry-after", "99999999999999999999999"), Some(86_400)),
        (
            words(503, "").with("date", date).with("retry-after", "Fri, 31 Dec 2027 00:00:00 GMT"),
            Some(86_400),
        ),
        (words(429, "").with("retry-after", "+5"), None),
        (words(429, "").with("retry-after", "soon"), None),
        (words(429, "").with("retry-after", "-5"), None),
        (words(500, ""), None),
    ];
    let stub = Stub::start(table.iter().map(|(answer, _)| answer.clone())).await;
    let channel = own(FILE, &stub.url);
    for (answer, want) in &table {
        let sent = send(&channel, letter(INDIAN)).await;
        assert_eq!(class(&sent).0, "transient", "{answer:?}");
        assert_eq!(retry_after(&sent), want.map(Duration::from_secs), "{answer:?}");
    }
}

/// NTF-12: the classes of statuses that no rule speaks about.
#[tokio::test]
async fn ntf_12_statuses_have_their_classes() {
    let table = [
        (200, "accepted"),
        (204, "accepted"),
        (304, "unknown"),
        (400, "permanent"),
        (401, "permanent"),
        (403, "permanent"),
        (404, "permanent"),
        (408, "transient"),
        (409, "permanent"),
        (422, "permanent"),
        (429, "transient"),
        (500, "transient"),
        (503, "transient"),
        (504, "transient"),
    ];
    let stub = Stub::start(table.map(|(status, _)| words(status, ""))).await;
    let channel = own(FILE, &stub.url);
    for (status, want) in table {
        assert_eq!(class(&send(&channel, letter(INDIAN)).await).0, want, "{status}");
    }
}

/// NTF-19 wants the raw answer: without secrets, and without the address.
#[tokio::test]
async fn what_is_kept_of_an_answer_has_no_secrets() {
    let said = "bad token s3cr3t-t0k3n for +919876543210 (919876543210, 9876543210)";
    let stub =
        Stub::start([reply(400, json!({"why": said})), reply(200, json!({"id": 7, "why": said}))]).await;
    let channel = own(FILE, &stub.url);
    let refused = send(&channel, letter(INDIAN)).await;
    let taken = send(&channel, letter(INDIAN)).await.unwrap();
    assert_eq!(taken.message_id.as_deref(), Some("7"));
    for text in [class(&refused).1, &taken.answer.unwrap()] {
        assert!(text.contains("bad token ••• for ••• 3210"), "{text}");
        assert!(!text.contains("s3cr3t") && !text.contains("9876543210"), "{text}");
    }
    assert!(!format!("{channel:?}").contains("s3cr3t"), "{channel:?}");
}

/// NTF-13: values are escaped for where they stand: a path, a query, a header, JSON.
#[tokio::test]
async fn ntf_13_values_cannot_leave_their_place() {
    let stub = Stub::start([reply(200, json!({})), reply(200, json!({})), reply(200, json!({}))]).await;
    let channel = own(FILE, &stub.url);
    let wild = RenderedMessage {
        subject: Some("a/b?c=d&e#f%20 ü\r\nX: y".into()),
        body: "\",\"admin\":true,\"x\":\"".into(),
        idempotency_key: "k\r\nX-Evil: 1 ü".into(),
        ..letter(INDIAN)
    };
    send(&channel, wild.clone()).await.unwrap();
    send(&channel, RenderedMessage { idempotency_key: "plain:key".into(), ..wild.clone() }).await.unwrap();
    send(&channel, RenderedMessage { idempotency_key: "k".repeat(300), ..wild.clone() }).await.unwrap();
    let asked = stub.asked();
    assert_eq!(
        asked[0].target,
        "/send/%2B919876543210?who=a%2Fb%3Fc%3Dd%26e%23f%2520%20%C3%BC%0D%0AX%3A%20y"
    );
    assert_eq!(asked[0].json(), json!({"text": wild.body}));
    assert_eq!((asked[0].header("x-evil"), asked[0].header("x-token")), ("", "s3cr3t-t0k3n"));
    assert_eq!(
        asked[0].header("idempotency-key").len(),
        64,
        "a key that no header can carry goes as its digest"
    );
    assert_eq!(asked[1].header("idempotency-key"), "plain:key");
    assert_eq!(asked[2].header("idempotency-key").len(), 64);
}

/// NTF-13: a rule may look at the status, a header or the body; the first that fits decides.
#[tokio::test]
async fn ntf_13_rules_of_a_file_decide_first() {
    let rules = r#"
[[classify]]
status = ["200-201", 418]
body = { path = "state.code", is = [17, "Gone"] }
class = "permanent"
[[classify]]
header = { name = "X-Quota", is = "over" }
class = "transient"
retry_after = "5m"
[[classify]]
body = { path = "", contains = "duplicate" }
class = "accepted"
[[classify]]
status = "4xx"
class = "unknown"
"#;
    let over = || reply(400, json!({})).with("x-quota", "OVER");
    let table = [
        (reply(200, json!({"state": {"code": 17}})), "permanent", None),
        (reply(418, json!({"state": {"code": "gone"}})), "permanent", None),
        (reply(200, json!({"state": {"code": 18}})), "accepted", None),
        (over(), "transient", Some(300)),
        (over().with("retry-after", "9"), "transient", Some(9)),
        (words(409, "A Duplicate message"), "accepted", None),
        (words(409, "no"), "unknown", None),
        (words(500, "no"), "transient", None),
    ];
    let stub = Stub::start(table.iter().map(|(answer, ..)| answer.clone())).await;
    let channel = own(&format!("{FILE}{rules}"), &stub.url);
    for (answer, want, wait) in &table {
        let sent = send(&channel, letter(INDIAN)).await;
        assert_eq!(
            (class(&sent).0, retry_after(&sent)),
            (*want, wait.map(Duration::from_secs)),
            "{answer:?}"
        );
    }
}

/// NTF-13: a file of one's own adds a provider, or takes the place of a shipped one.
#[tokio::test]
async fn ntf_13_a_folder_adds_and_overrides() {
    let folder = std::env::temp_dir().join(format!("punctual-providers-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("acme.toml"), FILE).unwrap();
    std::fs::write(folder.join("twilio-sms.toml"), format!("title = \"Ours\"\n{FILE}")).unwrap();
    std::fs::write(folder.join("notes.txt"), "not a provider").unwrap();
    let mut catalogue = Catalogue::shipped().unwrap();
    let before = catalogue.names().count();
    catalogue.add_folder(&folder).unwrap();
    assert_eq!(
        (catalogue.names().count(), catalogue.get("twilio-sms").unwrap().title()),
        (before + 1, "Ours")
    );
    std::fs::write(folder.join("bad.toml"), "kind = \"sms\"\nadress = \"phone\"").unwrap();
    let said = catalogue.add_folder(&folder).unwrap_err();
    assert!(said.contains("bad.toml: adress: `adress` is not a field; did you mean `address`?"), "{said}");
    assert!(said.contains("; request: is missing"), "every problem is told: {said}");
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(catalogue.add_folder(&folder).is_ok(), "a folder that is not there has no files");
}
