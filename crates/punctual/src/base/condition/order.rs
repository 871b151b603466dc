//! Equality and order of JSON scalars, strict by type.

use jiff::civil::Date;
use serde_json::{Number, Value};
use std::borrow::Cow;
use std::cmp::Ordering;

/// Returns whether two scalars are equal. Lists and objects never are.
pub(crate) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::String(a), Value::String(b)) => a == b,
        (Value::Number(a), Value::Number(b)) => order_numbers(a, b) == Some(Ordering::Equal),
        (Value::Bool(a), Value::Bool(b)) => a == b,
        _ => false,
    }
}

/// The limit of an ordering: a string or a number.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Limit {
    pub(crate) value: Value,
    moment: Option<ExactTimestamp<'static>>,
}

impl Limit {
    pub(crate) fn new(value: Value) -> Self {
        let moment = value.as_str().and_then(ExactTimestamp::read).map(ExactTimestamp::into_owned);
        Self { value, moment }
    }

    /// How `found` stands to this limit; `None` when the two have no order.
    pub(crate) fn order(&self, found: &Value) -> Option<Ordering> {
        match (found, &self.value) {
            (Value::Number(found), Value::Number(limit)) => order_numbers(found, limit),
            (Value::String(found), Value::String(limit)) => {
                let moments =
                    self.moment.as_ref().and_then(|limit| Some((ExactTimestamp::read(found)?, limit)));
                Some(moments.map_or_else(|| found.cmp(limit), |(found, limit)| found.cmp(limit)))
            }
            _ => None,
        }
    }
}

/// Compares whole numbers of 64 bits exactly, also with doubles. Other numbers are doubles already.
fn order_numbers(a: &Number, b: &Number) -> Option<Ordering> {
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        (Some(a), None) => Some(order_mixed(a, b.as_f64()?)),
        (None, Some(b)) => Some(order_mixed(b, a.as_f64()?).reverse()),
        (None, None) => a.as_f64()?.partial_cmp(&b.as_f64()?),
    }
}

fn whole(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

fn order_mixed(whole: i128, float: f64) -> Ordering {
    let floor = float.floor();
    // The cast is exact, or stops at an end that no 64-bit integer comes near.
    whole.cmp(&(floor as i128)).then(if float > floor { Ordering::Less } else { Ordering::Equal })
}

/// A moment as RFC 3339 writes it, to its last digit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ExactTimestamp<'a> {
    seconds: i64,
    /// The digits behind the point, without zeros at the end: so they sort as they are.
    fraction: Cow<'a, str>,
}

const EPOCH: Date = Date::constant(1970, 1, 1);
const DAY_SECONDS: i64 = 86_400;

impl<'a> ExactTimestamp<'a> {
    /// Reads `2026-05-14` or `2026-05-14T05:13:00.25+03:00`, and nothing else.
    pub(crate) fn read(text: &'a str) -> Option<Self> {
        let (date, rest) = text.split_at_checked(10)?;
        let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
        let date = Date::new(i16::try_from(year).ok()?, i8::try_from(month).ok()?, i8::try_from(day).ok()?);
        let midnight = date.ok()?.duration_since(EPOCH).as_secs();
        if rest.is_empty() {
            return Some(Self { seconds: midnight, fraction: Cow::Borrowed("") });
        }
        let (clock, rest) = rest.strip_prefix(['T', 't'])?.split_at_checked(8)?;
        let [hour, minute, second] = numbers(clock, ':', [2, 2, 2])?;
        let (fraction, rest) = split_fraction(rest)?;
        let seconds = midnight + hour * 3_600 + minute * 60 + second - offset(rest)?;
        // A leap second is the last of a day in UTC.
        let leap = second == 60 && seconds.rem_euclid(DAY_SECONDS) == 0;
        let right = hour <= 23 && minute <= 59 && (second <= 59 || leap);
        right.then(|| Self { seconds, fraction: Cow::Borrowed(fraction.trim_end_matches('0')) })
    }

    fn into_owned(self) -> ExactTimestamp<'static> {
        ExactTimestamp { seconds: self.seconds, fraction: Cow::Owned(self.fraction.into_owned()) }
    }
}

/// Numbers of so many digits, with `gap` between them.
fn numbers<const N: usize>(text: &str, gap: char, digits: [usize; N]) -> Option<[i64; N]> {
    let mut parts = text.split(gap);
    let mut numbers = [0; N];
    for (number, digits) in numbers.iter_mut().zip(digits) {
        let part = parts.next().filter(|part| part.len() == digits)?;
        *number = part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok())??;
    }
    parts.next().is_none().then_some(numbers)
}

