//! When an entry is sent: one invitation, and as many reminders as its trigger lists.
//!
//! Each wait counts from the actual time of the send before it, not from the planned one. The row remembers
//! only how many reminders are left; which one comes next is `total - remaining`. So a row and a schedule
//! that do not fit each other (a version that was changed, a row edited in the database) are possible: such
//! an entry halts, and expires later. Times beyond the last writable moment stop there ([`Timestamp::plus`]).

use crate::base::clock::Timestamp;
use std::time::Duration;

/// The timetable of one trigger.
///
/// ```
/// use punctual::base::duration;
/// use punctual::flow::rules::entry::schedule::SendSchedule;
/// use punctual::Timestamp;
///
/// let day = |days: &str| duration::parse(days).unwrap();
/// let cadence = SendSchedule { initial_delay: day("60d"), reminders: vec![day("5d"), day("10d")] };
/// let sold = Timestamp::parse("2026-01-01T09:00:00Z").unwrap();
/// let sends: Vec<String> = cadence.plan(sold).iter().map(ToString::to_string).collect();
/// assert_eq!(sends, ["2026-03-02T09:00:00Z", "2026-03-07T09:00:00Z", "2026-03-17T09:00:00Z"]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SendSchedule {
    /// From the event to the invitation.
    pub initial_delay: Duration,
    /// From each send to the one after it.
    pub reminders: Vec<Duration>,
}

/// The next step after a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextSend {
    /// When the next send is due; `None`: that was the last one.
    pub next_send_at: Option<Timestamp>,
    /// The reminders that are left after the next send.
    pub remaining: i64,
}

impl NextSend {
    /// Nothing follows.
    pub const NOTHING: Self = Self { next_send_at: None, remaining: 0 };
}

impl SendSchedule {
    /// The reminders that a new entry has left.
    #[must_use]
    pub fn total(&self) -> i64 {
        i64::try_from(self.reminders.len()).unwrap_or(i64::MAX)
    }

    /// Returns when the invitation is due: counted from the event, or from `now` if the event has no time.
    /// The time may have passed, and then the invitation is due at once.
    #[must_use]
    pub fn first_send(&self, occurred_at: Option<Timestamp>, now: Timestamp) -> Timestamp {
        occurred_at.unwrap_or(now).plus(self.initial_delay)
    }

    /// The number of the send that is due with so many reminders remaining: 1 is the invitation.
    /// Tries of the same send have the same number, so a retried invitation is not worded as a
    /// reminder.
    #[must_use]
    pub fn attempt(&self, remaining: i64) -> u32 {
        let sent = self.total().saturating_sub(remaining).clamp(0, self.total());
        u32::try_from(sent).unwrap_or(u32::MAX).saturating_add(1)
    }

    /// Returns the step after a send that went out at `sent_at`, with so many reminders remaining in the row.
    /// A number that does not fit the schedule halts.
    #[must_use]
    pub fn after_send(&self, remaining: i64, sent_at: Timestamp) -> NextSend {
        self.wait(remaining).map_or(NextSend::NOTHING, |wait| NextSend {
            next_send_at: Some(sent_at.plus(wait)),
            remaining: remaining - 1,
        })
    }

    /// Returns the step after a send that was due at `due_at` and was given up at `now`. The reminders keep
    /// their days: the wait counts from when the send was due. If that has passed as well, it counts from
    /// now, so that a channel that is down is not asked over and over.
    #[must_use]
    pub fn after_giving_up(&self, remaining: i64, due_at: Timestamp, now: Timestamp) -> NextSend {
        let in_time = self.after_send(remaining, due_at);
        match in_time.next_send_at {
            Some(at) if at <= now => self.after_send(remaining, now),
            _ => in_time,
        }
    }

    /// All sends of an entry whose event happened at `occurred_at`, if each goes out on time.
    #[must_use]
    pub fn plan(&self, occurred_at: Timestamp) -> Vec<Timestamp> {
        let first = occurred_at.plus(self.initial_delay);
        let reminders = self.reminders.iter().scan(first, |last, wait| {
            *last = last.plus(*wait);
            Some(*last)
        });
        std::iter::once(first).chain(reminders).collect()
    }

