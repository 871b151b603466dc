//! The limiter of a channel: how many sends a second, how many at once, and none while the channel is down.
//!
//! A sender asks the limiter before each send and reports the result afterwards. The limiter asks a rate
//! limit (`base/rate.rs`) and a circuit breaker (`base/breaker.rs`).
//!
//! **The limits hold over all processes on one database.** A limiter with limits uses a share of them that
//! its process leases ([`super::channel_shares`]); without a lease nothing is sent. On a manual clock, and
//! for channels without limits, there is nothing to lease. Circuit breakers are each process's own: each
//! probes a provider that is down once per interval, and none learns of an outage from another.
//!
//! The state of a limiter is not stored. A send that waits for a limiter is still work in the database, and
//! in its order.

use crate::base::breaker::{AdmissionDecision, BreakerSettings, CircuitBreaker};
use crate::base::clock::{Monotonic, Timestamp, monotonic};
use crate::base::limits::{SEND_WINDOW, SENDS_PER_SECOND_MAX};
use crate::base::rate::Rate;
use crate::delivery::rules::channel::MEMORY;
use crate::delivery::rules::channel_share::{SHARE_LEASE, SHARE_RENEWAL, SHARE_SETTLED_AFTER, ShareAmounts};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Senders of one process may be this far apart in what they take for now.
const BEHIND_MAX: Duration = Duration::from_secs(1);
/// A channel for which nothing was asked for so long gives its share up.
const DEMAND_KEPT: Duration = Duration::from_secs(3);
/// A limiter without a share is asked again after this long.
const SHARE_PAUSE: Duration = Duration::from_millis(100);

/// The limits of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimiterSettings {
    /// Sends that begin in any one second; any number if `None`.
    pub per_second: Option<u32>,
    /// Sends in flight at the same time; any number if `None`.
    pub in_flight: Option<usize>,
    /// When the limiter closes because the provider does not answer; never if `None`.
    pub breaker: Option<BreakerSettings>,
}

impl LimiterSettings {
    /// Returns the limits of a channel without settings of its own: any rate, with a breaker unless it is a
    /// sandbox.
    #[must_use]
    pub fn of(channel: &str) -> Self {
        let breaker = (!channel.starts_with(MEMORY)).then(BreakerSettings::default);
        Self { per_second: None, in_flight: None, breaker }
    }
}

/// Whether a send may begin.
#[derive(Debug)]
pub enum LimiterDecision {
    /// At once. The caller settles the permit.
    Go(SendPermit),
    /// Not before this moment.
    WaitUntil(Timestamp),
    /// Not before a send that is in flight has ended.
    WaitForOne,
}

/// The result of a send, as far as its channel is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelReply {
    /// The provider works: it took the message, or refused this message for good.
    Answered,
    /// The provider does not work: no connection, no answer, or an error of its own.
    Failed,
}

/// The limiter of one channel.
#[derive(Debug)]
pub struct ChannelLimiter {
    /// How many sends in a row were answered without waiting.
    answered_at_once: AtomicUsize,
    /// The limits, where they are shared with other processes.
    shared: Option<ShareAmounts>,
    /// Held while the share is renewed: two requests of one process could be answered in the wrong order.
    renewing: tokio::sync::Mutex<()>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    breaker: Option<CircuitBreaker>,
    rate: Option<Rate>,
    in_flight: usize,
    in_flight_max: usize,
    /// The latest time at which a sender asked.
    latest: Timestamp,
    /// The share of the limits that this process has leased.
    share: Option<LeasedShare>,
    /// When a send was last asked for.
    asked: Option<Monotonic>,
    /// A reading of the database's clock, from which the time of a shared limiter goes on evenly.
    anchor: Option<(Timestamp, Monotonic)>,
}

/// A share, by the monotonic clock of its process.
#[derive(Clone, Copy, Debug)]
struct LeasedShare {
    amounts: ShareAmounts,
    /// Since when no more than these amounts are used.
    since: Monotonic,
    renewed: Monotonic,
}

