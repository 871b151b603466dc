//! Jobs while a round runs: each occurrence is one run and one message, and every run ends.

use super::checker::{Broken, MILLISECOND, Message, Promise, int, maybe_int, text};
use super::operation::Operation;
use crate::bench::TENANT;
use punctual::database::store::Store;
use punctual::testing::place::Rows;
use punctual::{MisfirePolicy, NewJob, OverlapPolicy};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

/// A job, and how many seconds lie between its occurrences.
struct Kind {
    name: &'static str,
    every: i64,
    what: Operation,
    overlap: OverlapPolicy,
}

const KINDS: [Kind; 3] = [
    Kind { name: "beside", every: 1, what: Operation::Tick, overlap: OverlapPolicy::Allow },
    Kind { name: "behind", every: 2, what: Operation::Tick, overlap: OverlapPolicy::Queue },
    Kind { name: "doomed", every: 3, what: Operation::DoomedTick, overlap: OverlapPolicy::Allow },
];

/// What the database is asked for; more is added behind `where`.
pub const PLANNED: &str = "select c.seq, c.at, j.name, c.was, c.became from chaos_job c \
    join punctual.job j on j.id = c.job";
pub const RUNS: &str = "select r.id, j.name, r.scheduled_at, r.status, r.message_id \
    from punctual.run r join punctual.job j on j.id = r.job_id";
/// Jobs whose planning is more than a second behind, by the database's clock.
pub const BEHIND: &str = "select count(*) from punctual.job where next_due < ";

const SECOND: i64 = 1_000_000;
/// A database that is away is asked again after this long.
const AGAIN: Duration = Duration::from_millis(50);
const TRIES: u32 = 200;

/// Makes the jobs, which are not planned yet.
pub async fn put(store: &Store) {
    for kind in &KINDS {
        let cron = format!("*/{} * * * * *", kind.every);
        let job = NewJob::new(kind.what.topic(), cron).payload(kind.what.payload().to_string());
        let job = job.misfire(MisfirePolicy::RunAll).overlap(kind.overlap).enabled(false);
        store.put_job(TENANT, kind.name, job).await.unwrap();
    }
}

/// Has all jobs planned from now on, or no longer.
pub async fn switch(store: &Store, on: bool) {
    for kind in &KINDS {
        let mut tries = 0;
        // The server may have been restarted since the last question.
        while let Err(why) = store.enable_job(TENANT, kind.name, on).await {
            tries += 1;
            assert!(tries < TRIES, "a job cannot be switched: {why:?}");
            tokio::time::sleep(AGAIN).await;
        }
    }
}

#[derive(Debug)]
struct Run {
    scheduled_at: i64,
    status: String,
    message: Option<i64>,
}

/// The time over which a job was planned in a round.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    first: Option<i64>,
    /// What stood next when it was switched off, and when that was.
    end: Option<(i64, i64)>,
}

/// What is known of the jobs in one round.
#[derive(Default)]
pub struct Jobs {
    pub last_run: i64,
    pub last_seq: i64,
    spans: BTreeMap<String, Span>,
    runs: BTreeMap<String, Vec<Run>>,
}

impl Jobs {
    /// Forgets the last round.
    pub fn begin(&mut self) {
        *self = Self { last_run: self.last_run, last_seq: self.last_seq, ..Self::default() };
    }

    /// Takes in what the database wrote down.
    pub fn read(&mut self, planned: &Rows, runs: &Rows) {
        for row in planned {
            self.last_seq = self.last_seq.max(int(row, 0));
            let span = self.spans.entry(text(row, 2).to_owned()).or_default();
            match (maybe_int(row, 3), maybe_int(row, 4)) {
                (None, became) => span.first = span.first.or(became),
                (Some(was), None) => span.end = Some((was, int(row, 1))),
                _ => {}
            }
        }
        for row in runs {
            self.last_run = self.last_run.max(int(row, 0));
            let (status, message) = (text(row, 3).to_owned(), maybe_int(row, 4));
            let run = Run { scheduled_at: int(row, 2), status, message };
            self.runs.entry(text(row, 1).to_owned()).or_default().push(run);
        }
    }

    pub fn count(&self) -> usize {
        self.runs.values().map(Vec::len).sum()
    }

