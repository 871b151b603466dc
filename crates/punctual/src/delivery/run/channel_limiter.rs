//! The gate before a channel: how many letters a second, how many at once, and none while it is down.
//!
//! A sender asks its gate before each letter and says afterwards what came of it. The gate asks a rate limit
//! (`base/rate.rs`) and a circuit breaker (`base/breaker.rs`).
//!
//! **A gate is its process's own.** With `n` processes a channel is sent at most `n` times the rate, and
//! each process probes a provider that is down once per interval; what one has learnt the others learn by
//! themselves. A provider's hard limit is to be divided by the number of workers. Nothing of it is written
//! down: after a restart a gate is open. What waits at a gate is still work in the database, and in its
//! order.

use crate::base::breaker::{Breaker, BreakerSettings, May};
use crate::base::clock::Timestamp;
use crate::base::limits::SEND_WINDOW;
use crate::base::rate::Rate;
use crate::delivery::rules::channel::MEMORY;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Senders of one process may be this far apart in what they take for now.
const BEHIND_MAX: Duration = Duration::from_secs(1);

/// What a channel allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimiterSettings {
    /// Letters that begin in any one second; any number if `None`.
    pub per_second: Option<u32>,
    /// Letters on their way at the same time; any number if `None`.
    pub in_flight: Option<usize>,
    /// When it is closed because nothing gets through; never if `None`.
    pub breaker: Option<BreakerSettings>,
}

impl LimiterSettings {
    /// What a channel without settings of its own allows: any rate, with a breaker unless it is a sandbox.
    #[must_use]
    pub fn of(channel: &str) -> Self {
        let breaker = (!channel.starts_with(MEMORY)).then(BreakerSettings::default);
        Self { per_second: None, in_flight: None, breaker }
    }
}

/// Whether a letter may begin.
#[derive(Debug)]
pub enum LimiterDecision {
    /// At once. The pass is to be settled.
    Go(SendPermit),
    /// Not before this moment.
    WaitUntil(Timestamp),
    /// Not before one that is on its way has ended.
    WaitForOne,
}

/// What came of a letter, as far as its channel is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The provider answered as one that works: it took the letter, or it refused this letter for good.
    Answered,
    /// It did not: nobody there, no answer, trouble of its own.
    Failed,
}

/// The gate of one channel.
#[derive(Debug)]
pub struct ChannelLimiter {
    /// How many sends in a row were answered without waiting.
    answered_at_once: AtomicUsize,
    in_flight_max: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    breaker: Option<Breaker>,
    rate: Option<Rate>,
    in_flight: usize,
    /// The latest moment that anybody asked at.
    latest: Timestamp,
}

/// A letter on its way. One that is dropped without a word (a cancelled task) makes room, and says nothing
/// about the provider.
#[derive(Debug)]
pub struct SendPermit {
    gate: Arc<ChannelLimiter>,
    probe: bool,
}

impl ChannelLimiter {
    /// An open gate.
    #[must_use]
    pub fn new(settings: LimiterSettings) -> Self {
        let inner = Inner {
            breaker: settings.breaker.map(Breaker::new),
            rate: settings.per_second.map(Rate::per_second),
            in_flight: 0,
            latest: Timestamp::MIN,
        };
        Self {
            answered_at_once: AtomicUsize::new(0),
            in_flight_max: settings.in_flight.map_or(usize::MAX, |most| most.max(1)),
            inner: Mutex::new(inner),
        }
    }

    /// Whether a letter may begin now, by the database's clock.
    #[must_use]
    pub fn may_send(self: &Arc<Self>, now: Timestamp) -> LimiterDecision {
        let mut inner = self.lock();
        if inner.in_flight >= self.in_flight_max {
            return LimiterDecision::WaitForOne;
        }
        let (now, probe) = (inner.present(now), inner.is_open());
        // The rate is only looked at before the breaker is asked: a probe that is taken is used.
        if let Some(May::WaitUntil(moment)) = inner.rate.as_mut().map(|rate| rate.look(now)) {
            return LimiterDecision::WaitUntil(moment);
        }
        if let Some(May::WaitUntil(moment)) = inner.breaker.as_mut().map(|breaker| breaker.ask(now)) {
            return LimiterDecision::WaitUntil(moment);
        }
        if let Some(rate) = &mut inner.rate {
            rate.ask(now);
        }
        inner.in_flight += 1;
        LimiterDecision::Go(SendPermit { gate: Arc::clone(self), probe })
    }

