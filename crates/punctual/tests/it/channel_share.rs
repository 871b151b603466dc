//! The rate of a channel over three processes on one database, also while processes are killed.
//!
//! Every worker writes down when it begins each call, by the clock that they share. The judge counts the
//! calls of every second that begins with one.

use crate::bench::TENANT;
use crate::chaos::TURN;
use crate::engine::Live;
use crate::notification::{KIND, TOPIC, booking, define, template};
use crate::poison::{Notes, Worker};
use punctual::base::clock::{host_now, monotonic};
use punctual::database::planted::Bug;
use punctual::delivery::rules::channel::ChannelPolicy;
use punctual::testing::Backend;
use punctual::{Accepted, Engine, NewMessage, RenderedMessage, Store};
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const DATABASE: &str = "PUNCTUAL_TEST_SHARE_DATABASE";
const FOLDER: &str = "PUNCTUAL_TEST_SHARE_FOLDER";
const BUG: &str = "PUNCTUAL_TEST_SHARE_BUG";
const RATE: u32 = 200;
const PROCESSES: usize = 3;
const SECOND_US: i64 = 1_000_000;
/// How long a provider takes to answer.
const CALL: Duration = Duration::from_millis(10);

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
    let channel = move |_: Arc<RenderedMessage>| {
        let line = format!("{}\n", host_now().as_micros());
        // One write: a line is whole or not there.
        file.lock().unwrap().write_all(line.as_bytes()).unwrap();
        async {
            tokio::time::sleep(CALL).await;
            Ok(Accepted { message_id: None, answer: None })
        }
    };
    let policy = ChannelPolicy { rate_per_second: Some(RATE), ..ChannelPolicy::default() };
    let mut store = Store::open(&database, 4).unwrap();
    if let Ok(bug) = std::env::var(BUG) {
        store = store.with_bug(Bug::named(&bug).unwrap());
    }
    let builder =
        Engine::builder(database).on_store(store).without_migrations().lease(Duration::from_secs(5));
    let builder = builder.channel_policy("sms:limited", policy).channel("sms:limited", channel);
    let engine = builder.open().await.unwrap();
    engine.start();
    std::future::pending().await
}

/// The calls of a run, in order, in microseconds.
struct Calls(Vec<i64>);

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

/// Lets three workers send so many messages, and kills one now and then.
async fn play(backend: Backend, messages: usize, kill_every: Option<Duration>, bug: Option<Bug>) -> Calls {
    let live = Live::on(backend).await;
    let keeper = live.builder().open().await.unwrap();
    define(&keeper, TENANT, |_| {}).await;
    template(&keeper, TENANT, "sms:limited", "Confirmed {{bookingId}}").await;
    let notes = Notes::new();
    let mut environment =
        vec![(DATABASE, live.url().into()), (FOLDER, notes.folder().as_os_str().to_owned())];
    environment.extend(bug.map(|bug| (BUG, bug.name().into())));
    for batch in (0..messages).collect::<Vec<_>>().chunks(500) {
        let one = |n: &usize| NewMessage::new(TOPIC, KIND, booking(&n.to_string()).to_string());
        keeper.enqueue(TENANT, batch.iter().map(one).collect()).await.unwrap();
    }
    let hire = || Worker::spawn("channel_share::process", &environment);
    let mut workers: Vec<Worker> = (0..PROCESSES).map(|_| hire()).collect();
    let (begun, mut killed) = (monotonic(), 0);
    while notes.read().len() < messages {
        tokio::time::sleep(Duration::from_millis(250)).await;
        assert!(workers.iter_mut().all(|worker| !worker.has_ended()), "a worker ended by itself");
        if kill_every.is_some_and(|every| begun.elapsed() > every * (killed + 1)) {
            let slot = usize::try_from(killed).unwrap() % PROCESSES;
            workers[slot].kill();
            workers[slot] = hire();
            killed += 1;
        }
        let sent = notes.read().len();
        assert!(begun.elapsed() < Duration::from_secs(240), "{sent} of {messages} messages were sent");
    }
    let mut calls = notes.read();
    calls.sort_unstable();
    let calls = Calls(calls);
    println!(
        "{backend:?}: {} calls, {killed} workers killed, {} in the busiest second of {RATE}, {:.1} % used",
        calls.0.len(),
        calls.busiest_second(),
        calls.used() * 100.0
    );
    assert!(kill_every.is_none() || killed > 1, "only {killed} workers were killed");
    calls
}

/// NTF-17: in no second more than the rate, and most of it in use.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow"]
async fn ntf_17_three_processes_keep_one_rate_measured() {
    let _turn = TURN.lock().await;
    let calls = play(Backend::Postgres, 10_000, None, None).await;
    assert!(calls.busiest_second() <= RATE as usize, "{} in a second", calls.busiest_second());
    assert!(calls.used() >= 0.9, "{:.3} of the rate was used", calls.used());
}

/// NTF-17: also while processes are killed, whose shares are free only when their leases are over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow"]
async fn ntf_17_killed_processes_neither_exceed_nor_waste_a_rate_measured() {
    let _turn = TURN.lock().await;
    let calls = play(Backend::Postgres, 10_000, Some(Duration::from_secs(20)), None).await;
    assert!(calls.busiest_second() <= RATE as usize, "{} in a second", calls.busiest_second());
    assert!(calls.used() >= 0.9, "{:.3} of the rate was used", calls.used());
}

/// NTF-17: on one file, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow"]
async fn ntf_17_three_processes_keep_one_rate_on_sqlite_measured() {
    let _turn = TURN.lock().await;
    let calls = play(Backend::Sqlite, 3_000, None, None).await;
    assert!(calls.busiest_second() <= RATE as usize, "{} in a second", calls.busiest_second());
}

/// NTF-17: a limit of each process is caught.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow"]
async fn ntf_17_a_limit_of_each_process_is_caught_measured() {
    let _turn = TURN.lock().await;
    let calls = play(Backend::Postgres, 2_000, None, Some(Bug::LimitOfEachProcess)).await;
    assert!(calls.busiest_second() > RATE as usize, "{} in a second", calls.busiest_second());
}
