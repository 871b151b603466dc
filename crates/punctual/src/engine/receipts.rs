//! What providers tell later about messages.

use crate::database::tx::VerbFuture;
use crate::delivery::run::receipts::hear;
use crate::delivery::store::receipts::{Learned, News};
use crate::engine::Engine;

impl Engine {
    /// Hears what a provider told in a callback that was verified: deliveries, notifications and suppressions
    /// follow in one transaction, and what comes twice changes nothing. A receipt whose message is still
    /// being sent is kept until that is written down.
    ///
    /// # Errors
    /// When the database does not answer. After [`Error::Unknown`](crate::Error::Unknown) the receipts may
    /// have been stored; hearing them again is safe.
    pub fn hear_receipts(&self, news: News) -> VerbFuture<'_, Learned> {
        VerbFuture::new(async move {
            let learned = hear(&self.inner.delivery, news).await?;
            if learned.sends && self.is_silent() {
                self.store().notify().await.ok();
            }
            Ok(learned)
        })
    }
}
