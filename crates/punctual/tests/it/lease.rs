//! Leases: one holder at a time, tokens that only grow, and the database's clock.

use crate::bench::{Bench, LEASE, TENANT, seconds};
use punctual::Error;
use punctual::access::store::tenants::NewTenant;
use punctual::base::clock::Timestamp;
use punctual::base::id::FencingToken;
use punctual::base::tenant::Tenant;
use punctual::database::store::Store;
use punctual::jobs::store::leases::{AcquireOutcome, Lease, LeaseHold, ReleaseOutcome, RenewOutcome};
use punctual::operate::run::prune::{Pruner, RetentionSettings};
use punctual::testing::TemporaryStore;
use std::time::Duration;
use tokio::task::JoinSet;

cases![
    plt_10_a_free_lease_is_acquired,
    plt_10_a_held_lease_is_given_to_nobody_else,
    plt_10_the_same_owner_is_refused_too,
    plt_10_the_token_grows_with_each_acquisition,
    plt_10_the_database_decides_when_a_lease_ends,
    plt_10_a_renewal_moves_the_end,
    plt_10_a_stale_renewal_changes_nothing,
    plt_10_a_stale_release_changes_nothing,
    plt_10_a_clock_set_back_revives_nothing,
    plt_10_leases_are_read_and_listed,
    plt_10_another_tenants_lease_is_another_lease,
    plt_29_a_wrong_lease_is_refused,
    plt_10_of_many_at_once_one_acquires,
    plt_10_renewing_beside_acquiring_one_wins,
    plt_10_releasing_beside_acquiring_leaves_one_holder,
    plt_8_a_lease_that_ended_long_ago_is_deleted,
    plt_8_leases_are_deleted_in_bounded_batches,
    plt_8_a_token_grows_also_after_its_lease_was_deleted,
    plt_8_a_token_grows_also_beside_a_deletion,
];

const MICROSECOND: Duration = Duration::from_micros(1);

pub async fn acquire(store: &Store, name: &str, owner: &str) -> AcquireOutcome {
    store.acquire_lease(TENANT, name, owner, LEASE).await.unwrap()
}

async fn acquired(t: &Bench, name: &str, owner: &str) -> Lease {
    match acquire(t.store(), name, owner).await {
        AcquireOutcome::Acquired(lease) => lease,
        AcquireOutcome::Held(lease) => panic!("{name} should be free, but is {lease:?}"),
    }
}

async fn refused(t: &Bench, name: &str, owner: &str) -> Lease {
    match acquire(t.store(), name, owner).await {
        AcquireOutcome::Acquired(lease) => panic!("{name} should be held, but was given: {lease:?}"),
        AcquireOutcome::Held(lease) => lease,
    }
}

pub fn holding(lease: &Lease) -> LeaseHold {
    LeaseHold { name: lease.name.clone(), owner: lease.owner.clone(), token: lease.token }
}

/// PLT-10: with a fencing token and the server's time.
async fn plt_10_a_free_lease_is_acquired(t: &Bench) {
    let lease = acquired(t, "report", "a").await;
    assert_eq!((lease.name.as_str(), lease.holder()), ("report", Some("a")));
    assert_eq!((lease.token, lease.now), (FencingToken(1), TemporaryStore::START));
    assert_eq!(lease.expires_at, TemporaryStore::START.plus(LEASE));
    assert_eq!(t.store().lease(TENANT, "report").await.unwrap(), Some(lease));
}

/// PLT-10
async fn plt_10_a_held_lease_is_given_to_nobody_else(t: &Bench) {
    let mine = acquired(t, "report", "a").await;
    let before = t.dump().await;
    let shown = refused(t, "report", "b").await;
    assert_eq!((shown.holder(), shown.expires_at), (Some("a"), mine.expires_at), "who is in the way");
    before.assert_equals(&t.dump().await, "a refused acquisition");
    acquired(t, "other", "b").await;
}

/// PLT-10: two processes that misuse one name are two, and only one holds the lease.
async fn plt_10_the_same_owner_is_refused_too(t: &Bench) {
    let mine = acquired(t, "report", "a").await;
    let before = t.dump().await;
    assert_eq!(refused(t, "report", "a").await.token, mine.token);
    before.assert_equals(&t.dump().await, "a second acquisition by the same owner");
    t.advance(LEASE).await;
    let again = acquired(t, "report", "a").await;
    assert!(again.token > mine.token, "the same owner, but another holding");
}

