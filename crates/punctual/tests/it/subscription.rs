//! Subscriptions: where messages go, and that each subscriber is on its own.

use crate::bench::{Bench, SEED, TENANT, abandon, claim_from, fail, ids, message, seconds};
use punctual::base::clock::Timestamp;
use punctual::base::id::{LaneId, MessageId};
use punctual::base::outcome::PutOutcome;
use punctual::jobs::store::runs::RunStatus;
use punctual::queue::rules::subscription::{NewSubscription, SubscriptionTarget};
use punctual::queue::store::claims::ClaimedItem;
use punctual::queue::store::dead_letters::DeadLetterFilter;
use punctual::queue::store::dispatches::DispatchStatus::{Dispatched, Failed, Pending};
use punctual::queue::store::settle::{SettleAction, Settlement};
use punctual::{Error, NewJob, Problems};
use serde_json::{Value, json};

mod serving;

cases![
    fan_1_a_message_goes_to_every_enabled_subscription,
    fan_1_a_declared_queue_keeps_its_route_beside_subscriptions,
    fan_1_without_subscriptions_messages_wait_in_the_own_queue,
    fan_1_what_waited_before_stays_in_the_own_queue,
    a_handled_topic_keeps_its_queue_whoever_comes_first,
    the_same_again_changes_nothing,
    plt_29_impossible_names_are_refused,
    a_disabled_subscription_gets_nothing_new_and_gives_what_it_has,
    a_deleted_subscription_drops_what_waits_and_leaves_the_rest,
    what_comes_back_to_a_deleted_subscription_is_dropped,
    dead_letters_of_a_deleted_subscription_stay,
    trg_25_each_lane_is_settled_by_itself,
    a_run_ends_when_its_last_subscriber_is_gone,
    an_unrouted_message_is_routed_to_subscriptions,
    trg_25_a_message_for_some_subscribers_only,
    trg_25_dispatches_are_told_for_each_subscriber,
    another_tenant_has_its_own_subscriptions,
    putting_beside_enqueueing_and_declaring_loses_nothing,
    putting_and_deleting_beside_each_other_leaves_true_routes,
    an_error_in_a_change_leaves_nothing,
];

pub fn queue() -> NewSubscription {
    NewSubscription::new(SubscriptionTarget::Queue)
}

fn read(value: &Value) -> NewSubscription {
    NewSubscription::read(value, &mut Problems::default()).expect("it is right")
}

async fn put(t: &Bench, name: &str, new: NewSubscription) -> LaneId {
    t.store().put_subscription(TENANT, "orders", name, new).await.unwrap().1.lane
}

async fn switch(t: &Bench, name: &str, enabled: bool) {
    put(t, name, NewSubscription { enabled: Some(enabled), ..queue() }).await;
}

/// The names of the lanes that a new message goes to; an empty name is the own queue.
async fn routes(t: &Bench, topic: &str) -> Vec<String> {
    let sql = format!(
        "select l.subscription from punctual.route r join punctual.lane l on l.id = r.lane_id \
         where r.topic = '{topic}' order by l.subscription"
    );
    crate::dump::first_column(&t.texts(&sql).await)
}

async fn own(t: &Bench) -> LaneId {
    t.store().lane(TENANT, "orders", "").await.unwrap().unwrap().id
}

async fn delete(t: &Bench, name: &str) -> (usize, i64) {
    let left = t.store().delete_subscription(TENANT, "orders", name).await.unwrap();
    let mut dropped = 0;
    loop {
        match t.store().drop_orphaned(left.lane).await.unwrap() {
            0 => return (dropped, left.in_flight),
            some => dropped += some,
        }
    }
}

/// FAN-1: adding a consumer is adding a subscription, and nobody else's messages change.
async fn fan_1_a_message_goes_to_every_enabled_subscription(t: &Bench) {
    let (mail, bill) = (put(t, "mail", queue()).await, put(t, "bill", queue()).await);
    assert_eq!(routes(t, "orders").await, ["bill", "mail"], "nobody asked for the own queue");
    let sent = t.enqueue(vec![message("orders"), message("orders").key("k")]).await;
    for lane in [mail, bill] {
        let items = t.claim(lane, 10).await;
        assert_eq!(ids(&items), sent);
        t.say(&items, SettleAction::Ack).await;
    }
    assert!(t.whereabouts().await.is_empty());
}

