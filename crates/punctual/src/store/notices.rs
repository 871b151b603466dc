//! Notices: from an event to what is to be sent, and to what became of it.
//!
//! [`Store::file_notices`] settles claimed events and, in the same transaction, writes for each of them one
//! notice with its deliveries and their work. A delivery whose key is there already is not written: its
//! message was sent, or is another one's matter ([`known`]). [`deliver`] sends; [`look`] shows.
//!
//! Events of a kind that nobody is told of are passed over. What was told to people, or is of a kind that
//! surveys look at, is taken out of its topic's own queue if nobody has declared that: it is not unconsumed.

pub mod deliver;
pub mod foresee;
pub mod known;
pub mod look;
pub(super) mod outcome;
mod own_queue;
pub mod prune;
pub mod replan;
pub mod replay;
mod taken;

use super::Store;
use super::columns::Column;
use super::dialect::Dialect;
use super::queues;
use super::settle::{self, Outcome, Settlement, Word};
use super::tx::Tx;
use super::value::{Row, Value, params};
use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::{DeliveryId, MessageId, NoticeId, Token};
use crate::base::tenant::Tenant;
use crate::rules::claim::{DELIVERIES_FROM, work_of};
use crate::rules::message::{Entity, Message};
use crate::rules::notice::{DeliveryStatus, NoticeStatus, Planned};
use std::collections::HashMap;
use std::sync::Arc;

/// The lane of a topic's events for the people they are about.
pub(super) const FLOWS_LANE: &str = "/flows";
/// The lanes of deliveries, one for each tenant and channel.
pub(super) const DELIVER_LANE: &str = "/deliver";
/// Why nothing was sent: nobody could be reached.
pub const NO_RECIPIENT: &str = "NoRecipient";
/// Why something is not sent yet: it is quiet where its recipient is.
pub const QUIET_HOURS: &str = "QuietHours";

/// What became of an event.
#[derive(Clone, Debug)]
pub enum Filed {
    /// Nobody is told of such events.
    Passed,
    /// Surveys have looked at it, and nobody else is told of it.
    Taken,
    /// It lacks what it takes: a dead letter, with the reason.
    Failed(String),
    /// A notice.
    Notice(NewNotice),
}

/// A notice to be.
#[derive(Clone, Debug)]
pub struct NewNotice {
    /// What the event is about.
    pub entity: Option<Entity>,
    /// How it ends at once, if it does: the status, the word and the sentence for it.
    pub ended: Option<(NoticeStatus, Option<&'static str>, String)>,
    /// What is to be sent.
    pub deliveries: Vec<Planned>,
    /// Who asked for it again, and the name of the request.
    pub request: Option<(String, String)>,
}

/// A delivery that somebody asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The delivery.
    pub id: DeliveryId,
    /// Its key.
    pub idempotency_key: String,
}

/// Events with what they come to.
pub type Filings = Arc<[(Arc<Message>, Filed)]>;

/// What a filing came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FiledAs {
    /// The claim was lost, and nothing was written.
    LostClaim,
    /// The events are settled.
    Notices {
        /// The new notices, by their events.
        by_event: HashMap<MessageId, NoticeId>,
        /// When they were written, by the database's clock.
        at: Timestamp,
    },
}

struct Filing {
    token: Token,
    filed: Filings,
    seed: u64,
}

impl Store {
    /// Settles events of one claim, and writes what they come to.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn file_notices(&self, token: Token, filed: Filings, seed: u64) -> Result<FiledAs> {
        self.write(Filing { token, filed, seed }, |tx, filing| Box::pin(file(tx, filing))).await
    }

    /// Writes a notice that a person asked for, about an event that was; answers its deliveries.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn ask_for_notice(&self, event: Message, notice: NewNotice) -> Result<Vec<Asked>> {
        self.of(event.tenant)
            .write((event, notice), |tx, (event, notice)| {
                Box::pin(async move {
                    let one = [(event, notice)];
                    let now = tx.now().await?;
                    let (rows, _) = write(tx, &one, now).await?;
                    let made = made_of(tx, &rows).await?;
                    let asked = rows.iter().filter_map(|row| {
                        Some(Asked { id: made.of(row)?, idempotency_key: row.planned.key.clone() })
                    });
                    Ok(asked.collect())
                })
            })
            .await
    }
}

