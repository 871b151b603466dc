//! From events to notifications and to what surveys begin: claimed events are planned, and filed in the
//! transaction that settles them.
//!
//! What an event's kind says, its templates and the entity's state are read before; the sender asks them
//! once more for each delivery. A plan that cannot be filed because the claim was lost is forgotten: whoever
//! has the events then plans anew, and an event has one notification.
//!
//! Letters are begun with the filing where nothing waits before them (`store/notifications/begin.rs`):
//! whoever tells is handed them as postings.
//!
//! Surveys come first (`notify/surveys.rs`): what an event begins or stops is committed before the event is
//! settled, so a crash in between loses nothing, and by the dedup keys of entries the second time makes
//! nothing twice.
//! What is told of such an event:
//!
//! - Its kind has no template: surveys took it, whether a filter held or not. It fails, with the reason, if a
//!   trigger wants it, cannot be served (such as without an address for the trigger's channel), and nothing
//!   else was made of it.
//! - Its kind has templates: what became of the notification is what became of the event; that a trigger
//!   could not
//!   be served is a warning in the log.

mod surveys;

use self::surveys::{Heard, Surveyed};
use super::database_clock::DatabaseClock;
use super::definitions::Definitions;
use super::delivery_batch::{DeliveryBatch, RENEW_SHARE};
use super::notification_renderer::NotificationRenderer;
use super::send::{DeliveryContext, InFlightGuard};
use super::source_events::{self, payload_of};
use super::stop::Stop;
use crate::base::clock::{Moment, monotonic};
use crate::base::error::{Error, Result};
use crate::base::id::{MessageId, Token};
use crate::base::random;
use crate::base::tenant::Tenant;
use crate::rules::attempt::Retry;
use crate::rules::entity::Snapshot;
use crate::rules::event_kind::EventKind;
use crate::rules::message::{Entity, Message};
use crate::rules::notification::room::Room;
use crate::rules::notification::{self, Event, NotificationStatus, Plan, Ways};
use crate::rules::share::LaneQuota;
use crate::rules::template::TemplateSet;
use crate::store::claims::ClaimRequest;
use crate::store::consent::Consent;
use crate::store::deliveries::begin::Start;
use crate::store::deliveries::{NewNotification, PlannedEvent, PlannedEvents, WriteOutcome};
use crate::store::settle::{SettleAction, Settlement};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// Events that were claimed, to be planned and filed.
pub(super) struct EventBatch {
    _going: InFlightGuard,
    post: Arc<DeliveryContext>,
    claims: BTreeMap<Token, Vec<Message>>,
    asked: Moment,
    may: BeginAllowance,
}

/// What may be begun of the letters that a telling comes to.
pub(super) struct BeginAllowance {
    /// So many claims at most.
    pub(super) claims: usize,
    /// Letters in each.
    pub(super) batch: usize,
    /// None by channels for which something waits, whosever it is: they share a gate.
    pub(super) awaited: HashSet<String>,
    /// The time by which gates are asked.
    pub(super) present: DatabaseClock,
}

impl BeginAllowance {
    /// What these channels have room for in this process.
    pub(super) fn start<'c>(
        &self,
        post: &DeliveryContext,
        channels: impl Iterator<Item = &'c String>,
    ) -> Start {
        let mut room = Room { letters: self.claims.saturating_mul(self.batch), ..Room::default() };
        let now = self.present.now();
        for channel in channels {
            if room.by_channel.contains_key(channel) || self.awaited.contains(channel) {
                continue;
            }
            let here = post.channels.get(channel).is_some();
            room.by_channel.insert(channel.clone(), if here { post.gates.of(channel).room(now) } else { 0 });
        }
        let window = post.window(room.by_channel.keys());
        Start { owner: post.owner.clone(), lease: post.lease, batch: self.batch, room, window }
    }
}

/// Takes letters that were begun.
pub(super) type Hand<'a> = &'a mut (dyn FnMut(DeliveryBatch) + Send);

