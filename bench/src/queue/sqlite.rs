//! The queue on SQLite, beside rusqlite by hand at the same durability.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::task::JoinSet;

use super::{QueueOptions, add_rounds, find, or_note};
use crate::contender::Contender;
use crate::latency::latency;
use crate::ours::{Engine, Ours, Place, System, messages};
use crate::raw_sqlite::{RawSqlite, calm_disk, remove};
use crate::report::{Bound, Report};
use crate::rounds::interleaved;
use crate::series::Series;

/// Who enqueues singly at the same time.
const CALLERS: usize = 64;

pub(super) async fn measure(
    system: Option<&Arc<dyn System>>,
    options: &QueueOptions,
    report: &mut Report,
) -> Result<()> {
    let file = |name: &str| options.folder().join(format!("punctual-bench-{name}-{}.db", std::process::id()));
    let files = [file("raw"), file("ours")];
    report.settings.insert("sqlite synchronous".into(), "full".into());
    let run = Run { system, options, files };
    run.rounds(report).await;
    run.singles(report).await;
    run.latency(report).await;
    run.files.iter().for_each(|file| remove(file));
    Ok(())
}

/// What every part of the run needs: the files are raw's and ours.
struct Run<'a> {
    system: Option<&'a Arc<dyn System>>,
    options: &'a QueueOptions,
    files: [PathBuf; 2],
}

impl Run<'_> {
    fn raw(&self) -> RawSqlite {
        RawSqlite::new(self.files[0].clone(), self.options.batch)
    }

    fn ours(&self) -> Option<Ours> {
        let place = Place::Sqlite(self.files[1].clone());
        Some(Ours { system: Arc::clone(self.system?), place, settings: self.options.engine() })
    }

    async fn rounds(&self, report: &mut Report) {
        eprintln!("sqlite: rounds");
        let mut contenders: Vec<Box<dyn Contender>> = vec![Box::new(self.raw())];
        contenders.extend(self.ours().map(|ours| Box::new(ours) as Box<dyn Contender>));
        let all = interleaved(&contenders, self.options.plan()).await;
        add_rounds(report, "sqlite", &all);
        if let (Some(ours), Some(raw)) = (find(&all, "punctual"), find(&all, "rusqlite by hand")) {
            let value = ours.enqueue.median() / raw.enqueue.median();
            report.require("sqlite enqueue / by hand", value, Bound::AtLeast(0.7));
            let value = ours.drain.median() / raw.drain.median();
            report.require("sqlite drain / by hand", value, Bound::AtLeast(0.7));
        }
    }

    async fn singles(&self, report: &mut Report) {
        if self.system.is_none() {
            return;
        }
        eprintln!("sqlite: single enqueues");
        let (mut raw, mut ours) = (Series::default(), Series::default());
        for round in 1..=self.options.rounds {
            let result = self.singles_round(&mut raw, &mut ours).await;
            if or_note(report, "sqlite single enqueues", result).is_none() {
                break;
            }
            let (raw, ours) = (raw.last(), ours.last());
            eprintln!("  round {round}: by hand {raw:.0}/s, punctual with {CALLERS} {ours:.0}/s");
        }
        report.figure("sqlite single enqueues, a commit each: by hand", "messages/s", &raw);
        let name = format!("sqlite single enqueues, {CALLERS} at once: punctual");
        report.figure(&name, "messages/s", &ours);
        if !ours.is_empty() {
            let value = ours.median() / raw.median();
            let name = format!("sqlite single enqueues, {CALLERS} at once / a commit each by hand");
            report.require(&name, value, Bound::AtLeast(20.0));
        }
    }

    async fn singles_round(&self, raw: &mut Series, ours: &mut Series) -> Result<()> {
        let n = (self.options.messages / 20).max(CALLERS);
        let by_hand = self.raw();
        by_hand.prepare().await?;
        calm_disk().await?;
        raw.push_rate(n, by_hand.enqueue_singly(n).await?);
        let Some(contender) = self.ours() else {
            return Ok(());
        };
        contender.prepare().await?;
        let engine = contender.open().await?;
        calm_disk().await?;
        // Ten times as many, as it is so much faster.
        let took = enqueue_at_once(&engine, 10 * n).await;
        engine.stop().await?;
        ours.push_rate(10 * n / CALLERS * CALLERS, took?);
        Ok(())
    }

    async fn latency(&self, report: &mut Report) {
        let time = self.options.latency;
        let Some(ours) = self.ours().filter(|_| !time.is_zero()) else {
            return;
        };
        eprintln!("sqlite: latency");
        let result = async {
            ours.prepare().await?;
            let engine = ours.open().await?;
            let waits = latency(engine.as_ref(), engine.as_ref(), time).await;
            engine.stop().await?;
            waits
        };
        let Some(waits) = or_note(report, "sqlite latency", result.await) else {
            return;
        };
        report.figure("sqlite latency: punctual", "ms", &waits);
        report.require("sqlite latency p99, ms", waits.percentile(0.99), Bound::AtMost(10.0));
    }
}

/// Many callers, each enqueuing its share one message at a time.
async fn enqueue_at_once(engine: &Arc<dyn Engine>, n: usize) -> Result<Duration> {
    let start = Instant::now();
    let mut callers: JoinSet<Result<()>> = JoinSet::new();
    for caller in 0..CALLERS {
        let (engine, share) = (Arc::clone(engine), n / CALLERS);
        callers.spawn(async move {
            for i in caller * share..(caller + 1) * share {
                engine.enqueue(0, messages(i..i + 1, Duration::ZERO)).await?;
            }
            Ok(())
        });
    }
    while let Some(ended) = callers.join_next().await {
        ended??;
    }
    Ok(start.elapsed())
}
