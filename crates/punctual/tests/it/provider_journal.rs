//! Events told by three channels while workers are killed at random, held against the journal of a provider
//! that fails, refuses, and takes letters without a word.
//!
//! One channel's provider knows its keys, the others' does not; of those one sends again what nobody knows
//! the outcome of, but only once what was answered and not understood, the other holds it. `PUNCTUAL_SEED`
//! repeats what the provider answers and who is killed when.

mod judge;
mod provider;

use crate::bench::TENANT;
use crate::chaos::{TURN, dice, seed};
use crate::engine::Live;
use crate::notification::{KIND, TOPIC, booking, define, template};
use crate::poison::{Notes, Worker};
use provider::{Made, Provider};
use punctual::base::backoff::Backoff;
use punctual::base::clock::monotonic;
use punctual::delivery::rules::channel::{ChannelPolicy, UnknownOutcomePolicy};
use punctual::queue::rules::attempt::RetryPolicy;
use punctual::testing::Backend;
use punctual::{Engine, NewMessage, RenderedMessage};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const DATABASE: &str = "PUNCTUAL_TEST_JOURNAL_DATABASE";
const SOCKET: &str = "PUNCTUAL_TEST_JOURNAL_SOCKET";

/// Its provider has no second effect for a key.
const KNOWING: &str = "sms:knowing";
/// It sends again what nobody knows the outcome of.
const AGAIN: &str = "whatsapp:again";
/// It holds that.
const HOLDING: &str = "email:holding";

const LEASE: Duration = Duration::from_secs(1);
/// Nothing is given up but what is refused.
const TRIES: u32 = 60;
const WAIT: Duration = Duration::from_millis(20);
const WAIT_MAX: Duration = Duration::from_millis(200);
/// Everything has ended by then.
const CALM_MAX: Duration = Duration::from_secs(150);

/// How big a round is.
struct Size {
    events: usize,
    processes: usize,
    /// Workers that are killed, at least.
    kills: usize,
}

/// A worker, if the environment says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process() {
    let (Ok(database), Some(socket)) = (std::env::var(DATABASE), std::env::var_os(SOCKET)) else { return };
    // The test's end of the pipe closes with it: no worker outlives its test.
    std::thread::spawn(|| {
        std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).ok();
        std::process::exit(0);
    });
    let builder = Engine::builder(database).pool_size(4).without_migrations().lease(LEASE);
    let mut builder = builder.max_polling_interval(Duration::from_millis(500));
    for (key, unknown) in [
        (KNOWING, UnknownOutcomePolicy::Resend),
        (AGAIN, UnknownOutcomePolicy::Resend),
        (HOLDING, UnknownOutcomePolicy::Hold),
    ] {
        let patience =
            RetryPolicy { max_attempts: TRIES, backoff: Backoff::Exponential { from: WAIT, to: WAIT_MAX } };
        let policy = ChannelPolicy { unknown, patience: Some(patience), ..ChannelPolicy::default() };
        let socket = PathBuf::from(&socket);
        let channel = move |letter: Arc<RenderedMessage>| {
            provider::call(socket.clone(), format!("{} {}\n", letter.channel, letter.idempotency_key))
        };
        builder = builder.channel_policy(key, policy).channel(key, channel);
    }
    let engine = builder.open().await.unwrap();
    engine.start();
    std::future::pending().await
}

async fn publish(keeper: &Engine, events: usize) {
    for batch in (0..events).collect::<Vec<_>>().chunks(500) {
        let one = |n: &usize| NewMessage::new(TOPIC, KIND, booking(&n.to_string()).to_string());
        keeper.enqueue(TENANT, batch.iter().map(one).collect()).await.unwrap();
    }
}

