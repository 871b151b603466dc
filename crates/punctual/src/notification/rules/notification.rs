//! Notifications: the messages about an event to the people it concerns.
//!
//! For each recipient, and each channel that the kind's templates have, there is one delivery, with the
//! template that fits best. Two deliveries with one key ([`PlannedDelivery::key`]) are the same; the database
//! accepts one of each.
//!
//! Not decided here: whether the recipient wants the message (`delivery/rules/consent.rs`), and whether it is
//! still of use when it is sent (`EventKind::is_pointless`, evaluated once more then).

pub mod fallback;
pub mod key;

use crate::base::error::Problems;
use crate::base::id::{MessageId, TemplateId};
use crate::delivery::rules::address::address_for;
use crate::delivery::rules::delivery::{PlannedDelivery, RecipientIdentity};
use crate::delivery::rules::template::choose::{TemplateVerdict, choose, compare};
use crate::delivery::rules::template::{MessageTemplate, TemplateQuery, TemplateSet};
use crate::flow::rules::entity::EntitySnapshot;
use crate::flow::rules::event_kind::{EventKind, Recipient};
use crate::queue::rules::message::Entity;
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};

/// An event, as far as a plan looks at it.
#[derive(Clone, Copy, Debug)]
pub struct EventToPlan<'a> {
    /// Its number.
    pub id: MessageId,
    /// Its topic.
    pub topic: &'a str,
    /// Its kind.
    pub kind: &'a str,
    /// Its payload.
    pub payload: &'a Value,
    /// The entity that the event names.
    pub entity: Option<&'a Entity>,
}

/// The plan for an event.
#[derive(Clone, Debug, PartialEq)]
pub enum NotificationPlan {
    /// There are no notifications of such events.
    PassOver,
    /// The event lacks a required part; with the reason.
    Missing(String),
    /// Nothing is to be sent; with the word and the sentence for it.
    Pointless(&'static str, String),
    /// There is no template for it.
    NoTemplate,
    /// These are to be sent.
    Deliveries(Vec<PlannedDelivery>),
}

/// Returns the entity of an event, by its kind.
#[must_use]
pub fn entity_of(event: &EventToPlan<'_>, kind: Option<&EventKind>) -> Option<Entity> {
    match kind {
        Some(kind) => kind.entity_of(event.entity, event.payload),
        None => event.entity.cloned(),
    }
}

fn stand_in(event: MessageId) -> String {
    format!("event-{event}")
}

/// The channels and the consent of recipients.
#[derive(Clone, Copy)]
pub struct RecipientLookup<'a> {
    /// The key of the channel for what a template names.
    pub reach: &'a dyn Fn(&str) -> String,
    /// The locale that the owner of an address wants, whatever the event says.
    pub wants: &'a dyn Fn(&str) -> Option<String>,
}

impl std::fmt::Debug for RecipientLookup<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RecipientLookup")
    }
}

