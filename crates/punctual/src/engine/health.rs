//! Health: the state of the engine, for an operator and a load balancer.

use crate::base::clock::monotonic;
use crate::base::component::Component;
use crate::base::duration;
use crate::base::error::Error;
use crate::base::limits::HOST_SKEW_MAX;
use crate::database::clock::ClockMode;
use crate::engine::Engine;
use crate::operate::store::census::Census;
use crate::operate::store::storage::StorageStatus;
use crate::queue::run::loop_health::{LoopHealth, LoopStatus};
use crate::queue::store::inbox::InboxCounts;
use std::pin::Pin;
use std::sync::PoisonError;
use std::time::Duration;

/// A write that went well is not tried again for so long.
const WRITE_COUNTS_FOR: Duration = Duration::from_secs(10);

/// A job that is due for longer than this has no planner.
const JOB_LATE_MAX: Duration = Duration::from_secs(60);

/// The state of the engine.
#[derive(Debug)]
pub struct Health {
    /// The tables, or why they cannot be read.
    pub database: Result<Census, String>,
    /// The inbox; all zero when it cannot be read.
    pub inbox: InboxCounts,
    /// Whether the database takes writes; not asked when it cannot be read.
    pub storage: StorageStatus,
    /// The loops of this process.
    pub loops: Vec<LoopStatus>,
    /// The clock source: a manual clock differs from the host's on purpose.
    pub clock: ClockMode,
}

impl Health {
    /// Returns whether requests can be served.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.database.as_ref().is_ok_and(|census| census.missing.is_empty())
    }

    /// Everything that is not as it should be, in words.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        let mut all = Vec::new();
        match &self.database {
            Err(error) => all.push(error.clone()),
            Ok(census) => {
                all.extend(census.missing.iter().map(|name| format!("the table or index {name} is missing")));
                if census.stuck_claims > 0 {
                    all.push(format!(
                        "{} claims are past their lease and were not reaped: is a worker running?",
                        census.stuck_claims
                    ));
                }
                if let Some(due) = census.next_job().filter(|due| census.now.since(*due) > JOB_LATE_MAX) {
                    all.push(format!("jobs are due since {due} and were not planned: is a worker running?"));
                }
            }
        }
        all.extend(self.skew_complaint());
        all.extend(self.storage.complaints());
        if self.inbox.stuck > 0 {
            all.push(format!(
                "{} messages in the inbox are long past their lease and were not delivered again: \
                 has their sender given up?",
                self.inbox.stuck
            ));
        }
        for status in &self.loops {
            if let Some(trouble) = &status.trouble {
                all.push(format!("the loop `{}` pauses: {trouble}", status.name));
            }
            if status.is_hung() {
                all.push(format!(
                    "the loop `{}` hangs: its tick has taken more than {} s; start this process again",
                    status.name,
                    status.hung_after.as_secs_f64()
                ));
            }
        }
        all
    }
}

impl Health {
    fn skew_complaint(&self) -> Option<String> {
        let census = self.database.as_ref().ok().filter(|_| self.clock == ClockMode::System)?;
        let skew = Duration::from_micros(census.host_skew_us.unsigned_abs());
        let how = if census.host_skew_us > 0 { "ahead of" } else { "behind" };
        (skew > HOST_SKEW_MAX).then(|| {
            format!(
                "the clock of this host is {} {how} the database's, which decides: check time \
                 synchronisation",
                duration::write(skew)
            )
        })
    }
}

impl Engine {
    /// Asks the database and the loops how they are.
    pub fn health(&self) -> Pin<Box<dyn Future<Output = Health> + Send + '_>> {
        Box::pin(self.look_at_health())
    }

    async fn look_at_health(&self) -> Health {
        let asked = async {
            let census = self.store().census().await?;
            if !census.components.has(Component::Inbox) {
                return Ok((census, InboxCounts::default()));
            }
            let inbox = self.store().count_inbox(self.inner.inbox.stuck_after).await;
            Ok((census, inbox.unwrap_or_default()))
        };
        let (database, inbox) = match tokio::time::timeout(Duration::from_secs(5), asked).await {
            Ok(Ok((census, inbox))) => (Ok(census), inbox),
            Ok(Err::<_, Error>(error)) => (Err(error.to_string()), InboxCounts::default()),
            Err(_) => (Err("the database did not answer within 5 seconds".into()), InboxCounts::default()),
        };
        let storage = if database.is_ok() { self.storage_status().await } else { StorageStatus::default() };
        let loops = self.inner.loops.lock().unwrap_or_else(PoisonError::into_inner);
        let loops = loops.health.iter().map(LoopHealth::status).collect();
        Health { database, inbox, storage, loops, clock: self.inner.clock }
    }

    /// Whether the database takes writes. One that went well counts for a while, so that health checks of
    /// many processes do not become a load.
    async fn storage_status(&self) -> StorageStatus {
        let kept = self.inner.loops.lock().unwrap_or_else(PoisonError::into_inner).storage.clone();
        if let Some((_, status)) = kept.filter(|(at, _)| at.elapsed() < WRITE_COUNTS_FOR) {
            return status;
        }
        let status = self.store().storage_status().await;
        let mut loops = self.inner.loops.lock().unwrap_or_else(PoisonError::into_inner);
        loops.storage = status.write_error.is_none().then(|| (monotonic(), status.clone()));
        status
    }

    /// Whether all loops go on by themselves: one whose tick hangs does not. A loop that pauses because the
    /// database is away does.
    #[must_use]
    pub fn is_live(&self) -> bool {
        let loops = self.inner.loops.lock().unwrap_or_else(PoisonError::into_inner);
        !loops.health.iter().any(|of| of.status().is_hung())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::Timestamp;

    /// PLT-25, PLT-6: health reports a host whose clock is off, unless the clock is manual.
    #[test]
    fn plt_25_health_tells_the_skew_of_the_host_in_words() {
        let complaints = |host_skew_us, clock| {
            let census = Census {
                components: crate::base::component::Components::ALL,
                now: Timestamp::from_micros(0),
                host_skew_us,
                schema_version: 20,
                missing: Vec::new(),
                open_claims: 0,
                stuck_claims: 0,
                dead_letters: 0,
                workers: Vec::new(),
                jobs: Vec::new(),
            };
            let (inbox, storage) = (InboxCounts::default(), StorageStatus::default());
            Health { database: Ok(census), inbox, storage, loops: Vec::new(), clock }.complaints()
        };
        let system = ClockMode::System;
        assert_eq!(complaints(1_000_000, system), [""; 0], "a second is no skew to speak of");
        let ahead = complaints(9_000_000, system);
        assert!(ahead.len() == 1 && ahead[0].contains("is 9s ahead of the database's"), "{ahead:?}");
        let behind = complaints(-7_200_000_000, system);
        assert!(behind.len() == 1 && behind[0].contains("is 2h behind the database's"), "{behind:?}");
        assert_eq!(complaints(9_000_000, ClockMode::Manual), [""; 0]);
    }
}
