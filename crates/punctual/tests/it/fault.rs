//! A statement that fails in the middle of a verb leaves nothing of the verb behind.

use crate::bench::{Bench, LEASE, SEED, TENANT, abandon, fail, message, seconds, wish};
use punctual::InboxDelivery;
use punctual::access::store::keys::Role;
use punctual::access::store::tenants::NewTenant;
use punctual::base::id::{FencingToken, LaneId, Token};
use punctual::database::clock::ClockMode;
use punctual::database::store::Store;
use punctual::jobs::store::leases::LeaseHold;
use punctual::queue::store::inbox::{InboxBeginOutcome, InboxRetention, ProcessingOutcome};
use punctual::queue::store::settle::{SettleAction, Settlement};
use serde_json::json;
use std::time::Duration;

cases![
    an_error_in_an_enqueue_leaves_nothing,
    an_error_in_a_claim_leaves_nothing,
    an_error_in_a_settlement_leaves_nothing,
    an_error_in_a_short_verb_on_a_claim_leaves_nothing,
    an_error_in_a_reaping_leaves_nothing,
    an_error_in_a_replay_or_purge_leaves_nothing,
    an_error_in_routing_or_settings_leaves_nothing,
    an_error_in_pruning_leaves_nothing,
    an_error_in_a_verb_on_a_lease_leaves_nothing,
    an_error_in_a_verb_on_the_inbox_leaves_nothing,
    an_error_in_tenants_keys_answers_and_clock_leaves_nothing,
    an_error_beside_others_leaves_them_alone,
    a_panic_in_a_verb_leaves_nothing_open,
];

async fn an_error_in_an_enqueue_leaves_nothing(t: &Bench) {
    t.lane("orders").await;
    shake!(t, "enqueue", |s| s.enqueue(TENANT, vec![message("orders"); 3]));
    let keyed = || vec![message("orders").key("k").id("shop", "a"), message("other").id("shop", "b")];
    shake!(t, "enqueue with ids", |s| s.enqueue(TENANT, keyed()));
}

async fn an_error_in_a_claim_leaves_nothing(t: &Bench) {
    let lane = t.lane("orders").await;
    t.put("orders", 2).await;
    t.put_keyed("orders", &["k", "k", "l"]).await;
    shake!(t, "claim", |s| s.claim(wish(&[(lane, 10)])));
    t.assert_sound().await;
}

async fn an_error_in_a_settlement_leaves_nothing(t: &Bench) {
    let lane = t.lane("orders").await;
    t.put_keyed("orders", &["a", "a", "b", "c", "d", "e"]).await;
    t.put("orders", 2).await;
    let items = t.claim(lane, 10).await;
    let words = [SettleAction::Ack, abandon("no"), fail("no"), SettleAction::Release, SettleAction::Ack];
    let words: Vec<_> = items.iter().map(|i| i.message.id).zip(words).collect();
    assert_eq!(words.len(), 5);
    let settlement = || vec![Settlement { token: items[0].token.clone(), words: words.clone() }];
    shake!(t, "settle in part", |s| s.settle(settlement(), None, SEED));
    let rest: Vec<_> = items[5..].iter().map(|i| (i.message.id, SettleAction::Ack)).collect();
    let settlement = || vec![Settlement { token: items[0].token.clone(), words: rest.clone() }];
    shake!(t, "settle the rest", |s| s.settle(settlement(), None, SEED));
    t.assert_sound().await;
}

async fn an_error_in_a_short_verb_on_a_claim_leaves_nothing(t: &Bench) {
    let lane = t.lane("orders").await;
    t.put("orders", 2).await;
    let token: Token = t.claim(lane, 2).await[0].token.clone();
    t.advance(seconds(1)).await;
    shake!(t, "extend", |s| s.extend(vec![token.clone()], LEASE));
    shake!(t, "mark_started", |s| s.mark_started(token.clone()));
    shake!(t, "ack_whole", |s| s.ack_whole(vec![token.clone()]));
}

async fn an_error_in_a_reaping_leaves_nothing(t: &Bench) {
    let lane = t.lane_with("orders", json!({"maxAttempts": 1, "deadHead": "pass"})).await;
    t.put_keyed("orders", &["k"]).await;
    t.claim(lane, 1).await;
    t.put_keyed("orders", &["k", "l", "m"]).await;
    t.claim(lane, 3).await;
    t.advance(LEASE).await;
    shake!(t, "reap", |s| s.reap(SEED));
    t.assert_sound().await;
}

async fn an_error_in_a_replay_or_purge_leaves_nothing(t: &Bench) {
    let lane = t.lane("orders").await;
    t.put_keyed("orders", &["k", "k", "l"]).await;
    let items = t.claim(lane, 10).await;
    t.say(&items, fail("no")).await;
    shake!(t, "replay", |s| s.replay(TENANT, Default::default(), false));
    let items = t.claim(lane, 10).await;
    t.say(&items, fail("no")).await;
    shake!(t, "purge", |s| s.purge(TENANT, Default::default(), false));
    t.assert_sound().await;
}

