//! Timers: scheduling is enqueueing with a due time; changing one is a verb of the store.
//! A filter is carried out in batches, each in a transaction of its own.

use crate::base::clock::Timestamp;
use crate::base::error::{Problems, Result};
use crate::base::id::MessageId;
use crate::base::limits;
use crate::base::tenant::Tenant;
use crate::database::tx::VerbFuture;
use crate::engine::{Engine, gone};
use crate::queue::rules::message::NewMessage;
use crate::queue::rules::timer;
use crate::queue::rules::timer::{DueTime, NewTimer, ScheduledTimer};
use crate::queue::store::messages::EnqueueOutcome;
use crate::queue::store::timers::TimerFilter;
use std::time::Duration;

/// The result of a change by filter, or of a dry run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimerChangeOutcome {
    /// The timers that were changed in time, in the order of their ids.
    pub ids: Vec<MessageId>,
    /// Whether there may be more than one call changes.
    pub more: bool,
}

/// The new due time of moved timers.
#[derive(Clone, Copy, Debug)]
pub struct TimerMove {
    /// When they are due.
    pub when: DueTime,
    /// The window over which they are spread.
    pub spread: Option<Duration>,
}

impl Engine {
    /// Schedules timers, whole or not at all; answers in the order given. With `spread`,
    /// those of equal due times are spread evenly over that window (see
    /// [`crate::queue::rules::timer`]).
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] with every problem; nothing is written then.
    pub fn schedule(
        &self,
        tenant: Tenant,
        timers: Vec<NewTimer>,
        spread: Option<Duration>,
    ) -> VerbFuture<'_, Vec<ScheduledTimer>> {
        VerbFuture::new(async move {
            timer::problems(&timers, spread).into_result()?;
            let when: Vec<DueTime> = timers.iter().map(|t| t.when).collect();
            let due = timer::due_times(&when, self.store().now().await?, spread);
            let messages = timers.into_iter().zip(&due);
            let messages = messages.map(|(t, due)| NewMessage { due_at: Some(*due), ..t.message }).collect();
            let enqueued = self.enqueue(tenant, messages).await?;
            let mut scheduled = Vec::with_capacity(due.len());
            for (one, due_at) in enqueued.iter().zip(due) {
                scheduled.push(match one {
                    EnqueueOutcome::New(id) => ScheduledTimer { id: *id, due_at, duplicate: false },
                    EnqueueOutcome::Duplicate { of, .. } => self.first_of(tenant, *of, due_at).await?,
                });
            }
            Ok(scheduled)
        })
    }

    /// Schedules one timer.
    ///
    /// # Errors
    /// As [`Engine::schedule`].
    pub fn schedule_one(&self, tenant: Tenant, timer: NewTimer) -> VerbFuture<'_, ScheduledTimer> {
        VerbFuture::new(async move {
            let scheduled = self.schedule(tenant, vec![timer], None).await?;
            scheduled.first().copied().ok_or_else(gone)
        })
    }

    /// The timer whose id was admitted first.
    async fn first_of(
        &self,
        tenant: Tenant,
        of: Option<MessageId>,
        due_at: Timestamp,
    ) -> Result<ScheduledTimer> {
        let id = of.ok_or_else(gone)?;
        let first = self.store().timer(tenant, id).await?;
        let due_at = first.map_or(due_at, |timer| timer.due_at);
        Ok(ScheduledTimer { id, due_at, duplicate: true })
    }

    /// Cancels a timer; answers whether it was in time.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn cancel_timer(&self, tenant: Tenant, id: MessageId) -> VerbFuture<'_, bool> {
        VerbFuture::new(async move {
            let done = self.store().cancel_timers(tenant, vec![id]).await?;
            self.wake_all().await;
            Ok(!done.is_empty())
        })
    }

    /// Moves a timer to another time; answers when it is due now, or `None` when it was too
    /// late to move it.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] for a time out of range.
    pub fn move_timer(
        &self,
        tenant: Tenant,
        id: MessageId,
        when: DueTime,
    ) -> VerbFuture<'_, Option<Timestamp>> {
        VerbFuture::new(async move {
            let to = TimerMove { when, spread: None };
            to.check()?;
            let due = when.from(self.store().now().await?);
            let done = self.store().move_timers(tenant, vec![(id, due)]).await?;
            self.wake_all().await;
            Ok((!done.is_empty()).then_some(due))
        })
    }

    /// Cancels all selected timers, up to a million at once; with `dry_run` only returns which.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] when a filter is not a name.
    pub fn cancel_timers(
        &self,
        tenant: Tenant,
        which: TimerFilter,
        dry_run: bool,
    ) -> VerbFuture<'_, TimerChangeOutcome> {
        VerbFuture::new(async move { self.change_timers(tenant, which, None, dry_run).await })
    }

    /// Moves all timers that are meant, as [`Engine::cancel_timers`] cancels them.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] when a filter is not a name, or a time is out of range.
    pub fn move_timers(
        &self,
        tenant: Tenant,
        which: TimerFilter,
        to: TimerMove,
        dry_run: bool,
    ) -> VerbFuture<'_, TimerChangeOutcome> {
        VerbFuture::new(async move {
            to.check()?;
            self.change_timers(tenant, which, Some(to), dry_run).await
        })
    }

    async fn change_timers(
        &self,
        tenant: Tenant,
        which: TimerFilter,
        to: Option<TimerMove>,
        dry_run: bool,
    ) -> Result<TimerChangeOutcome> {
        let store = self.store();
        let ids = store.timer_ids(tenant, which, limits::TIMERS_CHANGED_MAX).await?;
        let mut changed =
            TimerChangeOutcome { ids: Vec::new(), more: ids.len() == limits::TIMERS_CHANGED_MAX };
        let now = store.now().await?;
        let due = to.map(|to| timer::due_times(&vec![to.when; ids.len()], now, to.spread));
        for (n, part) in ids.chunks(limits::BATCH_ITEMS_MAX).enumerate() {
            let done = match &due {
                _ if dry_run => store.timers_in_time(tenant, part.to_vec()).await?,
                None => store.cancel_timers(tenant, part.to_vec()).await?,
                Some(due) => {
                    let due = due.iter().skip(n * limits::BATCH_ITEMS_MAX).copied();
                    store.move_timers(tenant, part.iter().copied().zip(due).collect()).await?
                }
            };
            changed.ids.extend(done);
        }
        if !dry_run {
            self.wake_all().await;
        }
        Ok(changed)
    }
}

impl TimerMove {
    fn check(&self) -> Result<()> {
        let mut problems = Problems(timer::check_when(self.when).into_iter().collect());
        problems.0.extend(timer::problems(&[], self.spread).0);
        problems.into_result()
    }
}
