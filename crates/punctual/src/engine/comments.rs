//! Free-text answers of a survey, the newest first, in pages.

use crate::base::clock::Timestamp;
use crate::base::error::{Error, Result};
use crate::base::id::{EntryId, FlowId};
use crate::base::limits::LIST_ITEMS_MAX;
use crate::base::tenant::Tenant;
use crate::database::tx::VerbFuture;
use crate::engine::Engine;
use crate::flow::rules::public_id::PublicId;
use crate::survey::rules::survey::Survey;
use crate::survey::store::results::{Response, ResultFilter};
use std::sync::Arc;

/// Responses that one page reads at most, however few free texts they have.
const RESPONSES_READ_MAX: usize = 10_000;

/// A free-text answer.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comment {
    /// The question.
    pub question_id: String,
    /// The words.
    pub text: String,
    /// The time of the response.
    pub completed_at: Timestamp,
    /// The survey instance.
    pub public_id: PublicId,
}

/// Selects free-text answers.
#[derive(Clone, Debug, Default)]
pub struct CommentFilter {
    /// Of these responses.
    pub responses: ResultFilter,
    /// To this question; `None` matches all.
    pub question_id: Option<String>,
}

/// A place in the list of free-text answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommentCursor {
    /// The time of the response.
    pub completed_at: Timestamp,
    /// The entry of the response.
    pub entry: EntryId,
    /// The question within the response; `None` is the end of the response.
    pub question_id: Option<String>,
}

/// A part of the list of free-text answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommentPage {
    /// The free-text answers, the newest first; those of one response by question.
    pub comments: Vec<Comment>,
    /// The place behind which the next page begins; `None` at the end of the list. A page may have fewer
    /// comments than its limit, or none, and be followed by another.
    pub next: Option<CommentCursor>,
}

impl Engine {
    /// Returns up to `limit` free-text answers to a survey behind `after`, the newest first.
    ///
    /// # Errors
    /// [`Error::NotFound`] for a survey that is not there or was never published, [`Error::Invalid`] for a
    /// question without free text.
    pub fn comments<'a>(
        &'a self,
        tenant: Tenant,
        flow: FlowId,
        filter: &'a CommentFilter,
        after: Option<CommentCursor>,
        limit: usize,
    ) -> VerbFuture<'a, CommentPage> {
        VerbFuture::new(async move {
            let survey = self.survey_for_results(tenant, flow, filter.responses.number).await?;
            filter.check(&survey)?;
            let mut reader = CommentReader { filter, after, limit, page: CommentPage::default() };
            for _ in 0..RESPONSES_READ_MAX / LIST_ITEMS_MAX {
                let (place, responses) = (reader.next_response(), filter.responses.clone());
                let store = self.store();
                let responses =
                    store.newest_responses(tenant, flow, responses, place, LIST_ITEMS_MAX).await?;
                for response in &responses {
                    let number = response.number;
                    let version = self.inner.surveys.cache.edition(store, flow, number).await?;
                    let survey = version.map_or_else(|| Arc::clone(&survey), |v| Arc::clone(&v.survey));
                    if reader.is_full_after(&survey, response) {
                        return Ok(reader.page);
                    }
                }
                if responses.len() < LIST_ITEMS_MAX {
                    return Ok(CommentPage { next: None, ..reader.page });
                }
            }
            Ok(CommentPage { next: reader.after, ..reader.page })
        })
    }
}

impl CommentFilter {
    fn check(&self, survey: &Survey) -> Result<()> {
        let Some(id) = self.question_id.as_deref().filter(|id| !is_free_text(survey, id)) else {
            return Ok(());
        };
        let said = format!("`{id}` is no free-text question of this version; give a `version` that has it");
        Err(Error::invalid("questionId", said))
    }
}

/// Collects the free texts of responses into one page.
struct CommentReader<'a> {
    filter: &'a CommentFilter,
    after: Option<CommentCursor>,
    limit: usize,
    page: CommentPage,
}

impl CommentReader<'_> {
    /// The newest response that may have a free text behind the place.
    fn next_response(&self) -> (Timestamp, EntryId) {
        match &self.after {
            None => (Timestamp::MAX, EntryId(i64::MAX)),
            Some(CommentCursor { completed_at, entry, question_id: Some(_) }) => (*completed_at, *entry),
            Some(CommentCursor { completed_at, entry, question_id: None }) => {
                (*completed_at, EntryId(entry.0 - 1))
            }
        }
    }

    /// Takes the free texts of a response, and returns whether the page is full before its last one.
    fn is_full_after(&mut self, survey: &Survey, response: &Response) -> bool {
        let place = |question_id| CommentCursor {
            completed_at: response.completed_at,
            entry: response.entry,
            question_id,
        };
        let read = self.after.take().filter(|after| after.entry == response.entry);
        let read = read.and_then(|after| after.question_id);
        let mut texts = comments_of(survey, response);
        texts.retain(|comment| read.as_ref().is_none_or(|read| comment.question_id > *read));
        texts.retain(|comment| self.filter.question_id.as_ref().is_none_or(|id| comment.question_id == *id));
        for comment in texts {
            if self.page.comments.len() >= self.limit {
                return true;
            }
            self.page.next = Some(place(Some(comment.question_id.clone())));
            self.page.comments.push(comment);
        }
        self.after = Some(place(None));
        false
    }
}

/// The free texts of a response, by question.
pub(super) fn comments_of(survey: &Survey, response: &Response) -> Vec<Comment> {
    let texts = response.answers.iter().filter(|(id, _)| is_free_text(survey, id));
    let comment = |(id, value): (&String, &serde_json::Value)| {
        Some(Comment {
            question_id: id.clone(),
            text: value.as_str()?.to_owned(),
            completed_at: response.completed_at,
            public_id: response.public_id,
        })
    };
    let mut comments: Vec<Comment> = texts.filter_map(comment).collect();
    comments.sort_by(|a, b| a.question_id.cmp(&b.question_id));
    comments
}

/// Returns whether answers to a question are free text; those to `{question}.other` are.
fn is_free_text(survey: &Survey, id: &str) -> bool {
    let other = id.strip_suffix(".other").and_then(|question| survey.question(question));
    survey.question(id).is_some_and(|question| question.kind.is_free_text())
        || other.is_some_and(|question| question.other().is_some())
}
