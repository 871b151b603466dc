//! Answers that cannot be read whole: what is not read may say no.

use crate::letters::{INDIAN, class, letter, send};
use crate::stub::{Answer, Stub, reply, words};
use crate::trouble::{FILE, own};
use serde_json::json;

/// How much of an answer is read, in bytes.
const READ_BYTES: usize = 64 * 1024;

/// A file whose provider refuses with status 200, and says "duplicate" of what it has already.
const RULES: &str = r#"
[[classify]]
status = "4xx"
body = { path = "", contains = "duplicate" }
class = "accepted"
[[classify]]
status = "200-499"
body = { path = "error.code" }
class = "permanent"
"#;

/// An answer of JSON of exactly this many bytes.
fn padded(status: u16, body: &str, bytes: usize) -> Answer {
    words(status, &body.replacen("PAD", &"x".repeat(bytes - body.len() + 3), 1))
}

/// NTF-12: an endless answer is read in part, what is kept of it is short, and a 2xx may have said no.
#[tokio::test]
async fn ntf_12_a_huge_answer_is_cut_and_unknown() {
    let huge = "x".repeat(3 * 1024 * 1024);
    let stub = Stub::start([words(400, &huge), words(503, &huge), words(200, &huge)]).await;
    let channel = own(FILE, &stub.url);
    for want in ["permanent", "transient", "unknown"] {
        let sent = send(&channel, letter(INDIAN)).await;
        let (kind, error) = class(&sent);
        assert!(kind == want && error.len() < 2_000, "{want}: {kind}, {} bytes", error.len());
    }
}

/// docs/guarantees.md: a refusal in an answer that cannot be read whole is never taken for a success.
#[tokio::test]
async fn ntf_12_a_refusal_in_a_large_answer_is_not_sent() {
    let refusal = r#"{"pad": "PAD", "error": {"code": 17}}"#;
    let table = [
        (padded(200, refusal, READ_BYTES), "permanent"),
        (padded(200, refusal, READ_BYTES + 1), "unknown"),
        (padded(200, refusal, READ_BYTES * 4), "unknown"),
        (padded(409, refusal, READ_BYTES * 4), "unknown"),
        (padded(503, refusal, READ_BYTES * 4), "transient"),
        (padded(409, r#"{"word": "duplicate", "pad": "PAD"}"#, READ_BYTES * 4), "unknown"),
        (Answer::HalfReply { status: 200 }, "unknown"),
        (Answer::HalfReply { status: 409 }, "unknown"),
    ];
    let stub = Stub::start(table.iter().map(|(answer, _)| answer.clone())).await;
    let channel = own(&format!("{FILE}{RULES}"), &stub.url);
    for (n, (_, want)) in table.iter().enumerate() {
        let sent = send(&channel, letter(INDIAN)).await;
        assert_eq!(class(&sent).0, *want, "answer {n}: {sent:?}");
    }
}

/// An answer that begins as JSON and cannot be read as such is not a success either.
#[tokio::test]
async fn ntf_12_a_refusal_in_broken_json_is_not_sent() {
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    let table = [
        (r#"{"error": {"code": 17}, "n": 1e400}"#.to_owned(), "unknown"),
        (r#"{"error": {"code": 17}, "s": "\ud800"}"#.to_owned(), "unknown"),
        (format!(r#"{{"error": {{"code": 17}}, "deep": {deep}}}"#), "unknown"),
        (r#"{"error": {"code": 17}"#.to_owned(), "unknown"),
        ("OK".to_owned(), "accepted"),
        (String::new(), "accepted"),
    ];
    let stub = Stub::start(table.iter().map(|(body, _)| words(200, body))).await;
    let channel = own(&format!("{FILE}{RULES}"), &stub.url);
    for (body, want) in &table {
        let sent = send(&channel, letter(INDIAN)).await;
        assert_eq!(class(&sent).0, *want, "{body}: {sent:?}");
    }
}

/// A message id that is too long is not cut and not passed over in silence.
#[tokio::test]
async fn ntf_12_a_message_id_that_is_too_long_is_told() {
    let ids = ["i".repeat(255), "i".repeat(256), "i".repeat(20_000)];
    let stub = Stub::start(ids.iter().map(|id| reply(200, json!({"id": id})))).await;
    let channel = own(FILE, &stub.url);
    for id in ids {
        let sent = send(&channel, letter(INDIAN)).await.unwrap();
        let fits = id.len() <= 255;
        assert_eq!(sent.message_id.is_some(), fits);
        let said =
            format!("message id was not kept, so its receipts cannot be matched: it has {} bytes", id.len());
        assert_eq!(sent.answer.unwrap().contains(&said), !fits);
    }
}