    /// Notes whether a send was answered without waiting.
    pub(crate) fn note_answer(&self, at_once: bool) {
        match at_once {
            true => self.answered_at_once.fetch_add(1, Ordering::Relaxed),
            false => self.answered_at_once.swap(0, Ordering::Relaxed),
        };
    }

    /// Whether the last window of sends was answered without waiting, as by a channel inside this
    /// process. Many of those are begun and ended in the time that one settlement takes.
    pub(crate) fn answers_at_once(&self) -> bool {
        self.answered_at_once.load(Ordering::Relaxed) >= SEND_WINDOW
    }

    /// How many letters may begin now; so many are worth claiming. None while it is closed, but for a probe.
    #[must_use]
    pub fn room(&self, now: Timestamp) -> usize {
        let mut inner = self.lock();
        let now = inner.present(now);
        let places = self.in_flight_max.saturating_sub(inner.in_flight);
        let tokens = inner.rate.as_mut().map_or(usize::MAX, |rate| rate.room(now));
        let most = match inner.breaker {
            // A copy: looking takes no probe.
            Some(mut breaker) if breaker.is_open() => usize::from(breaker.ask(now) == May::Go),
            _ => usize::MAX,
        };
        places.min(tokens).min(most)
    }

    /// When a letter may begin that may not now, as far as that is known.
    #[must_use]
    pub fn opens_at(&self, now: Timestamp) -> Option<Timestamp> {
        let mut inner = self.lock();
        let now = inner.present(now);
        let rate = inner.rate.as_mut().map(|rate| rate.look(now));
        // A copy: looking takes no probe.
        let breaker = inner.breaker.map(|mut breaker| breaker.ask(now));
        let moments = [rate, breaker].into_iter().flatten().filter_map(|may| match may {
            May::WaitUntil(moment) => Some(moment),
            May::Go => None,
        });
        moments.max()
    }

    /// Whether it is closed because nothing gets through.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.lock().is_open()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// The moment that somebody asks at. Senders count from when each of them was told the time, so one may
    /// be a little behind another; that is not a clock that was set back.
    fn present(&mut self, now: Timestamp) -> Timestamp {
        if now >= self.latest || self.latest.since(now) > BEHIND_MAX {
            self.latest = now;
        }
        self.latest
    }

    fn is_open(&self) -> bool {
        self.breaker.is_some_and(|breaker| breaker.is_open())
    }
}

impl SendPermit {
    /// Whether its channel was down when it began, so that it shows whether that is so still.
    #[must_use]
    pub const fn is_probe(&self) -> bool {
        self.probe
    }

    /// Says what came of the letter, at this moment.
    pub fn settle(self, now: Timestamp, ending: Ending) {
        let mut inner = self.gate.lock();
        let now = inner.present(now);
        if let Some(breaker) = &mut inner.breaker {
            match ending {
                Ending::Answered => breaker.succeeded(),
                Ending::Failed => breaker.failed(now),
            }
        }
    }
}

impl Drop for SendPermit {
    fn drop(&mut self) {
        self.gate.lock().in_flight -= 1;
    }
}

/// The gates of a process, by the channel's key.
#[derive(Debug, Default)]
pub struct ChannelLimiters {
    settings: HashMap<String, LimiterSettings>,
    gates: Mutex<HashMap<String, Arc<ChannelLimiter>>>,
}

impl ChannelLimiters {
    /// ChannelLimiters with settings for some channels; the others have those of [`LimiterSettings::of`].
    #[must_use]
    pub fn new(settings: HashMap<String, LimiterSettings>) -> Self {
        Self { settings, gates: Mutex::default() }
    }

