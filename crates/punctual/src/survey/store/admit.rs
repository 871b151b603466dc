//! Events become instances.
//!
//! A batch is written in one transaction, its keys in one order, so that two batches never wait for each
//! other in a circle. `entry_key` decides what is a duplicate, also beside another batch that is being
//! written. Nothing is written when the tenant's published flows are not those that the batch was matched
//! against: the caller reads them again, and matches again.
//!
//! An item that was handed in becomes a message of the topic `punctual.ingest` in the same transaction, but
//! only if it led to a new instance. A duplicate writes nothing.

use crate::base::clock::Timestamp;
use crate::base::error::{Error, Result};
use crate::base::id::{EntryId, FlowId, LaneId, MessageId};
use crate::base::tenant::Tenant;
use crate::base::zone::Zone;
use crate::database::crash_points::{CrashPoint, reach};
use crate::database::store::Store;
use crate::database::tx::{Tx, VerbFuture};
use crate::delivery::rules::template::event_type::SURVEY_INVITATION;
use crate::flow::rules::entry::EntryKind;
use crate::flow::rules::entry::schedule::SendSchedule;
use crate::flow::rules::input_hash::{self, EntryInputs, PayloadDigest, payload_digest};
use crate::flow::rules::public_id::PublicId;
use crate::flow::store::entries::insert::{NewEntry, NewRecipient, admit_keys, insert_entries};
use crate::flow::store::entries::key::{self, KeyDigestHalf};
use crate::flow::store::flows;
use crate::queue::rules::message::Entity;
use crate::queue::store::messages::facts::{FactMessage, insert_facts};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The topic of items that were handed in.
pub const INGEST_TOPIC: &str = "punctual.ingest";

/// How often the owners of keys may be gone when they are looked for.
const OWNERS_LOST_MAX: usize = 5;

/// The event of one or more instances.
#[derive(Clone, Debug)]
pub struct InstanceSource {
    /// The event's message, if it came by a topic.
    pub message: Option<MessageId>,
    /// The event's kind.
    pub kind: Arc<str>,
    /// The event's payload, as JSON text.
    pub payload: Arc<str>,
    /// The digest of the payload, made when the first of its instances is written.
    pub payload_digest: OnceLock<PayloadDigest>,
    /// The entity of the event.
    pub entity: Option<Entity>,
    /// The event's correlation id.
    pub correlation_id: Option<String>,
    /// When the event happened, if that was given.
    pub occurred_at: Option<Timestamp>,
    /// The recipient's address.
    pub address: Arc<str>,
    /// The locale that the recipient reads.
    pub locale: Option<Arc<str>>,
    /// The recipient's name in another system.
    pub customer_ref: Option<Arc<str>>,
}

impl InstanceSource {
    fn payload_digest(&self) -> &PayloadDigest {
        self.payload_digest
            .get_or_init(|| payload_digest(&serde_json::from_str(&self.payload).unwrap_or_default()))
    }
}

/// An instance to be written.
#[derive(Clone, Debug)]
pub struct NewInstance {
    /// The survey.
    pub flow: FlowId,
    /// Its version.
    pub number: u32,
    /// The trigger.
    pub trigger_id: Arc<str>,
    /// Where it waits for its next send.
    pub lane: LaneId,
    /// The key of its channel.
    pub channel: Arc<str>,
    /// When it is sent.
    pub schedule: Arc<SendSchedule>,
    /// How long it may be quiet.
    pub grace: Duration,
    /// Its public id, fresh.
    pub public_id: PublicId,
    /// The key that lets one instance through.
    pub key: KeyDigestHalf,
    /// The whole digest of its recipe, in hexadecimal.
    pub unique_hash: String,
    /// The subscriptions that its survey lists for it, as JSON text; `None` is every one of the topic.
    pub listeners: Option<Arc<str>>,
    /// Its event.
    pub source: Arc<InstanceSource>,
    /// The zone of its local date.
    pub zone: Zone,
}