/// FAN-1
async fn fan_1_a_declared_queue_keeps_its_route_beside_subscriptions(t: &Bench) {
    t.lane("orders").await;
    put(t, "mail", queue()).await;
    assert_eq!(routes(t, "orders").await, ["", "mail"]);
    put(t, "late", queue()).await;
    delete(t, "late").await;
    assert_eq!(routes(t, "orders").await, ["", "mail"]);
    t.store().put_subscription(TENANT, "visits", "mail", queue()).await.unwrap();
    assert_eq!(routes(t, "visits").await, ["mail"]);
    t.lane("visits").await;
    assert_eq!(routes(t, "visits").await, ["", "mail"], "an earlier claim declares it");
}

/// FAN-1
async fn fan_1_without_subscriptions_messages_wait_in_the_own_queue(t: &Bench) {
    t.store().ensure_routes(TENANT, vec!["orders".into()]).await.unwrap();
    assert_eq!(routes(t, "orders").await, [""]);
    put(t, "mail", queue()).await;
    put(t, "bill", queue()).await;
    t.store().ensure_routes(TENANT, vec!["orders".into()]).await.unwrap();
    assert_eq!(routes(t, "orders").await, ["bill", "mail"]);
    delete(t, "bill").await;
    assert_eq!(routes(t, "orders").await, ["mail"]);
    switch(t, "mail", false).await;
    assert_eq!(routes(t, "orders").await, [""], "nobody else takes them");
    switch(t, "mail", true).await;
    assert_eq!(routes(t, "orders").await, ["mail"]);
    delete(t, "mail").await;
    assert_eq!(routes(t, "orders").await, [""]);
}

/// FAN-1: nothing is lost by a change of routes.
async fn fan_1_what_waited_before_stays_in_the_own_queue(t: &Bench) {
    t.store().ensure_routes(TENANT, vec!["orders".into()]).await.unwrap();
    let before = t.put("orders", 2).await;
    let mail = put(t, "mail", queue()).await;
    let after = t.put("orders", 1).await;
    assert_eq!(ids(&t.claim(mail, 9).await), after);
    assert_eq!(ids(&t.claim(own(t).await, 9).await), before);
}

async fn a_handled_topic_keeps_its_queue_whoever_comes_first(t: &Bench) {
    put(t, "mail", queue()).await;
    for _ in 0..2 {
        t.store().note_handled(vec!["orders".into(), "visits".into()]).await.unwrap();
        t.store().declare_handled(vec!["orders".into(), "visits".into()]).await.unwrap();
        assert_eq!(routes(t, "orders").await, ["", "mail"]);
    }
    t.store().put_subscription(TENANT, "visits", "mail", queue()).await.unwrap();
    assert_eq!(routes(t, "visits").await, ["", "mail"]);
}

async fn the_same_again_changes_nothing(t: &Bench) {
    let new = read(&json!({"target": {"type": "handler", "name": "billing"},
        "filter": {"questionId": "kind", "op": "==", "value": "x"}, "retry": {"maxAttempts": 3}}));
    let (first, made) = t.store().put_subscription(TENANT, "orders", "mail", new.clone()).await.unwrap();
    assert_eq!(
        (first, made.enabled, &made.target),
        (PutOutcome::Created, true, &SubscriptionTarget::Handler("billing".into()))
    );
    t.advance(seconds(1)).await;
    let before = t.dump().await;
    let again = t.store().put_subscription(TENANT, "orders", "mail", new.clone()).await.unwrap();
    assert_eq!(again, (PutOutcome::Same, made));
    before.assert_equals(&t.dump().await, "the same definition");
    let patient = NewSubscription { max_attempts: Some(4), ..new.clone() };
    let changed = t.store().put_subscription(TENANT, "orders", "mail", patient).await.unwrap();
    assert_eq!(changed.0, PutOutcome::Changed);
    switch(t, "mail", false).await;
    let state = t.store().subscription(TENANT, "orders", "mail").await.unwrap().unwrap();
    assert_eq!((state.subscription.filter, state.subscription.enabled), (None, false));
    assert_eq!(state.queue.lane.settings.max_attempts, None, "what is left out stands at its default");
    put(t, "mail", queue()).await;
    let state = t.store().subscription(TENANT, "orders", "mail").await.unwrap().unwrap();
    assert!(!state.subscription.enabled, "only whether it is enabled stays");
}

