//! The threads that own the connections, and the groups in which the writer serves its callers.
//!
//! The writer takes all requests that wait, runs them in one `BEGIN IMMEDIATE … COMMIT` and
//! answers them after the commit. Requests of a group are independent: when one fails, the group
//! is rolled back and run again with a savepoint around each. Callers just answered are about to
//! ask again, and would otherwise form every other group; so while callers come in groups, the writer
//! waits a moment for as many as came last time.

use crate::base::clock::monotonic;
use crate::base::error::{Error, ErrorSource, Result};
use crate::database::planted_bugs::PlantedBug;
use crate::database::sqlite::{BUSY_PATIENCE, SqliteTx, trouble};
use crate::database::tx::{Tx, TxFuture, VerbCall};
use rusqlite::ErrorCode;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::sync::oneshot;

/// Requests that share one commit at most: bounds the memory and the wait of one group.
const GROUP_REQUESTS_MAX: usize = 512;
/// The time that the writer waits for as many callers as in its last group.
const GROUP_PATIENCE: Duration = Duration::from_micros(300);
/// After this many callers, the writer looks out for the first of them without resting.
const CROWD_MIN: usize = 8;

/// Something to run in a transaction and to answer afterwards.
pub(crate) trait WriterRequest: Send {
    /// Runs the request; false when it failed, and its writes must be rolled back. A request may be run
    /// again.
    fn run(&mut self, tx: &mut Tx) -> bool;
    /// Why it failed when it was run last.
    fn failure(&self) -> Option<&Error>;
    /// Answers the caller: the request has committed, unless there was trouble.
    fn answer(self: Box<Self>, trouble: Option<Error>);
    /// How many callers it has served.
    fn callers(&self) -> usize;
    /// Whether its handle has a planted bug.
    fn has(&self, bug: PlantedBug) -> bool;
}

struct QueuedCall {
    /// Gone once it was answered.
    call: Option<VerbCall>,
    failure: Option<Error>,
    reply: Option<oneshot::Sender<Result<VerbCall>>>,
}

impl QueuedCall {
    fn reply(&mut self, result: Result<VerbCall>) {
        // A caller that went away does not want the answer; its write stands.
        let _ = self.reply.take().map(|reply| reply.send(result));
    }
}

impl WriterRequest for QueuedCall {
    fn run(&mut self, tx: &mut Tx) -> bool {
        let Some(call) = &mut self.call else { return true };
        self.failure = guarded(|| finish(call.steps(tx))).err();
        if tx.fault().fires_early()
            && self.failure.is_none()
            && let Some(call) = self.call.take()
        {
            // A planted bug: nothing has committed yet.
            self.reply(Ok(call));
        }
        self.failure.is_none()
    }

    fn failure(&self) -> Option<&Error> {
        self.failure.as_ref()
    }

    fn answer(mut self: Box<Self>, trouble: Option<Error>) {
        let result = match (trouble, self.failure.take(), self.call.take()) {
            (Some(trouble), None, _) => Err(trouble),
            (Some(trouble), Some(_), _) => Err(without_writes(&trouble)),
            (None, Some(failure), _) => Err(failure),
            (None, None, Some(call)) => Ok(call),
            (None, None, None) => return,
        };
        self.reply(result);
    }

    fn callers(&self) -> usize {
        1
    }

    fn has(&self, bug: PlantedBug) -> bool {
        self.call.as_ref().is_some_and(|call| call.has(bug))
    }
}

/// The error for a request that had failed by itself before its group did. Nothing of the request was left to
/// commit, but its failure may rest on rows that others of the group wrote, so it should be tried again.
pub(crate) fn without_writes(trouble: &Error) -> Error {
    match trouble.replicate() {
        Error::Unknown(source) | Error::Database(source) => Error::Unavailable(source),
        other => other,
    }
}

/// A verb that panics must not take the thread, and with it every other caller, along.
pub(crate) fn guarded<T>(verb: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(verb)).unwrap_or_else(|_| Err(Error::Database("a verb panicked".into())))
}

