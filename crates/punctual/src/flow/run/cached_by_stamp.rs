//! A cache of a tenant's definitions in a process, valid for as long as the tenant's stamp stays.
//!
//! A transaction that changes a definition raises a stamp; a reader reads the stamp first. So a cached value
//! is never older than its stamp, and a comparison of the stamp is enough to keep it. A value that is handed
//! out may be older than the database by the cache's `fresh`.

use crate::base::clock::{Monotonic, monotonic};
use crate::base::error::Result;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Definitions by key, each valid for a stamp.
#[derive(Debug)]
pub(crate) struct CachedByStamp<K, T> {
    fresh: Duration,
    most: usize,
    kept: Mutex<HashMap<K, CachedValue<T>>>,
}

#[derive(Debug)]
struct CachedValue<T> {
    what: Arc<T>,
    stamp: i64,
    looked: Monotonic,
}

impl<K: Clone + Eq + Hash, T> CachedByStamp<K, T> {
    /// Keeps up to `most`, and looks again at what it last looked at longer than `fresh` ago. Zero asks
    /// each time, as it must be where time stands still between two changes.
    pub(crate) fn new(fresh: Duration, most: usize) -> Self {
        Self { fresh, most, kept: Mutex::default() }
    }

    /// Returns the value of a key: the cached one if `stamp` confirms it, else the one that `read` returns,
    /// with its stamp.
    pub(crate) async fn of<S, R>(
        &self,
        key: K,
        stamp: impl FnOnce() -> S,
        read: impl FnOnce() -> R,
    ) -> Result<Arc<T>>
    where
        S: Future<Output = Result<i64>>,
        R: Future<Output = Result<(i64, T)>>,
    {
        let looked = monotonic();
        let known = self.all().get(&key).map(|kept| (Arc::clone(&kept.what), kept.stamp, kept.looked));
        if let Some((what, known, before)) = known {
            if looked.since(before) < self.fresh {
                return Ok(what);
            }
            if stamp().await? == known {
                self.keep(key, CachedValue { what: Arc::clone(&what), stamp: known, looked });
                return Ok(what);
            }
        }
        let (stamp, what) = read().await?;
        let what = Arc::new(what);
        self.keep(key, CachedValue { what: Arc::clone(&what), stamp, looked });
        Ok(what)
    }

    /// Forgets a key, so that the next one who asks reads it again.
    pub(crate) fn forget(&self, key: &K) {
        self.all().remove(key);
    }

    fn all(&self) -> MutexGuard<'_, HashMap<K, CachedValue<T>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps it, unless another caller has brought something newer meanwhile.
    fn keep(&self, key: K, new: CachedValue<T>) {
        let mut all = self.all();
        if all.len() >= self.most && !all.contains_key(&key) {
            all.clear();
        }
        if all.get(&key).is_none_or(|old| old.stamp <= new.stamp) {
            all.insert(key, new);
        }
    }
}
