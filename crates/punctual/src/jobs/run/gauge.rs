//! The metrics of the job planner and of lease guards.

use crate::jobs::store::plan::PlanOutcome;
use metrics::{counter, histogram};

/// A guard's lease is lost or may be.
pub(crate) fn lease_lost() {
    counter!("punctual_leases_lost_total").increment(1);
}

/// Counts planned jobs: how late each occurrence was, and its outcome.
pub(crate) fn planned(planned: &PlanOutcome) {
    let lateness = histogram!("punctual_job_lateness_seconds");
    planned.lateness.iter().for_each(|late| lateness.record(late.as_secs_f64()));
    for (how, n) in [("started", planned.started), ("queued", planned.queued), ("skipped", planned.skipped)] {
        counter!("punctual_job_runs_planned_total", "how" => how).increment(n as u64);
    }
}
