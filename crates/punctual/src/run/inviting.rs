//! Invitations and reminders of surveys, as mail: asked once more whether each is wanted, worded, sent, and
//! written down.
//!
//! Before a letter is made the recipient is asked for, as for a notice: whoever does not want it gets nothing
//! more, with the reason in the log; what is only held back comes again without counting as a try. An entry
//! has one address, so another channel is used in the place of its own only if that takes such an address.

use super::channel::{Letter, NotSent};
use super::consent::{Recipients, To};
use super::posting::{Answer, Mail, Prepared};
use super::send::Post;
use super::shelf::Edition;
use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::Token;
use crate::base::random;
use crate::base::tenant::Tenant;
use crate::rules::channel::OnUnknown;
use crate::rules::consent::{Asked, Verdict};
use crate::rules::entry::failure::Failure;
use crate::rules::entry::log::{DeliveryLine, Outcome};
use crate::rules::event_kind::Recipient;
use crate::rules::invitation::{self, Invitation};
use crate::rules::notice;
use crate::rules::template::TemplateSet;
use crate::store::entries::Entry;
use crate::store::entries::send::{Again, Due, Ended, Settled, Tried};
use crate::store::notices::NO_RECIPIENT;
use std::collections::HashMap;
use std::sync::Arc;

/// The invitations of one claim.
#[derive(Debug, Default)]
pub struct Inviting {
    templates: HashMap<Tenant, Arc<TemplateSet>>,
    recipients: Recipients,
}

/// An invitation whose letter is out.
#[derive(Debug)]
pub struct Out {
    due: Due,
    edition: Arc<Edition>,
    channel: String,
}

impl Inviting {
    /// A tenant's templates, the same for all letters of a claim.
    async fn templates_of(&mut self, post: &Post, tenant: Tenant) -> Result<Arc<TemplateSet>> {
        if let Some(known) = self.templates.get(&tenant) {
            return Ok(Arc::clone(known));
        }
        let set = post.templates.of(&post.store, tenant, invitation::EVENT_TYPE).await?;
        self.templates.insert(tenant, Arc::clone(&set));
        Ok(set)
    }
}

impl Mail for Inviting {
    type Due = Due;
    type Out = Out;
    type Ended = Ended;

    async fn read(&mut self, post: &Post, due: &[Due]) -> Result<()> {
        let recipients = due.iter().map(|one| (one.entry.tenant, one.entry.address.clone()));
        self.recipients = Recipients::of(post, recipients.collect()).await?;
        Ok(())
    }

    async fn prepare(&mut self, post: &Arc<Post>, due: Due, now: Timestamp) -> Prepared<Self> {
        let entry = &due.entry;
        let edition = post.shelf.edition(&post.store, entry.flow, entry.number).await;
        let (Ok(edition), Ok(set)) = (edition, self.templates_of(post, entry.tenant).await) else {
            return Prepared::NotBegun(due);
        };
        let recipients = &self.recipients;
        if due.lost && post.policy(&entry.channel).unknown == OnUnknown::Hold {
            return Prepared::Failed(ended(
                due,
                edition.as_deref(),
                held("the try before this one was lost and may have gone out"),
            ));
        }
        let key = match ask(post, recipients, entry, now) {
            Ok(key) => key,
            Err(tried) => return Prepared::Quiet(ended(due, edition.as_deref(), tried)),
        };
        let Some(channel) = post.channels.get(&key) else {
            let line = DeliveryLine::no_channel(entry.attempt(), now, &key);
            let tried = not_sent(Outcome::NoChannel, Failure::NoChannel, line.error.unwrap_or_default());
            return Prepared::Failed(ended(due, edition.as_deref(), tried));
        };
        let Some(edition) = edition else {
            let error = "the version of the survey that it belongs to is gone".to_owned();
            return Prepared::Failed(ended(due, None, not_sent(Outcome::Failed, Failure::Permanent, error)));
        };
        let letter =
            Arc::new(Wording { post, recipients, edition: &edition, set: &set }.letter(entry, &key, now));
        Prepared::Letter(Arc::clone(channel), letter, Out { due, edition, channel: key })
    }

    fn put_back(&mut self, due: Due, _: Timestamp) -> Ended {
        ended(due, None, Tried::NotBegun)
    }

    fn take_back(&mut self, out: Out, now: Timestamp) -> Ended {
        self.put_back(out.due, now)
    }

    fn heard(&mut self, post: &Post, out: Out, answer: Answer) -> Ended {
        let tried = tried(post, &out.channel, answer);
        ended(out.due, Some(&out.edition), tried)
    }

    async fn settle(&self, post: &Post, token: Token, ended: Arc<[Ended]>) -> Result<Settled> {
        post.store.end_sends(token, ended, random::seed()).await
    }
}

