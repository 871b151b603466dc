//! The executors of the pipeline, each in a file of its own.

mod advance;
mod expire;
mod plan;
mod send;

use super::executor::Executor;
use super::kinds::Kinds;

/// The executors of a process, in the order in which a round asks them: what ends first, then what is
/// written, then what waits to be sent.
pub(super) fn of(kinds: &Kinds) -> Vec<Box<dyn Executor>> {
    let mut all: Vec<Box<dyn Executor>> = vec![Box::new(expire::ExpireEntries), Box::new(plan::PlanEvents)];
    let planned = kinds.all().filter(|kind| kinds.planner(*kind).is_some());
    all.extend(planned.map(|kind| Box::new(advance::AdvanceEntries { kind }) as Box<dyn Executor>));
    all.extend(kinds.all().map(|kind| Box::new(send::SendDeliveries { kind }) as Box<dyn Executor>));
    all
}