async fn file(tx: &mut Tx, filing: &Filing) -> Result<FiledAs> {
    let word = |filed: &Filed| match filed {
        Filed::Failed(error) => Word::Fail { error: error.clone() },
        Filed::Passed | Filed::Taken | Filed::Notice(_) => Word::Ack,
    };
    let words = filing.filed.iter().map(|(event, filed)| (event.id, word(filed))).collect();
    let said = settle::say(tx, Settlement { token: filing.token.clone(), words }, filing.seed).await?;
    if said.contains(&Outcome::LostClaim) {
        return Ok(FiledAs::LostClaim);
    }
    let done = filing.filed.iter().zip(said).filter(|(_, said)| *said == Outcome::Done);
    let (mut notices, mut taken) = (Vec::with_capacity(filing.filed.len()), Vec::new());
    let mut passed = Vec::new();
    for ((event, filed), _) in done {
        match filed {
            Filed::Notice(notice) => notices.push((event.as_ref(), notice)),
            Filed::Taken => taken.push(event.as_ref()),
            Filed::Passed => passed.push(event.as_ref()),
            Filed::Failed(_) => {}
        }
    }
    let at = tx.now().await?;
    let (_, by_event) = write(tx, &notices, at).await?;
    taken.extend(notices.iter().map(|(event, _)| *event));
    own_queue::take(tx, &taken).await?;
    own_queue::leave(tx, &passed).await?;
    Ok(FiledAs::Notices { by_event, at })
}

/// Writes notices with their deliveries; answers what was to be written, and the notices.
async fn write<'a>(
    tx: &mut Tx,
    notices: &[(&'a Message, &'a NewNotice)],
    now: Timestamp,
) -> Result<(Vec<NewDelivery<'a>>, HashMap<MessageId, NoticeId>)> {
    let mut rows = Vec::new();
    if notices.is_empty() {
        return Ok((rows, HashMap::new()));
    }
    let ids = insert(tx, notices, now).await?;
    let mut lanes = HashMap::new();
    for (event, notice) in notices {
        let Some(id) = ids.get(&event.id) else { continue };
        for planned in &notice.deliveries {
            let lane = deliver_lane(tx, event.tenant, &planned.channel, &mut lanes).await?;
            rows.push(NewDelivery { notice: *id, tenant: event.tenant, lane, planned });
        }
    }
    let written = insert_counted(tx, &rows, now).await?;
    if written < rows.len() || rows.iter().any(|row| row.status() == DeliveryStatus::Skipped) {
        let made = made_of(tx, &rows).await?;
        known::end_empty(tx, &rows, &made, now).await?;
    }
    Ok((rows, ids))
}

/// Notices by their events; one that is there already is not written again.
async fn insert(
    tx: &mut Tx,
    notices: &[(&Message, &NewNotice)],
    now: Timestamp,
) -> Result<HashMap<MessageId, NoticeId>> {
    type One<'a> = (&'a Message, &'a NewNotice);
    let ints = |pick: &dyn Fn(&One<'_>) -> i64| Column::Ints(notices.iter().map(pick).collect());
    let open = |one: &One<'_>| {
        let reached = one.1.deliveries.iter().filter(|planned| planned.address.is_some());
        i64::try_from(reached.count()).unwrap_or(i64::MAX)
    };
    let status = |one: &One<'_>| one.1.ended.as_ref().map_or(NoticeStatus::Pending, |ended| ended.0).code();
    let ended_at = notices.iter().map(|one| one.1.ended.as_ref().map(|_| now.as_micros())).collect();
    let entities: Vec<Option<&Entity>> = notices.iter().map(|one| one.1.entity.as_ref()).collect();
    let columns = [
        ints(&|one| one.0.tenant.id()),
        ints(&|one| one.0.id.0),
        Column::Texts(notices.iter().map(|one| Some(one.0.kind.as_str())).collect()),
        Column::Texts(entities.iter().map(|e| e.map(|e| e.kind.as_str())).collect()),
        Column::Texts(entities.iter().map(|e| e.map(|e| e.id.as_str())).collect()),
        Column::Texts(notices.iter().map(|one| one.0.correlation_id.as_deref()).collect()),
        Column::Texts(notices.iter().map(|one| one.1.request.as_ref().map(|r| r.0.as_str())).collect()),
        Column::Texts(notices.iter().map(|one| one.1.request.as_ref().map(|r| r.1.as_str())).collect()),
        ints(&status),
        Column::Texts(notices.iter().map(|one| one.1.ended.as_ref().and_then(|e| e.1)).collect()),
        Column::Texts(notices.iter().map(|one| one.1.ended.as_ref().map(|e| e.2.as_str())).collect()),
        ints(&open),
        Column::MaybeInts(ended_at),
    ];
    let rows = tx.in_columns((NOTICES_AT_ONCE, NOTICE), params![now], &columns).await?;
    rows.iter().map(|row| Ok((MessageId(row.int(1)?), NoticeId(row.int(0)?)))).collect()
}

