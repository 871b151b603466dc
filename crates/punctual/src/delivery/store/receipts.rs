//! Receipts: the later reports of providers, recorded in one transaction.
//!
//! [`Store::record_receipts`] finds the delivery of each by the id that the provider gave one of its tries,
//! and only among the channels whose callback was verified: a message of another channel cannot be touched.
//! Each receipt passes the inbox of the delivery's tenant, so that a repeated receipt changes nothing; then
//! it is stored (`receipt`, never changed), and the delivery, its notification and the suppression of its
//! address follow, as `delivery/rules/receipt.rs` says. A message that a provider gave up may go by another
//! channel.
//!
//! A provider may be faster than the commit of its own answer. Then its receipt waits ([`early_receipts`])
//! and is looked at again. That is only possible while a claim of deliveries is open: the open claim is
//! queried first, so an outcome that commits in between is found.
//!
//! A receipt about an address alone (a STOP) applies to every tenant that has written to the address by one
//! of these channels; if none has, to the only tenant that uses the channels, if there is just one.

pub mod early_receipts;
mod find;

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::{DeliveryId, EntryId};
use crate::base::tenant::Tenant;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::Tx;
use crate::database::tx::VerbFuture;
use crate::database::value::params;
use crate::delivery::rules::consent::{ConsentScope, SuppressionReason, channel_kind};
use crate::delivery::rules::delivery::{DeliveryStatus, PlannedDelivery};
use crate::delivery::rules::receipt::{Receipt, ReceiptStatus, after};
use crate::delivery::store::consent::suppressions;
use crate::delivery::store::consent::{NewSuppression, SuppressionFilter};
use crate::delivery::store::deliveries::delivery::Delivery;
use crate::delivery::store::deliveries::settle::{FailedDelivery, Replacement, replace};
use crate::delivery::store::entries::counts::{CountChange, change_counts};
use crate::delivery::store::receipts::find::ReceiptDelivery;
use crate::queue::rules::attempt::kept_error;
use crate::queue::store::inbox;
use std::collections::{BTreeMap, HashMap};

/// The receipts of one callback of a provider.
#[derive(Clone, Debug, Default)]
pub struct ReceiptBatch {
    /// The provider's name.
    pub provider: String,
    /// The channels whose secrets the callback was verified with.
    pub channels: Vec<String>,
    /// The receipts, in the provider's order.
    pub receipts: Vec<Receipt>,
}

/// A batch of receipts, with the deliveries that replace messages that did not arrive.
#[derive(Clone, Debug, Default)]
pub struct PreparedReceipts {
    /// The receipts.
    pub batch: ReceiptBatch,
    /// The delivery for another channel, by the delivery that it replaces if that one has failed.
    pub fallbacks: HashMap<DeliveryId, PlannedDelivery>,
    /// The numbers of receipts that waited before, and the time since when: one for each receipt, or none.
    pub waited: Vec<(i64, Timestamp)>,
}

/// The result of recording receipts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceiptOutcome {
    /// Receipts that were new, by their status.
    pub new: Vec<ReceiptStatus>,
    /// Receipts that had been recorded before.
    pub repeated: usize,
    /// Receipts whose message may be known soon.
    pub waiting: usize,
    /// Receipts whose message or address is unknown.
    pub unknown: usize,
    /// Whether something is to be sent now.
    pub sends: bool,
}

impl ReceiptOutcome {
    /// Adds the result of another batch.
    pub fn add(&mut self, other: Self) {
        self.new.extend(other.new);
        self.repeated += other.repeated;
        self.waiting += other.waiting;
        self.unknown += other.unknown;
        self.sends |= other.sends;
    }
}

impl Store {
    /// Records the receipts of a batch: all of them, or none.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn record_receipts(&self, prepared: PreparedReceipts) -> VerbFuture<'_, ReceiptOutcome> {
        self.write(prepared, |tx, prepared| Box::pin(record(tx, prepared)))
    }

    /// Finds the deliveries of these channels that have these ids of the provider.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn reported_deliveries(
        &self,
        channels: Vec<String>,
        message_ids: Vec<String>,
    ) -> VerbFuture<'_, Vec<Delivery>> {
        self.read((channels, message_ids), |tx, (channels, ids)| {
            Box::pin(find::deliveries(tx, channels, ids))
        })
    }
}

/// The changes of one batch so far.
struct ReceiptChanges<'a> {
    prepared: &'a PreparedReceipts,
    now: Timestamp,
    source: String,
    outcome: ReceiptOutcome,
    changes: BTreeMap<EntryId, CountChange>,
    given_up: Vec<(ReceiptDelivery, &'a PlannedDelivery)>,
}

