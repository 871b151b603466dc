//! Time travel: stepping an engine on the manual clock.
//!
//! Time moves from one due moment to the next, and at each of them everything that is due
//! is done before it moves on. Only one process moves the clock at a time.

use super::{Engine, run_all};
use crate::base::clock::Timestamp;
use crate::base::error::{Error, Result};
use crate::base::limits::CLAIM_ITEMS_MAX;
use crate::run::dispatch::{Dispatcher, Rest};
use crate::run::inbox::InboxKeeper;
use crate::run::plan::Planner;
use crate::run::prune::Pruner;
use crate::run::reap::Reaper;
use crate::run::receipts::EarlyReceipts;
use crate::run::send::{Round, Sender};
use crate::store::clock::ClockMode;
use crate::store::tx::VerbFuture;
use std::sync::Arc;
use std::time::Duration;

/// What stepping did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stepped {
    /// Items that were handled well.
    pub done: usize,
    /// Items that were not.
    pub failed: usize,
    /// Items that came back from lost claims.
    pub reaped: usize,
    /// What entries came to.
    pub entries: Round,
}

impl Stepped {
    const fn add(&mut self, other: Self) {
        self.done += other.done;
        self.failed += other.failed;
        self.reaped += other.reaped;
        self.entries.add(other.entries);
    }
}

/// What a tick did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Ticked {
    /// Letters that a channel took.
    pub sent: usize,
    /// Tries of letters that did not go well.
    pub failed: usize,
    /// Entries that expired.
    pub expired: usize,
    /// Messages that were handled well.
    pub dispatched: usize,
}

impl From<Stepped> for Ticked {
    fn from(step: Stepped) -> Self {
        let Round { sent, failed, expired, .. } = step.entries;
        Self { sent, failed, expired, dispatched: step.done }
    }
}

/// How long a call waits for another process that is moving the clock.
const CLOCK_PATIENCE: Duration = Duration::from_secs(60);
/// How long a tick waits for handlers that are busy with what the loops gave them.
const ROOM_PAUSE: Duration = Duration::from_millis(50);

impl Engine {
    /// Does everything that is due at the present moment, until nothing is.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn step(&self) -> VerbFuture<'_, Stepped> {
        VerbFuture::new(async move {
            let _alone = self.inner.stepping.lock().await;
            self.step_now(CLAIM_ITEMS_MAX).await
        })
    }

    /// The same with claims of entries of this size, and told in the words of a scheduler's tick.
    /// It may be called on any clock, and beside loops and other ticks: each does its share.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn tick(&self, batch: usize) -> VerbFuture<'_, Ticked> {
        VerbFuture::new(async move {
            let _alone = self.inner.stepping.lock().await;
            self.step_now(batch).await.map(Into::into)
        })
    }

    async fn step_now(&self, batch: usize) -> Result<Stepped> {
        let mut total = Stepped::default();
        let mut dispatcher = Dispatcher::new(Arc::clone(&self.inner.shop));
        let (store, wake) = (self.store().clone(), self.inner.shop.wake.clone());
        let mut planner = Planner::new(store.clone(), wake.clone(), self.inner.shop.poll_max);
        let mut reaper = Reaper::new(store, wake);
        let mut sender = Sender::new(Arc::clone(&self.inner.post), batch, self.inner.shop.poll_max);
        let mut early = EarlyReceipts::new(Arc::clone(&self.inner.post), self.inner.shop.poll_max);
        loop {
            planner.plan_all().await?;
            early.look_all().await?;
            total.reaped += reaper.reap_all().await?.returned;
            let round = sender.run_due().await?;
            total.entries.add(round);
            dispatcher.look_again();
            let (batches, rest) = dispatcher.tick().await?;
            if batches.is_empty() && matches!(rest, Rest::Idle(_)) && round.seen == 0 {
                return Ok(total);
            }
            if batches.is_empty() && rest == Rest::Full {
                // The loops of this process are at it, and will make room.
                tokio::time::sleep(ROOM_PAUSE).await;
            }
            let (done, failed) = run_all(batches).await;
            total.done += done;
            total.failed += failed;
        }
    }

    /// Moves the manual clock to `to`; on the way forward everything that becomes due is
    /// done, in order, each at its own due time. Going back fires nothing.
    ///
    /// # Errors
    /// [`Error::Conflict`] on the system clock, or while another process moves this one.
    pub fn travel(&self, to: Timestamp, run: bool) -> VerbFuture<'_, Stepped> {
        VerbFuture::new(async move {
            if self.inner.clock != ClockMode::Manual {
                return Err(Error::Conflict("time travel needs --clock manual".into()));
            }
            let _alone = self.inner.stepping.lock().await;
            let holder = self.inner.shop.owner.as_str();
            self.take_clock(holder).await?;
            let result = self.travel_holding(to, run).await;
            self.store().free_clock(holder).await?;
            result
        })
    }

    async fn take_clock(&self, holder: &str) -> Result<()> {
        let patience = async {
            while !self.store().hold_clock(holder).await? {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Ok(())
        };
        let busy = || Error::Conflict("another process is moving the clock; try again".into());
        tokio::time::timeout(CLOCK_PATIENCE, patience).await.map_err(|_| busy())?
    }

    /// When something is due next: work, a job, a lease's end, or what a closed channel held back.
    async fn next_moment(&self) -> Result<Option<Timestamp>> {
        let due = self.store().next_moment(self.topics(), self.subscribers()).await?;
        Ok(due.into_iter().chain(self.inner.post.held_until()).min())
    }

    async fn travel_holding(&self, to: Timestamp, run: bool) -> Result<Stepped> {
        let mut total = Stepped::default();
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
        Pruner::new(self.store().clone(), self.inner.retention, self.inner.log_retention).pass().await?;
        InboxKeeper::new(self.store().clone(), self.inner.inbox).pass().await?;
        Ok(total)
    }
}
