//! PLT-22, PLT-23: how a run knows that it has begun and ended.

use super::{hourly, time};
use crate::bench::{Bench, LEASE, TENANT, abandon, claim_from, fail, message, seconds};
use crate::notification;
use punctual::jobs::store::runs::{ENTITY, RunStatus};
use punctual::queue::store::dead_letters::DeadLetterFilter;
use punctual::queue::store::settle::{SettleAction, SettleOutcome};
use punctual::{OverlapPolicy, Tenant};
use serde_json::json;

cases![
    plt_22_a_run_is_told_from_its_claim_to_its_end,
    plt_22_a_run_that_fails_is_tried_again_and_ends_as_a_dead_letter,
    plt_22_a_replayed_run_goes_on,
    plt_22_a_crashed_run_comes_back,
    plt_22_a_message_that_claims_to_be_a_run_is_nobodys,
    plt_23_a_run_is_neither_cancelled_nor_moved_as_a_timer,
    plt_23_a_stale_worker_ends_no_run,
    plt_23_a_run_that_no_worker_took_is_nobodys,
    plt_23_a_run_of_several_lanes_ends_with_the_last,
    plt_23_the_end_of_a_run_releases_the_next_however_it_ends,
];

/// PLT-23: in a tenant with templates the engine plans from every message, and is no worker by that.
async fn plt_23_a_run_that_no_worker_took_is_nobodys(t: &Bench) {
    let engine = notification::engine(t).await;
    notification::template(&engine, TENANT, "SMS", "x").await;
    t.job("nightly", hourly()).await;
    t.at("2026-05-14T06:00:00Z").await;
    t.plan().await;
    t.at("2026-05-14T06:00:01Z").await;
    notification::tick(&engine).await;
    let run = t.runs("nightly").await.remove(0);
    assert_eq!((run.status, run.attempts), (RunStatus::Pending, 0));
    assert_eq!((run.claimed_by, run.started_at), (None, None), "no worker has taken it");
    let lane = t.lane("reports").await;
    let item = t.claim_one(lane).await;
    t.say(&[item], SettleAction::Ack).await;
    let run = t.runs("nightly").await.remove(0);
    assert_eq!((run.status, run.claimed_by.as_deref()), (RunStatus::Succeeded, Some("tester")));
}

/// PLT-22
async fn plt_22_a_run_is_told_from_its_claim_to_its_end(t: &Bench) {
    t.job("nightly", hourly()).await;
    t.at("2026-05-14T06:00:00Z").await;
    t.plan().await;
    assert_eq!(t.state("nightly").await.last_run.unwrap().1, RunStatus::Pending);
    let lane = t.lane("reports").await;
    t.at("2026-05-14T06:00:01Z").await;
    let item = t.claim_one(lane).await;
    let run = t.runs("nightly").await.remove(0);
    assert_eq!((run.status, run.attempts), (RunStatus::Running, 1));
    assert_eq!(run.started_at, Some(time("2026-05-14T06:00:01Z")));
    assert_eq!((run.claimed_by.as_deref(), run.ended_at), (Some("tester"), None));
    t.at("2026-05-14T06:00:05Z").await;
    t.say(&[item], SettleAction::Done { output: "{\"rows\":7}".into() }).await;
    let run = t.runs("nightly").await.remove(0);
    assert_eq!((run.status, run.attempts), (RunStatus::Succeeded, 1));
    assert_eq!(run.started_at, Some(time("2026-05-14T06:00:01Z")));
    assert_eq!(run.ended_at, Some(time("2026-05-14T06:00:05Z")));
    assert_eq!(run.output.as_deref(), Some("{\"rows\":7}"));
    assert_eq!((run.last_error, run.claimed_by.as_deref()), (None, Some("tester")));
    let last = t.state("nightly").await.last_run;
    assert_eq!(last, Some((time("2026-05-14T06:00:01Z"), RunStatus::Succeeded)));
}

