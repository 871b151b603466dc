//! A batch of claimed deliveries on its way through its channels.
//!
//! Each delivery is rendered and handed to its channel, with a bound on how many sends are out at once and
//! for how long. Outcomes are stored when the claim is through, or every `FLUSH` while a slow send holds it
//! up; the lease is renewed meanwhile. No send begins under a lease that may be over: the lease is counted
//! from before it was asked for. A batch whose claim was reaped stores nothing more: the process that has the
//! deliveries then sends them again, under the same keys. A delivery whose channel's limiter is closed goes
//! back to its place.
//!
//! At most a window of a claim is begun and not settled, so that a crash leaves no more than that in doubt.
//! Before each window the deliveries in it are looked at again: one whose entry has ended or is held goes
//! back, and consent, entities and templates are read anew. A channel that answers without waiting, such as
//! one inside this process, is exempt from the window.
//!
//! The [`Renderer`] of a delivery's kind makes its text; whether it goes on to its channel at all is decided
//! right before that ([`super::delivery_gate`]).
//!
//! Not promised: that an entry which ends while its delivery is in the current window is spared that send.

use crate::base::clock::{Monotonic, Timestamp, monotonic};
use crate::base::error::Result;
use crate::base::id::{DeliveryId, Token};
use crate::base::limits::{SEND_TIMEOUT, SEND_WINDOW};
use crate::database::planted_bugs::PlantedBug;
use crate::delivery::run::channel::{
    AcceptedMessage, Channel, ChannelResult, RenderedMessage, SendError, SendFuture,
};
use crate::delivery::run::channel_limiter::{ChannelReply, LimiterDecision, SendPermit};
use crate::delivery::run::context::{ClaimGuard, DeliveryContext};
use crate::delivery::run::kinds::{Planner, RenderOutcome, Renderer};
use crate::delivery::run::send_outcome::{TryAnswer, mark_uncertain, no_channel};
use crate::delivery::store::deliveries::delivery::{
    ClaimedDeliveries, DeliveryOutcome, DeliverySettlement, DueDelivery, SettledDelivery,
};
use crate::flow::rules::entry::EntryKind;
use crate::queue::run::database_clock::DatabaseClock;
use crate::queue::run::executor::{ClaimedWork, WorkCounts};
use crate::queue::run::stop::{StopPhase, StopSignal};
use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::task::{Id, JoinSet};

/// The outcomes of a claim that is not through are stored this often.
const FLUSH: Duration = Duration::from_millis(250);
/// The lease is renewed when this part of it has passed: one part in so many.
pub(crate) const RENEW_SHARE: u32 = 3;
/// A request that the database did not answer is repeated after this long.
const INSIST_PAUSE: Duration = Duration::from_millis(100);

/// A delivery whose message is out.
struct InFlightDelivery {
    due: DueDelivery,
    permit: SendPermit,
    renderer: Arc<dyn Renderer>,
}

/// Deliveries of one claim on their way.
pub struct DeliveryBatch {
    _out: ClaimGuard,
    context: Arc<DeliveryContext>,
    kind: EntryKind,
    /// Knows the deliveries of the current window.
    renderer: Option<Arc<dyn Renderer>>,
    /// Knows entries or events of the whole claim, and is used for the first window.
    first: Option<Box<dyn Renderer>>,
    token: Token,
    present: DatabaseClock,
    held_since: Monotonic,
    waiting: std::vec::IntoIter<DueDelivery>,
    /// How many deliveries of the claim were taken up so far, how many may be, and how many are settled.
    begun: usize,
    mark: usize,
    settled: usize,
    /// How many deliveries of the claim were looked at again and loaded.
    loaded: usize,
    /// Deliveries of the current window that must not be sent.
    stopped: HashSet<DeliveryId>,
    out: JoinSet<ChannelResult>,
    sends: HashMap<Id, InFlightDelivery>,
    ended: Vec<SettledDelivery>,
    counts: WorkCounts,
    lost: bool,
}

impl DeliveryBatch {
    /// Creates a batch from a claim that was requested at `asked`; `None` if there is nothing to send.
    #[must_use]
    pub fn new(
        context: &Arc<DeliveryContext>,
        kind: EntryKind,
        renderer: Box<dyn Renderer>,
        outgoing: ClaimedDeliveries,
        asked: Monotonic,
    ) -> Option<Self> {
        let (token, now) = (outgoing.token?, outgoing.now?);
        Some(Self {
            _out: ClaimGuard::new(context),
            context: Arc::clone(context),
            kind,
            renderer: None,
            first: Some(renderer),
            token,
            present: DatabaseClock::new(now, context.worker.manual_clock),
            held_since: asked,
            mark: outgoing.mark.unwrap_or(outgoing.due.len()),
            begun: 0,
            settled: 0,
            loaded: 0,
            stopped: HashSet::new(),
            waiting: outgoing.due.into_iter(),
            out: JoinSet::new(),
            sends: HashMap::new(),
            ended: Vec::new(),
            counts: WorkCounts::default(),
            lost: false,
        })
    }

