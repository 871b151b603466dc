//! From events to entries: claimed events are shown to the planner of every kind, and the entries that they
//! lead to are written in the transaction that settles them.
//!
//! Definitions and entities are read before that transaction; the sender asks them once more for each
//! delivery. A plan that cannot be written because the claim was lost is forgotten: the process that has the
//! events then plans anew, and the keys of entries let one of each through.
//!
//! Deliveries are begun with their entries where nothing waits before them
//! (`delivery/store/deliveries/begin.rs`).
//!
//! The result for an event, by the plans of all kinds:
//!
//! | plans | the event |
//! |---|---|
//! | one is `Failed` | fails, with that sentence |
//! | one is an `Entry` | is done; problems of other kinds are logged as warnings |
//! | one is `Taken`, with something made or without a problem | is done |
//! | all that were `Taken` made nothing and have a problem | fails, with the problem |
//! | one is `Otherwise`, and none of the above | is done, with that entry |
//! | all are `Ignored` | is passed over and waits in its topic's own queue if no other consumer takes it |

use crate::base::clock::{Monotonic, monotonic};
use crate::base::error::{Error, Result};
use crate::base::id::{MessageId, Token};
use crate::base::random;
use crate::delivery::run::begin_allowance::BeginAllowance;
use crate::delivery::run::context::{ClaimGuard, DeliveryContext};
use crate::delivery::run::delivery_batch::{DeliveryBatch, RENEW_SHARE, run_batches};
use crate::delivery::run::kinds::{EventPlan, Planner};
use crate::delivery::run::source_events;
use crate::delivery::store::deliveries::begin::BeginRequest;
use crate::delivery::store::deliveries::planned_events::{PlannedEvent, PlannedEvents, WriteOutcome};
use crate::flow::run::source_event::LoadedEvents;
use crate::queue::rules::attempt::Retry;
use crate::queue::rules::message::Message;
use crate::queue::rules::share::LaneQuota;
use crate::queue::run::executor::{LaneClaim, WorkCounts, WorkRound};
use crate::queue::run::stop::StopSignal;
use crate::queue::store::settle::{SettleAction, Settlement};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Claimed events, to be planned and written.
pub(crate) struct EventBatch {
    _out: ClaimGuard,
    context: Arc<DeliveryContext>,
    claims: BTreeMap<Token, Vec<Message>>,
    asked: Monotonic,
    allowance: BeginAllowance,
    /// Whether one of them was in a crash.
    has_suspects: bool,
}

impl EventBatch {
    /// Claims due events of these lanes; `None` if there are none.
    ///
    /// # Errors
    /// When the database does not answer.
    pub(crate) async fn claim(
        context: &Arc<DeliveryContext>,
        round: &mut WorkRound<'_>,
        quotas: Vec<LaneQuota>,
    ) -> Result<Option<Self>> {
        let (asked, allowance) = (monotonic(), BeginAllowance::of(round));
        let claimed = context.store().claim(round.claim_request(&context.worker, quotas)).await?;
        for (lane, items) in &claimed.taken {
            round.taken.insert(*lane, LaneClaim { items: *items, last_due: None });
        }
        let has_suspects = claimed.items.iter().any(|one| one.item.is_suspect());
        let mut claims: BTreeMap<Token, Vec<Message>> = BTreeMap::new();
        for one in claimed.items {
            claims.entry(one.token).or_default().push(one.message);
        }
        let (context, _out) = (Arc::clone(context), ClaimGuard::new(context));
        Ok((!claims.is_empty()).then_some(Self { _out, context, claims, asked, allowance, has_suspects }))
    }

    /// Plans and writes the events, and sends the deliveries that were begun with them.
    ///
    /// # Errors
    /// When the database does not answer: then the events come again when their leases are over.
    pub(crate) async fn run(mut self, stop: StopSignal, in_turn: bool) -> Result<WorkCounts> {
        let context = Arc::clone(&self.context);
        let claims = std::mem::take(&mut self.claims);
        let mut counts = WorkCounts { seen: claims.values().map(Vec::len).sum(), ..WorkCounts::default() };
        let mut begun = Vec::new();
        let written = self.write_claims(claims, &stop, &mut begun).await;
        drop(self);
        // Deliveries that were begun are sent, also when a later step failed.
        run_batches(begun, &stop, in_turn, &mut counts).await?;
        written?;
        context.worker.wake.all();
        Ok(counts)
    }

