//! `punctual migrate`: updates or prints the schema.

use crate::cli::failure::Outcome;
use crate::cli::{GlobalOptions, print_json, print_line};
use punctual::database::migrate::{self, MigrationOutcome};
use punctual::{Component, Components, Store};
use serde_json::json;

/// Bring the database's schema up to date.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Migrate {
    /// Print the SQL instead of running it
    #[arg(long)]
    print: bool,

    /// Components to migrate: access, outbox, inbox, leases, jobs, flows, with those they need [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = read_component)]
    components: Vec<Component>,
}

fn read_component(name: &str) -> Result<Component, String> {
    Component::from_name(name).ok_or_else(|| format!("must be one of {}", Components::ALL))
}

impl Migrate {
    pub(in crate::cli) async fn run(self, options: &GlobalOptions) -> Outcome {
        let store = if self.print { in_words(options)? } else { Store::open(options.url(), 2)? };
        if self.print {
            print_line(migrate::print(store.dialect(), self.wanted()).trim_end());
            return Ok(());
        }
        let migrated = store.migrate_components(self.wanted()).await?;
        let MigrationOutcome { before, after, added } = migrated;
        if options.json {
            let changed = before != after || added != Components::NONE;
            let added: Vec<&str> = added.iter().map(Component::name).collect();
            print_json(&json!({"before": before, "after": after, "added": added, "changed": changed}));
        } else {
            print_line(&sentence(&migrated));
        }
        Ok(())
    }

    fn wanted(&self) -> Components {
        if self.components.is_empty() { Components::ALL } else { Components::of(&self.components) }
    }
}

fn sentence(migrated: &MigrationOutcome) -> String {
    let MigrationOutcome { before, after, added } = migrated;
    if before != after {
        return format!("the schema went from version {before} to version {after}");
    }
    if *added != Components::NONE {
        return format!("the schema is at version {after} and has the components {added} now, too");
    }
    format!("the schema is at version {after} already")
}

/// Returns the kind of the database. Printing needs no more, so no file is created for it.
fn in_words(options: &GlobalOptions) -> Outcome<Store> {
    let url = options.url();
    Ok(Store::open(if url.starts_with("sqlite:") { "sqlite::memory:" } else { url }, 2)?)
}