/// PLT-29
async fn plt_29_impossible_names_are_refused(t: &Bench) {
    let before = t.dump().await;
    for (topic, name, path) in [("a/b", "mail", "topic"), ("orders", "a/b", "name"), ("orders", "", "name")] {
        let said = t.store().put_subscription(TENANT, topic, name, queue()).await.unwrap_err();
        assert!(matches!(&said, Error::Invalid(p) if p.0[0].path == path), "{said}");
    }
    let said = t.store().delete_subscription(TENANT, "orders", "mail").await.unwrap_err();
    assert!(matches!(said, Error::NotFound(_)), "{said}");
    before.assert_equals(&t.dump().await, "what was refused");
}

async fn a_disabled_subscription_gets_nothing_new_and_gives_what_it_has(t: &Bench) {
    let (mail, _) = (put(t, "mail", queue()).await, put(t, "bill", queue()).await);
    let first = t.put("orders", 1).await;
    switch(t, "mail", false).await;
    t.put("orders", 1).await;
    assert_eq!(ids(&t.claim(mail, 9).await), first);
}

async fn a_deleted_subscription_drops_what_waits_and_leaves_the_rest(t: &Bench) {
    let (mail, bill) = (put(t, "mail", queue()).await, put(t, "bill", queue()).await);
    let sent = t.put_keyed("orders", &["k", "k", "l", "m"]).await;
    let flight = t.claim(mail, 2).await;
    assert_eq!(ids(&flight), sent[..1], "the second follows the first");
    assert_eq!(delete(t, "mail").await, (2, 1), "two waited, one is in flight");
    assert_eq!(t.ack(&flight[0]).await, punctual::queue::store::settle::SettleOutcome::Done);
    assert_eq!(t.store().orphaned_lanes().await.unwrap(), [mail], "its follower came free");
    assert_eq!(t.store().drop_orphaned(mail).await.unwrap(), 1);
    assert_eq!(
        t.count(&format!("select count(*) from punctual.follower where lane_id = {}", mail.0)).await,
        0
    );
    assert_eq!(t.claim(bill, 9).await.len(), 3, "the other one has all of them still");
    assert_eq!(t.store().drop_orphaned(bill).await.unwrap(), 0, "what is served is not dropped");
}

async fn what_comes_back_to_a_deleted_subscription_is_dropped(t: &Bench) {
    let mail = put(t, "mail", queue()).await;
    t.put("orders", 1).await;
    let item = t.claim_one(mail).await;
    delete(t, "mail").await;
    t.say(&[item], abandon("no")).await;
    assert_eq!(t.store().orphaned_lanes().await.unwrap(), [mail]);
    assert_eq!(t.store().drop_orphaned(mail).await.unwrap(), 1);
    assert!(t.whereabouts().await.is_empty());
}

async fn dead_letters_of_a_deleted_subscription_stay(t: &Bench) {
    let mail = put(t, "mail", queue()).await;
    t.put("orders", 2).await;
    let items = t.claim(mail, 9).await;
    t.say(&items, fail("no")).await;
    delete(t, "mail").await;
    let which = || DeadLetterFilter { subscription: Some("mail".into()), ..DeadLetterFilter::default() };
    assert_eq!(t.store().dead_letters(TENANT, which(), 9).await.unwrap().len(), 2);
    assert_eq!(t.store().replay(TENANT, which(), false).await.unwrap().ids, [], "nobody would get them");
    assert_eq!(put(t, "mail", queue()).await, mail, "the same name has the same lane");
    assert_eq!(t.store().replay(TENANT, which(), false).await.unwrap().ids.len(), 2);
    assert_eq!(t.claim(mail, 9).await.len(), 2);
}

