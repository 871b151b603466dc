//! Claims that wait for work: one look at the database for all of them.
//!
//! Every wake-up used to make every waiting claim ask the database. Here one task of the process looks
//! after a wake-up and wakes one claim for each lane that has due work. A claim that fills its batch
//! wakes two more, so a burst reaches many workers soon, and a claim that was woken in vain or whose client
//! is gone passes its wake-up on. A key may have [`PER_KEY_MAX`] claims waiting.

use crate::auth::Caller;
use crate::http::error::{Answer, ApiFailure};
use axum::http::StatusCode;
use punctual::{ClockMode, Engine, LaneId, Tenant};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};

/// Claims of one key that may wait at once.
pub const PER_KEY_MAX: usize = 2_000;
/// Claims that one claim with a full batch wakes.
const WOKEN_BY_FULL_BATCH: usize = 2;
/// The longest pause between two looks.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// The pause after a look that found due work: a woken claim may have found it taken, or behind its key.
const LOOK_SOON: Duration = Duration::from_millis(100);
/// The shortest pause between two looks.
const LOOK_MIN: Duration = Duration::from_millis(5);
/// Lanes that one statement looks at.
const LANES_MAX: usize = 1_000;
/// How long a client that has too many claims waiting should pause.
const RETRY_SECONDS: u32 = 1;

/// The claims of this process that wait for work.
#[derive(Clone, Debug)]
pub struct WaitingClaims(Arc<Shared>);

impl Default for WaitingClaims {
    fn default() -> Self {
        Self::at_most(PER_KEY_MAX)
    }
}

#[derive(Debug)]
struct Shared {
    per_key_max: usize,
    state: Mutex<State>,
    joined: Notify,
}

#[derive(Debug, Default)]
struct State {
    lanes: BTreeMap<LaneId, VecDeque<(u64, oneshot::Sender<()>)>>,
    keys: HashMap<(Tenant, String), usize>,
    next_id: u64,
    is_looking: bool,
}

impl WaitingClaims {
    /// Lets so many claims of each key wait.
    #[must_use]
    pub fn at_most(per_key_max: usize) -> Self {
        Self(Arc::new(Shared { per_key_max, state: Mutex::default(), joined: Notify::default() }))
    }

    /// Counts a claim that is about to wait.
    ///
    /// # Errors
    /// 429 when the key has too many of them.
    pub fn admit(&self, caller: &Caller) -> Answer<ClaimAdmission> {
        let key = (caller.tenant, caller.name.clone());
        let mut state = self.state();
        let count = state.keys.entry(key.clone()).or_default();
        let most = self.0.per_key_max;
        if *count >= most {
            let said = format!(
                "{most} claims of this key wait for work already; use a larger limit or fewer workers"
            );
            let failure = ApiFailure::new(StatusCode::TOO_MANY_REQUESTS, "too-many-waiting", said);
            return Err(failure.retry_after(RETRY_SECONDS));
        }
        *count += 1;
        drop(state);
        Ok(ClaimAdmission { claims: self.clone(), key })
    }

    /// Enters a claim, before it claims, so that no work slips in between.
    pub fn enter(&self, engine: &Engine, lane: LaneId) -> WaitingClaim {
        let (wake, woken) = oneshot::channel();
        let mut state = self.state();
        let id = state.next_id;
        state.next_id += 1;
        state.lanes.entry(lane).or_default().push_back((id, wake));
        let begins = !std::mem::replace(&mut state.is_looking, true);
        drop(state);
        if begins {
            tokio::spawn(self.clone().look_on(engine.clone()));
        }
        self.0.joined.notify_one();
        WaitingClaim { claims: self.clone(), lane, id, woken, is_spent: false }
    }

