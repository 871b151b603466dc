//! The items of a claim, in the one form both databases keep: readable JSON, one short
//! list for all items of one lane with the same history.

use crate::base::id::{DeliveryId, EntryId, LaneId, MessageId};
use serde::Deserialize;

/// One claimed item, as the claim row remembers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item(
    /// What it is about.
    pub MessageId,
    /// Where it waited.
    pub LaneId,
    /// How often it was claimed, this claim included.
    pub u32,
    /// How many of those claims were lost before the item was known to have started.
    pub u32,
    /// Its key, if it belongs to a sequence.
    pub Option<String>,
);

impl Item {
    /// The message.
    #[must_use]
    pub const fn message(&self) -> MessageId {
        self.0
    }

    /// The entry, in a lane of entries: its number stands there with a minus sign.
    #[must_use]
    pub const fn entry(&self) -> Option<EntryId> {
        let number = self.0.0;
        if number < 0 && number > DELIVERIES_BELOW { Some(EntryId(-number)) } else { None }
    }

    /// The delivery, in a lane of deliveries: their numbers are counted up, far below all entries.
    #[must_use]
    pub const fn delivery(&self) -> Option<DeliveryId> {
        let number = self.0.0;
        if number < DELIVERIES_BELOW { Some(DeliveryId(number - DELIVERIES_FROM)) } else { None }
    }

    /// Whether it is no message, but something that has a log of its own.
    #[must_use]
    pub const fn is_letter(&self) -> bool {
        self.0.0 < 0
    }

    /// The lane.
    #[must_use]
    pub const fn lane(&self) -> LaneId {
        self.1
    }

    /// The number of this attempt, from 1.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.2
    }

    /// Claims that were lost before the item was known to have started.
    #[must_use]
    pub const fn unstarted(&self) -> u32 {
        self.3
    }

    /// The key of its sequence.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.4.as_deref()
    }

    /// An item that was in a crash before is run alone, and marked before it starts.
    #[must_use]
    pub const fn is_suspect(&self) -> bool {
        self.3 > 0
    }
}

/// Where the numbers of deliveries begin. They rise, so that what is due at one moment goes in its order.
pub(crate) const DELIVERIES_FROM: i64 = -(1 << 62);
/// Their numbers are below this, and those of entries above: no database has so many of either.
pub const DELIVERIES_BELOW: i64 = -(1 << 52);

/// The number of a delivery's work.
#[must_use]
pub const fn work_of(delivery: DeliveryId) -> i64 {
    DELIVERIES_FROM + delivery.0
}

/// Writes items for the claim row: groups of one lane and one history, each with its
/// messages: a keyed one as a pair, a run of plain ones by its ends.
#[must_use]
pub fn write<'a>(items: impl IntoIterator<Item = &'a Item>) -> String {
    let items: Vec<&Item> = items.into_iter().collect();
    let group = |i: &Item| (i.lane(), i.attempt(), i.unstarted());
    let groups = items.chunk_by(|a, b| group(a) == group(b)).map(|items| {
        let runs = items.chunk_by(|a, b| a.0.0 + 1 == b.0.0 && a.4.is_none() && b.4.is_none());
        let members: Vec<String> = runs.flat_map(members).collect();
        let (lane, attempt, unstarted) = group(items[0]);
        format!("[{lane},{attempt},{unstarted},[{}]]", members.join(","))
    });
    format!("[{}]", groups.collect::<Vec<_>>().join(","))
}

/// A run that is shorter than its ends is written one by one.
fn members(run: &[&Item]) -> Vec<String> {
    match run {
        [first, _, .., last] => vec![format!("[{},{}]", first.0, last.0)],
        few => few.iter().map(|item| member(item)).collect(),
    }
}

fn member(item: &Item) -> String {
    match item.key() {
        None => item.0.to_string(),
        Some(key) => format!("[{},{}]", item.0, serde_json::Value::from(key)),
    }
}

/// Reads items of a claim row.
///
/// # Errors
/// When the text is not what [`write()`] makes.
pub fn read(text: &str) -> Result<Vec<Item>, serde_json::Error> {
    let groups: Vec<(LaneId, u32, u32, Vec<Member>)> = serde_json::from_str(text)?;
    let mut items = Vec::new();
    for (lane, attempt, unstarted, members) in groups {
        let item = |id: i64, key: Option<String>| Item(MessageId(id), lane, attempt, unstarted, key);
        for member in members {
            match member {
                Member::Plain(id) => items.push(item(id, None)),
                Member::Run(first, last) => items.extend((first..=last).map(|id| item(id, None))),
                Member::Keyed(id, key) => items.push(item(id, Some(key))),
            }
        }
    }
    Ok(items)
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Member {
    Plain(i64),
    Run(i64, i64),
    Keyed(i64, String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_entries_and_deliveries_have_numbers_of_their_own() {
        let item = |number| Item(MessageId(number), LaneId(1), 1, 0, None);
        let known = |number| (item(number).entry(), item(number).delivery(), item(number).is_letter());
        let delivery = DeliveryId(7);
        assert_eq!(known(7), (None, None, false));
        assert_eq!(known(-7), (Some(EntryId(7)), None, true));
        assert_eq!(known(work_of(delivery)), (None, Some(delivery), true));
        assert!(work_of(delivery) < work_of(DeliveryId(8)), "the earlier goes first");
    }

    #[test]
    fn a_claim_reads_what_it_writes() {
        let items = vec![
            Item(MessageId(7), LaneId(1), 1, 0, None),
            Item(MessageId(8), LaneId(1), 1, 0, None),
            Item(MessageId(10), LaneId(1), 1, 0, None),
            Item(MessageId(11), LaneId(1), 1, 0, None),
            Item(MessageId(12), LaneId(1), 1, 0, None),
            Item(MessageId(9), LaneId(2), 3, 1, Some("order \"4\", ü".into())),
            Item(MessageId(10), LaneId(2), 3, 1, None),
            Item(MessageId(11), LaneId(1), 1, 0, None),
        ];
        let text = write(&items);
        assert_eq!(text, r#"[[1,1,0,[7,8,[10,12]]],[2,3,1,[[9,"order \"4\", ü"],10]],[1,1,0,[11]]]"#);
        assert_eq!(read(&text).unwrap(), items);
        assert_eq!(read("[]").unwrap(), vec![]);
    }
}
