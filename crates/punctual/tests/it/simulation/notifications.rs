//! Notifications in a small world of their own: engines that crash at any call of the database and at any
//! letter, answers that get lost, providers that fail, refuse, and take without a word; events with their
//! doubles, bookings that are cancelled, and people who want no more (NTF-3, NTF-4, NTF-6, NTF-18).
//!
//! A letter is checked when it begins: its delivery waits, under a claim of this very engine that holds, and
//! nobody had said no when that was made. Notifications are checked after every transaction, and all of it in
//! the end. A seed is played twice, to the same trace.

use super::dice::Dice;
use crate::notification::{KIND, TOPIC, define};
use punctual::base::clock::{self, Clocks};
use punctual::base::random;
use punctual::rules::attempt::Patience;
use punctual::rules::backoff::Backoff;
use punctual::rules::channel::{ChannelPolicy, OnUnknown};
use punctual::rules::claim;
use punctual::rules::consent::{Reason, Scope};
use punctual::rules::entity::NewState;
use punctual::store::consent::NewSuppression;
use punctual::store::sqlite::simulated::{Answer, Database, FailedCommit, Later, Link, Request, Verb};
use punctual::testing::TemporaryStore;
use punctual::{Accepted, Engine, Entity, Error, Letter, NewMessage, NotSent, Result, Tenant, Timestamp};
use serde_json::json;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

const TENANT: Tenant = Tenant::DEFAULT;
/// Its provider has no second effect for a key.
const KNOWING: &str = "sms:knowing";
/// It sends again what nobody knows the outcome of.
const AGAIN: &str = "whatsapp:again";
/// It holds that.
const HOLDING: &str = "push:holding";
const LEASE: Duration = Duration::from_secs(3);
/// After healing, everything has ended within this time.
const PATIENCE: Duration = Duration::from_secs(600);
const BOOKINGS: u64 = 6;
const QUICK_SEEDS: u64 = 20;
const FULL_SEEDS: u64 = 600;

/// One call of a provider.
#[derive(Debug)]
struct Call {
    key: String,
    at: Timestamp,
    effect: bool,
    /// How long the caller was told to wait.
    wait: Option<Duration>,
}

struct State {
    dice: Dice,
    calls: Vec<Call>,
    /// Addresses and bookings, with the moment since which nobody may be told.
    silent: BTreeMap<String, Timestamp>,
    faults: BTreeMap<&'static str, usize>,
    trace: Vec<String>,
    violation: Option<String>,
    healed: bool,
}

struct World {
    database: Database,
    epoch: Instant,
    state: Mutex<State>,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("World")
    }
}

impl World {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn now(&self) -> Timestamp {
        TemporaryStore::START.plus(self.epoch.elapsed())
    }

    fn say(&self, actor: &str, what: &str) {
        let at = self.epoch.elapsed().as_secs_f64();
        self.state().trace.push(format!("{at:>9.3} {actor:<7} {what}"));
    }

    fn judge(&self, broken: Option<String>) {
        if let Some(why) = broken {
            let now = self.now();
            self.state().violation.get_or_insert_with(|| format!("at {now}, {why}"));
        }
    }

    /// Whether something goes wrong now, so many times in a thousand.
    fn fault(&self, what: &'static str, per_mille: u64) -> bool {
        let mut state = self.state();
        let happens = !state.healed && state.dice.chance(per_mille);
        if happens {
            *state.faults.entry(what).or_default() += 1;
        }
        happens
    }

    fn texts(&self, sql: &str) -> Vec<Vec<String>> {
        let read = self.database.directly(|connection| {
            let mut statement = connection.prepare_cached(sql)?;
            let columns = statement.column_count();
            let one = |row: &rusqlite::Row<'_>| {
                (0..columns).map(|n| row.get::<_, Option<String>>(n).map(Option::unwrap_or_default)).collect()
            };
            let rows = statement.query_map([], one)?;
            rows.collect()
        });
        read.expect("tables to read")
    }
}