    /// Sends of one claim may begin minutes apart.
    fn now(&self) -> Timestamp {
        self.present.now()
    }

    /// Sends everything, and stores the outcomes.
    ///
    /// # Errors
    /// When what a window needs cannot be read: all that was not begun goes back.
    pub async fn run(mut self, stop: StopSignal) -> Result<WorkCounts> {
        let mut flushed = monotonic();
        let mut result = Ok(());
        while !self.lost {
            match self.load_window(&stop).await {
                Ok(true) => {}
                Ok(false) => self.put_rest_back(),
                Err(error) => {
                    self.put_rest_back();
                    result = Err(error);
                }
            }
            self.hand_out(&stop).await;
            if self.is_window_used_up() {
                // Nothing more begins before what has finished is settled.
                self.settle().await;
                flushed = monotonic();
                continue;
            }
            if self.out.is_empty() || !self.hear(flushed, &stop).await {
                break;
            }
            if flushed.elapsed() >= FLUSH && !self.ended.is_empty() {
                self.settle().await;
                flushed = monotonic();
            }
        }
        self.settle().await;
        result.map(|()| self.counts)
    }

    /// Looks again at the deliveries that may begin next, and loads what they need; `false` when everything
    /// stops meanwhile.
    async fn load_window(&mut self, stop: &StopSignal) -> Result<bool> {
        if self.begun < self.loaded || self.begun >= self.mark {
            return Ok(true);
        }
        let window = self.waiting.as_slice();
        let window = &window[..window.len().min(self.mark - self.begun)];
        if window.is_empty() {
            return Ok(true);
        }
        let (first, context) = (self.first.take(), Arc::clone(&self.context));
        let load = async {
            let stopped = match &first {
                // They were looked at when they were claimed.
                Some(_) => HashSet::new(),
                None => context.store().stopped_deliveries(ids_of(window)).await?,
            };
            let fresh = || context.kinds.get(self.kind).map(Planner::renderer);
            let Some(mut renderer) = first.or_else(fresh) else { return Ok(None) };
            renderer.load(&context, window).await?;
            Ok(Some((stopped, renderer)))
        };
        let loaded = tokio::select! {
            biased;
            loaded = load => loaded?,
            () = stop.wait_for(StopPhase::Over) => None,
        };
        let Some((stopped, renderer)) = loaded else { return Ok(false) };
        self.loaded = self.begun + window.len();
        (self.stopped, self.renderer) = (stopped, Some(Arc::from(renderer)));
        Ok(true)
    }

    /// Gives back all that was not begun.
    fn put_rest_back(&mut self) {
        for due in std::mem::take(&mut self.waiting) {
            self.begun += 1;
            self.put_back(due);
        }
    }

    /// Whether more waits than may begin, and half of what has begun is through.
    fn is_window_used_up(&self) -> bool {
        let waits = self.begun == self.mark && !self.waiting.as_slice().is_empty();
        waits && (self.out.is_empty() || self.ended.len() >= SEND_WINDOW / 2)
    }

    /// The claim's mark after a settlement, if it has to move.
    fn next_mark(&self) -> Option<usize> {
        let waiting = self.waiting.as_slice();
        if waiting.is_empty() {
            return None;
        }
        // Deliveries of one lane stand together, so this asks once for each channel.
        let mut lanes = waiting.chunk_by(|a, b| a.item.lane() == b.item.lane());
        let at_once = lanes.all(|of| self.context.limiters.of(&of[0].delivery.channel).answers_at_once());
        Some(match at_once {
            true => self.begun + waiting.len(),
            false => (self.settled + self.ended.len() + SEND_WINDOW).max(self.mark),
        })
    }

    /// A delivery that was not begun keeps its place among those that wait.
    fn put_back(&mut self, due: DueDelivery) {
        let at = due.delivery.due_at.unwrap_or_else(|| self.now());
        self.end(due, DeliveryOutcome::NotBegun(at));
    }

    fn end(&mut self, due: DueDelivery, outcome: DeliveryOutcome) {
        let entry = self.renderer.as_ref().and_then(|renderer| renderer.entry(&due.delivery));
        self.ended.push(SettledDelivery { due, outcome, entry });
    }

