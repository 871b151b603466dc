//! The crowd before SQLite's writer.
//!
//! A caller puts its message to those that wait. Who finds nobody there sends the writer one
//! request for all who will have come by then; so a caller alone pays no more than any other
//! verb, and a crowd is written by a few statements and one commit. Whoever waits is served by
//! a request that is on its way: it takes them all, and the next to come sends another one.

use super::{Party, Single, answer, parties, same};
use crate::base::error::{Error, Result};
use crate::store::Store;
use crate::store::fault::Fault;
use crate::store::messages::{Enqueued, enqueue_all};
use crate::store::planted::Bug;
use crate::store::points::{Point, reach};
use crate::store::sqlite::Sqlite;
use crate::store::sqlite::threads::{Request, finish, guarded};
use crate::store::tx::Tx;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Those whose messages no request has taken yet.
#[derive(Debug, Default)]
pub(super) struct Waiting(Mutex<Vec<Single>>);

impl Waiting {
    fn all(&self) -> MutexGuard<'_, Vec<Single>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this is the first.
    fn join(&self, single: Single) -> bool {
        let mut all = self.all();
        all.push(single);
        all.len() == 1
    }
}

impl Store {
    pub(super) async fn join_crowd(
        &self,
        db: &Sqlite,
        single: Single,
        answer: oneshot::Receiver<Result<Enqueued>>,
    ) -> Result<Enqueued> {
        self.cut.there().await?;
        let waiting = &self.company.crowd;
        if waiting.join(single) {
            let crowd = Crowd { waiting: Arc::clone(waiting), served: Vec::new(), fault: self.fault };
            if !db.hand_to_writer(Box::new(crowd)) {
                waiting.all().clear();
            }
        }
        let gone = |_| Error::Unavailable("the database thread has stopped".into());
        let enqueued = answer.await.map_err(gone)?;
        self.cut.back().await;
        reach(Point::EnqueuedBeforeAnswer);
        enqueued
    }
}

/// The request that serves all who wait when its turn comes.
struct Crowd {
    waiting: Arc<Waiting>,
    served: Vec<(Party, Result<Vec<Enqueued>>)>,
    fault: Fault,
}

impl Crowd {
    fn take_all(&mut self) {
        let singles = std::mem::take(&mut *self.waiting.all());
        let not_yet = || Err(Error::Unavailable("the request was not run".into()));
        self.served.extend(parties(singles.into_iter()).into_values().map(|party| (party, not_yet())));
    }
}

impl Request for Crowd {
    fn run(&mut self, tx: &mut Tx) -> bool {
        self.take_all();
        *tx.fault() = self.fault;
        for (party, written) in &mut self.served {
            *written = guarded(|| finish(Box::pin(enqueue_all(tx, &party.batch))));
        }
        self.served.iter().all(|(_, written)| written.is_ok())
    }

    fn answer(self: Box<Self>, trouble: Option<Error>) {
        // One party's failure rolled back what the others wrote.
        let failed = self.served.iter().find_map(|(_, written)| written.as_ref().err().map(same));
        let trouble = trouble.or(failed);
        for (party, written) in self.served {
            answer(trouble.as_ref().map_or(written, |trouble| Err(same(trouble))), party.replies);
        }
    }

    fn callers(&self) -> usize {
        let served: usize = self.served.iter().map(|(party, _)| party.replies.len()).sum();
        served + self.waiting.all().len()
    }

    fn has(&self, bug: Bug) -> bool {
        self.fault.has(bug)
    }
}
