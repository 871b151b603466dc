//! The notification that an event would lead to: its entry, its deliveries, and the reasons.
//!
//! The plan is the planner's, and each delivery is decided and rendered by the sender's own code
//! (`notification/run/forecast.rs`). Only what transactions would decide is asked here: which keys are known,
//! and what an entry is that has nothing to send.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::MessageId;
use crate::delivery::rules::delivery::PlannedDelivery;
use crate::delivery::rules::template::MessageTemplate;
use crate::delivery::rules::template::choose::TemplateVerdict;
use crate::delivery::run::kinds::EventPlan;
use crate::delivery::run::source_events::ParsedSourceEvent;
use crate::delivery::store::deliveries::NO_RECIPIENT;
use crate::delivery::store::deliveries::known_deliveries::{KnownDeliveries, KnownEntry};
use crate::delivery::store::deliveries::planned_events::PlannedEntry;
use crate::delivery::store::deliveries::source_events::NotificationCause;
use crate::engine::Engine;
use crate::engine::explain::ExplainContext;
use crate::engine::explain::events::{AssumedStates, UNPUBLISHED};
use crate::flow::rules::entry::EntryStatus;
use crate::flow::run::source_event::SourceEvent;
use crate::notification::rules::notification::Consideration;
use crate::notification::run::forecast::{ForecastDelivery, ForecastOutcome, forecast_deliveries};
use crate::notification::run::planner::PlanForecast;
use crate::queue::rules::message::Entity;
use serde::Serialize;
use std::collections::HashMap;
use std::sync::Arc;

/// The outcome of the notification of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum NotificationOutcome {
    /// An entry with something to send.
    Created,
    /// The event has led to its entry already.
    Skipped,
    /// An entry that sends nothing, with the reason.
    Cancelled,
    /// The event cannot be planned, or there is no template for it.
    Failed,
    /// No notification is made of such events.
    NoMatch,
}

/// The explanation of the notification of an event.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NotificationExplanation {
    /// The outcome.
    pub outcome: NotificationOutcome,
    /// The word for the reason, as the list of schedules has it.
    pub reason: Option<String>,
    /// The sentence for the reason.
    pub because: String,
    /// The entity that the event is about.
    pub entity: Option<Entity>,
    /// The entry that the event has led to already.
    pub duplicate_of: Option<String>,
    /// The status of that entry.
    pub duplicate_status: Option<&'static str>,
    /// The reason for the hold of that entry, if it is held.
    pub duplicate_on_hold: Option<String>,
    /// For each recipient and each channel that templates name.
    pub deliveries: Vec<DeliveryExplanation>,
}

/// The outcome of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum DeliveryForecast {
    /// The channel gets the message.
    Sent,
    /// The delivery is not sent, with the reason.
    Skipped,
    /// Another delivery has its key, so it is not written.
    Duplicate,
    /// No template fits, so there is no delivery.
    NoTemplate,
    /// There is no message.
    Failed,
}

/// One delivery of a notification.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryExplanation {
    /// The outcome.
    pub outcome: DeliveryForecast,
    /// The word for the reason of a skip, as the communication log has it.
    pub reason: Option<String>,
    /// The sentence for the reason of a skip or a delay.
    pub because: Option<String>,
    /// The index of its recipient among the event's recipients, from 0.
    pub recipient_index: usize,
    /// The name of the recipient.
    pub recipient: Option<String>,
    /// The address, if there is one.
    pub to_address: Option<String>,
    /// The channel that templates name.
    pub planned_channel: String,
    /// The channel that would be used: consent may name another one.
    pub channel: String,
    /// Whether this process has that channel.
    pub channel_known: bool,
    /// The idempotency key; `{eventId}` stands for the id of an unpublished event.
    pub idempotency_key: Option<String>,
    /// The delivery that has this key already.
    pub duplicate_of: Option<String>,
    /// The entry of that delivery.
    pub duplicate_schedule_id: Option<String>,
    /// The status of that delivery.
    pub duplicate_status: Option<&'static str>,
    /// The reason for the hold of that entry, if it is held.
    pub duplicate_on_hold: Option<String>,
    /// The due time.
    pub planned_at: Timestamp,
    /// The time of the send or the skip, which quiet hours may shift.
    pub at: Timestamp,
    /// The same in the tenant's time zone.
    pub local: String,
    /// The chosen template.
    pub template_id: Option<String>,
    /// Its version.
    pub template_version: Option<u32>,
    /// Every active template for such events, with the reason for or against it.
    pub templates: Vec<TemplateExplanation>,
    /// The locale of the text.
    pub locale: Option<String>,
    /// The subject, for channels that have one.
    pub subject: Option<String>,
    /// The text as it would be sent today.
    pub body: Option<String>,
    /// The text with markup.
    pub html: Option<String>,
    /// The provider's own template, with its parameters.
    pub provider_template: Option<serde_json::Value>,
    /// The placeholders without a value, and other doubts.
    pub warnings: Vec<String>,
}

