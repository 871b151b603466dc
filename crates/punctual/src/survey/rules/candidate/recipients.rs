//! The recipients of an event that came by a topic: one for each person and each of their addresses.
//!
//! People are found as for notifications: by the paths of the event's kind, with the entity's state. A kind
//! without recipients or without a definition leaves them to the payload: to its own `recipient` with an
//! `address`, to `recipientAddress` as messages of surveys have it, or to the fields that notifications look
//! for there. The channel of a trigger decides which address it takes; so each recipient carries the kinds of
//! its address. An address that a person lacks is absent, since a filter may hold all the same and the event
//! is then wrong.

use crate::base::path::text_of;
use crate::delivery::rules::address::AddressKind;
use crate::delivery::rules::event_recipients::EventRecipients;
use crate::flow::rules::entity::EntitySnapshot;
use crate::flow::rules::event_kind::{EventKind, Recipient};
use serde_json::{Map, Value};

/// A recipient as a candidate has it.
#[derive(Clone, Debug, PartialEq)]
pub struct CandidateRecipient {
    /// `{address, locale, customerRef}`, without what is not known.
    pub recipient: Value,
    /// Triggers whose channels need one of these are for this recipient.
    pub ways: Vec<AddressKind>,
}

/// Returns the recipients of an event; at least one, even if all its fields are empty.
#[must_use]
pub fn resolve_recipients(
    payload: &Value,
    kind: Option<&EventKind>,
    snapshot: &EntitySnapshot,
) -> Vec<CandidateRecipient> {
    let kind = kind.filter(|kind| kind.has_recipients());
    if kind.is_none()
        && let Some(recipient) = own(payload)
    {
        return vec![CandidateRecipient { recipient, ways: AddressKind::ALL.to_vec() }];
    }
    let of = kind.unwrap_or_else(|| EventKind::undefined());
    let mut all = Vec::new();
    for who in of.recipients(payload, snapshot) {
        add(&who, &mut all);
    }
    if all.is_empty() {
        add(&Recipient::default(), &mut all);
    }
    all
}

/// The people whom an event describes, to find again the one whom an entry is for.
#[derive(Debug)]
pub struct DescribedRecipients<'a> {
    people: EventRecipients<'a>,
    /// The person of an event that names no address: an item that was handed in has it beside its payload.
    alone: Option<Recipient<'a>>,
}

impl<'a> DescribedRecipients<'a> {
    /// Reads the people of an event.
    #[must_use]
    pub fn of(payload: &'a Value, kind: Option<&'a EventKind>, snapshot: &'a EntitySnapshot) -> Self {
        let kind = kind.filter(|kind| kind.has_recipients()).unwrap_or_else(|| EventKind::undefined());
        let alone = kind.described_recipient(payload, snapshot);
        let alone = alone.filter(|who| who.phone.is_none() && who.email.is_none());
        Self { people: EventRecipients::of(kind, payload, snapshot), alone }
    }

    /// Returns the person with this address, or the one of whom the event names no address at all.
    #[must_use]
    pub fn find(&self, address: &str) -> Option<&Recipient<'a>> {
        self.people.at(0, address).or(self.alone.as_ref())
    }
}

/// Returns the reader of a message: the person whom the event describes, in the locale that counts, and with
/// the address and the reference that the entry has.
#[must_use]
pub fn reader(
    person: Option<&Recipient<'static>>,
    address: &str,
    locale: Option<&str>,
    reference: Option<&str>,
) -> Recipient<'static> {
    let mut who = person.cloned().unwrap_or_default();
    if who.phone.is_none() && who.email.is_none() {
        let Recipient { phone, email, .. } = recipient_at(address);
        (who.phone, who.email) = (phone, email);
    }
    who.locale = locale.map(str::to_owned);
    who.reference = reference.map(str::to_owned).or(who.reference);
    who
}

/// Returns a recipient of whom only an address is known.
#[must_use]
pub fn recipient_at(address: &str) -> Recipient<'static> {
    let address_of = Some(address.to_owned());
    match address.contains('@') {
        true => Recipient { email: address_of, ..Recipient::default() },
        false => Recipient { phone: address_of, ..Recipient::default() },
    }
}

