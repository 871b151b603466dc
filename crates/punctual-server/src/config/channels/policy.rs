//! What every channel may say, whatever its provider: `rate_per_second`, `in_flight`, `unknown`,
//! `unknown_retries`, `fallback`, `max_attempts`.

use super::Written;
use punctual::base::limits::{ATTEMPTS_MAX, SENDS_PER_SECOND_MAX};
use punctual::rules::attempt::Patience;
use punctual::rules::channel::{ChannelPolicy, MEMORY, OnUnknown};
use punctual::rules::entry::failure;
use punctual::rules::nearest::hint;
use std::collections::BTreeSet;
use toml::Value;

/// The most sends that may be under way at once.
const IN_FLIGHT_MAX: i64 = 10_000;

/// How the channel of a key is used.
///
/// # Errors
/// A sentence about the first thing that cannot be.
pub(super) fn read(key: &str, table: &toml::Table, all: &Written) -> Result<ChannelPolicy, String> {
    Ok(ChannelPolicy {
        rate_per_second: table.get("rate_per_second").map(rate).transpose()?,
        in_flight: table.get("in_flight").map(in_flight).transpose()?,
        unknown: table.get("unknown").map(unknown).transpose()?.unwrap_or_default(),
        unknown_retries: table.get("unknown_retries").map(unknown_retries).transpose()?,
        fallback: table.get("fallback").map(|value| fallback(value, key, all)).transpose()?,
        patience: table.get("max_attempts").map(patience).transpose()?,
    })
}

fn rate(value: &Value) -> Result<u32, String> {
    let rate = value.as_integer().and_then(|n| u32::try_from(n).ok());
    rate.filter(|rate| (1..=SENDS_PER_SECOND_MAX).contains(rate)).ok_or_else(|| {
        format!("`rate_per_second` must be a whole number from 1 to {SENDS_PER_SECOND_MAX}, not {value}")
    })
}

fn in_flight(value: &Value) -> Result<usize, String> {
    let most = value.as_integer().filter(|n| (1..=IN_FLIGHT_MAX).contains(n));
    most.and_then(|n| usize::try_from(n).ok())
        .ok_or_else(|| format!("`in_flight` must be a whole number from 1 to {IN_FLIGHT_MAX}, not {value}"))
}

/// The usual waits, and as many tries as are asked for.
fn patience(value: &Value) -> Result<Patience, String> {
    let tries = value.as_integer().and_then(|n| u32::try_from(n).ok());
    let max_attempts = tries.filter(|tries| (1..=ATTEMPTS_MAX).contains(tries)).ok_or_else(|| {
        format!("`max_attempts` must be a whole number from 1 to {ATTEMPTS_MAX}, not {value}")
    })?;
    Ok(Patience { max_attempts, ..failure::patience() })
}

fn unknown_retries(value: &Value) -> Result<u32, String> {
    let retries = value.as_integer().and_then(|n| u32::try_from(n).ok());
    retries.filter(|retries| *retries <= ATTEMPTS_MAX).ok_or_else(|| {
        format!("`unknown_retries` must be a whole number from 0 to {ATTEMPTS_MAX}, not {value}")
    })
}

fn unknown(value: &Value) -> Result<OnUnknown, String> {
    match value.as_str() {
        Some("resend") => Ok(OnUnknown::Resend),
        Some("hold") => Ok(OnUnknown::Hold),
        _ => Err(format!("`unknown` must be \"resend\" or \"hold\", not {value}")),
    }
}

/// Another channel of the file; following fallbacks must come to an end.
fn fallback(value: &Value, key: &str, all: &Written) -> Result<String, String> {
    let Some(first) = value.as_str() else {
        return Err(format!("`fallback` must be the key of another channel, not {value}"));
    };
    if !all.contains_key(first) && !first.starts_with(MEMORY) {
        let known: Vec<&str> = all.keys().map(String::as_str).filter(|known| *known != key).collect();
        let said = if known.is_empty() { "; there is no other".to_owned() } else { hint(first, &known) };
        return Err(format!("`fallback` names `{first}`, which is not a channel of this file{said}"));
    }
    let mut seen = BTreeSet::from([key]);
    let mut next = Some(first);
    while let Some(here) = next {
        if !seen.insert(here) {
            return Err(format!("`fallback` leads back to `{here}`, so nothing would ever be given up"));
        }
        next = all.get(here).and_then(|table| table.get("fallback")).and_then(Value::as_str);
    }
    Ok(first.to_owned())
}
