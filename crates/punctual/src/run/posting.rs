//! A posting: claimed letters on their way through their channels.
//!
//! Each letter is prepared, handed to its channel with a bound on how many are out at once and for how
//! long, and what became of it is written when the claim is through, or every `FLUSH` while a slow
//! letter holds it up; the lease is renewed meanwhile. No letter begins under a lease that may be over:
//! it is counted from before it was asked for. A claim that turns out to be lost writes nothing
//! more: whoever has the letters now sends them again, under the same keys. A letter passes its channel's
//! gate, or waits until that opens.
//!
//! What letters are about is their [`Mail`]'s: invitations (`inviting.rs`) or notices (`delivering.rs`).

use super::channel::{Accepted, Channel, Letter, NotSent, Sending, Sent};
use super::gate::{Ending, MaySend, Pass};
use super::present::Present;
use super::send::{Going, Post};
use super::stop::{Phase, Stop};
use crate::base::clock::{Moment, Timestamp, monotonic};
use crate::base::error::Result;
use crate::base::id::Token;
use crate::base::limits::SEND_TIMEOUT;
use crate::store::entries::send::{Outgoing, Settled};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::task::{Id, JoinSet};

/// What is known of a claim that is not through is written this often.
const FLUSH: Duration = Duration::from_millis(250);
/// Letters that are out at once, in one claim.
const OUT_AT_ONCE: usize = 64;
/// The lease is renewed when this part of it has passed: one part in so many.
const RENEW_SHARE: u32 = 3;
/// What the database did not answer is asked again after this long.
const INSIST_PAUSE: Duration = Duration::from_millis(100);

/// What letters of one claim are about.
pub trait Mail: Send + Sized + 'static {
    /// What is due.
    type Due: Send + Sync + 'static;
    /// What is kept of it while its letter is out.
    type Out: Send + 'static;
    /// What became of it.
    type Ended: Send + Sync + 'static;

    /// Reads what is known of these, before the first of them is prepared: once for all, not once for each.
    fn read(&mut self, post: &Post, due: &[Self::Due]) -> impl Future<Output = Result<()>> + Send;

    /// Makes a letter of it, or finds that there is none to make.
    fn prepare(
        &mut self,
        post: &Arc<Post>,
        due: Self::Due,
        now: Timestamp,
    ) -> impl Future<Output = Prepared<Self>> + Send;

    /// It was never begun.
    fn put_back(&mut self, due: Self::Due, now: Timestamp) -> Self::Ended;

    /// Its letter was made and never begun.
    fn take_back(&mut self, out: Self::Out, now: Timestamp) -> Self::Ended;

    /// What its channel answered.
    fn heard(&mut self, post: &Post, out: Self::Out, answer: Answer) -> Self::Ended;

    /// Writes what became of them.
    fn settle(
        &self,
        post: &Post,
        token: Token,
        ended: Arc<[Self::Ended]>,
    ) -> impl Future<Output = Result<Settled>> + Send;
}

/// What a channel answered.
#[derive(Debug)]
pub struct Answer {
    /// Its words.
    pub sent: Sent,
    /// Whether the channel was known to be down, and this letter was to show whether it is so still.
    pub probe: bool,
    /// When it was heard.
    pub now: Timestamp,
}

/// What came of preparing a letter.
pub enum Prepared<M: Mail> {
    /// A letter for a channel.
    Letter(Arc<dyn Channel>, Arc<Letter>, M::Out),
    /// It failed before there was one.
    Failed(M::Ended),
    /// There is nothing to send, now or at all.
    Quiet(M::Ended),
    /// It could not be found out.
    NotBegun(M::Due),
}

/// What became of the letters of a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Posted {
    /// Letters that a channel took.
    pub sent: usize,
    /// Tries that did not go well.
    pub failed: usize,
}

/// Letters of one claim.
pub struct Posting<M: Mail> {
    _going: Going,
    post: Arc<Post>,
    mail: M,
    token: Token,
    present: Present,
    held_since: Moment,
    waiting: std::vec::IntoIter<M::Due>,
    out: JoinSet<Sent>,
    letters: HashMap<Id, (M::Out, Pass)>,
    ended: Vec<M::Ended>,
    posted: Posted,
    lost: bool,
}

