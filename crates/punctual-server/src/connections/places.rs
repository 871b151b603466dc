//! The places of connections: admits new connections and decides which one makes room.

use super::limits::{ConnectionLimits, RESERVE, Timeouts, longest_awaited};
use super::peer::Peer;
use punctual::base::clock::{Monotonic, monotonic};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A limit that is met over and over is logged so often.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// What a connection may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Everything.
    Full,
    /// Health checks only, because this limit is met.
    Reserve(Limit),
}

/// A limit that connections meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// Connections in all.
    Total,
    /// Connections from one address.
    Address,
    /// Descriptors of the system.
    Descriptors,
}

impl Limit {
    const fn name(self) -> &'static str {
        match self {
            Self::Total => "total",
            Self::Address => "address",
            Self::Descriptors => "descriptors",
        }
    }

    /// Counts a connection that was refused because of this limit.
    pub fn count_refused(self) {
        metrics::counter!("punctual_http_connections_refused_total", "limit" => self.name()).increment(1);
    }
}

/// The address that a limit counts: an IPv6 host has its whole network of 64 bits.
fn counted_address(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        v4 @ IpAddr::V4(_) => v4,
    }
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
    /// When each limit was last logged, and how often it was met since.
    logged: HashMap<Limit, (Monotonic, usize)>,
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
        let address = counted_address(address);
        let mut state = self.state();
        let admission = match self.limit_met(&state, address) {
            None => Admission::Full,
            Some(limit) => {
                let made_room = state.make_room(limit, address);
                state.report(limit, made_room, self.limits);
                if made_room { Admission::Full } else { state.make_room_in_reserve(limit)? }
            }
        };
        let peer = Arc::new(Peer::new(address));
        let number = state.take(&peer, admission);
        Some(Place { places: Arc::clone(self), number, peer, admission })
    }

    /// The limit that a connection from this address would exceed.
    fn limit_met(&self, state: &State, address: IpAddr) -> Option<Limit> {
        let full = state.peers.len() - state.reserve;
        if state.per_address.get(&address).is_some_and(|count| *count >= self.limits.per_address) {
            return Some(Limit::Address);
        }
        (full >= self.limits.max).then_some(Limit::Total)
    }

    /// Disconnects peers that have run out of time.
    pub fn disconnect_overdue(&self, timeouts: &Timeouts) {
        let mut state = self.state();
        let overdue: Vec<_> = state
            .peers
            .iter()
            .filter_map(|(number, (peer, _))| {
                let (awaited, waited) = peer.awaited();
                awaited.is_overdue(waited, timeouts).then_some((*number, awaited.reason()))
            })
            .collect();
        for (number, reason) in overdue {
            state.disconnect(number, reason);
        }
    }

    /// The system has no descriptor for a new connection.
    pub fn out_of_descriptors(&self, error: &std::io::Error) {
        let mut state = self.state();
        Limit::Descriptors.count_refused();
        if let Some(times) = state.may_log(Limit::Descriptors) {
            tracing::warn!(target: "punctual", %error, times, "a connection could not be accepted");
        }
        state.make_room(Limit::Descriptors, IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    }
}

impl State {
    fn take(&mut self, peer: &Arc<Peer>, admission: Admission) -> u64 {
        let number = self.next;
        self.next += 1;
        self.peers.insert(number, (Arc::clone(peer), admission));
        if admission != Admission::Full {
            self.reserve += 1;
        } else {
            *self.per_address.entry(peer.address).or_default() += 1;
        }
        gauge(self.peers.len());
        number
    }

    /// Disconnects the peer that has kept the server waiting longest: of this address where its limit is met,
    /// else of the address with most connections, so that a flood from one address is felt there first.
    /// Returns whether there is one.
    fn make_room(&mut self, limit: Limit, address: IpAddr) -> bool {
        let largest = self.per_address.iter().max_by_key(|(_, count)| **count).map(|(address, _)| *address);
        let first = if limit == Limit::Address { Some(address) } else { largest };
        let within = self.longest_awaited(|peer, has| *has == Admission::Full && Some(peer.address) == first);
        let anywhere = || match limit {
            Limit::Address => None,
            Limit::Total | Limit::Descriptors => self.longest_awaited(|_, has| *has == Admission::Full),
        };
        let Some(number) = within.or_else(anywhere) else { return false };
        self.disconnect(number, "made-room");
        true
    }

    fn make_room_in_reserve(&mut self, limit: Limit) -> Option<Admission> {
        if self.reserve >= RESERVE {
            let Some(number) = self.longest_awaited(|_, has| *has != Admission::Full) else {
                limit.count_refused();
                return None;
            };
            self.disconnect(number, "made-room");
        }
        Some(Admission::Reserve(limit))
    }

    fn longest_awaited(&self, is_eligible: impl Fn(&Peer, &Admission) -> bool) -> Option<u64> {
        let eligible = self.peers.iter().filter(|(_, (peer, has))| is_eligible(peer, has));
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
        if admission != Admission::Full {
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
    fn report(&mut self, limit: Limit, made_room: bool, limits: ConnectionLimits) {
        if let Some(times) = self.may_log(limit) {
            let (limit, connections) = (limit.name(), self.peers.len());
            let (max, per_address) = (limits.max, limits.per_address);
            tracing::warn!(
                target: "punctual",
                limit, connections, max, per_address, made_room, times,
                "the limit of connections was met"
            );
        }
    }

    /// How often a limit was met since it was logged last; `None` if that is not long ago.
    fn may_log(&mut self, limit: Limit) -> Option<usize> {
        match self.logged.get_mut(&limit) {
            Some((at, times)) if at.elapsed() < LOG_EVERY => {
                *times += 1;
                None
            }
            logged => {
                let times = logged.map_or(1, |(_, times)| *times + 1);
                self.logged.insert(limit, (monotonic(), 0));
                Some(times)
            }
        }
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
    use super::*;

    fn places(max: usize, per_address: usize) -> Arc<Places> {
        Arc::new(Places::new(ConnectionLimits { max, per_address, timeouts: Timeouts::default() }))
    }

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn work(place: &Place) {
        place.peer().has_sent_head();
    }

    #[test]
    fn a_flood_from_one_address_is_felt_there_first() {
        let places = places(4, 4);
        let honest = places.admit(address(1)).unwrap();
        let flood: Vec<_> = (0..3).map(|_| places.admit(address(2)).unwrap()).collect();
        let _more = places.admit(address(2)).unwrap();
        assert!(
            places.state().peers.contains_key(&honest.number),
            "the connection of the other address stays"
        );
        assert_eq!(places.state().peers.len(), 4);
        drop(flood);
    }

    #[test]
    fn a_network_of_ipv6_is_one_address() {
        let table = [
            ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", true),
            ("2001:db8:1:2::1", "2001:db8:1:3::1", false),
            ("::ffff:10.0.0.1", "10.0.0.1", true),
            ("10.0.0.1", "10.0.0.2", false),
        ];
        for (one, other, same) in table {
            assert_eq!(
                counted_address(one.parse().unwrap()) == counted_address(other.parse().unwrap()),
                same,
                "{one} {other}"
            );
        }
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
        assert!(reserve.iter().all(|place| place.admission() == Admission::Reserve(Limit::Total)));
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
        assert_eq!(places.admit(address(1)).unwrap().admission(), Admission::Reserve(Limit::Address));
        assert_eq!(places.admit(address(2)).unwrap().admission(), Admission::Full);
    }
}
