//! Records receipts of providers, and looks again for messages that were not known yet.
//!
//! The delivery that replaces a message that did not arrive is planned first, from its delivery, which never
//! changes in that respect; one transaction then records the whole batch. The loop sleeps until the next look
//! is due; a lost wake-up only delays it.

use crate::base::error::Result;
use crate::base::limits::RECEIPT_LOOK_MIN;
use crate::delivery::rules::receipt::Receipt;
use crate::delivery::run::context::DeliveryContext;
use crate::delivery::run::gauge;
use crate::delivery::store::receipts::{PreparedReceipts, ReceiptBatch, ReceiptOutcome};
use crate::queue::run::loop_health::LoopBody;
use std::sync::Arc;
use std::time::Duration;

/// Records a batch of receipts.
///
/// # Errors
/// When the database does not answer; nothing was recorded then, and the provider repeats its callback.
pub async fn record(context: &DeliveryContext, mut batch: ReceiptBatch) -> Result<ReceiptOutcome> {
    batch.receipts = batch.receipts.into_iter().map(Receipt::sanitize).collect();
    let outcome =
        prepare_and_record(context, PreparedReceipts { batch, ..PreparedReceipts::default() }).await?;
    if outcome.waiting > 0 {
        context.worker.wake.receipts();
    }
    Ok(outcome)
}

async fn prepare_and_record(
    context: &DeliveryContext,
    mut prepared: PreparedReceipts,
) -> Result<ReceiptOutcome> {
    let provider = prepared.batch.provider.clone();
    let has_other = |key: &String| context.policy(key).fallback.is_some();
    let failures = prepared.batch.receipts.iter().filter(|receipt| receipt.status.is_failure());
    let failed: Vec<String> = failures.filter_map(|receipt| receipt.message_id.clone()).collect();
    if !failed.is_empty() && prepared.batch.channels.iter().any(has_other) {
        let deliveries = context.store().reported_deliveries(prepared.batch.channels.clone(), failed).await?;
        prepared.fallbacks = context.kinds.fallbacks(context, deliveries).await?;
    }
    let outcome = context.store().record_receipts(prepared).await?;
    gauge::receipts(&provider, &outcome);
    if outcome.sends {
        context.worker.wake.all();
    }
    Ok(outcome)
}

/// The loop that looks for messages of receipts that came early.
#[derive(Debug)]
pub struct EarlyReceipts {
    context: Arc<DeliveryContext>,
    poll: Duration,
    next: Duration,
}

impl EarlyReceipts {
    /// A loop that looks at least every `poll`.
    #[must_use]
    pub const fn new(context: Arc<DeliveryContext>, poll: Duration) -> Self {
        Self { context, poll, next: poll }
    }

    /// Looks for all messages that are to be looked for by now; returns the total result.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn look_up_all(&mut self) -> Result<ReceiptOutcome> {
        let mut all = ReceiptOutcome::default();
        loop {
            let waiting = self.context.store().waiting_receipts().await?;
            if waiting.due.is_empty() {
                self.next = waiting.next.unwrap_or(self.poll);
                return Ok(all);
            }
            for prepared in waiting.due {
                all.add(prepare_and_record(&self.context, prepared).await?);
            }
        }
    }
}

impl LoopBody for EarlyReceipts {
    async fn tick(&mut self) -> Result<()> {
        self.look_up_all().await.map(|_| ())
    }

    async fn wait(&mut self) {
        let due = tokio::time::sleep(self.next.clamp(Duration::from_millis(50), self.poll));
        let notified = async {
            tokio::time::sleep(RECEIPT_LOOK_MIN).await;
            self.context.worker.wake.wait_for_receipts().await;
        };
        tokio::select! {
            () = due => {}
            () = notified => {}
        }
    }
}
