//! Company: single messages that are enqueued at the same time are written together.
//!
//! A commit costs the same for one message and for a hundred. Callers that enqueue one
//! message each hand it to one task, which writes all that wait as one batch and answers
//! each caller after the commit. A caller alone pays one hop; a crowd shares the flush.
//! Messages of one batch stand or fall together: they were checked before, so what can
//! fail is the database, and that fails for all.

use super::Store;
use super::messages::Enqueued;
use crate::base::error::{Error, Result};
use crate::base::limits;
use crate::base::tenant::Tenant;
use crate::rules::message::NewMessage;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use tokio::sync::{mpsc, oneshot};

/// Turns that a crowd's callers get to ask again before those who have are served.
const PATIENCE_TURNS: usize = 16;

/// Where single messages wait for company; the task behind it starts with the first one.
#[derive(Debug, Default)]
pub(super) struct Company {
    door: OnceLock<mpsc::UnboundedSender<Single>>,
}

#[derive(Debug)]
struct Single {
    tenant: Tenant,
    message: NewMessage,
    reply: oneshot::Sender<Result<Enqueued>>,
}

impl Store {
    /// Writes one message, together with others that come at the same time.
    pub(super) async fn enqueue_in_company(
        &self,
        tenant: Tenant,
        messages: Vec<NewMessage>,
    ) -> Result<Vec<Enqueued>> {
        let door = self.company.door.get_or_init(|| open_door(self.alone()));
        let mut answers = Vec::with_capacity(messages.len());
        for message in messages {
            let (reply, answer) = oneshot::channel();
            if let Err(back) = door.send(Single { tenant, message, reply }) {
                // The task's runtime is gone; this caller's is not.
                answers.extend(self.enqueue_plain(tenant, vec![back.0.message]).await?);
                continue;
            }
            answers.push(answer.await.map_err(|e| Error::Unavailable(e.into()))??);
        }
        Ok(answers)
    }
}

fn open_door(store: Store) -> mpsc::UnboundedSender<Single> {
    let (sender, receiver) = mpsc::unbounded_channel();
    tokio::spawn(receive(store, receiver));
    sender
}

async fn receive(store: Store, mut receiver: mpsc::UnboundedReceiver<Single>) {
    let mut waiting = Vec::new();
    while receiver.recv_many(&mut waiting, limits::CLAIM_ITEMS_MAX).await > 0 {
        let crowd = waiting.len();
        let mut tenants: BTreeMap<Tenant, (Vec<NewMessage>, Vec<_>)> = BTreeMap::new();
        for single in waiting.drain(..) {
            let (messages, replies) = tenants.entry(single.tenant).or_default();
            messages.push(single.message);
            replies.push(single.reply);
        }
        for (tenant, (messages, replies)) in tenants {
            answer(store.enqueue_plain(tenant, messages).await, replies);
        }
        // The callers just answered are about to ask again: they go first, and join.
        for _ in 0..PATIENCE_TURNS {
            if crowd == 1 || receiver.len() >= crowd {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
}

fn answer(result: Result<Vec<Enqueued>>, replies: Vec<oneshot::Sender<Result<Enqueued>>>) {
    match result {
        Ok(all) => replies.into_iter().zip(all).for_each(|(reply, one)| _ = reply.send(Ok(one))),
        Err(error) => replies.into_iter().for_each(|reply| _ = reply.send(Err(same(&error)))),
    }
}

/// The same error for one more caller.
fn same(error: &Error) -> Error {
    match error {
        Error::Unknown(source) => Error::Unknown(source.to_string().into()),
        Error::Database(source) => Error::Database(source.to_string().into()),
        other => Error::Unavailable(other.to_string().into()),
    }
}
