//! Events become entries.
//!
//! A batch is written in one transaction, its keys in one order, so that two batches never wait for
//! each other in a circle. The unique key decides what is a duplicate, also beside another batch
//! that is being written. Nothing is written when the tenant's published flows are not those that
//! the batch was matched against: the caller reads them again, and matches again.

use super::super::Store;
use super::super::columns::Column;
use super::super::flows;
use super::super::points::{Point, reach};
use super::super::tx::Tx;
use super::super::value::params;
use super::owner::{self, Key};
use crate::base::clock::Timestamp;
use crate::base::error::{Error, Result};
use crate::base::id::{FlowId, LaneId};
use crate::base::tenant::Tenant;
use crate::rules::entry::schedule::Schedule;
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
    /// Where it is sent.
    pub address: Arc<str>,
    /// The locale the recipient reads.
    pub locale: Option<Arc<str>>,
    /// The recipient's name in another system.
    pub customer_ref: Option<Arc<str>>,
    /// The event's payload, as JSON text.
    pub payload: Arc<str>,
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
        owner::find_present(tx, request.tenant, &line.keys, &mut owners).await?;
    }
    for _ in 0..OWNERS_LOST_MAX {
        let open: Vec<usize> = (0..owners.len()).filter(|place| owners[*place].is_none()).collect();
        let wanted: Vec<&NewEntry> = open.iter().map(|place| &request.entries[line.first[*place]]).collect();
        if insert(tx, request, &wanted).await? == wanted.len() {
            for (place, entry) in open.iter().zip(wanted) {
                owners[*place] = Some(entry.public_id);
            }
            return Ok(owners);
        }
        owner::find(tx, request.tenant, &line.keys, &mut owners).await?;
        if owners.iter().all(Option::is_some) {
            return Ok(owners);
        }
    }
    Err(Error::Unavailable("entries of the same keys were deleted over and over meanwhile".into()))
}

/// Writes what is new of these; answers how many.
async fn insert(tx: &mut Tx, request: &Request, wanted: &[&NewEntry]) -> Result<usize> {
    if wanted.is_empty() {
        return Ok(0);
    }
    let now = tx.now().await?;
    match tx {
        #[cfg(feature = "postgres")]
        Tx::Postgres(_) => insert_at_once(tx, request, wanted, now).await,
        #[cfg(feature = "sqlite")]
        Tx::Sqlite(_) => insert_in_steps(tx, request, wanted, now).await,
    }
}

/// The columns of entries.
fn columns<'a>(wanted: &[&'a NewEntry], now: Timestamp) -> Vec<Column<'a>> {
    let ints = |pick: &dyn Fn(&NewEntry) -> i64| Column::Ints(wanted.iter().map(|e| pick(e)).collect());
    let texts =
        |pick: fn(&'a NewEntry) -> Option<&'a str>| Column::Texts(wanted.iter().map(|e| pick(e)).collect());
    let first_send = |e: &NewEntry| e.schedule.first_send(e.occurred_at, now).as_micros();
    vec![
        ints(&|e| e.key.0),
        ints(&|e| e.key.1),
        ints(&|e| e.public_id.halves().0),
        ints(&|e| e.public_id.halves().1),
        ints(&|e| e.flow.0),
        ints(&|e| i64::from(e.number)),
        texts(|e| Some(&e.trigger_id)),
        ints(&|e| e.lane.0),
        texts(|e| Some(&e.channel)),
        texts(|e| Some(&e.unique_hash)),
        texts(|e| Some(&e.address)),
        texts(|e| e.locale.as_deref()),
        texts(|e| e.customer_ref.as_deref()),
        texts(|e| Some(&e.payload)),
        ints(&|e| i64::try_from(e.grace.as_micros()).unwrap_or(i64::MAX)),
        ints(&first_send),
        ints(&|e| e.schedule.total()),
    ]
}

