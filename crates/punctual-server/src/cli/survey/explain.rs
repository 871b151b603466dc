//! `punctual explain`: explains the effects of an event. Writes nothing.

use super::ingest::is_csv_header;
use crate::cli::database::TenantOption;
use crate::cli::failure::{CommandFailure, Outcome};
use crate::cli::queue::emit::SOURCE_DEFAULT;
use crate::cli::table::one_line;
use crate::cli::{GlobalOptions, print_json, print_line};
use crate::http::api::queue::events::read_one;
use punctual::MessageId;
use punctual::engine::{
    DeliveryExplanation, EventExplanation, EventToExplain, IngestRequest, NotificationExplanation,
    TemplateExplanation, TriggerExplanation,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::io::Read;

/// Explain the effects of an event
///
/// With `--kind`, the file has events as `punctual ingest` takes them, which begin surveys. Without it, the
/// file has events as `POST /api/events` takes them, with topic, kind and payload: they may begin surveys and
/// cause notifications. Channels come from the file in `--config`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Explain {
    /// File with an event or a list of events as JSON, or `-` for standard input
    #[arg(required_unless_present = "event_id")]
    file: Option<String>,
    /// Event kind, for events in the form of an ingest
    #[arg(long)]
    kind: Option<String>,
    /// Explain the published event with this id
    #[arg(long, value_name = "ID", conflicts_with_all = ["file", "kind"])]
    event_id: Option<i64>,
    #[command(flatten)]
    of: TenantOption,
}

impl Explain {
    pub(in crate::cli) async fn run(self, options: &GlobalOptions) -> Outcome {
        let events = self.events()?;
        let engine = options.forecaster().await?;
        let tenant = self.of.find(engine.store()).await?;
        let (explained, kind) = match events {
            Events::Ingest(ingest) => (engine.explain(tenant, &ingest).await?, ingest.event_kind),
            Events::Topic(events) => {
                let mut explained = Vec::with_capacity(events.len());
                for event in events {
                    explained.push(engine.explain_event(tenant, event).await?);
                }
                (explained, "its kind".to_owned())
            }
        };
        if options.json {
            print_json(&json!({"items": explained}));
            return Ok(());
        }
        for (n, item) in explained.iter().enumerate() {
            print_line(&format!("event {}", n + 1));
            lines(item, &kind, !options.file.channels.is_empty())
                .iter()
                .for_each(|line| print_line(&format!("  {}", one_line(line))));
        }
        Ok(())
    }

    fn events(&self) -> Outcome<Events> {
        if let Some(id) = self.event_id {
            return Ok(Events::Topic(vec![EventToExplain::Recorded(MessageId(id))]));
        }
        let file = self.file.as_deref().unwrap_or("-");
        let Some(kind) = self.kind.clone() else {
            return topic_events(&read_text(file)?).map(Events::Topic);
        };
        let items = match read_json(file)? {
            Value::Array(items) => items,
            item => vec![item],
        };
        Ok(Events::Ingest(IngestRequest { event_kind: kind, items }))
    }
}

/// The events to explain.
enum Events {
    /// Events of an ingest.
    Ingest(IngestRequest),
    /// Events of a topic.
    Topic(Vec<EventToExplain>),
}

/// Reads events in the form of a publish; payloads keep their text.
fn topic_events(text: &str) -> Outcome<Vec<EventToExplain>> {
    let not_json = |e: serde_json::Error| CommandFailure::usage(format!("the events are not JSON: {e}"));
    let is_list = text.trim_start().starts_with('[');
    let items: Vec<&RawValue> = match is_list {
        true => serde_json::from_str(text).map_err(not_json)?,
        false => vec![serde_json::from_str(text).map_err(not_json)?],
    };
    let read = |(n, item): (usize, &&RawValue)| {
        let at = if is_list { format!("[{n}]") } else { String::new() };
        read_one(item, &at, SOURCE_DEFAULT).map_err(|failure| CommandFailure::usage(failure.sentence()))
    };
    items.iter().enumerate().map(read).collect()
}

/// Reads a JSON document from a file or standard input.
pub(in crate::cli) fn read_json(file: &str) -> Outcome<Value> {
    let place = if file == "-" { "standard input" } else { file };
    let text = read_text(file)?;
    serde_json::from_str(&text).map_err(|e| {
        let first = text.trim_start().lines().next().unwrap_or_default();
        CommandFailure::usage(if is_csv_header(first.as_bytes()) {
            format!("{place} looks like CSV, and this command reads JSON: convert it first")
        } else {
            format!("{place} is not JSON: {e}")
        })
    })
}

