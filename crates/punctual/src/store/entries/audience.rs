//! Who listens to the moments of an entry: the subscriptions that its survey, or its trigger, lists.
//!
//! The list is that of the version which the entry belongs to. Its filters are asked with what is known
//! at that moment: an answer that is not there yet is absent, so a filter that wants one does not hold.

use super::super::tx::Tx;
use super::super::value::Value;
use super::Entry;
use crate::base::error::Result;
use crate::base::id::FlowId;
use crate::rules::candidate::{answer_facts, told};
use crate::rules::survey::Survey;
use serde_json::{Map, Value as Json, json};
use std::collections::{BTreeSet, HashMap};

/// The versions that list subscriptions; others are heard by all.
pub(super) struct Audience {
    listing: HashMap<(FlowId, u32), Survey>,
}

impl Audience {
    /// Of the versions of these entries.
    pub(super) async fn of(tx: &mut Tx, entries: impl Iterator<Item = &Entry>) -> Result<Self> {
        let versions: BTreeSet<(i64, u32)> = entries.map(|entry| (entry.flow.0, entry.number)).collect();
        let (flows, numbers): (Vec<i64>, Vec<i64>) =
            versions.iter().map(|(flow, number)| (*flow, i64::from(*number))).unzip();
        let mut listing = HashMap::new();
        for row in tx.query(LISTING, &[Value::Ints(&flows), Value::Ints(&numbers)]).await? {
            let (flow, number) = (row.int(0)?, u32::try_from(row.int(1)?).unwrap_or_default());
            if versions.contains(&(flow, number))
                && let Some(survey) = read(&row.text(2)?)
            {
                listing.insert((FlowId(flow), number), survey);
            }
        }
        Ok(Self { listing })
    }

    /// The subscriptions that are told of an entry; `None` is every one of the topic.
    pub(super) fn listens_to(&self, entry: &Entry) -> Option<Vec<String>> {
        let survey = self.listing.get(&(entry.flow, entry.number))?;
        listeners(survey, entry, Map::new())
    }
}

/// The subscriptions that a survey wants to be told of an entry with these answers; `None` is every one
/// of the topic.
#[must_use]
pub fn listeners(survey: &Survey, entry: &Entry, answers: Map<String, Json>) -> Option<Vec<String>> {
    let answers = Json::Object(answers);
    let payload: Json = serde_json::from_str(&entry.payload).unwrap_or_default();
    let recipient =
        json!({"address": entry.address, "locale": entry.locale, "customerRef": entry.customer_ref});
    // Facts beyond the limit are absent, for a filter as for everybody.
    let facts = answer_facts(&answers, &payload, &recipient).unwrap_or_default();
    told(survey, survey.trigger(&entry.trigger_id), &facts)
}

fn read(definition: &str) -> Option<Survey> {
    let definition = serde_json::from_str(definition).ok()?;
    Survey::read(&definition, &mut Default::default(), &mut Default::default())
}

/// Most surveys list nobody, and need not be read.
const LISTING: &str = "select flow_id, number, definition from punctual.flow_version \
    where flow_id = any($1::bigint[]) and number = any($2::bigint[]) \
        and definition like '%\"subscribers\"%'";
