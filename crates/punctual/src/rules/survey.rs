//! Surveys: the document, and everything that may be wrong with one.
//!
//! A definition is read whole ([`Survey::read`]): its locales, questions, triggers and subscribers.
//! *Problems* make it unusable, and nothing is kept of it; *warnings* are told and change nothing.
//! A draft may still be empty: what a published one needs besides is asked by [`Survey::ready`].
//!
//! Not promised: that a channel or a subscription of a name exists later, or that an event ever has
//! the facts a filter names.

mod question;
mod reading;
mod trigger;

pub use question::{Choice, Kind, NPS, Question, day, label};
pub use trigger::{EVENT_FACTS, ROUTE_FACTS, Schedule, Stop, Subscriber, Trigger};

use super::document::{Listed, Part, quote};
use super::locale::{self, Texts};
use super::spelling;
use crate::base::error::Problems;
use crate::base::limits;
use reading::Reading;
use serde_json::Value;
use std::collections::BTreeSet;

const FIELDS: [&str; 6] = ["title", "locales", "defaultLocale", "questions", "triggers", "subscribers"];

/// One version of a survey, as it was defined.
#[derive(Clone, Debug, PartialEq)]
pub struct Survey {
    /// What it is called.
    pub title: Texts,
    /// The locales it speaks.
    pub locales: Vec<String>,
    /// The one that every text has.
    pub default_locale: String,
    /// What is asked, in this order.
    pub questions: Vec<Question>,
    /// What begins an invitation.
    pub triggers: Vec<Trigger>,
    /// Who is told of answers; none is every subscription of the topic.
    pub subscribers: Option<Vec<Subscriber>>,
}

impl Survey {
    /// Reads a definition. Every problem is told by its path; a survey comes back only if there is
    /// none.
    pub fn read(definition: &Value, problems: &mut Problems, warnings: &mut Problems) -> Option<Self> {
        let before = problems.0.len();
        let survey = Self::read_parts(definition, problems, warnings);
        survey.filter(|_| problems.0.len() == before)
    }

    fn read_parts(definition: &Value, problems: &mut Problems, warnings: &mut Problems) -> Option<Self> {
        let part = Part::read(definition, "", &FIELDS, problems)?;
        let locales = read_locales(&part, problems);
        let default = read_default(&part, &locales, problems);
        let to = &mut Reading { locales: locales.clone(), default: default.clone(), problems, warnings };
        let title = part.need("title", "what the survey is called, for each locale", to.problems);
        let title = title.map(|value| to.texts(value, "title"));
        let why = "what is asked; a draft may have an empty list";
        let list = part.need_list("questions", limits::QUESTIONS_MAX, why, to.problems);
        let questions = read_questions(&list, to);
        let why = "what begins an invitation; an empty list if it is only sent by hand";
        let list = part.need_list("triggers", limits::TRIGGERS_MAX, why, to.problems);
        let triggers = read_triggers(&list, to);
        let subscribers = part.list("subscribers", limits::SUBSCRIBERS_MAX, to.problems);
        let subscribers = subscribers.map(|list| Subscriber::read_all(&list, to));
        let survey =
            Self { title: title?, locales, default_locale: default?, questions, triggers, subscribers };
        survey.check_routes(to);
        Some(survey)
    }

    /// What a published version needs besides: something to ask, and channels that are there.
    pub fn ready(&self, known: impl Fn(&str) -> bool, problems: &mut Problems, warnings: &mut Problems) {
        if self.questions.is_empty() {
            problems.push("questions", "is empty: a published survey asks at least one question");
        }
        self.check_channels(known, warnings);
    }

    /// Warns of channels that are not `known`. They may be configured before something is sent.
    pub fn check_channels(&self, known: impl Fn(&str) -> bool, warnings: &mut Problems) {
        for (n, trigger) in self.triggers.iter().enumerate().filter(|(_, trigger)| !known(&trigger.channel)) {
            let said = "is not a channel of this server: until it is configured, nothing is sent by it";
            warnings.push(format!("triggers[{n}].channel"), format!("`{}` {said}", quote(&trigger.channel)));
        }
    }

    /// The question of an id.
    #[must_use]
    pub fn question(&self, id: &str) -> Option<&Question> {
        self.questions.iter().find(|question| question.id == id)
    }

    /// The trigger of an id.
    #[must_use]
    pub fn trigger(&self, id: &str) -> Option<&Trigger> {
        self.triggers.iter().find(|trigger| trigger.id == id)
    }