    /// The gate of a channel.
    #[must_use]
    pub fn of(&self, channel: &str) -> Arc<ChannelLimiter> {
        let mut gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gate) = gates.get(channel) {
            return Arc::clone(gate);
        }
        let settings = self.settings.get(channel).copied().unwrap_or_else(|| LimiterSettings::of(channel));
        let gate = Arc::new(ChannelLimiter::new(settings));
        gates.insert(channel.to_owned(), Arc::clone(&gate));
        gate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: i64) -> Timestamp {
        Timestamp::from_micros(millis * 1_000)
    }

    fn gate(per_second: Option<u32>, in_flight: Option<usize>, failures: u32) -> Arc<ChannelLimiter> {
        let breaker = Some(BreakerSettings { failures, probe_every: Duration::from_secs(30) });
        Arc::new(ChannelLimiter::new(LimiterSettings { per_second, in_flight, breaker }))
    }

    #[track_caller]
    fn go(gate: &Arc<ChannelLimiter>, millis: i64) -> SendPermit {
        match gate.may_send(at(millis)) {
            LimiterDecision::Go(pass) => pass,
            other => panic!("a letter should go at {millis} ms, but it was {other:?}"),
        }
    }

    #[track_caller]
    fn waits(gate: &Arc<ChannelLimiter>, millis: i64, until: i64) {
        match gate.may_send(at(millis)) {
            LimiterDecision::WaitUntil(moment) => assert_eq!(moment, at(until), "asked at {millis} ms"),
            other => panic!("a letter should wait at {millis} ms, but it was {other:?}"),
        }
    }

    /// NTF-17: so many at once, and room as soon as one has ended or was given up.
    #[test]
    fn ntf_17_only_so_many_are_on_their_way() {
        let gate = gate(None, Some(2), 20);
        let (first, second) = (go(&gate, 0), go(&gate, 0));
        assert!(matches!(gate.may_send(at(0)), LimiterDecision::WaitForOne));
        assert_eq!(gate.room(at(0)), 0);
        first.settle(at(1), Ending::Answered);
        let third = go(&gate, 1);
        drop((second, third));
        assert_eq!(gate.room(at(1)), 2);
    }

    /// NTF-17: a provider that is down is probed within the rate, and a backlog drains at the rate.
    #[test]
    fn ntf_17_a_channel_that_is_down_is_probed_and_then_drained_at_its_rate() {
        let gate = gate(Some(2), None, 2);
        for _ in 0..2 {
            go(&gate, 0).settle(at(0), Ending::Failed);
        }
        assert!(gate.is_closed());
        let mut probes = 0;
        for second in 0..3_600 {
            if let LimiterDecision::Go(pass) = gate.may_send(at(second * 1_000)) {
                probes += 1;
                pass.settle(at(second * 1_000), Ending::Failed);
            }
        }
        assert_eq!(probes, 119, "an hour of probes, one each half minute");
        assert_eq!((gate.room(at(3_599_999)), gate.room(at(3_600_000))), (0, 1), "room for the probe alone");
        go(&gate, 3_600_000).settle(at(3_600_100), Ending::Answered);
        assert!(!gate.is_closed());
        let _second = go(&gate, 3_600_200);
        waits(&gate, 3_600_300, 3_601_000);
        assert_eq!(gate.room(at(3_601_000)), 1);
    }

    /// NTF-17: a sender that is a little behind another neither forgets what that one has sent nor brings
    /// the next probe nearer.
    #[test]
    fn ntf_17_a_sender_that_is_behind_another_gets_no_more_than_its_share() {
        let gate = gate(Some(2), None, 2);
        for _ in 0..2 {
            go(&gate, 900).settle(at(900), Ending::Answered);
        }
        waits(&gate, 100, 1_900);
        for _ in 0..2 {
            go(&gate, 2_900).settle(at(2_100), Ending::Failed);
        }
        waits(&gate, 32_800, 32_900);
        assert!(go(&gate, 32_900).is_probe());
    }

    /// NTF-17: the sandbox has no breaker, and each channel has its own gate.
    #[test]
    fn ntf_17_channels_do_not_concern_each_other() {
        let one = LimiterSettings { per_second: Some(1), ..LimiterSettings::of("sms:a") };
        let gates = ChannelLimiters::new(HashMap::from([("sms:a".to_owned(), one)]));
        for _ in 0..50 {
            go(&gates.of("memory:sms"), 0).settle(at(0), Ending::Failed);
            go(&gates.of("sms:b"), 0).settle(at(0), Ending::Answered);
        }
        go(&gates.of("sms:a"), 0).settle(at(0), Ending::Answered);
        waits(&gates.of("sms:a"), 1, 1_000);
        assert_eq!(LimiterSettings::of("memory:x").breaker, None);
        assert_eq!(LimiterSettings::of("sms:x").breaker.unwrap().failures, 20);
    }
}
