//! The outcome of each message: read from the statements' answers, the same for every driver.

use crate::base::error::{Error, Result};
use crate::base::id::MessageId;
use crate::database::dialect::Dialect;
use crate::queue::outbox::{EnqueueBatch, ExternalId, OutcomeSource, Param, Statement, texts};
use crate::queue::store::messages::EnqueueOutcome;
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};
use std::ptr;

/// A row of the first statement: a message that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InsertedMessage {
    /// Column 1, `id`.
    pub id: i64,
    /// Column 2, `source`.
    pub source: Option<String>,
    /// Column 3, `external_id`: the publisher's id.
    pub external_id: Option<String>,
}

/// A row of [`EnqueueBatch::duplicates`]: an id that was admitted before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmittedId {
    /// Column 1, `source`.
    pub source: String,
    /// Column 2, `external_id`.
    pub external_id: String,
    /// Column 3, `digest`: of the first message's content.
    pub digest: String,
    /// Column 4: the first message, while it is kept.
    pub message_id: Option<i64>,
}

impl EnqueueBatch {
    /// Returns the statement that reads the ids that were not written; `None` when all were.
    #[must_use]
    pub fn duplicates(&self, dialect: Dialect, written: &[InsertedMessage]) -> Option<Statement> {
        let written = by_name(written);
        let names = self.slots.iter().filter_map(|slot| slot.name.as_ref());
        let asked: BTreeSet<&ExternalId> = names.filter(|name| !written.contains_key(*name)).collect();
        if asked.is_empty() {
            return None;
        }
        let asked = asked.iter().map(|n| json!({"source": n.source, "external_id": n.id}));
        let asked = Value::Array(asked.collect()).to_string();
        let sql = dialect.pick(texts::POSTGRES_KNOWN, texts::SQLITE_KNOWN);
        Some(Statement { sql, params: vec![Param::Int(self.tenant.id()), Param::Text(asked)] })
    }

    /// Returns the outcome of each message, in the order of the batch. `known` are the rows of
    /// [`EnqueueBatch::duplicates`], or none.
    ///
    /// # Errors
    /// [`Error::Database`] when `written` does not match the answer of the first statement.
    pub fn outcome(&self, written: &[InsertedMessage], known: &[AdmittedId]) -> Result<Vec<EnqueueOutcome>> {
        let named = by_name(written);
        let mut plain: Vec<i64> = written.iter().filter(|w| w.external_id.is_none()).map(|w| w.id).collect();
        plain.sort_unstable();
        let mut plain = plain.into_iter();
        let known: HashMap<ExternalId, &AdmittedId> =
            known.iter().map(|k| (name(&k.source, &k.external_id), k)).collect();
        let mut firsts: HashMap<&ExternalId, &OutcomeSource> = HashMap::new();
        self.slots
            .iter()
            .map(|slot| {
                let Some(name) = &slot.name else {
                    return plain.next().map(|id| EnqueueOutcome::New(MessageId(id))).ok_or_else(incomplete);
                };
                let first = *firsts.entry(name).or_insert(slot);
                Ok(match named.get(name) {
                    Some(id) if ptr::eq(first, slot) => EnqueueOutcome::New(*id),
                    Some(id) => {
                        EnqueueOutcome::Duplicate { of: Some(*id), same: first.digest == slot.digest }
                    }
                    None => of_known(slot, known.get(name)),
                })
            })
            .collect()
    }
}

fn of_known(slot: &OutcomeSource, known: Option<&&AdmittedId>) -> EnqueueOutcome {
    EnqueueOutcome::Duplicate {
        of: known.and_then(|k| k.message_id).map(MessageId),
        same: known.is_none_or(|k| k.digest == slot.digest),
    }
}

fn by_name(written: &[InsertedMessage]) -> HashMap<ExternalId, MessageId> {
    let named = written.iter().filter_map(|w| {
        let id = w.external_id.as_deref()?;
        Some((name(w.source.as_deref().unwrap_or_default(), id), MessageId(w.id)))
    });
    named.collect()
}

fn name(source: &str, id: &str) -> ExternalId {
    ExternalId { source: source.to_owned(), id: id.to_owned() }
}

fn incomplete() -> Error {
    Error::Database("the outbox was answered fewer messages than it wrote".into())
}
