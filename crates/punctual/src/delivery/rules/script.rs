//! Scripts: the answers to the next sends of a sandbox channel, one step for each send.
//!
//! ```json
//! {"script": ["transient", {"transient": {"retryAfter": "2m"}}, "timeout", "permanent"], "latencyMs": 50}
//! ```
//!
//! | step | the send | its message |
//! |---|---|---|
//! | `ok` | is taken | is delivered |
//! | `transient` | may go well another time, perhaps not before `retryAfter` | is not |
//! | `permanent` | will never go well | is not |
//! | `timeout` | has no answer | **is delivered** unless it says `"delivered": false` |
//!
//! A provider that does not answer in time often delivers all the same, hence the last row. After its last
//! step everything is taken. An `error` in `transient` and `permanent` is the error of the channel.

use crate::base::document;
use crate::base::document::{DocumentList, DocumentObject, join, kind, quote};
use crate::base::duration;
use crate::base::error::{Error, Problems, Result};
use crate::base::limits;
use crate::base::number;
use crate::base::suggestion::hint;
use serde_json::{Map, Value, json};
use std::collections::VecDeque;
use std::time::Duration;

const WORDS: [&str; 4] = ["ok", "transient", "permanent", "timeout"];

/// The answer to one send.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ScriptStep {
    /// The sandbox takes the message.
    #[default]
    Ok,
    /// The send fails, and a later try may succeed.
    Transient {
        /// How long the provider wants to be left alone.
        retry_after: Option<Duration>,
        /// The error text.
        error: Option<String>,
    },
    /// The send fails for good.
    Permanent {
        /// The error text.
        error: Option<String>,
    },
    /// There is no answer.
    Timeout {
        /// Whether the message goes out all the same.
        delivered: bool,
    },
}

/// The answers to the next sends, and how long each answer takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    steps: VecDeque<ScriptStep>,
    latency: Duration,
}

impl Script {
    /// A script of these steps, each answered at once.
    #[must_use]
    pub fn new(steps: impl IntoIterator<Item = ScriptStep>) -> Self {
        Self { steps: steps.into_iter().collect(), latency: Duration::ZERO }
    }

    /// The same with answers that take this long, also after the last step.
    #[must_use]
    pub const fn latency(mut self, latency: Duration) -> Self {
        self.latency = latency;
        self
    }

    /// Reads a script as people write it.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every problem by its path.
    ///
    /// ```
    /// use punctual::delivery::rules::script::{Script, ScriptStep};
    /// let script = serde_json::json!({"script": ["transient", "ok"]});
    /// let mut script = Script::read(&script).unwrap();
    /// assert!(matches!(script.next_step(), (ScriptStep::Transient { .. }, _)));
    /// assert_eq!(script.next_step().0, ScriptStep::Ok);
    /// assert_eq!(script.next_step().0, ScriptStep::Ok, "and so on");
    /// ```
    pub fn read(value: &Value) -> Result<Self> {
        let mut problems = Problems::default();
        let script = DocumentObject::read(value, "", &["script", "latencyMs"], &mut problems).map(|part| {
            let steps = part.list("script", limits::SCRIPT_STEPS_MAX, &mut problems);
            let steps = read_steps(&steps.unwrap_or_default(), &mut problems);
            Self { steps, latency: read_latency(&part, &mut problems) }
        });
        if problems.0.is_empty() { Ok(script.unwrap_or_default()) } else { Err(Error::Invalid(problems)) }
    }

    /// Returns the answer to the next send, and its latency.
    pub fn next_step(&mut self) -> (ScriptStep, Duration) {
        (self.steps.pop_front().unwrap_or_default(), self.latency)
    }

    /// Whether the script has no effect any more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.steps.is_empty() && self.latency.is_zero()
    }

    /// Returns the rest of the script, in the form that [`Script::read`] takes.
    #[must_use]
    pub fn to_json(&self) -> Map<String, Value> {
        let steps: Vec<Value> = self.steps.iter().map(ScriptStep::to_json).collect();
        let latency = u64::try_from(self.latency.as_millis()).unwrap_or(u64::MAX);
        Map::from_iter([("script".to_owned(), json!(steps)), ("latencyMs".to_owned(), json!(latency))])
    }
}

