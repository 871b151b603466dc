//! What one connection waits for, and since when.
//!
//! The stream, the bodies and the service of a connection write it down; [`super::places`] reads it. Times
//! are milliseconds since the process began to count, so that everything fits into atomics.

use super::limits::{AwaitedStep, SEND_BYTES_MIN};
use punctual::base::clock::{Monotonic, monotonic};
use std::net::IpAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// The peer of one connection.
#[derive(Debug)]
pub struct Peer {
    /// Where it connects from.
    pub address: IpAddr,
    /// The phase and the time at which it began, in one word so that they are read together.
    phase: AtomicU64,
    /// When an answer began to wait to be read, or zero.
    unread_since: AtomicU64,
    /// How much was read since then.
    read_bytes: AtomicUsize,
    disconnect: Notify,
}

const REQUEST: u64 = 0;
const HEAD: u64 = 1;
const BODY: u64 = 2;
const WORK: u64 = 3;
/// Bits of a phase below its time.
const PHASE_BITS: u32 = 2;
const PHASE_MASK: u64 = (1 << PHASE_BITS) - 1;

/// A phase that begins now.
fn starting_now(phase: u64) -> u64 {
    now() << PHASE_BITS | phase
}

/// Milliseconds since the first call, from 1.
fn now() -> u64 {
    static START: OnceLock<Monotonic> = OnceLock::new();
    let elapsed = START.get_or_init(monotonic).elapsed();
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX).saturating_add(1)
}

impl Peer {
    /// A peer that has just connected.
    pub fn new(address: IpAddr) -> Self {
        Self {
            address,
            phase: AtomicU64::new(starting_now(REQUEST)),
            unread_since: AtomicU64::new(0),
            read_bytes: AtomicUsize::new(0),
            disconnect: Notify::new(),
        }
    }

    /// Begins a phase, if the peer is in one of those that it may follow.
    fn enter(&self, phase: u64, from: &[u64]) {
        let follow = |word: u64| from.contains(&(word & PHASE_MASK)).then(|| starting_now(phase));
        let _ = self.phase.fetch_update(Ordering::Relaxed, Ordering::Relaxed, follow);
    }

    /// It sent some bytes.
    pub fn has_sent_bytes(&self) {
        self.enter(HEAD, &[REQUEST]);
    }

    /// The head of a request is complete: the server works on it.
    pub fn has_sent_head(&self) {
        self.enter(WORK, &[REQUEST, HEAD, BODY]);
    }

    /// The server wants to read the body, and it is not all there.
    pub fn has_body_to_send(&self) {
        self.enter(BODY, &[WORK]);
    }

    /// The body is complete, or is not wanted any more.
    pub fn has_sent_body(&self) {
        self.enter(WORK, &[BODY]);
    }

    /// The answer has been handed to the connection.
    pub fn is_answered(&self) {
        self.enter(REQUEST, &[HEAD, BODY, WORK]);
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
    pub fn awaited(&self) -> (AwaitedStep, Duration) {
        let unread = self.unread_since.load(Ordering::Relaxed);
        let word = self.phase.load(Ordering::Relaxed);
        let since = word >> PHASE_BITS;
        let (awaited, since) = match word & PHASE_MASK {
            _ if unread > 0 => (AwaitedStep::Reading, unread),
            REQUEST => (AwaitedStep::Request, since),
            HEAD => (AwaitedStep::Head, since),
            BODY => (AwaitedStep::Body, since),
            _ => (AwaitedStep::Nothing, now()),
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
        let steps: [(Step, AwaitedStep); 10] = [
            (|_| {}, AwaitedStep::Request),
            (Peer::has_sent_bytes, AwaitedStep::Head),
            (Peer::has_sent_head, AwaitedStep::Nothing),
            (Peer::has_body_to_send, AwaitedStep::Body),
            (Peer::has_sent_bytes, AwaitedStep::Body),
            (Peer::has_sent_body, AwaitedStep::Nothing),
            (Peer::has_unread, AwaitedStep::Reading),
            (Peer::is_answered, AwaitedStep::Reading),
            (|peer| peer.has_read(SEND_BYTES_MIN - 1), AwaitedStep::Reading),
            (|peer| peer.has_read(1), AwaitedStep::Request),
        ];
        for (n, (step, awaited)) in steps.into_iter().enumerate() {
            step(&peer);
            assert_eq!(peer.awaited().0, awaited, "step {n}");
        }
    }
}
