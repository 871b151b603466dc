//! Triggers and subscribers: which events begin an invitation, when it is sent, and which subscriptions get
//! the answer.

use crate::base::condition::Condition;
use crate::base::document;
use crate::base::document::{DocumentList, DocumentObject, kind, length};
use crate::base::facts;
use crate::base::limits;
use crate::base::name::check_name;
use crate::delivery::rules::channel::check_key;
use crate::flow::rules::dedup;
use crate::flow::rules::entry::schedule::SendSchedule;
use crate::survey::rules::survey::reading::SurveyReader;
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;

const FIELDS: [&str; 10] = [
    "id",
    "enabled",
    "eventKind",
    "filter",
    "dedupRecipe",
    "schedule",
    "channel",
    "expiry",
    "subscribers",
    "stopOn",
];

/// The facts of an event that a trigger's filter can use.
pub const EVENT_FACTS: [&str; 4] = ["templateId", "recipient.*", "candidate.*", "entity.*"];
/// The facts of an answer that a subscriber's filter can use.
pub const ROUTE_FACTS: [&str; 3] = ["answers.*", "candidate.*", "recipient.*"];

/// When events of a kind begin an invitation.
#[derive(Clone, Debug, PartialEq)]
pub struct Trigger {
    /// Its name within the survey.
    pub id: String,
    /// Whether the trigger matches events at all.
    pub enabled: bool,
    /// The kind of events it looks at.
    pub event_kind: String,
    /// Which of them.
    pub filter: Option<Condition>,
    /// The facts that make two events the same.
    pub dedup_recipe: Vec<String>,
    /// When it sends.
    pub schedule: SendSchedule,
    /// The key of the channel it sends by.
    pub channel: String,
    /// How long an invitation may be quiet after its last send; none is the default.
    pub expiry: Option<Duration>,
    /// The subscribers of its answers; `None` is the list of the survey.
    pub subscribers: Option<Vec<Subscriber>>,
    /// Events that stop what it began.
    pub stop_on: Vec<StopEvent>,
}

/// A subscriber of answers: a subscription, by its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Subscriber {
    /// The subscription's name.
    pub key: String,
    /// The answers that it gets.
    pub filter: Option<Condition>,
}

/// An event that ends an invitation before it is answered: one of this kind with the same dedup
/// key, or a moment of the invitation itself such as `instance-opened`.
#[derive(Clone, Debug, PartialEq)]
pub struct StopEvent {
    /// The kind of events.
    pub event_kind: String,
    /// Which of them.
    pub filter: Option<Condition>,
}

impl Trigger {
    pub(crate) fn read(value: &Value, path: &str, to: &mut SurveyReader<'_>) -> Option<Self> {
        let part = DocumentObject::read(value, path, &FIELDS, to.problems)?;
        let id = need_name(&part, "id", "a name for this trigger, such as \"after-visit\"", to);
        let event_kind = need_name(&part, "eventKind", "the kind of events that fire it", to);
        let enabled = part.flag("enabled", true, to.problems);
        let filter = to.filter(part.get("filter"), &part.at("filter"), &EVENT_FACTS);
        let dedup_recipe = read_recipe(&part, to);
        let schedule = part.need("schedule", "when to send: {\"initialDelay\", \"reminders\"}", to.problems);
        let schedule = schedule.and_then(|value| read_schedule(value, &part.at("schedule"), to));
        let channel = read_channel(&part, to);
        let expiry = part.duration("expiry", to.problems);
        let subscribers = part.list("subscribers", limits::SUBSCRIBERS_MAX, to.problems);
        let subscribers = subscribers.map(|list| Subscriber::read_all(&list, to));
        let stop_on = part.list("stopOn", limits::STOPS_MAX, to.problems).unwrap_or_default();
        let stop_on = stop_on.iter().filter_map(|(value, path)| StopEvent::read(value, path, to)).collect();
        Some(Self {
            id: id?,
            enabled,
            event_kind: event_kind?,
            filter,
            dedup_recipe,
            schedule: schedule?,
            channel: channel?,
            expiry,
            subscribers,
            stop_on,
        })
    }
}

fn need_name(part: &DocumentObject<'_>, field: &str, why: &str, to: &mut SurveyReader<'_>) -> Option<String> {
    let name = part.need_text(field, why, to.problems)?;
    check_name(name, &part.at(field), to.problems);
    Some(name.to_owned())
}