impl ScriptStep {
    fn to_json(&self) -> Value {
        let with = |word: &str, more: Value| json!({ (word): more });
        match self {
            Self::Ok => json!("ok"),
            Self::Transient { retry_after: None, error: None } => json!("transient"),
            Self::Transient { retry_after, error } => {
                let wait = retry_after.map(|wait| ("retryAfter", duration::write(wait)));
                let more = wait.into_iter().chain(error.clone().map(|error| ("error", error)));
                with("transient", more.map(|(name, text)| (name.to_owned(), json!(text))).collect())
            }
            Self::Permanent { error: None } => json!("permanent"),
            Self::Permanent { error } => with("permanent", json!({"error": error})),
            Self::Timeout { delivered: true } => json!("timeout"),
            Self::Timeout { delivered } => with("timeout", json!({"delivered": delivered})),
        }
    }
}

fn read_latency(part: &DocumentObject<'_>, problems: &mut Problems) -> Duration {
    let most = u64::try_from(limits::SCRIPT_LATENCY_MAX.as_millis()).unwrap_or(u64::MAX);
    let Some(value) = part.get("latencyMs") else { return Duration::ZERO };
    let whole = Some(value).filter(|value| value.is_number()).and_then(number::whole);
    let found = whole.and_then(|ms| u64::try_from(ms).ok()).filter(|ms| *ms <= most);
    if found.is_none() {
        let said = format!("must be a whole number of milliseconds from 0 to {most}");
        problems.push(part.at("latencyMs"), said);
    }
    Duration::from_millis(found.unwrap_or(0))
}

fn read_steps(list: &DocumentList<'_>, problems: &mut Problems) -> VecDeque<ScriptStep> {
    list.iter().filter_map(|(value, path)| read_step(value, path, problems)).collect()
}

/// Reads a word, or an object of one word and its further fields.
fn read_step(value: &Value, path: &str, problems: &mut Problems) -> Option<ScriptStep> {
    let nothing = Value::Object(Map::new());
    let (word, more) = match value {
        Value::String(word) => (word.as_str(), &nothing),
        Value::Object(map) if map.len() == 1 => {
            map.iter().next().map(|(word, more)| (word.as_str(), more))?
        }
        Value::Object(_) => {
            problems.push(path, "must have one field, such as {\"transient\": {\"retryAfter\": \"2m\"}}");
            return None;
        }
        other => {
            problems.push(path, format!("must be one of {}, not {}", WORDS.join(", "), kind(other)));
            return None;
        }
    };
    read_word(word, more, path, problems)
}

fn read_word(word: &str, more: &Value, path: &str, problems: &mut Problems) -> Option<ScriptStep> {
    let known: &[&str] = match word {
        "ok" => &[],
        "transient" => &["retryAfter", "error"],
        "permanent" => &["error"],
        "timeout" => &["delivered"],
        other => {
            problems.push(path, format!("`{}` is not a step{}", quote(other), hint(other, &WORDS)));
            return None;
        }
    };
    let part = DocumentObject::read(more, &join(path, word), known, problems)?;
    Some(match word {
        "transient" => ScriptStep::Transient {
            retry_after: part.duration("retryAfter", problems),
            error: read_error(&part, problems),
        },
        "permanent" => ScriptStep::Permanent { error: read_error(&part, problems) },
        "timeout" => ScriptStep::Timeout { delivered: part.flag("delivered", true, problems) },
        _ => ScriptStep::Ok,
    })
}

