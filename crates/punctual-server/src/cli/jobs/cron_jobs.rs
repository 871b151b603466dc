//! `punctual job`: create, list, trigger, enable, disable and delete jobs; preview a pattern.

use crate::cli::database::TenantOption;
use crate::cli::failure::{CommandFailure, Outcome};
use crate::cli::table::Table;
use crate::cli::{GlobalOptions, confirm, format, print_json, print_line};
use punctual::base::clock::host_now;
use punctual::base::outcome::PutOutcome;
use punctual::jobs::rules::timetable::Timetable;
use punctual::jobs::store::jobs::JobState;
use punctual::jobs::store::runs::Run;
use punctual::{Engine, Error, MisfirePolicy, NewJob, OverlapPolicy, Problems, RunId, Tenant, Timestamp};
use serde_json::{Value, json};

/// The length of an error in the table; `--json` has the whole error.
const ERROR_CHARS: usize = 60;

/// The subcommands of `job`.
#[derive(Debug, clap::Subcommand)]
pub(in crate::cli) enum Jobs {
    /// List jobs, by name
    List {
        #[command(flatten)]
        of: TenantOption,
    },
    /// Create or change a job; a repetition changes nothing
    Put(Box<JobDefinition>),
    /// Start a run now, independent of the pattern
    Trigger(JobName),
    /// Show the runs of a job, the latest first
    Runs {
        #[command(flatten)]
        one: JobName,
        /// Maximum number of runs
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1_000))]
        limit: u16,
        /// Only runs before this one
        #[arg(long, value_name = "RUN")]
        before: Option<i64>,
    },
    /// Show the next due times of a job, or of --cron without a database
    Next(SchedulePreview),
    /// Enable a job: plan its runs from now on
    Enable(JobName),
    /// Disable a job: plan no more runs; waiting runs are still done
    Disable(JobName),
    /// Delete a job and its waiting runs
    Delete {
        #[command(flatten)]
        one: JobName,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
}

/// One job.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct JobName {
    /// Name of the job
    name: String,
    #[command(flatten)]
    of: TenantOption,
}

/// The definition of a job.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct JobDefinition {
    #[command(flatten)]
    one: JobName,
    /// Topic of the runs
    #[arg(long)]
    topic: String,
    /// Pattern: `second minute hour day-of-month month day-of-week`, or five fields without the second
    #[arg(long)]
    cron: String,
    /// Time zone of the pattern
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    zone: String,
    /// Payload of each run
    #[arg(long, value_name = "JSON", default_value = "{}")]
    payload: String,
    /// Policy for missed occurrences: runOnce, runAll or skip
    #[arg(long, value_name = "POLICY", default_value = "runOnce")]
    misfire: String,
    /// Policy while an earlier run is open: allow, skip or queue
    #[arg(long, value_name = "POLICY", default_value = "allow")]
    overlap: String,
}

/// A preview of an existing job or of a pattern.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct SchedulePreview {
    /// Name of the job
    #[arg(required_unless_present = "cron", conflicts_with = "cron")]
    name: Option<String>,
    /// Pattern, instead of a job
    #[arg(long)]
    cron: Option<String>,
    /// Time zone of the pattern
    #[arg(long, value_name = "ZONE", default_value = "UTC", requires = "cron")]
    zone: String,
    /// Begin after this moment instead of now
    #[arg(long, value_name = "TIME", requires = "cron")]
    from: Option<String>,
    /// Number of due times
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    count: u16,
    #[command(flatten)]
    of: TenantOption,
}