/// A template that was considered for a delivery.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateExplanation {
    /// Its id.
    pub template_id: String,
    /// Its version.
    pub template_version: u32,
    /// The channel that it names.
    pub channel: String,
    /// Its language.
    pub language: String,
    /// The entity that it is limited to.
    pub scope: Option<Entity>,
    /// Whether it is chosen.
    pub chosen: bool,
    /// The reason.
    pub because: &'static str,
}

impl TemplateExplanation {
    fn new((template, verdict): &(&MessageTemplate, TemplateVerdict)) -> Self {
        let of = &template.definition;
        let scope = of.scope.as_ref();
        Self {
            template_id: template.id.to_string(),
            template_version: template.version,
            channel: of.channel.clone(),
            language: of.language.clone(),
            scope: scope.map(|scope| Entity { kind: scope.kind.clone(), id: scope.id.clone() }),
            chosen: *verdict == TemplateVerdict::Chosen,
            because: verdict.sentence(),
        }
    }
}

impl NotificationExplanation {
    fn new(outcome: NotificationOutcome, reason: Option<&str>, because: impl Into<String>) -> Self {
        let (reason, because) = (reason.map(str::to_owned), because.into());
        Self {
            outcome,
            reason,
            because,
            entity: None,
            duplicate_of: None,
            duplicate_status: None,
            duplicate_on_hold: None,
            deliveries: Vec::new(),
        }
    }

    /// An entry that is made and has ended at once.
    fn ended((status, reason, said): &(EntryStatus, Option<&'static str>, String)) -> Self {
        let outcome = match status {
            EntryStatus::Cancelled => NotificationOutcome::Cancelled,
            _ => NotificationOutcome::Failed,
        };
        Self::new(outcome, *reason, said.as_str())
    }

    fn with_entry(mut self, known: Option<&KnownEntry>) -> Self {
        if let Some(known) = known {
            self.outcome = NotificationOutcome::Skipped;
            self.because = format!("the event has led to schedule {} already", known.id);
            self.reason = None;
            self.duplicate_of = Some(known.id.to_string());
            self.duplicate_status = Some(known.status.word());
            self.duplicate_on_hold.clone_from(&known.on_hold);
        }
        self
    }
}

impl Engine {
    /// Explains the notification of an event; `taken` is whether surveys look at such events.
    pub(super) async fn explain_notification(
        &self,
        sight: &ExplainContext,
        of: &SourceEvent<'_>,
        (taken, states): (bool, AssumedStates),
    ) -> Result<NotificationExplanation> {
        let forecast = PlanForecast::of(&self.inner.delivery, of).await?;
        let published = (of.event.id != UNPUBLISHED).then_some(of.event.id);
        let mut explained = match &forecast.plan {
            EventPlan::Entry(entry) if entry.ended.is_none() => {
                let considered = forecast.considered(&self.inner.delivery, of);
                self.explain_deliveries(sight, of, (entry, considered), states).await?
            }
            plan => {
                let known = self.store().known_deliveries(sight.tenant, published, Vec::new()).await?;
                let mut explained = explain_plan(plan, of, taken);
                if matches!(plan, EventPlan::Otherwise(_)) {
                    explained.deliveries = self.explain_misfits(sight, of, &forecast);
                }
                explained.with_entry(known.entry.as_ref())
            }
        };
        explained.entity = of.entity.cloned();
        Ok(explained)
    }

