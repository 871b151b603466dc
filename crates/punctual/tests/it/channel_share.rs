//! The limits of a channel over three processes on one database: its rate, also while processes are killed,
//! and how many of its sends are in flight at once. The sends are notifications or survey invitations.
//!
//! Every worker writes down when it begins each call, by the clock that they share, and when it ends one, as
//! a negative number. The judge counts the calls of every second that begins with one, and the calls that
//! overlap.

use crate::bench::TENANT;
use crate::chaos::TURN;
use crate::engine::Live;
use crate::invitation::{ingest, publish, survey, visit};
use crate::notification::{KIND, TOPIC, booking, define, template};
use crate::poison::{Notes, Worker};
use punctual::base::clock::{host_now, monotonic};
use punctual::database::planted_bugs::PlantedBug;
use punctual::delivery::rules::channel::ChannelPolicy;
use punctual::flow::rules::entry::EntryKind;
use punctual::testing::Backend;
use punctual::{AcceptedMessage, Engine, NewMessage, RenderedMessage, Store};
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const DATABASE: &str = "PUNCTUAL_TEST_SHARE_DATABASE";
const FOLDER: &str = "PUNCTUAL_TEST_SHARE_FOLDER";
const BUG: &str = "PUNCTUAL_TEST_SHARE_BUG";
/// Set for a run with a limit of sends in flight in place of a rate.
const SLOW: &str = "PUNCTUAL_TEST_SHARE_SLOW";
const RATE: u32 = 200;
const IN_FLIGHT: usize = 12;
const PROCESSES: usize = 3;
const SECOND_US: i64 = 1_000_000;
/// How long a provider takes to answer.
const CALL: Duration = Duration::from_millis(10);
/// How long a slow one takes.
const SLOW_CALL: Duration = Duration::from_millis(100);

/// A worker, if the environment says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process() {
    let (Ok(database), Some(folder)) = (std::env::var(DATABASE), std::env::var_os(FOLDER)) else { return };
    // The test's end of the pipe closes with it: no worker outlives its test.
    std::thread::spawn(|| {
        std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).ok();
        std::process::exit(0);
    });
    let file = PathBuf::from(folder).join(std::process::id().to_string());
    let file = Arc::new(Mutex::new(std::fs::File::create(file).unwrap()));
    let slow = std::env::var_os(SLOW).is_some();
    // One write: a line is whole or not there.
    let note = move |number: i64| file.lock().unwrap().write_all(format!("{number}\n").as_bytes()).unwrap();
    let channel = move |_: Arc<RenderedMessage>| {
        let note = note.clone();
        note(host_now().as_micros());
        async move {
            tokio::time::sleep(if slow { SLOW_CALL } else { CALL }).await;
            note(-host_now().as_micros());
            Ok(AcceptedMessage { message_id: None, answer: None })
        }
    };
    let rate = ChannelPolicy { rate_per_second: Some(RATE), ..ChannelPolicy::default() };
    let in_flight = ChannelPolicy { in_flight: Some(IN_FLIGHT), ..ChannelPolicy::default() };
    let policy = if slow { in_flight } else { rate };
    let mut store = Store::open(&database, 4).unwrap();
    if let Ok(bug) = std::env::var(BUG) {
        store = store.with_bug(PlantedBug::named(&bug).unwrap());
    }
    let builder =
        Engine::builder(database).on_store(store).without_migrations().lease(Duration::from_secs(5));
    let builder = builder.survey_url("https://survey.example/s/{publicId}");
    let builder = builder.channel_policy("sms:limited", policy).channel("sms:limited", channel);
    let engine = builder.open().await.unwrap();
    engine.start();
    std::future::pending().await
}

/// The calls of a run, in order, in microseconds.
struct Calls(Vec<i64>);

/// What was noted when calls began and when they ended.
fn begun(notes: &Notes) -> Vec<i64> {
    notes.read().into_iter().filter(|at| *at > 0).collect()
}

/// How many calls were in flight at once: at most, and on average.
fn in_flight(notes: &Notes) -> (i64, f64) {
    // Of two at one time the end goes first: its place is free.
    let mut all: Vec<(i64, bool)> = notes.read().into_iter().map(|at| (at.abs(), at > 0)).collect();
    all.sort_unstable();
    let (mut now, mut most, mut area, mut last) = (0, 0, 0, all[0].0);
    for (at, begins) in &all {
        area += now * (at - last);
        now += if *begins { 1 } else { -1 };
        (most, last) = (most.max(now), *at);
    }
    (most, area as f64 / (last - all[0].0) as f64)
}

