//! Surveys over HTTP: from an event to an answer, and to those who are told of it.

use crate::client::Client;
use crate::world::{Base, World, claim};
use serde_json::{Value, json};

on_each! {
    trg_5_one_event_from_its_ingest_to_its_end,
    ntf_2_an_event_of_a_topic_begins_a_survey_over_http,
    trg_12_the_voc_cadence_over_http,
    trg_1_a_published_version_stays_as_it_was,
    trg_26_results_and_their_csv,
    trg_27_a_survey_is_sent_by_hand,
    prd_5_an_event_is_explained_and_nothing_written,
    prd_5_an_event_of_a_topic_is_explained_with_its_notification,
    trg_15_failures_by_script_are_in_the_log,
    support_finds_a_customer,
    trg_3_a_broken_definition_is_told_everything,
    trg_5_every_outcome_of_an_ingest_is_counted,
}

/// The survey after a general repair.
pub fn csi_gr() -> Value {
    json!({
        "title": {"en": "How was your visit?", "ar": "كيف كانت زيارتك؟"},
        "locales": ["en", "ar"], "defaultLocale": "en",
        "questions": [
            {"id": "rate", "type": "rating", "required": true, "min": 1, "max": 10,
             "text": {"en": "How satisfied are you?", "ar": "ما مدى رضاك؟"}},
            {"id": "has-a-complaint", "type": "yesNo", "required": true,
             "text": {"en": "Do you have a complaint?", "ar": "هل لديك شكوى؟"}},
            {"id": "complaint", "type": "longText",
             "showIf": {"questionId": "has-a-complaint", "op": "==", "value": "Yes"},
             "text": {"en": "What went wrong?", "ar": "ما الخطأ؟"}},
        ],
        "triggers": [{
            "id": "csi-gr-trigger", "enabled": true, "eventKind": "service-visit-closed",
            "filter": {"questionId": "candidate.jobType", "op": "==", "value": "GR"},
            "dedupRecipe": ["templateId", "recipient.address", "candidate.dealerId", "candidate.wip"],
            "schedule": {"initialDelay": "0d", "reminders": ["1d"]},
            "channel": "memory:default",
        }],
    })
}

/// The event of the worked example.
pub fn event(wip: &str) -> Value {
    json!({"eventKind": "service-visit-closed", "items": [{
        "payload": {"wip": wip, "dealerId": "1", "jobType": "GR", "VIN": "JTMABBBJ2N4024400",
                    "CustomerName": "Kadhem Owaid"},
        "recipient": {"address": "+964 770 000 0001", "locale": "ar", "customerRef": "cust-123"},
    }]})
}

/// A world at the time of the worked example.
async fn world(base: Base) -> (World, Client) {
    let world = World::manual(base).await;
    let root = world.root();
    set(&root, "2026-05-14T05:12:34Z").await;
    (world, root)
}

async fn set(root: &Client, now: &str) {
    root.does("/dev/clock", json!({"set": now, "run": false}), 200).await;
}

/// Makes and publishes a survey; answers its id.
pub async fn publish(root: &Client, definition: Value) -> i64 {
    let body = json!({"name": "E2E CSI-GR", "integrationId": "csi-gr", "definition": definition});
    let made = root.does("/api/surveys", body, 201).await;
    let id = made["id"].as_i64().unwrap();
    let published = root.does(&format!("/api/surveys/{id}/publish"), json!({}), 200).await;
    assert_eq!((&published["surveyId"], &published["version"]), (&json!(id), &json!(1)));
    id
}

async fn ingest(root: &Client, event: Value) -> Value {
    root.does("/api/Surveys/Triggers/ingest", event, 200).await
}

/// Ingests an event that makes one instance; answers its public id.
pub async fn invite(root: &Client, wip: &str) -> String {
    let answer = ingest(root, event(wip)).await;
    answer["items"][0]["instances"][0]["publicId"].as_str().expect("an instance").to_owned()
}

