//! `punctual outbox`: lists the messages of all tenants with their status, the newest first. Failed ones are
//! replayed by `punctual dead-letters replay`.

use crate::cli::failure::{CommandFailure, Outcome};
use crate::cli::table::Table;
use crate::cli::{GlobalOptions, format, print_json, print_line};
use punctual::operate::store::outbox::{OutboxFilter, OutboxMessage, OutboxStatus};
use punctual::{MessageId, Store, Timestamp};
use serde_json::{Value, json};

/// The length of an error in the table.
const ERROR_CHARS: usize = 60;

/// The filter of messages.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Outbox {
    /// Only messages with this status
    #[arg(long, value_parser = status)]
    status: Option<OutboxStatus>,
    /// Only messages of this tenant
    #[arg(long, value_name = "SLUG")]
    tenant: Option<String>,
    /// Only messages of this topic
    #[arg(long)]
    topic: Option<String>,
    /// Only messages of this kind
    #[arg(long)]
    kind: Option<String>,
    /// Only messages created at this time or later
    #[arg(long, value_parser = Timestamp::parse)]
    from: Option<Timestamp>,
    /// Only messages created before this time
    #[arg(long, value_parser = Timestamp::parse)]
    to: Option<Timestamp>,
    /// Maximum number of messages
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    limit: u16,
}

fn status(word: &str) -> Result<OutboxStatus, String> {
    let words = OutboxStatus::ALL.map(|(_, word)| word).join(", ");
    OutboxStatus::from_word(word).ok_or_else(|| format!("say one of {words}"))
}

impl Outbox {
    pub(in crate::cli) async fn run(self, options: &GlobalOptions) -> Outcome {
        let store = options.store().await?;
        let messages = self.messages(&store).await?;
        if options.json {
            print_json(&json!({"items": messages.iter().map(to_json).collect::<Vec<_>>()}));
        } else if messages.is_empty() {
            print_line("no such messages");
        } else {
            print_line(table(&messages, store.now().await?).trim_end());
        }
        Ok(())
    }

    /// Reads page after page: with filters a page may be short.
    async fn messages(self, store: &Store) -> Outcome<Vec<OutboxMessage>> {
        let tenant = match &self.tenant {
            None => None,
            Some(slug) => {
                let found = store.tenant(slug).await?;
                let missing = || CommandFailure::failed(format!("there is no tenant `{slug}`"));
                Some(found.ok_or_else(missing)?.tenant)
            }
        };
        let Self { status, topic, kind, from, to, limit, .. } = self;
        let filter = OutboxFilter { tenant, topic, kind, status, from, to };
        let (mut all, mut before) = (Vec::new(), MessageId(i64::MAX));
        loop {
            let room = usize::from(limit) - all.len();
            let page = store.outbox(filter.clone(), before, room).await?;
            all.extend(page.messages);
            match page.next {
                Some(next) if all.len() < usize::from(limit) => before = next,
                _ => return Ok(all),
            }
        }
    }
}

fn table(messages: &[OutboxMessage], now: Timestamp) -> String {
    let mut table = Table::new(&[
        "#id",
        "#tenant",
        "topic",
        "kind",
        "key",
        "status",
        "written",
        "#attempts",
        "last error",
    ]);
    for message in messages {
        let error = message.last_error.as_deref().unwrap_or("-");
        table.row([
            message.id.to_string(),
            message.tenant.to_string(),
            message.topic.clone(),
            message.kind.clone(),
            message.key.clone().unwrap_or_else(|| "-".into()),
            message.status.word().to_owned(),
            format::from_now(message.created_at, now),
            message.attempts.to_string(),
            error.chars().take(ERROR_CHARS).collect(),
        ]);
    }
    table.text()
}

fn to_json(message: &OutboxMessage) -> Value {
    json!({
        "id": message.id.to_string(),
        "tenantId": message.tenant.id(),
        "topic": message.topic,
        "kind": message.kind,
        "key": message.key,
        "entity": message.entity,
        "status": message.status.word(),
        "createdAt": message.created_at,
        "processedAt": message.processed_at,
        "attempts": message.attempts,
        "lastError": message.last_error,
        "correlationId": message.correlation_id,
    })
}
