//! The commands.
//!
//! Every command works on the database itself and needs no server, except `tick`. Its output is for
//! people, or with `--json` for programs. A failure is one sentence on stderr.

pub mod failure;
pub mod format;
pub mod table;

mod confirm;
mod database;
mod unchanged;

pub mod server {
    //! Commands that run a server.

    pub(super) mod demo;
    pub(super) mod logs;
    pub mod serve;
}

mod access {
    //! Commands for tenants and keys.

    pub(super) mod keys;
    pub(super) mod tenants;
}

mod jobs {
    //! Commands for cron jobs and leases.

    pub(super) mod cron_jobs;
    pub(super) mod leases;
}

mod operate {
    //! Commands for the operation of a server and its database.

    pub(super) mod bench;
    pub(super) mod call;
    pub(super) mod config;
    pub(super) mod doctor;
    pub(super) mod migrate;
    pub(super) mod status;
    pub(super) mod tick;
}

mod queue {
    //! Commands for messages, queues, subscriptions, timers, the outbox and the inbox.

    pub(super) mod dead_letters;
    pub(super) mod emit;
    pub(super) mod inbox;
    pub(super) mod outbox;
    pub(super) mod queues;
    pub(super) mod subscriptions;
    pub(super) mod timers;
}

mod survey {
    //! Commands for surveys and the events that begin them.

    pub(super) mod explain;
    pub(super) mod ingest;
    pub(super) mod surveys;
}

use crate::config::{File, Sources};
use access::{keys, tenants};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use failure::{CommandFailure, Outcome};
use jobs::{cron_jobs, leases};
use operate::{bench, config, doctor, migrate, status, tick};
use queue::{dead_letters, emit, inbox, outbox, queues, subscriptions, timers};
use server::{demo, serve};
use std::path::PathBuf;
use std::process::ExitCode;
use survey::{explain, ingest, surveys};

/// Turns business events into messages and work that happen on time, once, and provably.
#[derive(Debug, Parser)]
#[command(name = "punctual", version, after_help = failure::CODES, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    options: GlobalOptions,
    #[command(subcommand)]
    command: Command,
}

/// Options of every command.
#[derive(Clone, Debug, clap::Args)]
struct GlobalOptions {
    /// Print JSON, for programs
    #[arg(long, global = true)]
    json: bool,
    /// sqlite:PATH, sqlite::memory: or postgres://… [default: sqlite:punctual.db]
    #[arg(long, global = true, env = "PUNCTUAL_DATABASE", hide_env_values = true, value_name = "URL")]
    database: Option<String>,
    /// A TOML file with settings; flags and the environment take precedence
    #[arg(long, global = true, env = "PUNCTUAL_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// The file's settings.
    #[arg(skip)]
    file: File,
    /// Which settings are flags, and which come from the environment.
    #[arg(skip)]
    sources: Sources,
}

