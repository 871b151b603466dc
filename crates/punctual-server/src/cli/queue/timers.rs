//! `punctual timer`: schedule, list, cancel and move timers.

use super::emit::read_payload;
use crate::cli::database::TenantOption;
use crate::cli::failure::{CommandFailure, Outcome};
use crate::cli::table::Table;
use crate::cli::{GlobalOptions, confirm, format, print_json, print_line, unchanged};
use punctual::base::duration;
use punctual::engine::{TimerChangeOutcome, TimerMove};
use punctual::queue::rules::timer::TimerStatus;
use punctual::queue::store::timers::{Timer, TimerFilter};
use punctual::{DueTime, Engine, MessageId, NewTimer, Tenant, Timestamp};
use serde_json::{Value, json};

/// The subcommands of `timer`.
#[derive(Debug, clap::Subcommand)]
pub(in crate::cli) enum Timers {
    /// Schedule a timer
    Schedule(Schedule),
    /// List timers, by due time
    List {
        #[command(flatten)]
        those: TimerSelection,
        /// Only timers with this status: Waiting, Fired or Cancelled
        #[arg(long, value_parser = read_status)]
        status: Option<TimerStatus>,
        /// Maximum number of timers
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1_000))]
        limit: u16,
    },
    /// Show a timer
    Show {
        /// Id of the timer
        id: i64,
        #[command(flatten)]
        of: TenantOption,
    },
    /// Cancel timers that are not claimed yet
    Cancel(TimerChange),
    /// Move timers that are not claimed yet to another time
    Move {
        #[command(flatten)]
        bulk: TimerChange,
        #[command(flatten)]
        at: DueOptions,
        /// Spread the timers evenly over this window, such as 10m
        #[arg(long, value_name = "DURATION")]
        spread: Option<String>,
    },
}

/// Schedule a timer.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Schedule {
    /// Topic of the message
    #[arg(long)]
    topic: String,
    /// Kind of the message
    #[arg(long, default_value = punctual::queue::rules::timer::KIND)]
    kind: String,
    /// Payload as JSON, `@FILE`, or `-` for standard input
    #[arg(long, default_value = "{}", value_name = "JSON")]
    payload: String,
    #[command(flatten)]
    at: DueOptions,
    /// Key; messages of one key are handled in order, one at a time
    #[arg(long)]
    key: Option<String>,
    /// Correlation id, which links related messages
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,
    #[command(flatten)]
    of: TenantOption,
}

/// A due time, in one of two forms.
#[derive(Clone, Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(in crate::cli) struct DueOptions {
    /// Due time, such as 2026-05-14T05:13:00Z
    #[arg(long, value_name = "TIME")]
    due_at: Option<String>,
    /// Delay from now, such as 90s or 1d12h
    #[arg(long, value_name = "DURATION")]
    delay: Option<String>,
}

/// The filter of timers.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::cli) struct TimerSelection {
    /// Only timers of this topic
    #[arg(long)]
    topic: Option<String>,
    /// Only timers of this key
    #[arg(long)]
    key: Option<String>,
    /// Only timers with this correlation id
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,
    /// Only timers due at this moment or later
    #[arg(long, value_name = "TIME", value_parser = Timestamp::parse)]
    due_from: Option<Timestamp>,
    /// Only timers due before this moment
    #[arg(long, value_name = "TIME", value_parser = Timestamp::parse)]
    due_before: Option<Timestamp>,
    #[command(flatten)]
    of: TenantOption,
}

/// The options of a bulk change.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::cli) struct TimerChange {
    /// Only timers with these ids
    #[arg(value_name = "ID")]
    ids: Vec<i64>,
    #[command(flatten)]
    those: TimerSelection,
    /// Select all timers of the tenant; required without ids and other filters
    #[arg(long)]
    all: bool,
    /// Only report what would change
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
}

fn read_status(word: &str) -> Result<TimerStatus, String> {
    TimerStatus::parse(word).ok_or_else(|| "say Waiting, Fired or Cancelled".into())
}

