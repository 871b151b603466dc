//! A lease guard: holds a lease, renews it, and says when it is lost *or may be*.
//!
//! A guard believes in its lease until the length of the lease, less a margin, has passed on the monotonic
//! clock since *before* the last request that was granted was sent. The database gives the lease to another
//! only when the whole length has passed since it was asked. So whatever happens to a renewal (an error, no
//! answer, an answer that comes too late), the guard is lost before another can hold the lease. A loss is
//! final: an owner that wants the lease again acquires it again, under a greater token.
//!
//! Not promised: anything while the machine is suspended, when its monotonic clock may stand still, or when
//! the database's own clock is set forward by more than the margin. Nor does a guard stop the holder's work:
//! it reports that the work must stop. The fencing token protects against writes that are late all the same.
//! On a manual clock a jump past the end loses the lease at once, and the guard learns of it at its next
//! renewal.

use crate::base::clock::{Monotonic, monotonic};
use crate::base::error::{Error, Result};
use crate::base::id::FencingToken;
use crate::base::limits;
use crate::base::random;
use crate::base::tenant::Tenant;
use crate::database::store::Store;
use crate::jobs::rules::lease::{LeaseTiming, check, patience};
use crate::jobs::run::gauge;
use crate::jobs::store::leases::{AcquireOutcome, Lease, LeaseHold, ReleaseOutcome, RenewOutcome};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};

/// A release that is not answered by then is left to the lease's own end.
const RELEASE_PATIENCE: Duration = Duration::from_secs(5);

/// A candidate for a lease.
///
/// ```no_run
/// # async fn example(engine: punctual::Engine) -> Result<(), punctual::Error> {
/// use punctual::Tenant;
/// use punctual::jobs::run::lease::CandidateOutcome;
/// use std::time::Duration;
///
/// let report = engine.lease(Tenant::DEFAULT, "nightly-report").duration(Duration::from_secs(60));
/// match report.try_acquire().await? {
///     CandidateOutcome::Acquired(guard) => {
///         guard.while_held(async { /* what only one may do at a time */ }).await?;
///         guard.release().await?;
///     }
///     CandidateOutcome::Held(by) => println!("{} is at it until {}", by.owner, by.expires_at),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct LeaseCandidate {
    store: Store,
    tenant: Tenant,
    name: String,
    owner: String,
    duration: Duration,
    renew_percent: u8,
}

/// The outcome of an attempt.
#[derive(Debug)]
pub enum CandidateOutcome {
    /// The lease is held.
    Acquired(LeaseGuard),
    /// Another owner holds it, or another guard of the same owner.
    Held(Lease),
}

impl LeaseCandidate {
    /// A candidate for a lease of the usual length.
    #[must_use]
    pub fn new(store: Store, tenant: Tenant, name: impl Into<String>, owner: impl Into<String>) -> Self {
        Self {
            store,
            tenant,
            name: name.into(),
            owner: owner.into(),
            duration: limits::LEASE_DEFAULT,
            renew_percent: limits::LEASE_RENEW_PERCENT,
        }
    }

    /// How long the lease lasts without a renewal: that long others wait after a crash.
    #[must_use]
    pub const fn duration(mut self, duration: Duration) -> Self {
        self.duration = duration;
        self
    }

    /// Renews when this part of the length has passed, in percent.
    #[must_use]
    pub const fn renew_percent(mut self, percent: u8) -> Self {
        self.renew_percent = percent;
        self
    }

    /// The name that others see; the process's own if nothing is said.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = owner.into();
        self
    }

    /// Acquires the lease if it is free.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every problem; or when the database does not answer.
    pub async fn try_acquire(&self) -> Result<CandidateOutcome> {
        let rhythm = LeaseTiming::new(self.duration, self.renew_percent)?;
        check(&self.name, &self.owner, self.duration)?;
        let candidate = self.clone();
        // In a task of its own: a caller that goes away half-way leaves a guard that is dropped, and not a
        // lease without a guard.
        let task = tokio::spawn(async move { candidate.acquire(rhythm).await });
        task.await.map_err(|e| Error::Unavailable(e.into()))?
    }

    /// Waits for the lease, at most this long.
    ///
    /// # Errors
    /// As [`LeaseCandidate::try_acquire`].
    pub async fn acquire_within(&self, limit: Duration) -> Result<CandidateOutcome> {
        let since = monotonic();
        loop {
            let held = match self.try_acquire().await? {
                CandidateOutcome::Held(held) => held,
                acquired @ CandidateOutcome::Acquired(_) => return Ok(acquired),
            };
            let left = limit.saturating_sub(since.elapsed());
            if left.is_zero() {
                return Ok(CandidateOutcome::Held(held));
            }
            let ends_in = held.expires_at.since(held.now).max(Duration::from_millis(1));
            tokio::time::sleep(ends_in.min(limits::LEASE_LOOK).min(left)).await;
        }
    }

    async fn acquire(self, rhythm: LeaseTiming) -> Result<CandidateOutcome> {
        let sent = monotonic();
        let acquired = self.store.acquire_lease(self.tenant, &self.name, &self.owner, self.duration).await?;
        let lease = match acquired {
            AcquireOutcome::Acquired(lease) => lease,
            AcquireOutcome::Held(lease) => return Ok(CandidateOutcome::Held(lease)),
        };
        let held = LeaseHold { name: self.name, owner: self.owner, token: lease.token };
        Ok(CandidateOutcome::Acquired(LeaseGuard::begin(self.store, self.tenant, held, rhythm, sent)))
    }
}

