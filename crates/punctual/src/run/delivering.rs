//! Deliveries of notices, as mail: asked once more whether each is still wanted, then worded and sent.
//!
//! Before a letter is made, in this order: is its event still there, is what it is about still worth a
//! message, does the recipient want it (and by this channel, and now). Whoever says no is written down with
//! the reason; what is only held back comes again without counting as a try.
//!
//! Whom a delivery is for is found again by its address, not by the place that they had in a list when it
//! was planned (`rules/notice/people.rs`); whoever is gone from there is written to by what is kept of them.

use super::causes::{self, ByNotice, Told};
use super::channel::{Accepted, Letter, NotSent};
use super::consent::{Recipients, To};
use super::definitions::Definitions;
use super::posting::{Answer, Mail, Prepared};
use super::send::Post;
use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::{DeliveryId, NoticeId, Token};
use crate::base::random;
use crate::base::tenant::Tenant;
use crate::rules::channel::{ChannelPolicy, OnUnknown};
use crate::rules::consent::{Asked, Verdict};
use crate::rules::entity::Snapshot;
use crate::rules::entry::failure::{self, Failure, Verdict as Next};
use crate::rules::event_kind::{EventKind, Occasion, Recipient};
use crate::rules::message::{Entity, Message};
use crate::rules::notice::instead::Refused;
use crate::rules::notice::people::People;
use crate::rules::notice::{self, Planned, Whom};
use crate::rules::template::MessageTemplate;
use crate::rules::template::choose::is_named;
use crate::store::notices::deliver::{Cause, Delivery, Due, Ended, Ending, Settled};
use crate::store::notices::{NO_RECIPIENT, QUIET_HOURS};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// The deliveries of one claim, with all that is known about them.
#[derive(Debug, Default)]
pub struct Delivering {
    definitions: Definitions,
    causes: Arc<ByNotice>,
    entities: HashMap<Tenant, HashMap<Entity, Snapshot>>,
    people: HashMap<DeliveryId, Recipient<'static>>,
    recipients: Recipients,
}

/// A delivery whose letter is out.
#[derive(Debug)]
pub struct Out {
    due: Due,
    version: u32,
}

impl Delivering {
    /// Deliveries whose events are all known.
    pub(super) fn knowing(causes: Arc<ByNotice>) -> Self {
        Self { causes, ..Self::default() }
    }

    /// What their events and entities say, without their recipients' consent.
    async fn about(post: &Post, deliveries: &[&Delivery], causes: Arc<ByNotice>) -> Result<Self> {
        let told = deliveries.iter().filter_map(|of| causes.get(&of.notice));
        let events = told.map(|told| told.cause.event.as_ref());
        let definitions = Definitions::of(post, events).await?;
        let mut known = Self { definitions, causes, ..Self::default() };
        known.read_entities(post, deliveries).await?;
        known.find_people(post, deliveries).await?;
        Ok(known)
    }

