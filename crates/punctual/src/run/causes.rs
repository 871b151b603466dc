//! The causes of deliveries: the events that they tell of, parsed.
//!
//! An event that this process has just filed stays at hand for the deliveries that it claims next, so that it
//! is neither read nor parsed again. An event never changes, so what is at hand is what the database has. All
//! else is read there: what another process filed, what there was no room for, what comes again.
//!
//! A database that lost what it had answered (a failover to a standby that was behind) gives the same numbers
//! once more. So a delivery is given an event only if it was written at the very moment when that was filed.
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
/// What any event takes besides its texts.
const EVENT_BYTES: usize = 512;
/// What each value of a parsed payload takes besides its text, at most.
const VALUE_BYTES: usize = 64;
/// What each object of it takes besides, at most: room for the first of its names.
const OBJECT_BYTES: usize = 640;

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

    /// How much memory it takes, rather too much than too little. Its payload is there twice.
    fn bytes(&self) -> usize {
        let event = &self.cause.event;
        let besides = |byte: u8| match byte {
            b',' | b'[' => VALUE_BYTES,
            b'{' => OBJECT_BYTES,
            _ => 0,
        };
        let parsed: usize = event.payload.bytes().map(besides).sum();
        EVENT_BYTES + event.headers.as_ref().map_or(0, String::len) + 2 * event.payload.len() + parsed
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
    bytes: usize,
    filed_at: Timestamp,
    /// Deliveries that have not asked for it.
    letters: usize,
}

impl Causes {
    /// Keeps an event for so many letters of its notice.
    pub(super) fn keep(&self, notice: NoticeId, told: Told, letters: usize, filed_at: Timestamp) {
        let bytes = told.bytes();
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.forget(notice);
        if letters > 0 && kept.bytes.saturating_add(bytes) <= KEPT_BYTES_MAX {
            kept.by_notice.insert(notice, Waiting { told: Arc::new(told), bytes, filed_at, letters });
            kept.bytes += bytes;
        }
    }

    /// Forgets what nobody has asked for in time.
    pub(super) fn forget_old(&self, now: Timestamp) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((notice, first)) = kept.by_notice.first_key_value()
            && first.filed_at.plus(KEPT_FOR) <= now
        {
            let notice = *notice;
            kept.forget(notice);
        }
    }

    /// The causes of deliveries: each is named by its notice and the moment it was written at.
    ///
    /// # Errors
    /// When the database does not answer.
    pub(super) async fn of(
        &self,
        store: &Store,
        deliveries: impl Iterator<Item = (NoticeId, Timestamp)> + Send,
    ) -> Result<ByNotice> {
        let (mut found, unknown) = self.take(deliveries);
        found.extend(read(store, unknown).await?);
        Ok(found)
    }

    fn take(&self, deliveries: impl Iterator<Item = (NoticeId, Timestamp)>) -> (ByNotice, Vec<NoticeId>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut found, mut unknown) = (ByNotice::new(), Vec::new());
        for (notice, written_at) in deliveries {
            match kept.take(notice, written_at) {
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
    fn take(&mut self, notice: NoticeId, written_at: Timestamp) -> Option<Arc<Told>> {
        let waiting = self.by_notice.get_mut(&notice).filter(|waiting| waiting.filed_at == written_at)?;
        waiting.letters -= 1;
        let (told, letters) = (Arc::clone(&waiting.told), waiting.letters);
        if letters == 0 {
            self.forget(notice);
        }
        Some(told)
    }

    fn forget(&mut self, notice: NoticeId) {
        self.bytes -= self.by_notice.remove(&notice).map_or(0, |waiting| waiting.bytes);
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
    fn asked(causes: &Causes, notices: &[i64], written_at: Timestamp) -> (Vec<i64>, Vec<i64>) {
        let (found, unknown) = causes.take(notices.iter().map(|id| (NoticeId(*id), written_at)));
        let mut found: Vec<i64> = found.into_keys().map(|id| id.0).collect();
        found.sort_unstable();
        (found, unknown.into_iter().map(|id| id.0).collect())
    }

    fn bytes(causes: &Causes) -> usize {
        causes.0.lock().unwrap().bytes
    }

    #[test]
    fn an_event_is_at_hand_once_for_each_of_its_letters() {
        let causes = Causes::default();
        causes.keep(NoticeId(1), told("{}"), 2, second(0));
        causes.keep(NoticeId(2), told("{}"), 1, second(0));
        assert_eq!(asked(&causes, &[1, 3, 3], second(0)), (vec![1], vec![3]));
        assert_eq!(asked(&causes, &[1, 1, 2], second(0)), (vec![1, 2], vec![]), "found once is found");
        assert_eq!(asked(&causes, &[1, 2], second(0)), (vec![], vec![1, 2]));
        assert_eq!(bytes(&causes), 0, "what is gone takes no room");
    }

    #[test]
    fn a_number_that_is_given_twice_means_the_event_of_its_own_moment() {
        let causes = Causes::default();
        causes.keep(NoticeId(1), told("1"), 1, second(0));
        assert_eq!(asked(&causes, &[1], second(1)), (vec![], vec![1]), "another one of the same number");
        causes.keep(NoticeId(1), told("2"), 1, second(1));
        let (found, _) = causes.take([(NoticeId(1), second(1))].into_iter());
        assert_eq!(*found[&NoticeId(1)].payload, 2);
        assert_eq!(bytes(&causes), 0);
    }

    #[test]
    fn an_event_that_nobody_asks_for_is_forgotten() {
        let causes = Causes::default();
        causes.keep(NoticeId(1), told("{}"), 1, second(0));
        causes.keep(NoticeId(2), told("{}"), 1, second(30));
        causes.forget_old(second(59));
        assert_eq!(bytes(&causes), 2 * told("{}").bytes());
        causes.forget_old(second(60));
        assert_eq!(asked(&causes, &[1], second(0)), (vec![], vec![1]));
        assert_eq!(asked(&causes, &[2], second(30)), (vec![2], vec![]));
    }

    #[test]
    fn what_there_is_no_room_for_is_not_kept() {
        let causes = Causes::default();
        let big = format!("\"{}\"", "x".repeat(KEPT_BYTES_MAX / 4 - EVENT_BYTES));
        for id in 1..=3 {
            causes.keep(NoticeId(id), told(&big), 1, second(0));
        }
        causes.keep(NoticeId(4), told("{}"), 0, second(0));
        assert_eq!(asked(&causes, &[1, 2, 3, 4], second(0)), (vec![1, 2], vec![3, 4]));
    }

    #[test]
    fn what_an_event_takes_is_reckoned_by_its_texts_and_values() {
        let mut with_headers = told("{}");
        Arc::get_mut(&mut with_headers.cause.event).unwrap().headers = Some("x".repeat(1_000));
        assert_eq!(with_headers.bytes(), told("{}").bytes() + 1_000);
        assert!(told("[0,0,0,0,0,0]").bytes() > told("\"0000000000\"").bytes() + 6 * size_of::<Value>());
    }
}
