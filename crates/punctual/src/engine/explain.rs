//! Explain: the entries that an event would begin, and the reasons. Writes nothing.

use crate::base::clock::Timestamp;
use crate::base::condition::Explanation;
use crate::base::digest;
use crate::base::error::Result;
use crate::base::id::FlowId;
use crate::base::tenant::Tenant;
use crate::base::zone::Zone;
use crate::database::tx::VerbFuture;
use crate::delivery::rules::template::TemplateSet;
use crate::engine::Engine;
use crate::engine::ingest::Ingest;
use crate::flow::rules::dedup;
use crate::flow::rules::public_id::PublicId;
use crate::flow::store::entries::key::key_of;
use crate::survey::rules::candidate::{Candidate, of_flow};
use crate::survey::rules::invitation;
use crate::survey::rules::invitation::{Invitation, Words};
use crate::survey::run::definition_cache::{ActiveTriggers, Place};
use crate::survey::run::ingest::Outcome;
use serde::Serialize;

/// The explanation of one event.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explained {
    /// Why it cannot be read.
    pub error: Option<String>,
    /// For every trigger of its kind, in the order of the surveys.
    pub triggers: Vec<ExplainedTrigger>,
}

/// The explanation of one trigger for an event.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedTrigger {
    /// The survey.
    pub survey_id: FlowId,
    /// Its version.
    pub survey_version: u32,
    /// The trigger.
    pub trigger_id: String,
    /// `Created`, `Skipped`, `NoMatch`, as an ingest would answer.
    pub outcome: Outcome,
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
    /// The channel.
    pub channel: String,
    /// Whether this process has such a channel.
    pub channel_known: bool,
    /// When it would be sent, if every send goes out on time.
    pub sends: Vec<ExplainedSend>,
    /// When the entry would expire without an answer.
    pub expires_at: Option<Timestamp>,
}

/// One send of the timetable.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedSend {
    /// 1 is the invitation.
    pub attempt: u32,
    /// When.
    pub at: Timestamp,
    /// The same on the tenant's clocks.
    pub local: String,
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
    pub fn explain<'a>(&'a self, tenant: Tenant, ingest: &'a Ingest) -> VerbFuture<'a, Vec<Explained>> {
        VerbFuture::new(async move {
            ingest.check()?;
            let offered = self.inner.surveys.cache.current(self.store(), tenant).await?;
            let zone = self.zone_of(tenant).await?;
            let now = self.store().now().await?;
            let set = self.inner.delivery.templates.of(self.store(), tenant, invitation::EVENT_TYPE).await?;
            let mut all = Vec::with_capacity(ingest.items.len());
            for item in ingest.read() {
                let mut explained = Explained { error: None, triggers: Vec::new() };
                match item {
                    Err(problems) => explained.error = Some(problems.to_string()),
                    Ok(candidate) => {
                        for place in offered.begun_by(&ingest.event_kind) {
                            let sight = Sight { tenant, offered: &offered, zone: &zone, now, set: &set };
                            explained.triggers.push(self.explain_one(&sight, *place, &candidate).await?);
                        }
                    }
                }
                all.push(explained);
            }
            Ok(all)
        })
    }

    async fn zone_of(&self, tenant: Tenant) -> Result<Option<Zone>> {
        let tenants = self.store().tenants(tenant.id() - 1, 1).await?;
        let name = tenants.into_iter().find(|row| row.tenant == tenant).map(|row| row.time_zone);
        Ok(name.and_then(|name| Zone::find(&name).ok()))
    }

    async fn explain_one(
        &self,
        sight: &Sight<'_>,
        place: Place,
        candidate: &Candidate<'_>,
    ) -> Result<ExplainedTrigger> {
        let (edition, trigger, _) = sight.offered.at(place);
        // Too many values: the rest is absent, and an ingest would refuse the item.
        let mut facts = candidate.facts().unwrap_or_default();
        of_flow(&mut facts, edition.flow);
        let filter = trigger.filter.as_ref().map(|filter| filter.explain(&facts));
        let digest = dedup::digest(&trigger.dedup_recipe, &facts);
        let known = self.store().known_keys(sight.tenant, vec![key_of(&digest)]).await?;
        let duplicate_of = known.into_values().next();
        let decided = verdict(trigger.enabled, filter.as_ref(), duplicate_of);
        let (outcome, because) = match dedup::check(&trigger.dedup_recipe, &facts) {
            Err(said) if decided.0 != Outcome::NoMatch => (Outcome::Failed, said),
            _ => decided,
        };
        let begins = candidate.occurred_at.unwrap_or(sight.now);
        let sends = trigger.schedule.plan(begins);
        let grace = trigger.expiry.unwrap_or(crate::base::limits::EXPIRY_GRACE_DEFAULT);
        Ok(ExplainedTrigger {
            survey_id: edition.flow,
            survey_version: edition.number,
            trigger_id: trigger.id.clone(),
            outcome,
            because,
            filter,
            dedup_text: dedup::text(&trigger.dedup_recipe, &facts).replace('\u{1f}', "␟"),
            unique_hash: digest::hex(&digest),
            duplicate_of,
            channel: trigger.channel.clone(),
            channel_known: self.inner.delivery.channels.get(&trigger.channel).is_some(),
            expires_at: sends.last().map(|last| last.plus(grace)),
            sends: self.explain_sends(sight, place, candidate, duplicate_of, sends),
        })
    }
}

