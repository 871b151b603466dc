//! A message template as people define it: for which events, channel, language, scope and send, and
//! its texts.
//!
//! *Problems* make it unusable, and nothing is kept of it. A [review](super::review) reports what is only
//! doubtful.

use crate::base::document::{DocumentObject, quote};
use crate::base::error::{Error, Problems, Result};
use crate::base::limits;
use crate::base::locale;
use crate::base::name::check_name;
use crate::base::suggestion::hint;
use crate::delivery::rules::template::event_type::OwnEventType;
use crate::delivery::rules::template::provider::ProviderTemplate;
use crate::delivery::rules::template::{MissingValuePolicy, TextTemplate};
use serde_json::{Map, Value};
use std::borrow::Cow;

const FIELDS: [&str; 15] = [
    "eventType",
    "channel",
    "name",
    "language",
    "scopeType",
    "scopeId",
    "attempt",
    "subject",
    "body",
    "html",
    "providerTemplate",
    "missing",
    "isActive",
    // Fields that a client reads and sends back with its changes; the client cannot set them.
    "id",
    "templateVersion",
];
const READ_BACK: [&str; 3] = ["warnings", "createdAt", "updatedAt"];

/// Kinds of channels, as people write them.
pub(crate) const KINDS: [&str; 7] = ["WhatsApp", "SMS", "Email", "Push", "InApp", "Webhook", "Chat"];

/// The subject to which a template is limited, such as one survey.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateScope {
    /// The type of it: `survey`.
    pub kind: String,
    /// Its id.
    pub id: String,
}

/// A template as it was defined.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TemplateDefinition {
    /// The kind of events that it is for.
    pub event_type: String,
    /// A kind of channels (`WhatsApp`) or the key of one (`whatsapp:default`).
    pub channel: String,
    /// The name that people give it.
    pub name: Option<String>,
    /// The locale of its texts.
    pub language: String,
    /// The subject to which it is limited; `None` is everything of the tenant.
    pub scope: Option<TemplateScope>,
    /// The first send that it is for: 1 the invitation alone, 2 the first reminder and those after it;
    /// none is every send.
    pub attempt: Option<u32>,
    /// The subject, for channels that have one.
    pub subject: Option<String>,
    /// The text.
    pub body: String,
    /// The text with markup, for mail.
    pub html: Option<String>,
    /// The provider's own template: `{key, params?, language?, entityId?}`.
    pub provider_template: Option<Value>,
    /// The replacement for a placeholder without a value.
    pub missing: MissingValuePolicy,
    /// Whether the template is used. Left out, a new template is used, and an existing one is unchanged.
    pub active: Option<bool>,
}

/// The texts of a template, ready to be rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompiledTemplate {
    /// The subject.
    pub subject: Option<TextTemplate>,
    /// The text.
    pub body: TextTemplate,
    /// The text with markup.
    pub html: Option<TextTemplate>,
    /// The provider's own template.
    pub provider: Option<ProviderTemplate<TextTemplate>>,
}

impl TemplateDefinition {
    /// Reads a definition. Every problem is reported with its path; a definition is returned only if there is
    /// none.
    pub fn read(json: &Value, problems: &mut Problems) -> Option<Self> {
        let before = problems.0.len();
        let definition = Self::read_parts(json, problems)?;
        // A missing field or a wrong type was reported already.
        let mut more = Problems::default();
        definition.check(&mut more);
        let told: Vec<String> = problems.0[before..].iter().map(|problem| problem.path.clone()).collect();
        problems.0.extend(more.0.into_iter().filter(|problem| !told.contains(&problem.path)));
        Some(definition).filter(|_| problems.0.len() == before)
    }

    /// Reads back what [`Self::to_json`] wrote. The definition was checked when it was stored, so it is
    /// not checked again by rules that may be stricter by now.
    #[must_use]
    pub fn kept(json: &Value) -> Self {
        Self::read_parts(json, &mut Problems::default()).unwrap_or_default()
    }

