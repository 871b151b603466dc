//! How callbacks are verified and read: `[receipt]`.

use super::answer::listed;
use crate::known::{Names, Text};
use crate::receipt::ReceiptStatus;
use punctual::Problems;
use punctual::base::document;
use punctual::base::document::{DocumentObject, quote};
use punctual::base::duration;
use punctual::base::suggestion::hint;
use serde_json::Value;
use std::time::Duration;

/// Readers of one file, at most.
const EVENTS_MAX: usize = 10;

/// How callbacks are verified and read.
#[derive(Clone, Debug)]
pub(crate) struct ReceiptForm {
    pub(crate) format: Format,
    pub(crate) verify: Verification,
    pub(crate) challenge: Option<Challenge>,
    pub(crate) events: Vec<Event>,
}

/// How a callback's body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Form,
}

/// How a callback proves who sent it.
#[derive(Clone, Debug)]
pub(crate) enum Verification {
    /// A keyed digest of the body, in a header; with a timestamp, of that, a dot and the body.
    Hmac { secret: Text, header: String, prefix: String, sha1: bool, base64: bool, stamp: Option<Stamp> },
    /// Twilio's signature over the URL and the form's fields.
    Twilio { secret: Text },
    /// A signature with the provider's private key over a timestamp and the body.
    Ecdsa { public_key: Text, header: String, stamp: Stamp },
    /// A secret that both know, in a header or in the URL's query.
    Token { secret: Text, header: Option<String>, query: Option<String> },
}

/// A time that is signed with the body: a header in Unix seconds, and how far it may be from the time at
/// which the callback comes.
#[derive(Clone, Debug)]
pub(crate) struct Stamp {
    pub(crate) header: String,
    pub(crate) tolerance: Duration,
}

/// How far a signed time may be from the time at which a callback comes, unless the file says something else.
const TOLERANCE_DEFAULT: Duration = Duration::from_secs(300);

/// A question that a provider asks before it sends anything.
#[derive(Clone, Debug)]
pub(crate) enum Challenge {
    /// A GET with a token and what is to be answered, both in the query (Meta).
    Query { token: Text, token_query: String, answer_query: String },
    /// An event whose code is to be answered in a field of its own (Azure Event Grid).
    Body { path: String, field: String },
}

/// One kind of thing that callbacks tell.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) list: String,
    pub(crate) message_id: Option<String>,
    /// Where an id ends that has more behind it.
    pub(crate) message_id_until: Option<String>,
    pub(crate) address: Option<String>,
    /// What stands before the address, and is not part of it.
    pub(crate) address_after: Option<String>,
    /// Where the provider's id of the news itself is.
    pub(crate) event_id: Option<String>,
    /// Where the time of the news is: Unix seconds or milliseconds, or RFC 3339.
    pub(crate) time: Option<String>,
    pub(crate) status: String,
    pub(crate) error: Option<String>,
    /// The provider's words, in lower case, and what they mean.
    pub(crate) words: Vec<(String, ReceiptStatus)>,
}

impl ReceiptForm {
    pub(super) fn read(value: &Value, names: &Names<'_>, problems: &mut Problems) -> Option<Self> {
        let part =
            DocumentObject::read(value, "receipt", &["format", "verify", "challenge", "event"], problems)?;
        let format = read_format(&part, problems);
        let need = "how a callback proves who sent it";
        let verify =
            part.need("verify", need, problems).and_then(|value| read_verify(value, names, problems));
        let challenge = part.get("challenge").and_then(|value| read_challenge(value, names, problems));
        let list = part.need_list("event", EVENTS_MAX, "what callbacks tell", problems);
        let events = list.iter().filter_map(|(value, path)| read_event(value, path, problems)).collect();
        Some(Self { format, verify: verify?, challenge, events })
    }
}

fn read_format(part: &DocumentObject<'_>, problems: &mut Problems) -> Format {
    let Some(value) = part.get("format") else { return Format::Json };
    match document::text(value, &part.at("format"), problems) {
        Some("form") => Format::Form,
        Some("json") | None => Format::Json,
        Some(other) => {
            let said = hint(other, &["json", "form"]);
            problems.push(part.at("format"), format!("`{}` is not a format{said}", quote(other)));
            Format::Json
        }
    }
}

/// The fields of a table, as texts.
struct Fields<'a, 'p> {
    part: DocumentObject<'a>,
    names: &'p Names<'p>,
    problems: &'p mut Problems,
}

impl Fields<'_, '_> {
    fn need(&mut self, field: &str) -> Option<String> {
        self.part.need_text(field, "it is needed here", self.problems).map(str::to_owned)
    }

    fn get(&mut self, field: &str) -> Option<String> {
        let value = self.part.get(field)?;
        document::text(value, &self.part.at(field), self.problems).map(str::to_owned)
    }

    fn header(&mut self, field: &str) -> Option<String> {
        self.need(field).map(|name| name.to_lowercase())
    }

