//! What goes on in a run: engines that come and go, publishers, remote workers, handlers, and
//! somebody who makes trouble. Timers, jobs, leases and the inbox have files of their own.

use super::checker::OPERATOR;
use super::dice::Dice;
use super::faults::{Kind, Wire};
use super::truth::{Fate, Run, Truth};
use super::world::{Plan, World, honestly};
use super::{people, provider};
use punctual::access::store::tenants::NewTenant;
use punctual::base::backoff::Backoff;
use punctual::base::id::LaneId;
use punctual::delivery::rules::channel::{ChannelPolicy, UnknownOutcomePolicy};
use punctual::queue::rules::attempt::{Retry, RetryPolicy};
use punctual::queue::rules::share::LaneQuota;
use punctual::queue::store::claims::{ClaimRequest, ClaimedItem};
use punctual::queue::store::settle::{SettleAction, SettleOutcome, Settlement};
use punctual::{Engine, HandlerError, HandlerResult, MessageId, NewMessage, Store, Tenant, Timestamp, Work};
use std::sync::Arc;
use std::time::Duration;

/// Topics that are there from the beginning, and one that nobody has declared.
const TOPICS: [&str; 3] = ["orders", "visits", "bills"];
const UNDECLARED: &str = "surprises";
const KEYS: [&str; 3] = ["a", "b", "c"];

/// Who publishes what for whom.
pub struct Scene {
    pub world: Arc<World>,
    pub tenants: Vec<Tenant>,
    pub lanes: Vec<LaneId>,
    pub operator: Store,
}

impl Scene {
    /// Makes the schema, the tenants and the queues.
    pub async fn set(world: &Arc<World>) -> punctual::Result<Self> {
        let wire = Wire::new(world, OPERATOR.into(), false, false);
        let operator = world.database.store(wire);
        operator.migrate().await?;
        let plan = world.state().plan.clone();
        let mut tenants = vec![Tenant::DEFAULT];
        if plan.tenants > 1 {
            let acme = NewTenant { slug: "acme".into(), name: "Acme".into(), ..NewTenant::default() };
            tenants.push(operator.create_tenant(acme).await?.tenant);
        }
        let mut lanes = Vec::new();
        for tenant in &tenants {
            for topic in &TOPICS[..plan.topics] {
                let settings = settings(&mut world.state().dice);
                lanes.push(operator.set_queue(*tenant, topic, settings).await?.id);
            }
        }
        let scene = Self { world: Arc::clone(world), tenants, lanes, operator };
        scene.declare_jobs(&TOPICS[..plan.topics]).await?;
        scene.publish_surveys().await?;
        Ok(scene)
    }

    pub async fn pause(&self, topic: &str, paused: bool) -> punctual::Result<()> {
        let change = serde_json::json!({ "paused": paused }).as_object().unwrap().clone();
        for tenant in &self.tenants {
            self.operator.set_queue(*tenant, topic, change.clone()).await?;
        }
        Ok(())
    }

    pub async fn resume_all(&self) -> punctual::Result<()> {
        let topics = self.world.state().plan.topics;
        for topic in &TOPICS[..topics] {
            self.pause(topic, false).await?;
        }
        Ok(())
    }

    pub async fn replay_all(&self) -> punctual::Result<()> {
        for tenant in &self.tenants {
            self.operator.replay(*tenant, Default::default(), false).await?;
        }
        Ok(())
    }
}

pub fn settings(dice: &mut Dice) -> serde_json::Map<String, serde_json::Value> {
    let settings = serde_json::json!({
        "maxAttempts": dice.count(2..=4),
        "backoff": {"from": format!("{}ms", dice.from(100..=800)), "to": "3s"},
        "deadHead": dice.pick(&["block", "pass"]),
    });
    settings.as_object().unwrap().clone()
}

/// One engine after another in one place: it runs until it dies or is stopped, and is then
/// started again.
pub async fn node(world: Arc<World>, index: usize) {
    for incarnation in 1.. {
        let wire = Wire::new(&world, format!("n{index}.{incarnation}"), true, true);
        let living = live(&world, index, &wire);
        tokio::select! {
            biased;
            () = wire.died() => {}
            () = living => {}
        }
        world.state().nodes[index].running = None;
        if world.state().over {
            return;
        }
        let pause = world.state().dice.millis(50..=4_000);
        tokio::time::sleep(pause).await;
    }
}