async fn an_error_in_routing_or_settings_leaves_nothing(t: &Bench) {
    t.put_keyed("orders", &["k", "l"]).await;
    t.put("visits", 1).await;
    shake!(t, "route_waiting", |s| s.route_waiting());
    shake!(t, "declare_queue", |s| s.declare_queue(TENANT, "fresh"));
    let change = json!({"paused": true}).as_object().unwrap().clone();
    shake!(t, "set_queue", |s| s.set_queue(TENANT, "newer", change.clone()));
}

async fn an_error_in_pruning_leaves_nothing(t: &Bench) {
    let lane = t.lane("orders").await;
    t.put("orders", 2).await;
    let items = t.claim(lane, 2).await;
    t.say(&items, abandon("no")).await;
    t.advance(seconds(60)).await;
    for item in t.claim(lane, 2).await {
        t.ack(&item).await;
    }
    t.store().reserve_answer(TENANT, "key", "d").await.unwrap();
    t.advance(Duration::from_secs(90 * 86_400)).await;
    shake!(t, "prune_messages", |s| s.prune_messages(0, seconds(60)));
    shake!(t, "prune_rest", |s| s.prune_rest(seconds(60), seconds(60)));
    assert_eq!(t.count("select count(*) from punctual.message").await, 0);
}

async fn an_error_in_a_verb_on_a_lease_leaves_nothing(t: &Bench) {
    shake!(t, "acquire_lease", |s| s.acquire_lease(TENANT, "report", "a", LEASE));
    let held = LeaseHold { name: "report".into(), owner: "a".into(), token: FencingToken(1) };
    t.advance(seconds(1)).await;
    shake!(t, "acquire_lease that is held", |s| s.acquire_lease(TENANT, "report", "b", LEASE));
    shake!(t, "renew_lease", |s| s.renew_lease(TENANT, held.clone(), LEASE));
    shake!(t, "release_lease", |s| s.release_lease(TENANT, held.clone()));
    shake!(t, "acquire_lease again", |s| s.acquire_lease(TENANT, "report", "a", LEASE));
    t.advance(LEASE + seconds(60)).await;
    shake!(t, "prune_leases", |s| s.prune_leases(seconds(1)));
    assert_eq!(t.count("select count(*) from punctual.lease").await, 0);
    shake!(t, "acquire_lease of a deleted row", |s| s.acquire_lease(TENANT, "report", "a", LEASE));
}

async fn an_error_in_a_verb_on_the_inbox_leaves_nothing(t: &Bench) {
    let delivery = || InboxDelivery::new("shop", "1").lease(LEASE).max_attempts(2);
    for what in 0..3 {
        shake!(t, "inbox_begin", |s| s.begin_inbox(TENANT, delivery()));
        shake!(t, "inbox_begin in progress", |s| s.begin_inbox(TENANT, delivery()));
        t.advance(LEASE).await;
        let again = t.store().begin_inbox(TENANT, delivery()).await.unwrap();
        let InboxBeginOutcome::Process { ticket, .. } = again else { panic!("{again:?}") };
        let error = String::from("no");
        let mark = [
            ProcessingOutcome::Failed { error: error.clone() },
            ProcessingOutcome::Dead { error },
            ProcessingOutcome::Processed,
        ][what]
            .clone();
        shake!(t, "inbox_mark", |s| s.mark_inbox(TENANT, ticket.clone(), mark.clone()));
        shake!(t, "inbox_replay", |s| s.replay_inbox(TENANT, Default::default(), false));
    }
    t.store()
        .begin_inbox(TENANT, InboxDelivery::new("shop", "2").lease(LEASE).max_attempts(1))
        .await
        .unwrap();
    t.advance(LEASE).await;
    let last = || InboxDelivery::new("shop", "2").lease(LEASE).max_attempts(1);
    shake!(t, "inbox_begin of what dies", |s| s.begin_inbox(TENANT, last()));
    t.advance(seconds(60)).await;
    shake!(t, "prune_inbox", |s| s.prune_inbox(InboxRetention { finished: seconds(1), dead: seconds(1) }));
}

