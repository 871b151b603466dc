//! The places of connections: who has one, and who gives one up.

use super::limits::{ConnectionLimits, RESERVE, longest_awaited};
use super::peer::Peer;
use punctual::base::clock::{Moment, monotonic};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A limit that is met over and over is logged so often.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// What a connection may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Everything.
    Full,
    /// Health checks only: all other places are taken.
    Reserve,
}

/// All connections of a listener.
#[derive(Debug)]
pub struct Places {
    limits: ConnectionLimits,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    peers: HashMap<u64, (Arc<Peer>, Admission)>,
    per_address: HashMap<IpAddr, usize>,
    reserve: usize,
    logged: Option<Moment>,
    unlogged: usize,
}

/// The place of one connection, free again when it is dropped.
#[derive(Debug)]
pub struct Place {
    places: Arc<Places>,
    number: u64,
    peer: Arc<Peer>,
    admission: Admission,
}

impl Places {
    /// As many places as the limits allow.
    pub fn new(limits: ConnectionLimits) -> Self {
        Self { limits, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a new connection; `None` when not even one for a health check is left.
    pub fn admit(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let mut state = self.state();
        let admission = match self.limit_met(&state, address) {
            None => Admission::Full,
            Some(limit) => {
                let gives_up = state
                    .longest_awaited(Admission::Full, |peer| limit == "total" || peer.address == address);
                state.report(limit, gives_up.is_some(), self.limits);
                match gives_up {
                    Some(number) => {
                        state.disconnect(number, "made-room");
                        Admission::Full
                    }
                    None => state.make_room_in_reserve()?,
                }
            }
        };
        let peer = Arc::new(Peer::new(address));
        let number = state.take(&peer, admission);
        Some(Place { places: Arc::clone(self), number, peer, admission })
    }

    /// The name of the limit that a connection from this address would exceed.
    fn limit_met(&self, state: &State, address: IpAddr) -> Option<&'static str> {
        let full = state.peers.len() - state.reserve;
        if state.per_address.get(&address).is_some_and(|count| *count >= self.limits.per_address) {
            return Some("address");
        }
        (full >= self.limits.max).then_some("total")
    }

    /// Disconnects peers that have run out of time.
    pub fn disconnect_overdue(&self) {
        let mut state = self.state();
        let overdue: Vec<_> = state
            .peers
            .iter()
            .filter_map(|(number, (peer, _))| {
                let (awaited, waited) = peer.awaited();
                awaited.is_overdue(waited, &self.limits.timeouts).then_some((*number, awaited.reason()))
            })
            .collect();
        for (number, reason) in overdue {
            state.disconnect(number, reason);
        }
    }

    /// The system has no descriptor for a new connection.
    pub fn out_of_descriptors(&self, error: &std::io::Error) {
        let mut state = self.state();
        metrics::counter!("punctual_http_connections_refused_total", "limit" => "descriptors").increment(1);
        if state.may_log() {
            tracing::warn!(target: "punctual", %error, "a connection could not be accepted");
        }
        if let Some(number) = state.longest_awaited(Admission::Full, |_| true) {
            state.disconnect(number, "made-room");
        }
    }
}

impl State {
    fn take(&mut self, peer: &Arc<Peer>, admission: Admission) -> u64 {
        let number = self.next;
        self.next += 1;
        self.peers.insert(number, (Arc::clone(peer), admission));
        if admission == Admission::Reserve {
            self.reserve += 1;
        } else {
            *self.per_address.entry(peer.address).or_default() += 1;
        }
        gauge(self.peers.len());
        number
    }

    fn make_room_in_reserve(&mut self) -> Option<Admission> {
        if self.reserve >= RESERVE {
            let number = self.longest_awaited(Admission::Reserve, |_| true)?;
            self.disconnect(number, "made-room");
        }
        Some(Admission::Reserve)
    }

    fn longest_awaited(&self, admission: Admission, eligible: impl Fn(&Peer) -> bool) -> Option<u64> {
        let eligible = self.peers.iter().filter(|(_, (peer, has))| *has == admission && eligible(peer));
        longest_awaited(eligible.map(|(number, (peer, _))| {
            let (awaited, waited) = peer.awaited();
            (*number, awaited, waited)
        }))
    }