/// Plans an event. `again` makes the keys of a request to send it once more.
#[must_use]
pub fn plan(
    event: &EventToPlan<'_>,
    kind: Option<&EventKind>,
    set: &TemplateSet,
    snapshot: &EntitySnapshot,
    ways: &RecipientLookup<'_>,
    again: Option<&str>,
) -> NotificationPlan {
    if kind.is_some_and(|kind| !kind.comes_by(event.topic)) {
        return NotificationPlan::PassOver;
    }
    if set.templates.is_empty() {
        let wanted = set.known || kind.is_some_and(EventKind::has_recipients) || again.is_some();
        return if wanted { NotificationPlan::NoTemplate } else { NotificationPlan::PassOver };
    }
    if !event.payload.is_object() {
        return NotificationPlan::Missing("its payload is not an object, so it names no recipient".into());
    }
    // An event that is sent again had the form that was valid then.
    if let Some(said) = kind.filter(|_| again.is_none()).and_then(|kind| misfit(kind, event.payload)) {
        return NotificationPlan::Missing(said);
    }
    let of = kind.unwrap_or_else(|| EventKind::undefined());
    let entity = of.entity_of(event.entity, event.payload);
    if let (None, Some(path)) = (&entity, &of.entity_id) {
        return NotificationPlan::Missing(format!(
            "its payload has nothing at `{path}`, where the entity's id should be"
        ));
    }
    if let Some(reason) = of.is_pointless(snapshot, event.payload) {
        return NotificationPlan::Pointless(reason.code(), reason.to_string());
    }
    let of_whom = entity.as_ref().map_or_else(|| stand_in(event.id), |entity| entity.id.clone());
    let naming = KeyParts { entity: &of_whom, kind: event.kind, each: of.recipients.each.is_some(), again };
    let people = people(of, event.payload, snapshot);
    let scopes = scopes_of(entity.as_ref(), of, event.payload, snapshot);
    let (mut planned, mut known) = (Vec::new(), HashSet::new());
    for message in messages(&people, set, ways) {
        let (channel, locale) = (message.channel.as_str(), message.locale.as_deref());
        let Some(template) = fitting(set, channel, message.named, &scopes, locale) else { continue };
        let one = naming.planned(template, &message.channel, message.to, message.part);
        // Two channels may share a template, and two recipients an address: then one delivery is sent.
        // Recipients without an address are shown one by one.
        let alike = one.address.is_none().then_some(message.part);
        if known.insert((one.key.clone(), alike)) {
            planned.push(one);
        }
    }
    // Every template is limited to something that the event is not about.
    if planned.is_empty() { NotificationPlan::NoTemplate } else { NotificationPlan::Deliveries(planned) }
}

/// A message that an event may lead to: to one recipient, by one channel that templates name.
struct PlannedMessage<'a> {
    part: usize,
    to: &'a Recipient<'a>,
    /// The key of the channel.
    channel: String,
    /// What templates call it.
    named: &'a str,
    /// The locale that the recipient reads.
    locale: Option<String>,
}

/// Returns the recipients of an event; if there are none, one without a name and without addresses.
fn people<'a>(kind: &'a EventKind, payload: &'a Value, snapshot: &'a EntitySnapshot) -> Vec<Recipient<'a>> {
    let mut people: Vec<Recipient<'_>> = kind.recipients(payload, snapshot).collect();
    if people.is_empty() {
        people.push(Recipient::default());
    }
    people
}

/// Returns the messages to these recipients, by each channel that templates name.
fn messages<'a>(
    people: &'a [Recipient<'a>],
    set: &'a TemplateSet,
    ways: &RecipientLookup<'_>,
) -> Vec<PlannedMessage<'a>> {
    let channels = channels(&set.templates, ways.reach);
    let mut all = Vec::with_capacity(people.len() * channels.len());
    for (part, to) in people.iter().enumerate() {
        for (channel, named) in &channels {
            let wanted = address_for(channel, to).and_then(|address| (ways.wants)(&address));
            let locale = wanted.or_else(|| to.locale.clone());
            all.push(PlannedMessage { part, to, channel: channel.clone(), named, locale });
        }
    }
    all
}

/// What a plan has considered for one recipient and one channel.
#[derive(Clone, Debug, PartialEq)]
pub struct Consideration<'t> {
    /// Which of the event's recipients it is, from 0.
    pub part: usize,
    /// The name of the recipient.
    pub recipient: Option<String>,
    /// The key of the channel.
    pub channel: String,
    /// The address there, if there is one.
    pub address: Option<String>,
    /// The locale that the recipient reads, if it is known.
    pub locale: Option<String>,
    /// The templates in use, with the reason why each was chosen or not.
    pub templates: Vec<(&'t MessageTemplate, TemplateVerdict)>,
}

/// Says what [`plan`] considers for each recipient and channel of an event.
#[must_use]
pub fn consider<'t>(
    event: &EventToPlan<'_>,
    kind: Option<&EventKind>,
    set: &'t TemplateSet,
    snapshot: &EntitySnapshot,
    ways: &RecipientLookup<'_>,
) -> Vec<Consideration<'t>> {
    let of = kind.unwrap_or_else(|| EventKind::undefined());
    let entity = of.entity_of(event.entity, event.payload);
    let scopes = scopes_of(entity.as_ref(), of, event.payload, snapshot);
    let people = people(of, event.payload, snapshot);
    let consider = |message: PlannedMessage<'_>| Consideration {
        part: message.part,
        recipient: message.to.name.clone(),
        address: address_for(&message.channel, message.to),
        templates: compared(set, &message, &scopes),
        channel: message.channel,
        locale: message.locale,
    };
    messages(&people, set, ways).into_iter().map(consider).collect()
}

