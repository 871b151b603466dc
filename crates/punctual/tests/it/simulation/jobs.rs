//! Jobs: every occurrence of the timetable is accounted for once, by whichever engine, and not
//! before its time by the database's clock; exclusive ones never overlap; and a run is over exactly
//! when its message is (PLT-21, PLT-22, PLT-23).

use super::checker::{Hand, Item, Place, Tables};
use super::truth::{Truth, Verdict};
use super::workload::Scene;
use punctual::{Error, MisfirePolicy, NewJob, OverlapPolicy, Result as Answered, RunId, Tenant, Timestamp};
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A job as it was declared.
#[derive(Clone, Debug)]
pub struct Known {
    pub tenant: Tenant,
    pub topic: String,
    pub every: Duration,
    pub misfire: MisfirePolicy,
    pub overlap: OverlapPolicy,
    /// Runs that were asked for beside the timetable, and those that came of it.
    asked: usize,
    triggered: BTreeSet<i64>,
    /// Whether somebody has asked to switch it off.
    switched: bool,
}

impl Known {
    pub fn is_exclusive(&self) -> bool {
        self.overlap != OverlapPolicy::Allow
    }

    /// The first occurrence behind a moment.
    fn after(&self, now: Timestamp) -> Timestamp {
        let every = i64::try_from(self.every.as_micros()).unwrap();
        Timestamp::from_micros((now.as_micros().div_euclid(every) + 1) * every)
    }

    /// What planning everything from `due` up to `last` writes down.
    fn accounts(&self, due: Timestamp, last: Timestamp) -> Vec<Timestamp> {
        if self.misfire == MisfirePolicy::RunAll {
            let all = std::iter::successors(Some(due), |at| Some(at.plus(self.every)));
            return all.take_while(|at| *at <= last).collect();
        }
        // The last one is run; all before it are one row that says that they were not.
        let missed = (last > due).then(|| last.minus(self.every));
        missed.into_iter().chain([last]).collect()
    }
}

#[derive(Clone, Debug)]
struct Run {
    job: String,
    planned: bool,
    scheduled: Timestamp,
    status: String,
    message: Option<i64>,
    open: i64,
}

impl Run {
    fn is_over(&self) -> bool {
        self.open == 0 && self.status != "queued" && self.status != "pending"
    }
}

/// The jobs and runs as they were after a transaction.
#[derive(Clone, Debug, Default)]
pub struct Jobs {
    due: BTreeMap<String, Option<Timestamp>>,
    runs: BTreeMap<i64, Run>,
    /// Every occurrence that ever had a run, also after that was forgotten.
    had: BTreeSet<(String, Timestamp)>,
}