/// PLT-10: after a release, after an end, by another owner and by the same.
async fn plt_10_the_token_grows_with_each_acquisition(t: &Bench) {
    let mut last = FencingToken(0);
    for owner in ["a", "b", "b", "a", "c", "c"] {
        let lease = acquired(t, "report", owner).await;
        assert!(lease.token > last, "{} should be more than {last}", lease.token);
        last = lease.token;
        if lease.token.0 % 2 == 0 {
            t.advance(LEASE).await;
        } else {
            let released = t.store().release_lease(TENANT, holding(&lease)).await.unwrap();
            assert_eq!(released, ReleaseOutcome::Released);
        }
    }
}

/// PLT-10: to the microsecond, and by the database's clock alone.
async fn plt_10_the_database_decides_when_a_lease_ends(t: &Bench) {
    acquired(t, "report", "a").await;
    t.advance(LEASE - MICROSECOND).await;
    refused(t, "report", "b").await;
    t.advance(MICROSECOND).await;
    let lease = t.store().lease(TENANT, "report").await.unwrap().unwrap();
    assert!(!lease.is_held(), "it has ended");
    assert_eq!(acquired(t, "report", "b").await.token, FencingToken(2));
}

/// PLT-10
async fn plt_10_a_renewal_moves_the_end(t: &Bench) {
    let lease = acquired(t, "report", "a").await;
    for _ in 0..3 {
        t.advance(LEASE - seconds(1)).await;
        let renewed = t.store().renew_lease(TENANT, holding(&lease), LEASE).await.unwrap();
        let RenewOutcome::Renewed(renewed) = renewed else { panic!("it is held") };
        assert_eq!(renewed.token, lease.token, "a renewal is no new holding");
        assert_eq!(renewed.expires_at, t.now().await.plus(LEASE));
        assert_eq!(renewed.acquired_at, lease.acquired_at);
        refused(t, "report", "b").await;
    }
}

/// Everything that holds nothing: an older token, another's token or name, a lease that
/// ended or was released, and one that never was.
async fn stale(t: &Bench) -> Vec<LeaseHold> {
    let old = acquired(t, "report", "a").await;
    t.advance(LEASE).await;
    let held = acquired(t, "report", "b").await;
    let given_back = acquired(t, "given-back", "a").await;
    t.store().release_lease(TENANT, holding(&given_back)).await.unwrap();
    let ended = t.store().acquire_lease(TENANT, "ended", "a", seconds(1)).await.unwrap();
    let AcquireOutcome::Acquired(ended) = ended else { panic!("it is free") };
    t.advance(seconds(1)).await;
    vec![
        holding(&old),
        LeaseHold { owner: "a".into(), ..holding(&held) },
        LeaseHold { token: FencingToken(held.token.0 + 1), ..holding(&held) },
        LeaseHold { name: "Report".into(), ..holding(&held) },
        holding(&given_back),
        holding(&ended),
    ]
}

/// PLT-10
async fn plt_10_a_stale_renewal_changes_nothing(t: &Bench) {
    let stale = stale(t).await;
    let before = t.dump().await;
    for held in stale {
        let said = t.store().renew_lease(TENANT, held.clone(), LEASE).await.unwrap();
        assert_eq!(said, RenewOutcome::Lost, "{held:?}");
        before.assert_equals(&t.dump().await, "a stale renewal");
    }
}

/// PLT-10
async fn plt_10_a_stale_release_changes_nothing(t: &Bench) {
    let stale = stale(t).await;
    let before = t.dump().await;
    for held in stale {
        let said = t.store().release_lease(TENANT, held.clone()).await.unwrap();
        assert_eq!(said, ReleaseOutcome::Lost, "{held:?}");
        before.assert_equals(&t.dump().await, "a stale release");
    }
}

/// PLT-6, PLT-10: a clock that is set back makes leases last; what was released stays free.
async fn plt_10_a_clock_set_back_revives_nothing(t: &Bench) {
    let given_back = acquired(t, "given-back", "a").await;
    t.store().release_lease(TENANT, holding(&given_back)).await.unwrap();
    acquired(t, "held", "a").await;
    t.store().set_clock(Timestamp::from_micros(0)).await.unwrap();
    refused(t, "held", "b").await;
    assert_eq!(acquired(t, "given-back", "b").await.token, FencingToken(2));
}

/// PLT-10
async fn plt_10_leases_are_read_and_listed(t: &Bench) {
    assert_eq!(t.store().lease(TENANT, "a").await.unwrap(), None);
    for name in ["c", "a", "b"] {
        acquired(t, name, "me").await;
    }
    let names = |all: Vec<Lease>| all.into_iter().map(|l| l.name).collect::<Vec<_>>();
    assert_eq!(names(t.store().leases(TENANT, "", 10).await.unwrap()), ["a", "b", "c"]);
    assert_eq!(names(t.store().leases(TENANT, "a", 1).await.unwrap()), ["b"]);
    t.advance(LEASE).await;
    assert!(t.store().leases(TENANT, "", 10).await.unwrap().iter().all(|l| !l.is_held()), "shown as ended");
}