/// Where a payload does not have the form of its kind. Over HTTP that is refused at the door; other doors
/// are the host's own.
fn misfit(kind: &EventKind, payload: &Value) -> Option<String> {
    let mut problems = Problems::default();
    kind.check(payload, "payload", &mut problems);
    (!problems.0.is_empty()).then(|| format!("it does not have the form of its kind: {problems}"))
}

/// Returns the entities whose own templates fit an event, the most specific first: its own entity, then the
/// related ones in the order of the names that its kind gives them.
#[must_use]
pub fn scopes_of(
    entity: Option<&Entity>,
    kind: &EventKind,
    payload: &Value,
    snapshot: &EntitySnapshot,
) -> Vec<Entity> {
    let related = kind.related_ids(payload, snapshot).into_iter().map(|(_, related)| related);
    entity.cloned().into_iter().chain(related).collect()
}

/// The channels that templates name, by key, with the name they have there.
fn channels<'t>(
    templates: &'t [MessageTemplate],
    reach: &dyn Fn(&str) -> String,
) -> BTreeMap<String, &'t str> {
    templates.iter().map(|t| (reach(&t.definition.channel), t.definition.channel.as_str())).collect()
}

/// The template for a message: by the key of its channel, else by what templates call that.
fn fitting<'t>(
    set: &'t TemplateSet,
    key: &str,
    named: &str,
    scopes: &[Entity],
    locale: Option<&str>,
) -> Option<&'t MessageTemplate> {
    let defaults = [set.default_locale.as_str()];
    let wanted = TemplateQuery { scopes, channel: key, locale, defaults: &defaults, attempt: 1 };
    choose(&set.templates, &wanted)
        .or_else(|| choose(&set.templates, &TemplateQuery { channel: named, ..wanted }))
}

/// Every template in use, with the reason why [`fitting`] chooses it or not.
fn compared<'t>(
    set: &'t TemplateSet,
    of: &PlannedMessage<'_>,
    scopes: &[Entity],
) -> Vec<(&'t MessageTemplate, TemplateVerdict)> {
    let defaults = [set.default_locale.as_str()];
    let (channel, locale) = (of.channel.as_str(), of.locale.as_deref());
    let wanted = TemplateQuery { scopes, channel, locale, defaults: &defaults, attempt: 1 };
    let by_key = compare(&set.templates, &wanted);
    if by_key.iter().any(|(_, verdict)| *verdict == TemplateVerdict::Chosen) {
        return by_key;
    }
    compare(&set.templates, &TemplateQuery { channel: of.named, ..wanted })
}

/// The parts of keys.
struct KeyParts<'a> {
    entity: &'a str,
    kind: &'a str,
    each: bool,
    again: Option<&'a str>,
}

impl KeyParts<'_> {
    fn planned(
        &self,
        of: &MessageTemplate,
        channel: &str,
        to: &Recipient<'_>,
        part: usize,
    ) -> PlannedDelivery {
        let address = address_for(channel, to);
        let key = self.key(&of.definition.channel, of.id, address.as_deref());
        let (channel, template) = (channel.to_owned(), of.id);
        PlannedDelivery {
            key,
            channel,
            address,
            send: 1,
            part,
            template,
            version: of.version,
            recipient: RecipientIdentity::of(to),
        }
    }

    fn key(&self, named: &str, template: TemplateId, address: Option<&str>) -> String {
        let mut key = match self.again {
            None => format!("{}:{}:{named}:{template}", self.entity, self.kind),
            Some(request) => format!("manual:{}:{named}:{template}:{request}", self.entity),
        };
        if let (true, Some(address)) = (self.each, address) {
            key.push(':');
            key.push_str(address);
        }
        key
    }
}

#[cfg(test)]
mod tests;
