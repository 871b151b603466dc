//! The executors of the pipeline, each in a file of its own.

mod advance;
mod advances_in_progress;
mod expire;
mod plan;
mod send;

use crate::delivery::run::context::DeliveryContext;
use crate::queue::run::executor::Executor;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Returns the executors of the pipeline, in the order in which a tick asks them: entries that end, then
/// entries and deliveries that are written, then deliveries that wait to be sent.
#[must_use]
pub fn pipeline(context: &Arc<DeliveryContext>) -> Vec<Arc<dyn Executor>> {
    let mut all: Vec<Arc<dyn Executor>> =
        vec![Arc::new(expire::ExpireExecutor::new(context)), Arc::new(plan::PlanExecutor::new(context))];
    for kind in context.kinds.all() {
        all.push(Arc::new(advance::AdvanceExecutor::new(context, kind)));
    }
    for kind in context.kinds.all() {
        all.push(Arc::new(send::SendExecutor::new(context, kind)));
    }
    all
}

/// Lets a local executor run one transaction at a time.
#[derive(Clone, Debug, Default)]
struct LocalTurn(Arc<AtomicBool>);

impl LocalTurn {
    fn room(&self, batch: usize) -> usize {
        if self.0.load(Ordering::Relaxed) { 0 } else { batch }
    }

    /// Keeps others away until the answer is dropped.
    fn begin(&self, context: &Arc<DeliveryContext>) -> LocalGuard {
        self.0.store(true, Ordering::Relaxed);
        LocalGuard { running: self.clone(), context: Arc::clone(context) }
    }
}

/// A local transaction on its way.
#[derive(Debug)]
struct LocalGuard {
    running: LocalTurn,
    context: Arc<DeliveryContext>,
}

impl Drop for LocalGuard {
    fn drop(&mut self) {
        self.running.0.store(false, Ordering::Relaxed);
        self.context.worker.room.notify_one();
    }
}
