//! The templates of one tenant for one kind of events, ready to be used.

use crate::base::error::Problem;
use crate::base::id::TemplateId;
use crate::base::locale;
use crate::base::zone::Zone;
use crate::delivery::rules::template::choose::kind_of;
use crate::delivery::rules::template::definition::{CompiledTemplate, TemplateDefinition};
use crate::delivery::rules::template::{
    MissingValuePolicy, ProviderTemplate, RenderedText, TemplateValues, TextTarget, TextTemplate,
};

/// A template that is in use.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageTemplate {
    /// Its id.
    pub id: TemplateId,
    /// Which version of it this is, from 1.
    pub version: u32,
    /// As it was defined.
    pub definition: TemplateDefinition,
    /// Its texts.
    pub texts: CompiledTemplate,
}

/// A template with its values filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilledTemplate {
    /// The subject, in one line.
    pub subject: Option<String>,
    /// The text.
    pub body: String,
    /// The text with markup.
    pub html: Option<String>,
    /// The provider's own template, with its parameters filled in.
    pub provider: Option<ProviderTemplate<String>>,
    /// Values that were missing or did not fit, by the text that names them.
    pub warnings: Vec<Problem>,
}

impl MessageTemplate {
    /// The locale that its text is shown in to a reader: the reader's own, if it is of the same language. A
    /// text in Arabic has the dates of a reader of `ar-IQ`; one in English does not.
    #[must_use]
    pub fn locale_for<'a>(&'a self, reader: Option<&'a str>) -> &'a str {
        let language = &self.definition.language;
        let near = |tag: &&str| locale::same(locale::language(tag), locale::language(language));
        reader.filter(near).unwrap_or(language)
    }

    /// Fills in the values.
    #[must_use]
    pub fn fill(&self, values: &TemplateValues<'_>, tag: &str) -> FilledTemplate {
        let as_written;
        let values = match self.definition.missing {
            MissingValuePolicy::Empty => values,
            missing @ MissingValuePolicy::AsWritten => {
                as_written = values.clone().missing(missing);
                &as_written
            }
        };
        let mut warnings = Vec::new();
        let mut render = |name: &str, text: &TextTemplate, target| {
            let RenderedText { text, warnings: said } = text.render(values, target, tag);
            warnings.extend(said.into_iter().map(|said| Problem::new(name, said)));
            text
        };
        let subject = self.texts.subject.as_ref().map(|text| render("subject", text, TextTarget::Line));
        let mut body = render("body", &self.texts.body, TextTarget::Text);
        if kind_of(&self.definition.channel) == "SMS" {
            body = with_plain_spaces(body);
        }
        let html = self.texts.html.as_ref().map(|text| render("html", text, TextTarget::Html));
        let provider = self.texts.provider.as_ref();
        // A provider takes each parameter as one line.
        let provider = provider.map(|own| own.fill(|path, text| render(path, text, TextTarget::Line)));
        FilledTemplate { subject, body, html, provider, warnings }
    }
}

/// A text without no-break spaces, which the forms of many locales have: one would make an SMS of the GSM
/// alphabet twice as dear.
fn with_plain_spaces(text: String) -> String {
    const NO_BREAK: [char; 2] = ['\u{a0}', '\u{202f}'];
    if text.contains(NO_BREAK) { text.replace(NO_BREAK, " ") } else { text }
}

/// The compiled templates of a tenant.
#[derive(Clone, Debug)]
pub struct TemplateSet {
    /// The templates in use.
    pub templates: Vec<MessageTemplate>,
    /// Whether there are templates for such events, or were, in use or not.
    pub known: bool,
    /// The tenant's language.
    pub default_locale: String,
    /// The tenant's zone, in which moments are shown.
    pub zone: Zone,
}

impl TemplateSet {
    /// The template with this id, if this version of it is the one in use.
    #[must_use]
    pub fn find_version(&self, id: TemplateId, version: u32) -> Option<&MessageTemplate> {
        self.templates.iter().find(|template| template.id == id && template.version == version)
    }

    /// Whether its templates are in several languages, so that the reader's makes a difference.
    #[must_use]
    pub fn is_multilingual(&self) -> bool {
        let mut pairs = self.templates.windows(2);
        pairs.any(|pair| pair[0].definition.language != pair[1].definition.language)
    }
}

impl Default for TemplateSet {
    fn default() -> Self {
        Self { templates: Vec::new(), known: false, default_locale: "en".into(), zone: Zone::utc() }
    }
}