/// Adds a person, once for each address.
fn add(who: &Recipient<'_>, all: &mut Vec<CandidateRecipient>) {
    let mut of: Vec<(Option<String>, Vec<AddressKind>)> = Vec::new();
    for way in AddressKind::ALL {
        let address = way.to(who);
        match of.iter_mut().find(|(known, _)| *known == address) {
            Some((_, ways)) => ways.push(way),
            None => of.push((address, vec![way])),
        }
    }
    all.extend(of.into_iter().map(|(address, ways)| {
        let recipient = recipient([address, who.locale.clone(), who.reference.clone()]);
        CandidateRecipient { recipient, ways }
    }));
}

/// The recipient whose address the payload itself names.
fn own(payload: &Value) -> Option<Value> {
    let text = |value: &Value, name: &str| value.get(name).and_then(text_of);
    if let Some(who) = payload.get("recipient")
        && let Some(address) = text(who, "address")
    {
        let reference = text(who, "customerRef").or_else(|| text(who, "ref"));
        return Some(recipient([Some(address), text(who, "locale"), reference]));
    }
    let address = text(payload, "recipientAddress")?;
    Some(recipient([Some(address), text(payload, "recipientLocale"), text(payload, "customerRef")]))
}

fn recipient(known: [Option<String>; 3]) -> Value {
    let named = super::RECIPIENT_FIELDS.into_iter().zip(known);
    let fields: Map<String, Value> =
        named.filter_map(|(name, value)| Some((name.to_owned(), Value::String(value?)))).collect();
    Value::Object(fields)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(kind: Option<&EventKind>, payload: &Value) -> Vec<String> {
        let all = resolve_recipients(payload, kind, &EntitySnapshot::Unknown);
        all.iter().map(|one| format!("{} {:?}", one.recipient, one.ways)).collect()
    }

    fn kind(recipients: &Value) -> EventKind {
        EventKind::kept(&json!({"recipients": recipients}))
    }

    /// NTF-2: a person is reached by each address they have, and each is for the channels that need it.
    #[test]
    fn ntf_2_each_address_of_a_person_is_for_its_channels() {
        let kind = kind(&json!({"phone": "guest.phone", "email": "guest.email", "ref": "guest.id"}));
        let both = json!({"guest": {"phone": "+1", "email": "a@b.c", "id": 7}});
        let want = [
            r#"{"address":"+1","customerRef":"7"} [Phone, Any]"#,
            r#"{"address":"a@b.c","customerRef":"7"} [Email]"#,
        ];
        assert_eq!(shown(Some(&kind), &both), want);
        let phone = json!({"guest": {"phone": "+1"}});
        assert_eq!(shown(Some(&kind), &phone), [r#"{"address":"+1"} [Phone, Any]"#, "{} [Email]"]);
        assert_eq!(shown(Some(&kind), &json!({})), ["{} [Phone, Email, Any]"], "no recipient can be reached");
    }

    #[test]
    fn each_of_a_list_is_a_recipient() {
        let kind = kind(&json!({"each": "guests", "phone": "phone"}));
        let two = json!({"guests": [{"phone": "+1"}, {"phone": "+2"}]});
        let want = [
            r#"{"address":"+1"} [Phone, Any]"#,
            "{} [Email]",
            r#"{"address":"+2"} [Phone, Any]"#,
            "{} [Email]",
        ];
        assert_eq!(shown(Some(&kind), &two), want);
    }

    #[test]
    fn without_a_kind_that_says_it_the_payload_does() {
        let own = json!({"recipient": {"address": "x", "locale": "ar", "customerRef": "c", "name": "Jo"}});
        let want = [r#"{"address":"x","customerRef":"c","locale":"ar"} [Phone, Email, Any]"#];
        assert_eq!(shown(None, &own), want);
        assert_eq!(shown(Some(&EventKind::default()), &own), want);
        let told = json!({"recipientAddress": "x", "recipientLocale": "ar", "customerRef": "c"});
        assert_eq!(shown(None, &told), want, "as messages of surveys have it");
        let phone = json!({"phone": "+1"});
        assert_eq!(shown(None, &phone), [r#"{"address":"+1"} [Phone, Any]"#, "{} [Email]"]);
    }
}