async fn plt_10_another_tenants_lease_is_another_lease(t: &Bench) {
    let acme = NewTenant { slug: "acme".into(), name: "Acme".into(), ..NewTenant::default() };
    let acme: Tenant = t.store().create_tenant(acme).await.unwrap().tenant;
    let mine = acquired(t, "report", "a").await;
    let before = t.dump().await;
    assert_eq!(t.store().lease(acme, "report").await.unwrap(), None);
    assert_eq!(t.store().renew_lease(acme, holding(&mine), LEASE).await.unwrap(), RenewOutcome::Lost);
    assert_eq!(t.store().release_lease(acme, holding(&mine)).await.unwrap(), ReleaseOutcome::Lost);
    before.assert_equals(&t.dump().await, "another tenant's word");
    let theirs = t.store().acquire_lease(acme, "report", "b", LEASE).await.unwrap();
    assert!(matches!(theirs, AcquireOutcome::Acquired(lease) if lease.token == FencingToken(1)));
}

/// PLT-29
async fn plt_29_a_wrong_lease_is_refused(t: &Bench) {
    let before = t.dump().await;
    for duration in [Duration::ZERO, seconds(86_401)] {
        let said = t.store().acquire_lease(TENANT, "", "a\n", duration).await.unwrap_err();
        let Error::Invalid(problems) = said else { panic!("{said}") };
        let paths: Vec<&str> = problems.0.iter().map(|p| p.path.as_str()).collect();
        assert_eq!(paths, ["name", "owner", "seconds"]);
    }
    before.assert_equals(&t.dump().await, "a refused lease");
}

const ROUNDS: i64 = 20;

/// PLT-10: at the moment it is free, for the first time and later.
async fn plt_10_of_many_at_once_one_acquires(t: &Bench) {
    let stores = [t.another().await, t.another().await];
    for round in 1..=ROUNDS {
        let mut tasks = JoinSet::new();
        for n in 0..8 {
            let store = stores[n % 2].clone();
            tasks.spawn(async move { acquire(&store, "report", &format!("o{n}")).await });
        }
        let said = tasks.join_all().await;
        let winners: Vec<&Lease> = said
            .iter()
            .filter_map(|a| if let AcquireOutcome::Acquired(l) = a { Some(l) } else { None })
            .collect();
        assert_eq!(winners.len(), 1, "round {round}: {said:?}");
        assert_eq!(winners[0].token, FencingToken(round));
        for told in &said {
            let (AcquireOutcome::Acquired(lease) | AcquireOutcome::Held(lease)) = told;
            assert_eq!(lease.holder(), Some(winners[0].owner.as_str()), "all are told who has it");
        }
        t.advance(LEASE).await;
    }
}

/// PLT-10: at its very end a lease is renewed or given to another, never both.
async fn plt_10_renewing_beside_acquiring_one_wins(t: &Bench) {
    let (a, b) = (t.another().await, t.another().await);
    for round in 0..ROUNDS {
        let lease = acquired(t, "report", "a").await;
        let late = round % 2 == 0;
        t.advance(if late { LEASE } else { LEASE - MICROSECOND }).await;
        let held = holding(&lease);
        let renewing = async { a.renew_lease(TENANT, held, LEASE).await.unwrap() };
        let (renewed, other) = tokio::join!(renewing, acquire(&b, "report", "b"));
        let (renewed, taken) =
            (matches!(renewed, RenewOutcome::Renewed(_)), matches!(other, AcquireOutcome::Acquired(_)));
        assert_eq!((renewed, taken), (!late, late), "round {round}");
        t.advance(LEASE).await;
    }
}

/// PLT-10
async fn plt_10_releasing_beside_acquiring_leaves_one_holder(t: &Bench) {
    let (a, b) = (t.another().await, t.another().await);
    for round in 0..ROUNDS {
        let lease = acquired(t, "report", "a").await;
        let held = holding(&lease);
        let releasing = async { a.release_lease(TENANT, held).await.unwrap() };
        let (released, other) = tokio::join!(releasing, acquire(&b, "report", "b"));
        assert_eq!(released, ReleaseOutcome::Released, "round {round}: nobody else could release it");
        let now = t.store().lease(TENANT, "report").await.unwrap().unwrap();
        match other {
            AcquireOutcome::Acquired(taken) => {
                assert_eq!((now.holder(), now.token), (Some("b"), taken.token));
            }
            AcquireOutcome::Held(shown) => {
                assert_eq!((now.holder(), shown.token), (None, lease.token));
            }
        }
        t.advance(LEASE).await;
    }
}

