//! From an event to an answer: entries, their sends, their end. The clock stands at
//! 2026-05-14T05:13:00Z.

use crate::bench::author;
use crate::bench::{Bench, TENANT, seconds};
use punctual::LaneId;
use punctual::delivery::rules::delivery::{PlannedDelivery, RecipientIdentity};
use punctual::delivery::rules::send_capacity::SendCapacity;
use punctual::delivery::rules::send_terms::SendTerms;
use punctual::delivery::run::channel::SendFuture;
use punctual::delivery::store::deliveries::begin::BeginRequest;
use punctual::delivery::store::deliveries::delivery::{
    ClaimedDeliveries, DeliveryOutcome, DueDelivery, SettledDelivery,
};
use punctual::delivery::store::entries::actions::{
    ActionOutcome, EntryAction, EntryActionRequest, EntryReference,
};
use punctual::delivery::store::entries::advance::{PeekQuota, PeekedEntries, PlannedSend};
use punctual::delivery::store::entries::step::EntryContext;
use punctual::engine::{Builder, IngestOutcome, IngestReport, IngestRequest, SubmitOutcome, TickCounts};
use punctual::flow::rules::entry::EntryStatus;
use punctual::flow::rules::entry::schedule::SendSchedule;
use punctual::flow::rules::public_id::PublicId;
use punctual::flow::store::entries::Entry;
use punctual::flow::store::flows::FlowDraft;
use punctual::queue::rules::purpose::Purpose;
use punctual::queue::rules::share::LaneQuota;
use punctual::queue::store::ready_lanes::ReadyLane;
use punctual::survey::store::instance::SurveyInstance;
use punctual::survey::store::results::RemovedEntries;
use punctual::survey::store::results::ResultFilter;
use punctual::{
    AcceptedMessage, Channel, ClockMode, Engine, FlowId, RenderedMessage, SendError, Store, TemplateId,
    Timestamp,
};
use serde_json::{Map, Value, json};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

cases![
    trg_5_a_batch_is_answered_in_its_order,
    trg_8_a_deleted_entry_does_not_block,
    trg_8_of_many_at_once_one_is_made,
    trg_9_a_publish_is_seen_by_the_next_ingest_of_another_process,
    trg_10_an_entry_remembers_its_event,
    trg_10_public_ids_of_one_batch_have_nothing_in_common,
    trg_12_the_long_cadence_sends_on_its_days,
    trg_14_what_is_quiet_expires_strictly_after_its_grace,
    trg_15_failures_are_logged_retried_and_given_up,
    trg_15_without_a_channel_an_entry_halts_and_expires,
    trg_15_a_retry_sends_what_halted_for_want_of_a_channel,
    rmd_20_a_lane_paused_between_look_and_take_gives_nothing,
    rmd_20_a_held_entry_expires_when_it_is_released,
    trg_16_an_answer_while_a_letter_is_out_is_the_last_word,
    trg_16_nothing_is_sent_after_the_end,
    trg_22_an_answer_commits_whole_or_not_at_all,
    trg_2_an_event_can_stop_what_another_began,
    a_lost_claim_of_letters_is_sent_again_and_says_so,
    trg_18_texts_come_from_templates_by_locale_and_attempt,
    trg_8_a_key_outlives_its_entry,
    trg_14_an_entry_is_kept_by_its_last_event,
    trg_2_opening_can_end_the_reminders_and_nothing_else,
];

