//! Whom the moments of an entry are told to, and what a batch that is known already comes to.

use crate::bench::change;
use crate::bench::{Bench, TENANT};
use crate::invitation::{engine, ingest, invite, publish, survey, time, visit};
use crate::subscription::queue;
use punctual::delivery::store::entries::actions::EntryAction;
use punctual::engine::IngestOutcome;
use punctual::flow::rules::public_id::PublicId;
use punctual::{ClockMode, Engine};
use serde_json::json;

cases![
    trg_24_the_message_of_every_moment_has_all_fields,
    trg_26_a_list_chooses_who_is_told_of_every_moment,
    trg_8_a_batch_of_known_events_is_answered_as_ever,
    a_channel_that_breaks_is_tried_again,
];

const TOPIC: &str = "survey.responses";

async fn listen(engine: &Engine, name: &str) {
    engine.store().put_subscription(TENANT, TOPIC, name, queue()).await.unwrap();
}

/// The kinds that wait for a subscription, in their order.
async fn heard(t: &Bench, name: &str) -> Vec<String> {
    let sql = format!(
        "select m.kind from punctual.message m join punctual.work w on w.message_id = m.id \
         join punctual.lane l on l.id = w.lane_id where l.subscription = '{name}' order by m.id"
    );
    crate::dump::first_column(&t.texts(&sql).await)
}

/// TRG-24: the message of every moment has all fields of the seed, and those that it lacks are null.
async fn trg_24_the_message_of_every_moment_has_all_fields(t: &Bench) {
    let (engine, _) = engine(t).await;
    listen(&engine, "all").await;
    let flow = publish(&engine, survey(|d| d["triggers"][0]["schedule"]["reminders"] = json!([]))).await;
    let [answered, withdrawn, quiet] =
        [invite(&engine, "1").await, invite(&engine, "2").await, invite(&engine, "3").await];
    engine.tick(100).await.unwrap();
    engine.travel(time("2026-05-14T06:00:00Z"), true).await.unwrap();
    engine.record_opened(answered).await.unwrap();
    engine.travel(time("2026-05-14T07:00:00Z"), true).await.unwrap();
    let meta = json!({"agentId": "agent-7"});
    let given = json!({"rate": 1, "why": "slow"}).as_object().unwrap().clone();
    engine.submit(answered, given.clone(), Some(meta)).await.unwrap();
    engine.travel(time("2026-05-14T08:00:00Z"), true).await.unwrap();
    change(engine.store(), TENANT, withdrawn, EntryAction::Cancel).await.unwrap();
    engine.travel(time("2026-08-14T05:13:00Z"), true).await.unwrap();

    let message = |id: PublicId, wip: &str, event: &str, at: &str, own: serde_json::Value| {
        let mut all = json!({"surveyId": flow, "surveyVersion": 1, "surveyIntegrationId": "csi-gr",
            "instancePublicId": id, "triggerId": "csi-gr-trigger", "customerRef": "cust-123",
            "recipientAddress": "+964 770 000 0001", "recipientLocale": "ar", "eventType": event,
            "occurredAt": at, "completedAt": null, "agentId": null, "attempt": null, "answers": null,
            "candidateMetadata": visit(wip, "GR")["payload"]});
        all.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
        all
    };
    let completed = json!({"completedAt": "2026-05-14T07:00:00Z", "agentId": "agent-7", "answers": given});
    let sent = |id, wip| message(id, wip, "instance-sent", "2026-05-14T05:13:00Z", json!({"attempt": 1}));
    let want = [
        sent(answered, "1"),
        sent(withdrawn, "2"),
        sent(quiet, "3"),
        message(answered, "1", "instance-opened", "2026-05-14T06:00:00Z", json!({})),
        message(answered, "1", "response-completed", "2026-05-14T07:00:00Z", completed),
        message(withdrawn, "2", "instance-cancelled", "2026-05-14T08:00:00Z", json!({})),
        message(quiet, "3", "instance-expired", "2026-06-13T05:13:00.000001Z", json!({})),
    ];
    let sql = format!("select payload from punctual.message where topic = '{TOPIC}' order by id");
    let told = crate::dump::first_column(&t.texts(&sql).await);
    let told: Vec<serde_json::Value> = told.iter().map(|one| serde_json::from_str(one).unwrap()).collect();
    assert_eq!(told.len(), want.len(), "{told:?}");
    for (told, want) in told.iter().zip(&want) {
        assert_eq!(told, want);
    }
}