impl<M: Mail> Posting<M> {
    /// What a claim brought that was asked for at `asked`; `None` if there is nothing to send.
    #[must_use]
    pub fn new(post: &Arc<Post>, mail: M, outgoing: Outgoing<M::Due>, asked: Moment) -> Option<Self> {
        let (token, now) = (outgoing.token?, outgoing.now?);
        Some(Self {
            _going: Going::new(post),
            post: Arc::clone(post),
            mail,
            token,
            present: Present::new(now, post.by_hand),
            held_since: asked,
            waiting: outgoing.due.into_iter(),
            out: JoinSet::new(),
            letters: HashMap::new(),
            ended: Vec::new(),
            posted: Posted::default(),
            lost: false,
        })
    }

    /// Letters of one claim may go out minutes apart.
    fn now(&self) -> Timestamp {
        self.present.now()
    }

    /// Sends everything, and writes what became of it.
    ///
    /// # Errors
    /// When it cannot be found out what there is to send: all of it goes back.
    pub async fn run(mut self, stop: Stop) -> Result<Posted> {
        let read = tokio::select! {
            biased;
            read = self.mail.read(&self.post, self.waiting.as_slice()) => Some(read),
            () = stop.reached(Phase::Over) => None,
        };
        if !matches!(read, Some(Ok(()))) {
            // Nothing was sent: whoever finds them later must not take them for sent.
            self.put_all_back().await;
            return read.unwrap_or(Ok(())).map(|()| self.posted);
        }
        let mut flushed = monotonic();
        while !self.lost {
            self.hand_out(&stop).await;
            if self.out.is_empty() || !self.hear(flushed, &stop).await {
                break;
            }
            if flushed.elapsed() >= FLUSH && !self.ended.is_empty() {
                self.settle().await;
                flushed = monotonic();
            }
        }
        self.settle().await;
        Ok(self.posted)
    }

    /// The same beside the loop, which is told if it goes wrong.
    pub async fn run_beside(self, stop: Stop) {
        let post = Arc::clone(&self.post);
        if let Err(error) = self.run(stop).await {
            post.note_trouble(error);
        }
    }

    async fn put_all_back(&mut self) {
        let now = self.now();
        for due in std::mem::take(&mut self.waiting) {
            let back = self.mail.put_back(due, now);
            self.ended.push(back);
        }
        self.settle().await;
    }

    /// Waits until a letter is through, or something else is to be done; `false`: not any longer.
    async fn hear(&mut self, flushed: Moment, stop: &Stop) -> bool {
        let renew = (self.post.lease / RENEW_SHARE).saturating_sub(self.held_since.elapsed());
        let flush = if self.ended.is_empty() { renew } else { FLUSH.saturating_sub(flushed.elapsed()) };
        tokio::select! {
            biased;
            Some(done) = self.out.join_next_with_id() => {
                self.note(done);
                while let Some(done) = self.out.try_join_next_with_id() {
                    self.note(done);
                }
            }
            () = tokio::time::sleep(renew.min(flush)) => {
                if self.held_since.elapsed() >= self.post.lease / RENEW_SHARE {
                    self.renew().await;
                }
            }
            () = stop.reached(Phase::Over) => return false,
        }
        true
    }

    /// Begins letters as far as there is room. Once a stop is asked for, nothing new is begun: what
    /// waits goes back.
    async fn hand_out(&mut self, stop: &Stop) {
        while self.out.len() < OUT_AT_ONCE {
            let Some(due) = self.waiting.next() else { return };
            if stop.is_asked() {
                let back = self.mail.put_back(due, self.now());
                self.ended.push(back);
                continue;
            }
            match self.mail.prepare(&self.post, due, self.now()).await {
                // Preparing may take as long as the database does: only now is the lease looked at.
                Prepared::Letter(channel, letter, out) if self.holds().await => {
                    self.pass(&channel, letter, out);
                }
                Prepared::Letter(_, _, out) => {
                    let back = self.mail.take_back(out, self.now());
                    self.ended.push(back);
                }
                Prepared::Failed(ended) => {
                    self.posted.failed += 1;
                    self.ended.push(ended);
                }
                Prepared::Quiet(ended) => self.ended.push(ended),
                Prepared::NotBegun(due) => {
                    let back = self.mail.put_back(due, self.now());
                    self.ended.push(back);
                }
            }
        }
    }

