//! Chaos: real processes on a real database, and everything that can happen to them.
//!
//! A *world* is a database, worker processes and a publisher, each behind a proxy of its own. A
//! *round* publishes a burst of operations while things are done to the world (killed, frozen, cut
//! off, restarted, filled up: `injector.rs`), then lets it come to rest, and then a checker holds
//! what the processes wrote down (`history.rs`) against what the database itself wrote down by
//! triggers (`world.rs`) and against what was promised (`checker.rs`). Some of the operations are
//! events that notifications and surveys are sent for (`customers.rs`): what providers got
//! (`provider.rs`) is held against the engine's own lists and logs (`sends.rs`).
//!
//! A checker that finds nothing proves something only if it would have: `planted.rs` gives the
//! workers known bugs, and each must be found. A run to which nothing was done fails.
//!
//! `PUNCTUAL_SEED` repeats what is published and what is done when (not what the machine makes of
//! it). A round that fails prints the line that repeats it. `PUNCTUAL_CHAOS_ROUNDS` changes how many
//! there are. See [ADR 13](../../../../docs/adr/0013-chaos.md).

mod beside;
mod checker;
mod customers;
mod definitions;
mod deliveries;
mod disk;
mod history;
mod home;
mod injector;
mod jobs;
mod leases;
mod letters;
mod operation;
mod planted;
mod provider;
mod proxy;
mod publisher;
mod rolling;
mod send_reads;
mod sends;
mod tally;
mod triggers;
mod worker;
mod world;

use injector::Injection;
use punctual::testing::Backend;
use std::ops::Range;
use tally::Tally;
use tokio::sync::Mutex;
use world::{Plan, Setup, World};

/// Operations of a round on PostgreSQL, and on SQLite.
const OPERATIONS: u64 = 480;
const OPERATIONS_SQLITE: u64 = 250;
/// A publisher's pause between two operations: the load lasts while things are done.
const PACE_MS: u64 = 15;
const PACE_MS_SQLITE: u64 = 70;
/// Things that are done in a round.
const INJECTIONS: usize = 3;
/// Rounds of the full run, over all its worlds.
const ROUNDS: u64 = 200;
const ROUNDS_SQLITE: u64 = 20;
const SIX_HOURS: i64 = 6 * 60 * 60;

/// The worlds of the full run, and how far off, in seconds, each worker's wall clock is.
const WORLDS: [(&str, [i64; 3]); 4] = [
    ("right", [0, 0, 0]),
    ("ahead", [SIX_HOURS, SIX_HOURS, SIX_HOURS]),
    ("behind", [-SIX_HOURS, -SIX_HOURS, -SIX_HOURS]),
    ("apart", [SIX_HOURS, 0, -SIX_HOURS]),
];

/// Held by who plays many rounds: two of them would starve each other's processes on a small machine.
pub static TURN: Mutex<()> = Mutex::const_new(());