/// The outcome of an instance that was to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstanceOutcome {
    /// The instance was written.
    Created(PublicId),
    /// There is one of its key already: this.
    Duplicate(PublicId),
}

/// The outcome of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdmitOutcome {
    /// The published flows have changed; nothing was written.
    Stale,
    /// The outcome of each instance, in the order given.
    Done(Vec<InstanceOutcome>),
}

struct Request {
    tenant: Tenant,
    stamp: i64,
    triggered_by: String,
    instances: Vec<NewInstance>,
    look_first: bool,
}

impl Store {
    /// Writes instances that were matched against the published flows of this stamp. Looking first which keys
    /// are known is quicker when many are, and comes to the same.
    pub fn admit(
        &self,
        tenant: Tenant,
        stamp: i64,
        triggered_by: String,
        instances: Vec<NewInstance>,
        look_first: bool,
    ) -> VerbFuture<'_, AdmitOutcome> {
        VerbFuture::new(async move {
            let request = Request { tenant, stamp, triggered_by, instances, look_first };
            let admitted = self.of(tenant).write(request, |tx, request| Box::pin(admit(tx, request))).await;
            reach(CrashPoint::EnqueuedBeforeAnswer);
            admitted
        })
    }
}

async fn admit(tx: &mut Tx, request: &Request) -> Result<AdmitOutcome> {
    if flows::stamp(tx, request.tenant).await? != request.stamp {
        return Ok(AdmitOutcome::Stale);
    }
    let keys = DistinctKeys::of(&request.instances);
    let owners = write(tx, request, &keys).await?;
    reach(CrashPoint::EnqueuedBeforeCommit);
    let outcomes = request.instances.iter().zip(&keys.places).enumerate().map(|(n, (instance, place))| {
        let owner = owners[*place].unwrap_or(instance.public_id);
        // The second of two in one batch has another public id than the first.
        if owner == instance.public_id && keys.first[*place] == n {
            InstanceOutcome::Created(owner)
        } else {
            InstanceOutcome::Duplicate(owner)
        }
    });
    Ok(AdmitOutcome::Done(outcomes.collect()))
}

/// The keys of a batch in their order, each once.
struct DistinctKeys {
    keys: Vec<KeyDigestHalf>,
    /// The first instance of each key.
    first: Vec<usize>,
    /// The place of each instance's key.
    places: Vec<usize>,
}

impl DistinctKeys {
    fn of(instances: &[NewInstance]) -> Self {
        let mut order: Vec<(KeyDigestHalf, usize)> =
            instances.iter().enumerate().map(|(n, e)| (e.key, n)).collect();
        order.sort_unstable();
        let mut distinct = Self { keys: Vec::new(), first: Vec::new(), places: vec![0; instances.len()] };
        for (key, n) in order {
            if distinct.keys.last() != Some(&key) {
                distinct.keys.push(key);
                distinct.first.push(n);
            }
            distinct.places[n] = distinct.keys.len() - 1;
        }
        distinct
    }
}

/// Writes instances that are new, and returns the owner of each key. A key whose owner is deleted at this
/// very moment is free again, so the instance is tried again.
async fn write(tx: &mut Tx, request: &Request, keys: &DistinctKeys) -> Result<Vec<Option<PublicId>>> {
    let mut owners = vec![None; keys.keys.len()];
    if request.look_first {
        key::find_owners(tx, request.tenant, &keys.keys, &mut owners).await?;
    }
    for _ in 0..OWNERS_LOST_MAX {
        let open: Vec<usize> = (0..owners.len()).filter(|place| owners[*place].is_none()).collect();
        if open.is_empty() {
            return Ok(owners);
        }
        let wanted: Vec<&NewInstance> =
            open.iter().map(|place| &request.instances[keys.first[*place]]).collect();
        let made = insert(tx, request, &wanted).await?;
        for ((place, instance), _) in open.iter().zip(&wanted).zip(made).filter(|(_, made)| *made) {
            owners[*place] = Some(instance.public_id);
        }
        key::find_owners(tx, request.tenant, &keys.keys, &mut owners).await?;
    }
    Err(Error::Unavailable("entries of the same keys were deleted over and over meanwhile".into()))
}

