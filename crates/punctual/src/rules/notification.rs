//! Notifications: what an event means for the people it is about.
//!
//! For each recipient, and each channel that the kind's templates have, there is one delivery, with the
//! template that fits best. What makes two deliveries the same is their key ([`Planned::key`]); the database
//! lets one of each through.
//!
//! Not decided here: whether the recipient wants it (`rules/consent.rs`), and whether it is still wanted
//! when it is sent (`EventKind::is_pointless`, asked once more then).

pub mod fallback;
pub mod key;
pub mod recipients;
pub mod room;

use super::entity::Snapshot;
use super::event_kind::{EventKind, Recipient};
use super::message::Entity;
use super::template::choose::{choose, kind_of};
use super::template::{MessageTemplate, TemplateSet, Wanted};
use crate::base::error::Problems;
use crate::base::id::{MessageId, TemplateId};
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};

/// Statuses that are kept as numbers and shown as words. The numbers are never given a new meaning.
macro_rules! statuses {
    ($(#[$doc:meta])* $name:ident { $($(#[$meaning:meta])* $variant:ident = $code:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$meaning])* $variant = $code,)+
        }

        impl $name {
            const ALL: &[(Self, &'static str)] = &[$((Self::$variant, stringify!($variant)),)+];

            /// Its number, as it is kept.
            #[must_use]
            pub const fn code(self) -> i64 {
                self as i64
            }

            /// The status of a number.
            #[must_use]
            pub fn from_code(code: i64) -> Option<Self> {
                Self::ALL.iter().map(|(status, _)| *status).find(|status| status.code() == code)
            }

            /// Its word.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($variant),)+
                }
            }

            /// The status of a word.
            #[must_use]
            pub fn from_word(word: &str) -> Option<Self> {
                Self::ALL.iter().find(|(_, known)| *known == word).map(|(status, _)| *status)
            }
        }
    };
}

statuses! {
    /// How a notification stands; the numbers are those of [`crate::rules::entry::Status`].
    NotificationStatus {
        /// Something is still to be sent.
        Pending = 0,
        /// All that was to be sent was taken by a provider.
        Sent = 1,
        /// Something was given up, or could not even begin.
        Failed = 6,
        /// Nothing was to be sent: it was pointless, nobody could be reached, or it had been sent before.
        Cancelled = 5,
    }
}

statuses! {
    /// How a delivery stands.
    DeliveryStatus {
        /// It waits, or is on its way.
        Pending = 0,
        /// A provider took it.
        Sent = 1,
        /// It arrived, says the provider.
        Delivered = 2,
        /// It was given up.
        Failed = 3,
        /// It was not to be sent.
        Skipped = 4,
        /// Nobody knows whether it went out, and its channel does not send twice.
        Uncertain = 5,
    }
}

/// An event, as far as a plan looks at it.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// Its number.
    pub id: MessageId,
    /// Its topic.
    pub topic: &'a str,
    /// Its kind.
    pub kind: &'a str,
    /// Its payload.
    pub payload: &'a Value,
    /// What it says it is about.
    pub entity: Option<&'a Entity>,
}

/// What an event comes to.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// Nobody is told of such events.
    PassOver,
    /// It lacks what it takes; with a sentence.
    Missing(String),
    /// Nothing is to be sent; with the word and the sentence for it.
    Pointless(&'static str, String),
    /// There is no template for it.
    NoTemplate,
    /// These are to be sent.
    Deliveries(Vec<Planned>),
}

/// One message to one person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// What makes it the same as another.
    pub key: String,
    /// The key of its channel.
    pub channel: String,
    /// Where it goes; `None` if the recipient has no such address.
    pub address: Option<String>,
    /// The number of the send: 1 is the first, n + 1 the nth reminder.
    pub send: u32,
    /// Which of the event's recipients it is for, from 0.
    pub part: usize,
    /// The template; 0 is a text of our own.
    pub template: TemplateId,
    /// Its version.
    pub version: u32,
    /// Whom it is for.
    pub whom: Whom,
}

/// A recipient, as the event names them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Whom {
    /// Their name.
    pub name: Option<String>,
    /// Their name in another system.
    pub reference: Option<String>,
}

impl Whom {
    /// Who a recipient is.
    #[must_use]
    pub fn of(recipient: &Recipient<'_>) -> Self {
        Self { name: recipient.name.clone(), reference: recipient.reference.clone() }
    }
}

/// What an event is about, as its kind says.
#[must_use]
pub fn entity_of(event: &Event<'_>, kind: Option<&EventKind>) -> Option<Entity> {
    match kind {
        Some(kind) => kind.entity_of(event.entity, event.payload),
        None => event.entity.cloned(),
    }
}

/// What a notification itself is called in lists: `{entityId}:{eventKind}`, or
/// `manual:{entityId}:{requestId}` for one that a person asked for. An event about no entity stands in
/// for it.
#[must_use]
pub fn own_key(event: MessageId, entity: Option<&str>, kind: &str, request: Option<&str>) -> String {
    let of_whom = entity.map_or_else(|| stand_in(event), str::to_owned);
    match request {
        None => format!("{of_whom}:{kind}"),
        Some(request) => format!("manual:{of_whom}:{request}"),
    }
}

fn stand_in(event: MessageId) -> String {
    format!("event-{event}")
}

/// What is known of channels and of those who read.
#[derive(Clone, Copy)]
pub struct Ways<'a> {
    /// The key of the channel for what a template names.
    pub reach: &'a dyn Fn(&str) -> String,
    /// The locale that the owner of an address wants, whatever the event says.
    pub wants: &'a dyn Fn(&str) -> Option<String>,
}

impl std::fmt::Debug for Ways<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ways")
    }
}

