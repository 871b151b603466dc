//! Time travel: stepping an engine on the manual clock.
//!
//! Time moves from one due moment to the next, and at each of them all due work
//! is done before it moves on. On the manual clock one process at a time moves time or does due work: it
//! holds the clock in the database, and renews its hold while it works. On the system clock, ticks of several
//! processes run side by side.

use crate::base::clock::Timestamp;
use crate::base::component::Component;
use crate::base::error::{Error, Result};
use crate::base::limits::CLAIM_ITEMS_MAX;
use crate::base::random;
use crate::database::clock::ClockMode;
use crate::database::tx::VerbFuture;
use crate::delivery::run::receipts::EarlyReceipts;
use crate::engine::Engine;
use crate::jobs::run::plan::JobPlanner;
use crate::operate::run::prune::Pruner;
use crate::queue::run::executor::WorkCounts;
use crate::queue::run::inbox::InboxPruner;
use crate::queue::run::reap::Reaper;
use crate::queue::run::worker::WorkerLoop;
use std::sync::Arc;
use std::time::Duration;

/// The result of stepping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepCounts {
    /// Messages that a handler took well.
    pub handled: usize,
    /// Attempts of handlers that did not go well.
    pub handler_failures: usize,
    /// Messages that a channel took.
    pub sent: usize,
    /// Sends that did not go well.
    pub send_failures: usize,
    /// Entries that expired.
    pub expired: usize,
    /// Items that came back from lost claims.
    pub reaped: usize,
}

impl StepCounts {
    const fn add(&mut self, other: Self) {
        self.handled += other.handled;
        self.handler_failures += other.handler_failures;
        self.sent += other.sent;
        self.send_failures += other.send_failures;
        self.expired += other.expired;
        self.reaped += other.reaped;
    }
}

impl From<WorkCounts> for StepCounts {
    fn from(counts: WorkCounts) -> Self {
        let WorkCounts { handled, handler_failures, sent, send_failures, expired, .. } = counts;
        Self { handled, handler_failures, sent, send_failures, expired, reaped: 0 }
    }
}

/// The result of a tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct TickCounts {
    /// Messages that a channel took.
    pub sent: usize,
    /// Failed tries of messages.
    pub failed: usize,
    /// Entries that expired.
    pub expired: usize,
    /// Messages that were handled well.
    pub dispatched: usize,
}

impl From<StepCounts> for TickCounts {
    fn from(step: StepCounts) -> Self {
        let StepCounts { sent, send_failures, expired, handled, .. } = step;
        Self { sent, failed: send_failures, expired, dispatched: handled }
    }
}

/// The time that a call waits for another process that holds the clock.
const CLOCK_PATIENCE: Duration = Duration::from_secs(60);
/// The interval at which a holder of the clock renews its hold, which lasts 30 seconds.
const HOLD_RENEWAL: Duration = Duration::from_secs(2);