    async fn write_claims(
        &self,
        claims: BTreeMap<Token, Vec<Message>>,
        stop: &StopSignal,
        begun: &mut Vec<DeliveryBatch>,
    ) -> Result<()> {
        let context = &self.context;
        // Events that were in a crash have a claim each, and would have as many of deliveries.
        let begins = claims.len() == 1 && !self.has_suspects;
        let mut left: Vec<Token> = claims.keys().cloned().collect();
        let mut held_since = self.asked;
        for (token, events) in claims {
            // A claim that waits for its turn here would be lost after its lease, and counted as a crash
            // again.
            if held_since.elapsed() >= context.worker.lease / RENEW_SHARE {
                held_since = monotonic();
                context.store().extend(left.clone(), context.worker.lease).await?;
            }
            left.retain(|other| *other != token);
            let ids = events.iter().map(|event| event.id).collect();
            match plan_all(context, events).await {
                Ok(plans) => {
                    // Deliveries that are begun while everything stops would only go back.
                    let start = (begins && !stop.is_asked()).then(|| {
                        let entries = plans.events.iter().filter_map(|(_, planned)| planned.entry());
                        let channels = entries.flat_map(|new| &new.deliveries).map(|one| &one.channel);
                        self.allowance.start(context, channels)
                    });
                    write_all(context, &token, plans, start, begun).await?;
                }
                Err(error) => put_off(context, token, ids, &error).await?,
            }
        }
        Ok(())
    }
}

/// Lets events that cannot be planned now come again by their queue's waits, and fail when those are over.
async fn put_off(context: &DeliveryContext, token: Token, ids: Vec<MessageId>, error: &Error) -> Result<()> {
    tracing::warn!(target: "punctual", %error, events = ids.len(), "events could not be planned");
    let action = SettleAction::Abandon { error: error.to_string(), retry: Retry::Policy };
    let words = ids.into_iter().map(|id| (id, action.clone())).collect();
    context.store().settle(vec![Settlement { token, words }], None, random::seed()).await?;
    Ok(())
}

/// Writes what was planned. If the database refuses it, each event is written alone: an event that it does
/// not take must not hold up the others, and comes again by its queue's waits, until it fails with the
/// reason.
async fn write_all(
    context: &Arc<DeliveryContext>,
    token: &Token,
    plans: EventPlans,
    start: Option<BeginRequest>,
    batches: &mut Vec<DeliveryBatch>,
) -> Result<()> {
    let (asked, EventPlans { events, payloads }) = (monotonic(), plans);
    let written =
        context.store().write_planned_events(token.clone(), Arc::clone(&events), start, random::seed()).await;
    let held = match written {
        Err(error) if !error.is_transient() => write_each(context, token, &events).await?,
        Err(error) => return Err(error),
        Ok(WriteOutcome::LostClaim) => false,
        Ok(WriteOutcome::Written { by_event, begun }) => {
            let causes = Arc::new(source_events::filed(&events, payloads, &by_event));
            for claimed in begun {
                let Some(kind) = claimed.due.first().map(|due| due.delivery.kind) else { continue };
                let Some(mut renderer) = context.kinds.get(kind).map(Planner::renderer) else { continue };
                renderer.know_events(Arc::clone(&causes));
                batches.extend(DeliveryBatch::new(context, kind, renderer, claimed, asked));
            }
            log_dead(&events);
            true
        }
    };
    if !held {
        tracing::warn!(target: "punctual", events = events.len(), "a claim of events was lost");
    }
    Ok(())
}

async fn write_each(
    context: &DeliveryContext,
    token: &Token,
    all: &[(Arc<Message>, PlannedEvent)],
) -> Result<bool> {
    for one in all {
        let alone: PlannedEvents = vec![one.clone()].into();
        match context.store().write_planned_events(token.clone(), alone, None, random::seed()).await {
            Err(error) if !error.is_transient() => {
                put_off(context, token.clone(), vec![one.0.id], &error).await?;
            }
            Ok(WriteOutcome::LostClaim) => return Ok(false),
            other => {
                drop(other?);
                log_dead(std::slice::from_ref(one));
            }
        }
    }
    Ok(true)
}

/// Logs the events that failed for good.
fn log_dead(events: &[(Arc<Message>, PlannedEvent)]) {
    for (event, planned) in events {
        if let PlannedEvent::Failed(error) = planned {
            let (tenant, id) = (event.tenant.id(), event.id.0);
            tracing::error!(
                target: "punctual", tenant, topic = event.topic, kind = event.kind, id, error,
                "message is dead: replay it once the cause is mended"
            );
        }
    }
}

/// The plans for claimed events, with their payloads in the same order.
struct EventPlans {
    events: PlannedEvents,
    payloads: Vec<Arc<Value>>,
}

