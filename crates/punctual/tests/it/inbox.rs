//! The inbox: of any number of deliveries one is told to process the message, and only its
//! ticket counts.

mod hosts;
mod keeping;

use crate::bench::{Bench, LEASE, TENANT, seconds};
use punctual::access::store::tenants::NewTenant;
use punctual::base::tenant::Tenant;
use punctual::database::store::Store;
use punctual::queue::rules::inbox::InboxStatus;
use punctual::queue::store::inbox::{
    InboxBeginOutcome, InboxFilter, InboxMessage, InboxTicket, ProcessingOutcome,
};
use punctual::queue::store::settle::SettleOutcome;
use punctual::testing::TemporaryStore;
use punctual::{Error, InboxDelivery};
use tokio::task::JoinSet;

cases![
    plt_16_a_new_message_is_to_be_processed,
    plt_16_a_second_delivery_is_told_that_it_is_in_progress,
    plt_16_a_processed_message_is_processed_for_ever,
    plt_16_other_content_is_a_conflict,
    plt_16_the_key_is_tenant_source_and_id,
    plt_16_of_many_at_once_one_processes,
    plt_17_a_crash_frees_the_message_when_its_lease_ends,
    plt_17_a_failed_message_is_free_at_once,
    plt_17_after_the_last_attempt_it_is_dead,
    plt_17_a_message_that_kills_its_workers_dies,
    plt_17_a_late_word_counts_until_somebody_else_has_it,
    plt_17_the_same_word_twice_is_told_so,
    plt_17_a_stale_completion_changes_nothing,
    plt_17_a_stale_failure_changes_nothing,
    plt_17_a_stale_death_changes_nothing,
    plt_17_an_unknown_message_is_not_found,
    plt_17_it_is_known_when_it_came_first_and_last,
    plt_17_completing_beside_a_new_delivery_one_wins,
    plt_29_a_wrong_delivery_is_refused,
];

pub fn delivery(id: &str) -> InboxDelivery {
    InboxDelivery::new("shop", id).lease(LEASE).max_attempts(3)
}

pub async fn begin(store: &Store, delivery: InboxDelivery) -> InboxBeginOutcome {
    store.begin_inbox(TENANT, delivery).await.unwrap()
}

/// The ticket of a delivery that must be told to process, and which attempt it is.
pub async fn ticket(t: &Bench, delivery: InboxDelivery) -> (InboxTicket, u32) {
    match begin(t.store(), delivery).await {
        InboxBeginOutcome::Process { ticket, attempts, .. } => (ticket, attempts),
        other => panic!("it should be processed, but {other:?}"),
    }
}

pub async fn mark(t: &Bench, ticket: &InboxTicket, mark: ProcessingOutcome) -> SettleOutcome {
    t.store().mark_inbox(TENANT, ticket.clone(), mark).await.unwrap()
}

pub fn failed(error: &str) -> ProcessingOutcome {
    ProcessingOutcome::Failed { error: error.into() }
}

pub fn dead(error: &str) -> ProcessingOutcome {
    ProcessingOutcome::Dead { error: error.into() }
}

pub async fn all(t: &Bench) -> Vec<InboxMessage> {
    t.store().inbox(TENANT, InboxFilter::default(), 100).await.unwrap()
}

/// PLT-16: with a lease.
async fn plt_16_a_new_message_is_to_be_processed(t: &Bench) {
    let begun = begin(t.store(), delivery("1").hash("h")).await;
    let InboxBeginOutcome::Process { ticket, attempts, lease_until } = begun else { panic!("{begun:?}") };
    assert_eq!((attempts, lease_until), (1, TemporaryStore::START.plus(LEASE)));
    let row = all(t).await.remove(0);
    assert_eq!((row.source, row.message_id, row.hash.as_deref()), ("shop".into(), "1".into(), Some("h")));
    assert_eq!((row.status, row.attempts, row.finished_at), (InboxStatus::Processing, 1, None));
    assert_eq!(mark(t, &ticket, ProcessingOutcome::Processed).await, SettleOutcome::Done);
    let row = all(t).await.remove(0);
    assert_eq!((row.status, row.finished_at), (InboxStatus::Processed, Some(TemporaryStore::START)));
}

