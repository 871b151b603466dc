//! The processes: this test program again, told by its environment to be a worker or a publisher.
//!
//! A worker runs an engine with handlers, and beside it a loop that claims and settles by hand, to
//! know tokens and answers. Both write their history. What is said on its standard input is done
//! at once; when that ends, so does the process.

use super::beside;
use super::history::{Event, Pen, whole};
use super::operation::Operation;
use super::provider;
use super::publisher;
use crate::bench::TENANT;
use punctual::base::clock::{Timestamp, host_now};
use punctual::base::id::LaneId;
use punctual::base::rehearsal;
use punctual::database::crash_points;
use punctual::database::planted_bugs::PlantedBug;
use punctual::database::store::Store;
use punctual::engine::Builder;
use punctual::queue::rules::share::LaneQuota;
use punctual::queue::store::claims::{ClaimRequest, ClaimedItem};
use punctual::queue::store::settle::{SettleAction, Settlement};
use punctual::{Engine, HandlerError, HandlerResult, Work};
use punctual_faulty_disk::{Fault, FaultTarget};
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// The database of a process; without it, it is none of these.
pub const DATABASE: &str = "PUNCTUAL_TEST_CHAOS_DATABASE";
/// Where it writes its history.
pub const HISTORY: &str = "PUNCTUAL_TEST_CHAOS_HISTORY";
/// `worker` or `publisher`.
pub const ROLE: &str = "PUNCTUAL_TEST_CHAOS_ROLE";
/// The bug that it has.
pub const BUG: &str = "PUNCTUAL_TEST_CHAOS_BUG";

/// The shortest there is: what is lost comes back soon.
pub const LEASE: Duration = Duration::from_secs(1);
/// The longest pause between looks: half a second at most for what nobody told.
const POLL: Duration = Duration::from_millis(500);
/// A stop by SIGTERM takes no longer.
const STOP: Duration = Duration::from_secs(5);
/// A process whose database is away tries again this soon.
const AGAIN: Duration = Duration::from_millis(100);
/// Messages that a claim by hand takes.
const BY_HAND: usize = 8;

/// What a process is.
pub struct Hired {
    pub database: String,
    pub folder: PathBuf,
    pub pen: Arc<Pen>,
    bug: Option<PlantedBug>,
    /// How far off its wall clock is, in seconds.
    offset: i64,
    competes: AtomicBool,
}

/// A worker or a publisher, if the environment says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process() {
    let Ok(database) = std::env::var(DATABASE) else { return };
    let folder = PathBuf::from(std::env::var_os(HISTORY).unwrap());
    let bug = std::env::var(BUG).ok().and_then(|name| PlantedBug::named(&name));
    let offset = std::env::var(rehearsal::CLOCK_OFFSET_S).unwrap().parse().unwrap();
    let (pen, competes) = (Arc::new(Pen::new(&folder)), AtomicBool::new(false));
    punctual_faulty_disk::install();
    let hired = Arc::new(Hired { database, pen, folder, bug, offset, competes });
    let is_worker = std::env::var(ROLE).unwrap() == "worker";
    let engine = hired.engine(is_worker).await;
    if is_worker {
        engine.start();
        tokio::spawn(by_hand(Arc::clone(&hired), engine.store().clone()));
    } else {
        engine.start_listening();
    }
    tokio::spawn(stop_when_told(engine.clone()));
    obey(hired, engine).await;
}

impl Hired {
    /// The machine's clock, which is the same in all processes, in microseconds.
    pub fn wall(&self) -> i64 {
        host_now().as_micros() - self.offset * 1_000_000
    }

    /// From now on every commit of this process is written, and fails.
    fn fail_commits(&self) {
        let file = self.database.strip_prefix("sqlite:").unwrap();
        punctual_faulty_disk::plan(Path::new(file), FaultTarget::Syncs, Fault::Done);
    }