    /// What other channels are given if it turns out that these did not arrive.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn instead(post: &Post, deliveries: &[Delivery]) -> Result<HashMap<DeliveryId, Planned>> {
        let with_other: Vec<&Delivery> =
            deliveries.iter().filter(|of| post.policy(&of.channel).fallback.is_some()).collect();
        let notices = with_other.iter().map(|of| of.notice).collect();
        let causes = causes::read(&post.store, notices).await?;
        let known = Self::about(post, &with_other, Arc::new(causes)).await?;
        let planned = with_other.into_iter().filter_map(|of| Some((of.id, known.instead_of(post, of)?)));
        Ok(planned.collect())
    }

    /// The entities that events are about, then those that they lead to.
    async fn read_entities(&mut self, post: &Post, deliveries: &[&Delivery]) -> Result<()> {
        let own = deliveries.iter().filter_map(|of| Some((of.tenant, self.entity_of(of)?.clone())));
        self.read_snapshots(post, own.collect()).await?;
        let mut related = BTreeSet::new();
        for of in deliveries {
            let Some(told) = self.causes.get(&of.notice) else { continue };
            let Some(kind) = self.definitions.kind(&told.cause.event) else { continue };
            if !kind.related.is_empty() {
                let found = kind.related_ids(&told.payload, self.snapshot(of));
                related.extend(found.into_iter().map(|(_, entity)| (of.tenant, entity)));
            }
        }
        self.read_snapshots(post, related).await
    }

    async fn read_snapshots(&mut self, post: &Post, wanted: BTreeSet<(Tenant, Entity)>) -> Result<()> {
        let mut by_tenant: HashMap<Tenant, Vec<Entity>> = HashMap::new();
        for (tenant, entity) in wanted {
            by_tenant.entry(tenant).or_default().push(entity);
        }
        for (tenant, entities) in by_tenant {
            let found = post.store.snapshots(tenant, entities).await?;
            self.entities.entry(tenant).or_default().extend(found);
        }
        Ok(())
    }

    /// Whom deliveries are for. What they keep of somebody is read only if nobody has the address any more.
    async fn find_people(&mut self, post: &Post, deliveries: &[&Delivery]) -> Result<()> {
        let strangers = self.meet(deliveries, &HashMap::new());
        if strangers.is_empty() {
            return Ok(());
        }
        let kept = post.store.kept_recipients(strangers.iter().map(|of| of.id).collect()).await?;
        for of in self.meet(&strangers, &kept) {
            let whom = kept.get(&of.id).cloned().unwrap_or_default();
            self.people.insert(of.id, whom.with(&of.channel, &of.address));
        }
        Ok(())
    }

    /// Finds the recipients of these, each event's once; answers the deliveries of whom nobody fits.
    fn meet<'d>(
        &mut self,
        deliveries: &[&'d Delivery],
        kept: &HashMap<DeliveryId, Whom>,
    ) -> Vec<&'d Delivery> {
        let mut by_notice: BTreeMap<NoticeId, Vec<&'d Delivery>> = BTreeMap::new();
        for of in deliveries {
            by_notice.entry(of.notice).or_default().push(*of);
        }
        let (mut met, mut strangers) = (Vec::with_capacity(deliveries.len()), Vec::new());
        for of_one in by_notice.values() {
            let Some(people) = of_one.first().and_then(|of| self.people_of(of)) else { continue };
            for of in of_one {
                let known_as = || people.known_as(kept.get(&of.id)?);
                match people.at(of.part, &of.address).or_else(known_as) {
                    Some(who) => met.push((of.id, who.owned())),
                    None => strangers.push(*of),
                }
            }
        }
        self.people.extend(met);
        strangers
    }

    /// The recipients of a delivery's event, as things stand.
    fn people_of(&self, of: &Delivery) -> Option<People<'_>> {
        let told = self.causes.get(&of.notice)?;
        Some(People::of(self.kind_of(&told.cause.event), &told.payload, self.snapshot(of)))
    }

    fn kind_of(&self, event: &Message) -> &EventKind {
        self.definitions.kind(event).unwrap_or_else(|| EventKind::undefined())
    }

    /// What a delivery's event is about.
    fn entity_of(&self, of: &Delivery) -> Option<&Entity> {
        self.causes.get(&of.notice)?.cause.entity.as_ref()
    }

    fn snapshot(&self, of: &Delivery) -> &Snapshot {
        let known = self.entity_of(of).and_then(|entity| self.entity(of.tenant, entity));
        known.unwrap_or(&Snapshot::Unknown)
    }

    /// Whom a delivery is for, in the language that they want.
    fn recipient(&self, of: &Delivery) -> Cow<'_, Recipient<'static>> {
        let mut recipient = self.people.get(&of.id).map(Cow::Borrowed).unwrap_or_default();
        if let Some(locale) = self.recipients.locale(of.tenant, &of.address) {
            recipient.to_mut().locale = Some(locale.to_owned());
        }
        recipient
    }

    fn entity(&self, tenant: Tenant, entity: &Entity) -> Option<&Snapshot> {
        self.entities.get(&tenant)?.get(entity)
    }

    /// What is to be done with a delivery, or why nothing is.
    fn weigh(&self, post: &Post, due: &Due, now: Timestamp) -> std::result::Result<Ready, Box<Ending>> {
        let of = &due.delivery;
        let Some(told) = self.causes.get(&of.notice) else { return Err(gone("its event is gone").into()) };
        let Told { cause: Cause { event, entity, .. }, payload } = told;
        if due.lost && post.policy(&of.channel).unknown == OnUnknown::Hold {
            let error = "it may have gone out, and its channel does not send twice".to_owned();
            return Err(Ending::Uncertain { outcome: None, error }.into());
        }
        let set = self.definitions.set(event);
        let found = set.and_then(|set| Some((set, set.templates.iter().find(|t| t.id == of.template)?)));
        let Some((set, template)) = found else { return Err(gone("Template not found").into()) };
        let (kind, snapshot) = (self.kind_of(event), self.snapshot(of));
        if let Some(reason) = kind.is_pointless(snapshot, payload) {
            let (reason, said) = (reason.code().to_owned(), reason.to_string());
            return Err(Ending::Skipped { reason, said }.into());
        }
        let recipient = &self.recipient(of);
        self.ask(post, of, event, template, recipient, now)?;
        let related: Vec<(&str, Value)> = kind
            .related_ids(payload, snapshot)
            .into_iter()
            .filter_map(|(name, entity)| Some((name, self.entity(of.tenant, &entity)?.state()?.clone())))
            .collect();
        let locale = template.locale_for(recipient.locale.as_deref());
        let to = To { tenant: of.tenant, address: &of.address, channel: &of.channel, kind: &event.kind };
        let unsubscribe_url = self.recipients.unsubscribe_url(post, &to, locale);
        let given: Vec<(&str, &str)> =
            unsubscribe_url.iter().map(|url| ("unsubscribeUrl", url.as_str())).collect();
        let occasion = Occasion {
            payload,
            entity: entity.as_ref(),
            snapshot,
            recipient,
            related: &related,
            given: &given,
        };
        let filled = kind.word(template, &occasion, &set.zone);
        let warnings =
            filled.warnings.iter().map(|said| format!("{}: {}", said.path, said.message)).collect();
        // What is one provider's own means nothing to another.
        let provider = filled.provider.filter(|_| is_worded_for(post, template, &of.channel));
        let letter = Letter {
            tenant: of.tenant,
            channel: of.channel.clone(),
            to: of.address.clone(),
            locale: locale.to_owned(),
            attempt: 1,
            public_id: None,
            survey_url: None,
            subject: filled.subject,
            body: filled.body,
            html: filled.html,
            unsubscribe_url,
            provider_template: provider.map(|own| Arc::new(own.to_json())),
            payload: Arc::clone(payload),
            idempotency_key: of.key.clone(),
            sent_at: now,
        };
        Ok(Ready { letter, version: template.version, warnings })
    }

    /// What another channel is given if this one refuses for good.
    fn instead_of(&self, post: &Post, of: &Delivery) -> Option<Planned> {
        let channel = post.policy(&of.channel).fallback.as_deref()?;
        let Cause { event, entity, by_hand } = &self.causes.get(&of.notice)?.cause;
        let set = self.definitions.set(event)?;
        let refused = Refused {
            key: &of.key,
            by_hand: *by_hand,
            event: event.id,
            kind: &event.kind,
            each: self.kind_of(event).recipients.each.is_some(),
            entity: entity.as_ref(),
            template: set.templates.iter().find(|t| t.id == of.template)?,
            part: of.part,
        };
        Some(refused.instead(channel, set, self.people.get(&of.id)?))
    }

    /// Whether the recipient wants it, so and now.
    fn ask(
        &self,
        post: &Post,
        of: &Delivery,
        event: &Message,
        template: &MessageTemplate,
        recipient: &Recipient<'_>,
        now: Timestamp,
    ) -> std::result::Result<(), Box<Ending>> {
        let redirected = of.channel != post.channels.reach(&template.definition.channel);
        let zone = recipient.zone.as_deref();
        let asked = Asked { channel: &of.channel, kind: &event.kind, now, redirected, zone };
        let ending = match self.recipients.verdict(of.tenant, &of.address, &asked) {
            Verdict::Send => return Ok(()),
            Verdict::Suppressed(why) => {
                Ending::Skipped { reason: why.word().to_owned(), said: why.to_string() }
            }
            Verdict::ShiftTo(until) => {
                let said = format!("{QUIET_HOURS}: it is quiet where the recipient is until {until}");
                Ending::HeldBack { until, said }
            }
            Verdict::UseChannel(channel) => {
                let channel = post.channels.reach(&channel);
                match notice::address(&channel, recipient) {
                    Some(address) => Ending::Moved { channel, address },
                    None => {
                        Ending::Skipped { reason: NO_RECIPIENT.to_owned(), said: "No recipient".to_owned() }
                    }
                }
            }
        };
        Err(ending.into())
    }
}

