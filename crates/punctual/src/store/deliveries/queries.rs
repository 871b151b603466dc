//! What people are shown: the communication log, and beside it notifications with their deliveries
//! ([`notification`]).
//!
//! Lists go by id, the newest first. The tries of a page are read in one statement, and so is what is in
//! flight: a delivery that waits and is in an open claim is being sent now.

pub mod notification;

use super::super::Store;
use super::super::planted::Bug;
use super::super::settle::read_items;
use super::super::tx::Tx;
use super::super::value::{Row, Value, params};
use super::{QUIET_HOURS, entity};
use crate::base::clock::Timestamp;
use crate::base::error::{Error, Result};
use crate::base::id::{DeliveryId, EntryId, TemplateId};
use crate::base::tenant::Tenant;
use crate::rules::consent::address::normal;
use crate::rules::message::Entity;
use crate::rules::notification::{DeliveryStatus, Whom};
use crate::rules::template::choose::is_named;
use crate::store::tx::VerbFuture;
use std::collections::HashMap;

/// Which deliveries; what is `None` does not count.
#[derive(Clone, Debug, Default)]
pub struct LogFilter {
    /// About an entity of this type, in any case of its letters.
    pub entity_type: Option<String>,
    /// About the entity of this id.
    pub entity_id: Option<String>,
    /// To this address, as it was given or in its normal form.
    pub address: Option<String>,
    /// That stand so; with whether they are in flight, if that matters.
    pub status: Option<(DeliveryStatus, Option<bool>)>,
    /// By the channel of this key, or by any of this kind.
    pub channel: Option<String>,
    /// Made at this moment or later.
    pub from: Option<Timestamp>,
    /// Made before this moment.
    pub to: Option<Timestamp>,
}

/// A delivery, with all that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    /// Its number.
    pub id: DeliveryId,
    /// What it is part of.
    pub entry: EntryId,
    /// The key of its channel.
    pub channel: String,
    /// Where it goes; empty if nobody could be reached.
    pub address: String,
    /// The template.
    pub template: TemplateId,
    /// The version of it that was sent, or is to be.
    pub template_version: u32,
    /// What makes it the same as another.
    pub idempotency_key: String,
    /// How it stands.
    pub status: DeliveryStatus,
    /// Whether it is being sent now.
    pub in_flight: bool,
    /// Why it stands so, or what went wrong last.
    pub error: Option<String>,
    /// The provider's id of the message.
    pub provider_id: Option<String>,
    /// Whom it is for.
    pub whom: Whom,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it is due, while it waits.
    pub due_at: Option<Timestamp>,
    /// When it was sent.
    pub sent_at: Option<Timestamp>,
    /// The delivery that took its place.
    pub replaced_by: Option<DeliveryId>,
    /// The kind of the event.
    pub kind: String,
    /// What the event is about.
    pub entity: Option<Entity>,
    /// The story of the event.
    pub correlation_id: Option<String>,
    /// Who asked for it again.
    pub requested_by: Option<String>,
    /// Every try, in order.
    pub tries: Vec<Tried>,
    /// When and why it was held back first, if it ever was.
    pub held_back: Option<(Timestamp, String)>,
    /// What its provider told later, in order.
    pub receipts: Vec<Heard>,
}

impl Logged {
    /// The word for why it waits, if it is held back now.
    #[must_use]
    pub fn waits_for(&self) -> Option<&'static str> {
        let held = self.status == DeliveryStatus::Pending && self.held_back.is_some();
        let said = self.error.as_deref().filter(|_| held)?;
        said.starts_with(QUIET_HOURS).then_some(QUIET_HOURS)
    }
}

/// One try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// Its number, from 1.
    pub number: u32,
    /// When it ended.
    pub at: Timestamp,
    /// The word for what came of it.
    pub outcome: String,
    /// What went wrong.
    pub error: Option<String>,
    /// The name of the provider that it was handed to; none if it was handed to nobody, or a crash lost it.
    pub provider: Option<String>,
    /// The provider's id of the message.
    pub provider_id: Option<String>,
    /// What the provider answered; read for single deliveries only.
    pub answer: Option<String>,
    /// What its words lacked.
    pub warnings: Vec<String>,
}

/// What a provider told later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// When it came.
    pub at: Timestamp,
    /// The word for it.
    pub status: String,
    /// The provider's own word.
    pub said: String,
    /// What went wrong, in the provider's words.
    pub error: Option<String>,
}

impl Store {
    /// Deliveries of a tenant with ids below `before`, the newest first, with every try.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn communication_log(
        &self,
        tenant: Tenant,
        filter: LogFilter,
        before: DeliveryId,
        limit: usize,
    ) -> VerbFuture<'_, Vec<Logged>> {
        self.of(tenant).read((tenant, filter, before, limit), |tx, (tenant, filter, before, limit)| {
            Box::pin(log(tx, *tenant, filter, *before, *limit))
        })
    }

    /// One delivery of a tenant, with every try and what providers answered.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn communication(&self, tenant: Tenant, id: DeliveryId) -> VerbFuture<'_, Option<Logged>> {
        self.of(tenant).read((tenant, id), |tx, (tenant, id)| Box::pin(one_logged(tx, *tenant, *id)))
    }
}

