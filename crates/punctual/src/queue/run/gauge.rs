//! The metrics of the loops, through the `metrics` facade: the host chooses the exporter.
//!
//! Lateness comes first: how long after its due time an item was begun.

use crate::queue::run::handler_batch::BatchCounts;
use crate::queue::store::reap::ReapOutcome;
use metrics::{Histogram, counter, histogram};

/// The histogram of a topic's lateness, in seconds.
pub(crate) fn lateness(topic: &str) -> Histogram {
    histogram!("punctual_lateness_seconds", "topic" => topic.to_owned())
}

/// A batch is through.
pub(crate) fn batch(topic: &str, tally: &BatchCounts) {
    let count = |name: &'static str, n: usize| {
        if n > 0 {
            counter!(name, "topic" => topic.to_owned()).increment(n as u64);
        }
    };
    count("punctual_messages_done_total", tally.done);
    count("punctual_attempts_failed_total", tally.failed);
    count("punctual_claims_lost_total", tally.lost);
}

/// A subscription's filter did not let items through.
pub(crate) fn filtered(topic: &str, subscription: &str, n: usize) {
    let labels = [("topic", topic.to_owned()), ("subscription", subscription.to_owned())];
    counter!("punctual_messages_filtered_total", &labels).increment(n as u64);
}

/// Messages were written.
pub(crate) fn enqueued(n: usize) {
    counter!("punctual_messages_enqueued_total").increment(n as u64);
}

/// A loop panicked.
pub(crate) fn loop_panicked(name: &'static str) {
    counter!("punctual_loop_panics_total", "loop" => name).increment(1);
}

/// Leases ran out.
pub(crate) fn reaped(reaped: &ReapOutcome) {
    counter!("punctual_items_reaped_total").increment(reaped.returned as u64);
    counter!("punctual_items_dead_by_reaping_total").increment(reaped.dead as u64);
}

/// Processed messages left the inbox.
pub(crate) fn count_pruned_inbox(n: u64) {
    counter!("punctual_inbox_forgotten_total").increment(n);
}