/// Claims the due events of these lanes.
///
/// # Errors
/// When the database does not answer.
pub(super) async fn begin(
    post: &Arc<DeliveryContext>,
    takes: Vec<LaneQuota>,
    may: BeginAllowance,
) -> Result<Option<EventBatch>> {
    if takes.is_empty() {
        return Ok(None);
    }
    let wish = ClaimRequest { owner: post.owner.clone(), lease: post.lease, takes };
    let asked = monotonic();
    let catch = post.store.claim(wish).await?;
    let mut claims: BTreeMap<Token, Vec<Message>> = BTreeMap::new();
    for claimed in catch.items {
        claims.entry(claimed.token).or_default().push(claimed.message);
    }
    Ok(Some(EventBatch { _going: InFlightGuard::new(post), post: Arc::clone(post), claims, asked, may }))
}

impl EventBatch {
    /// How many events there are.
    pub(super) fn events(&self) -> usize {
        self.claims.values().map(Vec::len).sum()
    }

    /// Plans and files them. Letters that are begun are handed over, also when it goes wrong later.
    ///
    /// # Errors
    /// When the database does not answer: then they come again when their leases are over.
    pub(super) async fn run(mut self, stop: Option<&Stop>, hand: Hand<'_>) -> Result<()> {
        let post = Arc::clone(&self.post);
        let claims = std::mem::take(&mut self.claims);
        // Events that were in a crash have a claim each, and would have as many of letters.
        let one = claims.len() == 1;
        let mut left: Vec<Token> = claims.keys().cloned().collect();
        let mut held_since = self.asked;
        for (token, events) in claims {
            // Each that waits for its turn here would be lost after its lease, and counted as a crash again.
            if held_since.elapsed() >= post.lease / RENEW_SHARE {
                held_since = monotonic();
                post.store.extend(left.clone(), post.lease).await?;
            }
            left.retain(|other| *other != token);
            let ids = events.iter().map(|event| event.id).collect();
            match plan_all(&post, events).await {
                Ok(plans) => {
                    // What is begun while everything ends would only go back.
                    let ending = stop.is_some_and(Stop::is_asked);
                    let notifications = plans.filings.iter().filter_map(|(_, filed)| filed.notification());
                    let channels = notifications.flat_map(|new| &new.deliveries).map(|one| &one.channel);
                    let start = (one && !ending).then(|| self.may.start(&post, channels));
                    file_all(&post, &token, plans, start, hand).await?;
                }
                Err(error) => put_off(&post, token, ids, &error).await?,
            }
        }
        Ok(())
    }

    /// The same beside the loop, which is told when there is something to send, and what went wrong.
    pub(super) async fn run_beside(self, stop: Stop) {
        let post = Arc::clone(&self.post);
        let mut hand = |posting: DeliveryBatch| drop(tokio::spawn(posting.run_beside(stop.clone())));
        match self.run(Some(&stop), &mut hand).await {
            Ok(()) => post.wake.entries(),
            Err(error) => {
                tracing::warn!(target: "punctual", %error, "claimed events could not be told");
                post.note_trouble(error);
            }
        }
    }
}

/// Lets events that cannot be planned now come again by their queue's waits, and fail when those are over.
async fn put_off(post: &DeliveryContext, token: Token, ids: Vec<MessageId>, error: &Error) -> Result<()> {
    tracing::warn!(target: "punctual", %error, events = ids.len(), "events could not be planned");
    let word = SettleAction::Abandon { error: error.to_string(), retry: Retry::Policy };
    let words = ids.into_iter().map(|id| (id, word.clone())).collect();
    post.store.settle(vec![Settlement { token, words }], None, random::seed()).await?;
    Ok(())
}

