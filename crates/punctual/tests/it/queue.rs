//! Queues as operators see them.

use crate::bench::{Bench, TENANT, fail, message, seconds};
use punctual::base::backoff::Backoff;
use punctual::base::id::LaneId;
use punctual::jobs::rules::job::NewJob;
use punctual::queue::rules::purpose::Purpose;
use punctual::queue::rules::queue::DeadHeadPolicy;
use punctual::testing::Backend;
use serde_json::json;
use tokio::task::JoinSet;

cases![
    a_queue_is_made_once_however_many_ask,
    settings_are_kept_and_changed_one_by_one,
    a_refused_setting_makes_no_queue,
    a_queue_tells_what_waits_in_it,
    plt_5_a_policy_is_a_queues_own,
    a_scout_sees_lanes_with_work_and_their_first_due_time,
    the_census_counts_what_health_tells,
    plt_25_the_census_names_tables_and_indexes_that_are_gone,
    plt_25_the_census_tells_the_lag_of_each_purpose,
    plt_25_the_census_tells_the_jobs_that_are_due_first,
];

async fn a_queue_is_made_once_however_many_ask(t: &Bench) {
    let mut tasks = JoinSet::new();
    for _ in 0..10 {
        let store = t.another().await;
        tasks.spawn(async move { store.declare_queue(TENANT, "orders").await.unwrap().id });
    }
    let ids = tasks.join_all().await;
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(t.count("select count(*) from punctual.lane").await, 1);
    assert_eq!(t.count("select count(*) from punctual.route").await, 1);
}

async fn settings_are_kept_and_changed_one_by_one(t: &Bench) {
    let all = json!({"paused": true, "maxAttempts": 3, "backoff": ["5m", "1h"], "retention": "7d",
                     "deadHead": "pass"});
    let id = t.lane_with("orders", all).await;
    assert_eq!(t.lane_with("orders", json!({"paused": false, "maxAttempts": null})).await, id);
    let lane = t.store().lane(TENANT, "orders", "").await.unwrap().unwrap();
    assert!(lane.declared);
    let settings = lane.settings;
    assert_eq!((settings.paused, settings.max_attempts), (false, None));
    assert_eq!(settings.backoff, Some(Backoff::Steps(vec![seconds(300), seconds(3_600)])));
    assert_eq!((settings.retention, settings.dead_head), (Some(seconds(7 * 86_400)), DeadHeadPolicy::Pass));
    // Asking for the queue again changes nothing.
    let before = t.dump().await;
    t.lane("orders").await;
    before.assert_equals(&t.dump().await, "a second declaration");
}

/// PLT-29
async fn a_refused_setting_makes_no_queue(t: &Bench) {
    let before = t.dump().await;
    let change = json!({"maxAttempts": 0}).as_object().unwrap().clone();
    let said = t.store().set_queue(TENANT, "orders", change).await.unwrap_err().to_string();
    assert!(said.contains("maxAttempts: must be a whole number from 1 to 1000"), "{said}");
    before.assert_equals(&t.dump().await, "a refused setting");
}

async fn a_queue_tells_what_waits_in_it(t: &Bench) {
    let lane = t.lane("orders").await;
    let now = t.now().await;
    t.put("orders", 2).await;
    t.enqueue(vec![message("orders").due_at(now.plus(seconds(60)))]).await;
    let items = t.claim(lane, 1).await;
    t.say(&items, fail("no")).await;
    let state = t.store().queue(TENANT, "orders").await.unwrap().unwrap();
    assert_eq!((state.waiting, state.due, state.behind_their_key, state.dead), (2, 1, 0, 1));
    assert_eq!(state.oldest_due, Some(now));
    assert!(t.store().queue(TENANT, "none").await.unwrap().is_none());
}

/// PLT-5: configurable per queue.
async fn plt_5_a_policy_is_a_queues_own(t: &Bench) {
    let slow = t.lane_with("slow", json!({"backoff": {"from": "10s", "to": "10s"}})).await;
    let fast = t.lane("fast").await;
    t.put("slow", 1).await;
    t.put("fast", 1).await;
    for lane in [slow, fast] {
        let item = t.claim_one(lane).await;
        t.say(&[item], crate::bench::abandon("no")).await;
    }
    t.advance(seconds(1)).await;
    assert_eq!(t.claim(fast, 1).await.len(), 1);
    assert!(t.claim(slow, 1).await.is_empty());
    t.advance(seconds(9)).await;
    assert_eq!(t.claim(slow, 1).await.len(), 1);
}

async fn a_scout_sees_lanes_with_work_and_their_first_due_time(t: &Bench) {
    let now = t.now().await;
    let (a, b) = (t.lane("a").await, t.lane("b").await);
    t.lane("empty").await;
    t.put("b", 2).await;
    t.enqueue(vec![message("a").due_at(now.plus(seconds(9))), message("a").due_at(now.plus(seconds(5)))])
        .await;
    t.put("unrouted", 1).await;
    t.pause("b", true).await;
    let view = t.store().ready_lanes(LaneId(-1), 10).await.unwrap();
    let seen: Vec<_> = view.lanes.iter().map(|l| (l.lane, l.first_due, l.paused)).collect();
    assert_eq!(seen, [(LaneId(0), now, false), (a, now.plus(seconds(5)), false), (b, now, true)]);
    assert_eq!(view.lanes[0].tenant, None, "what is not routed belongs to nobody yet");
    assert_eq!((view.lanes[1].tenant, view.lanes[1].topic.as_str()), (Some(TENANT), "a"));
    assert!(!view.more);
    let page = t.store().ready_lanes(LaneId(0), 1).await.unwrap();
    assert_eq!((page.lanes[0].lane, page.more), (a, true));
    assert_eq!(t.store().ready_lanes(b, 10).await.unwrap().lanes, vec![]);
}