impl Jobs {
    pub(in crate::cli) async fn run(self, options: &GlobalOptions) -> Outcome {
        let json = options.json;
        match self {
            Self::Next(preview) => preview.run(options).await,
            Self::List { of } => {
                let engine = options.engine().await?;
                let tenant = of.find(engine.store()).await?;
                list(&engine, tenant, json).await
            }
            Self::Put(definition) => definition.run(options).await,
            Self::Runs { one, limit, before } => {
                let (engine, tenant) = one.open(options).await?;
                let before = before.map(RunId);
                let runs = engine.store().runs(tenant, &one.name, before, limit.into()).await?;
                say_runs(&runs.ok_or_else(|| one.missing())?, json);
                Ok(())
            }
            Self::Trigger(one) => {
                let (engine, tenant) = one.open(options).await?;
                let run = engine.trigger_job(tenant, &one.name).await?;
                say(json, &json!({"runId": run.to_string()}), &format!("run {run} of {} is there", one.name));
                Ok(())
            }
            Self::Enable(one) => one.enable(options, true).await,
            Self::Disable(one) => one.enable(options, false).await,
            Self::Delete { one, yes } => one.delete(options, yes).await,
        }
    }
}

impl JobName {
    async fn open(&self, options: &GlobalOptions) -> Outcome<(Engine, Tenant)> {
        let engine = options.engine().await?;
        let tenant = self.of.find(engine.store()).await?;
        Ok((engine, tenant))
    }

    fn missing(&self) -> CommandFailure {
        CommandFailure::failed(format!("there is no job `{}`; see `punctual job list`", self.name))
    }

    async fn enable(&self, options: &GlobalOptions, enabled: bool) -> Outcome {
        let (engine, tenant) = self.open(options).await?;
        engine.enable_job(tenant, &self.name, enabled).await?;
        self.show(&engine, tenant, options.json).await
    }

    async fn delete(&self, options: &GlobalOptions, yes: bool) -> Outcome {
        let (engine, tenant) = self.open(options).await?;
        if engine.store().job(tenant, &self.name).await?.is_none() {
            return Err(self.missing());
        }
        confirm::ask(&format!("The job {} and its runs that wait will be deleted.", self.name), yes)?;
        let gone = engine.delete_job(tenant, &self.name).await?;
        let waiting = format::many(i64::try_from(gone.waiting).unwrap_or(i64::MAX), "waiting run");
        let value = json!({"deletedRuns": gone.waiting, "runsInFlight": gone.in_flight});
        say(options.json, &value, &format!("{} is deleted, and {waiting} with it", self.name));
        Ok(())
    }

    async fn show(&self, engine: &Engine, tenant: Tenant, json: bool) -> Outcome {
        let state = engine.store().job(tenant, &self.name).await?.ok_or_else(|| self.missing())?;
        let (name, job) = (&state.job.name, &state.job);
        let words = match job.next_due {
            Some(next) => format!("{name} is due next at {next}"),
            None => format!("{name} is disabled"),
        };
        say(json, &shown(&state), &words);
        Ok(())
    }
}

impl JobDefinition {
    async fn run(self, options: &GlobalOptions) -> Outcome {
        let mut problems = Problems::default();
        let misfire = MisfirePolicy::parse(&self.misfire).map_err(|said| problems.push("--misfire", said));
        let overlap = OverlapPolicy::parse(&self.overlap).map_err(|said| problems.push("--overlap", said));
        let job = NewJob::new(&self.topic, &self.cron)
            .time_zone(&self.zone)
            .payload(&self.payload)
            .misfire(misfire.unwrap_or_default())
            .overlap(overlap.unwrap_or_default());
        job.check(&self.one.name, &mut problems);
        problems.into_result()?;
        let (engine, tenant) = self.one.open(options).await?;
        let (put, _) = engine.put_job(tenant, &self.one.name, job).await?;
        if !options.json && put == PutOutcome::Same {
            print_line("nothing has changed");
        }
        self.one.show(&engine, tenant, options.json).await
    }
}

