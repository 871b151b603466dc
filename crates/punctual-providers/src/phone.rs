//! Phone numbers in the form that providers take: E.164, such as `+919876543210`.
//!
//! A number is written with its country code. Spaces, dots, dashes and brackets between the digits
//! are let through and left out: `+964 770 000 0001` is sent as `+9647700000001`. Whether it is a
//! number of its country is asked of the tables of `phonenumber`; its parser is not used, since it
//! takes prefixes off numbers that have none. Not promised: that anybody has the number.

use phonenumber::Metadata;
use phonenumber::metadata::{DATABASE, Descriptor};
use std::fmt;
use std::panic::catch_unwind;

/// Longer texts are not looked at, in bytes.
const TEXT_BYTES_MAX: usize = 64;
/// The most digits of E.164.
const DIGITS_MAX: usize = 15;
/// The most digits of a country code.
const CODE_DIGITS_MAX: usize = 3;
/// What stands for the country of numbers that have none, such as those of satellites.
const NO_COUNTRY: &str = "001";
/// Nobody has fewer, country code included.
const DIGITS_MIN: usize = 5;

/// A valid phone number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhoneNumber {
    e164: String,
    /// How many digits its country code has.
    code_digits: usize,
}

impl PhoneNumber {
    /// Reads a number with its country code.
    ///
    /// # Errors
    /// A sentence that says what is wrong with it. It does not repeat the number.
    ///
    /// ```
    /// use punctual_providers::PhoneNumber;
    /// assert_eq!(PhoneNumber::parse("+964 770 000 0001").unwrap().as_str(), "+9647700000001");
    /// assert!(PhoneNumber::parse("0770 000 0001").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Self, String> {
        let plain = compact(text)?;
        // The library has panicked on input before; its answer for such a number is no.
        let read = catch_unwind(|| look_up(&plain)).unwrap_or(None);
        read.ok_or_else(|| "is not a valid phone number of any country".to_owned())
    }

    /// E.164: a plus, the country code and the number.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.e164
    }

    /// The digits alone, for providers that want no plus.
    #[must_use]
    pub fn digits(&self) -> &str {
        &self.e164[1..]
    }

    /// The country code, with its plus.
    #[must_use]
    pub fn country_code(&self) -> &str {
        &self.e164[..=self.code_digits]
    }

    /// The number without its country code.
    #[must_use]
    pub fn national(&self) -> &str {
        &self.e164[self.code_digits + 1..]
    }
}

impl fmt::Display for PhoneNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.e164)
    }
}

/// A plus and digits, and nothing between them.
fn compact(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.len() > TEXT_BYTES_MAX {
        return Err("is too long for a phone number".into());
    }
    let Some(rest) = text.strip_prefix('+') else {
        return Err("is not a phone number with its country code: write one such as +919876543210".into());
    };
    if let Some(c) = rest.chars().find(|c| !c.is_ascii_digit() && !" -.()/\u{a0}".contains(*c)) {
        return Err(format!("is not a phone number: it has {c:?} in it"));
    }
    let digits: String = rest.chars().filter(char::is_ascii_digit).collect();
    if !(DIGITS_MIN..=DIGITS_MAX).contains(&digits.len()) {
        let n = digits.len();
        return Err(format!("is not a phone number: it has {n} digits, not {DIGITS_MIN} to {DIGITS_MAX}"));
    }
    Ok(format!("+{digits}"))
}

/// The number as it stands, or without the prefix that is dialled inside its country only, as in
/// `+44 (0)20 …`.
fn look_up(plain: &str) -> Option<PhoneNumber> {
    let digits = plain.strip_prefix('+')?;
    let (code, regions) = (1..=CODE_DIGITS_MAX).find_map(|n| {
        let code: u16 = digits.get(..n)?.parse().ok()?;
        DATABASE.region(&code).map(|regions| (code, regions))
    })?;
    let code_digits = code.to_string().len();
    let national = &digits[code_digits..];
    let made = |national: &str| Some(PhoneNumber { e164: format!("+{code}{national}"), code_digits });
    if is_valid(code, &regions, national) {
        return made(national);
    }
    let prefixes = DATABASE.by_code(&code)?.into_iter().filter_map(Metadata::national_prefix);
    let mut shorter = prefixes.filter_map(|prefix| national.strip_prefix(prefix));
    made(shorter.find(|shorter| is_valid(code, &regions, shorter))?)
}

