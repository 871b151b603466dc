//! Reading a delivery's key: the channel that its template names, and the address behind it.
//!
//! `{entityId}:{eventKind}:{channel}:{templateId}`, or `manual:{entityId}:{channel}:{templateId}:{requestId}`
//! for a request of a person; the part that makes it one of several, such as the address, stands behind that.
//! All parts may have colons, so a key is read with the data of its delivery.

use crate::base::id::TemplateId;
use crate::queue::rules::message::Entity;

/// A key, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryKeyParts<'k> {
    /// All before the address, its colon too; the whole key if it has none.
    pub front: &'k str,
    /// The channel, as the template names it.
    pub channel: &'k str,
    /// The address, and whatever follows it.
    pub address: Option<&'k str>,
}

/// Reads the key of a delivery that is about this; `None` if it is not made so.
#[must_use]
pub fn parts<'k>(
    key: &'k str,
    entity: Option<&Entity>,
    kind: &str,
    template: TemplateId,
) -> Option<DeliveryKeyParts<'k>> {
    let within = |rest: &'k str, part: &str| rest.strip_prefix(part)?.strip_prefix(':');
    let of_entity = |rest: &'k str| match entity {
        Some(entity) => within(rest, &entity.id),
        None => rest.strip_prefix("event-")?.split_once(':').map(|(_, rest)| rest),
    };
    let by_event = of_entity(key).and_then(|rest| within(rest, kind));
    let (rest, by_hand) = match by_event {
        Some(rest) => (rest, false),
        None => (of_entity(within(key, "manual")?)?, true),
    };
    let (channel, mut behind) = at_template(rest, template)?;
    if by_hand {
        // The name of a request has no colon.
        behind = behind.split_once(':').map_or("", |(_, behind)| behind);
    }
    let address = Some(behind).filter(|behind| !behind.is_empty());
    let front = &key[..key.len() - behind.len()];
    Some(DeliveryKeyParts { front, channel, address })
}

/// Splits a key before a template's number, and behind it.
fn at_template(rest: &str, template: TemplateId) -> Option<(&str, &str)> {
    let number = format!(":{template}");
    rest.match_indices(&number).find_map(|(at, _)| {
        let behind = &rest[at + number.len()..];
        let ends = behind.is_empty() || behind.starts_with(':');
        ends.then(|| (&rest[..at], behind.strip_prefix(':').unwrap_or(behind)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<'k>(key: &'k str, entity: Option<&str>) -> Option<(&'k str, Option<&'k str>)> {
        let entity = entity.map(|id| Entity { kind: "booking".into(), id: id.into() });
        let parts = parts(key, entity.as_ref(), "b.done", TemplateId(7))?;
        assert_eq!(format!("{}{}", parts.front, parts.address.unwrap_or_default()), key);
        Some((parts.channel, parts.address))
    }

    /// NTF-5: each form of a key gives its channel, and the address apart.
    #[test]
    fn ntf_5_a_key_is_read_as_it_was_made() {
        let table = [
            ("1:b.done:SMS:7", Some("1"), Some(("SMS", None))),
            ("1:b.done:memory:sms:7", Some("1"), Some(("memory:sms", None))),
            ("1:b.done:SMS:7:+9647", Some("1"), Some(("SMS", Some("+9647")))),
            ("a:b:b.done:Email:7:x@y.org", Some("a:b"), Some(("Email", Some("x@y.org")))),
            ("event-9:b.done:SMS:7", None, Some(("SMS", None))),
            ("manual:1:SMS:7:af01", Some("1"), Some(("SMS", None))),
            ("manual:1:sms:a:7:af01:+9647", Some("1"), Some(("sms:a", Some("+9647")))),
            ("manual:event-9:SMS:7:af01:+9647:sms:b", None, Some(("SMS", Some("+9647:sms:b")))),
            ("2:b.done:SMS:7", Some("1"), None),
            ("1:b.done:SMS:8", Some("1"), None),
            ("1:b.done:SMS:77", Some("1"), None),
        ];
        for (key, entity, want) in table {
            assert_eq!(read(key, entity), want, "{key}");
        }
    }
}
