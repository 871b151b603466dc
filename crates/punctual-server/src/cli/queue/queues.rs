//! `punctual queues`: pause, resume, set.

use crate::cli::database::TenantOption;
use crate::cli::failure::{CommandFailure, Outcome};
use crate::cli::{GlobalOptions, print_json, print_line};
use punctual::base::duration;
use punctual::base::suggestion::nearest;
use punctual::queue::store::queues::Lane;
use punctual::{Store, Tenant};
use serde_json::{Map, Value, json};

/// The subcommands of `queues`.
#[derive(Debug, clap::Subcommand)]
pub(in crate::cli) enum Queues {
    /// Pause a queue: no more claims; items in flight continue
    Pause(QueueName),
    /// Resume a queue
    Resume(QueueName),
    /// Change settings; other settings stay
    Set(Box<QueueSettingsChange>),
}

/// One queue.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct QueueName {
    /// Topic of the queue
    topic: String,
    #[command(flatten)]
    of: TenantOption,
}

/// The settings to change; the word `default` restores a default.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct QueueSettingsChange {
    #[command(flatten)]
    one: QueueName,
    /// Started attempts before an item is dead
    #[arg(long, value_name = "N")]
    max_attempts: Option<String>,
    /// Waits between attempts: 5m,15m,1h or JSON such as {"from":"1s","to":"60s"}
    #[arg(long, value_name = "WAITS")]
    backoff: Option<String>,
    /// Retention of finished messages, such as 30d
    #[arg(long, value_name = "DURATION")]
    retention: Option<String>,
    /// Effect of a dead head on its key: block or pass
    #[arg(long, value_name = "WORD")]
    dead_head: Option<String>,
}

impl Queues {
    pub(in crate::cli) async fn run(self, options: &GlobalOptions) -> Outcome {
        let is_made = matches!(self, Self::Set(_));
        let (one, change) = match self {
            Self::Pause(one) => (one, json!({"paused": true})),
            Self::Resume(one) => (one, json!({"paused": false})),
            Self::Set(set) => set.change()?,
        };
        let Value::Object(change) = change else {
            return Ok(());
        };
        let store = options.store().await?;
        let tenant = one.of.find(&store).await?;
        if !is_made {
            one.exists(&store, tenant).await?;
        }
        let lane = store.set_queue(tenant, &one.topic, change).await?;
        // Nobody needs to hear it: workers look by themselves, only later.
        let _ = store.notify().await;
        say(&lane, options.json);
        Ok(())
    }
}

impl QueueName {
    /// Refuses an unknown queue: a pause of a misspelt topic would create an unused queue.
    async fn exists(&self, store: &Store, tenant: Tenant) -> Outcome {
        let all = store.queues(tenant).await?;
        let own: Vec<&str> =
            all.iter().filter(|q| q.lane.subscription.is_empty()).map(|q| q.lane.topic.as_str()).collect();
        if own.contains(&self.topic.as_str()) {
            return Ok(());
        }
        let meant = nearest(&self.topic, own).map(|topic| format!("did you mean `{topic}`?"));
        let hint = meant.unwrap_or_else(|| "`punctual queues set` makes one".to_owned());
        Err(CommandFailure::failed(format!("there is no queue `{}`; {hint}", self.topic)))
    }
}

impl QueueSettingsChange {
    fn change(self) -> Outcome<(QueueName, Value)> {
        let mut change = Map::new();
        let mut put = |name: &str, given: Option<String>, read: fn(&str) -> Value| {
            if let Some(text) = given {
                change.insert(name.into(), if text == "default" { Value::Null } else { read(&text) });
            }
        };
        put("maxAttempts", self.max_attempts, number_or_text);
        put("backoff", self.backoff, waits);
        put("retention", self.retention, |text| text.into());
        put("deadHead", self.dead_head, |text| text.into());
        if change.is_empty() {
            let names = "--max-attempts, --backoff, --retention or --dead-head";
            return Err(CommandFailure::usage(format!("say what to change: {names}")));
        }
        if change.get("deadHead") == Some(&Value::Null) {
            change.insert("deadHead".into(), "block".into());
        }
        Ok((self.one, Value::Object(change)))
    }
}

/// Parses a number. Other text is passed on, so that it is refused with all other problems.
pub(in crate::cli) fn number_or_text(text: &str) -> Value {
    text.parse::<u64>().map_or_else(|_| text.into(), Value::from)
}

pub(in crate::cli) fn waits(text: &str) -> Value {
    let list = || text.split(',').map(str::trim).map(Value::from).collect();
    serde_json::from_str(text).unwrap_or_else(|_| list())
}

fn say(lane: &Lane, as_json: bool) {
    let s = &lane.settings;
    let patience = s.patience();
    let (backoff, retention) = (patience.backoff.to_json(), s.retention.map(duration::write));
    if as_json {
        print_json(&json!({
            "topic": lane.topic,
            "paused": s.paused,
            "maxAttempts": patience.max_attempts,
            "backoff": backoff,
            "retention": retention,
            "deadHead": s.dead_head.word(),
        }));
        return;
    }
    print_line(&format!(
        "{} is {}: {} attempts, waits {backoff}, kept for {}, dead head: {}",
        lane.topic,
        if s.paused { "paused" } else { "running" },
        patience.max_attempts,
        retention.as_deref().unwrap_or("the default time"),
        s.dead_head.word(),
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_a_list_or_json() {
        assert_eq!(waits("5m, 1h"), json!(["5m", "1h"]));
        assert_eq!(waits(r#"{"from":"1s","to":"60s"}"#), json!({"from": "1s", "to": "60s"}));
        assert_eq!((number_or_text("3"), number_or_text("few")), (json!(3), json!("few")));
    }
}