impl Calls {
    /// The most calls in one second, whichever.
    fn busiest_second(&self) -> usize {
        let all = &self.0;
        let mut end = 0;
        let count = |(begin, at): (usize, &i64)| {
            while end < all.len() && all[end] < at + SECOND_US {
                end += 1;
            }
            end - begin
        };
        all.iter().enumerate().map(count).max().unwrap_or_default()
    }

    /// How much of the rate was used, without the first seconds, in which the processes share it out.
    fn used(&self) -> f64 {
        let (begin, end) = (self.0[0] + 5 * SECOND_US, self.0[self.0.len() - 1] - SECOND_US);
        let calls = self.0.iter().filter(|at| (begin..end).contains(at)).count();
        calls as f64 / (f64::from(RATE) * (end - begin) as f64 / SECOND_US as f64)
    }
}

/// Hands in events for so many notifications.
async fn notifications(keeper: &Engine, messages: usize) {
    define(keeper, TENANT, |_| {}).await;
    template(keeper, TENANT, "sms:limited", "Confirmed {{bookingId}}").await;
    for batch in (0..messages).collect::<Vec<_>>().chunks(500) {
        let one = |n: &usize| NewMessage::new(TOPIC, KIND, booking(&n.to_string()).to_string());
        keeper.enqueue(TENANT, batch.iter().map(one).collect()).await.unwrap();
    }
}

/// Hands in events for so many survey invitations.
async fn invitations(keeper: &Engine, messages: usize) {
    let by_sms = |survey: &mut Value| {
        survey["triggers"][0]["channel"] = json!("sms:limited");
        survey["triggers"][0]["schedule"]["reminders"] = json!([]);
    };
    publish(keeper, survey(by_sms)).await;
    for batch in (0..messages).collect::<Vec<_>>().chunks(500) {
        ingest(keeper, batch.iter().map(|n| visit(&n.to_string(), "GR")).collect()).await;
    }
}

/// What three workers are to do.
struct Run {
    backend: Backend,
    kind: EntryKind,
    messages: usize,
    kill_every: Option<Duration>,
    bug: Option<PlantedBug>,
    /// Whether calls are slow and the limit is one of sends in flight.
    slow: bool,
}

impl Run {
    const fn of(backend: Backend, kind: EntryKind, messages: usize) -> Self {
        Self { backend, kind, messages, kill_every: None, bug: None, slow: false }
    }

    async fn play(self) -> Calls {
        let notes = self.notes().await;
        let mut calls = begun(&notes);
        calls.sort_unstable();
        let calls = Calls(calls);
        println!(
            "{:?}, {:?}: {} calls, {} in the busiest second of {RATE}, {:.1} % used",
            self.backend,
            self.kind,
            calls.0.len(),
            calls.busiest_second(),
            calls.used() * 100.0
        );
        calls
    }

    /// Lets three workers send the messages, and kills one now and then.
    async fn notes(&self) -> Notes {
        let Self { backend, kind, messages, kill_every, bug, slow } = *self;
        let live = Live::on(backend).await;
        let keeper = live.builder().survey_url("https://survey.example/s/{publicId}").open().await.unwrap();
        match kind {
            EntryKind::Survey => invitations(&keeper, messages).await,
            _ => notifications(&keeper, messages).await,
        }
        let notes = Notes::new();
        let mut environment =
            vec![(DATABASE, live.url().into()), (FOLDER, notes.folder().as_os_str().to_owned())];
        environment.extend(bug.map(|bug| (BUG, bug.name().into())));
        environment.extend(slow.then(|| (SLOW, "1".into())));
        let hire = || Worker::spawn("channel_share::process", &environment);
        let mut workers: Vec<Worker> = (0..PROCESSES).map(|_| hire()).collect();
        let (started, mut killed) = (monotonic(), 0);
        while begun(&notes).len() < messages {
            tokio::time::sleep(Duration::from_millis(250)).await;
            assert!(workers.iter_mut().all(|worker| !worker.has_ended()), "a worker ended by itself");
            if kill_every.is_some_and(|every| started.elapsed() > every * (killed + 1)) {
                let slot = usize::try_from(killed).unwrap() % PROCESSES;
                workers[slot].kill();
                workers[slot] = hire();
                killed += 1;
            }
            let sent = begun(&notes).len();
            assert!(started.elapsed() < Duration::from_secs(240), "{sent} of {messages} messages were sent");
        }
        println!("{killed} workers were killed");
        assert!(kill_every.is_none() || killed > 1, "only {killed} workers were killed");
        notes
    }
}