/// One engine's link.
#[derive(Debug)]
struct Wire {
    world: Arc<World>,
    name: String,
    exposed: bool,
    dead: AtomicBool,
    died: Notify,
}

impl Wire {
    fn new(world: &Arc<World>, name: &str, exposed: bool) -> Arc<Self> {
        let (dead, died) = (AtomicBool::new(false), Notify::new());
        Arc::new(Self { world: Arc::clone(world), name: name.into(), exposed, dead, died })
    }

    /// The engine is gone: whatever it waits for never comes.
    async fn die(&self, what: &str) -> ! {
        if !self.dead.swap(true, Ordering::Relaxed) {
            self.world.say(&self.name, &format!("dies: {what}"));
            self.died.notify_one();
        }
        std::future::pending().await
    }

    async fn fault(&self, what: &'static str, per_mille: u64) -> bool {
        if self.dead.load(Ordering::Relaxed) {
            self.die(what).await;
        }
        self.exposed && self.world.fault(what, per_mille)
    }

    async fn send(&self) -> Result<Request> {
        let latency = self.world.state().dice.millis(0..=15);
        sleep(latency).await;
        if self.fault("crash before a transaction", 6).await {
            self.die("before a transaction").await;
        }
        if self.fault("request late", 8).await {
            let late = self.world.state().dice.millis(1_000..=8_000);
            sleep(late).await;
        }
        if self.fault("request lost", 12).await {
            return Err(Error::Unavailable("the request was lost".into()));
        }
        let fails = self.fault("statement failed", 12).await;
        let fails_at = fails.then(|| self.world.state().dice.count(1..=6));
        let mut commit_fails = None;
        if self.fault("commit refused", 4).await {
            commit_fails = Some(FailedCommit::Refused);
        } else if self.fault("commit unknown", 8).await {
            commit_fails = Some(FailedCommit::Unknown);
        }
        Ok(Request { fails_at, commit_fails })
    }

    async fn receive(&self, answer: Answer) -> Result<()> {
        if self.fault("crash after a transaction", 6).await {
            self.die("after a transaction").await;
        }
        if self.fault("answer late", 8).await {
            let late = self.world.state().dice.millis(1_000..=8_000);
            sleep(late).await;
        }
        if answer.committed && self.fault("answer lost", 10).await {
            return Err(Error::Unknown("the answer was lost".into()));
        }
        Ok(())
    }
}

impl Link for Wire {
    fn now(&self) -> Timestamp {
        self.world.now()
    }

    fn request(&self, _: Verb) -> Later<'_, Result<Request>> {
        Box::pin(self.send())
    }

    fn answer(&self, verb: Verb, answer: Answer) -> Later<'_, Result<()>> {
        if answer.committed && answer.wrote {
            self.world.say(&self.name, &format!("{}:{}", verb.file(), verb.line()));
            self.world.judge(notifications_agree(&self.world));
            self.world.judge(each_in_one_place(&self.world));
        }
        Box::pin(self.receive(answer))
    }

    fn notify(&self) -> Later<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }

    fn heard(&self) -> Later<'_, Result<()>> {
        Box::pin(std::future::pending())
    }
}

/// A notification counts what its deliveries are, and stands as they do.
fn notifications_agree(world: &World) -> Option<String> {
    let sql = "select cast(n.id as text), cast(n.status as text), cast(n.open as text), \
        cast(sum(d.status = 0) as text), cast(sum(d.status = 1) as text), \
        cast(sum(d.status in (3, 5)) as text) \
        from punctual_entry n join punctual_delivery d on d.entry_id = n.id group by n.id";
    world.texts(sql).into_iter().find_map(|row| {
        let want = match (row[3].as_str(), row[5].as_str(), row[4].as_str()) {
            ("0", "0", "0") => "5",
            ("0", "0", _) => "1",
            ("0", ..) => "6",
            _ => "0",
        };
        let good = row[1] == want && row[2] == row[3];
        (!good).then(|| format!("a notification does not stand as its deliveries do: {row:?}, not {want}"))
    })
}

