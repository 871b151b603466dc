//! `punctual dead-letters`: list dead letters; replay or purge them.

use crate::cli::database::TenantOption;
use crate::cli::failure::{CommandFailure, Outcome};
use crate::cli::table::{Table, one_line};
use crate::cli::{GlobalOptions, confirm, format, print_json, print_line, unchanged};
use punctual::base::limits::LIST_ITEMS_MAX;
use punctual::queue::store::dead_letters::{
    DeadLetter, DeadLetterAttempt, DeadLetterFilter, DeadLetterOutcome,
};
use punctual::{DeadLetterId, Store, Tenant, Timestamp};
use serde_json::{Value, json};

/// The length of an error in the table; `show` has the whole error.
const ERROR_CHARS: usize = 60;

/// The subcommands of `dead-letters`.
#[derive(Debug, clap::Subcommand)]
pub(in crate::cli) enum DeadLetters {
    /// List dead letters, the oldest first
    List {
        #[command(flatten)]
        those: DeadLetterOptions,
        /// Maximum number of dead letters
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1_000))]
        limit: u16,
    },
    /// Show one dead letter with its whole history
    Show {
        /// The id of the dead letter
        id: i64,
        #[command(flatten)]
        of: TenantOption,
    },
    /// Replay dead letters
    Replay(DeadLetterChange),
    /// Delete dead letters for good
    Purge(DeadLetterChange),
}

/// The filter of dead letters.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::cli) struct DeadLetterOptions {
    /// Only dead letters of this topic
    #[arg(long)]
    topic: Option<String>,
    /// Only dead letters of this subscription
    #[arg(long, requires = "topic")]
    subscription: Option<String>,
    /// Only dead letters with these ids
    #[arg(long, value_delimiter = ',', value_name = "ID,…")]
    ids: Option<Vec<i64>>,
    #[command(flatten)]
    of: TenantOption,
}

/// The options of a bulk change.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::cli) struct DeadLetterChange {
    #[command(flatten)]
    those: DeadLetterOptions,
    /// Select all dead letters of the tenant; required if neither --topic nor --ids is given
    #[arg(long)]
    all: bool,
    /// Only report what would change
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
}

#[derive(Clone, Copy)]
enum Action {
    Replay,
    Purge,
}

impl DeadLetters {
    pub(in crate::cli) async fn run(self, options: &GlobalOptions) -> Outcome {
        let store = options.store().await?;
        match self {
            Self::List { those, limit } => list(&store, those, limit.into(), options.json).await,
            Self::Show { id, of } => show(&store, id, &of, options.json).await,
            Self::Replay(bulk) => bulk.run(&store, Action::Replay, options.json).await,
            Self::Purge(bulk) => bulk.run(&store, Action::Purge, options.json).await,
        }
    }
}

impl DeadLetterOptions {
    fn which(&self) -> DeadLetterFilter {
        DeadLetterFilter {
            ids: self.ids.as_ref().map(|ids| ids.iter().copied().map(DeadLetterId).collect()),
            topic: self.topic.clone(),
            subscription: self.subscription.clone(),
            after: 0,
        }
    }
}

impl DeadLetterChange {
    async fn run(self, store: &Store, action: Action, as_json: bool) -> Outcome {
        if !self.all && self.those.topic.is_none() && self.those.ids.is_none() {
            return Err(CommandFailure::usage("say which: --topic, --ids, or --all of them"));
        }
        let tenant = self.those.of.find(store).await?;
        let found = self.all_ids(store, tenant, action).await?;
        let what = format::many(i64::try_from(found.len()).unwrap_or(i64::MAX), "dead letter");
        if self.dry_run {
            say(as_json, action, &found, true, &format!("{what} would be {}", action.done()));
            return self.check_named(action, &found);
        }
        if !found.is_empty() {
            confirm::ask(&format!("{what} will be {}.", action.done()), self.yes)?;
        }
        let mut done = Vec::new();
        for part in found.chunks(LIST_ITEMS_MAX) {
            let which = DeadLetterFilter { ids: Some(part.to_vec()), ..DeadLetterFilter::default() };
            done.extend(action.carry_out(store, tenant, which, false).await?.ids);
        }
        // Nobody needs to hear it: workers look by themselves, only later.
        let _ = store.notify().await;
        let what = format::many(i64::try_from(done.len()).unwrap_or(i64::MAX), "dead letter");
        let said = match done.len() {
            0 => format!("nothing was {}: there is no such dead letter", action.done()),
            _ => format!("{what} {}", action.done()),
        };
        say(as_json, action, &done, false, &said);
        self.check_named(action, &done)
    }

    fn check_named(&self, action: Action, moved: &[DeadLetterId]) -> Outcome {
        let named = self.those.ids.iter().flatten().copied();
        let why = "there is no such dead letter";
        unchanged::check_named("dead letter", action.done(), why, named, moved.iter().map(|id| id.0))
    }

