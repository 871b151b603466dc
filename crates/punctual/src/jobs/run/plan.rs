//! The planner: sleeps until the next job is due, then makes its runs.
//!
//! The planner looks when a job has changed in this process, or when another process has written anything at
//! all; since that may be often, never more often than every `LOOK_MIN`. The database's clock at the look
//! decides which jobs are due, and nothing that is remembered here.

use crate::base::error::Result;
use crate::database::store::Store;
use crate::jobs::run::gauge;
use crate::queue::run::loop_health::LoopBody;
use crate::queue::run::wake::Wake;
use std::time::Duration;

/// Wake-ups make it look at most this often.
const LOOK_MIN: Duration = Duration::from_millis(100);
/// Another process plans the due jobs: look again after this long.
const TAKEN: Duration = Duration::from_millis(20);

/// The loop that plans.
#[derive(Debug)]
pub struct JobPlanner {
    store: Store,
    wake: Wake,
    poll: Duration,
    next: Duration,
}

impl JobPlanner {
    /// A planner that looks at least every `poll`, and wakes the dispatcher when there are runs.
    #[must_use]
    pub const fn new(store: Store, wake: Wake, poll: Duration) -> Self {
        Self { store, wake, poll, next: poll }
    }

    /// Plans everything that is due by now; answers how many jobs that were.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn plan_all(&mut self) -> Result<usize> {
        let mut jobs = 0;
        loop {
            let due = self.store.peek_jobs().await?;
            if due.next.is_none_or(|next| next > due.now) {
                self.next = due.next.map_or(self.poll, |next| next.since(due.now));
                return Ok(jobs);
            }
            let planned = self.store.plan_jobs().await?;
            if planned.jobs == 0 {
                self.next = TAKEN;
                return Ok(jobs);
            }
            jobs += planned.jobs;
            gauge::planned(&planned);
            if planned.started > 0 {
                self.wake.all();
            }
        }
    }
}

impl LoopBody for JobPlanner {
    async fn tick(&mut self) -> Result<()> {
        self.plan_all().await.map(|_| ())
    }

    async fn wait(&mut self) {
        let due = tokio::time::sleep(self.next.min(self.poll));
        let changed = async {
            // A look that just was is soon enough; the wake-up itself is not lost meanwhile.
            tokio::time::sleep(LOOK_MIN).await;
            self.wake.job_changed().await;
        };
        tokio::select! {
            biased;
            () = due => {}
            () = changed => {}
        }
    }
}
