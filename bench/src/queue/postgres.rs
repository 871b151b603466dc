//! The queue on PostgreSQL: rounds beside hand-written SQL and peers, then what only we are asked.

mod compare;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use super::{QueueOptions, add_rounds, or_note};
use crate::cluster::{Cluster, ClusterOptions};
use crate::contender::{Contender, Extra};
use crate::database::Database;
use crate::fairness::fairness;
use crate::growth::growth;
use crate::idle::idle;
use crate::latency::latency;
use crate::ours::{Engine, Ours, Place, System};
use crate::peers::{KNOWN, Peer};
use crate::raw_postgres::{CONVENTIONAL, ONE_ROW_PER_BATCH, RawPostgres, Shape};
use crate::report::{Bound, Report};
use crate::rounds::{in_a_row, interleaved};
use crate::series::Series;

/// The tenants that bring one message each.
const OTHERS: usize = 100;
const IDLE_TIME: Duration = Duration::from_secs(30);

pub(super) async fn measure(
    system: Option<&Arc<dyn System>>,
    options: &QueueOptions,
    report: &mut Report,
) -> Result<()> {
    let mut settings = ClusterOptions::durable();
    settings.folder.clone_from(&options.folder);
    let cluster = Arc::new(Cluster::start(&settings)?);
    report.machine.postgres = Some(Database::version(&cluster).await?);
    let shown = settings.all_settings().into_iter().map(|(n, v)| (format!("postgres {n}"), v));
    report.settings.extend(shown);
    let run = Run { cluster, system, options };
    run.rounds(report).await;
    run.growth(report).await;
    run.in_a_row(report).await;
    run.latency(report).await;
    run.fairness(report).await;
    run.idle(report).await;
    Ok(())
}

/// What every part of the run needs.
struct Run<'a> {
    cluster: Arc<Cluster>,
    system: Option<&'a Arc<dyn System>>,
    options: &'a QueueOptions,
}