/// TRG-25: one claim may hold a message for two subscribers; words about one leave the other alone.
async fn trg_25_each_lane_is_settled_by_itself(t: &Bench) {
    let (mail, bill) = (put(t, "mail", queue()).await, put(t, "bill", queue()).await);
    let sent = t.put("orders", 2).await;
    let catch = t.store().claim(crate::bench::wish(&[(mail, 9), (bill, 9)])).await.unwrap();
    let token = catch.items[0].token.clone();
    assert_eq!((catch.items.len(), catch.items.iter().all(|i| i.token == token)), (4, true), "one claim");
    for (lane, word) in [(bill, fail("no")), (mail, SettleAction::Ack)] {
        let words = sent.iter().map(|id| (*id, word.clone())).collect();
        let settlement = Settlement { token: token.clone(), words };
        t.store().settle(vec![settlement], Some(lane), SEED).await.unwrap();
    }
    let letters = t.store().dead_letters(TENANT, DeadLetterFilter::default(), 9).await.unwrap();
    let dead: Vec<(&str, MessageId)> =
        letters.iter().map(|l| (l.subscription.as_str(), l.message.id)).collect();
    assert_eq!(dead, [("bill", sent[0]), ("bill", sent[1])]);
    t.assert_sound().await;
}

async fn a_run_ends_when_its_last_subscriber_is_gone(t: &Bench) {
    let (mail, bill) = (put(t, "mail", queue()).await, put(t, "bill", queue()).await);
    t.store().put_job(TENANT, "nightly", NewJob::new("orders", "0 0 3 * * *")).await.unwrap();
    let status =
        || async { t.store().runs(TENANT, "nightly", None, 1).await.unwrap().unwrap().remove(0).status };
    t.store().trigger_job(TENANT, "nightly").await.unwrap();
    let item = t.claim_one(mail).await;
    t.ack(&item).await;
    assert_eq!(status().await, RunStatus::Pending, "one subscriber is left");
    delete(t, "bill").await;
    assert_eq!(status().await, RunStatus::Succeeded);
    put(t, "bill", queue()).await;
    delete(t, "mail").await;
    t.store().trigger_job(TENANT, "nightly").await.unwrap();
    delete(t, "bill").await;
    assert_eq!(status().await, RunStatus::Skipped, "nobody did it");
    assert!(t.claim(bill, 9).await.is_empty());
}

async fn an_unrouted_message_is_routed_to_subscriptions(t: &Bench) {
    let sent = t.put_keyed("orders", &["k", "l"]).await;
    assert_eq!(routes(t, "orders").await, Vec::<String>::new());
    let mail = put(t, "mail", queue()).await;
    assert_eq!(ids(&t.claim(mail, 9).await), sent);
    assert_eq!(t.store().route_waiting().await.unwrap(), 0);
}

