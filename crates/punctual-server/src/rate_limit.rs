//! How often strangers may ask: a token bucket for each key, in a table that does not grow.
//!
//! A bucket is one moment, the one at which it is full again. So a look costs one comparison, and a bucket
//! that is full is the same as none. The table has a fixed number of places; a new key takes the one
//! in its set that is free or will be the soonest. Not promised: that a key is still remembered
//! when far more of them ask at once than there are places. Each process counts for itself.

use punctual::base::clock::{Monotonic, monotonic};
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Places that a key may have.
const WAYS: usize = 8;
/// Parts of the table with a lock each.
const SHARDS: usize = 16;
/// Sets of places in one part: 32,768 places in all, half a mebibyte.
const SETS: usize = 256;

/// How often one key may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// How long until one more request is allowed.
    every: Duration,
    /// How much of that may be saved up.
    burst: Duration,
}

impl Rate {
    /// So many a minute, which may all come at once after a quiet minute. None at all is not a rate: at
    /// least one is allowed.
    #[must_use]
    pub fn per_minute(requests: u32) -> Self {
        let minute = Duration::from_secs(60);
        let every = minute / requests.max(1);
        Self { every, burst: minute.saturating_sub(every) }
    }

    /// What becomes of a request at `now` when the bucket would be full at `full`: the moment at which it
    /// is full after this one, or how long to wait.
    ///
    /// # Errors
    /// How long it takes until one is allowed.
    pub fn decide(self, full: Duration, now: Duration) -> Result<Duration, Duration> {
        let full = full.max(now);
        let ahead = full - now;
        if ahead > self.burst { Err(ahead - self.burst) } else { Ok(full + self.every) }
    }
}

/// A bucket: whose it is, and when it is full again.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    key: u64,
    full: Duration,
}

/// Buckets of many keys.
#[derive(Debug)]
pub struct Limiter {
    rate: Rate,
    since: Monotonic,
    hasher: RandomState,
    shards: Box<[Mutex<Table>]>,
}

impl Limiter {
    /// A table in which nobody has asked yet.
    #[must_use]
    pub fn new(rate: Rate) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::new(Table::new(SETS))).collect();
        Self { rate, since: monotonic(), hasher: RandomState::new(), shards }
    }

    /// Counts a request.
    ///
    /// # Errors
    /// How long to wait, if it is one too many. It is not counted then.
    pub fn ask(&self, key: impl Hash) -> Result<(), Duration> {
        self.visit(key, |table, key, now| table.ask(self.rate, key, now))
    }

    /// Whether a request would be one too many, without counting it.
    ///
    /// # Errors
    /// How long to wait, if it would.
    pub fn look(&self, key: impl Hash) -> Result<(), Duration> {
        self.visit(key, |table, key, now| self.rate.decide(table.full(key, now), now).map(|_| ()))
    }

    fn visit<T>(&self, key: impl Hash, run: impl FnOnce(&mut Table, u64, Duration) -> T) -> T {
        let key = self.hasher.hash_one(key);
        let [shard, ..] = key.to_le_bytes();
        let shard = &self.shards[usize::from(shard) % SHARDS];
        run(&mut shard.lock().unwrap_or_else(PoisonError::into_inner), key, self.since.elapsed())
    }
}

/// A part of the table.
#[derive(Debug)]
struct Table(Vec<[Bucket; WAYS]>);

impl Table {
    fn new(sets: usize) -> Self {
        Self(vec![[Bucket::default(); WAYS]; sets])
    }

    /// When a key's bucket is full again; now, if it has none.
    fn full(&self, key: u64, now: Duration) -> Duration {
        let set = &self.0[usize::try_from(key >> 32).unwrap_or(0) % self.0.len()];
        set.iter().find(|bucket| bucket.key == key && bucket.full > now).map_or(now, |own| own.full)
    }

    fn ask(&mut self, rate: Rate, key: u64, now: Duration) -> Result<(), Duration> {
        let sets = self.0.len();
        // The lowest bits chose the part already.
        let set = &mut self.0[usize::try_from(key >> 32).unwrap_or(0) % sets];
        let own = set.iter().position(|bucket| bucket.key == key && bucket.full > now);
        let place = own.unwrap_or_else(|| soonest(set));
        let full = own.map_or(now, |own| set[own].full);
        set[place] = Bucket { key, full: rate.decide(full, now)? };
        Ok(())
    }
}

/// The place that is free, or will be first.
fn soonest(set: &[Bucket; WAYS]) -> usize {
    let places = set.iter().enumerate();
    places.min_by_key(|(_, bucket)| bucket.full).map_or(0, |(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// TRG-23: a minute's worth at once, then one for each that has come free.
    #[test]
    fn trg_23_a_bucket_decides_by_time_alone() {
        let rate = Rate::per_minute(6);
        let table = [
            // Full again at, asked at, full again after it or how long to wait.
            (at(0), at(100), Ok(at(110))),
            (at(110), at(100), Ok(at(120))),
            (at(150), at(100), Ok(at(160))),
            (at(151), at(100), Err(at(1))),
            (at(160), at(100), Err(at(10))),
            (at(160), at(110), Ok(at(170))),
            (at(160), at(500), Ok(at(510))),
        ];
        for (full, now, want) in table {
            assert_eq!(rate.decide(full, now), want, "{full:?} {now:?}");
        }
        assert_eq!(Rate::per_minute(1).decide(at(0), at(5)), Ok(at(65)));
        assert_eq!(Rate::per_minute(0), Rate::per_minute(1));
    }

    /// TRG-23: a thousand requests in one second pass only as often as they may.
    #[test]
    fn trg_23_a_flood_is_cut_off_and_its_neighbour_is_not() {
        let (rate, mut table) = (Rate::per_minute(100), Table::new(SETS));
        let passed =
            (0..1_000).filter(|n| table.ask(rate, 7, at(5) + Duration::from_millis(*n)).is_ok()).count();
        assert_eq!(passed, 101, "a minute's worth, and what came free within the second");
        assert_eq!(table.ask(rate, 8, at(6)), Ok(()), "another key is not concerned");
        assert_eq!(table.ask(rate, 7, at(66)), Ok(()), "a minute later it may again");
    }

    /// TRG-23: the table does not grow, and a flood of keys does not free one that is cut off.
    #[test]
    fn trg_23_the_table_is_bounded() {
        let (rate, mut table) = (Rate::per_minute(10), Table::new(4));
        while table.ask(rate, 1, at(0)).is_ok() {}
        for key in 2..10_000_u64 {
            assert_eq!(table.ask(rate, key.rotate_left(32), at(0)), Ok(()));
        }
        assert!(table.ask(rate, 1, at(0)).is_err(), "the emptiest bucket is the last to be forgotten");
        assert_eq!(table.0.len(), 4);
    }

    #[test]
    fn keys_are_told_apart() {
        let limiter = Limiter::new(Rate::per_minute(1));
        assert_eq!(limiter.ask("a"), Ok(()));
        assert!(limiter.ask("a").is_err_and(|wait| wait <= Duration::from_secs(60)));
        assert_eq!(limiter.ask("b"), Ok(()));
    }
}