    fn read_parts(json: &Value, problems: &mut Problems) -> Option<Self> {
        let part = DocumentObject::read(json, "", &[FIELDS.as_slice(), &READ_BACK].concat(), problems)?;
        Some(Self {
            event_type: need(&part, "eventType", "the kind of events it is for", problems),
            channel: need(&part, "channel", "WhatsApp, SMS, Email, or the key of a channel", problems),
            name: optional(&part, "name", problems),
            language: need(&part, "language", "the locale of its texts, such as `ar`", problems),
            scope: read_scope(&part, problems),
            attempt: read_attempt(&part, problems),
            subject: optional(&part, "subject", problems),
            body: need(&part, "body", "the text", problems),
            html: optional(&part, "html", problems),
            provider_template: part.get("providerTemplate").cloned(),
            missing: read_missing(&part, problems),
            active: part.get("isActive").is_some().then(|| part.flag("isActive", true, problems)),
        })
    }

    /// Its texts, if nothing is wrong with it.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every problem.
    pub fn compile(&self) -> Result<CompiledTemplate> {
        let mut problems = Problems::default();
        match self.check(&mut problems) {
            Some(compiled) if problems.0.is_empty() => Ok(compiled),
            _ => Err(Error::Invalid(problems)),
        }
    }

    fn check(&self, problems: &mut Problems) -> Option<CompiledTemplate> {
        check_name(&self.event_type, "eventType", problems);
        check_name(&self.channel, "channel", problems);
        if let Some(name) = &self.name {
            check_name(name, "name", problems);
        }
        if let Err(said) = locale::check(&self.language) {
            problems.push("language", said);
        }
        self.check_scope(problems);
        if self.attempt.is_some_and(|n| !(1..=limits::TEMPLATE_ATTEMPT_MAX).contains(&n)) {
            problems.push("attempt", ATTEMPT_WRONG);
        }
        self.check_subject(problems);
        if self.body.trim().is_empty() {
            problems.push("body", "is empty: write the text");
        }
        let provider = self.provider_template.as_ref().map(|json| ProviderTemplate::read(json, problems));
        let subject = self.subject.as_deref().map(|text| parse(text, "subject", problems));
        let body = parse(&self.body, "body", problems);
        let html = self.html.as_deref().map(|text| parse(text, "html", problems));
        Some(CompiledTemplate {
            subject: subject.unwrap_or_default(),
            body: body?,
            html: html.unwrap_or_default(),
            provider: provider.unwrap_or_default(),
        })
    }

    fn check_scope(&self, problems: &mut Problems) {
        let Some(scope) = &self.scope else { return };
        check_name(&scope.kind, "scopeType", problems);
        check_name(&scope.id, "scopeId", problems);
        if let Some(own) = OwnEventType::find(&self.event_type).filter(|own| scope.kind != own.scope) {
            let said =
                format!("texts of `{}` are scoped by `{}` and its id, or not at all", own.name, own.scope);
            problems.push("scopeType", format!("`{}` is never used: {said}", quote(&scope.kind)));
        }
    }

    fn check_subject(&self, problems: &mut Problems) {
        let Some(subject) = &self.subject else { return };
        if subject.chars().any(|c| c.is_control() || "\u{2028}\u{2029}".contains(c)) {
            problems.push("subject", "has a line break or another control character: a subject is one line");
        }
        let chars = subject.chars().count();
        if chars > limits::SUBJECT_CHARS_MAX {
            let most = limits::SUBJECT_CHARS_MAX;
            problems.push("subject", format!("has {chars} characters, at most {most} are allowed"));
        }
    }