async fn instance(root: &Client, id: &str) -> Value {
    root.sees(&format!("/api/survey-instances/{id}")).await
}

async fn tick(root: &Client) -> Value {
    root.does("/api/scheduler/tick", json!({"batchSize": 100}), 200).await
}

/// Whether an object has these fields with these values.
fn has(object: &Value, wanted: Value) {
    for (field, value) in wanted.as_object().unwrap() {
        assert_eq!(&object[field], value, "{field} of {object}");
    }
}

/// The dedup key of an event, as the recipe makes it.
fn hash(survey: i64, wip: &str) -> String {
    let recipe = ["templateId", "recipient.address", "candidate.dealerId", "candidate.wip"];
    let values = [json!(survey), json!("+964 770 000 0001"), json!("1"), json!(wip)];
    let mut facts = punctual::base::facts::Facts::default();
    recipe.iter().zip(values).for_each(|(path, value)| facts.insert(*path, value));
    punctual::flow::rules::dedup::hex(&recipe.map(str::to_owned), &facts)
}

/// TRG-5, 7, 10 to 15, 21, 22, 24: the worked example, field by field.
async fn trg_5_one_event_from_its_ingest_to_its_end(base: Base) {
    let (world, root) = world(base).await;
    let survey = publish(&root, csi_gr()).await;
    let made = ingest(&root, event("40956")).await;
    has(&made, json!({"created": 1, "skipped": 0, "failed": 0, "unmatched": 0}));
    has(&made["items"][0], json!({"outcome": "Created"}));
    let made = &made["items"][0]["instances"][0];
    has(made, json!({"surveyId": survey, "triggerId": "csi-gr-trigger", "outcome": "Created"}));
    let id = made["publicId"].as_str().unwrap().to_owned();
    let shown = instance(&root, &id).await;
    has(
        &shown,
        json!({"publicId": id, "surveyId": survey, "surveyVersion": 1, "triggerId": "csi-gr-trigger",
            "status": "Pending", "channel": "memory:default", "recipientAddress": "+964 770 000 0001",
            "recipientLocale": "ar", "customerRef": "cust-123", "triggeredAt": "2026-05-14T05:12:34Z",
            "triggeredBy": "event:service-visit-closed", "nextSendAt": "2026-05-14T05:12:34Z",
            "lastSentAt": null, "remindersRemaining": 1, "deliveryLog": [], "dispatches": [],
            "completedAt": null, "metadata": event("40956")["items"][0]["payload"]}),
    );
    assert_eq!(shown["uniqueHash"], hash(survey, "40956"));

    let again = ingest(&root, event("40956")).await;
    has(&again, json!({"created": 0, "skipped": 1, "failed": 0}));
    has(&again["items"][0], json!({"outcome": "Skipped"}));
    assert_eq!(again["items"][0]["instances"][0]["publicId"], id.as_str(), "the original's id");

    set(&root, "2026-05-14T05:13:00Z").await;
    assert_eq!(tick(&root).await, json!({"sent": 1, "failed": 0, "expired": 0, "dispatched": 0}));
    let sent = instance(&root, &id).await;
    has(
        &sent,
        json!({"status": "Sent", "nextSendAt": "2026-05-15T05:13:00Z", "lastSentAt": "2026-05-14T05:13:00Z",
            "remindersRemaining": 0}),
    );
    has(
        &sent["deliveryLog"][0],
        json!({"attempt": 1, "sentAt": "2026-05-14T05:13:00Z", "status": "delivered"}),
    );
    assert!(sent["deliveryLog"][0]["messageId"].as_str().unwrap().starts_with("mem-"), "{sent}");
    let inbox = root.sees("/dev/messages?to=%2B964%20770%20000%200001").await;
    has(
        &inbox["items"][0],
        json!({"channel": "memory:default", "to": "+964 770 000 0001", "locale": "ar", "attempt": 1,
            "publicId": id, "sentAt": "2026-05-14T05:13:00Z"}),
    );
    let url = inbox["items"][0]["surveyUrl"].as_str().unwrap();
    assert!(url.ends_with(&format!("/s/{id}")), "{url}");
    assert!(inbox["items"][0]["body"].as_str().unwrap().contains(url), "the text has the link");

    set(&root, "2026-05-14T05:18:00Z").await;
    assert_eq!(tick(&root).await["sent"], 0, "five minutes later nothing is due");
    assert_eq!(instance(&root, &id).await["lastSentAt"], "2026-05-14T05:13:00Z");

    set(&root, "2026-05-15T05:13:00Z").await;
    assert_eq!(tick(&root).await["sent"], 1);
    let reminded = instance(&root, &id).await;
    has(&reminded, json!({"status": "Sent", "nextSendAt": null, "lastSentAt": "2026-05-15T05:13:00Z"}));
    assert_eq!(reminded["deliveryLog"][1]["attempt"], 2);

    let anybody = world.anybody();
    let opened = anybody.post(&format!("/api/SurveyInstances/{id}/opened"), json!({})).await;
    assert_eq!(opened.status, 204, "{}", opened.text);
    assert_eq!(instance(&root, &id).await["status"], "Opened");
    let responses = format!("/api/SurveyInstances/{id}/responses");
    let wrong = anybody.post(&responses, json!({"answers": {"rate": 11, "colour": "red"}})).await;
    let said = wrong.problem(422);
    for path in ["answers.rate", "answers.colour", "answers.has-a-complaint"] {
        assert!(said.iter().any(|one| one.starts_with(path)), "{path} in {said:?}");
    }
    let answers = json!({"answers": {"rate": 9, "has-a-complaint": true, "complaint": "too slow"},
        "meta": {"agentId": "agent-7"}});
    let done = anybody.post(&responses, answers.clone()).await;
    assert_eq!((done.status, done.json()["publicId"].clone()), (200, json!(id)), "{}", done.text);
    assert_eq!(done.json()["completedAt"], "2026-05-15T05:13:00Z");
    anybody.post(&responses, answers).await.problem(409);
    has(&instance(&root, &id).await, json!({"status": "Completed", "nextSendAt": null}));

    let told = claim(&root, "survey.responses").await;
    let answer = told.iter().find(|item| item["kind"] == "response-completed").expect("the answer is told");
    has(
        &answer["payload"],
        json!({"surveyId": survey, "surveyVersion": 1, "surveyIntegrationId": "csi-gr",
            "instancePublicId": id,
            "triggerId": "csi-gr-trigger", "customerRef": "cust-123", "recipientAddress": "+964 770 000 0001",
            "recipientLocale": "ar", "eventType": "response-completed",
            "completedAt": "2026-05-15T05:13:00Z", "agentId": "agent-7",
            "answers": {"rate": 9, "has-a-complaint": "Yes", "complaint": "too slow"},
            "candidateMetadata": event("40956")["items"][0]["payload"]}),
    );

    let quiet = invite(&root, "40957").await;
    tick(&root).await;
    world.advance("31d").await;
    assert_eq!(instance(&root, &quiet).await["status"], "Sent", "thirty days after the reminder, not longer");
    world.advance("1s").await;
    assert_eq!(instance(&root, &quiet).await["status"], "Expired");
    anybody
        .post(&format!("/api/SurveyInstances/{quiet}/responses"), json!({"answers": {}}))
        .await
        .problem(410);
    let unknown = "/api/SurveyInstances/8f3a1c4e-0b5d-4e6f-a7b8-c9d0e1f2a3b4/responses";
    anybody.post(unknown, json!({"answers": {}})).await.problem(404);
}

