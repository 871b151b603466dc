//! Fake providers: one server that answers as Twilio, Meta and SendGrid do, or as it is told, and keeps
//! what it was asked; with the shipped provider files in front of it.

use punctual::engine::Builder;
use punctual_providers::Catalogue;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What the server does with the next request; without any word it takes the message.
#[derive(Clone, Debug)]
pub enum Next {
    /// Refuses it with this status.
    Refuse(u16),
    /// Refuses it, and wants to be left alone for so many seconds.
    Busy(u64),
    /// Takes the request and hangs up.
    Cut,
}

/// A message that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    pub by: &'static str,
    pub to: String,
    pub text: String,
}

/// The settings of a channel, by name.
type Settings = &'static [(&'static str, &'static str)];

/// The server.
#[derive(Clone)]
pub struct Providers {
    url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    script: Arc<Mutex<VecDeque<Next>>>,
}

impl Providers {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let one = Self { url, asked: Arc::default(), script: Arc::default() };
        let serving = one.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let serving = serving.clone();
                tokio::spawn(async move { serving.answer(stream).await });
            }
        });
        one
    }

    /// The engine's channels `sms:twilio`, `whatsapp:meta` and `email:sendgrid`, by the shipped files.
    pub fn furnish(&self, builder: Builder) -> Builder {
        let channels: [(&str, &str, Settings); 3] = [
            (
                "sms:twilio",
                "twilio-sms",
                &[("account_sid", "AC1"), ("auth_token", "t0k3n"), ("from", "+15550100")],
            ),
            ("whatsapp:meta", "meta-whatsapp", &[("phone_number_id", "77"), ("access_token", "t0k3n")]),
            ("email:sendgrid", "sendgrid", &[("api_key", "t0k3n"), ("sender", "hotel@example.com")]),
        ];
        let catalogue = Catalogue::shipped().unwrap();
        channels.into_iter().fold(builder, |builder, (key, name, settings)| {
            let given = settings
                .iter()
                .copied()
                .chain([("base_url", self.url.as_str()), ("allow_host", "127.0.0.1")]);
            let given: BTreeMap<String, String> = given.map(|(n, v)| (n.into(), v.into())).collect();
            builder.channel(key, catalogue.provider(name).unwrap().open(given).unwrap().channel)
        })
    }

    /// What it does next.
    pub fn will(&self, script: impl IntoIterator<Item = Next>) {
        self.script.lock().unwrap().extend(script);
    }

    /// The messages that came so far, in order.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// Those that came by one provider, as address and text.
    pub fn by(&self, name: &str) -> Vec<(String, String)> {
        self.asked().into_iter().filter(|one| one.by == name).map(|one| (one.to, one.text)).collect()
    }

    async fn answer(&self, mut stream: TcpStream) {
        let Some((path, body)) = read(&mut stream).await else { return };
        let message = message(&path, &body);
        let id = self.asked.lock().unwrap().len() + 1;
        let by = message.by;
        self.asked.lock().unwrap().push(message);
        let next = self.script.lock().unwrap().pop_front();
        let (status, head, body) = match next {
            None => taken(by, id),
            Some(Next::Refuse(status)) => (status, String::new(), json!({"message": "not now"})),
            Some(Next::Busy(seconds)) => {
                (429, format!("retry-after: {seconds}\r\n"), json!({"code": 20429, "message": "too many"}))
            }
            Some(Next::Cut) => return,
        };
        let body = body.to_string();
        let length = body.len();
        let head = format!("HTTP/1.1 {status} X\r\n{head}connection: close\r\ncontent-length: {length}\r\n");
        stream.write_all(format!("{head}\r\n{body}").as_bytes()).await.ok();
    }
}

/// What each answers when it takes a message.
fn taken(by: &str, id: usize) -> (u16, String, Value) {
    match by {
        "twilio" => (201, String::new(), json!({"sid": format!("SM{id}"), "status": "queued"})),
        "meta" => (200, String::new(), json!({"messages": [{"id": format!("wamid.{id}")}]})),
        _ => (202, format!("x-message-id: sg-{id}\r\n"), Value::Null),
    }
}

fn message(path: &str, body: &[u8]) -> Asked {
    let json: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if path.starts_with("/2010-04-01/Accounts/AC1/Messages.json") {
        let form: BTreeMap<String, String> = form_urlencoded::parse(body).into_owned().collect();
        return Asked { by: "twilio", to: form["To"].clone(), text: form["Body"].clone() };
    }
    if path.ends_with("/77/messages") {
        return Asked { by: "meta", to: text(&json["to"]), text: text(&json["text"]["body"]) };
    }
    let to = text(&json["personalizations"][0]["to"][0]["email"]);
    Asked { by: "sendgrid", to, text: text(&json["content"][0]["value"]) }
}

/// The path and the body of a request.
async fn read(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    loop {
        let mut more = [0; 4096];
        let n = stream.read(&mut more).await.ok().filter(|n| *n > 0)?;
        bytes.extend_from_slice(&more[..n]);
        let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let length = head.split("content-length: ").nth(1)?.lines().next()?.trim().parse::<usize>().ok()?;
        if bytes.len() >= end + 4 + length {
            let path = String::from_utf8_lossy(&bytes).split(' ').nth(1)?.to_owned();
            return Some((path, bytes[end + 4..].to_vec()));
        }
    }
}
