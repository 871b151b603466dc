//! One form for every way to write an address, so that the address of an opt-out is recognised however it is
//! written.
//!
//! | written | is |
//! |---|---|
//! | `+964 770 000 0001`, `00964-770-000-0001`, `9647700000001` | `+9647700000001` |
//! | `+44 (0)20 7946 0958` | `+442079460958` |
//! | `0770 000 0001`, a number within its country | `07700000001`, the same only as itself |
//! | `Ana.Lee@Example.ORG` | `ana.lee@example.org` |
//! | anything else: a device, a user, a URL | itself, without spaces around it |
//!
//! A mailbox is compared without regard to case, also before the `@`: hardly any host distinguishes `Ana`
//! from `ana`, and of the two mistakes this one sends nothing to a recipient who opted out. Digits without a
//! `+` are read as an international number, as providers write them. This is a form to compare by, not to
//! send to: nothing is checked against a numbering plan, and `a+b@x` is not `a@x`.

use crate::base::error::Problems;
use crate::base::limits;
use std::borrow::Cow;

/// Characters that people write between the digits of a phone number.
const BETWEEN_DIGITS: &str = " -./()\u{a0}\u{2010}\u{2011}\u{2013}";
/// Fewer digits are a short code or an extension, and stay as they are.
const INTERNATIONAL_DIGITS_MIN: usize = 8;

/// The one form of an address.
///
/// ```
/// use punctual::delivery::rules::consent::address::normal;
/// assert_eq!(normal("00964 (770) 000-0001"), "+9647700000001");
/// assert_eq!(normal(" Ana@Example.ORG "), "ana@example.org");
/// ```
#[must_use]
pub fn normal(address: &str) -> String {
    let address = address.trim();
    if address.contains('@') {
        return address.to_lowercase();
    }
    digits(address).unwrap_or_else(|| address.to_owned())
}

fn digits(address: &str) -> Option<String> {
    // A zero that is only dialled at home stands in brackets where it is not.
    let abroad = address.starts_with('+') || address.starts_with("00");
    let address = if abroad { Cow::Owned(address.replace("(0)", "")) } else { Cow::Borrowed(address) };
    let (plus, rest) = address.strip_prefix('+').map_or((false, &*address), |rest| (true, rest));
    let mut digits = String::with_capacity(address.len());
    for c in rest.chars() {
        if c.is_ascii_digit() {
            digits.push(c);
        } else if !BETWEEN_DIGITS.contains(c) {
            return None;
        }
    }
    if digits.is_empty() {
        return None;
    }
    let abroad = if plus { Some(digits.as_str()) } else { digits.strip_prefix("00") };
    let bare =
        || (!digits.starts_with('0') && digits.len() >= INTERNATIONAL_DIGITS_MIN).then_some(digits.as_str());
    Some(abroad.or_else(bare).map_or_else(|| digits.clone(), |number| format!("+{number}")))
}

/// Notes what is wrong with an address.
pub fn check(address: &str, path: &str, problems: &mut Problems) {
    let chars = address.chars().count();
    if address.trim().is_empty() {
        problems.push(path, "must not be empty");
    } else if chars > limits::ADDRESS_CHARS_MAX {
        let most = limits::ADDRESS_CHARS_MAX;
        problems.push(path, format!("has {chars} characters, at most {most} are allowed"));
    } else if address.chars().any(char::is_control) {
        problems.push(path, "must not contain control characters");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NTF-18: the same person is recognised however the address is written.
    #[test]
    fn ntf_18_an_address_has_one_form() {
        let table = [
            ("+9647700000001", "+9647700000001"),
            ("+964 770 000 0001", "+9647700000001"),
            ("00964-770.000/0001", "+9647700000001"),
            ("(+964) 770", "(+964) 770"),
            ("9647700000001", "+9647700000001"),
            ("+49\u{a0}30\u{2011}1234567", "+49301234567"),
            ("0770 000 0001", "07700000001"),
            ("12345", "12345"),
            ("+", "+"),
            ("", ""),
            ("Ana@Example.ORG", "ana@example.org"),
            ("\tana@example.org ", "ana@example.org"),
            ("ÄNNE@MÜLLER.de", "änne@müller.de"),
            ("a+b@x.org", "a+b@x.org"),
            ("user-17", "user-17"),
            ("https://chat.example/Room", "https://chat.example/Room"),
        ];
        for (written, want) in table {
            assert_eq!(normal(written), want, "{written}");
            assert_eq!(normal(want), want, "the form of {want} is itself");
        }
    }

    #[test]
    fn an_address_is_bounded() {
        let said = |address: &str| {
            let mut problems = Problems::default();
            check(address, "address", &mut problems);
            problems.to_string()
        };
        assert_eq!(said("+1"), "");
        assert_eq!(said(" "), "address: must not be empty");
        assert_eq!(said("a\nb"), "address: must not contain control characters");
        assert!(said(&"x".repeat(321)).contains("has 321 characters, at most 320 are allowed"));
    }
}
