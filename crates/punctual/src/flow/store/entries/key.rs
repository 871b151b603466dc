//! Keys of entries: `entry_key` lets one entry of a key through, whatever its kind.
//!
//! A writer of entries inserts their keys first (`insert_keys`) and writes those entries whose keys are
//! new, under the ids that the keys name. A key outlives its entry; `free_key` is for entries that a
//! person deletes.

use crate::base::clock::Timestamp;
use crate::base::digest;
use crate::base::error::Result;
use crate::base::id::EntryId;
use crate::base::limits;
use crate::base::tenant::Tenant;
use crate::database::columns::Column;
use crate::database::dialect::Dialect;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::Tx;
use crate::database::tx::VerbFuture;
use crate::database::value::params;
use crate::flow::rules::entry::EntryKind;
use crate::flow::rules::public_id::PublicId;
use crate::flow::store::entries::Entry;
use std::collections::HashMap;

/// The first half of a key's digest.
pub type KeyDigestHalf = (i64, i64);

/// A key that an entry is to have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewKey {
    pub tenant: Tenant,
    pub key: KeyDigestHalf,
    /// The public id of the entry, if entries of its kind have one.
    pub public_id: Option<PublicId>,
}

/// The key of a digest.
#[must_use]
pub fn key_of(digest: &[u8; 32]) -> KeyDigestHalf {
    let half = |from: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&digest[from..from + 8]);
        i64::from_be_bytes(bytes)
    };
    (half(0), half(8))
}

/// The key of a text, such as `event:17`.
pub(crate) fn key_of_text(text: &str) -> KeyDigestHalf {
    key_of(&digest::sha256(text.as_bytes()))
}

/// The key of a digest that is written in hexadecimal; `None` of another text.
#[must_use]
pub fn key_of_hash(hash: &str) -> Option<KeyDigestHalf> {
    let mut digest = [0; 32];
    if hash.len() != 2 * digest.len() {
        return None;
    }
    for (n, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(hash.get(2 * n..2 * n + 2)?, 16).ok()?;
    }
    Some(key_of(&digest))
}

/// The key of an entry that was written. A survey's key text is a digest, that of any other kind is not.
pub(crate) fn key_of_entry(entry: &Entry) -> Option<KeyDigestHalf> {
    match entry.kind {
        EntryKind::Survey => key_of_hash(&entry.key),
        EntryKind::Notification => Some(key_of_text(&entry.key)),
    }
}

/// Inserts keys that are all different; answers the id of the entry to be for each that is new, in the place
/// of its key. Keys are inserted in one order, so that two transactions never wait for each other in a
/// circle.
pub(crate) async fn insert_keys(
    tx: &mut Tx,
    keys: &[NewKey],
    now: Timestamp,
) -> Result<Vec<Option<EntryId>>> {
    let order_of = |key: &NewKey| (key.key, key.tenant.id());
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_unstable_by_key(|place| order_of(&keys[*place]));
    let ints = |pick: &dyn Fn(&NewKey) -> i64| Column::Ints(order.iter().map(|n| pick(&keys[*n])).collect());
    let maybe = |pick: fn((i64, i64)) -> i64| {
        let halves = order.iter().map(|n| keys[*n].public_id.map(|id| pick(id.to_halves())));
        Column::MaybeInts(halves.collect())
    };
    let mut columns = vec![
        ints(&|key| key.tenant.id()),
        ints(&|key| key.key.0),
        ints(&|key| key.key.1),
        maybe(|halves| halves.0),
        maybe(|halves| halves.1),
    ];
    if tx.dialect() == Dialect::Sqlite {
        columns.push(Column::Ints(free_ids(tx, keys.len()).await?));
    }
    let mut ids = vec![None; keys.len()];
    let rows = tx.in_columns((INSERT_AT_ONCE, INSERT), params![now], &columns).await?;
    let (tenants, entries) = (tx.listed(&rows, 0)?, tx.listed(&rows, 3)?);
    let halves = tx.listed(&rows, 1)?.into_iter().zip(tx.listed(&rows, 2)?);
    for ((new, tenant), entry) in halves.zip(tenants).zip(entries) {
        if let Ok(at) = order.binary_search_by_key(&(new, tenant), |place| order_of(&keys[*place])) {
            ids[order[at]] = Some(EntryId(entry));
        }
    }
    Ok(ids)
}

/// Ids for so many entries on SQLite: the writer is alone, so those behind the last one are free. PostgreSQL
/// draws them in the statement.
async fn free_ids(tx: &mut Tx, count: usize) -> Result<Vec<i64>> {
    let last = tx.first(LAST_ID, &[]).await?.map_or(Ok(0), |row| row.int(0))?;
    Ok((last + 1..).take(count).collect())
}