/// PLT-16
async fn plt_16_a_second_delivery_is_told_that_it_is_in_progress(t: &Bench) {
    ticket(t, delivery("1")).await;
    for _ in 0..3 {
        t.advance(LEASE / 4).await;
        assert_eq!(begin(t.store(), delivery("1")).await, InboxBeginOutcome::InProgress { attempts: 1 });
    }
}

/// PLT-16: also when its lease would have ended, and whatever is said afterwards.
async fn plt_16_a_processed_message_is_processed_for_ever(t: &Bench) {
    let (ticket, _) = ticket(t, delivery("1")).await;
    mark(t, &ticket, ProcessingOutcome::Processed).await;
    t.advance(10 * LEASE).await;
    assert_eq!(begin(t.store(), delivery("1")).await, InboxBeginOutcome::AlreadyProcessed { attempts: 1 });
    assert_eq!(mark(t, &ticket, failed("no")).await, SettleOutcome::LostClaim);
    assert_eq!(begin(t.store(), delivery("1")).await, InboxBeginOutcome::AlreadyProcessed { attempts: 1 });
}

/// PLT-16: same id, other hash; a delivery without a hash is compared with nothing.
async fn plt_16_other_content_is_a_conflict(t: &Bench) {
    let (first, _) = ticket(t, delivery("1").hash("a")).await;
    assert_eq!(begin(t.store(), delivery("1").hash("b")).await, InboxBeginOutcome::Conflict { attempts: 1 });
    assert_eq!(begin(t.store(), delivery("1")).await, InboxBeginOutcome::InProgress { attempts: 1 });
    mark(t, &first, ProcessingOutcome::Processed).await;
    assert_eq!(begin(t.store(), delivery("1").hash("b")).await, InboxBeginOutcome::Conflict { attempts: 1 });
    assert_eq!(
        begin(t.store(), delivery("1").hash("a")).await,
        InboxBeginOutcome::AlreadyProcessed { attempts: 1 }
    );
    // The first hash that is known is the one that counts.
    let (second, _) = ticket(t, delivery("2")).await;
    mark(t, &second, failed("no")).await;
    ticket(t, delivery("2").hash("a")).await;
    assert_eq!(begin(t.store(), delivery("2").hash("b")).await, InboxBeginOutcome::Conflict { attempts: 2 });
}

async fn acme(t: &Bench) -> Tenant {
    let new = NewTenant { slug: "acme".into(), name: "Acme".into(), ..NewTenant::default() };
    t.store().create_tenant(new).await.unwrap().tenant
}

