//! The quarantine: items that were in a crash before run one at a time, and wait here for their turn.
//!
//! A worker that crashed may leave hundreds of them. Each has a claim of its own, and all leases of the
//! quarantine are renewed together, by the first item that finds a renewal due: one statement, however many
//! items wait. An item whose claim turns out to be lost is taken out of the quarantine.
//!
//! Not promised: any order among the waiting items.

use crate::base::clock::{Monotonic, monotonic};
use crate::base::error::Result;
use crate::base::id::Token;
use crate::database::store::Store;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};

/// The waiting claims, with the time of each lease request.
#[derive(Debug)]
pub struct Quarantine {
    turn: Semaphore,
    places: Mutex<BTreeMap<Token, Monotonic>>,
    keeper: tokio::sync::Mutex<()>,
}

impl Default for Quarantine {
    fn default() -> Self {
        Self { turn: Semaphore::new(1), places: Mutex::default(), keeper: tokio::sync::Mutex::default() }
    }
}

/// A claim in the quarantine, which leaves it when dropped.
#[derive(Debug)]
pub(crate) struct QuarantinedClaim<'l> {
    line: &'l Quarantine,
    token: Token,
}

impl Quarantine {
    /// Joins it with a lease that was asked for then.
    pub(crate) fn join(&self, token: &Token, leased: Monotonic) -> QuarantinedClaim<'_> {
        self.places().insert(token.clone(), leased);
        QuarantinedClaim { line: self, token: token.clone() }
    }

    /// Waits for its turn, which lasts until the answer is dropped.
    pub(crate) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.turn.acquire().await.ok()
    }

    fn places(&self) -> MutexGuard<'_, BTreeMap<Token, Monotonic>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn renew_all(&self, store: &Store, lease: Duration) -> Result<()> {
        let tokens: Vec<Token> = self.places().keys().cloned().collect();
        let asked = monotonic();
        let held: BTreeSet<Token> = store.extend(tokens.clone(), lease).await?.into_iter().collect();
        // An answer that took longer than the lease says nothing about it.
        let in_time = asked.elapsed() < lease;
        let mut places = self.places();
        for token in tokens {
            if in_time && held.contains(&token) {
                places.entry(token).and_modify(|leased| *leased = asked);
            } else {
                places.remove(&token);
            }
        }
        Ok(())
    }
}

impl QuarantinedClaim<'_> {
    /// When its lease was asked for; `None` when it was lost.
    pub(crate) fn leased(&self) -> Option<Monotonic> {
        self.line.places().get(&self.token).copied()
    }

    /// Waits until its lease is this old, and renews it with the others'; returns false if it was lost.
    pub(crate) async fn keep(&self, store: &Store, lease: Duration, age: Duration) -> Result<bool> {
        let Some(leased) = self.leased() else { return Ok(false) };
        tokio::time::sleep(age.saturating_sub(leased.elapsed())).await;
        let _one = self.line.keeper.lock().await;
        match self.leased() {
            None => return Ok(false),
            Some(leased) if leased.elapsed() < age => return Ok(true),
            Some(_) => self.line.renew_all(store, lease).await?,
        }
        Ok(self.leased().is_some())
    }
}

impl Drop for QuarantinedClaim<'_> {
    fn drop(&mut self) {
        self.line.places().remove(&self.token);
    }
}