    /// The engine; tried until the database is there.
    async fn engine(&self, is_worker: bool) -> Engine {
        loop {
            let mut builder = Engine::builder(&self.database).pool_size(3).without_migrations();
            if is_worker {
                builder = self.with_handlers(builder);
            } else if let Some(bug @ PlantedBug::FailedCommitIsRefused) = self.bug {
                builder = builder.plant(bug);
            }
            match builder.open().await {
                Ok(engine) => return engine,
                Err(error) => eprintln!("not open yet: {error}"),
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    fn with_handlers(&self, builder: Builder) -> Builder {
        let builder = builder.lease(LEASE).max_polling_interval(POLL);
        let mut builder = provider::with_channels(builder, &self.pen);
        for topic in ["plain", "keyed", "shaky", "doomed", "tick", "doomed-tick"] {
            let pen = Arc::clone(&self.pen);
            builder = builder.handler_with(topic, 8, move |work| handle(Arc::clone(&pen), work));
        }
        if let Some(bug) = self.bug { builder.plant(bug) } else { builder }
    }
}

async fn handle(pen: Arc<Pen>, work: Work) -> HandlerResult {
    let (message, attempt) = (work.message.id.0, work.attempt);
    let op = work.message.payload.parse().unwrap();
    pen.note(&Event::Began { op, message, attempt });
    tokio::time::sleep(Duration::from_millis(1 + op % 4)).await;
    match work.message.topic.as_str() {
        "doomed" | "doomed-tick" => return Err(HandlerError::retry("as always")),
        "shaky" if attempt == 1 => return Err(HandlerError::retry("at first")),
        _ => {}
    }
    pen.note(&Event::Ended { op, message, attempt });
    Ok(())
}

/// Claims and settles by hand, so that tokens and answers are in the history.
async fn by_hand(hired: Arc<Hired>, store: Store) {
    let lane = loop {
        match store.lane(TENANT, Operation::Raw.topic(), "").await {
            Ok(Some(lane)) => break lane.id,
            _ => tokio::time::sleep(AGAIN).await,
        }
    };
    loop {
        match one_by_hand(&hired.pen, &store, lane).await {
            Ok(true) => {}
            Ok(false) => tokio::time::sleep(AGAIN / 2).await,
            Err(why) => {
                hired.pen.note(&Event::Trouble { why: whole(&why) });
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

async fn one_by_hand(pen: &Pen, store: &Store, lane: LaneId) -> punctual::Result<bool> {
    let takes = vec![LaneQuota { lane, since: Timestamp::MIN, quota: BY_HAND }];
    let catch = store.claim(ClaimRequest { owner: "by-hand".into(), lease: LEASE, takes }).await?;
    let now = catch.now.map_or(0, Timestamp::as_micros);
    for ClaimedItem { token, item, .. } in &catch.items {
        let (message, attempt) = (item.message().0, item.attempt());
        pen.note(&Event::Claimed { token: token.text().into(), message, attempt, now });
    }
    for claimed in &catch.items {
        // Some take a little longer than their lease at first: whether they are settled or reaped is
        // a race.
        let slow = claimed.message.id.0 % 7 == 0 && claimed.item.attempt() <= 2;
        let handling = if slow { LEASE + Duration::from_millis(150) } else { Duration::from_millis(2) };
        tokio::time::sleep(handling).await;
        let words = vec![(claimed.message.id, SettleAction::Ack)];
        let settlement = Settlement { token: claimed.token.clone(), words };
        let outcome = store.settle(vec![settlement], None, 7).await?[0][0];
        pen.note(&Event::Settled {
            token: claimed.token.text().into(),
            message: claimed.message.id.0,
            outcome: format!("{outcome:?}"),
        });
    }
    Ok(!catch.items.is_empty())
}

async fn stop_when_told(engine: Engine) {
    signal(SignalKind::terminate()).unwrap().recv().await;
    engine.stop(STOP).await;
    std::process::exit(0);
}

/// Competes for leases from now on, and receives these deliveries.
fn go_beside(hired: &Arc<Hired>, engine: &Engine, deliveries: beside::Deliveries) {
    if !hired.competes.swap(true, Ordering::Relaxed) {
        tokio::spawn(beside::compete(Arc::clone(hired), engine.clone()));
    }
    tokio::spawn(beside::receive(Arc::clone(hired), engine.clone(), deliveries));
}

/// Takes this process's room on the disk away or gives it back. A limit that a busy database refused to lift
/// would stay for ever, so lifting it is tried until it succeeds.
async fn fill_disk(hired: &Hired, engine: &Engine, full: bool) {
    while let Err(why) = engine.store().fill_disk(full).await {
        hired.pen.note(&Event::Trouble { why: whole(&why) });
        if full {
            return;
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Does what is said on standard input, a line at a time.
async fn obey(hired: Arc<Hired>, engine: Engine) {
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            tell.send(line).ok();
        }
        // The test's end of the pipe closes with it: no process outlives its test.
        std::process::exit(0);
    });
    while let Some(line) = told.recv().await {
        let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
        match word {
            "sync" => hired.pen.note(&Event::Synced { n: rest.parse().unwrap() }),
            "point" => crash_points::arm(rest).unwrap(),
            "beside" => go_beside(&hired, &engine, beside::Deliveries::read(rest)),
            "commits" => hired.fail_commits(),
            "disk" => fill_disk(&hired, &engine, rest == "full").await,
            "publish" => drop(tokio::spawn(publisher::publish(
                Arc::clone(&hired),
                engine.clone(),
                publisher::Order::read(rest),
            ))),
            other => panic!("a process was told to {other}"),
        }
    }
}
