//! SMTP against a real mail server (`tests/relay/relay.py`).

use crate::letters::{class, letter, send, settings};
use punctual::RenderedMessage;
use punctual_providers::SmtpChannel;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

const ADA: &str = "ada@example.com";

/// The mail server; it ends with the test.
struct Relay {
    port: u64,
    said: Lines<BufReader<ChildStdout>>,
    _process: Child,
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/relay")
}

impl Relay {
    async fn start(told: Value) -> Self {
        let clients = std::env::var_os("PUNCTUAL_CLIENTS").map(PathBuf::from);
        let clients = clients.expect("PUNCTUAL_CLIENTS should name the folder that has aiosmtpd: run ./test");
        let mut process = Command::new(clients.join("python/bin/python"))
            .arg(folder().join("relay.py"))
            .arg(told.to_string())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the mail server can be started");
        let mut said = BufReader::new(process.stdout.take().unwrap()).lines();
        let first = said.next_line().await.unwrap().expect("the mail server says its port");
        let port = serde_json::from_str::<Value>(&first).unwrap()["port"].as_u64().unwrap();
        Self { port, said, _process: process }
    }

    /// What the server says next about this.
    async fn next(&mut self, about: &str) -> Value {
        let look = async {
            loop {
                let line = self.said.next_line().await.unwrap().expect("the mail server goes on");
                let event: Value = serde_json::from_str(&line).unwrap();
                if event.get(about).is_some() {
                    return event;
                }
            }
        };
        let event = tokio::time::timeout(Duration::from_secs(10), look).await;
        event.unwrap_or_else(|_| panic!("the mail server says nothing about {about}"))
    }

    fn channel(&self, more: &[(&str, &str)]) -> SmtpChannel {
        self.channel_at("smtp", more)
    }

    fn channel_at(&self, scheme: &str, more: &[(&str, &str)]) -> SmtpChannel {
        let mut given = settings(&[("sender", "noreply@eventhub.example"), ("timeout", "10s")]);
        given.insert("url".into(), format!("{scheme}://localhost:{}", self.port));
        given.extend(settings(more));
        SmtpChannel::new(given).unwrap_or_else(|problems| panic!("{problems}"))
    }
}

fn ca() -> String {
    folder().join("ca.pem").display().to_string()
}

fn rich() -> RenderedMessage {
    RenderedMessage {
        html: Some("<p>Hello</p>".into()),
        unsubscribe_url: Some("https://punctual.example/u/abc".into()),
        ..letter(ADA)
    }
}

/// The lines of a mail's head that begin with a header's name.
fn header<'a>(mail: &'a str, name: &str) -> Vec<&'a str> {
    let head = mail.split("\r\n\r\n").next().unwrap();
    head.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).collect()
}

/// NTF-14: a mail by STARTTLS, with a login, both texts, List-Unsubscribe and a Message-ID from the key.
#[tokio::test]
#[ignore = "needs aiosmtpd: run ./test"]
async fn ntf_14_a_mail_goes_out_by_starttls_and_login() {
    let mut relay = Relay::start(json!({"tls": "starttls", "auth": ["me", "p4ssw0rd"]})).await;
    let (ca, name) = (ca(), ("sender_name", "Event Hub"));
    let channel = relay.channel(&[
        ("ca", &ca),
        ("username", "me"),
        ("password", "p4ssw0rd"),
        name,
        ("reply_to", "help@eventhub.example"),
    ]);
    let sent = send(&channel, rich()).await.unwrap();
    let id = sent.message_id.unwrap();
    assert!(id.starts_with('<') && id.ends_with("@eventhub.example>"), "{id}");
    assert!(sent.answer.unwrap().contains("queued as 4711"));
    assert_eq!(relay.next("login").await, json!({"login": "me", "right": true, "encrypted": true}));
    let told = relay.next("mail").await;
    assert_eq!((&told["sender"], &told["to"]), (&json!("noreply@eventhub.example"), &json!([ADA])));
    assert_eq!(told["encrypted"], true);
    let mail = told["mail"].as_str().unwrap();
    let table = [
        ("Message-ID", id.as_str()),
        ("To", ADA),
        ("Reply-To", "help@eventhub.example"),
        ("List-Unsubscribe", "<https://punctual.example/u/abc>"),
        ("List-Unsubscribe-Post", "List-Unsubscribe=One-Click"),
        ("Subject", "Your \"stay\""),
    ];
    for (name, want) in table {
        assert_eq!(header(mail, name), [want], "{name} in {mail}");
    }
    assert!(header(mail, "From")[0].contains("Event Hub") && header(mail, "From")[0].contains("noreply@"));
    assert_eq!(header(mail, "Date").len(), 1);
    assert!(mail.contains("multipart/alternative") && mail.contains("<p>Hello</p>"), "{mail}");
    let again = send(&channel, rich()).await.unwrap();
    assert_eq!(again.message_id.unwrap(), id, "another try has the same Message-ID");
    let other = send(&channel, RenderedMessage { idempotency_key: "other".into(), ..rich() }).await.unwrap();
    assert_ne!(other.message_id.unwrap(), id);
}

