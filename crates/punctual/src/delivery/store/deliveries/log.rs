//! The communication log: deliveries of every kind with every try.
//!
//! Lists go by id, the newest first. The tries of a page are read in one statement, and so is what is in
//! flight: a delivery that waits and is in an open claim is being sent now.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::{DeliveryId, EntryId, TemplateId};
use crate::base::tenant::Tenant;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::{Tx, VerbFuture};
use crate::database::value::{Row, Value, params};
use crate::delivery::rules::consent::address::normal;
use crate::delivery::rules::delivery::{DeliveryStatus, RecipientIdentity};
use crate::delivery::rules::template::choose::is_named;
use crate::delivery::store::deliveries::QUIET_HOURS;
use crate::delivery::store::deliveries::delivery::read_status;
use crate::delivery::store::deliveries::in_flight::deliveries_in_flight;
use crate::flow::rules::entry::EntryKind;
use crate::flow::rules::entry::log::{AttemptOutcome, DeliveryLine};
use crate::flow::rules::public_id::PublicId;
use crate::flow::store::entries::lists::{about_itself, named_entries};
use crate::flow::store::entries::read_kind;
use crate::queue::rules::message::Entity;
use std::collections::HashMap;

/// Selects deliveries; a field that is `None` matches all.
#[derive(Clone, Debug, Default)]
pub struct DeliveryFilter {
    /// Of entries of this kind.
    pub kind: Option<EntryKind>,
    /// Of the entry with this key, public id or number.
    pub entry: Option<String>,
    /// About an entity of this type, in upper or lower case.
    pub entity_type: Option<String>,
    /// About the entity of this id.
    pub entity_id: Option<String>,
    /// Or of the entry with this public id, if it is about no other entity.
    pub instance: Option<PublicId>,
    /// With this correlation id.
    pub correlation_id: Option<String>,
    /// To this address, as it was given or in its normal form.
    pub address: Option<String>,
    /// Of this status; with whether they are in flight, if that matters.
    pub status: Option<(DeliveryStatus, Option<bool>)>,
    /// By the channel of this key, or by any of this kind.
    pub channel: Option<String>,
    /// Made at this moment or later.
    pub from: Option<Timestamp>,
    /// Made before this moment.
    pub to: Option<Timestamp>,
}

/// A delivery, with all its tries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedDelivery {
    /// Its number.
    pub id: DeliveryId,
    /// Its entry.
    pub entry: EntryId,
    /// The kind of its entry.
    pub kind: EntryKind,
    /// The public id of its entry, where that has one.
    pub public_id: Option<PublicId>,
    /// The number of the send: 1 is the first, n + 1 the nth reminder.
    pub send: u32,
    /// The key of its channel.
    pub channel: String,
    /// The address; empty if no recipient could be reached.
    pub address: String,
    /// The template.
    pub template: TemplateId,
    /// The version of it that was sent, or is to be.
    pub template_version: u32,
    /// Its idempotency key.
    pub idempotency_key: String,
    /// Its status.
    pub status: DeliveryStatus,
    /// Whether the delivery is being sent now.
    pub in_flight: bool,
    /// The reason for its status, or the last error.
    pub error: Option<String>,
    /// The provider's id of the message.
    pub provider_id: Option<String>,
    /// The recipient, as the event names them.
    pub recipient: RecipientIdentity,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it is due, while it waits.
    pub due_at: Option<Timestamp>,
    /// When it was sent.
    pub sent_at: Option<Timestamp>,
    /// The delivery that took its place.
    pub replaced_by: Option<DeliveryId>,
    /// The kind of the event.
    pub event_kind: String,
    /// The entity of the event.
    pub entity: Option<Entity>,
    /// The correlation id of the event.
    pub correlation_id: Option<String>,
    /// The author of its entry.
    pub triggered_by: String,
    /// Whether a person asked for it.
    pub by_request: bool,
    /// Every try, in order.
    pub tries: Vec<LoggedAttempt>,
    /// When and why it was delayed first, if it ever was.
    pub delayed: Option<(Timestamp, String)>,
    /// When and why it was skipped, with the word for it, if a decision right before the send did so.
    pub skipped: Option<(Timestamp, String, String)>,
    /// The receipts of its provider, in order.
    pub receipts: Vec<LoggedReceipt>,
}

