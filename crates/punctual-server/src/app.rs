//! The state of every request. Only `cli::server::serve` assembles it.

use crate::http::api::queue::waiting::WaitingClaims;
use crate::http::public::visitor::PublicAccess;
use crate::http::webhooks::Webhooks;
use punctual::Engine;
use punctual::base::clock::{Monotonic, monotonic};
use std::sync::Arc;
use tokio::sync::watch;

/// The server's state, cheap to clone.
#[derive(Clone, Debug)]
pub struct App {
    /// The engine.
    pub engine: Engine,
    /// Settings that requests depend on.
    pub settings: Arc<Settings>,
}

/// Settings that requests depend on.
#[derive(Debug, Default)]
pub struct Settings {
    /// A key with all rights in all tenants.
    pub root_key: Option<String>,
    /// Whether the manual clock and its routes are on.
    pub dev: bool,
    /// Who can reach this server; decides what is shown without a key.
    pub exposure: Exposure,
    /// Whether this is the demo: its pages are open to everybody who reaches it.
    pub demo: bool,
    /// What stands for the providers in the demo.
    pub fakes: Option<crate::demo::fakes::FakeProviders>,
    /// What this process does.
    pub role: Role,
    /// What needs no key, and how often strangers may ask for it.
    pub public: PublicAccess,
    /// The claims that wait for work.
    pub waiting: WaitingClaims,
    /// Who hears the callbacks of providers.
    pub webhooks: Webhooks,
    /// When it began.
    pub started: Started,
    /// Whether this process is about to end.
    pub stopping: Stopping,
    /// Renders the metrics.
    pub metrics: Option<metrics_exporter_prometheus::PrometheusHandle>,
}

/// Who can reach a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exposure {
    /// Programs on this machine.
    #[default]
    Local,
    /// Programs on this machine, and others through a proxy: a public address or a proxy is configured.
    Proxied,
    /// Other machines: the listener is not on the loopback address.
    Public,
}

/// What a process does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Serves requests and works.
    #[default]
    All,
    /// Serves requests; others work.
    Api,
    /// Works; of the routes only health, metrics and the status page are there.
    Worker,
}

impl Role {
    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Api => "api",
            Self::Worker => "worker",
        }
    }
}

/// The moment at which a process began.
#[derive(Clone, Copy, Debug)]
pub struct Started(pub Monotonic);

impl Default for Started {
    fn default() -> Self {
        Self(monotonic())
    }
}

/// Says that the process is about to end, to requests that only wait for something.
#[derive(Debug, Default)]
pub struct Stopping(watch::Sender<bool>);

impl Stopping {
    /// From now on nobody should wait any longer.
    pub fn begin(&self) {
        self.0.send_replace(true);
    }

    /// Returns a receiver that becomes true when the server begins to stop.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<bool> {
        self.0.subscribe()
    }

    /// Ends when the stop has begun; at once if it has already.
    pub async fn begun(&self) {
        // The sender is this one, so it outlives the wait.
        let _ = self.0.subscribe().wait_for(|begun| *begun).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stop_is_heard_by_those_who_wait_and_those_who_come_late() {
        let stopping = Stopping::default();
        tokio::join!(stopping.begun(), async { stopping.begin() });
        stopping.begun().await;
    }
}