    /// Ends a connection; its place is free at once, though its task may take a moment longer.
    fn disconnect(&mut self, number: u64, reason: &'static str) {
        if let Some(peer) = self.remove(number) {
            peer.disconnect();
            metrics::counter!("punctual_http_connections_cut_total", "reason" => reason).increment(1);
        }
    }

    fn remove(&mut self, number: u64) -> Option<Arc<Peer>> {
        let (peer, admission) = self.peers.remove(&number)?;
        if admission == Admission::Reserve {
            self.reserve -= 1;
        } else if let Some(count) = self.per_address.get_mut(&peer.address) {
            *count -= 1;
            if *count == 0 {
                self.per_address.remove(&peer.address);
            }
        }
        gauge(self.peers.len());
        Some(peer)
    }

    /// Tells operators that a limit was met.
    fn report(&mut self, limit: &'static str, made_room: bool, limits: ConnectionLimits) {
        if !made_room {
            metrics::counter!("punctual_http_connections_refused_total", "limit" => limit).increment(1);
        }
        if self.may_log() {
            let (connections, times) = (self.peers.len(), self.unlogged);
            let (max, per_address) = (limits.max, limits.per_address);
            tracing::warn!(
                target: "punctual",
                limit, connections, max, per_address, made_room, times,
                "the limit of connections was met"
            );
            self.unlogged = 0;
        }
    }

    fn may_log(&mut self) -> bool {
        self.unlogged += 1;
        let may = self.logged.is_none_or(|logged| logged.elapsed() >= LOG_EVERY);
        if may {
            self.logged = Some(monotonic());
        }
        may
    }
}

#[allow(clippy::cast_precision_loss, reason = "a gauge is a float")]
fn gauge(connections: usize) {
    metrics::gauge!("punctual_http_connections").set(connections as f64);
}

impl Place {
    /// The peer of the connection.
    pub const fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }

    /// What the connection may ask for.
    pub const fn admission(&self) -> Admission {
        self.admission
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.state().remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::super::limits::Timeouts;
    use super::*;

    fn places(max: usize, per_address: usize) -> Arc<Places> {
        Arc::new(Places::new(ConnectionLimits { max, per_address, timeouts: Timeouts::default() }))
    }

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn work(place: &Place) {
        place.peer().has_sent_head();
        place.peer().has_sent_body();
    }

    #[test]
    fn an_idle_connection_gives_up_its_place() {
        let places = places(2, 2);
        let busy = places.admit(address(1)).unwrap();
        work(&busy);
        let _idle = places.admit(address(2)).unwrap();
        let third = places.admit(address(3)).unwrap();
        assert_eq!(third.admission(), Admission::Full);
        assert_eq!(places.state().peers.len(), 2, "the idle one has gone");
        drop(busy);
    }

    #[test]
    fn where_all_are_busy_the_reserve_is_left_and_then_nothing() {
        let places = places(1, 1);
        let busy = places.admit(address(1)).unwrap();
        work(&busy);
        let reserve: Vec<_> = (0..RESERVE).map(|_| places.admit(address(2)).unwrap()).collect();
        assert!(reserve.iter().all(|place| place.admission() == Admission::Reserve));
        reserve.iter().for_each(work);
        assert!(places.admit(address(3)).is_none());
        drop(busy);
        assert_eq!(places.admit(address(3)).unwrap().admission(), Admission::Full);
        drop(reserve);
        let state = places.state();
        assert_eq!((state.peers.len(), state.reserve), (0, 0));
    }

    #[test]
    fn one_address_has_its_own_limit() {
        let places = places(10, 2);
        let mine: Vec<_> = (0..2).map(|_| places.admit(address(1)).unwrap()).collect();
        mine.iter().for_each(work);
        assert_eq!(places.admit(address(1)).unwrap().admission(), Admission::Reserve);
        assert_eq!(places.admit(address(2)).unwrap().admission(), Admission::Full);
    }
}