pub const DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub fn time(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

/// A survey with one trigger, as it is changed by `edit`.
pub fn survey(edit: impl FnOnce(&mut Value)) -> Value {
    let mut definition = json!({
        "title": {"en": "How was your visit?", "ar": "كيف كانت زيارتك؟"},
        "locales": ["en", "ar"],
        "defaultLocale": "en",
        "questions": [
            {"id": "rate", "type": "rating", "required": true, "text": {"en": "How was it?", "ar": "كيف؟"}},
            {"id": "why", "type": "longText", "text": {"en": "Why?", "ar": "لماذا؟"},
             "showIf": {"questionId": "rate", "op": "<", "value": 3}},
        ],
        "triggers": [{
            "id": "csi-gr-trigger",
            "enabled": true,
            "eventKind": "service-visit-closed",
            "filter": {"questionId": "candidate.jobType", "op": "==", "value": "GR"},
            "dedupRecipe": ["templateId", "recipient.address", "candidate.dealerId", "candidate.wip"],
            "schedule": {"initialDelay": "0d", "reminders": ["1d"]},
            "channel": "memory:default",
        }],
    });
    edit(&mut definition);
    definition
}

/// What a channel was given, and what it is to answer; `None` is fine.
#[derive(Clone, Default)]
pub struct Mailbox {
    messages: Arc<Mutex<Vec<Arc<RenderedMessage>>>>,
    script: Arc<Mutex<VecDeque<Option<SendError>>>>,
    silent: Arc<AtomicBool>,
    answers: Arc<tokio::sync::Mutex<()>>,
    takes_keys: Arc<AtomicBool>,
}

impl Mailbox {
    pub fn messages(&self) -> Vec<Arc<RenderedMessage>> {
        self.messages.lock().unwrap().clone()
    }

    pub fn fail_with(&self, script: Vec<Option<SendError>>) {
        *self.script.lock().unwrap() = script.into();
    }

    /// Lets the provider recognise a repeated key.
    pub fn take_keys(&self) {
        self.takes_keys.store(true, Ordering::Relaxed);
    }

    /// Whether the channel takes messages and says nothing.
    pub fn never_answer(&self, silent: bool) {
        self.silent.store(silent, Ordering::Relaxed);
    }

    /// Lets the channel take messages and answer only when this is dropped.
    pub async fn hold_answers(&self) -> tokio::sync::OwnedMutexGuard<()> {
        Arc::clone(&self.answers).lock_owned().await
    }

    /// Waits until the channel has taken so many messages.
    pub async fn wait_for(&self, count: usize) {
        while self.messages().len() < count {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    fn take(&self, letter: Arc<RenderedMessage>) -> Result<AcceptedMessage, SendError> {
        self.messages.lock().unwrap().push(letter);
        match self.script.lock().unwrap().pop_front().flatten() {
            Some(trouble) => Err(trouble),
            None => Ok(AcceptedMessage { message_id: Some("mem-1".into()), answer: None }),
        }
    }
}

impl Channel for Mailbox {
    fn send(&self, letter: Arc<RenderedMessage>) -> SendFuture {
        let taker = self.clone();
        Box::pin(async move {
            let answer = taker.take(letter);
            if taker.silent.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
            drop(taker.answers.lock().await);
            answer
        })
    }

    fn takes_idempotency_key(&self) -> bool {
        self.takes_keys.load(Ordering::Relaxed)
    }
}

/// An engine on the bench's database, and the mailbox of its channel.
pub async fn engine(t: &Bench) -> (Engine, Mailbox) {
    engine_with(t, |builder| builder).await
}

/// The same, as it is changed by `edit`.
pub async fn engine_with(t: &Bench, edit: impl FnOnce(Builder) -> Builder) -> (Engine, Mailbox) {
    let mailbox = Mailbox::default();
    let builder = Engine::builder(t.place.url())
        .on_store(t.another().await)
        .clock(ClockMode::Manual)
        .channel("memory:default", mailbox.clone())
        .survey_url("https://survey.example/s/{publicId}");
    (edit(builder).open().await.unwrap(), mailbox)
}

pub async fn publish(engine: &Engine, definition: Value) -> FlowId {
    let draft = FlowDraft { name: "CSI-GR".into(), integration_id: Some("csi-gr".into()), definition };
    let flow = engine.store().create_flow(TENANT, draft).await.unwrap();
    engine.store().publish_flow(TENANT, flow.id).await.unwrap();
    flow.id
}

pub fn visit(wip: &str, job_type: &str) -> Value {
    json!({
        "payload": {"wip": wip, "dealerId": "1", "jobType": job_type, "CustomerName": "Kadhem Owaid"},
        "recipient": {"address": "+964 770 000 0001", "locale": "ar", "customerRef": "cust-123"},
    })
}

pub async fn ingest(engine: &Engine, items: Vec<Value>) -> Vec<IngestReport> {
    of_kind(engine, "service-visit-closed", items).await
}

async fn of_kind(engine: &Engine, kind: &str, items: Vec<Value>) -> Vec<IngestReport> {
    engine.ingest(TENANT, &IngestRequest { event_kind: kind.into(), items }).await.unwrap()
}

/// Ingests one event that makes one entry.
pub async fn invite(engine: &Engine, wip: &str) -> PublicId {
    let made = ingest(engine, vec![visit(wip, "GR")]).await;
    assert_eq!(made[0].outcome, IngestOutcome::Created, "{made:?}");
    made[0].instances[0].public_id
}

pub async fn entry(engine: &Engine, id: PublicId) -> Entry {
    engine.store().entry(TENANT, id).await.unwrap().expect("the entry is there")
}

pub async fn status(engine: &Engine, id: PublicId) -> EntryStatus {
    entry(engine, id).await.state.status
}

pub async fn tick(engine: &Engine) -> TickCounts {
    engine.tick(100).await.unwrap()
}

/// The log of an entry as `attempt status`.
async fn log(engine: &Engine, id: PublicId) -> Vec<String> {
    let lines = engine.store().delivery_log(TENANT, entry(engine, id).await.id).await.unwrap();
    lines.iter().map(|line| format!("{} {}", line.attempt, line.status.word())).collect()
}

pub fn answers(rate: i64) -> Map<String, Value> {
    [("rate".to_owned(), json!(rate))].into_iter().collect()
}

pub fn transient() -> Option<SendError> {
    Some(SendError::Transient { error: "503".into(), retry_after: None })
}

/// TRG-5, TRG-8: created, skipped with the original's id, failed alone, not matched.
async fn trg_5_a_batch_is_answered_in_its_order(t: &Bench) {
    let (engine, _) = engine(t).await;
    let flow = publish(&engine, survey(|_| {})).await;
    let broken = json!({"payload": {"jobType": "GR"}, "recipient": {}});
    let items = vec![visit("1", "GR"), visit("2", "PM"), broken, visit("1", "GR"), visit("3", "GR")];
    let made = ingest(&engine, items).await;
    let outcomes: Vec<IngestOutcome> = made.iter().map(|item| item.outcome).collect();
    use IngestOutcome::{Created, Failed, NoMatch, Skipped};
    assert_eq!(outcomes, [Created, NoMatch, Failed, Skipped, Created]);
    assert_eq!(made[3].instances[0].public_id, made[0].instances[0].public_id, "the original's id");
    assert!(made[2].error.as_ref().unwrap().contains("recipient.address"), "{made:?}");
    assert_eq!((made[0].instances[0].flow, &*made[0].instances[0].trigger_id), (flow, "csi-gr-trigger"));
    let again = ingest(&engine, vec![visit("3", "GR")]).await;
    assert_eq!(again[0].outcome, Skipped);
    assert_eq!(again[0].instances[0].public_id, made[4].instances[0].public_id);
    assert_eq!(of_kind(&engine, "vehicle-sold", vec![visit("9", "GR")]).await[0].outcome, NoMatch);
}

/// TRG-8: what was deleted is welcome again, and is another one then.
async fn trg_8_a_deleted_entry_does_not_block(t: &Bench) {
    let (engine, mailbox) = engine(t).await;
    publish(&engine, survey(|_| {})).await;
    let first = invite(&engine, "1").await;
    assert_eq!(withdraw(&engine, first, EntryAction::Delete).await, ActionOutcome::Done);
    assert_eq!(engine.store().entry(TENANT, first).await.unwrap(), None);
    let second = invite(&engine, "1").await;
    assert_ne!(first, second);
    assert_eq!(withdraw(&engine, first, EntryAction::Delete).await, ActionOutcome::NotFound);
    assert_eq!(ingest(&engine, vec![visit("1", "GR")]).await[0].outcome, IngestOutcome::Skipped);
    assert_eq!(tick(&engine).await.sent, 1);
    assert_eq!(mailbox.messages()[0].public_id, Some(second));
}

/// TRG-8: the unique key decides, whoever comes at the same time.
async fn trg_8_of_many_at_once_one_is_made(t: &Bench) {
    let (first, _) = engine(t).await;
    let (second, _) = engine(t).await;
    publish(&first, survey(|_| {})).await;
    let mut all = tokio::task::JoinSet::new();
    for n in 0..8 {
        let engine = if n % 2 == 0 { first.clone() } else { second.clone() };
        all.spawn(async move {
            let items = (0..20).map(|wip| visit(&((wip * 7 + n) % 20).to_string(), "GR")).collect();
            ingest(&engine, items).await
        });
    }
    let made: Vec<IngestReport> = all.join_all().await.into_iter().flatten().collect();
    let created = made.iter().filter(|item| item.outcome == IngestOutcome::Created).count();
    assert_eq!((created, made.len()), (20, 160), "each visit makes one entry");
    let ids: std::collections::BTreeSet<PublicId> = made.iter().map(|i| i.instances[0].public_id).collect();
    assert_eq!(ids.len(), 20, "and everybody is told that one");
    assert_eq!(tick(&first).await.sent, 20);
}

/// TRG-9, TRG-1: no process meets yesterday's triggers; entries keep their version.
async fn trg_9_a_publish_is_seen_by_the_next_ingest_of_another_process(t: &Bench) {
    let (here, _) = engine(t).await;
    let (there, _) = engine(t).await;
    assert_eq!(ingest(&there, vec![visit("0", "GR")]).await[0].outcome, IngestOutcome::NoMatch);
    let flow = publish(&here, survey(|_| {})).await;
    let old = invite(&there, "1").await;
    let definition = survey(|d| d["triggers"][0]["filter"]["value"] = json!("PM"));
    let draft = FlowDraft { name: "CSI-GR".into(), integration_id: None, definition };
    here.store().change_flow(TENANT, flow, draft).await.unwrap();
    assert_eq!(
        ingest(&there, vec![visit("2", "PM")]).await[0].outcome,
        IngestOutcome::NoMatch,
        "only a draft yet"
    );
    assert_eq!(here.store().publish_flow(TENANT, flow).await.unwrap(), 2);
    let new = ingest(&there, vec![visit("2", "PM"), visit("3", "GR")]).await;
    assert_eq!((new[0].outcome, new[1].outcome), (IngestOutcome::Created, IngestOutcome::NoMatch));
    let version = |of: Entry| of.definition.unwrap().number;
    assert_eq!(version(entry(&there, old).await), 1);
    assert_eq!(version(entry(&there, new[0].instances[0].public_id).await), 2);
    here.store().unpublish_flow(TENANT, flow).await.unwrap();
    assert_eq!(ingest(&there, vec![visit("4", "PM")]).await[0].outcome, IngestOutcome::NoMatch);
}

/// TRG-10: 122 random bits each.
async fn trg_10_public_ids_of_one_batch_have_nothing_in_common(t: &Bench) {
    let (engine, _) = engine(t).await;
    publish(&engine, survey(|_| {})).await;
    let made = ingest(&engine, (0..64).map(|n| visit(&n.to_string(), "GR")).collect()).await;
    let ids: Vec<String> = made.iter().map(|one| one.instances[0].public_id.to_string()).collect();
    // All digits are random but the hyphens, the version, and the variant.
    for place in (0..36).filter(|place| ![8, 13, 14, 18, 19, 23].contains(place)) {
        let digits: std::collections::BTreeSet<u8> = ids.iter().map(|id| id.as_bytes()[place]).collect();
        assert!(digits.len() > 4, "64 ids have only {digits:?} at {place}: {ids:?}");
    }
}

/// TRG-10: what an entry keeps of its event.
async fn trg_10_an_entry_remembers_its_event(t: &Bench) {
    let (engine, _) = engine(t).await;
    let flow = publish(&engine, survey(|d| d["triggers"][0]["schedule"]["initialDelay"] = json!("2h"))).await;
    let mut item = visit("40956", "GR");
    item["occurredAt"] = json!("2026-05-14T05:00:00Z");
    let made = ingest(&engine, vec![item.clone()]).await;
    let entry = entry(&engine, made[0].instances[0].public_id).await;
    let of = SurveyInstance::of(&entry).unwrap();
    assert_eq!((of.flow, of.number, of.trigger_id), (flow, 1, "csi-gr-trigger"));
    assert_eq!((of.channel, of.address), ("memory:default", "+964 770 000 0001"));
    assert_eq!((of.locale, of.customer_ref), (Some("ar"), Some("cust-123")));
    assert_eq!(serde_json::from_str::<Value>(of.payload).unwrap(), item["payload"]);
    assert_eq!(entry.triggered_by, "event:service-visit-closed");
    assert_eq!(entry.state.triggered_at, t.now().await);
    assert_eq!(entry.state.next_send_at, Some(time("2026-05-14T07:00:00Z")), "the event's time counts");
    assert_eq!((entry.state.remaining, entry.state.last_sent_at), (1, None));
}

/// TRG-12: 60 days, then 5, 10 and 15: four sends, to the second; an answer stops the rest.
async fn trg_12_the_long_cadence_sends_on_its_days(t: &Bench) {
    let (engine, mailbox) = engine(t).await;
    let schedule = json!({"initialDelay": "60d", "reminders": ["5d", "10d", "15d"]});
    publish(&engine, survey(|d| d["triggers"][0]["schedule"] = schedule)).await;
    let start = t.now().await;
    let (silent, answering) = (invite(&engine, "1").await, invite(&engine, "2").await);
    engine.travel(start.plus(66 * DAY), true).await.unwrap();
    assert_eq!(mailbox.messages().len(), 4, "two each on days 60 and 65");
    assert!(matches!(engine.submit(answering, answers(5), None).await.unwrap(), SubmitOutcome::Done { .. }));
    engine.travel(start.plus(400 * DAY), true).await.unwrap();
    let lines = engine.store().delivery_log(TENANT, entry(&engine, silent).await.id).await.unwrap();
    let days: Vec<u64> = lines.iter().map(|line| line.sent_at.since(start).as_secs() / 86_400).collect();
    assert_eq!(days, [60, 65, 75, 90]);
    assert!(lines.iter().all(|line| line.sent_at.since(start).as_secs() % 86_400 == 0), "{lines:?}");
    assert_eq!(status(&engine, silent).await, EntryStatus::Expired);
    assert_eq!(log(&engine, answering).await, ["1 delivered", "2 delivered"]);
    assert_eq!(status(&engine, answering).await, EntryStatus::Completed);
    let attempts: Vec<u32> =
        mailbox.messages().iter().filter(|l| l.public_id == Some(silent)).map(|l| l.attempt).collect();
    assert_eq!(attempts, [1, 2, 3, 4]);
}

/// TRG-14: quiet for strictly longer than the grace, counted from the last send; a trigger may have
/// its own.
async fn trg_14_what_is_quiet_expires_strictly_after_its_grace(t: &Bench) {
    let (engine, _) = engine(t).await;
    publish(&engine, survey(|d| d["triggers"][0]["expiry"] = json!("10d"))).await;
    let id = invite(&engine, "1").await;
    let start = t.now().await;
    engine.travel(start.plus(11 * DAY), true).await.unwrap();
    assert_eq!(status(&engine, id).await, EntryStatus::Sent, "ten days after the reminder, not longer");
    assert_eq!(tick(&engine).await.expired, 0);
    engine.travel(start.plus(11 * DAY + seconds(1)), false).await.unwrap();
    assert_eq!(tick(&engine).await.expired, 1);
    assert_eq!(status(&engine, id).await, EntryStatus::Expired);
    assert_eq!(t.count(crate::bench::WORK_BESIDE_MESSAGES).await, 0);
    let late = engine.submit(id, answers(5), None).await.unwrap();
    assert!(matches!(late, SubmitOutcome::Ended(refusal) if refusal.is_gone()), "{late:?}");
}

/// TRG-15: each try is in the log; a refusal ends this send, and the reminder still goes.
async fn trg_15_failures_are_logged_retried_and_given_up(t: &Bench) {
    let (engine, mailbox) = engine(t).await;
    publish(&engine, survey(|_| {})).await;
    let id = invite(&engine, "1").await;
    mailbox.fail_with(vec![transient(), Some(SendError::Unknown { error: "no answer".into() })]);
    let start = t.now().await;
    assert_eq!(tick(&engine).await.failed, 1);
    assert_eq!(status(&engine, id).await, EntryStatus::Pending);
    assert_eq!(tick(&engine).await, TickCounts::default(), "it waits for its backoff");
    engine.travel(start.plus(seconds(600)), true).await.unwrap();
    assert_eq!(log(&engine, id).await, ["1 failed", "1 unknown", "1 delivered"]);
    let keys: std::collections::BTreeSet<String> =
        mailbox.messages().iter().map(|l| l.idempotency_key.clone()).collect();
    assert_eq!(keys.len(), 1, "every try of a send has the same key");
    mailbox.fail_with(vec![Some(SendError::Permanent { error: "no such number".into() })]);
    engine.travel(start.plus(3 * DAY), true).await.unwrap();
    assert_eq!(log(&engine, id).await[3..], ["2 failed"], "a refusal is not tried again");
    let second = invite(&engine, "2").await;
    mailbox.fail_with((0..5).map(|_| transient()).collect());
    engine.travel(start.plus(5 * DAY), true).await.unwrap();
    let want = ["1 failed", "1 failed", "1 failed", "1 failed", "1 failed", "2 delivered"];
    assert_eq!(log(&engine, second).await, want, "given up after five, and the reminder goes");
}

/// TRG-15: on a manual clock an unknown channel is logged by the first tick, nothing is sent any more, and
/// the entry expires.
async fn trg_15_without_a_channel_an_entry_halts_and_expires(t: &Bench) {
    let (engine, _) = engine(t).await;
    publish(&engine, survey(|d| d["triggers"][0]["channel"] = json!("sms:nobody"))).await;
    let id = invite(&engine, "1").await;
    let start = t.now().await;
    assert_eq!(tick(&engine).await.failed, 1, "nobody else would do it between the steps");
    let halted = entry(&engine, id).await.state;
    assert_eq!((halted.status, halted.next_send_at), (EntryStatus::Pending, None));
    assert_eq!(log(&engine, id).await, ["1 no-channel"]);
    engine.travel(start.plus(31 * DAY), true).await.unwrap();
    assert_eq!((status(&engine, id).await, log(&engine, id).await.len()), (EntryStatus::Expired, 1));
}

/// TRG-15, RMD-20: an entry that halted for want of a channel is sent when the channel is there and a person
/// asks for another try; its reminders follow.
async fn trg_15_a_retry_sends_what_halted_for_want_of_a_channel(t: &Bench) {
    let (engine, _) = engine(t).await;
    publish(&engine, survey(|d| d["triggers"][0]["channel"] = json!("sms:late"))).await;
    let id = invite(&engine, "1").await;
    assert_eq!(tick(&engine).await.failed, 1);
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    let later = Engine::builder(t.place.url())
        .on_store(t.another().await)
        .clock(ClockMode::Manual)
        .channel("sms:late", move |_: Arc<RenderedMessage>| {
            count.fetch_add(1, Ordering::Relaxed);
            std::future::ready(Ok(AcceptedMessage::default()))
        })
        .open()
        .await
        .unwrap();
    assert_eq!(later.tick(10).await.unwrap().sent, 0, "nothing goes out by itself");
    let retry = EntryActionRequest {
        name: EntryReference::PublicId(id),
        action: EntryAction::Retry,
        author: author(),
    };
    assert_eq!(later.change_entry(TENANT, retry.clone()).await.unwrap(), ActionOutcome::Done);
    assert_eq!(later.tick(10).await.unwrap().sent, 1);
    assert_eq!(log(&engine, id).await, ["1 no-channel", "1 delivered"]);
    let refused = later.change_entry(TENANT, retry).await.unwrap();
    assert!(matches!(refused, ActionOutcome::Refused(_)), "{refused:?}");
    later.travel(t.now().await.plus(60 * DAY), true).await.unwrap();
    assert!(sent.load(Ordering::Relaxed) > 1, "reminders follow");
}

/// TRG-16: the answer comes while the letter is on its way: the letter is in the log, the entry stays
/// answered, and no reminder follows.
async fn trg_16_an_answer_while_a_letter_is_out_is_the_last_word(t: &Bench) {
    let (first, _) = engine(t).await;
    publish(&first, survey(|_| {})).await;
    let (asker, answering) = (first.clone(), Arc::new(Mutex::new(None)));
    let seen = Arc::clone(&answering);
    let channel = move |letter: Arc<RenderedMessage>| {
        let (asker, seen) = (asker.clone(), Arc::clone(&seen));
        async move {
            let submitted = asker.submit(letter.public_id.unwrap(), answers(5), None).await.unwrap();
            *seen.lock().unwrap() = Some(submitted);
            Ok(AcceptedMessage::default())
        }
    };
    let sender = Engine::builder(t.place.url())
        .on_store(t.another().await)
        .clock(ClockMode::Manual)
        .channel("memory:default", channel)
        .open()
        .await
        .unwrap();
    let id = invite(&first, "1").await;
    assert_eq!(sender.tick(10).await.unwrap().sent, 1);
    assert!(matches!(answering.lock().unwrap().as_ref(), Some(SubmitOutcome::Done { .. })));
    let stands = entry(&first, id).await.state;
    assert_eq!((stands.status, stands.next_send_at), (EntryStatus::Completed, None));
    assert_eq!(log(&first, id).await, ["1 delivered"]);
    assert_eq!(t.count(crate::bench::WORK_BESIDE_MESSAGES).await, 0);
}

/// TRG-16: after an answer, an end or a cancelling nothing is sent, also if its work is still there.
async fn trg_16_nothing_is_sent_after_the_end(t: &Bench) {
    let (engine, mailbox) = engine(t).await;
    publish(&engine, survey(|_| {})).await;
    let ids = [invite(&engine, "1").await, invite(&engine, "2").await, invite(&engine, "3").await];
    mailbox.fail_with(vec![transient(), transient(), transient()]);
    tick(&engine).await;
    // The retries wait at moments of their own, which no deed looks for.
    engine.submit(ids[0], answers(5), None).await.unwrap();
    withdraw(&engine, ids[1], EntryAction::Cancel).await;
    withdraw(&engine, ids[2], EntryAction::Delete).await;
    engine.travel(t.now().await.plus(100 * DAY), true).await.unwrap();
    assert_eq!(mailbox.messages().len(), 3, "one try each, before the end");
    assert_eq!(status(&engine, ids[1]).await, EntryStatus::Cancelled);
    assert_eq!(t.count(crate::bench::WORK_BESIDE_MESSAGES).await, 0);
}

/// TRG-22, TRG-24: the answer, the end, and the message for others commit together.
async fn trg_22_an_answer_commits_whole_or_not_at_all(t: &Bench) {
    let (engine, _) = engine(t).await;
    let flow = publish(&engine, survey(|_| {})).await;
    let id = invite(&engine, "40956").await;
    tick(&engine).await;
    let broken = engine.submit(id, answers(9), None).await.unwrap();
    assert!(matches!(&broken, SubmitOutcome::Wrong(refused) if refused.0[0].0 == "rate"), "{broken:?}");
    shake!(t, "an answer", |store| store.complete(punctual::survey::store::visits::SurveyAnswer {
        public_id: id,
        answers: answers(5),
        meta: Some(json!({"agentId": "7"})),
        listeners: None,
    }));
    let payloads = t.texts("select payload from punctual.message where kind = 'response-completed'").await;
    assert_eq!(payloads.len(), 1, "one message for one answer");
    let told: Value = serde_json::from_str(payloads[0][0].as_deref().unwrap()).unwrap();
    let want = [
        ("surveyId", json!(flow)),
        ("surveyVersion", json!(1)),
        ("surveyIntegrationId", json!("csi-gr")),
        ("instancePublicId", json!(id)),
        ("triggerId", json!("csi-gr-trigger")),
        ("customerRef", json!("cust-123")),
        ("recipientAddress", json!("+964 770 000 0001")),
        ("recipientLocale", json!("ar")),
        ("eventType", json!("response-completed")),
        ("completedAt", json!("2026-05-14T05:13:00Z")),
        ("agentId", json!("7")),
        ("answers", json!({"rate": 5})),
        ("candidateMetadata", visit("40956", "GR")["payload"].clone()),
    ];
    for (field, value) in want {
        assert_eq!(told[field], value, "{field}");
    }
    let second = engine.submit(id, answers(1), None).await.unwrap();
    assert!(matches!(second, SubmitOutcome::Ended(refusal) if !refusal.is_gone()), "{second:?}");
}

/// TRG-2: `stopOn` withdraws what an event of the same key began.
async fn trg_2_an_event_can_stop_what_another_began(t: &Bench) {
    let (engine, mailbox) = engine(t).await;
    publish(
        &engine,
        survey(|d| {
            d["triggers"][0]["schedule"]["initialDelay"] = json!("1d");
            d["triggers"][0]["stopOn"] = json!(["visit-reopened"]);
        }),
    )
    .await;
    let id = invite(&engine, "1").await;
    let other = invite(&engine, "2").await;
    let stopped = of_kind(&engine, "visit-reopened", vec![visit("1", "GR"), visit("7", "GR")]).await;
    assert_eq!((stopped[0].outcome, stopped[0].instances[0].public_id), (IngestOutcome::Stopped, id));
    assert_eq!(stopped[1].outcome, IngestOutcome::NoMatch);
    engine.travel(t.now().await.plus(2 * DAY), true).await.unwrap();
    let to: Vec<_> = mailbox.messages().iter().map(|l| l.public_id.unwrap()).collect();
    assert!(!to.contains(&id) && to.contains(&other), "{to:?}");
}

/// A process is lost while its letters are out: they come back, are sent again under the same key,
/// and the log says that the first may have gone out.
async fn a_lost_claim_of_letters_is_sent_again_and_says_so(t: &Bench) {
    let (engine, mailbox) = engine(t).await;
    publish(&engine, survey(|_| {})).await;
    let id = invite(&engine, "1").await;
    let takes = due_takes(engine.store(), Purpose::Advance).await;
    let lost = begin_sends(engine.store(), takes).await;
    assert_eq!(lost.outgoing.due.len(), 1);
    assert_eq!(tick(&engine).await.sent, 0, "it is in somebody's hands");
    engine.travel(t.now().await.plus(seconds(120)), true).await.unwrap();
    assert_eq!(mailbox.messages().len(), 1);
    assert_eq!(log(&engine, id).await, ["1 unknown", "1 delivered"]);
    assert_eq!(status(&engine, id).await, EntryStatus::Sent);
}

async fn withdraw(engine: &Engine, id: PublicId, action: EntryAction) -> ActionOutcome {
    crate::bench::change(engine.store(), TENANT, id, action).await.unwrap()
}

/// RMD-20, TRG-14: a held entry does not expire. Once it is released, its time counts as if it had not
/// been held.
async fn rmd_20_a_held_entry_expires_when_it_is_released(t: &Bench) {
    let (engine, _) = engine(t).await;
    publish(&engine, survey(|d| d["triggers"][0]["schedule"]["reminders"] = json!([]))).await;
    let (early, late) = (invite(&engine, "1").await, invite(&engine, "2").await);
    tick(&engine).await;
    let change =
        |id, action| EntryActionRequest { name: EntryReference::PublicId(id), action, author: author() };
    let start = t.now().await;
    for id in [early, late] {
        let held = engine.change_entry(TENANT, change(id, EntryAction::Hold)).await.unwrap();
        assert_eq!(held, ActionOutcome::Done);
    }
    engine.travel(start.plus(5 * DAY), true).await.unwrap();
    engine.change_entry(TENANT, change(early, EntryAction::Release)).await.unwrap();
    engine.travel(start.plus(60 * DAY), true).await.unwrap();
    assert_eq!(
        status(&engine, early).await,
        EntryStatus::Expired,
        "released in time, it expires at its time"
    );
    assert_eq!(status(&engine, late).await, EntryStatus::Sent, "what is held does not expire");
    engine.change_entry(TENANT, change(late, EntryAction::Release)).await.unwrap();
    tick(&engine).await;
    assert_eq!(status(&engine, late).await, EntryStatus::Expired);
    assert_eq!(t.count(crate::bench::WORK_BESIDE_MESSAGES).await, 0);
}

/// RMD-20: a lane that is paused after its entries were read gives none of them.
async fn rmd_20_a_lane_paused_between_look_and_take_gives_nothing(t: &Bench) {
    let (engine, _) = engine(t).await;
    publish(&engine, survey(|_| {})).await;
    invite(&engine, "1").await;
    let takes = due_takes(engine.store(), Purpose::Advance).await.into_iter().map(PeekQuota::from);
    let peeked = engine.store().peek_entries(takes.collect()).await.unwrap();
    assert_eq!(peeked.due.len(), 1);
    for (paused, begun) in [(1, 0), (0, 1)] {
        t.texts(&format!("update punctual.lane set paused = {paused} where purpose = 'advance'")).await;
        let sends = begin_peeked(engine.store(), peeked.clone()).await;
        assert_eq!(sends.outgoing.due.len(), begun, "paused: {paused}");
    }
}

/// TRG-18: an invitation is worded by locale and send; without a template by a text of our own.
async fn trg_18_texts_come_from_templates_by_locale_and_attempt(t: &Bench) {
    let (engine, mailbox) = engine(t).await;
    publish(&engine, survey(|_| {})).await;
    let template = json!({"eventType": "survey.invitation", "channel": "memory:default", "language": "ar",
        "attempt": 2, "body": "تذكير {{CustomerName}}: {{surveyUrl}}"});
    engine.store().create_template(TENANT, read_template(&template)).await.unwrap();
    let id = invite(&engine, "1").await;
    engine.travel(t.now().await.plus(2 * DAY), true).await.unwrap();
    let letters = mailbox.messages();
    let url = format!("https://survey.example/s/{id}");
    assert!(letters[0].body.contains(&url) && !letters[0].body.contains("تذكير"), "{}", letters[0].body);
    assert_eq!(letters[1].body, format!("تذكير Kadhem Owaid: {url}"));
    assert_eq!(letters[1].locale, "ar");
}

/// A claim of sends that was begun as a process does it, with what its entries need to go on.
#[derive(Debug, Default)]
pub struct BegunSends {
    pub outgoing: ClaimedDeliveries,
    pub contexts: Vec<EntryContext>,
}

impl BegunSends {
    /// The settlement of all of them, with this ending.
    pub fn ended(&self, ending: impl Fn(&DueDelivery) -> DeliveryOutcome) -> Vec<SettledDelivery> {
        let contexts = self.contexts.iter().cloned().map(Some).chain(std::iter::repeat(None));
        let due = self.outgoing.due.iter().zip(contexts);
        due.map(|(due, entry)| SettledDelivery { due: due.clone(), outcome: ending(due), entry }).collect()
    }
}

/// The provider took it.
pub fn was_sent(_: &DueDelivery) -> DeliveryOutcome {
    DeliveryOutcome::Sent { provider_id: None, answer: None }
}

/// Advances what is due in these lanes and begins the sends, with one reminder after a day.
pub async fn begin_sends(store: &Store, takes: Vec<LaneQuota>) -> BegunSends {
    let takes = takes.into_iter().map(PeekQuota::from).collect();
    begin_peeked(store, store.peek_entries(takes).await.unwrap()).await
}

async fn begin_peeked(store: &Store, PeekedEntries { due, gone }: PeekedEntries) -> BegunSends {
    let schedule = Arc::new(SendSchedule { initial_delay: Duration::ZERO, reminders: vec![DAY] });
    let sends = due.into_iter().map(|(work, entry)| {
        let to = entry.recipient.clone().unwrap();
        let planned = PlannedDelivery {
            key: entry.send_key(),
            channel: to.channel,
            address: Some(to.address),
            send: entry.next_send(),
            part: 0,
            template: TemplateId(0),
            version: 0,
            recipient: RecipientIdentity::default(),
        };
        PlannedSend {
            work,
            context: EntryContext { entry, schedule: Arc::clone(&schedule) },
            planned,
            trace: None,
        }
    });
    let room = SendCapacity { messages: 1_000, by_channel: [("memory:default".to_owned(), 1_000)].into() };
    let start = BeginRequest {
        owner: "crowd".into(),
        lease: seconds(30),
        batch: 1_000,
        room,
        terms: SendTerms::default(),
    };
    let advanced = store.advance_entries(sends.collect(), gone, Some(start)).await.unwrap();
    let begun = advanced.begun.into_iter().next();
    begun.map(|(outgoing, contexts)| BegunSends { outgoing, contexts }).unwrap_or_default()
}

/// The shares of all lanes of a purpose that have something due.
pub async fn due_takes(store: &Store, purpose: Purpose) -> Vec<LaneQuota> {
    let seen = store.ready_lanes(LaneId(-1), 1_000).await.unwrap();
    let is_due = |lane: &&ReadyLane| lane.purpose == purpose && lane.first_due <= seen.now && !lane.paused;
    let lanes = seen.lanes.iter().filter(is_due);
    lanes.map(|l| LaneQuota { lane: l.lane, since: l.first_due, quota: 10 }).collect()
}

pub fn read_template(value: &Value) -> punctual::delivery::rules::template::TemplateDefinition {
    let mut problems = punctual::Problems::default();
    let read = punctual::delivery::rules::template::TemplateDefinition::read(value, &mut problems);
    read.unwrap_or_else(|| panic!("{problems}"))
}

/// TRG-14: an answer is kept by its own age, not by that of its invitation, and results say what has left.
async fn trg_14_an_entry_is_kept_by_its_last_event(t: &Bench) {
    let (engine, _) = engine(t).await;
    let slow = |d: &mut Value| d["triggers"][0]["schedule"]["initialDelay"] = json!("380d");
    let flow = publish(&engine, survey(slow)).await;
    let (late, quiet) = (invite(&engine, "1").await, invite(&engine, "2").await);
    let start = t.now().await;
    engine.travel(start.plus(381 * DAY), true).await.unwrap();
    assert!(matches!(engine.submit(late, answers(5), None).await.unwrap(), SubmitOutcome::Done { .. }));
    engine.travel(start.plus(402 * DAY), true).await.unwrap();
    assert_eq!(status(&engine, late).await, EntryStatus::Completed, "it was answered three weeks ago");
    let results = || async { engine.results(TENANT, flow, &ResultFilter::default()).await.unwrap() };
    assert_eq!((results().await.removed.entries, results().await.counts.total()), (0, 2));
    engine.travel(start.plus(900 * DAY), true).await.unwrap();
    for id in [late, quiet] {
        assert_eq!(engine.store().entry(TENANT, id).await.unwrap(), None, "it was dropped");
    }
    let RemovedEntries { entries, answers } = results().await.removed;
    assert_eq!((entries, answers, results().await.counts.total()), (2, 1, 0));
}

/// TRG-8: an entry goes 400 days after its last send, its key 800 days after its event.
async fn trg_8_a_key_outlives_its_entry(t: &Bench) {
    let (engine, _) = engine(t).await;
    publish(&engine, survey(|_| {})).await;
    let id = invite(&engine, "1").await;
    let start = t.now().await;
    engine.travel(start.plus(440 * DAY), true).await.unwrap();
    assert_eq!(engine.store().entry(TENANT, id).await.unwrap(), None, "it was dropped");
    for table in ["delivery", "delivery_attempt"] {
        assert_eq!(t.count(&format!("select count(*) from punctual.{table}")).await, 0, "{table}");
    }
    let again = ingest(&engine, vec![visit("1", "GR")]).await;
    assert_eq!((again[0].outcome, again[0].instances[0].public_id), (IngestOutcome::Skipped, id));
    engine.travel(start.plus(801 * DAY), true).await.unwrap();
    assert_eq!(ingest(&engine, vec![visit("1", "GR")]).await[0].outcome, IngestOutcome::Created);
}

/// TRG-2: `stopOn` the opening of the page: no reminder follows, and an answer still counts.
async fn trg_2_opening_can_end_the_reminders_and_nothing_else(t: &Bench) {
    let (engine, mailbox) = engine(t).await;
    publish(&engine, survey(|d| d["triggers"][0]["stopOn"] = json!(["instance-opened"]))).await;
    let (reading, forgetting) = (invite(&engine, "1").await, invite(&engine, "2").await);
    tick(&engine).await;
    for id in [reading, forgetting] {
        assert!(engine.record_opened(id).await.unwrap());
        assert_eq!(entry(&engine, id).await.state.next_send_at, None);
    }
    engine.travel(t.now().await.plus(5 * DAY), true).await.unwrap();
    assert_eq!(mailbox.messages().len(), 2, "only the invitations");
    assert!(matches!(engine.submit(reading, answers(5), None).await.unwrap(), SubmitOutcome::Done { .. }));
    engine.travel(t.now().await.plus(30 * DAY), true).await.unwrap();
    assert_eq!(status(&engine, forgetting).await, EntryStatus::Expired);
}