macro_rules! notice_columns {
    () => {
        "insert into punctual.notice (created_at, tenant_id, message_id, kind, entity_type, entity_id, \
            correlation_id, request_id, requested_by, status, reason, error, open, ended_at) "
    };
}
const NOTICES_AT_ONCE: &str = concat!(
    notice_columns!(),
    "select $1::bigint, unnest($2::int[]), unnest($3::bigint[]), unnest($4::text[]), unnest($5::text[]), \
        unnest($6::text[]), unnest($7::text[]), unnest($8::text[]), unnest($9::text[]), unnest($10::int[]), \
        unnest($11::text[]), unnest($12::text[]), unnest($13::int[]), unnest($14::bigint[]) \
     on conflict (message_id) where request_id is null do nothing returning id, message_id"
);
const NOTICE: &str = concat!(
    notice_columns!(),
    "values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) \
     on conflict (message_id) where request_id is null do nothing returning id, message_id"
);

/// Lanes of deliveries that are known, by tenant and channel.
type Lanes = HashMap<Tenant, HashMap<String, i64>>;

/// The lane of deliveries by one channel.
async fn deliver_lane(tx: &mut Tx, tenant: Tenant, channel: &str, known: &mut Lanes) -> Result<i64> {
    if let Some(lane) = known.get(&tenant).and_then(|of| of.get(channel)) {
        return Ok(*lane);
    }
    let lane = queues::own_lane(tx, tenant, channel, DELIVER_LANE).await?;
    known.entry(tenant).or_default().insert(channel.to_owned(), lane);
    Ok(lane)
}

/// What a notice is about: its type in this column, its id in the next.
fn entity(row: &Row, n: usize) -> Result<Option<Entity>> {
    Ok(row.maybe_text(n)?.zip(row.maybe_text(n + 1)?).map(|(kind, id)| Entity { kind, id }))
}

struct NewDelivery<'a> {
    notice: NoticeId,
    tenant: Tenant,
    lane: i64,
    planned: &'a Planned,
}

/// Deliveries that were written, with their keys, by notice.
#[derive(Default)]
struct Made(HashMap<NoticeId, HashMap<String, DeliveryId>>);

impl Made {
    fn read(rows: &[Row]) -> Result<Self> {
        let mut made = Self::default();
        for row in rows {
            let of = made.0.entry(NoticeId(row.int(4)?)).or_default();
            of.insert(row.text(1)?, DeliveryId(row.int(0)?));
        }
        Ok(made)
    }

    /// What became of one that was to be written; `None` if its key was known.
    fn of(&self, row: &NewDelivery<'_>) -> Option<DeliveryId> {
        self.0.get(&row.notice)?.get(&row.planned.key).copied()
    }

    /// The same for one of several that may have the same key: what was written is the first one's.
    fn take(&mut self, row: &NewDelivery<'_>) -> Option<DeliveryId> {
        self.0.get_mut(&row.notice)?.remove(&row.planned.key)
    }
}

impl NewDelivery<'_> {
    const fn status(&self) -> DeliveryStatus {
        if self.planned.address.is_some() { DeliveryStatus::Pending } else { DeliveryStatus::Skipped }
    }
}

