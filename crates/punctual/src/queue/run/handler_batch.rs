//! A batch: claimed items on their way through their handlers.
//!
//! Items run with their topic's bounded concurrency. Finished items are settled when the whole claim is
//! through, or every `FLUSH` while a slow item holds it up; the lease is renewed meanwhile. When the database
//! is out of reach, both are tried again for as long as the lease lasts: so that finished work is not
//! repeated. A claim that turns out to be lost stops its items and writes nothing. No item begins under a
//! lease that may be over: a lease is counted from before it was requested, because the time that the answer
//! took is unknown. Items that were in a crash before run alone and are marked first.

use crate::base::clock::{Monotonic, Timestamp, monotonic};
use crate::base::error::{Error, Result};
use crate::base::id::{LaneId, MessageId, Token};
use crate::base::random;
use crate::database::crash_points::{CrashPoint, reach};
use crate::queue::rules::attempt::Retry;
use crate::queue::run::context::BatchGuard;
use crate::queue::run::gauge;
use crate::queue::run::handler;
use crate::queue::run::handler::{Handler, HandlerError, HandlerResult, Work};
use crate::queue::run::handlers::{Assignment, HandlerSlot, Handlers};
use crate::queue::run::stop::{StopPhase, StopSignal};
use crate::queue::run::subscription::LoadedSubscription;
use crate::queue::store::claims::{ClaimedBatch, ClaimedItem};
use crate::queue::store::settle::{SettleAction, SettleOutcome, Settlement};
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;

/// Finished items of a claim that is not through are settled this often.
const FLUSH: Duration = Duration::from_millis(250);
/// A handler that takes less than this is tried on the spot.
const QUICK: Duration = Duration::from_micros(50);
/// Items that are tried on the spot before others get a turn.
const QUICK_RUN: usize = 64;
/// A request that the database did not answer is repeated after this long, growing …
const INSIST_PAUSE: Duration = Duration::from_millis(50);
/// … up to this.
const INSIST_PAUSE_MAX: Duration = Duration::from_secs(1);
/// The lease is renewed when this part of it has passed: one part in so many.
const RENEW_SHARE: u32 = 3;

/// Items of one topic, or of one subscription, under one claim.
#[derive(Debug)]
pub struct HandlerBatch {
    _running: BatchGuard,
    handlers: Arc<Handlers>,
    slot: usize,
    /// The subscription and its lane, unless it is a topic's own queue.
    served: Option<(LaneId, Arc<LoadedSubscription>)>,
    token: Token,
    suspect: bool,
    keyed: bool,
    /// Whether more than the queue commits with its settlement.
    hooked: bool,
    waiting: std::vec::IntoIter<ClaimedItem>,
    left: usize,
    words: Vec<(MessageId, SettleAction)>,
    exceptions: bool,
    settled_in_part: bool,
    whole_claim: bool,
    claimed_at: (Timestamp, Monotonic),
    /// When the lease was asked for that it has now.
    leased: Monotonic,
}

/// The result of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchCounts {
    /// Items that went well.
    pub done: usize,
    /// Items that did not.
    pub failed: usize,
    /// Items whose claim was lost.
    pub lost: usize,
}

struct HandledMessage {
    message: MessageId,
    handled: HandlerResult,
    output: Option<String>,
    took: Duration,
}

impl HandlerBatch {
    /// Splits a catch into batches by claim and topic, or subscription.
    pub(crate) fn new(
        handlers: &Arc<Handlers>,
        assignments: &HashMap<LaneId, Assignment>,
        catch: ClaimedBatch,
        asked: Monotonic,
    ) -> Vec<Self> {
        let mut groups: Vec<(Token, &Assignment, Vec<ClaimedItem>)> = Vec::new();
        for claimed in catch.items {
            let lane = claimed.item.lane();
            let Some(assignment) = assignments.get(&lane) else { continue };
            // Items of one claim follow each other, so the last group is nearly always it.
            let together = |group: &&mut (Token, &Assignment, Vec<ClaimedItem>)| {
                let same = assignment.served.is_none() || group.2[0].item.lane() == lane;
                group.0 == claimed.token && group.1.slot == assignment.slot && same
            };
            match groups.iter_mut().rev().find(together) {
                Some(group) => group.2.push(claimed),
                None => groups.push((claimed.token.clone(), assignment, vec![claimed])),
            }
        }
        let tokens: Vec<Token> = groups.iter().map(|g| g.0.clone()).collect();
        let claimed_at = (catch.now.unwrap_or(Timestamp::MIN), monotonic());
        let build = |(token, assignment, items): (Token, &Assignment, Vec<ClaimedItem>)| {
            let slot = assignment.slot;
            handlers.slots[slot].in_flight.fetch_add(items.len(), Ordering::Relaxed);
            Self {
                _running: BatchGuard::new(&handlers.context),
                handlers: Arc::clone(handlers),
                slot,
                served: assignment.served.clone().map(|served| (items[0].item.lane(), served)),
                suspect: items.iter().any(|c| c.item.is_suspect()),
                keyed: items.iter().any(|c| c.item.key().is_some()),
                hooked: items.iter().any(|c| handlers.context.store.has_hooks_for(&c.message)),
                whole_claim: tokens.iter().filter(|t| **t == token).count() == 1,
                token,
                left: items.len(),
                words: Vec::with_capacity(items.len()),
                waiting: items.into_iter(),
                exceptions: false,
                settled_in_part: false,
                claimed_at,
                leased: asked,
            }
        };
        groups.into_iter().map(build).collect()
    }

