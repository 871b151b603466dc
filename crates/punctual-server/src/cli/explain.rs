//! `punctual explain`: what an event would come to, and why. Writes nothing.

use super::database::OfTenant;
use super::failure::{Failure, Outcome};
use super::table::one_line;
use super::{Everywhere, print_json, print_line};
use punctual::engine::{Explained, ExplainedTrigger, Ingest};
use serde_json::{Value, json};
use std::io::Read;

/// Say what an event would come to.
#[derive(Debug, clap::Args)]
pub(super) struct Explain {
    /// An event or a list of them as JSON, or `-` for standard input
    file: String,
    /// What happened
    #[arg(long)]
    kind: String,
    #[command(flatten)]
    of: OfTenant,
}

impl Explain {
    pub(super) async fn run(self, everywhere: &Everywhere) -> Outcome {
        let items = match read_json(&self.file)? {
            Value::Array(items) => items,
            item => vec![item],
        };
        let engine = everywhere.engine().await?;
        let tenant = self.of.find(engine.store()).await?;
        let ingest = Ingest { event_kind: self.kind, items };
        let explained = engine.explain(tenant, &ingest).await?;
        if everywhere.json {
            print_json(&json!({"items": explained}));
            return Ok(());
        }
        for (n, item) in explained.iter().enumerate() {
            print_line(&format!("event {}", n + 1));
            lines(item, &ingest.event_kind)
                .iter()
                .for_each(|line| print_line(&format!("  {}", one_line(line))));
        }
        Ok(())
    }
}

/// A JSON document from a file or standard input.
pub(super) fn read_json(file: &str) -> Outcome<Value> {
    let mut text = String::new();
    let read = match file {
        "-" => std::io::stdin().read_to_string(&mut text).map(|_| ()),
        _ => std::fs::read_to_string(file).map(|all| text = all),
    };
    let place = if file == "-" { "standard input" } else { file };
    read.map_err(|e| Failure::usage(format!("{place} cannot be read: {e}")))?;
    serde_json::from_str(&text).map_err(|e| Failure::usage(format!("{place} is not JSON: {e}")))
}

fn lines(item: &Explained, kind: &str) -> Vec<String> {
    if let Some(error) = &item.error {
        return vec![format!("Failed: {error}")];
    }
    if item.triggers.is_empty() {
        return vec![format!("NoMatch: no published survey has a trigger for `{kind}`")];
    }
    item.triggers.iter().flat_map(of_trigger).collect()
}

fn of_trigger(trigger: &ExplainedTrigger) -> Vec<String> {
    let ExplainedTrigger { survey_id, survey_version, trigger_id, outcome, because, .. } = trigger;
    let mut lines = vec![
        format!("survey {survey_id} version {survey_version}, trigger {trigger_id}: {outcome:?}"),
        format!("  {because}"),
        format!("  dedup text  {}", trigger.dedup_text),
        format!("  dedup hash  {}", trigger.unique_hash),
        format!("  channel     {}", trigger.channel),
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
