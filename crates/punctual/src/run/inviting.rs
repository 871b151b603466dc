//! Invitations and reminders of surveys, as mail: how each is worded, and how what became of it is written.

use super::channel::{Letter, NotSent, Sent};
use super::posting::{Answer, Mail, Prepared};
use super::send::Post;
use super::shelf::Edition;
use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::Token;
use crate::base::random;
use crate::base::tenant::Tenant;
use crate::rules::entry::failure::Failure;
use crate::rules::entry::log::{DeliveryLine, Outcome};
use crate::rules::invitation::{self, Invitation};
use crate::rules::template::TemplateSet;
use crate::store::entries::Entry;
use crate::store::entries::send::{Due, Ended, Settled, Tried};
use std::collections::HashMap;
use std::sync::Arc;

/// The invitations of one claim.
#[derive(Debug, Default)]
pub struct Inviting {
    templates: HashMap<Tenant, Arc<TemplateSet>>,
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
    type Out = (Due, Arc<Edition>);
    type Ended = Ended;

    async fn prepare(&mut self, post: &Arc<Post>, due: Due, now: Timestamp) -> Prepared<Self> {
        let entry = &due.entry;
        let edition = post.shelf.edition(&post.store, entry.flow, entry.number).await;
        let (Ok(edition), Ok(set)) = (edition, self.templates_of(post, entry.tenant).await) else {
            return Prepared::NotBegun(due);
        };
        let Some(channel) = post.channels.get(&entry.channel) else {
            let line = DeliveryLine::no_channel(entry.attempt(), now, &entry.channel);
            let error = line.error.unwrap_or_default();
            let tried = Tried::NotSent { outcome: Outcome::NoChannel, failure: Failure::NoChannel, error };
            return Prepared::Failed(ended(due, edition.as_deref(), tried));
        };
        let Some(edition) = edition else {
            let error = "the version of the survey that it belongs to is gone".to_owned();
            let tried = Tried::NotSent { outcome: Outcome::Failed, failure: Failure::Permanent, error };
            return Prepared::Failed(ended(due, None, tried));
        };
        let letter = Arc::new(post.invitation(entry, &edition, &set, now));
        Prepared::Letter(Arc::clone(channel), letter, (due, edition))
    }

    fn put_back(&mut self, due: Due, _: Timestamp) -> Ended {
        ended(due, None, Tried::NotBegun)
    }

    fn take_back(&mut self, (due, _): Self::Out, now: Timestamp) -> Ended {
        self.put_back(due, now)
    }

    fn heard(&mut self, _: &Post, (due, edition): Self::Out, answer: Answer) -> Ended {
        ended(due, Some(&edition), tried(answer.sent))
    }

    async fn settle(&self, post: &Post, token: Token, ended: Arc<[Ended]>) -> Result<Settled> {
        post.store.end_sends(token, ended, random::seed()).await
    }
}

fn ended(due: Due, edition: Option<&Edition>, tried: Tried) -> Ended {
    let schedule = edition.and_then(|edition| edition.schedule(&due.entry.trigger_id)).cloned();
    Ended { due, schedule: schedule.unwrap_or_default(), tried }
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
        Err(NotSent::NoAnswer { error } | NotSent::Unknown { error }) => {
            Tried::NotSent { outcome: Outcome::Unknown, failure: transient(None), error }
        }
    }
}

impl Post {
    /// The letter of an invitation or a reminder.
    fn invitation(&self, entry: &Entry, edition: &Edition, set: &TemplateSet, now: Timestamp) -> Letter {
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