/// Why a lease is held no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseLoss {
    /// No renewal was confirmed before the end: another may hold it soon.
    Unconfirmed,
    /// The database says that the token holds nothing any more.
    Refused,
    /// The lease was released.
    Released,
}

/// The belief of a guard in its lease.
#[derive(Clone, Copy, Debug)]
struct LeaseBelief {
    /// The lease is surely held until then.
    until: Monotonic,
    lost: Option<LeaseLoss>,
}

impl LeaseBelief {
    fn loss(&self) -> Option<LeaseLoss> {
        self.lost.or_else(|| (monotonic() >= self.until).then_some(LeaseLoss::Unconfirmed))
    }
}

/// A lease that is held, and renewed in the background. Dropping it gives the lease back, if
/// the database can be reached; [`LeaseGuard::release`] says whether it was.
#[derive(Debug)]
pub struct LeaseGuard {
    held: LeaseHold,
    watch: LeaseWatch,
    asks: mpsc::UnboundedSender<LeaseRequest>,
}

/// Reports a guard's loss; cheap to clone, for tasks that must stop then.
#[derive(Clone, Debug)]
pub struct LeaseWatch(watch::Receiver<LeaseBelief>);

#[derive(Debug)]
enum LeaseRequest {
    Renew(oneshot::Sender<Result<()>>),
    Release(oneshot::Sender<Result<ReleaseOutcome>>),
}

impl LeaseWatch {
    /// Waits until the lease is lost or may be; from then on it is.
    pub async fn lost(&self) -> LeaseLoss {
        let mut belief = self.0.clone();
        loop {
            let now = *belief.borrow_and_update();
            if let Some(loss) = now.loss() {
                return loss;
            }
            // Its own timer: whatever has become of the guard, time passes.
            let end = tokio::time::sleep(now.until.since(monotonic()));
            tokio::select! {
                biased;
                () = end => {}
                Ok(()) = belief.changed() => {}
            }
        }
    }

    /// Whether the lease is lost or may be. Exact at every moment, without a request.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.loss().is_some()
    }

    /// Why it is lost, if it is.
    #[must_use]
    pub fn loss(&self) -> Option<LeaseLoss> {
        self.0.borrow().loss()
    }
}

impl LeaseGuard {
    fn begin(store: Store, tenant: Tenant, held: LeaseHold, rhythm: LeaseTiming, sent: Monotonic) -> Self {
        let (belief, watch) = watch::channel(LeaseBelief { until: sent + rhythm.safe_for(), lost: None });
        let (asks, asked) = mpsc::unbounded_channel();
        let keeper = LeaseRenewer { store, tenant, held: held.clone(), rhythm, belief, asks: asked };
        tokio::spawn(keeper.run(sent));
        Self { held, watch: LeaseWatch(watch), asks }
    }

