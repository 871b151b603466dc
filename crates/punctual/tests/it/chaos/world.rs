//! A world: a database, workers and a publisher on it, and the database's own history.

use super::beside::Deliveries;
use super::checker::{self, Broken, Ledger, Promise};
use super::history::{Event, Reader};
use super::home::{Home, port_of, server};
use super::injector::Injection;
use super::operation::{DOOMED_ATTEMPTS, Operation, ROUND};
use super::proxy::{Link, Proxy};
use super::publisher::Order;
use super::tally::Tally;
use super::{definitions, deliveries, dice, jobs, leases, triggers, worker};
use crate::bench::TENANT;
use crate::engine::UNDONE;
use crate::poison::{Notes, Worker};
use punctual::base::clock::monotonic;
use punctual::base::rehearsal;
use punctual::database::crash_points::CrashPoint;
use punctual::database::planted_bugs::PlantedBug;
use punctual::database::postgres::direct_connection::DirectConnection;
use punctual::testing::Backend;
use punctual::testing::cluster::ShutdownMode;
use punctual::testing::place::{Rows, TestDatabase};
use punctual::{Engine, Tenant};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a world is like.
#[derive(Debug)]
pub struct Setup {
    pub name: &'static str,
    pub backend: Backend,
    /// How far off each worker's wall clock is, in seconds.
    pub clocks: Vec<i64>,
    pub bug: Option<PlantedBug>,
    /// Whether the database is on a disk that can be filled up, if there can be one.
    pub small_disk: bool,
    /// After a round everything has ended by then.
    pub calm_max: Duration,
}

impl Setup {
    pub const fn new(name: &'static str, backend: Backend, clocks: Vec<i64>) -> Self {
        // Four worlds of four processes share a machine that may have two cores.
        let calm_max = Duration::from_secs(90);
        Self { name, backend, clocks, bug: None, small_disk: false, calm_max }
    }
}

/// What a round is like.
#[derive(Debug)]
pub struct Plan {
    pub n: u64,
    pub seed: u64,
    pub operations: u64,
    pub only: Option<Operation>,
    pub injections: Vec<Injection>,
    /// The least pause between two operations of one publisher.
    pub pace_ms: u64,
    /// Whether jobs, leases and deliveries go on beside it.
    pub beside: bool,
}

const CLAIMS_OPEN: &str = "select 'claim', owner, claimed_at, lease_until, started, items \
    from punctual.claim where finished_at is null order by claimed_at";
const WORK_LEFT: &str = "select 'work', lane_id, count(*), min(due_at), max(due_at), max(attempts), \
    max(unstarted) from punctual.work group by lane_id";
const SESSIONS: &str = "select 'session', pid::text, state, wait_event_type, wait_event, \
    (now() - xact_start)::text, left(query, 120) from pg_stat_activity \
    where datname = current_database() and pid <> pg_backend_pid()";
/// A host whose link is half open vanishes in the middle of its transaction: its server must not
/// keep that transaction's locks for ever.
pub const HOST_SILENCE: &str = "set idle_in_transaction_session_timeout = '3s'";
/// Pauses after trouble, and the patience with silent links, are shorter by this.
const HASTE: u32 = 20;
/// How often a resting world is looked at.
const LOOK: Duration = Duration::from_millis(25);
/// Messages that are delivered to every worker in a round.
const DELIVERIES: u64 = 8;
/// Planning has caught up when nothing is due for longer, in microseconds.
const CAUGHT_UP: i64 = 1_000_000;
/// Between two things that are done.
const BETWEEN_MIN_MS: u64 = 30;
const BETWEEN_MS: u64 = 250;

/// One process with its proxy.
struct Slot {
    process: Worker,
    proxy: Option<Proxy>,
    clock: i64,
    /// The point at which it was told to end.
    armed: Option<CrashPoint>,
}

pub struct World {
    pub setup: Setup,
    slots: Vec<Slot>,
    home: Home,
    notes: Notes,
    reader: Reader,
    direct: tokio::sync::Mutex<Option<DirectConnection>>,
    ledger: Ledger,
    order: Option<Order>,
    /// Switches jobs on and off.
    keeper: Engine,
    deliveries: Option<Deliveries>,
    /// Messages that were delivered, over all rounds.
    delivered: u64,
    /// The tenant of notifications and surveys.
    customers: Tenant,
    sync: u64,
    tally: Tally,
}

