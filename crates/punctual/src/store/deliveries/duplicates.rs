//! Notifications of which fewer deliveries were written than planned: somebody has no address, or a
//! delivery of the same key is there already. A notification that is left with nothing to send has ended,
//! and says why.
//!
//! Whoever holds a key is looked at only then, so what is new costs no statement. What is said of the holder
//! is how it stood at that moment.

use super::super::tx::Tx;
use super::super::value::{Value, params};
use super::NO_RECIPIENT;
use super::new_deliveries::{Made, NewDelivery};
use crate::base::clock::Timestamp;
use crate::base::error::{Error, Result};
use crate::base::id::EntryId;
use crate::rules::notification::DeliveryStatus;
use std::collections::{BTreeMap, HashMap};

/// Why nothing was sent: the same message had been before.
pub const ALREADY_SENT: &str = "AlreadySent";
/// Why nothing was sent: the same message waits, or is tried again.
pub const ALREADY_PENDING: &str = "AlreadyPending";
/// Why nothing was sent: the same message was given up, and that one is to be replayed.
pub const ALREADY_FAILED: &str = "AlreadyFailed";
/// Why nothing was sent: nobody knows whether the same message was.
pub const ALREADY_UNCERTAIN: &str = "AlreadyUncertain";

/// A delivery that has a key, or the one that took its place.
#[derive(Clone, Copy, Debug)]
struct Holder {
    id: i64,
    status: DeliveryStatus,
}

impl Holder {
    /// Of several the one that most needs somebody's attention tells why.
    const fn weight(&self) -> u8 {
        match self.status {
            DeliveryStatus::Sent | DeliveryStatus::Delivered => 0,
            DeliveryStatus::Pending => 1,
            DeliveryStatus::Uncertain => 2,
            DeliveryStatus::Failed | DeliveryStatus::Skipped => 3,
        }
    }

    fn why(&self) -> (&'static str, String) {
        let id = self.id;
        match self.status {
            DeliveryStatus::Sent | DeliveryStatus::Delivered => {
                (ALREADY_SENT, "It was sent before".to_owned())
            }
            DeliveryStatus::Pending => (ALREADY_PENDING, "The same message is on its way".to_owned()),
            DeliveryStatus::Uncertain => {
                let said = format!(
                    "Nobody knows whether the same message was sent before (delivery {id}); \
                     replay that one if it did not arrive"
                );
                (ALREADY_UNCERTAIN, said)
            }
            DeliveryStatus::Failed | DeliveryStatus::Skipped => {
                let said = format!("The same message failed before (delivery {id}); replay that one");
                (ALREADY_FAILED, said)
            }
        }
    }
}

/// What a notification lacks of what was planned.
#[derive(Default)]
struct Short<'a> {
    open: i64,
    skipped: bool,
    known: Vec<&'a NewDelivery<'a>>,
}

/// A notification of which fewer deliveries were written than planned is told so; one without any has ended.
pub(super) async fn end_empty(
    tx: &mut Tx,
    rows: &[NewDelivery<'_>],
    made: &Made,
    now: Timestamp,
) -> Result<()> {
    let mut notifications: BTreeMap<EntryId, Short<'_>> = BTreeMap::new();
    for row in rows {
        let of = notifications.entry(row.entry).or_default();
        match (row.status(), made.of(row)) {
            (_, None) => of.known.push(row),
            (DeliveryStatus::Pending, Some(_)) => of.open += 1,
            (_, Some(_)) => of.skipped = true,
        }
    }
    notifications.retain(|_, of| of.skipped || !of.known.is_empty());
    let empty = notifications.values().filter(|of| of.open == 0).flat_map(|of| &of.known);
    let keys: Vec<Option<&str>> = empty.map(|row| Some(row.planned.key.as_str())).collect();
    let holders = holders(tx, &keys).await?;
    for (notification, of) in &notifications {
        let held = of.known.iter().filter_map(|row| holders.get(&held_by(row)));
        let (reason, said) = match held.max_by_key(|holder| holder.weight()) {
            Some(holder) => holder.why(),
            None if of.known.is_empty() => (NO_RECIPIENT, "No recipient".to_owned()),
            None => (ALREADY_SENT, "It was sent before".to_owned()),
        };
        tx.execute(SHORT, params![notification.0, of.open, reason, said.as_str(), now]).await?;
    }
    Ok(())
}

fn held_by(row: &NewDelivery<'_>) -> (i64, String) {
    (row.tenant.id(), row.planned.key.clone())
}

/// Who has these keys, by tenant and key.
async fn holders(tx: &mut Tx, keys: &[Option<&str>]) -> Result<HashMap<(i64, String), Holder>> {
    if keys.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = tx.query(HOLDERS, &[Value::Texts(keys)]).await?;
    let found = rows.iter().map(|row| {
        let code = row.int(3)?;
        let status = DeliveryStatus::from_code(code)
            .ok_or_else(|| Error::Database(format!("{code} is no status").into()))?;
        Ok(((row.int(0)?, row.text(1)?), Holder { id: row.int(2)?, status }))
    });
    found.collect()
}

/// Where another channel took over, that one counts, unless it was not to be sent.
const HOLDERS: &str = "select d.tenant_id, d.idempotency_key, coalesce(r.id, d.id), \
        coalesce(r.status, d.status) \
    from punctual.delivery d \
    left join punctual.delivery r on r.id = d.replaced_by and r.status <> 4 \
    where d.idempotency_key = any($1::text[]) and d.keeps_key = 1";
const _: () = assert!(DeliveryStatus::Skipped as i64 == 4);

const SHORT: &str = "update punctual.entry set open = $2, \
        status = case when $2 = 0 then 5 else status end, reason = case when $2 = 0 then $3 else reason end, \
        error = case when $2 = 0 then $4 else error end, \
        ended_at = case when $2 = 0 then $5 else ended_at end \
    where id = $1";
