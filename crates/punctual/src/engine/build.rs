//! Building an engine.

mod channels;
mod check;
mod schema;

use crate::base::breaker::BreakerSettings;
use crate::base::component::{Component, Components};
use crate::base::error::Result;
use crate::base::limits;
use crate::base::random;
use crate::base::sealing::EncryptionKeys;
use crate::base::tenant::Tenant;
use crate::database::clock::ClockMode;
use crate::database::store::Store;
use crate::database::tx::VerbFuture;
use crate::delivery::rules::channel::ChannelPolicy;
use crate::delivery::run::channel::Channel;
use crate::delivery::run::channel_limiter::{ChannelLimiters, LimiterSettings};
use crate::delivery::run::channel_shares::ShareHolder;
use crate::delivery::run::context::DeliveryContext;
use crate::delivery::run::executors;
use crate::delivery::run::kinds::EntryKinds;
use crate::delivery::run::sandbox::Sandbox;
use crate::delivery::run::templates::TemplateCache;
use crate::engine::build::channels::ConfiguredChannels;
use crate::engine::{Engine, Inner, Loops};
use crate::flow::run::event_kinds::EventKinds;
use crate::jobs::rules::job::NewJob;
use crate::notification::run::planner::NotificationPlanner;
use crate::operate::run::prune::RetentionSettings;
use crate::queue::run::context::WorkerContext;
use crate::queue::run::executor::Executor;
use crate::queue::run::handler::Handler;
use crate::queue::run::handlers::{HandlerExecutor, HandlerKey, HandlerSlot, Handlers};
use crate::queue::run::inbox::InboxSettings;
use crate::queue::run::loop_health::HUNG_AFTER;
use crate::queue::run::wake::Wake;
use crate::survey::run::definition_cache::DefinitionCache;
use crate::survey::run::kind::{SurveyKind, SurveyPlanner};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

/// The default number of messages of a topic that run at once.
const CONCURRENCY_DEFAULT: usize = 16;
/// The default link to a survey.
const SURVEY_URL_DEFAULT: &str = "http://127.0.0.1:8080/s/{publicId}";
/// The default number of connections to PostgreSQL.
const POOL_SIZE_DEFAULT: usize = 8;

/// The settings of an engine before it is opened.
#[derive(Debug)]
pub struct Builder {
    database: String,
    pool_size: usize,
    handlers: Vec<HandlerSlot>,
    components: Components,
    migrate: bool,
    schema_wait: Duration,
    clock: ClockMode,
    leave_manual: bool,
    lease: Duration,
    poll_max: Duration,
    retention: RetentionSettings,
    inbox: InboxSettings,
    owner: Option<String>,
    jobs: Vec<(String, NewJob)>,
    channels: ConfiguredChannels,
    policies: BTreeMap<String, ChannelPolicy>,
    sandbox: Option<Sandbox>,
    survey_url: String,
    unsubscribe_url: Option<String>,
    hung_after: Duration,
    encryption_keys: EncryptionKeys,
    #[cfg(feature = "testing")]
    store: Option<Store>,
    #[cfg(feature = "testing")]
    bug: Option<crate::database::planted_bugs::PlantedBug>,
}

impl Builder {
    pub(crate) fn new(database: String) -> Self {
        Self {
            database,
            pool_size: POOL_SIZE_DEFAULT,
            handlers: Vec::new(),
            components: Components::ALL,
            migrate: true,
            schema_wait: limits::SCHEMA_PATIENCE,
            clock: ClockMode::System,
            leave_manual: false,
            lease: limits::LEASE_DEFAULT,
            poll_max: limits::POLL_MAX,
            retention: RetentionSettings::default(),
            inbox: InboxSettings::default(),
            owner: None,
            jobs: Vec::new(),
            channels: ConfiguredChannels::default(),
            sandbox: None,
            policies: BTreeMap::new(),
            survey_url: SURVEY_URL_DEFAULT.to_owned(),
            unsubscribe_url: None,
            hung_after: HUNG_AFTER,
            encryption_keys: EncryptionKeys::default(),
            #[cfg(feature = "testing")]
            store: None,
            #[cfg(feature = "testing")]
            bug: None,
        }
    }

