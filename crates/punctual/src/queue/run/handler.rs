//! Handlers: the code that is run for a topic's messages.

use crate::base::clock::Timestamp;
use crate::base::error::{Error, with_sources};
#[cfg(doc)]
use crate::base::limits;
use crate::queue::rules::message::Message;
use crate::queue::rules::message::check_output;
use crate::queue::run::panics::catch_panic;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A message that a handler works on.
#[derive(Clone, Debug)]
pub struct Work {
    /// The message.
    pub message: Message,
    /// The number of this attempt, from 1.
    pub attempt: u32,
    /// When it was due.
    pub due_at: Timestamp,
    /// Where the run of a job stores its output.
    pub(crate) output: Option<Output>,
}

/// The output of a handler, if it has set one.
pub(crate) type Output = Arc<Mutex<Option<String>>>;

impl Work {
    /// Sets the output, a JSON text, to be kept with the run of a job when the handler succeeds; the last
    /// call counts. For work that is not a run the call does nothing.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it is not JSON, or larger than [`limits::OUTPUT_BYTES_MAX`].
    pub fn set_output(&self, output: impl Into<String>) -> Result<(), Error> {
        let output = output.into();
        check_output(&output)?;
        if let Some(place) = &self.output {
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(output);
        }
        Ok(())
    }
}

/// Why a handler did not succeed.
///
/// Any error becomes a retry by `?`, with all its sources; [`HandlerError::fail`] says that trying again
/// is pointless.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandlerError {
    /// Try again by the queue's policy.
    Retry {
        /// The error.
        error: String,
        /// Not before this long (a provider's Retry-After). Such a wait uses up no attempt.
        not_before: Option<Duration>,
    },
    /// Dead-letter it at once.
    Fail {
        /// The error.
        error: String,
    },
}

impl HandlerError {
    /// Try again by the queue's policy.
    #[must_use]
    pub fn retry(error: impl Into<String>) -> Self {
        Self::Retry { error: error.into(), not_before: None }
    }

    /// Try again, but not before `wait`. A wait that is asked for uses up no attempt, for the first
    /// [`limits::SNOOZES_MAX`] waits of a message; each later one counts as an attempt.
    #[must_use]
    pub fn retry_after(error: impl Into<String>, wait: Duration) -> Self {
        Self::Retry { error: error.into(), not_before: Some(wait) }
    }

    /// Do not try again.
    #[must_use]
    pub fn fail(error: impl Into<String>) -> Self {
        Self::Fail { error: error.into() }
    }
}

impl<E: std::error::Error> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self::retry(with_sources(&error))
    }
}

/// The result of a handler.
pub type HandlerResult = Result<(), HandlerError>;

/// Code for one topic. Async closures are handlers:
/// `|work: Work| async move { Ok(()) }`.
pub trait Handler: Send + Sync + 'static {
    /// Handles one message. The method may be called again for the same message, after a crash or a lost
    /// lease: its effects must be safe to repeat.
    fn handle(&self, work: Work) -> Pin<Box<dyn Future<Output = HandlerResult> + Send>>;
}

impl<F, Fut> Handler for F
where
    F: Fn(Work) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = HandlerResult> + Send + 'static,
{
    fn handle(&self, work: Work) -> Pin<Box<dyn Future<Output = HandlerResult> + Send>> {
        Box::pin(self(work))
    }
}

/// Runs a handler; a panic is an attempt that did not end well.
pub(crate) async fn run(handler: &dyn Handler, work: Work) -> HandlerResult {
    // The handler's own part before its future is within, too.
    let handled = catch_panic(async { handler.handle(work).await }).await;
    handled.unwrap_or_else(|said| Err(HandlerError::retry(format!("the handler panicked: {said}"))))
}
