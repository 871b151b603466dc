//! From events to notices: claimed events are planned, and filed in the transaction that settles them.
//!
//! What an event's kind says, its templates and the entity's state are read before; the sender asks them
//! once more for each delivery. A plan that cannot be filed because the claim was lost is forgotten: whoever
//! has the events then plans anew, and an event has one notice.

use super::delivering::payload_of;
use super::send::Post;
use crate::base::error::Result;
use crate::base::id::Token;
use crate::base::random;
use crate::base::tenant::Tenant;
use crate::rules::entity::Snapshot;
use crate::rules::message::{Entity, Message};
use crate::rules::notice::{self, Event, NoticeStatus, Plan};
use crate::rules::share::Take;
use crate::rules::template::TemplateSet;
use crate::store::claims::Wish;
use crate::store::notices::{Filed, NewNotice};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Plans and files the due events of these lanes; answers how many were seen.
///
/// # Errors
/// When the database does not answer.
pub(super) async fn tell(post: &Post, takes: Vec<Take>) -> Result<usize> {
    if takes.is_empty() {
        return Ok(0);
    }
    let wish = Wish { owner: post.owner.clone(), lease: post.lease, takes };
    let catch = post.store.claim(wish).await?;
    let seen = catch.taken.values().sum();
    let mut claims: BTreeMap<Token, Vec<Message>> = BTreeMap::new();
    for claimed in catch.items {
        claims.entry(claimed.token).or_default().push(claimed.message);
    }
    for (token, events) in claims {
        let filed: Arc<[(Message, Filed)]> = plan_all(post, events).await?.into();
        let count = filed.len();
        if !post.store.file_notices(token, filed, random::seed()).await? {
            tracing::warn!(target: "punctual", events = count, "a claim of events was lost");
        }
    }
    Ok(seen)
}

async fn plan_all(post: &Post, events: Vec<Message>) -> Result<Vec<(Message, Filed)>> {
    let entities = entities(post, &events).await?;
    let mut filed = Vec::with_capacity(events.len());
    for (event, (entity, snapshot)) in events.into_iter().zip(entities) {
        let set = post.templates.of(&post.store, event.tenant, &event.kind).await?;
        let plan = plan(post, &event, &snapshot, &set, None).await?;
        filed.push((event, file(plan, entity)));
    }
    Ok(filed)
}

/// What events are about, with its state; read once for each tenant.
async fn entities(post: &Post, events: &[Message]) -> Result<Vec<(Option<Entity>, Snapshot)>> {
    let mut about = Vec::with_capacity(events.len());
    let mut wanted: HashMap<Tenant, Vec<Entity>> = HashMap::new();
    for event in events {
        let kinds = post.event_kinds.of(&post.store, event.tenant).await?;
        let payload = payload_of(event);
        let entity = notice::entity_of(&shown(event, &payload), kinds.get(&event.kind).map(Arc::as_ref));
        wanted.entry(event.tenant).or_default().extend(entity.clone());
        about.push(entity);
    }
    let mut known = HashMap::new();
    for (tenant, entities) in wanted {
        let found = post.store.snapshots(tenant, entities).await?;
        known.extend(found.into_iter().map(|(entity, snapshot)| ((tenant, entity), snapshot)));
    }
    let with_state = events.iter().zip(about).map(|(event, entity)| {
        let snapshot = entity.clone().and_then(|entity| known.get(&(event.tenant, entity)).cloned());
        (entity, snapshot.unwrap_or_default())
    });
    Ok(with_state.collect())
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
    let reach = |named: &str| post.channels.reach(named);
    let kind = kinds.get(&event.kind).map(Arc::as_ref);
    Ok(notice::plan(&shown(event, &payload), kind, set, snapshot, &reach, again))
}

fn shown<'a>(event: &'a Message, payload: &'a serde_json::Value) -> Event<'a> {
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
