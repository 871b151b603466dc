//! The providers of a worker: they append each message to the history of their process before they answer,
//! so that a kill cannot take back what went out. Some fail at first, some refuse for good, as the event's
//! payload scripts it.

use super::definitions::{CHANNELS, MAIL};
use super::dice;
use super::history::{Event, Pen};
use punctual::base::backoff::Backoff;
use punctual::delivery::rules::channel::{ChannelPolicy, UnknownOutcomePolicy};
use punctual::engine::Builder;
use punctual::queue::rules::attempt::RetryPolicy;
use punctual::{AcceptedMessage, RenderedMessage, SendError};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What a provider takes to answer: a worker that is killed has something in hand.
const ANSWERING: Duration = Duration::from_millis(25);
/// Nothing is given up but what a provider refuses.
const ATTEMPTS: u32 = 1_000;
const WAIT_MIN: Duration = Duration::from_millis(10);
const WAIT_MAX: Duration = Duration::from_millis(40);
/// What a provider says that refuses for good.
pub const REFUSAL: &str = "the provider refused it";

/// What a provider made of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Taken,
    Transient,
    Timeout,
    Unknown,
    Refused,
}

impl Answer {
    const ALL: [Self; 5] = [Self::Taken, Self::Transient, Self::Timeout, Self::Unknown, Self::Refused];

    pub fn name(self) -> String {
        format!("{self:?}")
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|answer| answer.name() == name)
    }

    /// The answer that a payload scripts for one of its messages; most failures only happen at first.
    fn scripted(letter: &RenderedMessage, first: bool) -> Self {
        let script = letter.payload["script"].as_u64().unwrap_or_default();
        let message = u64::from(letter.attempt) * 2 + u64::from(letter.channel == MAIL);
        match dice(script, message) % 100 {
            0..8 if first => Self::Transient,
            8..12 if first => Self::Timeout,
            12..16 if first => Self::Unknown,
            16..19 => Self::Refused,
            _ => Self::Taken,
        }
    }

    fn sent(self) -> Result<AcceptedMessage, SendError> {
        let error = "as planned".to_owned();
        match self {
            Self::Taken => Ok(AcceptedMessage::default()),
            Self::Transient => Err(SendError::Transient { error, retry_after: None }),
            Self::Timeout => Err(SendError::NoAnswer { error }),
            Self::Unknown => Err(SendError::Unknown { error }),
            Self::Refused => Err(SendError::Permanent { error: REFUSAL.to_owned() }),
        }
    }
}

/// Gives a worker its channels.
pub fn with_channels(mut builder: Builder, pen: &Arc<Pen>) -> Builder {
    for channel in CHANNELS {
        let (pen, seen) = (Arc::clone(pen), Mutex::new(HashSet::new()));
        let send = move |letter: Arc<RenderedMessage>| {
            let first = seen.lock().unwrap().insert(letter.idempotency_key.clone());
            let answer = Answer::scripted(&letter, first);
            pen.note(&offered(&letter, answer));
            async move {
                tokio::time::sleep(ANSWERING).await;
                answer.sent()
            }
        };
        builder = builder.channel_policy(channel, policy(channel)).channel(channel, send);
    }
    builder
}

fn policy(channel: &str) -> ChannelPolicy {
    let backoff = Backoff::Exponential { from: WAIT_MIN, to: WAIT_MAX };
    ChannelPolicy {
        unknown: if channel == MAIL { UnknownOutcomePolicy::Hold } else { UnknownOutcomePolicy::Resend },
        unknown_retries: Some(ATTEMPTS),
        patience: Some(RetryPolicy { max_attempts: ATTEMPTS, backoff }),
        breaker_failures: Some(0),
        ..ChannelPolicy::default()
    }
}

fn offered(letter: &RenderedMessage, answer: Answer) -> Event {
    Event::Offered {
        op: letter.payload["op"].as_str().and_then(|op| op.parse().ok()).unwrap(),
        key: letter.idempotency_key.clone(),
        instance: letter.public_id.map(|id| id.to_string()),
        send: letter.attempt,
        answer,
    }
}