/// TRG-24, TRG-26: a survey's list holds for every moment, with its filters; without one all are told.
async fn trg_26_a_list_chooses_who_is_told_of_every_moment(t: &Bench) {
    let (engine, _) = engine(t).await;
    for name in ["all", "crm", "complaints", "garage"] {
        listen(&engine, name).await;
    }
    let subscribers = json!([
        {"key": "crm"},
        {"key": "complaints", "filter": {"questionId": "answers.rate", "op": "<", "value": 3}},
        {"key": "garage", "filter": {"questionId": "candidate.jobType", "op": "==", "value": "GR"}},
    ]);
    publish(&engine, survey(|d| d["subscribers"] = subscribers)).await;
    let answered = invite(&engine, "1").await;
    let withdrawn = invite(&engine, "2").await;
    let quiet = invite(&engine, "3").await;
    assert_eq!(engine.tick(100).await.unwrap().sent, 3);
    engine.record_opened(answered).await.unwrap();
    let rate = [("rate".to_owned(), json!(1))].into_iter().collect();
    engine.submit(answered, rate, None).await.unwrap();
    change(engine.store(), TENANT, withdrawn, EntryAction::Cancel).await.unwrap();
    engine.travel(time("2026-08-14T05:13:00Z"), true).await.unwrap();
    assert_eq!(crate::invitation::entry(&engine, quiet).await.state.status.to_string(), "Expired");
    let sent = ["instance-sent"; 3];
    let rest =
        ["instance-opened", "response-completed", "instance-cancelled", "instance-sent", "instance-expired"];
    let told: Vec<&str> = sent.into_iter().chain(rest).collect();
    assert_eq!(heard(t, "crm").await, told);
    assert_eq!(heard(t, "garage").await, told, "its filter needs no answer");
    assert_eq!(heard(t, "complaints").await, ["response-completed"], "its filter needs an answer");
    assert_eq!(heard(t, "all").await, [""; 0], "it is not on the list");
}

/// TRG-8: how a batch is written depends on what the last one met; what comes of it does not.
async fn trg_8_a_batch_of_known_events_is_answered_as_ever(t: &Bench) {
    let (engine, _) = engine(t).await;
    publish(&engine, survey(|_| {})).await;
    let batch = |from: usize, to: usize| (from..to).map(|n| visit(&n.to_string(), "GR")).collect::<Vec<_>>();
    let ids = |made: &[punctual::engine::IngestReport]| -> Vec<PublicId> {
        made.iter().map(|one| one.instances[0].public_id).collect()
    };
    let first = ingest(&engine, batch(0, 20)).await;
    assert!(first.iter().all(|one| one.outcome == IngestOutcome::Created));
    // The first of these does not know yet that it meets known ones; the others look first.
    for _ in 0..3 {
        let again = ingest(&engine, batch(0, 20)).await;
        assert!(again.iter().all(|one| one.outcome == IngestOutcome::Skipped));
        assert_eq!(ids(&again), ids(&first));
    }
    let mixed = ingest(&engine, batch(10, 30)).await;
    let outcomes: Vec<IngestOutcome> = mixed.iter().map(|one| one.outcome).collect();
    assert_eq!(outcomes, [[IngestOutcome::Skipped; 10], [IngestOutcome::Created; 10]].concat());
    assert_eq!(ids(&mixed)[..10], ids(&first)[10..]);
    // Deleted ones are welcome again, also beside known ones, and twice in a batch is once.
    change(engine.store(), TENANT, ids(&first)[0], EntryAction::Delete).await.unwrap();
    let again = ingest(&engine, [batch(0, 5), batch(0, 1)].concat()).await;
    let outcomes: Vec<IngestOutcome> = again.iter().map(|one| one.outcome).collect();
    assert_eq!(
        (outcomes[0], outcomes[1], outcomes[5]),
        (IngestOutcome::Created, IngestOutcome::Skipped, IngestOutcome::Skipped)
    );
    assert_eq!(ids(&again)[0], ids(&again)[5]);
    assert_ne!(ids(&again)[0], ids(&first)[0]);
    assert_eq!(t.count("select count(*) from punctual.entry where deleted_at is null").await, 30);
    assert_eq!(t.count("select count(*) from punctual.work").await, 30 + 1, "the deleted one's is left");
}

/// A channel that panics may have sent it: it is said so, and tried again.
async fn a_channel_that_breaks_is_tried_again(t: &Bench) {
    let broken = |_| async { panic!("planted") };
    let engine = Engine::builder(t.place.url())
        .on_store(t.another().await)
        .clock(ClockMode::Manual)
        .channel("memory:default", broken)
        .open()
        .await
        .unwrap();
    publish(&engine, survey(|_| {})).await;
    let id = invite(&engine, "1").await;
    let ticked = engine.tick(100).await.unwrap();
    assert_eq!((ticked.sent, ticked.failed), (0, 1));
    let entry = crate::invitation::entry(&engine, id).await;
    let log = engine.store().delivery_log(TENANT, entry.id).await.unwrap();
    assert_eq!(log[0].status.word(), "unknown");
    assert_eq!(log[0].error.as_deref(), Some("the channel broke: it panicked"));
    assert!(entry.state.next_send_at.is_some(), "it is tried again");
}
