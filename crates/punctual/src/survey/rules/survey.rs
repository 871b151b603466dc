//! Surveys: the document, and every problem that one may have.
//!
//! A definition is read whole ([`Survey::read`]): its locales, questions, triggers and subscribers.
//! *Problems* make it unusable, and nothing is kept of it; *warnings* are reported and change nothing. A
//! draft may still be empty: [`Survey::ready`] checks the further requirements of a published one.
//!
//! Not promised: that a channel or a subscription of a name exists later, or that an event ever has
//! the facts a filter names.

mod question;
mod reading;
mod trigger;

pub use crate::survey::rules::survey::question::{Choice, NPS, Question, QuestionKind, day, label};
pub use crate::survey::rules::survey::trigger::{EVENT_FACTS, ROUTE_FACTS, StopEvent, Subscriber, Trigger};

use crate::base::document::{DocumentList, DocumentObject, quote};
use crate::base::error::Problems;
use crate::base::limits;
use crate::base::locale;
use crate::base::locale::LocalizedText;
use crate::survey::rules::survey::reading::SurveyReader;
use serde_json::Value;
use std::collections::BTreeSet;

const FIELDS: [&str; 6] = ["title", "locales", "defaultLocale", "questions", "triggers", "subscribers"];

/// One version of a survey, as it was defined.
#[derive(Clone, Debug, PartialEq)]
pub struct Survey {
    /// The title.
    pub title: LocalizedText,
    /// The locales it speaks.
    pub locales: Vec<String>,
    /// The one that every text has.
    pub default_locale: String,
    /// The questions, in the order in which they are asked.
    pub questions: Vec<Question>,
    /// The triggers, which begin invitations.
    pub triggers: Vec<Trigger>,
    /// The subscribers that get answers; `None` is every subscription of the topic.
    pub subscribers: Option<Vec<Subscriber>>,
}

impl Survey {
    /// Reads a definition. Every problem is reported with its path; a survey is returned only if there is
    /// none.
    pub fn read(definition: &Value, problems: &mut Problems, warnings: &mut Problems) -> Option<Self> {
        let before = problems.0.len();
        let survey = Self::read_parts(definition, problems, warnings);
        survey.filter(|_| problems.0.len() == before)
    }

    fn read_parts(definition: &Value, problems: &mut Problems, warnings: &mut Problems) -> Option<Self> {
        let part = DocumentObject::read(definition, "", &FIELDS, problems)?;
        let locales = read_locales(&part, problems);
        let default = read_default(&part, &locales, problems);
        let to = &mut SurveyReader {
            locales: locales.clone(),
            default: default.clone(),
            ids: Vec::new(),
            yes_no_ids: Vec::new(),
            problems,
            warnings,
        };
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
        Some(Self { title: title?, locales, default_locale: default?, questions, triggers, subscribers })
    }

    /// Checks the further requirements of a published version: at least one question, and known channels.
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

    /// Returns the subscribers of an answer that a trigger led to: the trigger's own list, else the survey's,
    /// else (`None`) every subscription of the topic.
    #[must_use]
    pub fn subscribers_of<'s>(&'s self, trigger: Option<&'s Trigger>) -> Option<&'s [Subscriber]> {
        trigger.and_then(|trigger| trigger.subscribers.as_deref()).or(self.subscribers.as_deref())
    }

    /// The locale for a reader who wants `wanted`.
    #[must_use]
    pub fn locale_for(&self, wanted: Option<&str>) -> &str {
        locale::choose(&self.locales, wanted, &self.default_locale)
    }
}

fn read_locales(part: &DocumentObject<'_>, problems: &mut Problems) -> Vec<String> {
    let why = "the locales that the texts are in, such as [\"en\", \"ar\"]";
    let list = part.need_list("locales", limits::LOCALES_MAX, why, problems);
    let mut locales: Vec<String> = Vec::new();
    for (value, path) in list.iter() {
        let Some(tag) = crate::base::document::text(value, path, problems) else { continue };
        match locale::check(tag) {
            Err(said) => problems.push(path, said),
            Ok(()) if locales.iter().any(|known| locale::same(known, tag)) => {
                problems.push(path, format!("`{tag}` is there twice"));
            }
            Ok(()) => locales.push(tag.to_owned()),
        }
    }
    if part.is_empty_list("locales") {
        problems.push("locales", "is empty: name at least the default locale");
    }
    locales
}

fn read_default(part: &DocumentObject<'_>, locales: &[String], problems: &mut Problems) -> Option<String> {
    let tag = part.need_text("defaultLocale", "the locale that every text has", problems)?;
    if let Err(said) = locale::check(tag) {
        problems.push("defaultLocale", said);
        return None;
    }
    if !locales.is_empty() && !locales.iter().any(|known| locale::same(known, tag)) {
        problems.push("defaultLocale", format!("`{tag}` is not in locales ({})", locales.join(", ")));
        return None;
    }
    Some(tag.to_owned())
}

