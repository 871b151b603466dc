//! `punctual tick`: lets a running server do what is due.
//!
//! The one command that calls a server: only a server has the channels that letters go by, and
//! without its channel a letter would fail for good.

use super::call::ServerUrl;
use crate::cli::failure::{CommandFailure, Outcome};
use crate::cli::{GlobalOptions, print_json, print_line};
use crate::config::root_key;
use punctual::base::duration;
use punctual::base::limits::CLAIM_ITEMS_MAX;
use serde_json::{Map, json};

/// Keys, the first that is set; never flags, because the process list shows those.
const KEYS: [&str; 2] = ["PUNCTUAL_KEY", "PUNCTUAL_ROOT_KEY"];

/// Let a running server do what is due.
#[derive(Debug, clap::Args)]
#[command(after_help = "The key, of the role ops, is in PUNCTUAL_KEY or PUNCTUAL_ROOT_KEY, or in the file.")]
pub(in crate::cli) struct Tick {
    /// Letters that are taken together [default: as many as the server takes]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=CLAIM_ITEMS_MAX as u64))]
    batch: Option<u64>,
    /// The server, such as http://127.0.0.1:8080 [default: where PUNCTUAL_LISTEN or the file says]
    #[arg(long)]
    url: Option<String>,
    /// How long to wait for the answer
    #[arg(long, value_name = "DURATION", default_value = "10m")]
    timeout: String,
}

impl Tick {
    pub(in crate::cli) async fn run(self, options: &GlobalOptions) -> Outcome {
        let timeout =
            duration::parse(&self.timeout).map_err(|e| CommandFailure::usage(format!("--timeout: {e}")))?;
        let named = |name: &&str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let server = match &self.url {
            Some(url) => ServerUrl::parse(url)?,
            None => {
                let listen = named(&"PUNCTUAL_LISTEN").or_else(|| options.file.listen.clone());
                ServerUrl::listening(listen.as_deref())?
            }
        };
        let mut body = Map::new();
        if let Some(batch) = self.batch {
            body.insert("batchSize".into(), batch.into());
        }
        let key = match KEYS.iter().find_map(named) {
            Some(key) => Some(key),
            None => root_key(options.file.root_key.clone())?,
        };
        let ticked = server.post("/api/scheduler/tick", key.as_deref(), &json!(body), timeout).await?;
        if options.json {
            print_json(&ticked);
            return Ok(());
        }
        let count = |name: &str| ticked[name].as_u64().unwrap_or_default();
        let [sent, failed, expired, dispatched] = ["sent", "failed", "expired", "dispatched"].map(count);
        print_line(&format!("{sent} sent, {failed} failed, {expired} expired, {dispatched} dispatched"));
        Ok(())
    }
}
