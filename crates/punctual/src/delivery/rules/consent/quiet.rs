//! Quiet hours: a stretch of every day, by the clocks on the recipient's wall.
//!
//! From `from` on, up to and without `to`; `21:00` to `08:00` goes over midnight. Only the wall time counts:
//! an hour that is skipped is not waited for, and one that comes twice is quiet twice if it is quiet at all.
//! So the end is the first moment from now on whose wall time is not quiet.

use crate::base::clock::Timestamp;
use crate::base::document::{DocumentObject, kind, quote};
use crate::base::error::Problems;
use crate::base::zone::Zone;
use jiff::civil::{DateTime, Time};
use serde_json::{Map, Value, json};

/// The word of a recipient who has none.
const NEVER: &str = "none";
/// Changes of a zone's clocks that are looked past: no zone has had more in a day.
const TURNS_MAX: usize = 16;

/// Quiet hours of a day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuietHours {
    /// The first quiet moment of a day.
    pub from: Time,
    /// The first that is not quiet any more.
    pub to: Time,
    /// The zone, if they name one.
    pub time_zone: Option<String>,
}

/// The quiet hours of a recipient's preferences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuietPreference {
    /// These, whatever the tenant's are.
    Hours(QuietHours),
    /// None, whatever the tenant's are.
    Never,
}

impl QuietPreference {
    /// Reads hours, or the word `none`.
    pub fn read(value: &Value, path: &str, problems: &mut Problems) -> Option<Self> {
        match value.as_str() {
            Some(NEVER) => Some(Self::Never),
            Some(other) => {
                let said = "is neither `none` nor hours such as {\"from\": \"21:00\", \"to\": \"08:00\"}";
                problems.push(path, format!("`{}` {said}", quote(other)));
                None
            }
            None => QuietHours::read(value, path, problems).map(Self::Hours),
        }
    }

    /// As it is read.
    #[must_use]
    pub fn to_json(&self) -> Value {
        match self {
            Self::Hours(hours) => hours.to_json(),
            Self::Never => NEVER.into(),
        }
    }
}

impl QuietHours {
    /// Reads `{from, to, timeZone?}`.
    pub fn read(value: &Value, path: &str, problems: &mut Problems) -> Option<Self> {
        let part = DocumentObject::read(value, path, &["from", "to", "timeZone"], problems)?;
        let from = time(&part, "from", problems);
        let to = time(&part, "to", problems);
        let time_zone = zone(&part, "timeZone", problems);
        let hours = Self { from: from?, to: to?, time_zone };
        if hours.from == hours.to {
            problems.push(part.at("to"), "is the same as `from`: a whole day would never end");
            return None;
        }
        Some(hours)
    }

    /// As they are read.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut json =
            Map::from_iter([("from".into(), json!(shown(self.from))), ("to".into(), json!(shown(self.to)))]);
        if let Some(zone) = &self.time_zone {
            json.insert("timeZone".into(), json!(zone));
        }
        Value::Object(json)
    }

    /// Whether a time of day is quiet.
    #[must_use]
    pub fn hold(&self, time: Time) -> bool {
        if self.from < self.to {
            self.from <= time && time < self.to
        } else {
            time >= self.from || time < self.to
        }
    }

    /// The first moment after `now` that is not quiet; `None` when `now` is not.
    #[must_use]
    pub fn end_after(&self, now: Timestamp, zone: &Zone) -> Option<Timestamp> {
        let start = jiff::Timestamp::from_microsecond(now.as_micros()).ok()?;
        let mut at = start;
        for _ in 0..TURNS_MAX {
            let stretch = zone.stretch(at);
            let local = stretch.offset.to_datetime(at);
            if !self.hold(local.time()) {
                return (at > start).then(|| moment(at));
            }
            let end = stretch.offset.to_timestamp(self.end(local)?).ok()?;
            match stretch.end {
                // The clocks change before the end: the wall time after the change is evaluated anew.
                Some(turn) if turn <= end => at = turn,
                _ => return Some(moment(end)),
            }
        }
        None
    }

    /// The end in wall time, without regard to a change of the clocks.
    fn end(&self, local: DateTime) -> Option<DateTime> {
        let over_midnight = local.time() >= self.to;
        let day = if over_midnight { local.date().tomorrow().ok()? } else { local.date() };
        Some(day.to_datetime(self.to))
    }
}

fn moment(at: jiff::Timestamp) -> Timestamp {
    Timestamp::from_micros(at.as_microsecond())
}

fn time(part: &DocumentObject<'_>, field: &str, problems: &mut Problems) -> Option<Time> {
    let value = part.need(field, "a local time such as 21:00", problems)?;
    let found = value.as_str().and_then(local_time);
    if found.is_none() {
        let given =
            value.as_str().map_or_else(|| kind(value).to_owned(), |text| format!("`{}`", quote(text)));
        problems.push(part.at(field), format!("{given} is not a local time such as 21:00 or 21:00:30"));
    }
    found
}

/// `HH:MM` or `HH:MM:SS`.
fn local_time(text: &str) -> Option<Time> {
    let parts: Vec<i8> = text.split(':').map(two_digits).collect::<Option<_>>()?;
    match parts[..] {
        [hour, minute] => Time::new(hour, minute, 0, 0).ok(),
        [hour, minute, second] => Time::new(hour, minute, second, 0).ok(),
        _ => None,
    }
}

fn two_digits(text: &str) -> Option<i8> {
    (text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
}

fn shown(time: Time) -> String {
    if time.second() == 0 { format!("{:02}:{:02}", time.hour(), time.minute()) } else { time.to_string() }
}

/// The name of a zone, as IANA writes it.
pub(crate) fn zone(part: &DocumentObject<'_>, field: &str, problems: &mut Problems) -> Option<String> {
    let name = crate::base::document::text(part.get(field)?, &part.at(field), problems)?;
    match Zone::find(name) {
        Ok(zone) => Some(zone.name().to_owned()),
        Err(said) => {
            problems.push(part.at(field), said);
            None
        }
    }
}
