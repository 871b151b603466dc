//! The items of a claim, in the one form both databases keep: readable JSON, one short
//! list per item.

use crate::base::id::{LaneId, MessageId};
use serde::{Deserialize, Serialize};

/// One claimed item, as the claim row remembers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
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

/// Writes items for the claim row.
#[must_use]
pub fn write<'a>(items: impl IntoIterator<Item = &'a Item>) -> String {
    use std::fmt::Write;
    let mut out = String::from("[");
    for (n, item) in items.into_iter().enumerate() {
        let gap = if n == 0 { "" } else { "," };
        let _ = write!(out, "{gap}[{},{},{},{}", item.0, item.1, item.2, item.3);
        if let Some(key) = &item.4 {
            let _ = write!(out, ",{}", serde_json::Value::from(key.as_str()));
        }
        out.push(']');
    }
    out.push(']');
    out
}

/// Reads items of a claim row.
///
/// # Errors
/// When the text is not what [`write()`] makes.
pub fn read(text: &str) -> Result<Vec<Item>, serde_json::Error> {
    let rows: Vec<(MessageId, LaneId, u32, u32, Option<String>)> =
        serde_json::from_str::<Vec<Loose>>(text)?.into_iter().map(Loose::into).collect();
    Ok(rows.into_iter().map(|(m, l, a, u, k)| Item(m, l, a, u, k)).collect())
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Loose {
    Keyed(MessageId, LaneId, u32, u32, String),
    Plain(MessageId, LaneId, u32, u32),
}

impl From<Loose> for (MessageId, LaneId, u32, u32, Option<String>) {
    fn from(loose: Loose) -> Self {
        match loose {
            Loose::Keyed(m, l, a, u, k) => (m, l, a, u, Some(k)),
            Loose::Plain(m, l, a, u) => (m, l, a, u, None),
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
            Item(MessageId(9), LaneId(2), 3, 1, Some("order \"4\", ü".into())),
        ];
        let text = write(&items);
        assert_eq!(text, r#"[[7,1,1,0],[9,2,3,1,"order \"4\", ü"]]"#);
        assert_eq!(read(&text).unwrap(), items);
        assert_eq!(read("[]").unwrap(), vec![]);
    }
}
