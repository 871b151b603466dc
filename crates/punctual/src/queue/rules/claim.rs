//! The items of a claim, in the one form both databases keep: readable JSON, one short
//! list for all items of one lane with the same history.

use crate::base::id::{DeliveryId, EntryId, LaneId, MessageId};
use serde::Deserialize;
use std::num::NonZeroUsize;

/// One claimed item, as the claim row remembers it. Its id is that of a message, an entry or a delivery: the
/// purpose of the claim says which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimItem(
    /// The message.
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

impl ClaimItem {
    /// The message, in a claim of messages.
    #[must_use]
    pub const fn message(&self) -> MessageId {
        self.0
    }

    /// The entry, in a claim of entries.
    #[must_use]
    pub const fn entry(&self) -> EntryId {
        EntryId(self.0.0)
    }

    /// The delivery, in a claim of deliveries.
    #[must_use]
    pub const fn delivery(&self) -> DeliveryId {
        DeliveryId(self.0.0)
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

/// A run of plain items is written by its ends from this many on.
const RUN_MIN: usize = 3;

/// Writes items for the claim row: groups `[lane, attempts, lost claims, items]` of one lane and one history.
///
/// `[[3,1,0,[7,[9,"key"],[10,20],[30,60,2]]]]` is lane 3 with the plain item 7, item 9 with its key, the
/// run from 10 to 20, and 30, 32, … 60: the deliveries of one channel go in larger steps where each event
/// has several.
#[must_use]
pub fn write<'a>(items: impl IntoIterator<Item = &'a ClaimItem>) -> String {
    let items: Vec<&ClaimItem> = items.into_iter().collect();
    let group = |i: &ClaimItem| (i.lane(), i.attempt(), i.unstarted());
    let groups = items.chunk_by(|a, b| group(a) == group(b)).map(|items| {
        let (lane, attempt, unstarted) = group(items[0]);
        format!("[{lane},{attempt},{unstarted},[{}]]", members(items).join(","))
    });
    format!("[{}]", groups.collect::<Vec<_>>().join(","))
}

fn members(mut items: &[&ClaimItem]) -> Vec<String> {
    let mut members = Vec::new();
    while let [first, rest @ ..] = items {
        let (run, step) = run(items);
        match run {
            [first, .., last] if run.len() >= RUN_MIN => {
                members.push(match step {
                    1 => format!("[{},{}]", first.0, last.0),
                    _ => format!("[{},{},{step}]", first.0, last.0),
                });
                items = &items[run.len()..];
            }
            _ => {
                members.push(member(first));
                items = rest;
            }
        }
    }
    members
}

/// The longest run that begins here, and its step.
fn run<'i, 'a>(items: &'i [&'a ClaimItem]) -> (&'i [&'a ClaimItem], i64) {
    let step_to = |a: &ClaimItem, b: &ClaimItem| match (a.key(), b.key()) {
        (None, None) => b.0.0.checked_sub(a.0.0).filter(|step| *step > 0),
        _ => None,
    };
    let step = items.first().zip(items.get(1)).and_then(|(a, b)| step_to(a, b));
    let goes_on = |pair: &&[&ClaimItem]| step.is_some() && step_to(pair[0], pair[1]) == step;
    let length = 1 + items.windows(2).take_while(goes_on).count();
    (&items[..length.min(items.len())], step.unwrap_or(1))
}

fn member(item: &ClaimItem) -> String {
    match item.key() {
        None => item.0.to_string(),
        Some(key) => format!("[{},{}]", item.0, serde_json::Value::from(key)),
    }
}

/// Reads items of a claim row.
///
/// # Errors
/// When the text is not what [`write()`] makes.
pub fn read(text: &str) -> Result<Vec<ClaimItem>, serde_json::Error> {
    let groups: Vec<(LaneId, u32, u32, Vec<Member>)> = serde_json::from_str(text)?;
    let mut items = Vec::new();
    for (lane, attempt, unstarted, members) in groups {
        let item = |id: i64, key: Option<String>| ClaimItem(MessageId(id), lane, attempt, unstarted, key);
        for member in members {
            match member {
                Member::Plain(id) => items.push(item(id, None)),
                Member::Run(first, last) => items.extend((first..=last).map(|id| item(id, None))),
                Member::Steps(first, last, step) => {
                    items.extend((first..=last).step_by(step.get()).map(|id| item(id, None)));
                }
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
    Steps(i64, i64, NonZeroUsize),
    Keyed(i64, String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_reads_what_it_writes() {
        let items = vec![
            ClaimItem(MessageId(7), LaneId(1), 1, 0, None),
            ClaimItem(MessageId(8), LaneId(1), 1, 0, None),
            ClaimItem(MessageId(10), LaneId(1), 1, 0, None),
            ClaimItem(MessageId(11), LaneId(1), 1, 0, None),
            ClaimItem(MessageId(12), LaneId(1), 1, 0, None),
            ClaimItem(MessageId(9), LaneId(2), 3, 1, Some("order \"4\", ü".into())),
            ClaimItem(MessageId(10), LaneId(2), 3, 1, None),
            ClaimItem(MessageId(11), LaneId(1), 1, 0, None),
        ];
        let text = write(&items);
        assert_eq!(text, r#"[[1,1,0,[7,8,[10,12]]],[2,3,1,[[9,"order \"4\", ü"],10]],[1,1,0,[11]]]"#);
        assert_eq!(read(&text).unwrap(), items);
        assert_eq!(read("[]").unwrap(), vec![]);
        assert!(read("[[1,1,0,[[1,9,0]]]]").is_err(), "a run that goes nowhere");
    }

    #[test]
    fn a_run_is_written_by_its_ends_and_its_step() {
        let cases: &[(&[i64], &str)] = &[
            (&[1], "1"),
            (&[1, 2], "1,2"),
            (&[1, 2, 3], "[1,3]"),
            (&[1, 3, 5, 7], "[1,7,2]"),
            (&[5, 5, 5], "5,5,5"),
            (&[9, 7, 5], "9,7,5"),
            (&[1, 2, 4, 6, 8, 9, 10, 11], "1,[2,8,2],[9,11]"),
            (&[-9, -6, -3, 1, 2, 3, 10], "[-9,-3,3],[1,3],10"),
            (&[i64::MIN, i64::MAX], "-9223372036854775808,9223372036854775807"),
        ];
        for (ids, written) in cases {
            let items: Vec<ClaimItem> =
                ids.iter().map(|id| ClaimItem(MessageId(*id), LaneId(1), 1, 0, None)).collect();
            let text = write(&items);
            assert_eq!(text, format!("[[1,1,0,[{written}]]]"));
            assert_eq!(read(&text).unwrap(), items);
        }
    }
}