/// The columns of deliveries, in the order of their statements.
fn columns<'a>(rows: &'a [NewDelivery<'_>]) -> [Column<'a>; 14] {
    let ints = |pick: &dyn Fn(&NewDelivery<'_>) -> i64| Column::Ints(rows.iter().map(pick).collect());
    let nobody = |row: &NewDelivery<'_>| row.planned.address.is_none().then_some("No recipient");
    [
        ints(&|row| row.tenant.id()),
        ints(&|row| row.notice.0),
        Column::Texts(rows.iter().map(|row| Some(row.planned.key.as_str())).collect()),
        ints(&|row| row.lane),
        Column::Texts(rows.iter().map(|row| Some(row.planned.channel.as_str())).collect()),
        Column::Texts(rows.iter().map(|row| Some(row.planned.address.as_deref().unwrap_or(""))).collect()),
        ints(&|row| i64::try_from(row.planned.part).unwrap_or_default()),
        ints(&|row| row.planned.template.0),
        ints(&|row| i64::from(row.planned.version)),
        ints(&|row| row.status().code()),
        Column::Texts(rows.iter().map(nobody).collect()),
        ints(&|row| i64::from(row.status() != DeliveryStatus::Skipped)),
        Column::Texts(rows.iter().map(|row| row.planned.whom.name.as_deref()).collect()),
        Column::Texts(rows.iter().map(|row| row.planned.whom.reference.as_deref()).collect()),
    ]
}

/// Writes deliveries whose keys are new, and the work of those that are to be sent; answers how many. Mostly
/// that is all of them, and then nobody needs to know which.
async fn insert_counted(tx: &mut Tx, rows: &[NewDelivery<'_>], now: Timestamp) -> Result<usize> {
    let answer = insert_rows(tx, DELIVERIES_COUNTED, rows, now).await?;
    match (tx.dialect(), answer.first()) {
        (Dialect::Postgres, Some(counted)) => Ok(usize::try_from(counted.int(0)?).unwrap_or_default()),
        _ => Ok(answer.len()),
    }
}

/// The same; answers them by key.
async fn insert_deliveries(tx: &mut Tx, rows: &[NewDelivery<'_>], now: Timestamp) -> Result<Made> {
    Made::read(&insert_rows(tx, DELIVERIES_AT_ONCE, rows, now).await?)
}

/// What these notices have now, if nobody else writes to them.
async fn made_of(tx: &mut Tx, rows: &[NewDelivery<'_>]) -> Result<Made> {
    let mut notices: Vec<i64> = rows.iter().map(|row| row.notice.0).collect();
    notices.dedup();
    Made::read(&tx.query(MADE_OF, &[Value::Ints(&notices)]).await?)
}

/// Answers what the statement does on Postgres, and each of them on SQLite.
async fn insert_rows(
    tx: &mut Tx,
    at_once: &'static str,
    rows: &[NewDelivery<'_>],
    now: Timestamp,
) -> Result<Vec<Row>> {
    let made = tx.in_columns((at_once, DELIVERY), params![now, DELIVERIES_FROM], &columns(rows)).await?;
    if tx.dialect() == Dialect::Postgres {
        return Ok(made);
    }
    let (mut work, mut lanes) = (Vec::new(), Vec::new());
    for row in &made {
        if row.int(3)? == DeliveryStatus::Pending.code() {
            work.push(work_of(DeliveryId(row.int(0)?)));
            lanes.push(row.int(2)?);
        }
    }
    let work = [Column::Ints(work), Column::Ints(lanes)];
    tx.in_columns((WORK_AT_ONCE, WORK), params![now], &work).await?;
    Ok(made)
}

macro_rules! delivery_columns {
    () => {
        "insert into punctual.notice_delivery (created_at, due_at, tenant_id, notice_id, idempotency_key, \
            lane_id, channel, address, part, template_id, template_version, status, error, keeps_key, \
            recipient, recipient_ref) "
    };
}
/// Their work is written in the same statement.
macro_rules! deliveries_at_once {
    ($answer:literal) => {
        concat!(
            "with made as (",
            delivery_columns!(),
            "select $1::bigint, $1::bigint, unnest($3::int[]), unnest($4::bigint[]), unnest($5::text[]), \
                unnest($6::int[]), unnest($7::text[]), unnest($8::text[]), unnest($9::int[]), \
                unnest($10::bigint[]), unnest($11::int[]), unnest($12::int[]), unnest($13::text[]), \
                unnest($14::int[]), unnest($15::text[]), unnest($16::text[]) \
             on conflict (idempotency_key, tenant_id) where keeps_key = 1 do nothing \
             returning id, idempotency_key, lane_id, status, notice_id), \
             waiting as (insert into punctual.work (message_id, lane_id, due_at) \
                select $2::bigint + id, lane_id, $1::bigint from made where status = 0) \
             select ",
            $answer,
            " from made"
        )
    };
}
const DELIVERIES_AT_ONCE: &str = deliveries_at_once!("id, idempotency_key, lane_id, status, notice_id");
const DELIVERIES_COUNTED: &str = deliveries_at_once!("count(*)");
const MADE_OF: &str = "select id, idempotency_key, lane_id, status, notice_id \
    from punctual.notice_delivery where notice_id = any($1::bigint[])";
const DELIVERY: &str = concat!(
    delivery_columns!(),
    "values ($1, $1, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16) \
     on conflict (idempotency_key, tenant_id) where keeps_key = 1 do nothing \
     returning id, idempotency_key, lane_id, status, notice_id"
);
const WORK_AT_ONCE: &str = "insert into punctual.work (message_id, lane_id, due_at) \
    select id, lane, $1::bigint from unnest($2::bigint[], $3::int[]) x (id, lane)";
const WORK: &str = "insert into punctual.work (message_id, lane_id, due_at) values ($2, $3, $1)";