/// TRG-25: a sender that names its subscribers reaches them, and nobody else.
async fn trg_25_a_message_for_some_subscribers_only(t: &Bench) {
    let own = t.lane("orders").await;
    let (mail, bill) = (put(t, "mail", queue()).await, put(t, "bill", queue()).await);
    switch(t, "bill", false).await;
    let to = |only: Option<&[&str]>| {
        let only = only.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        t.store().enqueue_to(TENANT, message("orders").key("k").entity("order", "7"), only)
    };
    let usual = to(None).await.unwrap();
    assert_eq!((usual.to, usual.unknown), (vec![String::new(), "mail".into()], vec![]));
    let some = to(Some(&["mail", "bill", "pigeon", "pigeon"])).await.unwrap();
    assert_eq!(some.to, ["mail"]);
    assert_eq!(some.unknown, ["bill", "pigeon"], "disabled is as good as not there");
    let nobody = to(Some(&[])).await.unwrap();
    assert_eq!((nobody.to.len(), nobody.unknown.len()), (0, 0));
    let kept = t.store().message(TENANT, nobody.id).await.unwrap().unwrap();
    assert_eq!((kept.key.as_deref(), kept.entity.unwrap().id), (Some("k"), "7".into()));
    let first = t.claim(mail, 9).await;
    assert_eq!(ids(&first), [usual.id], "they are of one key");
    t.ack(&first[0]).await;
    assert_eq!(ids(&t.claim(mail, 9).await), [some.id]);
    assert_eq!(ids(&t.claim(own, 9).await), [usual.id]);
    assert!(t.claim(bill, 9).await.is_empty());
}

/// TRG-25
async fn trg_25_dispatches_are_told_for_each_subscriber(t: &Bench) {
    let retry = |n| NewSubscription { max_attempts: Some(n), ..queue() };
    let (mail, bill, crm) =
        (put(t, "mail", retry(1)).await, put(t, "bill", retry(9)).await, put(t, "crm", queue()).await);
    let id = t.enqueue(vec![message("orders").key("k")]).await[0];
    let names = ["mail", "bill", "crm", "never"].map(str::to_owned);
    let told = || async {
        let all = t.store().dispatches(TENANT, id, &names).await.unwrap();
        assert_eq!(all.iter().map(|d| d.subscriber.as_str()).collect::<Vec<_>>(), names);
        all.into_iter().map(|d| (d.status, d.attempts, d.error)).collect::<Vec<_>>()
    };
    let no = |error: &str| Some(error.to_owned());
    assert_eq!(told().await[..3], [(Pending, 0, None), (Pending, 0, None), (Pending, 0, None)]);
    for (lane, word) in [(mail, abandon("gone")), (bill, abandon("busy")), (crm, SettleAction::Ack)] {
        let item = t.claim_one(lane).await;
        assert!(told().await.contains(&(Pending, 1, None)), "in flight");
        t.say(&[item], word).await;
    }
    let want =
        [(Failed, 1, no("gone")), (Pending, 1, no("busy")), (Dispatched, 1, None), (Dispatched, 0, None)];
    assert_eq!(told().await, want);
    t.advance(seconds(60)).await;
    let item = t.claim_one(bill).await;
    t.ack(&item).await;
    assert_eq!(told().await[1], (Dispatched, 2, None), "the second time it went well");
    let theirs = crate::tenant::acme(t).await;
    assert_eq!(t.store().dispatches(theirs, id, &names[..1]).await.unwrap()[0].attempts, 0);
}

async fn another_tenant_has_its_own_subscriptions(t: &Bench) {
    let acme = crate::tenant::acme(t).await;
    let mail = put(t, "mail", queue()).await;
    assert!(t.store().subscription(acme, "orders", "mail").await.unwrap().is_none());
    t.store().enqueue(acme, vec![message("orders")]).await.unwrap();
    t.store().route_waiting().await.unwrap();
    assert!(t.claim(mail, 9).await.is_empty());
    let list = |tenant, topic: Option<&str>, after: (&str, &str)| {
        let after = (after.0.to_owned(), after.1.to_owned());
        t.store().subscriptions(tenant, topic.map(str::to_owned), after, 9)
    };
    assert_eq!(list(acme, None, ("", "")).await.unwrap().len(), 0);
    put(t, "bill", queue()).await;
    t.store().put_subscription(TENANT, "visits", "mail", queue()).await.unwrap();
    let names = |all: Vec<punctual::queue::store::subscriptions::SubscriptionState>| {
        all.iter().map(|s| format!("{}/{}", s.subscription.topic, s.subscription.name)).collect::<Vec<_>>()
    };
    let all = names(list(TENANT, None, ("", "")).await.unwrap());
    assert_eq!(all, ["orders/bill", "orders/mail", "visits/mail"]);
    assert_eq!(names(list(TENANT, Some("visits"), ("", "")).await.unwrap()), all[2..]);
    assert_eq!(names(list(TENANT, None, ("orders", "bill")).await.unwrap()), all[1..]);
}