    /// As it is kept and shown.
    #[must_use]
    pub fn to_json(&self) -> Map<String, Value> {
        let text = |text: &Option<String>| text.as_deref().map_or(Value::Null, Value::from);
        let scope = |of: fn(&TemplateScope) -> &String| {
            self.scope.as_ref().map_or(Value::Null, |s| of(s).as_str().into())
        };
        let fields = [
            ("eventType", self.event_type.as_str().into()),
            ("channel", self.channel.as_str().into()),
            ("name", text(&self.name)),
            ("language", self.language.as_str().into()),
            ("scopeType", scope(|scope| &scope.kind)),
            ("scopeId", scope(|scope| &scope.id)),
            ("attempt", self.attempt.map_or(Value::Null, Value::from)),
            ("subject", text(&self.subject)),
            ("body", self.body.as_str().into()),
            ("html", text(&self.html)),
            ("providerTemplate", self.provider_template.clone().unwrap_or_default()),
            ("missing", self.missing.word().into()),
        ];
        fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

impl CompiledTemplate {
    /// Its texts, each with the field it stands in.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Cow<'static, str>, &TextTemplate)> {
        let texts =
            [("subject", self.subject.as_ref()), ("body", Some(&self.body)), ("html", self.html.as_ref())];
        let own = texts.into_iter().filter_map(|(path, text)| Some((Cow::Borrowed(path), text?)));
        let params = self.provider.iter().flat_map(ProviderTemplate::params);
        own.chain(params.map(|(path, text)| (Cow::Owned(path), text)))
    }
}

const ATTEMPT_WRONG: &str = "must be the number of a send: 1 for the invitation, 2 for the first reminder";

fn need(part: &DocumentObject<'_>, field: &str, why: &str, problems: &mut Problems) -> String {
    part.need_text(field, why, problems).unwrap_or_default().to_owned()
}

/// A text that may be left out; a blank one is none.
fn optional(part: &DocumentObject<'_>, field: &str, problems: &mut Problems) -> Option<String> {
    let found = part.get(field).and_then(|value| crate::base::document::text(value, field, problems));
    found.filter(|text| !text.trim().is_empty()).map(str::to_owned)
}

fn read_scope(part: &DocumentObject<'_>, problems: &mut Problems) -> Option<TemplateScope> {
    let kind = optional(part, "scopeType", problems);
    let id = match part.get("scopeId") {
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => optional(part, "scopeId", problems),
    };
    match (kind, id) {
        (Some(kind), Some(id)) => Some(TemplateScope { kind, id }),
        (None, None) => None,
        (Some(_), None) => {
            problems.push("scopeId", "is missing: the id of what it is only for");
            None
        }
        (None, Some(_)) => {
            problems.push("scopeType", "is missing: the type of what it is only for, such as `survey`");
            None
        }
    }
}

fn read_attempt(part: &DocumentObject<'_>, problems: &mut Problems) -> Option<u32> {
    let value = part.get("attempt")?;
    let found = value.as_u64().and_then(|n| u32::try_from(n).ok());
    if found.is_none() {
        problems.push("attempt", ATTEMPT_WRONG);
    }
    found
}

fn read_missing(part: &DocumentObject<'_>, problems: &mut Problems) -> MissingValuePolicy {
    let Some(value) = part.get("missing") else { return MissingValuePolicy::default() };
    let word = crate::base::document::text(value, "missing", problems).unwrap_or("empty");
    let found = MissingValuePolicy::ALL.into_iter().find(|missing| missing.word() == word);
    found.unwrap_or_else(|| {
        let hint = hint(word, &MissingValuePolicy::ALL.map(MissingValuePolicy::word));
        problems.push("missing", format!("`{}` is not a way to treat what has no value{hint}", quote(word)));
        MissingValuePolicy::default()
    })
}

/// A text with placeholders that stands at `path`.
pub(crate) fn parse(text: &str, path: &str, problems: &mut Problems) -> Option<TextTemplate> {
    if let Some(c) = text.chars().find(|c| c.is_control() && !"\n\r\t".contains(*c)) {
        let code = u32::from(c);
        problems.push(path, format!("has the control character U+{code:04X} in it, which no reader can see"));
        return None;
    }
    let parsed = TextTemplate::parse(text);
    parsed.map_err(|wrongs| wrongs.iter().for_each(|wrong| problems.push(path, wrong.to_string()))).ok()
}

#[cfg(test)]
mod tests;