impl Jobs {
    fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let mut jobs = connection.prepare_cached("select name, next_due from punctual_job")?;
        let due = jobs.query_map([], |row| {
            Ok((row.get(0)?, row.get::<_, Option<i64>>(1)?.map(Timestamp::from_micros)))
        })?;
        let mut runs = connection.prepare_cached(
            "select r.id, j.name, r.planned, r.scheduled_at, r.status, r.message_id, r.open \
             from punctual_run r join punctual_job j on j.id = r.job_id",
        )?;
        let runs = runs.query_map([], |row| {
            let run = Run {
                job: row.get(1)?,
                planned: row.get(2)?,
                scheduled: Timestamp::from_micros(row.get(3)?),
                status: row.get(4)?,
                message: row.get(5)?,
                open: row.get(6)?,
            };
            Ok((row.get(0)?, run))
        })?;
        Ok(Self {
            due: due.collect::<Result<_, _>>()?,
            runs: runs.collect::<Result<_, _>>()?,
            had: BTreeSet::new(),
        })
    }

    /// Reads them again; what has changed, if that may be, as words for the trace.
    pub fn look(
        &mut self,
        connection: &Connection,
        (truth, tables): (&mut Truth, &Tables),
        hand: &Hand<'_>,
    ) -> Verdict<Vec<(&'static str, String)>> {
        let mut is = Self::read(connection).map_err(|e| e.to_string())?;
        is.had = std::mem::take(&mut self.had);
        let mut said = Vec::new();
        for (id, run) in &is.runs {
            run.assert_like_its_message(*id, tables)?;
            let was = self.runs.get(id);
            if was.is_none() {
                said.push(is.began(*id, run, truth, hand)?);
            } else if was.is_some_and(|was| was.status == "succeeded" && run.status != "succeeded") {
                return Err(format!("run {id} had succeeded, and is now {}", run.status));
            }
            let goes = run.open > 0 && was.is_none_or(|was| was.status == "queued");
            if goes && truth.jobs[&run.job].is_exclusive() {
                is.assert_alone(*id, run)?;
            }
        }
        let lost = self.runs.iter().find(|(id, was)| !is.runs.contains_key(id) && !was.is_over());
        if let Some((id, was)) = lost {
            return Err(format!("run {id} was {}, and is gone", was.status));
        }
        for (name, due) in &is.due {
            is.assert_accounted(self, name, *due, (&*truth, hand))?;
        }
        let new = is.runs.iter().filter(|(id, run)| run.planned && !self.runs.contains_key(id));
        let had: Vec<_> = new.map(|(_, run)| (run.job.clone(), run.scheduled)).collect();
        is.had.extend(had);
        *self = is;
        Ok(said)
    }

    fn began(
        &self,
        id: i64,
        run: &Run,
        truth: &mut Truth,
        hand: &Hand<'_>,
    ) -> Verdict<(&'static str, String)> {
        let words = format!("run {id} of {} for {}: {}", run.job, run.scheduled, run.status);
        let known = truth.jobs.get_mut(&run.job).ok_or_else(|| format!("{words}, a job that nobody made"))?;
        if !run.planned {
            known.triggered.insert(id);
            return match known.triggered.len() <= known.asked {
                true => Ok(("run triggered", words)),
                false => Err(format!("{words}, beside its timetable, and nobody asked for it")),
            };
        }
        if run.scheduled > hand.now {
            return Err(format!("{words}, before its time, by {} at {}", hand.actor, hand.now));
        }
        if self.had.contains(&(run.job.clone(), run.scheduled)) {
            return Err(format!("{words}, and this occurrence had a run before"));
        }
        let deed = match run.status.as_str() {
            "queued" => "run queued",
            "skipped" => "run skipped",
            _ => "run planned",
        };
        Ok((deed, words))
    }

    /// A job that may not overlap has no other run that goes.
    fn assert_alone(&self, id: i64, run: &Run) -> Verdict {
        let other = self.runs.iter().find(|(o, other)| **o != id && other.job == run.job && other.open > 0);
        match other {
            Some((other, _)) => Err(format!("run {id} of {} was begun beside run {other}", run.job)),
            None => Ok(()),
        }
    }

    /// Whoever moves a job to its next occurrence has written down all those before it.
    fn assert_accounted(
        &self,
        before: &Self,
        name: &str,
        due: Option<Timestamp>,
        (truth, hand): (&Truth, &Hand<'_>),
    ) -> Verdict {
        let known = truth.jobs.get(name).ok_or_else(|| format!("there is a job {name} that nobody made"))?;
        let was = before.due.get(name).copied().flatten();
        let new = self.runs.iter().filter(|(id, run)| run.planned && !before.runs.contains_key(id));
        let mut new: Vec<Timestamp> =
            new.filter(|(_, run)| run.job == name).map(|(_, r)| r.scheduled).collect();
        new.sort_unstable();
        let wanted = match (was, due) {
            (Some(was), Some(due)) if was != due => known.accounts(was, due.minus(known.every)),
            (Some(_), None) if !known.switched => return Err(format!("{name} is not planned any more")),
            _ => Vec::new(),
        };
        if let Some(due) = due.filter(|due| Some(*due) != was && *due != known.after(hand.now)) {
            let now = hand.now;
            return Err(format!("{name} was moved from {was:?} to {due} at {now}, by {}", hand.actor));
        }
        match new == wanted {
            true => Ok(()),
            false => Err(format!("{name} moved from {was:?} to {due:?} with runs {new:?}, not {wanted:?}")),
        }
    }

    /// A job that should have been planned since.
    pub fn behind(&self, since: Timestamp) -> Option<&String> {
        self.due.iter().find(|(_, due)| due.is_some_and(|due| due <= since)).map(|(name, _)| name)
    }

    /// A run that waits for another one.
    pub fn queued(&self) -> Option<i64> {
        self.runs.iter().find(|(_, run)| run.status == "queued").map(|(id, _)| *id)
    }
}

