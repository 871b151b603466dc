//! Plans notifications: one entry for each event that has templates, with a delivery for each recipient and
//! channel.

use crate::base::error::Result;
use crate::base::tenant::Tenant;
use crate::delivery::rules::delivery::PlannedDelivery;
use crate::delivery::rules::template::TemplateSet;
use crate::delivery::run::context::DeliveryContext;
use crate::delivery::run::kinds::{EventPlan, Planner, Renderer};
use crate::delivery::store::consent::Consent;
use crate::delivery::store::deliveries::planned_events::PlannedEntry;
use crate::delivery::store::entries::advance::{PeekedEntries, PlannedSend};
use crate::flow::rules::entity::EntitySnapshot;
use crate::flow::rules::entry::{EntryKind, EntryStatus};
use crate::flow::rules::input_hash::{EntryInputs, EntryOrigin, input_hash, payload_digest};
use crate::flow::run::source_event::{SourceEvent, payload_of};
use crate::notification::rules::notification::{
    self, Consideration, EventToPlan, NotificationPlan, RecipientLookup,
};
use crate::notification::run::renderer::NotificationRenderer;
use crate::queue::rules::message::Message;
use crate::queue::run::executor::BoxFuture;
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;

/// Plans the notifications of events.
#[derive(Debug)]
pub struct NotificationPlanner;

impl Planner for NotificationPlanner {
    fn kind(&self) -> EntryKind {
        EntryKind::Notification
    }

    fn plan_events<'f>(
        &'f self,
        context: &'f DeliveryContext,
        events: &'f [SourceEvent<'f>],
    ) -> BoxFuture<'f, Result<Vec<EventPlan>>> {
        Box::pin(plan_events(context, events))
    }

    /// A notification has all its deliveries since it was written.
    fn plan_sends<'f>(
        &'f self,
        _: &'f DeliveryContext,
        _: &'f PeekedEntries,
    ) -> BoxFuture<'f, Result<Vec<PlannedSend>>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn renderer(&self) -> Box<dyn Renderer> {
        Box::new(NotificationRenderer::default())
    }
}

async fn plan_events(context: &DeliveryContext, events: &[SourceEvent<'_>]) -> Result<Vec<EventPlan>> {
    let mut sets: HashMap<(Tenant, &str), Arc<TemplateSet>> = HashMap::new();
    for SourceEvent { event, .. } in events {
        let key = (event.tenant, event.kind.as_str());
        if let std::collections::hash_map::Entry::Vacant(new) = sets.entry(key) {
            new.insert(context.templates.of(context.store(), event.tenant, &event.kind).await?);
        }
    }
    let told = || events.iter().map(|of| (of, sets.get(&(of.event.tenant, of.event.kind.as_str()))));
    let readers = told().filter_map(|(of, set)| Some(readers(of, set?)));
    let consent = consent(context, readers.flatten().collect()).await?;
    let plan = |(of, set): (&SourceEvent<'_>, Option<&Arc<TemplateSet>>)| match set {
        Some(set) => event_plan(decide(context, of, set, &consent, None), of, set),
        None => EventPlan::Ignored,
    };
    Ok(told().map(plan).collect())
}

/// The plan for an event that is not written, with what it was made of.
pub(crate) struct PlanForecast {
    pub(crate) plan: EventPlan,
    set: Arc<TemplateSet>,
    consent: Consent,
}

impl PlanForecast {
    /// Plans an event as the real planner does.
    ///
    /// # Errors
    /// When the database does not answer.
    pub(crate) async fn of(context: &DeliveryContext, event: &SourceEvent<'_>) -> Result<Self> {
        let plan = plan_events(context, std::slice::from_ref(event)).await?.pop();
        let SourceEvent { event: Message { tenant, kind, .. }, .. } = *event;
        let set = context.templates.of(context.store(), *tenant, kind).await?;
        let consent = consent(context, readers(event, &set)).await?;
        Ok(Self { plan: plan.unwrap_or(EventPlan::Ignored), set, consent })
    }

    /// What was considered for each recipient and channel.
    pub(crate) fn considered(
        &self,
        context: &DeliveryContext,
        of: &SourceEvent<'_>,
    ) -> Vec<Consideration<'_>> {
        with_ways(context, of, &self.consent, |event, ways| {
            notification::consider(event, of.kind, &self.set, of.snapshot, ways)
        })
    }
}

