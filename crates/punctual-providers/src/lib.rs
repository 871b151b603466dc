//! Real channels for Punctual.
//!
//! A provider that speaks HTTP is a *file*, not code ([`ProviderFile`]): a set is shipped
//! ([`Catalogue::shipped`]), others are read from a folder. Mail goes through a relay by SMTP. Each is a
//! feature of its own, so that an embedder pays only for what it sends through.
//!
//! This crate knows only the engine's public names. A channel is a [`Channel`](punctual::Channel), to be
//! added to an engine under its key.

pub mod mailbox;

#[cfg(feature = "http")]
mod catalogue;
#[cfg(feature = "http")]
pub mod file;
#[cfg(feature = "http")]
mod http;
#[cfg(feature = "http")]
mod known;
#[cfg(all(test, feature = "http"))]
#[path = "../../punctual/tests/it/mutation.rs"]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "test code")]
mod mutation;
#[cfg(feature = "http")]
mod node;
#[cfg(feature = "http")]
mod path;
#[cfg(feature = "http")]
mod phone;
#[cfg(feature = "http")]
mod provider;
#[cfg(feature = "http")]
pub mod receipt;
mod redaction;
pub mod settings;
#[cfg(feature = "smtp")]
mod smtp;

#[cfg(feature = "http")]
pub use catalogue::Catalogue;
#[cfg(feature = "http")]
pub use file::{AddressForm, ProviderFile};
#[cfg(feature = "http")]
pub use http::HttpChannel;
#[cfg(feature = "http")]
pub use phone::PhoneNumber;
#[cfg(feature = "http")]
pub use provider::{AnyChannel, OpenedProvider, Provider};
#[cfg(feature = "http")]
pub use receipt::{Callback, CallbackError, CallbackOutcome, Receipt, ReceiptStatus, Receipts};
pub use settings::{Setting, Settings};
#[cfg(feature = "smtp")]
pub use smtp::{SmtpChannel, smtp_settings};

/// How long a call may take at most: the engine gives up a little later, and would know less.
pub const CALL_TIMEOUT_MAX: std::time::Duration = std::time::Duration::from_secs(18);

#[cfg(test)]
mod tests {
    #[test]
    fn a_call_ends_before_the_engine_gives_it_up() {
        assert!(crate::CALL_TIMEOUT_MAX < punctual::base::limits::SEND_TIMEOUT);
    }
}