impl Run {
    /// A run goes while its message does, and ends as its message does.
    fn assert_like_its_message(&self, id: i64, tables: &Tables) -> Verdict {
        let Some(message) = self.message else { return Ok(()) };
        let wanted = match tables.items.get(&message) {
            None => ("succeeded", 0),
            Some(Item { place: Place::Dead { .. }, .. }) => ("failed", 0),
            Some(_) => ("pending", 1),
        };
        match wanted == (self.status.as_str(), self.open) {
            true => Ok(()),
            false => {
                Err(format!("run {id} is {} with {} open, and should be {wanted:?}", self.status, self.open))
            }
        }
    }
}

impl Scene {
    /// Declares the jobs of this run.
    pub async fn declare_jobs(&self, topics: &[&str]) -> punctual::Result<()> {
        let jobs = self.world.state().plan.jobs;
        for index in 0..jobs {
            let (name, known) = {
                let mut state = self.world.state();
                let dice = &mut state.dice;
                let known = Known {
                    tenant: *dice.pick(&self.tenants),
                    topic: (*dice.pick(topics)).into(),
                    every: Duration::from_secs(*dice.pick(&[4, 5, 10, 20])),
                    misfire: *dice.pick(&MisfirePolicy::ALL),
                    overlap: *dice.pick(&[
                        OverlapPolicy::Allow,
                        OverlapPolicy::Skip,
                        OverlapPolicy::Queue,
                        OverlapPolicy::Queue,
                    ]),
                    asked: 0,
                    triggered: BTreeSet::new(),
                    switched: false,
                };
                let name = format!("job-{index}");
                state.truth.jobs.insert(name.clone(), known.clone());
                (name, known)
            };
            let job = NewJob::new(&known.topic, format!("*/{} * * * * *", known.every.as_secs()))
                .payload(format!("{{\"job\":\"{name}\"}}"))
                .misfire(known.misfire)
                .overlap(known.overlap);
            self.operator.put_job(known.tenant, &name, job).await?;
        }
        Ok(())
    }

    /// Switches all jobs off.
    pub async fn disable_jobs(&self) -> punctual::Result<()> {
        let names: Vec<(String, Tenant)> = {
            let jobs = &mut self.world.state().truth.jobs;
            jobs.values_mut().for_each(|known| known.switched = true);
            jobs.iter().map(|(name, known)| (name.clone(), known.tenant)).collect()
        };
        for (name, tenant) in names {
            self.operator.enable_job(tenant, &name, false).await?;
        }
        Ok(())
    }

    /// Triggers a job, or switches it off or on, through an engine that runs.
    pub async fn steer_job(&self) {
        let jobs: Vec<(String, Tenant)> = {
            let state = self.world.state();
            state.truth.jobs.iter().map(|(name, known)| (name.clone(), known.tenant)).collect()
        };
        let Some((engine, wire)) = self.world.any_node().filter(|_| !jobs.is_empty()) else { return };
        let ((name, tenant), triggers, enabled) = {
            let dice = &mut self.world.state().dice;
            (dice.pick(&jobs).clone(), dice.chance(600), dice.chance(600))
        };
        {
            let mut state = self.world.state();
            let known = state.truth.jobs.get_mut(&name).expect("a job");
            if triggers { known.asked += 1 } else { known.switched = true }
        }
        self.world.say(&wire.name, &format!("steers {name}: triggers {triggers}, enabled {enabled}"));
        let asked = async {
            match triggers {
                true => engine.trigger_job(tenant, &name).await.map(Some),
                false => engine.enable_job(tenant, &name, enabled).await.map(|_| None),
            }
        };
        let answer = tokio::select! {
            biased;
            answer = asked => Some(answer),
            () = wire.died() => None,
        };
        if triggers {
            let verdict = self.world.state().truth.jobs.get_mut(&name).expect("a job").hear(answer.as_ref());
            self.world.judge(verdict);
        }
    }
}

impl Known {
    /// What whoever triggered it hears.
    fn hear(&mut self, answer: Option<&Answered<Option<RunId>>>) -> Verdict {
        match answer {
            Some(Ok(Some(run))) if !self.triggered.contains(&run.0) => {
                Err(format!("run {run} was triggered, and is not there"))
            }
            None | Some(Ok(_) | Err(Error::Unknown(_))) => Ok(()),
            Some(Err(_)) => {
                self.asked -= 1;
                match self.triggered.len() <= self.asked {
                    true => Ok(()),
                    false => Err("a run was refused, and is there all the same".into()),
                }
            }
        }
    }
}
