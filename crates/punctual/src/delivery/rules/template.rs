//! Templates: texts with placeholders, parsed once and rendered many times.
//!
//! `{{key}}` stands for a value, in upper or lower case; `{{key | upper}}` passes it through filters; `\{{`
//! is two braces. A key is a path into what is known ([`TemplateValues`]): `guest.phone`, or joined,
//! `guestPhone`. Values are escaped for where they go ([`TextTarget`]).
//!
//! Rendering never fails. A placeholder without a value is empty or left as it stands
//! ([`MissingValuePolicy`]), a value that a filter cannot read goes through as it is, one that is too long
//! is cut; each with a warning. Not promised: that an address from a value is safe to click. HTML is escaped,
//! its attributes are not understood.

pub mod choose;
mod currency;
pub mod date;
pub mod definition;
pub mod event_type;
mod filter;
mod forms;
mod known_names;
mod parse;
pub mod provider;
pub mod review;
pub mod segments;
pub mod set;
pub mod values;

pub use crate::delivery::rules::template::choose::TemplateQuery;
pub use crate::delivery::rules::template::definition::{TemplateDefinition, TemplateScope};
pub use crate::delivery::rules::template::known_names::KnownNames;
pub use crate::delivery::rules::template::parse::TemplateProblem;
pub use crate::delivery::rules::template::provider::ProviderTemplate;
pub use crate::delivery::rules::template::set::{MessageTemplate, TemplateSet};
pub use crate::delivery::rules::template::values::{MissingValuePolicy, TemplateValues};

use crate::base::document::quote;
use crate::base::limits;
use crate::delivery::rules::template::filter::{Context, Filter};
use std::borrow::Cow;

/// Where a rendered text goes, and so how values are escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextTarget {
    /// Plain text: values as they are.
    Text,
    /// One line, such as a subject: line breaks in values become spaces.
    Line,
    /// HTML: values are escaped for text and for quoted attributes.
    Html,
}

/// A text that was rendered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RenderedText {
    /// The text.
    pub text: String,
    /// Values that were missing or did not fit, a sentence each.
    pub warnings: Vec<String>,
}

/// A text with placeholders, ready to be rendered.
///
/// ```
/// use punctual::delivery::rules::template::{TextTarget, TextTemplate, TemplateValues};
/// let template = TextTemplate::parse("Hello {{guest.name}}, see {{LINK}}").unwrap();
/// let payload = serde_json::json!({"guest": {"name": "Ada & Co"}});
/// let values = TemplateValues::default().with_value("link", "https://example.org").with_json("", &payload);
/// let made = template.render(&values, TextTarget::Html, "en");
/// assert_eq!(made.text, "Hello Ada &amp; Co, see https://example.org");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextTemplate {
    parts: Vec<Part>,
    /// How long the words between the placeholders are, in bytes.
    fixed_bytes: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Words(String),
    Value(Placeholder),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Placeholder {
    key: String,
    filters: Vec<Filter>,
    /// As it was written, to leave it so.
    written: String,
}

impl TextTemplate {
    /// Reads a text.
    ///
    /// # Errors
    /// Everything that is wrong with it, by line and column.
    pub fn parse(text: &str) -> Result<Self, Vec<TemplateProblem>> {
        let parts = parse::parts(text)?;
        let bytes = |part: &Part| if let Part::Words(words) = part { words.len() } else { 0 };
        let fixed_bytes = parts.iter().map(bytes).sum();
        Ok(Self { parts, fixed_bytes })
    }