/// Polls steps that never wait.
pub(crate) fn finish<T>(steps: TxFuture<'_, T>) -> Result<T> {
    match pin!(steps).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => Err(Error::Database("a verb waited for something else than its database".into())),
    }
}

/// Has a thread run a call. `lost` is the error when the thread stopped with the call in its hands: a
/// writer may have committed it.
pub(crate) async fn ask(
    thread: &mpsc::Sender<Box<dyn WriterRequest>>,
    call: VerbCall,
    lost: fn(ErrorSource) -> Error,
) -> Result<VerbCall> {
    let (reply, answer) = oneshot::channel();
    let gone = || Error::Unavailable("the database thread has stopped".into());
    let asked = QueuedCall { call: Some(call), failure: None, reply: Some(reply) };
    thread.send(Box::new(asked)).map_err(|_| gone())?;
    answer.await.map_err(|e| lost(e.into()))?
}

type Queue = Mutex<mpsc::Receiver<Box<dyn WriterRequest>>>;

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Mode {
    Write,
    Read,
}

/// One thread per connection, all fed by one channel.
pub(crate) fn thread(
    name: &str,
    transactions: Vec<SqliteTx>,
    mode: Mode,
) -> Result<mpsc::Sender<Box<dyn WriterRequest>>> {
    let (sender, receiver) = mpsc::channel();
    let receiver = Arc::new(Mutex::new(receiver));
    for tx in transactions {
        let receiver = Arc::clone(&receiver);
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || serve(Tx::Sqlite(tx), &receiver, mode))
            .map_err(|e| Error::Unavailable(e.into()))?;
    }
    Ok(sender)
}

/// How many were served together last time: as many are likely to come again.
#[derive(Clone, Copy, Default)]
struct GroupSize {
    requests: usize,
    callers: usize,
}

#[allow(irrefutable_let_patterns, reason = "refutable with the postgres feature")]
fn serve(mut tx: Tx, receiver: &Queue, mode: Mode) {
    let mut last = GroupSize::default();
    loop {
        let Some(group) = next_group(receiver, mode, last) else { return };
        let Tx::Sqlite(inner) = &mut tx else { return };
        inner.now = None;
        let deferred = group.iter().any(|request| request.has(PlantedBug::DeferredBegin));
        let begin = if mode == Mode::Write && !deferred { "begin immediate" } else { "begin deferred" };
        last = serve_group(&mut tx, group, begin);
    }
}

/// Takes all that waits; after company, not before as many have come again, or patience has ended.
fn next_group(receiver: &Queue, mode: Mode, last: GroupSize) -> Option<Vec<Box<dyn WriterRequest>>> {
    let receiver = receiver.lock().unwrap_or_else(PoisonError::into_inner);
    if mode == Mode::Read {
        return Some(vec![receiver.recv().ok()?]);
    }
    let mut group = Vec::with_capacity(last.requests);
    if last.callers >= CROWD_MIN {
        // To be woken takes longer than the first of a crowd takes to come.
        patiently(|| take_waiting(&receiver, &mut group) > 0);
    }
    if group.is_empty() {
        group.push(receiver.recv().ok()?);
    }
    patiently(|| take_waiting(&receiver, &mut group) >= last.requests);
    Some(group)
}

/// Looks again and again whether those who are expected have come, for as long as patience lasts.
pub(crate) fn patiently(mut all_there: impl FnMut() -> bool) {
    let start = monotonic();
    while !all_there() && start.elapsed() < GROUP_PATIENCE {
        std::thread::yield_now();
    }
}

/// How many there are now.
fn take_waiting(
    receiver: &mpsc::Receiver<Box<dyn WriterRequest>>,
    group: &mut Vec<Box<dyn WriterRequest>>,
) -> usize {
    let room = GROUP_REQUESTS_MAX.saturating_sub(group.len());
    group.extend(receiver.try_iter().take(room));
    group.len()
}

