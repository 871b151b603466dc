//! What the loops count, through the `metrics` facade: the host chooses where it goes.
//!
//! Lateness comes first: how long after its due time an item was begun.

use crate::run::batch::Tally;
use crate::store::plan::Planned;
use crate::store::reap::Reaped;
use crate::store::receipts::Learned;
use metrics::{Histogram, counter, histogram};

/// The histogram of a topic's lateness, in seconds.
pub(super) fn lateness(topic: &str) -> Histogram {
    histogram!("punctual_lateness_seconds", "topic" => topic.to_owned())
}

/// A batch is through.
pub(super) fn batch(topic: &str, tally: &Tally) {
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
pub(super) fn filtered(topic: &str, subscription: &str, n: usize) {
    let labels = [("topic", topic.to_owned()), ("subscription", subscription.to_owned())];
    counter!("punctual_messages_filtered_total", &labels).increment(n as u64);
}

/// Messages were written.
pub(crate) fn enqueued(n: usize) {
    counter!("punctual_messages_enqueued_total").increment(n as u64);
}

/// Leases ran out.
pub(super) fn reaped(reaped: &Reaped) {
    counter!("punctual_items_reaped_total").increment(reaped.returned as u64);
    counter!("punctual_items_dead_by_reaping_total").increment(reaped.dead as u64);
}

/// A guard's lease is lost or may be.
pub(super) fn lease_lost() {
    counter!("punctual_leases_lost_total").increment(1);
}

/// Processed messages left the inbox.
pub(super) fn inbox_forgotten(n: u64) {
    counter!("punctual_inbox_forgotten_total").increment(n);
}

/// Receipts were heard.
pub(super) fn receipts(provider: &str, learned: &Learned) {
    let count = |what: &'static str, n: usize| {
        if n > 0 {
            let labels = [("provider", provider.to_owned()), ("what", what.to_owned())];
            counter!("punctual_receipts_total", &labels).increment(n as u64);
        }
    };
    for status in &learned.new {
        count(status.word(), 1);
    }
    count("repeated", learned.repeated);
    count("early", learned.waiting);
    count("unknown", learned.unknown);
}

/// Jobs were planned: how late each occurrence was, and what became of it.
pub(super) fn planned(planned: &Planned) {
    let lateness = histogram!("punctual_job_lateness_seconds");
    planned.lateness.iter().for_each(|late| lateness.record(late.as_secs_f64()));
    for (how, n) in [("started", planned.started), ("queued", planned.queued), ("skipped", planned.skipped)] {
        counter!("punctual_job_runs_planned_total", "how" => how).increment(n as u64);
    }
}