/// NTF-14: TLS from the start; a plain letter has one text and no header of unsubscribing.
#[tokio::test]
#[ignore = "needs aiosmtpd: run ./test"]
async fn ntf_14_a_mail_goes_out_by_smtps() {
    let mut relay = Relay::start(json!({"tls": "implicit"})).await;
    let ca = ca();
    let channel = relay.channel_at("smtps", &[("ca", &ca)]);
    send(&channel, letter(ADA)).await.unwrap();
    let told = relay.next("mail").await;
    let mail = told["mail"].as_str().unwrap();
    assert!(header(mail, "List-Unsubscribe").is_empty() && mail.contains("text/plain"), "{mail}");
    assert_eq!(told["encrypted"], true);
}

/// NTF-14: nobody is trusted who cannot show a certificate, and nothing goes in the clear unless told.
#[tokio::test]
#[ignore = "needs aiosmtpd: run ./test"]
async fn ntf_14_tls_is_required_and_checked() {
    let plain = Relay::start(json!({})).await;
    let sent = send(&plain.channel(&[]), letter(ADA)).await;
    assert!(
        matches!(class(&sent), ("transient", said) if said.contains("no STARTTLS, which is required")),
        "{sent:?}"
    );
    send(&plain.channel(&[("starttls", "opportunistic")]), letter(ADA)).await.unwrap();
    send(&plain.channel(&[("starttls", "off")]), letter(ADA)).await.unwrap();
    let mut relay = Relay::start(json!({"tls": "starttls"})).await;
    let sent = send(&relay.channel(&[]), letter(ADA)).await;
    assert!(
        matches!(class(&sent), ("transient", said) if said.contains("no TLS with the relay")),
        "{sent:?}"
    );
    let ca = ca();
    send(&relay.channel(&[("ca", &ca), ("starttls", "opportunistic")]), letter(ADA)).await.unwrap();
    assert_eq!(relay.next("mail").await["encrypted"], true);
}

/// NTF-14: a wrong password is told without the password, and may be right another time.
#[tokio::test]
#[ignore = "needs aiosmtpd: run ./test"]
async fn ntf_14_a_wrong_password_is_transient() {
    let mut relay = Relay::start(json!({"tls": "starttls", "auth": ["me", "p4ssw0rd"]})).await;
    let ca = ca();
    let sent =
        send(&relay.channel(&[("ca", &ca), ("username", "me"), ("password", "wr0ng-one")]), letter(ADA))
            .await;
    assert!(matches!(class(&sent), ("transient", said) if said.contains("does not let us in")), "{sent:?}");
    assert!(!format!("{sent:?}").contains("wr0ng-one"));
    assert_eq!(relay.next("login").await["right"], false);
    let sent = send(&relay.channel(&[("ca", &ca)]), letter(ADA)).await;
    assert!(matches!(class(&sent), ("permanent", said) if said.contains("MAIL")), "{sent:?}");
}

/// NTF-12, NTF-14: each answer at each stage, on one connection, which is kept.
#[tokio::test]
#[ignore = "needs aiosmtpd: run ./test"]
async fn ntf_14_answers_at_each_stage_are_classed() {
    let stages = ["MAIL", "RCPT", "DATA", "END"];
    let table: Vec<(&str, &str, &str)> = stages
        .into_iter()
        .flat_map(|at| [(at, "450 4.2.0 later", "transient"), (at, "550 5.1.1 never", "permanent")])
        .collect();
    let steps: Vec<Value> = table.iter().map(|(at, say, _)| json!({"at": at, "say": say})).collect();
    let mut relay = Relay::start(json!({"steps": steps})).await;
    let channel = relay.channel(&[("starttls", "off")]);
    for (at, say, want) in table {
        let sent = send(&channel, letter(ADA)).await;
        let (class, error) = class(&sent);
        assert_eq!(class, want, "{at} {say}: {sent:?}");
        assert!(error.contains(&say[4..]), "{error}");
    }
    send(&channel, letter(ADA)).await.unwrap();
    relay.next("connected").await;
    let more = tokio::time::timeout(Duration::from_millis(300), relay.next("connected")).await;
    assert!(more.is_err(), "one connection served them all");
}

