//! Receipts that came before their message was written down.
//!
//! They wait in a table of their own and are looked at again, ever less often, until the message is found or
//! they are too old (`rules::receipt::next_lookup_delay`). How many wait is bounded: a system that shares an
//! account with us may have a great many receipts of its own.

use crate::base::clock::Timestamp;
use crate::base::error::{Error, Result};
use crate::base::limits::{RECEIPT_LOOK_MIN, RECEIPTS_LOOKED_AT, RECEIPTS_WAITING_MAX};
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::Tx;
use crate::database::tx::VerbFuture;
use crate::database::value::{Row, Value, params};
use crate::delivery::rules::receipt::{Receipt, ReceiptStatus, next_lookup_delay};
use crate::delivery::store::receipts::{PreparedReceipts, ReceiptBatch};
use std::collections::BTreeMap;
use std::time::Duration;

/// The receipts that wait.
#[derive(Clone, Debug, Default)]
pub struct WaitingReceipts {
    /// The receipts to look at now, by provider and channels.
    pub due: Vec<PreparedReceipts>,
    /// How long until the next look.
    pub next: Option<Duration>,
}

impl Store {
    /// Receipts whose messages are to be looked for now.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn waiting_receipts(&self) -> VerbFuture<'_, WaitingReceipts> {
        self.read((), |tx, ()| Box::pin(waiting(tx)))
    }
}

async fn waiting(tx: &mut Tx) -> Result<WaitingReceipts> {
    let now = tx.now().await?;
    let limit = i64::try_from(RECEIPTS_LOOKED_AT).unwrap_or(i64::MAX);
    let rows = tx.query(DUE, params![now, limit]).await?;
    if rows.is_empty() {
        let next = tx.first(NEXT, &[]).await?.map(|row| row.maybe_time(0)).transpose()?.flatten();
        return Ok(WaitingReceipts { due: Vec::new(), next: next.map(|next| next.since(now)) });
    }
    let mut by: BTreeMap<(String, String), PreparedReceipts> = BTreeMap::new();
    for row in &rows {
        let (provider, channels) = (row.text(1)?, row.text(2)?);
        let known = serde_json::from_str(&channels).map_err(|error| Error::Database(error.into()))?;
        let prepared = by.entry((provider.clone(), channels)).or_insert_with(|| PreparedReceipts {
            batch: ReceiptBatch { provider, channels: known, receipts: Vec::new() },
            ..PreparedReceipts::default()
        });
        prepared.batch.receipts.push(read(row)?);
        prepared.waited.push((row.int(0)?, row.time(10)?));
    }
    Ok(WaitingReceipts { due: by.into_values().collect(), next: Some(Duration::ZERO) })
}

statements! {
    const DUE = "
        select id, provider, channels, message_id, address, status, said, error, event_id, occurred_at,
            received_at
        from punctual.early_receipt
        where look_at <= $1
        order by look_at
        limit $2
    ";

    const NEXT = "
        select min(look_at)
        from punctual.early_receipt
    ";
}

fn read(row: &Row) -> Result<Receipt> {
    let word = row.text(5)?;
    let status = ReceiptStatus::from_word(&word)
        .ok_or_else(|| Error::Database(format!("`{word}` is no word of a receipt").into()))?;
    Ok(Receipt {
        message_id: row.maybe_text(3)?,
        address: row.maybe_text(4)?,
        status,
        said: row.text(6)?,
        error: row.maybe_text(7)?,
        event_id: row.maybe_text(8)?,
        // A receipt that says no time happened before it was received, however long it waited here.
        occurred_at: Some(row.maybe_time(9)?.map_or_else(|| row.time(10), Ok)?),
    })
}

/// Whether an unknown message may become known soon: a claim of deliveries is open.
pub(crate) async fn may_come(tx: &mut Tx) -> Result<bool> {
    Ok(tx.first(SENDING, &[]).await?.is_some())
}

statements! {
    const SENDING = "
        select 1
        from punctual.claim
        where finished_at is null and purpose = 'send'
        limit 1
    ";
}

/// Keeps receipts without a message, given by their places in the batch, and forgets those that had waited
/// and are through; returns the receipts that are not kept any longer.
pub(crate) async fn keep<'h>(
    tx: &mut Tx,
    prepared: &'h PreparedReceipts,
    missing: &[usize],
    may_come: bool,
    now: Timestamp,
) -> Result<Vec<&'h Receipt>> {
    let mut through: BTreeMap<usize, i64> = prepared.waited.iter().map(|(id, _)| *id).enumerate().collect();
    let room = !missing.is_empty() && prepared.waited.is_empty() && may_come && has_room(tx).await?;
    let mut unmatched = Vec::new();
    for n in missing {
        let Some(receipt) = prepared.batch.receipts.get(*n) else { continue };
        let waited = prepared.waited.get(*n).map(|(id, since)| (*id, next_lookup_delay(now.since(*since))));
        match waited {
            Some((id, Some(wait))) => {
                through.remove(n);
                tx.execute(LATER, params![id, now.plus(wait)]).await?;
            }
            None if room => write(tx, prepared, receipt, now).await?,
            _ => unmatched.push(receipt),
        }
    }
    let through: Vec<i64> = through.into_values().collect();
    if !through.is_empty() {
        tx.execute(FORGET, &[Value::Ints(&through)]).await?;
    }
    Ok(unmatched)
}

async fn has_room(tx: &mut Tx) -> Result<bool> {
    let most = i64::try_from(RECEIPTS_WAITING_MAX).unwrap_or(i64::MAX);
    Ok(tx.first(FULL, params![most]).await?.is_none())
}

async fn write(tx: &mut Tx, prepared: &PreparedReceipts, receipt: &Receipt, now: Timestamp) -> Result<()> {
    let key = receipt.dedup_key();
    let channels = serde_json::json!(prepared.batch.channels).to_string();
    let row = params![
        &prepared.batch.provider,
        &channels,
        key.as_deref(),
        receipt.message_id.as_deref(),
        receipt.address.as_deref(),
        receipt.status.word(),
        &receipt.said,
        receipt.error.as_deref(),
        receipt.event_id.as_deref(),
        now,
        now.plus(RECEIPT_LOOK_MIN),
        receipt.occurred_at
    ];
    tx.execute(KEEP, row).await?;
    Ok(())
}

statements! {
    const FULL = "
        select 1
        from punctual.early_receipt
        order by look_at
        limit 1
        offset $1
    ";

    const KEEP = "
        insert into punctual.early_receipt (
            provider, channels, key, message_id, address, status, said, error, event_id, received_at,
            look_at, occurred_at
        )
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
        on conflict (key, provider) do nothing
    ";

    const LATER = "
        update punctual.early_receipt
        set look_at = $2
        where id = $1
    ";

    const FORGET = "
        delete from punctual.early_receipt
        where id = any($1::bigint[])
    ";
}
