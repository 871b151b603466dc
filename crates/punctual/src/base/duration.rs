//! Durations as people write them: `500ms`, `30s`, `1d12h`.
//!
//! A day is 24 hours: these are lengths of time, not dates of a calendar.

use crate::base::document::quote;
use std::time::Duration;

const UNITS: [(&str, u64); 6] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000), ("w", 604_800_000)];

/// The longest duration that can be written: a thousand years.
const DURATION_MS_MAX: u64 = 1_000 * 365 * 86_400_000;

/// Reads a duration.
///
/// # Errors
/// A sentence with the problem and its correction.
///
/// ```
/// use std::time::Duration;
/// let d = punctual::base::duration::parse("1d12h").unwrap();
/// assert_eq!(d, Duration::from_secs(36 * 60 * 60));
/// ```
pub fn parse(text: &str) -> Result<Duration, String> {
    let wrong = |why: &str| {
        let text = quote(text);
        format!("`{text}` is not a duration: {why}; write numbers with units, such as 500ms, 30s or 1d12h")
    };
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(wrong("it is empty"));
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number: u64 = rest[..digits].parse().map_err(|_| wrong("a number is missing or too large"))?;
        let after = &rest[digits..];
        let letters = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let unit = UNITS.iter().find(|(name, _)| *name == &after[..letters]);
        let (_, ms) = unit.ok_or_else(|| wrong("a unit is missing or unknown (ms, s, m, h, d, w)"))?;
        total = number
            .checked_mul(*ms)
            .and_then(|part| total.checked_add(part))
            .filter(|sum| *sum <= DURATION_MS_MAX)
            .ok_or_else(|| wrong("it is longer than a thousand years"))?;
        rest = &after[letters..];
    }
    Ok(Duration::from_millis(total))
}

/// Writes a duration so that [`parse`] reads it back (to the millisecond).
#[must_use]
pub fn write(duration: Duration) -> String {
    let mut ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if ms == 0 {
        return "0s".to_owned();
    }
    let mut out = String::new();
    for (name, size) in [UNITS[4], UNITS[3], UNITS[2], UNITS[1], UNITS[0]] {
        if ms >= size {
            out.push_str(&format!("{}{name}", ms / size));
            ms %= size;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_written() {
        let table = [
            ("0s", 0),
            ("500ms", 500),
            ("30s", 30_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("1d12h", 129_600_000),
            ("60d", 5_184_000_000),
            ("2w", 1_209_600_000),
        ];
        for (text, ms) in table {
            assert_eq!(parse(text).unwrap(), Duration::from_millis(ms), "{text}");
            assert_eq!(parse(&write(Duration::from_millis(ms))).unwrap(), Duration::from_millis(ms));
        }
    }

    /// PLT-29: a broken duration is refused with a sentence that helps.
    #[test]
    fn plt_29_broken_durations_are_refused() {
        for text in ["", " ", "5", "s", "-5s", "5 s", "5x", "1.5h", "h5", "99999999999999999999s", "2000000w"]
        {
            let said = parse(text).unwrap_err();
            assert!(said.contains("is not a duration") && said.contains("1d12h"), "{text}: {said}");
        }
    }
}