/// NTF-12, NTF-14: a cut before the text is a failure, one after it a doubt; the next mail goes well.
#[tokio::test]
#[ignore = "needs aiosmtpd: run ./test"]
async fn ntf_14_cut_connections_are_transient_before_the_text_and_no_answer_after() {
    let table = [
        ("MAIL", "cut", "transient"),
        ("RCPT", "cut", "transient"),
        ("DATA", "cut", "transient"),
        ("DATA", "cut-in-text", "no answer"),
        ("END", "cut", "no answer"),
    ];
    let steps: Vec<Value> = table.iter().map(|(at, what, _)| json!({"at": at, "do": what})).collect();
    let relay = Relay::start(json!({"steps": steps})).await;
    let channel = relay.channel(&[("starttls", "off")]);
    for (at, what, want) in table {
        let sent = send(&channel, letter(ADA)).await;
        assert_eq!(class(&sent).0, want, "{at} {what}: {sent:?}");
    }
    send(&channel, letter(ADA)).await.unwrap();
}

/// NTF-14: a relay that goes silent costs no more than the timeout, whatever the stage.
#[tokio::test]
#[ignore = "needs aiosmtpd: run ./test"]
async fn ntf_14_every_send_ends_in_time() {
    let steps = json!([{"at": "RCPT", "do": "silence"}, {"at": "END", "do": "silence"}]);
    let relay = Relay::start(json!({"steps": steps})).await;
    let channel = relay.channel(&[("starttls", "off"), ("timeout", "1s")]);
    for want in ["transient", "no answer"] {
        let started = Instant::now();
        let sent = send(&channel, letter(ADA)).await;
        assert_eq!(class(&sent).0, want, "{sent:?}");
        assert!(started.elapsed() < Duration::from_secs(4), "it took {:?}", started.elapsed());
    }
    // A server that takes the connection and never greets.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("smtp://{}", listener.local_addr().unwrap());
    let given =
        settings(&[("url", &url), ("sender", "a@example.com"), ("timeout", "1s"), ("starttls", "off")]);
    let sent = send(&SmtpChannel::new(given).unwrap(), letter(ADA)).await;
    assert!(matches!(class(&sent), ("transient", said) if said.contains("within 1s")), "{sent:?}");
}

/// NTF-15: nothing in a letter can begin a header or another recipient.
#[tokio::test]
#[ignore = "needs aiosmtpd: run ./test"]
async fn ntf_15_headers_cannot_be_injected() {
    let mut relay = Relay::start(json!({})).await;
    let channel = relay.channel(&[("starttls", "off"), ("sender_name", "Event, \"Hub\" <x@y>")]);
    for bad in
        ["ada@example.com\r\nBcc: eve@example.com", "ada@example.com>\r\nRCPT TO:<eve@example.com", "eve"]
    {
        let sent = send(&channel, letter(bad)).await;
        assert_eq!(class(&sent).0, "permanent", "{sent:?}");
    }
    let sent = send(&channel, letter("grüße@example.com")).await;
    assert!(matches!(class(&sent), ("permanent", said) if said.contains("SMTPUTF8")), "{sent:?}");
    let wild = RenderedMessage {
        subject: Some("Hi\r\nBcc: eve@example.com\r\n\r\nbody ü".into()),
        body: "first\r\n.\r\nMAIL FROM:<eve@example.com>\r\n.last".into(),
        unsubscribe_url: Some("https://x.example/>\r\nBcc: eve@example.com".into()),
        idempotency_key: "k>\r\nBcc: eve@example.com".into(),
        ..letter(ADA)
    };
    send(&channel, wild).await.unwrap();
    let told = relay.next("mail").await;
    let mail = told["mail"].as_str().unwrap();
    assert_eq!(told["to"], json!([ADA]));
    assert!(header(mail, "Bcc").is_empty() && header(mail, "List-Unsubscribe").is_empty(), "{mail}");
    assert!(mail.contains("\r\n.\r\nMAIL FROM:<eve@example.com>\r\n.last"), "dots are kept: {mail}");
}
