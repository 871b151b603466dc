//! The hook that updates runs when their messages are settled.

use crate::base::component::Component;
use crate::base::error::Result;
use crate::base::id::{LaneId, MessageId};
use crate::database::tx::{Tx, TxFuture};
use crate::jobs::store::runs::{ClaimHolder, ENTITY, ItemResult, RunEnding, note, reopen};
use crate::queue::rules::message::Message;
use crate::queue::store::settle::hooks::{ItemEnding, SettledItems, SettlementHook};

/// Writes the results of runs with the settlement of their messages.
#[derive(Debug)]
pub(crate) struct RunHook;

/// The runs of a claim `c`: a part of the statements that the settlement composes.
macro_rules! has_open_run {
    () => {
        "
        c.purpose = 'dispatch'
            and exists (
                select 1
                from punctual.run r
                where r.message_id between c.first_id and c.last_id and r.open > 0
            )
        "
    };
}

impl SettlementHook for RunHook {
    fn component(&self) -> Component {
        Component::Jobs
    }

    /// A look at a small index.
    fn condition(&self) -> &'static str {
        has_open_run!()
    }

    /// If the message merely says that it is a run, the settlement finds nothing.
    fn wants_message(&self, message: &Message) -> bool {
        message.entity.as_ref().is_some_and(|entity| entity.kind == ENTITY)
    }

    fn after_replay<'t>(&'t self, tx: &'t mut Tx, messages: &'t [MessageId]) -> TxFuture<'t, ()> {
        Box::pin(reopen(tx, messages))
    }

    fn after_drop<'t>(&'t self, tx: &'t mut Tx, lane: LaneId, messages: &'t [MessageId]) -> TxFuture<'t, ()> {
        Box::pin(async move {
            let now = tx.now().await?;
            let dropped = |message: &MessageId| RunEnding {
                message: *message,
                lane,
                attempt: 0,
                what: ItemResult::Dropped,
            };
            let endings: Vec<RunEnding> = messages.iter().map(dropped).collect();
            note(tx, ClaimHolder { owner: "", claimed_at: now }, &endings, now).await
        })
    }

    fn after_write<'t>(&'t self, tx: &'t mut Tx, settled: &'t SettledItems<'_>) -> TxFuture<'t, ()> {
        Box::pin(note_settled(tx, settled))
    }
}

async fn note_settled(tx: &mut Tx, settled: &SettledItems<'_>) -> Result<()> {
    let endings: Vec<RunEnding> = settled
        .items
        .iter()
        .filter_map(|(item, ending)| {
            let what = match ending {
                ItemEnding::Done(output) => ItemResult::Done(output.clone()),
                ItemEnding::Retry { error, .. } => ItemResult::Again(error.clone()),
                ItemEnding::Dead(error) => ItemResult::Dead(error.clone()),
                ItemEnding::Released | ItemEnding::NotBegun => return None,
            };
            Some(RunEnding { message: item.message(), lane: item.lane(), attempt: item.attempt(), what })
        })
        .collect();
    if endings.is_empty() {
        return Ok(());
    }
    let holder = ClaimHolder { owner: settled.owner, claimed_at: settled.claimed_at };
    note(tx, holder, &endings, settled.now).await
}
