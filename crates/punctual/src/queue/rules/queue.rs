//! The settings of a queue, as an operator may set them.

use crate::base::backoff::Backoff;
use crate::base::duration;
use crate::base::error::Problems;
use crate::base::limits;
use crate::queue::rules::attempt::RetryPolicy;
use serde_json::Value;
use std::time::Duration;

/// The policy for the rest of a sequence when its head is dead-lettered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeadHeadPolicy {
    /// The key waits until the dead letter is replayed or purged.
    #[default]
    Block,
    /// The next message of the key goes on.
    Pass,
}

impl DeadHeadPolicy {
    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Pass => "pass",
        }
    }
}

/// Settings of one queue; a field that is `None` has its default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueSettings {
    /// Nothing is claimed while a queue is paused.
    pub paused: bool,
    /// Started attempts before an item is dead.
    pub max_attempts: Option<u32>,
    /// The waits between attempts.
    pub backoff: Option<Backoff>,
    /// How long its finished messages are kept.
    pub retention: Option<Duration>,
    /// The policy for a sequence with a dead head.
    pub dead_head: DeadHeadPolicy,
}

impl QueueSettings {
    /// How patient the queue is.
    #[must_use]
    pub fn patience(&self) -> RetryPolicy {
        RetryPolicy {
            max_attempts: self.max_attempts.unwrap_or(limits::ATTEMPTS_DEFAULT),
            backoff: self.backoff.clone().unwrap_or_default(),
        }
    }

    /// Returns these settings with the changes in a JSON object; a field that the object leaves out stays,
    /// and one that is null goes back to its default.
    ///
    /// # Errors
    /// Every problem of the object.
    pub fn changed_by(&self, change: &serde_json::Map<String, Value>) -> Result<Self, Problems> {
        let mut new = self.clone();
        let mut problems = Problems::default();
        for (name, value) in change {
            let result =
                match name.as_str() {
                    "paused" => set(&mut new.paused, paused(value)),
                    "maxAttempts" => set(&mut new.max_attempts, or_default(value, max_attempts)),
                    "backoff" => set(&mut new.backoff, or_default(value, Backoff::from_json)),
                    "retention" => set(&mut new.retention, or_default(value, retention)),
                    "deadHead" => set(&mut new.dead_head, dead_head(value)),
                    _ => Err("is not a setting; known are paused, maxAttempts, backoff, retention, deadHead"
                        .into()),
                };
            if let Err(message) = result {
                problems.push(name, message);
            }
        }
        if problems.0.is_empty() { Ok(new) } else { Err(problems) }
    }
}

fn set<T>(place: &mut T, value: Result<T, String>) -> Result<(), String> {
    value.map(|v| *place = v)
}

fn or_default<T>(value: &Value, read: impl Fn(&Value) -> Result<T, String>) -> Result<Option<T>, String> {
    if value.is_null() { Ok(None) } else { read(value).map(Some) }
}

fn paused(value: &Value) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| "must be true or false".into())
}

fn max_attempts(value: &Value) -> Result<u32, String> {
    let n = value.as_u64().and_then(|n| u32::try_from(n).ok());
    n.filter(|n| (1..=limits::ATTEMPTS_MAX).contains(n))
        .ok_or_else(|| format!("must be a whole number from 1 to {}", limits::ATTEMPTS_MAX))
}

fn retention(value: &Value) -> Result<Duration, String> {
    let text = value.as_str().ok_or("must be a duration such as \"30d\"")?;
    let retention = duration::parse(text)?;
    if retention.is_zero() { Err("must be longer than zero".into()) } else { Ok(retention) }
}

fn dead_head(value: &Value) -> Result<DeadHeadPolicy, String> {
    match value.as_str() {
        Some("block") => Ok(DeadHeadPolicy::Block),
        Some("pass") => Ok(DeadHeadPolicy::Pass),
        _ => Err("must be \"block\" or \"pass\"".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn change(settings: &QueueSettings, change: &Value) -> Result<QueueSettings, Problems> {
        settings.changed_by(change.as_object().unwrap())
    }

    #[test]
    fn a_change_leaves_the_rest_as_it_was() {
        let start = change(&QueueSettings::default(), &json!({"maxAttempts": 3, "backoff": ["1m"]})).unwrap();
        let paused = change(&start, &json!({"paused": true, "backoff": null})).unwrap();
        assert_eq!((paused.paused, paused.max_attempts, paused.backoff), (true, Some(3), None));
    }

    /// PLT-29: every wrong setting is named.
    #[test]
    fn plt_29_wrong_settings_are_all_named() {
        let wrong = json!({"paused": "yes", "maxAttempts": 0, "backoff": ["soon"], "retention": "0s",
                           "deadHead": "skip", "colour": 1});
        let problems = change(&QueueSettings::default(), &wrong).unwrap_err();
        assert_eq!(problems.0.len(), 6, "{problems}");
        for n in [json!(-1), json!(1.5), json!("3"), json!(1001)] {
            assert!(change(&QueueSettings::default(), &json!({"maxAttempts": n})).is_err());
        }
    }
}
