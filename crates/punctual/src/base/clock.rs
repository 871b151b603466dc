//! Time: one kind of timestamp, and the only place that reads the host's clocks.
//!
//! The database's clock decides whether an item is *due* and whether a lease *holds* (the host clock only
//! where SQLite makes this host the database). Durations inside a process, such as pauses and lease renewals,
//! use [`monotonic`]. Neither is ever mixed up with the other. With the feature `testing`, a simulation may
//! put clocks of its own in the place of this thread's ([`override_clocks`]).

use std::fmt;
use std::ops::{Add, Sub};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A moment in UTC, in whole microseconds since 1970.
///
/// Both databases keep it as one integer: equal order and equal precision everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The earliest moment, before every other.
    pub const MIN: Self = Self(i64::MIN);
    /// The year 1900: earlier due times are mistakes, not history.
    pub const EARLIEST: Self = Self(-2_208_988_800_000_000);
    /// The latest moment that RFC 3339 can write: the end of the year 9999.
    pub const MAX: Self = Self(253_402_207_200_000_000);

    /// A moment from microseconds since 1970.
    #[must_use]
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since 1970.
    #[must_use]
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Reads an RFC 3339 time, with any offset.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        text.parse::<jiff::Timestamp>()
            .map(|t| Self(t.as_microsecond()))
            .map_err(|_| format!("`{text}` is not an RFC 3339 time such as 2026-05-14T05:13:00Z"))
    }

    /// This moment, later by `d`; stops at [`Timestamp::MAX`].
    #[must_use]
    pub fn plus(self, d: Duration) -> Self {
        let micros = i64::try_from(d.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(micros).min(Self::MAX.0.max(self.0)))
    }

    /// This moment, earlier by `d`.
    #[must_use]
    pub fn minus(self, d: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(d.as_micros()).unwrap_or(i64::MAX)))
    }

    /// Returns how long after `earlier` this is; zero if it is not.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(t) => t.fmt(f),
            Err(_) => write!(f, "{}us", self.0),
        }
    }
}

impl serde::Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(d)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

/// The host's wall clock. The authority only where the host *is* the database (SQLite).
#[must_use]
#[allow(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
pub fn host_now() -> Timestamp {
    #[cfg(feature = "testing")]
    if let Some(clocks) = PRETENDED.get() {
        return (clocks.wall)();
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let micros = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
    Timestamp(micros.saturating_add(super::rehearsal::clock_offset_us()))
}

/// The monotonic clock, for durations inside this process.
#[must_use]
#[allow(clippy::disallowed_methods, reason = "the one place that reads the monotonic clock")]
pub fn monotonic() -> Monotonic {
    #[cfg(feature = "testing")]
    if let Some(clocks) = PRETENDED.get() {
        return Monotonic((clocks.monotonic)());
    }
    Monotonic(Instant::now())
}

/// A reading of the monotonic clock. A type of our own, because an [`Instant`] measures what
/// has passed by asking the real clock, also where time is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Monotonic(Instant);

impl Monotonic {
    /// Returns how much time has passed since.
    #[must_use]
    pub fn elapsed(self) -> Duration {
        monotonic().since(self)
    }

    /// Returns how long after `earlier` this is; zero if it is not.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }
}

impl Add<Duration> for Monotonic {
    type Output = Self;

    fn add(self, d: Duration) -> Self {
        Self(self.0 + d)
    }
}

impl Sub for Monotonic {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}

/// Clocks in the place of the host's.
#[cfg(feature = "testing")]
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// The clock that [`host_now`] reads.
    pub wall: fn() -> Timestamp,
    /// The clock that [`monotonic`] reads.
    pub monotonic: fn() -> Instant,
}

#[cfg(feature = "testing")]
thread_local! {
    static PRETENDED: std::cell::Cell<Option<Clocks>> = const { std::cell::Cell::new(None) };
}

/// From now on this thread reads these clocks; `None` is the host's again.
#[cfg(feature = "testing")]
pub fn override_clocks(clocks: Option<Clocks>) {
    PRETENDED.set(clocks);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_reads_what_it_writes() {
        for text in ["2026-05-14T05:13:00Z", "1969-12-31T23:59:59.999999Z", "2026-11-15T08:00:00.5Z"] {
            assert_eq!(Timestamp::parse(text).unwrap().to_string(), text);
        }
        let offset = Timestamp::parse("2026-05-14T08:13:00+03:00").unwrap();
        assert_eq!(offset.to_string(), "2026-05-14T05:13:00Z");
    }

    #[test]
    fn adding_for_ever_stops_at_the_last_writable_moment() {
        let end = Timestamp::from_micros(0).plus(Duration::MAX);
        assert_eq!(end, Timestamp::MAX);
        assert!(end.to_string().starts_with("9999-12-3"));
    }

    #[test]
    fn bad_times_are_refused_with_a_sentence() {
        let said = Timestamp::parse("tomorrow").unwrap_err();
        assert!(said.contains("`tomorrow` is not an RFC 3339 time"), "{said}");
    }
}