async fn an_error_in_tenants_keys_answers_and_clock_leaves_nothing(t: &Bench) {
    let acme = || NewTenant { slug: "acme".into(), name: "Acme".into(), ..NewTenant::default() };
    shake!(t, "create_tenant", |s| s.create_tenant(acme()));
    shake!(t, "create_key", |s| s.create_key(TENANT, "ci", Role::Ops, None));
    let key = t.store().create_key(TENANT, "ci", Role::Ops, None).await.unwrap().0.id;
    shake!(t, "revoke_key", |s| s.revoke_key(TENANT, key, Role::Ops));
    shake!(t, "reserve_answer", |s| s.reserve_answer(TENANT, "key", "d"));
    shake!(t, "keep_answer", |s| s.keep_answer(TENANT, "key", 200, "x"));
    shake!(t, "free_answer", |s| s.free_answer(TENANT, "key"));
    shake!(t, "hold_clock", |s| s.hold_clock("a"));
    shake!(t, "renew_clock", |s| s.renew_clock("a"));
    shake!(t, "free_clock", |s| s.release_clock("a"));
    let later = t.now().await.plus(seconds(1));
    shake!(t, "set_clock", |s| s.set_clock(later));
    shake!(t, "use_clock", |s| s.use_clock(ClockMode::System, true));
    shake!(t, "migrate", |s| s.migrate());
}

/// Writers that share a commit: the failing one fails alone.
async fn an_error_beside_others_leaves_them_alone(t: &Bench) {
    t.lane("orders").await;
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..60 {
        let store = if n % 3 == 0 { t.store().failing_at(1 + n % 2) } else { t.store().clone() };
        tasks.spawn(async move { store.enqueue(TENANT, vec![message("orders").key("k")]).await.is_ok() });
    }
    let fine = tasks.join_all().await.into_iter().filter(|fine| *fine).count();
    assert!(fine >= 40, "{fine} of the 40 without a fault succeed");
    assert!(fine < 60, "some of the others fail");
    let kept = t.count("select count(*) from punctual.message").await;
    assert_eq!(usize::try_from(kept).unwrap(), fine, "what succeeded is there, and nothing else");
}

/// How often a claim looks for rows that somebody still has locked.
const LOCKED_LOOKS: usize = 500;

/// Claims what is there. The server hears a moment later that a connection is gone, and keeps its locks
/// until then.
async fn claim_freed(store: &Store, lane: LaneId) -> punctual::Result<usize> {
    for _ in 0..LOCKED_LOOKS {
        let claimed = store.claim(wish(&[(lane, 10)])).await?.items.len();
        if claimed > 0 {
            return Ok(claimed);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(0)
}

/// A verb that panics in the middle of its transaction: the next one does not work inside that
/// transaction, and finds its rows as they were.
async fn a_panic_in_a_verb_leaves_nothing_open(t: &Bench) {
    let lane = t.lane("orders").await;
    t.put_keyed("orders", &["k", "k", "l"]).await;
    let before = t.dump().await;
    for n in 2..=4 {
        let claimed = claim_freed(&t.store().panicking_at(n), lane).await;
        assert!(claimed.is_err(), "statement {n} of the claim panics");
    }
    before.assert_equals(&t.dump().await, "claims that panicked");
    assert_eq!(claim_freed(t.store(), lane).await.unwrap(), 2, "the heads are free");
    t.assert_sound().await;
}

/// A statement that is its own transaction, and whose connection is ended meanwhile, may have
/// happened: its caller is told that nobody knows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_is_unknown_on_postgres() {
    let t = Bench::postgres().await;
    t.lane("orders").await;
    let lock = "lock table punctual.message in exclusive mode".to_owned();
    t.place.sql(&["begin".into(), lock]).await.unwrap();
    let store = t.store().clone();
    let asked = tokio::spawn(async move { store.enqueue(TENANT, vec![message("orders"); 2]).await });
    let end = "select pg_terminate_backend(pid) from pg_stat_activity \
        where datname = current_database() and wait_event_type = 'Lock'";
    while t.place.sql(&[end.into()]).await.unwrap()[0].is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    t.place.sql(&["rollback".into()]).await.unwrap();
    let told = asked.await.unwrap();
    assert!(matches!(told, Err(punctual::Error::Unknown(_))), "{told:?}");
}

/// PLT-3: what was acknowledged before the disk was full is there; what was not is refused as
/// transient and leaves nothing; and when there is room again, everything goes on.
#[tokio::test]
async fn a_full_disk_loses_nothing() {
    let t = Bench::sqlite().await;
    let lane = t.lane("orders").await;
    let large = || punctual::NewMessage::new("orders", "created", format!("\"{}\"", "x".repeat(20_000)));
    let mut accepted = t.store().enqueue(TENANT, vec![large()]).await.unwrap().len();
    t.store().fill_disk(true).await.unwrap();
    let refused = loop {
        assert!(accepted < 1_000, "a disk that is full takes no end of messages");
        match t.store().enqueue(TENANT, vec![large()]).await {
            Ok(new) => accepted += new.len(),
            Err(refused) => break refused,
        }
    };
    assert!(refused.is_transient(), "{refused}");
    t.store().fill_disk(false).await.unwrap();
    accepted += t.store().enqueue(TENANT, vec![large()]).await.unwrap().len();
    let caught = t.store().claim(wish(&[(lane, 1_000)])).await.unwrap();
    assert_eq!(caught.items.len(), accepted, "all that was accepted, and nothing else");
}
