//! What each provider answers, as its documentation says. `draw` decides whether it goes well.

use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Of a hundred requests, how many find the provider busy or down, and how many are refused for good.
const TROUBLE_PERCENT: (u64, u64) = (12, 3);
/// How long a busy provider wants to be left alone.
const RETRY_AFTER_SECONDS: u64 = 5;

/// A message, read from a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FakeMessage {
    pub(super) provider: &'static str,
    pub(super) to: String,
    pub(super) subject: Option<String>,
    pub(super) text: String,
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FakeReply {
    pub(super) status: u16,
    pub(super) header: Option<(&'static str, String)>,
    pub(super) body: Value,
    /// The same in words.
    pub(super) said: String,
    /// The id of the message, if a callback follows.
    pub(super) delivered: Option<String>,
}

/// What comes of a request; `None` if no provider has such a path.
pub(super) fn answer(
    path: &str,
    body: &[u8],
    signed_in: bool,
    seed: u64,
) -> Option<(FakeMessage, FakeReply)> {
    let asked = read(path, body)?;
    let (for_now, for_good) = TROUBLE_PERCENT;
    let draw = seed % 100;
    let id = format!("{:016x}", seed / 100);
    let reply = match asked.provider {
        _ if !signed_in => refuse(401, json!({"message": "Authenticate"})),
        _ if draw < for_good => refused(asked.provider),
        _ if draw < for_good + for_now => busy(asked.provider),
        provider => taken(provider, &id),
    };
    Some((asked, reply))
}

fn read(path: &str, body: &[u8]) -> Option<FakeMessage> {
    let json: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let asked = |provider, to, subject, text| Some(FakeMessage { provider, to, subject, text });
    if path.ends_with("/Messages.json") {
        let mut form: BTreeMap<String, String> = form_urlencoded::parse(body).into_owned().collect();
        let mut field = |name: &str| form.remove(name).unwrap_or_default();
        return asked("Twilio", field("To"), None, field("Body"));
    }
    if path.ends_with("/messages") {
        return asked("WhatsApp", text(&json["to"]), None, text(&json["text"]["body"]));
    }
    if path == "/v3/mail/send" {
        let to = text(&json["personalizations"][0]["to"][0]["email"]);
        return asked("SendGrid", to, Some(text(&json["subject"])), text(&json["content"][0]["value"]));
    }
    None
}

fn taken(provider: &str, id: &str) -> FakeReply {
    let reply = |status, header, body, id: String| FakeReply {
        status,
        header,
        body,
        said: format!("taken as {id}"),
        delivered: (provider == "WhatsApp").then_some(id),
    };
    match provider {
        "Twilio" => {
            let sid = format!("SM{id}{id}");
            reply(201, None, json!({"sid": &sid, "status": "queued", "error_code": null}), sid)
        }
        "WhatsApp" => {
            let id = format!("wamid.{id}");
            let body = json!({"messaging_product": "whatsapp", "messages": [{"id": &id}]});
            reply(200, None, body, id)
        }
        _ => reply(202, Some(("x-message-id", id.to_owned())), Value::Null, id.to_owned()),
    }
}

fn refuse(status: u16, body: Value) -> FakeReply {
    let words = ["/message", "/error/message", "/errors/0/message"];
    let words = words.iter().find_map(|path| body.pointer(path)?.as_str());
    let said = words.unwrap_or_default().to_owned();
    FakeReply { status, header: None, said, body, delivered: None }
}

/// The provider is busy, or not itself.
fn busy(provider: &str) -> FakeReply {
    let mut reply = match provider {
        "Twilio" => refuse(429, json!({"code": 20429, "message": "Too Many Requests", "status": 429})),
        "WhatsApp" => {
            refuse(500, json!({"error": {"message": "(#131016) Service unavailable", "code": 131_016}}))
        }
        _ => refuse(503, json!({"errors": [{"message": "service unavailable"}]})),
    };
    if reply.status == 429 {
        reply.header = Some(("retry-after", RETRY_AFTER_SECONDS.to_string()));
    }
    reply
}

/// The provider does not take this message, now or later.
fn refused(provider: &str) -> FakeReply {
    match provider {
        "Twilio" => refuse(
            400,
            json!({"code": 21211, "message": "The 'To' number is not a valid phone number.", "status": 400}),
        ),
        "WhatsApp" => {
            refuse(400, json!({"error": {"message": "(#131026) Message undeliverable", "code": 131_026}}))
        }
        _ => {
            refuse(400, json!({"errors": [{"message": "Does not contain a valid address.", "field": "to"}]}))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATHS: [&str; 3] =
        ["/2010-04-01/Accounts/ACdemo/Messages.json", "/v23.0/1055/messages", "/v3/mail/send"];

    #[test]
    fn trouble_comes_as_often_as_it_says() {
        for path in PATHS {
            let status = |seed| answer(path, b"{}", true, seed).unwrap().1.status;
            let all: Vec<u16> = (0..100).map(status).collect();
            let count = |fits: fn(&u16) -> bool| all.iter().filter(|status| fits(status)).count();
            assert_eq!(count(|s| *s == 429 || *s >= 500), 12, "{path}");
            assert_eq!(count(|s| *s == 400), 3, "{path}");
            assert_eq!(answer(path, b"{}", false, 50).unwrap().1.status, 401);
        }
        assert!(answer("/else", b"{}", true, 50).is_none());
    }

    #[test]
    fn messages_are_read_as_each_provider_writes_them() {
        let (asked, _) = answer(PATHS[0], b"To=%2B9198&Body=Hi+there", true, 50).unwrap();
        assert_eq!((asked.to.as_str(), asked.text.as_str()), ("+9198", "Hi there"));
        let mail = json!({"subject": "S", "personalizations": [{"to": [{"email": "a@b.c"}]}],
            "content": [{"value": "T"}]});
        let (asked, _) = answer(PATHS[2], mail.to_string().as_bytes(), true, 50).unwrap();
        assert_eq!((asked.to.as_str(), asked.subject.as_deref()), ("a@b.c", Some("S")));
    }
}
