//! The deliveries of an event that is not planned yet, as the real sender would make them.
//!
//! The sender's own renderer decides about each delivery and makes its text: consent, quiet hours,
//! redirections and entities are asked with the same code and in the same order. Only the deliveries have no
//! rows: their ids are negative, and what rows would keep of recipients comes from the plan. Nothing is
//! written.
//!
//! Not promised: that a channel takes a message, or that nobody changes their mind before it is due.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::{DeliveryId, EntryId, LaneId, MessageId};
use crate::base::tenant::Tenant;
use crate::database::planted_bugs::PlantedBug;
use crate::delivery::rules::delivery::PlannedDelivery;
use crate::delivery::run::context::DeliveryContext;
use crate::delivery::run::delivery_gate::GateDecision;
use crate::delivery::run::kinds::{RenderOutcome, Renderer};
use crate::delivery::run::source_events::{ParsedSourceEvent, SourceEventByEntry};
use crate::delivery::store::deliveries::delivery::{Delivery, DeliveryOutcome, DueDelivery};
use crate::flow::rules::entity::EntitySnapshot;
use crate::flow::rules::entry::EntryKind;
use crate::notification::run::renderer::{ForecastContext, NotificationRenderer};
use crate::queue::rules::claim::ClaimItem;
use crate::queue::rules::message::Entity;
use std::collections::HashMap;

/// How often one delivery may be delayed or redirected before the forecast takes what it has.
const STEPS_MAX: usize = 8;
/// The entry of deliveries that have none.
const NO_ENTRY: EntryId = EntryId(-1);

/// What becomes of a delivery.
#[derive(Debug)]
pub(crate) struct ForecastDelivery {
    /// When it goes out, or is skipped.
    pub(crate) at: Timestamp,
    /// The channel that is used.
    pub(crate) channel: String,
    /// The address there.
    pub(crate) address: String,
    /// The sentence for why it goes out later than planned.
    pub(crate) delayed: Option<String>,
    /// How it ends.
    pub(crate) ending: ForecastOutcome,
}

/// How a delivery ends.
#[derive(Debug)]
pub(crate) enum ForecastOutcome {
    /// The channel gets this message.
    Sent(Box<RenderOutcome>),
    /// The delivery is not sent; with the word and the sentence for it.
    Skipped(String, String),
    /// There is no message; with the sentence.
    Failed(String),
}

/// Foresees deliveries of one event that become due at this time. All of them must have an address.
///
/// # Errors
/// When the database does not answer.
pub(crate) async fn forecast_deliveries(
    context: &DeliveryContext,
    source: ParsedSourceEvent,
    planned: &[&PlannedDelivery],
    states: HashMap<Entity, EntitySnapshot>,
    at: Timestamp,
) -> Result<Vec<ForecastDelivery>> {
    let tenant = source.cause.event.tenant;
    let ids = (1..).map(|n: i64| DeliveryId(-n));
    let recipients = ids.clone().zip(planned).map(|(id, one)| (id, one.recipient.clone())).collect();
    let causes = SourceEventByEntry::from([(NO_ENTRY, source)]);
    let mut renderer = NotificationRenderer::foreseeing(causes, ForecastContext { states, recipients });
    let mut due: Vec<DueDelivery> =
        ids.zip(planned).map(|(id, planned)| due_delivery(id, tenant, planned, at)).collect();
    let mut all: Vec<Option<ForecastDelivery>> = due.iter().map(|_| None).collect();
    let mut delays: Vec<Option<String>> = vec![None; due.len()];
    for step in 0..=STEPS_MAX {
        // As the sender does for each claim: a redirected delivery has another address.
        renderer.load(context, &due).await?;
        for (n, one) in due.iter_mut().enumerate() {
            if all[n].is_some() {
                continue;
            }
            let now = one.delivery.due_at.unwrap_or(at);
            let asks = step < STEPS_MAX && !context.store().has(PlantedBug::ForecastAsksNobody);
            let decision = if asks { renderer.gate(context, one, now) } else { GateDecision::Deliver };
            let ending = match decision {
                GateDecision::Delay { until, said } => {
                    (one.delivery.due_at, delays[n]) = (Some(until), Some(said));
                    continue;
                }
                GateDecision::Redirect { channel, address } => {
                    (one.delivery.channel, one.delivery.address) = (channel, address);
                    continue;
                }
                GateDecision::Drop { reason, said } => ForecastOutcome::Skipped(reason, said),
                GateDecision::Deliver | GateDecision::Merge { .. } => {
                    rendered(renderer.render(context, one, now))
                }
            };
            let (channel, address) = (one.delivery.channel.clone(), one.delivery.address.clone());
            all[n] = Some(ForecastDelivery { at: now, channel, address, delayed: delays[n].take(), ending });
        }
        if all.iter().all(Option::is_some) {
            break;
        }
    }
    Ok(all.into_iter().flatten().collect())
}

fn due_delivery(id: DeliveryId, tenant: Tenant, planned: &PlannedDelivery, at: Timestamp) -> DueDelivery {
    let delivery = Delivery {
        id,
        tenant,
        entry: NO_ENTRY,
        kind: EntryKind::Notification,
        key: planned.key.clone(),
        channel: planned.channel.clone(),
        address: planned.address.clone().unwrap_or_default(),
        send: planned.send,
        part: planned.part,
        template: planned.template,
        template_version: planned.version,
        tried_before: 0,
        due_at: Some(at),
    };
    DueDelivery::new(ClaimItem(MessageId(id.0), LaneId(0), 1, 0, None), delivery)
}

fn rendered(result: std::result::Result<RenderOutcome, Box<DeliveryOutcome>>) -> ForecastOutcome {
    match result.map_err(|outcome| *outcome) {
        Ok(rendered) => ForecastOutcome::Sent(Box::new(rendered)),
        Err(DeliveryOutcome::Skipped { reason, said }) => ForecastOutcome::Skipped(reason, said),
        Err(DeliveryOutcome::Failed { error, .. }) => ForecastOutcome::Failed(error),
        Err(other) => ForecastOutcome::Failed(format!("there is no message: {other:?}")),
    }
}