statements! {
    const LAST_ID for Sqlite = "
        select coalesce(max(seq), 0)
        from sqlite_sequence
        where name = 'punctual.entry'
    ";

    const INSERT_AT_ONCE for Postgres = "
        with new as (
            insert into punctual.entry_key (
                made_at, tenant_id, key_high, key_low, public_high, public_low, entry_id
            )
            select $1::bigint, x.*, nextval('punctual.entry_id_seq')
            from (
                select unnest($2::int[]), unnest($3::bigint[]), unnest($4::bigint[]),
                    unnest($5::bigint[]), unnest($6::bigint[])
            ) x
            on conflict do nothing
            returning tenant_id::bigint, key_high, key_low, entry_id
        )
        select array_agg(tenant_id), array_agg(key_high), array_agg(key_low), array_agg(entry_id)
        from new
    ";

    const INSERT = "
        insert into punctual.entry_key (
            made_at, tenant_id, key_high, key_low, public_high, public_low, entry_id
        )
        values ($1, $2, $3, $4, $5, $6, $7)
        on conflict do nothing
        returning tenant_id, key_high, key_low, entry_id
    ";
}

/// Frees the key of an entry, so that the next event of that key begins a new entry.
pub(crate) async fn free_key(tx: &mut Tx, tenant: Tenant, key: KeyDigestHalf, entry: EntryId) -> Result<()> {
    tx.execute(FREE, params![tenant.id(), key.0, key.1, entry.0]).await?;
    Ok(())
}

statements! {
    const FREE = "
        delete from punctual.entry_key
        where key_high = $2 and key_low = $3 and tenant_id = $1 and entry_id = $4
    ";
}

/// Drops keys that are past their time and whose entries are gone, as many as fit into a step; answers how
/// many.
pub(crate) async fn prune_keys(tx: &mut Tx, now: Timestamp) -> Result<usize> {
    let limit = i64::try_from(limits::PRUNE_ROWS).unwrap_or(1_000);
    let dropped = tx.execute(DROP_OLD, params![now.minus(limits::ENTRY_KEY_RETENTION), limit]).await?;
    Ok(usize::try_from(dropped).unwrap_or(usize::MAX))
}

statements! {
    const DROP_OLD = "
        delete from punctual.entry_key
        where (key_high, key_low, tenant_id) in (
            select k.key_high, k.key_low, k.tenant_id
            from punctual.entry_key k
            where k.made_at < $1 and not exists (select 1 from punctual.entry e where e.id = k.entry_id)
            limit $2
        )
    ";
}

impl Store {
    /// Which of these keys are taken, and by which entry.
    pub fn known_keys(
        &self,
        tenant: Tenant,
        keys: Vec<KeyDigestHalf>,
    ) -> VerbFuture<'_, HashMap<KeyDigestHalf, PublicId>> {
        VerbFuture::new(async move {
            let owners = self.of(tenant).read((tenant, keys.clone()), |tx, (tenant, keys)| {
                Box::pin(async move {
                    let mut owners = vec![None; keys.len()];
                    find_owners(tx, *tenant, keys, &mut owners).await?;
                    Ok(owners)
                })
            });
            let owners = owners.await?;
            Ok(keys.into_iter().zip(owners).filter_map(|(key, owner)| Some((key, owner?))).collect())
        })
    }
}

/// Finds the owners that are not known yet, each in the place of its key: entries that are there, or that
/// retention has dropped.
pub(crate) async fn find_owners(
    tx: &mut Tx,
    tenant: Tenant,
    keys: &[KeyDigestHalf],
    owners: &mut [Option<PublicId>],
) -> Result<()> {
    let open: Vec<usize> = (0..keys.len()).filter(|place| owners[*place].is_none()).collect();
    let columns = [
        Column::Ints(open.iter().map(|place| i64::try_from(*place).unwrap_or(i64::MAX)).collect()),
        Column::Ints(open.iter().map(|place| keys[*place].0).collect()),
        Column::Ints(open.iter().map(|place| keys[*place].1).collect()),
    ];
    for row in tx.in_columns((OWNERS_AT_ONCE, OWNER), params![tenant.id()], &columns).await? {
        let place = usize::try_from(row.int(0)?).unwrap_or(usize::MAX);
        if let Some(owner) = owners.get_mut(place) {
            *owner = PublicId::from_halves((row.int(1)?, row.int(2)?));
        }
    }
    Ok(())
}

statements! {
    /// Each key is looked up by itself, which the limit sees to: a join would be planned anew with every
    /// size of the table.
    const OWNERS_AT_ONCE for Postgres = "
        select w.place, o.public_high, o.public_low
        from unnest($2::bigint[], $3::bigint[], $4::bigint[]) w (place, high, low)
        cross join lateral (
            select k.public_high, k.public_low
            from punctual.entry_key k
            where k.tenant_id = $1::int
                and k.key_high = w.high
                and k.key_low = w.low
                and k.public_high is not null
            limit 1
        ) o
    ";

    const OWNER = "
        select $2, public_high, public_low
        from punctual.entry_key
        where tenant_id = $1 and key_high = $3 and key_low = $4 and public_high is not null
    ";
}
