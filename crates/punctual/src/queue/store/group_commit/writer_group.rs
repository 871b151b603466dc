//! The group commit before SQLite's writer.
//!
//! A caller adds its message to those that wait. Unless a request for them is on its way to the writer
//! already, the caller sends one; so a single caller pays no more than for any other verb, and a group is
//! written by a few statements and one commit. The request takes all messages that wait when its turn comes,
//! and those that come while it writes, until as many as last time are there. A caller that comes after its
//! last look finds no request on its way, and sends the next.

use crate::base::error::{Error, Result};
use crate::database::crash_points::{CrashPoint, reach};
use crate::database::fault::Fault;
use crate::database::planted_bugs::PlantedBug;
use crate::database::sqlite::Sqlite;
use crate::database::sqlite::threads::{WriterRequest, finish, guarded, patiently, without_writes};
use crate::database::store::Store;
use crate::database::tx::Tx;
use crate::queue::store::group_commit::{
    GroupCommit, PendingEnqueue, TenantBatch, group_by_tenant, send_replies,
};
use crate::queue::store::messages::{EnqueueOutcome, enqueue_all};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// The messages that no request has taken yet.
#[derive(Debug, Default)]
pub(crate) struct PendingGroup {
    queue: Mutex<PendingQueue>,
    /// The number of waiting messages, readable without the lock.
    count: AtomicUsize,
}

#[derive(Debug, Default)]
struct PendingQueue {
    singles: Vec<PendingEnqueue>,
    /// Whether a request is on its way that will take them.
    called: bool,
    /// How many the last request served.
    expected: usize,
}

impl PendingGroup {
    fn lock(&self) -> MutexGuard<'_, PendingQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a request must be sent.
    fn join(&self, single: PendingEnqueue) -> bool {
        let mut queue = self.lock();
        queue.singles.push(single);
        self.count.store(queue.singles.len(), Ordering::Release);
        !std::mem::replace(&mut queue.called, true)
    }

    fn take(&self, queue: &mut PendingQueue) -> Vec<PendingEnqueue> {
        self.count.store(0, Ordering::Release);
        std::mem::take(&mut queue.singles)
    }

    /// Refuses all who wait, because the writer has stopped.
    fn reject_all(&self) {
        let singles = {
            let mut queue = self.lock();
            queue.called = false;
            self.take(&mut queue)
        };
        for single in singles {
            let gone = Error::Unavailable("the database thread has stopped".into());
            single.reply.send(Err(gone)).ok();
        }
    }
}

impl Store {
    pub(super) async fn enqueue_through_writer(
        &self,
        db: &Sqlite,
        single: PendingEnqueue,
        answer: oneshot::Receiver<Result<EnqueueOutcome>>,
    ) -> Result<EnqueueOutcome> {
        self.cut.there().await?;
        let commit = self.part::<GroupCommit>();
        let waiting = &commit.group;
        if waiting.join(single) {
            let waiting = Arc::clone(waiting);
            let crowd = GroupRequest { waiting, served: Vec::new(), looked: false, fault: self.fault };
            if !db.hand_to_writer(Box::new(crowd)) {
                commit.group.reject_all();
            }
        }
        // There is no answer when the thread has stopped; it may have committed before.
        let enqueued = answer.await.map_err(|e| Error::Unknown(e.into()))?;
        self.cut.back().await;
        reach(CrashPoint::EnqueuedBeforeAnswer);
        enqueued
    }
}

/// The request that serves all who wait when its turn comes.
struct GroupRequest {
    waiting: Arc<PendingGroup>,
    served: Vec<(TenantBatch, Result<Vec<EnqueueOutcome>>)>,
    /// Whether the request has taken its last messages.
    looked: bool,
    fault: Fault,
}

impl GroupRequest {
    /// Writes those who wait, if any do.
    fn write(&mut self, tx: &mut Tx, singles: Vec<PendingEnqueue>) {
        for party in group_by_tenant(singles.into_iter()).into_values() {
            let written = write(tx, &party);
            self.served.push((party, written));
        }
    }

