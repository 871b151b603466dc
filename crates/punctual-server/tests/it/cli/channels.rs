//! Channels of the configuration: what a server sends through them, and what the doctor says.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "test code")]

use super::process::{Place, Run};
use crate::surveys::{csi_gr, event};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const FILE: &str = r#"
title = "Acme"
kind = "sms"
address = "phone"
[settings]
base_url = { about = "where", url = true }
token = { about = "the token", secret = true }
[request]
url = "{{setting.base_url}}/send"
auth = { type = "bearer", token = "{{setting.token}}" }
[request.body]
json = { to = "{{to}}", text = "{{body}}" }
[response]
message_id = "id"
"#;

/// A provider that takes everything; what it is asked, as it came.
fn provider() -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (tell, asked) = channel();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let (mut text, mut bytes) = (String::new(), [0; 4096]);
            while !text.ends_with('}') {
                let n = stream.read(&mut bytes).unwrap();
                text.push_str(&String::from_utf8_lossy(&bytes[..n]));
            }
            let body = r#"{"id": "acme-1"}"#;
            write!(
                stream,
                "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
            .unwrap();
            if tell.send(text).is_err() {
                return;
            }
        }
    });
    (url, asked)
}

/// A place with a provider's file beside its configuration.
fn configured(url: &str) -> (Place, String) {
    let place = Place::new();
    place.folder("providers");
    place.file("providers/acme.toml", FILE);
    let text = format!(
        "[channels.\"sms:acme\"]\nprovider = \"acme\"\nbase_url = \"{url}\"\nallow_host = \"127.0.0.1\"\n\
         token = {{ env = \"ACME_TOKEN\" }}\n\
         rate_per_second = 50\nfallback = \"email:smtp\"\n\
         [channels.\"email:smtp\"]\nprovider = \"smtp\"\nurl = \"smtps://relay.example\"\n\
         sender = \"noreply@eventhub.example\"\nusername = \"me\"\npassword = \"p4ssw0rd\"\n"
    );
    let config = place.file("punctual.toml", &text);
    (place, config)
}

/// NTF-13, NTF-15: a provider is a file; its channel sends the number in E.164, and the log keeps the
/// address as it was given.
#[test]
fn ntf_13_a_server_sends_through_a_provider_of_ones_own() {
    let (url, asked) = provider();
    let (place, config) = configured(&url);
    let (database, key) = (place.database(), "k".repeat(40));
    let serve = ["serve", "--database", &database, "--listen", "127.0.0.1:0", "--clock", "manual"];
    let mut command = place.command(&[&serve[..], &["--config", &config]].concat());
    let serving = command.env("PUNCTUAL_ROOT_KEY", &key).env("ACME_TOKEN", "s3cr3t-t0k3n").serve();
    let bearer = format!("authorization: Bearer {key}\r\n");
    let mut definition = csi_gr();
    definition["triggers"][0]["channel"] = json!("sms:acme");
    serving.post("/api/surveys", &bearer, &json!({"name": "csi", "definition": definition}));
    serving.post("/api/surveys/1/publish", &bearer, &json!({}));
    serving.post("/api/triggers/ingest", &bearer, &event("1"));
    let done = serving.post("/api/scheduler/tick", &bearer, &json!({}));
    assert_eq!(done["sent"], json!(1), "{done}");
    let asked = asked.recv_timeout(Duration::from_secs(10)).expect("the provider was asked");
    assert!(
        asked.starts_with("POST /send ") && asked.contains("authorization: Bearer s3cr3t-t0k3n"),
        "{asked}"
    );
    let body: Value = serde_json::from_str(asked.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    assert_eq!(body["to"], "+9647700000001");
    let seen = |path: &str| -> Value {
        let (_, answer) = serving.get(path, &bearer);
        serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap()
    };
    let list = seen("/api/survey-instances");
    let id = list["items"][0]["publicId"].as_str().unwrap();
    let instance = seen(&format!("/api/survey-instances/{id}"));
    assert_eq!(instance["recipientAddress"], "+964 770 000 0001");
    assert_eq!(instance["deliveryLog"][0]["messageId"], "acme-1", "{instance}");
    let (status, out, err) = serving.stop("-TERM");
    assert!(status.success() && !format!("{out}{err}").contains("s3cr3t"), "{out}{err}");
}

/// PLT-25, NTF-13: the doctor lists channels, never their secrets, and says what is wrong with one.
#[test]
fn plt_25_the_doctor_lists_channels_without_their_secrets() {
    let (place, config) = configured("https://acme.example");
    place.json(&["migrate"]);
    let database = place.database();
    let doctor = ["doctor", "--database", &database, "--config", &config];
    let said = place.command(&doctor).env("ACME_TOKEN", "s3cr3t-t0k3n").said();
    assert_eq!(said.code, 0, "{said:?}");
    for line in [
        "sms:acme sends by acme (base_url https://acme.example, allow_host 127.0.0.1); 50 a second; then \
         email:smtp",
        "email:smtp sends by smtp (url smtps://relay.example, sender noreply@eventhub.example, username me",
    ] {
        assert!(said.out.contains(line), "{line}: {said:?}");
    }
    assert!(!said.out.contains("s3cr3t") && !said.out.contains("p4ssw0rd"), "{said:?}");
    assert!(!said.out.contains("callback"), "neither of them is told of messages: {said:?}");
    let said = place.command(&doctor).said();
    assert_eq!(said.code, 2, "{said:?}");
    let want = "bad   channels";
    assert!(
        said.out.contains(want) && said.out.contains("token: the variable ACME_TOKEN is not set"),
        "{said:?}"
    );
}

/// NTF-16, NTF-17, NTF-24: the doctor says where providers are to report to, or that nobody knows, and what
/// the channel has of its own.
#[test]
fn ntf_16_the_doctor_says_where_providers_report_to() {
    let place = Place::new();
    place.json(&["migrate"]);
    let channel = "[channels.\"sms:twilio\"]\nprovider = \"twilio-sms\"\nfrom = \"+15550100\"\n\
        account_sid = \"AC1\"\nauth_token = \"t0k3n\"\nwaits = [\"1m\", \"5m\"]\nbreaker_failures = 3\n";
    let public = "[public]\nurl = \"https://notify.example.com/\"\n";
    let known =
        "ok    callback      sms:twilio receives reports at https://notify.example.com/webhooks/twilio-sms";
    let unknown =
        "warn  callback      sms:twilio receives reports at /webhooks/twilio-sms of an unknown address";
    for (text, line) in [(format!("{channel}{public}"), known), (channel.to_owned(), unknown)] {
        let config = place.file("punctual.toml", &text);
        let said = place.command(&["doctor", "--database", &place.database(), "--config", &config]).said();
        assert_eq!(said.code, 0, "{said:?}");
        assert!(said.out.contains(line), "{line}: {said:?}");
        let own = "; at most 3 tries, 1m, 5m apart; counts as down after 3 failures";
        assert!(said.out.contains(own), "{said:?}");
    }
}
