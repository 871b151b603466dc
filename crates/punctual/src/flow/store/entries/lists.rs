//! Lists of entries: by what a support person knows, the newest first.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::{EntryId, FlowId};
use crate::base::tenant::Tenant;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::{Tx, VerbFuture};
use crate::database::value::{Value, params};
use crate::flow::rules::entry::{EntryKind, EntryStatus};
use crate::flow::rules::public_id::PublicId;
use crate::flow::store::entries::key::{key_of_hash, key_of_text};
use crate::flow::store::entries::{Entry, entries_by_id, entry_columns, read_entry};

/// Selects entries; a field that is `None` matches all.
#[derive(Clone, Debug, Default)]
pub struct EntryFilter {
    /// Of this kind.
    pub kind: Option<EntryKind>,
    /// Of this flow.
    pub flow: Option<FlowId>,
    /// Of this status.
    pub status: Option<EntryStatus>,
    /// Only those of which something is being sent now, or only those of which nothing is.
    pub in_flight: Option<bool>,
    /// About an entity of this type, in upper or lower case.
    pub entity_type: Option<String>,
    /// About the entity of this id.
    pub entity_id: Option<String>,
    /// Or with this public id, if it is about no other entity.
    pub instance: Option<PublicId>,
    /// Of this key, public id or number, or with a delivery of this key.
    pub key: Option<String>,
    /// With this recipient's address.
    pub address: Option<String>,
    /// With this recipient's name in another system.
    pub customer_ref: Option<String>,
    /// Only those that are on hold, or only those that are not.
    pub held: Option<bool>,
    /// Made at this moment or later.
    pub from: Option<Timestamp>,
    /// Made before this moment.
    pub to: Option<Timestamp>,
}

impl Store {
    /// Entries of a tenant with ids below `before`, the newest first. Whether something of them is in flight,
    /// and keys of deliveries, are for [`Store::schedule`].
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn entries(
        &self,
        tenant: Tenant,
        filter: EntryFilter,
        before: EntryId,
        limit: usize,
    ) -> VerbFuture<'_, Vec<Entry>> {
        self.of(tenant).read((tenant, filter, before, limit), |tx, (tenant, filter, before, limit)| {
            Box::pin(async move {
                let named = match &filter.key {
                    Some(key) => named_entries(tx, *tenant, key).await?,
                    None => Vec::new(),
                };
                list(tx, *tenant, filter, (&named, &[]), (*before, *limit)).await
            })
        })
    }

    /// One entry of a tenant, by its public id.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn entry(&self, tenant: Tenant, id: PublicId) -> VerbFuture<'_, Option<Entry>> {
        self.of(tenant).read((tenant, id), |tx, (tenant, id)| Box::pin(entry_by_public_id(tx, *tenant, *id)))
    }

    /// Entries by their numbers, of whichever tenants: for the loops.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn entries_by_id(&self, ids: Vec<EntryId>) -> VerbFuture<'_, Vec<Entry>> {
        self.read(ids, |tx, ids| {
            Box::pin(async move {
                let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
                entries_by_id(tx, &ids).await
            })
        })
    }
}

/// One entry of a tenant, by its public id.
pub(crate) async fn entry_by_public_id(tx: &mut Tx, tenant: Tenant, id: PublicId) -> Result<Option<Entry>> {
    let (high, low) = id.to_halves();
    let row = tx.first(BY_PUBLIC_ID, params![high, low]).await?;
    let entry = row.map(|mut row| read_entry(&mut row)).transpose()?;
    Ok(entry.filter(|entry| entry.tenant == tenant))
}

/// The numbers of the entries that a text names: by number, public id, or key.
pub(crate) async fn named_entries(tx: &mut Tx, tenant: Tenant, text: &str) -> Result<Vec<i64>> {
    let number = text.parse::<i64>().unwrap_or_default();
    let (high, low) = PublicId::parse(text).map_or((0, 0), |id| id.to_halves());
    let by_text = key_of_text(text);
    let key = key_of_hash(text).unwrap_or(by_text);
    let row = params![tenant.id(), number, high, low, key.0, key.1, by_text.0, by_text.1];
    tx.query(NAMED, row).await?.iter().map(|row| row.int(0)).collect()
}

statements! {
    const NAMED = "
        select e.id
        from punctual.entry e
        where e.tenant_id = $1 and e.id = $2
        union
        select e.id
        from punctual.entry e
        where e.public_high = $3 and e.public_low = $4 and e.tenant_id = $1
        union
        select k.entry_id
        from punctual.entry_key k
        where k.key_high = $5 and k.key_low = $6 and k.tenant_id = $1
        union
        select k.entry_id
        from punctual.entry_key k
        where k.key_high = $7 and k.key_low = $8 and k.tenant_id = $1
    ";
}

