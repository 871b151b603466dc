//! Letters and channels for the tests.

use crate::stub::Stub;
use punctual::delivery::run::channel::ChannelResult;
use punctual::{Channel, RenderedMessage, SendError, Tenant, Timestamp};
use punctual_providers::{Catalogue, HttpChannel};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The number that must reach a provider as it is.
pub(crate) const INDIAN: &str = "+919876543210";
/// A number as people write it.
pub(crate) const SPACED: &str = "+964 770 000 0001";
/// The UUID of [`letter`]'s key.
pub(crate) const UUID: &str = "49bb38c7-8726-851e-ab4f-5f35d2636c01";

pub(crate) fn letter(to: &str) -> RenderedMessage {
    RenderedMessage {
        tenant: Tenant::DEFAULT,
        channel: "sms:test".into(),
        to: to.into(),
        locale: "en-IN".into(),
        attempt: 1,
        public_id: None,
        survey_url: None,
        subject: Some("Your \"stay\"".into()),
        body: "Hello \"Ada\" & Bob,\nsee you \u{1f44b} {{not.a.name}}".into(),
        html: None,
        unsubscribe_url: None,
        provider_template: None,
        payload: Arc::new(json!({"bookingId": 12345})),
        idempotency_key: "12345:booking.confirmed:SMS:7".into(),
        sent_at: Timestamp::from_micros(1),
    }
}

/// The same with a provider's own template.
pub(crate) fn templated(to: &str, template: Value) -> RenderedMessage {
    RenderedMessage { provider_template: Some(Arc::new(template)), ..letter(to) }
}

pub(crate) fn settings(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// A channel of a shipped provider, whose `base_url` is the stub.
pub(crate) fn channel(provider: &str, stub: &Stub, pairs: &[(&str, &str)]) -> HttpChannel {
    let catalogue = Catalogue::shipped().unwrap();
    let mut given = settings(pairs);
    given.entry("base_url".into()).or_insert_with(|| stub.url.clone());
    given.insert("allow_host".into(), "127.0.0.1".into());
    HttpChannel::new(Arc::clone(catalogue.get(provider).unwrap()), given).unwrap()
}

pub(crate) async fn send(channel: &impl Channel, letter: RenderedMessage) -> ChannelResult {
    channel.send(Arc::new(letter)).await
}

/// What was not sent, in words: its class, and what was said.
pub(crate) fn class(sent: &ChannelResult) -> (&'static str, &str) {
    match sent {
        Ok(_) => ("accepted", ""),
        Err(SendError::Transient { error, .. }) => ("transient", error),
        Err(SendError::Permanent { error }) => ("permanent", error),
        Err(SendError::NoAnswer { error }) => ("no answer", error),
        Err(SendError::Unknown { error }) => ("unknown", error),
    }
}

pub(crate) fn retry_after(sent: &ChannelResult) -> Option<Duration> {
    match sent {
        Err(SendError::Transient { retry_after, .. }) => *retry_after,
        _ => None,
    }
}

/// The fields of a form as they are expected.
pub(crate) fn fields(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut fields: Vec<_> =
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    fields.sort();
    fields
}

/// Sends once for each answer, and asserts its class and what the error says.
pub(crate) async fn classes(
    provider: &str,
    pairs: &[(&str, &str)],
    letter: impl Fn() -> RenderedMessage,
    table: Vec<(crate::stub::Answer, &str, &str)>,
) {
    let stub = Stub::start([]).await;
    let channel = channel(provider, &stub, pairs);
    for (answer, want, said) in table {
        let shown = format!("{answer:?}");
        stub.then(answer);
        let sent = send(&channel, letter()).await;
        let (class, error) = class(&sent);
        assert_eq!(class, want, "{provider}: {shown}: {sent:?}");
        assert!(error.contains(said), "{provider}: {error:?} should say {said:?}");
    }
}
