//! Events become entries.
//!
//! A batch is written in one transaction, its keys in one order, so that two batches never wait for
//! each other in a circle. `entry_key` decides what is a duplicate ([`key`]), also beside another batch
//! that is being written. Nothing is written when the tenant's published flows are not those that
//! the batch was matched against: the caller reads them again, and matches again.

use super::super::Store;
use super::super::columns::Column;
use super::super::dialect::Dialect;
use super::super::flows;
use super::super::points::{Point, reach};
use super::super::tx::Tx;
use super::super::value::params;
use super::key::{self, Key, NewKey};
use crate::base::clock::Timestamp;
use crate::base::error::{Error, Result};
use crate::base::id::{EntryId, FlowId, LaneId, MessageId};
use crate::base::tenant::Tenant;
use crate::rules::entry::schedule::Schedule;
use crate::rules::message::Entity;
use crate::rules::public_id::PublicId;
use crate::store::tx::VerbFuture;
use std::sync::Arc;
use std::time::Duration;

/// How often the owners of keys may be gone when they are looked for.
const OWNERS_LOST_MAX: usize = 5;

/// An entry to be.
#[derive(Clone, Debug)]
pub struct NewEntry {
    /// The flow.
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
    pub schedule: Arc<Schedule>,
    /// How long it may be quiet.
    pub grace: Duration,
    /// Its name outside, fresh.
    pub public_id: PublicId,
    /// What makes it the same as another.
    pub key: Key,
    /// The whole digest, in hexadecimal.
    pub unique_hash: String,
    /// The subscriptions that its survey lists for it, as JSON text; `None` is every one of the topic.
    pub listeners: Option<Arc<str>>,
    /// Where it is sent.
    pub address: Arc<str>,
    /// The locale the recipient reads.
    pub locale: Option<Arc<str>>,
    /// The recipient's name in another system.
    pub customer_ref: Option<Arc<str>>,
    /// The event's payload, as JSON text.
    pub payload: Arc<str>,
    /// The event that it comes from, if that came by a topic.
    pub message: Option<MessageId>,
    /// What the event is about.
    pub entity: Option<Arc<Entity>>,
    /// The event's correlation id.
    pub correlation_id: Option<Arc<str>>,
    /// When the event happened, if somebody said so.
    pub occurred_at: Option<Timestamp>,
}

/// What became of an entry that was handed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// It was written.
    Created(PublicId),
    /// There is one already: this.
    Duplicate(PublicId),
}

/// What became of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admitted {
    /// The published flows have changed; nothing was written.
    Stale,
    /// As told, in the order given.
    Done(Vec<Made>),
}

struct Request {
    tenant: Tenant,
    stamp: i64,
    triggered_by: String,
    entries: Vec<NewEntry>,
    look_first: bool,
}

impl Store {
    /// Writes entries that were matched against the published flows of this stamp. Looking first who
    /// is known already is quicker when many are, and comes to the same.
    pub fn admit(
        &self,
        tenant: Tenant,
        stamp: i64,
        triggered_by: String,
        entries: Vec<NewEntry>,
        look_first: bool,
    ) -> VerbFuture<'_, Admitted> {
        VerbFuture::new(async move {
            let request = Request { tenant, stamp, triggered_by, entries, look_first };
            let admitted = self.of(tenant).write(request, |tx, request| Box::pin(admit(tx, request))).await;
            reach(Point::EnqueuedBeforeAnswer);
            admitted
        })
    }
}

async fn admit(tx: &mut Tx, request: &Request) -> Result<Admitted> {
    if flows::stamp(tx, request.tenant).await? != request.stamp {
        return Ok(Admitted::Stale);
    }
    let line = Line::of(&request.entries);
    let owners = write(tx, request, &line).await?;
    reach(Point::EnqueuedBeforeCommit);
    let made = request.entries.iter().zip(&line.places).enumerate().map(|(n, (entry, place))| {
        let owner = owners[*place].unwrap_or(entry.public_id);
        // The second of two in one batch has another name than the first.
        if owner == entry.public_id && line.first[*place] == n {
            Made::Created(owner)
        } else {
            Made::Duplicate(owner)
        }
    });
    Ok(Admitted::Done(made.collect()))
}

/// The keys of a batch in their order, each once.
struct Line {
    keys: Vec<Key>,
    /// The first entry of each key.
    first: Vec<usize>,
    /// The place of each entry's key.
    places: Vec<usize>,
}

impl Line {
    fn of(entries: &[NewEntry]) -> Self {
        let mut order: Vec<(Key, usize)> = entries.iter().enumerate().map(|(n, e)| (e.key, n)).collect();
        order.sort_unstable();
        let mut line = Self { keys: Vec::new(), first: Vec::new(), places: vec![0; entries.len()] };
        for (key, n) in order {
            if line.keys.last() != Some(&key) {
                line.keys.push(key);
                line.first.push(n);
            }
            line.places[n] = line.keys.len() - 1;
        }
        line
    }
}

/// Writes what is new, and answers who has each key. A key whose owner is deleted at this very moment
/// is in nobody's way any more: it is tried again.
async fn write(tx: &mut Tx, request: &Request, line: &Line) -> Result<Vec<Option<PublicId>>> {
    let mut owners = vec![None; line.keys.len()];
    if request.look_first {
        key::find_owners(tx, request.tenant, &line.keys, &mut owners).await?;
    }
    for _ in 0..OWNERS_LOST_MAX {
        let open: Vec<usize> = (0..owners.len()).filter(|place| owners[*place].is_none()).collect();
        if open.is_empty() {
            return Ok(owners);
        }
        let wanted: Vec<&NewEntry> = open.iter().map(|place| &request.entries[line.first[*place]]).collect();
        let made = insert(tx, request, &wanted).await?;
        for ((place, entry), _) in open.iter().zip(&wanted).zip(made).filter(|(_, made)| *made) {
            owners[*place] = Some(entry.public_id);
        }
        key::find_owners(tx, request.tenant, &line.keys, &mut owners).await?;
    }
    Err(Error::Unavailable("entries of the same keys were deleted over and over meanwhile".into()))
}

