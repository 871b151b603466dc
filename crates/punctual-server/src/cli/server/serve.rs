//! `punctual serve`: the only place that assembles the parts.
//!
//! The server prints one line when it is ready, and stops well on SIGTERM or SIGINT: no new
//! connections and no new work, then up to a limit for running work.

pub(in crate::cli) mod signals;

use super::logs;
use crate::app::{App, Exposure, Role, Settings, Started, Stopping};
use crate::cli::failure::{CommandFailure, Outcome};
use crate::cli::{GlobalOptions, print_line};
use crate::config::{Config, ConnectionsFile, Flags};
use crate::connections;
use crate::connections::ConnectionLimits;
use crate::demo::fakes::FakeProviders;
use crate::http;
use crate::http::api::queue::waiting::WaitingClaims;
use crate::http::public::visitor::PublicAccess;
use crate::http::webhooks::{CallbackChannel, Webhooks};
use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use punctual::engine::Builder;
use punctual::{ClockMode, Engine, KeyId, Store};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

/// The interval of maintenance of the metrics' recorder.
const UPKEEP: Duration = Duration::from_secs(5);
/// Buckets of every measured duration: unlike quantiles they can be added over
/// processes.
const BUCKETS_SECONDS: [f64; 12] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

/// The default limit of descriptors where the system has none.
const DESCRIPTORS_USUAL: u64 = 1_024;

/// An assembled server, before it accepts requests.
#[derive(Debug)]
pub struct Server {
    config: Config,
    app: App,
    listener: TcpListener,
    address: SocketAddr,
}

/// Runs a server until it is asked to stop.
///
/// # Errors
/// One sentence about the cause, if it cannot start.
pub(in crate::cli) async fn run(options: GlobalOptions, flags: Flags) -> Outcome {
    let as_json = options.json;
    let config = Config::decide(options.database, flags, (options.config.as_deref(), options.file))?;
    logs::begin(config.log_format);
    let server = Server::open(config, |builder| builder, None).await?;
    server.warn_without_keys().await?;
    server.warn_of_sandboxed();
    // Before the ready line: whoever waits for it may ask for a stop at once.
    let asked = signals::asked_to_stop()?;
    server.say_ready(as_json);
    server.run(asked).await
}

impl Server {
    /// Takes the port, opens the database and assembles the parts. `furnish` adds
    /// handlers.
    ///
    /// # Errors
    /// One sentence about the cause, if it cannot start.
    pub async fn open(
        config: Config,
        furnish: impl FnOnce(Builder) -> Builder,
        fakes: Option<FakeProviders>,
    ) -> Outcome<Self> {
        // The port first: a second server by mistake must not touch the database.
        let listener = TcpListener::bind(config.listen).await.map_err(|e| no_port(config.listen, &e))?;
        let address = listener.local_addr().map_err(|e| no_port(config.listen, &e))?;
        let demo = fakes.is_some();
        let engine = furnish(builder(&config, address, demo)).open().await?;
        // At the start, and not when the first mail is due: also a server without keys may need one.
        engine.store().check_link_secret().await?;
        let settings = Settings {
            root_key: config.root_key.clone(),
            dev: config.clock == ClockMode::Manual,
            exposure: config.exposure(),
            demo,
            fakes,
            role: config.role,
            public: PublicAccess::new(config.public.requests_per_minute, config.public.trust_forwarded_for),
            waiting: WaitingClaims::default(),
            webhooks: webhooks(&config, address),
            started: Started::default(),
            stopping: Stopping::default(),
            metrics: recorder(),
        };
        Ok(Self { config, app: App { engine, settings: Arc::new(settings) }, listener, address })
    }

    /// Returns the listening address.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the engine.
    #[must_use]
    pub const fn engine(&self) -> &Engine {
        &self.app.engine
    }

    fn say_ready(&self, as_json: bool) {
        let url = format!("http://{}", self.address);
        let database = self.engine().store().dialect().name();
        let (role, clock) = (self.config.role.word(), clock_word(self.config.clock));
        if as_json {
            print_line(
                &json!({"ready": url, "database": database, "role": role, "clock": clock}).to_string(),
            );
        } else {
            print_line(&format!("punctual is ready on {url} ({database}, role {role}, {clock} clock)"));
        }
    }

    /// Warns if the server has no key at all. A worker on a private listener shows
    /// all its pages without a key.
    async fn warn_without_keys(&self) -> Outcome {
        let needs_none = self.config.role == Role::Worker && self.config.exposure() == Exposure::Local;
        if needs_none || self.config.root_key.is_some() || any_key(self.engine().store()).await? {
            return Ok(());
        }
        tracing::warn!(
            target: "punctual",
            "there is neither a root key nor an API key, so every request that needs one is refused: set \
             PUNCTUAL_ROOT_KEY (make one with `openssl rand -hex 32`) and start again, or make a key with \
             `punctual keys create NAME --role admin`"
        );
        Ok(())
    }

    /// Warns of channels that only keep messages, so that they do not go live by mistake.
    fn warn_of_sandboxed(&self) {
        if self.config.clock == ClockMode::System && !self.config.channels.sandboxed.is_empty() {
            let keys = self.config.channels.sandboxed.join(", ");
            tracing::warn!(target: "punctual", "messages of {keys} reach no recipient: provider `memory`");
        }
    }