    /// Explains for each recipient and channel why no template fits.
    fn explain_misfits(
        &self,
        sight: &ExplainContext,
        of: &SourceEvent<'_>,
        forecast: &PlanForecast,
    ) -> Vec<DeliveryExplanation> {
        let at = of.event.due_at.max(sight.now);
        let considered = forecast.considered(&self.inner.delivery, of);
        considered.iter().map(|one| self.placed(sight, base(one, None, at, of.event.id))).collect()
    }

    /// Adds what only this process and the tenant's zone say.
    fn placed(&self, sight: &ExplainContext, mut delivery: DeliveryExplanation) -> DeliveryExplanation {
        delivery.local = sight.local(delivery.at);
        delivery.channel_known = self.inner.delivery.channels.get(&delivery.channel).is_some();
        delivery
    }

    async fn explain_deliveries(
        &self,
        sight: &ExplainContext,
        of: &SourceEvent<'_>,
        (entry, considered): (&PlannedEntry, Vec<Consideration<'_>>),
        states: AssumedStates,
    ) -> Result<NotificationExplanation> {
        let published = (of.event.id != UNPUBLISHED).then_some(of.event.id);
        let reached: Vec<&PlannedDelivery> =
            entry.deliveries.iter().filter(|planned| planned.address.is_some()).collect();
        let keys = reached.iter().map(|planned| planned.key.clone()).collect();
        let known = self.store().known_deliveries(sight.tenant, published, keys).await?;
        let planned_at = of.event.due_at.max(sight.now);
        let (event, entity) = (Arc::new(of.event.clone()), of.entity.cloned());
        let cause = NotificationCause { event, entity, by_hand: false };
        let source = ParsedSourceEvent { cause, payload: Arc::clone(of.payload) };
        let foreseen =
            forecast_deliveries(&self.inner.delivery, source, &reached, states, planned_at).await?;
        let keys = reached.iter().map(|planned| (planned.part, planned.channel.as_str()));
        let foreseen: HashMap<_, _> = keys.zip(foreseen).collect();
        let of_planned = |part, channel: &str| {
            entry.deliveries.iter().find(|one| (one.part, one.channel.as_str()) == (part, channel))
        };
        let deliveries = considered.iter().map(|one| {
            let base = base(one, of_planned(one.part, &one.channel), planned_at, of.event.id);
            let foreseen = foreseen.get(&(one.part, one.channel.as_str()));
            self.placed(sight, decided(base, foreseen, &known))
        });
        let deliveries: Vec<DeliveryExplanation> = deliveries.collect();
        let is_new = |planned: &&PlannedDelivery| !known.by_key.contains_key(&planned.key);
        let open = reached.iter().filter(|planned| is_new(planned)).count();
        let mut explained = match open {
            0 => {
                let (reason, said) = known.explain_empty(reached.is_empty());
                NotificationExplanation::new(NotificationOutcome::Cancelled, Some(reason), said)
            }
            open => {
                let said = format!("{open} of {} deliveries are to be sent", entry.deliveries.len());
                NotificationExplanation::new(NotificationOutcome::Created, None, said)
            }
        };
        explained.deliveries = deliveries;
        Ok(explained.with_entry(known.entry.as_ref()))
    }
}

/// Explains a plan without deliveries.
fn explain_plan(plan: &EventPlan, of: &SourceEvent<'_>, taken: bool) -> NotificationExplanation {
    let no_match = |said: String| NotificationExplanation::new(NotificationOutcome::NoMatch, None, said);
    match plan {
        EventPlan::Failed(said) => {
            NotificationExplanation::new(NotificationOutcome::Failed, None, said.as_str())
        }
        EventPlan::Otherwise(_) if taken => {
            no_match(format!("no template is in use for `{}`, and surveys take such events", of.event.kind))
        }
        EventPlan::Entry(entry) | EventPlan::Otherwise(entry) => match &entry.ended {
            Some(ended) => NotificationExplanation::ended(ended),
            None => no_match("nothing is planned".to_owned()),
        },
        EventPlan::Ignored | EventPlan::Taken { .. } => no_match(match of.kind {
            Some(kind) if !kind.comes_by(&of.event.topic) => {
                format!(
                    "events of the kind `{}` do not come by the topic `{}`",
                    of.event.kind, of.event.topic
                )
            }
            _ => format!("there is no template for `{}`", of.event.kind),
        }),
    }
}

/// A delivery as it is planned; without a plan, none is written.
fn base(
    of: &Consideration<'_>,
    planned: Option<&PlannedDelivery>,
    at: Timestamp,
    event: MessageId,
) -> DeliveryExplanation {
    let chosen = of.templates.iter().find(|(_, verdict)| *verdict == TemplateVerdict::Chosen);
    let chosen = chosen.map(|(template, _)| *template);
    let (outcome, reason, because) = match (chosen, planned) {
        (None, _) => (DeliveryForecast::NoTemplate, None, "no template fits"),
        (Some(_), None) => (DeliveryForecast::Duplicate, None, "another delivery of the event has its key"),
        (Some(_), Some(_)) => (DeliveryForecast::Skipped, Some(NO_RECIPIENT), "No recipient"),
    };
    DeliveryExplanation {
        outcome,
        reason: reason.map(str::to_owned),
        because: Some(because.to_owned()),
        recipient_index: of.part,
        recipient: of.recipient.clone(),
        to_address: of.address.clone(),
        planned_channel: of.channel.clone(),
        channel: of.channel.clone(),
        channel_known: false,
        idempotency_key: planned.map(|planned| shown_key(&planned.key, event)),
        duplicate_of: None,
        duplicate_schedule_id: None,
        duplicate_status: None,
        duplicate_on_hold: None,
        planned_at: at,
        at,
        local: String::new(),
        template_id: chosen.map(|template| template.id.to_string()),
        template_version: chosen.map(|template| template.version),
        templates: of.templates.iter().map(TemplateExplanation::new).collect(),
        locale: chosen.map(|template| template.locale_for(of.locale.as_deref()).to_owned()),
        subject: None,
        body: None,
        html: None,
        provider_template: None,
        warnings: Vec::new(),
    }
}

/// The key of a delivery; an event that was not published has no number that could stand in it.
fn shown_key(key: &str, event: MessageId) -> String {
    match key.strip_prefix("event-0:") {
        Some(rest) if event == UNPUBLISHED => format!("event-{{eventId}}:{rest}"),
        _ => key.to_owned(),
    }
}

/// The delivery as the sender would end it, or as the duplicate that it is.
fn decided(
    mut base: DeliveryExplanation,
    foreseen: Option<&ForecastDelivery>,
    known: &KnownDeliveries,
) -> DeliveryExplanation {
    let Some(foreseen) = foreseen else { return base };
    base.at = foreseen.at;
    base.channel.clone_from(&foreseen.channel);
    base.to_address = Some(foreseen.address.clone());
    (base.reason, base.because) = (None, foreseen.delayed.clone());
    base.outcome = match &foreseen.ending {
        ForecastOutcome::Sent(rendered) => {
            let message = &rendered.message;
            base.locale = Some(message.locale.clone());
            base.subject.clone_from(&message.subject);
            base.body = Some(message.body.clone());
            base.html.clone_from(&message.html);
            base.provider_template = message.provider_template.as_deref().cloned();
            base.warnings.clone_from(&rendered.warnings);
            DeliveryForecast::Sent
        }
        ForecastOutcome::Skipped(reason, said) => {
            (base.reason, base.because) = (Some(reason.clone()), Some(said.clone()));
            DeliveryForecast::Skipped
        }
        ForecastOutcome::Failed(said) => {
            base.because = Some(said.clone());
            DeliveryForecast::Failed
        }
    };
    let holder = base.idempotency_key.as_ref().and_then(|key| known.by_key.get(key));
    if let Some(holder) = holder {
        let said = format!("delivery {} has its key already", holder.id);
        (base.outcome, base.reason, base.because) = (DeliveryForecast::Duplicate, None, Some(said));
        base.duplicate_of = Some(holder.id.to_string());
        base.duplicate_status = Some(holder.status.word());
        base.duplicate_schedule_id = holder.entry.as_ref().map(|entry| entry.id.to_string());
        base.duplicate_on_hold = holder.entry.as_ref().and_then(|entry| entry.on_hold.clone());
    }
    base
}
