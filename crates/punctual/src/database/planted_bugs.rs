//! Planted bugs: mistakes that this field has made, to be switched on in tests.
//!
//! A harness that finds nothing proves something only if it would have found these. With the
//! feature `testing`, a handle can be given one of them ([`Store::with_bug`]); each must then be
//! caught. Without the feature none can be planted, and asking costs nothing.

use crate::database::fault::Fault;
use crate::database::store::Store;

/// A mistake that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedBug {
    /// A settlement is accepted in every state of its claim.
    NoFence,
    /// The reaper lists claims first, and closes them later by their name alone.
    ReapByIdOnly,
    /// On SQLite, a writing transaction begins as a reading one.
    DeferredBegin,
    /// Due work is handed out before the transaction that takes it has committed.
    TimerFiredBeforeCommit,
    /// The next run of a job is found by the host's clock.
    CronPlannedByHostClock,
    /// The dispatcher looks only when it is woken or knows of something due.
    LostWakeUpWithoutPolling,
    /// The last look before a send locks nothing.
    IntentWithoutLock,
    /// The last look before a send does not ask whether the entry has ended.
    SendAfterTheEnd,
    /// The new state of an entry after a send is written even if the entry has changed meanwhile.
    StandingWithoutVersion,
    /// On SQLite, a commit that failed is answered as one that did not happen.
    FailedCommitIsRefused,
    /// Outcomes of deliveries are written in every state of their claim.
    SettleWithoutToken,
    /// An entry ends, and its waiting deliveries are not asked.
    EndWithoutDeliveries,
    /// After a crash every delivery of the claim comes back as not begun.
    LostSendsAreForgotten,
    /// A channel is called first, and the claim of the delivery is taken when it has answered.
    IntentAfterCall,
    /// The key of a delivery is made anew whenever its message is rendered.
    KeyMadeAtRender,
    /// Whether a delivery is in flight is looked up by its number alone, among items of every purpose.
    LookUpWithoutPurpose,
    /// Every process takes the whole limit of a channel for its own.
    LimitOfEachProcess,
    /// The first tick of the loop `retention` never ends.
    StuckLoop,
    /// A forecast of sends asks neither for consent nor for the entity.
    ForecastAsksNobody,
}

impl PlantedBug {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::NoFence,
        Self::ReapByIdOnly,
        Self::DeferredBegin,
        Self::TimerFiredBeforeCommit,
        Self::CronPlannedByHostClock,
        Self::LostWakeUpWithoutPolling,
        Self::IntentWithoutLock,
        Self::SendAfterTheEnd,
        Self::StandingWithoutVersion,
        Self::FailedCommitIsRefused,
        Self::SettleWithoutToken,
        Self::EndWithoutDeliveries,
        Self::LostSendsAreForgotten,
        Self::IntentAfterCall,
        Self::KeyMadeAtRender,
        Self::LookUpWithoutPurpose,
        Self::LimitOfEachProcess,
        Self::StuckLoop,
        Self::ForecastAsksNobody,
    ];

    /// Returns its name, for a process that gets it as text.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoFence => "no-fence",
            Self::ReapByIdOnly => "reap-by-id-only",
            Self::DeferredBegin => "deferred-begin",
            Self::TimerFiredBeforeCommit => "timer-fired-before-commit",
            Self::CronPlannedByHostClock => "cron-planned-by-host-clock",
            Self::LostWakeUpWithoutPolling => "lost-wake-up-without-polling",
            Self::IntentWithoutLock => "intent-without-lock",
            Self::SendAfterTheEnd => "send-after-the-end",
            Self::StandingWithoutVersion => "standing-without-version",
            Self::FailedCommitIsRefused => "failed-commit-is-refused",
            Self::SettleWithoutToken => "settle-without-token",
            Self::EndWithoutDeliveries => "end-without-deliveries",
            Self::LostSendsAreForgotten => "lost-sends-are-forgotten",
            Self::IntentAfterCall => "intent-after-call",
            Self::KeyMadeAtRender => "key-made-at-render",
            Self::LookUpWithoutPurpose => "look-up-without-purpose",
            Self::LimitOfEachProcess => "limit-of-each-process",
            Self::StuckLoop => "stuck-loop",
            Self::ForecastAsksNobody => "forecast-asks-nobody",
        }
    }

    /// The bug of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|bug| bug.name() == name)
    }
}

impl Store {
    /// Whether this handle has the bug.
    #[inline]
    pub(crate) const fn has(&self, bug: PlantedBug) -> bool {
        self.fault.has(bug)
    }

    /// The same database through a handle that has a bug.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn with_bug(&self, bug: PlantedBug) -> Self {
        Self { fault: self.fault.with_bug(bug), ..self.alone() }
    }
}

impl super::tx::Tx {
    /// Whether this transaction's handle has the bug.
    #[inline]
    pub(crate) const fn has(&mut self, bug: PlantedBug) -> bool {
        self.fault().has(bug)
    }

    /// With the bug, this transaction is answered before it commits.
    #[inline]
    pub(crate) const fn fire_early(&mut self) {
        if self.has(PlantedBug::TimerFiredBeforeCommit) {
            self.fault().fire_early();
        }
    }
}

impl super::tx::VerbCall {
    /// Whether this call's handle has the bug.
    #[cfg(feature = "sqlite")]
    #[inline]
    pub(crate) const fn has(&self, bug: PlantedBug) -> bool {
        self.fault.has(bug)
    }
}

impl Fault {
    #[cfg(not(feature = "testing"))]
    #[inline]
    pub(crate) const fn has(&self, _: PlantedBug) -> bool {
        false
    }

    #[cfg(not(feature = "testing"))]
    #[inline]
    pub(crate) const fn fire_early(&mut self) {}

    #[cfg(all(not(feature = "testing"), feature = "sqlite"))]
    #[inline]
    pub(crate) const fn fires_early(&self) -> bool {
        false
    }
}

/// How long a transaction that was answered before its commit takes to get there.
#[cfg(all(feature = "testing", feature = "postgres"))]
pub(crate) const LATE: std::time::Duration = std::time::Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bug_is_found_by_its_name() {
        for bug in PlantedBug::ALL {
            assert_eq!(PlantedBug::named(bug.name()), Some(*bug));
        }
    }
}