impl Engine {
    /// The sends of a timetable, each with the words it would have today.
    fn explain_sends(
        &self,
        sight: &Sight<'_>,
        place: Place,
        candidate: &Candidate<'_>,
        made: Option<PublicId>,
        sends: Vec<Timestamp>,
    ) -> Vec<ExplainedSend> {
        let (edition, trigger, _) = sight.offered.at(place);
        let public_id = made.map_or_else(|| "{publicId}".to_owned(), |id| id.to_string());
        let url = self.inner.surveys.url.replace("{publicId}", &public_id);
        let payload = serde_json::from_str(&candidate.payload_text).unwrap_or_default();
        let explain = |(n, at): (usize, Timestamp)| {
            let attempt = u32::try_from(n).unwrap_or(u32::MAX).saturating_add(1);
            let sent = Invitation {
                flow: edition.flow,
                title: &edition.survey.title,
                default_locale: &edition.survey.default_locale,
                channel: &trigger.channel,
                attempt,
                public_id: &public_id,
                survey_url: &url,
                unsubscribe_url: None,
                address: candidate.address,
                locale: Some(edition.survey.locale_for(candidate.locale)),
                customer_ref: candidate.customer_ref,
                payload: &payload,
            };
            let said = invitation::word(sight.set, Words::choose(sight.set, &sent), &sent);
            ExplainedSend {
                attempt,
                at,
                local: sight.zone.as_ref().map_or_else(|| at.to_string(), |zone| zone.show(at)),
                template_id: said.template.map(|(id, _)| id.to_string()),
                template_version: said.template.map(|(_, version)| version),
                locale: said.locale,
                subject: said.subject,
                body: said.body,
                warnings: said.warnings,
            }
        };
        sends.into_iter().enumerate().map(explain).collect()
    }
}

/// The context that all triggers of one explanation share.
struct Sight<'a> {
    tenant: Tenant,
    offered: &'a ActiveTriggers,
    zone: &'a Option<Zone>,
    now: Timestamp,
    set: &'a TemplateSet,
}

fn verdict(enabled: bool, filter: Option<&Explanation>, duplicate_of: Option<PublicId>) -> (Outcome, String) {
    use Outcome::{Created, NoMatch, Skipped};
    match (enabled, filter, duplicate_of) {
        (false, _, _) => (NoMatch, "the trigger is not enabled".into()),
        (_, Some(filter), _) if !filter.holds => (NoMatch, filter.to_string()),
        (_, _, Some(id)) => (Skipped, format!("{id} was made of the same event before")),
        (_, Some(filter), None) => (Created, filter.to_string()),
        (_, None, None) => (Created, "it has no filter, so every event of the kind matches".into()),
    }
}
