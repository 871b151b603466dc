//! `punctual ingest`: ingests events from a file, with a JSON object on each line.
//!
//! Lines are read one by one and written in batches, so a file of any size needs the memory of one
//! batch. A line that cannot be read fails alone. If the database becomes unreachable, the written
//! rows stay, and the same command again skips them, as far as triggers have a dedup recipe.

mod lines;
mod progress;

use crate::cli::database::TenantOption;
use crate::cli::failure::{CommandFailure, Outcome};
use crate::cli::table::one_line;
use crate::cli::{GlobalOptions, format, print_json, print_line};
pub(in crate::cli) use lines::is_csv_header;
use lines::{LINE_BYTES_MAX, Lines};
use progress::Progress;
use punctual::base::limits::BATCH_ITEMS_MAX;
use punctual::engine::{IngestOutcome as Became, IngestRequest as Events};
use punctual::{Engine, Tenant};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::time::Duration;

/// The number of bytes at which a batch is written, with any number of lines.
const BATCH_BYTES: usize = 8 * LINE_BYTES_MAX;
/// The number of failed rows that are shown; more are only counted.
const TOLD_MAX: usize = 20;

/// Ingest events from a file with one JSON object on each line.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Ingest {
    /// File with one JSON object on each line, or `-` for standard input
    file: String,
    /// Event kind of all events
    #[arg(long)]
    kind: String,
    /// Rows in each batch
    #[arg(long, value_name = "N", default_value_t = 1_000,
          value_parser = clap::value_parser!(u64).range(1..=BATCH_ITEMS_MAX as u64))]
    batch: u64,
    /// Fail if any row failed, not only if all failed; the other rows are still written
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    of: TenantOption,
}

impl Ingest {
    pub(in crate::cli) async fn run(self, options: &GlobalOptions) -> Outcome {
        let (from, size) = open(&self.file)?;
        let engine = options.engine().await?;
        let tenant = self.of.find(engine.store()).await?;
        let events = Events { event_kind: self.kind, items: Vec::new() };
        // A kind that is no name is told before anything is read.
        engine.ingest(tenant, &events).await?;
        if let Some(said) = engine.ingest_warning(tenant, &events.event_kind).await? {
            eprintln!("warning: {said}");
        }
        let most = usize::try_from(self.batch).unwrap_or(BATCH_ITEMS_MAX);
        let (batch, progress) = (Batch::new(events), Progress::new(size));
        let mut load = Load { engine, tenant, most, batch, tally: Tally::default(), progress };
        let mut lines = Lines::new(from);
        let read = load.run(&mut lines, &self.file).await;
        load.progress.clear();
        read?;
        say(&load.tally, load.progress.elapsed(), options.json);
        match load.tally.failed {
            0 => Ok(()),
            failed if !self.strict && failed < load.tally.rows => Ok(()),
            failed => Err(CommandFailure::failed(format!("{failed} of {} failed", rows(load.tally.rows)))),
        }
    }
}

/// Opens the file, with its size where that is known.
fn open(file: &str) -> Outcome<(Box<dyn BufRead>, Option<u64>)> {
    if file == "-" {
        return Ok((Box::new(BufReader::new(std::io::stdin())), None));
    }
    let opened = File::open(file).and_then(|opened| Ok((opened.metadata()?, opened)));
    let (about, opened) = opened.map_err(|e| CommandFailure::usage(format!("{file} cannot be read: {e}")))?;
    let size = about.is_file().then_some(about.len());
    Ok((Box::new(BufReader::new(opened)), size))
}

fn is_csv(file: &str) -> String {
    let name = if file == "-" { "standard input" } else { file };
    format!(
        "{name} looks like CSV, and `ingest` reads one JSON object a line: convert it, or send the CSV to \
         POST /api/surveys/{{id}}/triggers/{{triggerId}}/send"
    )
}

/// The rows of a running ingest.
struct Load {
    engine: Engine,
    tenant: Tenant,
    /// Rows in a batch.
    most: usize,
    batch: Batch,
    tally: Tally,
    progress: Progress,
}

