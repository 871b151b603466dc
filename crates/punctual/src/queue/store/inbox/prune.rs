//! The end of inbox messages: each is forgotten when its retention after the last attempt is over.
//!
//! A pass deletes a bounded number of rows with each status, so that no transaction is long.
//!
//! Not promised: that a message is forgotten at once when its retention ends; a loop prunes now and then.

use crate::base::error::Result;
use crate::base::limits;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::{Tx, VerbFuture};
use crate::database::value::params;
use crate::queue::rules::inbox::InboxStatus;
use std::time::Duration;

/// How long the inbox remembers a message after its last attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InboxRetention {
    /// Processed messages, and failed ones, which wait for another delivery.
    pub finished: Duration,
    /// Dead messages, which wait for an operator's replay.
    pub dead: Duration,
}

impl InboxRetention {
    const fn of(&self, status: InboxStatus) -> Duration {
        if matches!(status, InboxStatus::Dead) { self.dead } else { self.finished }
    }
}

impl Store {
    /// Forgets a bounded number of messages with each status whose last attempt ended before their retention;
    /// returns how many. A message in progress is never forgotten.
    pub fn prune_inbox(&self, retention: InboxRetention) -> VerbFuture<'_, u64> {
        self.write(retention, |tx, retention| Box::pin(prune(tx, *retention)))
    }
}

async fn prune(tx: &mut Tx, retention: InboxRetention) -> Result<u64> {
    let now = tx.now().await?;
    let limit = i64::try_from(limits::PRUNE_ROWS).unwrap_or(1_000);
    let mut forgotten = 0;
    for status in [InboxStatus::Processed, InboxStatus::Failed, InboxStatus::Dead] {
        let before = now.minus(retention.of(status));
        forgotten += tx.execute(PRUNE, params![status.word(), before, limit]).await?;
    }
    Ok(forgotten)
}

statements! {
    /// A failed message may be taken for its next attempt at this moment: the row is locked, and asked again.
    const PRUNE = "
        delete from punctual.inbox
        where status = $1
            and finished_at < $2
            and id in (
                select id
                from punctual.inbox
                where status = $1 and finished_at < $2
                order by finished_at
                limit $3
                for update skip locked
            )
    ";
}
