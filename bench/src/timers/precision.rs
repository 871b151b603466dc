//! Single timers on an idle system, at uneven distances, so that they do not keep step with
//! anybody's pause. They are scheduled beforehand: what wakes the engine is the time alone.

use std::time::Duration;

use ::punctual::{NewTimer, Tenant};
use anyhow::Result;

use super::{TOPIC, add_lateness, all_of, engine};
use crate::bounds::Wanted;
use crate::ours::Place;
use crate::report::Report;

/// Timers that warm connections and plans up.
const WARM_UP: usize = 20;

pub(super) async fn measure(name: &str, place: &Place, n: usize, report: &mut Report) -> Result<()> {
    let (engine, mut told) = engine(&place.url()).await?;
    engine.start();
    let warm = (0..WARM_UP).map(|n| NewTimer::after(Duration::from_millis(20), TOPIC, n.to_string()));
    engine.schedule(Tenant::DEFAULT, warm.collect(), Some(Duration::from_secs(1))).await?;
    all_of(&mut told, WARM_UP).await?;
    let before = transactions(place).await?;
    let mut at = Duration::from_millis(500);
    let timers = (0..n).map(|n| {
        at += Duration::from_micros(40_000 + (n as u64 * 7_919) % 90_000);
        NewTimer::after(at, TOPIC, n.to_string())
    });
    engine.schedule(Tenant::DEFAULT, timers.collect(), None).await?;
    let series = all_of(&mut told, n).await?;
    let after = transactions(place).await?;
    engine.stop(Duration::from_secs(10)).await;
    add_lateness(report, &format!("{name}, idle, one at a time"), &series, Some(Wanted::LatenessIdle));
    if let (Some(before), Some(after)) = (before, after) {
        report.inform(&format!("{name}: transactions for each timer"), (after - before) / n as f64);
    }
    Ok(())
}

/// How many the server has seen: busy polling would show here.
async fn transactions(place: &Place) -> Result<Option<f64>> {
    let Place::Postgres(database) = place else { return Ok(None) };
    let client = database.connect().await?;
    let sql = "select (xact_commit + xact_rollback)::float8 from pg_stat_database \
        where datname = current_database()";
    Ok(Some(client.query_one(sql, &[]).await?.try_get(0)?))
}
