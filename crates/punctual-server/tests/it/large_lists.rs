//! Lists of large documents come in parts of about 16 MiB, and so do explanations.

use crate::client::Client;
use crate::surveys::{csi_gr, event};
use crate::world::{Base, World};
use serde_json::{Value, json};

on_each! {
    prd_14_lists_of_large_documents_come_in_parts,
    prd_14_large_surveys_come_in_parts,
    prd_14_large_instances_come_in_parts,
    prd_14_an_explanation_ends_when_it_is_long_enough,
}

const MIB: usize = 1 << 20;

/// The number of items on each page of a list that is asked for as much as it gives.
async fn pages(client: &Client, path: &str) -> Vec<usize> {
    let (mut pages, mut cursor) = (Vec::new(), String::new());
    loop {
        let reply = client.get(&format!("{path}?limit=1000{cursor}")).await;
        assert!(reply.status == 200 && reply.text.len() < 20 * MIB, "{path}: {}", reply.text.len());
        let page = reply.json();
        pages.push(page["items"].as_array().unwrap().len());
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return pages,
        }
    }
}

/// PRD-14
async fn prd_14_lists_of_large_documents_come_in_parts(base: Base) {
    let root = World::manual(base).await.root();
    let text = "x".repeat(250_000);
    for n in 0..70 {
        let kind = json!({"recipients": {"email": "to"}, "sample": {"text": text}});
        assert_eq!(root.put(&format!("/api/event-kinds/kind-{n}"), kind).await.status, 200);
    }
    for n in 0..40 {
        let template = json!({"eventType": "survey.invitation", "channel": "Email", "language": "en",
            "scopeType": "survey", "scopeId": n.to_string(), "body": text, "html": text});
        root.does("/api/message-templates", template, 201).await;
    }
    let payload = "x".repeat(MIB - 100);
    for n in 0..20 {
        let job = json!({"topic": "reports", "cron": "0 14 * * * *", "payload": payload});
        assert_eq!(root.put(&format!("/api/jobs/job-{n}"), job).await.status, 200);
    }
    for (path, count) in [("/api/event-kinds", 70), ("/api/message-templates", 40), ("/api/jobs", 20)] {
        let pages = pages(&root, path).await;
        assert!(pages.len() == 2 && pages.iter().sum::<usize>() == count, "{path}: {pages:?}");
    }
}

/// PRD-14
async fn prd_14_large_surveys_come_in_parts(base: Base) {
    let root = World::manual(base).await.root();
    let mut survey = csi_gr();
    let one_of: Vec<String> = (0..1_000).map(|n| format!("{n:0>500}")).collect();
    let filter = json!({"questionId": "candidate.jobType", "op": "in", "value": one_of});
    survey["triggers"][0]["filter"] = json!({"any": [filter, filter]});
    for n in 0..20 {
        root.does("/api/surveys", json!({"name": format!("s{n}"), "definition": survey}), 201).await;
    }
    let pages = pages(&root, "/api/surveys").await;
    assert!(pages.len() == 2 && pages.iter().sum::<usize>() == 20, "{pages:?}");
}

/// An event of the worked example with a payload of a megabyte.
fn large_event(wip: usize) -> Value {
    let mut event = event(&wip.to_string());
    event["items"][0]["payload"]["text"] = "x".repeat(MIB - 10_000).into();
    event
}

/// PRD-14
async fn prd_14_large_instances_come_in_parts(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    crate::surveys::publish(&root, csi_gr()).await;
    for n in 0..20 {
        let done = root.does("/api/triggers/ingest", large_event(n), 200).await;
        assert_eq!(done["created"], 1, "{done}");
    }
    let pages = pages(&root, "/api/survey-instances").await;
    assert!(pages.len() == 2 && pages.iter().sum::<usize>() == 20, "{pages:?}");
    let few = root.sees("/api/survey-instances?limit=3").await;
    assert_eq!(few["items"].as_array().unwrap().len(), 3);
    assert!(few["nextCursor"].is_string(), "{}", few["nextCursor"]);
}

/// PRD-14: a viewer cannot make the server word thousands of long messages at once.
async fn prd_14_an_explanation_ends_when_it_is_long_enough(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    crate::surveys::publish(&root, csi_gr()).await;
    let template = json!({"eventType": "survey.invitation", "channel": "memory:default", "language": "ar",
        "body": "x".repeat(250_000)});
    root.does("/api/message-templates", template, 201).await;
    let items: Vec<Value> = (0..100).map(|n| event(&n.to_string())["items"][0].clone()).collect();
    let body = json!({"eventKind": "service-visit-closed", "items": items});
    let viewer = world.key(&root, "viewer").await;
    let reply = viewer.post("/api/triggers/explain", body).await;
    assert_eq!(reply.status, 200);
    assert!(reply.text.len() < 20 * MIB, "{} bytes", reply.text.len());
    let told = reply.json();
    let items = told["items"].as_array().unwrap();
    let whole = items.iter().filter(|item| item["error"].is_null()).count();
    assert!((20..60).contains(&whole) && items.len() == 100, "{whole} of {} are explained", items.len());
    let said = items[99]["error"].as_str().unwrap();
    assert!(said.contains("explain this event alone") && items[99]["triggers"] == json!([]), "{said}");
}
