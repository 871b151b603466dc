//! What was done to a world, and what it did.

use super::injector::Injection;
use punctual::testing::Backend;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub rounds: usize,
    /// Operations that publishers asked for.
    pub asked: usize,
    /// Messages that were settled well.
    pub done: usize,
    /// Messages that died, as they should.
    pub dead: usize,
    /// Items whose claim was lost.
    pub lost: usize,
    /// Settlements by hand that were told so.
    pub told_lost: usize,
    /// Operations whose outcome their publisher never heard, or heard to be unknown.
    pub unsure: usize,
    /// Errors because of a full disk.
    pub full: usize,
    /// Timers that were cancelled in time.
    pub cancelled: usize,
    /// Runs of jobs.
    pub runs: usize,
    /// Leases that were acquired, and effects under them that came too late.
    pub acquired: usize,
    pub stale: usize,
    /// Deliveries, and completions that came too late.
    pub received: usize,
    pub late: usize,
    /// Schedule entries of notifications, and instances of surveys.
    pub schedules: usize,
    pub instances: usize,
    /// Messages that providers got, and reminders among them.
    pub offered: usize,
    pub reminded: usize,
    /// Customers who answered, and who withdrew.
    pub answered: usize,
    pub withdrawn: usize,
    /// Sends that were lost with their worker, and messages that were taken twice.
    pub lost_sends: usize,
    pub doubled: usize,
    /// How often each thing was done.
    pub injected: BTreeMap<String, usize>,
    /// What cannot be done here, and why.
    pub not_run: BTreeMap<String, String>,
}

impl Tally {
    pub fn add(&mut self, other: &Self) {
        self.rounds += other.rounds;
        self.asked += other.asked;
        self.done += other.done;
        self.dead += other.dead;
        self.lost += other.lost;
        self.told_lost += other.told_lost;
        self.unsure += other.unsure;
        self.full += other.full;
        self.cancelled += other.cancelled;
        self.runs += other.runs;
        self.acquired += other.acquired;
        self.stale += other.stale;
        self.received += other.received;
        self.late += other.late;
        self.schedules += other.schedules;
        self.instances += other.instances;
        self.offered += other.offered;
        self.reminded += other.reminded;
        self.answered += other.answered;
        self.withdrawn += other.withdrawn;
        self.lost_sends += other.lost_sends;
        self.doubled += other.doubled;
        for (name, count) in &other.injected {
            *self.injected.entry(name.clone()).or_default() += count;
        }
        self.not_run.extend(other.not_run.clone());
    }

    pub fn injected(&mut self, injection: Injection) {
        *self.injected.entry(injection.name()).or_default() += 1;
    }

    /// Everything that somebody wanted done.
    pub const fn operations(&self) -> usize {
        self.asked + self.runs + self.acquired + self.received
    }

    pub fn report(&self, of: &str) {
        println!(
            "{of}: {} rounds, {} operations asked, {} messages done, {} dead, {} items lost with a claim, \
             {} settlements told so, {} answers unknown, {} errors of a full disk",
            self.rounds, self.asked, self.done, self.dead, self.lost, self.told_lost, self.unsure, self.full
        );
        println!(
            "  {} operations in all; {} timers cancelled in time, {} runs of jobs, {} leases acquired, \
             {} effects under stale ones refused, {} deliveries, {} completions refused",
            self.operations(),
            self.cancelled,
            self.runs,
            self.acquired,
            self.stale,
            self.received,
            self.late
        );
        println!(
            "  {} notifications and {} surveys: {} messages to providers, {} of them reminders, {} answers, \
             {} withdrawals, {} sends lost with a worker, {} messages taken twice",
            self.schedules,
            self.instances,
            self.offered,
            self.reminded,
            self.answered,
            self.withdrawn,
            self.lost_sends,
            self.doubled
        );
        for (name, count) in &self.injected {
            println!("  {name}: {count}");
        }
        for (name, why) in &self.not_run {
            println!("  {name}: NOT RUN, {why}");
        }
    }

    /// A run to which something was not done shows nothing about it.
    pub fn assert_all_done(&self, backend: Backend) {
        let missing = self.missing(backend);
        assert!(missing.is_empty(), "nothing was shown about {missing:?}: {self:?}");
        self.assert_all_nouns();
    }

    /// What has not happened yet.
    pub fn missing(&self, backend: Backend) -> Vec<String> {
        let deck = Injection::deck(backend).into_iter().map(|injection| injection.name());
        let mut missing: Vec<String> = deck
            .filter(|name| !self.not_run.contains_key(name) && !self.injected.contains_key(name))
            .collect();
        // On SQLite only who needs a new page feels it: `fault::a_full_disk_loses_nothing` makes sure.
        let told = !self.not_run.contains_key(&Injection::FullDisk.name()) && backend == Backend::Postgres;
        for (what, happened) in [
            ("an effect under a stale lease", self.stale > 0),
            ("a late completion", self.late > 0),
            ("a message in lost hands", self.lost > 0),
            ("a send in lost hands", self.lost_sends > 0),
            ("an answer to a survey", self.answered > 0),
            ("a withdrawal from a survey", self.withdrawn > 0),
            ("a full disk that is felt", self.full > 0 || !told),
        ] {
            if !happened {
                missing.push(what.to_owned());
            }
        }
        missing
    }

    /// Neither does one in which some noun had no part: the first such.
    pub fn missing_noun(&self) -> Option<&'static str> {
        let nouns = [
            ("timer was cancelled", self.cancelled),
            ("job had a run", self.runs),
            ("lease was acquired", self.acquired),
            ("delivery came", self.received),
            ("notification was sent", self.schedules),
            ("reminder was sent", self.reminded),
            ("customer answered or withdrew", self.answered + self.withdrawn),
        ];
        nouns.into_iter().find(|(_, count)| *count == 0).map(|(noun, _)| noun)
    }

    pub fn assert_all_nouns(&self) {
        let missing = self.missing_noun();
        assert!(missing.is_none(), "no {}, so nothing was shown about that", missing.unwrap_or_default());
    }
}