async fn the_census_counts_what_health_tells(t: &Bench) {
    let lane = t.lane("orders").await;
    t.put("orders", 3).await;
    let due = t.now().await;
    let items = t.claim(lane, 1).await;
    t.say(&items, fail("no")).await;
    t.claim(lane, 1).await;
    t.advance(seconds(120)).await;
    let census = t.store().census().await.unwrap();
    assert_eq!((census.open_claims, census.stuck_claims, census.dead_letters), (1, 1, 1));
    assert_eq!(census.oldest_due(), Some(due));
    assert_eq!(census.missing, Vec::<String>::new());
    assert_eq!(census.now, t.now().await);
    t.pause("orders", true).await;
    assert_eq!(t.store().census().await.unwrap().oldest_due(), None, "what is paused is not late");
}

/// PLT-25: also unique indexes, such as the one that keeps a job from running twice for one time, and a table
/// that the census itself reads.
async fn plt_25_the_census_names_tables_and_indexes_that_are_gone(t: &Bench) {
    let mut wanted = Vec::new();
    for (sql, gone) in [
        ("drop index punctual.work_by_key", &["work_by_key"][..]),
        ("drop index punctual.run_by_occurrence", &["run_by_occurrence"]),
        ("drop table punctual.resumption", &["resumption"]),
        (
            "drop table punctual.dead_letter",
            &["dead_letter", "dead_letter_by_message", "dead_letter_by_tenant"],
        ),
    ] {
        t.texts(sql).await;
        let prefix = if t.backend == Backend::Sqlite { "punctual_" } else { "" };
        wanted.extend(gone.iter().map(|name| format!("{prefix}{name}")));
        wanted.sort_unstable();
        let mut missing = t.store().census().await.unwrap().missing;
        missing.sort_unstable();
        assert_eq!(missing, wanted, "after `{sql}`");
    }
}

/// PLT-25: of several lanes the oldest due item counts; an item that is due later, or paused, is not late.
async fn plt_25_the_census_tells_the_lag_of_each_purpose(t: &Bench) {
    let now = t.now().await.as_micros();
    for (purpose, topic, paused, late) in [
        ("dispatch", "a", 0, 5),
        ("dispatch", "b", 0, 7),
        ("dispatch", "c", 1, 9),
        ("advance", "a", 0, 3),
        ("send", "a", 0, -60),
    ] {
        let due = now - late * 1_000_000;
        t.all_texts(&[
            &format!(
                "insert into punctual.lane (tenant_id, purpose, topic, paused, created_at) \
                 values (1, '{purpose}', '{topic}', {paused}, 0)"
            ),
            &format!(
                "insert into punctual.work (message_id, lane_id, due_at) select 1, l.id, {due} \
                 from punctual.lane l where l.purpose = '{purpose}' and l.topic = '{topic}'"
            ),
        ])
        .await;
    }
    let lags = async || {
        let census = t.store().census().await.unwrap();
        census.workers.iter().map(|lag| (lag.purpose, lag.at(census.now).as_secs())).collect::<Vec<_>>()
    };
    let [dispatch, advance, send, expire] = Purpose::ALL;
    assert_eq!(lags().await, [(dispatch, 7), (advance, 3), (send, 0), (expire, 0)]);
    // A message that no dispatcher has routed yet.
    let due = now - 11 * 1_000_000;
    t.texts(&format!("insert into punctual.work (message_id, lane_id, due_at) values (2, 0, {due})")).await;
    assert_eq!(lags().await[0], (dispatch, 11));
}

/// PLT-25: a bounded list; a disabled job is never late.
async fn plt_25_the_census_tells_the_jobs_that_are_due_first(t: &Bench) {
    for n in 0..25 {
        let job = NewJob { enabled: Some(n != 3), ..NewJob::new("reports", format!("{n} 0 * * * *")) };
        t.store().put_job(TENANT, &format!("job-{n:02}"), job).await.unwrap();
    }
    let first = t.store().census().await.unwrap().jobs;
    t.store().set_clock(first[0].next_due.plus(seconds(90))).await.unwrap();
    let census = t.store().census().await.unwrap();
    let seen: Vec<_> =
        census.jobs.iter().map(|job| (job.name.clone(), job.at(census.now).as_secs())).collect();
    let due = (0..25).filter(|n| *n != 3).take(20);
    assert_eq!(seen, due.map(|n| (format!("job-{n:02}"), 90 - n)).collect::<Vec<_>>());
    assert!(census.jobs.iter().all(|job| job.tenant == "default"));
}