#[cfg(feature = "postgres")]
async fn insert_at_once(
    tx: &mut Tx,
    request: &Request,
    wanted: &[&NewEntry],
    now: Timestamp,
) -> Result<usize> {
    let shared = params![request.tenant.id(), now, &request.triggered_by];
    let rows = tx.in_columns((INSERT_AT_ONCE, ""), shared, &columns(wanted, now)).await?;
    let count = rows.first().map_or(Ok(0), |row| row.int(0))?;
    Ok(usize::try_from(count).unwrap_or_default())
}

/// Dropped keys are asked for one by one: a join would be planned anew with every size of their table.
#[cfg(feature = "postgres")]
const INSERT_AT_ONCE: &str = "\
    with e as (insert into punctual.entry (tenant_id, created_at, triggered_by, key_high, key_low, \
            public_high, public_low, flow_id, number, trigger_id, lane_id, channel, unique_hash, address, \
            locale, customer_ref, payload, grace_us, due_at, reminders, remaining, kind, event_kind) \
        select $1::int, $2::bigint, $3::text, key_high, key_low, public_high, public_low, flow_id, number, \
            trigger_id, lane_id, channel, unique_hash, address, locale, customer_ref, payload, grace_us, \
            due_at, reminders, reminders, 'survey', 'survey.invitation' \
        from (select unnest($4::bigint[]) key_high, unnest($5::bigint[]) key_low, \
            unnest($6::bigint[]) public_high, unnest($7::bigint[]) public_low, \
            unnest($8::bigint[]) flow_id, unnest($9::int[]) number, unnest($10::text[]) trigger_id, \
            unnest($11::int[]) lane_id, unnest($12::text[]) channel, unnest($13::text[]) unique_hash, \
            unnest($14::text[]) address, unnest($15::text[]) locale, unnest($16::text[]) customer_ref, \
            unnest($17::text[]) payload, unnest($18::bigint[]) grace_us, \
            unnest($19::bigint[]) due_at, unnest($20::int[]) reminders) x \
        where (select k.made_at from punctual.entry_key k where k.tenant_id = $1::int \
            and k.key_high = x.key_high and k.key_low = x.key_low limit 1) is null \
        on conflict (key_high, key_low, tenant_id) where key_high is not null and deleted_at is null \
        do nothing \
        returning id, lane_id, due_at), \
    w as (insert into punctual.work (message_id, lane_id, due_at) select id, lane_id, due_at from e) \
    select count(*) from e";

#[cfg(feature = "sqlite")]
async fn insert_in_steps(
    tx: &mut Tx,
    request: &Request,
    wanted: &[&NewEntry],
    now: Timestamp,
) -> Result<usize> {
    let shared = params![request.tenant.id(), now, &request.triggered_by];
    let made = tx.in_columns(("", INSERT_ENTRY), shared, &columns(wanted, now)).await?;
    let (Some(first), Some(last)) = (made.first(), made.last()) else { return Ok(0) };
    // The writer is alone: whatever stands between the first and the last is of this batch.
    tx.execute(INSERT_WORK_OF, params![first.int(0)?, last.int(0)?]).await?;
    Ok(made.len())
}

#[cfg(feature = "sqlite")]
const INSERT_ENTRY: &str = "insert into punctual.entry (tenant_id, created_at, triggered_by, key_high, \
        key_low, public_high, public_low, flow_id, number, trigger_id, lane_id, channel, unique_hash, \
        address, locale, customer_ref, payload, grace_us, due_at, reminders, remaining, kind, event_kind) \
    select $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, \
            $20, 'survey', \
        'survey.invitation' \
    where not exists (select 1 from punctual.entry_key k \
        where k.tenant_id = $1 and k.key_high = $4 and k.key_low = $5) \
    on conflict (key_high, key_low, tenant_id) where key_high is not null and deleted_at is null \
        do nothing returning id";
#[cfg(feature = "sqlite")]
const INSERT_WORK_OF: &str = "insert into punctual.work (message_id, lane_id, due_at) \
    select id, lane_id, due_at from punctual.entry where id between $1 and $2";
