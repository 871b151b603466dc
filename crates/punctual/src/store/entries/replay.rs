//! Failed entries again: the send that was given up last is made once more, under the key it had, and the
//! reminders that were left after it follow.
//!
//! Its tries count from 0 again, and the history stays, as for every delivery. Who may not be written to
//! is asked when it is sent, as always.

use super::super::Store;
use super::super::deliveries::replay::put_back;
use super::super::tx::Tx;
use super::super::value::params;
use super::ADD_WORK;
use super::deed::lock_by_public_id;
use crate::base::error::{Error, Result};
use crate::base::limits;
use crate::base::tenant::Tenant;
use crate::rules::public_id::PublicId;
use crate::store::tx::VerbFuture;

impl Store {
    /// Puts those of a tenant's entries that failed back to work; answers which. A dry run writes nothing.
    ///
    /// # Errors
    /// [`Error::Invalid`] for too many ids.
    pub fn replay_entries(
        &self,
        tenant: Tenant,
        mut ids: Vec<PublicId>,
        dry_run: bool,
    ) -> VerbFuture<'_, Vec<PublicId>> {
        VerbFuture::new(async move {
            if ids.len() > limits::BATCH_ITEMS_MAX {
                let said = format!("{} ids, at most {} are allowed", ids.len(), limits::BATCH_ITEMS_MAX);
                return Err(Error::invalid("ids", said));
            }
            // In one order, so that two replays never wait for each other in a circle.
            ids.sort_unstable_by_key(|id| id.halves());
            ids.dedup();
            self.of(tenant)
                .write((tenant, ids, dry_run), |tx, (tenant, ids, dry)| {
                    Box::pin(replay(tx, *tenant, ids, *dry))
                })
                .await
        })
    }
}

async fn replay(tx: &mut Tx, tenant: Tenant, ids: &[PublicId], dry_run: bool) -> Result<Vec<PublicId>> {
    let now = tx.now().await?;
    let mut replayed = Vec::new();
    for id in ids {
        let found = lock_by_public_id(tx, *id).await?;
        let Some(entry) = found.filter(|entry| entry.tenant == tenant) else { continue };
        let Ok(standing) = entry.standing.replayed(now) else { continue };
        replayed.push(*id);
        if dry_run {
            continue;
        }
        tx.execute(REPLAY, params![entry.id.0, standing.status.code(), now]).await?;
        let given_up = tx.query(GIVEN_UP, params![entry.id.0, i64::from(entry.attempt())]).await?;
        if given_up.is_empty() {
            // What was skipped has given its key back, so that the send is planned anew.
            tx.execute(ADD_WORK, params![entry.work_id(), entry.lane.0, now]).await?;
        } else {
            put_back(tx, &given_up, now).await?;
        }
    }
    Ok(replayed)
}

const REPLAY: &str = "update punctual.entry set status = $2, due_at = $3, version = version + 1 \
    where id = $1";
/// The last delivery that was given up, in the columns that are put back.
const GIVEN_UP: &str = "select d.id, d.entry_id, d.lane_id from punctual.delivery d \
    where d.entry_id = $1 and d.send = $2 and d.status in (3, 5) \
        and d.replaced_by is null order by d.id desc limit 1";