/// The key of the channel that it goes by now, or why it does not.
fn ask(
    post: &Post,
    recipients: &Recipients,
    entry: &Entry,
    now: Timestamp,
) -> std::result::Result<String, Tried> {
    let kind = invitation::EVENT_TYPE;
    let asked = Asked { channel: &entry.channel, kind, now, redirected: false, zone: None };
    match recipients.verdict(entry.tenant, &entry.address, &asked) {
        Verdict::Send => Ok(entry.channel.clone()),
        Verdict::Suppressed(why) => Err(Tried::Refused { reason: why.word(), error: why.to_string() }),
        Verdict::ShiftTo(at) => Err(Tried::Later(at)),
        Verdict::UseChannel(other) => instead(post, post.channels.reach(&other), entry, now),
    }
}

/// Another channel, if it takes the address that there is. It has no lane here that would wait while it is
/// closed, so that is asked before.
fn instead(post: &Post, other: String, entry: &Entry, now: Timestamp) -> std::result::Result<String, Tried> {
    let address = Some(entry.address.clone());
    let recipient = match entry.address.contains('@') {
        true => Recipient { email: address, ..Recipient::default() },
        false => Recipient { phone: address, ..Recipient::default() },
    };
    if notice::address(&other, &recipient).is_none() {
        let error = format!("No recipient: it is to go by `{other}`, and there is no address for that");
        return Err(Tried::Refused { reason: NO_RECIPIENT, error });
    }
    let gate = post.gates.of(&other);
    match gate.opens_at(now) {
        Some(at) if gate.room(now) == 0 => Err(Tried::Later(at)),
        _ => Ok(other),
    }
}

fn ended(due: Due, edition: Option<&Edition>, tried: Tried) -> Ended {
    let schedule = edition.and_then(|edition| edition.schedule(&due.entry.trigger_id)).cloned();
    Ended { due, schedule: schedule.unwrap_or_default(), tried }
}

fn not_sent(outcome: Outcome, failure: Failure, error: String) -> Tried {
    Tried::NotSent { outcome, failure, error, again: Again::default() }
}

/// It may have gone out, and its channel does not send twice. Later reminders are other letters, and go.
fn held(what: &str) -> Tried {
    let error = format!("{what}; its channel does not send twice");
    not_sent(Outcome::Unknown, Failure::Permanent, error)
}

/// What a channel's answer comes to.
fn tried(post: &Post, channel: &str, answer: Answer) -> Tried {
    let transient = |retry_after| Failure::Transient { retry_after };
    let (outcome, failure, error) = match answer.sent {
        Ok(accepted) => return Tried::Sent { message_id: accepted.message_id },
        Err(NotSent::Transient { error, retry_after }) => (Outcome::Failed, transient(retry_after), error),
        Err(NotSent::Permanent { error }) => (Outcome::Failed, Failure::Permanent, error),
        Err(NotSent::NoAnswer { error } | NotSent::Unknown { error })
            if post.policy(channel).unknown == OnUnknown::Hold =>
        {
            return held(&error);
        }
        Err(NotSent::NoAnswer { error } | NotSent::Unknown { error }) => {
            (Outcome::Unknown, transient(None), error)
        }
    };
    let again = Again { patience: post.policy(channel).patience.clone(), probe: answer.probe };
    Tried::NotSent { outcome, failure, error, again }
}

/// What a letter is made of beside its entry.
struct Wording<'a> {
    post: &'a Post,
    recipients: &'a Recipients,
    edition: &'a Edition,
    set: &'a TemplateSet,
}

impl Wording<'_> {
    /// The letter of an invitation or a reminder.
    fn letter(&self, entry: &Entry, channel: &str, now: Timestamp) -> Letter {
        let (post, survey) = (self.post, &self.edition.survey);
        let public_id = entry.public_id.to_string();
        let url = post.survey_url.replace("{publicId}", &public_id);
        let payload: serde_json::Value = serde_json::from_str(&entry.payload).unwrap_or_default();
        let attempt = entry.attempt();
        let wanted = self.recipients.locale(entry.tenant, &entry.address).or(entry.locale.as_deref());
        let locale = survey.locale_for(wanted);
        let (tenant, address) = (entry.tenant, entry.address.as_str());
        let to = To { tenant, address, channel, kind: invitation::EVENT_TYPE };
        let unsubscribe_url = self.recipients.unsubscribe_url(post, &to, locale);
        let wording = invitation::word(
            self.set,
            &Invitation {
                flow: entry.flow,
                title: &survey.title,
                default_locale: &survey.default_locale,
                channel,
                attempt,
                public_id: &public_id,
                survey_url: &url,
                unsubscribe_url: unsubscribe_url.as_deref(),
                address,
                locale: Some(locale),
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
            tenant,
            channel: channel.to_owned(),
            to: address.to_owned(),
            locale: wording.locale,
            attempt,
            public_id: Some(entry.public_id),
            subject: wording.subject,
            body: wording.body,
            html: wording.html,
            survey_url: Some(url),
            unsubscribe_url,
            provider_template: wording.provider.map(|own| Arc::new(own.to_json())),
            payload: Arc::new(payload),
            idempotency_key,
            sent_at: now,
        }
    }
}