    fn slot(&self) -> &HandlerSlot {
        &self.handlers.slots[self.slot]
    }

    /// How many items it has.
    pub(crate) const fn len(&self) -> usize {
        self.left
    }

    /// Runs the batch to its end.
    pub async fn run(mut self, stop: StopSignal) -> BatchCounts {
        let result = if self.suspect { self.work_alone(stop).await } else { self.work(stop).await };
        let tally = result.unwrap_or_else(|error| {
            // Items that are not settled are due again when the lease ends.
            tracing::warn!(target: "punctual", %error, token = %self.token, "a batch was not settled");
            self.lost()
        });
        gauge::batch(&self.slot().key.label(), &tally);
        tally
    }

    /// How late an item begins, by the authority's clock as it was at the claim.
    fn note_lateness(&self, claimed: &ClaimedItem) {
        let (now, since) = self.claimed_at;
        let late = now.since(claimed.due_at) + since.elapsed();
        self.slot().lateness.record(late.as_secs_f64());
    }

    fn lost(&self) -> BatchCounts {
        BatchCounts { lost: self.left, ..BatchCounts::default() }
    }

    /// Waits for its turn, keeping its lease, and marks that it begins; a stop that comes
    /// first hands it back.
    async fn work_alone(&mut self, stop: StopSignal) -> Result<BatchCounts> {
        let handlers = Arc::clone(&self.handlers);
        let context = &handlers.context;
        let place = handlers.quarantine.join(&self.token, self.leased);
        let turn = handlers.quarantine.turn();
        tokio::pin!(turn);
        let alone = loop {
            tokio::select! {
                biased;
                () = stop.wait_for(StopPhase::Finishing) => break None,
                permit = &mut turn => break permit,
                kept = place.keep(&context.store, context.lease, context.lease / RENEW_SHARE) => {
                    // Nothing of it has begun: when it cannot keep its lease, it makes room.
                    if !kept? {
                        return Ok(self.lost());
                    }
                }
            }
        };
        let Some(leased) = place.leased() else { return Ok(self.lost()) };
        drop(place);
        self.leased = leased;
        if alone.is_none() {
            return self.work(stop).await;
        }
        if !context.store.mark_started(self.token.clone()).await? {
            return Ok(self.lost());
        }
        self.work(stop).await
    }

    /// Sets aside messages that the subscription's filter does not admit: they are done.
    async fn sift(&mut self) {
        let Some((_, served)) = self.served.clone().filter(|(_, served)| served.is_picky()) else { return };
        let mut wanted = Vec::with_capacity(self.left);
        for (n, claimed) in self.waiting.by_ref().enumerate() {
            if served.admits(&claimed) {
                wanted.push(claimed);
            } else {
                self.words.push((claimed.message.id, SettleAction::Ack));
            }
            if n % QUICK_RUN == QUICK_RUN - 1 {
                tokio::task::yield_now().await;
            }
        }
        let skipped = self.left - wanted.len();
        self.left = wanted.len();
        self.waiting = wanted.into_iter();
        self.slot().in_flight.fetch_sub(skipped, Ordering::Relaxed);
        self.handlers.context.room.notify_one();
        gauge::filtered(&served.topic, &served.name, skipped);
    }

    async fn work(&mut self, stop: StopSignal) -> Result<BatchCounts> {
        self.sift().await;
        let mut running: JoinSet<HandledMessage> = JoinSet::new();
        let mut tally = BatchCounts::default();
        let mut flush = tokio::time::interval(FLUSH);
        flush.reset();
        while self.left > 0 {
            if !self.hold_on().await? {
                tally.lost += self.left;
                return Ok(tally);
            }
            let awaited = if stop.is_asked() { StopPhase::Over } else { StopPhase::Finishing };
            match awaited {
                StopPhase::Over => self.hand_back(),
                _ => self.begin_what_fits(&mut running, &mut tally).await,
            }
            if self.left == 0 {
                break;
            }
            let slots = Arc::clone(&self.slot().slots);
            let more = !self.waiting.as_slice().is_empty();
            tokio::select! {
                biased;
                Some(finished) = running.join_next() => {
                    self.hear_all(finished, &mut running, &mut tally);
                }
                () = stop.wait_for(awaited) => {
                    if awaited == StopPhase::Over {
                        running.abort_all();
                        break;
                    }
                }
                Ok(permit) = slots.acquire_owned(), if more => self.begin(permit, &mut running),
                _ = flush.tick() => self.settle_in_part(&mut tally).await?,
            }
        }
        self.settle(&mut tally).await?;
        Ok(tally)
    }

