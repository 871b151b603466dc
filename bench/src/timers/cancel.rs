//! Cancelling many of very many that wait, by a filter; and looking at them.

use std::time::{Duration, Instant};

use ::punctual::queue::rules::timer::TimerStatus;
use ::punctual::queue::store::timers::TimerFilter;
use ::punctual::{Engine, NewTimer, Tenant};
use anyhow::{Result, ensure};

use super::{BATCH, TOPIC, TimerOptions};
use crate::ours::Place;
use crate::report::{Bound, Report};
use crate::series::Series;

const DAY: Duration = Duration::from_secs(86_400);
const STORY: &str = "cancelled";
/// Seconds for all of them.
const LIMIT_S: f64 = 5.0;
const PAGES: usize = 20;

pub(super) async fn measure(
    name: &str,
    place: &Place,
    options: &TimerOptions,
    report: &mut Report,
) -> Result<()> {
    let engine = Engine::builder(place.url()).pool_size(4).open().await?;
    fill(&engine, options).await?;
    let which = TimerFilter { correlation_id: Some(STORY.into()), ..TimerFilter::default() };
    list(&engine, name, report).await?;
    let begun = Instant::now();
    let counted = engine.cancel_timers(Tenant::DEFAULT, which.clone(), true).await?.ids.len();
    report.inform(&format!("{name}: counting them first (s)"), begun.elapsed().as_secs_f64());
    let begun = Instant::now();
    let gone = engine.cancel_timers(Tenant::DEFAULT, which, false).await?.ids.len();
    let took = begun.elapsed().as_secs_f64();
    ensure!(counted == gone && gone == options.cancelled, "{counted} were counted, {gone} cancelled");
    let title = format!("{name}: cancelling {gone} of {} (s)", options.waiting);
    report.require(&title, took, Bound::AtMost(LIMIT_S));
    let which = TimerFilter { topic: Some("others".into()), ..TimerFilter::default() };
    let begun = Instant::now();
    let gone = engine.cancel_timers(Tenant::DEFAULT, which, false).await?.ids.len();
    report.inform(&format!("{name}: cancelling {gone} more, by topic (s)"), begun.elapsed().as_secs_f64());
    Ok(())
}

/// A tenth is of another topic; those to be cancelled are strewn among the rest.
async fn fill(engine: &Engine, options: &TimerOptions) -> Result<()> {
    let every = (options.waiting / options.cancelled.max(1)).max(1);
    for first in (0..options.waiting).step_by(BATCH) {
        let numbers = first..options.waiting.min(first + BATCH);
        let timers = numbers.map(|n| {
            let topic = if n % 10 == 7 { "others" } else { TOPIC };
            let timer = NewTimer::after(DAY, topic, n.to_string());
            let meant = n % every == 0 && n / every < options.cancelled;
            if meant { timer.with(|m| m.correlation_id(STORY)) } else { timer }
        });
        engine.schedule(Tenant::DEFAULT, timers.collect(), Some(DAY)).await?;
    }
    Ok(())
}

/// The first page of a list, however many there are.
async fn list(engine: &Engine, name: &str, report: &mut Report) -> Result<()> {
    let mut series = Series::default();
    for n in 0..PAGES {
        let topic = (n % 2 == 0).then(|| "others".to_owned());
        let which = TimerFilter { topic, ..TimerFilter::default() };
        let begun = Instant::now();
        let page =
            engine.store().timers(Tenant::DEFAULT, which, Some(TimerStatus::Waiting), None, 100).await?;
        series.push(begun.elapsed().as_secs_f64() * 1e3);
        ensure!(page.len() == 100, "a page of {} timers", page.len());
    }
    report.figure(&format!("{name}: a page of 100 waiting timers"), "ms", &series);
    Ok(())
}