struct Ready {
    letter: Letter,
    version: u32,
    warnings: Vec<String>,
}

fn gone(error: &str) -> Ending {
    Ending::Failed { outcome: None, error: error.to_owned(), instead: None }
}

/// Whether a template is meant for this channel, and not only lends it its words.
fn is_worded_for(post: &Post, template: &MessageTemplate, channel: &str) -> bool {
    let named = &template.definition.channel;
    is_named(channel, named) || post.channels.reach(named) == channel
}

impl Mail for Delivering {
    type Due = Due;
    type Out = Out;
    type Ended = Ended;

    async fn read(&mut self, post: &Post, due: &[Due]) -> Result<()> {
        let deliveries: Vec<&Delivery> = due.iter().map(|one| &one.delivery).collect();
        let mut causes = Arc::clone(&self.causes);
        if causes.is_empty() {
            let notices = deliveries.iter().map(|of| of.notice).collect();
            causes = Arc::new(causes::read(&post.store, notices).await?);
        }
        *self = Self::about(post, &deliveries, causes).await?;
        let recipients = due.iter().map(|one| (one.delivery.tenant, one.delivery.address.clone()));
        self.recipients = Recipients::of(post, recipients.collect()).await?;
        Ok(())
    }

    async fn prepare(&mut self, post: &Arc<Post>, mut due: Due, now: Timestamp) -> Prepared<Self> {
        let ready = match self.weigh(post, &due, now) {
            Ok(ready) => ready,
            Err(ending) => {
                let ending = if due.unsure { doubted(*ending).into() } else { ending };
                let failed = matches!(*ending, Ending::Failed { .. } | Ending::Uncertain { .. });
                let ended = Ended { due, ending: *ending };
                return if failed { Prepared::Failed(ended) } else { Prepared::Quiet(ended) };
            }
        };
        let Some(channel) = post.channels.get(&due.delivery.channel) else {
            let ending = gone(&no_channel(&due.delivery.channel));
            return Prepared::Failed(Ended { due, ending });
        };
        let Ready { letter, version, warnings } = ready;
        due.warnings = warnings;
        Prepared::Letter(Arc::clone(channel), Arc::new(letter), Out { due, version })
    }

