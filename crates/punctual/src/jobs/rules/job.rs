//! Jobs: the definition of one, and which of its occurrences are run after a while without a planner.
//!
//! An occurrence is *missed* when the next one is due as well, or when it is more than
//! [`limits::MISFIRE_GRACE`] late. The job's misfire policy decides about it; an occurrence that is merely a
//! little late is run under every policy.

use crate::base::clock::Timestamp;
use crate::base::document::quote;
use crate::base::error::Problems;
use crate::base::limits;
use crate::base::name::check_name;
use crate::jobs::rules::timetable::Timetable;
use crate::queue::rules::message::check_published_topic;

/// The policy for occurrences that were missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MisfirePolicy {
    /// The last of them is run, late; the others are not.
    #[default]
    RunOnce,
    /// All of them are run, up to [`limits::MISFIRE_RUNS_MAX`], the latest ones.
    RunAll,
    /// None of them is run.
    Skip,
}

/// The policy for an occurrence while an earlier run is still going.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OverlapPolicy {
    /// The occurrence is run beside it.
    #[default]
    Allow,
    /// The occurrence is not run.
    Skip,
    /// The occurrence is run afterwards.
    Queue,
}

impl MisfirePolicy {
    /// All policies.
    pub const ALL: [Self; 3] = [Self::RunOnce, Self::RunAll, Self::Skip];

    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::RunOnce => "runOnce",
            Self::RunAll => "runAll",
            Self::Skip => "skip",
        }
    }

    /// The policy of a word.
    ///
    /// # Errors
    /// A sentence that lists the words.
    pub fn parse(word: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|policy| policy.word() == word);
        found.ok_or_else(|| format!("must be runOnce, runAll or skip, not `{}`", quote(word)))
    }
}

impl OverlapPolicy {
    /// All policies.
    pub const ALL: [Self; 3] = [Self::Allow, Self::Skip, Self::Queue];

    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Skip => "skip",
            Self::Queue => "queue",
        }
    }

    /// The policy of a word.
    ///
    /// # Errors
    /// A sentence that lists the words.
    pub fn parse(word: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|policy| policy.word() == word);
        found.ok_or_else(|| format!("must be allow, skip or queue, not `{}`", quote(word)))
    }
}

/// A job to be made, or changed into this.
///
/// ```
/// use punctual::NewJob;
/// let job = NewJob::new("reports", "0 30 6 * * MON-FRI").time_zone("Europe/Berlin");
/// assert_eq!(job.topic, "reports");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewJob {
    /// Where its runs go, as messages.
    pub topic: String,
    /// When, as a cron pattern.
    pub cron: String,
    /// The zone of the pattern.
    pub time_zone: String,
    /// The payload of each run, as JSON text.
    pub payload: String,
    /// Whether the job is planned; `None` leaves that as it is (a new job is enabled).
    pub enabled: Option<bool>,
    /// The policy for occurrences that were missed.
    pub misfire: MisfirePolicy,
    /// The policy while an earlier run is still going.
    pub overlap: OverlapPolicy,
}

impl NewJob {
    /// A job in UTC with an empty object as payload.
    #[must_use]
    pub fn new(topic: impl Into<String>, cron: impl Into<String>) -> Self {
        Self {
            topic: topic.into(),
            cron: cron.into(),
            time_zone: crate::base::zone::DEFAULT.into(),
            payload: "{}".into(),
            enabled: None,
            misfire: MisfirePolicy::default(),
            overlap: OverlapPolicy::default(),
        }
    }

    /// Sets the zone.
    #[must_use]
    pub fn time_zone(mut self, zone: impl Into<String>) -> Self {
        self.time_zone = zone.into();
        self
    }

    /// Sets the payload, a JSON text.
    #[must_use]
    pub fn payload(mut self, payload: impl Into<String>) -> Self {
        self.payload = payload.into();
        self
    }

    /// Sets the misfire policy.
    #[must_use]
    pub const fn misfire(mut self, policy: MisfirePolicy) -> Self {
        self.misfire = policy;
        self
    }

    /// Sets the overlap policy.
    #[must_use]
    pub const fn overlap(mut self, policy: OverlapPolicy) -> Self {
        self.overlap = policy;
        self
    }

    /// Enables or disables it.
    #[must_use]
    pub const fn enabled(mut self, enabled: bool) -> Self {
        self.enabled = Some(enabled);
        self
    }