/// TRG-12: four sends on days 60, 65, 75 and 90; an answer on day 66 stops the rest.
async fn trg_12_the_voc_cadence_over_http(base: Base) {
    let (world, root) = world(base).await;
    let mut voc = csi_gr();
    voc["triggers"][0]["schedule"] = json!({"initialDelay": "60d", "reminders": ["5d", "10d", "15d"]});
    publish(&root, voc).await;
    let (silent, answering) = (invite(&root, "1").await, invite(&root, "2").await);
    world.advance("66d").await;
    let answers = json!({"answers": {"rate": 5, "has-a-complaint": "No"}});
    let done = world.anybody().post(&format!("/api/SurveyInstances/{answering}/responses"), answers).await;
    assert_eq!(done.status, 200, "{}", done.text);
    world.advance("60d").await;
    let times = |log: &Value| -> Vec<String> {
        log.as_array().unwrap().iter().map(|line| line["sentAt"].as_str().unwrap().to_owned()).collect()
    };
    let days =
        ["2026-07-13T05:12:34Z", "2026-07-18T05:12:34Z", "2026-07-28T05:12:34Z", "2026-08-12T05:12:34Z"];
    assert_eq!(times(&instance(&root, &silent).await["deliveryLog"]), days);
    assert_eq!(times(&instance(&root, &answering).await["deliveryLog"]), days[..2]);
}

