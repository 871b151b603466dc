//! PLT-3: workers are killed again and again, and nothing is lost.
//!
//! Processes work through a backlog; every second one of them is killed without a warning
//! and replaced. Now and then one is frozen instead, until its claims are lost, and then goes on
//! with its stale tokens. Each handler notes its message in a file before it says that it is done.
//! What must hold afterwards: every message was handled, none waits, is in flight or dead,
//! each was settled by exactly one claim (PLT-2), and no claim changed its end.
//!
//! Doubles are allowed for, and counted: a worker that is killed or frozen between an effect and its
//! settlement leaves an effect that nobody knows of. So a message may have as many effects
//! beyond the first as claims of it were lost, and not one more.
//!
//! `PUNCTUAL_CHAOS_MESSAGES` changes how many there are, `PUNCTUAL_SEED` repeats who is
//! killed when (not what the machine makes of it).

use crate::bench::{TENANT, message};
use crate::engine::{DEAD_LETTERS, FOLLOWERS, Live, OPEN_CLAIMS, UNDONE, WORK, start};
use crate::poison::{Notes, Worker, hired};
use punctual::base::clock::{Moment, monotonic};
use punctual::rules::claim;
use punctual::testing::Backend;
use punctual::{Engine, Work};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What one run is like.
struct Chaos {
    backend: Backend,
    messages: usize,
    workers: usize,
    /// How often at most a worker is killed.
    kills_max: usize,
    /// The least time between two of them.
    pause: Duration,
}

/// Messages of a worker that run at once, and how long each takes: together they decide how
/// long the backlog lasts.
const CONCURRENCY: usize = 16;
const HANDLING: Duration = Duration::from_millis(15);
/// A killed worker's messages come back after this long.
const LEASE: Duration = Duration::from_secs(2);
/// A frozen worker wakes up so long after, and finds that its claims are lost.
const FREEZE: Duration = Duration::from_secs(4);
const KILLS_PER_FREEZE: usize = 5;
/// The whole run takes no longer.
const PATIENCE: Duration = Duration::from_secs(300);

/// The worker of these tests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_process() {
    let Some((database, pen)) = hired() else { return };
    let handler = move |work: Work| {
        let pen = Arc::clone(&pen);
        async move {
            tokio::time::sleep(HANDLING).await;
            pen.note(&work);
            Ok(())
        }
    };
    let builder = Engine::builder(database).pool_size(4).without_migrations().lease(LEASE);
    let _engine = start(builder.handler_with("t", CONCURRENCY, handler)).await;
    std::future::pending().await
}

/// A small generator of numbers that repeats itself from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % n
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

impl Chaos {
    async fn run(self) {
        let seed = number("PUNCTUAL_SEED").unwrap_or_else(punctual::base::random::seed);
        println!("{:?}: PUNCTUAL_SEED={seed}, {} messages", self.backend, self.messages);
        let live = Live::on(self.backend).await;
        let engine = live.builder().open().await.unwrap();
        watch_claims(&live).await;
        let mut ids = Vec::with_capacity(self.messages);
        while ids.len() < self.messages {
            let batch = vec![message("t"); (self.messages - ids.len()).min(5_000)];
            let done = engine.enqueue(TENANT, batch).await.unwrap();
            ids.extend(done.iter().map(|e| e.id().unwrap().0));
        }
        let notes = Notes::new();
        let begun = monotonic();
        let (kills, freezes) = self.trouble_until_drained(&live, &notes, Dice(seed)).await;
        println!("drained after {:?}, {kills} kills and {freezes} freezes", begun.elapsed());
        assert!(kills > 0 && freezes > 0, "nothing was killed or frozen, so nothing was shown");
        check(&live, &ids, &notes.read()).await;
    }

    async fn trouble_until_drained(&self, live: &Live, notes: &Notes, mut dice: Dice) -> (usize, usize) {
        let hire = || Worker::start("chaos::worker_process", live.url(), notes.folder());
        let mut workers: Vec<Worker> = (0..self.workers).map(|_| hire()).collect();
        let mut frozen: Option<(Worker, Moment)> = None;
        let (mut kills, mut freezes, begun) = (0, 0, monotonic());
        while frozen.is_some() || live.count(UNDONE).await > 0 {
            assert!(begun.elapsed() < PATIENCE, "not drained after {PATIENCE:?} and {kills} kills");
            // The time between two kills is what is wanted here, and not a wait for anything.
            let jitter = u64::try_from(dice.below(200)).unwrap();
            tokio::time::sleep(self.pause + Duration::from_millis(jitter)).await;
            for worker in &mut workers {
                assert!(!worker.has_ended(), "a worker ended by itself");
            }
            if let Some((mut worker, _)) = frozen.take_if(|(_, since)| since.elapsed() > FREEZE) {
                worker.signal("CONT");
                workers.push(worker);
            }
            if kills >= self.kills_max || live.count(WORK).await == 0 {
                continue;
            }
            let mut victim = workers.swap_remove(dice.below(workers.len()));
            if frozen.is_none() && kills / KILLS_PER_FREEZE > freezes {
                victim.signal("STOP");
                frozen = Some((victim, monotonic()));
                freezes += 1;
            } else {
                victim.kill();
                workers.push(hire());
                kills += 1;
            }
        }
        (kills, freezes)
    }
}