impl LoggedDelivery {
    /// The word for why it waits, if it is delayed now.
    #[must_use]
    pub fn waits_for(&self) -> Option<&'static str> {
        let delayed = self.status == DeliveryStatus::Pending && self.delayed.is_some();
        let said = self.error.as_deref().filter(|_| delayed)?;
        said.starts_with(QUIET_HOURS).then_some(QUIET_HOURS)
    }

    /// Its tries as lines of an instance's log, and why it was not tried.
    fn lines(&self) -> impl Iterator<Item = DeliveryLine> {
        let skipped = self.skipped.iter().map(|(at, reason, said)| DeliveryLine {
            reason: Some(reason.clone()),
            ..DeliveryLine::failed(self.send, *at, said)
        });
        let tries = self.tries.iter().filter_map(|tried| {
            Some(DeliveryLine {
                attempt: self.send,
                sent_at: tried.at,
                status: AttemptOutcome::of_attempt(&tried.outcome)?,
                message_id: tried.provider_id.clone(),
                error: tried.error.clone(),
                reason: None,
            })
        });
        skipped.chain(tries)
    }
}

/// One try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedAttempt {
    /// Its number, from 1.
    pub number: u32,
    /// When it ended.
    pub at: Timestamp,
    /// The word for its outcome.
    pub outcome: String,
    /// The error.
    pub error: Option<String>,
    /// The name of the provider that it was handed to; none if it was handed to none, or a crash lost it.
    pub provider: Option<String>,
    /// The provider's id of the message.
    pub provider_id: Option<String>,
    /// The provider's answer; read for single deliveries only.
    pub answer: Option<String>,
    /// Placeholders without a value, and other doubts about the text.
    pub warnings: Vec<String>,
}

/// A receipt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedReceipt {
    /// When it came.
    pub at: Timestamp,
    /// The word for it.
    pub status: String,
    /// The provider's own word.
    pub said: String,
    /// The error, in the provider's words.
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
        filter: DeliveryFilter,
        before: DeliveryId,
        limit: usize,
    ) -> VerbFuture<'_, Vec<LoggedDelivery>> {
        self.of(tenant).read((tenant, filter, before, limit), |tx, (tenant, filter, before, limit)| {
            Box::pin(list(tx, *tenant, filter, *before, *limit))
        })
    }

    /// Reads one delivery of a tenant, with every try and the providers' answers.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn communication(&self, tenant: Tenant, id: DeliveryId) -> VerbFuture<'_, Option<LoggedDelivery>> {
        self.of(tenant).read((tenant, id), |tx, (tenant, id)| {
            Box::pin(async move {
                let rows = tx.query(ONE, params![tenant.id(), id.0]).await?;
                let flying = deliveries_in_flight(tx).await?;
                Ok(with_tries(tx, &rows, &flying, true).await?.pop())
            })
        })
    }

    /// The tries of an entry's sends, in order.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn delivery_log(&self, tenant: Tenant, entry: EntryId) -> VerbFuture<'_, Vec<DeliveryLine>> {
        VerbFuture::new(async move {
            let mut logs = self.delivery_logs(tenant, vec![entry]).await?;
            Ok(logs.remove(&entry).unwrap_or_default())
        })
    }

    /// The tries of the sends of entries, in order, by entry; for a page of them at once.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn delivery_logs(
        &self,
        tenant: Tenant,
        entries: Vec<EntryId>,
    ) -> VerbFuture<'_, HashMap<EntryId, Vec<DeliveryLine>>> {
        self.of(tenant).read((tenant, entries), |tx, (tenant, entries)| {
            Box::pin(async move {
                let ids: Vec<i64> = entries.iter().map(|id| id.0).collect();
                let own = tx.query(OWN_ENTRIES, &[tenant.id().into(), Value::Ints(&ids)]).await?;
                let own = own.iter().map(|row| row.int(0)).collect::<Result<Vec<i64>>>()?;
                let deliveries = deliveries_of(tx, &own, &[]).await?;
                Ok(deliveries.into_iter().map(|(entry, of)| (entry, lines_of(&of))).collect())
            })
        })
    }
}

statements! {
    const OWN_ENTRIES = "
        select e.id
        from punctual.entry e
        where e.tenant_id = $1 and e.id = any($2::bigint[])
    ";
}

fn lines_of(deliveries: &[LoggedDelivery]) -> Vec<DeliveryLine> {
    let mut lines: Vec<DeliveryLine> = deliveries.iter().flat_map(LoggedDelivery::lines).collect();
    lines.sort_by_key(|line| (line.attempt, line.sent_at));
    lines
}