fn read_error(part: &DocumentObject<'_>, problems: &mut Problems) -> Option<String> {
    let path = part.at("error");
    let text = document::text(part.get("error")?, &path, problems)?;
    if text.chars().count() > limits::ERROR_CHARS_MAX {
        problems.push(path, format!("has more than {} characters", limits::ERROR_CHARS_MAX));
    }
    Some(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &Value) -> Script {
        Script::read(value).unwrap_or_else(|e| panic!("{value}: {e}"))
    }

    #[test]
    fn a_script_is_used_up_one_step_a_send_and_then_all_goes_well() {
        let mut script =
            read(&json!({"script": ["transient", "permanent", "timeout", "ok"], "latencyMs": 5}));
        let wants = [
            ScriptStep::Transient { retry_after: None, error: None },
            ScriptStep::Permanent { error: None },
            ScriptStep::Timeout { delivered: true },
            ScriptStep::Ok,
            ScriptStep::Ok,
        ];
        for want in wants {
            assert_eq!(script.next_step(), (want, Duration::from_millis(5)));
        }
        assert!(!script.is_over(), "it still takes its time");
        assert!(read(&json!({})).is_over() && read(&json!({"script": [], "latencyMs": 0.0})).is_over());
    }

    #[test]
    fn what_is_left_reads_as_it_was_written() {
        let written = json!({"latencyMs": 60_000, "script": [
            "ok", "transient", {"transient": {"retryAfter": "2m", "error": "busy"}},
            {"transient": {"error": "busy"}}, {"transient": {"retryAfter": "1d12h"}}, "permanent",
            {"permanent": {"error": "no such number"}}, "timeout", {"timeout": {"delivered": false}},
        ]});
        let mut script = read(&written);
        assert_eq!(Value::Object(script.to_json()), written);
        script.next_step();
        assert_eq!(script.to_json()["script"].as_array().unwrap().len(), 8);
        let null = json!({"script": [{"transient": {"retryAfter": null}}]});
        assert_eq!(read(&null).to_json()["script"], json!(["transient"]));
    }

    #[test]
    fn a_broken_script_is_refused_with_every_problem_by_its_path() {
        let table = [
            (json!([]), "must be an object with script, latencyMs, not a list"),
            (json!({"scripts": []}), "scripts: `scripts` is not a field; did you mean `script`?"),
            (json!({"script": "ok"}), "script: must be a list, not a string"),
            (json!({"script": ["okay"]}), "script[0]: `okay` is not a step"),
            (json!({"script": ["ok", 1]}), "script[1]: must be one of ok, transient, permanent, timeout"),
            (json!({"script": [{}]}), "script[0]: must have one field"),
            (json!({"script": [{"ok": {}, "timeout": {}}]}), "script[0]: must have one field"),
            (json!({"script": [{"ok": {"error": "x"}}]}), "script[0].ok.error: `error` is not a field"),
            (json!({"script": [{"transient": 5}]}), "script[0].transient: must be an object with retryAfter"),
            (json!({"script": [{"transient": {"retryAfter": "soon"}}]}), "script[0].transient.retryAfter: "),
            (json!({"script": [{"permanent": {"error": 1}}]}), "script[0].permanent.error: must be a string"),
            (json!({"script": [{"timeout": {"delivered": 1}}]}), "script[0].timeout.delivered: must be true"),
            (json!({"latencyMs": -1}), "latencyMs: must be a whole number of milliseconds from 0 to 60000"),
            (json!({"latencyMs": 1.5}), "latencyMs: must be"),
            (json!({"latencyMs": "5"}), "latencyMs: must be"),
            (json!({"latencyMs": 60_001}), "latencyMs: must be"),
            (json!({"script": vec!["ok"; 10_001]}), "script: has 10001 items, at most 10000"),
        ];
        for (value, want) in table {
            let said = Script::read(&value).unwrap_err().to_string();
            assert!(said.contains(want), "{value}: {said}");
        }
        let both = Script::read(&json!({"script": ["no", "never"], "latencyMs": "x"})).unwrap_err();
        let Error::Invalid(problems) = both else { panic!("{both}") };
        assert_eq!(problems.0.len(), 3, "{problems}");
    }
}