/// Writes those of these whose keys are new; answers which.
async fn insert(tx: &mut Tx, request: &Request, wanted: &[&NewEntry]) -> Result<Vec<bool>> {
    let now = tx.now().await?;
    let key_of = |entry: &&NewEntry| {
        let public_id = Some(entry.public_id);
        NewKey { tenant: request.tenant, key: entry.key, public_id }
    };
    let keys: Vec<NewKey> = wanted.iter().map(key_of).collect();
    let ids = key::insert_keys(tx, &keys, now).await?;
    let new: Vec<(EntryId, &NewEntry)> =
        ids.iter().zip(wanted).filter_map(|(id, entry)| Some(((*id)?, *entry))).collect();
    let shared = params![request.tenant.id(), now, &request.triggered_by];
    tx.in_columns((INSERT_AT_ONCE, INSERT_ENTRY), shared, &columns(&new, now)).await?;
    if tx.dialect() == Dialect::Sqlite {
        tx.in_columns(("", INSERT_WORK), &[], &work_columns(&new, now)).await?;
    }
    Ok(ids.iter().map(Option::is_some).collect())
}

fn first_send(entry: &NewEntry, now: Timestamp) -> i64 {
    entry.schedule.first_send(entry.occurred_at, now).as_micros()
}

/// The columns of entries.
fn columns<'a>(new: &[(EntryId, &'a NewEntry)], now: Timestamp) -> Vec<Column<'a>> {
    let ints = |pick: &dyn Fn(&NewEntry) -> i64| Column::Ints(new.iter().map(|(_, e)| pick(e)).collect());
    let texts =
        |pick: fn(&'a NewEntry) -> Option<&'a str>| Column::Texts(new.iter().map(|(_, e)| pick(e)).collect());
    vec![
        Column::Ints(new.iter().map(|(id, _)| id.0).collect()),
        ints(&|e| e.public_id.halves().0),
        ints(&|e| e.public_id.halves().1),
        ints(&|e| e.flow.0),
        ints(&|e| i64::from(e.number)),
        texts(|e| Some(&e.trigger_id)),
        ints(&|e| e.lane.0),
        texts(|e| Some(&e.channel)),
        texts(|e| Some(&e.unique_hash)),
        texts(|e| e.listeners.as_deref()),
        texts(|e| Some(&e.address)),
        texts(|e| e.locale.as_deref()),
        texts(|e| e.customer_ref.as_deref()),
        texts(|e| Some(&e.payload)),
        Column::MaybeInts(new.iter().map(|(_, e)| e.message.map(|id| id.0)).collect()),
        texts(|e| e.entity.as_ref().map(|entity| entity.kind.as_str())),
        texts(|e| e.entity.as_ref().map(|entity| entity.id.as_str())),
        texts(|e| e.correlation_id.as_deref()),
        ints(&|e| i64::try_from(e.grace.as_micros()).unwrap_or(i64::MAX)),
        ints(&|e| first_send(e, now)),
        ints(&|e| e.schedule.total()),
    ]
}

/// The columns of their work.
fn work_columns<'a>(new: &[(EntryId, &NewEntry)], now: Timestamp) -> [Column<'a>; 3] {
    [
        Column::Ints(new.iter().map(|(id, _)| id.0).collect()),
        Column::Ints(new.iter().map(|(_, e)| e.lane.0).collect()),
        Column::Ints(new.iter().map(|(_, e)| first_send(e, now)).collect()),
    ]
}

macro_rules! insert_entry {
    () => {
        "insert into punctual.entry (tenant_id, created_at, triggered_by, id, public_high, public_low, \
            flow_id, number, trigger_id, lane_id, channel, key, listeners, address, locale, customer_ref, \
            payload, message_id, entity_type, entity_id, correlation_id, grace_us, due_at, reminders, \
            remaining, kind, event_kind) "
    };
}
const INSERT_AT_ONCE: &str = concat!(
    "with e as (",
    insert_entry!(),
    "select $1::int, $2::bigint, $3::text, x.*, x.reminders, 'survey', 'survey.invitation' \
        from (select unnest($4::bigint[]), unnest($5::bigint[]), unnest($6::bigint[]), \
            unnest($7::bigint[]), unnest($8::int[]), unnest($9::text[]), unnest($10::int[]), \
            unnest($11::text[]), unnest($12::text[]), unnest($13::text[]), unnest($14::text[]), \
            unnest($15::text[]), unnest($16::text[]), unnest($17::text[]), unnest($18::bigint[]), \
            unnest($19::text[]), unnest($20::text[]), unnest($21::text[]), unnest($22::bigint[]), \
            unnest($23::bigint[]), unnest($24::int[]) reminders) x \
        returning id, lane_id, due_at) \
    insert into punctual.work (message_id, lane_id, due_at) select id, lane_id, due_at from e"
);
const INSERT_ENTRY: &str = concat!(
    insert_entry!(),
    "values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, \
        $21, $22, $23, $24, $24, 'survey', 'survey.invitation')"
);
const INSERT_WORK: &str = "insert into punctual.work (message_id, lane_id, due_at) values ($1, $2, $3)";