/// PLT-22
async fn plt_22_a_run_that_fails_is_tried_again_and_ends_as_a_dead_letter(t: &Bench) {
    let lane = t.lane_with("reports", json!({"maxAttempts": 2})).await;
    t.job("nightly", hourly()).await;
    t.trigger("nightly").await;
    let item = t.claim_one(lane).await;
    t.say(&[item], abandon("not yet")).await;
    let run = t.runs("nightly").await.remove(0);
    assert_eq!((run.status, run.attempts, run.ended_at), (RunStatus::Pending, 1, None));
    assert_eq!(run.last_error.as_deref(), Some("not yet"));
    t.advance(seconds(60)).await;
    let item = t.claim_one(lane).await;
    assert_eq!(t.runs("nightly").await[0].status, RunStatus::Running);
    t.say(&[item], abandon("never")).await;
    let run = t.runs("nightly").await.remove(0);
    assert_eq!((run.status, run.attempts), (RunStatus::Failed, 2));
    assert_eq!(run.last_error.as_deref(), Some("never"));
    assert_eq!(run.ended_at, Some(t.now().await));
    assert_eq!(run.started_at, Some(run.scheduled_at), "its first attempt");
}

/// PLT-22
async fn plt_22_a_replayed_run_goes_on(t: &Bench) {
    let lane = t.lane("reports").await;
    t.job("nightly", hourly()).await;
    t.trigger("nightly").await;
    let item = t.claim_one(lane).await;
    t.say(&[item], fail("no")).await;
    t.store().replay(Tenant::DEFAULT, DeadLetterFilter::default(), false).await.unwrap();
    let run = t.runs("nightly").await.remove(0);
    assert_eq!((run.status, run.ended_at), (RunStatus::Pending, None));
    let item = t.claim_one(lane).await;
    t.ack(&item).await;
    assert_eq!(t.statuses("nightly").await, [RunStatus::Succeeded]);
    // A purged one stays as it is.
    t.trigger("nightly").await;
    let item = t.claim_one(lane).await;
    t.say(&[item], fail("no")).await;
    t.store().purge(Tenant::DEFAULT, DeadLetterFilter::default(), false).await.unwrap();
    assert_eq!(t.statuses("nightly").await[1], RunStatus::Failed);
}

/// PLT-22
async fn plt_22_a_crashed_run_comes_back(t: &Bench) {
    let lane = t.lane_with("reports", json!({"maxAttempts": 2})).await;
    t.job("nightly", hourly()).await;
    t.trigger("nightly").await;
    t.claim_one(lane).await;
    t.advance(LEASE).await;
    t.reap().await;
    let run = t.runs("nightly").await.remove(0);
    assert_eq!((run.status, run.attempts), (RunStatus::Pending, 1));
    assert_eq!(run.last_error.as_deref(), Some("the lease of tester ran out"));
    t.advance(seconds(60)).await;
    t.claim_one(lane).await;
    t.advance(LEASE).await;
    assert_eq!(t.reap().await.dead, 1);
    assert_eq!(t.statuses("nightly").await, [RunStatus::Failed]);
}

/// PLT-22: a run is found by its own message, not by what a message says.
async fn plt_22_a_message_that_claims_to_be_a_run_is_nobodys(t: &Bench) {
    t.job("nightly", hourly()).await;
    let run = t.trigger("nightly").await;
    t.lane("other").await;
    t.enqueue(vec![message("other").entity(ENTITY, run.to_string())]).await;
    let lane = t.lane("other").await;
    let forged = t.claim_one(lane).await;
    assert_eq!(
        t.say(&[forged], SettleAction::Done { output: "\"forged\"".into() }).await,
        [SettleOutcome::Done]
    );
    let run = t.runs("nightly").await.remove(0);
    assert_eq!((run.status, run.output), (RunStatus::Pending, None));
}