    /// Adds what is wrong with this job; answers its timetable when nothing is wrong with that.
    pub fn check(&self, name: &str, problems: &mut Problems) -> Option<Timetable> {
        check_job_name(name, problems);
        check_published_topic(&self.topic, "topic", problems);
        crate::queue::rules::message::check_json(
            &self.payload,
            limits::PAYLOAD_BYTES_MAX,
            "payload",
            problems,
        );
        Timetable::parse(&self.cron, &self.time_zone, problems)
    }
}

/// A job's name is 1 to 100 characters, and a part of a path.
pub fn check_job_name(name: &str, problems: &mut Problems) {
    check_name(name, "name", problems);
    let (chars, most) = (name.chars().count(), limits::JOB_NAME_CHARS_MAX);
    if (most + 1..=limits::NAME_CHARS_MAX).contains(&chars) {
        problems.push("name", format!("has {chars} characters, at most {most} are allowed"));
    }
    if name.contains('/') {
        problems.push("name", "must not contain `/`");
    }
}

/// Occurrences that were not run, reported in one row of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissedRuns {
    /// The last of them.
    pub last: Timestamp,
    /// Why, in words.
    pub reason: String,
}

/// The plan for a job that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobPlan {
    /// Occurrences that are run, in their order.
    pub run: Vec<Timestamp>,
    /// Those that are not.
    pub missed: Option<MissedRuns>,
    /// When the job is due again.
    pub next: Option<Timestamp>,
}

/// Decides about a job whose next occurrence was `due`, at the moment `now`.
#[must_use]
pub fn plan(timetable: &Timetable, due: Timestamp, now: Timestamp, policy: MisfirePolicy) -> JobPlan {
    let next = timetable.next_after(now.max(due));
    let last = timetable.last_within(due, now);
    if last.is_none() && now.since(due) <= limits::MISFIRE_GRACE {
        return JobPlan { run: vec![due], missed: None, next };
    }
    let last = last.unwrap_or(due);
    let run = match policy {
        MisfirePolicy::RunOnce => vec![last],
        MisfirePolicy::RunAll => latest(timetable, due, last),
        MisfirePolicy::Skip if now.since(last) <= limits::MISFIRE_GRACE => vec![last],
        MisfirePolicy::Skip => Vec::new(),
    };
    let missed = missed(timetable, due, run.first().copied(), last, policy);
    JobPlan { run, missed, next }
}

/// The occurrences from `due` to `last`; only the latest ones if there are too many.
fn latest(timetable: &Timetable, due: Timestamp, last: Timestamp) -> Vec<Timestamp> {
    let most = limits::MISFIRE_RUNS_MAX;
    let first: Vec<Timestamp> = from(timetable, due, last).take(most + 1).collect();
    if first.len() <= most {
        return first;
    }
    let mut all = vec![last];
    while all.len() < most {
        let before = all.last().map(|at| Timestamp::from_micros(at.as_micros() - 1));
        let Some(at) = before.and_then(|before| timetable.last_within(due, before)) else { break };
        all.push(at);
    }
    all.reverse();
    all
}

/// Returns `due` itself, and the occurrences after it up to `last`.
fn from(timetable: &Timetable, due: Timestamp, last: Timestamp) -> impl Iterator<Item = Timestamp> + '_ {
    std::iter::once(due).chain(timetable.upcoming(due)).take_while(move |at| *at <= last)
}

/// Counting stops here: a number beyond it is "more than".
const COUNT_MAX: usize = 10_000;

/// Reports the occurrences before `run`, or all of them up to `last`.
fn missed(
    timetable: &Timetable,
    due: Timestamp,
    run: Option<Timestamp>,
    last: Timestamp,
    policy: MisfirePolicy,
) -> Option<MissedRuns> {
    let end = match run {
        Some(run) if run == due => return None,
        Some(run) => timetable.last_within(due, Timestamp::from_micros(run.as_micros() - 1)).unwrap_or(due),
        None => last,
    };
    let count = from(timetable, due, end).take(COUNT_MAX + 1).count();
    let what = match count {
        1 => format!("the occurrence of {due} was"),
        n if n > COUNT_MAX => format!("more than {COUNT_MAX} occurrences from {due} to {end} were"),
        n => format!("{n} occurrences from {due} to {end} were"),
    };
    let rule = match policy {
        MisfirePolicy::RunOnce => "only the last one is run (misfire: runOnce)",
        MisfirePolicy::RunAll => "there are too many to run them all (misfire: runAll)",
        MisfirePolicy::Skip => "what was missed is not run (misfire: skip)",
    };
    Some(MissedRuns { last: end, reason: format!("{what} missed while nothing was planned; {rule}") })
}