async fn live(world: &Arc<World>, index: usize, wire: &Arc<Wire>) {
    let engine = loop {
        match open(world, index, wire).await {
            Ok(engine) => break engine,
            Err(_) => wire.rest(Duration::from_secs(1)).await,
        }
    };
    engine.start();
    let asked = {
        let node = &mut world.state().nodes[index];
        node.running = Some((engine.clone(), Arc::clone(wire)));
        Arc::clone(&node.stop)
    };
    world.say(&wire.name, "starts");
    asked.notified().await;
    world.say(&wire.name, "is asked to stop");
    let ticking = {
        let node = &mut world.state().nodes[index];
        node.running = None;
        Arc::clone(&node.ticking)
    };
    // A host ends its own ticks before it stops.
    let _none = ticking.lock().await;
    let limit = world.state().dice.millis(0..=20_000);
    engine.stop(limit).await;
    world.state().truth.stopped(&wire.name);
    world.say(&wire.name, "has stopped");
}

async fn open(world: &Arc<World>, index: usize, wire: &Arc<Wire>) -> punctual::Result<Engine> {
    let plan = world.state().plan.clone();
    let store = world.database.store(Arc::clone(wire) as _);
    let mut builder = Engine::builder("simulated")
        .on_store(store)
        .without_migrations()
        .owner(wire.name.clone())
        .lease(plan.lease)
        .max_polling_interval(plan.poll_max)
        .retention(plan.retention);
    if let Some(bug) = plan.bug {
        builder = builder.plant(bug);
    }
    let sender = Arc::clone(wire);
    let channel = move |message| provider::take(Arc::clone(&sender), message);
    builder = builder.channel_policy(people::CHANNEL, policy(&plan)).channel(people::CHANNEL, channel);
    for topic in TOPICS[..plan.topics].iter().chain([&UNDECLARED, &people::TOLD]) {
        // The first engine handles everything, the others what they happen to.
        if index > 0 && world.state().dice.chance(300) {
            continue;
        }
        let concurrency = world.state().dice.count(1..=6);
        let wire = Arc::clone(wire);
        let handler = move |work: Work| {
            let wire = Arc::clone(&wire);
            async move { handle(&wire, work.message.id, work.attempt).await }
        };
        builder = builder.handler_with(*topic, concurrency, handler);
    }
    builder.open().await
}

/// How the channel of every engine is used.
fn policy(plan: &Plan) -> ChannelPolicy {
    let backoff = Backoff::Exponential { from: Duration::from_secs(1), to: Duration::from_secs(4) };
    let patience = Some(RetryPolicy { max_attempts: plan.tries, backoff });
    let unknown = if plan.holds { UnknownOutcomePolicy::Hold } else { UnknownOutcomePolicy::Resend };
    ChannelPolicy { unknown, patience, ..ChannelPolicy::default() }
}

/// A call of a handler that is written down, however it ends.
struct Noted<'a> {
    wire: &'a Wire,
    run: Option<Run>,
}

impl<'a> Noted<'a> {
    fn begin(wire: &'a Wire, message: MessageId, attempt: u32) -> Option<Self> {
        let now = wire.world.now();
        let begun = wire.world.state().truth.begin(&wire.name, message.0, attempt, now);
        let run = begun.as_ref().ok().copied();
        wire.world.judge(begun.map(|_| ()));
        let (n, _) = run?;
        wire.world.say(&wire.name, &format!("begins message {n}, attempt {attempt}"));
        Some(Self { wire, run })
    }

    fn end(mut self, failed: Option<Duration>) {
        let Some(run) = self.run.take() else { return };
        let word = if failed.is_none() { "handled" } else { "failed with" };
        self.wire.world.say(&self.wire.name, &format!("{word} message {}", run.0));
        self.wire.world.state().truth.end(run, failed);
    }
}

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        if let Some(run) = self.run.take() {
            self.wire.world.state().truth.cut(run);
        }
    }
}

/// What every handler does: what its message's fate is.
async fn handle(wire: &Wire, message: MessageId, attempt: u32) -> HandlerResult {
    let Some(noted) = Noted::begin(wire, message, attempt) else { return std::future::pending().await };
    let n = noted.run.expect("a run").0;
    let (failed, fate) = wire.world.state().truth.fate(n);
    let pause = wire.world.state().dice.millis(0..=300);
    let again = |times: u32| failed < times;
    match fate {
        Fate::Fine => {}
        Fate::Slow(time) => wire.rest(time).await,
        _ => wire.rest(pause).await,
    }
    match fate {
        Fate::Poison(times) if again(times) && wire.mortal && !wire.world.is_healed() => {
            wire.world.state().counts.add(Kind::Poisoned);
            wire.die(Kind::Poisoned);
            wire.gate().await;
        }
        Fate::Retry(times) | Fate::Poison(times) if again(times) => {
            noted.end(Some(Duration::ZERO));
            return Err(HandlerError::retry("not yet"));
        }
        Fate::RetryAfter(times, wait) if again(times) => {
            noted.end(Some(wait));
            return Err(HandlerError::retry_after("not yet", wait));
        }
        Fate::Panic(times) if again(times) => {
            noted.end(Some(Duration::ZERO));
            std::panic::resume_unwind(Box::new("a planned panic"));
        }
        Fate::Forever => {
            noted.end(Some(Duration::ZERO));
            return Err(HandlerError::retry("never"));
        }
        Fate::Fail => {
            noted.end(Some(Duration::ZERO));
            return Err(HandlerError::fail("no"));
        }
        _ => {}
    }
    noted.end(None);
    Ok(())
}

