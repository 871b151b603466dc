//! Providers that are none: one small server on this machine that answers as Meta's WhatsApp Cloud,
//! Twilio and SendGrid do, keeps what it was given for everybody to look at, and reaches nobody.
//!
//! Now and then it is busy or down, or refuses a number, with the words of the provider it stands for. What
//! WhatsApp took it reports as delivered a little later, signed, to `/webhooks/meta-whatsapp`.

mod answer;

use crate::http_client;
use answer::{FakeReply, answer};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use punctual::Timestamp;
use punctual::base::clock::host_now;
use punctual::base::random;
use reqwest::Client;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;

/// What callbacks are signed with.
pub const APP_SECRET: &str = "the-demos-app-secret";
/// Requests that are remembered.
const KEPT_MAX: usize = 500;
/// How long a message takes to a phone.
const DELIVERY_TAKES: Duration = Duration::from_secs(3);
/// Connecting for a callback, and the whole callback, take no longer.
const CALLBACK_TIMEOUT: Duration = Duration::from_secs(10);

/// A request that came, and what was answered.
#[derive(Clone, Debug, Serialize)]
pub struct FakeRequest {
    /// When.
    pub at: Timestamp,
    /// The provider it was meant for.
    pub provider: &'static str,
    /// Where the message goes.
    pub to: String,
    /// The subject of a mail.
    pub subject: Option<String>,
    /// The text.
    pub text: String,
    /// The status that was answered.
    pub status: u16,
    /// What was answered, in words.
    pub said: String,
}

/// The server; clones are the same one.
#[derive(Clone, Debug)]
pub struct FakeProviders {
    address: SocketAddr,
    callbacks: Client,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    got: Mutex<VecDeque<FakeRequest>>,
    /// Where callbacks go.
    report_to: OnceLock<SocketAddr>,
}

impl FakeProviders {
    /// Starts it, on a port that is free.
    ///
    /// # Errors
    /// When this machine has no free port, or no TLS can be set up.
    pub async fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let callbacks = http_client::build(CALLBACK_TIMEOUT).map_err(std::io::Error::other)?;
        let fakes = Self { address: listener.local_addr()?, callbacks, shared: Arc::default() };
        let router = Router::new().fallback(take).with_state(fakes.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(fakes)
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sends callbacks to the server that listens there.
    pub fn report_to(&self, server: SocketAddr) {
        // A second server would be another process's.
        let _ = self.shared.report_to.set(server);
    }

    /// What came, the newest first.
    #[must_use]
    pub fn got(&self) -> Vec<FakeRequest> {
        self.shared.got.lock().unwrap_or_else(PoisonError::into_inner).iter().rev().cloned().collect()
    }

    fn keep(&self, got: FakeRequest) {
        let mut all = self.shared.got.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() == KEPT_MAX {
            all.pop_front();
        }
        all.push_back(got);
    }
}

async fn take(State(fakes): State<FakeProviders>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let signed_in = headers.contains_key("authorization");
    let Some((asked, reply)) = answer(uri.path(), &body, signed_in, random::seed()) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    if let (Some(id), Some(server)) = (&reply.delivered, fakes.shared.report_to.get()) {
        tokio::spawn(report(fakes.callbacks.clone(), *server, id.clone(), asked.to.clone()));
    }
    let (status, said) = (reply.status, reply.said.clone());
    let answered = respond(reply);
    let answer::FakeMessage { provider, to, subject, text } = asked;
    fakes.keep(FakeRequest { at: host_now(), provider, to, subject, text, status, said });
    answered
}

fn respond(reply: FakeReply) -> Response {
    let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = match reply.body {
        Value::Null => status.into_response(),
        body => (status, axum::Json(body)).into_response(),
    };
    if let Some((name, value)) = reply.header
        && let Ok(value) = value.parse()
    {
        response.headers_mut().insert(name, value);
    }
    response
}

/// Says that a message has arrived. A server without such a route does not want to know.
async fn report(callbacks: Client, server: SocketAddr, id: String, to: String) {
    tokio::time::sleep(DELIVERY_TAKES).await;
    let seconds = (host_now().as_micros() / 1_000_000).to_string();
    let status = json!({"id": id, "status": "delivered", "recipient_id": to, "timestamp": seconds});
    let body = json!({"object": "whatsapp_business_account", "entry": [{"changes": [{"field": "messages",
        "value": {"messaging_product": "whatsapp", "statuses": [status]}}]}]});
    let body = body.to_string();
    let signature = hmac_sha256::HMAC::mac(body.as_bytes(), APP_SECRET.as_bytes());
    let signature: String = signature.iter().map(|byte| format!("{byte:02x}")).collect();
    let request = callbacks.post(format!("http://{server}/webhooks/meta-whatsapp"));
    let request = request.header("x-hub-signature-256", format!("sha256={signature}"));
    let request = request.header(CONTENT_TYPE, "application/json").timeout(CALLBACK_TIMEOUT);
    let sent = request.body(body).send().await;
    if let Err(error) = sent {
        tracing::debug!(target: "punctual", %error, "the demo's callback was not delivered");
    }
}
