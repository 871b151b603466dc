//! `punctual inbox`: list received messages; requeue dead ones.

use crate::cli::database::TenantOption;
use crate::cli::failure::{CommandFailure, Outcome};
use crate::cli::table::Table;
use crate::cli::{GlobalOptions, confirm, format, print_json, print_line, unchanged};
use punctual::base::limits::LIST_ITEMS_MAX;
use punctual::queue::rules::inbox::InboxStatus;
use punctual::queue::store::inbox::{InboxFilter, InboxMessage};
use punctual::{InboxId, Store, Tenant, Timestamp};
use serde_json::{Value, json};

/// The length of an error in the table; JSON has the whole error.
const ERROR_CHARS: usize = 60;

/// The subcommands of `inbox`.
#[derive(Debug, clap::Subcommand)]
pub(in crate::cli) enum Inbox {
    /// List received messages, in the order of arrival
    List {
        #[command(flatten)]
        those: InboxSelection,
        /// Only messages with this status: processing, processed, failed or dead
        #[arg(long, value_parser = status)]
        status: Option<InboxStatus>,
        /// Maximum number of messages
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1_000))]
        limit: u16,
        /// Only messages after this id
        #[arg(long, default_value_t = 0, hide_default_value = true)]
        after: i64,
    },
    /// Requeue dead messages: the next delivery of each is processed
    Replay {
        #[command(flatten)]
        those: InboxSelection,
        /// Select all messages of the tenant; required if neither --source nor --ids is given
        #[arg(long)]
        all: bool,
        /// Only report what would change
        #[arg(long)]
        dry_run: bool,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
}

/// The filter of received messages.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::cli) struct InboxSelection {
    /// Only messages of this source
    #[arg(long)]
    source: Option<String>,
    /// Only messages with these ids
    #[arg(long, value_delimiter = ',', value_name = "ID,…")]
    ids: Option<Vec<i64>>,
    #[command(flatten)]
    of: TenantOption,
}

fn status(word: &str) -> Result<InboxStatus, String> {
    InboxStatus::parse(word).ok_or_else(|| "say processing, processed, failed or dead".into())
}

impl Inbox {
    pub(in crate::cli) async fn run(self, options: &GlobalOptions) -> Outcome {
        let store = options.store().await?;
        match self {
            Self::List { those, status, limit, after } => {
                let which = InboxFilter { status, after, ..those.which() };
                list(&store, those.of.find(&store).await?, which, limit.into(), options.json).await
            }
            Self::Replay { those, all, .. } if !all && those.source.is_none() && those.ids.is_none() => {
                Err(CommandFailure::usage("say which: --source, --ids, or --all of them"))
            }
            Self::Replay { those, dry_run, yes, .. } => {
                those.replay(&store, dry_run, yes, options.json).await
            }
        }
    }
}

impl InboxSelection {
    fn which(&self) -> InboxFilter {
        let ids = self.ids.as_ref().map(|ids| ids.iter().copied().map(InboxId).collect());
        InboxFilter { ids, source: self.source.clone(), ..InboxFilter::default() }
    }

    async fn replay(self, store: &Store, dry_run: bool, yes: bool, as_json: bool) -> Outcome {
        let tenant = self.of.find(store).await?;
        let found = self.all_ids(store, tenant).await?;
        if dry_run {
            say(&found, true, "would be requeued", as_json);
            return self.check_named(&found);
        }
        if !found.is_empty() {
            confirm::ask(&format!("{} will be requeued.", many(found.len())), yes)?;
        }
        let mut done = Vec::new();
        for part in found.chunks(LIST_ITEMS_MAX) {
            let which = InboxFilter { ids: Some(part.to_vec()), ..InboxFilter::default() };
            done.extend(store.replay_inbox(tenant, which, false).await?.ids);
        }
        say(&done, false, "requeued", as_json);
        self.check_named(&done)
    }

    fn check_named(&self, replayed: &[InboxId]) -> Outcome {
        let named = self.ids.iter().flatten().copied();
        let why = "it is not there, or not dead";
        unchanged::check_named("inbox message", "replayed", why, named, replayed.iter().map(|id| id.0))
    }

    /// Returns all selected ids, so that the confirmed number equals the changed number.
    async fn all_ids(&self, store: &Store, tenant: Tenant) -> Outcome<Vec<InboxId>> {
        let mut all = Vec::new();
        let mut which = self.which();
        loop {
            let step = store.replay_inbox(tenant, which.clone(), true).await?;
            which.after = step.ids.last().map_or(which.after, |id| id.0);
            all.extend(step.ids);
            if !step.more {
                return Ok(all);
            }
        }
    }
}

fn many(n: usize) -> String {
    format::many(i64::try_from(n).unwrap_or(i64::MAX), "dead message")
}

fn say(ids: &[InboxId], dry_run: bool, what: &str, as_json: bool) {
    if as_json {
        let word = if dry_run { "wouldReplay" } else { "replayed" };
        let why = ids.is_empty().then_some("there is no such dead message");
        let answer = json!({word: ids.len(), "ids": ids, "dryRun": dry_run});
        print_json(&unchanged::with_reason(answer, why));
    } else if ids.is_empty() {
        print_line("nothing was replayed: there is no such dead message");
    } else {
        print_line(&format!("{} {what}", many(ids.len())));
    }
}

async fn list(store: &Store, tenant: Tenant, which: InboxFilter, limit: usize, as_json: bool) -> Outcome {
    let rows = store.inbox(tenant, which, limit).await?;
    if as_json {
        print_json(&json!({"items": rows.iter().map(to_json).collect::<Vec<_>>()}));
    } else if rows.is_empty() {
        print_line("no messages");
    } else {
        print_line(table(&rows, store.now().await?).trim_end());
    }
    Ok(())
}

fn table(rows: &[InboxMessage], now: Timestamp) -> String {
    let mut table =
        Table::new(&["#id", "source", "message", "status", "#attempts", "last seen", "last error"]);
    for row in rows {
        table.row([
            row.id.to_string(),
            row.source.clone(),
            row.message_id.clone(),
            row.status.word().to_owned(),
            row.attempts.to_string(),
            format::from_now(row.last_seen, now),
            row.error.iter().flat_map(|error| error.chars()).take(ERROR_CHARS).collect(),
        ]);
    }
    table.text()
}

fn to_json(row: &InboxMessage) -> Value {
    json!({
        "id": row.id,
        "source": row.source,
        "messageId": row.message_id,
        "hash": row.hash,
        "status": row.status.word(),
        "attempts": row.attempts,
        "firstSeen": row.first_seen,
        "lastSeen": row.last_seen,
        "leaseUntil": row.lease_until,
        "finishedAt": row.finished_at,
        "error": row.error,
    })
}
