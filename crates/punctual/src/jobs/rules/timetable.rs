//! A timetable: a cron pattern in a time zone, as a rising series of moments.
//!
//! | local time | is due |
//! |---|---|
//! | exists once | then |
//! | does not exist (clocks go forward) | once, at the first moment after the gap |
//! | exists twice (clocks go back) | once, the first time |
//! | exists twice, in a pattern that goes on through the day (`*/10`, `9-17`) | both times |
//!
//! Several times in one gap are due once together. A day that a zone skipped altogether is a gap
//! like any other. Times are whole seconds, and each moment is later than the one before.

use crate::base::clock::Timestamp;
use crate::base::error::Problems;
use crate::base::zone::Zone;
use crate::jobs::rules::cron::Cron;
use jiff::civil::DateTime;

/// A pattern in a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timetable {
    /// The pattern.
    pub cron: Cron,
    /// The zone.
    pub zone: Zone,
}

const SECOND_MICROS: i64 = 1_000_000;

impl Timetable {
    /// Reads a pattern and a zone. Their errors are added to `problems` under `cron` and `timeZone`; a
    /// pattern that never occurs is an error, too.
    pub fn parse(cron: &str, zone: &str, problems: &mut Problems) -> Option<Self> {
        let cron = Cron::parse(cron).map_err(|all| all.iter().for_each(|said| problems.push("cron", said)));
        let zone = Zone::find(zone).map_err(|said| problems.push("timeZone", said));
        if cron.as_ref().is_ok_and(|cron| !cron.is_possible()) {
            problems.push("cron", "never comes due: no month has such a day");
            return None;
        }
        Some(Self { cron: cron.ok()?, zone: zone.ok()? })
    }

    /// The first moment of the timetable after `after`; none when it never comes again.
    #[must_use]
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        let after = jiff::Timestamp::from_second(after.as_micros().div_euclid(SECOND_MICROS)).ok()?;
        let second = jiff::SignedDuration::from_secs(1);
        let mut stretch = self.zone.stretch(after);
        let mut from = stretch.offset.to_datetime(after).checked_add(second).ok()?;
        let mut seen = self.zone.high_water(after);
        loop {
            let end = stretch.end.map_or(DateTime::MAX, |end| stretch.offset.to_datetime(end));
            let begin = seen.filter(|_| !self.cron.goes_on()).map_or(from, |seen| from.max(seen));
            if let Some(local) = self.cron.next_local(begin, end) {
                return moment(stretch.offset.to_timestamp(local).ok()?);
            }
            let turn = stretch.end?;
            stretch = self.zone.stretch(turn);
            from = stretch.offset.to_datetime(turn);
            let reached = seen.map_or(end, |seen| end.max(seen));
            if self.cron.next_local(reached, from).is_some() {
                return moment(turn);
            }
            seen = Some(reached);
        }
    }

    /// The moments after `after`, one after the other.
    pub fn upcoming(&self, after: Timestamp) -> impl Iterator<Item = Timestamp> + '_ {
        std::iter::successors(self.next_after(after), |last| self.next_after(*last))
    }

    /// The last moment after `after` that is not later than `until`.
    #[must_use]
    pub fn last_within(&self, after: Timestamp, until: Timestamp) -> Option<Timestamp> {
        let within = |after: Timestamp| self.next_after(after).filter(|next| *next <= until);
        let mut found = within(after)?;
        let mut high = until.as_micros();
        // Between `found` and `high` lies the last one; each look halves the way.
        while let Some(next) = within(found) {
            let middle = next.as_micros() + (high - next.as_micros()) / 2;
            match within(Timestamp::from_micros(middle)) {
                Some(later) => found = later,
                None => (found, high) = (next, middle),
            }
        }
        Some(found)
    }
}

/// Beyond the year 9999 nothing is due.
fn moment(at: jiff::Timestamp) -> Option<Timestamp> {
    Some(Timestamp::from_micros(at.as_microsecond())).filter(|at| *at <= Timestamp::MAX)
}
