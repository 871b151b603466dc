//! `punctual config show`: the settings with their sources.

use crate::cli::failure::Outcome;
use crate::cli::table::Table;
use crate::cli::{GlobalOptions, print_json, print_line};
use crate::config::{Config, Flags, show};
use serde_json::json;

/// Show the settings with their sources.
#[derive(Debug, clap::Subcommand)]
pub(in crate::cli) enum ConfigCommand {
    /// Print every setting that `serve` would use with the same flags; secrets are masked
    Show(Box<Flags>),
}

impl ConfigCommand {
    pub(in crate::cli) fn run(self, options: &GlobalOptions) -> Outcome {
        let Self::Show(flags) = self;
        let file = (options.config.as_deref(), options.file.clone());
        let config = Config::decide(options.database.clone(), *flags, file)?;
        let settings = show(&config, &options.file, &options.sources);
        if options.json {
            let file = options.config.as_ref().map(|path| path.display().to_string());
            print_json(&json!({"file": file, "settings": settings}));
            return Ok(());
        }
        let mut table = Table::new(&["setting", "value", "from"]);
        for setting in settings {
            let value = setting.value.unwrap_or_else(|| "-".into());
            table.row([setting.name, value, setting.source.to_owned()]);
        }
        print_line(table.text().trim_end());
        Ok(())
    }
}
