//! The results of a survey's answers, read in pages, so that any number of answers needs the memory of one
//! page.

use crate::base::clock::Timestamp;
use crate::base::error::Error;
use crate::base::id::{EntryId, FlowId};
use crate::base::limits::LIST_ITEMS_MAX;
use crate::base::tenant::Tenant;
use crate::database::tx::VerbFuture;
use crate::engine::Engine;
use crate::engine::comments::{Comment, comments_of};
use crate::survey::rules::results::Results;
use crate::survey::rules::survey::Survey;
use crate::survey::store::results::RemovedEntries;
use crate::survey::store::results::{EntryCounts, Response, ResultFilter};
use std::sync::Arc;

/// Free texts that are shown with the results, the newest; [`Engine::comments`] has all of them.
const COMMENTS_MAX: usize = 100;

/// The results of a survey.
#[derive(Clone, Debug)]
pub struct SurveyResults {
    /// The survey, in the version that questions are named by.
    pub survey: Arc<Survey>,
    /// Entries by status.
    pub counts: EntryCounts,
    /// The entries that retention has dropped before, of the whole survey.
    pub removed: RemovedEntries,
    /// Answers, counted.
    pub results: Results,
    /// The newest texts in people's own words.
    pub comments: Vec<Comment>,
}

/// The position of the next page of answers.
pub type ResponseCursor = (Timestamp, EntryId);

/// The first page.
pub const FROM_THE_START: ResponseCursor = (Timestamp::MIN, EntryId(0));

impl Engine {
    /// Returns the results of a survey; answers to other versions count where they fit.
    ///
    /// # Errors
    /// [`Error::NotFound`] for a survey that is not there or was never published.
    pub fn results<'a>(
        &'a self,
        tenant: Tenant,
        flow: FlowId,
        filter: &'a ResultFilter,
    ) -> VerbFuture<'a, SurveyResults> {
        VerbFuture::new(async move {
            let survey = self.survey_for_results(tenant, flow, filter.number).await?;
            let counts = self.store().entry_counts(tenant, flow, filter.clone()).await?;
            let removed = self.store().removed_entries(tenant, flow).await?;
            let (mut results, mut comments) = (Results::of(&survey), Vec::new());
            let mut after = FROM_THE_START;
            loop {
                let page = self.responses(tenant, flow, filter, after).await?;
                let Some(last) = page.last() else { break };
                after = (last.completed_at, last.entry);
                for response in &page {
                    results.add(&response.answers);
                    comments.extend(comments_of(&survey, response));
                }
                let old = comments.len().saturating_sub(COMMENTS_MAX);
                comments.drain(..old);
            }
            comments.reverse();
            Ok(SurveyResults { survey, counts, removed, results, comments })
        })
    }

    /// The survey whose questions name the results: the asked-for version, else the newest.
    ///
    /// # Errors
    /// [`Error::NotFound`] for a survey that is not there or was never published.
    pub fn survey_for_results(
        &self,
        tenant: Tenant,
        flow: FlowId,
        number: Option<u32>,
    ) -> VerbFuture<'_, Arc<Survey>> {
        VerbFuture::new(async move {
            let missing = || Error::NotFound(format!("there is no survey {flow}"));
            let known = self.store().flow(tenant, flow).await?.ok_or_else(missing)?;
            let number = number.or(known.published).unwrap_or(1);
            let edition = self.inner.surveys.cache.edition(self.store(), flow, number).await?;
            let unpublished = || Error::NotFound(format!("survey {flow} has no version {number}"));
            edition.map(|edition| Arc::clone(&edition.survey)).ok_or_else(unpublished)
        })
    }

    /// A page of answers behind `after`, in order.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn responses<'a>(
        &'a self,
        tenant: Tenant,
        flow: FlowId,
        filter: &'a ResultFilter,
        after: ResponseCursor,
    ) -> VerbFuture<'a, Vec<Response>> {
        VerbFuture::new(async move {
            self.store().responses(tenant, flow, filter.clone(), after, LIST_ITEMS_MAX).await
        })
    }
}