/// Deliveries that are in a claim now; never more than all senders have in hand.
pub(super) async fn in_flight(tx: &mut Tx) -> Result<Vec<i64>> {
    let mut flying = Vec::new();
    let sql = if tx.has(Bug::LookUpWithoutPurpose) { HELD_BY_ANYBODY } else { HELD };
    for row in tx.query(sql, &[]).await? {
        let items = read_items(&row.text(0)?)?;
        flying.extend(items.iter().map(|item| item.delivery().0));
    }
    flying.sort_unstable();
    Ok(flying)
}

const HELD: &str =
    "select coalesce(open, items) from punctual.claim where finished_at is null and purpose = 'send'";
/// A planted bug: message 500 in a handler's claim is taken for delivery 500.
const HELD_BY_ANYBODY: &str = "select coalesce(open, items) from punctual.claim where finished_at is null";

/// What a filter by status says to a statement: the number, and whether it must be in flight.
fn wanted(status: Option<(i64, Option<bool>)>) -> (Option<i64>, Option<i64>) {
    (status.map(|(code, _)| code), status.and_then(|(_, flying)| flying).map(i64::from))
}

async fn log(
    tx: &mut Tx,
    tenant: Tenant,
    filter: &LogFilter,
    before: DeliveryId,
    limit: usize,
) -> Result<Vec<Logged>> {
    // The most telling condition chooses the statement, and so the index; the others only filter.
    let sql = match filter {
        LogFilter { entity_id: Some(_), .. } => LOG_BY_ENTITY,
        LogFilter { address: Some(_), .. } => LOG_BY_ADDRESS,
        _ => LOG,
    };
    let flying = in_flight(tx).await?;
    let (status, must_fly) = wanted(filter.status.map(|(status, flying)| (status.code(), flying)));
    let normal = filter.address.as_deref().map(normal);
    let addresses = [filter.address.as_deref(), normal.as_deref()];
    let channels = match &filter.channel {
        Some(named) => channels_named(tx, tenant, named).await?,
        None => Vec::new(),
    };
    let channels: Vec<Option<&str>> = channels.iter().map(|key| Some(key.as_str())).collect();
    let row = [
        tenant.id().into(),
        before.0.into(),
        i64::try_from(limit).unwrap_or(i64::MAX).into(),
        filter.entity_type.as_deref().into(),
        filter.entity_id.as_deref().into(),
        filter.address.is_none().into(),
        Value::Texts(&addresses),
        status.into(),
        must_fly.into(),
        Value::Ints(&flying),
        filter.channel.is_none().into(),
        Value::Texts(&channels),
        filter.from.map(Timestamp::as_micros).into(),
        filter.to.map(Timestamp::as_micros).into(),
    ];
    let rows = tx.query(sql, &row).await?;
    with_tries(tx, &rows, &flying, false).await
}

macro_rules! logged {
    ($condition:literal) => {
        concat!(
            "select d.id, d.entry_id, d.channel, d.address, d.template_id, d.template_version, \
                d.idempotency_key, d.status, d.error, d.provider_id, d.created_at, d.due_at, d.sent_at, \
                d.replaced_by, n.event_kind, n.entity_type, n.entity_id, n.correlation_id, \
                case when n.request_id is not null then n.triggered_by end, \
                d.recipient, d.recipient_ref \
            from punctual.delivery d join punctual.entry n on n.id = d.entry_id where ",
            $condition
        )
    };
}
macro_rules! log_page {
    ($condition:literal) => {
        concat!(
            logged!("d.tenant_id = $1 and d.id < $2 and "),
            $condition,
            " and ($4::text is null or lower(n.entity_type) = lower($4)) \
              and ($5::text is null or n.entity_id = $5) and ($6 = 1 or d.address = any($7::text[])) \
              and ($8::bigint is null or d.status = $8) \
              and ($9::bigint is null or ($9 = 1) = (d.id = any($10::bigint[]))) \
              and ($11 = 1 or d.channel = any($12::text[])) \
              and ($13::bigint is null or d.created_at >= $13) \
              and ($14::bigint is null or d.created_at < $14) order by d.id desc limit $3"
        )
    };
}
use logged;

const LOG: &str = log_page!("1 = 1");
const LOG_BY_ENTITY: &str = log_page!("n.entity_id = $5");
const LOG_BY_ADDRESS: &str = log_page!("d.address = any($7::text[])");