impl LeasedShare {
    /// Counted from before the lease was asked for, so that it never ends later than the database thinks.
    fn is_valid(&self) -> bool {
        self.renewed.elapsed() < SHARE_LEASE
    }
}

/// What to ask for when a share is leased or renewed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WantedShare {
    pub limits: ShareAmounts,
    /// What no more than is used long enough to be counted on.
    pub settled: Option<ShareAmounts>,
    /// Sends in flight, also those that began before the share was lowered.
    pub in_flight: u32,
}

/// The permit of a send in flight. A permit that is dropped without a settlement (a cancelled task) makes
/// room, and says nothing about the provider.
#[derive(Debug)]
pub struct SendPermit {
    limiter: Arc<ChannelLimiter>,
    probe: bool,
}

impl ChannelLimiter {
    /// Creates an open limiter.
    #[must_use]
    pub fn new(settings: LimiterSettings) -> Self {
        let inner = Inner {
            breaker: settings.breaker.map(CircuitBreaker::new),
            rate: settings.per_second.map(Rate::per_second),
            in_flight: 0,
            in_flight_max: settings.in_flight.map_or(usize::MAX, |most| most.max(1)),
            latest: Timestamp::MIN,
            share: None,
            asked: None,
            anchor: None,
        };
        Self {
            answered_at_once: AtomicUsize::new(0),
            shared: None,
            renewing: tokio::sync::Mutex::default(),
            inner: Mutex::new(inner),
        }
    }

    /// Creates a limiter that lets nothing through before it has a share of its limits.
    #[must_use]
    pub(crate) fn shared(settings: LimiterSettings) -> Self {
        let limiter = Self::new(settings);
        let in_flight = settings.in_flight.map_or(0, |most| u32::try_from(most.max(1)).unwrap_or(u32::MAX));
        let in_flight = in_flight.min(i32::MAX.cast_unsigned());
        let limits = ShareAmounts {
            per_second: settings.per_second.map_or(0, |sends| sends.clamp(1, SENDS_PER_SECOND_MAX)),
            in_flight,
        };
        if let Some(sends) = settings.per_second {
            limiter.lock().rate = Some(Rate::shared(sends));
        }
        Self { shared: (limits != ShareAmounts::default()).then_some(limits), ..limiter }
    }