    fn text(&mut self, field: &str) -> Option<Text> {
        let text = self.need(field)?;
        Text::parse(&text, &self.part.at(field), self.names, self.problems)
    }

    fn stamp(&mut self) -> Option<Stamp> {
        let header = self.get("timestamp_header")?.to_lowercase();
        let text = self.get("tolerance");
        let read = text.as_deref().map_or(Ok(TOLERANCE_DEFAULT), duration::parse);
        let tolerance = read.unwrap_or_else(|said| {
            self.problems.push(self.part.at("tolerance"), said);
            TOLERANCE_DEFAULT
        });
        Some(Stamp { header, tolerance })
    }

    /// Whether a field has the second of two words; without it, the first.
    fn choice(&mut self, field: &str, words: [&str; 2]) -> bool {
        let Some(word) = self.get(field) else { return false };
        if !words.contains(&word.as_str()) {
            let said = format!("`{}` is not known{}", quote(&word), hint(&word, &words));
            self.problems.push(self.part.at(field), said);
        }
        word == words[1]
    }
}

fn read_verify(value: &Value, names: &Names<'_>, problems: &mut Problems) -> Option<Verification> {
    let known = [
        "type",
        "secret",
        "header",
        "prefix",
        "algorithm",
        "encoding",
        "timestamp_header",
        "tolerance",
        "query",
        "public_key",
    ];
    let part = DocumentObject::read(value, "receipt.verify", &known, problems)?;
    let kinds = ["hmac", "twilio", "ecdsa", "token"];
    let word = part.need_text("type", "hmac, twilio, ecdsa or token", problems)?;
    let mut fields = Fields { part, names, problems };
    match word {
        "hmac" => Some(Verification::Hmac {
            secret: fields.text("secret")?,
            header: fields.header("header")?,
            prefix: fields.get("prefix").unwrap_or_default(),
            sha1: fields.choice("algorithm", ["sha256", "sha1"]),
            base64: fields.choice("encoding", ["hex", "base64"]),
            stamp: fields.stamp(),
        }),
        "twilio" => Some(Verification::Twilio { secret: fields.text("secret")? }),
        "ecdsa" => Some(Verification::Ecdsa {
            public_key: fields.text("public_key")?,
            header: fields.header("header")?,
            stamp: {
                fields.need("timestamp_header")?;
                fields.stamp()?
            },
        }),
        "token" => {
            let secret = fields.text("secret");
            let (header, query) = (fields.get("header").map(|name| name.to_lowercase()), fields.get("query"));
            if header.is_some() == query.is_some() {
                fields
                    .problems
                    .push("receipt.verify", "needs either `header` or `query`: where the token is");
            }
            Some(Verification::Token { secret: secret?, header, query })
        }
        other => {
            let said = format!("`{}` is no way to verify{}", quote(other), hint(other, &kinds));
            fields.problems.push("receipt.verify.type", said);
            None
        }
    }
}

fn read_challenge(value: &Value, names: &Names<'_>, problems: &mut Problems) -> Option<Challenge> {
    let known = ["token", "token_query", "answer_query", "answer_path", "answer_field"];
    let part = DocumentObject::read(value, "receipt.challenge", &known, problems)?;
    let mut fields = Fields { part, names, problems };
    if let Some(path) = fields.get("answer_path") {
        return Some(Challenge::Body { path, field: fields.need("answer_field")? });
    }
    Some(Challenge::Query {
        token: fields.text("token")?,
        token_query: fields.need("token_query")?,
        answer_query: fields.need("answer_query")?,
    })
}

fn read_event(value: &Value, path: &str, problems: &mut Problems) -> Option<Event> {
    let mut known = vec!["list", "message_id", "message_id_until", "address", "address_after", "event_id"];
    known.extend(["time", "status", "error"]);
    known.extend(ReceiptStatus::ALL.map(ReceiptStatus::word));
    let part = DocumentObject::read(value, path, &known, problems)?;
    let mut words = Vec::new();
    for status in ReceiptStatus::ALL {
        words.extend(listed(&part, status.word(), problems).into_iter().map(|word| (word, status)));
    }
    if words.is_empty() {
        problems.push(
            path,
            "has no words: give `delivered`, `read`, `bounced`, `failed`, `stopped` or `resumed`",
        );
    }
    let mut text = |field: &str| {
        let value = part.get(field)?;
        document::text(value, &part.at(field), problems).map(str::to_owned)
    };
    let (list, message_id, address) = (text("list").unwrap_or_default(), text("message_id"), text("address"));
    let (message_id_until, error) = (text("message_id_until"), text("error"));
    let (address_after, event_id, time) = (text("address_after"), text("event_id"), text("time"));
    if message_id.is_none() && address.is_none() {
        problems.push(path, "must have `message_id` or `address`: whom it is about");
    }
    let status = part.need_text("status", "where the provider's word is", problems)?.to_owned();
    Some(Event {
        list,
        message_id,
        message_id_until,
        address,
        address_after,
        event_id,
        time,
        status,
        error,
        words,
    })
}
