//! Time zones by their IANA names, and the moment of a local time in one.
//!
//! The rules of all zones are part of the binary, so that every instance of one version gives
//! the same answer on every host; an update of the zone data is an update of
//! Punctual. A local time that does not exist stands for the first moment after the gap; one that
//! exists twice for the first of the two.

use crate::base::clock::Timestamp;
use crate::base::document::quote;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone, TimeZoneDatabase};
use std::sync::{Arc, LazyLock};

/// Read-only data, parsed once for each zone that is asked for.
static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// The zone of everything that names none.
pub const DEFAULT: &str = "UTC";

/// A time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    name: Arc<str>,
    zone: TimeZone,
}

/// A stretch of time with one offset from UTC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OffsetPeriod {
    pub(crate) offset: Offset,
    /// The start of the next one; never if there is none.
    pub(crate) end: Option<jiff::Timestamp>,
}

impl Zone {
    /// A zone by its name, in any case.
    ///
    /// # Errors
    /// A sentence when there is no such zone.
    pub fn find(name: &str) -> Result<Self, String> {
        let wrong = || format!("`{}` is not an IANA time zone such as Europe/Berlin or UTC", quote(name));
        let zone = DATABASE.get(name).map_err(|_| wrong())?;
        let name = zone.iana_name().ok_or_else(wrong)?.into();
        Ok(Self { name, zone })
    }

    /// The zone without a summer time.
    #[must_use]
    pub fn utc() -> Self {
        Self { name: DEFAULT.into(), zone: TimeZone::UTC }
    }

    /// The names of all zones.
    #[must_use]
    pub fn all() -> Vec<String> {
        DATABASE.available().map(|name| name.as_str().to_owned()).collect()
    }

    /// Its name, as IANA writes it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A moment as the clocks on the wall show it, with the offset.
    #[must_use]
    pub fn show(&self, moment: Timestamp) -> String {
        let Ok(at) = jiff::Timestamp::from_microsecond(moment.as_micros()) else { return moment.to_string() };
        let offset = self.zone.to_offset(at);
        format!("{}{offset} {}", offset.to_datetime(at), self.name)
    }

    /// Returns the wall time at a moment. `None` only beyond the calendar's ends.
    #[must_use]
    pub fn local(&self, moment: Timestamp) -> Option<DateTime> {
        let at = jiff::Timestamp::from_microsecond(moment.as_micros()).ok()?;
        Some(self.zone.to_datetime(at))
    }

    /// The local date of a moment, as `2026-05-14`.
    #[must_use]
    pub fn local_date(&self, moment: Timestamp) -> Option<String> {
        self.local(moment).map(|local| local.date().to_string())
    }

    /// The moment that a local time stands for. `None` only beyond the calendar's ends.
    #[must_use]
    pub fn moment(&self, local: DateTime) -> Option<Timestamp> {
        let ambiguous = self.zone.to_ambiguous_timestamp(local);
        let moment = match ambiguous.offset() {
            AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(local).ok()?,
            AmbiguousOffset::Fold { before, .. } => before.to_timestamp(local).ok()?,
            AmbiguousOffset::Gap { after, .. } => {
                // Read with the later offset, it lies shortly before the gap.
                let before = after.to_timestamp(local).ok()?;
                self.zone.following(before).next()?.timestamp()
            }
        };
        Some(Timestamp::from_micros(moment.as_microsecond()))
    }

    /// The offset at a moment, and until when it holds.
    pub(crate) fn stretch(&self, at: jiff::Timestamp) -> OffsetPeriod {
        let end = self.zone.following(at).next().map(|next| next.timestamp());
        OffsetPeriod { offset: self.zone.to_offset(at), end }
    }

    /// Returns how far the clocks on the wall had come at a moment, if further than they show then: an
    /// hour that is being repeated was there before.
    pub(crate) fn high_water(&self, at: jiff::Timestamp) -> Option<DateTime> {
        let recent = |since: &jiff::Timestamp| at.duration_since(*since).as_secs() < LOOK_BACK_SECS;
        let second = jiff::SignedDuration::from_secs(1);
        let starts = self.zone.preceding(at.checked_add(second).ok()?).map(|start| start.timestamp());
        let before = |start: jiff::Timestamp| Some(self.zone.to_offset(start.checked_sub(second).ok()?));
        starts.take_while(recent).filter_map(|start| Some(before(start)?.to_datetime(start))).max()
    }
}

/// No zone ever repeated more than a day.
const LOOK_BACK_SECS: i64 = 3 * 24 * 60 * 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_found_in_any_case_and_keep_their_name() {
        assert_eq!(Zone::find("europe/berlin").unwrap().name(), "Europe/Berlin");
        assert_eq!(Zone::find("UTC").unwrap().name(), "UTC");
        for wrong in ["", "Berlin", "CEST", "+02:00", "Europe/Berlin ", "Mars/Base", "../etc/passwd"] {
            assert!(Zone::find(wrong).unwrap_err().contains("is not an IANA time zone"), "{wrong}");
        }
        assert!(Zone::all().len() > 400, "all zones are there");
    }
}