    /// Serves until it is asked to stop, then stops in order.
    ///
    /// # Errors
    /// When it cannot accept connections.
    pub async fn run(self, asked: impl Future<Output = ()>) -> Outcome {
        let engine = self.app.engine.clone();
        let limit = self.config.stop_limit;
        match self.config.role {
            Role::Api => engine.start_listening(),
            Role::All | Role::Worker => engine.start(),
        }
        let upkeep = tokio::spawn(upkeep(self.app.settings.metrics.clone()));
        let stop = self.app.settings.stopping.subscribe();
        let limits = connection_limits(self.config.connections);
        let mut serving = tokio::spawn(connections::serve(self.listener, routes(&self.app), limits, stop));
        tokio::select! {
            () = asked => {}
            ended = &mut serving => return Err(broke_off(ended)),
        }
        tracing::info!(target: "punctual", "stopping");
        self.app.settings.stopping.begin();
        let (drained, ()) = tokio::join!(tokio::time::timeout(limit, &mut serving), end(&engine, limit));
        if drained.is_err() {
            tracing::warn!(target: "punctual", "some connections were cut after {limit:?}");
            serving.abort();
        }
        upkeep.abort();
        Ok(())
    }
}

/// Stops the engine, and abandons an engine that exceeds its own limit.
async fn end(engine: &Engine, limit: Duration) {
    // A little more than the engine's own limit, which it keeps to by itself.
    let patience = limit + Duration::from_secs(1);
    if tokio::time::timeout(patience, engine.stop(limit)).await.is_err() {
        tracing::warn!(target: "punctual", "work was given up after {limit:?}; it comes back by its lease");
    }
}

fn builder(config: &Config, address: SocketAddr, demo: bool) -> Builder {
    let own = config.public_url(address);
    let own_page = || format!("{own}/s/{{publicId}}");
    let builder = Engine::builder(&config.database)
        .pool_size(config.pool_size)
        .clock(config.clock)
        .leave_manual_clock(config.leave_manual_clock)
        .survey_url(config.survey_url.clone().unwrap_or_else(own_page))
        .unsubscribe_url(format!("{own}/u/{{token}}"))
        .encryption_keys(config.encryption_keys.clone())
        .retentions(config.retention)
        .inbox(config.inbox);
    let builder = config.channels.add_to(builder, config.clock, demo);
    if config.migrate { builder } else { builder.without_migrations().schema_wait(config.schema_wait) }
}

/// Returns the readers of providers' callbacks.
fn webhooks(config: &Config, address: SocketAddr) -> Webhooks {
    let channels = config.channels.real.iter().filter_map(|real| {
        let (provider, channel) = (real.provider.clone(), real.key.clone());
        Some(CallbackChannel { provider, channel, receipts: real.receipts.clone()? })
    });
    Webhooks { url: config.public_url(address), channels: channels.collect() }
}

/// Returns the limit of connections by the system's descriptors, after raising that limit.
fn connection_limits(asked: ConnectionsFile) -> ConnectionLimits {
    let allowed = rlimit::increase_nofile_limit(rlimit::INFINITY).unwrap_or(DESCRIPTORS_USUAL);
    let allowed = usize::try_from(allowed).unwrap_or(usize::MAX);
    let limits = ConnectionLimits::for_descriptors(allowed, asked.max, asked.per_address);
    if asked.max.is_some_and(|max| max > limits.max) {
        tracing::warn!(
            target: "punctual",
            descriptors = allowed, max = limits.max,
            "the system allows too few open files for connections.max; raise its limit (ulimit -n)"
        );
    }
    limits
}

fn routes(app: &App) -> Router {
    let all = http::router(app.clone());
    match app.settings.role {
        Role::All | Role::Api => all,
        Role::Worker => all.layer(from_fn(only_operations)),
    }
}

/// A worker answers operators, not clients.
async fn only_operations(request: Request, next: Next) -> axum::response::Response {
    let path = request.uri().path();
    let known = ["/", "/status.css", "/status.js", "/metrics", "/health"].contains(&path)
        || path.starts_with("/health/");
    if known {
        return next.run(request).await;
    }
    let said = json!({
        "type": "about:blank",
        "title": "Not found",
        "status": 404,
        "detail": "this process is a worker; ask one with the role `api` or `all`",
        "errors": [],
    });
    let head = [("content-type", "application/problem+json")];
    (axum::http::StatusCode::NOT_FOUND, head, said.to_string()).into_response()
}

/// Installs the recorder of metrics; a second server in one process has none of its own.
fn recorder() -> Option<PrometheusHandle> {
    let builder = PrometheusBuilder::new().set_buckets(&BUCKETS_SECONDS).ok()?;
    builder.install_recorder().ok()
}

async fn upkeep(metrics: Option<PrometheusHandle>) {
    let Some(metrics) = metrics else { return };
    loop {
        tokio::time::sleep(UPKEEP).await;
        metrics.run_upkeep();
    }
}

async fn any_key(store: &Store) -> Outcome<bool> {
    for row in store.tenants(0, 1_000).await? {
        if !store.keys(row.tenant, KeyId(0), 1).await?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

const fn clock_word(clock: ClockMode) -> &'static str {
    match clock {
        ClockMode::System => "system",
        ClockMode::Manual => "manual",
    }
}

fn no_port(address: SocketAddr, error: &std::io::Error) -> CommandFailure {
    let why = match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            "another program listens there; choose another with --listen".to_owned()
        }
        std::io::ErrorKind::PermissionDenied => "this user may not; ports below 1024 need rights".to_owned(),
        std::io::ErrorKind::AddrNotAvailable => "this machine does not have that address".to_owned(),
        _ => error.to_string(),
    };
    CommandFailure::failed(format!("cannot listen on {address}: {why}"))
}

fn broke_off(ended: Result<(), tokio::task::JoinError>) -> CommandFailure {
    let why = ended.map_or_else(|error| error.to_string(), |()| "it ended by itself".to_owned());
    CommandFailure::failed(format!("the server cannot accept requests any more: {why}"))
}
