//! The metrics of the delivery loops.

use crate::delivery::store::receipts::ReceiptOutcome;
use metrics::counter;

/// Counts recorded receipts.
pub(crate) fn receipts(provider: &str, outcome: &ReceiptOutcome) {
    let count = |what: &'static str, n: usize| {
        if n > 0 {
            let labels = [("provider", provider.to_owned()), ("what", what.to_owned())];
            counter!("punctual_receipts_total", &labels).increment(n as u64);
        }
    };
    for status in &outcome.new {
        count(status.word(), 1);
    }
    count("repeated", outcome.repeated);
    count("early", outcome.waiting);
    count("unknown", outcome.unknown);
}