    /// Who is told of an answer that a trigger brought: its own list, else the survey's, else (none)
    /// every subscription of the topic.
    #[must_use]
    pub fn subscribers_of(&self, trigger: Option<&Trigger>) -> Option<&[Subscriber]> {
        trigger.and_then(|trigger| trigger.subscribers.as_deref()).or(self.subscribers.as_deref())
    }

    /// The locale for a reader who wants `wanted`.
    #[must_use]
    pub fn locale_for(&self, wanted: Option<&str>) -> &str {
        locale::choose(&self.locales, wanted, &self.default_locale)
    }

    /// Warns of routes that look at answers which nobody is asked for.
    fn check_routes(&self, to: &mut Reading<'_>) {
        let survey = self.subscribers.iter().map(|list| ("subscribers".to_owned(), list));
        let triggers = self.triggers.iter().enumerate();
        let triggers = triggers
            .filter_map(|(n, t)| t.subscribers.as_ref().map(|list| (format!("triggers[{n}].subscribers"), list)));
        for (path, list) in survey.chain(triggers) {
            for (n, subscriber) in list.iter().enumerate() {
                for fact in subscriber.filter.iter().flat_map(|filter| filter.paths()) {
                    let Some(id) = fact.strip_prefix("answers.") else { continue };
                    let id = id.strip_suffix(".other").unwrap_or(id);
                    if self.question(id).is_none() {
                        let known = self.questions.iter().map(|question| question.id.as_str());
                        let meant = spelling::nearest(id, known).map_or_else(String::new, |word| {
                            format!("; did you mean `answers.{word}`?")
                        });
                        let said = format!("`answers.{}` is the answer to no question{meant}", quote(id));
                        to.warnings.push(format!("{path}[{n}].filter"), said);
                    }
                }
            }
        }
    }
}

fn read_locales(part: &Part<'_>, problems: &mut Problems) -> Vec<String> {
    let why = "the locales that the texts are in, such as [\"en\", \"ar\"]";
    let list = part.need_list("locales", limits::LOCALES_MAX, why, problems);
    let mut locales: Vec<String> = Vec::new();
    for (value, path) in list.iter() {
        let Some(tag) = super::document::text(value, path, problems) else { continue };
        match locale::check(tag) {
            Err(said) => problems.push(path, said),
            Ok(()) if locales.iter().any(|known| locale::same(known, tag)) => {
                problems.push(path, format!("`{tag}` is there twice"));
            }
            Ok(()) => locales.push(tag.to_owned()),
        }
    }
    if part.get("locales").is_some_and(|value| value.as_array().is_some_and(Vec::is_empty)) {
        problems.push("locales", "is empty: name at least the default locale");
    }
    locales
}

fn read_default(part: &Part<'_>, locales: &[String], problems: &mut Problems) -> Option<String> {
    let tag = part.need_text("defaultLocale", "the locale that every text has", problems)?;
    if let Err(said) = locale::check(tag) {
        problems.push("defaultLocale", said);
        return None;
    }
    if !locales.is_empty() && !locales.iter().any(|known| locale::same(known, tag)) {
        problems.push("defaultLocale", format!("`{tag}` is not in locales ({})", locales.join(", ")));
    }
    Some(tag.to_owned())
}

fn read_questions(list: &Listed<'_>, to: &mut Reading<'_>) -> Vec<Question> {
    // An id counts as soon as it is written, so that a broken question does not make those that
    // rest on it look broken as well.
    let ids: Vec<String> = list
        .iter()
        .map(|(value, _)| value["id"].as_str().unwrap_or_default().to_owned())
        .collect();
    let mut seen = BTreeSet::new();
    let mut questions = Vec::new();
    for (n, (value, path)) in list.iter().enumerate() {
        if let Some(question) = Question::read(value, path, &ids[..n], to) {
            questions.push(question);
        }
        if !ids[n].is_empty() {
            to.unique(&ids[n], &format!("{path}.id"), "id", &mut seen);
        }
    }
    questions
}

fn read_triggers(list: &Listed<'_>, to: &mut Reading<'_>) -> Vec<Trigger> {
    let mut seen = BTreeSet::new();
    let mut triggers = Vec::new();
    for (value, path) in list.iter() {
        if let Some(id) = value["id"].as_str().filter(|id| !id.is_empty()) {
            to.unique(id, &format!("{path}.id"), "id", &mut seen);
        }
        triggers.extend(Trigger::read(value, path, to));
    }
    triggers
}
