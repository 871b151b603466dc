//! One field of a pattern: a set of small numbers, as bits.

use crate::base::document::quote;

/// The bounds of a field.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    min: u32,
    max: u32,
    /// How many values there are before they begin anew.
    span: u32,
    names: &'static [&'static str],
}

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

pub(crate) const SECOND: Field = Field { name: "second", min: 0, max: 59, span: 60, names: &[] };
pub(crate) const MINUTE: Field = Field { name: "minute", min: 0, max: 59, span: 60, names: &[] };
pub(crate) const HOUR: Field = Field { name: "hour", min: 0, max: 23, span: 24, names: &[] };
pub(crate) const DAY: Field = Field { name: "day of month", min: 1, max: 31, span: 31, names: &[] };
pub(crate) const MONTH: Field = Field { name: "month", min: 1, max: 12, span: 12, names: &MONTHS };
/// Sunday is 0, and 7 as well.
pub(crate) const WEEKDAY: Field = Field { name: "day of week", min: 0, max: 7, span: 7, names: &WEEKDAYS };

/// The lowest number of a set that is at least `from`.
pub(crate) const fn lowest_from(set: u64, from: u32) -> Option<u32> {
    if from >= 64 {
        return None;
    }
    let left = set & (u64::MAX << from);
    if left == 0 { None } else { Some(left.trailing_zeros()) }
}

/// Whether a field says "every value".
pub(crate) fn is_every(text: &str) -> bool {
    text == "*" || text == "?"
}

impl Field {
    /// The numbers that a text means.
    pub(crate) fn set(&self, text: &str) -> Result<u64, String> {
        if let Some(rest) = text.strip_prefix(['*', '?']) {
            let step = match rest.strip_prefix('/') {
                Some(step) => self.step(step)?,
                None if rest.is_empty() => 1,
                None => return Err(self.wrong(text, "`*` stands alone, or before a step as in */5")),
            };
            return Ok(self.every(self.min, self.min + self.span - 1, step));
        }
        text.split(',').try_fold(0, |set, part| Ok(set | self.part(part)?))
    }

    /// A value, a range, or either of them with a step.
    fn part(&self, text: &str) -> Result<u64, String> {
        let (range, step) = match text.split_once('/') {
            Some((range, step)) => (range, Some(self.step(step)?)),
            None => (text, None),
        };
        let (from, to) = match range.split_once('-') {
            Some((from, to)) => (self.value(from)?, self.value(to)?),
            None => {
                let value = self.value(range)?;
                // `10/5` goes on from 10 to the end.
                (value, if step.is_some() { self.max } else { value })
            }
        };
        // A range that ends before it begins goes around: FRI-MON, 22-4.
        let to = if to < from { to + self.span } else { to };
        Ok(self.every(from, to, step.unwrap_or(1)))
    }

    fn every(&self, from: u32, to: u32, step: u32) -> u64 {
        let around = |n: u32| if n >= self.min + self.span { n - self.span } else { n };
        let step = usize::try_from(step).unwrap_or(1);
        (from..=to).step_by(step).fold(0, |set, n| set | (1 << around(n)))
    }

    /// One value, as a number or by its name.
    pub(crate) fn value(&self, text: &str) -> Result<u32, String> {
        let named = self.names.iter().position(|name| name.eq_ignore_ascii_case(text));
        if let Some(at) = named.and_then(|at| u32::try_from(at).ok()) {
            return Ok(self.min + at);
        }
        let (min, max) = (self.min, self.max);
        let number = number(text).filter(|n| (min..=max).contains(n));
        number.ok_or_else(|| match self.names {
            [] => self.wrong(text, &format!("must be a number from {min} to {max}")),
            [first, .., last] => self.wrong(
                text,
                &format!("must be a number from {min} to {max} or a name from {first} to {last}"),
            ),
            [_] => self.wrong(text, "is not known"),
        })
    }

    fn step(&self, text: &str) -> Result<u32, String> {
        let step = number(text).filter(|n| (1..=self.max).contains(n));
        step.ok_or_else(|| self.wrong(text, &format!("is not a step from 1 to {}", self.max)))
    }

    /// Returns the error, under the field's name.
    pub(crate) fn wrong(&self, text: &str, why: &str) -> String {
        format!("{}: `{}` {why}", self.name, quote(text))
    }
}

/// One or two digits.
pub(crate) fn number(text: &str) -> Option<u32> {
    let digits = (1..=2).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}
