//! The later reports of providers about messages.

use crate::database::tx::VerbFuture;
use crate::delivery::run::receipts::record;
use crate::delivery::store::receipts::{ReceiptBatch, ReceiptOutcome};
use crate::engine::Engine;

impl Engine {
    /// Records the receipts of a verified callback: deliveries, notifications and suppressions follow in one
    /// transaction, and a repeated receipt changes nothing. A receipt whose message is still being sent is
    /// kept until the send is stored.
    ///
    /// # Errors
    /// When the database does not answer. After [`Error::Unknown`](crate::Error::Unknown) the receipts may
    /// have been stored; recording them again is safe.
    pub fn record_receipts(&self, batch: ReceiptBatch) -> VerbFuture<'_, ReceiptOutcome> {
        VerbFuture::new(async move {
            let outcome = record(&self.inner.delivery, batch).await?;
            if outcome.sends && self.is_silent() {
                self.store().notify().await.ok();
            }
            Ok(outcome)
        })
    }
}
