//! The outbox as operators look at it: what became of every message.

use crate::bench::{Bench, TENANT, abandon, fail, message, seconds};
use punctual::access::store::tenants::NewTenant;
use punctual::base::tenant::Tenant;
use punctual::operate::store::outbox::{OutboxFilter, OutboxMessage, OutboxPage, OutboxStatus};
use punctual::queue::rules::message::NewMessage;
use punctual::queue::store::dead_letters::DeadLetterFilter;
use punctual::queue::store::settle::SettleAction;
use punctual::testing::Backend;
use punctual::{DeadLetterId, Entity, MessageId, Timestamp};
use std::time::Duration;

cases![
    ntf_20_a_status_is_read_from_what_is_there,
    ntf_20_a_failed_message_tells_when_and_why,
    ntf_20_the_outbox_is_paged_and_filtered,
    ntf_20_a_filter_by_time_finds_its_place,
    ntf_20_a_page_looks_at_a_bounded_number,
    ntf_22_what_failed_is_told_before_it_is_replayed,
];

const LAST: MessageId = MessageId(i64::MAX);

async fn page(t: &Bench, filter: OutboxFilter, before: MessageId, limit: usize) -> OutboxPage {
    t.store().outbox(filter, before, limit).await.unwrap()
}

async fn all(t: &Bench, filter: OutboxFilter) -> Vec<OutboxMessage> {
    let page = page(t, filter, LAST, 100).await;
    assert_eq!(page.next, None);
    page.messages
}

fn ids(messages: &[OutboxMessage]) -> Vec<MessageId> {
    messages.iter().map(|message| message.id).collect()
}

async fn status(t: &Bench, id: MessageId) -> OutboxStatus {
    t.store().outbox_message(TENANT, id).await.unwrap().unwrap().status
}

async fn tenant(t: &Bench, slug: &str) -> Tenant {
    let new = NewTenant { slug: slug.into(), name: slug.into(), ..NewTenant::default() };
    t.store().create_tenant(new).await.unwrap().tenant
}

/// NTF-20: waiting, in flight, behind its key, retrying, done, dead, cancelled, or for nobody.
async fn ntf_20_a_status_is_read_from_what_is_there(t: &Bench) {
    use OutboxStatus::{Cancelled, Failed, Pending, Published, Unconsumed};
    let lane = t.lane("orders").await;
    let nobody = t.put("nobody", 1).await[0];
    assert_eq!(status(t, nobody).await, Unconsumed, "waits without a route");
    t.store().route_waiting().await.unwrap();
    assert_eq!(status(t, nobody).await, Unconsumed, "waits in a queue that nobody declared");
    t.lane("nobody").await;
    assert_eq!(status(t, nobody).await, Pending, "somebody declared it");
    let handled = t.put("handled", 1).await[0];
    t.store().note_handled(vec!["handled".into()]).await.unwrap();
    t.store().route_waiting().await.unwrap();
    assert_eq!(status(t, handled).await, Pending, "a process handles it");
    let put = t.put("orders", 2).await;
    let keyed = t.put_keyed("orders", &["k", "k"]).await;
    assert_eq!(status(t, put[0]).await, Pending);
    let items = t.claim(lane, 10).await;
    assert_eq!((status(t, put[0]).await, status(t, keyed[0]).await), (Pending, Pending), "in flight");
    assert_eq!(status(t, keyed[1]).await, Pending, "behind its key");
    let now = t.advance(seconds(5)).await;
    let token = items[0].token.clone();
    let words = [(put[0], SettleAction::Ack), (put[1], abandon("later")), (keyed[0], fail("no"))];
    crate::bench::settle_with(t.store(), token, words.to_vec()).await;
    let want = [(put[0], Published), (put[1], Pending), (keyed[0], Failed), (keyed[1], Pending)];
    for (id, want) in want {
        assert_eq!(status(t, id).await, want, "{id}");
    }
    let done = t.store().outbox_message(TENANT, put[0]).await.unwrap().unwrap();
    assert_eq!((done.processed_at, done.attempts, done.last_error), (Some(now), 1, None));
    let again = t.store().outbox_message(TENANT, put[1]).await.unwrap().unwrap();
    assert_eq!((again.processed_at, again.attempts, again.last_error.as_deref()), (None, 1, Some("later")));
    let timer = t.enqueue(vec![message("orders").due_at(now.plus(seconds(60)))]).await[0];
    assert_eq!(status(t, timer).await, Pending);
    t.store().cancel_timers(TENANT, vec![timer]).await.unwrap();
    assert_eq!(status(t, timer).await, Cancelled);
    assert_eq!(t.store().outbox_message(TENANT, MessageId(999_999)).await.unwrap(), None);
    assert_eq!(t.store().outbox_message(tenant(t, "acme").await, put[0]).await.unwrap(), None);
    for (status, word) in OutboxStatus::ALL {
        assert_eq!((OutboxStatus::from_word(word), status.word()), (Some(status), word));
    }
}