    /// Every promise about jobs that was not kept.
    pub fn judge(&self, messages: &BTreeMap<i64, Message>, broken: &mut Vec<Broken>) {
        let mut theirs = HashSet::new();
        for kind in &KINDS {
            let mut say = |promise, said: String| {
                broken.push(Broken::new(promise, format!("job {} {said}", kind.name)));
            };
            let runs = self.runs.get(kind.name).map_or(&[][..], Vec::as_slice);
            let span = self.spans.get(kind.name).copied().unwrap_or_default();
            let Some((expected, ahead)) = span.occurrences(kind.every * SECOND) else { continue };
            if ahead > MILLISECOND {
                say(Promise::NotEarly, format!("was planned {ahead} us ahead of the database's clock"));
            }
            let have: BTreeSet<i64> = runs.iter().map(|run| run.scheduled_at).collect();
            if have != expected || runs.len() != have.len() {
                let lost: Vec<_> = expected.difference(&have).collect();
                let made_up: Vec<_> = have.difference(&expected).collect();
                let said = format!("has {} runs: lost {lost:?}, made up {made_up:?} in {span:?}", runs.len());
                say(Promise::OneRunEach, said);
            }
            for run in runs {
                let message = run.message.and_then(|id| messages.get(&id));
                let fine = message.is_some_and(|m| m.op == kind.what.payload() && m.due == run.scheduled_at);
                if !fine || !theirs.insert(run.message) {
                    say(Promise::OneRunEach, format!("has a run without a message of its own: {run:?}"));
                }
                let ended = if kind.what == Operation::DoomedTick { "failed" } else { "succeeded" };
                if run.status != ended {
                    say(Promise::NothingLost, format!("has a run that did not end as {ended}: {run:?}"));
                }
            }
        }
        if theirs.is_empty() {
            return;
        }
        let stray = messages.iter().filter(|(id, m)| is_run(m.op) && !theirs.contains(&Some(**id)));
        for (id, _) in stray {
            let said = format!("message {id} is of a job, and of no run");
            broken.push(Broken::new(Promise::OneRunEach, said));
        }
    }
}

impl Span {
    /// What must have a run, and how far ahead of its time the last one was planned. Nothing is known
    /// of a round that did not come to its end, which is told by itself.
    fn occurrences(self, every: i64) -> Option<(BTreeSet<i64>, i64)> {
        let (first, (next, at)) = (self.first?, self.end?);
        let all = (0..).map(|n| first + n * every).take_while(|due| *due < next).collect();
        Some((all, next - at - every))
    }
}

/// Whether a payload is that of a job.
pub fn is_run(payload: u64) -> bool {
    Operation::of_job(payload).is_some()
}

#[test]
fn a_lost_a_doubled_and_an_early_occurrence_are_found() {
    let name = || Some("beside".to_owned());
    let number = |n: i64| Some((n * SECOND).to_string());
    let planned = |next: i64| {
        vec![
            vec![Some("1".into()), number(0), name(), None, number(1)],
            vec![Some("2".into()), number(3), name(), number(next), None],
        ]
    };
    let run = |id: i64, at: i64| {
        let status = Some("succeeded".to_owned());
        vec![Some(id.to_string()), name(), number(at), status, Some(id.to_string())]
    };
    let judge = |next: i64, runs: &[(i64, i64)]| {
        let mut jobs = Jobs::default();
        jobs.read(&planned(next), &runs.iter().map(|(id, at)| run(*id, *at)).collect());
        let message = |(id, at): &(i64, i64)| (*id, Message::new(Operation::Tick.payload(), at * SECOND));
        let mut broken = Vec::new();
        jobs.judge(&runs.iter().map(message).collect(), &mut broken);
        super::checker::promises(&broken)
    };
    assert_eq!(judge(4, &[(1, 1), (2, 2), (3, 3)]), BTreeSet::new());
    assert_eq!(judge(4, &[(1, 1), (3, 3)]), [Promise::OneRunEach].into());
    assert_eq!(judge(4, &[(1, 1), (2, 2), (3, 3), (4, 3)]), [Promise::OneRunEach].into());
    assert_eq!(judge(5, &[(1, 1), (2, 2), (3, 3), (4, 4)]), [Promise::NotEarly].into());
}