/// The keys that somebody means by a key, or by the kind of channels; each has a lane of its own.
pub(super) async fn channels_named(tx: &mut Tx, tenant: Tenant, named: &str) -> Result<Vec<String>> {
    let rows = tx.query(CHANNELS, params![tenant.id()]).await?;
    let mut keys = rows.iter().map(|row| row.text(0)).collect::<Result<Vec<_>>>()?;
    keys.retain(|key| is_named(key, named));
    Ok(keys)
}

const CHANNELS: &str = "select topic from punctual.lane where tenant_id = $1 and purpose = 'send'";

async fn one_logged(tx: &mut Tx, tenant: Tenant, id: DeliveryId) -> Result<Option<Logged>> {
    let rows = tx.query(ONE, params![tenant.id(), id.0]).await?;
    let flying = in_flight(tx).await?;
    Ok(with_tries(tx, &rows, &flying, true).await?.pop())
}

const ONE: &str = logged!("d.tenant_id = $1 and d.id = $2");

async fn with_tries(tx: &mut Tx, rows: &[Row], flying: &[i64], answers: bool) -> Result<Vec<Logged>> {
    let mut all: Vec<Logged> = rows.iter().map(|row| read_logged(row, flying)).collect::<Result<_>>()?;
    let ids: Vec<i64> = all.iter().map(|one| one.id.0).collect();
    if ids.is_empty() {
        return Ok(all);
    }
    let mut tries: HashMap<i64, Vec<Tried>> = HashMap::new();
    for row in tx.query(TRIES, &[Value::Ints(&ids), answers.into()]).await? {
        tries.entry(row.int(0)?).or_default().push(read_tried(&row)?);
    }
    let mut receipts: HashMap<i64, Vec<Heard>> = HashMap::new();
    for row in tx.query(RECEIPTS, &[Value::Ints(&ids)]).await? {
        receipts.entry(row.int(0)?).or_default().push(read_heard(&row)?);
    }
    for one in &mut all {
        one.tries = tries.remove(&one.id.0).unwrap_or_default();
        // Number 0 is no try: it says why there was none yet.
        if one.tries.first().is_some_and(|first| first.number == 0) {
            let first = one.tries.remove(0);
            one.held_back = Some((first.at, first.error.unwrap_or_default()));
        }
        one.receipts = receipts.remove(&one.id.0).unwrap_or_default();
    }
    Ok(all)
}

const RECEIPTS: &str = "select delivery_id, at, status, said, error from punctual.receipt \
    where delivery_id = any($1::bigint[]) order by delivery_id, id";

fn read_heard(row: &Row) -> Result<Heard> {
    Ok(Heard { at: row.time(1)?, status: row.text(2)?, said: row.text(3)?, error: row.maybe_text(4)? })
}

const TRIES: &str = "select delivery_id, tried, at, outcome, error, provider_id, \
        case when $2 = 1 then answer end, warnings, provider \
    from punctual.delivery_attempt where delivery_id = any($1::bigint[]) and tried >= 0 \
    order by delivery_id, tried";

fn read_tried(row: &Row) -> Result<Tried> {
    let warnings = row.maybe_text(7)?;
    Ok(Tried {
        number: row.count(1)?,
        at: row.time(2)?,
        outcome: row.text(3)?,
        error: row.maybe_text(4)?,
        provider_id: row.maybe_text(5)?,
        answer: row.maybe_text(6)?,
        provider: row.maybe_text(8)?,
        warnings: warnings
            .as_deref()
            .map_or_else(Vec::new, |text| serde_json::from_str(text).unwrap_or_default()),
    })
}

fn read_logged(row: &Row, flying: &[i64]) -> Result<Logged> {
    let (id, status) = (row.int(0)?, status(DeliveryStatus::from_code, row.int(7)?)?);
    Ok(Logged {
        id: DeliveryId(id),
        entry: EntryId(row.int(1)?),
        channel: row.text(2)?,
        address: row.text(3)?,
        template: TemplateId(row.int(4)?),
        template_version: row.count(5)?,
        idempotency_key: row.text(6)?,
        status,
        in_flight: status == DeliveryStatus::Pending && flying.binary_search(&id).is_ok(),
        error: row.maybe_text(8)?,
        provider_id: row.maybe_text(9)?,
        created_at: row.time(10)?,
        due_at: row.maybe_time(11)?.filter(|_| status == DeliveryStatus::Pending),
        sent_at: row.maybe_time(12)?,
        replaced_by: row.maybe_int(13)?.map(DeliveryId),
        kind: row.text(14)?,
        entity: entity(row, 15)?,
        correlation_id: row.maybe_text(17)?,
        requested_by: row.maybe_text(18)?,
        whom: Whom { name: row.maybe_text(19)?, reference: row.maybe_text(20)? },
        tries: Vec::new(),
        held_back: None,
        receipts: Vec::new(),
    })
}

fn status<S>(from_code: impl Fn(i64) -> Option<S>, code: i64) -> Result<S> {
    from_code(code).ok_or_else(|| Error::Database(format!("{code} is no status").into()))
}
