//! What one connection waits for, and since when.
//!
//! The stream, the bodies and the service of a connection write it down; [`super::places`] reads it. Times
//! are milliseconds since the process began to count, so that everything fits into atomics.

use super::limits::{Awaited, SEND_BYTES_MIN};
use punctual::base::clock::{Moment, monotonic};
use std::net::IpAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// The peer of one connection.
#[derive(Debug)]
pub struct Peer {
    /// Where it connects from.
    pub address: IpAddr,
    phase: AtomicU8,
    phase_since: AtomicU64,
    /// When an answer began to wait to be read, or zero.
    unread_since: AtomicU64,
    /// How much was read since then.
    read_bytes: AtomicUsize,
    disconnect: Notify,
}

const REQUEST: u8 = 0;
const HEAD: u8 = 1;
const BODY: u8 = 2;
const WORK: u8 = 3;

/// Milliseconds since the first call, from 1.
fn now() -> u64 {
    static START: OnceLock<Moment> = OnceLock::new();
    let elapsed = START.get_or_init(monotonic).elapsed();
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX).saturating_add(1)
}

impl Peer {
    /// A peer that has just connected.
    pub fn new(address: IpAddr) -> Self {
        Self {
            address,
            phase: AtomicU8::new(REQUEST),
            phase_since: AtomicU64::new(now()),
            unread_since: AtomicU64::new(0),
            read_bytes: AtomicUsize::new(0),
            disconnect: Notify::new(),
        }
    }

    fn enter(&self, phase: u8) {
        if self.phase.swap(phase, Ordering::Relaxed) != phase {
            self.phase_since.store(now(), Ordering::Relaxed);
        }
    }

    /// It sent some bytes.
    pub fn has_sent_bytes(&self) {
        if self.phase.load(Ordering::Relaxed) == REQUEST {
            self.enter(HEAD);
        }
    }

    /// The head of a request is complete.
    pub fn has_sent_head(&self) {
        self.enter(BODY);
    }

    /// The body is complete, or is not wanted any more.
    pub fn has_sent_body(&self) {
        if self.phase.load(Ordering::Relaxed) == BODY {
            self.enter(WORK);
        }
    }

    /// The answer has been handed to the connection.
    pub fn is_answered(&self) {
        self.enter(REQUEST);
    }

    /// The connection takes no more of an answer before the peer has read some.
    pub fn has_unread(&self) {
        if self.unread_since.load(Ordering::Relaxed) == 0 {
            self.read_bytes.store(0, Ordering::Relaxed);
            self.unread_since.store(now(), Ordering::Relaxed);
        }
    }

    /// The connection took some bytes of an answer.
    pub fn has_read(&self, bytes: usize) {
        if self.unread_since.load(Ordering::Relaxed) == 0 {
            return;
        }
        if self.read_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes >= SEND_BYTES_MIN {
            self.unread_since.store(0, Ordering::Relaxed);
        }
    }

    /// The connection took everything.
    pub fn has_read_all(&self) {
        self.unread_since.store(0, Ordering::Relaxed);
    }

    /// What is awaited from it, and for how long.
    pub fn awaited(&self) -> (Awaited, Duration) {
        let unread = self.unread_since.load(Ordering::Relaxed);
        let (awaited, since) = match self.phase.load(Ordering::Relaxed) {
            _ if unread > 0 => (Awaited::Reading, unread),
            REQUEST => (Awaited::Request, self.phase_since.load(Ordering::Relaxed)),
            HEAD => (Awaited::Head, self.phase_since.load(Ordering::Relaxed)),
            BODY => (Awaited::Body, self.phase_since.load(Ordering::Relaxed)),
            _ => (Awaited::Nothing, now()),
        };
        (awaited, Duration::from_millis(now().saturating_sub(since)))
    }

    /// Ends its connection.
    pub fn disconnect(&self) {
        self.disconnect.notify_one();
    }

    /// Waits until its connection is to end.
    pub async fn disconnected(&self) {
        self.disconnect.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn a_peer_is_awaited_in_every_phase_but_the_servers_own() {
        let peer = Peer::new(Ipv4Addr::LOCALHOST.into());
        type Step = fn(&Peer);
        let steps: [(Step, Awaited); 9] = [
            (|_| {}, Awaited::Request),
            (Peer::has_sent_bytes, Awaited::Head),
            (Peer::has_sent_head, Awaited::Body),
            (Peer::has_sent_bytes, Awaited::Body),
            (Peer::has_sent_body, Awaited::Nothing),
            (Peer::has_unread, Awaited::Reading),
            (Peer::is_answered, Awaited::Reading),
            (|peer| peer.has_read(SEND_BYTES_MIN - 1), Awaited::Reading),
            (|peer| peer.has_read(1), Awaited::Request),
        ];
        for (n, (step, awaited)) in steps.into_iter().enumerate() {
            step(&peer);
            assert_eq!(peer.awaited().0, awaited, "step {n}");
        }
    }
}