/// TRG-1: a draft is edited, a version is not; instances keep theirs.
async fn trg_1_a_published_version_stays_as_it_was(base: Base) {
    let (_world, root) = world(base).await;
    let survey = publish(&root, csi_gr()).await;
    let old = invite(&root, "1").await;
    let mut changed = csi_gr();
    changed["questions"][0]["max"] = json!(5);
    let put = root.put(&format!("/api/surveys/{survey}"), json!({"definition": changed})).await;
    assert_eq!((put.status, put.json()["publishedVersion"].clone()), (200, json!(1)), "{}", put.text);
    assert_eq!(put.json()["integrationId"], "csi-gr", "what is not named stays");
    let version = root.sees(&format!("/api/surveys/{survey}/versions/1")).await;
    assert_eq!(version["definition"], csi_gr());
    let second = root.does(&format!("/api/surveys/{survey}/publish"), json!({}), 200).await;
    assert_eq!(second["version"], 2);
    let new = invite(&root, "2").await;
    let versions = [instance(&root, &old).await, instance(&root, &new).await];
    assert_eq!(versions.map(|one| one["surveyVersion"].clone()), [json!(1), json!(2)]);
    root.get(&format!("/api/surveys/{survey}/versions/3")).await.problem(404);
    root.does(&format!("/api/surveys/{survey}/unpublish"), json!({}), 200).await;
    assert_eq!(ingest(&root, event("3")).await["unmatched"], 1);
}

/// TRG-26: response rate, CSAT, distributions, comments; and a file that no spreadsheet executes.
async fn trg_26_results_and_their_csv(base: Base) {
    let (world, root) = world(base).await;
    let survey = publish(&root, csi_gr()).await;
    let mut ids = Vec::new();
    for wip in ["1", "2", "3", "4"] {
        ids.push(invite(&root, wip).await);
    }
    tick(&root).await;
    let formula = "=HYPERLINK(\"http://evil\",\"x\")";
    let given = [
        json!({"rate": 10, "has-a-complaint": "Yes", "complaint": formula}),
        json!({"rate": 9, "has-a-complaint": "No"}),
        json!({"rate": 3, "has-a-complaint": "No"}),
    ];
    for (id, answers) in ids.iter().zip(given) {
        let path = format!("/api/SurveyInstances/{id}/responses");
        let done = world.anybody().post(&path, json!({"answers": answers})).await;
        assert_eq!(done.status, 200, "{}", done.text);
    }
    let results = root.sees(&format!("/api/surveys/{survey}/results")).await;
    has(&results, json!({"invited": 4, "completed": 3, "responseRate": 0.75}));
    assert_eq!(results["byStatus"]["Sent"], 1);
    assert_eq!(results["questions"][0]["answered"], 3);
    assert_eq!(results["questions"][0]["csat"], json!(2.0 / 3.0));
    assert_eq!(
        results["questions"][1]["distribution"][0],
        json!({"value": "Yes", "count": 1, "share": 1.0 / 3.0})
    );
    assert_eq!(results["comments"][0]["text"], formula);
    let comments = root.sees(&format!("/api/surveys/{survey}/comments")).await;
    assert_eq!(comments, json!({"items": results["comments"], "nextCursor": null}));
    let csv = root.get(&format!("/api/surveys/{survey}/responses.csv")).await;
    assert!(csv.header("content-type").starts_with("text/csv"), "{}", csv.text);
    // It comes in chunks, whose lengths stand between the lines.
    assert_eq!(csv.text.lines().filter(|line| line.contains(',')).count(), 4, "{}", csv.text);
    assert!(csv.text.contains("\"'=HYPERLINK("), "{}", csv.text);
    let none = root.sees(&format!("/api/surveys/{survey}/results?to=2026-01-01T00:00:00Z")).await;
    has(&none, json!({"invited": 0, "completed": 0, "responseRate": null}));
    root.get(&format!("/api/surveys/{survey}/results?from=yesterday")).await.problem(422);
}

