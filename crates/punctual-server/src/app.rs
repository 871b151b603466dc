//! What every request sees. The only place where the parts are put together is
//! `cli::serve`.

use punctual::Engine;
use std::sync::Arc;

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
    /// Whether health and metrics need a key (a listener that is not private).
    pub guard_ops: bool,
    /// Renders the metrics.
    pub metrics: Option<metrics_exporter_prometheus::PrometheusHandle>,
}
