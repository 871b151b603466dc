//! Callbacks of providers: reports about messages (`POST`), and the greeting that some providers send first
//! (`GET`).
//!
//! There is no key: the signature is the credential. A callback is tried with the secrets of every channel
//! that has the provider, or of the one that `?channel=` names, and is read for all channels whose
//! secret fits: two channels may share an account. It is not read before. What is signed over
//! the whole address is checked against the configured public one (`public.url`), never against what a
//! request says of its host.
//!
//! Callers without a valid signature are counted by address and refused when they come too often; valid
//! callbacks are not counted, since a provider may make thousands a minute from one address. The answer does
//! not say what was found. On 503 the provider repeats the callback.

use super::error::ApiFailure;
use super::input;
use super::public::visitor::{TooManyRequests, WebhookCaller};
use crate::app::App;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use metrics::counter;
use punctual::delivery::rules::receipt::Receipt;
use punctual::delivery::store::receipts::ReceiptBatch;
use punctual_providers::receipt::CALLBACK_BYTES_MAX;
use punctual_providers::{Callback, CallbackError, CallbackOutcome, Receipts};

/// The channels with callbacks, and the address of those.
#[derive(Debug, Default)]
pub struct Webhooks {
    /// The public address of this server, without a slash at its end.
    pub url: String,
    /// Each channel whose provider makes callbacks.
    pub channels: Vec<CallbackChannel>,
}

/// A channel whose provider makes callbacks.
#[derive(Clone, Debug)]
pub struct CallbackChannel {
    /// The name of its provider.
    pub provider: String,
    /// Its key.
    pub channel: String,
    /// What verifies and reads.
    pub receipts: Receipts,
}

/// `POST /webhooks/{provider}`, and `GET` for a greeting
pub async fn hear(
    State(app): State<App>,
    caller: Result<WebhookCaller, TooManyRequests>,
    request: Request,
) -> Response {
    let caller = match caller {
        Ok(caller) => caller,
        Err(often) => return often.into_response(),
    };
    match read_callback(&app.settings.webhooks, &caller.provider, request).await {
        Ok(VerifiedCallback::Greeting(body, content_type)) => {
            ([(header::CONTENT_TYPE, content_type)], body).into_response()
        }
        Ok(VerifiedCallback::Receipts(channels, receipts)) => {
            record(&app, ReceiptBatch { provider: caller.provider, channels, receipts }).await
        }
        Err(failure) => refuse(&app, &caller, failure),
    }
}

async fn read_callback(
    webhooks: &Webhooks,
    provider: &str,
    request: Request,
) -> Result<VerifiedCallback, ApiFailure> {
    let (head, body) = request.into_parts();
    let channel = form_urlencoded::parse(head.uri.query().unwrap_or_default().as_bytes())
        .find_map(|(name, value)| (name == "channel").then(|| value.into_owned()));
    let channels = webhooks.of(provider, channel.as_deref())?;
    let body = input::read_within(body, CALLBACK_BYTES_MAX).await?;
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let url = format!("{}{path}", webhooks.url);
    // A header that is no text can be no signature.
    let headers: Vec<(&str, &str)> =
        head.headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?))).collect();
    verify(&channels, &Callback { method: head.method.as_str(), url: &url, headers: &headers, body: &body })
}

async fn record(app: &App, batch: ReceiptBatch) -> Response {
    if batch.receipts.is_empty() {
        return StatusCode::OK.into_response();
    }
    match app.engine.record_receipts(batch).await {
        Ok(_) => StatusCode::OK.into_response(),
        Err(error) => ApiFailure::from(error).into_response(),
    }
}

fn refuse(app: &App, caller: &WebhookCaller, failure: ApiFailure) -> Response {
    let known = app.settings.webhooks.channels.iter().any(|channel| channel.provider == caller.provider);
    // A name that nobody has configured is no label: there are as many as strangers can think of.
    let provider = if known { caller.provider.clone() } else { "unknown".to_owned() };
    let status = failure.status().as_u16().to_string();
    counter!("punctual_callbacks_refused_total", "provider" => provider, "status" => status).increment(1);
    match caller.refused(&app.settings.public) {
        Ok(()) => failure.into_response(),
        Err(often) => often.into_response(),
    }
}

/// The outcome of a callback that was verified.
enum VerifiedCallback {
    /// Receipts, and the channels that they are for.
    Receipts(Vec<String>, Vec<Receipt>),
    /// The answer to a greeting, with its content type.
    Greeting(String, &'static str),
}

/// Verifies a callback with the secrets of each channel, and reads it for all channels whose secret fits.
fn verify(candidates: &[&CallbackChannel], callback: &Callback<'_>) -> Result<VerifiedCallback, ApiFailure> {
    let (mut channels, mut receipts, mut worst) = (Vec::new(), Vec::new(), None);
    for candidate in candidates {
        match candidate.receipts.hear(callback) {
            Ok(CallbackOutcome::Answer { body, content_type }) => {
                return Ok(VerifiedCallback::Greeting(body, content_type));
            }
            Ok(CallbackOutcome::Receipts(heard)) => {
                channels.push(candidate.channel.clone());
                receipts = heard;
            }
            Err(refused) => worst = Some(graver(worst, refused)),
        }
    }
    match worst {
        Some(refused) if channels.is_empty() => Err(failure(refused)),
        _ => Ok(VerifiedCallback::Receipts(channels, receipts)),
    }
}

/// What tells most: it was proved and cannot be read, it was not proved, there is nothing to prove it with.
fn graver(known: Option<CallbackError>, other: CallbackError) -> CallbackError {
    let rank = |refused: &CallbackError| match refused {
        CallbackError::Unreadable(_) => 2,
        CallbackError::Unproved(_) => 1,
        CallbackError::NotSetUp(_) => 0,
    };
    match known {
        Some(known) if rank(&known) >= rank(&other) => known,
        _ => other,
    }
}

fn failure(refused: CallbackError) -> ApiFailure {
    match refused {
        CallbackError::Unproved(said) => ApiFailure::unauthenticated(format!(
            "this callback does not prove who sent it: {said}. Check the channel's secret, and that the \
             provider calls the address in `public.url`"
        )),
        CallbackError::Unreadable(said) => {
            ApiFailure::malformed(format!("this callback cannot be read: {said}"))
        }
        CallbackError::NotSetUp(said) => {
            ApiFailure::not_found(format!("no channel of this provider is set up to hear it: {said}"))
        }
    }
}

impl Webhooks {
    /// The channels that a callback may be for.
    fn of(&self, provider: &str, channel: Option<&str>) -> Result<Vec<&CallbackChannel>, ApiFailure> {
        let fits = |candidate: &&CallbackChannel| {
            candidate.provider == provider && channel.is_none_or(|key| key == candidate.channel)
        };
        let channels: Vec<&CallbackChannel> = self.channels.iter().filter(fits).collect();
        if channels.is_empty() {
            let said = "no channel of this provider is configured here, or the provider sends no receipts";
            return Err(ApiFailure::not_found(said));
        }
        Ok(channels)
    }
}
