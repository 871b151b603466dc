//! What the rounds on PostgreSQL must come to: ratios of medians of one run.

use crate::peers::KNOWN;
use crate::queue::find;
use crate::report::{Bound, Report};
use crate::rounds::Measured;

/// Sets ours against the others, and the two ways by hand against each other.
pub(super) fn rounds(all: &[Measured], report: &mut Report) {
    let (conventional, one_row) = (find(all, "conventional"), find(all, "one row per batch"));
    if let (Some(one_row), Some(conventional)) = (one_row, conventional) {
        let value = one_row.drain.median() / conventional.drain.median();
        report.inform("postgres drain by hand, one row per batch / conventional", value);
        let value = one_row.wal.median() / conventional.wal.median();
        report.inform("postgres WAL by hand, one row per batch / conventional", value);
    }
    let Some(ours) = find(all, "punctual") else {
        return;
    };
    if let Some(one_row) = one_row {
        let value = ours.enqueue.median() / one_row.enqueue.median();
        report.require("postgres enqueue / by hand, two tables", value, Bound::AtLeast(0.8));
        let value = ours.drain.median() / one_row.drain.median();
        report.require("postgres drain / by hand, one row per batch", value, Bound::AtLeast(0.65));
    }
    if let Some(conventional) = conventional {
        let value = ours.drain.median() / conventional.drain.median();
        report.require("postgres drain / by hand, conventional", value, Bound::AtLeast(1.5));
        let value = ours.wal.median() / conventional.wal.median();
        report.require("postgres WAL / by hand, conventional", value, Bound::AtMost(0.65));
    }
    with_peers(ours, all, report);
}

fn with_peers(ours: &Measured, all: &[Measured], report: &mut Report) {
    let peers: Vec<&Measured> = KNOWN.iter().filter_map(|known| find(all, known.name)).collect();
    if peers.is_empty() {
        return;
    }
    let best = |what: fn(&Measured) -> f64| peers.iter().map(|m| what(m)).fold(f64::NAN, f64::max);
    let value = ours.enqueue.median() / best(|peer| peer.enqueue.median());
    report.require("postgres enqueue / best peer", value, Bound::AtLeast(2.0));
    let value = ours.drain.median() / best(|peer| peer.drain.median());
    report.require("postgres drain / best peer", value, Bound::AtLeast(3.0));
}