    /// Builds an engine of these components and of those that they need, instead of all: its migration makes
    /// only their tables, and its loops serve only them. A database that has more is not changed, and one
    /// that has fewer gets the others. A verb without its tables answers
    /// [`Error::MissingComponent`](crate::Error::MissingComponent).
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), punctual::Error> {
    /// use punctual::{Component, Engine, Tenant};
    ///
    /// let engine = Engine::builder("sqlite:leases.db").components(&[Component::Leases]).open().await?;
    /// engine.lease(Tenant::DEFAULT, "nightly-report").try_acquire().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn components(mut self, components: &[Component]) -> Self {
        self.components = Components::of(components);
        self
    }

    /// Handles a topic, 16 messages at a time.
    #[must_use]
    pub fn handler(self, topic: impl Into<String>, handler: impl Handler) -> Self {
        self.handler_with(topic, CONCURRENCY_DEFAULT, handler)
    }

    /// Handles a topic, `concurrency` messages at a time.
    #[must_use]
    pub fn handler_with(
        mut self,
        topic: impl Into<String>,
        concurrency: usize,
        handler: impl Handler,
    ) -> Self {
        self.handlers.push(HandlerSlot::new(HandlerKey::Topic(topic.into()), Arc::new(handler), concurrency));
        self
    }

    /// Handles every subscription whose target is `{type: "handler", name}`, in every topic and tenant,
    /// 16 messages at a time.
    #[must_use]
    pub fn subscriber(self, name: impl Into<String>, handler: impl Handler) -> Self {
        self.subscriber_with(name, CONCURRENCY_DEFAULT, handler)
    }

    /// Handles every such subscription, `concurrency` messages at a time.
    #[must_use]
    pub fn subscriber_with(
        mut self,
        name: impl Into<String>,
        concurrency: usize,
        handler: impl Handler,
    ) -> Self {
        self.handlers.push(HandlerSlot::new(
            HandlerKey::Subscriber(name.into()),
            Arc::new(handler),
            concurrency,
        ));
        self
    }

    /// Sets the link by which a recipient unsubscribes from messages of a kind, with `{token}` where the
    /// token belongs. The server of the link opens the token with
    /// [`crate::database::store::Store::link_secret`].
    #[must_use]
    pub fn unsubscribe_url(mut self, url: impl Into<String>) -> Self {
        self.unsubscribe_url = Some(url.into());
        self
    }

    /// Seals the secret of unsubscribe links in the database by the first key; all keys open it. Every
    /// process on the database needs the key that seals.
    #[must_use]
    pub fn encryption_keys(mut self, keys: EncryptionKeys) -> Self {
        self.encryption_keys = keys;
        self
    }

    /// Sets the policy of a channel: its limits, the handling of sends without an answer, and the fallback
    /// channel for refused messages.
    #[must_use]
    pub fn channel_policy(mut self, key: impl Into<String>, policy: ChannelPolicy) -> Self {
        self.policies.insert(key.into(), policy);
        self
    }

    /// Declares a job of the default tenant, which is put when the engine opens. Its runs go to the topic's
    /// handler, here or in another process.
    #[must_use]
    pub fn job(mut self, name: impl Into<String>, job: NewJob) -> Self {
        self.jobs.push((name.into(), job));
        self
    }

    /// Sends by a channel of the host's own under this key, such as `sms:own`.
    #[must_use]
    pub fn channel(mut self, key: impl Into<String>, channel: impl Channel) -> Self {
        self.channels.0.push((key.into(), Arc::new(channel)));
        self
    }

    /// Makes a sandbox keep the messages of its channels. On a manual clock there is always one,
    /// for every `memory:` key, unless another is named here; on the system clock there is none by default.
    #[must_use]
    pub fn sandbox(mut self, sandbox: Sandbox) -> Self {
        self.sandbox = Some(sandbox);
        self
    }

    /// Sets the link to a survey, with `{publicId}` in it.
    #[must_use]
    pub fn survey_url(mut self, template: impl Into<String>) -> Self {
        self.survey_url = template.into();
        self
    }

    /// Sets the number of connections to PostgreSQL (SQLite needs none).
    #[must_use]
    pub const fn pool_size(mut self, connections: usize) -> Self {
        self.pool_size = connections;
        self
    }

    /// Disables migrations: another process migrates the schema, and [`open`](Self::open) waits for that.
    #[must_use]
    pub const fn without_migrations(mut self) -> Self {
        self.migrate = false;
        self
    }

    /// Sets how long an engine without migrations waits for another process to bring a missing or older
    /// schema up to date, 5 minutes unless it is set. Zero refuses such a schema at once.
    #[must_use]
    pub const fn schema_wait(mut self, patience: Duration) -> Self {
        self.schema_wait = patience;
        self
    }

    /// Sets the clock source.
    #[must_use]
    pub const fn clock(mut self, mode: ClockMode) -> Self {
        self.clock = mode;
        self
    }

    /// Lets a database that ran on a manual clock continue with the system clock.
    #[must_use]
    pub const fn leave_manual_clock(mut self, yes: bool) -> Self {
        self.leave_manual = yes;
        self
    }

    /// Sets the length of the lease of a claim. The engine renews leases in time.
    #[must_use]
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets the longest pause between looks when no wake-up comes: from 250 ms to 30 seconds, which is the
    /// default. An idle worker looks after 250 ms, and then after twice as long each time, up to this.
    #[must_use]
    pub const fn max_polling_interval(mut self, interval: Duration) -> Self {
        self.poll_max = interval;
        self
    }

    /// Sets how long finished messages are kept, unless their queue has its own retention.
    #[must_use]
    pub const fn retention(mut self, retention: Duration) -> Self {
        self.retention.messages = retention;
        self
    }

    /// Sets how long each sort of history is kept: messages, the log, surveys, runs, leases, message ids.
    #[must_use]
    pub const fn retentions(mut self, settings: RetentionSettings) -> Self {
        self.retention = settings;
        self
    }

    /// Sets how long notifications and the communication log are kept, by default 400 days. The keys
    /// that admit each message once are kept for 800 days, or for this long if that is longer.
    #[must_use]
    pub const fn log_retention(mut self, retention: Duration) -> Self {
        self.retention.log = retention;
        self
    }

    /// Sets how long the inbox remembers processed messages, when a message counts as stuck, and how often
    /// the inbox is pruned.
    #[must_use]
    pub const fn inbox(mut self, settings: InboxSettings) -> Self {
        self.inbox = settings;
        self
    }

    /// Sets the name under which this process claims, for people who look at stuck work.
    #[must_use]
    pub fn owner(mut self, name: impl Into<String>) -> Self {
        self.owner = Some(name.into());
        self
    }

    /// Uses a store that is open already, instead of the named database.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn on_store(mut self, store: Store) -> Self {
        self.store = Some(store.with_hooks());
        self
    }

    /// Plants a bug in this engine, to see whether a test catches it.
    #[cfg(feature = "testing")]
    #[must_use]
    pub const fn plant(mut self, bug: crate::database::planted_bugs::PlantedBug) -> Self {
        self.bug = Some(bug);
        self
    }

    /// Sets how long the tick of a loop takes until the loop counts as hung, two minutes unless it is set.
    #[cfg(feature = "testing")]
    #[must_use]
    pub const fn hung_after(mut self, limit: Duration) -> Self {
        self.hung_after = limit;
        self
    }

    /// Opens the database, brings the schema of its components up to date, and assembles the engine.
    /// No loop runs yet.
    ///
    /// # Errors
    /// `Error::Config`, `Error::Schema` or `Error::Invalid` with one clear sentence.
    pub fn open(self) -> VerbFuture<'static, Engine> {
        VerbFuture::new(self.put_together())
    }

    async fn put_together(self) -> Result<Engine> {
        let store = self.ready_store().await?;
        let manual_clock = self.clock == ClockMode::Manual;
        let sandbox = self.sandbox.or_else(|| manual_clock.then(Sandbox::new));
        let worker = Arc::new(WorkerContext {
            store,
            owner: self.owner.unwrap_or_else(own_name),
            lease: self.lease,
            poll_max: self.poll_max,
            manual_clock,
            wake: Wake::default(),
            room: Arc::new(Notify::new()),
            help: Notify::new(),
            batches: AtomicUsize::new(0),
            trouble: Mutex::default(),
            opens_at: Mutex::default(),
        });
        let surveys = Arc::new(SurveyKind {
            store: worker.store.clone(),
            wake: worker.wake.clone(),
            cache: DefinitionCache::default(),
            url: self.survey_url,
        });
        // Where time stands still, a change is seen by the very next step.
        let fresh = if manual_clock { Duration::ZERO } else { limits::TEMPLATES_FRESH };
        let delivery = Arc::new(DeliveryContext {
            worker: Arc::clone(&worker),
            channels: self.channels.put_together(sandbox.as_ref()),
            kinds: EntryKinds::new(vec![
                Box::new(SurveyPlanner(Arc::clone(&surveys))),
                Box::new(NotificationPlanner),
            ]),
            templates: TemplateCache::new(fresh),
            event_kinds: EventKinds::new(fresh),
            limiters: limiters(&self.policies, manual_clock),
            share_holder: ShareHolder::fresh(),
            policies: self.policies,
            default_policy: ChannelPolicy::default(),
            unsubscribe_url: self.unsubscribe_url,
            claims_out: AtomicUsize::new(0),
        });
        let handlers = Arc::new(Handlers::new(&worker, self.handlers));
        let handle: Arc<dyn Executor> = Arc::new(HandlerExecutor(Arc::clone(&handlers)));
        let executors = executors_of(self.components, &delivery, &handlers, &handle);
        let inner = Inner {
            worker,
            handlers,
            handle,
            executors,
            delivery,
            surveys,
            components: self.components,
            clock: self.clock,
            retention: self.retention,
            inbox: self.inbox,
            loops: Mutex::new(Loops::new(self.hung_after)),
            stepping: tokio::sync::Mutex::new(()),
            routed: Mutex::default(),
            sandbox,
        };
        let engine = Engine { inner: Arc::new(inner) };
        declare_handled(&engine).await?;
        for (name, job) in self.jobs {
            engine.put_job(Tenant::DEFAULT, &name, job).await?;
        }
        Ok(engine)
    }

    /// Opens the database, and brings its schema up to date or waits until another process has.
    async fn ready_store(&self) -> Result<Store> {
        self.check()?;
        let store = self.open_store()?.with(self.encryption_keys.clone());
        if self.migrate {
            store.migrate_components(self.components).await?;
        } else {
            schema::wait_for_schema(&store, self.components, self.schema_wait).await?;
        }
        store.use_clock(self.clock, self.leave_manual).await?;
        if !self.encryption_keys.0.is_empty() {
            store.check_link_secret().await?;
        }
        Ok(store)
    }

    #[cfg(not(feature = "testing"))]
    fn open_store(&self) -> Result<Store> {
        Store::open(&self.database, self.pool_size)
    }

    /// Returns the store of the test, or opens one; perhaps with a planted bug.
    #[cfg(feature = "testing")]
    fn open_store(&self) -> Result<Store> {
        let store = self.store.clone().map_or_else(|| Store::open(&self.database, self.pool_size), Ok)?;
        Ok(self.bug.map_or_else(|| store.clone(), |bug| store.with_bug(bug)))
    }
}

