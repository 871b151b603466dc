//! The state of an entry: the columns of its row that the rules use, and their change by each transition.
//!
//! A state is a value. The store reads one, has it changed here, and writes it under the version it read.

use crate::base::clock::Timestamp;
use crate::flow::rules::entry::schedule::{NextSend, SendSchedule};
use crate::flow::rules::entry::{EntryStatus, Transition, TransitionRefusal};
use std::time::Duration;

/// Where an entry stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryState {
    /// The status of the entry.
    pub status: EntryStatus,
    /// When it was made.
    pub triggered_at: Timestamp,
    /// When the next send is due; `None`: none is.
    pub next_send_at: Option<Timestamp>,
    /// When the last send went out.
    pub last_sent_at: Option<Timestamp>,
    /// The reminders that are left, as the row has it.
    pub remaining: i64,
}

impl EntryState {
    /// A new entry, made at `now` for an event of `occurred_at`.
    #[must_use]
    pub fn new(schedule: &SendSchedule, occurred_at: Option<Timestamp>, now: Timestamp) -> Self {
        Self {
            status: EntryStatus::Pending,
            triggered_at: now,
            next_send_at: Some(schedule.first_send(occurred_at, now)),
            last_sent_at: None,
            remaining: schedule.total(),
        }
    }