    fn put_back(&mut self, due: Due, now: Timestamp) -> Ended {
        not_begun(due, now)
    }

    fn take_back(&mut self, out: Out, now: Timestamp) -> Ended {
        self.put_back(out.due, now)
    }

    fn heard(&mut self, post: &Post, out: Out, answer: Answer) -> Ended {
        let policy = post.policy(&out.due.delivery.channel);
        let held = policy.unknown == OnUnknown::Hold;
        let (due, probe, now) = (&out.due, answer.probe, answer.now);
        let patience = policy.patience.clone().unwrap_or_else(failure::patience);
        let next = |failure| match probe {
            true => failure::after_probe(
                failure,
                (due.item.attempt(), due.number()),
                &patience,
                now,
                random::seed(),
            ),
            false => failure::after_failure(failure, due.item.attempt(), &patience, now, random::seed()),
        };
        let again = |outcome, failure, error| match next(failure) {
            Next::RetryAt(at) => Ending::Again { outcome, error, wait: at.since(now), counted: !probe },
            Next::GiveUp | Next::Halt => Ending::Failed { outcome: Some(outcome), error, instead: None },
        };
        let silent = Failure::Transient { retry_after: None };
        // What may have gone out counts, probe or not.
        let unsure = |error| match failure::after_failure(
            silent,
            due.item.attempt(),
            &patience,
            now,
            random::seed(),
        ) {
            Next::RetryAt(at) if policy.resends_unknown(due.unknown) => {
                Ending::Again { outcome: "unknown", error, wait: at.since(now), counted: true }
            }
            _ => Ending::Uncertain { outcome: Some("unknown"), error },
        };
        let ending = match answer.sent {
            Ok(Accepted { message_id, answer }) => {
                Ending::Sent { provider_id: message_id, answer, version: out.version }
            }
            Err(NotSent::Transient { error, retry_after }) => {
                again("transient", Failure::Transient { retry_after }, error)
            }
            Err(NotSent::NoAnswer { error }) if held => Ending::Uncertain { outcome: Some("timeout"), error },
            Err(NotSent::NoAnswer { error }) => again("timeout", silent, error),
            Err(NotSent::Unknown { error }) => unsure(error),
            Err(NotSent::Permanent { error }) => {
                let instead = self.instead_of(post, &out.due.delivery);
                Ending::Failed { outcome: Some("permanent"), error, instead }
            }
        };
        Ended { due: out.due, ending }
    }

    async fn settle(&self, post: &Post, token: Token, ended: Arc<[Ended]>) -> Result<Settled> {
        post.store.end_deliveries(token, ended).await
    }
}

/// What is not sent any more after a try that may have gone out: nobody must take it for never sent.
fn doubted(ending: Ending) -> Ending {
    match ending {
        Ending::Skipped { said, .. } | Ending::Failed { outcome: None, error: said, .. } => {
            let error = format!("a try before may have gone out; it is not sent again: {said}");
            Ending::Uncertain { outcome: None, error }
        }
        other => other,
    }
}

/// It keeps its place among those that wait.
fn not_begun(due: Due, now: Timestamp) -> Ended {
    let at = due.delivery.due_at.unwrap_or(now);
    Ended { due, ending: Ending::Later(at) }
}

fn no_channel(key: &str) -> String {
    format!("there is no channel `{key}` in this process; configure it and replay")
}

impl Post {
    /// How a channel is used.
    pub(super) fn policy(&self, channel: &str) -> &ChannelPolicy {
        self.policies.get(channel).unwrap_or(&self.usual)
    }
}
