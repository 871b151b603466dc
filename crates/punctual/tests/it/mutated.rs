//! Mutated conditions, durations, cron patterns and templates: none panics, and each is decided in time.

use crate::mutation::try_all;
use punctual::base::clock::monotonic;
use punctual::base::condition::{Condition, STEPS_MAX};
use punctual::base::duration;
use punctual::base::facts::Facts;
use punctual::delivery::rules::template::{TemplateValues, TextTarget, TextTemplate};
use punctual::jobs::rules::timetable::Timetable;
use punctual::{Problem, Problems, Timestamp};
use serde_json::{Value, json};
use std::time::Duration;

/// An evaluation never takes longer, on a busy machine and without optimisation.
const EVALUATION_MAX: Duration = Duration::from_millis(500);

fn mutated(name: &str, target: impl FnMut(&[u8])) {
    try_all(env!("CARGO_MANIFEST_DIR"), name, target);
}

fn payload() -> Value {
    json!({"jobType": "GR", "wip": 40956, "price": 12.5, "vehicle": {"vin": "JTMABBBJ2N4024400"},
        "at": "2026-05-14", "list": ["a", 1, true, {"b": 2}], "long": "ab".repeat(5_000), "empty": {},
        "nothing": null, "html": "<b>&\"'"})
}

/// PRD-7: a condition is refused, or decides in bounded time and is the same when it is written again.
#[test]
#[ignore = "slow"]
fn prd_7_mutated_conditions_decide_in_time() {
    let payload = payload();
    let mut facts = Facts::default();
    facts.flatten("candidate", &payload).unwrap();
    mutated("conditions", |input| {
        let Ok(document) = serde_json::from_slice::<Value>(input) else { return };
        let mut problems = Problems::default();
        let Some(condition) = Condition::read(&document, "filter", &mut problems) else {
            assert!(!problems.0.is_empty(), "a refusal says why");
            return;
        };
        assert!(condition.steps() <= STEPS_MAX, "{document}");
        let began = monotonic();
        let holds = condition.holds(&facts);
        assert!(began.elapsed() < EVALUATION_MAX, "{document} took {:?}", began.elapsed());
        assert_eq!(condition.explain(&facts).holds, holds, "{document}");
        let again = Condition::read(&condition.to_json(), "", &mut Problems::default());
        assert_eq!(again.as_ref(), Some(&condition), "{document}");
    });
}

/// PRD-7: a duration is refused with a word, or is the same when it is written again.
#[test]
#[ignore = "slow"]
fn prd_7_mutated_durations_are_read_or_refused() {
    mutated("durations", |input| {
        let text = String::from_utf8_lossy(input);
        match duration::parse(&text) {
            Ok(read) => assert_eq!(duration::parse(&duration::write(read)), Ok(read), "{text:?}"),
            Err(said) => assert!(!said.is_empty() && said.len() < 1_000, "{said}"),
        }
    });
}

/// PRD-7: a cron pattern is refused with a word, or its moments come one after the other.
#[test]
#[ignore = "slow"]
fn prd_7_mutated_cron_patterns_have_moments_in_order() {
    let begin = Timestamp::parse("2026-03-29T00:30:00Z").unwrap();
    mutated("cron", |input| {
        let text = String::from_utf8_lossy(input);
        for zone in ["UTC", "Europe/Berlin", "Australia/Lord_Howe"] {
            let mut problems = Problems::default();
            let Some(timetable) = Timetable::parse(&text, zone, &mut problems) else {
                let short = |problem: &Problem| !problem.message.is_empty() && problem.message.len() < 1_000;
                assert!(!problems.0.is_empty() && problems.0.iter().all(short), "{problems}");
                return;
            };
            let moments: Vec<Timestamp> = timetable.upcoming(begin).take(4).collect();
            assert!(moments.is_sorted() && moments.first().is_some_and(|first| *first > begin), "{text:?}");
        }
    });
}

/// PRD-7: a template is refused by line and column, or says something within its limits.
#[test]
#[ignore = "slow"]
fn prd_7_mutated_templates_stay_within_their_limits() {
    let payload = payload();
    let values = TemplateValues::default().with_value("link", "https://example.org").with_json("", &payload);
    mutated("templates", |input| {
        let text = String::from_utf8_lossy(input);
        let Ok(template) = TextTemplate::parse(&text) else { return };
        for target in [TextTarget::Text, TextTarget::Line, TextTarget::Html] {
            for locale in ["en", "ar-IQ", "de"] {
                let made = template.render(&values, target, locale);
                assert!(
                    made.text.len() <= punctual::base::limits::RENDERED_BYTES_MAX.max(text.len()),
                    "{text:?}"
                );
            }
        }
    });
}
