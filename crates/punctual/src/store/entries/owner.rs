//! Who has a dedup key: an entry that is there, or one that retention has dropped.

use super::super::Store;
use super::super::columns::Column;
use super::super::tx::Tx;
use super::super::value::params;
use crate::base::error::Result;
use crate::base::tenant::Tenant;
use crate::rules::public_id::PublicId;
use crate::store::tx::VerbFuture;
use std::collections::HashMap;

/// The first half of a dedup key's digest.
pub type Key = (i64, i64);

/// The key of a digest.
#[must_use]
pub fn key_of(digest: &[u8; 32]) -> Key {
    let half = |from: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&digest[from..from + 8]);
        i64::from_be_bytes(bytes)
    };
    (half(0), half(8))
}

/// The key of a digest that is written in hexadecimal; `None` of another text.
#[must_use]
pub fn key_of_hash(hash: &str) -> Option<Key> {
    let mut digest = [0; 32];
    if hash.len() != 2 * digest.len() {
        return None;
    }
    for (n, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(hash.get(2 * n..2 * n + 2)?, 16).ok()?;
    }
    Some(key_of(&digest))
}

impl Store {
    /// Which of these keys are taken, and by which entry.
    pub fn known_keys(&self, tenant: Tenant, keys: Vec<Key>) -> VerbFuture<'_, HashMap<Key, PublicId>> {
        VerbFuture::new(async move {
            let owners = self.of(tenant).read((tenant, keys.clone()), |tx, (tenant, keys)| {
                Box::pin(async move {
                    let mut owners = vec![None; keys.len()];
                    find(tx, *tenant, keys, &mut owners).await?;
                    Ok(owners)
                })
            });
            let owners = owners.await?;
            Ok(keys.into_iter().zip(owners).filter_map(|(key, owner)| Some((key, owner?))).collect())
        })
    }
}

/// Finds the owners that are not known yet, each in the place of its key.
pub(super) async fn find(
    tx: &mut Tx,
    tenant: Tenant,
    keys: &[Key],
    owners: &mut [Option<PublicId>],
) -> Result<()> {
    find_present(tx, tenant, keys, owners).await?;
    look(tx, (DROPPED_AT_ONCE, DROPPED), tenant, keys, owners).await
}

/// The same, only among entries that are there.
pub(super) async fn find_present(
    tx: &mut Tx,
    tenant: Tenant,
    keys: &[Key],
    owners: &mut [Option<PublicId>],
) -> Result<()> {
    look(tx, (PRESENT_AT_ONCE, PRESENT), tenant, keys, owners).await
}

async fn look(
    tx: &mut Tx,
    texts: (&'static str, &'static str),
    tenant: Tenant,
    keys: &[Key],
    owners: &mut [Option<PublicId>],
) -> Result<()> {
    let open: Vec<usize> = (0..keys.len()).filter(|place| owners[*place].is_none()).collect();
    let columns = [
        Column::Ints(open.iter().map(|place| i64::try_from(*place).unwrap_or(i64::MAX)).collect()),
        Column::Ints(open.iter().map(|place| keys[*place].0).collect()),
        Column::Ints(open.iter().map(|place| keys[*place].1).collect()),
    ];
    for row in tx.in_columns(texts, params![tenant.id()], &columns).await? {
        let place = usize::try_from(row.int(0)?).unwrap_or(usize::MAX);
        if let Some(owner) = owners.get_mut(place) {
            *owner = PublicId::from_halves((row.int(1)?, row.int(2)?));
        }
    }
    Ok(())
}

/// Each key is looked up by itself, which the limit sees to: a join would be planned anew with every
/// size of the table.
const PRESENT_AT_ONCE: &str = "select w.place, o.public_high, o.public_low \
    from unnest($2::bigint[], $3::bigint[], $4::bigint[]) w (place, high, low) cross join lateral ( \
        select e.public_high, e.public_low from punctual.entry e where e.tenant_id = $1::int \
            and e.key_high = w.high and e.key_low = w.low and e.deleted_at is null limit 1) o";
const PRESENT: &str = "select $2, public_high, public_low from punctual.entry \
    where tenant_id = $1 and key_high = $3 and key_low = $4 and deleted_at is null";
const DROPPED_AT_ONCE: &str = "select w.place, o.public_high, o.public_low \
    from unnest($2::bigint[], $3::bigint[], $4::bigint[]) w (place, high, low) cross join lateral ( \
        select k.public_high, k.public_low from punctual.entry_key k where k.tenant_id = $1::int \
            and k.key_high = w.high and k.key_low = w.low limit 1) o";
const DROPPED: &str = "select $2, public_high, public_low from punctual.entry_key \
    where tenant_id = $1 and key_high = $3 and key_low = $4";