/// PLT-19, PLT-23: without its work a run would never end, and its job would wait for it for ever.
async fn plt_23_a_run_is_neither_cancelled_nor_moved_as_a_timer(t: &Bench) {
    let lane = t.lane("reports").await;
    t.job("nightly", hourly()).await;
    t.trigger("nightly").await;
    let ids = t.store().timer_ids(Tenant::DEFAULT, Default::default(), 10).await.unwrap();
    assert_eq!(ids.len(), 1, "the run waits as a message that has a due time");
    let moves = vec![(ids[0], time("2027-01-01T00:00:00Z"))];
    assert_eq!(t.store().move_timers(Tenant::DEFAULT, moves).await.unwrap(), []);
    assert_eq!(t.store().cancel_timers(Tenant::DEFAULT, ids).await.unwrap(), []);
    let item = t.claim_one(lane).await;
    t.say(&[item], SettleAction::Ack).await;
    assert_eq!(t.runs("nightly").await[0].status, RunStatus::Succeeded);
}

/// PLT-23: a lost claim writes nothing, into runs neither.
async fn plt_23_a_stale_worker_ends_no_run(t: &Bench) {
    let lane = t.lane("reports").await;
    t.job("nightly", hourly()).await;
    t.trigger("nightly").await;
    let stale = t.claim_one(lane).await;
    t.advance(LEASE).await;
    t.reap().await;
    t.advance(seconds(60)).await;
    let fresh = t.claim_one(lane).await;
    let before = t.dump().await;
    for word in [SettleAction::Ack, SettleAction::Done { output: "1".into() }, abandon("no"), fail("no")] {
        assert_eq!(t.say(std::slice::from_ref(&stale), word).await, [SettleOutcome::LostClaim]);
    }
    before.assert_equals(&t.dump().await, "the word of a stale worker");
    t.ack(&fresh).await;
    assert_eq!(t.statuses("nightly").await, [RunStatus::Succeeded]);
}

/// PLT-23: a run whose message goes to two lanes.
async fn plt_23_a_run_of_several_lanes_ends_with_the_last(t: &Bench) {
    let own = t.lane("reports").await;
    let lane = "insert into punctual.lane (tenant_id, topic, subscription, created_at) \
        values (1, 'reports', 'mail', 0)";
    t.texts(lane).await;
    let mail = t.store().lane(Tenant::DEFAULT, "reports", "mail").await.unwrap().unwrap().id;
    t.texts(&format!(
        "insert into punctual.route (tenant_id, topic, lane_id) values (1, 'reports', {})",
        mail.0
    ))
    .await;
    t.job("nightly", hourly()).await;
    for (first, then, want) in [
        (SettleAction::Ack, SettleAction::Ack, RunStatus::Succeeded),
        (fail("no"), SettleAction::Ack, RunStatus::Failed),
        (SettleAction::Ack, fail("no"), RunStatus::Failed),
    ] {
        t.trigger("nightly").await;
        let item = t.claim_one(own).await;
        t.say(&[item], first).await;
        let run = t.runs("nightly").await.pop().unwrap();
        assert_eq!((run.status, run.ended_at), (RunStatus::Pending, None), "one lane is left");
        let items = claim_from(t.store(), mail, 1).await;
        t.say(&items, then).await;
        assert_eq!(t.runs("nightly").await.pop().unwrap().status, want);
    }
}

/// PLT-23
async fn plt_23_the_end_of_a_run_releases_the_next_however_it_ends(t: &Bench) {
    let lane = t.lane_with("reports", json!({"maxAttempts": 1})).await;
    t.job("nightly", hourly().overlap(OverlapPolicy::Queue)).await;
    for _ in 0..4 {
        t.trigger("nightly").await;
    }
    let first = t.claim_one(lane).await;
    assert!(t.claim(lane, 9).await.is_empty(), "the others wait");
    t.ack(&first).await;
    let second = t.claim_one(lane).await;
    t.say(&[second], fail("no")).await;
    let _third = t.claim_one(lane).await;
    t.advance(LEASE).await;
    assert_eq!(t.reap().await.dead, 1);
    let fourth = t.claim_one(lane).await;
    t.ack(&fourth).await;
    use RunStatus::{Failed, Succeeded};
    assert_eq!(t.statuses("nightly").await, [Succeeded, Failed, Failed, Succeeded]);
    t.assert_sound().await;
}
