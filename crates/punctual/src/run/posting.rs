//! A posting: claimed sends on their way through their channels.
//!
//! Each letter is worded, handed to its channel with a bound on how many are out at once and for how
//! long, and what became of it is written when the claim is through, or every `FLUSH` while a slow
//! letter holds it up; the lease is renewed meanwhile. No letter begins under a lease that may be over:
//! it is counted from before it was asked for. A claim that turns out to be lost writes nothing
//! more: whoever has the letters now sends them again, under the same keys.

use super::channel::{Letter, NotSent, Sending, Sent};
use super::send::Post;
use super::shelf::Edition;
use super::stop::{Phase, Stop};
use crate::base::clock::{Moment, Timestamp, monotonic};
use crate::base::error::Result;
use crate::base::id::Token;
use crate::base::limits::SEND_TIMEOUT;
use crate::base::random;
use crate::base::tenant::Tenant;
use crate::rules::entry::failure::Failure;
use crate::rules::entry::log::{DeliveryLine, Outcome};
use crate::rules::invitation::{self, Invitation};
use crate::rules::template::TemplateSet;
use crate::store::entries::Entry;
use crate::store::entries::send::{Due, Ended, Outgoing, Settled, Tried};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
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

/// What became of the letters of a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Posted {
    /// Letters that a channel took.
    pub sent: usize,
    /// Tries that did not go well.
    pub failed: usize,
}

/// Sends of one claim.
#[derive(Debug)]
pub struct Posting {
    post: Arc<Post>,
    token: Token,
    now: Timestamp,
    held_since: Moment,
    waiting: std::vec::IntoIter<Due>,
    out: JoinSet<Sent>,
    letters: HashMap<Id, (Due, Option<Arc<Edition>>)>,
    templates: HashMap<Tenant, Arc<TemplateSet>>,
    ended: Vec<Ended>,
    posted: Posted,
    lost: bool,
}

impl Posting {
    /// What a claim brought that was asked for at `asked`; `None` if there is nothing to send.
    #[must_use]
    pub fn new(post: &Arc<Post>, outgoing: Outgoing, asked: Moment) -> Option<Self> {
        let (token, now) = (outgoing.token?, outgoing.now?);
        post.postings.fetch_add(1, Ordering::Relaxed);
        Some(Self {
            post: Arc::clone(post),
            token,
            now,
            held_since: asked,
            waiting: outgoing.due.into_iter(),
            out: JoinSet::new(),
            letters: HashMap::new(),
            templates: HashMap::new(),
            ended: Vec::new(),
            posted: Posted::default(),
            lost: false,
        })
    }

