//! Very many timers due at one and the same moment: the worst that a popular hour can do.

use std::time::Duration;

use ::punctual::{NewTimer, Tenant};
use anyhow::{Result, ensure};

use super::{BATCH, TOPIC, add_lateness, all_of, engine, now};
use crate::bounds::Wanted;
use crate::ours::Place;
use crate::report::Report;

/// How long scheduling takes at most, for each timer.
const SCHEDULING: Duration = Duration::from_micros(150);
const SETTLE: Duration = Duration::from_secs(3);

pub(super) async fn measure(name: &str, place: &Place, n: usize, report: &mut Report) -> Result<()> {
    let (engine, mut told) = engine(&place.url()).await?;
    let due = now().plus(SETTLE * 2 + SCHEDULING * u32::try_from(n).unwrap_or(u32::MAX));
    for first in (0..n).step_by(BATCH) {
        let numbers = first..n.min(first + BATCH);
        let timers = numbers.map(|n| NewTimer::at(due, TOPIC, n.to_string()));
        engine.schedule(Tenant::DEFAULT, timers.collect(), None).await?;
    }
    ensure!(now() < due, "scheduling took too long: nothing can be said about lateness");
    engine.start();
    let series = all_of(&mut told, n).await?;
    engine.stop(Duration::from_secs(10)).await;
    let wanted = (name == "postgres").then_some(Wanted::LatenessBurst);
    add_lateness(report, &format!("{name}, {n} at one moment"), &series, wanted);
    Ok(())
}
