//! Explain: what an event would lead to, and the reasons. Writes nothing.
//!
//! [`Engine::explain`] is about events that are handed in, which begin surveys only.
//! [`Engine::explain_event`] is about events of a topic: surveys and notifications.

mod candidate_facts;
pub(super) mod events;
mod forecast;
pub(super) mod notification;

use crate::base::clock::Timestamp;
use crate::base::condition::Explanation;
use crate::base::digest;
use crate::base::error::Result;
use crate::base::id::FlowId;
use crate::base::tenant::Tenant;
use crate::base::zone::Zone;
use crate::database::tx::VerbFuture;
use crate::delivery::rules::template::TemplateSet;
use crate::delivery::run::consent::ClaimRecipients;
use crate::engine::Engine;
use crate::engine::explain::candidate_facts::CandidateFacts;
use crate::engine::explain::events::AssumedStates;
use crate::engine::explain::forecast::{Forecast, ForecastSend};
use crate::engine::explain::notification::NotificationExplanation;
use crate::engine::ingest::IngestRequest;
use crate::flow::rules::dedup;
use crate::flow::rules::event_kind::{CancelReason, EventKind};
use crate::flow::rules::public_id::PublicId;
use crate::flow::store::entries::key::key_of;
use crate::survey::rules::candidate::{Candidate, of_flow};
use crate::survey::rules::invitation;
use crate::survey::rules::invitation::{Invitation, InvitationWords};
use crate::survey::run::definition_cache::{ActiveTriggers, TriggerIndex};
use crate::survey::run::ingest::{IngestOutcome, describe_pointless};
use serde::Serialize;
use std::sync::Arc;

/// An answer that has so many bytes explains no further trigger: 10,000 events times all triggers, each with
/// the words of every send, would take hundreds of megabytes.
const EXPLAINED_BYTES_MAX: usize = 16 << 20;
/// The sentence for events and triggers that an explanation omits.
const LEFT_OUT: &str =
    "not explained in full, since the answer is too long already: explain this event alone";

/// The explanation of one event.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventExplanation {
    /// The reason why the event is unreadable, has no effect, or is not explained in full.
    pub error: Option<String>,
    /// The event that has its id already.
    pub duplicate_of: Option<String>,
    /// For every trigger of its kind, in the order of the surveys; for each address of the people that an
    /// event of a topic names.
    pub triggers: Vec<TriggerExplanation>,
    /// The notification that it leads to; `None` for an event that is handed in, which leads to none.
    pub notification: Option<NotificationExplanation>,
}

impl EventExplanation {
    const fn new() -> Self {
        Self { error: None, duplicate_of: None, triggers: Vec::new(), notification: None }
    }
}

/// The explanation of one trigger for an event.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TriggerExplanation {
    /// The survey.
    pub survey_id: FlowId,
    /// Its version.
    pub survey_version: u32,
    /// The trigger.
    pub trigger_id: String,
    /// The address of the recipient.
    pub recipient_address: String,
    /// `Created`, `Skipped`, `NoMatch`, as an ingest would answer.
    pub outcome: IngestOutcome,
    /// The same in words.
    pub because: String,
    /// The evaluation of the filter; `None` if the trigger has none.
    pub filter: Option<Explanation>,
    /// The text that is hashed, with `␟` for the separator.
    pub dedup_text: String,
    /// The dedup key.
    pub unique_hash: String,
    /// The entry that has this key already.
    pub duplicate_of: Option<PublicId>,
    /// The status of that entry.
    pub duplicate_status: Option<&'static str>,
    /// The reason for the hold of that entry, if it is held.
    pub duplicate_on_hold: Option<String>,
    /// The channel.
    pub channel: String,
    /// Whether this process has such a channel.
    pub channel_known: bool,
    /// The sends, as consent, quiet hours and the entity of today decide them.
    pub sends: Vec<SendExplanation>,
    /// The time at which the entry would expire without an answer.
    pub expires_at: Option<Timestamp>,
}

/// One send of the timetable.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SendExplanation {
    /// 1 is the invitation.
    pub attempt: u32,
    /// The due time by the schedule.
    pub planned_at: Timestamp,
    /// The time of the send or the skip, which quiet hours may shift.
    pub at: Timestamp,
    /// The same in the tenant's time zone.
    pub local: String,
    /// `Sent` or `Skipped`.
    pub outcome: &'static str,
    /// The word for why it would be skipped, as the communication log has it.
    pub reason: Option<String>,
    /// The sentence for why it would be skipped or shifted.
    pub because: Option<String>,
    /// The channel that would be used: consent may name another one.
    pub channel: String,
    /// The template that words it; none is a text of our own.
    pub template_id: Option<String>,
    /// Its version.
    pub template_version: Option<u32>,
    /// The locale of the text.
    pub locale: String,
    /// The subject, for channels that have one.
    pub subject: Option<String>,
    /// The text as it would be sent today. The link has `{publicId}` where an entry that is not made yet
    /// has its id.
    pub body: String,
    /// The placeholders without a value.
    pub warnings: Vec<String>,
}