impl Engine {
    /// Does everything that is due at the present moment, until nothing is.
    ///
    /// # Errors
    /// When the database does not answer; on the manual clock also [`Error::Conflict`] when another process
    /// holds the clock for a minute.
    pub fn step(&self) -> VerbFuture<'_, StepCounts> {
        VerbFuture::new(self.step_alone(CLAIM_ITEMS_MAX))
    }

    /// The same with claims of entries of this size, reported in the words of a scheduler's tick. The method
    /// may be called on any clock, and beside loops and other ticks: each does its share. On the manual clock
    /// ticks of several processes wait for each other.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn tick(&self, batch: usize) -> VerbFuture<'_, TickCounts> {
        VerbFuture::new(async move { self.step_alone(batch).await.map(Into::into) })
    }

    async fn step_alone(&self, batch: usize) -> Result<StepCounts> {
        let _alone = self.inner.stepping.lock().await;
        match self.inner.clock {
            ClockMode::System => self.step_now(batch).await,
            ClockMode::Manual => self.holding_clock(self.step_now(batch)).await,
        }
    }

    async fn step_now(&self, batch: usize) -> Result<StepCounts> {
        let mut total = StepCounts::default();
        let (store, wake) = (self.store().clone(), self.inner.worker.wake.clone());
        let mut planner = JobPlanner::new(store.clone(), wake.clone(), self.inner.worker.poll_max);
        let mut reaper = Reaper::new(store, wake);
        let (worker, executors) = (Arc::clone(&self.inner.worker), self.inner.executors.clone());
        let mut worker = WorkerLoop::in_turn(worker, executors, batch);
        let mut early = EarlyReceipts::new(Arc::clone(&self.inner.delivery), self.inner.worker.poll_max);
        let components = self.inner.components;
        if !components.has(Component::Outbox) {
            return Ok(total);
        }
        loop {
            if components.has(Component::Jobs) {
                planner.plan_all().await?;
            }
            if components.has(Component::Flows) {
                early.look_up_all().await?;
            }
            let reaped = reaper.reap_all().await?.returned;
            let work = worker.run_due().await?;
            total.add(StepCounts { reaped, ..work.into() });
            if work.seen == 0 {
                return Ok(total);
            }
        }
    }

    /// Moves the manual clock to `to`; on the way forward everything that becomes due is
    /// done, in order, each at its own due time. Going back fires nothing.
    ///
    /// # Errors
    /// [`Error::Conflict`] on the system clock, or while another process holds this one.
    pub fn travel(&self, to: Timestamp, run: bool) -> VerbFuture<'_, StepCounts> {
        VerbFuture::new(async move {
            if self.inner.clock != ClockMode::Manual {
                return Err(Error::Conflict("time travel needs --clock manual".into()));
            }
            let _alone = self.inner.stepping.lock().await;
            self.holding_clock(self.travel_holding(to, run)).await
        })
    }

    /// Does the work while this engine holds the clock. If another process takes the clock over, the work
    /// ends, and its claimed items come back when their lease ends.
    async fn holding_clock(&self, work: impl Future<Output = Result<StepCounts>>) -> Result<StepCounts> {
        // Two engines may have one owner's name, so each hold has a name of its own.
        let holder = format!("{}/{}", self.inner.worker.owner, random::hex::<8>());
        self.take_clock(&holder).await?;
        let result = tokio::select! {
            biased;
            done = work => done,
            lost = self.keep_clock(&holder) => Err(lost),
        };
        let freed = self.store().release_clock(&holder).await;
        result.and_then(|done| freed.map(|()| done))
    }

    /// Renews the hold until it is lost; returns why. An error of the database does not lose it: the next
    /// renewal may come in time.
    async fn keep_clock(&self, holder: &str) -> Error {
        loop {
            tokio::time::sleep(HOLD_RENEWAL).await;
            match self.store().renew_clock(holder).await {
                Ok(true) => {}
                Ok(false) => {
                    return Error::Conflict("another process has taken over the clock; try again".into());
                }
                Err(error) => {
                    tracing::warn!(target: "punctual", %error, "the hold of the clock could not be renewed");
                }
            }
        }
    }

    async fn take_clock(&self, holder: &str) -> Result<()> {
        let patience = async {
            while !self.store().hold_clock(holder).await? {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Ok(())
        };
        let busy = || Error::Conflict("another process holds the clock; try again".into());
        tokio::time::timeout(CLOCK_PATIENCE, patience).await.map_err(|_| busy())?
    }

    /// Returns the next due moment: of work, a job, a lease's end, or work that a closed channel held back.
    async fn next_moment(&self) -> Result<Option<Timestamp>> {
        let due = self.store().next_moment(self.topics(), self.subscribers()).await?;
        Ok(due.into_iter().chain(self.inner.worker.opens_at()).min())
    }

    async fn travel_holding(&self, to: Timestamp, run: bool) -> Result<StepCounts> {
        let mut total = StepCounts::default();
        if !run || to <= self.store().now().await? {
            self.store().set_clock(to).await?;
            return Ok(total);
        }
        total.add(self.step_now(CLAIM_ITEMS_MAX).await?);
        while let Some(next) = self.next_moment().await?.filter(|next| *next < to) {
            self.store().set_clock(next).await?;
            total.add(self.step_now(CLAIM_ITEMS_MAX).await?);
        }
        self.store().set_clock(to).await?;
        total.add(self.step_now(CLAIM_ITEMS_MAX).await?);
        // Housekeeping once per jump, not once per virtual moment.
        self.keep_house().await?;
        Ok(total)
    }

    async fn keep_house(&self) -> Result<()> {
        let (store, retention, components) = (self.store(), self.inner.retention, self.inner.components);
        Pruner::new(store.clone(), retention).only(components).pass().await?;
        if components.has(Component::Inbox) {
            InboxPruner::new(store.clone(), self.inner.inbox, retention.messages).pass().await?;
        }
        Ok(())
    }
}