/// Whether this process has a file open.
fn has_open(file: &Path) -> bool {
    let open = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(Result::ok);
    open.filter_map(|fd| std::fs::read_link(fd.path()).ok()).any(|path| path == file)
}

impl World {
    pub async fn start(setup: Setup) -> Self {
        let mut tally = Tally::default();
        let home = match setup.backend {
            Backend::Sqlite => Home::File(TestDatabase::empty(Backend::Sqlite).await.unwrap()),
            Backend::Postgres => server(setup.small_disk, &mut tally).await,
        };
        let keeper = Engine::builder(home.url()).pool_size(2).open().await.unwrap();
        let mut world = Self {
            setup,
            keeper,
            deliveries: None,
            delivered: 0,
            customers: TENANT,
            slots: Vec::new(),
            home,
            notes: Notes::new(),
            reader: Reader::default(),
            direct: tokio::sync::Mutex::new(None),
            ledger: Ledger::default(),
            order: None,
            sync: 0,
            tally,
        };
        world.customers = world.prepare().await;
        let mut clocks = world.setup.clocks.clone();
        clocks.push(0);
        for clock in clocks {
            let proxy = match &world.home {
                Home::Server { url, .. } => Some(Proxy::to(port_of(url)).await),
                Home::File(_) => None,
            };
            let publishes = world.slots.len() == world.setup.clocks.len();
            let process = world.hire(publishes, clock, proxy.as_ref());
            world.slots.push(Slot { process, proxy, clock, armed: None });
        }
        world
    }

    fn url(&self) -> &str {
        self.home.url()
    }

    /// The queues, the jobs, triggers that write down what happens, and a tenant with customers.
    async fn prepare(&self) -> Tenant {
        for topic in ["plain", "keyed", "shaky", "doomed", "raw", "tick", "doomed-tick"] {
            let attempts = if topic.starts_with("doomed") { DOOMED_ATTEMPTS } else { 1_000 };
            let backoff = serde_json::json!({"from": "10ms", "to": "40ms"});
            let settings = serde_json::json!({"maxAttempts": attempts, "backoff": backoff});
            let change = settings.as_object().unwrap().clone();
            self.keeper.store().set_queue(TENANT, topic, change).await.unwrap();
        }
        jobs::put(self.keeper.store()).await;
        for statement in triggers::statements(self.setup.backend) {
            self.sql(&statement).await.unwrap();
        }
        definitions::install(&self.keeper).await
    }

    fn hire(&self, publishes: bool, clock: i64, proxy: Option<&Proxy>) -> Worker {
        let database = match proxy {
            Some(proxy) => self.url().replace(&port_of(self.url()).to_string(), &proxy.port.to_string()),
            None => self.url().to_owned(),
        };
        let role = if publishes { "publisher" } else { "worker" };
        let mut environment: Vec<(&str, OsString)> = vec![
            (worker::DATABASE, database.into()),
            (worker::HISTORY, self.notes.folder().into()),
            (worker::ROLE, role.into()),
            (rehearsal::CLOCK_OFFSET_S, clock.to_string().into()),
            (rehearsal::HASTE_NAME, HASTE.to_string().into()),
        ];
        if let Some(bug) = self.setup.bug {
            environment.push((worker::BUG, bug.name().into()));
        }
        Worker::spawn("chaos::worker::process", &environment)
    }

    pub fn workers(&self) -> usize {
        self.setup.clocks.len()
    }

    pub fn publisher(&self) -> usize {
        self.setup.clocks.len()
    }

    pub const fn so_far(&self) -> &Tally {
        &self.tally
    }

    pub fn tally(self) -> Tally {
        self.tally
    }

    pub fn count(&mut self, injection: Injection) {
        self.tally.injected(injection);
    }

    pub fn link(&self, slot: usize) -> &Proxy {
        self.slots[slot].proxy.as_ref().expect("only processes on PostgreSQL have a link")
    }

    pub fn signal(&mut self, slot: usize, name: &str) {
        self.slots[slot].process.signal(name);
    }