impl GlobalOptions {
    /// Reads the file. Its database is that of every command but `demo`, which leaves real ones alone.
    fn with_file(mut self, command: &Command) -> Outcome<Self> {
        if let Some(path) = self.config.as_deref().filter(|_| !matches!(command, Command::Demo(_))) {
            self.file = File::read(path)?;
            self.database = self.database.or_else(|| self.file.database.clone());
        }
        Ok(self)
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server: HTTP, workers, status page
    Serve(Box<crate::config::Flags>),
    /// Run a demo: a small shop with live traffic
    Demo(demo::Demo),
    /// Bring the database's schema up to date
    Migrate(migrate::Migrate),
    /// Show the queues
    Status(status::Status),
    /// Enqueue one message
    Emit(emit::Emit),
    /// Ingest events from a file with one JSON object on each line
    Ingest(ingest::Ingest),
    /// Explain the effects of an event without writing anything
    Explain(explain::Explain),
    /// Create, publish and list surveys
    #[command(subcommand)]
    Surveys(surveys::Surveys),
    /// Ask a running server to handle due work
    Tick(tick::Tick),
    /// List dead letters; replay or purge them
    #[command(subcommand)]
    DeadLetters(dead_letters::DeadLetters),
    /// List the messages of all tenants with their status
    Outbox(outbox::Outbox),
    /// Pause, resume and configure queues
    #[command(subcommand)]
    Queues(queues::Queues),
    /// List, create, change and delete subscriptions
    #[command(subcommand)]
    Subscriptions(subscriptions::Subscriptions),
    /// List leases, hold one, or run a command under one
    #[command(subcommand)]
    Lease(leases::Leases),
    /// List received messages; requeue dead ones
    #[command(subcommand)]
    Inbox(inbox::Inbox),
    /// Schedule, list, cancel and move timers
    #[command(subcommand)]
    Timer(timers::Timers),
    /// Create, list, trigger and delete jobs; preview a cron pattern
    #[command(subcommand)]
    Job(cron_jobs::Jobs),
    /// Create, list and revoke API keys
    #[command(subcommand)]
    Keys(keys::Keys),
    /// Create and list tenants
    #[command(subcommand)]
    Tenants(tenants::Tenants),
    /// Show the settings with their sources
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Check the database and the channels, with advice
    Doctor(doctor::Doctor),
    /// Measure this machine
    #[command(subcommand)]
    Bench(bench::Bench),
}

/// Runs the command line.
#[must_use]
pub fn main() -> ExitCode {
    let (cli, sources) = match parse() {
        Ok(parsed) => parsed,
        Err(error) => return misunderstood(&error),
    };
    let options = GlobalOptions { sources, ..cli.options };
    let json = options.json;
    match runtime().and_then(|runtime| runtime.block_on(run(cli.command, options))) {
        Ok(code) => code,
        Err(failure) => failure.report(json),
    }
}

/// The parsed command line, with the source of each value.
fn parse() -> Result<(Cli, Sources), clap::Error> {
    let matches = Cli::command().try_get_matches()?;
    Ok((Cli::from_arg_matches(&matches)?, Sources::of(&matches)))
}

async fn run(command: Command, options: GlobalOptions) -> Outcome<ExitCode> {
    let options = options.with_file(&command)?;
    match command {
        Command::Serve(flags) => serve::run(options, *flags).await?,
        Command::Config(command) => command.run(&options)?,
        Command::Demo(command) => command.run(&options).await?,
        Command::Migrate(command) => command.run(&options).await?,
        Command::Status(command) => command.run(&options).await?,
        Command::Emit(command) => command.run(&options).await?,
        Command::Ingest(command) => command.run(&options).await?,
        Command::Explain(command) => command.run(&options).await?,
        Command::Surveys(command) => command.run(&options).await?,
        Command::Tick(command) => command.run(&options).await?,
        Command::DeadLetters(command) => command.run(&options).await?,
        Command::Outbox(command) => command.run(&options).await?,
        Command::Queues(command) => command.run(&options).await?,
        Command::Subscriptions(command) => command.run(&options).await?,
        Command::Lease(command) => return command.run(&options).await,
        Command::Inbox(command) => command.run(&options).await?,
        Command::Timer(command) => command.run(&options).await?,
        Command::Job(command) => command.run(&options).await?,
        Command::Keys(command) => command.run(&options).await?,
        Command::Tenants(command) => command.run(&options).await?,
        Command::Doctor(command) => return command.run(&options).await,
        Command::Bench(command) => command.run(&options).await?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Two threads: the engine waits for a database, not for processors, and each thread costs
/// memory even when it is idle.
fn runtime() -> Outcome<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| CommandFailure::failed(format!("the runtime cannot be started: {e}")))
}

/// Prints help, version or a failure; a failure is JSON if `--json` was given.
fn misunderstood(error: &clap::Error) -> ExitCode {
    let json = std::env::args().any(|arg| arg == "--json");
    if !json || !error.use_stderr() {
        // A closed pipe is no reason for another failure.
        let _ = error.print();
        return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
    }
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    CommandFailure::usage(first.trim_start_matches("error: ")).report(true)
}

/// Prints a JSON value, with line ends and indents only for people.
fn print_json(value: &serde_json::Value) {
    use std::io::IsTerminal;
    if std::io::stdout().is_terminal() {
        print_line(&format!("{value:#}"));
    } else {
        print_line(&value.to_string());
    }
}

/// Prints a line; a closed reader (`| head`) is not a failure.
fn print_line(line: &str) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