/// Returns the executors of the worker loop.
fn executors_of(
    components: Components,
    delivery: &Arc<DeliveryContext>,
    handlers: &Handlers,
    handle: &Arc<dyn Executor>,
) -> Vec<Arc<dyn Executor>> {
    let has_flows = components.has(Component::Flows);
    let mut executors = if has_flows { executors::pipeline(delivery) } else { Vec::new() };
    if !handlers.slots.is_empty() {
        executors.push(Arc::clone(handle));
    }
    executors
}

/// Declares the own queues of the topics that this process has handlers for.
async fn declare_handled(engine: &Engine) -> Result<()> {
    let topics = engine.topics();
    if topics.is_empty() {
        return Ok(());
    }
    engine.store().note_handled(topics.clone()).await?;
    engine.store().declare_handled(topics).await
}

/// Returns the limiters of channels. On a manual clock, one process at a time sends.
fn limiters(policies: &BTreeMap<String, ChannelPolicy>, manual_clock: bool) -> ChannelLimiters {
    let limiters = ChannelLimiters::new(limiter_settings(policies));
    if manual_clock { limiters } else { limiters.shared() }
}

/// Returns the limits of channels by their policies.
fn limiter_settings(policies: &BTreeMap<String, ChannelPolicy>) -> HashMap<String, LimiterSettings> {
    let settings = policies.iter().map(|(key, policy)| {
        let usual = LimiterSettings::of(key);
        let breaker = match policy.breaker_failures {
            None => usual.breaker,
            Some(0) => None,
            Some(failures) => Some(BreakerSettings { failures, ..BreakerSettings::default() }),
        };
        let per_second = policy.rate_per_second;
        (key.clone(), LimiterSettings { per_second, in_flight: policy.in_flight, breaker })
    });
    settings.collect()
}

fn own_name() -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "worker".into());
    format!("{host}-{}-{}", std::process::id(), random::hex::<4>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NTF-17: a channel says itself when it counts as down; the sandbox never does unless it says so.
    #[test]
    fn ntf_17_a_channel_has_a_breaker_of_its_own() {
        let failures = |key: &str, breaker_failures| {
            let policy = ChannelPolicy { breaker_failures, ..ChannelPolicy::default() };
            let settings = limiter_settings(&BTreeMap::from([(key.to_owned(), policy)]));
            settings[key].breaker.map(|breaker| breaker.failures)
        };
        assert_eq!([None, Some(0), Some(3)].map(|n| failures("sms:a", n)), [Some(20), None, Some(3)]);
        assert_eq!([None, Some(0), Some(3)].map(|n| failures("memory:a", n)), [None, None, Some(3)]);
    }
}
