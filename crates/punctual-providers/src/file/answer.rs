//! What an answer means: `[response]` and `[[classify]]`.

use crate::path;
use punctual::Problems;
use punctual::base::document;
use punctual::base::document::{DocumentObject, kind, quote};
use punctual::base::suggestion::hint;
use reqwest::header::HeaderMap;
use serde_json::Value;
use std::ops::RangeInclusive;
use std::time::Duration;

/// The longest wait that a provider is granted: if it asks for more, it is asked again after this one.
pub(crate) const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 3_600);
/// Rules of one file, at most.
const RULES_MAX: usize = 100;

/// Where an answer says what.
#[derive(Clone, Debug, Default)]
pub(crate) struct Response {
    /// The path of the message's id.
    pub(crate) message_id: Option<String>,
    /// The header of the message's id, for providers that answer without a body.
    pub(crate) message_id_header: Option<String>,
    /// The path of a sentence about what went wrong.
    pub(crate) error: Option<String>,
}

/// What an answer comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutcomeClass {
    Accepted,
    Transient,
    Permanent,
    Unknown,
}

/// One rule: all that it asks must hold.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    statuses: Vec<RangeInclusive<u16>>,
    header: Option<(String, Words)>,
    body: Option<(String, Words)>,
    pub(crate) class: OutcomeClass,
    pub(crate) retry_after: Option<Duration>,
}

/// Texts that something must be, or have in it; none for anything that is there.
#[derive(Clone, Debug, Default)]
struct Words {
    is: Vec<String>,
    contains: Vec<String>,
}

/// An answer, as far as rules look at it.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    pub(crate) headers: &'a HeaderMap,
    /// The body as a text, and as JSON if it is.
    pub(crate) text: &'a str,
    pub(crate) json: Option<&'a Value>,
    /// Whether the text is the whole body.
    pub(crate) whole: bool,
}

/// Whether a rule speaks about an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleMatch {
    Yes,
    No,
    /// It asks what is in a body that cannot be read whole.
    Unreadable,
}