    /// Sends everything, and writes what became of it.
    pub async fn run(mut self, stop: Stop) -> Posted {
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
        self.posted
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
            let entry = &due.entry;
            let edition = self.post.shelf.edition(&self.post.store, entry.flow, entry.number).await;
            let set = self.templates_of(due.entry.tenant).await;
            match (edition, set) {
                (Ok(edition), Ok(set)) if !stop.is_asked() && self.holds().await => {
                    self.begin(due, edition, &set)
                }
                _ => self.end(due, None, Tried::NotBegun),
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

    /// A tenant's templates, the same for all letters of a claim.
    async fn templates_of(&mut self, tenant: Tenant) -> Result<Arc<TemplateSet>> {
        if let Some(known) = self.templates.get(&tenant) {
            return Ok(Arc::clone(known));
        }
        let set = self.post.templates.of(&self.post.store, tenant, invitation::EVENT_TYPE).await?;
        self.templates.insert(tenant, Arc::clone(&set));
        Ok(set)
    }

    fn begin(&mut self, due: Due, edition: Option<Arc<Edition>>, set: &TemplateSet) {
        let Some(channel) = self.post.channels.get(&due.entry.channel) else {
            let line = DeliveryLine::no_channel(due.entry.attempt(), self.now, &due.entry.channel);
            let error = line.error.unwrap_or_default();
            let tried = Tried::NotSent { outcome: Outcome::NoChannel, failure: Failure::NoChannel, error };
            return self.end(due, edition, tried);
        };
        let Some(known) = &edition else {
            let error = "the version of the survey that it belongs to is gone".to_owned();
            let tried = Tried::NotSent { outcome: Outcome::Failed, failure: Failure::Permanent, error };
            return self.end(due, edition, tried);
        };
        let letter = Arc::new(self.post.letter(&due.entry, known, set, self.now));
        let mut sending = channel.send(letter);
        // Many channels answer at once; only one that does not is worth a task of its own.
        if let Some(sent) = at_once(&mut sending) {
            return self.end(due, edition, tried(sent));
        }
        let sending = async move {
            let sent = tokio::time::timeout(SEND_TIMEOUT, sending);
            sent.await.unwrap_or_else(|_| Err(NotSent::Unknown { error: no_answer() }))
        };
        let id = self.out.spawn(sending).id();
        self.letters.insert(id, (due, edition));
    }

    fn note(&mut self, done: std::result::Result<(Id, Sent), tokio::task::JoinError>) {
        let (id, sent) = match done {
            Ok((id, sent)) => (id, sent),
            Err(error) => {
                (error.id(), Err(NotSent::Unknown { error: format!("the channel broke: {error}") }))
            }
        };
        let Some((due, edition)) = self.letters.remove(&id) else { return };
        self.end(due, edition, tried(sent));
    }

    fn end(&mut self, due: Due, edition: Option<Arc<Edition>>, tried: Tried) {
        match tried {
            Tried::Sent { .. } => self.posted.sent += 1,
            Tried::NotSent { .. } => self.posted.failed += 1,
            Tried::NotBegun => {}
        }
        let schedule = edition.as_ref().and_then(|e| e.schedule(&due.entry.trigger_id)).cloned();
        self.ended.push(Ended { due, schedule: schedule.unwrap_or_default(), tried });
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
        let ended: Arc<[Ended]> = std::mem::take(&mut self.ended).into();
        if ended.is_empty() || self.lost {
            return;
        }
        loop {
            match self.settle_once(&ended).await {
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

    async fn settle_once(&self, ended: &Arc<[Ended]>) -> Result<Settled> {
        self.post.store.end_sends(self.token.clone(), Arc::clone(ended), random::seed()).await
    }
}

impl Drop for Posting {
    fn drop(&mut self) {
        self.post.postings.fetch_sub(1, Ordering::Relaxed);
        self.post.room.notify_waiters();
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

fn tried(sent: Sent) -> Tried {
    let transient = |retry_after| Failure::Transient { retry_after };
    match sent {
        Ok(accepted) => Tried::Sent { message_id: accepted.message_id },
        Err(NotSent::Transient { error, retry_after }) => {
            Tried::NotSent { outcome: Outcome::Failed, failure: transient(retry_after), error }
        }
        Err(NotSent::Permanent { error }) => {
            Tried::NotSent { outcome: Outcome::Failed, failure: Failure::Permanent, error }
        }
        Err(NotSent::Unknown { error }) => {
            Tried::NotSent { outcome: Outcome::Unknown, failure: transient(None), error }
        }
    }
}

impl Post {
    /// The letter of a send.
    fn letter(&self, entry: &Entry, edition: &Edition, set: &TemplateSet, now: Timestamp) -> Letter {
        let public_id = entry.public_id.to_string();
        let url = self.survey_url.replace("{publicId}", &public_id);
        let payload: serde_json::Value = serde_json::from_str(&entry.payload).unwrap_or_default();
        let attempt = entry.attempt();
        let wording = invitation::word(
            set,
            &Invitation {
                flow: entry.flow,
                title: &edition.survey.title,
                default_locale: &edition.survey.default_locale,
                channel: &entry.channel,
                attempt,
                public_id: &public_id,
                survey_url: &url,
                address: &entry.address,
                locale: Some(edition.survey.locale_for(entry.locale.as_deref())),
                customer_ref: entry.customer_ref.as_deref(),
                payload: &payload,
            },
        );
        let template = wording.template.map_or_else(|| "built-in".to_owned(), |(id, _)| id.to_string());
        let mut idempotency_key = format!("{public_id}:{}:{template}", entry.channel);
        if attempt > 1 {
            idempotency_key.push_str(&format!(":{attempt}"));
        }
        Letter {
            tenant: entry.tenant,
            channel: entry.channel.clone(),
            to: entry.address.clone(),
            locale: wording.locale,
            attempt,
            public_id: Some(entry.public_id),
            subject: wording.subject,
            body: wording.body,
            html: wording.html,
            survey_url: Some(url),
            unsubscribe_url: None,
            provider_template: None,
            payload: Arc::new(payload),
            idempotency_key,
            sent_at: now,
        }
    }
}