/// Plans an event with these templates, and returns the source of its entry; with `again`, for a request of
/// this name to send it once more.
///
/// # Errors
/// When the database does not answer.
pub(crate) async fn plan_one(
    context: &DeliveryContext,
    event: &Message,
    snapshot: &EntitySnapshot,
    set: &TemplateSet,
    again: Option<&str>,
) -> Result<(NotificationPlan, EntryOrigin)> {
    let kinds = context.event_kinds.of(context.store(), event.tenant).await?;
    let (payload, kind) = (Arc::new(payload_of(event)), kinds.get(&event.kind).map(Arc::as_ref));
    let of = SourceEvent { event, payload: &payload, kind, entity: event.entity.as_ref(), snapshot };
    let consent = consent(context, readers(&of, set)).await?;
    let plan = decide(context, &of, set, &consent, again);
    Ok((plan, origin_of(&of, set)))
}

/// The addresses of recipients whose language decides which template they get.
fn readers(of: &SourceEvent<'_>, set: &TemplateSet) -> Vec<(Tenant, String)> {
    if !set.is_multilingual() {
        return Vec::new();
    }
    let all = of.kind_or_undefined().recipients(of.payload, of.snapshot);
    let addresses = all.flat_map(|one| [one.phone, one.email, one.reference]).flatten();
    addresses.map(|address| (of.event.tenant, address)).collect()
}

/// Reads the consent of recipients; without any, nothing is read.
async fn consent(context: &DeliveryContext, readers: Vec<(Tenant, String)>) -> Result<Consent> {
    if readers.is_empty() { Ok(Consent::default()) } else { context.store().consent(readers).await }
}

fn decide(
    context: &DeliveryContext,
    of: &SourceEvent<'_>,
    set: &TemplateSet,
    consent: &Consent,
    again: Option<&str>,
) -> NotificationPlan {
    with_ways(context, of, consent, |event, ways| {
        notification::plan(event, of.kind, set, of.snapshot, ways, again)
    })
}

/// Asks about an event, with the channels of this process and what recipients want.
fn with_ways<T>(
    context: &DeliveryContext,
    of: &SourceEvent<'_>,
    consent: &Consent,
    ask: impl FnOnce(&EventToPlan<'_>, &RecipientLookup<'_>) -> T,
) -> T {
    let SourceEvent { event, payload, .. } = *of;
    let wants = |address: &str| consent.locale(event.tenant, address).map(str::to_owned);
    let ways = RecipientLookup { reach: &|named: &str| context.channels.reach(named), wants: &wants };
    let entity = event.entity.as_ref();
    ask(&EventToPlan { id: event.id, topic: &event.topic, kind: &event.kind, payload, entity }, &ways)
}

fn event_plan(plan: NotificationPlan, of: &SourceEvent<'_>, set: &TemplateSet) -> EventPlan {
    let entry = |ended, deliveries: Vec<PlannedDelivery>| {
        let (kind, entity) = (EntryKind::Notification, of.entity.cloned());
        let origin = origin_of(of, set);
        Box::new(PlannedEntry { kind, entity, ended, deliveries, request: None, origin })
    };
    match plan {
        NotificationPlan::PassOver => EventPlan::Ignored,
        NotificationPlan::Missing(said) => EventPlan::Failed(said),
        NotificationPlan::Pointless(reason, said) => {
            EventPlan::Entry(entry(Some((EntryStatus::Cancelled, Some(reason), said)), Vec::new()))
        }
        NotificationPlan::NoTemplate => {
            let ended = (EntryStatus::Failed, None, "Template not found".to_owned());
            EventPlan::Otherwise(entry(Some(ended), Vec::new()))
        }
        NotificationPlan::Deliveries(deliveries) => EventPlan::Entry(entry(None, deliveries)),
    }
}

/// Returns the origin of a notification: its event, and the state of the entity that was loaded for it.
pub(crate) fn origin_of(of: &SourceEvent<'_>, set: &TemplateSet) -> EntryOrigin {
    let payload = payload_digest(of.payload);
    let inputs =
        EntryInputs { event_kind: &of.event.kind, payload: &payload, definition: None, recipient: None };
    let state = match of.snapshot {
        EntitySnapshot::Unknown => None,
        EntitySnapshot::Deleted => Some("deleted"),
        EntitySnapshot::State(_) => Some("known"),
    };
    EntryOrigin {
        input_hash: Some(input_hash(&inputs)),
        zone: Some(set.zone.clone()),
        event_kind_version: of.kind.map(|kind| kind.version),
        trace: state.map(|state| json!({"entityState": state}).to_string()),
    }
}
