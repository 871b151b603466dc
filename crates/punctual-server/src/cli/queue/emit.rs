//! `punctual emit`: enqueues one message, by hand or from a script.

use crate::cli::database::TenantOption;
use crate::cli::failure::{CommandFailure, Outcome};
use crate::cli::{GlobalOptions, print_json, print_line};
use punctual::base::duration;
use punctual::{Component, EnqueueOutcome, NewMessage, Timestamp};
use serde_json::json;
use std::io::Read;

/// The default source.
pub(in crate::cli) const SOURCE_DEFAULT: &str = "command-line";

/// Enqueue one message.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Emit {
    /// Topic of the message
    #[arg(long)]
    topic: String,
    /// Kind of the message
    #[arg(long)]
    kind: String,
    /// Payload as JSON, `@FILE`, or `-` for standard input
    #[arg(long, default_value = "{}", value_name = "JSON")]
    payload: String,
    /// Key; messages of one key are handled in order, one at a time
    #[arg(long)]
    key: Option<String>,
    /// Due time, such as 2026-05-14T05:13:00Z
    #[arg(long, value_name = "TIME", conflicts_with = "delay")]
    due_at: Option<String>,
    /// Delay until the message is due, such as 90s or 1d12h
    #[arg(long, value_name = "DURATION")]
    delay: Option<String>,
    /// Your own message id; a second message with it from the same source is a duplicate
    #[arg(long)]
    id: Option<String>,
    /// Source of the message, the scope of the id [default: command-line]
    #[arg(long, requires = "id")]
    source: Option<String>,
    /// Correlation id, which links related messages
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,
    #[command(flatten)]
    of: TenantOption,
}

impl Emit {
    pub(in crate::cli) async fn run(self, options: &GlobalOptions) -> Outcome {
        let engine = options.engine().await?;
        let tenant = self.of.find(engine.store()).await?;
        let now = engine.store().now().await?;
        let message = self.message(now)?;
        let topic = message.topic.clone();
        if engine.components().has(Component::Flows) {
            let kinds = engine.event_kinds().of(engine.store(), tenant).await?;
            if let Some(said) = kinds.topic_warning(&message.kind, &topic) {
                eprintln!("warning: {said}");
            }
        }
        let enqueued = engine.enqueue(tenant, vec![message]).await?;
        // Nobody needs to hear it: the others look by themselves, only later.
        let _ = engine.store().notify().await;
        if let Some(outcome) = enqueued.first() {
            say(outcome, &topic, options.json);
        }
        Ok(())
    }

    fn message(self, now: Timestamp) -> Outcome<NewMessage> {
        let due_at = self.due(now)?;
        let payload = read_payload(&self.payload)?;
        let source = self.id.is_some().then(|| self.source.unwrap_or_else(|| SOURCE_DEFAULT.into()));
        Ok(NewMessage {
            topic: self.topic,
            kind: self.kind,
            payload,
            key: self.key,
            due_at,
            id: self.id,
            source,
            correlation_id: self.correlation_id,
            ..NewMessage::default()
        })
    }

    fn due(&self, now: Timestamp) -> Outcome<Option<Timestamp>> {
        let wrong = |flag: &'static str| move |e: String| CommandFailure::usage(format!("{flag}: {e}"));
        match (&self.due_at, &self.delay) {
            (Some(at), _) => Timestamp::parse(at).map(Some).map_err(wrong("--due-at")),
            (None, Some(delay)) => {
                let delay = duration::parse(delay).map_err(wrong("--delay"))?;
                Ok(Some(now.plus(delay)))
            }
            (None, None) => Ok(None),
        }
    }
}

pub(in crate::cli) fn read_payload(text: &str) -> Outcome<String> {
    let cannot = |place: &str, e: std::io::Error| {
        CommandFailure::usage(format!("--payload: {place} cannot be read: {e}"))
    };
    if text == "-" {
        let mut all = String::new();
        std::io::stdin().read_to_string(&mut all).map_err(|e| cannot("standard input", e))?;
        return Ok(all);
    }
    match text.strip_prefix('@') {
        Some(file) => std::fs::read_to_string(file).map_err(|e| cannot(file, e)),
        None => Ok(text.to_owned()),
    }
}

fn say(outcome: &EnqueueOutcome, topic: &str, as_json: bool) {
    let duplicate = matches!(outcome, EnqueueOutcome::Duplicate { .. });
    let same = !matches!(outcome, EnqueueOutcome::Duplicate { same: false, .. });
    if as_json {
        print_json(&json!({"id": outcome.id(), "duplicate": duplicate, "sameContent": same}));
        return;
    }
    let id = outcome.id().map_or_else(|| "gone by now".into(), |id| id.to_string());
    print_line(&match (duplicate, same) {
        (false, _) => format!("message {id} waits in {topic}"),
        (true, true) => format!("a duplicate of message {id}: nothing was written"),
        (true, false) => {
            format!("a duplicate of message {id}, though with other content: nothing was written")
        }
    });
}