impl Answer<'_> {
    /// What stands at a path of the body; the empty path is the whole.
    pub(crate) fn at(&self, path: &str) -> Option<String> {
        if path.is_empty() {
            return Some(self.text.trim().to_owned());
        }
        self.json.and_then(|json| path::at(json, path)).and_then(path::text)
    }

    /// Whether everything at a path can be seen. A body that begins as JSON and is none is not read.
    fn is_readable(&self, path: &str) -> bool {
        let begun = self.text.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']).starts_with(['{', '[']);
        self.whole && (path.is_empty() || self.json.is_some() || !begun)
    }

    /// A header's value.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

impl Words {
    fn fit(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        (self.is.is_empty() && self.contains.is_empty())
            || self.is.contains(&text)
            || self.contains.iter().any(|word| text.contains(word))
    }

    /// Compares with what stands at a path of a body.
    fn compare(&self, path: &str, answer: &Answer<'_>) -> RuleMatch {
        let found = answer.at(path);
        if answer.is_readable(path) {
            let fits = found.is_some_and(|text| self.fit(&text));
            return if fits { RuleMatch::Yes } else { RuleMatch::No };
        }
        // Words that stand in what was read stand in the whole.
        let text = found.unwrap_or_default().to_lowercase();
        let seen = self.contains.iter().any(|word| text.contains(word));
        if seen { RuleMatch::Yes } else { RuleMatch::Unreadable }
    }
}

impl Rule {
    /// Compares the rule with an answer.
    pub(crate) fn compare(&self, answer: &Answer<'_>) -> RuleMatch {
        let status = self.statuses.is_empty() || self.statuses.iter().any(|one| one.contains(&answer.status));
        let header = self
            .header
            .as_ref()
            .is_none_or(|(name, words)| answer.header(name).is_some_and(|text| words.fit(text)));
        match &self.body {
            _ if !(status && header) => RuleMatch::No,
            None => RuleMatch::Yes,
            Some((path, words)) => words.compare(path, answer),
        }
    }
}

impl OutcomeClass {
    /// What a status means when no rule speaks.
    pub(crate) const fn of_status(status: u16) -> Self {
        match status {
            200..=299 => Self::Accepted,
            408 | 425 | 429 | 500..=599 => Self::Transient,
            400..=499 => Self::Permanent,
            _ => Self::Unknown,
        }
    }
}

impl Response {
    pub(super) fn read(value: &Value, problems: &mut Problems) -> Self {
        let known = ["message_id", "message_id_header", "error"];
        let Some(part) = DocumentObject::read(value, "response", &known, problems) else {
            return Self::default();
        };
        let mut text = |field: &str| {
            let value = part.get(field)?;
            document::text(value, &part.at(field), problems).map(str::to_owned)
        };
        Self {
            message_id: text("message_id"),
            message_id_header: text("message_id_header").map(|name| name.to_lowercase()),
            error: text("error"),
        }
    }
}

pub(super) fn read_rules(part: &DocumentObject<'_>, problems: &mut Problems) -> Vec<Rule> {
    let list = part.list("classify", RULES_MAX, problems).unwrap_or_default();
    list.iter().filter_map(|(value, path)| read_rule(value, path, problems)).collect()
}

fn read_rule(value: &Value, path: &str, problems: &mut Problems) -> Option<Rule> {
    let part =
        DocumentObject::read(value, path, &["status", "header", "body", "class", "retry_after"], problems)?;
    let statuses = part.get("status").map(|value| read_statuses(value, &part.at("status"), problems));
    let header = part.get("header").and_then(|value| {
        let (name, words) = read_words(value, &part.at("header"), "name", problems)?;
        Some((name.to_lowercase(), words))
    });
    let body = part.get("body").and_then(|value| read_words(value, &part.at("body"), "path", problems));
    if statuses.is_none() && header.is_none() && body.is_none() {
        problems.push(path, "fits every answer: give it `status`, `header` or `body`");
    }
    let retry_after = part.duration("retry_after", problems);
    if retry_after.is_some_and(|wait| wait > RETRY_AFTER_MAX) {
        problems.push(part.at("retry_after"), "must be at most 24h: no wait is longer");
    }
    let class = read_class(&part, problems)?;
    if retry_after.is_some() && class != OutcomeClass::Transient {
        problems.push(part.at("retry_after"), "only what is transient is tried again");
    }
    Some(Rule { statuses: statuses.unwrap_or_default(), header, body, class, retry_after })
}

fn read_class(part: &DocumentObject<'_>, problems: &mut Problems) -> Option<OutcomeClass> {
    let known = ["accepted", "transient", "permanent", "unknown"];
    let word = part.need_text("class", "transient, permanent, unknown or accepted", problems)?;
    match word.to_lowercase().as_str() {
        "accepted" => Some(OutcomeClass::Accepted),
        "transient" => Some(OutcomeClass::Transient),
        "permanent" => Some(OutcomeClass::Permanent),
        "unknown" => Some(OutcomeClass::Unknown),
        other => {
            let said = format!("`{}` is not a class{}", quote(other), hint(other, &known));
            problems.push(part.at("class"), said);
            None
        }
    }
}

/// `400`, `"5xx"`, `"400-404"`, or a list of such.
fn read_statuses(value: &Value, path: &str, problems: &mut Problems) -> Vec<RangeInclusive<u16>> {
    let all = value.as_array().map_or_else(|| vec![value], |list| list.iter().collect());
    let read = |one: &Value| {
        let range = match one {
            Value::Number(number) => number.as_u64().and_then(|n| u16::try_from(n).ok()).map(|n| n..=n),
            Value::String(text) => status_range(text),
            _ => None,
        };
        let range = range.filter(|range| (100..=599).contains(range.start()) && range.end() <= &599);
        if range.is_none() {
            problems.push(path, format!("`{one}` is not a status: write 400, \"5xx\" or \"400-404\""));
        }
        range
    };
    all.into_iter().filter_map(read).collect()
}

fn status_range(text: &str) -> Option<RangeInclusive<u16>> {
    if let Some(hundred) = text.strip_suffix("xx") {
        let hundred: u16 = hundred.parse().ok().filter(|n| (1..=5).contains(n))?;
        return Some(hundred * 100..=hundred * 100 + 99);
    }
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let (from, to) = (from.trim().parse().ok()?, to.trim().parse().ok()?);
    (from <= to).then_some(from..=to)
}

/// A name or a path, and what must stand there.
fn read_words(value: &Value, path: &str, place: &str, problems: &mut Problems) -> Option<(String, Words)> {
    let part = DocumentObject::read(value, path, &[place, "is", "contains"], problems)?;
    let name = part.need_text(place, "where to look", problems)?.to_owned();
    let words = Words { is: listed(&part, "is", problems), contains: listed(&part, "contains", problems) };
    Some((name, words))
}

/// One text or number, or a list of them, in lower case.
pub(super) fn listed(part: &DocumentObject<'_>, field: &str, problems: &mut Problems) -> Vec<String> {
    let Some(value) = part.get(field) else { return Vec::new() };
    let all = value.as_array().map_or_else(|| vec![value], |list| list.iter().collect());
    let read = |one: &Value| {
        let text = path::text(one);
        if text.is_none() {
            problems.push(part.at(field), format!("must be texts or numbers, not {}", kind(one)));
        }
        text.map(|text| text.to_lowercase())
    };
    all.into_iter().filter_map(read).collect()
}
