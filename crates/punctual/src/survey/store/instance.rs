//! Entries of surveys, as instances: a recipient who is asked to answer one version of a survey.

use crate::base::id::FlowId;
use crate::flow::rules::entry::EntryKind;
use crate::flow::rules::public_id::PublicId;
use crate::flow::store::entries::{Entry, EntryDefinition, EntryRecipient};

/// An entry that is a survey's, with the parts that every such entry has.
#[derive(Clone, Copy, Debug)]
pub struct SurveyInstance<'e> {
    /// The entry.
    pub entry: &'e Entry,
    /// Its public id.
    pub public_id: PublicId,
    /// Its survey.
    pub flow: FlowId,
    /// The version of the survey.
    pub number: u32,
    /// The trigger that made it.
    pub trigger_id: &'e str,
    /// The key of its channel.
    pub channel: &'e str,
    /// The recipient's address.
    pub address: &'e str,
    /// The locale that the recipient reads.
    pub locale: Option<&'e str>,
    /// The recipient's name in another system.
    pub customer_ref: Option<&'e str>,
    /// The payload of its event, as JSON text; an empty object if retention has dropped the event.
    pub payload: &'e str,
}

impl<'e> SurveyInstance<'e> {
    /// Views an entry as an instance; `None` if it is no survey's.
    #[must_use]
    pub fn of(entry: &'e Entry) -> Option<Self> {
        let is_survey = entry.kind == EntryKind::Survey;
        let (definition, recipient) = (entry.definition.as_ref()?, entry.recipient.as_ref()?);
        let EntryDefinition { flow, number, trigger_id } = definition;
        let EntryRecipient { channel, address, locale, customer_ref } = recipient;
        let instance = Self {
            entry,
            public_id: entry.public_id?,
            flow: *flow,
            number: *number,
            trigger_id,
            channel,
            address,
            locale: locale.as_deref(),
            customer_ref: customer_ref.as_deref(),
            payload: entry.payload.as_deref().unwrap_or("{}"),
        };
        is_survey.then_some(instance)
    }
}