/// NTF-17: in no second more than the rate, and most of it in use.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow"]
async fn ntf_17_three_processes_keep_one_rate_measured() {
    let _turn = TURN.lock().await;
    let calls = Run::of(Backend::Postgres, EntryKind::Notification, 10_000).play().await;
    assert!(calls.busiest_second() <= RATE as usize, "{} in a second", calls.busiest_second());
    assert!(calls.used() >= 0.9, "{:.3} of the rate was used", calls.used());
}

/// NTF-17: also while processes are killed, whose shares are free only when their leases are over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow"]
async fn ntf_17_killed_processes_neither_exceed_nor_waste_a_rate_measured() {
    let _turn = TURN.lock().await;
    let run = Run::of(Backend::Postgres, EntryKind::Notification, 10_000);
    let calls = Run { kill_every: Some(Duration::from_secs(20)), ..run }.play().await;
    assert!(calls.busiest_second() <= RATE as usize, "{} in a second", calls.busiest_second());
    assert!(calls.used() >= 0.9, "{:.3} of the rate was used", calls.used());
}

/// NTF-17: on one file, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow"]
async fn ntf_17_three_processes_keep_one_rate_on_sqlite_measured() {
    let _turn = TURN.lock().await;
    let calls = Run::of(Backend::Sqlite, EntryKind::Notification, 3_000).play().await;
    assert!(calls.busiest_second() <= RATE as usize, "{} in a second", calls.busiest_second());
}

/// NTF-17: a limit of each process is caught.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow"]
async fn ntf_17_a_limit_of_each_process_is_caught_measured() {
    let _turn = TURN.lock().await;
    let run = Run::of(Backend::Postgres, EntryKind::Notification, 2_000);
    let calls = Run { bug: Some(PlantedBug::LimitOfEachProcess), ..run }.play().await;
    assert!(calls.busiest_second() > RATE as usize, "{} in a second", calls.busiest_second());
}

/// NTF-17: the invitations of a survey keep the same rate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow"]
async fn ntf_17_survey_invitations_keep_the_rate_measured() {
    let _turn = TURN.lock().await;
    let calls = Run::of(Backend::Postgres, EntryKind::Survey, 4_000).play().await;
    assert!(calls.busiest_second() <= RATE as usize, "{} in a second", calls.busiest_second());
    assert!(calls.used() >= 0.9, "{:.3} of the rate was used", calls.used());
}

/// NTF-17: over all processes no more sends are in flight than the limit, and more than one process's share.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow"]
async fn ntf_17_three_processes_keep_one_limit_in_flight_measured() {
    let _turn = TURN.lock().await;
    for (backend, kind) in
        [(Backend::Postgres, EntryKind::Survey), (Backend::Sqlite, EntryKind::Notification)]
    {
        let run = Run { slow: true, ..Run::of(backend, kind, 1_500) };
        let (most, used) = in_flight(&run.notes().await);
        println!("{backend:?}, {kind:?}: {most} of {IN_FLIGHT} in flight, {used:.1} on average");
        assert!(most <= i64::try_from(IN_FLIGHT).unwrap(), "{backend:?}, {kind:?}: {most} in flight");
        assert!(most > i64::try_from(IN_FLIGHT / PROCESSES).unwrap(), "{kind:?}: {most} is one process's");
    }
}

/// NTF-17: a limit in flight of each process is caught.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow"]
async fn ntf_17_a_limit_in_flight_of_each_process_is_caught_measured() {
    let _turn = TURN.lock().await;
    let run = Run::of(Backend::Postgres, EntryKind::Notification, 1_000);
    let run = Run { slow: true, bug: Some(PlantedBug::LimitOfEachProcess), ..run };
    let (most, _) = in_flight(&run.notes().await);
    assert!(most > i64::try_from(IN_FLIGHT).unwrap(), "{most} in flight");
}
