//! Times, durations and counts as people write them.

use punctual::Timestamp;
use std::time::Duration;

const STEPS: [(u64, &str); 4] = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];

/// Formats a duration in its two largest units: `3 s`, `2 min 5 s`, `4 d 1 h`.
#[must_use]
pub fn length(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds == 0 {
        return format!("{} ms", duration.as_millis());
    }
    let first = STEPS.iter().position(|(size, _)| seconds >= *size).unwrap_or(STEPS.len() - 1);
    let (size, unit) = STEPS[first];
    let rest = STEPS.get(first + 1).map(|(small, unit)| (seconds % size / small, unit));
    match rest {
        Some((n, small)) if n > 0 => format!("{} {unit} {n} {small}", seconds / size),
        _ => format!("{} {unit}", seconds / size),
    }
}

/// Formats a moment relative to another: `3 s ago`, `in 2 min`, `now`.
#[must_use]
pub fn from_now(moment: Timestamp, now: Timestamp) -> String {
    let (ago, ahead) = (now.since(moment), moment.since(now));
    if ago.as_secs() > 0 {
        format!("{} ago", length(ago))
    } else if ahead.as_secs() > 0 {
        format!("in {}", length(ahead))
    } else {
        "now".into()
    }
}

/// Formats a count with a limit: `7`, `100000+`.
#[must_use]
pub fn count(n: i64, stops_at: i64) -> String {
    if n >= stops_at { format!("{n}+") } else { n.to_string() }
}

/// `1 thing`, `3 things`.
#[must_use]
pub fn many(n: i64, thing: &str) -> String {
    if n == 1 { format!("1 {thing}") } else { format!("{n} {thing}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_said_in_two_units() {
        let table =
            [(0, "0 ms"), (3, "3 s"), (60, "1 min"), (125, "2 min 5 s"), (3_600, "1 h"), (90_061, "1 d 1 h")];
        for (seconds, words) in table {
            assert_eq!(length(Duration::from_secs(seconds)), words);
        }
        assert_eq!(length(Duration::from_millis(250)), "250 ms");
    }

    #[test]
    fn moments_are_said_from_here() {
        let at = |s: i64| Timestamp::from_micros(s * 1_000_000);
        assert_eq!(from_now(at(7), at(10)), "3 s ago");
        assert_eq!(from_now(at(130), at(10)), "in 2 min");
        assert_eq!(from_now(at(10), at(10)), "now");
    }
}
