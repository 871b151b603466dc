//! The items of a claim, in the one form both databases keep: readable JSON, one short
//! list for all items of one lane with the same history.

use crate::base::id::{LaneId, MessageId};
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

/// Writes items for the claim row: groups of one lane and one history, each with its
/// messages, a keyed one as a pair.
#[must_use]
pub fn write<'a>(items: impl IntoIterator<Item = &'a Item>) -> String {
    use std::fmt::Write;
    let mut out = String::from("[");
    let mut group = None;
    for item in items {
        let its_group = (item.lane(), item.attempt(), item.unstarted());
        let gap = match group {
            Some(group) if group == its_group => ",",
            known => {
                let end = if known.is_some() { "]]," } else { "" };
                let _ = write!(out, "{end}[{},{},{},[", item.1, item.2, item.3);
                ""
            }
        };
        group = Some(its_group);
        let _ = match item.key() {
            None => write!(out, "{gap}{}", item.0),
            Some(key) => write!(out, "{gap}[{},{}]", item.0, serde_json::Value::from(key)),
        };
    }
    out.push_str(if group.is_some() { "]]]" } else { "]" });
    out
}

/// Reads items of a claim row.
///
/// # Errors
/// When the text is not what [`write()`] makes.
pub fn read(text: &str) -> Result<Vec<Item>, serde_json::Error> {
    let groups: Vec<(LaneId, u32, u32, Vec<Member>)> = serde_json::from_str(text)?;
    let mut items = Vec::with_capacity(groups.iter().map(|g| g.3.len()).sum());
    for (lane, attempt, unstarted, members) in groups {
        items.extend(members.into_iter().map(|member| {
            let (message, key) = member.into();
            Item(message, lane, attempt, unstarted, key)
        }));
    }
    Ok(items)
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Member {
    Plain(MessageId),
    Keyed(MessageId, String),
}

impl From<Member> for (MessageId, Option<String>) {
    fn from(member: Member) -> Self {
        match member {
            Member::Plain(message) => (message, None),
            Member::Keyed(message, key) => (message, Some(key)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_reads_what_it_writes() {
        let items = vec![
            Item(MessageId(7), LaneId(1), 1, 0, None),
            Item(MessageId(8), LaneId(1), 1, 0, None),
            Item(MessageId(9), LaneId(2), 3, 1, Some("order \"4\", ü".into())),
            Item(MessageId(10), LaneId(2), 3, 1, None),
            Item(MessageId(11), LaneId(1), 1, 0, None),
        ];
        let text = write(&items);
        assert_eq!(text, r#"[[1,1,0,[7,8]],[2,3,1,[[9,"order \"4\", ü"],10]],[1,1,0,[11]]]"#);
        assert_eq!(read(&text).unwrap(), items);
        assert_eq!(read("[]").unwrap(), vec![]);
    }
}
