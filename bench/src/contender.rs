//! What has a turn in a round: a queue that can be filled and drained.
//!
//! Every contender carries the same payloads and starts every round on an empty queue. Its own clock
//! runs only while messages are enqueued or drained: connecting, preparing statements, migrating and
//! starting a process are not counted for anybody.

use std::pin::Pin;
use std::time::Duration;

use anyhow::{Result, bail};

/// What an asynchronous step of a contender returns.
pub type Step<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// Something measured. The steps of a round come in the order in which they stand here.
pub trait Contender: Send + Sync {
    /// How it is called in the report.
    fn name(&self) -> &str;

    /// Makes the queue empty and new. Not timed.
    fn prepare(&self) -> Step<'_, ()>;

    /// Enqueues `n` messages in bulk; how long that took.
    fn enqueue(&self, n: usize) -> Step<'_, Duration>;

    /// Brings the database to rest between the two halves, in the same way for all. Not timed.
    fn settle(&self) -> Step<'_, ()>;

    /// Takes, hands to a handler that does nothing, and finishes `n` messages; how long that took.
    fn drain(&self, n: usize) -> Step<'_, Duration>;

    /// How many bytes of WAL the server has written so far; `None` where there is no such figure.
    fn wal(&self) -> Step<'_, Option<u64>> {
        Box::pin(async { Ok(None) })
    }

    /// Adds messages that are not due and messages that are finished. Not timed.
    fn fill(&self, _extra: Extra) -> Step<'_, ()> {
        let name = self.name().to_owned();
        Box::pin(async move { bail!("{name} has no way to add rows that are not due or finished") })
    }
}

/// Rows beside those that are measured.
#[derive(Debug, Clone, Copy)]
pub struct Extra {
    /// Messages due in a month.
    pub not_due: usize,
    /// Messages done long ago.
    pub finished: usize,
}

/// The payload of message `i`: about 200 bytes of JSON, the same for every contender.
#[must_use]
pub fn payload(i: usize) -> String {
    format!(r#"{{"i":{i},"t":1700000000.0,"pad":"{:x<150}"}}"#, "")
}

/// The payloads of the messages 0 to `n`.
#[must_use]
pub fn payloads(n: usize) -> Vec<String> {
    (0..n).map(payload).collect()
}

/// The number a payload was made of.
#[must_use]
pub fn number(payload: &str) -> Option<usize> {
    // The database may have written the JSON anew, with a space after the colon.
    let rest = payload.split_once("\"i\":")?.1.trim_start();
    rest[..rest.find(|c: char| !c.is_ascii_digit())?].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_json_of_about_200_bytes_and_knows_its_number() {
        let text = payload(4711);
        assert!((180..=220).contains(&text.len()), "{}", text.len());
        assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
        assert_eq!(number(&text), Some(4711));
        assert_eq!(number(r#"{"i": 8, "pad": ""}"#), Some(8));
        assert_eq!(number("{}"), None);
    }
}
