//! `punctual tick`: asks a running server to handle due work.
//!
//! This is the one command that calls a server: only a server has the channels, and without its
//! channel a delivery would fail for good.

use super::call::ServerUrl;
use crate::cli::failure::{CommandFailure, Outcome};
use crate::cli::{GlobalOptions, print_json, print_line};
use crate::config::root_key;
use punctual::base::duration;
use punctual::base::limits::CLAIM_ITEMS_MAX;
use serde_json::{Map, json};

/// The variables of the key, the first one that is set; never a flag, because process lists show those.
const KEYS: [&str; 2] = ["PUNCTUAL_KEY", "PUNCTUAL_ROOT_KEY"];

/// Ask a running server to handle due work.
#[derive(Debug, clap::Args)]
#[command(after_help = "The key, of the role ops, is in PUNCTUAL_KEY or PUNCTUAL_ROOT_KEY, or in the file.")]
pub(in crate::cli) struct Tick {
    /// Deliveries in each batch [default: the server's batch size]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=CLAIM_ITEMS_MAX as u64))]
    batch: Option<u64>,
    /// Server, such as http://127.0.0.1:8080 [default: the address in PUNCTUAL_LISTEN or the file]
    #[arg(long)]
    url: Option<String>,
    /// Timeout for the answer
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