    /// Waits until a send is through, or something else is to be done; `false`: not any longer.
    async fn hear(&mut self, flushed: Monotonic, stop: &StopSignal) -> bool {
        let renew = (self.context.worker.lease / RENEW_SHARE).saturating_sub(self.held_since.elapsed());
        let flush = if self.ended.is_empty() { renew } else { FLUSH.saturating_sub(flushed.elapsed()) };
        tokio::select! {
            biased;
            Some(done) = self.out.join_next_with_id() => {
                self.note(done);
                while let Some(done) = self.out.try_join_next_with_id() {
                    self.note(done);
                }
            }
            () = tokio::time::sleep(renew.min(flush)) => {
                if self.held_since.elapsed() >= self.context.worker.lease / RENEW_SHARE {
                    self.renew().await;
                }
            }
            () = stop.wait_for(StopPhase::Over) => return false,
        }
        true
    }

    /// Begins messages as far as there is room. Once a stop is requested, nothing new is begun: waiting
    /// messages go back.
    async fn hand_out(&mut self, stop: &StopSignal) {
        let Some(renderer) = self.renderer.clone() else { return };
        while self.out.len() < SEND_WINDOW && self.begun < self.loaded {
            let Some(mut due) = self.waiting.next() else { return };
            self.begun += 1;
            if stop.is_asked() || self.stopped.contains(&due.delivery.id) {
                self.put_back(due);
                continue;
            }
            let rendered = match self.prepare(renderer.as_ref(), &due) {
                Ok(rendered) => rendered,
                Err(ending) => {
                    let ending = if due.unsure { mark_uncertain(&due, *ending) } else { *ending };
                    let failed =
                        matches!(ending, DeliveryOutcome::Failed { .. } | DeliveryOutcome::Uncertain { .. });
                    self.counts.send_failures += usize::from(failed);
                    self.end(due, ending);
                    continue;
                }
            };
            // The lease is checked only now: it may have run out while messages were rendered.
            if !self.holds().await {
                self.put_back(due);
                continue;
            }
            due.warnings = rendered.0.warnings;
            self.send(&rendered.1, rendered.0.message, due, &renderer);
        }
    }

    /// The message and its channel, or why there is none.
    fn prepare(
        &self,
        renderer: &dyn Renderer,
        due: &DueDelivery,
    ) -> std::result::Result<(RenderOutcome, Arc<dyn Channel>), Box<DeliveryOutcome>> {
        let key = &due.delivery.channel;
        if due.lost {
            let policy = self.context.policy(key);
            policy
                .after_lost_send(due.item.attempt(), due.takes_key)
                .map_err(|said| due.given_up_in_doubt(None, said.to_owned()))?;
        }
        let now = self.now();
        renderer.gate(&self.context, due, now).into_outcome()?;
        let mut rendered = renderer.render(&self.context, due, now)?;
        if self.context.store().has(PlantedBug::KeyMadeAtRender) {
            let message = &mut rendered.message;
            message.idempotency_key = format!("{}@{}", message.idempotency_key, message.sent_at);
        }
        let channel = self.context.channels.get(key).ok_or_else(|| no_channel(key))?;
        Ok((rendered, Arc::clone(channel)))
    }

    /// Whether the lease holds for sure; one that may be over is asked for once more.
    async fn holds(&mut self) -> bool {
        if !self.lost && self.held_since.elapsed() >= self.context.worker.lease {
            self.renew().await;
        }
        !self.lost && self.held_since.elapsed() < self.context.worker.lease
    }

    /// Begins a send if its channel's limiter permits it.
    fn send(
        &mut self,
        channel: &Arc<dyn Channel>,
        message: RenderedMessage,
        mut due: DueDelivery,
        renderer: &Arc<dyn Renderer>,
    ) {
        match self.context.limiters.of(&message.channel).may_send(self.now()) {
            LimiterDecision::Go(permit) => {
                due.provider = Some(self.context.channels.provider_of(&message.channel).to_owned());
                let renderer = Arc::clone(renderer);
                self.begin(channel.send(Arc::new(message)), InFlightDelivery { due, permit, renderer });
            }
            // The delivery goes back to its place: no process claims it before the limiter has room again.
            _ => self.put_back(due),
        }
    }

    fn begin(&mut self, mut sending: SendFuture, out: InFlightDelivery) {
        // Many channels answer at once; only one that does not is worth a task of its own.
        let limiter = self.context.limiters.of(&out.due.delivery.channel);
        if let Some(sent) = at_once(&mut sending) {
            limiter.note_answer(true);
            return self.note_answer(out, sent);
        }
        limiter.note_answer(false);
        let sending = async move {
            let sent = tokio::time::timeout(SEND_TIMEOUT, sending);
            sent.await.unwrap_or_else(|_| Err(SendError::NoAnswer { error: no_answer() }))
        };
        let id = self.out.spawn(sending).id();
        self.sends.insert(id, out);
    }

