//! Each planted bug is caught, by the promise it breaks; the same without it is clean.
//!
//! (`CronPlannedByHostClock` belongs to the jobs.)

use super::checker::{self, Promise};
use super::injector::Injection;
use super::operation::Operation;
use super::world::{Plan, Setup, World};
use punctual::database::crash_points::CrashPoint;
use punctual::database::planted_bugs::PlantedBug;
use punctual::testing::Backend;
use std::time::Duration;

/// What is done to a world that may have a bug.
struct Script {
    bug: PlantedBug,
    backend: Backend,
    broken: Promise,
    only: Option<Operation>,
    injections: Vec<Injection>,
    /// Where workers hold their breath, and for how long.
    pause: Option<(CrashPoint, u64)>,
    calm_max: Duration,
}

/// A bug must be found within so many rounds.
const ROUNDS: u64 = 8;

impl Script {
    fn new(bug: PlantedBug, broken: Promise, injections: Vec<Injection>) -> Self {
        let calm_max = Duration::from_secs(45);
        Self { bug, backend: Backend::Postgres, broken, only: None, injections, pause: None, calm_max }
    }

    /// Without the bug nothing is found; with it, its promise is among what is.
    async fn play(self) {
        let seed = super::seed();
        let clean = self.rounds(None, seed).await;
        assert!(clean.is_empty(), "without the bug: {}", checker::sentences(&clean));
        let broken = self.rounds(Some(self.bug), seed).await;
        let found = checker::promises(&broken);
        println!("{:?}: found {found:?}, such as\n{}", self.bug, checker::sentences(&broken));
        assert!(found.contains(&self.broken), "{:?} was not caught by {:?}", self.bug, self.broken);
    }

    /// What is found in a few rounds. The last is the first that breaks the promise the bug is known by: it
    /// may break others before (what was put back twice is claimed early, too), and a busy machine may end a
    /// round out of time.
    async fn rounds(&self, bug: Option<PlantedBug>, seed: u64) -> Vec<checker::Broken> {
        let clocks = if self.backend == Backend::Postgres { vec![0, 0, 0] } else { vec![0, 0] };
        let setup = Setup::new("planted", self.backend, clocks);
        let mut world = World::start(Setup { bug, calm_max: self.calm_max, ..setup }).await;
        let rounds = if bug.is_some() { ROUNDS } else { 2 };
        let mut found = Vec::new();
        for n in 0..rounds {
            let (only, injections) = (self.only, self.injections.clone());
            let seed = super::dice(seed, n);
            let beside = only.is_none();
            let plan = Plan { n, seed, operations: 300, only, injections, pace_ms: 20, beside };
            if let Some((point, milliseconds)) = self.pause {
                world.pause_all_at(point, milliseconds);
            }
            found.extend(world.round(&plan).await);
            if checker::promises(&found).contains(&self.broken) {
                break;
            }
        }
        found
    }
}

/// PLT-2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow"]
async fn plt_2_a_missing_fence_is_caught() {
    let freezes = vec![Injection::Freeze, Injection::Freeze];
    Script::new(PlantedBug::NoFence, Promise::NoStaleToken, freezes).play().await;
}

/// PLT-3: some workers are a little slower than their lease, and reapers slow to close.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow"]
async fn plt_3_reaping_by_id_alone_is_caught() {
    let script = Script::new(PlantedBug::ReapByIdOnly, Promise::DoneOnce, vec![Injection::Freeze]);
    Script { pause: Some((CrashPoint::ReapingChosen, 300)), ..script }.play().await;
}

/// PLT-1: two writers on one file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow"]
async fn plt_1_a_deferred_begin_is_caught() {
    let script = Script::new(PlantedBug::DeferredBegin, Promise::NeverBusy, vec![Injection::Kill]);
    Script { backend: Backend::Sqlite, ..script }.play().await;
}

/// PLT-6
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow"]
async fn plt_6_a_timer_that_fires_before_its_commit_is_caught() {
    let script =
        Script::new(PlantedBug::TimerFiredBeforeCommit, Promise::ClaimedFirst, vec![Injection::Kill; 6]);
    Script { calm_max: Duration::from_secs(12), ..script }.play().await;
}

/// PLT-7: messages of hosts that tell nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow"]
async fn plt_7_a_lost_wake_up_without_polling_is_caught() {
    let script = Script::new(PlantedBug::LostWakeUpWithoutPolling, Promise::EndsInTime, Vec::new());
    let calm_max = Duration::from_secs(8);
    Script { only: Some(Operation::Host), calm_max, ..script }.play().await;
}

/// TRG-16: customers who answer and withdraw while reminders are due.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow"]
async fn trg_16_a_send_after_the_end_is_caught_in_a_round() {
    let script = Script::new(PlantedBug::SendAfterTheEnd, Promise::NotAfterEnd, vec![Injection::Kill]);
    Script { only: Some(Operation::Ingested), ..script }.play().await;
}

/// PLT-3: the disk fails after it has written, and the power with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow"]
async fn plt_3_a_failed_commit_that_is_answered_as_refused_is_caught() {
    let injections = vec![Injection::FailedCommits; 6];
    let script = Script::new(PlantedBug::FailedCommitIsRefused, Promise::NothingMadeUp, injections);
    Script { backend: Backend::Sqlite, ..script }.play().await;
}
