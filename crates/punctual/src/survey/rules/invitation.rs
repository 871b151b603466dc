//! The words of a survey's invitation and of its reminders.
//!
//! They come from the tenant's templates for [`EVENT_TYPE`], by scope, language, channel and send; without
//! one from texts of our own, in the languages of the table `own_words`.
//! Which of them is decided when a send is planned, and stays: a retry says the same, whatever templates
//! the tenant has by then.
//! Pure and cheap: a choice among what is compiled, and the values that it names.

mod own_texts;

use crate::base::error::Problem;
use crate::base::id::{FlowId, TemplateId};
use crate::base::locale;
use crate::base::locale::LocalizedText;
use crate::delivery::rules::address::address_for;
use crate::delivery::rules::event_values::EventValues;
use crate::delivery::rules::template::choose::choose;
use crate::delivery::rules::template::event_type::SURVEY_INVITATION;
use crate::delivery::rules::template::set::FilledTemplate;
use crate::delivery::rules::template::values::same_name;
use crate::delivery::rules::template::{
    MessageTemplate, ProviderTemplate, TemplateQuery, TemplateSet, TemplateValues, TextTarget, TextTemplate,
};
use crate::flow::rules::event_kind::EventKind;
use crate::queue::rules::message::Entity;
use crate::survey::rules::invitation::own_texts::OwnWords;
use std::sync::LazyLock;

/// The event type of templates for invitations and reminders.
pub const EVENT_TYPE: &str = SURVEY_INVITATION.name;
/// The scope type of templates for one survey.
const SCOPE: &str = SURVEY_INVITATION.scope;
/// The key of the link.
const LINK: &str = SURVEY_INVITATION.link;

/// The input of one invitation or reminder: one send of one entry.
#[derive(Clone, Copy, Debug)]
pub struct Invitation<'a> {
    /// The survey.
    pub flow: FlowId,
    /// Its title.
    pub title: &'a LocalizedText,
    /// The locale that its texts all have.
    pub default_locale: &'a str,
    /// The locale of the survey that is nearest to the reader's: its title and our own words are in it.
    pub survey_locale: &'a str,
    /// The key of the channel.
    pub channel: &'a str,
    /// The number of the send: 1 is the invitation, 2 the first reminder.
    pub attempt: u32,
    /// The entry's public id.
    pub public_id: &'a str,
    /// The link to the survey.
    pub survey_url: &'a str,
    /// The link that unsubscribes from such messages.
    pub unsubscribe_url: Option<&'a str>,
    /// The reader's address.
    pub address: &'a str,
    /// The kind of the event, or an empty one.
    pub kind: &'a EventKind,
    /// The event, its entities, and the reader, whose locale chooses the template and words the dates, with
    /// its region. What is given besides is the survey's.
    pub occasion: EventValues<'a>,
}

impl<'a> Invitation<'a> {
    /// The locale of the reader.
    fn locale(&self) -> Option<&'a str> {
        self.occasion.recipient.locale.as_deref()
    }
}

/// The text of an invitation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvitationText {
    /// The template and its version; none is a text of our own.
    pub template: Option<(TemplateId, u32)>,
    /// The locale of the text.
    pub locale: String,
    /// The subject, in one line.
    pub subject: Option<String>,
    /// The text.
    pub body: String,
    /// The text with markup.
    pub html: Option<String>,
    /// The provider's own template, which it sends in their place.
    pub provider: Option<ProviderTemplate<String>>,
    /// Placeholders without a value, by the text that names them.
    pub warnings: Vec<String>,
}

/// The template for one send of a survey, if the tenant has one that fits.
#[must_use]
pub fn template_for<'t>(
    set: &'t TemplateSet,
    flow: FlowId,
    default_locale: &str,
    channel: &str,
    locale: Option<&str>,
    send: u32,
) -> Option<&'t MessageTemplate> {
    let scopes = [Entity { kind: SCOPE.to_owned(), id: flow.to_string() }];
    let defaults = [default_locale, &set.default_locale];
    choose(
        &set.templates,
        &TemplateQuery { scopes: &scopes, channel, locale, defaults: &defaults, attempt: send },
    )
}

