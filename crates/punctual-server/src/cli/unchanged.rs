//! Errors of commands that changed nothing, or not all that was named.

use super::failure::{CommandFailure, Outcome};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Display;

/// The number of ids that a report names; more are only counted.
const TOLD_MAX: usize = 10;

/// Fails if some of the named ids were not changed. `why` is a possible
/// reason, such as "it is not there, or has fired".
pub(super) fn check_named<T: Display + Ord>(
    noun: &str,
    verb: &str,
    why: &str,
    named: impl IntoIterator<Item = T>,
    changed: impl IntoIterator<Item = T>,
) -> Outcome {
    let changed: BTreeSet<T> = changed.into_iter().collect();
    let left: BTreeSet<T> = named.into_iter().filter(|id| !changed.contains(id)).collect();
    if left.is_empty() {
        return Ok(());
    }
    let told: Vec<String> = left.iter().take(TOLD_MAX).map(ToString::to_string).collect();
    let more = left.len().saturating_sub(TOLD_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let (nouns, were) = if left.len() == 1 { (noun.to_owned(), "was") } else { (format!("{noun}s"), "were") };
    Err(CommandFailure::failed(format!("{nouns} {}{more} {were} not {verb}: {why}", told.join(", "))))
}

/// Returns the answer for programs, with a reason if nothing was changed.
pub(super) fn with_reason(mut answer: Value, why: Option<&str>) -> Value {
    if let Some(why) = why {
        answer["reason"] = why.into();
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_were_not_changed_are_named() {
        let said = |named: std::ops::Range<i64>, changed: &[i64]| {
            let changed = changed.iter().copied();
            check_named("timer", "cancelled", "gone", named, changed).err().map(|f| f.sentence)
        };
        assert_eq!(said(1..3, &[1, 2]), None);
        assert_eq!(said(1..3, &[1]).unwrap(), "timer 2 was not cancelled: gone");
        assert_eq!(said(1..3, &[]).unwrap(), "timers 1, 2 were not cancelled: gone");
        assert!(said(0..30, &[]).unwrap().contains("8, 9 and 20 more were not"), "{:?}", said(0..30, &[]));
    }
}
