//! From events to notices: claimed events are planned, and filed in the transaction that settles them.
//!
//! What an event's kind says, its templates and the entity's state are read before; the sender asks them
//! once more for each delivery. A plan that cannot be filed because the claim was lost is forgotten: whoever
//! has the events then plans anew, and an event has one notice.

use super::definitions::Definitions;
use super::delivering::payload_of;
use super::send::Post;
use crate::base::error::Result;
use crate::base::id::Token;
use crate::base::random;
use crate::base::tenant::Tenant;
use crate::rules::entity::Snapshot;
use crate::rules::event_kind::EventKind;
use crate::rules::message::{Entity, Message};
use crate::rules::notice::{self, Event, NoticeStatus, Plan, Ways};
use crate::rules::share::Take;
use crate::rules::template::TemplateSet;
use crate::store::claims::Wish;
use crate::store::consent::Consent;
use crate::store::notices::{Filed, NewNotice};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Events that were claimed, to be planned and filed.
pub(super) struct Telling {
    post: Arc<Post>,
    claims: BTreeMap<Token, Vec<Message>>,
}

/// Claims the due events of these lanes.
///
/// # Errors
/// When the database does not answer.
pub(super) async fn begin(post: &Arc<Post>, takes: Vec<Take>) -> Result<Option<Telling>> {
    if takes.is_empty() {
        return Ok(None);
    }
    let wish = Wish { owner: post.owner.clone(), lease: post.lease, takes };
    let catch = post.store.claim(wish).await?;
    let mut claims: BTreeMap<Token, Vec<Message>> = BTreeMap::new();
    for claimed in catch.items {
        claims.entry(claimed.token).or_default().push(claimed.message);
    }
    post.postings.fetch_add(1, Ordering::Relaxed);
    Ok(Some(Telling { post: Arc::clone(post), claims }))
}

impl Telling {
    /// How many events there are.
    pub(super) fn events(&self) -> usize {
        self.claims.values().map(Vec::len).sum()
    }

    /// Plans and files them.
    ///
    /// # Errors
    /// When the database does not answer: then they come again when their leases are over.
    pub(super) async fn run(mut self) -> Result<()> {
        let post = Arc::clone(&self.post);
        for (token, events) in std::mem::take(&mut self.claims) {
            let filed: Arc<[(Message, Filed)]> = plan_all(&post, events).await?.into();
            let count = filed.len();
            if !post.store.file_notices(token, filed, random::seed()).await? {
                tracing::warn!(target: "punctual", events = count, "a claim of events was lost");
            }
        }
        Ok(())
    }

    /// The same beside the loop, which is told when there is something to send.
    pub(super) async fn run_beside(self) {
        let post = Arc::clone(&self.post);
        match self.run().await {
            Ok(()) => post.wake.entries(),
            Err(error) => tracing::warn!(target: "punctual", %error, "claimed events could not be told"),
        }
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        self.post.postings.fetch_sub(1, Ordering::Relaxed);
        self.post.room.notify_waiters();
    }
}

async fn plan_all(post: &Post, events: Vec<Message>) -> Result<Vec<(Message, Filed)>> {
    let definitions = Definitions::of(post, events.iter()).await?;
    let payloads: Vec<Value> = events.iter().map(payload_of).collect();
    let about: Vec<Option<Entity>> = events
        .iter()
        .zip(&payloads)
        .map(|(event, payload)| notice::entity_of(&shown(event, payload), definitions.kind(event)))
        .collect();
    let known = snapshots(post, &events, &about).await?;
    let state = |event: &Message, entity: Option<&Entity>| {
        entity.and_then(|entity| known.get(&event.tenant)?.get(entity)).unwrap_or(&Snapshot::Unknown)
    };
    let all = events.iter().zip(&payloads).zip(&about);
    let readers = all.filter_map(|((event, payload), entity)| {
        let read = Read { kind: definitions.kind(event), set: definitions.set(event)?, payload };
        Some(readers(event.tenant, &read, state(event, entity.as_ref())))
    });
    let consent = consent(post, readers.flatten().collect()).await?;
    let mut filed = Vec::with_capacity(events.len());
    for ((event, payload), entity) in events.into_iter().zip(&payloads).zip(about) {
        let Some(set) = definitions.set(&event) else { continue };
        let read = Read { kind: definitions.kind(&event), set, payload };
        let plan = decide(post, &event, &read, state(&event, entity.as_ref()), &consent, None);
        filed.push((event, file(plan, entity)));
    }
    Ok(filed)
}

