//! Failed notices once more: what was given up is sent again, and what had no template when its event came is
//! planned by those of today.

use super::Engine;
use crate::base::error::Result;
use crate::base::id::NoticeId;
use crate::base::tenant::Tenant;
use crate::rules::notice::Plan;
use crate::rules::public_id::PublicId;
use crate::store::notices::replan::Unplanned;
use crate::store::notices::replay::{Replayed, WhichNotices};

impl Engine {
    /// Puts all that fit back to work, in as many transactions as it takes; a dry run only counts. It goes
    /// upwards, so that what fails again meanwhile is left for the next call.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] for too many ids.
    pub async fn replay_notices(
        &self,
        tenant: Tenant,
        mut which: WhichNotices,
        dry_run: bool,
    ) -> Result<Replayed> {
        let mut all = Replayed::default();
        loop {
            let step = self.store().replay_notices(tenant, which.clone(), dry_run).await?;
            all.ids.extend(step.ids);
            (all.again, all.stopped) = (all.again + step.again, all.stopped + step.stopped);
            self.plan_anew(tenant, step.unplanned, dry_run, &mut all).await?;
            let Some(next) = step.next else { break };
            which.after = next;
        }
        all.ids.sort_unstable();
        self.tell().await;
        Ok(all)
    }

    /// Puts those of a tenant's survey instances that failed back to work; answers which. A dry run only
    /// looks.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] for too many ids.
    pub async fn replay_entries(
        &self,
        tenant: Tenant,
        ids: Vec<PublicId>,
        dry_run: bool,
    ) -> Result<Vec<PublicId>> {
        if ids.is_empty() {
            return Ok(ids);
        }
        let replayed = self.store().replay_entries(tenant, ids, dry_run).await?;
        self.inner.shop.wake.entries();
        self.tell().await;
        Ok(replayed)
    }

    async fn plan_anew(
        &self,
        tenant: Tenant,
        ids: Vec<NoticeId>,
        dry_run: bool,
        all: &mut Replayed,
    ) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        for Unplanned { id, event, entity } in self.store().unplanned_notices(tenant, ids).await? {
            let set = self.templates().of(self.store(), tenant, &event.kind).await?;
            // What still has no template, or makes no sense any more, stays as it is.
            let Plan::Deliveries(planned) = self.plan_event(&event, entity.as_ref(), &set, None).await?
            else {
                continue;
            };
            let (again, stopped) = self.store().plan_notice(tenant, id, planned, dry_run).await?;
            (all.again, all.stopped) = (all.again + again, all.stopped + stopped);
            all.ids.extend((again > 0).then_some(id));
        }
        Ok(())
    }
}
