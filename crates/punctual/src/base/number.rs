//! Numbers as JSON has them and as people type them, in one canonical form.
//!
//! A whole number is written without a point, so `1.0` and `1` are the same; digits of Arabic and
//! Persian keyboards count as digits. Group separators are not understood: `1,000` is no number.

use serde_json::{Number, Value};

/// From here on a float cannot distinguish neighbouring whole numbers.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// The number of a JSON number or of a text that a form sent.
#[must_use]
pub fn read(value: &Value) -> Option<Number> {
    match value {
        Value::Number(number) => Some(canonical(number)),
        Value::String(text) => typed(text).as_ref().map(canonical),
        _ => None,
    }
}

/// The same number in its canonical form.
#[must_use]
pub fn canonical(number: &Number) -> Number {
    let float = number.as_f64().unwrap_or_default();
    if number.is_f64() && float.fract() == 0.0 && float.abs() < WHOLE_MAX {
        return Number::from(float as i64);
    }
    number.clone()
}

/// Whether a number still has all digits that it was written with, as far as that can be known. Whole numbers
/// of 64 bits have; others are kept as doubles. Those hold 15 digits of any number, and from 2^53 on one
/// double stands for many whole numbers, however few digits it is written with: `1e20` may have been
/// `100000000000000000001`.
///
/// Not found out: that a fraction was written with more digits than its double needs. `0.1` may have been
/// `0.10000000000000000001`.
///
/// ```
/// use punctual::base::number::has_all_digits;
/// let read = |text: &str| serde_json::from_str(text).unwrap();
/// assert!(has_all_digits(&read("18446744073709551615")) && has_all_digits(&read("-1.25e-300")));
/// assert!(!has_all_digits(&read("18446744073709551616")) && !has_all_digits(&read("1e20")));
/// assert!(!has_all_digits(&read("0.1234567890123456789")));
/// ```
#[must_use]
pub fn has_all_digits(number: &Number) -> bool {
    const DIGITS_MAX: usize = 15;
    if !number.is_f64() {
        return true;
    }
    let float = number.as_f64().unwrap_or_default();
    if float.abs() >= WHOLE_MAX {
        return false;
    }
    let shortest = format!("{float:e}");
    let mantissa = shortest.split('e').next().unwrap_or_default();
    mantissa.bytes().filter(u8::is_ascii_digit).count() <= DIGITS_MAX
}

/// Whether a JSON text may have a number that lost digits: a cheap look that is sometimes wrong about a
/// string, and never about a number.
#[must_use]
pub fn may_lose_digits(json: &str) -> bool {
    /// A number has no fewer bytes than digits, and a shorter one without an exponent is kept whole.
    const BYTES_MIN: usize = 16;
    let mut run = 0;
    json.bytes().any(|byte| {
        let is_exponent = run > 0 && matches!(byte, b'e' | b'E');
        run = if byte.is_ascii_digit() || byte == b'.' { run + 1 } else { 0 };
        is_exponent || run >= BYTES_MIN
    })
}

/// The number of a JSON number or of a text, if it is whole.
#[must_use]
pub fn whole(value: &Value) -> Option<i64> {
    read(value)?.as_i64()
}

fn typed(text: &str) -> Option<Number> {
    let plain: String = text.trim().chars().map(ascii).collect();
    let plain = plain.strip_prefix('+').unwrap_or(&plain);
    // The parser also knows `inf` and `nan`.
    let parts = plain.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
    if !parts {
        return None;
    }
    if let Ok(whole) = plain.parse::<i64>() {
        return Some(Number::from(whole));
    }
    plain.parse::<f64>().ok().and_then(Number::from_f64)
}

/// The ASCII form of a digit or decimal point.
pub(crate) fn ascii(c: char) -> char {
    let digit = |zero: char| char::from_digit(u32::from(c) - u32::from(zero), 10).unwrap_or(c);
    match c {
        '٠'..='٩' => digit('٠'),
        '۰'..='۹' => digit('۰'),
        '٫' => '.',
        _ => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// TRG-7: a number that lost digits is never overlooked by the cheap look.
    #[test]
    fn trg_7_a_number_that_loses_digits_is_seen_in_its_text() {
        for text in ["100000000000000000000", "1e20", "1.5E300", "0.1234567890123456789", "[1,{\"a\":1e20}]"]
        {
            assert!(may_lose_digits(text), "{text}");
        }
        for text in ["1", "[12,-7.5]", "{\"name\":\"Eve\",\"e\":true}", "123456789012345"] {
            assert!(!may_lose_digits(text), "{text}");
        }
    }

    #[test]
    fn numbers_have_one_form() {
        let table = [
            (json!(7), json!(7)),
            (json!(7.0), json!(7)),
            (json!(-0.0), json!(0)),
            (json!(2.5), json!(2.5)),
            (json!(1e300), json!(1e300)),
            (json!(18_446_744_073_709_551_615_u64), json!(18_446_744_073_709_551_615_u64)),
            (json!(" 7 "), json!(7)),
            (json!("+7"), json!(7)),
            (json!("-2.50"), json!(-2.5)),
            (json!("1e3"), json!(1000)),
            (json!("٧٫٥"), json!(7.5)),
            (json!("۱۲"), json!(12)),
        ];
        for (given, want) in table {
            assert_eq!(read(&given).map(Value::Number), Some(want), "{given}");
        }
        for given in ["", "seven", "1,000", "7 8", "inf", "NaN", "1e999", "0x10", "--1", "."] {
            assert_eq!(read(&json!(given)), None, "{given:?}");
        }
        for given in [json!(null), json!(true), json!([1]), json!({})] {
            assert_eq!(read(&given), None, "{given}");
        }
        assert_eq!((whole(&json!("3.0")), whole(&json!(3.5))), (Some(3), None));
    }
}