async fn record(tx: &mut Tx, prepared: &PreparedReceipts) -> Result<ReceiptOutcome> {
    let now = tx.now().await?;
    // Before the look for messages: see the top of this file.
    let may_come = early_receipts::may_come(tx).await?;
    let mut found = find::found(tx, &prepared.batch).await?;
    let source = format!("receipts:{}", prepared.batch.provider);
    let (outcome, changes, given_up) = (ReceiptOutcome::default(), BTreeMap::new(), Vec::new());
    let mut session = ReceiptChanges { prepared, now, source, outcome, changes, given_up };
    let mut missing = Vec::new();
    for (n, receipt) in prepared.batch.receipts.iter().enumerate() {
        match receipt.message_id.as_ref().map(|id| found.get_mut(id.as_str())) {
            Some(Some(of)) => session.record_for_delivery(tx, of, receipt).await?,
            Some(None) => missing.push(n),
            None => session.record_for_address(tx, receipt).await?,
        }
    }
    session.finish(tx).await?;
    let unmatched = early_receipts::keep(tx, prepared, &missing, may_come, now).await?;
    session.outcome.waiting = missing.len() - unmatched.len();
    for receipt in unmatched {
        session.record_for_address(tx, receipt).await?;
    }
    Ok(session.outcome)
}

