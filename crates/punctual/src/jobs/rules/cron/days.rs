//! The two day fields, and which days of a month they mean together.

use crate::jobs::rules::cron::field::{DAY, WEEKDAY, is_every, number};
use jiff::civil::Date;

/// Both day fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Days {
    of_month: DayOfMonth,
    of_week: DayOfWeek,
    /// Whether a day must fit both, though both are restricted.
    both: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum DayOfMonth {
    Every,
    These(u64),
    /// So many days before the last.
    Last {
        before: u32,
        weekday: bool,
    },
    /// The weekday nearest to this day.
    Nearest(u32),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum DayOfWeek {
    Every,
    These(u64),
    Nth { day: u32, n: u32 },
    Last(u32),
}

impl Days {
    /// Reads both fields; errors are added to `wrong`.
    pub(crate) fn parse(of_month: &str, of_week: &str, wrong: &mut Vec<String>) -> Self {
        let (both, weekday) = match of_week.strip_prefix('+') {
            Some(rest) => (true, rest),
            None => (false, of_week),
        };
        let month = parse_of_month(of_month).map_err(|said| wrong.push(said));
        let week = parse_of_week(weekday).map_err(|said| wrong.push(said));
        Self { of_month: month.unwrap_or(DayOfMonth::Every), of_week: week.unwrap_or(DayOfWeek::Every), both }
    }

    /// The days of one month, as bits from 1.
    pub(crate) fn of_month(&self, year: i16, month: i8) -> u64 {
        let Ok(first) = Date::new(year, month, 1) else { return 0 };
        let month = Month {
            days: u32::from(first.days_in_month().unsigned_abs()),
            begins: u32::from(first.weekday().to_sunday_zero_offset().unsigned_abs()),
        };
        let (of_month, of_week) = (self.of_month.days(&month), self.of_week.days(&month));
        match (&self.of_month, &self.of_week) {
            (DayOfMonth::Every, _) | (_, DayOfWeek::Every) => of_month & of_week,
            _ if self.both => of_month & of_week,
            _ => of_month | of_week,
        }
    }
}

/// The length of a month, and the weekday of its first day (Sunday is 0).
struct Month {
    days: u32,
    begins: u32,
}

impl Month {
    const fn all(&self) -> u64 {
        ((1 << self.days) - 1) << 1
    }

    const fn weekday(&self, day: u32) -> u32 {
        (self.begins + day - 1) % 7
    }

    /// The first day of the month that is this weekday.
    const fn first(&self, weekday: u32) -> u32 {
        1 + (weekday + 7 - self.begins) % 7
    }

    /// The weekday nearest to a day, without leaving the month.
    const fn nearest_weekday(&self, day: u32) -> u32 {
        match self.weekday(day) {
            6 if day == 1 => 3,
            6 => day - 1,
            0 if day == self.days => day - 2,
            0 => day + 1,
            _ => day,
        }
    }

    const fn bit(&self, day: u32) -> u64 {
        if day >= 1 && day <= self.days { 1 << day } else { 0 }
    }
}

impl DayOfMonth {
    const fn days(&self, month: &Month) -> u64 {
        match *self {
            Self::Every => month.all(),
            Self::These(days) => days & month.all(),
            Self::Nearest(day) if day > month.days => 0,
            Self::Nearest(day) => month.bit(month.nearest_weekday(day)),
            Self::Last { before, .. } if before >= month.days => 0,
            Self::Last { before, weekday } => {
                let day = month.days - before;
                month.bit(if weekday { month.nearest_weekday(day) } else { day })
            }
        }
    }
}

impl DayOfWeek {
    fn days(&self, month: &Month) -> u64 {
        match *self {
            Self::Every => month.all(),
            Self::These(weekdays) => (1..=month.days)
                .filter(|day| weekdays & (1 << month.weekday(*day)) != 0)
                .fold(0, |set, day| set | month.bit(day)),
            Self::Nth { day, n } => month.bit(month.first(day) + 7 * (n - 1)),
            Self::Last(day) => {
                let first = month.first(day);
                month.bit(first + (month.days - first) / 7 * 7)
            }
        }
    }
}

fn parse_of_month(text: &str) -> Result<DayOfMonth, String> {
    let upper = text.to_ascii_uppercase();
    if is_every(text) {
        return Ok(DayOfMonth::Every);
    }
    if let Some(rest) = upper.strip_prefix('L') {
        let (rest, weekday) = rest.strip_suffix('W').map_or((rest, false), |rest| (rest, true));
        let before = if rest.is_empty() { Some(0) } else { rest.strip_prefix('-').and_then(number) };
        let before = before.filter(|n| *n <= 30);
        let why = "must be L, L-1 to L-30, or either of them with a W";
        return before.map(|before| DayOfMonth::Last { before, weekday }).ok_or_else(|| DAY.wrong(text, why));
    }
    match upper.strip_suffix('W') {
        Some(day) if number(day).is_some() => DAY.value(day).map(DayOfMonth::Nearest),
        Some(_) => Err(DAY.wrong(text, "is wrong: a W stands behind one day, as in 15W or LW")),
        None => DAY.set(text).map(DayOfMonth::These),
    }
}

fn parse_of_week(text: &str) -> Result<DayOfWeek, String> {
    let day = |text: &str| WEEKDAY.value(text).map(|day| day % 7);
    if is_every(text) {
        return Ok(DayOfWeek::Every);
    }
    if let Some((weekday, n)) = text.split_once('#') {
        if n.eq_ignore_ascii_case("L") {
            return day(weekday).map(DayOfWeek::Last);
        }
        let nth = number(n).filter(|count| n.len() == 1 && (1..=5).contains(count));
        let nth = nth.ok_or_else(|| WEEKDAY.wrong(text, "must have a number from 1 to 5 behind its #"))?;
        return day(weekday).map(|day| DayOfWeek::Nth { day, n: nth });
    }
    // `JUL` is a month, but no weekday ends with an L of its own.
    match text.strip_suffix(['L', 'l']) {
        Some("") => Err(WEEKDAY.wrong(text, "needs a day before its L, as in FRIL or 5L")),
        Some(weekday) => day(weekday).map(DayOfWeek::Last),
        None => WEEKDAY.set(text).map(DayOfWeek::These),
    }
}
