//! Decimal numbers with all their digits: amounts of money must not go through a binary fraction.
//!
//! A text is read as `number` reads it (a sign, digits of Arabic and Persian keyboards, an
//! exponent), and no digit is lost. Not promised: arithmetic; a decimal is read, rounded and written.

use crate::base::number;
use std::fmt;

/// Digits on one side of the point: a longer number is not for people to read.
const DIGITS_MAX: usize = 60;

/// A decimal number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decimal {
    negative: bool,
    /// ASCII digits, without zeros before the first one; `0` if there are none.
    whole: String,
    /// ASCII digits, as many as were written.
    fraction: String,
}

impl Decimal {
    /// Reads a text; `None` if it is not a number, or is one with more than 60 digits on a side of its point.
    ///
    /// ```
    /// use punctual::base::decimal::Decimal;
    /// let read = |text: &str| Decimal::parse(text).map(|number| number.to_string());
    /// assert_eq!(read("12345678901234567890.10").as_deref(), Some("12345678901234567890.10"));
    /// assert_eq!(read(" +٧٫٥ ").as_deref(), Some("7.5"));
    /// assert_eq!(read("1.5e3").as_deref(), Some("1500"));
    /// assert_eq!(read("1,000"), None);
    /// ```
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let plain: String = text.trim().chars().map(number::ascii).take(4 * DIGITS_MAX).collect();
        let (negative, plain) = match plain.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, plain.strip_prefix('+').unwrap_or(&plain)),
        };
        let (mantissa, exponent) = match plain.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i16>().ok()?),
            None => (plain, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        if whole.len() + fraction.len() == 0 || !digits(whole) || !digits(fraction) {
            return None;
        }
        let (whole, fraction) = shift(whole, fraction, exponent)?;
        let whole = whole.trim_start_matches('0');
        if whole.len() > DIGITS_MAX || fraction.len() > DIGITS_MAX {
            return None;
        }
        let whole = if whole.is_empty() { "0" } else { whole }.to_owned();
        Some(Self { negative, whole, fraction }.without_minus_zero())
    }

    /// Rounds to so many places behind the point, a half away from zero, and fills up with zeros.
    ///
    /// ```
    /// use punctual::base::decimal::Decimal;
    /// let round = |text: &str, places| Decimal::parse(text).unwrap().round(places).to_string();
    /// assert_eq!(round("2.675", 2), "2.68");
    /// assert_eq!(round("-999.5", 0), "-1000");
    /// assert_eq!(round("-0.004", 2), "0.00");
    /// assert_eq!(round("7", 3), "7.000");
    /// ```
    #[must_use]
    pub fn round(mut self, places: usize) -> Self {
        if self.fraction.len() <= places {
            let missing = places - self.fraction.len();
            self.fraction.push_str(&"0".repeat(missing));
            return self;
        }
        let up = self.fraction.as_bytes()[places] >= b'5';
        self.fraction.truncate(places);
        if up {
            self.add_unit();
        }
        self.without_minus_zero()
    }

    /// Returns whether digits other than 0 stand behind so many places.
    #[must_use]
    pub fn has_more_than(&self, places: usize) -> bool {
        self.fraction.bytes().skip(places).any(|digit| digit != b'0')
    }

    /// Returns whether the number is below zero.
    #[must_use]
    pub const fn is_negative(&self) -> bool {
        self.negative
    }

    /// The digits before the point and behind it.
    #[must_use]
    pub fn digits(&self) -> (&str, &str) {
        (&self.whole, &self.fraction)
    }

    /// Adds one unit of the last place, away from zero.
    fn add_unit(&mut self) {
        let places = self.fraction.len();
        let mut digits: Vec<u8> = self.whole.bytes().chain(self.fraction.bytes()).collect();
        let nines = digits.iter().rev().take_while(|digit| **digit == b'9').count();
        let kept = digits.len() - nines;
        digits[kept..].fill(b'0');
        match kept.checked_sub(1) {
            Some(last) => digits[last] += 1,
            None => digits.insert(0, b'1'),
        }
        let digits: String = digits.into_iter().map(char::from).collect();
        let (whole, fraction) = digits.split_at(digits.len() - places);
        (self.whole, self.fraction) = (whole.to_owned(), fraction.to_owned());
    }

    fn without_minus_zero(mut self) -> Self {
        self.negative &= self.whole.bytes().chain(self.fraction.bytes()).any(|digit| digit != b'0');
        self
    }
}

/// Moves the point; `None` if that needs more zeros than a number may have digits.
fn shift(whole: &str, fraction: &str, exponent: i16) -> Option<(String, String)> {
    let by = usize::from(exponent.unsigned_abs());
    if exponent == 0 {
        return Some((whole.to_owned(), fraction.to_owned()));
    }
    if by > DIGITS_MAX {
        return None;
    }
    if exponent > 0 {
        let padded = format!("{fraction:0<by$}");
        let (moved, rest) = padded.split_at(by);
        return Some((format!("{whole}{moved}"), rest.to_owned()));
    }
    let padded = format!("{whole:0>by$}");
    let (rest, moved) = padded.split_at(padded.len() - by);
    Some((rest.to_owned(), format!("{moved}{fraction}")))
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.negative { "-" } else { "" };
        let point = if self.fraction.is_empty() { "" } else { "." };
        write!(f, "{sign}{}{point}{}", self.whole, self.fraction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// NTF-11: amounts keep their digits, and what is not a number is none.
    #[test]
    fn ntf_11_decimals_keep_their_digits() {
        let table = [
            ("0", "0"),
            ("007", "7"),
            ("-0.00", "0.00"),
            (".5", "0.5"),
            ("5.", "5"),
            ("1e3", "1000"),
            ("1.25E-3", "0.00125"),
            ("-12.50", "-12.50"),
            ("1e59", "100000000000000000000000000000000000000000000000000000000000"),
            ("99999999999999999999999999.99", "99999999999999999999999999.99"),
            ("۱۲٫۵", "12.5"),
        ];
        for (text, want) in table {
            let read = Decimal::parse(text).map(|number| number.to_string());
            assert_eq!(read.as_deref(), Some(want), "{text}");
        }
        let long = "9".repeat(61);
        let none =
            ["", " ", ".", "-", "+-1", "--1", "1,000", "1 0", "0x1", "inf", "NaN", "1e", "1e60", "1e-61"];
        for text in none.into_iter().chain([long.as_str(), "1e99999", &"1".repeat(100_000)]) {
            assert_eq!(Decimal::parse(text), None, "{text:.80}");
        }
    }

    proptest! {
        /// NTF-11: rounding agrees with whole numbers.
        #[test]
        fn ntf_11_rounding_is_that_of_whole_numbers(n in -1_000_000_000_i64..1_000_000_000) {
            let text = format!("{}{}.{:03}", if n < 0 { "-" } else { "" }, n.abs() / 1000, n.abs() % 1000);
            let cents = (n.abs() + 5) / 10 * n.signum();
            let sign = if cents < 0 { "-" } else { "" };
            let want = format!("{sign}{}.{:02}", cents.abs() / 100, cents.abs() % 100);
            prop_assert_eq!(Decimal::parse(&text).unwrap().round(2).to_string(), want);
        }
    }
}
