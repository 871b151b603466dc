//! Group commit: single messages that are enqueued at the same time are written together.
//!
//! A commit costs the same for one message and for a hundred. On SQLite the writer's own thread takes all
//! that wait when their turn comes (see `writer_group`). Elsewhere callers hand their message to one task,
//! which writes all that wait as one batch and answers each caller after the commit. Messages of one batch
//! stand or fall together: they were checked before, so only the database can fail, and that fails for all.

#[cfg(feature = "sqlite")]
mod writer_group;

use crate::base::error::{Error, Result};
use crate::base::limits;
use crate::base::tenant::Tenant;
use crate::database::store::Store;
use crate::queue::rules::message::NewMessage;
use crate::queue::store::messages::{Batch, EnqueueOutcome};
use std::collections::BTreeMap;
use std::sync::OnceLock;
use tokio::sync::{mpsc, oneshot};

/// The turns that the callers of one group get to enqueue again before the next group is written.
const PATIENCE_TURNS: usize = 16;

/// Buffers single enqueues so that they share one commit. The task starts on first use.
#[derive(Debug, Default)]
pub(crate) struct GroupCommit {
    sender: OnceLock<mpsc::UnboundedSender<PendingEnqueue>>,
    #[cfg(feature = "sqlite")]
    group: std::sync::Arc<writer_group::PendingGroup>,
}

#[derive(Debug)]
struct PendingEnqueue {
    tenant: Tenant,
    message: NewMessage,
    reply: oneshot::Sender<Result<EnqueueOutcome>>,
}

impl Store {
    /// Writes one message, together with others that come at the same time.
    pub(crate) async fn enqueue_grouped(
        &self,
        tenant: Tenant,
        message: NewMessage,
    ) -> Result<EnqueueOutcome> {
        let (reply, answer) = oneshot::channel();
        let single = PendingEnqueue { tenant, message, reply };
        #[cfg(feature = "sqlite")]
        #[allow(irrefutable_let_patterns, reason = "refutable with the postgres feature")]
        if let crate::database::store::Backend::Sqlite(db) = &self.backend {
            return self.enqueue_through_writer(db, single, answer).await;
        }
        let pending = self.part::<GroupCommit>();
        let sender = pending.sender.get_or_init(|| start_task(self.alone()));
        if let Err(back) = sender.send(single) {
            // The task's runtime is gone; this caller's is not.
            let mut alone = self.enqueue_plain(tenant, vec![back.0.message]).await?;
            return alone.pop().ok_or_else(|| Error::Database("a message was not written".into()));
        }
        // The task that had the message may have committed it.
        answer.await.map_err(|e| Error::Unknown(e.into()))?
    }
}

fn start_task(store: Store) -> mpsc::UnboundedSender<PendingEnqueue> {
    let (sender, receiver) = mpsc::unbounded_channel();
    tokio::spawn(receive(store, receiver));
    sender
}

async fn receive(store: Store, mut receiver: mpsc::UnboundedReceiver<PendingEnqueue>) {
    let mut waiting = Vec::new();
    while receiver.recv_many(&mut waiting, limits::CLAIM_ITEMS_MAX).await > 0 {
        let group = waiting.len();
        for (tenant, party) in group_by_tenant(waiting.drain(..)) {
            let written = store.enqueue_plain(tenant, party.batch.messages).await;
            send_replies(written, party.replies);
        }
        // The callers just answered are about to ask again: they go first, and join.
        for _ in 0..PATIENCE_TURNS {
            if group == 1 || receiver.len() >= group {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
}

/// The callers of one tenant, whose messages are written as one batch.
#[derive(Debug)]
struct TenantBatch {
    batch: Batch,
    replies: Vec<oneshot::Sender<Result<EnqueueOutcome>>>,
}

fn group_by_tenant(singles: impl Iterator<Item = PendingEnqueue>) -> BTreeMap<Tenant, TenantBatch> {
    let mut all: BTreeMap<Tenant, TenantBatch> = BTreeMap::new();
    for PendingEnqueue { tenant, message, reply } in singles {
        let new = || TenantBatch { batch: Batch { tenant, messages: Vec::new() }, replies: Vec::new() };
        let party = all.entry(tenant).or_insert_with(new);
        party.batch.messages.push(message);
        party.replies.push(reply);
    }
    all
}

/// A caller that went away does not want the answer; its message stands.
fn send_replies(result: Result<Vec<EnqueueOutcome>>, replies: Vec<oneshot::Sender<Result<EnqueueOutcome>>>) {
    match result {
        Ok(all) => replies.into_iter().zip(all).for_each(|(reply, one)| _ = reply.send(Ok(one))),
        Err(error) => replies.into_iter().for_each(|reply| _ = reply.send(Err(error.replicate()))),
    }
}