    /// Returns all selected ids, so that the confirmed number equals the changed number.
    async fn all_ids(&self, store: &Store, tenant: Tenant, action: Action) -> Outcome<Vec<DeadLetterId>> {
        let mut all = Vec::new();
        let mut which = self.those.which();
        loop {
            let moved = action.carry_out(store, tenant, which.clone(), true).await?;
            which.after = moved.ids.last().map_or(which.after, |id| id.0);
            all.extend(moved.ids);
            if !moved.more {
                return Ok(all);
            }
        }
    }
}

impl Action {
    async fn carry_out(
        self,
        store: &Store,
        tenant: Tenant,
        which: DeadLetterFilter,
        dry_run: bool,
    ) -> Outcome<DeadLetterOutcome> {
        Ok(match self {
            Self::Replay => store.replay(tenant, which, dry_run).await?,
            Self::Purge => store.purge(tenant, which, dry_run).await?,
        })
    }

    const fn done(self) -> &'static str {
        match self {
            Self::Replay => "replayed",
            Self::Purge => "deleted for good",
        }
    }

    const fn word(self, dry_run: bool) -> &'static str {
        match (self, dry_run) {
            (Self::Replay, false) => "replayed",
            (Self::Replay, true) => "wouldReplay",
            (Self::Purge, false) => "purged",
            (Self::Purge, true) => "wouldPurge",
        }
    }
}

fn say(as_json: bool, action: Action, ids: &[DeadLetterId], dry_run: bool, sentence: &str) {
    if as_json {
        let answer = json!({action.word(dry_run): ids.len(), "ids": ids, "dryRun": dry_run});
        let why = ids.is_empty().then_some("there is no such dead letter");
        print_json(&unchanged::with_reason(answer, why));
    } else {
        print_line(sentence);
    }
}

async fn list(store: &Store, those: DeadLetterOptions, limit: usize, as_json: bool) -> Outcome {
    let tenant = those.of.find(store).await?;
    let letters = store.dead_letters(tenant, those.which(), limit).await?;
    if as_json {
        print_json(&json!({"items": letters.iter().map(to_json).collect::<Vec<_>>()}));
    } else if letters.is_empty() {
        print_line("no dead letters");
    } else {
        print_line(table(&letters, store.now().await?).trim_end());
    }
    Ok(())
}

fn table(letters: &[DeadLetter], now: Timestamp) -> String {
    let mut table = Table::new(&["#id", "queue", "kind", "key", "#attempts", "died", "last error"]);
    for letter in letters {
        table.row([
            letter.id.to_string(),
            queue(letter),
            letter.message.kind.clone(),
            letter.message.key.clone().unwrap_or_else(|| "-".into()),
            letter.attempts.len().to_string(),
            format::from_now(letter.died_at, now),
            letter.error.chars().take(ERROR_CHARS).collect(),
        ]);
    }
    table.text()
}

fn queue(letter: &DeadLetter) -> String {
    match letter.subscription.as_str() {
        "" => letter.topic.clone(),
        subscription => format!("{}/{subscription}", letter.topic),
    }
}

async fn show(store: &Store, id: i64, of: &TenantOption, as_json: bool) -> Outcome {
    let tenant = of.find(store).await?;
    let which = DeadLetterFilter { ids: Some(vec![DeadLetterId(id)]), ..DeadLetterFilter::default() };
    let found = store.dead_letters(tenant, which, 1).await?;
    let letter =
        found.first().ok_or_else(|| CommandFailure::failed(format!("there is no dead letter {id}")))?;
    if as_json {
        print_json(&to_json(letter));
        return Ok(());
    }
    let m = &letter.message;
    // Texts of others: a worker's error, and a kind and key of a publisher.
    print_line(&format!(
        "dead letter {id} of {}: message {}, {}, key {}\ndied at {}: {}\n\n{}\n",
        one_line(&queue(letter)),
        m.id,
        one_line(&m.kind),
        one_line(m.key.as_deref().unwrap_or("-")),
        letter.died_at,
        one_line(&letter.error),
        m.payload.lines().map(one_line).collect::<Vec<_>>().join("\n")
    ));
    let mut table = Table::new(&["#attempt", "ended at", "how", "by", "error"]);
    for a in &letter.attempts {
        let how = a.outcome.clone();
        table.row([a.number.to_string(), a.at.to_string(), how, a.owner.clone(), a.error.clone()]);
    }
    print_line(table.text().trim_end());
    Ok(())
}

fn to_json(letter: &DeadLetter) -> Value {
    let m = &letter.message;
    let attempt = |a: &DeadLetterAttempt| {
        json!({
            "number": a.number,
            "at": a.at,
            "owner": a.owner,
            "outcome": a.outcome,
            "error": a.error,
        })
    };
    json!({
        "id": letter.id,
        "topic": letter.topic,
        "subscription": letter.subscription,
        "messageId": m.id,
        "kind": m.kind,
        "key": m.key,
        "correlationId": m.correlation_id,
        "payload": serde_json::from_str::<Value>(&m.payload).unwrap_or_default(),
        "attempts": letter.attempts.iter().map(attempt).collect::<Vec<_>>(),
        "diedAt": letter.died_at,
        "error": letter.error,
    })
}