/// A delivery that is to be sent waits or is in flight, once.
fn each_in_one_place(world: &World) -> Option<String> {
    let waiting = world.texts(
        "select '[[' || lane_id || ',0,0,[' || message_id || ']]]' from punctual_work w \
            join punctual_lane l on l.id = w.lane_id and l.purpose = 'send'",
    );
    let flying = world.texts(
        "select coalesce(open, items) from punctual_claim where finished_at is null and purpose = 'send'",
    );
    let mut places: BTreeMap<i64, usize> = BTreeMap::new();
    for row in waiting.iter().chain(&flying) {
        for of in claim::read(&row[0]).unwrap().iter().map(|item| item.delivery()) {
            *places.entry(of.0).or_default() += 1;
        }
    }
    let pending = world.texts("select cast(id as text) from punctual_delivery where status = 0");
    pending.iter().find_map(|row| {
        let here = places.get(&row[0].parse().unwrap()).copied().unwrap_or_default();
        (here != 1).then(|| format!("delivery {} is to be sent, and is in {here} places", row[0]))
    })
}

/// Whether this letter may begin: what is wrong with it if not.
fn may_begin(wire: &Wire, letter: &Letter) -> Option<String> {
    let (world, key) = (&wire.world, &letter.idempotency_key);
    let sql = "select cast(id as text), idempotency_key, cast(status as text) from punctual_delivery";
    let rows = world.texts(sql);
    let Some(row) = rows.iter().find(|row| row[1] == *key && row[2] == "0") else {
        return Some(format!("{} began {key}, which does not wait", wire.name));
    };
    let id: i64 = row[0].parse().unwrap();
    let sql = "select owner, cast(lease_until as text), cast(claimed_at as text), coalesce(open, items) \
        from punctual_claim where finished_at is null and purpose = 'send'";
    let holds = |row: &&Vec<String>| claim::read(&row[3]).unwrap().iter().any(|item| item.delivery().0 == id);
    let claims = world.texts(sql);
    let Some(claim) = claims.iter().find(holds) else {
        return Some(format!("{} began {key} without a claim", wire.name));
    };
    if claim[0] != wire.name || claim[1].parse::<i64>().unwrap() <= world.now().as_micros() {
        return Some(format!("{} began {key} under {claim:?}", wire.name));
    }
    let claimed = Timestamp::from_micros(claim[2].parse().unwrap());
    let booking = key.split(':').next().unwrap();
    let state = world.state();
    let no = [booking, &letter.to].into_iter().find_map(|of| state.silent.get(of));
    let since = no.filter(|since| **since < claimed)?;
    Some(format!("{} began {key}, which nobody wanted since {since}: {claim:?}", wire.name))
}

/// What every channel does.
async fn take(wire: Arc<Wire>, letter: Arc<Letter>) -> std::result::Result<Accepted, NotSent> {
    let world = &wire.world;
    if wire.dead.load(Ordering::Relaxed) {
        return std::future::pending().await;
    }
    world.judge(may_begin(&wire, &letter));
    let healed = world.state().healed;
    let manner = if healed { 0 } else { world.state().dice.from(0..=99) };
    world.say(&wire.name, &format!("begins {}: {manner}", letter.idempotency_key));
    let effect = |wait, taken: bool| {
        let (key, at) = (letter.idempotency_key.clone(), world.now());
        let mut state = world.state();
        let known =
            letter.channel == KNOWING && state.calls.iter().any(|call| call.key == key && call.effect);
        state.calls.push(Call { key, at, effect: taken && !known, wait });
    };
    let transient = |retry_after| Err(NotSent::Transient { error: "busy".into(), retry_after });
    match manner {
        50..=54 => {
            effect(None, true);
            let slow = world.state().dice.millis(1_000..=6_000);
            sleep(slow).await;
        }
        55..=69 => {
            effect(None, false);
            return transient(None);
        }
        70..=75 => {
            let wait = world.state().dice.millis(500..=5_000);
            effect(Some(wait), false);
            return transient(Some(wait));
        }
        76..=80 => {
            effect(None, false);
            return Err(NotSent::Permanent { error: "no such number".into() });
        }
        81..=84 => {
            effect(None, manner < 83);
            return Err(NotSent::NoAnswer { error: "no answer".into() });
        }
        85..=90 => {
            effect(None, manner < 88);
            return Err(NotSent::Unknown { error: "what?".into() });
        }
        91..=93 => {
            effect(None, true);
            std::panic::resume_unwind(Box::new("a planned panic"));
        }
        94..=96 => {
            *world.state().faults.entry("crash before a letter").or_default() += 1;
            wire.die("before a letter").await;
        }
        97..=99 => {
            effect(None, true);
            *world.state().faults.entry("crash after a letter").or_default() += 1;
            wire.die("after a letter").await;
        }
        _ => effect(None, true),
    }
    Ok(Accepted::default())
}