    /// Ends a process without a warning, and starts it again.
    pub fn kill(&mut self, slot: usize) {
        self.slots[slot].process.kill();
        self.start_again(slot);
    }

    /// Starts a process that has ended, and tells it what it should know.
    pub fn start_again(&mut self, slot: usize) {
        let publishes = slot == self.publisher();
        let was = &self.slots[slot];
        let mut process = self.hire(publishes, was.clock, was.proxy.as_ref());
        if let Some(order) = self.order.filter(|_| publishes) {
            process.tell(&format!("publish {}", order.text()));
        }
        if let Some(deliveries) = self.deliveries.filter(|_| !publishes) {
            process.tell(&format!("beside {}", deliveries.text()));
        }
        process.tell(&format!("sync {}", self.sync));
        self.slots[slot].process = process;
        self.slots[slot].armed = None;
    }

    /// Tells a process to end when it is at a point for the `count`-th time.
    pub fn arm(&mut self, slot: usize, point: CrashPoint, count: u64) {
        self.slots[slot].process.tell(&format!("point {}:{count}:abort", point.name()));
        self.slots[slot].armed = Some(point);
    }

    /// Tells every worker to hold its breath at a point.
    pub fn pause_all_at(&mut self, point: CrashPoint, milliseconds: u64) {
        for slot in 0..self.workers() {
            self.slots[slot].process.tell(&format!("point {}:1:pause-{milliseconds}", point.name()));
        }
    }

    /// Asks a process to stop, and awaits its end.
    pub async fn stop(&mut self, slot: usize) {
        self.signal(slot, "TERM");
        while !self.slots[slot].process.has_ended() {
            tokio::time::sleep(LOOK).await;
        }
    }

    pub fn restart_server(&self, how: ShutdownMode) {
        let Home::Server { cluster, .. } = &self.home else { panic!("there is no server") };
        tokio::task::block_in_place(|| cluster.restart(how)).unwrap();
    }

    /// Leaves no room, or makes some; false where that cannot be done.
    pub fn fill_disk(&mut self, full: bool) -> bool {
        match &self.home {
            Home::Server { disk: Some(disk), .. } if full => disk.fill(),
            Home::Server { disk: Some(disk), .. } => disk.free(),
            Home::Server { .. } => return false,
            Home::File(_) => {
                self.tell_all(if full { "disk full" } else { "disk roomy" });
            }
        }
        true
    }

    pub fn tell_all(&mut self, word: &str) {
        self.slots.iter_mut().for_each(|slot| slot.process.tell(word));
    }