/// Which words a send has.
#[derive(Clone, Copy, Debug)]
pub enum InvitationWords<'t> {
    /// Those of a template of the tenant.
    Template(&'t MessageTemplate),
    /// A text of our own, by its version.
    Own(u32),
}

impl<'t> InvitationWords<'t> {
    /// The words that fit one send best.
    #[must_use]
    pub fn choose(set: &'t TemplateSet, invitation: &Invitation<'_>) -> Self {
        let Invitation { flow, default_locale, survey_locale, channel, attempt, .. } = *invitation;
        match template_for(set, flow, default_locale, channel, invitation.locale(), attempt) {
            Some(template) => Self::Template(template),
            None => Self::Own(own_version(set, default_locale, survey_locale)),
        }
    }

    /// The locale of the text: the reader's own, if the words are in its language.
    #[must_use]
    pub fn locale(self, set: &'t TemplateSet, invitation: &Invitation<'t>) -> &'t str {
        let own = match self {
            Self::Template(template) => return template.locale_for(invitation.locale()),
            Self::Own(version) => OwnTemplates::of(version),
        };
        let Invitation { survey_locale, default_locale, .. } = *invitation;
        let tags = [survey_locale, default_locale, &set.default_locale];
        let mut tags = invitation.locale().into_iter().chain(tags);
        tags.find(|tag| own.is_in_language_of(tag)).unwrap_or(own.language)
    }
}

/// Words one send.
#[must_use]
pub fn word(set: &TemplateSet, words: InvitationWords<'_>, invitation: &Invitation<'_>) -> InvitationText {
    let tag = words.locale(set, invitation);
    match words {
        InvitationWords::Template(template) => by_template(set, template, invitation, tag),
        InvitationWords::Own(version) => by_ourselves(OwnTemplates::of(version), invitation, tag),
    }
}

fn by_template(
    set: &TemplateSet,
    template: &MessageTemplate,
    invitation: &Invitation<'_>,
    tag: &str,
) -> InvitationText {
    let filled = fill(set, template, invitation, tag);
    let told = |warning: Problem| format!("{}: {}", warning.path, warning.message);
    InvitationText {
        template: Some((template.id, template.version)),
        locale: tag.to_owned(),
        subject: filled.subject,
        body: filled.body,
        html: filled.html,
        provider: filled.provider,
        warnings: filled.warnings.into_iter().map(told).collect(),
    }
}

/// Fills in a template as a notification of the same event would, with what the survey gives besides.
fn fill(set: &TemplateSet, template: &MessageTemplate, of: &Invitation<'_>, tag: &str) -> FilledTemplate {
    let attempt = of.attempt.to_string();
    let given = [
        (LINK, Some(of.survey_url)),
        ("unsubscribeUrl", of.unsubscribe_url),
        ("surveyTitle", Some(title(of, tag))),
        ("publicId", Some(of.public_id)),
        ("attempt", Some(attempt.as_str())),
        ("recipient.address", Some(of.address)),
        ("recipient.customerRef", of.occasion.recipient.reference.as_deref()),
    ];
    let given: Vec<(&str, &str)> =
        given.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let payload_prefix = Some(SURVEY_INVITATION.payload);
    let occasion = EventValues { given: &given, payload_prefix, ..of.occasion };
    of.kind.word(template, &occasion, set)
}

/// Whether a template names more than what the survey itself gives.
#[must_use]
pub fn names_the_event(template: &MessageTemplate) -> bool {
    let is_own = |key: &str| SURVEY_INVITATION.keys.iter().any(|own| same_name(key, own));
    template.texts.all().any(|(_, text)| text.keys().any(|key| !is_own(key)))
}

