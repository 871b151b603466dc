//! `punctual status`: shows the queues, once or repeatedly.

use crate::cli::database::TenantOption;
use crate::cli::failure::Outcome;
use crate::cli::table::Table;
use crate::cli::{GlobalOptions, format, print_json, print_line};
use punctual::operate::store::census::Census;
use punctual::queue::store::queues::{COUNT_MAX, QueueState};
use punctual::{Store, Tenant, Timestamp};
use serde_json::{Value, json};
use std::time::Duration;

/// The interval of `--watch`.
const WATCH: Duration = Duration::from_secs(1);
/// Clears a terminal and moves to its upper left corner.
const CLEAR: &str = "\x1b[2J\x1b[H";

/// Show the queues.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Status {
    /// Refresh every second, until interrupted
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    of: TenantOption,
}

impl Status {
    pub(in crate::cli) async fn run(self, options: &GlobalOptions) -> Outcome {
        let store = options.store().await?;
        let tenant = self.of.find(&store).await?;
        if !self.watch {
            return show(&store, tenant, options.json, "").await;
        }
        let clear = if options.json { "" } else { CLEAR };
        loop {
            show(&store, tenant, options.json, clear).await?;
            tokio::select! {
                () = tokio::time::sleep(WATCH) => {}
                _ = tokio::signal::ctrl_c() => return Ok(()),
            }
        }
    }
}

async fn show(store: &Store, tenant: Tenant, as_json: bool, before: &str) -> Outcome {
    let census = store.census().await?;
    let queues = store.queues(tenant).await?;
    if as_json {
        print_json(&to_json(&census, &queues));
        return Ok(());
    }
    let line = format!(
        "{}, schema version {}, {} in flight, {}",
        store.dialect().name(),
        census.schema_version,
        format::many(census.open_claims, "claim"),
        format::many(census.dead_letters, "dead letter"),
    );
    let table = if queues.is_empty() { "no queues yet\n".to_owned() } else { table(&queues, census.now) };
    print_line(&format!("{before}{line}\n\n{}", table.trim_end()));
    Ok(())
}

/// Returns a queue's name: the topic, and the subscription after a slash.
pub(in crate::cli) fn name(queue: &QueueState) -> String {
    match queue.lane.subscription.as_str() {
        "" => queue.lane.topic.clone(),
        subscription => format!("{}/{subscription}", queue.lane.topic),
    }
}

fn table(queues: &[QueueState], now: Timestamp) -> String {
    let mut table = Table::new(&[
        "queue",
        "#waiting",
        "#due",
        "#in flight",
        "#behind key",
        "#dead",
        "oldest due",
        "paused",
    ]);
    for queue in queues {
        table.row([
            name(queue),
            format::count(queue.waiting, COUNT_MAX),
            format::count(queue.due, COUNT_MAX),
            queue.in_flight.to_string(),
            format::count(queue.behind_their_key, COUNT_MAX),
            queue.dead.to_string(),
            queue.oldest_due.map_or_else(|| "-".into(), |due| format::from_now(due, now)),
            if queue.lane.settings.paused { "paused".into() } else { "-".into() },
        ]);
    }
    table.text()
}

fn to_json(census: &Census, queues: &[QueueState]) -> Value {
    let items: Vec<Value> = queues
        .iter()
        .map(|queue| {
            json!({
                "topic": queue.lane.topic,
                "subscription": queue.lane.subscription,
                "waiting": queue.waiting,
                "due": queue.due,
                "inFlight": queue.in_flight,
                "behindTheirKey": queue.behind_their_key,
                "dead": queue.dead,
                "oldestDue": queue.oldest_due,
                "paused": queue.lane.settings.paused,
            })
        })
        .collect();
    json!({
        "now": census.now,
        "schemaVersion": census.schema_version,
        "openClaims": census.open_claims,
        "stuckClaims": census.stuck_claims,
        "deadLetters": census.dead_letters,
        "oldestDue": census.oldest_due(),
        "queues": items,
    })
}