/// What an event comes to. `again` makes the keys of a request to send it once more.
#[must_use]
pub fn plan(
    event: &Event<'_>,
    kind: Option<&EventKind>,
    set: &TemplateSet,
    snapshot: &Snapshot,
    ways: &Ways<'_>,
    again: Option<&str>,
) -> Plan {
    if kind.is_some_and(|kind| !kind.comes_by(event.topic)) {
        return Plan::PassOver;
    }
    if set.templates.is_empty() {
        let wanted = set.known || kind.is_some_and(EventKind::tells_somebody) || again.is_some();
        return if wanted { Plan::NoTemplate } else { Plan::PassOver };
    }
    if !event.payload.is_object() {
        return Plan::Missing("its payload is not an object, so nobody can be found in it".into());
    }
    // One that is told again had the form of its day.
    if let Some(said) = kind.filter(|_| again.is_none()).and_then(|kind| misfit(kind, event.payload)) {
        return Plan::Missing(said);
    }
    let of = kind.unwrap_or_else(|| EventKind::undefined());
    let entity = of.entity_of(event.entity, event.payload);
    if let (None, Some(path)) = (&entity, &of.entity_id) {
        return Plan::Missing(format!(
            "its payload has nothing at `{path}`, where the entity's id should be"
        ));
    }
    if let Some(reason) = of.is_pointless(snapshot, event.payload) {
        return Plan::Pointless(reason.code(), reason.to_string());
    }
    let of_whom = entity.as_ref().map_or_else(|| stand_in(event.id), |entity| entity.id.clone());
    let naming = Naming { entity: &of_whom, kind: event.kind, each: of.recipients.each.is_some(), again };
    let channels = channels(&set.templates, ways.reach);
    let (mut planned, mut known) = (Vec::new(), HashSet::new());
    for (part, recipient) in of.recipients(event.payload, snapshot).enumerate() {
        for (key, named) in &channels {
            let wanted = address(key, &recipient).and_then(|address| (ways.wants)(&address));
            let locale = wanted.as_deref().or(recipient.locale.as_deref());
            let Some(template) = fitting(set, key, named, entity.as_ref(), locale) else { continue };
            let one = naming.planned(template, key, &recipient, part);
            // Two channels may share a template, and two recipients an address: it is sent once. Of those
            // without an address each is shown.
            let alike = one.address.is_none().then_some(part);
            if known.insert((one.key.clone(), alike)) {
                planned.push(one);
            }
        }
    }
    if planned.is_empty() {
        let nobody = Recipient::default();
        let all = channels.iter();
        planned.extend(all.filter_map(|(key, named)| {
            let template = fitting(set, key, named, entity.as_ref(), None)?;
            Some(naming.planned(template, key, &nobody, 0))
        }));
    }
    Plan::Deliveries(planned)
}

/// Where a payload does not have the form of its kind. Over HTTP that is refused at the door; other doors
/// are the host's own.
fn misfit(kind: &EventKind, payload: &Value) -> Option<String> {
    let mut problems = Problems::default();
    kind.check(payload, "payload", &mut problems);
    (!problems.0.is_empty()).then(|| format!("it does not have the form of its kind: {problems}"))
}

/// The channels that templates name, by key, with the name they have there.
fn channels<'t>(
    templates: &'t [MessageTemplate],
    reach: &dyn Fn(&str) -> String,
) -> BTreeMap<String, &'t str> {
    templates.iter().map(|t| (reach(&t.definition.channel), t.definition.channel.as_str())).collect()
}

fn fitting<'t>(
    set: &'t TemplateSet,
    key: &str,
    named: &str,
    entity: Option<&Entity>,
    locale: Option<&str>,
) -> Option<&'t MessageTemplate> {
    let defaults = [set.default_locale.as_str()];
    let wanted = Wanted {
        scope: entity.map(|entity| (entity.kind.as_str(), entity.id.as_str())),
        channel: key,
        locale,
        defaults: &defaults,
        attempt: 1,
    };
    choose(&set.templates, &wanted).or_else(|| choose(&set.templates, &Wanted { channel: named, ..wanted }))
}

/// What keys are made of.
struct Naming<'a> {
    entity: &'a str,
    kind: &'a str,
    each: bool,
    again: Option<&'a str>,
}

impl Naming<'_> {
    fn planned(&self, of: &MessageTemplate, channel: &str, to: &Recipient<'_>, part: usize) -> Planned {
        let address = address(channel, to);
        let key = self.key(&of.definition.channel, of.id, address.as_deref());
        let (channel, template) = (channel.to_owned(), of.id);
        Planned { key, channel, address, send: 1, part, template, version: of.version, whom: Whom::of(to) }
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

/// What a channel needs to reach somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A phone number.
    Phone,
    /// A mailbox.
    Mail,
    /// Whatever there is.
    Any,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Phone, Self::Mail, Self::Any];

    /// The way of a channel.
    #[must_use]
    pub fn of(channel: &str) -> Self {
        match kind_of(channel) {
            "WhatsApp" | "SMS" => Self::Phone,
            "Email" => Self::Mail,
            _ => Self::Any,
        }
    }

    /// Where somebody is reached so.
    #[must_use]
    pub fn to(self, who: &Recipient<'_>) -> Option<String> {
        match self {
            Self::Phone => who.phone.clone(),
            Self::Mail => who.email.clone(),
            Self::Any => who.phone.clone().or_else(|| who.email.clone()).or_else(|| who.reference.clone()),
        }
    }
}

/// Where a channel reaches somebody: by phone, by mail, or by whatever there is.
#[must_use]
pub fn address(channel: &str, to: &Recipient<'_>) -> Option<String> {
    Way::of(channel).to(to)
}

#[cfg(test)]
mod tests;