    /// Ends all that have the file open, and only then opens it again: the first to do so recovers it.
    pub async fn cut_power(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.process.signal("KILL"));
        self.slots.iter_mut().for_each(|slot| slot.process.kill());
        self.keeper = Engine::builder("sqlite::memory:").open().await.unwrap();
        let file = PathBuf::from(self.home.url().trim_start_matches("sqlite:"));
        while has_open(&file) {
            tokio::time::sleep(LOOK).await;
        }
        self.keeper = Engine::builder(self.home.url()).pool_size(2).open().await.unwrap();
        (0..self.slots.len()).for_each(|slot| self.start_again(slot));
    }

    /// Starts again whoever ended at a named point. Nobody else may have ended.
    fn tend(&mut self) {
        for slot in 0..self.slots.len() {
            if self.slots[slot].process.has_ended() {
                let point = self.slots[slot].armed;
                let point = point.unwrap_or_else(|| panic!("process {slot} ended by itself"));
                self.tally.injected(Injection::Point(point));
                self.start_again(slot);
            }
        }
    }

    /// Waits until somebody has ended at a point, but not longer than `limit`.
    pub async fn until_sprung(&mut self, point: CrashPoint, limit: Duration) {
        let (begun, name) = (monotonic(), point.name());
        let before = self.tally.injected.get(name).copied();
        while self.tally.injected.get(name).copied() == before && begun.elapsed() < limit {
            tokio::time::sleep(LOOK).await;
            self.tend();
        }
    }

    /// Publishes, does what is planned, lets the world come to rest, and checks.
    pub async fn round(&mut self, plan: &Plan) -> Vec<Broken> {
        self.begin(plan).await;
        for (n, injection) in (0..).zip(&plan.injections) {
            let seed = dice(plan.seed, n);
            tokio::time::sleep(Duration::from_millis(BETWEEN_MIN_MS + seed % BETWEEN_MS)).await;
            self.inject(*injection, seed).await;
            self.tend();
        }
        self.end().await
    }

    /// Tells everybody what to do.
    pub async fn begin(&mut self, plan: &Plan) {
        let first = plan.n * ROUND;
        let (seed, only) = (plan.seed, plan.only);
        let order = Order { first, count: plan.operations, seed, only, pace_ms: plan.pace_ms };
        self.order = Some(order);
        self.ledger.begin(first);
        self.begin_beside(plan, first).await;
        let publisher = self.publisher();
        self.slots[publisher].process.tell(&format!("publish {}", order.text()));
    }

    /// Jobs are planned and messages delivered from now on.
    async fn begin_beside(&mut self, plan: &Plan, first: u64) {
        self.deliveries = plan.beside.then_some(Deliveries { first, count: DELIVERIES });
        self.ledger.received.begin(self.deliveries);
        if let Some(deliveries) = self.deliveries {
            self.delivered += deliveries.count;
            jobs::switch(self.keeper.store(), true).await;
            for slot in 0..self.workers() {
                self.slots[slot].process.tell(&format!("beside {}", deliveries.text()));
            }
        }
    }

    /// Mends everything, awaits the end of all work, and checks.
    pub async fn end(&mut self) -> Vec<Broken> {
        for slot in &mut self.slots {
            slot.process.tell("point ");
            if let Some(proxy) = &slot.proxy {
                proxy.set(Link::Open);
            }
        }
        let late = self.rest().await;
        self.order = None;
        let mut broken: Vec<Broken> = late.into_iter().collect();
        match self.look().await {
            Ok(()) => broken.extend(self.ledger.judge(self.setup.backend)),
            Err(why) => broken.push(Broken::new(Promise::EndsInTime, format!("the database is away: {why}"))),
        }
        self.ledger.count(&mut self.tally);
        broken
    }

    /// Waits until all is published, everybody hears, and nothing is left to do.
    async fn rest(&mut self) -> Option<Broken> {
        self.sync += 1;
        for slot in &mut self.slots {
            slot.process.tell(&format!("sync {}", self.sync));
        }
        let begun = monotonic();
        let (mut published, mut synced) = (false, 0);
        loop {
            self.tend();
            for event in self.reader.news(self.notes.folder()) {
                published |= event == Event::Published { first: self.order.unwrap().first };
                synced += usize::from(event == Event::Synced { n: self.sync });
                self.ledger.hear(event);
            }
            let heard = published && synced >= self.slots.len();
            let undone = if heard { self.undone().await } else { None };
            if undone == Some(0) {
                self.slots.iter_mut().for_each(|slot| slot.armed = None);
                return None;
            }
            if begun.elapsed() > self.setup.calm_max {
                let said = format!(
                    "{:?} after the last trouble: published {published}, {synced} of {} hear, \
                     undone {undone:?}{}",
                    begun.elapsed(),
                    self.slots.len(),
                    self.what_holds_it_up().await
                );
                return Some(Broken::new(Promise::EndsInTime, said));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// What the database knows of claims, work and sessions when the world does not come to rest.
    async fn what_holds_it_up(&self) -> String {
        let mut said = String::new();
        let sessions = (self.setup.backend == Backend::Postgres).then_some(SESSIONS);
        for question in [CLAIMS_OPEN, WORK_LEFT].into_iter().chain(sessions) {
            match self.sql(question).await {
                Ok(rows) => rows.iter().take(20).for_each(|row| said.push_str(&format!("\n    {row:?}"))),
                Err(why) => said.push_str(&format!("\n    {why}")),
            }
        }
        said
    }

    /// What is left to do, if the database says so. Jobs are switched off when their planning has
    /// caught up, and not before.
    async fn undone(&mut self) -> Option<i64> {
        if self.deliveries.is_some() {
            let now = self.keeper.store().now().await.ok()?.as_micros();
            let behind = self.number(&format!("{}{}", jobs::BEHIND, now - CAUGHT_UP)).await?;
            let processed = self.number(deliveries::PROCESSED).await?;
            let left = behind + i64::try_from(self.delivered).unwrap() - processed;
            if left > 0 {
                return Some(left);
            }
            jobs::switch(self.keeper.store(), false).await;
            self.deliveries = None;
        }
        self.number(UNDONE).await
    }

    async fn number(&self, question: &str) -> Option<i64> {
        self.sql(question).await.ok()?[0][0].as_deref()?.parse().ok()
    }

    /// Reads what the database has written down.
    async fn look(&mut self) -> Result<(), String> {
        for event in self.reader.news(self.notes.folder()) {
            self.ledger.hear(event);
        }
        let (message, seq) = (self.ledger.last_message, self.ledger.last_seq);
        let own = format!("tenant_id = {TENANT}");
        let messages = format!("{} where id > {message} and {own} order by id", checker::MESSAGES);
        let log = format!("{} and seq > {seq} order by seq", checker::LOG);
        let attempts = format!("{} where message_id > {message}", checker::ATTEMPTS);
        let dead = format!("{} where message_id > {message}", checker::DEAD);
        let (messages, log) = (self.sql(&messages).await?, self.sql(&log).await?);
        let (attempts, dead) = (self.sql(&attempts).await?, self.sql(&dead).await?);
        let cancelled = format!("{} where message_id > {message} and cancelled = 1", checker::CANCELLED);
        let cancelled = self.sql(&cancelled).await?;
        self.ledger.read(&messages, &log, &attempts, &dead, &cancelled);
        self.look_beside().await
    }

    /// The same of jobs, leases, deliveries and sends.
    async fn look_beside(&mut self) -> Result<(), String> {
        let (run, seq) = (self.ledger.jobs.last_run, self.ledger.jobs.last_seq);
        let planned = self.sql(&format!("{} where c.seq > {seq} order by c.seq", jobs::PLANNED)).await?;
        let runs = self.sql(&format!("{} where r.id > {run} order by r.id", jobs::RUNS)).await?;
        self.ledger.jobs.read(&planned, &runs);
        let (seq, effect) = (self.ledger.leases.last_acquired, self.ledger.leases.read_from());
        let acquired = self.sql(&format!("{} where seq > {seq} order by seq", leases::ACQUIRED)).await?;
        let effects = self.sql(&format!("{} where seq > {effect} order by seq", leases::EFFECTS)).await?;
        let slack = if self.setup.backend == Backend::Sqlite { checker::MILLISECOND } else { 0 };
        self.ledger.leases.read(&acquired, &effects, slack);
        let (effects, status) = (self.sql(deliveries::EFFECTS).await?, self.sql(deliveries::STATUS).await?);
        self.ledger.received.read(&effects, &status);
        let claims = self.sql(&self.ledger.sends.claims(self.setup.backend)).await?;
        let reports = self.sql(&self.ledger.sends.reports()).await?;
        let deliveries = self.sql(super::send_reads::DELIVERIES).await?;
        self.ledger.sends.take_in(&claims, &deliveries, &reports);
        self.ledger.sends.read(&self.keeper, self.customers).await
    }

    /// How late each message of this round was claimed first, by the database's clock, in
    /// microseconds.
    pub fn lateness(&self) -> Vec<i64> {
        self.ledger.lateness()
    }

    /// Rows of a statement in PostgreSQL's words, past all proxies.
    pub async fn sql(&self, text: &str) -> Result<Rows, String> {
        let url = match &self.home {
            Home::File(place) => {
                let words = [punctual::database::dialect::for_sqlite(text)];
                return place.sql(&words).await.map(|mut all| all.remove(0)).map_err(|e| e.to_string());
            }
            Home::Server { url, .. } => url,
        };
        let mut direct = self.direct.lock().await;
        for _ in 0..2 {
            if direct.is_none() {
                *direct = Some(DirectConnection::connect(url).await.map_err(|e| e.to_string())?);
            }
            if let Some(there) = direct.as_ref()
                && let Ok(mut all) = there.run(&[text.to_owned()]).await
            {
                return Ok(all.remove(0));
            }
            // The server was restarted since.
            *direct = None;
        }
        Err(format!("twice no answer to {text}"))
    }
}
