//! PLT-18: what is listed, replayed, forgotten and reported.

use super::{all, dead, delivery, failed, mark, ticket};
use crate::bench::{Bench, LEASE, TENANT, seconds};
use punctual::base::limits::INBOX_RETENTION;
use punctual::queue::rules::inbox::InboxStatus;
use punctual::queue::run::inbox::{InboxPruner, InboxSettings};
use punctual::queue::store::inbox::{
    InboxBeginOutcome, InboxCounts, InboxFilter, InboxMessage, InboxRetention, ProcessingOutcome,
};
use punctual::{ClockMode, Engine, InboxDelivery, InboxId};
use std::time::Duration;

cases![
    plt_18_messages_are_listed_by_source_and_status,
    plt_18_a_replayed_message_is_welcome_again,
    plt_18_a_dry_replay_tells_and_changes_nothing,
    plt_18_only_dead_messages_are_replayed,
    plt_18_only_messages_that_ended_long_ago_are_forgotten,
    plt_8_a_failed_message_that_is_tried_again_is_not_forgotten,
    plt_18_a_pass_forgets_any_number_in_small_steps,
    plt_18_what_is_stuck_is_told,
    plt_18_time_travel_keeps_the_inbox,
];

/// One message in each state, and one of another source.
async fn one_of_each(t: &Bench) {
    ticket(t, delivery("processing")).await;
    for (id, word) in
        [("processed", ProcessingOutcome::Processed), ("failed", failed("no")), ("dead", dead("no"))]
    {
        let (ticket, _) = ticket(t, delivery(id)).await;
        mark(t, &ticket, word).await;
    }
    let (other, _) = ticket(t, InboxDelivery::new("web", "dead")).await;
    mark(t, &other, dead("no")).await;
}

async fn listed(t: &Bench, which: InboxFilter) -> Vec<String> {
    let all = t.store().inbox(TENANT, which, 100).await.unwrap();
    all.into_iter().map(|r| format!("{}/{}", r.source, r.message_id)).collect()
}

/// PLT-18
async fn plt_18_messages_are_listed_by_source_and_status(t: &Bench) {
    one_of_each(t).await;
    for status in InboxStatus::ALL {
        let own = InboxFilter { source: Some("shop".into()), status: Some(status), ..InboxFilter::default() };
        assert_eq!(listed(t, own).await, [format!("shop/{}", status.word())]);
    }
    let status = Some(InboxStatus::Dead);
    let dead = InboxFilter { status, ..InboxFilter::default() };
    assert_eq!(listed(t, dead.clone()).await, ["shop/dead", "web/dead"], "in the order they came");
    let first = all(t).await.into_iter().find(|r| r.status == InboxStatus::Dead).unwrap().id;
    assert_eq!(listed(t, InboxFilter { after: first.0, ..dead }).await, ["web/dead"]);
    let none = InboxFilter { ids: Some(vec![]), ..InboxFilter::default() };
    assert_eq!(listed(t, none).await, [""; 0], "no ids are not all ids");
    assert_eq!(listed(t, InboxFilter::default()).await.len(), 5);
}

/// PLT-18: with its attempts counted anew; until then it stays dead.
async fn plt_18_a_replayed_message_is_welcome_again(t: &Bench) {
    for n in 1..=3 {
        let (ticket, _) = ticket(t, delivery("1")).await;
        mark(t, &ticket, failed(&n.to_string())).await;
    }
    let id = all(t).await[0].id;
    let which = InboxFilter { ids: Some(vec![id]), ..InboxFilter::default() };
    let moved = t.store().replay_inbox(TENANT, which.clone(), false).await.unwrap();
    assert_eq!((moved.ids, moved.more), (vec![id], false));
    let row = all(t).await.remove(0);
    assert_eq!((row.status, row.attempts, row.error.as_deref()), (InboxStatus::Failed, 0, Some("3")));
    assert_eq!(t.store().replay_inbox(TENANT, which, false).await.unwrap().ids, [], "it is not dead now");
    let (again, attempts) = ticket(t, delivery("1")).await;
    assert_eq!(attempts, 1);
    mark(t, &again, ProcessingOutcome::Processed).await;
    assert_eq!(
        super::begin(t.store(), delivery("1")).await,
        InboxBeginOutcome::AlreadyProcessed { attempts: 1 }
    );
}

/// PLT-18
async fn plt_18_a_dry_replay_tells_and_changes_nothing(t: &Bench) {
    one_of_each(t).await;
    let before = t.dump().await;
    let would = t.store().replay_inbox(TENANT, InboxFilter::default(), true).await.unwrap();
    assert_eq!(would.ids.len(), 2);
    let web = InboxFilter { source: Some("web".into()), ..InboxFilter::default() };
    assert_eq!(t.store().replay_inbox(TENANT, web, true).await.unwrap().ids.len(), 1);
    before.assert_equals(&t.dump().await, "a dry run");
}