async fn plan_all(context: &DeliveryContext, events: Vec<Message>) -> Result<EventPlans> {
    let loaded = LoadedEvents::load(context.store(), &context.event_kinds, events).await?;
    let source = loaded.source_events();
    let mut plans: Vec<Vec<EventPlan>> = source.iter().map(|_| Vec::new()).collect();
    for planner in context.kinds.planners() {
        let of_kind = planner.plan_events(context, &source).await?;
        plans.iter_mut().zip(of_kind).for_each(|(all, plan)| all.push(plan));
    }
    drop(source);
    let LoadedEvents { events, payloads, .. } = loaded;
    let combine = |(event, plans): (Message, Vec<EventPlan>)| {
        let planned = combine(&event, plans);
        (Arc::new(event), planned)
    };
    let events: Vec<(Arc<Message>, PlannedEvent)> = events.into_iter().zip(plans).map(combine).collect();
    Ok(EventPlans { events: events.into(), payloads })
}

/// Combines the plans of all kinds for an event (the table above).
fn combine(event: &Message, plans: Vec<EventPlan>) -> PlannedEvent {
    let (mut entry, mut otherwise, mut failed, mut problem) = (None, None, None, None);
    let (mut is_taken, mut is_made) = (false, false);
    for plan in plans {
        match plan {
            EventPlan::Ignored => {}
            EventPlan::Failed(said) => failed = failed.or(Some(said)),
            EventPlan::Entry(new) => entry = entry.or(Some(new)),
            EventPlan::Otherwise(new) => otherwise = otherwise.or(Some(new)),
            EventPlan::Taken { made, problem: said } => {
                (is_taken, is_made) = (true, is_made | made);
                problem = problem.or(said);
            }
        }
    }
    if let (Some(said), true) = (&problem, entry.is_some() || is_made || failed.is_some()) {
        tracing::warn!(target: "punctual", event = %event.id, kind = event.kind, error = said,
            "a definition that wants the event could not be served");
    }
    match (failed, entry, problem) {
        (Some(said), ..) => PlannedEvent::Failed(said),
        (None, Some(new), _) => PlannedEvent::Entry(new),
        (None, None, Some(said)) if !is_made => PlannedEvent::Failed(said),
        _ if is_taken => PlannedEvent::Taken,
        _ => otherwise.map_or(PlannedEvent::Passed, PlannedEvent::Entry),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::Timestamp;
    use crate::base::tenant::Tenant;
    use crate::delivery::store::deliveries::planned_events::PlannedEntry;
    use crate::flow::rules::entry::EntryKind;
    use crate::flow::rules::input_hash::EntryOrigin;

    fn entry() -> Box<PlannedEntry> {
        let kind = EntryKind::Notification;
        let origin = EntryOrigin::default();
        let (entity, deliveries) = (None, Vec::new());
        Box::new(PlannedEntry { kind, entity, ended: None, deliveries, request: None, origin })
    }

    fn event() -> Message {
        let at = Timestamp::from_micros(0);
        Message {
            id: MessageId(1),
            tenant: Tenant::DEFAULT,
            topic: "t".into(),
            kind: "k".into(),
            payload: "{}".into(),
            key: None,
            entity: None,
            correlation_id: None,
            headers: None,
            created_at: at,
            occurred_at: at,
            due_at: at,
        }
    }

    fn word(planned: &PlannedEvent) -> &'static str {
        match planned {
            PlannedEvent::Passed => "passed",
            PlannedEvent::Taken => "taken",
            PlannedEvent::Failed(_) => "failed",
            PlannedEvent::Entry(_) => "entry",
        }
    }

    /// NTF-2: each row of the module's table.
    #[test]
    fn ntf_2_the_plans_of_all_kinds_decide_what_an_event_comes_to() {
        let taken =
            |made, problem: Option<&str>| EventPlan::Taken { made, problem: problem.map(str::to_owned) };
        let failed = || EventPlan::Failed("no".into());
        let table = [
            (vec![EventPlan::Ignored, EventPlan::Ignored], "passed"),
            (vec![taken(true, None), failed()], "failed"),
            (vec![EventPlan::Entry(entry()), failed()], "failed"),
            (vec![taken(false, Some("x")), EventPlan::Entry(entry())], "entry"),
            (vec![taken(false, None), EventPlan::Otherwise(entry())], "taken"),
            (vec![taken(true, Some("x")), EventPlan::Otherwise(entry())], "taken"),
            (vec![taken(false, Some("x")), EventPlan::Otherwise(entry())], "failed"),
            (vec![taken(false, Some("x")), EventPlan::Ignored], "failed"),
            (vec![EventPlan::Ignored, EventPlan::Otherwise(entry())], "entry"),
        ];
        let event = event();
        for (plans, want) in table {
            let shown = format!("{plans:?}");
            assert_eq!(word(&combine(&event, plans)), want, "{shown}");
        }
    }
}
