//! A stage: an engine on a temporary database whose time the test moves.
//!
//! Nothing on it happens by itself. [`Stage::drain`] does what is due until nothing is;
//! [`Stage::advance`] moves time and does what becomes due on the way, in order, each at its
//! own time. So a test needs no sleep and no patience, and gives the same result every time.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::tenant::Tenant;
use crate::database::clock::ClockMode;
use crate::database::store::Store;
use crate::delivery::run::sandbox::Sandbox;
use crate::engine::{Builder, Engine, StepCounts};
use crate::queue::run::handler::Handler;
use crate::testing::expect::MessageExpectation;
use crate::testing::place::{Backend, TemporaryStore};
use std::time::Duration;

/// An engine on a temporary database.
///
/// ```
/// # fn main() -> punctual::Result<()> {
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use punctual::testing::{Recorder, Stage};
/// use punctual::{NewMessage, NewTimer, Tenant};
/// use std::time::Duration;
///
/// let mails = Recorder::new();
/// let stage = Stage::sqlite().handler("mails", mails.clone()).open().await?;
///
/// // What is under test enqueues something …
/// let message = NewMessage::new("mails", "welcome", r#"{"to": "ada"}"#).key("ada");
/// stage.engine().enqueue_one(Tenant::DEFAULT, message).await?;
/// let reminder = NewTimer::after(Duration::from_secs(86_400), "mails", r#"{"to": "ada"}"#);
/// stage.engine().schedule_one(Tenant::DEFAULT, reminder).await?;
///
/// // … and this is the result, without waiting a day.
/// stage.assert_enqueued("mails").with_kind("welcome").with_key("ada").count(1).await;
/// stage.drain().await?;
/// assert_eq!(mails.payloads(), [r#"{"to": "ada"}"#]);
/// stage.advance(Duration::from_secs(86_400)).await?;
/// assert_eq!(mails.works().len(), 2);
/// stage.assert_enqueued("invoices").never().await;
/// # Ok(())
/// # })
/// # }
/// ```
#[derive(Debug)]
pub struct Stage {
    engine: Engine,
    sandbox: Sandbox,
    place: TemporaryStore,
}

/// A stage to be.
#[derive(Debug)]
pub struct StageBuilder {
    backend: Backend,
    changes: Vec<BuilderChange>,
}

struct BuilderChange(Box<dyn FnOnce(Builder) -> Builder + Send>);

impl std::fmt::Debug for BuilderChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Change")
    }
}

impl Stage {
    /// On a SQLite file of its own, in memory where the system offers that.
    #[cfg(feature = "sqlite")]
    #[must_use]
    pub const fn sqlite() -> StageBuilder {
        Self::on(Backend::Sqlite)
    }

    /// On a database of its own in a PostgreSQL server that this process starts once. Needs
    /// the server's programs, not a running server.
    #[cfg(feature = "postgres")]
    #[must_use]
    pub const fn postgres() -> StageBuilder {
        Self::on(Backend::Postgres)
    }

    /// On the database named.
    #[must_use]
    pub const fn on(backend: Backend) -> StageBuilder {
        StageBuilder { backend, changes: Vec::new() }
    }

    /// The engine.
    #[must_use]
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// What was sent by the `memory:` channels, and what they answer next.
    #[must_use]
    pub const fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// The database's address, for hosts that open it themselves.
    #[must_use]
    pub fn url(&self) -> &str {
        self.place.url()
    }

    /// The same database through a handle of which the `n`-th statement of each transaction
    /// (from 1) fails: what is under test must leave nothing half done behind.
    #[must_use]
    pub fn failing_at(&self, n: usize) -> Store {
        self.engine.store().failing_at(n)
    }

    /// The time. It stands still at [`TemporaryStore::START`] until it is moved.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn now(&self) -> Result<Timestamp> {
        self.engine.store().now().await
    }

    /// Does everything that is due, until nothing is. What failed and is tried again later
    /// waits for [`Stage::advance`].
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn drain(&self) -> Result<StepCounts> {
        // What a host's own transaction wrote has no lane yet.
        while self.engine.store().route_waiting().await? > 0 {}
        self.engine.step().await
    }

    /// Moves time on, doing what becomes due on the way, in order.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn advance(&self, by: Duration) -> Result<StepCounts> {
        self.travel(self.now().await?.plus(by)).await
    }

    /// Moves time to a moment; on the way forward what becomes due is done, in order. Going
    /// back does nothing else.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn travel(&self, to: Timestamp) -> Result<StepCounts> {
        while self.engine.store().route_waiting().await? > 0 {}
        self.engine.travel(to, true).await
    }

    /// Begins a sentence about what was enqueued to a topic of the default tenant, handled or
    /// not: `assert_enqueued("mails").with_key("ada").count(1).await`.
    pub fn assert_enqueued(&self, topic: &str) -> MessageExpectation {
        self.assert_enqueued_by(Tenant::DEFAULT, topic)
    }

    /// The same for another tenant.
    pub fn assert_enqueued_by(&self, tenant: Tenant, topic: &str) -> MessageExpectation {
        MessageExpectation::new(self.engine.store().clone(), tenant, topic)
    }
}

impl StageBuilder {
    /// Handles a topic: with a [`super::Recorder`], or with code of the test's own.
    #[must_use]
    pub fn handler(self, topic: impl Into<String>, handler: impl Handler) -> Self {
        let topic = topic.into();
        self.with(move |builder| builder.handler(topic, handler))
    }

    /// Changes how the engine is built: its retention, its lease.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(Builder) -> Builder + Send + 'static) -> Self {
        self.changes.push(BuilderChange(Box::new(change)));
        self
    }

    /// Makes the database and the engine.
    ///
    /// # Errors
    /// When there is no place for a database, such as without PostgreSQL's server programs.
    pub async fn open(self) -> Result<Stage> {
        let place = TemporaryStore::new(self.backend).await?;
        let builder = Engine::builder(place.url()).clock(ClockMode::Manual);
        let builder = self.changes.into_iter().fold(builder, |builder, change| (change.0)(builder));
        let engine = builder.open().await?;
        // An unused sandbox, if the engine was changed to have none.
        let sandbox = engine.sandbox().cloned().unwrap_or_default();
        Ok(Stage { engine, sandbox, place })
    }
}
