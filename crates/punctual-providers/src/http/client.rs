//! The HTTP client: TLS by rustls and ring, Mozilla's roots, no redirects, no proxy, and only addresses
//! that the channel may send to.

use super::destination::{CheckedResolver, Destinations};
use reqwest::Client;
use reqwest::redirect::Policy;
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;
use std::time::Duration;

/// How long a connection may take to be made.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How long a connection is kept when nobody needs it; shorter than servers commonly keep them.
const IDLE_MAX: Duration = Duration::from_secs(20);
/// Who asks.
const USER_AGENT: &str = concat!("punctual/", env!("CARGO_PKG_VERSION"));

/// A client whose calls may take as long as `timeout`.
pub(super) fn build(timeout: Duration, destinations: &Arc<Destinations>) -> Result<Client, String> {
    let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    // Of our own, since the process may have no default provider, or another one.
    let tls = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Client::builder()
        .tls_backend_preconfigured(tls)
        .redirect(Policy::none())
        .no_proxy()
        .dns_resolver(CheckedResolver(Arc::clone(destinations)))
        .user_agent(USER_AGENT)
        .connect_timeout(CONNECT_MAX.min(timeout / 2))
        .pool_idle_timeout(IDLE_MAX)
        .build()
        .map_err(|error| error.to_string())
}
