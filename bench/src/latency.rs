//! Latency on an idle system: from just before a single enqueue until its handler starts.
//!
//! On PostgreSQL producer and worker are two engines with nothing in common but the database, so a
//! wake-up has to travel through the server as between two processes; on SQLite they are one engine,
//! as in an embedding program. Both run in this process, because two processes have two clocks.
//! Counted in: the enqueue's own commit. Not counted: the first few messages, while connections and
//! plans are still cold.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::contender::number;
use crate::ours::{Engine, Handler, messages};
use crate::series::Series;

/// Messages that warm connections and plans up.
const WARM_UP: usize = 20;
/// How long the last message may take before we call it lost.
const PATIENCE: Duration = Duration::from_secs(30);

/// When the handler was called for which message.
#[derive(Debug, Clone, Default)]
pub struct Starts {
    starts: Arc<Mutex<Vec<(usize, Instant)>>>,
}

impl Starts {
    /// A handler that notes the moment for messages numbered `from` and on.
    #[must_use]
    pub fn handler(&self, from: usize) -> Handler {
        let starts = self.clone();
        Arc::new(move |payload| {
            if let Some(number) = number(payload).filter(|number| *number >= from) {
                starts.lock().push((number, Instant::now()));
            }
        })
    }

    /// How many were noted.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// Waits until `n` were noted.
    pub async fn wait(&self, n: usize) -> Result<()> {
        let start = Instant::now();
        while self.count() < n {
            let count = self.count();
            ensure!(start.elapsed() < PATIENCE, "{count} of {n} messages reached the handler");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// What was noted: number and moment.
    #[must_use]
    pub fn all(&self) -> Vec<(usize, Instant)> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(usize, Instant)>> {
        self.starts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Enqueues single messages for `time`, about 40 a second; gives milliseconds.
pub async fn latency(producer: &dyn Engine, worker: &dyn Engine, time: Duration) -> Result<Series> {
    let starts = Starts::default();
    worker.start(starts.handler(0)).await?;
    let sent = send(producer, time).await?;
    starts.wait(sent.len()).await?;
    let mut series = Series::default();
    for (number, start) in starts.all().into_iter().filter(|(number, _)| *number >= WARM_UP) {
        let sent = sent.get(number).with_context(|| format!("nobody sent message {number}"))?;
        series.push(start.duration_since(*sent).as_secs_f64() * 1e3);
    }
    Ok(series)
}

/// When each message was about to be enqueued.
async fn send(producer: &dyn Engine, time: Duration) -> Result<Vec<Instant>> {
    let begin = Instant::now();
    let mut sent = Vec::new();
    while begin.elapsed() < time {
        let number = sent.len();
        let message = messages(number..number + 1, Duration::ZERO);
        sent.push(Instant::now());
        producer.enqueue(0, message).await?;
        // Uneven pauses, so that they do not keep step with somebody's timer.
        tokio::time::sleep(Duration::from_millis(20 + (number as u64 * 7) % 11)).await;
    }
    Ok(sent)
}