async fn open(wire: &Arc<Wire>, tries: u32) -> Result<Engine> {
    let mut builder = Engine::builder("simulated")
        .on_store(wire.world.database.store(Arc::clone(wire) as _))
        .without_migrations()
        .owner(wire.name.clone())
        .lease(LEASE)
        .max_polling_interval(Duration::from_secs(1));
    for (key, unknown) in
        [(KNOWING, OnUnknown::Resend), (AGAIN, OnUnknown::Resend), (HOLDING, OnUnknown::Hold)]
    {
        let backoff = Backoff::Exponential { from: Duration::from_millis(200), to: Duration::from_secs(2) };
        let patience = Some(Patience { max_attempts: tries, backoff });
        let policy = ChannelPolicy { unknown, patience, ..ChannelPolicy::default() };
        let wire = Arc::clone(wire);
        let channel = move |letter: Arc<Letter>| take(Arc::clone(&wire), letter);
        builder = builder.channel_policy(key, policy).channel(key, channel);
    }
    builder.open().await
}

/// One engine after the other in one place.
async fn node(world: Arc<World>, index: usize, tries: u32) {
    for incarnation in 1.. {
        let wire = Wire::new(&world, &format!("n{index}.{incarnation}"), true);
        let living = async {
            loop {
                match open(&wire, tries).await {
                    Ok(engine) => {
                        engine.start();
                        std::future::pending::<()>().await;
                    }
                    Err(_) => sleep(Duration::from_secs(1)).await,
                }
            }
        };
        tokio::select! {
            biased;
            () = wire.died.notified() => {}
            () = living => {}
        }
        let pause = world.state().dice.millis(50..=3_000);
        sleep(pause).await;
    }
}

/// Events with their doubles; bookings that are cancelled; people who want no more.
async fn happenings(world: &Arc<World>, keeper: &Engine) -> Result<()> {
    let acts = world.state().dice.count(6..=16);
    for _ in 0..acts {
        let (pause, act, n) = {
            let dice = &mut world.state().dice;
            (dice.millis(0..=2_500), dice.from(0..=9), dice.from(1..=BOOKINGS))
        };
        sleep(pause).await;
        let (booking, phone) = (format!("b{n}"), format!("+96477000000{n}"));
        match act {
            0 => {
                let state = json!({"status": "Cancelled"}).to_string();
                let entity = Entity { kind: "booking".into(), id: booking.clone() };
                keeper.store().put_entity(TENANT, NewState { entity, state, version: None }).await?;
                let now = world.now();
                world.state().silent.entry(booking).or_insert(now);
            }
            1 => {
                let scope = Scope { channel: None, kind: None };
                let by = "recipient".to_owned();
                let wish = NewSuppression {
                    told_at: None,
                    address: phone.clone(),
                    scope,
                    reason: Reason::Unsubscribe,
                    by,
                };
                keeper.store().suppress(TENANT, wish).await?;
                let now = world.now();
                world.state().silent.entry(phone).or_insert(now);
            }
            _ => {
                let payload = json!({"bookingId": booking, "guest": {"phone": phone}});
                keeper.enqueue(TENANT, vec![NewMessage::new(TOPIC, KIND, payload.to_string())]).await?;
            }
        }
    }
    Ok(())
}