    async fn begin_what_fits(&mut self, running: &mut JoinSet<HandledMessage>, tally: &mut BatchCounts) {
        while self.is_quick() && self.begin_quickly(running, tally) == QUICK_RUN {
            tokio::task::yield_now().await;
        }
        while !self.waiting.as_slice().is_empty() {
            let Ok(permit) = Arc::clone(&self.slot().slots).try_acquire_owned() else { return };
            self.begin(permit, running);
        }
    }

    fn begin(&mut self, permit: OwnedSemaphorePermit, running: &mut JoinSet<HandledMessage>) {
        let Some(claimed) = self.waiting.next() else { return };
        self.note_lateness(&claimed);
        let work = self.handling(claimed, permit);
        running.spawn(work);
    }

    /// One item through its handler. Only an item whose settlement a hook wants can hand in output.
    fn handling(
        &self,
        claimed: ClaimedItem,
        permit: OwnedSemaphorePermit,
    ) -> impl Future<Output = HandledMessage> + Send + use<> {
        let hooked = self.hooked && self.handlers.context.store.has_hooks_for(&claimed.message);
        handle(Arc::clone(&self.slot().handler), claimed, permit, hooked)
    }

    /// A handler that is known to be quick is tried on the spot; only what then has to wait
    /// becomes a task of its own. Answers how many were begun.
    fn begin_quickly(&mut self, running: &mut JoinSet<HandledMessage>, tally: &mut BatchCounts) -> usize {
        let (mut begun, mut busy, mut finished) = (0, Duration::ZERO, 0);
        while begun < QUICK_RUN && !self.waiting.as_slice().is_empty() {
            let Ok(permit) = Arc::clone(&self.slot().slots).try_acquire_owned() else { break };
            let Some(claimed) = self.waiting.next() else { break };
            begun += 1;
            self.note_lateness(&claimed);
            let mut handling = Box::pin(self.handling(claimed, permit));
            match handling.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Pending => _ = running.spawn(handling),
                Poll::Ready(result) => {
                    finished += 1;
                    busy += result.took;
                    self.left -= 1;
                    self.record_outcome(result, tally);
                }
            }
        }
        self.freed(finished, busy);
        begun
    }

    /// Takes all results that are there.
    fn hear_all(
        &mut self,
        first: Result<HandledMessage, tokio::task::JoinError>,
        running: &mut JoinSet<HandledMessage>,
        tally: &mut BatchCounts,
    ) {
        let mut next = Some(first);
        let (mut count, mut busy) = (0, Duration::ZERO);
        while let Some(finished) = next {
            count += 1;
            self.left -= 1;
            match finished {
                Ok(finished) => {
                    busy += finished.took;
                    self.record_outcome(finished, tally);
                }
                Err(_) => tally.lost += 1,
            }
            next = running.try_join_next();
        }
        self.freed(count, busy);
    }

    /// So many items are through: there is room for others.
    fn freed(&self, count: usize, busy: Duration) {
        let slot = self.slot();
        slot.in_flight.fetch_sub(count, Ordering::Relaxed);
        let share = busy / u32::try_from(slot.concurrency).unwrap_or(u32::MAX);
        slot.pace.lock().unwrap_or_else(PoisonError::into_inner).learn(count, share);
        self.handlers.context.room.notify_one();
    }

    fn is_quick(&self) -> bool {
        let pace = self.slot().pace.lock().unwrap_or_else(PoisonError::into_inner);
        let share = QUICK / u32::try_from(self.slot().concurrency).unwrap_or(u32::MAX);
        pace.per_item().is_some_and(|took| took < share)
    }

    fn record_outcome(&mut self, finished: HandledMessage, tally: &mut BatchCounts) {
        let word = match finished.handled {
            Ok(()) => {
                tally.done += 1;
                finished.output.map_or(SettleAction::Ack, |output| SettleAction::Done { output })
            }
            Err(HandlerError::Retry { error, not_before }) => {
                let retry = not_before.map_or(Retry::Policy, Retry::NotBefore);
                SettleAction::Abandon { error, retry }
            }
            Err(HandlerError::Fail { error }) => SettleAction::Fail { error },
        };
        if !matches!(word, SettleAction::Ack | SettleAction::Done { .. }) {
            self.exceptions = true;
            tally.failed += 1;
        }
        self.words.push((finished.message, word));
    }

    /// Returns items that were not begun as if they had never been claimed.
    fn hand_back(&mut self) {
        let rest: Vec<MessageId> = self.waiting.by_ref().map(|c| c.message.id).collect();
        self.left -= rest.len();
        self.slot().in_flight.fetch_sub(rest.len(), Ordering::Relaxed);
        self.exceptions |= !rest.is_empty();
        self.words.extend(rest.into_iter().map(|id| (id, SettleAction::Release)));
    }

    /// Renews the lease when it is time; false: claim lost.
    async fn hold_on(&mut self) -> Result<bool> {
        if self.leased.elapsed() < self.handlers.context.lease / RENEW_SHARE {
            return Ok(true);
        }
        self.renew().await
    }

    /// Moves the lease's end; false: claim lost, or the answer took so long that it may be.
    async fn renew(&mut self) -> Result<bool> {
        let mut pause = INSIST_PAUSE;
        let (held, asked) = loop {
            let asked = monotonic();
            let answer = self
                .handlers
                .context
                .store
                .extend(vec![self.token.clone()], self.handlers.context.lease)
                .await;
            if !self.asks_again(answer.as_ref().err(), &mut pause).await {
                break (answer?, asked);
            }
        };
        self.leased = asked;
        Ok(!held.is_empty() && asked.elapsed() < self.handlers.context.lease)
    }

    /// Whether to ask again what a database out of reach did not answer: while the lease lasts,
    /// after a pause.
    async fn asks_again(&self, error: Option<&Error>, pause: &mut Duration) -> bool {
        let in_time = self.leased.elapsed() + *pause < self.handlers.context.lease;
        let Some(error) = error.filter(|error| error.is_transient() && in_time) else { return false };
        tracing::debug!(target: "punctual", %error, token = %self.token, "asking again");
        tokio::time::sleep(*pause).await;
        *pause = (*pause * 2).min(INSIST_PAUSE_MAX);
        true
    }

    /// Settles what is finished while the rest goes on.
    async fn settle_in_part(&mut self, tally: &mut BatchCounts) -> Result<()> {
        if !self.words.is_empty() {
            self.settle(tally).await?;
            self.settled_in_part = true;
        }
        Ok(())
    }

    async fn settle(&mut self, tally: &mut BatchCounts) -> Result<()> {
        let words = std::mem::take(&mut self.words);
        if words.is_empty() {
            return Ok(());
        }
        reach(CrashPoint::HandledBeforeSettle);
        // `settle` writes the effects in a sequence or in a hook.
        let followed = self.keyed || self.hooked;
        let plain = self.left == 0 && self.whole_claim && !self.exceptions && !followed;
        if plain && !self.settled_in_part {
            match self.handlers.context.store.ack_whole(vec![self.token.clone()]).await {
                // `settle` reports whether it happened.
                Err(error) if error.is_transient() => {}
                held => {
                    if held?.is_empty() {
                        tally.lost += words.len();
                    }
                    return Ok(());
                }
            }
        }
        // A retry or the next of a sequence is new work, maybe due at once.
        let settlement = Settlement { token: self.token.clone(), words };
        let mut pause = INSIST_PAUSE;
        let outcomes = loop {
            let within = self.served.as_ref().map(|(lane, _)| *lane);
            let answer =
                self.handlers.context.store.settle(vec![settlement.clone()], within, random::seed()).await;
            if !self.asks_again(answer.as_ref().err(), &mut pause).await {
                break answer?;
            }
        };
        tally.lost += outcomes.iter().flatten().filter(|o| **o == SettleOutcome::LostClaim).count();
        if self.exceptions || followed {
            self.handlers.context.wake.here();
        }
        Ok(())
    }
}

/// One item through its handler.
async fn handle(
    handler: Arc<dyn Handler>,
    claimed: ClaimedItem,
    permit: OwnedSemaphorePermit,
    hooked: bool,
) -> HandledMessage {
    let (start, message) = (monotonic(), claimed.message.id);
    let output = hooked.then(handler::Output::default);
    let work = Work {
        attempt: claimed.item.attempt(),
        due_at: claimed.due_at,
        message: claimed.message,
        output: output.clone(),
    };
    let handled = handler::run(&*handler, work).await;
    drop(permit);
    let output = output.and_then(|place| place.lock().unwrap_or_else(PoisonError::into_inner).take());
    HandledMessage { message, handled, output, took: start.elapsed() }
}

impl Drop for HandlerBatch {
    fn drop(&mut self) {
        self.slot().in_flight.fetch_sub(self.left, Ordering::Relaxed);
    }
}