/// TRG-27: who would get it, then for real, with the same dedup.
async fn trg_27_a_survey_is_sent_by_hand(base: Base) {
    let (_world, root) = world(base).await;
    let survey = publish(&root, csi_gr()).await;
    let path = format!("/api/surveys/{survey}/triggers/csi-gr-trigger/send");
    let csv = "address,locale,wip,dealerId\n+964 1,ar,1,1\n+964 2,en,2,1\n+964 1,ar,1,1\n,ar,4,1\n";
    let dry = root.does(&path, json!({"csv": csv, "dryRun": true}), 200).await;
    has(&dry, json!({"wouldCreate": 2, "skipped": 1, "failed": 1}));
    assert!(dry.get("created").is_none(), "{dry}");
    assert_eq!(dry["items"][0]["outcome"], "WouldCreate", "{dry}");
    has(&dry["items"][0]["instances"][0], json!({"outcome": "WouldCreate", "publicId": null}));
    assert_eq!(root.sees("/api/survey-instances").await["items"], json!([]), "a dry run writes nothing");
    let sent = root.does(&path, json!({"csv": csv}), 200).await;
    has(&sent, json!({"created": 2, "skipped": 1, "failed": 1}));
    let again = root.does(&path, json!({"csv": csv, "dryRun": true}), 200).await;
    has(&again, json!({"wouldCreate": 0, "skipped": 3, "failed": 1}));
    let known = &sent["items"][0]["instances"][0]["publicId"];
    assert_eq!(&again["items"][0]["instances"][0]["publicId"], known, "what is there has its id");
    root.does("/api/suppressions", json!({"address": "+964 7", "reason": "manual"}), 201).await;
    let refused = json!({"recipients": ["+964 7"], "payload": {"wip": "7"}, "dryRun": true});
    let refused = root.does(&path, refused, 200).await["items"][0].clone();
    has(&refused, json!({"outcome": "Skipped", "error": "the recipient is not sent this: manual"}));
    let typed = json!({"recipients": ["+964 9"], "payload": {"wip": "9", "dealerId": "1"}});
    let typed = root.does(&path, typed, 200).await;
    let id = typed["items"][0]["instances"][0]["publicId"].as_str().unwrap().to_owned();
    assert_eq!(instance(&root, &id).await["triggeredBy"], "user:root");
    root.post(&format!("/api/surveys/{survey}/triggers/nobody/send"), json!({"recipients": []}))
        .await
        .problem(404);
    root.post(&path, json!({})).await.problem(422);
}

