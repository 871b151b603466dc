//! Due entries get the delivery of their next send: read, planned outside of any transaction, then taken.

use super::super::inviting::{self, Inviting};
use super::super::posting::Posting;
use super::super::present::Present;
use super::{Bag, Look, Sender};
use crate::base::clock::monotonic;
use crate::base::error::Result;
use crate::rules::purpose::Purpose;
use crate::rules::share::Take;
use crate::store::entries::look_due::DueEntries;
use std::time::Duration;

/// How often due entries are read again that another process was faster to take.
const ADVANCE_TRIES: usize = 10;
/// The pause before that.
const OVERTAKEN_PAUSE: Duration = Duration::from_millis(5);

/// What became of an attempt to advance due entries.
enum AdvanceRound {
    /// Some were advanced, or none is due.
    Done,
    /// Others were faster.
    Overtaken,
}

impl Sender {
    /// Due entries get their deliveries, which are begun where nothing waits before them.
    pub(super) async fn advance(
        &mut self,
        view: &DueEntries,
        present: Present,
        look: &mut Look,
    ) -> Result<()> {
        let takes = self.takes(&view.lanes, Purpose::Advance);
        if takes.is_empty() {
            return Ok(());
        }
        for _ in 0..ADVANCE_TRIES {
            match self.advance_once(takes.clone(), view, present, look).await? {
                // Another process has taken all of them since they were read: what it has not is next.
                AdvanceRound::Overtaken => tokio::time::sleep(OVERTAKEN_PAUSE).await,
                AdvanceRound::Done => break,
            }
        }
        Ok(())
    }

    async fn advance_once(
        &self,
        takes: Vec<Take>,
        view: &DueEntries,
        present: Present,
        look: &mut Look,
    ) -> Result<AdvanceRound> {
        let peeked = self.post.store.peek_entries(takes).await?;
        let sends = inviting::plan_sends(&self.post, &peeked).await?;
        let start = (!self.is_stopping()).then(|| {
            let channels = sends.iter().map(|send| &send.planned.channel);
            self.may_begin(view, present).start(&self.post, channels)
        });
        let asked = monotonic();
        let seen = sends.len() + peeked.gone.len();
        let advanced = self.post.store.advance_entries(sends, peeked.gone, start).await?;
        look.seen += advanced.taken;
        for (outgoing, contexts) in advanced.begun {
            let posting = Posting::new(&self.post, Inviting::knowing(contexts), outgoing, asked);
            look.bags.extend(posting.map(Box::new).map(Bag::Invitations));
        }
        let overtaken = advanced.taken == 0 && seen > 0;
        Ok(if overtaken { AdvanceRound::Overtaken } else { AdvanceRound::Done })
    }
}
