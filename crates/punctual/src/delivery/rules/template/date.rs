//! Dates and times on their way into a text.
//!
//! A moment (RFC 3339, with an offset) is shown in the zone of the text; a date or a local time without an
//! offset is shown as it is. The names, the order and the digits are those of the reader's
//! forms. The calendar is the Gregorian one in every locale: a payload's dates are, and a reader in Iran or
//! Thailand must not take one year for another. A pattern is in English whatever the locale.

use crate::base::clock::Timestamp;
use crate::base::document::quote;
use crate::base::suggestion::hint;
use crate::base::zone::Zone;
use crate::delivery::rules::template::forms::Forms;
use jiff::civil::{DateTime, Time, date};
use jiff::fmt::strtime;

/// The length of a date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DateLength {
    /// `14/05/2026`
    Short,
    /// `14 May 2026`, the month cut short where the locale does that.
    Medium,
    /// `14 May 2026`
    Long,
    /// `Thursday, 14 May 2026`
    Full,
}

/// How a date is shown. The examples are British.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DateFormat {
    /// `14 May 2026`
    Date(DateLength),
    /// `05:13`
    Time,
    /// `14 May 2026 at 05:13`
    DateTime(DateLength),
    /// `Thursday`
    Weekday,
    /// `2026-05-14`
    Iso,
    /// As a pattern says: `%d/%m/%Y %H:%M`.
    Pattern(String),
}

const WORDS: [&str; 8] = ["short", "medium", "long", "full", "time", "datetime", "weekday", "iso"];

/// Directives of a pattern that put in a name, which is English.
const NAMED: [&str; 8] = ["%A", "%a", "%B", "%b", "%h", "%p", "%P", "%c"];

impl DateFormat {
    /// Reads a word such as `long`, a length before `datetime`, or a pattern with `%`.
    ///
    /// # Errors
    /// A sentence that says what would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.contains('%') {
            return pattern(text);
        }
        let word = text.to_ascii_lowercase();
        if let Some(length) = word.strip_suffix("datetime").and_then(|rest| DateLength::find(rest.trim())) {
            return Ok(Self::DateTime(length));
        }
        match word.as_str() {
            "time" => Ok(Self::Time),
            "datetime" => Ok(Self::DateTime(DateLength::Long)),
            "weekday" => Ok(Self::Weekday),
            "iso" => Ok(Self::Iso),
            word => DateLength::find(word)
                .map(Self::Date)
                .ok_or_else(|| format!("`{}` is not a form of dates{}", quote(text), hint(text, &WORDS))),
        }
    }

    /// A text that is a date or time, shown in a locale's forms; `None` if it is none, or has no time for a
    /// form that shows one.
    pub(crate) fn show(&self, text: &str, zone: Option<&Zone>, forms: &Forms) -> Option<String> {
        let (at, has_time) = read(text.trim(), zone)?;
        match self {
            Self::Time if !has_time => None,
            Self::DateTime(length) if !has_time => forms.date(&Self::Date(*length), at),
            Self::Iso => Some(at.date().to_string()),
            Self::Pattern(pattern) => strtime::format(pattern, at).ok(),
            form => forms.date(form, at),
        }
    }
}

/// Whether a pattern puts in names of months or days, which are English ones.
pub(crate) fn names_in_english(pattern: &str) -> bool {
    NAMED.iter().any(|named| pattern.contains(named))
}

impl DateLength {
    fn find(word: &str) -> Option<Self> {
        match word {
            "short" => Some(Self::Short),
            "medium" => Some(Self::Medium),
            "long" => Some(Self::Long),
            "full" => Some(Self::Full),
            _ => None,
        }
    }
}

/// Refuses here what could not be shown later.
fn pattern(text: &str) -> Result<DateFormat, String> {
    let sample = date(2026, 12, 31).at(23, 59, 59, 0);
    match strtime::format(text, sample) {
        Ok(_) => Ok(DateFormat::Pattern(text.to_owned())),
        Err(said) => Err(format!("`{}` is not a pattern such as %d/%m/%Y: {said}", quote(text))),
    }
}

/// The wall time of a text, and whether the text has a time.
fn read(text: &str, zone: Option<&Zone>) -> Option<(DateTime, bool)> {
    if let Ok(moment) = Timestamp::parse(text) {
        let local = zone.map_or_else(|| Zone::utc().local(moment), |zone| zone.local(moment))?;
        return Some((local, true));
    }
    if text.contains([':', 'T', 't']) {
        return Some((text.parse().ok()?, true));
    }
    let day: jiff::civil::Date = text.parse().ok()?;
    Some((day.to_datetime(Time::midnight()), false))
}
