//! The reaper: watches leases, and brings back what their holders lost.

use crate::base::error::Result;
use crate::base::random;
use crate::database::store::Store;
use crate::queue::run::loop_health::LoopBody;
use crate::queue::run::wake::Wake;
use crate::queue::store::reap::ReapOutcome;
use std::time::Duration;

/// Claims of other processes are looked at this often, whatever is known of them.
const PEEK_MAX: Duration = Duration::from_secs(5);
/// A lease that ends is not looked at more often than this.
const PEEK_MIN: Duration = Duration::from_millis(100);

/// The loop that reaps.
#[derive(Debug)]
pub struct Reaper {
    store: Store,
    wake: Wake,
    next: Duration,
}

impl Reaper {
    /// A reaper that wakes the dispatcher when items came back.
    #[must_use]
    pub const fn new(store: Store, wake: Wake) -> Self {
        Self { store, wake, next: PEEK_MAX }
    }

    /// Reaps all that has run out by now.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn reap_all(&mut self) -> Result<ReapOutcome> {
        let mut all = ReapOutcome::default();
        loop {
            let leases = self.store.peek_leases().await?;
            if leases.next.is_none_or(|end| end > leases.now) {
                self.next = leases.next.map_or(PEEK_MAX, |end| end.since(leases.now));
                return Ok(all);
            }
            let reaped = self.store.reap(random::seed()).await?;
            if reaped.claims == 0 {
                // Another process is reaping.
                self.next = PEEK_MIN;
                return Ok(all);
            }
            all.claims += reaped.claims;
            all.returned += reaped.returned;
            all.dead += reaped.dead;
        }
    }
}

impl LoopBody for Reaper {
    async fn tick(&mut self) -> Result<()> {
        let reaped = self.reap_all().await?;
        if reaped.claims > 0 {
            super::gauge::reaped(&reaped);
            tracing::info!(target: "punctual", ?reaped, "claims whose lease ran out came back");
            self.wake.all();
        }
        Ok(())
    }

    async fn wait(&mut self) {
        tokio::time::sleep(self.next.clamp(PEEK_MIN, PEEK_MAX)).await;
    }
}
