//! Timers: messages whose dispatch is due later. The checks of a timer, the due times of a batch, and the
//! status of a timer afterwards.
//!
//! Spreading takes a mass of equal due times apart, evenly and never to an earlier moment:
//! of `k` timers due at one time the n-th (from 0) is due `n/k` of the window later. The
//! same batch is always spread in the same way.

use crate::base::clock::Timestamp;
use crate::base::error::{Problem, Problems};
use crate::base::id::MessageId;
use crate::base::limits;
use crate::queue::rules::message::NewMessage;
use serde::Serialize;
use std::collections::HashMap;
use std::time::Duration;

/// The kind of a timer's message when none is named.
pub const KIND: &str = "timer";

/// When a timer is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DueTime {
    /// At this moment. One that has passed is due at once.
    At(Timestamp),
    /// This long after now, by the database's clock.
    In(Duration),
}

impl DueTime {
    /// The moment, seen from `now`.
    #[must_use]
    pub fn from(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::In(delay) => now.plus(delay),
        }
    }
}

/// A timer to be scheduled.
///
/// ```
/// use punctual::{NewTimer, Timestamp};
/// use std::time::Duration;
///
/// let soon = NewTimer::after(Duration::from_secs(90), "reminders", r#"{"order": 7}"#);
/// let then = NewTimer::at(Timestamp::parse("2030-01-01T00:00:00Z").unwrap(), "reminders", "{}")
///     .with(|message| message.key("customer-4").correlation_id("order-7"));
/// # let _ = (soon, then);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTimer {
    /// The message to enqueue; its `due_at` is ignored.
    pub message: NewMessage,
    /// When.
    pub when: DueTime,
}

impl NewTimer {
    /// A timer due at a moment.
    #[must_use]
    pub fn at(at: Timestamp, topic: impl Into<String>, payload: impl Into<String>) -> Self {
        Self { message: NewMessage::new(topic, KIND, payload), when: DueTime::At(at) }
    }

    /// A timer due this long after it is scheduled.
    #[must_use]
    pub fn after(delay: Duration, topic: impl Into<String>, payload: impl Into<String>) -> Self {
        Self { message: NewMessage::new(topic, KIND, payload), when: DueTime::In(delay) }
    }

    /// Says more about its message: a kind, a key, a correlation id.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(NewMessage) -> NewMessage) -> Self {
        self.message = change(self.message);
        self
    }
}

/// Returns the problems of a batch of timers, with their places.
#[must_use]
pub fn problems(timers: &[NewTimer], window: Option<Duration>) -> Problems {
    let mut found = Problems::default();
    if window.is_some_and(|w| w > limits::SPREAD_MAX) {
        found.push("spread", "must not be longer than 31d");
    }
    if timers.len() > limits::BATCH_ITEMS_MAX {
        let most = limits::BATCH_ITEMS_MAX;
        found.push("", format!("{} timers in one batch, at most {most} are allowed", timers.len()));
        return found;
    }
    for (n, timer) in timers.iter().enumerate() {
        let place = if timers.len() == 1 { String::new() } else { format!("[{n}].") };
        let mut wrong = timer.message.problems().0;
        wrong.extend(check_when(timer.when));
        found.0.extend(wrong.into_iter().map(|p| Problem::new(format!("{place}{}", p.path), p.message)));
    }
    found
}

/// Returns the problem of a due time or a delay.
#[must_use]
pub fn check_when(when: DueTime) -> Option<Problem> {
    match when {
        DueTime::At(at) if at > Timestamp::MAX || at < Timestamp::EARLIEST => {
            Some(Problem::new("dueAt", "must lie between the years 1900 and 9999"))
        }
        DueTime::In(delay) if delay > limits::TIMER_DELAY_MAX => {
            Some(Problem::new("delay", "must not be longer than 100 years"))
        }
        _ => None,
    }
}

/// The due times of a batch, in the order given: each as it was asked for, or with a window
/// spread over it.
#[must_use]
pub fn due_times(when: &[DueTime], now: Timestamp, window: Option<Duration>) -> Vec<Timestamp> {
    let mut due: Vec<Timestamp> = when.iter().map(|when| when.from(now)).collect();
    if let Some(window) = window {
        spread(&mut due, window);
    }
    due
}

