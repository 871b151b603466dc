//! Prometheus text: what this process counted, and what the tables say at this moment.

use crate::app::App;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use punctual::engine::Health;
use punctual::jobs::store::runs::RunCensus;
use punctual::operate::store::census::Census;
use punctual::queue::store::inbox::InboxCounts;
use punctual::queue::store::queues::QueueState;
use std::fmt::Write;

/// Tenants whose queues are shown, the oldest ones: a scrape must stay short.
const TENANTS_MAX: usize = 100;
/// Queues that are shown in all.
const QUEUES_MAX: usize = 1_000;

/// `GET /metrics`
pub async fn render(State(app): State<App>) -> impl IntoResponse {
    let mut out = app.settings.metrics.as_ref().map(|handle| handle.render()).unwrap_or_default();
    let health = app.engine.health().await;
    let mut gauges = Gauges(&mut out);
    gauges.of_health(&health, app.engine.is_live());
    if health.database.is_ok() {
        gauges.of_queues(&queues(&app).await);
        if let Ok(runs) = app.engine.store().run_census().await {
            gauges.of_runs(&runs);
        }
    }
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], out)
}

async fn queues(app: &App) -> Vec<(String, QueueState)> {
    let store = app.engine.store();
    let mut all = Vec::new();
    for tenant in store.tenants(0, TENANTS_MAX).await.unwrap_or_default() {
        let queues = store.queues(tenant.tenant).await.unwrap_or_default();
        all.extend(queues.into_iter().map(|q| (tenant.slug.clone(), q)));
        if all.len() >= QUEUES_MAX {
            all.truncate(QUEUES_MAX);
            break;
        }
    }
    all
}

struct Gauges<'a>(&'a mut String);

impl Gauges<'_> {
    fn head(&mut self, name: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} gauge");
    }

    fn one(&mut self, name: &str, help: &str, value: impl std::fmt::Display) {
        self.head(name, help);
        let _ = writeln!(self.0, "{name} {value}");
    }

    fn row(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let labels: Vec<String> = labels.iter().map(|(k, v)| format!("{k}=\"{}\"", escaped(v))).collect();
        let _ = writeln!(self.0, "{name}{{{}}} {value}", labels.join(","));
    }

    fn of_health(&mut self, health: &Health, live: bool) {
        self.one("punctual_live", "Whether the loops of this process are alive.", u8::from(live));
        let ready = u8::from(health.is_ready());
        self.one("punctual_ready", "Whether the database answers and its schema is whole.", ready);
        if let Ok(census) = &health.database {
            self.of_census(census);
            self.of_lags(census);
            self.of_inbox(health.inbox);
            let takes = u8::from(health.storage.write_error.is_none());
            self.one("punctual_takes_writes", "Whether the database takes writes.", takes);
        }
        let name = "punctual_loop_seconds_since_success";
        self.head(name, "Seconds since a loop last did its work.");
        for status in &health.loops {
            self.row(name, &[("loop", status.name)], status.since_success.as_secs_f64());
        }
        let name = "punctual_loop_in_trouble";
        self.head(name, "Whether a loop pauses after an error.");
        for status in &health.loops {
            self.row(name, &[("loop", status.name)], u8::from(status.trouble.is_some()));
        }
        let name = "punctual_loop_busy_seconds";
        self.head(name, "Seconds that the tick of a loop has taken which is not over.");
        for status in &health.loops {
            self.row(name, &[("loop", status.name)], status.busy_for.as_secs_f64());
        }
    }

    fn of_census(&mut self, c: &Census) {
        let lag = c.oldest_due().map_or(0.0, |due| c.now.since(due).as_secs_f64());
        #[allow(clippy::cast_precision_loss, reason = "a clock is not off by 285 years")]
        let skew = c.host_skew_us as f64 / 1e6;
        self.one("punctual_schema_version", "The version of the schema.", c.schema_version);
        self.one("punctual_open_claims", "Claims in flight.", c.open_claims);
        self.one("punctual_stuck_claims", "Claims long past their lease.", c.stuck_claims);
        self.one("punctual_dead_letters", "Dead letters of all tenants.", c.dead_letters);
        self.one("punctual_lag_seconds", "How late the oldest due item is.", lag);
        let late = c.next_job().map_or(0.0, |due| c.now.since(due).as_secs_f64());
        self.one("punctual_job_lag_seconds", "How late the first due job is that nobody planned.", late);
        self.one("punctual_host_skew_seconds", "How far this host is ahead of the database.", skew);
    }

    fn of_lags(&mut self, c: &Census) {
        let name = "punctual_worker_lag_seconds";
        self.head(name, "How late the oldest due item is, by the purpose of its lane.");
        for lag in &c.workers {
            self.row(name, &[("purpose", lag.purpose.word())], lag.at(c.now).as_secs_f64());
        }
        let name = "punctual_job_next_lag_seconds";
        self.head(name, "How late the next run of a job is; the 20 jobs that are due first.");
        for job in &c.jobs {
            self.row(name, &[("tenant", &job.tenant), ("job", &job.name)], job.at(c.now).as_secs_f64());
        }
    }

    fn of_inbox(&mut self, inbox: InboxCounts) {
        self.one("punctual_inbox_processing", "Received messages in progress.", inbox.processing);
        self.one("punctual_inbox_stuck", "Received messages long past their lease.", inbox.stuck);
        self.one("punctual_inbox_dead", "Received messages that are dead.", inbox.dead);
    }

    fn of_runs(&mut self, runs: &RunCensus) {
        let name = "punctual_job_runs";
        self.head(name, "Runs of jobs by status; those that ended, within the last hour.");
        for (status, count) in [
            ("open", runs.open),
            ("queued", runs.queued),
            ("succeeded", runs.succeeded),
            ("failed", runs.failed),
            ("skipped", runs.skipped),
        ] {
            self.row(name, &[("status", status)], count);
        }
    }

    fn of_queues(&mut self, queues: &[(String, QueueState)]) {
        type Count = fn(&QueueState) -> i64;
        let counts: [(&str, &str, Count); 4] = [
            ("punctual_queue_waiting", "Items that wait, due or not.", |q| q.waiting),
            ("punctual_queue_due", "Items that are due.", |q| q.due),
            ("punctual_queue_behind_their_key", "Items that wait for their key.", |q| q.behind_their_key),
            ("punctual_queue_dead", "Dead letters.", |q| q.dead),
        ];
        for (name, help, count) in counts {
            self.head(name, help);
            for (tenant, q) in queues {
                let (topic, subscription) = (q.lane.topic.as_str(), q.lane.subscription.as_str());
                let labels = [("tenant", tenant.as_str()), ("topic", topic), ("subscription", subscription)];
                self.row(name, &labels, count(q));
            }
        }
    }
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut out = String::new();
        Gauges(&mut out).row("x", &[("topic", "a\"b\\c")], 1);
        assert_eq!(out, "x{topic=\"a\\\"b\\\\c\"} 1\n");
    }
}