impl Load {
    async fn run<R: BufRead>(&mut self, lines: &mut Lines<R>, file: &str) -> Outcome {
        loop {
            let line = lines.next_line().map_err(|e| self.broken_off(&format!("{file} cannot be read: {e}")));
            match line? {
                None => return self.write().await,
                Some(lines::Line::Blank) => continue,
                Some(lines::Line::Item(item, bytes)) => self.batch.push(lines.number(), item, bytes),
                Some(lines::Line::Csv) => return Err(CommandFailure::usage(is_csv(file))),
                Some(lines::Line::Wrong(said)) => self.fail(lines.number(), &said),
            }
            self.tally.rows += 1;
            if self.batch.events.items.len() >= self.most || self.batch.bytes >= BATCH_BYTES {
                self.write().await?;
            }
            self.progress.show(&self.tally, lines.bytes());
        }
    }

    async fn write(&mut self) -> Outcome {
        if self.batch.events.items.is_empty() {
            return Ok(());
        }
        let done = self.engine.ingest(self.tenant, &self.batch.events).await;
        let done = done.map_err(|error| {
            let CommandFailure { kind, sentence } = CommandFailure::from(error);
            CommandFailure { kind, ..self.broken_off(&sentence) }
        })?;
        let numbers = std::mem::take(&mut self.batch.numbers);
        for (number, item) in numbers.into_iter().zip(done) {
            match item.outcome {
                Became::Created => self.tally.created += 1,
                Became::Skipped => self.tally.skipped += 1,
                Became::Stopped => self.tally.stopped += 1,
                Became::NoMatch => self.tally.unmatched += 1,
                Became::Failed => self.fail(number, &item.error.unwrap_or_default()),
            }
        }
        self.batch.events.items.clear();
        self.batch.bytes = 0;
        Ok(())
    }

    fn fail(&mut self, number: u64, said: &str) {
        self.tally.failed += 1;
        if self.tally.told.len() < TOLD_MAX {
            self.progress.clear();
            let said = one_line(said);
            eprintln!("line {number}: {said}");
            self.tally.told.push((number, said));
        }
    }

    /// Reports an end before the last line.
    fn broken_off(&self, why: &str) -> CommandFailure {
        let written = self.tally.rows - self.batch.numbers.len() as u64;
        CommandFailure::failed(format!(
            "{why}; {} went through before, and the same command again skips those that are known",
            rows(written)
        ))
    }
}

/// The rows of one batch, with the numbers of their lines.
struct Batch {
    events: Events,
    numbers: Vec<u64>,
    bytes: usize,
}

impl Batch {
    const fn new(events: Events) -> Self {
        Self { events, numbers: Vec::new(), bytes: 0 }
    }

    fn push(&mut self, number: u64, item: Value, bytes: usize) {
        self.events.items.push(item);
        self.numbers.push(number);
        self.bytes += bytes;
    }
}

/// The counts of an ingest.
#[derive(Debug, Default)]
struct Tally {
    rows: u64,
    created: u64,
    skipped: u64,
    stopped: u64,
    failed: u64,
    unmatched: u64,
    /// The first failed rows, by line.
    told: Vec<(u64, String)>,
}

impl Tally {
    fn words(&self) -> String {
        let Self { created, skipped, stopped, failed, unmatched, .. } = self;
        format!(
            "{created} created, {skipped} skipped, {stopped} stopped, {failed} failed, {unmatched} unmatched"
        )
    }
}

/// `1 row`, `3 rows`.
fn rows(n: u64) -> String {
    format::many(i64::try_from(n).unwrap_or(i64::MAX), "row")
}

/// Returns the whole rows per second.
fn pace(rows: u64, elapsed: Duration) -> f64 {
    (rows as f64 / elapsed.as_secs_f64().max(0.001)).round()
}

fn say(tally: &Tally, elapsed: Duration, as_json: bool) {
    let pace = pace(tally.rows, elapsed);
    if as_json {
        let told = tally.told.iter().map(|(line, error)| json!({"line": line, "error": error}));
        print_json(&json!({
            "rows": tally.rows,
            "created": tally.created,
            "skipped": tally.skipped,
            "stopped": tally.stopped,
            "failed": tally.failed,
            "unmatched": tally.unmatched,
            "seconds": elapsed.as_secs_f64(),
            "rowsPerSecond": pace,
            "errors": told.collect::<Vec<_>>(),
        }));
        return;
    }
    let (rows, took) = (rows(tally.rows), format::length(elapsed));
    print_line(&format!("{rows}: {}, in {took} ({pace} rows/s)", tally.words()));
    if tally.rows > 0 && tally.unmatched == tally.rows {
        print_line("no trigger wanted any of them; `punctual explain` says why");
    }
}