/// Renders a template for an invented survey, as a preview for its author.
#[must_use]
pub fn preview(
    set: &TemplateSet,
    template: &MessageTemplate,
    kind: &EventKind,
    occasion: EventValues<'_>,
) -> FilledTemplate {
    let mut title = LocalizedText::default();
    title.insert("en", "Survey title");
    title.insert("ar", "عنوان الاستبيان");
    let mut recipient = occasion.recipient.clone();
    recipient.reference.get_or_insert_with(|| "customer-1".to_owned());
    let address = address_for(&template.definition.channel, occasion.recipient);
    let sample = Invitation {
        flow: FlowId(0),
        title: &title,
        default_locale: "en",
        survey_locale: "en",
        channel: &template.definition.channel,
        attempt: template.definition.attempt.unwrap_or(1),
        public_id: "0123456789abcdefghjkmn",
        survey_url: "https://survey.example/s/0123456789abcdefghjkmn",
        unsubscribe_url: Some("https://survey.example/u/0123456789abcdefghjkmn"),
        address: address.as_deref().unwrap_or("+15550100"),
        kind,
        occasion: EventValues { recipient: &recipient, ..occasion },
    };
    fill(set, template, &sample, template.locale_for(sample.locale()))
}

/// The title in the language of a text: in its locale, or in another one of the same language, else as the
/// survey itself would show it.
fn title<'a>(of: &Invitation<'a>, tag: &str) -> &'a str {
    let found = of.title.find(tag).or_else(|| of.title.find(locale::language(tag)));
    found.unwrap_or_else(|| of.title.get(of.survey_locale, of.default_locale))
}

/// The version of our own text, from 1: in the language of the survey that its reader gets, else of the
/// survey's default one, else of the tenant.
#[must_use]
pub fn own_version(set: &TemplateSet, default_locale: &str, survey_locale: &str) -> u32 {
    let mut tags = [survey_locale, default_locale, &set.default_locale].into_iter();
    let found = tags.find_map(|tag| OWN.iter().position(|own| own.is_in_language_of(tag)));
    u32::try_from(found.unwrap_or_default()).unwrap_or_default() + 1
}

/// Our own words in one language. Their place in [`OWN`] is their version.
struct OwnTemplates {
    language: &'static str,
    invitation: [Option<TextTemplate>; 2],
    reminder: [Option<TextTemplate>; 2],
}

impl OwnTemplates {
    fn of(version: u32) -> &'static Self {
        let place = usize::try_from(version.saturating_sub(1)).unwrap_or_default();
        OWN.get(place).unwrap_or(&OWN[0])
    }

    fn is_in_language_of(&self, tag: &str) -> bool {
        locale::same(self.language, locale::text_language(tag))
    }
}

/// Parsed once; a text that did not parse would be caught by the tests.
static OWN: LazyLock<Vec<OwnTemplates>> = LazyLock::new(|| {
    let texts = |pair: [&str; 2]| pair.map(|text| TextTemplate::parse(text).ok());
    let parse = |words: &OwnWords| OwnTemplates {
        language: words.language,
        invitation: texts(words.invitation),
        reminder: texts(words.reminder),
    };
    own_texts::ALL.iter().map(parse).collect()
});

fn by_ourselves(own: &OwnTemplates, invitation: &Invitation<'_>, tag: &str) -> InvitationText {
    let [subject, body] = if invitation.attempt <= 1 { &own.invitation } else { &own.reminder };
    let title = title(invitation, tag);
    let values =
        TemplateValues::default().with_value(LINK, invitation.survey_url).with_value("surveyTitle", title);
    let render = |text: &Option<TextTemplate>, target| {
        text.as_ref().map(|text| text.render(&values, target, tag).text).unwrap_or_default()
    };
    InvitationText {
        template: None,
        locale: tag.to_owned(),
        subject: Some(render(subject, TextTarget::Line)),
        body: render(body, TextTarget::Text),
        html: None,
        provider: None,
        warnings: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