async fn names(t: &Bench) -> Vec<String> {
    t.store().leases(TENANT, "", 100).await.unwrap().into_iter().map(|lease| lease.name).collect()
}

/// PLT-8: 30 days after its end, by the loop that prunes; a lease that is held stays, however old.
async fn plt_8_a_lease_that_ended_long_ago_is_deleted(t: &Bench) {
    let month = Duration::from_secs(30 * 86_400);
    let held = holding(&acquired(t, "held", "a").await);
    let released = acquired(t, "released", "a").await;
    t.store().release_lease(TENANT, holding(&released)).await.unwrap();
    acquired(t, "ended", "a").await;
    for _ in 0..31 {
        t.store().renew_lease(TENANT, held.clone(), Duration::from_secs(86_400)).await.unwrap();
        t.advance(Duration::from_secs(86_399)).await;
    }
    let mut pruner = Pruner::new(t.store().clone(), RetentionSettings::default());
    pruner.pass().await.unwrap();
    assert_eq!(names(t).await, ["held"]);
    t.advance(month).await;
    pruner.pass().await.unwrap();
    assert_eq!(names(t).await, ["held"], "it ended less than 30 days ago");
    t.advance(Duration::from_secs(2)).await;
    pruner.pass().await.unwrap();
    assert_eq!(names(t).await, [""; 0]);
}

/// PLT-8
async fn plt_8_leases_are_deleted_in_bounded_batches(t: &Bench) {
    t.texts(
        "insert into punctual.lease (tenant_id, name, owner, token, acquired_at, renewed_at, lease_until) \
         with recursive n (n) as (select 1 union all select n + 1 from n where n < 2500) \
         select 1, 'order-' || n, 'a', n, n, n, n from n",
    )
    .await;
    let mut deleted = Vec::new();
    while deleted.last() != Some(&0) {
        deleted.push(t.store().prune_leases(seconds(1)).await.unwrap());
    }
    assert_eq!(deleted, [1_000, 1_000, 500, 0]);
    assert_eq!(acquired(t, "order-1", "a").await.token, FencingToken(2_501));
}

/// PLT-8, PLT-10: above every token that its tenant was given under any name; other tenants have their own.
async fn plt_8_a_token_grows_also_after_its_lease_was_deleted(t: &Bench) {
    for _ in 0..3 {
        acquired(t, "often", "a").await;
        t.advance(LEASE).await;
    }
    acquired(t, "once", "a").await;
    t.advance(LEASE + seconds(2)).await;
    assert_eq!(t.store().prune_leases(seconds(1)).await.unwrap(), 2);
    assert_eq!(t.store().lease(TENANT, "often").await.unwrap(), None);
    assert_eq!(acquired(t, "once", "a").await.token, FencingToken(4));
    assert_eq!(acquired(t, "often", "a").await.token, FencingToken(4));
    assert_eq!(acquired(t, "new", "a").await.token, FencingToken(4));
    t.advance(LEASE).await;
    assert_eq!(acquired(t, "often", "a").await.token, FencingToken(5));
    let new = NewTenant { slug: "acme".into(), name: "Acme".into(), ..NewTenant::default() };
    let other = t.store().create_tenant(new).await.unwrap().tenant;
    let theirs = t.store().acquire_lease(other, "often", "a", LEASE).await.unwrap();
    assert!(matches!(theirs, AcquireOutcome::Acquired(lease) if lease.token == FencingToken(1)));
}

/// PLT-8, PLT-10: an acquisition that waits for the deletion of its row has read the floor before it rose.
async fn plt_8_a_token_grows_also_beside_a_deletion(t: &Bench) {
    let other = t.another().await;
    let mut last = FencingToken(0);
    for round in 0..200 {
        let (acquired, deleted) =
            tokio::join!(acquire(t.store(), "report", "a"), other.prune_leases(Duration::ZERO));
        let AcquireOutcome::Acquired(lease) = acquired else { panic!("{acquired:?}") };
        assert!(lease.token > last, "round {round}: {lease:?} after {last:?}, {deleted:?}");
        let stored = t.store().lease(TENANT, "report").await.unwrap();
        assert_eq!(stored.map(|stored| stored.token), Some(lease.token), "round {round}");
        last = lease.token;
        t.advance(LEASE + seconds(1)).await;
    }
}