    /// Takes the turn to renew the share; `None` while that is under way.
    pub(crate) fn renewal_turn(&self) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        self.renewing.try_lock().ok()
    }

    /// Returns what to ask for when the share is to be leased or renewed.
    pub(crate) fn share_wanted(&self) -> Option<WantedShare> {
        let limits = self.shared?;
        let inner = self.lock();
        let is_in_use = inner.in_flight > 0 || inner.asked.is_some_and(|at| at.elapsed() < DEMAND_KEPT);
        let is_fresh = inner.share.is_some_and(|share| share.renewed.elapsed() < SHARE_RENEWAL);
        if !is_in_use || is_fresh {
            return None;
        }
        let settled = inner.share.filter(|share| share.since.elapsed() >= SHARE_SETTLED_AFTER);
        let in_flight = u32::try_from(inner.in_flight).unwrap_or(u32::MAX);
        Some(WantedShare { limits, settled: settled.map(|share| share.amounts), in_flight })
    }

    /// Gives the share up: nothing begins before another is leased.
    pub(crate) fn drop_share(&self) {
        self.lock().share = None;
    }

    /// Uses this share from now on; its lease was asked for at that moment.
    pub(crate) fn use_share(&self, amounts: ShareAmounts, asked: Monotonic) {
        let Some(limits) = self.shared else { return };
        let mut inner = self.lock();
        let before = inner.share.filter(LeasedShare::is_valid).map(|share| (share.amounts, share.since));
        let since = match before {
            Some((before, since)) if before == amounts => since,
            _ => monotonic(),
        };
        if limits.per_second > 0 {
            inner.rate.get_or_insert_with(|| Rate::shared(1)).change(amounts.per_second);
        }
        if limits.in_flight > 0 {
            inner.in_flight_max = usize::try_from(amounts.in_flight).unwrap_or(usize::MAX);
        }
        inner.share = Some(LeasedShare { amounts, since, renewed: asked });
    }

    /// Notes that something waits for this channel.
    pub(crate) fn note_demand(&self) {
        if self.shared.is_some() {
            self.lock().asked = Some(monotonic());
        }
    }

    /// Whether a process that shares the limits has nothing to use of them now.
    fn lacks_share(&self, inner: &mut Inner) -> bool {
        let Some(limits) = self.shared else { return false };
        inner.asked = Some(monotonic());
        let share = inner.share.filter(LeasedShare::is_valid).map(|share| share.amounts);
        share.is_none_or(|share| {
            (limits.per_second > 0 && share.per_second == 0) || (limits.in_flight > 0 && share.in_flight == 0)
        })
    }

    /// Decides whether a send may begin now, by the database's clock.
    #[must_use]
    pub fn may_send(self: &Arc<Self>, now: Timestamp) -> LimiterDecision {
        let mut inner = self.lock();
        if self.lacks_share(&mut inner) {
            return LimiterDecision::WaitUntil(now.plus(SHARE_PAUSE));
        }
        if inner.in_flight >= inner.in_flight_max {
            return LimiterDecision::WaitForOne;
        }
        let asked = now;
        let (now, probe) = (self.present(&mut inner, asked), inner.is_open());
        // The rate is only looked at before the breaker is asked: a probe that is taken is used.
        if let Some(AdmissionDecision::WaitUntil(moment)) = inner.rate.as_mut().map(|rate| rate.look(now)) {
            return LimiterDecision::WaitUntil(self.outward(&inner, asked, moment));
        }
        if let Some(AdmissionDecision::WaitUntil(moment)) =
            inner.breaker.as_mut().map(|breaker| breaker.ask(now))
        {
            return LimiterDecision::WaitUntil(self.outward(&inner, asked, moment));
        }
        if let Some(rate) = &mut inner.rate {
            rate.ask(now);
        }
        inner.in_flight += 1;
        LimiterDecision::Go(SendPermit { limiter: Arc::clone(self), probe })
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

    /// Returns how many sends may begin now, and so how many deliveries are worth claiming. None while the
    /// limiter is closed, except for a probe.
    #[must_use]
    pub fn room(&self, now: Timestamp) -> usize {
        let mut inner = self.lock();
        if self.lacks_share(&mut inner) {
            return 0;
        }
        let now = self.present(&mut inner, now);
        let places = inner.in_flight_max.saturating_sub(inner.in_flight);
        let tokens = inner.rate.as_mut().map_or(usize::MAX, |rate| rate.room(now));
        let most = match inner.breaker {
            // A copy: looking takes no probe.
            Some(mut breaker) if breaker.is_open() => usize::from(breaker.ask(now) == AdmissionDecision::Go),
            _ => usize::MAX,
        };
        places.min(tokens).min(most)
    }

    /// Returns when the next send may begin if none may begin now, as far as that is known.
    #[must_use]
    pub fn opens_at(&self, now: Timestamp) -> Option<Timestamp> {
        let mut inner = self.lock();
        if self.lacks_share(&mut inner) {
            return Some(now.plus(SHARE_PAUSE));
        }
        let asked = now;
        let now = self.present(&mut inner, asked);
        let rate = inner.rate.as_mut().map(|rate| rate.look(now));
        // A copy: looking takes no probe.
        let breaker = inner.breaker.map(|mut breaker| breaker.ask(now));
        let moments = [rate, breaker].into_iter().flatten().filter_map(|may| match may {
            AdmissionDecision::WaitUntil(moment) => Some(moment),
            AdmissionDecision::Go => None,
        });
        moments.max().map(|moment| self.outward(&inner, asked, moment))
    }

    /// Whether the limiter is closed because the provider does not answer.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.lock().is_open()
    }

    /// Returns the time of a question. Shared limits are counted by the even time of this process: readings
    /// of the database's clock arrive more or less late.
    fn present(&self, inner: &mut Inner, now: Timestamp) -> Timestamp {
        if self.shared.is_none() {
            return inner.present(now);
        }
        let (said, at) = *inner.anchor.get_or_insert_with(|| (now, monotonic()));
        inner.latest = said.plus(at.elapsed());
        inner.latest
    }

    /// Translates a moment of this limiter into the time of its caller.
    fn outward(&self, inner: &Inner, asked: Timestamp, moment: Timestamp) -> Timestamp {
        if self.shared.is_none() { moment } else { asked.plus(moment.since(inner.latest)) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Returns the time of a question. Each sender counts from its own reading of the clock, so one may be a
    /// little behind another; that is not a clock that was set back.
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

    /// Reports the result of the send, at this time.
    pub fn settle(self, now: Timestamp, ending: ChannelReply) {
        let mut inner = self.limiter.lock();
        let now = self.limiter.present(&mut inner, now);
        if let Some(breaker) = &mut inner.breaker {
            match ending {
                ChannelReply::Answered => breaker.succeeded(),
                ChannelReply::Failed => breaker.failed(now),
            }
        }
    }
}

impl Drop for SendPermit {
    fn drop(&mut self) {
        self.limiter.lock().in_flight -= 1;
    }
}

/// The limiters of a process, by the channel's key.
#[derive(Debug, Default)]
pub struct ChannelLimiters {
    settings: HashMap<String, LimiterSettings>,
    /// Whether limits are shared with other processes.
    is_shared: bool,
    limiters: Mutex<HashMap<String, Arc<ChannelLimiter>>>,
}

impl ChannelLimiters {
    /// Creates limiters with settings for some channels; the others have those of [`LimiterSettings::of`].
    #[must_use]
    pub fn new(settings: HashMap<String, LimiterSettings>) -> Self {
        Self { settings, ..Self::default() }
    }

    /// Lets limits hold over all processes on the database.
    #[must_use]
    pub(crate) fn shared(self) -> Self {
        let is_limited = |of: &LimiterSettings| of.per_second.is_some() || of.in_flight.is_some();
        Self { is_shared: self.settings.values().any(is_limited), ..self }
    }

    /// Returns the limiter of a channel.
    #[must_use]
    pub fn of(&self, channel: &str) -> Arc<ChannelLimiter> {
        let mut limiters = self.limiters.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(limiter) = limiters.get(channel) {
            return Arc::clone(limiter);
        }
        let settings = self.settings.get(channel).copied().unwrap_or_else(|| LimiterSettings::of(channel));
        let new = if self.is_shared { ChannelLimiter::shared } else { ChannelLimiter::new };
        let limiter = Arc::new(new(settings));
        limiters.insert(channel.to_owned(), Arc::clone(&limiter));
        limiter
    }

    /// Whether any channel has limits that are shared.
    #[must_use]
    pub(crate) const fn has_shares(&self) -> bool {
        self.is_shared
    }

    /// Returns the limiters that were asked for, by channel.
    pub(crate) fn all(&self) -> Vec<(String, Arc<ChannelLimiter>)> {
        let limiters = self.limiters.lock().unwrap_or_else(PoisonError::into_inner);
        limiters.iter().map(|(channel, limiter)| (channel.clone(), Arc::clone(limiter))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: i64) -> Timestamp {
        Timestamp::from_micros(millis * 1_000)
    }

    fn limiter(per_second: Option<u32>, in_flight: Option<usize>, failures: u32) -> Arc<ChannelLimiter> {
        let breaker = Some(BreakerSettings { failures, probe_every: Duration::from_secs(30) });
        Arc::new(ChannelLimiter::new(LimiterSettings { per_second, in_flight, breaker }))
    }

    #[track_caller]
    fn go(limiter: &Arc<ChannelLimiter>, millis: i64) -> SendPermit {
        match limiter.may_send(at(millis)) {
            LimiterDecision::Go(permit) => permit,
            other => panic!("a send should begin at {millis} ms, but the decision was {other:?}"),
        }
    }

    #[track_caller]
    fn waits(limiter: &Arc<ChannelLimiter>, millis: i64, until: i64) {
        match limiter.may_send(at(millis)) {
            LimiterDecision::WaitUntil(moment) => assert_eq!(moment, at(until), "asked at {millis} ms"),
            other => panic!("a send should wait at {millis} ms, but the decision was {other:?}"),
        }
    }

    /// NTF-17: so many at once, and room as soon as one has ended or was given up.
    #[test]
    fn ntf_17_only_so_many_are_on_their_way() {
        let limiter = limiter(None, Some(2), 20);
        let (first, second) = (go(&limiter, 0), go(&limiter, 0));
        assert!(matches!(limiter.may_send(at(0)), LimiterDecision::WaitForOne));
        assert_eq!(limiter.room(at(0)), 0);
        first.settle(at(1), ChannelReply::Answered);
        let third = go(&limiter, 1);
        drop((second, third));
        assert_eq!(limiter.room(at(1)), 2);
    }

    /// NTF-17: a provider that is down is probed within the rate, and a backlog drains at the rate.
    #[test]
    fn ntf_17_a_channel_that_is_down_is_probed_and_then_drained_at_its_rate() {
        let limiter = limiter(Some(2), None, 2);
        for _ in 0..2 {
            go(&limiter, 0).settle(at(0), ChannelReply::Failed);
        }
        assert!(limiter.is_closed());
        let mut probes = 0;
        for second in 0..3_600 {
            if let LimiterDecision::Go(permit) = limiter.may_send(at(second * 1_000)) {
                probes += 1;
                permit.settle(at(second * 1_000), ChannelReply::Failed);
            }
        }
        assert_eq!(probes, 119, "an hour of probes, one each half minute");
        assert_eq!(
            (limiter.room(at(3_599_999)), limiter.room(at(3_600_000))),
            (0, 1),
            "room for the probe alone"
        );
        go(&limiter, 3_600_000).settle(at(3_600_100), ChannelReply::Answered);
        assert!(!limiter.is_closed());
        let _second = go(&limiter, 3_600_200);
        waits(&limiter, 3_600_300, 3_601_000);
        assert_eq!(limiter.room(at(3_601_000)), 1);
    }

    /// NTF-17: a sender that is a little behind another neither forgets what that one has sent nor brings
    /// the next probe nearer.
    #[test]
    fn ntf_17_a_sender_that_is_behind_another_gets_no_more_than_its_share() {
        let limiter = limiter(Some(2), None, 2);
        for _ in 0..2 {
            go(&limiter, 900).settle(at(900), ChannelReply::Answered);
        }
        waits(&limiter, 100, 1_900);
        for _ in 0..2 {
            go(&limiter, 2_900).settle(at(2_100), ChannelReply::Failed);
        }
        waits(&limiter, 32_800, 32_900);
        assert!(go(&limiter, 32_900).is_probe());
    }

    /// NTF-17: the sandbox has no breaker, and each channel has its own limiter.
    #[test]
    fn ntf_17_channels_do_not_concern_each_other() {
        let one = LimiterSettings { per_second: Some(1), ..LimiterSettings::of("sms:a") };
        let limiters = ChannelLimiters::new(HashMap::from([("sms:a".to_owned(), one)]));
        for _ in 0..50 {
            go(&limiters.of("memory:sms"), 0).settle(at(0), ChannelReply::Failed);
            go(&limiters.of("sms:b"), 0).settle(at(0), ChannelReply::Answered);
        }
        go(&limiters.of("sms:a"), 0).settle(at(0), ChannelReply::Answered);
        waits(&limiters.of("sms:a"), 1, 1_000);
        assert_eq!(LimiterSettings::of("memory:x").breaker, None);
        assert_eq!(LimiterSettings::of("sms:x").breaker.unwrap().failures, 20);
    }
}