/// Has the database itself write down each change of a claim's end.
async fn watch_claims(live: &Live) {
    live.texts("create table claim_end (token text, was text, became text)").await;
    let statements: &[&str] = match live.backend {
        Backend::Sqlite => &["create trigger watch_claim after update on punctual.claim \
            when old.ending is not null or new.ending is not null begin \
            insert into claim_end values (new.token, old.ending, new.ending); end"],
        Backend::Postgres => &[
            "create function watch_claim() returns trigger language plpgsql as $f$ begin \
             insert into claim_end values (new.token, old.ending, new.ending); return null; end $f$",
            "create trigger watch_claim after update on punctual.claim for each row \
             when (old.ending is not null or new.ending is not null) execute function watch_claim()",
        ],
    };
    for statement in statements {
        live.texts(statement).await;
    }
}

async fn check(live: &Live, ids: &[i64], effects: &[i64]) {
    for table in [WORK, FOLLOWERS, OPEN_CLAIMS, DEAD_LETTERS] {
        assert_eq!(live.count(table).await, 0, "{table}");
    }
    let mut done: BTreeMap<i64, usize> = BTreeMap::new();
    effects.iter().for_each(|id| *done.entry(*id).or_default() += 1);
    let lost: Vec<_> = ids.iter().filter(|id| !done.contains_key(id)).collect();
    assert!(lost.is_empty(), "{} messages were lost, such as {:?}", lost.len(), lost.first());
    assert_eq!(done.len(), ids.len(), "and none was made up");

    let settled = live.settled().await;
    let once = ids.iter().filter(|id| settled.get(&punctual::MessageId(**id)) == Some(&1)).count();
    assert_eq!(once, ids.len(), "each message is settled by exactly one claim");
    let claims = live.count("select count(*) from punctual.claim").await;
    let ends = live.count("select count(*) from claim_end").await;
    let firsts = live.count("select count(distinct token) from claim_end where was is null").await;
    assert_eq!((ends, firsts), (claims, claims), "each claim ends, once, and then never changes");

    let losses = losses(live).await;
    let doubles: Vec<_> = done.iter().filter(|(_, times)| **times > 1).collect();
    for (id, times) in &doubles {
        let lost = losses.get(id).copied().unwrap_or(0);
        assert!(**times <= 1 + lost, "message {id} has {times} effects, but was lost only {lost} times");
    }
    println!(
        "{claims} claims, {} losses of {} messages by lost claims; {} messages have more than one effect: \
         their workers were killed or frozen between the effect and its settlement",
        losses.values().sum::<usize>(),
        losses.len(),
        doubles.len()
    );
    assert!(!losses.is_empty(), "no kill met a message, so nothing was shown");
}

/// How often each message was in the hands of a worker that lost it.
async fn losses(live: &Live) -> BTreeMap<i64, usize> {
    let mut losses = BTreeMap::new();
    for row in live.texts("select open from punctual.claim where ending = 'reaped'").await {
        for item in claim::read(row[0].as_deref().unwrap()).unwrap() {
            *losses.entry(item.message().0).or_default() += 1;
        }
    }
    losses
}

/// PLT-2, PLT-3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow"]
async fn plt_3_killed_workers_lose_nothing_on_postgres() {
    let messages = number("PUNCTUAL_CHAOS_MESSAGES").map_or(100_000, |n| usize::try_from(n).unwrap());
    let pause = Duration::from_millis(900);
    Chaos { backend: Backend::Postgres, messages, workers: 3, kills_max: 50, pause }.run().await;
}

/// PLT-2, PLT-3: the same in small, by two processes on one file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow"]
async fn plt_3_killed_workers_lose_nothing_on_sqlite() {
    let pause = Duration::from_millis(400);
    Chaos { backend: Backend::Sqlite, messages: 10_000, workers: 2, kills_max: 10, pause }.run().await;
}