    /// Whether a send is due: active, and its time has come.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.status.is_active() && self.next_send_at.is_some_and(|at| at <= now)
    }

    /// The due send went out at `now`.
    ///
    /// # Errors
    /// When the entry has ended meanwhile: the send is logged, and nothing else.
    pub fn sent(&self, schedule: &SendSchedule, now: Timestamp) -> Result<Self, TransitionRefusal> {
        let status = self.status.after(Transition::Sent)?;
        let NextSend { next_send_at, remaining } = schedule.after_send(self.remaining, now);
        Ok(Self { status, next_send_at, remaining, last_sent_at: Some(now), ..*self })
    }

    /// The due send was given up at `now`. Later reminders still go; if none is left and nothing
    /// ever got through, the entry has failed.
    ///
    /// # Errors
    /// When the entry has ended meanwhile.
    pub fn gave_up(&self, schedule: &SendSchedule, now: Timestamp) -> Result<Self, TransitionRefusal> {
        let due_at = self.next_send_at.unwrap_or(now);
        let NextSend { next_send_at, remaining } = schedule.after_giving_up(self.remaining, due_at, now);
        let transition = if next_send_at.is_some() { Transition::NotSent } else { Transition::GaveUp };
        Ok(Self { status: self.status.after(transition)?, next_send_at, remaining, ..*self })
    }

    /// Returns the state without a next send, because there is no such channel. The entry stays active and
    /// expires later; an operator may correct the configuration and retry it before.
    ///
    /// # Errors
    /// When the entry has ended meanwhile.
    pub fn halted(&self) -> Result<Self, TransitionRefusal> {
        Ok(Self { status: self.status.after(Transition::NotSent)?, next_send_at: None, ..*self })
    }

    /// Returns the state after a due send that is not made, because the recipient is suppressed or opted out.
    /// No later send is made either: if the recipient opts in again, overdue sends do not all come at once. A
    /// recipient who has the link may still answer; if no message was sent, the entry has failed.
    ///
    /// # Errors
    /// When the entry has ended meanwhile.
    pub fn refused(&self) -> Result<Self, TransitionRefusal> {
        Ok(Self { status: self.status.after(Transition::GaveUp)?, next_send_at: None, ..*self })
    }

    /// The due send waits until `at`, and uses up nothing. If nothing is to be sent any more, nothing is.
    ///
    /// # Errors
    /// When the entry has ended meanwhile.
    pub fn shifted(&self, at: Timestamp) -> Result<Self, TransitionRefusal> {
        let status = self.status.after(Transition::NotSent)?;
        Ok(Self { status, next_send_at: self.next_send_at.map(|_| at), ..*self })
    }

    /// Returns the state in which the send that was given up last is made once more, at `now`.
    ///
    /// # Errors
    /// When it has not failed.
    pub fn replayed(&self, now: Timestamp) -> Result<Self, TransitionRefusal> {
        Ok(Self { status: self.status.after(Transition::Replayed)?, next_send_at: Some(now), ..*self })
    }

    /// Returns the state after a transition that is not a send. An entry that is not active any more has no
    /// next send.
    ///
    /// # Errors
    /// When the transition may not happen any more.
    pub fn after(&self, transition: Transition) -> Result<Self, TransitionRefusal> {
        let status = self.status.after(transition)?;
        Ok(Self { status, next_send_at: self.next_send_at.filter(|_| status.is_active()), ..*self })
    }

    /// Returns the first moment at which the entry has been quiet for longer than the grace, for the work
    /// that expires it; `None` if it does not expire in its present state (a send is still due, the entry is
    /// not active, or the moment cannot be written).
    ///
    /// Quiet is counted from the last send, or from when the entry was made.
    #[must_use]
    pub fn expires_at(&self, grace: Duration) -> Option<Timestamp> {
        if !self.status.is_active() || self.next_send_at.is_some() {
            return None;
        }
        let since = self.last_sent_at.unwrap_or(self.triggered_at);
        let grace_us = i64::try_from(grace.as_micros()).ok()?;
        // Strictly longer than the grace: times are whole microseconds.
        let at = since.as_micros().checked_add(grace_us)?.checked_add(1)?;
        Some(Timestamp::from_micros(at)).filter(|at| *at <= Timestamp::MAX)
    }

    /// Whether the entry has been quiet for longer than the grace and expires now.
    #[must_use]
    pub fn is_quiet(&self, now: Timestamp, grace: Duration) -> bool {
        self.expires_at(grace).is_some_and(|at| at <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::limits::EXPIRY_GRACE_DEFAULT as GRACE;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    const MADE: Timestamp = Timestamp::from_micros(1_778_735_554_000_000);

    fn quiet(status: EntryStatus, last_sent_at: Option<Timestamp>) -> EntryState {
        EntryState { status, triggered_at: MADE, next_send_at: None, last_sent_at, remaining: 0 }
    }

    /// TRG-14: strictly longer than the grace, since the last send, else since it was made.
    #[test]
    fn trg_14_an_entry_is_quiet_a_moment_after_its_grace() {
        let sent = MADE.plus(DAY * 7);
        let moment = Duration::from_micros(1);
        for (standing, since) in
            [(quiet(EntryStatus::Pending, None), MADE), (quiet(EntryStatus::Sent, Some(sent)), sent)]
        {
            for grace in [Duration::ZERO, DAY, GRACE] {
                let end = since.plus(grace);
                assert!(!standing.is_quiet(end, grace), "exactly the grace is not longer: {standing:?}");
                assert!(standing.is_quiet(end.plus(moment), grace), "{standing:?}");
                assert_eq!(standing.expires_at(grace), Some(end.plus(moment)));
            }
        }
    }

    /// TRG-14: only what is active and has no next send expires.
    #[test]
    fn trg_14_only_active_entries_without_a_next_send_expire() {
        let later = MADE.plus(GRACE * 10);
        for status in EntryStatus::ALL {
            let standing = quiet(status, None);
            assert_eq!(standing.is_quiet(later, GRACE), status.is_active(), "{status}");
            let to_be_sent = EntryState { next_send_at: Some(MADE), ..standing };
            assert!(!to_be_sent.is_quiet(later, GRACE), "{status}");
        }
    }

    #[test]
    fn a_grace_beyond_the_last_moment_is_never_over() {
        for grace in [Duration::MAX, Duration::from_secs(u64::MAX / 2_000_000), DAY * 365 * 8_000] {
            assert_eq!(quiet(EntryStatus::Sent, None).expires_at(grace), None, "{grace:?}");
            assert!(!quiet(EntryStatus::Sent, None).is_quiet(Timestamp::MAX, grace));
        }
    }

    /// TRG-15: the last send is given up: failed if nothing ever got through, else expired later.
    #[test]
    fn trg_15_an_entry_fails_when_no_send_got_through() {
        let schedule = SendSchedule { initial_delay: Duration::ZERO, reminders: vec![DAY] };
        let made = EntryState::new(&schedule, None, MADE);
        let once = made.gave_up(&schedule, MADE).unwrap();
        assert_eq!(
            (once.status, once.next_send_at, once.remaining),
            (EntryStatus::Pending, Some(MADE.plus(DAY)), 0)
        );
        let twice = once.gave_up(&schedule, MADE.plus(DAY)).unwrap();
        assert_eq!((twice.status, twice.next_send_at, twice.last_sent_at), (EntryStatus::Failed, None, None));
        assert_eq!(
            twice.after(Transition::Submitted).unwrap().status,
            EntryStatus::Completed,
            "the recipient had the link"
        );

        let reached = once.sent(&schedule, MADE.plus(DAY)).unwrap();
        assert_eq!(reached.status, EntryStatus::Sent, "a reminder may be the first that gets through");
        let invited = made.sent(&schedule, MADE).unwrap().gave_up(&schedule, MADE.plus(DAY)).unwrap();
        assert_eq!((invited.status, invited.next_send_at), (EntryStatus::Sent, None));
        assert!(invited.is_quiet(MADE.plus(GRACE + DAY), GRACE));
    }

    /// NTF-18: a recipient who opted out is not written to, now or later, and quiet hours cost no try.
    #[test]
    fn ntf_18_a_refusal_ends_the_sends_and_a_shift_only_moves_one() {
        let schedule = SendSchedule { initial_delay: Duration::ZERO, reminders: vec![DAY; 2] };
        let made = EntryState::new(&schedule, None, MADE);
        let refused = made.refused().unwrap();
        assert_eq!(
            (refused.status, refused.next_send_at),
            (EntryStatus::Failed, None),
            "the recipient does not have the link"
        );
        assert_eq!(refused.after(Transition::Submitted).unwrap().status, EntryStatus::Completed);
        let invited = made.sent(&schedule, MADE).unwrap();
        let stopped = invited.refused().unwrap();
        assert_eq!((stopped.status, stopped.next_send_at), (EntryStatus::Sent, None), "no reminder any more");
        assert!(stopped.expires_at(GRACE).is_some());
        let later = MADE.plus(DAY * 3);
        assert_eq!(invited.shifted(later).unwrap(), EntryState { next_send_at: Some(later), ..invited });
        assert_eq!(stopped.shifted(later).unwrap(), stopped, "what was halted stays so");
        for ended in [Transition::Submitted, Transition::Cancelled] {
            let ended = invited.after(ended).unwrap();
            assert!(ended.refused().is_err() && ended.shifted(later).is_err());
        }
    }

    /// TRG-15: an unknown channel halts the entry, and it expires by when it was made.
    #[test]
    fn trg_15_without_a_channel_an_entry_halts_and_expires_later() {
        let schedule = SendSchedule { initial_delay: DAY, reminders: vec![DAY; 3] };
        let halted = EntryState::new(&schedule, None, MADE).halted().unwrap();
        assert_eq!((halted.status, halted.next_send_at), (EntryStatus::Pending, None));
        assert!(!halted.is_due(Timestamp::MAX));
        assert_eq!(halted.expires_at(GRACE), Some(MADE.plus(GRACE).plus(Duration::from_micros(1))));
    }
}