/// PRD-5: why, with every value; nothing is written.
async fn prd_5_an_event_is_explained_and_nothing_written(base: Base) {
    let (_world, root) = world(base).await;
    let survey = publish(&root, csi_gr()).await;
    let mut wrong = event("1");
    wrong["items"][0]["payload"]["jobType"] = json!("PM");
    let no = root.does("/api/triggers/explain", wrong, 200).await["items"][0]["triggers"][0].clone();
    has(&no, json!({"surveyId": survey, "triggerId": "csi-gr-trigger", "outcome": "NoMatch"}));
    has(
        &no["filter"]["findings"][0],
        json!({"questionId": "candidate.jobType", "found": "PM", "wanted": "GR", "held": false}),
    );
    let yes = root.does("/api/triggers/explain", event("1"), 200).await["items"][0]["triggers"][0].clone();
    has(&yes, json!({"outcome": "Created", "duplicateOf": null, "channelKnown": true}));
    assert_eq!(yes["sends"][1]["at"], "2026-05-15T05:12:34Z");
    has(&yes["sends"][0], json!({"templateId": null, "locale": "ar"}));
    assert!(yes["sends"][0]["body"].as_str().unwrap().contains("/s/{publicId}"), "{yes}");
    assert_ne!(yes["sends"][0]["body"], yes["sends"][1]["body"], "a reminder has words of its own");
    assert!(yes["dedupText"].as_str().unwrap().contains("␟candidate.wip=1"), "{yes}");
    assert_eq!(root.sees("/api/survey-instances").await["items"], json!([]));
    let id = invite(&root, "1").await;
    let dup = root.does("/api/triggers/explain", event("1"), 200).await["items"][0]["triggers"][0].clone();
    has(&dup, json!({"outcome": "Skipped", "duplicateOf": id}));
    let words = json!({"eventType": "survey.invitation", "channel": "memory:default", "language": "ar",
        "body": "{{candidate.wip}} {{surveyUrl}}"});
    let made = root.does("/api/message-templates", words, 201).await;
    let worded = root.does("/api/triggers/explain", event("1"), 200).await["items"][0]["triggers"][0].clone();
    let send = &worded["sends"][0];
    has(send, json!({"templateId": made["id"], "templateVersion": 1, "subject": null}));
    assert!(send["body"].as_str().unwrap().starts_with("1 http"), "{send}");
    assert!(send["body"].as_str().unwrap().ends_with(&id), "{send}");
}

/// PRD-5: an event as it is published, or one that was, with the deliveries it leads to; not for viewers.
async fn prd_5_an_event_of_a_topic_is_explained_with_its_notification(base: Base) {
    const PATH: &str = "/api/triggers/explain";
    let (world, root) = world(base).await;
    let kind = json!({"topic": "booking.events", "entityType": "booking", "entityIdPath": "id",
        "cancelWhen": {"questionId": "entity.status", "op": "==", "value": "Closed"},
        "recipients": {"phone": "phone", "email": "email"}});
    assert_eq!(root.put("/api/event-kinds/booking.confirmed", kind).await.status, 200);
    let template = json!({"eventType": "booking.confirmed", "channel": "SMS", "language": "en",
        "body": "{{id}} is {{entity.status}}"});
    root.does("/api/message-templates", template, 201).await;
    let event = |status: &str| {
        json!({"topic": "booking.events", "kind": "booking.confirmed", "payload": {"id": "7", "phone": "+1"},
            "entity": {"type": "booking", "id": "7", "state": {"status": status}}})
    };
    let told = root.does(PATH, json!({"event": event("Open")}), 200).await["items"][0].clone();
    has(&told, json!({"error": null, "duplicateOf": null, "triggers": []}));
    has(&told["notification"], json!({"outcome": "Created", "entity": {"type": "booking", "id": "7"}}));
    let delivery = &told["notification"]["deliveries"][0];
    let want = json!({"outcome": "Sent", "toAddress": "+1", "channel": "memory:sms", "channelKnown": true,
        "idempotencyKey": "7:booking.confirmed:SMS:1", "templateId": "1", "body": "7 is Open"});
    has(delivery, want);
    has(&delivery["templates"][0], json!({"chosen": true, "because": "it fits best"}));
    let closed = root.does(PATH, json!({"event": event("Closed")}), 200).await["items"][0].clone();
    has(&closed["notification"], json!({"outcome": "Cancelled", "reason": "CancelWhen", "deliveries": []}));
    assert_eq!(root.sees("/api/automation-schedules").await["items"], json!([]), "nothing is written");
    let id = root.does("/api/events", event("Open"), 202).await["ids"][0].clone();
    root.does("/api/scheduler/tick", json!({}), 200).await;
    let known = root.does(PATH, json!({"eventId": id}), 200).await["items"][0].clone();
    has(&known["notification"], json!({"outcome": "Skipped", "duplicateOf": "1", "duplicateStatus": "Sent"}));
    let known = &known["notification"]["deliveries"][0];
    has(known, json!({"outcome": "Duplicate", "duplicateOf": "1", "duplicateStatus": "Sent"}));
    root.post(PATH, json!({"eventId": "99"})).await.problem(422);
    root.post(PATH, json!({"event": event("Open"), "eventId": id})).await.problem(422);
    root.post(PATH, json!({"event": {"topic": "x"}})).await.problem(422);
    let viewer = world.key(&root, "viewer").await;
    viewer.post(PATH, json!({"eventId": id})).await.problem(403);
    viewer.post(PATH, json!({"event": event("Open")})).await.problem(403);
}

