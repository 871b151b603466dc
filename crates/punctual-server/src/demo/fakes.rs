//! Providers that are none: one small server on this machine that answers as Meta's WhatsApp Cloud,
//! Twilio and SendGrid do, keeps what it was given for everybody to look at, and reaches nobody.
//!
//! Now and then it is busy or down, or refuses a number, with the words of the provider it stands for. What
//! WhatsApp took it reports as delivered a little later, signed, to `/webhooks/meta-whatsapp`.

mod answer;

use answer::{Reply, answer};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use punctual::Timestamp;
use punctual::base::clock::host_now;
use punctual::base::random;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

/// What callbacks are signed with.
pub const APP_SECRET: &str = "the-demos-app-secret";
/// Requests that are remembered.
const KEPT_MAX: usize = 500;
/// How long a message takes to a phone.
const DELIVERY_TAKES: Duration = Duration::from_secs(3);

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
pub struct Fakes {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    got: Mutex<VecDeque<FakeRequest>>,
    /// Where callbacks go.
    report_to: OnceLock<SocketAddr>,
}

impl Fakes {
    /// Starts it, on a port that is free.
    ///
    /// # Errors
    /// When this machine has none.
    pub async fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let fakes = Self { address: listener.local_addr()?, shared: Arc::default() };
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

async fn take(State(fakes): State<Fakes>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let signed_in = headers.contains_key("authorization");
    let Some((asked, reply)) = answer(uri.path(), &body, signed_in, random::seed()) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    if let (Some(id), Some(server)) = (&reply.delivered, fakes.shared.report_to.get()) {
        tokio::spawn(report(*server, id.clone(), asked.to.clone()));
    }
    let (status, said) = (reply.status, reply.said.clone());
    let answered = respond(reply);
    let answer::FakeMessage { provider, to, subject, text } = asked;
    fakes.keep(FakeRequest { at: host_now(), provider, to, subject, text, status, said });
    answered
}

fn respond(reply: Reply) -> Response {
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
async fn report(server: SocketAddr, id: String, to: String) {
    tokio::time::sleep(DELIVERY_TAKES).await;
    let seconds = (host_now().as_micros() / 1_000_000).to_string();
    let status = json!({"id": id, "status": "delivered", "recipient_id": to, "timestamp": seconds});
    let body = json!({"object": "whatsapp_business_account", "entry": [{"changes": [{"field": "messages",
        "value": {"messaging_product": "whatsapp", "statuses": [status]}}]}]});
    let body = body.to_string();
    let signature = hmac_sha256::HMAC::mac(body.as_bytes(), APP_SECRET.as_bytes());
    let signature: String = signature.iter().map(|byte| format!("{byte:02x}")).collect();
    let head = format!(
        "POST /webhooks/meta-whatsapp HTTP/1.1\r\nhost: {server}\r\nconnection: close\r\n\
         content-type: application/json\r\nx-hub-signature-256: sha256={signature}\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    if let Ok(mut stream) = TcpStream::connect(server).await {
        let told = stream.write_all((head + &body).as_bytes()).await;
        let mut answer = Vec::new();
        let heard = tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut answer).await;
        if let Err(error) = told.and(heard.map(|_| ())) {
            tracing::debug!(target: "punctual", %error, "a callback of the demo was not heard");
        }
    }
}