    /// Whether the lease holds for sure; one that may be over is asked for once more.
    async fn holds(&mut self) -> bool {
        if !self.lost && self.held_since.elapsed() >= self.post.lease {
            self.renew().await;
        }
        !self.lost && self.held_since.elapsed() < self.post.lease
    }

    /// Begins a letter if its channel's gate is open.
    fn pass(&mut self, channel: &Arc<dyn Channel>, letter: Arc<Letter>, out: M::Out) {
        if let MaySend::Go(pass) = self.post.gates.of(&letter.channel).may_send(self.now()) {
            return self.begin(channel.send(letter), (out, pass));
        }
        // It goes back to its place: nobody claims it before the gate has room again.
        let back = self.mail.take_back(out, self.now());
        self.ended.push(back);
    }

    fn begin(&mut self, mut sending: Sending, out: (M::Out, Pass)) {
        // Many channels answer at once; only one that does not is worth a task of its own.
        if let Some(sent) = at_once(&mut sending) {
            return self.end(out, sent);
        }
        let sending = async move {
            let sent = tokio::time::timeout(SEND_TIMEOUT, sending);
            sent.await.unwrap_or_else(|_| Err(NotSent::NoAnswer { error: no_answer() }))
        };
        let id = self.out.spawn(sending).id();
        self.letters.insert(id, out);
    }

    fn note(&mut self, done: std::result::Result<(Id, Sent), tokio::task::JoinError>) {
        let (id, sent) = match done {
            Ok((id, sent)) => (id, sent),
            Err(error) => {
                (error.id(), Err(NotSent::Unknown { error: format!("the channel broke: {error}") }))
            }
        };
        if let Some(out) = self.letters.remove(&id) {
            self.end(out, sent);
        }
    }

    fn end(&mut self, (out, pass): (M::Out, Pass), sent: Sent) {
        match &sent {
            Ok(_) => self.posted.sent += 1,
            Err(_) => self.posted.failed += 1,
        }
        let answered = matches!(sent, Ok(_) | Err(NotSent::Permanent { .. }));
        let sent = sent.map(Accepted::fit_to_keep);
        let answer = Answer { sent, probe: pass.is_probe(), now: self.now() };
        pass.settle(answer.now, if answered { Ending::Answered } else { Ending::Failed });
        let ended = self.mail.heard(&self.post, out, answer);
        self.ended.push(ended);
    }

    async fn renew(&mut self) {
        let asked = monotonic();
        let held = self.post.store.extend(vec![self.token.clone()], self.post.lease).await;
        match held {
            Ok(held) if held.is_empty() => self.lost = true,
            Ok(_) => self.held_since = asked,
            // Asked again until the lease is over.
            Err(_) => tokio::time::sleep(INSIST_PAUSE).await,
        }
    }

    /// Writes what is known; when the database is out of reach, again for as long as the lease lasts.
    async fn settle(&mut self) {
        let ended: Arc<[M::Ended]> = std::mem::take(&mut self.ended).into();
        if ended.is_empty() || self.lost {
            return;
        }
        loop {
            match self.mail.settle(&self.post, self.token.clone(), Arc::clone(&ended)).await {
                Ok(settled) => {
                    self.lost = settled == Settled::LostClaim;
                    break;
                }
                Err(error) if error.is_transient() && self.held_since.elapsed() < self.post.lease => {
                    tokio::time::sleep(INSIST_PAUSE).await;
                }
                Err(error) => {
                    tracing::warn!(target: "punctual", %error, "what became of letters could not be written");
                    self.lost = true;
                    break;
                }
            }
        }
        if self.lost {
            tracing::warn!(target: "punctual", letters = ended.len(), "a claim of letters was lost");
        }
    }
}

/// What a channel answers without waiting, if it does. One that breaks may have sent it.
fn at_once(sending: &mut Sending) -> Option<Sent> {
    let mut nobody = Context::from_waker(Waker::noop());
    let polled = catch_unwind(AssertUnwindSafe(|| sending.as_mut().poll(&mut nobody)));
    match polled {
        Ok(Poll::Ready(sent)) => Some(sent),
        Ok(Poll::Pending) => None,
        Err(_) => Some(Err(NotSent::Unknown { error: "the channel broke: it panicked".to_owned() })),
    }
}

fn no_answer() -> String {
    format!("the channel did not answer in {} s; it may have gone out", SEND_TIMEOUT.as_secs())
}
