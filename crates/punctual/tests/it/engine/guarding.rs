//! PLT-11: the guard of a lease, on the system's clock.

use super::{Live, SOON};
use crate::bench::TENANT;
use punctual::base::clock::{Timestamp, host_now, monotonic};
use punctual::database::fault::ConnectionStatus;
use punctual::database::store::Store;
use punctual::jobs::run::lease::{CandidateOutcome, LeaseCandidate, LeaseGuard, LeaseLoss};
use punctual::jobs::store::leases::{AcquireOutcome, ReleaseOutcome};
use punctual::{Engine, Error};
use std::time::Duration;
use tokio::task::JoinSet;

live![
    quick: [
        plt_11_a_guard_holds_and_releases,
        plt_11_a_dropped_guard_gives_its_lease_back,
        plt_11_a_lease_that_was_taken_away_is_noticed,
        plt_11_work_is_dropped_when_the_lease_is_lost,
        plt_11_whoever_waits_gets_it_when_it_is_released,
        plt_11_an_acquisition_that_nobody_awaits_is_given_back,
        plt_11_of_one_owner_only_one_guard_holds,
        plt_11_a_wrong_rhythm_is_refused,
    ],
    slow: [
        plt_11_a_guard_keeps_its_lease,
        plt_11_a_short_outage_is_survived,
        plt_11_a_guard_that_is_cut_off_is_lost_before_another_can_have_it,
    ],
];

const SHORT: Duration = Duration::from_secs(1);

async fn engine(live: &Live) -> Engine {
    live.builder().open().await.unwrap()
}

async fn acquired(candidate: &LeaseCandidate) -> LeaseGuard {
    match candidate.try_acquire().await.unwrap() {
        CandidateOutcome::Acquired(guard) => guard,
        CandidateOutcome::Held(by) => panic!("the lease should be free, but is {by:?}"),
    }
}

