//! Leases: one holder at a time by the database's clock, tokens that only grow, and guards that
//! believe in a lease only while the database does (PLT-10, PLT-11).

use super::checker::Hand;
use super::faults::Wire;
use super::truth::Verdict;
use super::workload::Scene;
use punctual::jobs::run::lease::CandidateOutcome;
use punctual::jobs::store::leases::AcquireOutcome;
use punctual::{Engine, LeaseGuard, Tenant, Timestamp};
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const NAMES: [&str; 2] = ["report", "sweep"];
/// The longest lease that is asked for.
const LONGEST: Duration = Duration::from_secs(4);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Lease {
    owner: String,
    token: i64,
    until: Timestamp,
    released: bool,
}

impl Lease {
    fn is_held(&self, now: Timestamp) -> bool {
        !self.released && self.until > now
    }

    /// Whether this may have become that.
    fn assert_next(&self, next: &Self, hand: &Hand<'_>) -> Verdict<&'static str> {
        let held = self.is_held(hand.now);
        let mine = next.owner.starts_with(hand.actor);
        match next.token - self.token {
            0 if next.owner == self.owner && held && mine => Ok(match next.released {
                true => "lease released",
                false => "lease renewed",
            }),
            0 => Err("it was renewed or released by somebody who does not hold it".into()),
            1 if held => Err("it was acquired while it was held".into()),
            1 if mine && next.is_held(hand.now) => Ok("lease acquired"),
            _ => Err("its token does not grow by one with each holder".into()),
        }
    }
}

/// The leases as they were after a transaction.
#[derive(Clone, Debug, Default)]
pub struct Leases(BTreeMap<(i64, String), Lease>);

impl Leases {
    /// Reads them again; what has changed, if that may be, as words for the trace.
    pub fn look(&mut self, connection: &Connection, hand: &Hand<'_>) -> Verdict<Vec<(&'static str, String)>> {
        let is = read(connection).map_err(|e| e.to_string())?;
        let mut said = Vec::new();
        for (key, lease) in &is {
            let (words, was) = (format!("lease {key:?}: {lease:?}"), self.0.get(key));
            match was {
                Some(was) if was == lease => {}
                Some(was) => {
                    let why = |why| format!("{why}: {was:?} -> {words}, by {}", hand.actor);
                    said.push((was.assert_next(lease, hand).map_err(why)?, words));
                }
                None if lease.token == 1 => said.push(("lease acquired", words)),
                None => return Err(format!("{words}, the first of its name")),
            }
        }
        match self.0.keys().find(|key| !is.contains_key(*key)) {
            Some(key) => Err(format!("the lease {key:?} is gone, and its tokens with it")),
            None => {
                self.0 = is;
                Ok(said)
            }
        }
    }

    /// A guard believes that it holds this.
    fn assert_held(&self, tenant: Tenant, guard: &LeaseGuard, now: Timestamp) -> Verdict {
        let lease = self.0.get(&(tenant.id(), guard.name().to_owned()));
        let agrees = |lease: &&Lease| {
            lease.is_held(now) && (lease.token, lease.owner.as_str()) == (guard.token().0, guard.owner())
        };
        match lease.filter(agrees) {
            Some(_) => Ok(()),
            None => Err(format!("{} believes in token {} at {now}: {lease:?}", guard.owner(), guard.token())),
        }
    }
}

fn read(connection: &Connection) -> rusqlite::Result<BTreeMap<(i64, String), Lease>> {
    let mut statement = connection.prepare_cached(
        "select tenant_id, name, owner, token, lease_until, released_at is not null from punctual_lease",
    )?;
    let rows = statement.query_map([], |row| {
        let until = Timestamp::from_micros(row.get(4)?);
        let lease = Lease { owner: row.get(2)?, token: row.get(3)?, until, released: row.get(5)? };
        Ok(((row.get(0)?, row.get(1)?), lease))
    })?;
    rows.collect()
}

/// Somebody who wants leases again and again, each time through an engine that runs.
pub async fn rival(scene: Arc<Scene>, index: usize) {
    let operations = scene.world.state().plan.operations;
    for _ in 0..operations {
        let pause = scene.world.state().dice.millis(0..=3_000);
        tokio::time::sleep(pause).await;
        let Some((engine, wire)) = scene.world.any_node() else { continue };
        // Who dies with a guard in hand leaves it to its end.
        tokio::select! {
            biased;
            () = wire.died() => {}
            () = scene.hold(&engine, &wire, index) => {}
        }
    }
}

impl Scene {
    async fn hold(&self, engine: &Engine, wire: &Wire, index: usize) {
        let (tenant, name, length, waits, percent) = {
            let dice = &mut self.world.state().dice;
            let longest = u64::try_from(LONGEST.as_millis()).unwrap();
            let (tenant, name) = (*dice.pick(&self.tenants), *dice.pick(&NAMES));
            (tenant, name, dice.millis(1_000..=longest), dice.millis(0..=2_000), *dice.pick(&[40, 60, 80]))
        };
        let candidate = engine.lease(tenant, name).owner(format!("{}/{index}", wire.name));
        let candidate = candidate.duration(length).renew_percent(percent);
        match candidate.acquire_within(waits).await {
            Ok(CandidateOutcome::Acquired(guard)) => self.guard(tenant, wire, guard).await,
            Ok(CandidateOutcome::Held(_)) => self.world.did("lease held by another"),
            Err(_) => {}
        }
    }

    /// Works under a lease, and asks again and again whether it holds.
    async fn guard(&self, tenant: Tenant, wire: &Wire, guard: LeaseGuard) {
        let steps = self.world.state().dice.count(1..=12);
        for _ in 0..steps {
            let (pause, asks) = {
                let dice = &mut self.world.state().dice;
                (dice.millis(1..=900), dice.chance(100))
            };
            wire.rest(pause).await;
            if asks {
                guard.renew_now().await.ok();
            }
            if guard.is_lost() {
                return self.world.did("lease lost by its guard");
            }
            let now = self.world.now();
            let verdict = self.world.state().leases.assert_held(tenant, &guard, now);
            self.world.judge(verdict);
        }
        if self.world.state().dice.chance(700) {
            guard.release().await.ok();
        }
    }

    /// After healing: whatever became of its holders, every lease can be had again.
    pub async fn acquire_all(&self) -> Verdict {
        tokio::time::sleep(LONGEST * 2).await;
        for (tenant, name) in self.tenants.iter().flat_map(|t| NAMES.map(|name| (*t, name))) {
            let had = self.operator.acquire_lease(tenant, name, super::checker::OPERATOR, LONGEST).await;
            match had.map_err(|e| e.to_string())? {
                AcquireOutcome::Acquired(_) => {}
                AcquireOutcome::Held(lease) => {
                    return Err(format!("nobody holds {lease:?}, but it is not free"));
                }
            }
        }
        Ok(())
    }
}
