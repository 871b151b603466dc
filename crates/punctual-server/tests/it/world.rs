//! A server of one's own for one test: an empty database, an engine, a listener.

use crate::client::Client;
use punctual::engine::Builder;
use punctual::{ClockMode, Engine};
use punctual_bench::cluster::{Cluster, ClusterOptions};
use punctual_bench::database::Database;
use punctual_server::app::{App, Settings};
use punctual_server::connections::{self, ConnectionLimits};
use punctual_server::http;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// The root key of every test.
pub const ROOT_KEY: &str = "root-key-of-the-tests-0123456789abcdef";

/// Which database.
#[derive(Clone, Copy, Debug)]
pub enum Base {
    Sqlite,
    Postgres,
}

/// A running server.
pub struct World {
    pub engine: Engine,
    pub address: SocketAddr,
}

impl World {
    /// A server whose clock stands still.
    pub async fn manual(base: Base) -> Self {
        Self::start(base, ClockMode::Manual, Settings::default()).await
    }

    /// A server whose loops run.
    pub async fn system(base: Base) -> Self {
        Self::start(base, ClockMode::System, Settings::default()).await
    }

    pub async fn start(base: Base, clock: ClockMode, settings: Settings) -> Self {
        Self::furnished(Self::place(base).await, clock, settings, |builder| builder).await
    }

    /// A server on this database whose engine has more than others.
    pub async fn furnished(
        url: String,
        clock: ClockMode,
        settings: Settings,
        furnish: impl FnOnce(Builder) -> Builder,
    ) -> Self {
        let engine = furnish(Engine::builder(url).pool_size(4).clock(clock)).open().await.unwrap();
        engine.start();
        Self::serve(engine, settings).await
    }

    pub async fn serve(engine: Engine, settings: Settings) -> Self {
        let root_key = Some(ROOT_KEY.to_owned());
        let dev = engine.clock() == ClockMode::Manual;
        let settings = Arc::new(Settings { root_key, dev, ..settings });
        let router = http::router(App { engine: engine.clone(), settings });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stopper, stop) = tokio::sync::watch::channel(false);
        let limits = ConnectionLimits::for_descriptors(10_000, None, None);
        tokio::spawn(async move {
            connections::serve(listener, router, limits, stop).await;
            drop(stopper);
        });
        Self { engine, address }
    }

    /// The address of an empty database.
    pub async fn place(base: Base) -> String {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        match base {
            Base::Sqlite => "sqlite::memory:".into(),
            Base::Postgres => {
                let name = format!("it_{}", COUNT.fetch_add(1, Ordering::Relaxed));
                let database = Database::new(cluster(), &name);
                database.recreate().await.unwrap();
                database.url()
            }
        }
    }

    /// A caller without a key.
    pub fn anybody(&self) -> Client {
        Client::new(self.address)
    }

    /// A caller with the root key, in the default tenant.
    pub fn root(&self) -> Client {
        self.anybody().key(ROOT_KEY)
    }

    /// Makes a tenant; answers the root key's client for it.
    pub async fn tenant(&self, slug: &str) -> Client {
        self.root().does("/api/tenants", json!({"slug": slug, "name": slug}), 201).await;
        self.root().tenant(slug)
    }

    /// Makes a key in the client's tenant; answers a client that uses it.
    pub async fn key(&self, maker: &Client, role: &str) -> Client {
        let made = maker.does("/api/keys", json!({"name": format!("the {role}"), "role": role}), 201).await;
        self.anybody().key(made["key"].as_str().unwrap())
    }

    /// Moves the manual clock.
    pub async fn advance(&self, by: &str) -> Value {
        self.root().does("/dev/clock", json!({"advance": by}), 200).await
    }
}

/// An engine on an empty database and a clock that stands still, furnished.
pub async fn engine_on(base: Base, furnish: impl FnOnce(Builder) -> Builder) -> Engine {
    let builder = Engine::builder(place(base).await).pool_size(4).clock(ClockMode::Manual);
    furnish(builder).open().await.unwrap()
}

/// The address of an empty database.
async fn place(base: Base) -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    match base {
        Base::Sqlite => "sqlite::memory:".into(),
        Base::Postgres => {
            let name = format!("it_{}", COUNT.fetch_add(1, Ordering::Relaxed));
            let database = Database::new(cluster(), &name);
            database.recreate().await.unwrap();
            database.url()
        }
    }
}

/// One throw-away server for the whole binary; it goes when the process does.
fn cluster() -> &'static Arc<Cluster> {
    static CLUSTER: OnceLock<Arc<Cluster>> = OnceLock::new();
    CLUSTER.get_or_init(|| Arc::new(Cluster::start(&ClusterOptions::fast()).unwrap()))
}

/// Held by the one measurement that runs; others wait for its end.
pub static RUNNING: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Publishes one plain event; answers its id.
pub async fn publish(client: &Client, topic: &str) -> String {
    let event = json!({"topic": topic, "kind": "order.placed", "payload": {"order": 7}});
    let answer = client.does("/api/events", event, 202).await;
    assert_eq!(answer["accepted"], 1, "{answer}");
    answer["ids"][0].as_str().unwrap().to_owned()
}

/// Claims what is due in a topic.
pub async fn claim(client: &Client, topic: &str) -> Vec<Value> {
    let path = format!("/api/queues/{topic}/claim");
    let answer = client.does(&path, json!({"owner": "worker-1", "leaseSeconds": 30, "limit": 10}), 200).await;
    answer["items"].as_array().unwrap().clone()
}

/// Says something about one claimed item; answers the outcome.
pub async fn settle(client: &Client, topic: &str, verb: &str, item: Value) -> String {
    let path = format!("/api/queues/{topic}/{verb}");
    let answer = client.does(&path, json!({"items": [item]}), 200).await;
    answer["items"][0]["outcome"].as_str().unwrap().to_owned()
}