fn split_fraction(text: &str) -> Option<(&str, &str)> {
    let Some(rest) = text.strip_prefix('.') else { return Some(("", text)) };
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    (digits > 0).then(|| rest.split_at(digits))
}

/// Seconds east of UTC.
fn offset(text: &str) -> Option<i64> {
    if matches!(text, "Z" | "z") {
        return Some(0);
    }
    let (sign, rest) =
        text.strip_prefix('+').map(|rest| (1, rest)).or(text.strip_prefix('-').map(|rest| (-1, rest)))?;
    let [hours, minutes] = numbers(rest, ':', [2, 2])?;
    (hours <= 23 && minutes <= 59).then_some(sign * (hours * 3_600 + minutes * 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(a: &str, b: &str) -> Option<Ordering> {
        Limit::new(serde_json::from_str(b).unwrap()).order(&serde_json::from_str(a).unwrap())
    }

    /// TRG-4: numbers are compared exactly, whichever way they are kept.
    #[test]
    fn trg_4_numbers_are_compared_exactly() {
        let rising = [
            "-1e300",
            "-18446744073709551616.0",
            "-9223372036854775808",
            "-9007199254740993",
            "-9007199254740992.0",
            "-2",
            "-1.5",
            "-1",
            "-0.5",
            "0",
            "1e-300",
            "0.5",
            "1",
            "1.5",
            "2",
            "9007199254740992.0",
            "9007199254740993",
            "9007199254740994.0",
            "9223372036854775807",
            "9223372036854775808",
            "18446744073709551615",
            "18446744073709551616.0",
            "1e300",
        ];
        for (i, a) in rising.iter().enumerate() {
            for (j, b) in rising.iter().enumerate() {
                assert_eq!(order(a, b), Some(i.cmp(&j)), "{a} to {b}");
            }
        }
        for (a, b) in
            [("1", "1.0"), ("-0.0", "0"), ("1e3", "1000"), ("9223372036854775808", "9.223372036854775808e18")]
        {
            assert_eq!(order(a, b), Some(Ordering::Equal), "{a} and {b}");
        }
    }

    /// TRG-4: dates and times are ordered by time.
    #[test]
    fn trg_4_times_are_ordered_by_time() {
        let rising = [
            "0000-01-01",
            "1969-12-31T23:59:59.9Z",
            "1970-01-01",
            "2024-01-01T00:30:00+02:00",
            "2024-01-01",
            "2024-01-01T00:00:00.000000000000001Z",
            "2024-01-01T00:00:00.25-00:00",
            "2024-01-01t09:00:00z",
            "2024-01-01T08:00:00-02:00",
            "2024-02-29",
            "2024-12-31T23:59:59Z",
            "2024-12-31T23:59:60Z",
            "9999-12-31T23:59:59Z",
        ];
        let read =
            |text: &'static str| ExactTimestamp::read(text).unwrap_or_else(|| panic!("{text} is a time"));
        assert!(rising.windows(2).all(|pair| read(pair[0]) < read(pair[1])), "{rising:?}");
        for (a, b) in [
            ("2024-01-01", "2024-01-01T00:00:00Z"),
            ("2024-01-01T12:00:00Z", "2024-01-01T15:00:00+03:00"),
            ("2024-01-01T12:00:00.500Z", "2024-01-01T12:00:00.5Z"),
            ("2024-12-31T23:59:60Z", "2025-01-01"),
        ] {
            assert_eq!(read(a), read(b), "{a} and {b}");
        }
    }

    /// TRG-4: a text that is not a date or time of RFC 3339 is a string like any other.
    #[test]
    fn trg_4_only_rfc_3339_is_a_time() {
        for text in [
            "",
            "2024",
            "2024-1-1",
            "2024-02-30",
            "2023-02-29",
            "20240101",
            "+2024-01-01",
            "2024-01-01 ",
            "2024-01-01T",
            "2024-01-01T10:00:00",
            "2024-01-01T10:00Z",
            "2024-01-01 10:00:00Z",
            "2024-01-01T24:00:00Z",
            "2024-01-01T10:60:00Z",
            "2024-01-01T10:00:60Z",
            "2024-01-01T10:00:00.Z",
            "2024-01-01T10:00:00,5Z",
            "2024-01-01T10:00:00+3",
            "2024-01-01T10:00:00+03",
            "2024-01-01T10:00:00+24:00",
            "2024-01-01T10:00:00Z[UTC]",
            "2024-01-01T10:00:00ZZ",
            "٢٠٢٤-٠١-٠١",
            "2024-01-é",
            "2024-01-01T+1:00:00Z",
        ] {
            assert_eq!(ExactTimestamp::read(text), None, "{text:?}");
        }
    }
}