/// PLT-16: two first deliveries at once, with different contents; the later one waits for the other's row.
#[tokio::test]
async fn plt_16_the_loser_of_a_race_is_told_of_other_content() {
    let t = &Bench::postgres().await;
    for (hash, wanted) in [
        (Some("a"), InboxBeginOutcome::InProgress { attempts: 1 }),
        (Some("b"), InboxBeginOutcome::Conflict { attempts: 1 }),
        (None, InboxBeginOutcome::InProgress { attempts: 1 }),
    ] {
        let (mut other, connection) =
            tokio_postgres::connect(t.place.url(), tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let first = other.transaction().await.unwrap();
        let id = hash.unwrap_or("none");
        let lease_until = t.now().await.plus(LEASE).as_micros();
        let insert = format!(
            "insert into punctual.inbox (tenant_id, source, message_id, hash, status, token, attempts, \
                max_attempts, lease_until, first_seen, last_seen) \
             values (1, 'shop', '{id}', 'a', 'processing', 'x{id}', 1, 3, {lease_until}, 0, 0)"
        );
        first.batch_execute(&insert).await.unwrap();
        let delivery = InboxDelivery { hash: hash.map(str::to_owned), ..delivery(id) };
        let store = t.another().await;
        let beginning = tokio::spawn(async move { begin(&store, delivery).await });
        crate::sequence::until_blocked(t).await;
        first.commit().await.unwrap();
        assert_eq!(beginning.await.unwrap(), wanted, "a delivery with the hash {hash:?}");
    }
}

/// PLT-16
async fn plt_16_the_key_is_tenant_source_and_id(t: &Bench) {
    let acme = acme(t).await;
    let (mine, _) = ticket(t, delivery("1")).await;
    ticket(t, InboxDelivery::new("web", "1")).await;
    ticket(t, delivery("2")).await;
    let theirs = t.store().begin_inbox(acme, delivery("1")).await.unwrap();
    assert!(matches!(theirs, InboxBeginOutcome::Process { attempts: 1, .. }), "{theirs:?}");
    let before = t.dump().await;
    for word in [ProcessingOutcome::Processed, failed("no"), dead("no")] {
        let said = t.store().mark_inbox(acme, mine.clone(), word).await.unwrap();
        assert_eq!(said, SettleOutcome::LostClaim, "their message of this id is another one");
    }
    before.assert_equals(&t.dump().await, "another tenant's word");
    assert_eq!(t.store().inbox(acme, InboxFilter::default(), 10).await.unwrap().len(), 1);
}

/// PLT-16: new, failed, or left behind by a crash.
async fn plt_16_of_many_at_once_one_processes(t: &Bench) {
    let stores = [t.another().await, t.another().await];
    for round in 0..20 {
        let id = format!("m{}", round / 3);
        let mut tasks = JoinSet::new();
        for n in 0..8 {
            let (store, delivery) = (stores[n % 2].clone(), delivery(&id));
            tasks.spawn(async move { begin(&store, delivery).await });
        }
        let said = tasks.join_all().await;
        let mut tickets: Vec<&InboxTicket> = said
            .iter()
            .filter_map(
                |b| if let InboxBeginOutcome::Process { ticket, .. } = b { Some(ticket) } else { None },
            )
            .collect();
        assert_eq!(tickets.len(), 1, "round {round}: {said:?}");
        let others = said.iter().filter(|b| matches!(b, InboxBeginOutcome::InProgress { .. })).count();
        assert_eq!(others, 7, "round {round}: {said:?}");
        if round % 3 == 0 {
            mark(t, tickets.remove(0), failed("no")).await;
        } else {
            t.advance(LEASE).await;
        }
    }
}

/// PLT-17
async fn plt_17_a_crash_frees_the_message_when_its_lease_ends(t: &Bench) {
    let (lost, _) = ticket(t, delivery("1")).await;
    t.advance(LEASE - std::time::Duration::from_micros(1)).await;
    assert_eq!(begin(t.store(), delivery("1")).await, InboxBeginOutcome::InProgress { attempts: 1 });
    t.advance(std::time::Duration::from_micros(1)).await;
    let (own, attempts) = ticket(t, delivery("1")).await;
    assert_eq!(attempts, 2);
    assert_ne!(own.token, lost.token);
    assert_eq!(mark(t, &own, ProcessingOutcome::Processed).await, SettleOutcome::Done);
}

/// PLT-17
async fn plt_17_a_failed_message_is_free_at_once(t: &Bench) {
    let (first, _) = ticket(t, delivery("1")).await;
    assert_eq!(mark(t, &first, failed("the shop is closed")).await, SettleOutcome::Done);
    let row = all(t).await.remove(0);
    assert_eq!((row.status, row.error.as_deref()), (InboxStatus::Failed, Some("the shop is closed")));
    let (second, attempts) = ticket(t, delivery("1")).await;
    assert_eq!(attempts, 2);
    mark(t, &second, ProcessingOutcome::Processed).await;
    assert_eq!(all(t).await[0].error, None, "it went well in the end");
}

/// PLT-17: the last failure is final, and so is a word that says so.
async fn plt_17_after_the_last_attempt_it_is_dead(t: &Bench) {
    for n in 1..=3 {
        let (ticket, attempts) = ticket(t, delivery("1")).await;
        assert_eq!(attempts, n);
        assert_eq!(mark(t, &ticket, failed(&format!("error {n}"))).await, SettleOutcome::Done);
    }
    assert_eq!(begin(t.store(), delivery("1")).await, InboxBeginOutcome::Dead { attempts: 3 });
    let (at_once, _) = ticket(t, delivery("2")).await;
    assert_eq!(mark(t, &at_once, dead("cannot be read")).await, SettleOutcome::Done);
    assert_eq!(begin(t.store(), delivery("2")).await, InboxBeginOutcome::Dead { attempts: 1 });
    let errors: Vec<_> = all(t).await.into_iter().map(|r| (r.status, r.error.unwrap())).collect();
    assert_eq!(errors, [(InboxStatus::Dead, "error 3".into()), (InboxStatus::Dead, "cannot be read".into())]);
}

/// PLT-17: nobody ever says that it failed.
async fn plt_17_a_message_that_kills_its_workers_dies(t: &Bench) {
    for n in 1..=3 {
        assert_eq!(ticket(t, delivery("1")).await.1, n);
        t.advance(LEASE).await;
    }
    assert_eq!(begin(t.store(), delivery("1")).await, InboxBeginOutcome::Dead { attempts: 3 });
    let row = all(t).await.remove(0);
    assert!(row.error.unwrap().contains("the lease of attempt 3 ran out"));
    assert_eq!(row.status, InboxStatus::Dead);
}

/// PLT-17: work that took longer than its lease is not done again for nothing.
async fn plt_17_a_late_word_counts_until_somebody_else_has_it(t: &Bench) {
    for (n, word) in [ProcessingOutcome::Processed, failed("no"), dead("no")].into_iter().enumerate() {
        let (ticket, _) = ticket(t, delivery(&n.to_string())).await;
        t.advance(10 * LEASE).await;
        assert_eq!(mark(t, &ticket, word).await, SettleOutcome::Done);
    }
}

/// PLT-17: an answer that was lost on its way can be asked for again.
async fn plt_17_the_same_word_twice_is_told_so(t: &Bench) {
    for (n, word) in [ProcessingOutcome::Processed, failed("no"), dead("no")].into_iter().enumerate() {
        let (ticket, _) = ticket(t, delivery(&n.to_string())).await;
        assert_eq!(mark(t, &ticket, word.clone()).await, SettleOutcome::Done);
        let before = t.dump().await;
        assert_eq!(mark(t, &ticket, word.clone()).await, SettleOutcome::AlreadyFinished, "{word:?}");
        before.assert_equals(&t.dump().await, "a word said twice");
    }
}

/// A ticket whose message somebody else has, or has finished, in every state there is.
async fn stale(t: &Bench, word: &ProcessingOutcome) -> Vec<InboxTicket> {
    let mut stale = Vec::new();
    for (n, after) in
        [None, Some(ProcessingOutcome::Processed), Some(failed("no")), Some(dead("no"))].iter().enumerate()
    {
        let (lost, _) = ticket(t, delivery(&n.to_string())).await;
        t.advance(LEASE).await;
        let (own, _) = ticket(t, delivery(&n.to_string())).await;
        if let Some(after) = after {
            mark(t, &own, after.clone()).await;
            if after != word {
                stale.push(own);
            }
        }
        stale.push(lost);
    }
    let (replayed, _) = ticket(t, delivery("replayed")).await;
    mark(t, &replayed, dead("no")).await;
    t.store().replay_inbox(TENANT, InboxFilter::default(), false).await.unwrap();
    stale.push(replayed);
    stale
}

async fn says(t: &Bench, word: ProcessingOutcome) {
    let stale = stale(t, &word).await;
    let before = t.dump().await;
    for ticket in &stale {
        assert_eq!(mark(t, ticket, word.clone()).await, SettleOutcome::LostClaim, "{ticket:?}");
        before.assert_equals(&t.dump().await, "a stale word");
    }
    assert!(stale.len() >= 7);
}

/// PLT-17
async fn plt_17_a_stale_completion_changes_nothing(t: &Bench) {
    says(t, ProcessingOutcome::Processed).await;
}

/// PLT-17
async fn plt_17_a_stale_failure_changes_nothing(t: &Bench) {
    says(t, failed("no")).await;
}

/// PLT-17
async fn plt_17_a_stale_death_changes_nothing(t: &Bench) {
    says(t, dead("no")).await;
}

async fn plt_17_an_unknown_message_is_not_found(t: &Bench) {
    let (known, _) = ticket(t, delivery("1")).await;
    let before = t.dump().await;
    for unknown in [
        InboxTicket { source: "web".into(), ..known.clone() },
        InboxTicket { message_id: "2".into(), ..known.clone() },
    ] {
        assert_eq!(mark(t, &unknown, ProcessingOutcome::Processed).await, SettleOutcome::NotFound);
    }
    before.assert_equals(&t.dump().await, "a word about an unknown message");
}

/// PLT-17: every delivery counts, whatever it was told.
async fn plt_17_it_is_known_when_it_came_first_and_last(t: &Bench) {
    let (first, _) = ticket(t, delivery("1").hash("a")).await;
    let mut last = t.advance(seconds(1)).await;
    for told in 0..4 {
        begin(t.store(), delivery("1").hash(if told == 3 { "b" } else { "a" })).await;
        let row = all(t).await.remove(0);
        assert_eq!((row.first_seen, row.last_seen), (TemporaryStore::START, last));
        if told == 1 {
            mark(t, &first, ProcessingOutcome::Processed).await;
        }
        last = t.advance(seconds(1)).await;
    }
}

/// PLT-17: at the end of the lease, the late one counts or the new one does.
async fn plt_17_completing_beside_a_new_delivery_one_wins(t: &Bench) {
    let (a, b) = (t.another().await, t.another().await);
    for round in 0..30 {
        let id = round.to_string();
        let (old, _) = ticket(t, delivery(&id)).await;
        t.advance(LEASE).await;
        let completing = {
            let (a, old) = (a.clone(), old.clone());
            tokio::spawn(
                async move { a.mark_inbox(TENANT, old, ProcessingOutcome::Processed).await.unwrap() },
            )
        };
        let (b, again) = (b.clone(), delivery(&id));
        let beginning = tokio::spawn(async move { begin(&b, again).await });
        match (completing.await.unwrap(), beginning.await.unwrap()) {
            (
                SettleOutcome::Done,
                InboxBeginOutcome::AlreadyProcessed { .. } | InboxBeginOutcome::InProgress { .. },
            ) => {}
            (SettleOutcome::LostClaim, InboxBeginOutcome::Process { ticket, .. }) => {
                assert_eq!(mark(t, &ticket, ProcessingOutcome::Processed).await, SettleOutcome::Done);
            }
            other => panic!("round {round}: {other:?}"),
        }
    }
}

/// PLT-29
async fn plt_29_a_wrong_delivery_is_refused(t: &Bench) {
    let before = t.dump().await;
    let wrong = InboxDelivery::new("", "x".repeat(256)).lease(seconds(0)).max_attempts(0);
    let said = t.store().begin_inbox(TENANT, wrong).await.unwrap_err();
    let Error::Invalid(problems) = said else { panic!("{said}") };
    assert_eq!(problems.0.len(), 4, "{problems}");
    before.assert_equals(&t.dump().await, "a refused delivery");
}