impl SchedulePreview {
    async fn run(self, options: &GlobalOptions) -> Outcome {
        let count = usize::from(self.count);
        let (items, timetable) = match (&self.cron, &self.name) {
            (Some(cron), _) => {
                let mut problems = Problems::default();
                let timetable = Timetable::parse(cron, &self.zone, &mut problems);
                let timetable = timetable.ok_or(Error::Invalid(problems))?;
                let from = self.from.as_deref().map(Timestamp::parse).transpose();
                let from = from.map_err(|said| CommandFailure::usage(format!("--from: {said}")))?;
                let items: Vec<Timestamp> =
                    timetable.upcoming(from.unwrap_or_else(host_now)).take(count).collect();
                (items, timetable)
            }
            (None, name) => {
                let name = name.clone().unwrap_or_default();
                let one = JobName { name, of: self.of.clone() };
                let (engine, tenant) = one.open(options).await?;
                let items = engine.next_fires(tenant, &one.name, count).await?;
                let state = engine.store().job(tenant, &one.name).await?.ok_or_else(|| one.missing())?;
                (items, state.job.timetable()?)
            }
        };
        if options.json {
            print_json(&json!({ "items": items }));
            return Ok(());
        }
        for moment in items {
            print_line(&format!("{moment}  {}", timetable.zone.show(moment)));
        }
        Ok(())
    }
}

async fn list(engine: &Engine, tenant: Tenant, json: bool) -> Outcome {
    let mut jobs: Vec<JobState> = Vec::new();
    loop {
        let after = jobs.last().map(|state| state.job.name.clone()).unwrap_or_default();
        let more = engine.store().jobs(tenant, &after, 1_000).await?;
        if more.is_empty() {
            break;
        }
        jobs.extend(more);
    }
    if json {
        print_json(&json!({"items": jobs.iter().map(shown).collect::<Vec<_>>()}));
        return Ok(());
    }
    let mut table = Table::new(&["job", "topic", "cron", "zone", "next", "last run", "status"]);
    let time = |at: Option<Timestamp>| at.map_or_else(|| "-".into(), |at| at.to_string());
    for JobState { job, last_run } in jobs {
        let next = if job.enabled { time(job.next_due) } else { "disabled".into() };
        let (last, status) = (last_run.map(|l| l.0), last_run.map_or("-", |l| l.1.word()));
        table.row([job.name, job.topic, job.cron, job.time_zone, next, time(last), status.into()]);
    }
    print_line(table.text().trim_end());
    Ok(())
}

fn shown(state: &JobState) -> Value {
    let job = &state.job;
    json!({
        "name": job.name,
        "topic": job.topic,
        "cron": job.cron,
        "timeZone": job.time_zone,
        "payload": serde_json::from_str::<Value>(&job.payload).unwrap_or_default(),
        "enabled": job.enabled,
        "misfire": job.misfire.word(),
        "overlap": job.overlap.word(),
        "nextDueTime": job.next_due,
        "lastRunTime": state.last_run.map(|l| l.0),
        "lastRunStatus": state.last_run.map(|l| l.1.word()),
        "version": job.version,
    })
}

fn say_runs(runs: &[Run], json: bool) {
    if json {
        print_json(&json!({"items": runs.iter().map(shown_run).collect::<Vec<_>>()}));
        return;
    }
    let mut table = Table::new(&["#run", "scheduled", "status", "#attempts", "started", "ended", "note"]);
    let time = |at: Option<Timestamp>| at.map_or_else(|| "-".into(), |at| at.to_string());
    for run in runs {
        let note = run.last_error.as_deref().unwrap_or_default().chars().take(ERROR_CHARS).collect();
        table.row([
            run.id.to_string(),
            run.scheduled_at.to_string(),
            run.status.word().into(),
            run.attempts.to_string(),
            time(run.started_at),
            time(run.ended_at),
            note,
        ]);
    }
    print_line(table.text().trim_end());
}

fn shown_run(run: &Run) -> Value {
    let output = run.output.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok());
    json!({
        "id": run.id.to_string(),
        "scheduledTime": run.scheduled_at,
        "triggered": run.triggered,
        "startTime": run.started_at,
        "endTime": run.ended_at,
        "status": run.status.word(),
        "attempts": run.attempts,
        "claimedBy": run.claimed_by,
        "output": output,
        "lastError": run.last_error,
        "messageId": run.message.map(|id| id.to_string()),
    })
}

fn say(json: bool, value: &Value, words: &str) {
    if json {
        print_json(value);
    } else {
        print_line(words);
    }
}
