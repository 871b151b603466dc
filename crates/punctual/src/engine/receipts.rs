//! What providers tell later about messages.

use super::Engine;
use crate::base::error::Result;
use crate::run::receipts::hear;
use crate::store::receipts::{Learned, News};

impl Engine {
    /// Hears what a provider told in a callback that was verified: deliveries, notices and suppressions
    /// follow in one transaction, and what comes twice changes nothing. A receipt whose message is still
    /// being sent is kept until that is written down.
    ///
    /// # Errors
    /// When the database does not answer; nothing was heard then.
    pub async fn hear_receipts(&self, news: News) -> Result<Learned> {
        let learned = hear(&self.inner.post, news).await?;
        if learned.sends && self.is_silent() {
            self.store().notify().await.ok();
        }
        Ok(learned)
    }
}