impl Timers {
    pub(in crate::cli) async fn run(self, options: &GlobalOptions) -> Outcome {
        let engine = options.engine().await?;
        let as_json = options.json;
        match self {
            Self::Schedule(wanted) => wanted.run(&engine, as_json).await,
            Self::List { those, status, limit } => list(&engine, &those, status, limit.into(), as_json).await,
            Self::Show { id, of } => show(&engine, id, &of, as_json).await,
            Self::Cancel(bulk) => bulk.run(&engine, None, as_json).await,
            Self::Move { bulk, at, spread } => {
                let spread = spread.map(|text| read_duration("--spread", &text)).transpose()?;
                bulk.run(&engine, Some(TimerMove { when: at.read()?, spread }), as_json).await
            }
        }
    }
}

fn read_duration(flag: &str, text: &str) -> Outcome<std::time::Duration> {
    duration::parse(text).map_err(|e| CommandFailure::usage(format!("{flag}: {e}")))
}

impl DueOptions {
    fn read(&self) -> Outcome<DueTime> {
        match (&self.due_at, &self.delay) {
            (Some(at), _) => {
                let at = Timestamp::parse(at).map_err(|e| CommandFailure::usage(format!("--due-at: {e}")))?;
                Ok(DueTime::At(at))
            }
            (None, Some(delay)) => read_duration("--delay", delay).map(DueTime::In),
            (None, None) => Err(CommandFailure::usage("say when: --due-at or --delay")),
        }
    }
}

impl Schedule {
    async fn run(self, engine: &Engine, as_json: bool) -> Outcome {
        let tenant = self.of.find(engine.store()).await?;
        let message = punctual::NewMessage {
            key: self.key,
            correlation_id: self.correlation_id,
            ..punctual::NewMessage::new(self.topic, self.kind, read_payload(&self.payload)?)
        };
        let topic = message.topic.clone();
        let kinds = engine.event_kinds().of(engine.store(), tenant).await?;
        if let Some(said) = kinds.topic_warning(&message.kind, &topic) {
            eprintln!("warning: {said}");
        }
        let made = engine.schedule_one(tenant, NewTimer { message, when: self.at.read()? }).await?;
        if as_json {
            print_json(&json!({"id": made.id, "dueAt": made.due_at}));
        } else {
            print_line(&format!("timer {} fires into {topic} at {}", made.id, made.due_at));
        }
        Ok(())
    }
}

impl TimerSelection {
    fn which(&self) -> TimerFilter {
        TimerFilter {
            ids: None,
            topic: self.topic.clone(),
            key: self.key.clone(),
            correlation_id: self.correlation_id.clone(),
            due_from: self.due_from,
            due_before: self.due_before,
        }
    }
}

impl TimerChange {
    async fn run(self, engine: &Engine, to: Option<TimerMove>, as_json: bool) -> Outcome {
        let mut which = self.those.which();
        if !self.ids.is_empty() {
            if which != TimerFilter::default() || self.all {
                return Err(CommandFailure::usage("say which: ids, or a filter, not both"));
            }
            which.ids = Some(self.ids.iter().copied().map(MessageId).collect());
        } else if which == TimerFilter::default() && !self.all {
            return Err(CommandFailure::usage(
                "say which: ids, --topic, --key, --correlation-id, a due time, or --all",
            ));
        }
        let tenant = self.those.of.find(engine.store()).await?;
        let verb = if to.is_some() { "moved" } else { "cancelled" };
        let would = if to.is_some() { "wouldMove" } else { "wouldCancel" };
        let found = change(engine, tenant, which.clone(), to, true).await?;
        let many = |changed: &TimerChangeOutcome| {
            format::many(i64::try_from(changed.ids.len()).unwrap_or(i64::MAX), "timer")
        };
        if self.dry_run {
            say(as_json, would, &found, true, &format!("{} would be {verb}", many(&found)));
            return self.check_named(verb, &found);
        }
        if self.ids.is_empty() && !found.ids.is_empty() {
            confirm::ask(&format!("{} will be {verb}.", many(&found)), self.yes)?;
        }
        let done = change(engine, tenant, which, to, false).await?;
        let said = match done.ids.len() {
            0 => format!("nothing was {verb}: no such timer waits"),
            _ => format!("{} {verb}", many(&done)),
        };
        say(as_json, verb, &done, false, &said);
        self.check_named(verb, &done)
    }