/// Reads the text of a file or standard input.
fn read_text(file: &str) -> Outcome<String> {
    let mut text = String::new();
    let read = match file {
        "-" => std::io::stdin().read_to_string(&mut text).map(|_| ()),
        _ => std::fs::read_to_string(file).map(|all| text = all),
    };
    let place = if file == "-" { "standard input" } else { file };
    read.map_err(|e| CommandFailure::usage(format!("{place} cannot be read: {e}")))?;
    Ok(text)
}

/// Formats one explained event. Missing channels are shown only if the file names channels.
fn lines(item: &EventExplanation, kind: &str, has_channels: bool) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(item.error.iter().map(|error| format!("Failed: {error}")));
    lines.extend(item.duplicate_of.iter().map(|id| format!("  duplicate of event {id}")));
    if item.triggers.is_empty() && item.error.is_none() {
        lines.push(format!("NoMatch: no published survey has a trigger for `{kind}`"));
    }
    lines.extend(item.triggers.iter().flat_map(|trigger| of_trigger(trigger, has_channels)));
    lines.extend(item.notification.iter().flat_map(of_notification));
    lines
}

fn of_notification(of: &NotificationExplanation) -> Vec<String> {
    let reason = of.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let mut lines = vec![format!("notification: {:?}{reason}", of.outcome), format!("  {}", of.because)];
    let entity = of.entity.as_ref();
    lines.extend(entity.map(|entity| format!("  about       {} {}", entity.kind, entity.id)));
    let (status, hold) = (of.duplicate_status.unwrap_or_default(), of.duplicate_on_hold.as_ref());
    lines.extend(of.duplicate_of.iter().map(|id| format!("  duplicate   of schedule {id}, {status}")));
    lines.extend(hold.map(|reason| format!("  on hold     {reason}")));
    lines.extend(of.deliveries.iter().flat_map(of_delivery));
    lines
}

fn of_delivery(one: &DeliveryExplanation) -> Vec<String> {
    let reason = one.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let to = one.to_address.as_deref().unwrap_or("no address");
    let mut lines = vec![
        format!("  {} to {to}: {:?}{reason}", one.channel, one.outcome),
        format!("    at          {}  {}", one.at, one.local),
    ];
    if one.planned_at != one.at {
        lines.push(format!("    planned for {}", one.planned_at));
    }
    if one.planned_channel != one.channel {
        lines.push(format!("    instead of  {}", one.planned_channel));
    }
    lines.extend(one.because.iter().map(|because| format!("    {because}")));
    lines.extend(one.idempotency_key.iter().map(|key| format!("    key         {key}")));
    let (status, hold) = (one.duplicate_status.unwrap_or_default(), one.duplicate_on_hold.as_ref());
    lines.extend(one.duplicate_of.iter().map(|id| format!("    duplicate   of delivery {id}, {status}")));
    lines.extend(hold.map(|reason| format!("    on hold     {reason}")));
    for template in &one.templates {
        let TemplateExplanation { template_id, template_version, language, because, .. } = template;
        lines.push(format!("    template {template_id} version {template_version}, {language}: {because}"));
    }
    lines.extend(one.subject.iter().map(|subject| format!("    {subject}")));
    lines.extend(one.body.iter().flat_map(|body| body.lines()).map(|line| format!("    {line}")));
    lines.extend(one.warnings.iter().map(|warning| format!("    warning: {warning}")));
    lines
}

fn of_trigger(trigger: &TriggerExplanation, has_channels: bool) -> Vec<String> {
    let doubt =
        if has_channels && !trigger.channel_known { ", which the file does not configure" } else { "" };
    let TriggerExplanation { survey_id, survey_version, trigger_id, outcome, because, .. } = trigger;
    let mut lines = vec![
        format!("survey {survey_id} version {survey_version}, trigger {trigger_id}: {outcome:?}"),
        format!("  {because}"),
        format!("  dedup text  {}", trigger.dedup_text),
        format!("  dedup hash  {}", trigger.unique_hash),
        format!("  channel     {}{doubt}", trigger.channel),
    ];
    for send in &trigger.sends {
        lines.push(format!("  send {}      {}  {}  {}", send.attempt, send.at, send.local, send.outcome));
        if send.planned_at != send.at {
            lines.push(format!("    planned for {}", send.planned_at));
        }
        lines.extend(send.because.iter().map(|because| format!("    {because}")));
        let by = match (&send.template_id, send.template_version) {
            (Some(id), Some(version)) => format!("template {id} version {version}"),
            _ => "a text of our own".to_owned(),
        };
        lines.push(format!("    by {by}, {}", send.locale));
        lines.extend(send.subject.iter().map(|subject| format!("    {subject}")));
        lines.extend(send.body.lines().map(|line| format!("    {line}")));
    }
    if let Some(end) = trigger.expires_at {
        lines.push(format!("  expires     {end}"));
    }
    lines
}