/// Whoever is asked: nothing that was accepted is nowhere.
async fn putting_beside_enqueueing_and_declaring_loses_nothing(t: &Bench) {
    let (a, b, c) = (t.another().await, t.another().await, t.another().await);
    for round in 0..20 {
        let topic = format!("t{round}");
        if round % 2 == 0 {
            t.store().ensure_routes(TENANT, vec![topic.clone()]).await.unwrap();
        }
        let (one, two, three) = (topic.clone(), topic.clone(), topic.clone());
        let (a, b, c) = (a.clone(), b.clone(), c.clone());
        let enqueue = tokio::spawn(async move {
            let mut sent = Vec::new();
            for _ in 0..5 {
                sent.push(a.enqueue(TENANT, vec![message(&one)]).await.unwrap()[0].id().unwrap());
            }
            sent
        });
        let put =
            tokio::spawn(
                async move { b.put_subscription(TENANT, &two, "mail", queue()).await.unwrap().1.lane },
            );
        let declare = tokio::spawn(async move { c.declare_queue(TENANT, &three).await.unwrap().id });
        let (sent, mail, own) = (enqueue.await.unwrap(), put.await.unwrap(), declare.await.unwrap());
        assert_eq!(routes(t, &topic).await, ["", "mail"], "round {round}: both were asked for");
        t.store().route_waiting().await.unwrap();
        let mut got = ids(&t.claim(own, 99).await);
        got.extend(ids(&t.claim(mail, 99).await));
        got.sort_unstable();
        got.dedup();
        assert_eq!(got, sent, "round {round}");
        let last = t.put(&topic, 1).await;
        assert_eq!((ids(&t.claim(own, 9).await), ids(&t.claim(mail, 9).await)), (last.clone(), last));
    }
}

async fn putting_and_deleting_beside_each_other_leaves_true_routes(t: &Bench) {
    let (a, b) = (t.another().await, t.another().await);
    for round in 0..20 {
        let (a, b) = (a.clone(), b.clone());
        put(t, "mail", queue()).await;
        let one = tokio::spawn(async move {
            let (put, _) = a.put_subscription(TENANT, "orders", "bill", queue()).await.unwrap();
            assert_eq!(put, PutOutcome::Created);
        });
        let two = tokio::spawn(async move { b.delete_subscription(TENANT, "orders", "mail").await.unwrap() });
        one.await.unwrap();
        two.await.unwrap();
        assert_eq!(routes(t, "orders").await, ["bill"], "round {round}");
        delete(t, "bill").await;
        assert_eq!(routes(t, "orders").await, [""], "round {round}");
    }
    t.assert_sound().await;
}

async fn an_error_in_a_change_leaves_nothing(t: &Bench) {
    t.put_keyed("orders", &["k", "l"]).await;
    shake!(t, "put_subscription", |s| s.put_subscription(TENANT, "orders", "mail", queue()));
    let mail = t.store().lane(TENANT, "orders", "mail").await.unwrap().unwrap().id;
    shake!(t, "enqueue_to", |s| s.enqueue_to(TENANT, message("orders"), Some(vec!["mail".into()])));
    shake!(t, "enqueue_to by routes", |s| s.enqueue_to(TENANT, message("orders"), None));
    let held: Vec<ClaimedItem> = claim_from(t.store(), mail, 1).await;
    assert_eq!(held.len(), 1);
    shake!(t, "note_handled", |s| s.note_handled(vec!["orders".into()]));
    shake!(t, "declare_handled", |s| s.declare_handled(vec!["orders".into()]));
    shake!(t, "delete_subscription", |s| s.delete_subscription(TENANT, "orders", "mail"));
    shake!(t, "drop_orphaned", |s| s.drop_orphaned(mail));
    assert!(held[0].due_at > Timestamp::MIN);
}
