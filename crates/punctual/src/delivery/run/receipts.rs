//! Receipts: hears what providers tell, and looks again for messages that were not known yet.
//!
//! What is sent in the place of a message that did not arrive is worked out first, from what its delivery
//! says, and that never changes; one transaction then hears all of it. The loop sleeps until the next look
//! is due; a lost wake-up only delays it.

use crate::base::error::Result;
use crate::base::limits::RECEIPT_LOOK_MIN;
use crate::delivery::rules::receipt::Receipt;
use crate::delivery::run::context::DeliveryContext;
use crate::delivery::run::gauge;
use crate::delivery::store::receipts::{Hearing, Learned, News};
use crate::queue::run::pulse::Ticks;
use std::sync::Arc;
use std::time::Duration;

/// Hears news.
///
/// # Errors
/// When the database does not answer; nothing was heard then, and the provider tells it again.
pub async fn hear(context: &DeliveryContext, mut news: News) -> Result<Learned> {
    news.receipts = news.receipts.into_iter().map(Receipt::fit_to_keep).collect();
    let learned = take_in(context, Hearing { news, ..Hearing::default() }).await?;
    if learned.waiting > 0 {
        context.worker.wake.receipts();
    }
    Ok(learned)
}

async fn take_in(context: &DeliveryContext, mut hearing: Hearing) -> Result<Learned> {
    let provider = hearing.news.provider.clone();
    let has_other = |key: &String| context.policy(key).fallback.is_some();
    let failures = hearing.news.receipts.iter().filter(|receipt| receipt.status.is_failure());
    let failed: Vec<String> = failures.filter_map(|receipt| receipt.message_id.clone()).collect();
    if !failed.is_empty() && hearing.news.channels.iter().any(has_other) {
        let deliveries = context.store().reported_deliveries(hearing.news.channels.clone(), failed).await?;
        hearing.instead = context.kinds.fallbacks(context, deliveries).await?;
    }
    let learned = context.store().hear_receipts(hearing).await?;
    gauge::receipts(&provider, &learned);
    if learned.sends {
        context.worker.wake.all();
    }
    Ok(learned)
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

    /// Looks for all messages that are to be looked for by now; answers what was learned.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn look_all(&mut self) -> Result<Learned> {
        let mut all = Learned::default();
        loop {
            let waiting = self.context.store().waiting_receipts().await?;
            if waiting.due.is_empty() {
                self.next = waiting.next.unwrap_or(self.poll);
                return Ok(all);
            }
            for hearing in waiting.due {
                all.add(take_in(&self.context, hearing).await?);
            }
        }
    }
}

impl Ticks for EarlyReceipts {
    async fn tick(&mut self) -> Result<()> {
        self.look_all().await.map(|_| ())
    }

    async fn wait(&mut self) {
        let due = tokio::time::sleep(self.next.clamp(Duration::from_millis(50), self.poll));
        let told = async {
            tokio::time::sleep(RECEIPT_LOOK_MIN).await;
            self.context.worker.wake.receipts_wait().await;
        };
        tokio::select! {
            () = due => {}
            () = told => {}
        }
    }
}
