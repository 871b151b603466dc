//! Fairness: while one tenant's backlog is being drained, a hundred others bring one message each.
//! Measured is how long each of those waits, from just before it was enqueued until its handler starts.
//!
//! Not measured: what the backlog loses by it, and fairness among tenants that all have backlogs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::bounds::Wanted;
use crate::latency::Starts;
use crate::ours::{Engine, Handler, batches, messages};
use crate::report::Report;
use crate::series::Series;

/// Messages per call while the backlog is made.
const BATCH: usize = 10_000;
/// How often the others come, while the backlog lasts.
const SHOTS: usize = 5;
const BETWEEN_SHOTS: Duration = Duration::from_millis(200);

/// What others wait for beside a backlog.
#[derive(Debug, Clone, Default)]
pub struct WaitsBeside {
    /// Their waits in milliseconds.
    pub waits: Series,
    /// How long the whole backlog takes at the pace of its drain, in milliseconds.
    pub drain: f64,
}

impl WaitsBeside {
    /// Adds the waits, and what is required of them beside the drain.
    pub fn report(&self, name: &str, report: &mut Report) {
        report.figure(name, "ms", &self.waits);
        let mut shares = Series::default();
        self.waits.iter().for_each(|wait| shares.push(wait / self.drain));
        Wanted::WaitBesideBacklog.judge(name, &shares, report);
    }
}

/// The others' waits, with a backlog of `backlog` messages of one tenant.
pub async fn fairness(
    producer: &dyn Engine,
    worker: &dyn Engine,
    backlog: usize,
    others: usize,
) -> Result<WaitsBeside> {
    // The first call for a tenant makes it, which is not to be measured.
    for tenant in 1..=others {
        producer.enqueue(tenant, Vec::new()).await?;
    }
    for batch in batches(backlog, BATCH) {
        producer.enqueue(0, batch).await?;
    }
    let (starts, drained) = (Starts::default(), Arc::new(AtomicUsize::new(0)));
    worker.start(counting(&starts, backlog, &drained)).await?;
    while drained.load(Ordering::Relaxed) == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let begun = Instant::now();
    let (mut sent, mut took, mut done) = (Vec::new(), Duration::ZERO, 0);
    // On a fast machine the backlog is gone before all have come: who comes later waits beside nothing.
    while sent.len() < SHOTS * others && done <= backlog / 2 {
        one_each(producer, backlog, others, &mut sent).await?;
        starts.wait(sent.len()).await?;
        (took, done) = (begun.elapsed(), drained.load(Ordering::Relaxed));
        tokio::time::sleep(BETWEEN_SHOTS).await;
    }
    ensure!(done < backlog, "the backlog of {backlog} was gone before the others had come");
    let drain = took.as_secs_f64() * 1e3 * backlog as f64 / done as f64;
    Ok(WaitsBeside { waits: waits(&starts, &sent, backlog)?, drain })
}

/// Notes the others' starts and counts the backlog's.
fn counting(starts: &Starts, backlog: usize, drained: &Arc<AtomicUsize>) -> Handler {
    let (note, drained) = (starts.handler(backlog), Arc::clone(drained));
    Arc::new(move |payload| {
        drained.fetch_add(1, Ordering::Relaxed);
        note(payload);
    })
}

/// A message of each of the other tenants, one after the other; notes when each was sent.
async fn one_each(
    producer: &dyn Engine,
    backlog: usize,
    others: usize,
    sent: &mut Vec<Instant>,
) -> Result<()> {
    for tenant in 1..=others {
        let number = backlog + sent.len();
        let message = messages(number..number + 1, Duration::ZERO);
        sent.push(Instant::now());
        producer.enqueue(tenant, message).await?;
    }
    Ok(())
}

fn waits(starts: &Starts, sent: &[Instant], backlog: usize) -> Result<Series> {
    let mut series = Series::default();
    for (number, start) in starts.all() {
        let sent = sent.get(number - backlog).context("a message that nobody sent")?;
        series.push(start.duration_since(*sent).as_secs_f64() * 1e3);
    }
    Ok(series)
}