/// What a publisher does.
#[derive(Clone, Copy, Debug)]
enum Operation {
    /// Publishes a few messages through an engine.
    Publish,
    /// Publishes one, alone or with others that come at the same time.
    Single,
    /// Publishes once more what carries an id.
    Repeat,
    /// Writes messages in a transaction of the host's own, and commits it,
    Commit,
    /// or does not.
    RollBack,
    /// Schedules a timer,
    Schedule,
    /// or cancels or moves one.
    Change,
    /// Triggers a job, or switches it off or on.
    Steer,
}

const OPERATIONS: [Operation; 12] = [
    Operation::Publish,
    Operation::Publish,
    Operation::Single,
    Operation::Single,
    Operation::Single,
    Operation::Repeat,
    Operation::Commit,
    Operation::RollBack,
    Operation::Schedule,
    Operation::Change,
    Operation::Change,
    Operation::Steer,
];

pub async fn publisher(scene: Arc<Scene>) {
    let operations = scene.world.state().plan.operations;
    for _ in 0..operations {
        let (pause, operation) = {
            let dice = &mut scene.world.state().dice;
            (dice.millis(0..=3_000), *dice.pick(&OPERATIONS))
        };
        tokio::time::sleep(pause).await;
        let tenant = *scene.world.state().dice.pick(&scene.tenants);
        match operation {
            Operation::Publish => {
                let count = scene.world.state().dice.count(1..=5);
                let all = scene.draw(tenant, count);
                scene.publish(tenant, all).await;
            }
            Operation::Single => {
                let crowd = scene.world.state().dice.count(1..=3);
                let singles = (0..crowd).map(|_| scene.draw(tenant, 1));
                let tasks: Vec<_> = singles
                    .map(|one| {
                        let scene = Arc::clone(&scene);
                        tokio::spawn(async move { scene.publish(tenant, one).await })
                    })
                    .collect();
                for task in tasks {
                    task.await.unwrap();
                }
            }
            Operation::Repeat => scene.repeat().await,
            Operation::Commit => scene.host_writes(tenant, true),
            Operation::RollBack => scene.host_writes(tenant, false),
            Operation::Schedule => scene.schedule(tenant).await,
            Operation::Change => scene.change_timer().await,
            Operation::Steer => scene.steer_job().await,
        }
    }
}

impl Scene {
    pub fn draw(&self, tenant: Tenant, count: usize) -> Vec<u64> {
        let now = self.world.now();
        let mut state = self.world.state();
        let super::world::State { dice, truth, plan, .. } = &mut *state;
        (0..count).map(|_| draw(dice, truth, (tenant, plan.topics, plan.lease), now)).collect()
    }

    /// Publishes through an engine that runs, if one does; it may die meanwhile.
    async fn publish(&self, tenant: Tenant, all: Vec<u64>) {
        let Some((engine, wire)) = self.world.any_node() else { return };
        let messages = self.messages(&all);
        self.world.state().truth.ask(&all);
        self.world.say(&wire.name, &format!("publishes {all:?}"));
        let answer = tokio::select! {
            biased;
            answer = engine.enqueue(tenant, messages) => Some(answer),
            () = wire.died() => None,
        };
        let word = match &answer {
            Some(Ok(_)) => "accepted".to_owned(),
            Some(Err(error)) => error.to_string(),
            None => "never heard of".to_owned(),
        };
        self.world.say(&wire.name, &format!("published {all:?}: {word}"));
        let verdict = self.world.state().truth.answered(&all, answer.as_ref());
        self.world.judge(verdict);
    }

    fn messages(&self, all: &[u64]) -> Vec<NewMessage> {
        let state = self.world.state();
        all.iter().map(|n| state.truth.entry(*n).message.clone()).collect()
    }

