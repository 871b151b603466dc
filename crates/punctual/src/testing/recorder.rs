//! A handler that keeps what it was given, and fails when it is told to.

use crate::base::id::MessageId;
use crate::queue::run::handler::{Handler, HandlerError, HandlerResult, Work};
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A handler for tests. Its clones share what they keep, so one of them goes to the engine
/// and the other stays with the test.
///
/// ```
/// use punctual::HandlerError;
/// use punctual::testing::Recorder;
///
/// let recorder = Recorder::new();
/// recorder.next(Err(HandlerError::retry("the mail server is away")));
/// // Stage::sqlite().handler("mails", recorder.clone()) …
/// assert!(recorder.works().is_empty());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    kept: Arc<Mutex<RecordedWork>>,
}

#[derive(Debug, Default)]
struct RecordedWork {
    works: Vec<Work>,
    script: VecDeque<HandlerResult>,
}

impl Recorder {
    /// A recorder that handles everything well.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What to answer to the next message that has no answer yet; afterwards all goes well.
    pub fn next(&self, answer: HandlerResult) {
        self.lock().script.push_back(answer);
    }

    /// Fails the next `n` messages in a way that is tried again.
    pub fn fail_next(&self, n: usize, error: &str) {
        for _ in 0..n {
            self.next(Err(HandlerError::retry(error)));
        }
    }

    /// Everything it was given, in order; a message that is tried again is there again.
    #[must_use]
    pub fn works(&self) -> Vec<Work> {
        self.lock().works.clone()
    }

    /// The payloads of everything it was given, in order.
    #[must_use]
    pub fn payloads(&self) -> Vec<String> {
        self.lock().works.iter().map(|work| work.message.payload.clone()).collect()
    }

    /// The ids of everything it was given, in order.
    #[must_use]
    pub fn ids(&self) -> Vec<MessageId> {
        self.lock().works.iter().map(|work| work.message.id).collect()
    }

    /// Forgets what it was given, and what it was told to answer.
    pub fn clear(&self) {
        *self.lock() = RecordedWork::default();
    }

    fn lock(&self) -> MutexGuard<'_, RecordedWork> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handler for Recorder {
    fn handle(&self, work: Work) -> Pin<Box<dyn Future<Output = HandlerResult> + Send>> {
        let mut kept = self.lock();
        kept.works.push(work);
        let answer = kept.script.pop_front().unwrap_or(Ok(()));
        Box::pin(std::future::ready(answer))
    }
}
