//! What the loops of deliveries count.

use crate::delivery::store::receipts::Learned;
use metrics::counter;

/// Receipts were heard.
pub(crate) fn receipts(provider: &str, learned: &Learned) {
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
