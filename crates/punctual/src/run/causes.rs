//! The causes of deliveries: the events that they tell of, parsed.
//!
//! An event that this process has just filed stays at hand for the deliveries that it claims next, so that it
//! is neither read nor parsed again. An event never changes, so what is at hand is what the database has. All
//! else is read there: what another process filed, what there was no room for, what comes again.
//!
//! Not promised: that an event which was dropped by age is missed at once. It stays at hand for `KEPT_FOR` at
//! most.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::NoticeId;
use crate::rules::message::Message;
use crate::store::Store;
use crate::store::notices::deliver::Cause;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long an event waits for its deliveries, by the database's clock.
const KEPT_FOR: Duration = Duration::from_secs(60);
/// Bytes of all events at hand, as they are reckoned ([`Told::bytes`]). What comes when they are used up is
/// not kept: letters are claimed in the order of their events, so those that came first are wanted first.
const KEPT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// What a parsed payload takes, for each byte of its text.
const BYTES_EACH: usize = 4;
/// What any event takes.
const BYTES_BESIDES: usize = 512;

/// An event that somebody is told of.
#[derive(Clone, Debug)]
pub(super) struct Told {
    /// The event, and what is known of it.
    pub(super) cause: Cause,
    /// Its payload, parsed.
    pub(super) payload: Arc<Value>,
}

impl Told {
    fn read(cause: Cause) -> Self {
        Self { payload: Arc::new(payload_of(&cause.event)), cause }
    }

    /// About how much memory it takes.
    fn bytes(&self) -> usize {
        BYTES_BESIDES + BYTES_EACH * self.cause.event.payload.len()
    }
}

/// The payload as JSON; what is none has nothing in it.
pub(super) fn payload_of(event: &Message) -> Value {
    serde_json::from_str(&event.payload).unwrap_or_default()
}

/// The causes of deliveries, by their notices. One that was dropped by age is not among them.
pub(super) type ByNotice = HashMap<NoticeId, Arc<Told>>;

/// Reads them all.
///
/// # Errors
/// When the database does not answer.
pub(super) async fn read(store: &Store, notices: Vec<NoticeId>) -> Result<ByNotice> {
    if notices.is_empty() {
        return Ok(ByNotice::new());
    }
    let causes = store.causes(notices).await?;
    Ok(causes.into_iter().map(|(notice, cause)| (notice, Arc::new(Told::read(cause)))).collect())
}

/// Events at hand.
#[derive(Debug, Default)]
pub struct Causes(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// The ids of notices follow the time at which they were filed.
    by_notice: BTreeMap<NoticeId, Waiting>,
    bytes: usize,
}

#[derive(Debug)]
struct Waiting {
    told: Arc<Told>,
    filed_at: Timestamp,
    /// Deliveries that have not asked for it.
    letters: usize,
}

impl Causes {
    /// Keeps an event for so many letters of its notice.
    pub(super) fn keep(&self, notice: NoticeId, told: Told, letters: usize, filed_at: Timestamp) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.forget_old(filed_at);
        let bytes = kept.bytes.saturating_add(told.bytes());
        if letters == 0 || bytes > KEPT_BYTES_MAX || kept.by_notice.contains_key(&notice) {
            return;
        }
        kept.by_notice.insert(notice, Waiting { told: Arc::new(told), filed_at, letters });
        kept.bytes = bytes;
    }

    /// The causes of deliveries of these notices, each named once for each of its deliveries.
    ///
    /// # Errors
    /// When the database does not answer.
    pub(super) async fn of(
        &self,
        store: &Store,
        notices: impl Iterator<Item = NoticeId> + Send,
        now: Timestamp,
    ) -> Result<ByNotice> {
        let (mut found, unknown) = self.take(notices, now);
        found.extend(read(store, unknown).await?);
        Ok(found)
    }

    fn take(&self, notices: impl Iterator<Item = NoticeId>, now: Timestamp) -> (ByNotice, Vec<NoticeId>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.forget_old(now);
        let (mut found, mut unknown) = (ByNotice::new(), Vec::new());
        for notice in notices {
            match kept.take(notice) {
                Some(told) => drop(found.insert(notice, told)),
                None if found.contains_key(&notice) => {}
                None => unknown.push(notice),
            }
        }
        unknown.sort_unstable();
        unknown.dedup();
        (found, unknown)
    }
}