/// The states of what events are about; read once for each tenant.
async fn snapshots(
    post: &Post,
    events: &[Message],
    about: &[Option<Entity>],
) -> Result<HashMap<Tenant, HashMap<Entity, Snapshot>>> {
    let mut wanted: HashMap<Tenant, Vec<Entity>> = HashMap::new();
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
    post: &Post,
    event: &Message,
    snapshot: &Snapshot,
    set: &TemplateSet,
    again: Option<&str>,
) -> Result<Plan> {
    let kinds = post.event_kinds.of(&post.store, event.tenant).await?;
    let payload = payload_of(event);
    let read = Read { kind: kinds.get(&event.kind).map(Arc::as_ref), set, payload: &payload };
    let consent = consent(post, readers(event.tenant, &read, snapshot)).await?;
    Ok(decide(post, event, &read, snapshot, &consent, again))
}

/// What an event is planned by.
struct Read<'a> {
    kind: Option<&'a EventKind>,
    set: &'a TemplateSet,
    payload: &'a Value,
}

/// Those whose language makes a difference to what they are told.
fn readers(tenant: Tenant, read: &Read<'_>, snapshot: &Snapshot) -> Vec<(Tenant, String)> {
    if !read.set.is_multilingual() {
        return Vec::new();
    }
    let kind = read.kind.unwrap_or_else(|| EventKind::undefined());
    let all = kind.recipients(read.payload, snapshot);
    let addresses = all.flat_map(|one| [one.phone, one.email, one.reference]).flatten();
    addresses.map(|address| (tenant, address)).collect()
}

/// What is known of readers; for nobody, nothing is asked.
async fn consent(post: &Post, readers: Vec<(Tenant, String)>) -> Result<Consent> {
    if readers.is_empty() { Ok(Consent::default()) } else { post.store.consent(readers).await }
}

fn decide(
    post: &Post,
    event: &Message,
    read: &Read<'_>,
    snapshot: &Snapshot,
    consent: &Consent,
    again: Option<&str>,
) -> Plan {
    let wants = |address: &str| consent.locale(event.tenant, address).map(str::to_owned);
    let ways = Ways { reach: &|named: &str| post.channels.reach(named), wants: &wants };
    notice::plan(&shown(event, read.payload), read.kind, read.set, snapshot, &ways, again)
}

fn shown<'a>(event: &'a Message, payload: &'a Value) -> Event<'a> {
    Event { id: event.id, topic: &event.topic, kind: &event.kind, payload, entity: event.entity.as_ref() }
}

fn file(plan: Plan, entity: Option<Entity>) -> Filed {
    let ended = |status, reason, said| {
        let ended = Some((status, reason, said));
        Filed::Notice(NewNotice { entity: entity.clone(), ended, deliveries: Vec::new(), request: None })
    };
    match plan {
        Plan::PassOver => Filed::Passed,
        Plan::Missing(said) => Filed::Failed(said),
        Plan::Pointless(reason, said) => ended(NoticeStatus::Cancelled, Some(reason), said),
        Plan::NoTemplate => ended(NoticeStatus::Failed, None, "Template not found".to_owned()),
        Plan::Deliveries(deliveries) => {
            Filed::Notice(NewNotice { entity, ended: None, deliveries, request: None })
        }
    }
}
