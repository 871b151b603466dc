//! Leases shares of channels' limits, and renews them while they are used.
//!
//! A share is leased before the first send by a channel and renewed three times a second after that, until
//! nothing was sent by it for a few seconds. A process that cannot renew stops sending by the channel when
//! its lease is over.

use crate::base::clock::monotonic;
use crate::base::error::Result;
use crate::base::random;
use crate::delivery::run::channel_limiter::ChannelLimiter;
use crate::delivery::run::context::DeliveryContext;
use crate::delivery::store::channel_shares::ShareRequest;
use crate::queue::run::loop_health::LoopBody;
use std::sync::Arc;
use std::time::Duration;

/// Shares are looked at this often.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

/// The name under which this process holds shares.
#[derive(Debug)]
pub struct ShareHolder(String);

impl ShareHolder {
    /// Makes a name that no other process has.
    #[must_use]
    pub fn fresh() -> Self {
        Self(random::hex::<12>())
    }
}

impl DeliveryContext {
    /// Leases shares of these channels where this process has none, before it claims.
    pub(crate) async fn lease_shares<'c>(&self, channels: impl Iterator<Item = &'c String>) {
        if !self.limiters.has_shares() {
            return;
        }
        for channel in channels {
            let limiter = self.limiters.of(channel);
            limiter.note_demand();
            self.renew_share(channel, &limiter).await;
        }
    }

    /// Renews the shares that are in use.
    pub(crate) async fn renew_shares(&self) {
        for (channel, limiter) in self.limiters.all() {
            self.renew_share(&channel, &limiter).await;
        }
    }

    /// A share that cannot be renewed ends with its lease; everything else goes on.
    async fn renew_share(&self, channel: &str, limiter: &ChannelLimiter) {
        let Some(_turn) = limiter.renewal_turn() else { return };
        let Some(wanted) = limiter.share_wanted() else { return };
        let request = ShareRequest {
            channel: channel.to_owned(),
            holder: self.share_holder.0.clone(),
            limit: wanted.limits,
            settled: wanted.settled,
            in_flight: wanted.in_flight,
        };
        let asked = monotonic();
        match self.store().lease_share(request).await {
            Ok(Some(amounts)) => limiter.use_share(amounts, asked),
            // Another process is at it.
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(target: "punctual", channel, %error, "a channel's share was not renewed");
            }
        }
    }

    /// Gives the shares of this process to the others.
    pub(crate) async fn release_shares(&self) {
        if !self.limiters.has_shares() {
            return;
        }
        for (_, limiter) in self.limiters.all() {
            limiter.drop_share();
        }
        // If this fails, they end with their leases.
        self.store().release_shares(self.share_holder.0.clone()).await.ok();
    }
}

/// The loop that renews shares.
#[derive(Debug)]
pub struct ShareRenewal(Arc<DeliveryContext>);

impl ShareRenewal {
    /// Renews the shares of a process.
    #[must_use]
    pub const fn new(context: Arc<DeliveryContext>) -> Self {
        Self(context)
    }
}

impl LoopBody for ShareRenewal {
    async fn tick(&mut self) -> Result<()> {
        self.0.renew_shares().await;
        Ok(())
    }

    async fn wait(&mut self) {
        tokio::time::sleep(LOOK_PAUSE).await;
    }
}