/// TRG-15: provider failures by script, and the log that support reads.
async fn trg_15_failures_by_script_are_in_the_log(base: Base) {
    let (world, root) = world(base).await;
    publish(&root, csi_gr()).await;
    let script = json!({"script": ["transient", "timeout", "ok"], "latencyMs": 0});
    let put = root.put("/dev/channels/memory:default", script).await;
    assert_eq!(put.status, 200, "{}", put.text);
    let id = invite(&root, "1").await;
    assert_eq!(tick(&root).await, json!({"sent": 0, "failed": 1, "expired": 0, "dispatched": 0}));
    world.advance("30m").await;
    let log = instance(&root, &id).await["deliveryLog"].clone();
    let words: Vec<&str> =
        log.as_array().unwrap().iter().map(|line| line["status"].as_str().unwrap()).collect();
    assert_eq!(words, ["failed", "unknown", "delivered"]);
    assert!(log[0]["error"].is_string(), "{log}");
}

/// A support person with a customer on the phone.
async fn support_finds_a_customer(base: Base) {
    let (world, root) = world(base).await;
    let survey = publish(&root, csi_gr()).await;
    let id = invite(&root, "1").await;
    let other = invite(&root, "2").await;
    for query in ["address=%2B964%20770%20000%200001", "customerRef=cust-123", "status=pending"] {
        let found = root.sees(&format!("/api/survey-instances?{query}")).await;
        let ids: Vec<&str> =
            found["items"].as_array().unwrap().iter().map(|i| i["publicId"].as_str().unwrap()).collect();
        assert_eq!(ids, [other.as_str(), id.as_str()], "{query}: the newest first");
    }
    let page = root.sees(&format!("/api/survey-instances?surveyId={survey}&limit=1")).await;
    let cursor = page["nextCursor"].as_str().unwrap();
    let next = root.sees(&format!("/api/survey-instances?surveyId={survey}&limit=1&cursor={cursor}")).await;
    assert_eq!(next["items"][0]["publicId"], id.as_str());
    let viewer = world.key(&root, "viewer").await;
    let seen = instance(&viewer, &id).await;
    assert_eq!((&seen["recipientAddress"], &seen["metadata"]), (&json!("••• 0001"), &Value::Null));
    let cancelled = root.does(&format!("/api/survey-instances/{id}/cancel"), json!({}), 200).await;
    assert_eq!(cancelled["status"], "Cancelled");
    assert_eq!(tick(&root).await["sent"], 1, "only the other is sent");
    assert_eq!(root.delete(&format!("/api/survey-instances/{other}")).await.status, 204);
    root.get(&format!("/api/survey-instances/{other}")).await.problem(404);
    let stranger = world.tenant("other").await;
    stranger.get(&format!("/api/survey-instances/{id}")).await.problem(404);
    root.get("/api/survey-instances?status=lost").await.problem(422);
}