/// The recipe says which events are the same. Without one, all would be.
fn read_recipe(part: &DocumentObject<'_>, to: &mut SurveyReader<'_>) -> Vec<String> {
    let why = "the facts that make two events the same, such as [\"templateId\", \"recipient.address\"]";
    let list = part.need_list("dedupRecipe", limits::RECIPE_PATHS_MAX, why, to.problems);
    if part.is_empty_list("dedupRecipe") {
        let said = "is empty: all events would be the same; name the facts that identify one";
        to.problems.push(part.at("dedupRecipe"), said);
        return Vec::new();
    }
    let mut recipe = Vec::new();
    for (value, path) in list.iter() {
        let Some(fact) = document::text(value, path, to.problems) else { continue };
        match facts::check_path(fact) {
            Ok(()) => to.check_root(fact, path, &EVENT_FACTS),
            Err(said) => to.problems.push(path, said),
        }
        recipe.push(fact.to_owned());
    }
    for said in dedup::advice(&recipe) {
        to.warnings.push(part.at("dedupRecipe"), said);
    }
    recipe
}

/// Whether there is such a channel is asked later.
fn read_channel(part: &DocumentObject<'_>, to: &mut SurveyReader<'_>) -> Option<String> {
    let key = part.need_text("channel", "the key of a channel, such as \"sms:twilio\"", to.problems)?;
    check_key(key, &part.at("channel"), to.problems);
    Some(key.to_owned())
}

fn read_schedule(value: &Value, path: &str, to: &mut SurveyReader<'_>) -> Option<SendSchedule> {
    let part = DocumentObject::read(value, path, &["initialDelay", "reminders"], to.problems)?;
    let why = "from the event to the first message, such as \"0d\" or \"4h\"";
    let initial_delay = part.need("initialDelay", why, to.problems);
    let initial_delay = initial_delay.and_then(|value| length(value, &part.at("initialDelay"), to.problems));
    let list = part.list("reminders", limits::REMINDERS_MAX, to.problems).unwrap_or_default();
    let mut reminders = Vec::new();
    for (value, path) in list.iter() {
        let Some(wait) = length(value, path, to.problems) else { continue };
        if wait.is_zero() {
            to.warnings.push(path, "is zero: this reminder goes right after the message before it");
        }
        reminders.push(wait);
    }
    Some(SendSchedule { initial_delay: initial_delay?, reminders })
}

impl Subscriber {
    pub(crate) fn read_all(list: &DocumentList<'_>, to: &mut SurveyReader<'_>) -> Vec<Self> {
        let (mut all, mut seen) = (Vec::new(), BTreeSet::new());
        for (value, path) in list.iter() {
            let Some(one) = Self::read(value, path, to) else { continue };
            to.unique(&one.key, &format!("{path}.key"), "key", &mut seen);
            all.push(one);
        }
        all
    }

    fn read(value: &Value, path: &str, to: &mut SurveyReader<'_>) -> Option<Self> {
        let part = DocumentObject::read(value, path, &["key", "filter"], to.problems)?;
        let key = need_name(&part, "key", "the name of a subscription on survey.responses", to);
        let filter = to.filter(part.get("filter"), &part.at("filter"), &ROUTE_FACTS);
        Some(Self { key: key?, filter })
    }
}

impl StopEvent {
    /// A kind alone, or with a filter.
    fn read(value: &Value, path: &str, to: &mut SurveyReader<'_>) -> Option<Self> {
        if let Some(word) = value.as_str() {
            check_name(word, path, to.problems);
            return Some(Self { event_kind: word.to_owned(), filter: None });
        }
        if !value.is_object() {
            let said = "must be a kind of event, or {\"eventKind\", \"filter\"}";
            to.problems.push(path, format!("{said}, not {}", kind(value)));
            return None;
        }
        let part = DocumentObject::read(value, path, &["eventKind", "filter"], to.problems)?;
        let event_kind = need_name(&part, "eventKind", "the kind of events that stop it", to);
        let filter = to.filter(part.get("filter"), &part.at("filter"), &EVENT_FACTS);
        Some(Self { event_kind: event_kind?, filter })
    }
}
