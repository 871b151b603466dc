//! How many connections there may be, and how long a peer may keep the server waiting.

use std::time::Duration;

/// Connections when the system allows more than enough descriptors.
const MAX_DEFAULT: usize = 10_000;
/// Descriptors that are kept for the database, files and connections to providers.
const DESCRIPTORS_KEPT: usize = 160;
/// The fewest connections that are of any use.
const MAX_LEAST: usize = 32;
/// Places beyond the limit that answer health checks.
pub const RESERVE: usize = 16;

/// How many connections there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// In all.
    pub max: usize,
    /// From one address.
    pub per_address: usize,
    /// How long a peer may take.
    pub timeouts: Timeouts,
}

/// How long a peer may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From the first byte of a request to the end of its head.
    pub head: Duration,
    /// From when the server waits for the body to its end.
    pub body: Duration,
    /// To read enough of an answer (`SEND_BYTES_MIN`) when it waits to be read.
    pub send: Duration,
    /// Between two requests.
    pub idle: Duration,
}

/// How long a peer may take to send the rest of a head while the server stops.
const STOPPING_HEAD: Duration = Duration::from_secs(1);
/// How long it may take to send a body or to read an answer then.
const STOPPING_REST: Duration = Duration::from_secs(5);

impl Timeouts {
    /// The limits while the server stops: requests under way are finished, others are not awaited.
    #[must_use]
    pub fn while_stopping(self) -> Self {
        let rest = |limit: Duration| limit.min(STOPPING_REST);
        Self {
            head: self.head.min(STOPPING_HEAD),
            body: rest(self.body),
            send: rest(self.send),
            idle: Duration::ZERO,
        }
    }
}

/// A peer that reads so much of a waiting answer gets the whole [`Timeouts::send`] again.
pub const SEND_BYTES_MIN: usize = 64 * 1024;

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(10),
            // The reader of bodies answers 408 after 30 seconds; this ends the connection if it does not.
            body: Duration::from_secs(35),
            send: Duration::from_secs(30),
            idle: Duration::from_secs(75),
        }
    }
}

impl ConnectionLimits {
    /// The limits for a process that may have so many descriptors, where nothing else is asked for.
    #[must_use]
    pub fn for_descriptors(descriptors: usize, max: Option<usize>, per_address: Option<usize>) -> Self {
        let possible = descriptors.saturating_sub(DESCRIPTORS_KEPT + RESERVE).max(MAX_LEAST);
        let max = max.unwrap_or(MAX_DEFAULT).min(possible);
        // A proxy is one address, so the limit must leave it room; half still leaves the other half to
        // others.
        let per_address = per_address.unwrap_or(max / 2).clamp(1, max);
        Self { max, per_address, timeouts: Timeouts::default() }
    }
}

/// The side that has to act on a connection, and what is awaited from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AwaitedStep {
    /// Nothing from the peer: the server carries out a request.
    Nothing,
    /// The first byte of a request.
    Request,
    /// The rest of a request's head.
    Head,
    /// The rest of a request's body.
    Body,
    /// That it reads an answer.
    Reading,
}

impl AwaitedStep {
    /// Why a connection is disconnected, for logs and metrics.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Nothing => "none",
            Self::Request => "idle",
            Self::Head => "head",
            Self::Body => "body",
            Self::Reading => "send",
        }
    }

    /// How long a peer may take for it.
    const fn limit(self, timeouts: &Timeouts) -> Option<Duration> {
        match self {
            Self::Nothing => None,
            Self::Request => Some(timeouts.idle),
            Self::Head => Some(timeouts.head),
            Self::Body => Some(timeouts.body),
            Self::Reading => Some(timeouts.send),
        }
    }

    /// Whether a peer that has been awaited for so long has run out of time.
    #[must_use]
    pub fn is_overdue(self, waited: Duration, timeouts: &Timeouts) -> bool {
        self.limit(timeouts).is_some_and(|limit| waited >= limit)
    }
}

/// The connection that gives up its place: the one whose peer has been awaited longest.
#[must_use]
pub fn longest_awaited<K>(all: impl IntoIterator<Item = (K, AwaitedStep, Duration)>) -> Option<K> {
    let awaited = all.into_iter().filter(|(_, awaited, _)| *awaited != AwaitedStep::Nothing);
    awaited.max_by_key(|(_, _, waited)| *waited).map(|(key, _, _)| key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn limits_follow_the_descriptors() {
        let table = [
            (1_024, None, None, 848, 424),
            (1_000_000, None, None, 10_000, 5_000),
            (1_000_000, Some(20_000), Some(64), 20_000, 64),
            (1_024, Some(20_000), Some(5_000), 848, 848),
            (64, None, None, 32, 16),
        ];
        for (descriptors, max, per_address, most, each) in table {
            let limits = ConnectionLimits::for_descriptors(descriptors, max, per_address);
            assert_eq!(
                (limits.max, limits.per_address),
                (most, each),
                "{descriptors} {max:?} {per_address:?}"
            );
        }
    }

    #[test]
    fn a_peer_is_overdue_after_the_time_of_its_phase() {
        let timeouts = Timeouts { head: seconds(1), body: seconds(2), send: seconds(3), idle: seconds(4) };
        let table = [
            (AwaitedStep::Head, 1),
            (AwaitedStep::Body, 2),
            (AwaitedStep::Reading, 3),
            (AwaitedStep::Request, 4),
        ];
        for (awaited, limit) in table {
            assert!(!awaited.is_overdue(seconds(limit) - Duration::from_millis(1), &timeouts), "{awaited:?}");
            assert!(awaited.is_overdue(seconds(limit), &timeouts), "{awaited:?}");
        }
        assert!(
            !AwaitedStep::Nothing.is_overdue(seconds(1_000_000), &timeouts),
            "a long poll is the server's"
        );
    }

    #[test]
    fn the_peer_that_was_awaited_longest_gives_up_its_place() {
        type Waiting<'a> = &'a [(u8, AwaitedStep, u64)];
        let table: [(Waiting<'_>, Option<u8>); 4] = [
            (&[], None),
            (&[(1, AwaitedStep::Nothing, 99)], None),
            (
                &[(1, AwaitedStep::Nothing, 99), (2, AwaitedStep::Request, 1), (3, AwaitedStep::Head, 2)],
                Some(3),
            ),
            (&[(1, AwaitedStep::Reading, 9), (2, AwaitedStep::Body, 3)], Some(1)),
        ];
        for (all, longest) in table {
            let all = all.iter().map(|(key, awaited, waited)| (*key, *awaited, seconds(*waited)));
            assert_eq!(longest_awaited(all), longest);
        }
    }
}
