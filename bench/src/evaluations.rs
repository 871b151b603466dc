//! One million evaluations of published triggers: the part of an ingest that needs no database.
//!
//! The triggers are the cached ones that an ingest asks, and every event counts as one evaluation of each of
//! them. Ours passes an event only to the triggers whose filter may hold, by the value that the filter needs;
//! beside it each filter is asked on its own, as it is where filters name no value.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use ::punctual::survey::rules::candidate::Candidate;
use ::punctual::survey::rules::survey::Trigger;
use ::punctual::survey::run::definition_cache::{ActiveTriggers, DefinitionCache, TriggerIndex};
use ::punctual::{Store, Tenant};
use anyhow::{Result, anyhow, ensure};
use serde_json::Value;

use crate::bounds::Wanted;
use crate::report::Report;
use crate::series::Series;

/// Evaluations in a round.
const EVALUATIONS: usize = 1_000_000;

/// What took how long, in milliseconds.
#[derive(Debug, Default)]
pub struct Evaluations {
    indexed: Series,
    each: Series,
}

impl Evaluations {
    /// Measures both ways over the active triggers of the default tenant, with events of one kind.
    ///
    /// # Errors
    /// When the database does not answer, or the two ways disagree.
    pub async fn measure(&mut self, store: &Store, kind: &str, item: impl Fn(usize) -> Value) -> Result<()> {
        let active = DefinitionCache::default().current(store, Tenant::DEFAULT).await?;
        let items: Vec<Value> = (0..EVALUATIONS / active.begun_by(kind).len()).map(item).collect();
        let begun = Instant::now();
        let indexed = count(&active, kind, &items, true)?;
        self.indexed.push(begun.elapsed().as_secs_f64() * 1_000.0);
        let begun = Instant::now();
        let each = count(&active, kind, &items, false)?;
        self.each.push(begun.elapsed().as_secs_f64() * 1_000.0);
        ensure!(indexed == items.len() && each == indexed, "{indexed} and {each} filters held");
        eprintln!("  evaluations indexed {:.1} ms  each {:.1} ms", self.indexed.last(), self.each.last());
        Ok(())
    }

    /// Adds the figures, and what is required of them.
    pub fn report(&self, report: &mut Report) {
        let lines = [
            ("1,000,000 trigger evaluations", &self.indexed, Wanted::EvaluationsIndexed),
            ("1,000,000 trigger evaluations, each filter asked", &self.each, Wanted::EvaluationsEach),
        ];
        for (name, series, wanted) in lines {
            report.figure(name, "ms", series);
            wanted.judge(name, series, report);
        }
    }
}

/// Counts the filters that hold, from events as they are received.
fn count(active: &Arc<ActiveTriggers>, kind: &str, items: &[Value], indexed: bool) -> Result<usize> {
    let mut held = 0;
    for item in black_box(items) {
        let candidate = Candidate::read(item).map_err(|problems| anyhow!("{problems}"))?;
        let facts = candidate.facts().map_err(|said| anyhow!(said))?;
        let holds = |place: &TriggerIndex| {
            let trigger: &Trigger = active.at(*place).1;
            trigger.enabled && trigger.filter.as_ref().is_none_or(|filter| filter.holds(&facts))
        };
        held += if indexed {
            active.wanted_by(kind, &facts).iter().filter(|place| holds(place)).count()
        } else {
            active.begun_by(kind).iter().filter(|place| holds(place)).count()
        };
    }
    Ok(held)
}
