//! A visit: a recipient follows the link of an entry, looks, fills in and answers.
//!
//! A person with the link may do only that: no verb here takes a tenant, and none reveals
//! data of another entry.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::FlowId;
use crate::database::tx::VerbFuture;
use crate::engine::Engine;
use crate::flow::rules::entry::{EntryStatus, TransitionRefusal};
use crate::flow::rules::public_id::PublicId;
use crate::flow::store::entries::Entry;
use crate::survey::rules::answers::AnswersError;
use crate::survey::rules::candidate::{InvitedRecipient, listeners};
use crate::survey::rules::survey::Survey;
use crate::survey::store::instance::SurveyInstance;
use crate::survey::store::visits::{SurveyAnswer, TransitionOutcome};
use serde_json::{Map, Value};
use std::sync::Arc;

/// The view of a person with the link.
#[derive(Clone, Debug)]
pub struct Visit {
    /// The entry.
    pub public_id: PublicId,
    /// The survey, in the version that was sent.
    pub survey: Arc<Survey>,
    /// The survey's id.
    pub flow: FlowId,
    /// The version.
    pub version: u32,
    /// The status of the entry.
    pub status: EntryStatus,
    /// The locale that the recipient is said to read.
    pub locale: Option<String>,
    /// The answers that were filled in so far.
    pub progress: Map<String, Value>,
    /// The time of the answer.
    pub completed_at: Option<Timestamp>,
}

/// The outcome of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum SubmitOutcome {
    /// The answer was accepted.
    Done {
        /// The time at which the answer was stored.
        completed_at: Timestamp,
    },
    /// Something is wrong with it; nothing was written.
    Wrong(AnswersError),
    /// The entry takes no answer any more.
    Ended(TransitionRefusal),
    /// There is no entry with this id.
    Unknown,
}

impl Engine {
    /// Reads the entry of a link; `None` if there is no entry with this id, or it was deleted. Changes
    /// nothing.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn visit(&self, id: PublicId) -> VerbFuture<'_, Option<Visit>> {
        VerbFuture::new(async move {
            let Some((entry, progress)) = self.store().entry_of_link(id).await? else { return Ok(None) };
            let Some(of) = SurveyInstance::of(&entry) else { return Ok(None) };
            let Some(survey) = self.survey_of(&of).await? else { return Ok(None) };
            Ok(Some(Visit {
                public_id: id,
                survey,
                flow: of.flow,
                version: of.number,
                status: entry.state.status,
                locale: of.locale.map(str::to_owned),
                progress,
                completed_at: entry.completed_at,
            }))
        })
    }

    async fn survey_of(&self, of: &SurveyInstance<'_>) -> Result<Option<Arc<Survey>>> {
        let edition = self.inner.surveys.cache.edition(self.store(), of.flow, of.number).await?;
        Ok(edition.map(|edition| Arc::clone(&edition.survey)))
    }

    /// Records that a person has the page open; returns whether the entry exists.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn record_opened(&self, id: PublicId) -> VerbFuture<'_, bool> {
        VerbFuture::new(async move {
            let outcome = self.store().record_opened(id).await?;
            if let TransitionOutcome::Done(entry) = &outcome
                && self.stops_itself(entry, "instance-opened").await?
            {
                // A recipient who reads the page must be able to answer: only the later sends end.
                self.store().stop_reminders(id).await?;
            }
            self.wake_all().await;
            Ok(outcome != TransitionOutcome::Unknown)
        })
    }

    /// Returns whether the trigger of an entry names this event as its end.
    async fn stops_itself(&self, entry: &Entry, kind: &str) -> Result<bool> {
        let Some(of) = SurveyInstance::of(entry) else { return Ok(false) };
        let survey = self.survey_of(&of).await?;
        let trigger = survey.as_ref().and_then(|survey| survey.trigger(of.trigger_id));
        Ok(trigger.is_some_and(|trigger| trigger.stop_on.iter().any(|stop| stop.event_kind == kind)))
    }

    /// Stores the answers so far, all of them; returns whether the entry still accepts answers.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn keep_progress(&self, id: PublicId, answers: Map<String, Value>) -> VerbFuture<'_, bool> {
        VerbFuture::new(async move { self.store().keep_progress(id, answers).await })
    }

    /// Submits answers: checked against the version that was sent, kept once, and published in the same
    /// transaction.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn submit(
        &self,
        id: PublicId,
        answers: Map<String, Value>,
        meta: Option<Value>,
    ) -> VerbFuture<'_, SubmitOutcome> {
        VerbFuture::new(async move {
            let Some((entry, _)) = self.store().entry_of_link(id).await? else {
                return Ok(SubmitOutcome::Unknown);
            };
            if let Err(refusal) = entry.state.status.after(crate::flow::rules::entry::Transition::Submitted) {
                return Ok(SubmitOutcome::Ended(refusal));
            }
            let Some(of) = SurveyInstance::of(&entry) else { return Ok(SubmitOutcome::Unknown) };
            let Some(survey) = self.survey_of(&of).await? else { return Ok(SubmitOutcome::Unknown) };
            let answers = match survey.accept(&answers) {
                Ok(answers) => answers.to_json(),
                Err(refused) => return Ok(SubmitOutcome::Wrong(refused)),
            };
            let listeners = listeners_of(&survey, &of, &answers);
            let answer = SurveyAnswer { public_id: id, answers, meta, listeners };
            let submitted = match self.store().complete(answer).await? {
                TransitionOutcome::Done(entry) => {
                    let completed_at = entry.completed_at.unwrap_or(entry.state.triggered_at);
                    SubmitOutcome::Done { completed_at }
                }
                TransitionOutcome::Refused(refusal) => SubmitOutcome::Ended(refusal),
                TransitionOutcome::Unknown => SubmitOutcome::Unknown,
            };
            self.wake_all().await;
            Ok(submitted)
        })
    }
}

/// Returns the subscriptions that get these answers; `None` is every one of the topic.
fn listeners_of(
    survey: &Survey,
    of: &SurveyInstance<'_>,
    answers: &Map<String, Value>,
) -> Option<Vec<String>> {
    let trigger = survey.trigger(of.trigger_id);
    survey.subscribers_of(trigger)?;
    let payload: Value = serde_json::from_str(of.payload).unwrap_or_default();
    let recipient = InvitedRecipient {
        address: of.address,
        locale: of.locale,
        customer_ref: of.customer_ref,
        payload: &payload,
    };
    listeners(survey, trigger, &recipient, &Value::Object(answers.clone()))
}