/// Files what was planned. If the database refuses it, each event is filed alone: what it will not take of
/// one must not hold up the others, and that one comes again by its queue's waits, until it fails with the
/// reason.
async fn file_all(
    post: &Arc<DeliveryContext>,
    token: &Token,
    plans: Plans,
    start: Option<Start>,
    hand: Hand<'_>,
) -> Result<()> {
    let (asked, Plans { filings, payloads }) = (monotonic(), plans);
    let filed =
        post.store.write_notifications(token.clone(), Arc::clone(&filings), start, random::seed()).await;
    let held = match filed {
        Err(error) if !error.is_transient() => file_each(post, token, &filings).await?,
        Err(error) => return Err(error),
        Ok(WriteOutcome::LostClaim) => false,
        Ok(WriteOutcome::Notifications { by_event, begun }) => {
            let causes = Arc::new(source_events::filed(&filings, payloads, &by_event));
            let known = || Box::new(NotificationRenderer::knowing(Arc::clone(&causes)));
            begun.into_iter().filter_map(|one| DeliveryBatch::new(post, known(), one, asked)).for_each(hand);
            log_dead(&filings);
            true
        }
    };
    if !held {
        tracing::warn!(target: "punctual", events = filings.len(), "a claim of events was lost");
    }
    Ok(())
}

