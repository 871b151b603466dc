//! Keys of deliveries: `delivery_key` lets one delivery of a key through, whatever its kind.
//!
//! A key outlives its delivery, so that an event which comes again after a year is still known. A delivery
//! that is skipped gives its key back ([`free_keys`]), unless a try of it may have gone out.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::DeliveryId;
use crate::base::limits;
use crate::base::tenant::Tenant;
use crate::database::columns::Column;
use crate::database::statement::statements;
use crate::database::tx::Tx;
use crate::database::value::{Value, params};
use crate::delivery::rules::delivery::{DeliveryStatus, delivery_status};
use crate::delivery::store::deliveries::delivery::read_status;
use crate::flow::store::entries::key::{KeyDigestHalf, key_of_text};
use std::collections::HashMap;

/// The delivery that has a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyHolder {
    pub id: DeliveryId,
    /// Its entry; `None` if retention has dropped the delivery.
    pub entry: Option<i64>,
    pub status: DeliveryStatus,
}

/// Finds the deliveries that have these keys of a tenant. A delivery that retention has dropped counts as
/// sent. With `replaced`, a delivery that took over by another channel stands for the first.
pub(crate) async fn key_holders(
    tx: &mut Tx,
    keys: &[(Tenant, &str)],
    replaced: bool,
) -> Result<HashMap<(Tenant, String), KeyHolder>> {
    let mut holders = HashMap::new();
    if keys.is_empty() {
        return Ok(holders);
    }
    let digests: Vec<KeyDigestHalf> = keys.iter().map(|(_, text)| key_of_text(text)).collect();
    let columns = [
        Column::Ints((0..keys.len()).map(|n| i64::try_from(n).unwrap_or(i64::MAX)).collect()),
        Column::Ints(keys.iter().map(|(tenant, _)| tenant.id()).collect()),
        Column::Ints(digests.iter().map(|key| key.0).collect()),
        Column::Ints(digests.iter().map(|key| key.1).collect()),
    ];
    for row in tx.in_columns((HOLDERS_AT_ONCE, HOLDER), params![i64::from(replaced)], &columns).await? {
        let (tenant, text) = keys[usize::try_from(row.int(0)?).unwrap_or_default()];
        let status = row.maybe_int(3)?.map_or(Ok(DeliveryStatus::Sent), read_status)?;
        let holder = KeyHolder { id: DeliveryId(row.int(1)?), entry: row.maybe_int(2)?, status };
        holders.insert((tenant, text.to_owned()), holder);
    }
    Ok(holders)
}

macro_rules! holder {
    ($wanted:literal) => {
        concat! {"
            select w.place, coalesce(r.id, k.delivery_id), d.entry_id, coalesce(r.status, d.status)
            from (
                ", $wanted, "
            ) w
            join punctual.delivery_key k on k.tenant_id = w.tenant_id
                and k.key_high = w.high
                and k.key_low = w.low
            left join punctual.delivery d on d.id = k.delivery_id
            left join punctual.delivery r on $1 = 1
                and r.id = d.replaced_by
                and r.status <> ", delivery_status!(Skipped), "
        "}
    };
}

statements! {
    const HOLDERS_AT_ONCE for Postgres = holder!("
                select unnest($2::bigint[]) place, unnest($3::int[]) tenant_id,
                    unnest($4::bigint[]) high, unnest($5::bigint[]) low
    ");

    const HOLDER for Sqlite = holder!("
                select $2 as place, $3 as tenant_id, $4 as high, $5 as low
    ");
}

/// Gives back the keys of deliveries that are not sent.
pub(crate) async fn free_keys(tx: &mut Tx, keys: &[(Tenant, &str, DeliveryId)]) -> Result<()> {
    let digests: Vec<KeyDigestHalf> = keys.iter().map(|(_, text, _)| key_of_text(text)).collect();
    let columns = [
        Column::Ints(keys.iter().map(|(tenant, ..)| tenant.id()).collect()),
        Column::Ints(digests.iter().map(|key| key.0).collect()),
        Column::Ints(digests.iter().map(|key| key.1).collect()),
        Column::Ints(keys.iter().map(|(.., delivery)| delivery.0).collect()),
    ];
    tx.in_columns((FREE_AT_ONCE, FREE), &[], &columns).await?;
    Ok(())
}

statements! {
    const FREE_AT_ONCE for Postgres = "
        delete from punctual.delivery_key k
        using (
            select unnest($1::int[]) tenant_id, unnest($2::bigint[]) high, unnest($3::bigint[]) low,
                unnest($4::bigint[]) delivery_id
        ) x
        where k.key_high = x.high
            and k.key_low = x.low
            and k.tenant_id = x.tenant_id
            and k.delivery_id = x.delivery_id
    ";

    const FREE = "
        delete from punctual.delivery_key
        where key_high = $2 and key_low = $3 and tenant_id = $1 and delivery_id = $4
    ";
}

/// Which of these deliveries have a try that went out or may have.
pub(crate) async fn may_have_gone_out(tx: &mut Tx, ids: &[i64]) -> Result<Vec<i64>> {
    tx.query(GONE_OUT, &[Value::Ints(ids)]).await?.iter().map(|row| row.int(0)).collect()
}

statements! {
    const GONE_OUT = "
        select distinct delivery_id
        from punctual.delivery_attempt
        where delivery_id = any($1::bigint[]) and outcome in ('sent', 'unknown', 'timeout')
    ";
}

/// Drops keys that are past their time and whose deliveries are gone, as many as fit into a step; returns how
/// many.
pub(crate) async fn prune_keys(tx: &mut Tx, now: Timestamp) -> Result<usize> {
    let limit = i64::try_from(limits::PRUNE_ROWS).unwrap_or(1_000);
    let dropped = tx.execute(DROP_OLD, params![now.minus(limits::DELIVERY_KEY_RETENTION), limit]).await?;
    Ok(usize::try_from(dropped).unwrap_or(usize::MAX))
}

statements! {
    const DROP_OLD = "
        delete from punctual.delivery_key
        where (key_high, key_low, tenant_id) in (
            select k.key_high, k.key_low, k.tenant_id
            from punctual.delivery_key k
            where k.made_at < $1
                and not exists (select 1 from punctual.delivery d where d.id = k.delivery_id)
            limit $2
        )
    ";
}
