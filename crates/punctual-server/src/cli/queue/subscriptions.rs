//! `punctual subscriptions`: list, create, change and delete them.

use super::queues::{number_or_text, waits};
use crate::cli::database::TenantOption;
use crate::cli::failure::{CommandFailure, Outcome};
use crate::cli::table::Table;
use crate::cli::{GlobalOptions, confirm, format, print_json, print_line};
use punctual::base::outcome::PutOutcome;
use punctual::queue::store::queues::COUNT_MAX;
use punctual::queue::store::subscriptions::SubscriptionState;
use punctual::{Engine, Error, NewSubscription, Problems, Tenant};
use serde_json::{Map, Value, json};

/// The subcommands of `subscriptions`.
#[derive(Debug, clap::Subcommand)]
pub(in crate::cli) enum Subscriptions {
    /// List subscriptions, by topic and name
    List {
        /// Only subscriptions of this topic
        #[arg(long)]
        topic: Option<String>,
        #[command(flatten)]
        of: TenantOption,
    },
    /// Create a subscription or replace its definition; a repetition changes nothing
    Put(Box<SubscriptionDefinition>),
    /// Delete a subscription and its waiting messages
    Delete {
        #[command(flatten)]
        one: SubscriptionName,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
}

/// One subscription.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct SubscriptionName {
    /// Topic of the subscription
    topic: String,
    /// Name of the subscription
    name: String,
    #[command(flatten)]
    of: TenantOption,
}

/// The definition of a subscription.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct SubscriptionDefinition {
    #[command(flatten)]
    one: SubscriptionName,
    /// Target: queue, handler:NAME or JSON such as {"type":"queue"}
    #[arg(long, value_name = "TARGET", default_value = "queue")]
    target: String,
    /// Filter: a condition such as {"questionId":"kind","op":"==","value":"order.placed"}
    #[arg(long, value_name = "JSON")]
    filter: Option<String>,
    /// Started attempts before an item is dead
    #[arg(long, value_name = "N")]
    max_attempts: Option<String>,
    /// Waits between attempts: 5m,15m,1h or JSON such as {"from":"1s","to":"60s"}
    #[arg(long, value_name = "WAITS")]
    backoff: Option<String>,
    /// Whether new messages are routed to it; without the flag this setting stays
    #[arg(long, value_name = "BOOL")]
    enabled: Option<bool>,
}

impl Subscriptions {
    pub(in crate::cli) async fn run(self, options: &GlobalOptions) -> Outcome {
        match self {
            Self::List { topic, of } => {
                let engine = options.engine().await?;
                let tenant = of.find(engine.store()).await?;
                list(&engine, tenant, topic, options.json).await
            }
            Self::Put(definition) => definition.run(options).await,
            Self::Delete { one, yes } => one.delete(options, yes).await,
        }
    }
}

impl SubscriptionName {
    async fn open(&self, options: &GlobalOptions) -> Outcome<(Engine, Tenant)> {
        let engine = options.engine().await?;
        let tenant = self.of.find(engine.store()).await?;
        Ok((engine, tenant))
    }

    fn missing(&self) -> CommandFailure {
        let Self { topic, name, .. } = self;
        CommandFailure::failed(format!(
            "there is no subscription `{topic}/{name}`; see `punctual subscriptions list`"
        ))
    }

    async fn find(&self, engine: &Engine, tenant: Tenant) -> Outcome<SubscriptionState> {
        let state = engine.store().subscription(tenant, &self.topic, &self.name).await?;
        state.ok_or_else(|| self.missing())
    }

    async fn delete(&self, options: &GlobalOptions, yes: bool) -> Outcome {
        let (engine, tenant) = self.open(options).await?;
        self.find(&engine, tenant).await?;
        let name = format!("{}/{}", self.topic, self.name);
        confirm::ask(&format!("The subscription {name} and what waits for it will be deleted."), yes)?;
        let gone = engine.delete_subscription(tenant, &self.topic, &self.name).await?;
        let waiting = format::many(i64::try_from(gone.waiting).unwrap_or(i64::MAX), "waiting item");
        if options.json {
            print_json(&json!({"dropped": gone.waiting, "inFlight": gone.in_flight}));
        } else {
            print_line(&format!("{name} is deleted, and {waiting} with it"));
        }
        Ok(())
    }
}

