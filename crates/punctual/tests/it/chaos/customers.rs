//! The events that lead to sends, and the customers who answer a survey or withdraw from it.

use super::definitions::{INGESTED, NOTIFIED, SURVEYED};
use super::dice;
use super::history::{Event, whole};
use super::operation::Operation;
use super::worker::Hired;
use crate::bench::change;
use punctual::delivery::store::entries::actions::{ActionOutcome, EntryAction};
use punctual::engine::{IngestRequest, SubmitOutcome};
use punctual::flow::rules::public_id::PublicId;
use punctual::{Engine, Error, NewMessage, Tenant};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// A customer acts within this time, about as long as an instance lives.
const ACTING_MS: u64 = 1_200;

/// What a customer does with a survey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Answer,
    Withdraw,
}

impl Act {
    pub fn name(self) -> String {
        format!("{self:?}")
    }

    pub fn named(name: &str) -> Option<Self> {
        [Self::Answer, Self::Withdraw].into_iter().find(|act| act.name() == name)
    }

    /// What the customer of an operation does, if anything.
    fn of(draw: u64) -> Option<Self> {
        match draw % 100 {
            0..35 => Some(Self::Answer),
            35..60 => Some(Self::Withdraw),
            _ => None,
        }
    }
}

/// The payload of an event, with the script of its providers.
fn payload(op: u64, seed: u64) -> Value {
    json!({"op": op.to_string(), "script": dice(seed ^ op, 1) >> 1})
}

/// The event of an operation that goes through a topic.
pub fn event(op: u64, what: Operation, seed: u64) -> NewMessage {
    let (mut payload, mail) = (payload(op, seed), format!("{op}@example.org"));
    let kind = if what == Operation::Notified {
        payload["phone"] = json!(format!("+{op}"));
        payload["email"] = json!(mail);
        NOTIFIED
    } else {
        payload["recipient"] = json!({"address": mail});
        SURVEYED
    };
    NewMessage::new(what.topic(), kind, payload.to_string())
}

/// Hands in an event that begins a survey, and returns its instance.
pub async fn ingest(engine: &Engine, tenant: Tenant, op: u64, seed: u64) -> punctual::Result<PublicId> {
    let item = json!({"payload": payload(op, seed), "recipient": {"address": format!("+{op}")}});
    let ingest = IngestRequest { event_kind: INGESTED.to_owned(), items: vec![item] };
    let ingested = engine.ingest(tenant, &ingest).await?;
    match ingested.first().map(|item| item.instances.as_slice()) {
        Some([instance]) => Ok(instance.public_id),
        _ => Err(Error::Conflict(format!("an ingest was answered {ingested:?}"))),
    }
}

/// A customer who has a link.
pub struct Customer {
    pub hired: Arc<Hired>,
    pub engine: Engine,
    pub tenant: Tenant,
    pub op: u64,
    pub instance: PublicId,
}

impl Customer {
    /// Answers or withdraws at some time, or does nothing at all.
    pub async fn act(self, seed: u64) {
        let draw = dice(seed ^ self.op, 2);
        let Some(act) = Act::of(draw) else { return };
        tokio::time::sleep(Duration::from_millis((draw >> 32) % ACTING_MS)).await;
        let (op, pen) = (self.op, &self.hired.pen);
        pen.note(&Event::Acting { op, act });
        let done = match act {
            Act::Answer => self.answer().await,
            Act::Withdraw => self.withdraw().await,
        };
        match done {
            Ok(done) => pen.note(&Event::Acted { op, act, done, at: self.hired.wall() }),
            Err(why) => pen.note(&Event::Trouble { why: whole(&why) }),
        }
    }

    async fn answer(&self) -> punctual::Result<bool> {
        let answers = json!({"rate": 5}).as_object().unwrap().clone();
        Ok(matches!(self.engine.submit(self.instance, answers, None).await?, SubmitOutcome::Done { .. }))
    }

    async fn withdraw(&self) -> punctual::Result<bool> {
        let cancelled = change(self.engine.store(), self.tenant, self.instance, EntryAction::Cancel).await?;
        Ok(cancelled == ActionOutcome::Done)
    }
}