async fn file_each(
    post: &DeliveryContext,
    token: &Token,
    all: &[(Arc<Message>, PlannedEvent)],
) -> Result<bool> {
    for one in all {
        let alone: PlannedEvents = vec![one.clone()].into();
        match post.store.write_notifications(token.clone(), alone, None, random::seed()).await {
            Err(error) if !error.is_transient() => {
                put_off(post, token.clone(), vec![one.0.id], &error).await?;
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
fn log_dead(filings: &[(Arc<Message>, PlannedEvent)]) {
    for (event, filed) in filings {
        if let PlannedEvent::Failed(error) = filed {
            let (tenant, id) = (event.tenant.id(), event.id.0);
            tracing::error!(
                target: "punctual", tenant, topic = event.topic, kind = event.kind, id, error,
                "message is dead: replay it once the cause is mended"
            );
        }
    }
}

/// What claimed events come to, with their payloads in the same order.
struct Plans {
    filings: PlannedEvents,
    payloads: Vec<Arc<Value>>,
}

async fn plan_all(post: &DeliveryContext, events: Vec<Message>) -> Result<Plans> {
    let definitions = Definitions::of(post, events.iter()).await?;
    let payloads: Vec<Arc<Value>> = events.iter().map(|event| Arc::new(payload_of(event))).collect();
    let about: Vec<Option<Entity>> = events
        .iter()
        .zip(&payloads)
        .map(|(event, payload)| notification::entity_of(&shown(event, payload), definitions.kind(event)))
        .collect();
    let known = snapshots(post, &events, &about).await?;
    let read = events.iter().zip(&payloads).zip(&about);
    let heard: Vec<Heard<'_>> = read
        .map(|((event, payload), entity)| {
            let entity = entity.as_ref();
            let state = entity.and_then(|entity| known.get(&event.tenant)?.get(entity));
            let (kind, snapshot) = (definitions.kind(event), state.unwrap_or(&Snapshot::Unknown));
            Heard { event, payload, kind, entity, snapshot }
        })
        .collect();
    let surveyed = surveys::meet(post, &heard).await?;
    let set = |of: &Heard<'_>| definitions.set(of.event).map(Arc::as_ref);
    let sets: Vec<Option<&TemplateSet>> = heard.iter().map(set).collect();
    let told = || heard.iter().zip(&sets);
    let readers = told().filter_map(|(of, set)| Some(readers(of, (*set)?)));
    let consent = consent(post, readers.flatten().collect()).await?;
    let plan =
        |(of, set): (&Heard<'_>, &Option<&TemplateSet>)| Some(decide(post, of, (*set)?, &consent, None));
    let plans: Vec<Option<Plan>> = told().map(plan).collect();
    let planned = events.into_iter().zip(plans).zip(about).zip(surveyed).zip(payloads);
    let (filings, payloads): (Vec<_>, _) = planned
        .filter_map(|((((event, plan), entity), surveyed), payload)| {
            let filed = file(&event, plan?, entity, surveyed);
            Some(((Arc::new(event), filed), payload))
        })
        .unzip();
    Ok(Plans { filings: filings.into(), payloads })
}

/// The states of what events are about; read once for each tenant.
async fn snapshots(
    post: &DeliveryContext,
    events: &[Message],
    about: &[Option<Entity>],
) -> Result<HashMap<Tenant, HashMap<Entity, Snapshot>>> {
    let mut wanted: BTreeMap<Tenant, Vec<Entity>> = BTreeMap::new();
    for (event, entity) in events.iter().zip(about) {
        wanted.entry(event.tenant).or_default().extend(entity.clone());
    }
    let mut known = HashMap::with_capacity(wanted.len());
    for (tenant, entities) in wanted {
        let found = post.store.snapshots(tenant, entities).await?;
        known.insert(tenant, found.into_iter().collect());
    }
    Ok(known)
}

/// What an event comes to by these templates; with `again`, for a request of this name to send it once more.
///
/// # Errors
/// When the database does not answer.
pub async fn plan(
    post: &DeliveryContext,
    event: &Message,
    snapshot: &Snapshot,
    set: &TemplateSet,
    again: Option<&str>,
) -> Result<Plan> {
    let kinds = post.event_kinds.of(&post.store, event.tenant).await?;
    let (payload, kind) = (payload_of(event), kinds.get(&event.kind).map(Arc::as_ref));
    let of = Heard { event, payload: &payload, kind, entity: event.entity.as_ref(), snapshot };
    let consent = consent(post, readers(&of, set)).await?;
    Ok(decide(post, &of, set, &consent, again))
}

/// Those whose language makes a difference to what they are told.
fn readers(of: &Heard<'_>, set: &TemplateSet) -> Vec<(Tenant, String)> {
    if !set.is_multilingual() {
        return Vec::new();
    }
    let kind = of.kind.unwrap_or_else(|| EventKind::undefined());
    let all = kind.recipients(of.payload, of.snapshot);
    let addresses = all.flat_map(|one| [one.phone, one.email, one.reference]).flatten();
    addresses.map(|address| (of.event.tenant, address)).collect()
}

/// What is known of readers; for nobody, nothing is asked.
async fn consent(post: &DeliveryContext, readers: Vec<(Tenant, String)>) -> Result<Consent> {
    if readers.is_empty() { Ok(Consent::default()) } else { post.store.consent(readers).await }
}

fn decide(
    post: &DeliveryContext,
    of: &Heard<'_>,
    set: &TemplateSet,
    consent: &Consent,
    again: Option<&str>,
) -> Plan {
    let wants = |address: &str| consent.locale(of.event.tenant, address).map(str::to_owned);
    let ways = Ways { reach: &|named: &str| post.channels.reach(named), wants: &wants };
    notification::plan(&shown(of.event, of.payload), of.kind, set, of.snapshot, &ways, again)
}

fn shown<'a>(event: &'a Message, payload: &'a Value) -> Event<'a> {
    Event { id: event.id, topic: &event.topic, kind: &event.kind, payload, entity: event.entity.as_ref() }
}

fn file(event: &Message, plan: Plan, entity: Option<Entity>, surveyed: Option<Surveyed>) -> PlannedEvent {
    let Some(Surveyed { made, error }) = surveyed else { return file_plan(plan, entity) };
    let alone = matches!(plan, Plan::PassOver | Plan::NoTemplate);
    match error {
        Some(error) if alone && !made => return PlannedEvent::Failed(error),
        Some(error) => {
            tracing::warn!(target: "punctual", event = %event.id, kind = event.kind, error,
                "a survey did not begin for somebody");
        }
        None => {}
    }
    if alone { PlannedEvent::Taken } else { file_plan(plan, entity) }
}

fn file_plan(plan: Plan, entity: Option<Entity>) -> PlannedEvent {
    let ended = |status, reason, said| {
        let ended = Some((status, reason, said));
        PlannedEvent::Notification(NewNotification {
            entity: entity.clone(),
            ended,
            deliveries: Vec::new(),
            request: None,
        })
    };
    match plan {
        Plan::PassOver => PlannedEvent::Passed,
        Plan::Missing(said) => PlannedEvent::Failed(said),
        Plan::Pointless(reason, said) => ended(NotificationStatus::Cancelled, Some(reason), said),
        Plan::NoTemplate => ended(NotificationStatus::Failed, None, "Template not found".to_owned()),
        Plan::Deliveries(deliveries) => {
            PlannedEvent::Notification(NewNotification { entity, ended: None, deliveries, request: None })
        }
    }
}