async fn set(world: &Arc<World>) -> Result<Engine> {
    let keeper = Wire::new(world, "keeper", false);
    let keeper = Engine::builder("simulated").on_store(world.database.store(keeper)).open().await?;
    let cancelled = json!({"questionId": "entity.status", "op": "==", "value": "Cancelled"});
    define(&keeper, TENANT, |kind| kind["cancelWhen"] = cancelled).await;
    for channel in [KNOWING, AGAIN, HOLDING] {
        crate::notification::template(&keeper, TENANT, channel, "Confirmed {{bookingId}}").await;
    }
    Ok(keeper)
}

const LEFT: &str = "select cast(w.message_id as text) from punctual_work w \
    join punctual_lane l on l.id = w.lane_id \
    where l.subscription = '/flows' or l.purpose = 'send' \
    union all select token from punctual_claim where finished_at is null \
    union all select cast(id as text) from punctual_entry where status = 0";

async fn phases(world: &Arc<World>) {
    let keeper = set(world).await.unwrap();
    let (nodes, tries) = {
        let dice = &mut world.state().dice;
        (dice.count(1..=3), *dice.pick(&[2, 5, 30]))
    };
    for index in 0..nodes {
        tokio::spawn(node(Arc::clone(world), index, tries));
    }
    happenings(world, &keeper).await.unwrap();
    let trouble = world.state().dice.millis(0..=20_000);
    sleep(trouble).await;
    world.state().healed = true;
    world.say("world", "heals");
    let healed = world.epoch.elapsed();
    while !world.texts(LEFT).is_empty() && world.state().violation.is_none() {
        if world.epoch.elapsed() > healed + PATIENCE {
            world.judge(Some(format!("this is left {PATIENCE:?} after healing: {:?}", world.texts(LEFT))));
        }
        sleep(Duration::from_millis(500)).await;
    }
    let calls = std::mem::take(&mut world.state().calls);
    world.judge(judge(world, &calls));
}

/// Whether a call came before the one before it had allowed. What that said may have died with its engine:
/// it counts if it was written down.
fn is_early(learnt: &[Vec<String>], before: &Call, next: &Call) -> bool {
    let within = |at: &str| (before.at..=next.at).contains(&Timestamp::from_micros(at.parse().unwrap()));
    before.wait.is_some_and(|wait| next.at < before.at.plus(wait))
        && learnt.iter().any(|row| row[0] == before.key && within(&row[1]))
}

/// What is wrong in the end, if anything is.
fn judge(world: &World, calls: &[Call]) -> Option<String> {
    // One that was skipped makes way for a later one of its key, so what counts is the key.
    let tries = "(select count(*) from punctual_delivery_attempt a where a.delivery_id = d.id";
    let sql = format!(
        "select d.idempotency_key, d.channel, cast(sum(d.status = 1) as text), \
            cast(sum({tries})) as text), \
            cast(sum({tries} and a.outcome in ('timeout', 'unknown'))) as text), \
            cast(sum(d.status = 0) as text) \
         from punctual_delivery d group by d.idempotency_key, d.channel"
    );
    let learnt = world.texts(
        "select d.idempotency_key, cast(a.at as text) from punctual_delivery_attempt a \
            join punctual_delivery d on d.id = a.delivery_id where a.outcome = 'transient'",
    );
    // Whatever a channel does with an unknown outcome, in the end it says so. One that is not wanted any more
    // after that may have failed in between.
    let uncertain = world.texts(&format!(
        "select d.idempotency_key from punctual_delivery d \
         where d.status = 5 and {tries} and a.outcome in ('timeout', 'unknown')) = 0"
    ));
    if let Some(row) = uncertain.first() {
        return Some(format!("{row:?} is uncertain, and none of its tries was"));
    }
    let mut known = std::collections::BTreeSet::new();
    let mut broken = world.texts(&sql).into_iter().filter_map(|row| {
        let [key, channel, sent, tries, ambiguous, open] = row.as_slice() else { unreachable!() };
        known.insert(key.clone());
        let of: Vec<&Call> = calls.iter().filter(|call| call.key == *key).collect();
        let effects = of.iter().filter(|call| call.effect).count();
        let number = |text: &String| text.parse::<usize>().unwrap();
        let sent = number(sent);
        let said = if of.len() > number(tries) {
            "was called more often than the log says"
        } else if sent > 1 {
            "is said to be sent twice"
        } else if effects < sent {
            "is said to be sent, and was not"
        } else if effects > sent + number(ambiguous) {
            "had effects that the log does not account for"
        } else if channel != AGAIN && effects > 1 {
            "had two effects"
        } else if of.windows(2).any(|pair| is_early(&learnt, pair[0], pair[1])) {
            "came again before its provider wanted it"
        } else if open != "0" {
            "has not ended"
        } else {
            return None;
        };
        Some(format!("{key} {said}: {row:?}, {of:?}"))
    });
    let first = broken.next();
    drop(broken);
    let stray = calls.iter().find(|call| !known.contains(&call.key));
    first.or_else(|| stray.map(|call| format!("{call:?} is of nothing in the log")))
}

