//! Jobs over HTTP.

use crate::client::Client;
use crate::world::{Base, World, claim, settle};
use serde_json::{Value, json};

on_each! {
    plt_21_a_job_over_http,
    plt_21_clocks_that_change_over_http,
    plt_22_a_downtime_over_http,
    plt_23_a_run_hands_in_its_output,
    plt_29_a_bad_job_is_told_everything,
    a_job_is_found_by_its_tenant_only,
}

async fn manual(base: Base, now: &str) -> (World, Client) {
    let world = World::manual(base).await;
    let root = world.root();
    root.does("/dev/clock", json!({"set": now, "run": false}), 200).await;
    (world, root)
}

async fn put(client: &Client, name: &str, job: Value) -> Value {
    let reply = client.put(&format!("/api/jobs/{name}"), job).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()
}

async fn runs(client: &Client, name: &str) -> Vec<Value> {
    client.sees(&format!("/api/jobs/{name}/runs")).await["items"].as_array().unwrap().clone()
}

fn column(items: &[Value], name: &str) -> Vec<Value> {
    items.iter().map(|item| item[name].clone()).collect()
}

/// PLT-21: every verb, with the fields that the contract names.
async fn plt_21_a_job_over_http(base: Base) {
    let (world, root) = manual(base, "2026-05-14T05:13:00Z").await;
    let job = json!({"topic": "reports", "cron": "0 30 6 * * MON-FRI", "timeZone": "europe/berlin",
        "payload": {"of": "yesterday"}, "misfire": "skip", "overlap": "queue"});
    let want = json!({"name": "nightly", "topic": "reports", "cron": "0 30 6 * * MON-FRI",
        "timeZone": "Europe/Berlin", "payload": {"of": "yesterday"}, "enabled": true, "misfire": "skip",
        "overlap": "queue", "nextDueTime": "2026-05-15T04:30:00Z", "lastRunTime": null,
        "lastRunStatus": null, "version": 1});
    assert_eq!(put(&root, "nightly", job.clone()).await, want);
    assert_eq!(put(&root, "nightly", job).await, want, "the same again changes nothing");
    assert_eq!(root.sees("/api/jobs/nightly").await, want);
    assert_eq!(root.sees("/api/jobs").await, json!({"items": [want], "nextCursor": null}));
    let next = root.sees("/api/jobs/nightly/next?count=3").await;
    assert_eq!(
        next,
        json!({"items": ["2026-05-15T04:30:00Z", "2026-05-18T04:30:00Z", "2026-05-19T04:30:00Z"]})
    );
    assert_eq!(root.sees("/api/jobs/nightly/next").await["items"].as_array().unwrap().len(), 10);
    let run = root.does("/api/jobs/nightly/trigger", json!({}), 202).await["runId"].clone();
    let shown = runs(&root, "nightly").await;
    assert_eq!((&shown[0]["id"], &shown[0]["status"]), (&run, &json!("Pending")), "at once");
    let disabled = root.does("/api/jobs/nightly/disable", json!({}), 200).await;
    assert_eq!((&disabled["enabled"], &disabled["nextDueTime"]), (&json!(false), &Value::Null));
    world.advance("7d").await;
    assert_eq!(runs(&root, "nightly").await.len(), 1, "a disabled job is not planned");
    let enabled = root.does("/api/jobs/nightly/enable", json!({}), 200).await;
    assert_eq!(enabled["nextDueTime"], "2026-05-22T04:30:00Z");
    let gone = root.delete("/api/jobs/nightly").await;
    assert_eq!((gone.status, gone.json()), (200, json!({"deletedRuns": 1, "runsInFlight": 0})));
    for path in ["", "/runs", "/next"] {
        root.get(&format!("/api/jobs/nightly{path}")).await.problem(404);
    }
    for verb in ["trigger", "enable", "disable"] {
        root.post(&format!("/api/jobs/nightly/{verb}"), json!({})).await.problem(404);
    }
    root.delete("/api/jobs/nightly").await.problem(404);
}

