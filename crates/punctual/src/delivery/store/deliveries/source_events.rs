//! The events that notifications are about, by entry.

use crate::base::error::Result;
use crate::base::id::EntryId;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::Tx;
use crate::database::tx::VerbFuture;
use crate::database::value::Value;
use crate::queue::rules::message::{Entity, Message};
use crate::queue::store::messages::{message_columns, read_message};
use std::collections::HashMap;
use std::sync::Arc;

/// Why a notification was given.
#[derive(Clone, Debug)]
pub struct NotificationCause {
    /// The event.
    pub event: Arc<Message>,
    /// The entity of the event.
    pub entity: Option<Entity>,
    /// Whether a person asked for it again.
    pub by_hand: bool,
}

impl Store {
    /// Why these notifications were given. One whose event was dropped by age is left out.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn causes(&self, notifications: Vec<EntryId>) -> VerbFuture<'_, HashMap<EntryId, NotificationCause>> {
        self.read(notifications, |tx, notifications| Box::pin(causes(tx, notifications)))
    }
}

async fn causes(tx: &mut Tx, notifications: &[EntryId]) -> Result<HashMap<EntryId, NotificationCause>> {
    let ids: Vec<i64> = notifications.iter().map(|id| id.0).collect();
    let mut causes = HashMap::with_capacity(ids.len());
    for mut row in tx.query(CAUSES, &[Value::Ints(&ids)]).await? {
        let entity = row.maybe_text(1)?.zip(row.maybe_text(2)?).map(|(kind, id)| Entity { kind, id });
        let by_hand = row.maybe_text(3)?.is_some();
        let event = Arc::new(read_message(&mut row, 4)?);
        causes.insert(EntryId(row.int(0)?), NotificationCause { event, entity, by_hand });
    }
    Ok(causes)
}

statements! {
    const CAUSES = "
        select n.id, n.entity_type, n.entity_id, n.request_id, ", message_columns!(), "
        from punctual.entry n
        join punctual.message m on m.id = n.message_id
        where n.id = any($1::bigint[])
    ";
}