impl SubscriptionDefinition {
    async fn run(self, options: &GlobalOptions) -> Outcome {
        let mut problems = Problems::default();
        let new = NewSubscription::read(&self.document()?, &mut problems);
        let new = new.ok_or(Error::Invalid(problems))?;
        let (engine, tenant) = self.one.open(options).await?;
        let (put, _) = engine.put_subscription(tenant, &self.one.topic, &self.one.name, new).await?;
        if !options.json && put == PutOutcome::Same {
            print_line("nothing has changed");
        }
        let state = self.one.find(&engine, tenant).await?;
        if options.json {
            print_json(&shown(&state));
        } else {
            let switch = if state.subscription.enabled { "enabled" } else { "disabled" };
            let target = target_words(&state);
            print_line(&format!("{}/{} is {switch} and goes to {target}", self.one.topic, self.one.name));
        }
        Ok(())
    }

    /// Returns the document that a PUT takes.
    fn document(&self) -> Outcome<Value> {
        let target = match self.target.split_once(':') {
            _ if self.target.starts_with('{') => read("--target", &self.target)?,
            Some(("handler", name)) => json!({"type": "handler", "name": name}),
            _ => json!({"type": self.target}),
        };
        let mut retry = Map::new();
        if let Some(text) = &self.max_attempts {
            retry.insert("maxAttempts".into(), number_or_text(text));
        }
        if let Some(text) = &self.backoff {
            retry.insert("backoff".into(), waits(text));
        }
        let filter = self.filter.as_deref().map(|text| read("--filter", text)).transpose()?;
        Ok(json!({"target": target, "filter": filter, "retry": retry, "enabled": self.enabled}))
    }
}

fn read(flag: &str, text: &str) -> Outcome<Value> {
    serde_json::from_str(text).map_err(|error| CommandFailure::usage(format!("{flag} is not JSON: {error}")))
}

async fn list(engine: &Engine, tenant: Tenant, topic: Option<String>, json: bool) -> Outcome {
    let mut all: Vec<SubscriptionState> = Vec::new();
    loop {
        let last = all.last().map(|state| &state.subscription);
        let after = last.map(|s| (s.topic.clone(), s.name.clone())).unwrap_or_default();
        let more = engine.store().subscriptions(tenant, topic.clone(), after, 1_000).await?;
        if more.is_empty() {
            break;
        }
        all.extend(more);
    }
    if json {
        print_json(&json!({"items": all.iter().map(shown).collect::<Vec<_>>()}));
        return Ok(());
    }
    let mut table = Table::new(&["topic", "name", "target", "enabled", "#waiting", "#in flight", "#dead"]);
    for state in &all {
        let (s, q) = (&state.subscription, &state.queue);
        let enabled = if s.enabled { "yes" } else { "no" };
        let waiting = format::count(q.waiting + q.behind_their_key, COUNT_MAX);
        let counts = [waiting, q.in_flight.to_string(), q.dead.to_string()];
        let names = [s.topic.clone(), s.name.clone(), target_words(state), enabled.to_owned()];
        table.row(names.into_iter().chain(counts));
    }
    print_line(table.text().trim_end());
    Ok(())
}

fn target_words(state: &SubscriptionState) -> String {
    let target = &state.subscription.target;
    target.handler().map_or_else(|| "queue".to_owned(), |name| format!("handler:{name}"))
}

fn shown(state: &SubscriptionState) -> Value {
    let (s, q) = (&state.subscription, &state.queue);
    let patience = q.lane.settings.patience();
    json!({
        "topic": s.topic,
        "name": s.name,
        "filter": s.filter,
        "target": s.target.to_json(),
        "retry": {"maxAttempts": patience.max_attempts, "backoff": patience.backoff.to_json()},
        "enabled": s.enabled,
        "waiting": q.waiting + q.behind_their_key,
        "due": q.due,
        "inFlight": q.in_flight,
        "dead": q.dead,
    })
}
