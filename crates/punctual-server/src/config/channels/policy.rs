//! What every channel may say, whatever its provider: `rate_per_second`, `in_flight`, `unknown`,
//! `unknown_retries`, `fallback`, `max_attempts`, `waits`, `breaker_failures`.

use super::Written;
use punctual::base::backoff::Backoff;
use punctual::base::duration;
use punctual::base::limits::{ATTEMPTS_MAX, SENDS_PER_SECOND_MAX};
use punctual::base::suggestion::hint;
use punctual::delivery::rules::channel::{ChannelPolicy, MEMORY, UnknownOutcomePolicy};
use punctual::flow::rules::entry::failure;
use punctual::queue::rules::attempt::RetryPolicy;
use std::collections::BTreeSet;
use std::time::Duration;
use toml::Value;

/// The most sends that may be under way at once.
const IN_FLIGHT_MAX: i64 = 10_000;
/// The most failures in a row that a channel may be allowed.
const BREAKER_FAILURES_MAX: i64 = 1_000_000;
/// Waits that may be listed.
const WAITS_MAX: usize = 100;

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
        patience: patience(table.get("max_attempts"), table.get("waits"))?,
        breaker_failures: table.get("breaker_failures").map(breaker_failures).transpose()?,
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

fn breaker_failures(value: &Value) -> Result<u32, String> {
    let failures = value.as_integer().filter(|n| (0..=BREAKER_FAILURES_MAX).contains(n));
    failures.and_then(|n| u32::try_from(n).ok()).ok_or_else(|| {
        format!(
            "`breaker_failures` must be a whole number from 0 (never) to {BREAKER_FAILURES_MAX}, not {value}"
        )
    })
}

/// As many tries as are asked for, this long apart; what is not said is as usual. Of a list, the last wait
/// goes for all tries behind it.
fn patience(tries: Option<&Value>, waits: Option<&Value>) -> Result<Option<RetryPolicy>, String> {
    let tries = tries.map(max_attempts).transpose()?;
    if let Some(table) = waits.and_then(Value::as_table) {
        let max_attempts = tries.unwrap_or(failure::patience().max_attempts);
        return Ok(Some(RetryPolicy { max_attempts, backoff: doubling_waits(table)? }));
    }
    let Some(waits) = waits.map(read_waits).transpose()? else {
        return Ok(tries.map(|max_attempts| RetryPolicy { max_attempts, ..failure::patience() }));
    };
    let room = tries.map_or(waits.len(), |tries| tries as usize - 1);
    if room < waits.len() {
        let (count, tries) = (waits.len(), room + 1);
        return Err(format!("`waits` has {count}, but there are only {room} between {tries} tries"));
    }
    let last = waits.last().copied().unwrap_or_default();
    let mut steps = waits;
    steps.resize(room, last);
    let max_attempts = u32::try_from(room + 1).unwrap_or(ATTEMPTS_MAX);
    Ok(Some(RetryPolicy { max_attempts, backoff: Backoff::Steps(steps) }))
}

fn max_attempts(value: &Value) -> Result<u32, String> {
    let tries = value.as_integer().and_then(|n| u32::try_from(n).ok());
    tries
        .filter(|tries| (1..=ATTEMPTS_MAX).contains(tries))
        .ok_or_else(|| format!("`max_attempts` must be a whole number from 1 to {ATTEMPTS_MAX}, not {value}"))
}

/// Reads waits that double up to a cap.
fn doubling_waits(table: &toml::Table) -> Result<Backoff, String> {
    let keys = ["from", "to"];
    if let Some(unknown) = table.keys().find(|key| !keys.contains(&key.as_str())) {
        return Err(format!("`waits.{unknown}` is not a setting{}", hint(unknown, &keys)));
    }
    if keys.iter().any(|key| table.get(*key).and_then(Value::as_str).is_none()) {
        return Err(not_waits(&Value::Table(table.clone())));
    }
    let json = serde_json::to_value(table).map_err(|error| format!("`waits`: {error}"))?;
    Backoff::from_json(&json).map_err(|why| format!("`waits`: {why}"))
}

fn not_waits(value: &Value) -> String {
    format!(
        "`waits` must be a list of 1 to {WAITS_MAX} waits such as [\"1m\", \"5m\"], \
         or {{ from = \"1m\", to = \"1h\" }}, not {value}"
    )
}

fn read_waits(value: &Value) -> Result<Vec<Duration>, String> {
    let said = || not_waits(value);
    let list = value.as_array().filter(|list| (1..=WAITS_MAX).contains(&list.len())).ok_or_else(said)?;
    let wait = |one: &Value| {
        let wait =
            duration::parse(one.as_str().ok_or_else(said)?).map_err(|why| format!("`waits`: {why}"))?;
        if wait.is_zero() { Err("`waits`: a wait must be longer than nothing".to_owned()) } else { Ok(wait) }
    };
    list.iter().map(wait).collect()
}

fn unknown_retries(value: &Value) -> Result<u32, String> {
    let retries = value.as_integer().and_then(|n| u32::try_from(n).ok());
    retries.filter(|retries| *retries <= ATTEMPTS_MAX).ok_or_else(|| {
        format!("`unknown_retries` must be a whole number from 0 to {ATTEMPTS_MAX}, not {value}")
    })
}

fn unknown(value: &Value) -> Result<UnknownOutcomePolicy, String> {
    match value.as_str() {
        Some("resend") => Ok(UnknownOutcomePolicy::Resend),
        Some("hold") => Ok(UnknownOutcomePolicy::Hold),
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