impl Run<'_> {
    fn database(&self, name: &str) -> Database {
        Database::new(&self.cluster, name)
    }

    fn ours(&self, database: &str) -> Option<Ours> {
        let place = Place::Postgres(self.database(database));
        let system = Arc::clone(self.system?);
        Some(Ours { system, place, settings: self.options.engine() })
    }

    fn by_hand(&self, shape: Shape, database: &str) -> RawPostgres {
        let (batch, connections) = (self.options.batch, self.options.connections);
        RawPostgres::new(shape, self.database(database), batch, connections)
    }

    fn peers(&self, folder: &Path, report: &mut Report) -> Vec<Box<dyn Contender>> {
        let mut peers: Vec<Box<dyn Contender>> = Vec::new();
        for known in KNOWN {
            if known.is_installed(folder) {
                let database = self.database(known.database);
                peers.push(Box::new(Peer::new(*known, folder, database)));
            } else {
                report.note(format!("{}: not installed: run bench/peers/install", known.name));
            }
        }
        peers
    }

    async fn rounds(&self, report: &mut Report) {
        eprintln!("postgres: rounds");
        let mut contenders: Vec<Box<dyn Contender>> = Vec::new();
        contenders.extend(self.ours("punctual").map(|ours| Box::new(ours) as Box<dyn Contender>));
        contenders.push(Box::new(self.by_hand(CONVENTIONAL, "conventional")));
        contenders.push(Box::new(self.by_hand(ONE_ROW_PER_BATCH, "one_row")));
        let peers = self.options.peers.as_deref();
        contenders.extend(peers.map(|folder| self.peers(folder, report)).unwrap_or_default());
        let all = interleaved(&contenders, self.options.plan()).await;
        add_rounds(report, "postgres", &all);
        compare::rounds(&all, report);
    }

    /// Ours, and by hand in the same shape as a control: what slows both is the machine.
    async fn growth(&self, report: &mut Report) {
        if self.options.extra == 0 {
            return report.note("postgres growth: not measured, no extra rows were asked for");
        }
        eprintln!("postgres: growth");
        let name = format!("postgres drain, {0} rows not due and {0} finished / empty", self.options.extra);
        if let (Some(empty), Some(full)) = (self.ours("punctual"), self.ours("grown"))
            && let Some(value) = self.growth_of(&empty, &full, report).await
        {
            report.require(&name, value, Bound::AtLeast(0.85));
        }
        let [empty, full] = ["one_row", "grown"].map(|name| self.by_hand(ONE_ROW_PER_BATCH, name));
        if let Some(value) = self.growth_of(&empty, &full, report).await {
            report.inform(&format!("{name}, by hand"), value);
        }
    }

    /// The drain of one on its full database against the other on its empty one.
    async fn growth_of(
        &self,
        empty: &dyn Contender,
        full: &dyn Contender,
        report: &mut Report,
    ) -> Option<f64> {
        let extra = Extra { not_due: self.options.extra, finished: self.options.extra };
        let result = growth(empty, full, extra, self.options.plan()).await;
        or_note(report, "postgres growth", self.database("grown").remove().await);
        let growth = or_note(report, "postgres growth", result)?;
        let name = empty.name();
        report.figure(&format!("postgres drain, empty: {name}"), "messages/s", &growth.empty);
        report.figure(&format!("postgres drain, full: {name}"), "messages/s", &growth.full);
        Some(growth.full.median() / growth.empty.median())
    }

    /// As many series of drains as there are rounds: a single one says little.
    async fn in_a_row(&self, report: &mut Report) {
        let times = self.options.drains_in_a_row;
        let Some(ours) = self.ours("punctual").filter(|_| times > 0) else {
            return;
        };
        eprintln!("postgres: drains in a row");
        let (mut first, mut last) = (Series::default(), Series::default());
        for _ in 0..self.options.rounds {
            let result = in_a_row(&ours, self.options.messages, times).await;
            let Some(rates) = or_note(report, "postgres drains in a row", result) else {
                return;
            };
            first.push(rates[0]);
            last.push(rates[times - 1]);
        }
        report.figure("postgres drain, first in a row: punctual", "messages/s", &first);
        report.figure("postgres drain, last in a row: punctual", "messages/s", &last);
        let value = last.median() / first.median();
        report.require("postgres drains in a row, last / first", value, Bound::AtLeast(0.7));
    }

    async fn latency(&self, report: &mut Report) {
        let time = self.options.latency;
        let Some(ours) = self.ours("punctual").filter(|_| !time.is_zero()) else {
            return;
        };
        eprintln!("postgres: latency");
        let result = with_two(&ours, async |producer, worker| latency(producer, worker, time).await);
        let Some(waits) = or_note(report, "postgres latency", result.await) else {
            return;
        };
        report.figure("postgres latency: punctual", "ms", &waits);
        report.require("postgres latency p50, ms", waits.median(), Bound::AtMost(3.0));
        report.require("postgres latency p99, ms", waits.percentile(0.99), Bound::AtMost(15.0));
    }

    async fn fairness(&self, report: &mut Report) {
        let backlog = self.options.backlog;
        let Some(ours) = self.ours("punctual").filter(|_| backlog > 0) else {
            return;
        };
        eprintln!("postgres: fairness");
        let result =
            with_two(&ours, async |producer, worker| fairness(producer, worker, backlog, OTHERS).await);
        let Some(beside) = or_note(report, "postgres fairness", result.await) else {
            return;
        };
        beside.report("postgres wait beside a backlog: punctual", report);
        let name = format!("postgres longest wait beside a backlog of {backlog}, ms");
        report.require(&name, beside.waits.max(), Bound::AtMost(100.0));
    }

    async fn idle(&self, report: &mut Report) {
        let Some(punctual) = &self.options.punctual else {
            return;
        };
        eprintln!("postgres: idle");
        let result = idle(punctual, &self.database("idle"), IDLE_TIME).await;
        let Some(idle) = or_note(report, "postgres idle", result) else {
            return;
        };
        report.require("postgres idle, queries/s", idle.queries, Bound::AtMost(1.0));
        report.require("postgres idle, resident MB of serve", idle.memory, Bound::AtMost(40.0));
    }
}

/// Lets `work` use two engines on an empty database, and stops them whatever comes of it.
async fn with_two<T>(
    ours: &Ours,
    work: impl AsyncFnOnce(&dyn Engine, &dyn Engine) -> Result<T>,
) -> Result<T> {
    ours.prepare().await?;
    let (producer, worker) = (ours.open().await?, ours.open().await?);
    let result = work(producer.as_ref(), worker.as_ref()).await;
    worker.stop().await?;
    producer.stop().await?;
    result
}