/// PLT-18
async fn plt_18_only_dead_messages_are_replayed(t: &Bench) {
    one_of_each(t).await;
    let ids = all(t).await.iter().map(|r| r.id).chain([InboxId(99)]).collect();
    let which =
        InboxFilter { ids: Some(ids), status: Some(InboxStatus::Processed), ..InboxFilter::default() };
    let moved = t.store().replay_inbox(TENANT, which, false).await.unwrap();
    assert_eq!(moved.ids.len(), 2, "whatever status is asked for");
    let left: Vec<InboxStatus> = all(t).await.iter().map(|r| r.status).collect();
    let failed = InboxStatus::Failed;
    assert_eq!(left, [InboxStatus::Processing, InboxStatus::Processed, failed, failed, failed]);
}

/// PLT-8, PLT-18: failed messages go like processed ones, dead ones after the longer of the two retentions,
/// and a message in progress stays, however old.
async fn plt_18_only_messages_that_ended_long_ago_are_forgotten(t: &Bench) {
    one_of_each(t).await;
    let mut keeper = keeper(t, INBOX_RETENTION * 2);
    t.advance(INBOX_RETENTION).await;
    assert_eq!(keeper.pass().await.unwrap(), 0, "not yet");
    t.advance(Duration::from_micros(1)).await;
    assert_eq!(keeper.pass().await.unwrap(), 2);
    let left = |all: Vec<InboxMessage>| all.iter().map(|r| r.status).collect::<Vec<_>>();
    assert_eq!(left(all(t).await), [InboxStatus::Processing, InboxStatus::Dead, InboxStatus::Dead]);
    assert_eq!(ticket(t, delivery("processed")).await.1, 1, "a forgotten message is new");
    t.advance(INBOX_RETENTION).await;
    assert_eq!(keeper.pass().await.unwrap(), 2);
    assert_eq!(left(all(t).await), [InboxStatus::Processing, InboxStatus::Processing]);
}

/// PLT-8: a transaction that takes a failed message for its next attempt keeps it.
async fn plt_8_a_failed_message_that_is_tried_again_is_not_forgotten(t: &Bench) {
    one_of_each(t).await;
    t.advance(INBOX_RETENTION + seconds(1)).await;
    ticket(t, delivery("failed")).await;
    keeper(t, INBOX_RETENTION).pass().await.unwrap();
    assert!(all(t).await.iter().any(|r| r.message_id == "failed" && r.status == InboxStatus::Processing));
}

fn keeper(t: &Bench, message_retention: Duration) -> InboxPruner {
    InboxPruner::new(t.store().clone(), InboxSettings::default(), message_retention)
}

/// PLT-18
async fn plt_18_a_pass_forgets_any_number_in_small_steps(t: &Bench) {
    t.texts(
        "insert into punctual.inbox (tenant_id, source, message_id, status, token, attempts, max_attempts, \
            lease_until, first_seen, last_seen, finished_at) \
         with recursive n (n) as (select 1 union all select n + 1 from n where n < 2500) \
         select 1, 'shop', cast(n as text), 'processed', 'x', 1, 3, 0, 0, 0, 0 from n",
    )
    .await;
    let retention = InboxRetention { finished: seconds(1), dead: seconds(1) };
    assert_eq!(t.store().prune_inbox(retention).await.unwrap(), 1_000, "a bounded number at once");
    assert_eq!(keeper(t, seconds(1)).pass().await.unwrap(), 1_500);
    assert_eq!(all(t).await, []);
}

async fn engine(t: &Bench) -> Engine {
    Engine::builder(t.place.url()).pool_size(2).clock(ClockMode::Manual).open().await.unwrap()
}

/// PLT-18: in health, an hour after its lease.
async fn plt_18_what_is_stuck_is_told(t: &Bench) {
    one_of_each(t).await;
    let engine = engine(t).await;
    t.advance(LEASE + seconds(3_600)).await;
    let health = engine.health().await;
    assert_eq!(health.inbox, InboxCounts { processing: 1, stuck: 0, dead: 2 });
    assert_eq!(health.complaints(), [""; 0]);
    t.advance(seconds(1)).await;
    let health = engine.health().await;
    assert_eq!(health.inbox, InboxCounts { processing: 1, stuck: 1, dead: 2 });
    assert!(health.complaints()[0].contains("1 messages in the inbox are long past their lease"));
    assert!(health.is_ready(), "which is no reason to turn requests away");
}

/// PLT-18: on a manual clock the inbox is kept once per jump.
async fn plt_18_time_travel_keeps_the_inbox(t: &Bench) {
    one_of_each(t).await;
    let engine = engine(t).await;
    engine.travel(t.now().await.plus(INBOX_RETENTION + seconds(1)), true).await.unwrap();
    let left: Vec<InboxStatus> = all(t).await.iter().map(|r| r.status).collect();
    assert_eq!(left, [InboxStatus::Processing], "the others ended longer ago than either retention");
}