/// Whether a country of this code has such a number. The first that claims it decides, as in the
/// library this table comes from.
fn is_valid(code: u16, regions: &[&str], national: &str) -> bool {
    if let [only] = regions {
        let table = if *only == NO_COUNTRY { None } else { DATABASE.by_id(*only) };
        let table = table.or_else(|| DATABASE.by_code(&code)?.into_iter().next());
        return table.is_some_and(|table| has_type(table, national));
    }
    for table in regions.iter().filter_map(|region| DATABASE.by_id(*region)) {
        match table.leading_digits() {
            Some(leading) if leading.find(national).is_some_and(|found| found.start() == 0) => {
                return has_type(table, national);
            }
            Some(_) => {}
            None if has_type(table, national) => return true,
            None => {}
        }
    }
    false
}

fn has_type(table: &Metadata, national: &str) -> bool {
    let all = table.descriptors();
    let types = [
        all.mobile(),
        all.fixed_line(),
        all.toll_free(),
        all.premium_rate(),
        all.shared_cost(),
        all.personal_number(),
        all.voip(),
        all.pager(),
        all.uan(),
        all.voicemail(),
    ];
    is_whole(all.general(), national) && types.into_iter().flatten().any(|one| is_whole(one, national))
}

/// Whether a pattern is the whole number. The crate's own `is_match` is content with its beginning.
fn is_whole(descriptor: &Descriptor, national: &str) -> bool {
    let lengths = descriptor.possible_length();
    if !lengths.is_empty() && !lengths.iter().any(|length| usize::from(*length) == national.len()) {
        return false;
    }
    match descriptor.national_number().find(national) {
        Some(found) if found.start() > 0 => false,
        Some(found) if found.end() == national.len() => true,
        // An earlier alternative took a part; another may take it all.
        Some(_) => {
            let pattern = format!("(?x)^(?:{})$", descriptor.national_number().as_str());
            regex_lite::Regex::new(&pattern).is_ok_and(|pattern| pattern.is_match(national))
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NTF-15: a number in E.164 goes on unmodified, one with spaces in its E.164 form.
    #[test]
    fn ntf_15_numbers_are_made_e164() {
        let table = [
            ("+919876543210", "+919876543210", "+91", "9876543210"),
            ("+964 770 000 0001", "+9647700000001", "+964", "7700000001"),
            (" +1 (415) 555-2671 ", "+14155552671", "+1", "4155552671"),
            ("+39 06 6982", "+39066982", "+39", "066982"),
            ("+44\u{a0}7400 123456", "+447400123456", "+44", "7400123456"),
            ("+44 (0)20 7946 0958", "+442079460958", "+44", "2079460958"),
            ("+7 800 555 35 35", "+78005553535", "+7", "8005553535"),
            ("+1 684 733 1234", "+16847331234", "+1", "6847331234"),
            ("+800 1234 5678", "+80012345678", "+800", "12345678"),
        ];
        for (text, want, code, national) in table {
            let number = PhoneNumber::parse(text).unwrap();
            assert_eq!((number.as_str(), number.country_code(), number.national()), (want, code, national));
            assert_eq!(number.digits(), &want[1..]);
        }
    }

    /// NTF-15: whatever is no number is refused without repeating it.
    #[test]
    fn ntf_15_other_texts_are_refused() {
        let long = "9".repeat(100_000);
        let table = [
            ("", "with its country code"),
            ("9876543210", "with its country code"),
            ("00919876543210", "with its country code"),
            ("+", "0 digits"),
            ("+12", "2 digits"),
            ("+1234567890123456", "16 digits"),
            ("+91987654321O", "it has 'O' in it"),
            ("+9198765\r\nBcc: x", "it has '\\r' in it"),
            ("+910000000000", "of any country"),
            ("+999123456789", "of any country"),
            ("+3816012345673", "of any country"),
            ("+91987654321012", "of any country"),
            ("+٩١٩٨٧٦٥٤٣٢١٠", "in it"),
            (long.as_str(), "too long"),
        ];
        for (text, want) in table {
            let said = PhoneNumber::parse(text).unwrap_err();
            assert!(said.contains(want), "{text}: {said}");
        }
    }
}
