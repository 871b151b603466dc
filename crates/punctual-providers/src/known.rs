//! What a provider's file can name when it makes a request, and texts that name it.
//!
//! Texts are the engine's templates. Each name must be one of [`NAMES`], `setting.` and a setting of
//! the file, or `payload.` and any path; a file that names something else is refused when it is read.
//! What a message does not have is empty.

use crate::path;
use crate::settings::{Setting, Settings};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use punctual::base::digest;
use punctual::base::document::quote;
use punctual::base::suggestion::hint;
use punctual::delivery::rules::template::{TemplateValues, TextTarget, TextTemplate};
use punctual::{Problems, RenderedMessage};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// What a message gives, beside `setting.*` and `payload.*`.
pub(crate) const NAMES: [&str; 21] = [
    "to",
    "toDigits",
    "toCountryCode",
    "toNational",
    "subject",
    "body",
    "html",
    "locale",
    "language",
    "attempt",
    "publicId",
    "surveyUrl",
    "unsubscribeUrl",
    "idempotencyKey",
    "idempotencyUuid",
    "template.key",
    "template.language",
    "template.entityId",
    "template.params",
    "item",
    "name",
];
/// What may stand in a URL without being written otherwise.
const PLAIN: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Checks the names that texts use.
pub(crate) struct Names<'a> {
    pub(crate) settings: &'a BTreeSet<String>,
}

impl Names<'_> {
    /// Tells when a file names what nobody knows.
    pub(crate) fn check(&self, name: &str, path: &str, problems: &mut Problems) {
        let known = match name.split_once('.') {
            Some(("setting", setting)) => self.settings.contains(setting),
            Some(("payload", rest)) => !rest.is_empty(),
            _ => NAMES.contains(&name),
        };
        if !known {
            let settings = self.settings.iter().map(|setting| format!("setting.{setting}"));
            let all: Vec<String> = NAMES.iter().map(|name| (*name).to_owned()).chain(settings).collect();
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            let said = format!("`{}` is not a value of a message{}", quote(name), hint(name, &all));
            problems.push(path, said);
        }
    }
}

/// What is known of one message.
pub(crate) struct KnownValues<'a> {
    own: Value,
    payload: &'a Value,
    /// The name and the value of the present item, within a list.
    item: Option<(String, Value)>,
}

impl<'a> KnownValues<'a> {
    /// What a message and a channel's settings give. `address` has the names that begin with `to`.
    pub(crate) fn new(letter: &'a RenderedMessage, settings: &Settings, address: Map<String, Value>) -> Self {
        let language = letter.locale.split(['-', '_']).next().unwrap_or_default();
        let own = json!({
            "subject": letter.subject,
            "body": letter.body,
            "html": letter.html,
            "locale": letter.locale,
            "language": language,
            "attempt": letter.attempt,
            "publicId": letter.public_id.map(|id| id.to_string()),
            "surveyUrl": letter.survey_url,
            "unsubscribeUrl": letter.unsubscribe_url,
            "idempotencyKey": letter.idempotency_key,
            "idempotencyUuid": uuid(letter),
            "template": template(letter),
        });
        let mut known = Self::of_settings(settings);
        if let (Value::Object(all), Value::Object(own)) = (&mut known.own, own) {
            all.extend(own);
            all.extend(address);
        }
        Self { own: known.own, payload: &letter.payload, item: None }
    }

    /// What the settings alone give.
    pub(crate) fn of_settings(settings: &Settings) -> KnownValues<'static> {
        let given: Map<String, Value> =
            settings.iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
        KnownValues { own: json!({"setting": given}), payload: &Value::Null, item: None }
    }

    /// The same, within a list.
    pub(crate) fn within<T>(&mut self, name: String, item: Value, make: impl FnOnce(&mut Self) -> T) -> T {
        let outer = self.item.replace((name, item));
        let made = make(self);
        self.item = outer;
        made
    }

    /// What a name stands for.
    pub(crate) fn get(&self, name: &str) -> Option<Value> {
        let found = match (name, &self.item) {
            ("item", Some((_, item))) => Some(item.clone()),
            ("name", Some((name, _))) => Some(name.as_str().into()),
            _ => match name.strip_prefix("payload.") {
                Some(rest) => path::at(self.payload, rest).cloned(),
                None => path::at(&self.own, name).cloned(),
            },
        };
        found.filter(|value| !value.is_null())
    }

    /// Whether a name stands for anything.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| match value {
            Value::String(text) => !text.is_empty(),
            Value::Array(items) => !items.is_empty(),
            Value::Object(fields) => !fields.is_empty(),
            _ => true,
        })
    }

    fn text(&self, name: &str) -> String {
        self.get(name).as_ref().and_then(path::text).unwrap_or_default()
    }
}