thread_local! {
    static HERE: RefCell<Option<Dice>> = const { RefCell::new(None) };
}

fn fill(bytes: &mut [u8]) {
    HERE.with_borrow_mut(|dice| dice.as_mut().expect("a world around this thread").fill(bytes));
}

/// Plays a seed; answers what happened, and what went wrong on the way.
fn play(seed: u64) -> State {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().unwrap();
    HERE.set(Some(Dice::new(!seed)));
    clock::pretend(Some(Clocks { wall: || TemporaryStore::START, monotonic: || Instant::now().into_std() }));
    random::pretend(Some(fill));
    let world = runtime.block_on(async {
        let state = State {
            dice: Dice::new(seed),
            calls: Vec::new(),
            silent: BTreeMap::new(),
            faults: BTreeMap::new(),
            trace: Vec::new(),
            violation: None,
            healed: false,
        };
        let database = Database::new().unwrap();
        let world = Arc::new(World { database, epoch: Instant::now(), state: Mutex::new(state) });
        phases(&world).await;
        world
    });
    // What engines still do ends with them.
    drop(runtime);
    clock::pretend(None);
    random::pretend(None);
    let mut state = world.state();
    State {
        dice: state.dice.clone(),
        calls: Vec::new(),
        silent: std::mem::take(&mut state.silent),
        faults: std::mem::take(&mut state.faults),
        trace: std::mem::take(&mut state.trace),
        violation: state.violation.take(),
        healed: true,
    }
}

fn play_many(seeds: u64) {
    let first = super::first_seed().unwrap_or(1);
    let (mut faults, mut letters, mut silent) = (BTreeMap::<&str, usize>::new(), 0, 0);
    for seed in first..first + seeds {
        let (one, again) = (play(seed), play(seed));
        if let Some(why) = &one.violation {
            let tail: Vec<&String> = one.trace.iter().rev().take(60).rev().collect();
            panic!("Seed {seed} breaks a promise: {why}\n{tail:#?}\nPUNCTUAL_SEED={seed} plays it again");
        }
        let differs = one.trace.iter().zip(&again.trace).find(|(a, b)| a != b);
        assert!(differs.is_none(), "seed {seed} is not played the same way twice: {differs:?}");
        for (what, times) in one.faults {
            *faults.entry(what).or_default() += times;
        }
        letters += one.trace.iter().filter(|line| line.contains(" begins ")).count();
        silent += one.silent.len();
    }
    println!("{seeds} seeds from {first}: {letters} letters, {silent} times somebody said no, {faults:?}");
    assert!(faults.len() == 11 && letters > 0 && silent > 0, "too little happened to show anything");
}

/// NTF-3, NTF-4, NTF-6, NTF-18: whatever happens to engines and links, nothing is lost or doubled in silence.
#[test]
fn ntf_4_simulated_notices_keep_their_promises() {
    play_many(QUICK_SEEDS);
}

/// The same with more seeds.
#[test]
#[ignore = "slow"]
fn ntf_4_simulated_notices_keep_their_promises_for_long() {
    play_many(FULL_SEEDS);
}