/// Kills workers, one after the other, until everything has come to an end; answers how many.
async fn trouble(live: &Live, size: &Size, seed: u64, hire: impl Fn() -> Worker) -> usize {
    let mut workers: Vec<Worker> = (0..size.processes).map(|_| hire()).collect();
    let (begun, mut kills) = (monotonic(), 0);
    // Enough is enough: towards the end they are left in peace, or nothing would ever be done.
    let most = size.kills * 4;
    let ended =
        format!("select count(*) from punctual.entry where status <> 0 having count(*) = {}", size.events);
    while live.texts(&ended).await.is_empty() || kills < size.kills {
        let drawn = dice(!seed, kills as u64);
        tokio::time::sleep(Duration::from_millis(250 + drawn % 400)).await;
        assert!(workers.iter_mut().all(|worker| !worker.has_ended()), "a worker ended by itself");
        if kills < most {
            let slot = usize::try_from(drawn >> 32).unwrap() % workers.len();
            workers[slot].kill();
            workers[slot] = hire();
            kills += 1;
        }
        if begun.elapsed() > CALM_MAX {
            let open = live.count("select count(*) from punctual.delivery where status = 0").await;
            let work =
                live.texts("select lane_id, count(*), min(due_at) from punctual.work group by 1").await;
            panic!("after {CALM_MAX:?} {open} deliveries wait, and as work {work:?}");
        }
    }
    kills
}

async fn play(backend: Backend, size: Size) {
    let seed = seed();
    let live = Live::on(backend).await;
    let keeper = live.builder().open().await.unwrap();
    define(&keeper, TENANT, |_| {}).await;
    for channel in ["SMS", "WhatsApp", "Email"] {
        template(&keeper, TENANT, channel, "Confirmed {{bookingId}}").await;
    }
    let notes = Notes::new();
    let provider = Provider::open(notes.folder(), seed, KNOWING);
    let environment = [(DATABASE, live.url().into()), (SOCKET, provider.socket().as_os_str().to_owned())];
    let hire = || Worker::spawn("provider_journal::process", &environment);
    let begun = monotonic();
    publish(&keeper, size.events).await;
    let kills = trouble(&live, &size, seed, hire).await;
    let taken = begun.elapsed();

    let calls = provider.calls();
    let (broken, ambiguous) = judge::judge(&live, &calls, size.events).await;
    let made = |what: &[Made]| calls.iter().filter(|call| what.contains(&call.made)).count();
    let lost = "select count(*) from punctual.delivery_attempt where error like 'the sender crashed%'";
    let lost = live.count(lost).await;
    println!(
        "{backend:?}: {} events in {taken:.1?}, {kills} workers killed; {} calls, {} effects, {} failed, \
         {} of them asked for time, {} refused, {} without a word, {} without sense; \
         {ambiguous} tries of unknown outcome, {lost} of them lost with their worker; \
         {} calls for what was taken before had no effect",
        size.events,
        calls.len(),
        made(&[Made::Effect, Made::SilentEffect, Made::MuddledEffect]),
        made(&[Made::Transient, Made::Wait]),
        made(&[Made::Wait]),
        made(&[Made::Refused]),
        made(&[Made::SilentEffect]),
        made(&[Made::MuddledEffect]),
        made(&[Made::Known]),
    );
    assert!(broken.is_empty(), "{} such as\n{}", broken.len(), broken[..broken.len().min(12)].join("\n"));
    assert!(kills >= size.kills, "only {kills} workers were killed, so little was shown");
    assert!(made(&[Made::Wait]) > 0 && made(&[Made::Refused]) > 0, "the provider was too kind");
    assert!(size.events < 1_000 || lost > 0, "no try was lost with its worker, so little was shown");
}

/// NTF-4, NTF-12: 20,000 events, three channels, a provider that fails, refuses and takes without a word, and
/// workers that are killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow"]
async fn ntf_4_twenty_thousand_events_against_the_providers_journal_measured() {
    let _turn = TURN.lock().await;
    play(Backend::Postgres, Size { events: 20_000, processes: 3, kills: 15 }).await;
}

/// NTF-4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow"]
async fn ntf_4_the_providers_journal_on_sqlite() {
    let _turn = TURN.lock().await;
    play(Backend::Sqlite, Size { events: 2_000, processes: 2, kills: 6 }).await;
}

/// NTF-4: a taste of it for the inner loop.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ntf_4_a_few_events_against_the_providers_journal() {
    let size = || Size { events: 200, processes: 2, kills: 1 };
    tokio::join!(play(Backend::Sqlite, size()), play(Backend::Postgres, size()));
}