    /// Takes the messages that have come by now; the next caller sends a request of its own.
    fn take_last(&mut self) -> Vec<PendingEnqueue> {
        self.looked = true;
        let waiting = Arc::clone(&self.waiting);
        let mut queue = waiting.lock();
        queue.called = false;
        let last = waiting.take(&mut queue);
        queue.expected = self.callers() + last.len();
        last
    }

    fn all_well(&self) -> bool {
        self.served.iter().all(|(_, written)| written.is_ok())
    }
}

fn not_run() -> Result<Vec<EnqueueOutcome>> {
    Err(Error::Unavailable("the request was not run".into()))
}

fn write(tx: &mut Tx, party: &TenantBatch) -> Result<Vec<EnqueueOutcome>> {
    guarded(|| finish(Box::pin(enqueue_all(tx, &party.batch))))
}

impl WriterRequest for GroupRequest {
    fn run(&mut self, tx: &mut Tx) -> bool {
        *tx.fault() = self.fault;
        // Those it has already, when what it wrote was rolled back.
        for (party, written) in &mut self.served {
            *written = write(tx, party);
        }
        let waiting = Arc::clone(&self.waiting);
        let expected = waiting.lock().expected;
        patiently(|| {
            if waiting.count.load(Ordering::Acquire) > 0 {
                let singles = waiting.take(&mut waiting.lock());
                self.write(tx, singles);
            }
            self.callers() >= expected || !self.all_well()
        });
        let last = self.take_last();
        self.write(tx, last);
        self.all_well()
    }

    fn failure(&self) -> Option<&Error> {
        self.served.iter().find_map(|(_, written)| written.as_ref().err())
    }

    fn answer(mut self: Box<Self>, trouble: Option<Error>) {
        if !self.looked {
            // The transaction could not even begin: its waiting callers must get that error, too.
            for party in group_by_tenant(self.take_last().into_iter()).into_values() {
                self.served.push((party, not_run()));
            }
        }
        // One party's failure rolled back what the others wrote, so nothing of them was left to commit.
        let failed = self.failure().map(Error::replicate);
        let trouble = match (trouble, failed) {
            (Some(trouble), Some(_)) => Some(without_writes(&trouble)),
            (trouble, failed) => trouble.or(failed),
        };
        for (party, written) in self.served {
            send_replies(trouble.as_ref().map_or(written, |trouble| Err(trouble.replicate())), party.replies);
        }
    }

    fn callers(&self) -> usize {
        self.served.iter().map(|(party, _)| party.replies.len()).sum()
    }

    fn has(&self, bug: PlantedBug) -> bool {
        self.fault.has(bug)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::tenant::Tenant;
    use crate::queue::rules::message::NewMessage;

    fn single() -> (PendingEnqueue, oneshot::Receiver<Result<EnqueueOutcome>>) {
        let (reply, answer) = oneshot::channel();
        (PendingEnqueue { tenant: Tenant::DEFAULT, message: NewMessage::new("t", "k", "1"), reply }, answer)
    }

    /// PLT-1: as when a request before it broke the whole group, or no transaction could begin.
    #[test]
    fn waiting_callers_get_the_error_of_a_request_that_was_not_run() {
        let waiting = Arc::new(PendingGroup::default());
        let ((first, mut heard), (second, _)) = (single(), single());
        assert!(waiting.join(first), "the first sends a request");
        let crowd = GroupRequest {
            waiting: Arc::clone(&waiting),
            served: Vec::new(),
            looked: false,
            fault: Fault::default(),
        };
        Box::new(crowd).answer(Some(Error::Unavailable("the disk is full".into())));
        let answer = heard.try_recv().expect("an answer, not silence");
        assert!(answer.is_err_and(|error| error.is_transient()), "it may be tried again");
        assert!(waiting.join(second), "who comes next sends a request of its own");
    }
}
