//! Growth: does a drain stay as fast with millions of rows beside it?
//!
//! The same contender twice, on a database that is made anew each round and on one that holds rows
//! that are not due and rows that are finished; the two take turns. Both are brought to rest (vacuum,
//! analyze, checkpoint) before each drain: what happens without vacuum is measured by
//! [`crate::rounds::in_a_row`].

use anyhow::Result;

use crate::contender::{Contender, Extra};
use crate::rounds::Plan;
use crate::series::Series;

/// Drains per second, beside nothing and beside much.
#[derive(Debug, Clone, Default)]
pub struct Growth {
    /// On a database made anew.
    pub empty: Series,
    /// On the one that is full.
    pub full: Series,
}

/// Fills `full` once, then drains both by turns.
pub async fn growth(empty: &dyn Contender, full: &dyn Contender, extra: Extra, plan: Plan) -> Result<Growth> {
    eprintln!("  adding {} rows not due and {} finished", extra.not_due, extra.finished);
    full.prepare().await?;
    full.fill(extra).await?;
    full.settle().await?;
    let mut growth = Growth::default();
    for round in 1..=plan.rounds {
        empty.prepare().await?;
        drain(empty, plan.messages, &mut growth.empty).await?;
        drain(full, plan.messages, &mut growth.full).await?;
        let (empty, full) = (growth.empty.last(), growth.full.last());
        eprintln!("  round {round}/{}  drain, empty {empty:.0}/s, full {full:.0}/s", plan.rounds);
    }
    Ok(growth)
}

async fn drain(contender: &dyn Contender, n: usize, series: &mut Series) -> Result<()> {
    contender.enqueue(n).await?;
    contender.settle().await?;
    series.push_rate(n, contender.drain(n).await?);
    Ok(())
}