/// PLT-21: a night in which the clocks go forward, and one in which they go back.
async fn plt_21_clocks_that_change_over_http(base: Base) {
    let daily = json!({"topic": "reports", "cron": "30 2 * * *", "timeZone": "Europe/Berlin", "payload": 1});
    let nights = [
        // 02:30 does not exist on the 29th of March: due at 03:00, right after the gap.
        ("2026-03-27T12:00:00Z", ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]),
        // 02:30 exists twice on the 25th of October: due once, the first time.
        ("2026-10-23T12:00:00Z", ["2026-10-24T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]),
    ];
    for (from, want) in nights {
        let (world, root) = manual(base, from).await;
        put(&root, "daily", daily.clone()).await;
        let next = root.sees("/api/jobs/daily/next?count=3").await;
        assert_eq!(next["items"], json!(want), "as a preview");
        world.advance("3d").await;
        let mut times = column(&runs(&root, "daily").await, "scheduledTime");
        times.reverse();
        assert_eq!(json!(times), json!(want), "as runs");
        let claimed = claim(&root, "reports").await;
        assert_eq!(json!(column(&claimed, "dueAt")), json!(want), "as messages");
    }
}

/// PLT-22: the clock is moved while nothing runs, then everything is done that is due.
async fn plt_22_a_downtime_over_http(base: Base) {
    for (misfire, want) in [("runOnce", 1), ("runAll", 3), ("skip", 0)] {
        let (_world, root) = manual(base, "2026-05-14T05:13:00Z").await;
        put(&root, "hourly", json!({"topic": "reports", "cron": "0 * * * *", "misfire": misfire})).await;
        root.does("/dev/clock", json!({"advance": "3h15m", "run": false}), 200).await;
        assert!(runs(&root, "hourly").await.is_empty(), "nothing happens by itself");
        root.does("/api/scheduler/tick", json!({}), 200).await;
        assert_eq!(claim(&root, "reports").await.len(), want, "{misfire}");
        let skipped = runs(&root, "hourly").await.into_iter().filter(|run| run["status"] == "Skipped");
        let said: Vec<String> = skipped.map(|run| run["lastError"].as_str().unwrap().to_owned()).collect();
        assert_eq!(said.len(), usize::from(misfire != "runAll"), "{said:?}");
        assert!(said.iter().all(|said| said.contains(&format!("misfire: {misfire}"))), "{said:?}");
        let job = root.sees("/api/jobs/hourly").await;
        assert_eq!(job["nextDueTime"], "2026-05-14T09:00:00Z");
    }
}

/// PLT-23: from the claim to the end, over HTTP.
async fn plt_23_a_run_hands_in_its_output(base: Base) {
    let (world, root) = manual(base, "2026-05-14T05:59:00Z").await;
    put(&root, "hourly", json!({"topic": "reports", "cron": "0 * * * *", "overlap": "queue"})).await;
    world.advance("1m").await;
    root.does("/api/jobs/hourly/trigger", json!({}), 202).await;
    let item = claim(&root, "reports").await.remove(0);
    assert_eq!((&item["kind"], &item["headers"]["job"]), (&json!("job-run"), &json!("hourly")));
    assert_eq!(item["headers"]["scheduledTime"], "2026-05-14T06:00:00Z");
    let shown = runs(&root, "hourly").await;
    assert_eq!(json!(column(&shown, "status")), json!(["Queued", "Running"]), "the latest first");
    assert_eq!((&shown[1]["claimedBy"], &shown[1]["attempts"]), (&json!("worker-1"), &json!(1)));
    assert_eq!(shown[1]["startTime"], "2026-05-14T06:00:00Z");
    let large = json!({"items": [{"id": item["id"], "token": item["token"], "output": "x".repeat(65_536)}]});
    assert_eq!(root.post("/api/queues/reports/ack", large).await.problem(422), ["items[0].output"]);
    world.advance("5s").await;
    let word = json!({"id": item["id"], "token": item["token"], "output": {"rows": [1, 2.5, null]}});
    assert_eq!(settle(&root, "reports", "ack", word).await, "Done");
    let shown = runs(&root, "hourly").await;
    assert_eq!(json!(column(&shown, "status")), json!(["Pending", "Succeeded"]), "the next was released");
    let run = &shown[1];
    assert_eq!((&run["output"], &run["lastError"]), (&json!({"rows": [1, 2.5, null]}), &Value::Null));
    assert_eq!(run["endTime"], "2026-05-14T06:00:05Z");
    let job = root.sees("/api/jobs/hourly").await;
    assert_eq!(job["lastRunStatus"], "Pending");
    let first = root.sees("/api/jobs/hourly/runs?limit=1").await;
    let more = format!("/api/jobs/hourly/runs?limit=1&cursor={}", first["nextCursor"].as_str().unwrap());
    assert_eq!(root.sees(&more).await["items"][0]["id"], run["id"]);
}

/// PLT-29: all problems at once, and nothing is written.
async fn plt_29_a_bad_job_is_told_everything(base: Base) {
    let (_world, root) = manual(base, "2026-05-14T05:13:00Z").await;
    let bad = json!({"topic": "a/b", "cron": "61 25 * * *", "timeZone": "Mars/Base", "enabled": "yes",
        "misfire": "later", "overlap": "never", "colour": 1});
    let mut paths = root.put("/api/jobs/x", bad).await.problem(422);
    paths.sort();
    assert_eq!(paths, ["colour", "cron", "cron", "enabled", "misfire", "overlap", "timeZone", "topic"]);
    assert_eq!(root.put("/api/jobs/x", json!({})).await.problem(422), ["topic", "cron"]);
    let never = json!({"topic": "t", "cron": "0 0 30 2 *"});
    let reply = root.put("/api/jobs/x", never).await;
    assert_eq!(reply.problem(422), ["cron"]);
    assert!(reply.text.contains("never comes due"), "{}", reply.text);
    let fine = json!({"topic": "t", "cron": "@daily"});
    let long = format!("/api/jobs/{}", "x".repeat(101));
    assert_eq!(root.put(&long, fine.clone()).await.problem(422), ["name"]);
    root.send("PUT", "/api/jobs/x", "{").await.problem(400);
    assert_eq!(root.sees("/api/jobs").await["items"], json!([]));
    put(&root, "x", fine).await;
    for count in ["0", "1001", "x"] {
        assert_eq!(root.get(&format!("/api/jobs/x/next?count={count}")).await.problem(422), ["count"]);
    }
}

async fn a_job_is_found_by_its_tenant_only(base: Base) {
    let (world, root) = manual(base, "2026-05-14T05:13:00Z").await;
    let acme = world.tenant("acme").await;
    put(&acme, "nightly", json!({"topic": "t", "cron": "@daily"})).await;
    root.get("/api/jobs/nightly").await.problem(404);
    root.get("/api/jobs/nightly/runs").await.problem(404);
    root.post("/api/jobs/nightly/trigger", json!({})).await.problem(404);
    root.delete("/api/jobs/nightly").await.problem(404);
    assert_eq!(root.sees("/api/jobs").await["items"], json!([]));
    assert_eq!(acme.sees("/api/jobs").await["items"][0]["name"], "nightly");
}