    /// The publisher does not know, or does not care, whether it did this before.
    async fn repeat(&self) {
        let known: Vec<(Tenant, u64)> = {
            let state = self.world.state();
            let named = state.truth.entries.values().filter(|entry| entry.message.id.is_some());
            named.map(|entry| (entry.tenant, entry.n)).collect()
        };
        if !known.is_empty() {
            let (tenant, n) = *self.world.state().dice.pick(&known);
            self.publish(tenant, vec![n]).await;
        }
    }

    fn host_writes(&self, tenant: Tenant, commits: bool) {
        let count = self.world.state().dice.count(1..=3);
        let all = self.draw(tenant, count);
        let messages = self.messages(&all);
        let answer = self.world.database.directly(|connection| {
            let transaction = connection.transaction()?;
            let done =
                honestly(|| punctual::queue::outbox::rusqlite::enqueue(&transaction, tenant, &messages));
            if commits {
                transaction.commit()?;
            }
            Ok(done)
        });
        if !commits {
            self.world.state().counts.add(Kind::RolledBack);
            return;
        }
        self.world.say("host", &format!("writes {all:?}"));
        self.world.state().truth.ask(&all);
        self.world.look("host");
        let verdict = self.world.state().truth.answered(&all, Some(&answer.expect("a commit")));
        self.world.judge(verdict);
        // The host may forget to say so; then the work is only found later.
        if self.world.state().dice.chance(500)
            && let Some((engine, _)) = self.world.any_node()
        {
            engine.wake();
        }
    }
}

/// A new message.
fn draw(dice: &mut Dice, truth: &mut Truth, whose: (Tenant, usize, Duration), now: Timestamp) -> u64 {
    let (tenant, topics, lease) = whose;
    let topic = if dice.chance(50) { UNDECLARED } else { *dice.pick(&TOPICS[..topics]) };
    let mut message = NewMessage::new(topic, "k", "");
    if dice.chance(400) {
        message = message.key(*dice.pick(&KEYS));
    }
    if dice.chance(300) {
        message = message.id("shop", truth.entries.len().to_string());
    }
    let mut due = now;
    if dice.chance(250) {
        due = now.plus(dice.millis(1..=15_000));
        message = message.due_at(due);
    }
    let fate = draw_fate(dice, lease);
    truth.write(tenant, fate, due, message)
}

/// What is to become of a message.
pub fn draw_fate(dice: &mut Dice, lease: Duration) -> Fate {
    let times = u32::try_from(dice.from(1..=2)).unwrap();
    match dice.from(0..=19) {
        0..=9 => Fate::Fine,
        10..=11 => Fate::Slow(dice.millis(10..=900)),
        12 => Fate::Slow(lease * u32::try_from(dice.from(1..=2)).unwrap() + dice.millis(0..=1_500)),
        13..=14 => Fate::Retry(times),
        15 => Fate::RetryAfter(times, dice.millis(500..=4_000)),
        16 => Fate::Panic(times),
        17 => Fate::Poison(times),
        18 => Fate::Fail,
        _ => Fate::Forever,
    }
}

/// A remote worker: claims from one queue at a time, by the raw verbs, and is not to be relied on.
pub async fn worker(scene: Arc<Scene>, index: usize) {
    let world = &scene.world;
    let wire = Wire::new(world, format!("w{index}"), true, false);
    let store = world.database.store(Arc::clone(&wire) as _);
    let bug = world.state().plan.bug;
    let store = bug.map_or_else(|| store.clone(), |bug| store.with_bug(bug));
    while !world.is_healed() && !world.is_broken() {
        let (pause, lane, quota, lease) = {
            let dice = &mut world.state().dice;
            let lane = *dice.pick(&scene.lanes);
            (dice.millis(200..=3_000), lane, dice.count(1..=4), dice.millis(1_000..=4_000))
        };
        wire.rest(pause).await;
        let takes = vec![LaneQuota { lane, since: Timestamp::MIN, quota }];
        let asked = tokio::time::Instant::now();
        let Ok(catch) = store.claim(ClaimRequest { owner: wire.name.clone(), lease, takes }).await else {
            continue;
        };
        work_off(&wire, &store, (lane, lease, asked), &catch.items).await;
    }
}

/// How a remote worker goes about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    Prompt,
    Extending,
    Late,
    Vanishing,
}

type Held = (LaneId, Duration, tokio::time::Instant);

