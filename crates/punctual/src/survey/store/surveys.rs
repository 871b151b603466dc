//! Surveys as flows: drafts are checked before they are kept, and read before they are published.

use crate::base::document::join;
use crate::base::error::{Error, Problems, Result};
use crate::base::id::FlowId;
use crate::base::limits;
use crate::base::name::check_name;
use crate::base::tenant::Tenant;
use crate::database::store::Store;
use crate::database::tx::VerbFuture;
use crate::flow::rules::entry::EntryKind;
use crate::flow::rules::entry_events::BEGINNINGS;
use crate::flow::store::flows::{self, Flow, FlowDraft, no_flow};
use crate::queue::store::interest::InterestLevel;
use crate::queue::store::routes;
use crate::survey::rules::survey::Survey;
use crate::survey::store::publish;
use serde_json::Value;

/// How often a draft is read again because another request changed it meanwhile.
const DRAFTS_READ_MAX: usize = 10;

impl FlowDraft {
    /// Returns its problems and its warnings.
    #[must_use]
    pub fn check(&self) -> (Problems, Problems) {
        let (mut problems, mut warnings) = (Problems::default(), Problems::default());
        check_name(&self.name, "name", &mut problems);
        if let Some(id) = &self.integration_id {
            check_name(id, "integrationId", &mut problems);
        }
        let (mut inside, mut doubts) = (Problems::default(), Problems::default());
        Survey::read(&self.definition, &mut inside, &mut doubts);
        problems.0.extend(in_definition(inside).0);
        warnings.0.extend(in_definition(doubts).0);
        if self.definition.to_string().len() > limits::PAYLOAD_BYTES_MAX {
            problems.push("definition", "is larger than 1 MiB");
        }
        (problems, warnings)
    }
}

impl Store {
    /// Makes a flow from its draft.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every problem of the draft.
    pub fn create_flow(&self, tenant: Tenant, draft: FlowDraft) -> VerbFuture<'_, Flow> {
        VerbFuture::new(async move {
            draft.check().0.into_result()?;
            self.of(tenant)
                .write((tenant, draft), |tx, (tenant, draft)| Box::pin(flows::create(tx, *tenant, draft)))
                .await
        })
    }

    /// Replaces the draft of a flow. The published version does not change.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every problem of the draft, [`Error::NotFound`].
    pub fn change_flow(&self, tenant: Tenant, id: FlowId, draft: FlowDraft) -> VerbFuture<'_, Flow> {
        VerbFuture::new(async move {
            draft.check().0.into_result()?;
            self.of(tenant)
                .write((tenant, id, draft), |tx, (tenant, id, draft)| {
                    Box::pin(flows::change(tx, *tenant, *id, draft))
                })
                .await
        })
    }

    /// Publishes the draft of a flow as its next version; answers its number.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the draft is not ready, with paths as when it is saved (`definition.…`),
    /// [`Error::NotFound`], and [`Error::Conflict`] when the draft changes over and over meanwhile.
    pub fn publish_flow(&self, tenant: Tenant, id: FlowId) -> VerbFuture<'_, u32> {
        VerbFuture::new(async move {
            for _ in 0..DRAFTS_READ_MAX {
                // The draft is read here, outside of the transaction that publishes it.
                let flow = self.flow(tenant, id).await?.ok_or_else(|| no_flow(id))?;
                let level = interest(&ready(&flow.draft)?);
                let request = (tenant, flow, level);
                let published = self.of(tenant).write(request, |tx, (tenant, flow, level)| {
                    Box::pin(async move {
                        let number = flows::publish(tx, *tenant, flow, EntryKind::Survey, *level).await?;
                        routes::ensure(tx, *tenant, publish::TOPIC).await?;
                        Ok(number)
                    })
                });
                if let Some(number) = published.await? {
                    return Ok(number);
                }
            }
            Err(Error::Conflict(format!("the draft of survey {id} was changed meanwhile; publish it again")))
        })
    }
}

/// Which messages may begin or stop entries of a survey.
fn interest(survey: &Survey) -> InterestLevel {
    let mut kinds = survey.triggers.iter().map(|trigger| trigger.event_kind.as_str());
    match survey.triggers.is_empty() {
        true => InterestLevel::Nothing,
        false if kinds.any(|kind| BEGINNINGS.contains(&kind)) => InterestLevel::AllEvents,
        false => InterestLevel::Events,
    }
}

/// The survey of a draft that may be published.
fn ready(draft: &Value) -> Result<Survey> {
    let (mut problems, mut warnings) = (Problems::default(), Problems::default());
    let survey = Survey::read(draft, &mut problems, &mut warnings);
    if let Some(survey) = &survey {
        survey.ready(|_| true, &mut problems, &mut warnings);
    }
    match survey {
        Some(survey) if problems.0.is_empty() => Ok(survey),
        _ => Err(Error::Invalid(in_definition(problems))),
    }
}

/// The problems of a definition, with the paths that they have in a request that saves it.
fn in_definition(mut problems: Problems) -> Problems {
    for problem in &mut problems.0 {
        problem.path = join("definition", &problem.path);
    }
    problems
}