async fn list(
    tx: &mut Tx,
    tenant: Tenant,
    filter: &DeliveryFilter,
    before: DeliveryId,
    limit: usize,
) -> Result<Vec<LoggedDelivery>> {
    let entries = match &filter.entry {
        Some(name) => named_entries(tx, tenant, name).await?,
        None => Vec::new(),
    };
    // The most selective condition chooses the statement, and so the index; the others only filter.
    let sql = match filter {
        DeliveryFilter { entry: Some(_), .. } => BY_ENTRY,
        DeliveryFilter { instance: Some(_), .. } => BY_INSTANCE,
        DeliveryFilter { entity_id: Some(_), .. } => BY_ENTITY,
        DeliveryFilter { correlation_id: Some(_), .. } => BY_CORRELATION,
        DeliveryFilter { address: Some(_), .. } => BY_ADDRESS,
        _ => ALL,
    };
    let flying = deliveries_in_flight(tx).await?;
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
        filter.status.map(|(status, _)| status.code()).into(),
        filter.status.and_then(|(_, flying)| flying).map(i64::from).into(),
        Value::Ints(&flying),
        filter.channel.is_none().into(),
        Value::Texts(&channels),
        filter.from.into(),
        filter.to.into(),
        filter.kind.map(EntryKind::word).into(),
        filter.entry.is_none().into(),
        Value::Ints(&entries),
        filter.correlation_id.as_deref().into(),
        about_itself(tx, tenant, filter.instance).await?.into(),
    ];
    let rows = tx.query(sql, &row).await?;
    with_tries(tx, &rows, &flying, false).await
}