/// Runs a group and answers it.
fn serve_group(tx: &mut Tx, mut group: Vec<Box<dyn WriterRequest>>, begin: &str) -> GroupSize {
    let trouble = match together(tx, &mut group, begin) {
        Ok(true) => None,
        Ok(false) => one_by_one(tx, &mut group, begin).err(),
        Err(trouble) => Some(trouble),
    };
    let callers = group.iter().map(|request| request.callers()).sum();
    let served = GroupSize { requests: group.len(), callers };
    if trouble.is_some() && !is_over(tx) {
        say(tx, "rollback").ok();
    }
    for request in group {
        request.answer(trouble.as_ref().map(Error::replicate));
    }
    served
}

/// All requests in one transaction; false (and rolled back) if one of them failed.
fn together(tx: &mut Tx, group: &mut [Box<dyn WriterRequest>], begin: &str) -> Result<bool> {
    say(tx, begin)?;
    if group.iter_mut().all(|request| request.run(tx)) {
        commit(tx, group)?;
        return Ok(true);
    }
    if !is_over(tx) {
        say(tx, "rollback")?;
    }
    Ok(false)
}

/// The same with a savepoint around each, so that the failing ones leave nothing.
fn one_by_one(tx: &mut Tx, group: &mut [Box<dyn WriterRequest>], begin: &str) -> Result<()> {
    say(tx, begin)?;
    for request in &mut *group {
        say(tx, "savepoint request")?;
        if !request.run(tx) {
            if is_over(tx) {
                return Err(request.failure().map_or_else(ended_transaction, without_writes));
            }
            say(tx, "rollback to request")?;
        }
        say(tx, "release request")?;
    }
    commit(tx, group)
}

/// Whether SQLite has ended the transaction by itself, as it does when the disk is full or cannot be read.
#[allow(irrefutable_let_patterns, reason = "refutable with the postgres feature")]
fn is_over(tx: &Tx) -> bool {
    let Tx::Sqlite(tx) = tx else { return false };
    tx.connection.is_autocommit()
}

/// Returns the error of a statement that comes after the end of its transaction.
pub(crate) fn ended_transaction() -> Error {
    Error::Unavailable("the transaction was rolled back because of an earlier error".into())
}

fn commit(tx: &mut Tx, group: &[Box<dyn WriterRequest>]) -> Result<()> {
    match say_commit(tx) {
        Err(e) if group.iter().any(|request| request.has(PlantedBug::FailedCommitIsRefused)) => {
            Err(without_writes(&e))
        }
        other => other,
    }
}

/// Commits. [`Error::Unknown`] when the commit failed in a way that may have left it whole in the
/// write-ahead log: this process does not see it any more, and the next commit overwrites it, but if there
/// is none before the file is recovered, it is there.
pub(crate) fn say_commit(tx: &mut Tx) -> Result<()> {
    say(tx, "commit").map_err(commit_failure)
}

/// Turns the error of a commit into [`Error::Unknown`], unless SQLite refused it before it wrote anything.
pub(crate) fn commit_failure(error: Error) -> Error {
    match error {
        Error::Unavailable(source) | Error::Database(source) if !is_refused(&source) => {
            Error::Unknown(source)
        }
        refused => refused,
    }
}

fn is_refused(source: &ErrorSource) -> bool {
    match source.downcast_ref() {
        Some(rusqlite::Error::SqliteFailure(error, _)) => is_refusal(error.extended_code),
        _ => false,
    }
}

/// Whether a result code of a commit says that nothing was written: a generic error (no transaction is open),
/// busy, locked, a violated constraint. The low byte of an extended code is the code itself.
pub(crate) const fn is_refusal(code: i32) -> bool {
    matches!(code & 0xff, 1 | 5 | 6 | 19)
}

/// A word of transaction control, said again while another connection is busy.
#[allow(irrefutable_let_patterns, reason = "refutable with the postgres feature")]
pub(crate) fn say(tx: &mut Tx, word: &str) -> Result<()> {
    let Tx::Sqlite(tx) = tx else { return Ok(()) };
    let start = monotonic();
    loop {
        let result = tx.connection.prepare_cached(word).and_then(|mut s| s.raw_execute());
        match result {
            Err(e) if is_busy(&e) && start.elapsed() < BUSY_PATIENCE => {}
            other => return other.map(drop).map_err(trouble),
        }
    }
}

pub(crate) fn is_busy(e: &rusqlite::Error) -> bool {
    matches!(e.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}
