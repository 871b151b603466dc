//! Handlers: the code that is run for a topic's messages.

use crate::base::clock::Timestamp;
use crate::base::error::{Error, with_sources};
#[cfg(doc)]
use crate::base::limits;
use crate::queue::rules::message::Message;
use crate::queue::rules::message::check_output;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

/// A message in a handler's hands.
#[derive(Clone, Debug)]
pub struct Work {
    /// The message.
    pub message: Message,
    /// The number of this attempt, from 1.
    pub attempt: u32,
    /// When it was due.
    pub due_at: Timestamp,
    /// Where the run of a job hands in what came of it.
    pub(crate) output: Option<Output>,
}

/// What a handler handed in, if it did.
pub(crate) type Output = Arc<Mutex<Option<String>>>;

impl Work {
    /// Hands in what came of it, a JSON text, to be kept with the run of a job when the handler
    /// succeeds; the last word counts. For work that is no run it does nothing.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it is not JSON, or larger than [`limits::OUTPUT_BYTES_MAX`].
    pub fn hand_in(&self, output: impl Into<String>) -> Result<(), Error> {
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
        /// What went wrong.
        error: String,
        /// Not before this long (a provider's Retry-After). Such a wait uses up no attempt.
        not_before: Option<Duration>,
    },
    /// Dead-letter it at once.
    Fail {
        /// What went wrong.
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

/// What a handler answers.
pub type Handled = Result<(), HandlerError>;

/// Code for one topic. Async closures are handlers:
/// `|work: Work| async move { Ok(()) }`.
pub trait Handler: Send + Sync + 'static {
    /// Handles one message. It may be called again for the same message, after a crash or
    /// a lost lease: what it does must be safe to repeat.
    fn handle(&self, work: Work) -> Pin<Box<dyn Future<Output = Handled> + Send>>;
}

impl<F, Fut> Handler for F
where
    F: Fn(Work) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Handled> + Send + 'static,
{
    fn handle(&self, work: Work) -> Pin<Box<dyn Future<Output = Handled> + Send>> {
        Box::pin(self(work))
    }
}

/// Runs a handler; a panic is an attempt that did not end well.
pub(crate) async fn run(handler: &dyn Handler, work: Work) -> Handled {
    let begun = catch_unwind(AssertUnwindSafe(|| handler.handle(work)));
    match begun {
        Ok(future) => Unpanicked(future).await,
        Err(panic) => Err(panicked(&*panic)),
    }
}

struct Unpanicked(Pin<Box<dyn Future<Output = Handled> + Send>>);

impl Future for Unpanicked {
    type Output = Handled;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Handled> {
        let future = &mut self.0;
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(poll) => poll,
            Err(panic) => Poll::Ready(Err(panicked(&*panic))),
        }
    }
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> HandlerError {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    HandlerError::retry(format!("the handler panicked: {}", text.unwrap_or_else(|| "no message".into())))
}