macro_rules! logged {
    ($condition:literal) => {
        concat! {"
            select d.id, d.entry_id, d.channel, d.address, d.template_id, d.template_version,
                d.idempotency_key, d.status, d.error, d.provider_id, d.created_at, d.due_at, d.sent_at,
                d.replaced_by, n.event_kind, n.entity_type, n.entity_id, n.correlation_id,
                n.triggered_by, d.recipient, d.recipient_ref, n.kind, n.public_high, n.public_low,
                d.send, case when n.request_id is null then 0 else 1 end
            from punctual.delivery d
            join punctual.entry n on n.id = d.entry_id
            where ", $condition}
    };
}
macro_rules! page {
    ($condition:literal) => {
        concat! {logged!("d.tenant_id = $1 and d.id < $2 and "), " ", $condition, "
                and (
                    (
                        ($4::text is null or lower(n.entity_type) = lower($4))
                            and ($5::text is null or n.entity_id = $5)
                    )
                        or n.id = $19
                )
                and ($6 = 1 or d.address = any($7::text[]))
                and ($8::bigint is null or d.status = $8)
                and ($9::bigint is null or ($9 = 1) = (d.id = any($10::bigint[])))
                and ($11 = 1 or d.channel = any($12::text[]))
                and ($13::bigint is null or d.created_at >= $13)
                and ($14::bigint is null or d.created_at < $14)
                and ($15::text is null or n.kind = $15)
                and ($16 = 1 or d.entry_id = any($17::bigint[]))
                and ($18::text is null or n.correlation_id = $18)
            order by d.id desc
            limit $3
        "}
    };
}

statements! {
    const ALL = page!("1 = 1");
    const BY_ENTRY = page!("d.entry_id = any($17::bigint[])");
    const BY_ENTITY = page!("n.entity_id = $5");
    const BY_INSTANCE = page!("(n.entity_id = $5 or n.id = $19)");
    const BY_CORRELATION = page!("n.correlation_id = $18");
    const BY_ADDRESS = page!("d.address = any($7::text[])");
    const ONE = logged!("d.tenant_id = $1 and d.id = $2");
    const OF_ENTRIES = logged!("d.entry_id = any($1::bigint[]) order by d.id");
}

/// The keys of channels that a name means: a key, or a kind of channels. Each has a send lane.
pub(crate) async fn channels_named(tx: &mut Tx, tenant: Tenant, named: &str) -> Result<Vec<String>> {
    let rows = tx.query(CHANNELS, params![tenant.id()]).await?;
    let mut keys = rows.iter().map(|row| row.text(0)).collect::<Result<Vec<_>>>()?;
    keys.retain(|key| is_named(key, named));
    Ok(keys)
}

statements! {
    const CHANNELS = "
        select distinct topic
        from punctual.lane
        where tenant_id = $1 and purpose = 'send'
    ";
}

/// The deliveries of entries, in order, by entry.
pub(crate) async fn deliveries_of(
    tx: &mut Tx,
    entries: &[i64],
    flying: &[i64],
) -> Result<HashMap<EntryId, Vec<LoggedDelivery>>> {
    let rows = tx.query(OF_ENTRIES, &[Value::Ints(entries)]).await?;
    let mut deliveries: HashMap<EntryId, Vec<LoggedDelivery>> = HashMap::new();
    for one in with_tries(tx, &rows, flying, false).await? {
        deliveries.entry(one.entry).or_default().push(one);
    }
    Ok(deliveries)
}

async fn with_tries(tx: &mut Tx, rows: &[Row], flying: &[i64], answers: bool) -> Result<Vec<LoggedDelivery>> {
    let mut all: Vec<LoggedDelivery> =
        rows.iter().map(|row| read_logged(row, flying)).collect::<Result<_>>()?;
    let ids: Vec<i64> = all.iter().map(|one| one.id.0).collect();
    if ids.is_empty() {
        return Ok(all);
    }
    let places: HashMap<i64, usize> = ids.iter().enumerate().map(|(place, id)| (*id, place)).collect();
    for row in tx.query(TRIES, &[Value::Ints(&ids), answers.into()]).await? {
        if let Some(place) = places.get(&row.int(0)?) {
            add_try(&mut all[*place], &row)?;
        }
    }
    for row in tx.query(RECEIPTS, &[Value::Ints(&ids)]).await? {
        if let Some(place) = places.get(&row.int(0)?) {
            all[*place].receipts.push(read_receipt(&row)?);
        }
    }
    Ok(all)
}

statements! {
    const RECEIPTS = "
        select delivery_id, at, status, said, error
        from punctual.receipt
        where delivery_id = any($1::bigint[])
        order by delivery_id, id
    ";
}

fn read_receipt(row: &Row) -> Result<LoggedReceipt> {
    Ok(LoggedReceipt {
        at: row.time(1)?,
        status: row.text(2)?,
        said: row.text(3)?,
        error: row.maybe_text(4)?,
    })
}

statements! {
    const TRIES = "
        select delivery_id, tried, at, outcome, error, provider_id, case when $2 = 1 then answer end,
            warnings, provider, reason
        from punctual.delivery_attempt
        where delivery_id = any($1::bigint[])
        order by delivery_id, tried
    ";
}

/// Number 0 is not a try, but the reason why there was none yet; -1 is the reason why there was none at all.
fn add_try(of: &mut LoggedDelivery, row: &Row) -> Result<()> {
    let (number, at, error) = (row.int(1)?, row.time(2)?, row.maybe_text(4)?);
    if number < 0 {
        of.skipped = Some((at, row.maybe_text(9)?.unwrap_or_default(), error.unwrap_or_default()));
        return Ok(());
    }
    if number == 0 {
        of.delayed = Some((at, error.unwrap_or_default()));
        return Ok(());
    }
    let warnings = row.maybe_text(7)?;
    of.tries.push(LoggedAttempt {
        number: row.count(1)?,
        at,
        outcome: row.text(3)?,
        error,
        provider_id: row.maybe_text(5)?,
        answer: row.maybe_text(6)?,
        provider: row.maybe_text(8)?,
        warnings: warnings
            .as_deref()
            .map_or_else(Vec::new, |text| serde_json::from_str(text).unwrap_or_default()),
    });
    Ok(())
}

fn read_logged(row: &Row, flying: &[i64]) -> Result<LoggedDelivery> {
    let (id, status) = (row.int(0)?, read_status(row.int(7)?)?);
    Ok(LoggedDelivery {
        id: DeliveryId(id),
        entry: EntryId(row.int(1)?),
        kind: read_kind(&row.text(21)?)?,
        public_id: row.maybe_int(22)?.zip(row.maybe_int(23)?).and_then(PublicId::from_halves),
        send: row.count(24)?,
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
        event_kind: row.text(14)?,
        entity: row.maybe_text(15)?.zip(row.maybe_text(16)?).map(|(kind, id)| Entity { kind, id }),
        correlation_id: row.maybe_text(17)?,
        triggered_by: row.text(18)?,
        by_request: row.flag(25)?,
        recipient: RecipientIdentity { name: row.maybe_text(19)?, reference: row.maybe_text(20)? },
        tries: Vec::new(),
        delayed: None,
        skipped: None,
        receipts: Vec::new(),
    })
}
