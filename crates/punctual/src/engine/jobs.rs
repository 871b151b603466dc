//! Jobs as an embedder declares and steers them. Each verb wakes the planner.

use crate::base::clock::Timestamp;
use crate::base::error::Error;
use crate::base::id::RunId;
use crate::base::limits;
use crate::base::outcome::PutOutcome;
use crate::base::tenant::Tenant;
use crate::database::tx::VerbFuture;
use crate::engine::Engine;
use crate::jobs::rules::job::NewJob;
use crate::jobs::store::jobs::{DeletedJob, Job};

impl Engine {
    /// Makes a job, or changes it into this; the same definition again changes nothing.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every problem; nothing is written then.
    pub fn put_job<'a>(
        &'a self,
        tenant: Tenant,
        name: &'a str,
        job: NewJob,
    ) -> VerbFuture<'a, (PutOutcome, Job)> {
        VerbFuture::new(async move {
            let put = self.store().put_job(tenant, name, job).await?;
            if put.0 != PutOutcome::Same {
                self.jobs_changed().await;
            }
            Ok(put)
        })
    }

    /// Deletes a job with its waiting runs; runs in flight complete.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is none.
    pub fn delete_job<'a>(&'a self, tenant: Tenant, name: &'a str) -> VerbFuture<'a, DeletedJob> {
        VerbFuture::new(async move { self.store().delete_job(tenant, name).await })
    }

    /// Enables or disables a job.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is none.
    pub fn enable_job<'a>(&'a self, tenant: Tenant, name: &'a str, enabled: bool) -> VerbFuture<'a, Job> {
        VerbFuture::new(async move {
            let job = self.store().enable_job(tenant, name, enabled).await?;
            self.jobs_changed().await;
            Ok(job)
        })
    }

    /// Starts a run of a job now, beside its timetable.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is none.
    pub fn trigger_job<'a>(&'a self, tenant: Tenant, name: &'a str) -> VerbFuture<'a, RunId> {
        VerbFuture::new(async move {
            let run = self.store().trigger_job(tenant, name).await?;
            self.jobs_changed().await;
            Ok(run)
        })
    }

    /// The next moments of a job's timetable, as if it were enabled; nothing is written.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is none.
    pub fn next_fires<'a>(
        &'a self,
        tenant: Tenant,
        name: &'a str,
        count: usize,
    ) -> VerbFuture<'a, Vec<Timestamp>> {
        VerbFuture::new(async move {
            let Some(state) = self.store().job(tenant, name).await? else {
                return Err(Error::NotFound(format!("there is no job `{name}`")));
            };
            let now = self.store().now().await?;
            Ok(state.job.timetable()?.upcoming(now).take(count.min(limits::PREVIEW_ITEMS_MAX)).collect())
        })
    }

    async fn jobs_changed(&self) {
        self.inner.worker.wake.jobs();
        if self.is_silent() {
            // A lost word delays the work and loses none.
            self.store().notify().await.ok();
        }
    }
}