impl ReceiptChanges<'_> {
    /// Records a receipt about a delivery.
    async fn record_for_delivery(
        &mut self,
        tx: &mut Tx,
        of: &mut ReceiptDelivery,
        receipt: &Receipt,
    ) -> Result<()> {
        if !self.is_new(tx, of.tenant, receipt).await? {
            return Ok(());
        }
        let error = receipt.error.as_deref().map(kept_error);
        let row = params![
            of.tenant.id(),
            of.id.0,
            self.now,
            receipt.status.word(),
            &receipt.said,
            error.as_deref()
        ];
        tx.execute(WRITE, row).await?;
        self.consent(tx, of.tenant, &of.address, receipt).await?;
        // The outcome of an earlier try says nothing about the last one.
        if !of.is_latest {
            return Ok(());
        }
        let Some(stands) = after(of.status, receipt.status) else { return Ok(()) };
        let said = (stands == DeliveryStatus::Failed).then(|| failed_as(receipt));
        tx.execute(STANDS, params![of.id.0, stands.code(), said.as_deref()]).await?;
        let was = std::mem::replace(&mut of.status, stands);
        let change = self.changes.entry(of.entry).or_default();
        change.sent += counts_as_sent(stands) - counts_as_sent(was);
        change.failed += counts_as_sent(was) - counts_as_sent(stands);
        if stands == DeliveryStatus::Failed {
            change.error = said;
            self.give_up(of);
        }
        Ok(())
    }

    /// Gives up a delivery that did not arrive after all: another channel may take its place.
    fn give_up(&mut self, of: &ReceiptDelivery) {
        let stopped = |receipt: &Receipt| {
            receipt.status == ReceiptStatus::Stopped && receipt.message_id.as_ref() == Some(&of.provider_id)
        };
        // A recipient who opted out of this channel is not written to by another, nor is one who has
        // answered.
        let instead = self.prepared.fallbacks.get(&of.id).filter(|_| !of.has_ended);
        if let Some(planned) = instead.filter(|_| !self.prepared.batch.receipts.iter().any(stopped)) {
            self.given_up.push((of.clone(), planned));
        }
    }

    /// Records a receipt about an address alone, or about an unknown message.
    async fn record_for_address(&mut self, tx: &mut Tx, receipt: &Receipt) -> Result<()> {
        let matters = receipt.status.suppresses().is_some() || receipt.status == ReceiptStatus::Resumed;
        let tenants = match receipt.address.as_deref().filter(|_| matters) {
            Some(address) => find::writers(tx, &self.prepared.batch.channels, address).await?,
            None => Vec::new(),
        };
        self.outcome.unknown += usize::from(tenants.is_empty());
        let address = receipt.address.as_deref().unwrap_or_default();
        // Remembered even where it concerns no tenant yet.
        self.lifts_before(tx, receipt).await?;
        for tenant in &tenants {
            if self.is_new(tx, *tenant, receipt).await? {
                self.consent(tx, *tenant, address, receipt).await?;
            }
        }
        Ok(())
    }

    async fn is_new(&mut self, tx: &mut Tx, tenant: Tenant, receipt: &Receipt) -> Result<bool> {
        let new = match receipt.dedup_key() {
            Some(key) => inbox::admit(tx, tenant, &self.source, &key).await?,
            None => true,
        };
        if new {
            self.outcome.new.push(receipt.status);
        } else {
            self.outcome.repeated += 1;
        }
        Ok(new)
    }

    /// Stores or lifts the suppression of an address.
    async fn consent(&self, tx: &mut Tx, tenant: Tenant, address: &str, receipt: &Receipt) -> Result<()> {
        let channel = self.prepared.batch.channels.first().map(|key| channel_kind(key));
        let by = format!("receipt of {}", self.prepared.batch.provider);
        if let Some(reason) = receipt.status.suppresses() {
            let scope = ConsentScope { channel, kind: None };
            let told_at = Some(receipt.occurred_by(self.now));
            let new = NewSuppression { address: address.to_owned(), scope, reason, by, told_at };
            suppressions::suppress(tx, tenant, &new).await?;
            return Ok(());
        }
        let Some(told_before) = self.lifts_before(tx, receipt).await? else { return Ok(()) };
        let (address, kind, reason) =
            (Some(address.to_owned()), Some(String::new()), Some(SuppressionReason::Stop));
        let stopped = SuppressionFilter { address, channel, kind, reason, lifted: false };
        suppressions::lift(tx, tenant, &stopped, Some(told_before), &by).await?;
        Ok(())
    }

    /// Returns the time before which an opt-out must have been reported to be lifted by this receipt.
    ///
    /// A resumption with an id is remembered for every tenant and without end, because an opt-out has no end
    /// either: the same resumption posted again counts from when it was first received.
    async fn lifts_before(&self, tx: &mut Tx, receipt: &Receipt) -> Result<Option<Timestamp>> {
        let Some(before) = receipt.lifts_before(self.now) else { return Ok(None) };
        let Some(key) = receipt.event_id.as_ref().and_then(|_| receipt.dedup_key()) else {
            return Ok(Some(before));
        };
        tx.execute(REMEMBER, params![&self.source, &key, receipt.occurred_by(self.now)]).await?;
        let row = tx.first(REMEMBERED, params![&self.source, &key]).await?;
        let first = row.map(|row| row.time(0)).transpose()?.filter(|first| *first < self.now);
        Ok(Some(first.unwrap_or(before)))
    }

    /// Writes the replacements by other channels, and the counts of notifications.
    async fn finish(&mut self, tx: &mut Tx) -> Result<()> {
        let given_up: Vec<FailedDelivery<'_>> = self
            .given_up
            .iter()
            .map(|(of, planned)| FailedDelivery {
                id: of.id,
                entry: of.entry,
                kind: of.kind,
                tenant: of.tenant,
                held: of.held,
                planned,
            })
            .collect();
        let replaced = replace(tx, &given_up, &mut HashMap::new(), self.now).await?;
        for (of, _) in &self.given_up {
            // Where another channel has its place, it has not failed; there may be one more to wait for.
            let Some(instead) = replaced.get(&of.id) else { continue };
            let change = self.changes.entry(of.entry).or_default();
            change.failed -= 1;
            // A survey counts what it has sent, not what waits.
            let waits = *instead == Replacement::New && !of.kind.has_timetable();
            change.open += i64::from(waits);
            self.outcome.sends |= *instead == Replacement::New;
        }
        change_counts(tx, &self.changes, self.now).await
    }
}

/// Whether a notification counts a delivery that stands so among those that were sent; else it failed.
fn counts_as_sent(stands: DeliveryStatus) -> i64 {
    i64::from(matches!(stands, DeliveryStatus::Sent | DeliveryStatus::Delivered))
}

/// Returns the error that is stored for a delivery that did not arrive.
fn failed_as(receipt: &Receipt) -> String {
    let said = receipt.error.as_deref().unwrap_or(&receipt.said);
    let how = if receipt.status == ReceiptStatus::Bounced { "bounced" } else { "did not arrive" };
    kept_error(&format!("the provider says that it {how}: {said}"))
}

statements! {
    const REMEMBER = "
        insert into punctual.resumption (source, key, at)
        values ($1, $2, $3)
        on conflict do nothing
    ";

    const REMEMBERED = "
        select at
        from punctual.resumption
        where source = $1 and key = $2
    ";

    const WRITE = "
        insert into punctual.receipt (tenant_id, delivery_id, at, status, said, error)
        values ($1, $2, $3, $4, $5, $6)
    ";

    const STANDS = "
        update punctual.delivery
        set status = $2, error = $3, version = version + 1
        where id = $1
    ";
}