    /// The keys it names, in their order, each as it was written: those of its placeholders, and those that
    /// name the currency of an amount.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.placeholders().flat_map(|placeholder| {
            let own = std::iter::once(placeholder.key.as_str());
            own.chain(placeholder.filters.iter().filter_map(Filter::key))
        })
    }

    /// The filters of its placeholders.
    pub(crate) fn filters(&self) -> impl Iterator<Item = &Filter> {
        self.placeholders().flat_map(|placeholder| &placeholder.filters)
    }

    fn placeholders(&self) -> impl Iterator<Item = &Placeholder> {
        self.parts.iter().filter_map(|part| match part {
            Part::Value(placeholder) => Some(placeholder),
            Part::Words(_) => None,
        })
    }

    /// The words between the placeholders.
    #[must_use]
    pub fn fixed(&self) -> String {
        let words = |part: &Part| if let Part::Words(words) = part { words.clone() } else { String::new() };
        self.parts.iter().map(words).collect()
    }

    /// Whether the text has no placeholders.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.keys().next().is_none()
    }

    /// Fills in the values, in a locale's forms of dates, numbers and money.
    #[must_use]
    pub fn render(&self, values: &TemplateValues<'_>, target: TextTarget, locale: &str) -> RenderedText {
        let mut made = RenderedText::default();
        made.text.reserve(self.fixed_bytes + self.fixed_bytes / 2);
        // The words are always there; values share what room is left.
        let mut room = limits::RENDERED_BYTES_MAX.saturating_sub(self.fixed_bytes);
        let mut names = limits::TEMPLATE_NAMES_MAX;
        for part in &self.parts {
            match part {
                Part::Words(words) => made.text.push_str(words),
                Part::Value(placeholder) => {
                    let before = made.text.len();
                    let value = placeholder.value(values, locale, &mut names, &mut made.warnings);
                    push(&mut made.text, &value, target);
                    let took = made.text.len() - before;
                    if took > room {
                        made.text.truncate(before);
                        placeholder.warn("was left out: the text would be too long", &mut made.warnings);
                    }
                    room -= took.min(room);
                }
            }
        }
        made
    }
}

impl Placeholder {
    fn value<'v>(
        &'v self,
        values: &'v TemplateValues<'_>,
        locale: &str,
        names: &mut usize,
        warnings: &mut Vec<String>,
    ) -> Cow<'v, str> {
        let mut warn = |said: &str| self.warn(said, warnings);
        let mut found = values.get(&self.key, names).and_then(values::ResolvedValue::text);
        match &mut found {
            Some(text) => cut(text, &mut warn),
            None if values.holds_more(&self.key, names) => warn("is an object: name what is in it"),
            None => {}
        }
        let mut context = Context { values, locale, names };
        for filter in &self.filters {
            found = filter.apply(found, &mut context, &mut warn);
        }
        found.unwrap_or_else(|| {
            warn("has no value");
            match values.missing_as() {
                MissingValuePolicy::Empty => Cow::Borrowed(""),
                MissingValuePolicy::AsWritten => Cow::Borrowed(&self.written),
            }
        })
    }

    fn warn(&self, said: &str, warnings: &mut Vec<String>) {
        let said = format!("`{{{{{}}}}}` {said}", quote(&self.key));
        if !warnings.contains(&said) {
            warnings.push(said);
        }
    }
}

/// Keeps a value within what one may take.
fn cut(text: &mut Cow<'_, str>, warn: &mut impl FnMut(&str)) {
    if text.len() <= limits::TEMPLATE_VALUE_BYTES_MAX {
        return;
    }
    let end = text.floor_char_boundary(limits::TEMPLATE_VALUE_BYTES_MAX);
    *text = Cow::Owned(text[..end].to_owned());
    warn("is very long and was cut");
}

/// Adds a value, escaped. Control characters are left out of a message, and characters that turn the
/// direction of the text around a value are left out of a value.
fn push(out: &mut String, value: &str, target: TextTarget) {
    for c in value.chars() {
        match (c, target) {
            ('&', TextTarget::Html) => out.push_str("&amp;"),
            ('<', TextTarget::Html) => out.push_str("&lt;"),
            ('>', TextTarget::Html) => out.push_str("&gt;"),
            ('"', TextTarget::Html) => out.push_str("&quot;"),
            ('\'', TextTarget::Html) => out.push_str("&#39;"),
            ('\n' | '\t', TextTarget::Text | TextTarget::Html) => out.push(c),
            ('\u{2028}' | '\u{2029}', TextTarget::Line) => out.push(' '),
            ('\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}', _) => {}
            (c, _) if c.is_control() => out.push(' '),
            (c, _) => out.push(c),
        }
    }
}

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod tests;
