//! `punctual migrate`: the schema, brought up to date or printed.

use super::failure::Outcome;
use super::{Everywhere, print_json, print_line};
use punctual::Store;
use punctual::database::migrate;
use serde_json::json;

/// Bring the database's schema up to date.
#[derive(Debug, clap::Args)]
pub(super) struct Migrate {
    /// Print the SQL instead of running it
    #[arg(long)]
    print: bool,
}

impl Migrate {
    pub(super) async fn run(self, everywhere: &Everywhere) -> Outcome {
        let store = if self.print { in_words(everywhere)? } else { Store::open(everywhere.url(), 2)? };
        if self.print {
            print_line(migrate::print(store.dialect()).trim_end());
            return Ok(());
        }
        let (before, after) = store.migrate().await?;
        if everywhere.json {
            print_json(&json!({"before": before, "after": after, "changed": before != after}));
        } else if before == after {
            print_line(&format!("the schema is at version {after} already"));
        } else {
            print_line(&format!("the schema went from version {before} to version {after}"));
        }
        Ok(())
    }
}

/// Only the kind of database matters for printing, so no file is made for it.
fn in_words(everywhere: &Everywhere) -> Outcome<Store> {
    let url = everywhere.url();
    Ok(Store::open(if url.starts_with("sqlite:") { "sqlite::memory:" } else { url }, 2)?)
}