async fn work_off(wire: &Wire, store: &Store, (lane, lease, asked): Held, items: &[ClaimedItem]) {
    if items.is_empty() {
        return;
    }
    let manners = [Manner::Prompt, Manner::Prompt, Manner::Extending, Manner::Late, Manner::Vanishing];
    let manner = *wire.world.state().dice.pick(&manners);
    let mut words = Vec::new();
    for claimed in items {
        // Of several claims only this one is extended.
        let mut since = asked;
        if manner == Manner::Extending {
            let now = tokio::time::Instant::now();
            let held = vec![(claimed.token.clone(), claimed.message.id)];
            let extended = store.extend_within(held, lease, lane).await;
            if extended.is_ok_and(|all| all == [SettleOutcome::Done]) {
                since = now;
            }
        }
        // Unreliable, but not foolish: it begins nothing whose lease may be over.
        if since.elapsed() >= lease {
            break;
        }
        let word = match handle_remotely(wire, claimed).await {
            Ok(()) => SettleAction::Ack,
            Err(HandlerError::Fail { error }) => SettleAction::Fail { error },
            Err(HandlerError::Retry { error, not_before }) => {
                SettleAction::Abandon { error, retry: not_before.map_or(Retry::Policy, Retry::NotBefore) }
            }
        };
        words.push(Settlement { token: claimed.token.clone(), words: vec![(claimed.message.id, word)] });
    }
    match manner {
        Manner::Vanishing => return wire.world.state().counts.add(Kind::WorkerVanished),
        Manner::Late => {
            wire.world.state().counts.add(Kind::SettledLate);
            wire.rest(lease + lease / 2).await;
        }
        _ => {}
    }
    // A worker that does not hear an answer says it again.
    for _ in 0..3 {
        if store.settle(words.clone(), Some(lane), 7).await.is_ok() {
            return;
        }
    }
}

async fn handle_remotely(wire: &Wire, claimed: &ClaimedItem) -> HandlerResult {
    let working = handle(wire, claimed.message.id, claimed.item.attempt());
    // A panic of a remote worker's is one more way to fail.
    let working = std::panic::AssertUnwindSafe(working);
    match CatchUnwind(Box::pin(working)).await {
        Ok(handled) => handled,
        Err(_) => Err(HandlerError::retry("a panic")),
    }
}

struct CatchUnwind<F>(std::pin::Pin<Box<F>>);

impl<F: Future> Future for CatchUnwind<F> {
    type Output = std::thread::Result<F::Output>;

    fn poll(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        let inner = &mut self.0;
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| inner.as_mut().poll(cx))) {
            Ok(poll) => poll.map(Ok),
            Err(panic) => std::task::Poll::Ready(Err(panic)),
        }
    }
}

/// What is done to the engines and the queues.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    Kill,
    Freeze,
    Stop,
    Outage,
    Pause,
    Replay,
}

const TROUBLES: [Trouble; 7] = [
    Trouble::Kill,
    Trouble::Kill,
    Trouble::Freeze,
    Trouble::Stop,
    Trouble::Outage,
    Trouble::Pause,
    Trouble::Replay,
];

pub async fn troublemaker(scene: Arc<Scene>) {
    let world = &scene.world;
    let troubles = world.state().plan.troubles;
    for _ in 0..troubles {
        let (pause, trouble, long, topic) = {
            let mut state = world.state();
            let topics = state.plan.topics;
            let dice = &mut state.dice;
            (
                dice.millis(0..=5_000),
                *dice.pick(&TROUBLES),
                dice.millis(500..=15_000),
                dice.count(0..=topics - 1),
            )
        };
        tokio::time::sleep(pause).await;
        world.say("trouble", &format!("{trouble:?}"));
        match trouble {
            Trouble::Kill => scene.to_any(Kind::Killed, |wire| wire.die(Kind::Killed)),
            Trouble::Freeze => scene.to_any(Kind::Frozen, |wire| wire.freeze(long)),
            Trouble::Stop => {
                let mut state = world.state();
                let last = state.nodes.len() - 1;
                let index = state.dice.count(0..=last);
                if state.nodes[index].running.is_some() {
                    state.counts.add(Kind::Stopped);
                    state.nodes[index].stop.notify_one();
                }
            }
            Trouble::Outage => {
                let until = world.now().plus(long / 2);
                world.state().outage_until = until;
            }
            Trouble::Pause => {
                world.state().counts.add(Kind::Paused);
                scene.pause(TOPICS[topic], true).await.expect("the operator is not exposed");
                tokio::time::sleep(long).await;
                scene.pause(TOPICS[topic], false).await.expect("the operator is not exposed");
            }
            Trouble::Replay => scene.replay_all().await.expect("the operator is not exposed"),
        }
    }
}

impl Scene {
    fn to_any(&self, kind: Kind, happens: impl FnOnce(&Wire)) {
        if let Some((_, wire)) = self.world.any_node() {
            self.world.state().counts.add(kind);
            happens(&wire);
        }
    }
}