/// The number of the entry of this public id, if it is about no entity but itself; 0 otherwise.
pub(crate) async fn about_itself(tx: &mut Tx, tenant: Tenant, instance: Option<PublicId>) -> Result<i64> {
    let Some(id) = instance else { return Ok(0) };
    let (high, low) = id.to_halves();
    let row = tx.first(ABOUT_ITSELF, params![tenant.id(), high, low]).await?;
    row.map_or(Ok(0), |row| row.int(0))
}

statements! {
    const ABOUT_ITSELF = "
        select e.id
        from punctual.entry e
        where e.public_high = $2 and e.public_low = $3 and e.tenant_id = $1 and e.entity_id is null
    ";
}

/// Lists entries. `named` are those that the filter's key names, `flying` those of which something is in
/// flight.
pub(crate) async fn list(
    tx: &mut Tx,
    tenant: Tenant,
    filter: &EntryFilter,
    (named, flying): (&[i64], &[i64]),
    (before, limit): (EntryId, usize),
) -> Result<Vec<Entry>> {
    // The most selective condition chooses the statement, and so the index; the others only filter.
    let sql = match filter {
        EntryFilter { key: Some(_), .. } => BY_NAME,
        EntryFilter { in_flight: Some(true), .. } => IN_FLIGHT,
        EntryFilter { instance: Some(_), .. } => BY_INSTANCE,
        EntryFilter { entity_id: Some(_), .. } => BY_ENTITY,
        EntryFilter { address: Some(_), .. } => BY_ADDRESS,
        EntryFilter { customer_ref: Some(_), .. } => BY_CUSTOMER,
        EntryFilter { flow: Some(_), .. } => BY_FLOW,
        _ => ALL,
    };
    let instance = about_itself(tx, tenant, filter.instance).await?;
    let row = [
        tenant.id().into(),
        before.0.into(),
        i64::try_from(limit).unwrap_or(i64::MAX).into(),
        filter.kind.map(EntryKind::word).into(),
        filter.flow.map(|flow| flow.0).into(),
        filter.status.map(EntryStatus::code).into(),
        filter.in_flight.map(i64::from).into(),
        Value::Ints(flying),
        filter.entity_type.as_deref().into(),
        filter.entity_id.as_deref().into(),
        filter.key.is_none().into(),
        Value::Ints(named),
        filter.address.as_deref().into(),
        filter.customer_ref.as_deref().into(),
        filter.held.map(i64::from).into(),
        filter.from.into(),
        filter.to.into(),
        instance.into(),
    ];
    tx.query(sql, &row).await?.iter_mut().map(read_entry).collect()
}

macro_rules! listed {
    ($condition:literal) => {
        concat! {"
            select ", entry_columns!(), "
            from punctual.entry e
            where e.tenant_id = $1
                and e.id < $2
                and e.deleted_at is null
                and ", $condition, "
                and ($4::text is null or e.kind = $4)
                and ($5::bigint is null or e.flow_id = $5)
                and ($6::bigint is null or e.status = $6)
                and ($7::bigint is null or ($7 = 1) = (e.id = any($8::bigint[])))
                and (
                    (
                        ($9::text is null or lower(e.entity_type) = lower($9))
                            and ($10::text is null or e.entity_id = $10)
                    )
                        or e.id = $18
                )
                and ($11 = 1 or e.id = any($12::bigint[]))
                and ($13::text is null or e.address = $13)
                and ($14::text is null or e.customer_ref = $14)
                and ($15::bigint is null or ($15 = 1) = (e.held_at is not null))
                and ($16::bigint is null or e.created_at >= $16)
                and ($17::bigint is null or e.created_at < $17)
            order by e.id desc
            limit $3
        "}
    };
}

statements! {
    const ALL = listed!("1 = 1");

    const BY_NAME = listed!("e.id = any($12::bigint[])");

    const IN_FLIGHT = listed!("e.id = any($8::bigint[])");

    const BY_ENTITY = listed!("e.entity_id = $10");

    const BY_INSTANCE = listed!("(e.entity_id = $10 or e.id = $18)");

    const BY_ADDRESS = listed!("e.address = $13");

    const BY_CUSTOMER = listed!("e.customer_ref = $14");

    const BY_FLOW = listed!("e.flow_id = $5");

    const BY_PUBLIC_ID = "
        select ", entry_columns!(), "
        from punctual.entry e
        where e.public_high = $1 and e.public_low = $2 and e.deleted_at is null
    ";
}
