//! Finding the recipient of a delivery again, when it is rendered.
//!
//! The recipients of an event are read anew each time, and an entity's state may have changed since the
//! delivery was planned: a person was removed from a list, and all behind them have moved up. So a delivery's
//! recipient is the person with its address, by any channel; else the person who matches the identity that
//! the delivery keeps. The number that the person had in the list only decides who is looked at first.

use crate::delivery::rules::consent::address::normal;
use crate::delivery::rules::delivery::RecipientIdentity;
use crate::delivery::rules::template::choose::kind_of;
use crate::flow::rules::entity::EntitySnapshot;
use crate::flow::rules::event_kind::{EventKind, Recipient};
use serde_json::Value;
use std::cell::OnceCell;
use std::collections::HashMap;

/// The recipients of one event.
#[derive(Debug)]
pub struct EventRecipients<'a> {
    all: Vec<Recipient<'a>>,
    /// The people by address, in its normal form; made when a person is not at the old place.
    by_address: OnceCell<HashMap<String, usize>>,
}

impl<'a> EventRecipients<'a> {
    /// The recipients of an event, as things stand.
    #[must_use]
    pub fn of(kind: &'a EventKind, payload: &'a Value, snapshot: &'a EntitySnapshot) -> Self {
        Self { all: kind.recipients(payload, snapshot).collect(), by_address: OnceCell::new() }
    }

    /// Returns the person with this address, which was that of number `part` once.
    #[must_use]
    pub fn at(&self, part: usize, address: &str) -> Option<&Recipient<'a>> {
        let there = self.all.get(part).filter(|who| addresses(who).any(|has| has == address));
        there.or_else(|| self.all.get(*self.by_address().get(&normal(address))?))
    }

    fn by_address(&self) -> &HashMap<String, usize> {
        self.by_address.get_or_init(|| {
            let mut known = HashMap::new();
            for (n, who) in self.all.iter().enumerate() {
                for address in addresses(who) {
                    known.entry(normal(address)).or_insert(n);
                }
            }
            known
        })
    }

    /// The only one who is known by this name of another system; without one, by this name.
    #[must_use]
    pub fn known_as(&self, whom: &RecipientIdentity) -> Option<&Recipient<'a>> {
        let is_meant = |who: &&Recipient<'_>| match (&whom.reference, &who.reference) {
            (None, None) => whom.name.is_some() && who.name == whom.name,
            (kept, now) => kept == now,
        };
        let mut meant = self.all.iter().filter(is_meant);
        let first = meant.next()?;
        meant.next().is_none().then_some(first)
    }
}

fn addresses<'r>(who: &'r Recipient<'_>) -> impl Iterator<Item = &'r str> {
    [&who.phone, &who.email, &who.reference].into_iter().filter_map(|one| one.as_deref())
}

impl RecipientIdentity {
    /// The recipient, as far as a delivery by this channel to this address keeps them.
    #[must_use]
    pub fn with(self, channel: &str, address: &str) -> Recipient<'static> {
        let by_mail = match kind_of(channel) {
            "Email" => true,
            "WhatsApp" | "SMS" => false,
            _ => address.contains('@'),
        };
        let address = Some(address.to_owned());
        let (phone, email) = if by_mail { (None, address) } else { (address, None) };
        Recipient { phone, email, name: self.name, reference: self.reference, ..Recipient::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn whom(name: Option<&str>, reference: Option<&str>) -> RecipientIdentity {
        RecipientIdentity { name: name.map(str::to_owned), reference: reference.map(str::to_owned) }
    }

    /// NTF-3, NTF-9: by the address of any channel, wherever they stand by now; never by their number alone.
    #[test]
    fn ntf_9_a_recipient_is_found_by_what_is_kept_of_them() {
        let kind = EventKind::kept(&json!({"recipients": {"each": "guests", "phone": "phone",
            "email": "email", "name": "name", "ref": "ref"}}));
        let payload = json!({"guests": [
            {"phone": "+1 555 0001", "name": "Ada", "ref": "a"}, {"phone": "+2", "name": "Ben"},
            {"email": "cy@example.org", "name": "Cy"}, {"phone": "+4", "name": "Cy"}]});
        let people = EventRecipients::of(&kind, &payload, &EntitySnapshot::Unknown);
        let name = |who: Option<&Recipient<'_>>| who.and_then(|who| who.name.clone()).unwrap_or_default();
        let table = [
            (0, "+1 555 0001", "Ada"),
            (3, "+15550001", "Ada"),
            (0, "+2", "Ben"),
            (9, "cy@example.org", "Cy"),
            (1, "+3", ""),
            (0, "", ""),
        ];
        for (part, address, want) in table {
            assert_eq!(name(people.at(part, address)), want, "{part}, {address}");
        }
        let table = [
            (whom(Some("Somebody"), Some("a")), "Ada"),
            (whom(Some("Ada"), None), ""),
            (whom(Some("Ben"), Some("b")), ""),
            (whom(Some("Ben"), None), "Ben"),
            (whom(Some("Cy"), None), ""),
            (whom(None, None), ""),
        ];
        for (whom, want) in table {
            assert_eq!(name(people.known_as(&whom)), want, "{whom:?}");
        }
        let kept = whom(Some("Dee"), None).with("email:smtp", "dee@example.org");
        assert_eq!((kept.email.as_deref(), kept.phone), (Some("dee@example.org"), None));
    }
}
