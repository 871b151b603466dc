//! Entries against a small model in memory: the same random deeds, the same answers, and after each of
//! them the same standing and the same log. `PUNCTUAL_SEED` repeats a run.

use crate::bench::change;
use crate::bench::{Bench, TENANT, seconds};
use crate::guard_model::Dice;
use crate::invitation::{ingest, publish, survey, visit};
use punctual::delivery::store::entries::actions::{ActionOutcome, EntryAction};
use punctual::engine::{IngestOutcome, SubmitOutcome};
use punctual::flow::rules::entry::EntryStatus;
use punctual::flow::rules::public_id::PublicId;
use punctual::{AcceptedMessage, ClockMode, Engine, RenderedMessage, SendError, Timestamp};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

cases![trg_13_entries_do_what_the_model_does];

const STEPS: usize = 250;
const VISITS: usize = 6;
const DELAY: Duration = seconds(10);
const REMINDERS: [Duration; 2] = [seconds(20), seconds(30)];
const GRACE: Duration = seconds(40);

/// What the model knows of an entry.
#[derive(Clone, Debug, PartialEq)]
struct Entry {
    visit: usize,
    status: EntryStatus,
    next: Option<Timestamp>,
    last: Option<Timestamp>,
    remaining: usize,
    made: Timestamp,
    log: Vec<&'static str>,
    deleted: bool,
}

/// Whether the provider refuses a letter for good.
const fn refuses(visit: usize, attempt: usize) -> bool {
    (visit + 2 * attempt).is_multiple_of(3)
}

impl Entry {
    fn new(visit: usize, now: Timestamp) -> Self {
        let (status, next, remaining) = (EntryStatus::Pending, Some(now.plus(DELAY)), REMINDERS.len());
        Self { visit, status, next, last: None, remaining, made: now, log: Vec::new(), deleted: false }
    }

    /// Everything that is due by now.
    fn tick(&mut self, now: Timestamp) {
        while let Some(due) = self.next.filter(|due| self.status.is_active() && *due <= now) {
            let index = REMINDERS.len() - self.remaining;
            let wait = REMINDERS.get(index).copied();
            self.remaining = self.remaining.saturating_sub(1);
            if refuses(self.visit, index + 1) {
                self.log.push("failed");
                let in_time = wait.map(|wait| due.plus(wait)).filter(|at| *at > now);
                self.next = in_time.or_else(|| wait.map(|wait| now.plus(wait)));
                if self.next.is_none() && self.status == EntryStatus::Pending {
                    self.status = EntryStatus::Failed;
                }
            } else {
                self.log.push("delivered");
                (self.last, self.next) = (Some(now), wait.map(|wait| now.plus(wait)));
                if self.status == EntryStatus::Pending {
                    self.status = EntryStatus::Sent;
                }
            }
        }
        let quiet = self.last.unwrap_or(self.made).plus(GRACE) < now;
        if self.status.is_active() && self.next.is_none() && quiet {
            self.status = EntryStatus::Expired;
        }
    }

    fn end(&mut self, status: EntryStatus) {
        (self.status, self.next) = (status, None);
    }
}

/// An engine whose provider refuses by the table.
async fn open(t: &Bench) -> Engine {
    let channel = |letter: Arc<RenderedMessage>| async move {
        let visit: usize = letter.payload["wip"].as_str().unwrap().parse().unwrap();
        match refuses(visit, usize::try_from(letter.attempt).unwrap()) {
            true => Err(SendError::Permanent { error: "no".into() }),
            false => Ok(AcceptedMessage::default()),
        }
    };
    let builder = Engine::builder(t.place.url()).on_store(t.another().await).clock(ClockMode::Manual);
    builder.channel("memory:default", channel).open().await.unwrap()
}

