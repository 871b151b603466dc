//! Which deliveries may be begun as they are written.

use crate::delivery::rules::send_capacity::SendCapacity;
use crate::delivery::run::context::DeliveryContext;
use crate::delivery::store::deliveries::begin::BeginRequest;
use crate::queue::rules::purpose::Purpose;
use crate::queue::run::database_clock::DatabaseClock;
use crate::queue::run::executor::WorkRound;
use std::collections::HashSet;

/// Claims of deliveries that are begun with the entries that one claim of events comes to.
const BEGUN_MAX: usize = 2;

/// Allows deliveries to be begun as they are written: none by channels for which something waits, which goes
/// first.
#[derive(Debug)]
pub(crate) struct BeginAllowance {
    /// So many claims at most.
    claims: usize,
    /// Deliveries in each.
    batch: usize,
    /// Channels for which something waits, of whichever tenant: they share a limiter.
    awaited: HashSet<String>,
    clock: DatabaseClock,
}

impl BeginAllowance {
    /// Returns the allowance of one turn of an executor.
    pub(crate) fn of(round: &WorkRound<'_>) -> Self {
        let waiting = round.ready.values().filter(|lane| lane.purpose == Purpose::Send);
        Self {
            claims: if round.in_turn { 1 } else { BEGUN_MAX },
            batch: round.batch,
            awaited: waiting.map(|lane| lane.topic.clone()).collect(),
            clock: round.clock,
        }
    }

    /// The room that these channels have in this process.
    pub(crate) fn start<'c>(
        &self,
        context: &DeliveryContext,
        channels: impl Iterator<Item = &'c String>,
    ) -> BeginRequest {
        let mut room =
            SendCapacity { messages: self.claims.saturating_mul(self.batch), ..SendCapacity::default() };
        let now = self.clock.now();
        for channel in channels {
            if room.by_channel.contains_key(channel) || self.awaited.contains(channel) {
                continue;
            }
            let here = context.channels.get(channel).is_some();
            let items = if here { context.limiters.of(channel).room(now) } else { 0 };
            room.by_channel.insert(channel.clone(), items);
        }
        let terms = context.send_terms(room.by_channel.keys());
        let (owner, lease) = (context.worker.owner.clone(), context.worker.lease);
        BeginRequest { owner, lease, batch: self.batch, room, terms }
    }
}
