//! A provider of either kind, and the channel that comes of it.

use crate::file::ProviderFile;
use crate::http::HttpChannel;
use crate::receipt::Receipts;
use crate::settings::{Setting, Settings};
#[cfg(feature = "smtp")]
use crate::smtp::{SmtpChannel, smtp_settings};
use punctual::delivery::run::channel::ChannelResult;
use punctual::{Channel, Problems, RenderedMessage};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

/// The name of the provider that is not a file.
pub const SMTP: &str = "smtp";

/// A provider that a channel can be of.
#[derive(Clone, Debug)]
pub enum Provider {
    /// One that a file describes.
    File(Arc<ProviderFile>),
    /// Mail through a relay.
    #[cfg(feature = "smtp")]
    Smtp,
}

/// A channel that is ready, and how it hears of its messages.
#[derive(Clone, Debug)]
pub struct OpenedProvider {
    /// What sends.
    pub channel: AnyChannel,
    /// What reads callbacks, if the provider makes any.
    pub receipts: Option<Receipts>,
}

/// A channel of either kind.
#[derive(Clone, Debug)]
pub enum AnyChannel {
    /// Over HTTP.
    Http(HttpChannel),
    /// By SMTP.
    #[cfg(feature = "smtp")]
    Smtp(SmtpChannel),
}

impl Provider {
    /// The kind of channel that it serves: one of [`KINDS`](crate::file::KINDS).
    #[must_use]
    pub fn kind(&self) -> &str {
        match self {
            Self::File(file) => file.kind(),
            #[cfg(feature = "smtp")]
            Self::Smtp => "email",
        }
    }

    /// The settings of a channel.
    #[must_use]
    pub fn settings(&self) -> Vec<Setting> {
        match self {
            Self::File(file) => file.settings().to_vec(),
            #[cfg(feature = "smtp")]
            Self::Smtp => smtp_settings(),
        }
    }

    /// A channel with what was given for its settings.
    ///
    /// # Errors
    /// Every setting that cannot be used.
    pub fn open(&self, given: BTreeMap<String, String>) -> Result<OpenedProvider, Problems> {
        match self {
            Self::File(file) => {
                let channel = HttpChannel::new(Arc::clone(file), given)?;
                let receipts = Receipts::of(file, channel.settings());
                Ok(OpenedProvider { channel: AnyChannel::Http(channel), receipts })
            }
            #[cfg(feature = "smtp")]
            Self::Smtp => {
                Ok(OpenedProvider { channel: AnyChannel::Smtp(SmtpChannel::new(given)?), receipts: None })
            }
        }
    }
}

impl AnyChannel {
    /// Its settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        match self {
            Self::Http(channel) => channel.settings(),
            #[cfg(feature = "smtp")]
            Self::Smtp(channel) => channel.settings(),
        }
    }
}

impl Channel for AnyChannel {
    fn send(&self, letter: Arc<RenderedMessage>) -> Pin<Box<dyn Future<Output = ChannelResult> + Send>> {
        match self {
            Self::Http(channel) => channel.send(letter),
            #[cfg(feature = "smtp")]
            Self::Smtp(channel) => channel.send(letter),
        }
    }

    fn provider(&self) -> Option<&str> {
        match self {
            Self::Http(channel) => channel.provider(),
            #[cfg(feature = "smtp")]
            Self::Smtp(channel) => channel.provider(),
        }
    }

    fn takes_idempotency_key(&self) -> bool {
        match self {
            Self::Http(channel) => channel.takes_idempotency_key(),
            #[cfg(feature = "smtp")]
            Self::Smtp(channel) => channel.takes_idempotency_key(),
        }
    }
}