impl Engine {
    /// Explains events of a kind. Writes nothing.
    ///
    /// # Errors
    /// [`crate::base::error::Error::Invalid`] as [`Engine::ingest`].
    pub fn explain<'a>(
        &'a self,
        tenant: Tenant,
        ingest: &'a IngestRequest,
    ) -> VerbFuture<'a, Vec<EventExplanation>> {
        self.explain_to(tenant, ingest, true)
    }

    /// Explains events to a caller who may not see the states of entities: in the texts, the payload stands
    /// in for them.
    ///
    /// # Errors
    /// As [`Engine::explain`].
    pub fn explain_without_states<'a>(
        &'a self,
        tenant: Tenant,
        ingest: &'a IngestRequest,
    ) -> VerbFuture<'a, Vec<EventExplanation>> {
        self.explain_to(tenant, ingest, false)
    }

    fn explain_to<'a>(
        &'a self,
        tenant: Tenant,
        ingest: &'a IngestRequest,
        open: bool,
    ) -> VerbFuture<'a, Vec<EventExplanation>> {
        VerbFuture::new(async move {
            ingest.check()?;
            let kinds = self.inner.delivery.event_kinds.of(self.store(), tenant).await?;
            let kind = kinds.get(&ingest.event_kind).map(Arc::as_ref);
            let items = ingest.read(kind.unwrap_or_else(|| EventKind::undefined()));
            let addresses = items.iter().flatten().map(|candidate| candidate.address.to_owned());
            let sight = self.sight(tenant, addresses.collect()).await?;
            let read: Vec<_> = items.iter().map(|item| item.as_ref().ok()).collect();
            let (sees, assumed) = ((&sight.recipients, open), AssumedStates::new());
            let facts = CandidateFacts::of_all(self.store(), (tenant, kind), &read, sees, &assumed).await?;
            let (mut all, mut bytes) = (Vec::with_capacity(items.len()), 0);
            for (item, facts) in items.iter().zip(facts) {
                let mut explained = EventExplanation::new();
                match (item, facts) {
                    (Err(problems), _) => explained.error = Some(problems.to_string()),
                    (Ok(_), _) if bytes >= EXPLAINED_BYTES_MAX => explained.error = Some(LEFT_OUT.to_owned()),
                    (Ok(candidate), Some(facts)) => {
                        for place in sight.offered.begun_by(&ingest.event_kind) {
                            if bytes >= EXPLAINED_BYTES_MAX {
                                explained.error = Some(LEFT_OUT.to_owned());
                                break;
                            }
                            let one = self.explain_one(&sight, *place, (candidate, &facts)).await?;
                            bytes += serde_json::to_vec(&one).map_or(0, |json| json.len());
                            explained.triggers.push(one);
                        }
                    }
                    (Ok(_), None) => {}
                }
                all.push(explained);
            }
            Ok(all)
        })
    }

    /// Reads what all explanations of one call need.
    async fn sight(&self, tenant: Tenant, addresses: Vec<String>) -> Result<ExplainContext> {
        let delivery = &self.inner.delivery;
        let addresses = addresses.into_iter().map(|address| (tenant, address)).collect();
        Ok(ExplainContext {
            tenant,
            offered: self.inner.surveys.cache.current(self.store(), tenant).await?,
            zone: self.zone_of(tenant).await?,
            now: self.store().now().await?,
            set: delivery.templates.of(self.store(), tenant, invitation::EVENT_TYPE).await?,
            recipients: ClaimRecipients::foreseen(delivery, addresses).await?,
        })
    }

    async fn zone_of(&self, tenant: Tenant) -> Result<Option<Zone>> {
        let tenants = self.store().tenants(tenant.id() - 1, 1).await?;
        let name = tenants.into_iter().find(|row| row.tenant == tenant).map(|row| row.time_zone);
        Ok(name.and_then(|name| Zone::find(&name).ok()))
    }

    async fn explain_one(
        &self,
        sight: &ExplainContext,
        place: TriggerIndex,
        (candidate, about): (&Candidate<'_>, &CandidateFacts<'_>),
    ) -> Result<TriggerExplanation> {
        let (edition, trigger, _) = sight.offered.at(place);
        // Too many values: the rest is absent, and an ingest would refuse the item.
        let mut facts = candidate.facts().unwrap_or_default();
        of_flow(&mut facts, edition.flow);
        let filter = trigger.filter.as_ref().map(|filter| filter.explain(&facts));
        let digest = dedup::digest(&trigger.dedup_recipe, &facts);
        let known = self.store().known_keys(sight.tenant, vec![key_of(&digest)]).await?;
        let duplicate_of = known.into_values().next();
        let pointless = about.pointless.as_ref();
        let decided = verdict(trigger.enabled, filter.as_ref(), pointless, duplicate_of);
        let (outcome, because) = match dedup::check(&trigger.dedup_recipe, &facts) {
            Err(said) if decided.0 != IngestOutcome::NoMatch => (IngestOutcome::Failed, said),
            _ => decided,
        };
        let duplicate = match duplicate_of {
            Some(id) => self.store().entry(sight.tenant, id).await?,
            None => None,
        };
        let forecast = Forecast {
            context: &self.inner.delivery,
            recipients: &sight.recipients,
            tenant: sight.tenant,
            address: candidate.address,
            channel: &trigger.channel,
            schedule: &trigger.schedule,
            zone: about.zone.as_deref(),
        };
        let forecast = forecast.play(candidate.occurred_at, sight.now);
        let grace = trigger.expiry.unwrap_or(crate::base::limits::EXPIRY_GRACE_DEFAULT);
        Ok(TriggerExplanation {
            survey_id: edition.flow,
            survey_version: edition.number,
            trigger_id: trigger.id.clone(),
            recipient_address: candidate.address.to_owned(),
            outcome,
            because,
            filter,
            dedup_text: dedup::text(&trigger.dedup_recipe, &facts).replace('\u{1f}', "␟"),
            unique_hash: digest::hex(&digest),
            duplicate_of,
            duplicate_status: duplicate.as_ref().map(|entry| entry.state.status.word()),
            duplicate_on_hold: duplicate.and_then(|entry| entry.hold).map(|hold| hold.reason),
            channel: trigger.channel.clone(),
            channel_known: self.inner.delivery.channels.get(&trigger.channel).is_some(),
            expires_at: pointless.is_none().then(|| forecast.expires_at(grace)).flatten(),
            sends: match pointless {
                Some(_) => Vec::new(),
                None => self.explain_sends(sight, place, about, duplicate_of, forecast.sends),
            },
        })
    }
}