    fn check_named(&self, verb: &str, changed: &TimerChangeOutcome) -> Outcome {
        let why = "it is not there, has fired or was cancelled before";
        unchanged::check_named(
            "timer",
            verb,
            why,
            self.ids.iter().copied(),
            changed.ids.iter().map(|id| id.0),
        )
    }
}

async fn change(
    engine: &Engine,
    tenant: Tenant,
    which: TimerFilter,
    to: Option<TimerMove>,
    dry_run: bool,
) -> Outcome<TimerChangeOutcome> {
    Ok(match to {
        None => engine.cancel_timers(tenant, which, dry_run).await?,
        Some(to) => engine.move_timers(tenant, which, to, dry_run).await?,
    })
}

fn say(as_json: bool, verb: &str, changed: &TimerChangeOutcome, dry_run: bool, sentence: &str) {
    if as_json {
        let answer = json!({
            verb: changed.ids.len(), "ids": changed.ids, "more": changed.more, "dryRun": dry_run
        });
        let why = changed.ids.is_empty().then_some("no such timer waits");
        print_json(&unchanged::with_reason(answer, why));
    } else if changed.more {
        print_line(&format!("{sentence}; there may be more, so call again"));
    } else {
        print_line(sentence);
    }
}

async fn list(
    engine: &Engine,
    those: &TimerSelection,
    status: Option<TimerStatus>,
    limit: usize,
    as_json: bool,
) -> Outcome {
    let store = engine.store();
    let tenant = those.of.find(store).await?;
    let timers = store.timers(tenant, those.which(), status, None, limit).await?;
    if as_json {
        print_json(&json!({"items": timers.iter().map(to_json).collect::<Vec<_>>()}));
    } else if timers.is_empty() {
        print_line("no timers");
    } else {
        print_line(table(&timers, store.now().await?).trim_end());
    }
    Ok(())
}

fn table(timers: &[Timer], now: Timestamp) -> String {
    let mut table = Table::new(&["#id", "topic", "kind", "key", "due", "status"]);
    for timer in timers {
        let m = &timer.message;
        table.row([
            m.id.to_string(),
            m.topic.clone(),
            m.kind.clone(),
            m.key.clone().unwrap_or_else(|| "-".into()),
            format::from_now(timer.due_at, now),
            standing(timer),
        ]);
    }
    table.text()
}

fn standing(timer: &Timer) -> String {
    match timer.progress {
        Some(progress) => format!("{:?}, {progress:?}", timer.status),
        None => format!("{:?}", timer.status),
    }
}

async fn show(engine: &Engine, id: i64, of: &TenantOption, as_json: bool) -> Outcome {
    let tenant = of.find(engine.store()).await?;
    let timer = engine.store().timer(tenant, MessageId(id)).await?;
    let timer = timer.ok_or_else(|| CommandFailure::failed(format!("there is no timer {id}")))?;
    if as_json {
        print_json(&to_json(&timer));
        return Ok(());
    }
    let m = &timer.message;
    print_line(&format!(
        "timer {id} of {}: {}, key {}\n{}, due at {}\n\n{}",
        m.topic,
        m.kind,
        m.key.as_deref().unwrap_or("-"),
        standing(&timer),
        timer.due_at,
        m.payload
    ));
    Ok(())
}

fn to_json(timer: &Timer) -> Value {
    let m = &timer.message;
    json!({
        "id": m.id,
        "topic": m.topic,
        "kind": m.kind,
        "key": m.key,
        "correlationId": m.correlation_id,
        "payload": serde_json::from_str::<Value>(&m.payload).unwrap_or_default(),
        "status": timer.status,
        "progress": timer.progress,
        "dueAt": timer.due_at,
        "firstDueAt": m.due_at,
        "changedAt": timer.changed_at,
    })
}