fn read_questions(list: &DocumentList<'_>, to: &mut SurveyReader<'_>) -> Vec<Question> {
    // An id counts as soon as it is written, so that a broken question does not make those that
    // rest on it look broken as well.
    let ids: Vec<&str> = list.iter().map(|(value, _)| value["id"].as_str().unwrap_or_default()).collect();
    to.ids = ids.iter().map(|id| (*id).to_owned()).collect();
    let yes_no = list.iter().filter(|(value, _)| value["type"] == "yesNo");
    to.yes_no_ids = yes_no.filter_map(|(value, _)| value["id"].as_str().map(str::to_owned)).collect();
    let mut seen = BTreeSet::new();
    let mut questions = Vec::new();
    for (n, (value, path)) in list.iter().enumerate() {
        questions.extend(Question::read(value, path, ids.split_at(n), to));
        if !ids[n].is_empty() {
            to.unique(ids[n], &format!("{path}.id"), "id", &mut seen);
        }
    }
    questions
}

fn read_triggers(list: &DocumentList<'_>, to: &mut SurveyReader<'_>) -> Vec<Trigger> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::rules::entry::schedule::SendSchedule;
    use serde_json::json;
    use std::time::Duration;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    /// A survey after a general repair, with the trigger that the product was first made for.
    fn repair() -> Value {
        json!({
            "title": {"en": "How was your visit?", "ar": "كيف كانت زيارتك؟"},
            "locales": ["en", "ar"],
            "defaultLocale": "en",
            "questions": [
                {"id": "rate", "type": "rating", "required": true,
                 "text": {"en": "How satisfied are you?", "ar": "ما مدى رضاك؟"}},
                {"id": "has-a-complaint", "type": "yesNo", "required": true,
                 "text": {"en": "Do you have a complaint?", "ar": "هل لديك شكوى؟"}},
                {"id": "complaint", "type": "longText", "max": 2000,
                 "showIf": {"questionId": "has-a-complaint", "op": "==", "value": "Yes"},
                 "text": {"en": "What went wrong?", "ar": "ما الخطأ؟"},
                 "help": {"en": "In your own words", "ar": "بكلماتك"}},
            ],
            "triggers": [{
                "id": "csi-gr-trigger",
                "enabled": true,
                "eventKind": "service-visit-closed",
                "filter": {"questionId": "candidate.jobType", "op": "==", "value": "GR"},
                "dedupRecipe": ["templateId", "recipient.address", "candidate.dealerId", "candidate.wip"],
                "schedule": {"initialDelay": "0d", "reminders": ["1d"]},
                "channel": "memory:default",
            }],
            "subscribers": [
                {"key": "bi"},
                {"key": "tickets",
                 "filter": {"questionId": "answers.has-a-complaint", "op": "==", "value": "Yes"}},
            ],
        })
    }

    fn read(definition: &Value) -> (Option<Survey>, Problems, Problems) {
        let (mut problems, mut warnings) = (Problems::default(), Problems::default());
        let survey = Survey::read(definition, &mut problems, &mut warnings);
        assert_eq!(survey.is_none(), !problems.0.is_empty(), "{problems}");
        (survey, problems, warnings)
    }

    fn clean(definition: &Value) -> Survey {
        let (survey, problems, warnings) = read(definition);
        assert_eq!(warnings, Problems::default());
        survey.unwrap_or_else(|| panic!("{problems}"))
    }

    /// TRG-1, TRG-2: the document with questions, navigation, triggers and routes, and the trigger
    /// just as it was always written.
    #[test]
    fn trg_2_a_survey_after_a_repair_is_read_as_written() {
        let survey = clean(&repair());
        assert_eq!(survey.title.get("ar", "en"), "كيف كانت زيارتك؟");
        assert_eq!(survey.questions[0].kind, QuestionKind::Rating(1..=5));
        assert_eq!(survey.question("complaint").unwrap().kind, QuestionKind::LongText(0..=2000));
        assert!(survey.question("complaint").unwrap().show_if.is_some());
        let trigger = survey.trigger("csi-gr-trigger").unwrap();
        assert!(trigger.enabled && trigger.filter.is_some() && trigger.stop_on.is_empty());
        assert_eq!(trigger.event_kind, "service-visit-closed");
        assert_eq!(
            trigger.dedup_recipe,
            ["templateId", "recipient.address", "candidate.dealerId", "candidate.wip"]
        );
        assert_eq!(trigger.schedule, SendSchedule { initial_delay: Duration::ZERO, reminders: vec![DAY] });
        assert_eq!((trigger.channel.as_str(), trigger.expiry), ("memory:default", None));
        assert_eq!(survey.subscribers_of(Some(trigger)).map(<[Subscriber]>::len), Some(2));
        assert_eq!((survey.locale_for(Some("ar-IQ")), survey.locale_for(Some("fr"))), ("ar", "en"));
    }

    /// TRG-2: the cadence of 60, 5, 10 and 15 days, with everything that may be said besides.
    #[test]
    fn trg_2_a_long_cadence_with_the_extensions_is_read() {
        let mut definition = repair();
        definition["triggers"] = json!([{
            "id": "voc", "eventKind": "vehicle-sold",
            "dedupRecipe": ["templateId", "recipient.address", "candidate.salesInvoiceNumber"],
            "schedule": {"initialDelay": "60d", "reminders": ["5d", "10d", "15d"]},
            "channel": "whatsapp:default",
            "expiry": "45d",
            "subscribers": [{"key": "webhook:bi-ingest"}],
            "stopOn": ["sale-cancelled", {"eventKind": "vehicle-returned",
                       "filter": {"questionId": "candidate.reason", "op": "==", "value": "defect"}}],
        }]);
        let survey = clean(&definition);
        let voc = &survey.triggers[0];
        assert!(voc.enabled, "a trigger is enabled unless it says otherwise");
        assert_eq!(voc.schedule.initial_delay, 60 * DAY);
        assert_eq!(voc.schedule.reminders, [5 * DAY, 10 * DAY, 15 * DAY]);
        assert_eq!(voc.expiry, Some(45 * DAY));
        assert_eq!(voc.stop_on[1].event_kind, "vehicle-returned");
        assert!(voc.stop_on[0].filter.is_none() && voc.stop_on[1].filter.is_some());
        let told: Vec<_> = survey.subscribers_of(Some(voc)).unwrap().iter().map(|s| s.key.as_str()).collect();
        assert_eq!(told, ["webhook:bi-ingest"], "a trigger's list overrides the survey's");
        definition["subscribers"] = Value::Null;
        definition["triggers"][0]["subscribers"] = json!([]);
        let survey = clean(&definition);
        assert_eq!(survey.subscribers_of(None), None, "no list is every subscription");
        assert_eq!(
            survey.subscribers_of(survey.trigger("voc")),
            Some(&[][..]),
            "an empty list is no subscription"
        );
    }

    /// TRG-3: a part that is allowed but probably not meant is a warning, with its path.
    #[test]
    fn trg_3_doubtful_definitions_are_warned_of() {
        type Edit = fn(&mut Value);
        let table: [(Edit, &str); 12] = [
            (
                |d| {
                    d["subscribers"][1]["filter"] =
                        json!({"questionId": "answers.has-a-complaint", "op": "==", "value": true})
                },
                "subscribers[1].filter.questionId: the answer to `has-a-complaint` is never true: a yesNo \
                 answer is \"Yes\" or \"No\"",
            ),
            (
                |d| {
                    d["subscribers"][1]["filter"] =
                        json!({"questionId": "answers.has-a-complaint", "op": "in", "value": ["Yes", "no"]})
                },
                "subscribers[1].filter.questionId: the answer to `has-a-complaint` is never \"no\"",
            ),
            (
                |d| d["questions"][0]["text"] = json!({"en": "x"}),
                "questions[0].text: has no text in ar: readers get the one in en",
            ),
            (|d| d["title"]["ar"] = json!(" "), "title: has no text in ar: readers get the one in en"),
            (|d| d["title"]["fr"] = json!("x"), "title.fr: is never shown: the survey's locales are en, ar"),
            (
                |d| d["triggers"][0]["filter"]["questionId"] = json!("jobType"),
                "triggers[0].filter.questionId: `jobType` is never known here; there are templateId, \
                 recipient.*, candidate.*, entity.*",
            ),
            (
                |d| d["subscribers"][1]["filter"]["questionId"] = json!("answers.has-complaint"),
                "subscribers[1].filter.questionId: `answers.has-complaint` is the answer to no question; \
                 did you mean `answers.has-a-complaint`?",
            ),
            (
                |d| d["subscribers"][1]["filter"]["questionId"] = json!("rate"),
                "subscribers[1].filter.questionId: `rate` is never known here; there are answers.*, \
                 candidate.*, recipient.*",
            ),
            (
                |d| {
                    d["triggers"][0]["filter"] =
                        json!({"not": {"any": [{"questionId": "x", "op": "exists"}]}})
                },
                "triggers[0].filter.not.any[0].questionId: `x` is never known here",
            ),
            (
                |d| d["triggers"][0]["dedupRecipe"][3] = json!("wip"),
                "triggers[0].dedupRecipe[3]: `wip` is never known here",
            ),
            (
                |d| d["triggers"][0]["schedule"]["reminders"][0] = json!("0s"),
                "triggers[0].schedule.reminders[0]: is zero: this reminder goes right after the message \
                 before it",
            ),
            (
                |d| d["triggers"][0]["dedupRecipe"] = json!(["recipient.address", "candidate.wip"]),
                "triggers[0].dedupRecipe: has no templateId",
            ),
        ];
        for (edit, want) in table {
            let mut definition = repair();
            edit(&mut definition);
            let (survey, problems, warnings) = read(&definition);
            assert!(survey.is_some(), "{problems}");
            assert!(warnings.to_string().starts_with(want), "{warnings}");
        }
    }

    /// TRG-3: a draft may be empty, a published survey may not; an unknown channel is a warning.
    #[test]
    fn trg_3_publishing_asks_for_more_than_saving() {
        let ready = |definition: &Value| {
            let (mut problems, mut warnings) = (Problems::default(), Problems::default());
            let known = |key: &str| key.starts_with("memory:");
            clean(definition).ready(known, &mut problems, &mut warnings);
            (problems.to_string(), warnings.to_string())
        };
        assert_eq!(ready(&repair()), (String::new(), String::new()));
        let mut draft = repair();
        draft["questions"] = json!([]);
        draft["subscribers"] = Value::Null;
        draft["triggers"][0]["channel"] = json!("sms:twilio");
        let (problems, warnings) = ready(&draft);
        assert_eq!(problems, "questions: is empty: a published survey asks at least one question");
        assert!(warnings.starts_with("triggers[0].channel: `sms:twilio` is not a channel"), "{warnings}");
    }

    /// TRG-19: every type of question with its bounds.
    #[test]
    fn trg_19_every_type_of_question_is_read_with_its_bounds() {
        let choices = json!([{"value": "a", "text": {"en": "A", "ar": "ا"}},
                             {"value": 2.0, "text": {"en": "B", "ar": "ب"}, "other": true}]);
        let calendar = day("0000-01-01").unwrap()..=day("9999-12-31").unwrap();
        let table: [(Value, QuestionKind); 14] = [
            (json!({"type": "rating", "min": 0, "max": 10}), QuestionKind::Rating(0..=10)),
            (json!({"type": "rating", "max": 7}), QuestionKind::Rating(1..=7)),
            (json!({"type": "nps"}), QuestionKind::Nps),
            (json!({"type": "nps", "min": 0, "max": 10}), QuestionKind::Nps),
            (json!({"type": "yesNo", "min": null}), QuestionKind::YesNo),
            (json!({"type": "shortText"}), QuestionKind::ShortText(0..=500)),
            (json!({"type": "shortText", "min": 2, "max": 2}), QuestionKind::ShortText(2..=2)),
            (json!({"type": "longText"}), QuestionKind::LongText(0..=10_000)),
            (json!({"type": "number"}), QuestionKind::Number(f64::MIN..=f64::MAX)),
            (json!({"type": "number", "min": -1.5}), QuestionKind::Number(-1.5..=f64::MAX)),
            (json!({"type": "date"}), QuestionKind::Date(calendar.clone())),
            (
                json!({"type": "date", "min": "2026-01-01"}),
                QuestionKind::Date(day("2026-01-01").unwrap()..=*calendar.end()),
            ),
            (json!({"type": "singleChoice", "options": choices}), QuestionKind::SingleChoice(Vec::new())),
            (
                json!({"type": "multiChoice", "options": choices, "min": 1}),
                QuestionKind::MultiChoice(Vec::new(), 1..=2),
            ),
        ];
        for (mut question, mut want) in table {
            question["id"] = json!("q");
            question["text"] = json!({"en": "x", "ar": "س"});
            let mut definition = repair();
            definition["questions"] = json!([question]);
            definition["subscribers"] = Value::Null;
            let got = clean(&definition).questions.remove(0);
            assert_eq!(got.kind.word(), question["type"]);
            if let QuestionKind::SingleChoice(choices) | QuestionKind::MultiChoice(choices, _) = &mut want {
                choices.clone_from(&got.kind.choices().to_vec());
                let labels: Vec<String> = choices.iter().map(Choice::label).collect();
                assert_eq!((labels, got.other_id()), (vec!["a".into(), "2".into()], "q.other".into()));
                assert_eq!(got.other().map(Choice::label).as_deref(), Some("2"));
            }
            assert_eq!(got.kind, want, "{question}");
        }
    }
}