/// Waits until the database says that nobody holds the lease.
async fn until_free(store: &Store, name: &str) {
    let since = monotonic();
    while store.lease(TENANT, name).await.unwrap().is_some_and(|lease| lease.is_held()) {
        assert!(since.elapsed() < SOON, "{name} should be free soon");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// PLT-11: needs no loops.
async fn plt_11_a_guard_holds_and_releases(live: &Live) {
    let engine = engine(live).await;
    let guard = acquired(&engine.lease(TENANT, "report")).await;
    assert_eq!(guard.ensure_held().unwrap(), guard.token());
    guard.renew_now().await.unwrap();
    let shown = engine.store().lease(TENANT, "report").await.unwrap().unwrap();
    assert_eq!((shown.holder(), shown.token), (Some(guard.owner()), guard.token()));
    assert_eq!(guard.while_held(async { 7 }).await.unwrap(), 7);
    let (watch, token) = (guard.watch(), guard.token());
    assert!(!watch.is_lost());
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    assert_eq!(watch.lost().await, LeaseLoss::Released, "who watches is told");
    let again = acquired(&engine.lease(TENANT, "report")).await;
    assert!(again.token() > token);
}

/// PLT-11: without a word, and with a lease that would last much longer.
async fn plt_11_a_dropped_guard_gives_its_lease_back(live: &Live) {
    let engine = engine(live).await;
    drop(acquired(&engine.lease(TENANT, "report").duration(Duration::from_secs(3_600))).await);
    until_free(engine.store(), "report").await;
}

/// PLT-11: as by an operator, or a database restored from yesterday.
async fn plt_11_a_lease_that_was_taken_away_is_noticed(live: &Live) {
    let engine = engine(live).await;
    let guard = acquired(&engine.lease(TENANT, "report")).await;
    live.texts("update punctual.lease set token = token + 1, owner = 'thief'").await;
    assert!(!guard.is_lost(), "nobody has asked yet");
    let said = guard.renew_now().await.unwrap_err();
    assert!(matches!(&said, Error::Conflict(text) if text.contains("`report` is lost")), "{said}");
    assert_eq!(guard.lost().await, LeaseLoss::Refused);
    assert!(guard.ensure_held().is_err() && guard.renew_now().await.is_err(), "a loss is final");
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Lost);
    let shown = engine.store().lease(TENANT, "report").await.unwrap().unwrap();
    assert_eq!(shown.holder(), Some("thief"), "and takes nothing from anybody");
}

/// PLT-11
async fn plt_11_work_is_dropped_when_the_lease_is_lost(live: &Live) {
    let engine = engine(live).await;
    let guard = acquired(&engine.lease(TENANT, "report")).await;
    live.texts("update punctual.lease set lease_until = 0").await;
    let work = guard.while_held(std::future::pending::<()>());
    let (work, renewed) = tokio::join!(work, guard.renew_now());
    assert!(matches!(work, Err(Error::Conflict(_))) && renewed.is_err());
}

/// PLT-10: long before it would have ended.
async fn plt_11_whoever_waits_gets_it_when_it_is_released(live: &Live) {
    let engine = engine(live).await;
    let candidate = engine.lease(TENANT, "report").duration(Duration::from_secs(3_600));
    let first = acquired(&candidate.clone().owner("first")).await;
    let token = first.token();
    let second = candidate.clone().owner("second");
    let held = second.acquire_within(Duration::from_millis(20)).await.unwrap();
    assert!(matches!(held, CandidateOutcome::Held(by) if by.owner == "first"), "patience has an end");
    let waiting = tokio::spawn(async move { second.acquire_within(SOON).await.unwrap() });
    first.release().await.unwrap();
    let CandidateOutcome::Acquired(guard) = waiting.await.unwrap() else { panic!("it was released") };
    assert!(guard.token() > token);
}

/// PLT-11: whether it was dropped before or after the database had carried it out.
async fn plt_11_an_acquisition_that_nobody_awaits_is_given_back(live: &Live) {
    let engine = engine(live).await;
    let candidate = engine.lease(TENANT, "report").duration(Duration::from_secs(3_600));
    for _ in 0..20 {
        let _ = tokio::time::timeout(Duration::from_micros(200), candidate.try_acquire()).await;
    }
    // What was begun last may still be under way: who waits gets it all the same.
    let got = candidate.owner("last").acquire_within(SOON).await.unwrap();
    assert!(matches!(got, CandidateOutcome::Acquired(_)), "{got:?}");
}

/// PLT-10
async fn plt_11_of_one_owner_only_one_guard_holds(live: &Live) {
    let engine = engine(live).await;
    let candidate = engine.lease(TENANT, "report");
    let guard = acquired(&candidate).await;
    let second = candidate.try_acquire().await.unwrap();
    assert!(matches!(second, CandidateOutcome::Held(by) if by.token == guard.token()));
    guard.ensure_held().unwrap();
}

/// PLT-29
async fn plt_11_a_wrong_rhythm_is_refused(live: &Live) {
    let engine = engine(live).await;
    let wrong = engine.lease(TENANT, "report").duration(Duration::ZERO).renew_percent(99);
    let said = wrong.try_acquire().await.unwrap_err().to_string();
    assert!(said.contains("duration: ") && said.contains("renewPercent: "), "{said}");
    assert_eq!(engine.store().lease(TENANT, "report").await.unwrap(), None);
}

/// PLT-11: for several times its length.
async fn plt_11_a_guard_keeps_its_lease(live: &Live) {
    let engine = engine(live).await;
    let guard = acquired(&engine.lease(TENANT, "report").duration(SHORT)).await;
    let since = monotonic();
    while since.elapsed() < 3 * SHORT {
        let other = engine.lease(TENANT, "report").owner("other").try_acquire().await.unwrap();
        assert!(matches!(other, CandidateOutcome::Held(by) if by.token == guard.token()), "it is held");
        guard.ensure_held().unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    guard.release().await.unwrap();
}

/// PLT-11: a renewal that failed, or was not answered, is tried again.
async fn plt_11_a_short_outage_is_survived(live: &Live) {
    let engine = engine(live).await;
    for way in [ConnectionStatus::Refused, ConnectionStatus::Cut, ConnectionStatus::Deaf] {
        let (store, cut) = engine.store().with_cut();
        let candidate =
            LeaseCandidate::new(store, TENANT, "report", "me").duration(2 * SHORT).renew_percent(10);
        let guard = acquired(&candidate).await;
        cut.set(way);
        // Long enough for the first renewal to go wrong, and too short for the end.
        tokio::time::sleep(SHORT / 2).await;
        cut.set(ConnectionStatus::Open);
        let since = monotonic();
        while since.elapsed() < 2 * SHORT {
            guard.ensure_held().unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released, "{way:?}");
    }
}

/// Cuts a guard off from its database, somewhere within its first renewals; answers how
/// long before another was given the lease it was lost, by the database's clock.
async fn cut_off(n: u64, ours: Store, others: Store) -> Duration {
    let (name, way) = (
        format!("lease-{n}"),
        [ConnectionStatus::Refused, ConnectionStatus::Cut, ConnectionStatus::Deaf][(n % 3) as usize],
    );
    let (store, cut) = ours.with_cut();
    let guard = acquired(&LeaseCandidate::new(store, TENANT, name.clone(), "first").duration(SHORT)).await;
    let watch = guard.watch();
    let lost = tokio::spawn(async move {
        watch.lost().await;
        host_now()
    });
    // When the link breaks is what differs from try to try.
    tokio::time::sleep(Duration::from_millis(n * 37 % 1_300)).await;
    cut.set(way);
    let taken: Timestamp = loop {
        match others.acquire_lease(TENANT, &name, "second", SHORT).await.unwrap() {
            AcquireOutcome::Acquired(lease) => break lease.acquired_at,
            AcquireOutcome::Held(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    // The database is on this machine: its clock is the host's.
    let lost = lost.await.unwrap();
    assert!(lost < taken, "try {n}, {way:?}: lost at {lost}, but another has it since {taken}");
    assert!(guard.is_lost() && guard.ensure_held().is_err());
    taken.since(lost)
}

/// PLT-11: in 100 of 100 tries, whether renewals are refused, vanish, or are carried out
/// without an answer.
async fn plt_11_a_guard_that_is_cut_off_is_lost_before_another_can_have_it(live: &Live) {
    let (ours, others) = (engine(live).await, engine(live).await);
    let mut gaps = Vec::new();
    for round in 0..5 {
        let mut tasks = JoinSet::new();
        for n in 0..20 {
            tasks.spawn(cut_off(round * 20 + n, ours.store().clone(), others.store().clone()));
        }
        gaps.extend(tasks.join_all().await);
    }
    gaps.sort();
    assert_eq!(gaps.len(), 100);
    println!("{:?}: 100 of 100, lost {:?} to {:?} before another had it", live.backend, gaps[0], gaps[99]);
}
