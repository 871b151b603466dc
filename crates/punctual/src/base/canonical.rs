//! One text for each JSON value, as RFC 8785 has it: no spaces, names sorted by UTF-16 code units,
//! numbers in their shortest form (`1.0` is `1`, `1E3` is `1000`).
//!
//! Differs from the RFC in one thing: integers that fit in 64 bits keep all their digits, beyond
//! 2^53 too, because here they are numbers of their own and not the nearest double.

use serde_json::{Number, Value};
use std::fmt::Write;

/// Appends the text of `value`.
pub fn write(value: &Value, out: &mut String) {
    match value {
        Value::Number(number) => write_number(number, out),
        Value::Array(items) => {
            out.push('[');
            for (n, item) in items.iter().enumerate() {
                if n > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            // Among ASCII names the order of bytes is that of UTF-16 code units, and a map mostly has it.
            if fields.keys().is_sorted() && fields.keys().all(|name| name.is_ascii()) {
                write_fields(fields.iter(), out);
            } else {
                let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
                fields.sort_by(|a, b| a.0.encode_utf16().cmp(b.0.encode_utf16()));
                write_fields(fields.into_iter(), out);
            }
        }
        Value::String(text) => write_text(text, out),
        Value::Bool(yes) => out.push_str(if *yes { "true" } else { "false" }),
        Value::Null => out.push_str("null"),
    }
}

fn write_fields<'a>(fields: impl Iterator<Item = (&'a String, &'a Value)>, out: &mut String) {
    out.push('{');
    for (n, (name, value)) in fields.enumerate() {
        if n > 0 {
            out.push(',');
        }
        write_text(name, out);
        out.push(':');
        write(value, out);
    }
    out.push('}');
}

fn write_text(text: &str, out: &mut String) {
    if text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
        out.push('"');
        out.push_str(text);
        out.push('"');
        return;
    }
    // serde_json escapes what the RFC escapes, and in the same way.
    let _ = write!(out, "{}", JsonString(text));
}

struct JsonString<'a>(&'a str);

impl std::fmt::Display for JsonString<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let quoted = serde_json::to_string(self.0).map_err(|_| std::fmt::Error)?;
        f.write_str(&quoted)
    }
}

fn write_number(number: &Number, out: &mut String) {
    let Some(float) = number.as_f64().filter(|_| number.is_f64()) else {
        let _ = write!(out, "{number}");
        return;
    };
    let whole = float as i128;
    // A double with the value of a 64-bit integer has that integer's text.
    if whole as f64 == float && i64::try_from(whole).is_ok() | u64::try_from(whole).is_ok() {
        let _ = write!(out, "{whole}");
        return;
    }
    write_double(float, out);
}

/// Formats a number as ECMAScript does: up to 21 digits before the point, six zeros after it.
fn write_double(float: f64, out: &mut String) {
    let shortest = format!("{:e}", float.abs());
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let digits = mantissa.replace('.', "");
    let point = exponent.parse::<i32>().unwrap_or(0) + 1;
    if float < 0.0 {
        out.push('-');
    }
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let zeros = |n: i32| "0".repeat(usize::try_from(n).unwrap_or(0));
    let _ = match point {
        _ if count <= point && point <= 21 => write!(out, "{digits}{}", zeros(point - count)),
        1..=21 => {
            let (before, after) = digits.split_at(point.unsigned_abs() as usize);
            write!(out, "{before}.{after}")
        }
        -5..=0 => write!(out, "0.{}{digits}", zeros(-point)),
        _ => {
            let (first, rest) = digits.split_at(1);
            let gap = if rest.is_empty() { "" } else { "." };
            write!(out, "{first}{gap}{rest}e{:+}", point - 1)
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(json: &str) -> String {
        let mut out = String::new();
        write(&serde_json::from_str(json).unwrap(), &mut out);
        out
    }

    /// TRG-7: numbers have one text, however they are written.
    #[test]
    fn trg_7_a_number_has_one_text() {
        let table = [
            ("1 1.0 1e0 10e-1 1.00E+0", "1"),
            ("0 -0 0.0 -0.0 0e9", "0"),
            ("1000 1e3 1E+3 1000.0", "1000"),
            ("-2.5 -25e-1 -2.50", "-2.5"),
            ("100000000000000000000 1e20", "100000000000000000000"),
            ("1000000000000000000000 1e21 1.0E21", "1e+21"),
            ("0.000001 1e-6", "0.000001"),
            ("0.0000001 1e-7", "1e-7"),
            ("1.25e-7", "1.25e-7"),
            ("9007199254740993", "9007199254740993"),
            ("9007199254740992 9007199254740992.0", "9007199254740992"),
            ("18446744073709551615", "18446744073709551615"),
            ("9223372036854775808 9.223372036854775808e18", "9223372036854775808"),
            ("-9223372036854775808 -9.223372036854775808e18", "-9223372036854775808"),
            ("333333.33333333331", "333333.3333333333"),
        ];
        for (written, want) in table {
            for json in written.split(' ') {
                assert_eq!(text(json), want, "{json}");
            }
        }
    }

    /// TRG-7: lists and objects have one text, too.
    #[test]
    fn trg_7_names_are_sorted_and_spaces_are_gone() {
        assert_eq!(
            text(r#" { "b" : [ 1.0 , null, true ], "a" : "x\u000ay\u001f\"" } "#),
            r#"{"a":"x\ny\u001f\"","b":[1,null,true]}"#
        );
        let by_code_unit = "{\"\u{20ac}\":3,\"\u{1f600}\":2,\"\u{fb33}\":1}";
        assert_eq!(text("{\"\u{fb33}\":1,\"\u{1f600}\":2,\"\u{20ac}\":3}"), by_code_unit);
    }
}
