//! Health: what an operator and a load balancer want to know.

use crate::base::error::Error;
use crate::engine::Engine;
use crate::operate::store::census::Census;
use crate::queue::run::pulse::{Beat, Pulse};
use crate::queue::store::inbox::InboxCounts;
use std::pin::Pin;
use std::sync::PoisonError;
use std::time::Duration;

/// A loop that has not done its work for this long is not well.
const SILENCE_MAX: Duration = Duration::from_secs(120);

/// A job that is due for longer than this has no planner.
const JOB_LATE_MAX: Duration = Duration::from_secs(60);

/// The state of the engine.
#[derive(Debug)]
pub struct Health {
    /// The tables, or why they cannot be read.
    pub database: Result<Census, String>,
    /// The inbox; all zero when it cannot be read.
    pub inbox: InboxCounts,
    /// The loops of this process.
    pub loops: Vec<Beat>,
}

impl Health {
    /// Whether requests can be served.
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
                        "{} claims are past their lease and nobody reaps them: is a worker running?",
                        census.stuck_claims
                    ));
                }
                if let Some(due) = census.next_job.filter(|due| census.now.since(*due) > JOB_LATE_MAX) {
                    all.push(format!("jobs are due since {due} and nobody plans them: is a worker running?"));
                }
            }
        }
        if self.inbox.stuck > 0 {
            all.push(format!(
                "{} messages in the inbox are long past their lease and nobody delivers them again: \
                 has their sender given up?",
                self.inbox.stuck
            ));
        }
        for beat in &self.loops {
            if let Some(trouble) = &beat.trouble {
                all.push(format!("the loop `{}` pauses: {trouble}", beat.name));
            }
        }
        all
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
            // A schema that is too old for an inbox is told by its version, not by this.
            let inbox = self.store().inbox_counts(self.inner.inbox.stuck_after).await;
            Ok((census, inbox.unwrap_or_default()))
        };
        let (database, inbox) = match tokio::time::timeout(Duration::from_secs(5), asked).await {
            Ok(Ok((census, inbox))) => (Ok(census), inbox),
            Ok(Err::<_, Error>(error)) => (Err(error.to_string()), InboxCounts::default()),
            Err(_) => (Err("the database did not answer within 5 seconds".into()), InboxCounts::default()),
        };
        let loops = self.inner.loops.lock().unwrap_or_else(PoisonError::into_inner);
        Health { database, inbox, loops: loops.pulses.iter().map(Pulse::beat).collect() }
    }

    /// Whether all loops are alive: one that is silent for two minutes is not.
    #[must_use]
    pub fn is_live(&self) -> bool {
        let loops = self.inner.loops.lock().unwrap_or_else(PoisonError::into_inner);
        let silent = |p: &Pulse| p.beat().trouble.is_some() && p.beat().since_success > SILENCE_MAX;
        !loops.pulses.iter().any(silent)
    }
}