/// NTF-20: every field; a good end leaves no error, and a replayed letter is pending again.
async fn ntf_20_a_failed_message_tells_when_and_why(t: &Bench) {
    let lane = t.lane("orders").await;
    let entity = Entity { kind: "booking".into(), id: "12345".into() };
    let mut new = message("orders").key("k");
    new.entity = Some(entity.clone());
    new.correlation_id = Some("story".into());
    let created_at = t.now().await;
    let id = t.enqueue(vec![new]).await[0];
    let item = t.claim_one(lane).await;
    t.say(&[item], abandon("not yet")).await;
    let died = t.advance(seconds(3_600)).await;
    let item = t.claim_one(lane).await;
    t.say(&[item], fail("never")).await;
    let shown = t.store().outbox_message(TENANT, id).await.unwrap().unwrap();
    let want = OutboxMessage {
        id,
        tenant: TENANT,
        topic: "orders".into(),
        kind: message("orders").kind,
        key: Some("k".into()),
        entity: Some(entity),
        correlation_id: Some("story".into()),
        created_at,
        status: OutboxStatus::Failed,
        processed_at: Some(died),
        attempts: 2,
        last_error: Some("never".into()),
    };
    assert_eq!(shown, want);
    t.store().replay(TENANT, DeadLetterFilter::default(), false).await.unwrap();
    assert_eq!(status(t, id).await, OutboxStatus::Pending);
    let end = t.advance(seconds(60)).await;
    let item = t.claim_one(lane).await;
    t.ack(&item).await;
    let shown = t.store().outbox_message(TENANT, id).await.unwrap().unwrap();
    assert_eq!(shown.status, OutboxStatus::Published);
    assert_eq!((shown.processed_at, shown.attempts, shown.last_error), (Some(end), 3, None));
}

/// NTF-20: the newest first, of all tenants or one.
async fn ntf_20_the_outbox_is_paged_and_filtered(t: &Bench) {
    let acme = tenant(t, "acme").await;
    let lane = t.lane("orders").await;
    let orders = t.put("orders", 3).await;
    let items = t.claim(lane, 1).await;
    t.say(&items, fail("no")).await;
    let other = NewMessage { kind: "other".into(), ..message("mail") };
    let other = t.store().enqueue(acme, vec![other]).await.unwrap()[0].id().unwrap();
    let newest = vec![other, orders[2], orders[1], orders[0]];
    assert_eq!(ids(&all(t, OutboxFilter::default()).await), newest);
    let first = page(t, OutboxFilter::default(), LAST, 3).await;
    assert_eq!((ids(&first.messages), first.next), (newest[..3].to_vec(), Some(newest[2])));
    let second = page(t, OutboxFilter::default(), first.next.unwrap(), 3).await;
    assert_eq!((ids(&second.messages), second.next), (newest[3..].to_vec(), None));
    let none = OutboxFilter::default;
    let of = |status| OutboxFilter { status: Some(status), ..none() };
    let table = [
        (OutboxFilter { tenant: Some(acme), ..none() }, vec![other]),
        (OutboxFilter { topic: Some("orders".into()), ..none() }, newest[1..].to_vec()),
        (OutboxFilter { kind: Some("other".into()), ..none() }, vec![other]),
        (of(OutboxStatus::Failed), vec![orders[0]]),
        (of(OutboxStatus::Pending), vec![orders[2], orders[1]]),
        (of(OutboxStatus::Unconsumed), vec![other]),
        (of(OutboxStatus::Published), vec![]),
        (OutboxFilter { tenant: Some(acme), ..of(OutboxStatus::Failed) }, vec![]),
    ];
    for (filter, want) in table {
        assert_eq!(ids(&all(t, filter.clone()).await), want, "{filter:?}");
    }
}