    /// The lease's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.held.name
    }

    /// The name under which it is held.
    #[must_use]
    pub fn owner(&self) -> &str {
        &self.held.owner
    }

    /// The fencing token, to be handed to whatever the lease protects.
    #[must_use]
    pub const fn token(&self) -> FencingToken {
        self.held.token
    }

    /// Returns a handle that reports the loss.
    #[must_use]
    pub fn watch(&self) -> LeaseWatch {
        self.watch.clone()
    }

    /// Waits until the lease is lost or may be.
    pub async fn lost(&self) -> LeaseLoss {
        self.watch.lost().await
    }

    /// Whether the lease is lost or may be. Exact at every moment, without a request.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.watch.is_lost()
    }

    /// The token, if the lease is surely held at this moment. Makes no request.
    ///
    /// # Errors
    /// [`Error::Conflict`] when it is lost or may be.
    pub fn ensure_held(&self) -> Result<FencingToken> {
        self.watch.loss().map_or(Ok(self.token()), |loss| Err(lost(self.name(), loss)))
    }

    /// Renews at once, and so asks the database whether the lease is held.
    ///
    /// # Errors
    /// [`Error::Conflict`] when it is lost; another error when the database did not answer,
    /// which alone is no loss yet.
    pub async fn renew_now(&self) -> Result<()> {
        let (reply, answer) = oneshot::channel();
        self.asks.send(LeaseRequest::Renew(reply)).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    /// Runs some work, and drops it where it stands when the lease is lost or may be.
    ///
    /// # Errors
    /// [`Error::Conflict`] when it was.
    pub async fn while_held<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        tokio::select! {
            biased;
            loss = self.lost() => Err(lost(self.name(), loss)),
            done = work => Ok(done),
        }
    }

    /// Gives the lease back.
    ///
    /// # Errors
    /// When the database does not answer; the lease then ends by itself.
    pub async fn release(self) -> Result<ReleaseOutcome> {
        let (reply, answer) = oneshot::channel();
        self.asks.send(LeaseRequest::Release(reply)).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

fn lost(name: &str, loss: LeaseLoss) -> Error {
    let why = match loss {
        LeaseLoss::Unconfirmed => "may be lost: no renewal was confirmed before its end",
        LeaseLoss::Refused => "is lost: the database says that it ended or is held by another",
        LeaseLoss::Released => "was released",
    };
    Error::Conflict(format!("the lease `{name}` {why}"))
}

fn gone() -> Error {
    Error::Unavailable("the task that keeps the lease has ended with its runtime".into())
}

/// The task behind a guard.
struct LeaseRenewer {
    store: Store,
    tenant: Tenant,
    held: LeaseHold,
    rhythm: LeaseTiming,
    belief: watch::Sender<LeaseBelief>,
    asks: mpsc::UnboundedReceiver<LeaseRequest>,
}

impl LeaseRenewer {
    async fn run(mut self, sent: Monotonic) {
        let mut renew_at = sent + self.rhythm.renew_after(random::seed());
        let last_word = loop {
            let belief = *self.belief.borrow();
            if let Some(loss) = belief.loss() {
                break self.mourn(loss).await;
            }
            tokio::select! {
                biased;
                () = until(belief.until) => {}
                ask = self.asks.recv() => match ask {
                    Some(LeaseRequest::Renew(reply)) => {
                        let (next, answer) = self.renew().await;
                        renew_at = next;
                        reply.send(answer).ok();
                    }
                    Some(LeaseRequest::Release(reply)) => break Some(reply),
                    None => break None,
                },
                () = until(renew_at) => renew_at = self.renew().await.0,
            }
        };
        let answer = self.release().await;
        if let Some(reply) = last_word {
            reply.send(answer).ok();
        }
    }

    /// One try to renew, and when the next one is due.
    async fn renew(&mut self) -> (Monotonic, Result<()>) {
        let sent = monotonic();
        let left = self.belief.borrow().until.since(sent);
        let asked = self.store.renew_lease(self.tenant, self.held.clone(), self.rhythm.duration());
        let answer = tokio::time::timeout(patience(left), asked).await;
        let answer = match answer.unwrap_or_else(|_| Err(Error::Unavailable("no answer in time".into()))) {
            Ok(RenewOutcome::Renewed(_)) if self.believe_until(sent + self.rhythm.safe_for()) => {
                return (sent + self.rhythm.renew_after(random::seed()), Ok(()));
            }
            Ok(RenewOutcome::Renewed(_)) => Err(lost(&self.held.name, LeaseLoss::Unconfirmed)),
            Ok(RenewOutcome::Lost) => {
                self.lose(LeaseLoss::Refused);
                Err(lost(&self.held.name, LeaseLoss::Refused))
            }
            Err(error) => {
                tracing::info!(target: "punctual", lease = self.held.name, %error, "a renewal failed");
                Err(error)
            }
        };
        (monotonic() + self.rhythm.retry_pause(), answer)
    }

    /// Believes for longer, unless a caller could have seen the loss already.
    fn believe_until(&self, until: Monotonic) -> bool {
        self.belief.send_if_modified(|belief| {
            let held = belief.loss().is_none();
            if held {
                belief.until = until;
            }
            held
        })
    }

    fn lose(&self, loss: LeaseLoss) {
        self.belief.send_modify(|belief| belief.lost = belief.lost.or(Some(loss)));
    }

    /// Reports the loss of the lease, and waits until the holder has stopped. The lease is not released
    /// before that, or another owner could begin while the holder still stops.
    async fn mourn(&mut self, loss: LeaseLoss) -> Option<oneshot::Sender<Result<ReleaseOutcome>>> {
        self.lose(loss);
        gauge::lease_lost();
        tracing::warn!(target: "punctual", lease = self.held.name, token = %self.held.token, ?loss,
            "a lease is lost or may be");
        loop {
            match self.asks.recv().await {
                Some(LeaseRequest::Renew(reply)) => _ = reply.send(Err(lost(&self.held.name, loss))),
                Some(LeaseRequest::Release(reply)) => return Some(reply),
                None => return None,
            }
        }
    }

    async fn release(&self) -> Result<ReleaseOutcome> {
        self.lose(LeaseLoss::Released);
        let asked = self.store.release_lease(self.tenant, self.held.clone());
        let late = || Error::Unavailable("no answer in time; the lease ends by itself".into());
        tokio::time::timeout(RELEASE_PATIENCE, asked).await.map_err(|_| late())?
    }
}

async fn until(moment: Monotonic) {
    tokio::time::sleep(moment.since(monotonic())).await;
}