/// NTF-2: `POST /api/events` is enough, whatever the topic; the same event again is the same instance.
async fn ntf_2_an_event_of_a_topic_begins_a_survey_over_http(base: Base) {
    let (_world, root) = world(base).await;
    let survey = publish(&root, csi_gr()).await;
    let mut payload = event("40956")["items"][0]["payload"].clone();
    payload["recipient"] = event("40956")["items"][0]["recipient"].clone();
    let told = json!({"topic": "garage.events", "kind": "service-visit-closed", "payload": payload});
    root.does("/api/events", told.clone(), 202).await;
    assert_eq!(tick(&root).await["sent"], 1);
    root.does("/api/events", told, 202).await;
    assert_eq!(tick(&root).await["sent"], 0);
    let found = root.sees("/api/survey-instances?customerRef=cust-123").await;
    assert_eq!(found["items"].as_array().map(Vec::len), Some(1), "{found}");
    let id = found["items"][0]["publicId"].as_str().unwrap();
    let shown = instance(&root, id).await;
    has(
        &shown,
        json!({"surveyId": survey, "status": "Sent", "recipientAddress": "+964 770 000 0001",
            "recipientLocale": "ar", "triggeredBy": "event:service-visit-closed", "metadata": payload,
            "uniqueHash": hash(survey, "40956")}),
    );
    assert_eq!(shown["deliveryLog"][0]["status"], "delivered", "{shown}");
    let outbox = root.sees("/ops/outbox?status=Unconsumed").await;
    let waits = outbox["items"].as_array().unwrap().iter().filter(|one| one["topic"] == "garage.events");
    assert_eq!(waits.count(), 0, "surveys took it: {outbox}");
}

/// TRG-3: every problem by its path, on save; what is only doubtful is a warning.
async fn trg_3_a_broken_definition_is_told_everything(base: Base) {
    let (_world, root) = world(base).await;
    let mut broken = csi_gr();
    broken["triggers"][0]["filter"]["op"] = json!("=");
    broken["triggers"][0]["schedule"]["initialDelay"] = json!("soon");
    let said = root.post("/api/surveys", json!({"name": "x", "definition": broken})).await.problem(422);
    for path in ["definition.triggers[0].filter.op", "definition.triggers[0].schedule.initialDelay"] {
        assert!(said.iter().any(|one| one.starts_with(path)), "{path} in {said:?}");
    }
    let mut doubtful = csi_gr();
    doubtful["triggers"][0]["channel"] = json!("sms:nobody");
    doubtful["questions"] = json!([]);
    let made = root.does("/api/surveys", json!({"name": "x", "definition": doubtful}), 201).await;
    assert_eq!(made["warnings"][0]["path"], "definition.triggers[0].channel", "{made}");
    let id = made["id"].as_i64().unwrap();
    let said = root.post(&format!("/api/surveys/{id}/publish"), json!({})).await.problem(422);
    assert!(said[0].starts_with("definition.questions"), "a path is the same wherever it is told: {said:?}");
}

/// TRG-5: the five totals add up to the events, with those that stopped an instance.
async fn trg_5_every_outcome_of_an_ingest_is_counted(base: Base) {
    let (_world, root) = world(base).await;
    let mut stoppable = csi_gr();
    stoppable["triggers"][0]["stopOn"] = json!(["visit-reopened"]);
    publish(&root, stoppable).await;
    let made = ingest(&root, event("1")).await;
    has(&made, json!({"created": 1, "skipped": 0, "stopped": 0, "failed": 0, "unmatched": 0}));
    let mut reopened = event("1");
    reopened["eventKind"] = json!("visit-reopened");
    let items = [reopened["items"][0].clone(), event("7")["items"][0].clone(), json!(7)];
    reopened["items"] = json!(items);
    let stopped = ingest(&root, reopened).await;
    has(&stopped, json!({"created": 0, "skipped": 0, "stopped": 1, "failed": 1, "unmatched": 1}));
    assert_eq!(stopped["items"][0]["outcome"], "Stopped");
}