/// NTF-20: with the clock that bisection trusts, and with the one it does not.
async fn ntf_20_a_filter_by_time_finds_its_place(t: &Bench) {
    let (mut put, mut times) = (Vec::new(), Vec::new());
    for _ in 0..40 {
        put.push(t.put("orders", 1).await[0]);
        times.push(t.now().await);
        t.advance(Duration::from_secs(2 * 60 * 60)).await;
    }
    // What was written in a long transaction lies among later ones.
    let late = "update MESSAGE set created_at = created_at - 3000000000 where id = ID";
    for n in [7, 20, 33] {
        let (table, trigger) = match t.backend {
            Backend::Sqlite => {
                ("punctual_message", "drop trigger if exists punctual_message_is_never_updated")
            }
            Backend::Postgres => {
                ("punctual.message", "drop trigger if exists message_is_never_updated on punctual.message")
            }
        };
        let change = late.replace("MESSAGE", table).replace("ID", &put[n].to_string());
        t.place.sql(&[trigger.to_owned(), change]).await.unwrap();
        times[n] = times[n].minus(Duration::from_secs(3_000));
    }
    for manual in [1, 0] {
        let clock = match t.backend {
            Backend::Sqlite => "punctual_clock",
            Backend::Postgres => "punctual.clock",
        };
        t.place.sql(&[format!("update {clock} set manual = {manual}")]).await.unwrap();
        for (from, to) in [(0, 40), (0, 1), (39, 40), (5, 9), (19, 22), (20, 21), (33, 34)] {
            let to_time = times.get(to).copied().unwrap_or(Timestamp::MAX);
            let filter =
                OutboxFilter { from: Some(times[from]), to: Some(to_time), ..OutboxFilter::default() };
            let within = |n: &usize| times[*n] >= times[from] && times[*n] < to_time;
            let want: Vec<MessageId> = (0..40).filter(within).rev().map(|n| put[n]).collect();
            assert_eq!(ids(&all(t, filter).await), want, "from {from} to {to}, manual {manual}");
        }
        let never = OutboxFilter { to: Some(times[0]), ..OutboxFilter::default() };
        assert_eq!(all(t, never).await, []);
    }
}

/// NTF-20: a filter that nothing fits costs no walk through all; the next page goes on where it ended.
async fn ntf_20_a_page_looks_at_a_bounded_number(t: &Bench) {
    let first = t.lane("orders").await;
    let old = t.put("orders", 1).await[0];
    assert!(first.0 > 0);
    t.put("nobody", 10_000).await;
    let filter = OutboxFilter { status: Some(OutboxStatus::Pending), ..OutboxFilter::default() };
    let page_one = page(t, filter.clone(), LAST, 100).await;
    assert_eq!((page_one.messages.len(), page_one.next), (0, Some(MessageId(old.0 + 1))));
    let page_two = page(t, filter, page_one.next.unwrap(), 100).await;
    assert_eq!((ids(&page_two.messages), page_two.next), (vec![old], None));
    assert_eq!(
        all(t, OutboxFilter { status: Some(OutboxStatus::Failed), ..OutboxFilter::default() }).await,
        []
    );
}

/// NTF-22: which consumers would get it again, and which are gone.
async fn ntf_22_what_failed_is_told_before_it_is_replayed(t: &Bench) {
    let lane = t.lane("orders").await;
    let put = t.put("orders", 3).await;
    let items = t.claim(lane, 2).await;
    t.say(&items, fail("no")).await;
    let before = t.dump().await;
    let failed = t.store().outbox_failed(OutboxFilter::default(), None, DeadLetterId(0), 10).await.unwrap();
    before.assert_equals(&t.dump().await, "a look at what failed");
    let told: Vec<_> = failed.iter().map(|one| (one.message, one.topic.as_str(), one.served)).collect();
    assert_eq!(told, [(put[0], "orders", true), (put[1], "orders", true)]);
    assert_eq!((failed[0].error.as_str(), failed[0].subscription.as_str()), ("no", ""));
    let behind = t.store().outbox_failed(OutboxFilter::default(), None, failed[0].letter, 10).await.unwrap();
    assert_eq!(behind, failed[1..]);
    let only = Some(vec![put[1], put[2]]);
    let some = t.store().outbox_failed(OutboxFilter::default(), only, DeadLetterId(0), 10).await.unwrap();
    assert_eq!(some, failed[1..]);
    let elsewhere = OutboxFilter { tenant: Some(tenant(t, "acme").await), ..OutboxFilter::default() };
    assert_eq!(t.store().outbox_failed(elsewhere, None, DeadLetterId(0), 10).await.unwrap(), []);
    let later = OutboxFilter { from: Some(t.now().await.plus(seconds(1))), ..OutboxFilter::default() };
    assert_eq!(t.store().outbox_failed(later, None, DeadLetterId(0), 10).await.unwrap(), []);
}
