//! Jobs as an embedder declares and steers them. Each verb wakes the planner.

use super::Engine;
use crate::base::clock::Timestamp;
use crate::base::error::{Error, Result};
use crate::base::id::RunId;
use crate::base::limits;
use crate::base::tenant::Tenant;
use crate::rules::job::NewJob;
use crate::store::jobs::{DeletedJob, Job, Put};

impl Engine {
    /// Makes a job, or changes it into this; the same definition again changes nothing.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every problem; nothing is written then.
    pub async fn put_job(&self, tenant: Tenant, name: &str, job: NewJob) -> Result<(Put, Job)> {
        let put = self.store().put_job(tenant, name, job).await?;
        if put.0 != Put::Same {
            self.jobs_changed().await;
        }
        Ok(put)
    }

    /// Deletes a job with its runs that wait; what is in flight ends by itself.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is none.
    pub async fn delete_job(&self, tenant: Tenant, name: &str) -> Result<DeletedJob> {
        self.store().delete_job(tenant, name).await
    }

    /// Enables or disables a job.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is none.
    pub async fn enable_job(&self, tenant: Tenant, name: &str, enabled: bool) -> Result<Job> {
        let job = self.store().enable_job(tenant, name, enabled).await?;
        self.jobs_changed().await;
        Ok(job)
    }

    /// Starts a run of a job now, beside its timetable.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is none.
    pub async fn trigger_job(&self, tenant: Tenant, name: &str) -> Result<RunId> {
        let run = self.store().trigger_job(tenant, name).await?;
        self.jobs_changed().await;
        Ok(run)
    }

    /// The next moments of a job's timetable, as if it were enabled; nothing is written.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is none.
    pub async fn next_fires(&self, tenant: Tenant, name: &str, count: usize) -> Result<Vec<Timestamp>> {
        let Some(state) = self.store().job(tenant, name).await? else {
            return Err(Error::NotFound(format!("there is no job `{name}`")));
        };
        let now = self.store().now().await?;
        Ok(state.job.timetable()?.upcoming(now).take(count.min(limits::PREVIEW_ITEMS_MAX)).collect())
    }

    async fn jobs_changed(&self) {
        self.inner.shop.wake.jobs();
        if self.is_silent() {
            // A lost word delays the work and loses none.
            self.store().notify().await.ok();
        }
    }
}