fn spread(due: &mut [Timestamp], window: Duration) {
    let mut alike: HashMap<Timestamp, (u32, u32)> = HashMap::new();
    for at in due.iter() {
        alike.entry(*at).or_default().1 += 1;
    }
    for at in due.iter_mut() {
        if let Some((place, count)) = alike.get_mut(at) {
            let micros = window.as_micros() * u128::from(*place) / u128::from(*count);
            *at = at.plus(Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX)));
            *place += 1;
        }
    }
}

/// A timer that was scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduledTimer {
    /// Its id, which is that of its message.
    pub id: MessageId,
    /// When it is due.
    pub due_at: Timestamp,
    /// Whether its id was admitted before: then this is the first one, and nothing was written.
    pub duplicate: bool,
}

/// Where a timer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum TimerStatus {
    /// Its time has not come.
    Waiting,
    /// Its time has come: its message is in the queue, or was.
    Fired,
    /// The timer was cancelled in time.
    Cancelled,
}

impl TimerStatus {
    /// All of them, with the words they are known by.
    pub const ALL: [(Self, &'static str); 3] =
        [(Self::Waiting, "Waiting"), (Self::Fired, "Fired"), (Self::Cancelled, "Cancelled")];

    /// Reads the word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(_, known)| known.eq_ignore_ascii_case(word)).map(|(status, _)| status)
    }
}

/// How far the message of a timer has come that has fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum TimerProgress {
    /// No worker has claimed it yet: it can still be cancelled.
    Queued,
    /// A worker processes it.
    InFlight,
    /// An attempt failed; the message is tried again.
    Retrying,
    /// The message is a dead letter.
    Dead,
    /// The message was handled.
    Done,
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_000_000);

    fn seconds(due: &[Timestamp]) -> Vec<f64> {
        due.iter().map(|t| t.since(NOW).as_secs_f64()).collect()
    }

    /// PLT-19: a mass of equal due times is spread evenly, others are left alone.
    #[test]
    fn plt_19_equal_due_times_are_spread_and_others_left_alone() {
        let at = |s| DueTime::In(Duration::from_secs(s));
        let when = [at(10), at(10), at(99), at(10), at(10)];
        let plain = due_times(&when, NOW, None);
        assert_eq!(seconds(&plain), [10.0, 10.0, 99.0, 10.0, 10.0]);
        let window = Some(Duration::from_secs(60));
        let apart = due_times(&when, NOW, window);
        assert_eq!(seconds(&apart), [10.0, 25.0, 99.0, 40.0, 55.0]);
        assert_eq!(apart, due_times(&when, NOW, window), "the same batch is spread in the same way");
    }

    #[test]
    fn nothing_becomes_due_earlier_or_after_the_window() {
        for count in [1_usize, 2, 3, 7, 1_000, 10_000] {
            let window = Duration::from_millis(1_234);
            let due = due_times(&vec![DueTime::At(NOW); count], NOW, Some(window));
            assert!(due.iter().all(|t| *t >= NOW && t.since(NOW) < window), "{count}");
            assert!(due.is_sorted(), "{count}");
        }
    }

    /// PLT-29: every problem is reported with its place.
    #[test]
    fn plt_29_every_problem_of_a_batch_is_named() {
        let far = Duration::from_secs(200 * 366 * 86_400);
        let timers = [
            NewTimer::at(Timestamp::from_micros(i64::MAX), "a/b", "{}"),
            NewTimer::after(far, "t", "{not json"),
            NewTimer::after(Duration::ZERO, "t", "{}"),
        ];
        let said = problems(&timers, Some(Duration::from_secs(32 * 86_400))).to_string();
        for part in ["spread: must", "[0].topic: must not", "[0].dueAt: must lie", "[1].payload: is not JSON"]
        {
            assert!(said.contains(part), "`{part}` should be in: {said}");
        }
        assert!(said.contains("[1].delay: must not be longer") && !said.contains("[2]"), "{said}");
        assert_eq!(problems(&timers[2..], None), Problems::default());
    }

    #[test]
    fn a_status_is_read_by_its_word() {
        assert_eq!(TimerStatus::parse("waiting"), Some(TimerStatus::Waiting));
        assert_eq!(TimerStatus::parse("Cancelled"), Some(TimerStatus::Cancelled));
        assert_eq!(TimerStatus::parse("pending"), None);
    }
}
