//! The HTTP client of the commands and the demo.
//!
//! Promised: TLS by rustls and ring with Mozilla's roots, no redirects and no proxy, so that a key reaches
//! only the server that was named. Not promised: servers with a certificate of a private authority.

use reqwest::Client;
use reqwest::redirect::Policy;
use rustls::{ClientConfig, RootCertStore};
use std::error::Error;
use std::iter::successors;
use std::sync::Arc;
use std::time::Duration;

const USER_AGENT: &str = concat!("punctual/", env!("CARGO_PKG_VERSION"));

/// Builds a client that gives up on a connection after `connect_timeout`.
///
/// # Errors
/// The cause, if TLS cannot be set up.
pub fn build(connect_timeout: Duration) -> Result<Client, Box<dyn Error + Send + Sync>> {
    let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    // Explicit, because reqwest is built without a default provider of cryptography.
    let tls = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let client = Client::builder().tls_backend_preconfigured(tls).redirect(Policy::none()).no_proxy();
    // A server closes idle connections, and a call may meet the closing.
    Ok(client.pool_max_idle_per_host(0).user_agent(USER_AGENT).connect_timeout(connect_timeout).build()?)
}

/// The reason why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestFailure {
    /// No connection was made in time.
    ConnectTimeout,
    /// No connection was made.
    Connect,
    /// The server's certificate was not accepted.
    Tls,
    /// The connection was made, and the answer did not arrive in time.
    Timeout,
    /// The answer is not HTTP.
    NotHttp,
    /// The connection broke before the answer was complete.
    Broken,
}

impl RequestFailure {
    /// Classifies an error of the client.
    #[must_use]
    pub fn of(error: &reqwest::Error) -> Self {
        match (error.is_connect(), error.is_timeout()) {
            (true, true) => Self::ConnectTimeout,
            (true, false) if sources(error).any(|source| source.is::<rustls::Error>() || is_tls(source)) => {
                Self::Tls
            }
            (true, false) => Self::Connect,
            (false, true) => Self::Timeout,
            (false, false) if is_parse_error(error) => Self::NotHttp,
            (false, false) => Self::Broken,
        }
    }
}

/// An error of TLS stands inside an error of input and output.
fn is_tls(source: &(dyn Error + 'static)) -> bool {
    let inner = source.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    inner.is_some_and(|inner| inner.is::<rustls::Error>())
}

fn is_parse_error(error: &reqwest::Error) -> bool {
    sources(error).filter_map(|source| source.downcast_ref::<hyper::Error>()).any(hyper::Error::is_parse)
}

/// Returns the innermost cause, such as "Connection refused (os error 111)".
#[must_use]
pub fn root_cause(error: &reqwest::Error) -> String {
    sources(error).last().map_or_else(String::new, ToString::to_string)
}

/// The error and its sources, from the outside in.
fn sources(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    let outermost: &(dyn Error + 'static) = error;
    successors(Some(outermost), |error| (*error).source())
}