/// TRG-8, TRG-13, TRG-14, TRG-15, TRG-16
async fn trg_13_entries_do_what_the_model_does(t: &Bench) {
    let engine = open(t).await;
    publish(
        &engine,
        survey(|d| {
            d["triggers"][0]["schedule"] = json!({"initialDelay": "10s", "reminders": ["20s", "30s"]});
            d["triggers"][0]["expiry"] = json!("40s");
        }),
    )
    .await;
    let mut dice = Dice::new();
    let mut model: BTreeMap<PublicId, Entry> = BTreeMap::new();
    for step in 0..STEPS {
        match dice.below(10) {
            0..=2 => events(&engine, &mut model, &mut dice, t.now().await).await,
            3..=5 => {
                let now = t.advance(seconds(1 + dice.below(25) as u64)).await;
                engine.tick(3).await.unwrap();
                model.values_mut().for_each(|entry| entry.tick(now));
            }
            deed if !model.is_empty() => {
                let ids: Vec<PublicId> = model.keys().copied().collect();
                let id = *dice.pick(&ids);
                deed_to(&engine, id, model.get_mut(&id).unwrap(), deed, step).await;
            }
            _ => {}
        }
        for (id, expected) in model.iter().filter(|(_, entry)| !entry.deleted) {
            assert_eq!(&seen(&engine, *id, expected).await, expected, "step {step}");
        }
    }
    let counted = |status| model.values().filter(|entry| entry.status == status).count();
    println!("{:?}", EntryStatus::ALL.map(|status| (status, counted(status))));
}

/// A few events, some of them the same: one entry for each visit that has none.
async fn events(engine: &Engine, model: &mut BTreeMap<PublicId, Entry>, dice: &mut Dice, now: Timestamp) {
    let count = 1 + dice.below(3);
    let visits: Vec<usize> = (0..count).map(|_| dice.below(VISITS)).collect();
    let said = ingest(engine, visits.iter().map(|n| visit(&n.to_string(), "GR")).collect()).await;
    for (visit, item) in visits.iter().zip(said) {
        let id = item.instances[0].public_id;
        match model.iter().find(|(_, entry)| entry.visit == *visit && !entry.deleted) {
            Some((owner, _)) => assert_eq!((item.outcome, id), (IngestOutcome::Skipped, *owner)),
            None => {
                assert_eq!(item.outcome, IngestOutcome::Created);
                model.insert(id, Entry::new(*visit, now));
            }
        }
    }
}

async fn deed_to(engine: &Engine, id: PublicId, entry: &mut Entry, deed: usize, step: usize) {
    let store = engine.store();
    match deed {
        6 => {
            let there = engine.record_opened(id).await.unwrap();
            assert_eq!(there, !entry.deleted, "step {step}");
            if there && entry.status.is_active() {
                entry.status = EntryStatus::Opened;
            }
        }
        7 | 8 => {
            let answers = json!({"rate": 5}).as_object().unwrap().clone();
            let takes = entry.status.is_active() || entry.status == EntryStatus::Failed;
            match engine.submit(id, answers, None).await.unwrap() {
                SubmitOutcome::Done { .. } if takes && !entry.deleted => entry.end(EntryStatus::Completed),
                SubmitOutcome::Ended(refusal) if !takes && !entry.deleted => {
                    assert_eq!(refusal.status(), entry.status, "step {step}");
                }
                SubmitOutcome::Unknown if entry.deleted => {}
                other => panic!("step {step}: {entry:?} was answered: {other:?}"),
            }
        }
        _ => {
            let deletes = step.is_multiple_of(2);
            let action = if deletes { EntryAction::Delete } else { EntryAction::Cancel };
            let said = change(store, TENANT, id, action).await;
            let takes = !matches!(entry.status, EntryStatus::Completed | EntryStatus::Expired);
            match said.unwrap() {
                ActionOutcome::NotFound => assert!(entry.deleted, "step {step}"),
                ActionOutcome::Done if takes || deletes => {
                    entry.deleted = deletes;
                    if takes {
                        entry.end(EntryStatus::Cancelled);
                    }
                }
                ActionOutcome::Refused(_) if !takes && !deletes => {}
                other => panic!("step {step}: {entry:?} was ended: {other:?}"),
            }
        }
    }
}

/// An entry as the store has it, in the model's words.
async fn seen(engine: &Engine, id: PublicId, expected: &Entry) -> Entry {
    let entry = engine.store().entry(TENANT, id).await.unwrap().expect("the entry is there");
    let stands = entry.state;
    let log = engine.store().delivery_log(TENANT, entry.id).await.unwrap();
    let word = |line: &punctual::flow::rules::entry::log::DeliveryLine| match line.status {
        punctual::flow::rules::entry::log::AttemptOutcome::Delivered => "delivered",
        _ => "failed",
    };
    Entry {
        status: stands.status,
        next: stands.next_send_at,
        last: stands.last_sent_at,
        remaining: usize::try_from(stands.remaining).unwrap(),
        made: stands.triggered_at,
        log: log.iter().map(word).collect(),
        ..expected.clone()
    }
}