impl Kept {
    fn take(&mut self, notice: NoticeId) -> Option<Arc<Told>> {
        let waiting = self.by_notice.get_mut(&notice)?;
        waiting.letters -= 1;
        if waiting.letters > 0 {
            return Some(Arc::clone(&waiting.told));
        }
        let told = self.by_notice.remove(&notice)?.told;
        self.bytes -= told.bytes();
        Some(told)
    }

    fn forget_old(&mut self, now: Timestamp) {
        while let Some(first) = self.by_notice.first_entry()
            && first.get().filed_at.plus(KEPT_FOR) <= now
        {
            self.bytes -= first.remove().told.bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::id::MessageId;
    use crate::base::tenant::Tenant;

    fn told(payload: &str) -> Told {
        let at = second(0);
        let event = Message {
            id: MessageId(1),
            tenant: Tenant::DEFAULT,
            topic: "bookings".into(),
            kind: "booking.confirmed".into(),
            payload: payload.into(),
            key: None,
            entity: None,
            correlation_id: None,
            headers: None,
            created_at: at,
            occurred_at: at,
            due_at: at,
        };
        Told::read(Cause { event: Arc::new(event), entity: None, by_hand: false })
    }

    fn second(n: u64) -> Timestamp {
        Timestamp::from_micros(0).plus(Duration::from_secs(n))
    }

    /// Which of these are at hand, and which must be read.
    fn asked(causes: &Causes, notices: &[i64], now: Timestamp) -> (Vec<i64>, Vec<i64>) {
        let (found, unknown) = causes.take(notices.iter().copied().map(NoticeId), now);
        let mut found: Vec<i64> = found.into_keys().map(|id| id.0).collect();
        found.sort_unstable();
        (found, unknown.into_iter().map(|id| id.0).collect())
    }

    #[test]
    fn an_event_is_at_hand_once_for_each_of_its_letters() {
        let causes = Causes::default();
        causes.keep(NoticeId(1), told("{}"), 2, second(0));
        causes.keep(NoticeId(2), told("{}"), 1, second(0));
        assert_eq!(asked(&causes, &[1, 3, 3], second(1)), (vec![1], vec![3]));
        assert_eq!(asked(&causes, &[1, 1, 2], second(1)), (vec![1, 2], vec![]), "found once is found");
        assert_eq!(asked(&causes, &[1, 2], second(1)), (vec![], vec![1, 2]));
        assert_eq!(causes.0.lock().unwrap().bytes, 0, "what is gone takes no room");
    }

    #[test]
    fn an_event_that_nobody_asks_for_is_forgotten() {
        let causes = Causes::default();
        causes.keep(NoticeId(1), told("{}"), 1, second(0));
        causes.keep(NoticeId(2), told("{}"), 1, second(30));
        assert_eq!(asked(&causes, &[1, 2], second(60)), (vec![2], vec![1]));
        causes.keep(NoticeId(3), told("{}"), 1, second(60));
        causes.keep(NoticeId(4), told("{}"), 1, second(120));
        let kept = causes.0.lock().unwrap();
        assert_eq!(kept.by_notice.keys().copied().collect::<Vec<_>>(), [NoticeId(4)]);
        assert_eq!(kept.bytes, told("{}").bytes());
    }

    #[test]
    fn what_there_is_no_room_for_is_not_kept() {
        let causes = Causes::default();
        let big = format!("\"{}\"", "x".repeat(KEPT_BYTES_MAX / BYTES_EACH / 2 - BYTES_BESIDES));
        for id in 1..=3 {
            causes.keep(NoticeId(id), told(&big), 1, second(0));
        }
        causes.keep(NoticeId(4), told("{}"), 0, second(0));
        assert_eq!(asked(&causes, &[1, 2, 3, 4], second(1)), (vec![1, 2], vec![3, 4]));
    }
}