/// A number that depends on nothing but these two.
pub fn dice(seed: u64, n: u64) -> u64 {
    let mut z = seed.wrapping_add(n.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

pub fn seed() -> u64 {
    let seed = number("PUNCTUAL_SEED").unwrap_or_else(|| punctual::base::random::seed() >> 1);
    println!("PUNCTUAL_SEED={seed}");
    seed
}

/// What the `n`-th round of a world is like: the same for the same seed.
fn plan(setup: &Setup, n: u64, seed: u64) -> Plan {
    let seed = setup.name.bytes().fold(seed, |seed, byte| dice(seed, byte.into()));
    let (operations, pace_ms) = match setup.backend {
        Backend::Postgres => (OPERATIONS, PACE_MS),
        Backend::Sqlite => (OPERATIONS_SQLITE, PACE_MS_SQLITE),
    };
    let injections = Injection::deal(setup.backend, seed, n, INJECTIONS);
    Plan { n, seed: dice(seed, n), operations, only: None, injections, pace_ms, beside: true }
}

/// Runs rounds in a world, until one is not as promised: these, and more up to `most` while
/// something has not happened yet.
async fn run(setup: Setup, rounds: Range<u64>, most: u64, seed: u64) -> Tally {
    let (name, backend) = (setup.name, setup.backend);
    let mut world = World::start(setup).await;
    for n in rounds.start..most {
        if n >= rounds.end && world.so_far().missing(backend).is_empty() {
            break;
        }
        let plan = plan(&world.setup, n, seed);
        let broken = world.round(&plan).await;
        let replay = format!(
            "PUNCTUAL_SEED={seed} PUNCTUAL_CHAOS_WORLD={name} PUNCTUAL_CHAOS_ROUND={n} \
             cargo test -p punctual --test it -- --ignored --exact chaos::one_round --nocapture"
        );
        assert!(broken.is_empty(), "{}\n{plan:?}\n{replay}", checker::sentences(&broken));
    }
    world.tally()
}

fn postgres(name: &'static str, clocks: [i64; 3]) -> Setup {
    Setup { small_disk: name == "right", ..Setup::new(name, Backend::Postgres, clocks.to_vec()) }
}

fn sqlite() -> Setup {
    // On SQLite the host's clock is the database's: it cannot be off.
    Setup::new("sqlite", Backend::Sqlite, vec![0, 0])
}

/// PLT-2, PLT-3, PLT-6, PLT-12, PLT-14, NTF-4, TRG-15, TRG-16: nothing is lost, doubled, early or
/// out of order, and no message goes out in silence or after its end, whatever happens to processes,
/// links and server, and however wrong the workers' clocks are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow"]
async fn plt_3_two_hundred_rounds_on_postgres() {
    let _turn = TURN.lock().await;
    let (seed, rounds) = (seed(), number("PUNCTUAL_CHAOS_ROUNDS").unwrap_or(ROUNDS));
    let mut worlds = tokio::task::JoinSet::new();
    for (name, clocks) in WORLDS {
        let rounds = rounds / WORLDS.len() as u64;
        worlds.spawn(run(postgres(name, clocks), 0..rounds, rounds, seed));
    }
    let mut all = Tally::default();
    while let Some(ended) = worlds.join_next().await {
        match ended {
            Ok(tally) => all.add(&tally),
            Err(broken) => std::panic::resume_unwind(broken.into_panic()),
        }
    }
    all.report("PostgreSQL");
    assert!(!all.injected.is_empty(), "nothing was done, so nothing was shown");
    if rounds >= ROUNDS {
        all.assert_all_done(Backend::Postgres);
        assert!(all.operations() >= 100_000, "{} operations are fewer than promised", all.operations());
    }
}

/// PLT-2, PLT-3: the same by several processes on one file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow"]
async fn plt_3_rounds_on_sqlite() {
    let _turn = TURN.lock().await;
    let rounds = number("PUNCTUAL_CHAOS_ROUNDS").map_or(ROUNDS_SQLITE, |n| n / 10);
    let tally = run(sqlite(), 0..rounds, 4 * rounds, seed()).await;
    tally.report("SQLite");
    assert!(!tally.injected.is_empty(), "nothing was done, so nothing was shown");
    if rounds >= ROUNDS_SQLITE {
        tally.assert_all_done(Backend::Sqlite);
    }
}

/// Rounds that a taste has at most.
const TASTES_MAX: u64 = 4;

/// PLT-3: a taste of it for the inner loop.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plt_3_a_round_on_each_database() {
    let seed = seed();
    for setup in [sqlite(), Setup { small_disk: false, ..postgres("apart", WORLDS[3].1) }] {
        let mut world = World::start(setup).await;
        // One round has a few timers, and by chance none of them is cancelled in time: then one more.
        for n in 0..TASTES_MAX {
            let mut plan = plan(&world.setup, n, seed);
            plan.injections = vec![Injection::Kill, Injection::Freeze];
            plan.operations = 200;
            let broken = world.round(&plan).await;
            assert!(broken.is_empty(), "{}\n{plan:?}", checker::sentences(&broken));
            let tally = world.so_far();
            assert!(["kill", "freeze"].iter().all(|what| tally.injected[*what] as u64 == n + 1), "{tally:?}");
            if tally.missing_noun().is_none() {
                break;
            }
        }
        world.tally().assert_all_nouns();
    }
}

/// One round again, as a failure names it; nothing without its environment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "only to repeat a round"]
async fn one_round() {
    let (Some(n), Ok(name)) = (number("PUNCTUAL_CHAOS_ROUND"), std::env::var("PUNCTUAL_CHAOS_WORLD")) else {
        return;
    };
    let world = WORLDS.iter().find(|(world, _)| *world == name);
    let setup = world.map_or_else(sqlite, |(name, clocks)| postgres(name, *clocks));
    run(setup, n..n + 1, n + 1, seed()).await.report(&name);
}