    /// Tells the others of a lane that a claim filled its batch, so that there may be more.
    pub fn filled(&self, lane: LaneId) {
        self.wake(lane, WOKEN_BY_FULL_BATCH);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the claims that have waited longest; answers whether there was one.
    fn wake(&self, lane: LaneId, most: usize) -> bool {
        let mut state = self.state();
        let Some(waiting) = state.lanes.get_mut(&lane) else { return false };
        let mut woken = 0;
        while woken < most
            && let Some((_, wake)) = waiting.pop_front()
        {
            woken += usize::from(wake.send(()).is_ok());
        }
        if waiting.is_empty() {
            state.lanes.remove(&lane);
        }
        woken > 0
    }

    /// Looks until no claim waits any more.
    async fn look_on(self, engine: Engine) {
        loop {
            let mut woken = pin!(engine.woken());
            // From here on a wake-up counts, also during the look.
            tokio::select! { biased; () = &mut woken => {}, () = std::future::ready(()) => {} }
            {
                let mut state = self.state();
                if state.lanes.is_empty() {
                    state.is_looking = false;
                    return;
                }
            }
            let pause = self.look(&engine).await.unwrap_or(LOOK_AGAIN);
            tokio::time::sleep(LOOK_MIN).await;
            tokio::select! {
                () = woken => {}
                () = self.0.joined.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Wakes a claim for each lane that has due work; answers how long to pause.
    async fn look(&self, engine: &Engine) -> Answer<Duration> {
        engine.route_waiting().await?;
        let (mut after, mut pause) = (LaneId::UNROUTED, LOOK_AGAIN);
        loop {
            let view = engine.ready_lanes(after, LANES_MAX).await?;
            for seen in view.lanes.iter().filter(|seen| !seen.paused) {
                let wait = seen.first_due.since(view.now);
                if wait.is_zero() && self.wake(seen.lane, 1) {
                    pause = pause.min(LOOK_SOON);
                } else if engine.clock() == ClockMode::System && self.has(seen.lane) {
                    pause = pause.min(wait.max(LOOK_MIN));
                }
                after = seen.lane;
            }
            if !view.more {
                return Ok(pause);
            }
        }
    }

    fn has(&self, lane: LaneId) -> bool {
        self.state().lanes.contains_key(&lane)
    }
}

/// A claim that counts among those of its key.
#[derive(Debug)]
pub struct ClaimAdmission {
    claims: WaitingClaims,
    key: (Tenant, String),
}

impl Drop for ClaimAdmission {
    fn drop(&mut self) {
        let mut state = self.claims.state();
        if let Some(count) = state.keys.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                state.keys.remove(&self.key);
            }
        }
    }
}

/// A claim among those that wait for its lane.
#[derive(Debug)]
pub struct WaitingClaim {
    claims: WaitingClaims,
    lane: LaneId,
    id: u64,
    woken: oneshot::Receiver<()>,
    is_spent: bool,
}

impl WaitingClaim {
    /// Waits until there may be work. The claim must then ask for it, or be dropped.
    pub async fn woken(&mut self) {
        // The sender is kept until it sends.
        let _ = (&mut self.woken).await;
        self.is_spent = true;
    }
}

impl Drop for WaitingClaim {
    fn drop(&mut self) {
        if self.is_spent {
            return;
        }
        let mut state = self.claims.state();
        if let Some(waiting) = state.lanes.get_mut(&self.lane) {
            waiting.retain(|(id, _)| *id != self.id);
            if waiting.is_empty() {
                state.lanes.remove(&self.lane);
            }
        }
        drop(state);
        if self.woken.try_recv().is_ok() {
            self.claims.wake(self.lane, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual::access::store::keys::Role;

    fn caller(name: &str) -> Caller {
        Caller { tenant: Tenant::DEFAULT, role: Role::Support, name: name.into(), id: "1".into() }
    }

    #[test]
    fn a_key_has_so_many_claims_waiting() {
        let claims = WaitingClaims::default();
        let mut admitted: Vec<ClaimAdmission> =
            (0..PER_KEY_MAX).map(|_| claims.admit(&caller("a")).unwrap()).collect();
        assert_eq!(claims.admit(&caller("a")).unwrap_err().status(), StatusCode::TOO_MANY_REQUESTS);
        assert!(claims.admit(&caller("b")).is_ok(), "another key has its own");
        admitted.pop();
        assert!(claims.admit(&caller("a")).is_ok());
        admitted.clear();
        assert!(claims.state().keys.is_empty());
    }

    #[tokio::test]
    async fn a_wake_up_of_a_claim_that_is_gone_goes_to_the_next() {
        let engine = Engine::builder("sqlite::memory:").open().await.unwrap();
        let claims = WaitingClaims::default();
        let (first, mut second) = (claims.enter(&engine, LaneId(1)), claims.enter(&engine, LaneId(1)));
        assert!(claims.wake(LaneId(1), 1));
        drop(first);
        second.woken().await;
        assert!(!claims.wake(LaneId(1), 1), "nobody waits any more");
    }
}