impl Engine {
    /// The sends of a timetable, each with the words it would have today.
    fn explain_sends(
        &self,
        sight: &ExplainContext,
        place: TriggerIndex,
        about: &CandidateFacts<'_>,
        made: Option<PublicId>,
        sends: Vec<ForecastSend>,
    ) -> Vec<SendExplanation> {
        let (edition, ..) = sight.offered.at(place);
        let public_id = made.map_or_else(|| "{publicId}".to_owned(), |id| id.to_string());
        let url = self.inner.surveys.url.replace("{publicId}", &public_id);
        let wanted = about.reader.locale.as_deref();
        let explain = |send: ForecastSend| {
            let sent = Invitation {
                flow: edition.flow,
                title: &edition.survey.title,
                default_locale: &edition.survey.default_locale,
                survey_locale: edition.survey.locale_for(wanted),
                channel: &send.channel,
                attempt: send.number,
                public_id: &public_id,
                survey_url: &url,
                unsubscribe_url: None,
                address: &send.address,
                kind: about.kind,
                occasion: about.occasion(),
            };
            let said = invitation::word(&sight.set, InvitationWords::choose(&sight.set, &sent), &sent);
            let outcome = if send.skipped.is_some() { "Skipped" } else { "Sent" };
            let (reason, refusal) = send.skipped.unzip();
            SendExplanation {
                attempt: send.number,
                planned_at: send.planned_at,
                at: send.at,
                local: sight.local(send.at),
                outcome,
                reason,
                because: refusal.or(send.delayed),
                channel: send.channel,
                template_id: said.template.map(|(id, _)| id.to_string()),
                template_version: said.template.map(|(_, version)| version),
                locale: said.locale,
                subject: said.subject,
                body: said.body,
                warnings: said.warnings,
            }
        };
        sends.into_iter().map(explain).collect()
    }
}

/// The context that all triggers of one explanation share.
struct ExplainContext {
    tenant: Tenant,
    offered: Arc<ActiveTriggers>,
    zone: Option<Zone>,
    now: Timestamp,
    set: Arc<TemplateSet>,
    recipients: ClaimRecipients,
}

impl ExplainContext {
    /// A moment on the tenant's clocks.
    fn local(&self, at: Timestamp) -> String {
        self.zone.as_ref().map_or_else(|| at.to_string(), |zone| zone.show(at))
    }
}

fn verdict(
    enabled: bool,
    filter: Option<&Explanation>,
    pointless: Option<&CancelReason>,
    duplicate_of: Option<PublicId>,
) -> (IngestOutcome, String) {
    use IngestOutcome::{Created, NoMatch, Skipped};
    match (enabled, filter, pointless, duplicate_of) {
        (false, ..) => (NoMatch, "the trigger is not enabled".into()),
        (_, Some(filter), ..) if !filter.holds => (NoMatch, filter.to_string()),
        (_, _, Some(reason), _) => (NoMatch, describe_pointless(reason)),
        (.., Some(id)) => (Skipped, format!("{id} was made of the same event before")),
        (_, Some(filter), ..) => (Created, filter.to_string()),
        _ => (Created, "it has no filter, so every event of the kind matches".into()),
    }
}
