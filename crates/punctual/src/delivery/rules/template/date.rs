//! Dates and times in a reader's words.
//!
//! A moment (RFC 3339, with an offset) is shown in the zone of the text; a date or a local time without an
//! offset is shown as it is. Names of months and days are known in English and Arabic; any other language
//! gets `2026-05-14`, which cannot be misread. Digits stay 0 to 9.

use crate::base::clock::Timestamp;
use crate::base::document::quote;
use crate::base::locale;
use crate::base::nearest::hint;
use crate::base::zone::Zone;
use jiff::civil::{Date, DateTime, Time, Weekday, date};
use jiff::fmt::strtime;

/// How a date is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// `14/05/2026`
    Short,
    /// `14 May 2026`
    Medium,
    /// `Thursday, 14 May 2026`
    Long,
    /// `05:13`
    Time,
    /// `14 May 2026, 05:13`
    DateTime,
    /// `2026-05-14`
    Iso,
    /// As a pattern says: `%d/%m/%Y %H:%M`.
    Pattern(String),
}

const WORDS: [&str; 6] = ["short", "medium", "long", "time", "datetime", "iso"];

impl Format {
    /// Reads a word such as `long`, or a pattern with `%`.
    ///
    /// # Errors
    /// A sentence that says what would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "short" => Ok(Self::Short),
            "medium" => Ok(Self::Medium),
            "long" => Ok(Self::Long),
            "time" => Ok(Self::Time),
            "datetime" => Ok(Self::DateTime),
            "iso" => Ok(Self::Iso),
            _ if text.contains('%') => pattern(text),
            _ => Err(format!("`{}` is not a form of dates{}", quote(text), hint(text, &WORDS))),
        }
    }

    /// A text that is a date or time, shown in a locale; `None` if it is none, or has no time for a form
    /// that shows one.
    #[must_use]
    pub fn show(&self, text: &str, zone: Option<&Zone>, tag: &str) -> Option<String> {
        let (day, time) = read(text.trim(), zone)?;
        Some(match self {
            Self::Short => short(day, tag),
            Self::Medium => medium(day, tag),
            Self::Long => long(day, tag),
            Self::Time => clock(time?, tag),
            Self::DateTime => match time {
                Some(time) => format!("{}, {}", medium(day, tag), clock(time, tag)),
                None => medium(day, tag),
            },
            Self::Iso => day.to_string(),
            Self::Pattern(pattern) => {
                strtime::format(pattern, day.to_datetime(time.unwrap_or(Time::midnight()))).ok()?
            }
        })
    }
}

/// Refuses here what could not be shown later.
fn pattern(text: &str) -> Result<Format, String> {
    let sample = date(2026, 12, 31).at(23, 59, 59, 0);
    match strtime::format(text, sample) {
        Ok(_) => Ok(Format::Pattern(text.to_owned())),
        Err(said) => Err(format!("`{}` is not a pattern such as %d/%m/%Y: {said}", quote(text))),
    }
}

fn read(text: &str, zone: Option<&Zone>) -> Option<(Date, Option<Time>)> {
    if let Ok(moment) = Timestamp::parse(text) {
        let local = zone.map_or_else(|| Zone::utc().local(moment), |zone| zone.local(moment))?;
        return Some((local.date(), Some(local.time())));
    }
    if text.contains([':', 'T', 't']) {
        let local: DateTime = text.parse().ok()?;
        return Some((local.date(), Some(local.time())));
    }
    Some((text.parse().ok()?, None))
}

/// The order of day and month, and the names.
#[derive(Clone, Copy)]
enum Habit {
    English,
    American,
    Arabic(&'static [&'static str; 12]),
    Neutral,
}

fn habit(tag: &str) -> Habit {
    let region = tag.rsplit('-').next().unwrap_or_default().to_ascii_uppercase();
    match locale::language(tag).to_ascii_lowercase().as_str() {
        "en" if region == "US" => Habit::American,
        "en" => Habit::English,
        // Iraq and the Levant have names of their own.
        "ar" if ["IQ", "SY", "JO", "LB", "PS"].contains(&region.as_str()) => Habit::Arabic(&MONTHS_LEVANT),
        "ar" => Habit::Arabic(&MONTHS_AR),
        _ => Habit::Neutral,
    }
}

fn month<'n>(names: &[&'n str; 12], day: Date) -> &'n str {
    names[usize::from(day.month().unsigned_abs() - 1)]
}

fn short(day: Date, tag: &str) -> String {
    let (d, m, y) = (day.day(), day.month(), day.year());
    match habit(tag) {
        Habit::American => format!("{m:02}/{d:02}/{y}"),
        Habit::English | Habit::Arabic(_) => format!("{d:02}/{m:02}/{y}"),
        Habit::Neutral => day.to_string(),
    }
}

fn medium(day: Date, tag: &str) -> String {
    let (d, y) = (day.day(), day.year());
    match habit(tag) {
        Habit::American => format!("{} {d}, {y}", month(&MONTHS_EN, day)),
        Habit::English => format!("{d} {} {y}", month(&MONTHS_EN, day)),
        Habit::Arabic(names) => format!("{d} {} {y}", month(names, day)),
        Habit::Neutral => day.to_string(),
    }
}

fn long(day: Date, tag: &str) -> String {
    let rest = medium(day, tag);
    match habit(tag) {
        Habit::American | Habit::English => format!("{}, {rest}", weekday(&DAYS_EN, day.weekday())),
        Habit::Arabic(_) => format!("{}، {rest}", weekday(&DAYS_AR, day.weekday())),
        Habit::Neutral => rest,
    }
}

fn weekday<'n>(names: &[&'n str; 7], day: Weekday) -> &'n str {
    names[usize::from(day.to_monday_zero_offset().unsigned_abs())]
}

fn clock(time: Time, tag: &str) -> String {
    let (hour, minute) = (time.hour(), time.minute());
    match habit(tag) {
        Habit::American => {
            let half = if hour < 12 { "AM" } else { "PM" };
            format!("{}:{minute:02} {half}", if hour % 12 == 0 { 12 } else { hour % 12 })
        }
        _ => format!("{hour:02}:{minute:02}"),
    }
}

const MONTHS_EN: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const MONTHS_AR: [&str; 12] = [
    "يناير",
    "فبراير",
    "مارس",
    "أبريل",
    "مايو",
    "يونيو",
    "يوليو",
    "أغسطس",
    "سبتمبر",
    "أكتوبر",
    "نوفمبر",
    "ديسمبر",
];
const MONTHS_LEVANT: [&str; 12] = [
    "كانون الثاني",
    "شباط",
    "آذار",
    "نيسان",
    "أيار",
    "حزيران",
    "تموز",
    "آب",
    "أيلول",
    "تشرين الأول",
    "تشرين الثاني",
    "كانون الأول",
];
const DAYS_EN: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const DAYS_AR: [&str; 7] = ["الاثنين", "الثلاثاء", "الأربعاء", "الخميس", "الجمعة", "السبت", "الأحد"];