    /// The wait for the reminder that is next when so many remain.
    fn wait(&self, remaining: i64) -> Option<Duration> {
        let index = self.total().checked_sub(remaining)?;
        self.reminders.get(usize::try_from(index).ok()?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    const EVENT: Timestamp = Timestamp::from_micros(1_767_258_000_000_000);

    fn days(initial: u32, reminders: &[u32]) -> SendSchedule {
        SendSchedule { initial_delay: DAY * initial, reminders: reminders.iter().map(|n| DAY * *n).collect() }
    }

    /// TRG-12: a new-vehicle survey after 60 days, with reminders after 5, 10 and 15 more: the
    /// columns after each of its four sends.
    #[test]
    fn trg_12_the_voc_cadence_sends_on_days_60_65_75_and_90() {
        let voc = days(60, &[5, 10, 15]);
        let on = |day: u32| EVENT.plus(DAY * day);
        assert_eq!(voc.plan(EVENT), [on(60), on(65), on(75), on(90)]);
        assert_eq!((voc.first_send(Some(EVENT), on(1)), voc.total()), (on(60), 3));
        assert_eq!(voc.first_send(None, on(1)), on(61));
        let table =
            [(60, 3, Some(on(65)), 2), (65, 2, Some(on(75)), 1), (75, 1, Some(on(90)), 0), (90, 0, None, 0)];
        for (day, before, next_send_at, remaining) in table {
            assert_eq!(voc.after_send(before, on(day)), NextSend { next_send_at, remaining }, "day {day}");
        }
        assert_eq!([3, 2, 1, 0].map(|remaining| voc.attempt(remaining)), [1, 2, 3, 4]);
    }

    /// TRG-12: a late send moves what follows it, by as much as it was late.
    #[test]
    fn trg_12_a_wait_counts_from_the_send_as_it_happened() {
        let late = EVENT.plus(DAY * 2 + Duration::from_micros(1));
        let next = days(0, &[1]).after_send(1, late);
        assert_eq!(next.next_send_at, Some(EVENT.plus(DAY * 3 + Duration::from_micros(1))));
    }

    /// TRG-12: a row that does not fit its schedule halts.
    #[test]
    fn trg_12_a_number_out_of_range_halts() {
        for schedule in [days(0, &[]), days(0, &[1]), days(60, &[5, 10, 15])] {
            for remaining in [schedule.total() + 1, 0, -1, i64::MIN, i64::MAX] {
                assert_eq!(
                    schedule.after_send(remaining, EVENT),
                    NextSend::NOTHING,
                    "{remaining} of {schedule:?}"
                );
                assert!((1..=4).contains(&schedule.attempt(remaining)));
            }
        }
    }

    #[test]
    fn far_away_times_stop_at_the_last_moment() {
        let endless = SendSchedule { initial_delay: Duration::MAX, reminders: vec![Duration::MAX; 2] };
        assert_eq!(endless.plan(EVENT), [Timestamp::MAX; 3]);
        assert_eq!(endless.after_send(2, Timestamp::MAX).next_send_at, Some(Timestamp::MAX));
        assert_eq!(endless.first_send(None, Timestamp::MAX), Timestamp::MAX);
    }

    /// TRG-15: when a send is given up, later reminders still go, on their days.
    #[test]
    fn trg_15_reminders_keep_their_days_when_a_send_is_given_up() {
        let voc = days(60, &[5, 10, 15]);
        let on = |day: u32| EVENT.plus(DAY * day);
        let soon = on(60).plus(Duration::from_secs(900));
        assert_eq!(
            voc.after_giving_up(3, on(60), soon),
            NextSend { next_send_at: Some(on(65)), remaining: 2 },
            "in time"
        );
        assert_eq!(
            voc.after_giving_up(3, on(60), on(65)),
            NextSend { next_send_at: Some(on(70)), remaining: 2 },
            "its time has passed as well"
        );
        assert_eq!(voc.after_giving_up(0, on(90), on(91)), NextSend::NOTHING);
    }
}