/// The provider's own template; one without a language is meant in the message's.
fn template(letter: &RenderedMessage) -> Value {
    let mut template = letter.provider_template.as_deref().cloned().unwrap_or_default();
    if let Some(fields) = template.as_object_mut() {
        fields.entry("language").or_insert_with(|| letter.locale.replace('-', "_").into());
    }
    template
}

/// A key that is a UUID, the same for every try: for providers that take no other.
fn uuid(letter: &RenderedMessage) -> String {
    let tenant = letter.tenant.to_string();
    let hex = digest::of([tenant.as_bytes(), letter.idempotency_key.as_bytes()]);
    // Version 8 and the usual variant: a UUID of one's own making (RFC 9562).
    format!("{}-{}-8{}-a{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..32])
}

/// A text of a file, with names in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Text {
    template: TextTemplate,
    /// As it was written.
    written: String,
    /// The name, when the text is nothing else: its value then goes through whole, however long.
    whole: Option<String>,
}

impl Text {
    /// Reads a text; every name in it must be known.
    pub(crate) fn parse(text: &str, path: &str, names: &Names<'_>, problems: &mut Problems) -> Option<Self> {
        let template = match TextTemplate::parse(text) {
            Ok(template) => template,
            Err(wrongs) => {
                wrongs.iter().for_each(|wrong| problems.push(path, wrong.to_string()));
                return None;
            }
        };
        template.keys().for_each(|name| names.check(name, path, problems));
        let inner = text.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}")).map(str::trim);
        let whole = inner.filter(|name| template.keys().eq([*name])).map(str::to_owned);
        Some(Self { template, written: text.to_owned(), whole })
    }

    /// The names in it.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.template.keys()
    }

    /// The words between the names.
    pub(crate) fn fixed(&self) -> String {
        self.template.fixed()
    }

    /// As it was written.
    pub(crate) fn written(&self) -> &str {
        &self.written
    }

    /// The text, with values as they are.
    pub(crate) fn render(&self, known: &KnownValues<'_>) -> String {
        match &self.whole {
            Some(name) => known.text(name),
            None => self.fill(|name| known.text(name), TextTarget::Text),
        }
    }

    /// The text in one line.
    pub(crate) fn line(&self, known: &KnownValues<'_>) -> String {
        self.fill(|name| known.text(name), TextTarget::Line)
    }

    /// The text as a URL: values are percent-encoded, but for settings that are addresses themselves.
    pub(crate) fn url(&self, known: &KnownValues<'_>, settings: &[Setting]) -> String {
        self.fill(|name| url_value(name, known, settings), TextTarget::Text)
    }

    /// The URL with one word in place of everything that a message brings.
    pub(crate) fn url_shape(&self, known: &KnownValues<'_>, settings: &[Setting]) -> String {
        let value = |name: &str| match name.starts_with("setting.") {
            true => url_value(name, known, settings),
            false => "x".to_owned(),
        };
        self.fill(value, TextTarget::Text)
    }

    fn fill(&self, value: impl Fn(&str) -> String, target: TextTarget) -> String {
        let values =
            self.names().fold(TemplateValues::default(), |values, name| values.with_value(name, value(name)));
        self.template.render(&values, target, "en").text
    }
}

fn url_value(name: &str, known: &KnownValues<'_>, settings: &[Setting]) -> String {
    let text = known.text(name);
    let setting = name.strip_prefix("setting.");
    let is_address = settings.iter().any(|one| one.url && setting == Some(&one.name));
    if is_address { text } else { utf8_percent_encode(&text, &PLAIN).to_string() }
}