    fn note(&mut self, done: std::result::Result<(Id, ChannelResult), tokio::task::JoinError>) {
        let (id, sent) = match done {
            Ok((id, sent)) => (id, sent),
            Err(error) => {
                (error.id(), Err(SendError::Unknown { error: format!("the channel broke: {error}") }))
            }
        };
        if let Some(out) = self.sends.remove(&id) {
            self.note_answer(out, sent);
        }
    }

    fn note_answer(
        &mut self,
        InFlightDelivery { due, permit, renderer }: InFlightDelivery,
        sent: ChannelResult,
    ) {
        match &sent {
            Ok(_) => self.counts.sent += 1,
            Err(_) => self.counts.send_failures += 1,
        }
        let answered = matches!(sent, Ok(_) | Err(SendError::Permanent { .. }));
        let answer = TryAnswer {
            sent: sent.map(AcceptedMessage::sanitize),
            probe: permit.is_probe(),
            now: self.now(),
        };
        permit.settle(answer.now, if answered { ChannelReply::Answered } else { ChannelReply::Failed });
        let policy = self.context.policy(&due.delivery.channel);
        let fallback = || renderer.fallback(&self.context, &due.delivery);
        let outcome = answer.ending(&due, policy, fallback);
        // The renderer of its own window knows its entry.
        let entry = renderer.entry(&due.delivery);
        self.ended.push(SettledDelivery { due, outcome, entry });
    }

    async fn renew(&mut self) {
        let asked = monotonic();
        let held = self.context.store().extend(vec![self.token.clone()], self.context.worker.lease).await;
        match held {
            Ok(held) if held.is_empty() => self.lost = true,
            Ok(_) => self.held_since = asked,
            // Asked again until the lease is over.
            Err(_) => tokio::time::sleep(INSIST_PAUSE).await,
        }
    }

    /// Stores the outcomes that are known; when the database is out of reach, again for as long as the lease
    /// lasts.
    async fn settle(&mut self) {
        if self.ended.is_empty() || self.lost {
            return;
        }
        let mark = self.next_mark();
        let ended: Arc<[SettledDelivery]> = std::mem::take(&mut self.ended).into();
        loop {
            match self.context.store().end_deliveries(self.token.clone(), Arc::clone(&ended), mark).await {
                Ok(settled) => {
                    self.lost = settled == DeliverySettlement::LostClaim;
                    self.settled += ended.len();
                    self.mark = mark.unwrap_or(self.mark);
                    break;
                }
                Err(error)
                    if error.is_transient() && self.held_since.elapsed() < self.context.worker.lease =>
                {
                    tokio::time::sleep(INSIST_PAUSE).await;
                }
                Err(error) => {
                    tracing::warn!(target: "punctual", %error, "delivery outcomes could not be stored");
                    self.lost = true;
                    break;
                }
            }
        }
        if self.lost {
            tracing::warn!(target: "punctual", deliveries = ended.len(), "a claim of deliveries was lost");
        }
    }
}

fn ids_of(due: &[DueDelivery]) -> Vec<DeliveryId> {
    due.iter().map(|one| one.delivery.id).collect()
}

/// Runs batches: in their order, or each beside the others.
///
/// # Errors
/// When a batch that was waited for cannot find out what there is to send.
pub(crate) async fn run_batches(
    batches: Vec<DeliveryBatch>,
    stop: &StopSignal,
    in_turn: bool,
    counts: &mut WorkCounts,
) -> Result<()> {
    let mut result = Ok(());
    for batch in batches {
        if !in_turn {
            let (worker, stop) = (Arc::clone(&batch.context.worker), stop.clone());
            ClaimedWork::new(batch.run(stop)).spawn(&worker);
            continue;
        }
        match batch.run(stop.clone()).await {
            Ok(done) => counts.add(done),
            // The other claimed deliveries are sent all the same.
            Err(error) => result = Err(error),
        }
    }
    result
}

/// Returns the answer of a channel that answers without waiting. A channel that panics may have sent the
/// message.
fn at_once(sending: &mut SendFuture) -> Option<ChannelResult> {
    let mut noop = Context::from_waker(Waker::noop());
    let polled = catch_unwind(AssertUnwindSafe(|| sending.as_mut().poll(&mut noop)));
    match polled {
        Ok(Poll::Ready(sent)) => Some(sent),
        Ok(Poll::Pending) => None,
        Err(_) => Some(Err(SendError::Unknown { error: "the channel broke: it panicked".to_owned() })),
    }
}

fn no_answer() -> String {
    format!("the channel did not answer in {} s; it may have gone out", SEND_TIMEOUT.as_secs())
}
