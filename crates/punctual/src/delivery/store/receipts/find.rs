//! Finds the subject of a receipt: a delivery by its provider's id, or tenants by an address.

use crate::base::error::Result;
use crate::base::id::{DeliveryId, EntryId};
use crate::base::tenant::Tenant;
use crate::database::statement::statements;
use crate::database::tx::Tx;
use crate::database::value::{Row, Value};
use crate::delivery::rules::consent::address::normal;
use crate::delivery::rules::delivery::DeliveryStatus;
use crate::delivery::store::deliveries::claim;
use crate::delivery::store::deliveries::delivery::{Delivery, read_status};
use crate::delivery::store::receipts::ReceiptBatch;
use crate::flow::rules::entry::{EntryKind, EntryStatus};
use crate::flow::store::entries::read_kind;
use std::collections::{BTreeSet, HashMap};

/// A delivery that a receipt is about, locked.
#[derive(Clone, Debug)]
pub(crate) struct ReceiptDelivery {
    pub id: DeliveryId,
    pub tenant: Tenant,
    pub entry: EntryId,
    pub kind: EntryKind,
    /// Whether its entry lets nothing be sent any more.
    pub has_ended: bool,
    /// Whether its entry is on hold.
    pub held: bool,
    pub address: String,
    pub status: DeliveryStatus,
    /// The id by which it was found.
    pub provider_id: String,
    /// Whether that is the id of its last try.
    pub is_latest: bool,
}

/// Finds the deliveries of a batch, by the provider's ids. Where a provider gave one id to several
/// deliveries, the newest of those with the address in the receipt is taken, or the newest of all.
pub(crate) async fn found<'n>(
    tx: &mut Tx,
    batch: &'n ReceiptBatch,
) -> Result<HashMap<&'n str, ReceiptDelivery>> {
    let wanted = || batch.receipts.iter().filter_map(|one| Some((one.message_id.as_deref()?, one)));
    let ids: Vec<Option<&str>> = wanted().map(|(id, _)| Some(id)).collect();
    let mut all: HashMap<String, Vec<ReceiptDelivery>> = HashMap::new();
    if !ids.is_empty() {
        let channels = texts(&batch.channels);
        let of = [Value::Texts(&ids), Value::Texts(&channels)];
        // The entry's lock comes before that of its delivery, and the next query reads the entry's status.
        let locked = tx.query(LOCK_ENTRIES, &of).await?;
        let locked = locked.iter().map(|row| row.int(0)).collect::<Result<Vec<_>>>()?;
        let [ids, channels] = of;
        // A try that was stored between the two statements is found by the next look.
        for row in tx.query(FOUND, &[ids, channels, Value::Ints(&locked)]).await? {
            let one = read(&row)?;
            all.entry(one.provider_id.clone()).or_default().push(one);
        }
    }
    let mut found = HashMap::with_capacity(all.len());
    for (id, receipt) in wanted() {
        let Some(known) = all.get(id) else { continue };
        let address = receipt.address.as_deref().map(normal);
        let named = known.iter().rev().find(|one| Some(normal(&one.address)) == address);
        if let Some(one) = named.or(known.last()) {
            found.entry(id).or_insert_with(|| one.clone());
        }
    }
    Ok(found)
}

statements! {
    const LOCK_ENTRIES = "
        select e.id
        from punctual.entry e
        where e.id in (
            select d.entry_id
            from punctual.delivery d
            join punctual.delivery_attempt a on a.delivery_id = d.id
            where a.provider_id = any($1::text[]) and d.channel = any($2::text[])
        )
        order by e.id
        for update
    ";

    /// In the order of their ids, so that two transactions never wait for each other in a circle.
    const FOUND = "
        select d.id, d.tenant_id, d.entry_id, d.address, d.status, a.provider_id,
            case when d.provider_id = a.provider_id then 1 else 0 end, e.kind, e.status,
            case when e.held_at is null then 0 else 1 end,
            case when e.deleted_at is null then 0 else 1 end
        from punctual.delivery d
        join punctual.delivery_attempt a on a.delivery_id = d.id
        join punctual.entry e on e.id = d.entry_id
        where a.provider_id = any($1::text[])
            and d.channel = any($2::text[])
            and d.entry_id = any($3::bigint[])
        order by d.id, a.tried
        for update of d
    ";
}

