//! Cron patterns: second, minute, hour, day of month, month, day of week.
//!
//! Five fields leave the second out, which is then 0. Each field is `*` or `?` (every value), or a
//! list of values, ranges (`9-17`, `FRI-MON`) and steps (`*/5`, `10/5`, `9-17/2`); months and days
//! of the week also by name. A day of month may be `L` (the last), `L-3`, `15W` (the weekday
//! nearest to it in its month), `LW`; a day of week `5L` (the last Friday) or `5#2` (the second).
//! Macros such as `@daily` stand for a whole pattern.
//!
//! When both day fields are restricted, a day that fits *either* of them is meant: the classic
//! rule. A `+` before the day of week asks for both. See `docs/adr/0011-jobs.md`.
//!
//! A pattern has no zone and finds local times. [`super::timetable`] makes moments of them.

mod days;
mod field;

use crate::base::document::quote;
use crate::jobs::rules::cron::days::Days;
use crate::jobs::rules::cron::field::{Field, HOUR, MINUTE, MONTH, SECOND, lowest_from};
use jiff::civil::{Date, DateTime, Time};

/// A pattern that was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    text: String,
    seconds: u64,
    minutes: u64,
    hours: u64,
    months: u64,
    days: Days,
    goes_on: bool,
    possible: bool,
}

/// The longest pattern, in characters: a list of every second, minute and hour fits.
const TEXT_CHARS_MAX: usize = 1_000;

const MACROS: [(&str, &str); 9] = [
    ("@yearly", "0 0 0 1 1 *"),
    ("@annually", "0 0 0 1 1 *"),
    ("@monthly", "0 0 0 1 * *"),
    ("@weekly", "0 0 0 * * 0"),
    ("@daily", "0 0 0 * * *"),
    ("@midnight", "0 0 0 * * *"),
    ("@hourly", "0 0 * * * *"),
    ("@every_minute", "0 * * * * *"),
    ("@every_second", "* * * * * *"),
];

impl Cron {
    /// Reads a pattern.
    ///
    /// # Errors
    /// A sentence for each field that cannot be understood, with its name.
    pub fn parse(text: &str) -> Result<Self, Vec<String>> {
        let text = text.trim();
        if text.chars().count() > TEXT_CHARS_MAX {
            return Err(vec![format!("has more than {TEXT_CHARS_MAX} characters")]);
        }
        let pattern = if text.starts_with('@') { of_macro(text)? } else { text };
        let parts: Vec<&str> = pattern.split_whitespace().collect();
        let fields = match parts[..] {
            [minute, hour, day, month, weekday] => ["0", minute, hour, day, month, weekday],
            [second, minute, hour, day, month, weekday] => [second, minute, hour, day, month, weekday],
            _ => return Err(vec![wrong_count(&parts)]),
        };
        Self::of_fields(text, fields)
    }

    fn of_fields(text: &str, fields: [&str; 6]) -> Result<Self, Vec<String>> {
        let mut wrong = Vec::new();
        let mut set = |field: &Field, text: &str| {
            field.set(text).unwrap_or_else(|said| {
                wrong.push(said);
                0
            })
        };
        let (seconds, minutes) = (set(&SECOND, fields[0]), set(&MINUTE, fields[1]));
        let (hours, months) = (set(&HOUR, fields[2]), set(&MONTH, fields[4]));
        let days = Days::parse(fields[3], fields[5], &mut wrong);
        if !wrong.is_empty() {
            return Err(wrong);
        }
        let goes_on = fields[..3].iter().any(|field| field.contains(['*', '?', '-', '/']));
        let text = text.to_owned();
        let mut cron = Self { text, seconds, minutes, hours, months, days, goes_on, possible: true };
        // The calendar repeats itself after 400 years: a date that is not in them never occurs.
        let (from, to) = (jiff::civil::date(2000, 1, 1), jiff::civil::date(2400, 1, 1));
        cron.possible = cron.next_date(from, to).is_some();
        Ok(cron)
    }

    /// The pattern as it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the pattern ever occurs: the 30th of February does not.
    #[must_use]
    pub const fn is_possible(&self) -> bool {
        self.possible
    }

    /// Whether the pattern goes on through the day (a second, minute or hour with `*`, `-` or `/`) rather
    /// than naming times of day: then it also goes on through a repeated hour.
    #[must_use]
    pub const fn goes_on(&self) -> bool {
        self.goes_on
    }

    /// The first local time of the pattern that is not before `from` and is before `end`.
    #[must_use]
    pub fn next_local(&self, from: DateTime, end: DateTime) -> Option<DateTime> {
        if from >= end {
            return None;
        }
        let today = self
            .next_date(from.date(), from.date())
            .and_then(|date| self.next_time(from.time()).map(|time| date.to_datetime(time)));
        let found = today.or_else(|| {
            let tomorrow = from.date().tomorrow().ok()?;
            let date = self.next_date(tomorrow, end.date())?;
            self.next_time(Time::midnight()).map(|time| date.to_datetime(time))
        });
        found.filter(|found| *found < end)
    }

    fn next_time(&self, from: Time) -> Option<Time> {
        let time = |h: u32, m: u32, s: u32| {
            let small = |n: u32| i8::try_from(n).ok();
            Time::new(small(h)?, small(m)?, small(s)?, 0).ok()
        };
        let (h, m, s) = (whole(from.hour()), whole(from.minute()), whole(from.second()));
        let first = |set: u64| lowest_from(set, 0);
        if self.hours & (1 << h) != 0 {
            if self.minutes & (1 << m) != 0
                && let Some(second) = lowest_from(self.seconds, s)
            {
                return time(h, m, second);
            }
            if let Some(minute) = lowest_from(self.minutes, m + 1) {
                return time(h, minute, first(self.seconds)?);
            }
        }
        time(lowest_from(self.hours, h + 1)?, first(self.minutes)?, first(self.seconds)?)
    }

    /// The first day of the pattern from `from` to `to`, both included.
    fn next_date(&self, from: Date, to: Date) -> Option<Date> {
        if !self.possible {
            return None;
        }
        let (mut year, mut month, mut day) = (from.year(), from.month(), whole(from.day()));
        while (year, month) <= (to.year(), to.month()) {
            if self.months & (1 << whole(month)) != 0
                && let Some(day) = lowest_from(self.days.of_month(year, month), day)
            {
                let date = Date::new(year, month, i8::try_from(day).ok()?).ok()?;
                return Some(date).filter(|date| *date <= to);
            }
            day = 1;
            (year, month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
        }
        None
    }
}

fn whole(n: i8) -> u32 {
    u32::from(n.unsigned_abs())
}

fn of_macro(text: &str) -> Result<&'static str, Vec<String>> {
    let found = MACROS.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    found.map(|(_, pattern)| *pattern).ok_or_else(|| {
        let known: Vec<&str> = MACROS.iter().map(|(name, _)| *name).collect();
        vec![format!("`{}` is not a macro; known are {}", quote(text), known.join(", "))]
    })
}

fn wrong_count(parts: &[&str]) -> String {
    format!(
        "has {} fields, but needs six (second minute hour day-of-month month day-of-week) \
         or five, without the second",
        parts.len()
    )
}