/// Writes those of these whose keys are new; returns which.
async fn insert(tx: &mut Tx, request: &Request, wanted: &[&NewInstance]) -> Result<Vec<bool>> {
    let now = tx.now().await?;
    let mut entries: Vec<NewEntry<'_>> =
        wanted.iter().map(|instance| new_entry(request, instance, now)).collect();
    let ids = admit_keys(tx, &entries, now).await?;
    let new = wanted.iter().zip(&ids).filter(|(_, id)| id.is_some()).map(|(instance, _)| *instance);
    let messages = write_sources(tx, request.tenant, new, now).await?;
    for (entry, instance) in entries.iter_mut().zip(wanted) {
        entry.message = instance.source.message.or_else(|| messages.get(&source_of(instance)).copied());
    }
    let new: Vec<(EntryId, &NewEntry<'_>)> =
        ids.iter().zip(&entries).filter_map(|(id, entry)| Some(((*id)?, entry))).collect();
    insert_entries(tx, &new, now).await?;
    Ok(ids.iter().map(Option::is_some).collect())
}

/// The identity of an instance's event within a batch.
fn source_of(instance: &NewInstance) -> usize {
    Arc::as_ptr(&instance.source).addr()
}

/// Writes the messages of items that were handed in and led to something; returns them by their sources.
async fn write_sources(
    tx: &mut Tx,
    tenant: Tenant,
    new: impl Iterator<Item = &NewInstance>,
    now: Timestamp,
) -> Result<HashMap<usize, MessageId>> {
    let mut sources: BTreeMap<usize, &InstanceSource> = BTreeMap::new();
    let mut order = Vec::new();
    for instance in new.filter(|instance| instance.source.message.is_none()) {
        if sources.insert(source_of(instance), &instance.source).is_none() {
            order.push(source_of(instance));
        }
    }
    let facts: Vec<FactMessage<'_>> = order
        .iter()
        .filter_map(|source| sources.get(source))
        .map(|source| FactMessage {
            kind: &source.kind,
            payload: &source.payload,
            occurred_at: source.occurred_at,
            entity: source.entity.as_ref(),
            correlation_id: source.correlation_id.as_deref(),
        })
        .collect();
    let ids = insert_facts(tx, tenant, INGEST_TOPIC, &facts, now).await?;
    Ok(order.into_iter().zip(ids).collect())
}

/// Only what is likely to be written has its inputs hashed.
fn input_hash(of: &NewInstance) -> String {
    input_hash::input_hash(&EntryInputs {
        event_kind: &of.source.kind,
        payload: of.source.payload_digest(),
        definition: Some((of.flow.0, of.number, &of.trigger_id)),
        recipient: Some((&of.channel, &of.source.address)),
    })
}

fn new_entry<'a>(request: &'a Request, of: &'a NewInstance, now: Timestamp) -> NewEntry<'a> {
    let source = &of.source;
    NewEntry {
        tenant: request.tenant,
        kind: EntryKind::Survey,
        key: of.key,
        key_text: &of.unique_hash,
        public_id: Some(of.public_id),
        event_kind: SURVEY_INVITATION.name,
        triggered_by: &request.triggered_by,
        message: source.message,
        request_id: None,
        entity: source.entity.as_ref(),
        correlation_id: source.correlation_id.as_deref(),
        definition: Some((of.flow, of.number, &of.trigger_id)),
        event_kind_version: None,
        recipient: Some(NewRecipient {
            channel: &of.channel,
            address: &source.address,
            locale: source.locale.as_deref(),
            customer_ref: source.customer_ref.as_deref(),
        }),
        listeners: of.listeners.as_deref(),
        advance: Some((of.lane, of.schedule.first_send(source.occurred_at, now))),
        reminders: of.schedule.total(),
        grace: Some(of.grace),
        open: 1,
        input_hash: Some(input_hash(of).into()),
        zone: Some(&of.zone),
        trace: None,
        ended: None,
    }
}