fn read(row: &Row) -> Result<ReceiptDelivery> {
    let (kind, entry) = (read_kind(&row.text(7)?)?, EntryStatus::from_code(row.int(8)?));
    Ok(ReceiptDelivery {
        id: DeliveryId(row.int(0)?),
        tenant: Tenant::from_row(row.int(1)?),
        entry: EntryId(row.int(2)?),
        address: row.text(3)?,
        status: read_status(row.int(4)?)?,
        provider_id: row.text(5)?,
        is_latest: row.flag(6)?,
        kind,
        has_ended: row.flag(10)? || entry.is_none_or(|status| kind.stops_sends(status)),
        held: row.flag(9)?,
    })
}

/// The deliveries of these ids.
pub(crate) async fn deliveries(tx: &mut Tx, channels: &[String], ids: &[String]) -> Result<Vec<Delivery>> {
    claim::given_ids(tx, &texts(ids), &texts(channels)).await
}

/// Finds the tenants that have written to an address by one of these channels; or, if none has, the only
/// tenant that uses them. Where several do, the address may have been written in another form: then the last
/// messages are searched.
pub(crate) async fn writers(tx: &mut Tx, channels: &[String], address: &str) -> Result<Vec<Tenant>> {
    let forms = forms(address);
    let (channels, forms) = (texts(channels), texts(&forms));
    let rows = tx.query(WRITERS, &[Value::Texts(&forms), Value::Texts(&channels)]).await?;
    if !rows.is_empty() {
        return rows.iter().map(|row| Ok(Tenant::from_row(row.int(0)?))).collect();
    }
    let users = tx.query(USERS, &[Value::Texts(&channels)]).await?;
    match users.as_slice() {
        [] => Ok(Vec::new()),
        [only] => Ok(vec![Tenant::from_row(only.int(0)?)]),
        _ => recent_writers(tx, &channels, &normal(address)).await,
    }
}

/// Messages that are searched: a recipient who answers with a STOP does so soon.
const MESSAGES_LOOKED_AT: i64 = 20_000;

/// Finds the tenants with one of the last messages to an address of this normal form.
async fn recent_writers(tx: &mut Tx, channels: &[Option<&str>], wanted: &str) -> Result<Vec<Tenant>> {
    let mut found = BTreeSet::new();
    for row in tx.query(RECENT, &[Value::Texts(channels), MESSAGES_LOOKED_AT.into()]).await? {
        if normal(&row.text(1)?) == wanted {
            found.insert(Tenant::from_row(row.int(0)?));
        }
    }
    Ok(found.into_iter().collect())
}

statements! {
    const RECENT = "
        select distinct d.tenant_id, d.address
        from punctual.delivery d
        where d.id > (select coalesce(max(x.id), 0) - $2 from punctual.delivery x)
            and d.channel = any($1::text[])
    ";

    const WRITERS = "
        select distinct d.tenant_id
        from punctual.delivery d
        where d.address = any($1::text[]) and d.channel = any($2::text[])
        order by 1
    ";

    const USERS = "
        select distinct l.tenant_id
        from punctual.lane l
        where l.purpose = 'send' and l.topic = any($1::text[])
        limit 2
    ";
}

/// How an address may be written in our tables.
fn forms(address: &str) -> Vec<String> {
    let normal = normal(address);
    let digits = normal.strip_prefix('+');
    let mut forms = vec![address.trim().to_owned()];
    forms.extend(digits.map(str::to_owned));
    forms.extend(digits.map(|digits| format!("00{digits}")));
    forms.push(normal);
    forms
}

fn texts(all: &[String]) -> Vec<Option<&str>> {
    all.iter().map(|text| Some(text.as_str())).collect()
}
