//! TRG-4: conditions, against a table of another project and against a second evaluator that is
//! written another way.
//!
//! The table is read where `PUNCTUAL_CONFORMANCE_DATA` says.

use crate::public_table::public_table;
use proptest::prelude::*;
use punctual::Problems;
use punctual::base::canonical;
use punctual::base::clock::monotonic;
use punctual::base::condition::{Condition, STEPS_MAX};
use punctual::base::facts::Facts;
use punctual::base::limits;
use serde_json::{Value, json};

fn read(document: &Value) -> Condition {
    let mut problems = Problems::default();
    Condition::read(document, "", &mut problems).unwrap_or_else(|| panic!("{document}: {problems}"))
}

fn facts(data: &Value) -> Facts<'_> {
    let mut facts = Facts::default();
    for (path, value) in data.as_object().unwrap() {
        facts.insert(path.as_str(), value.clone());
    }
    facts
}

/// Reads the cases of a public table.
fn table(name: &str) -> Vec<Value> {
    let table = public_table(name);
    let cases = table["cases"].as_array().unwrap().clone();
    assert!(cases.len() > 40 && table["count"] == cases.len(), "only {} cases", cases.len());
    cases
}

/// TRG-4: the table of conditions, case by case.
#[test]
#[ignore = "needs PUNCTUAL_CONFORMANCE_DATA"]
fn trg_4_the_public_table_of_conditions_passes() {
    for case in table("conditions.json") {
        let (condition, facts) = (read(&case["condition"]), facts(&case["data"]));
        assert_eq!(condition.holds(&facts), case["expected"], "{case}");
        assert_eq!(condition.explain(&facts).holds, case["expected"], "{case}");
        assert_eq!(condition.to_json(), case["condition"], "{case}");
    }
}

/// TRG-7: values have the text of RFC 8785. What is not JSON is the reader's to refuse.
#[test]
#[ignore = "needs PUNCTUAL_CONFORMANCE_DATA"]
fn trg_7_the_public_table_of_canonical_texts_passes() {
    let cases = table("jcs.json");
    for case in cases.iter().filter(|case| case["invalid"] != true) {
        let value: Value = serde_json::from_str(case["input"].as_str().unwrap()).unwrap();
        let mut text = String::new();
        canonical::write(&value, &mut text);
        assert_eq!(text, case["output"].as_str().unwrap(), "{case}");
    }
}

/// The other evaluator: it walks the document itself, counts what holds, and compares numbers by
/// eighths and times by the calendar's own reader. All numbers of the tests are whole eighths.
mod naive {
    use super::*;

    type Holds = fn(&str) -> bool;

    /// Patterns, and what they mean.
    pub const PATTERNS: [(&str, Holds); 4] = [
        ("^a", |text| text.starts_with('a')),
        ("[0-9]$", |text| text.ends_with(|c: char| c.is_ascii_digit())),
        ("^(a|b)*$", |text| text.chars().all(|c| c == 'a' || c == 'b')),
        ("(?i)AB", |text| text.to_lowercase().contains("ab")),
    ];

    fn eighths(value: &Value) -> i128 {
        let whole = value.as_i64().map(i128::from).or(value.as_u64().map(i128::from));
        whole.map_or_else(|| (value.as_f64().unwrap() * 8.0) as i128, |whole| whole * 8)
    }

    fn time(text: &str) -> Option<i128> {
        let full = if text.len() == 10 { format!("{text}T00:00:00Z") } else { text.to_owned() };
        full.parse::<jiff::Timestamp>().ok().map(|time| time.as_nanosecond())
    }

    /// -1, 0 or 1; 9 when there is no order.
    fn sign(found: &Value, wanted: &Value, by_time: bool) -> i8 {
        if found.is_number() && wanted.is_number() {
            return (eighths(found) - eighths(wanted)).signum() as i8;
        }
        let (Some(found), Some(wanted)) = (found.as_str(), wanted.as_str()) else {
            let same = found.is_boolean() && found == wanted;
            return if same && !by_time { 0 } else { 9 };
        };
        match (time(found), time(wanted)) {
            (Some(found), Some(wanted)) if by_time => (found - wanted).signum() as i8,
            _ => found.as_bytes().cmp(wanted.as_bytes()) as i8,
        }
    }

    pub fn holds(document: &Value, data: &Value) -> bool {
        if let Some(parts) = document.get("all").or(document.get("any")) {
            let parts = parts.as_array().unwrap();
            let count = parts.iter().map(|part| usize::from(holds(part, data))).sum::<usize>();
            return if document.get("all").is_some() { count == parts.len() } else { count > 0 };
        }
        if let Some(part) = document.get("not") {
            return holds(part, data) ^ true;
        }
        let found = &data[document["questionId"].as_str().unwrap()];
        let (op, wanted) = (document["op"].as_str().unwrap(), &document["value"]);
        if found.is_null() {
            return ["!=", "notIn", "notExists"].contains(&op);
        }
        let same = |a: &Value, b: &Value| sign(a, b, false) == 0;
        let (text, part) = (found.as_str().unwrap_or_default(), wanted.as_str().unwrap_or_default());
        let texts = found.is_string() && wanted.is_string();
        match op {
            "==" => same(found, wanted),
            "!=" => !same(found, wanted),
            "<" => sign(found, wanted, true) == -1,
            "<=" => [-1, 0].contains(&sign(found, wanted, true)),
            ">" => sign(found, wanted, true) == 1,
            ">=" => [0, 1].contains(&sign(found, wanted, true)),
            "between" => {
                [0, 1].contains(&sign(found, &wanted[0], true))
                    && [-1, 0].contains(&sign(found, &wanted[1], true))
            }
            "in" => wanted.as_array().unwrap().iter().any(|wanted| same(found, wanted)),
            "notIn" => wanted.as_array().unwrap().iter().all(|wanted| !same(found, wanted)),
            "contains" => match found {
                Value::Array(found) => found.iter().filter(|found| same(found, wanted)).count() > 0,
                _ => texts && text.matches(part).next().is_some(),
            },
            "startsWith" => texts && text.find(part) == Some(0),
            "endsWith" => {
                texts
                    && text.len() >= part.len()
                    && text.as_bytes()[text.len() - part.len()..] == *part.as_bytes()
            }
            "matches" => {
                found.is_string() && PATTERNS.iter().any(|(pattern, holds)| *pattern == part && holds(text))
            }
            "exists" => true,
            "notExists" => false,
            other => panic!("{other}"),
        }
    }
}

fn number() -> impl Strategy<Value = Value> {
    let edges: Vec<Value> = [1u64 << 53, 1 << 63, u64::MAX, 0]
        .into_iter()
        .flat_map(|edge| {
            [json!(edge), json!(edge as f64), json!(edge.wrapping_add(1)), json!(edge.wrapping_sub(1) as i64)]
        })
        .collect();
    prop_oneof![
        prop::sample::select(edges),
        (-3i64..4).prop_map(|n| json!(n)),
        (-24i64..25).prop_map(|n| json!(n as f64 / 8.0)),
    ]
}

fn text() -> impl Strategy<Value = Value> {
    let known = [
        "",
        "a",
        "ab",
        "abba",
        "AB",
        "b1",
        "1",
        "2",
        "10",
        "true",
        "é",
        "2024-01-01",
        "2024-01-01T00:00:00Z",
        "2024-01-01T02:00:00+02:00",
        "2023-12-31T23:59:59.5Z",
        "2024-02-29",
        "2023-02-29",
        "2024-01-01T10:00:00",
        "2024",
    ];
    prop::sample::select(known.to_vec()).prop_map(|text| json!(text))
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![number(), text(), any::<bool>().prop_map(|yes| json!(yes))]
}

fn found() -> impl Strategy<Value = Value> {
    prop_oneof![
        6 => scalar(),
        2 => prop::collection::vec(scalar(), 0..4).prop_map(Value::Array),
        1 => Just(Value::Null),
        1 => Just(json!({"a": 1})),
    ]
}

fn data() -> impl Strategy<Value = Value> {
    prop::collection::btree_map(prop::sample::select(vec!["x", "y", "z"]), found(), 0..4)
        .prop_map(|map| json!(map))
}

fn comparison() -> impl Strategy<Value = Value> {
    let list = || prop::collection::vec(scalar(), 0..5).prop_map(Value::Array);
    let wanted = prop_oneof![
        (prop::sample::select(vec!["==", "!=", "contains"]), scalar()),
        (prop::sample::select(vec!["<", "<=", ">", ">="]), prop_oneof![number(), text()]),
        (prop::sample::select(vec!["in", "notIn"]), list()),
        (prop::sample::select(vec!["startsWith", "endsWith"]), text()),
        (
            Just("matches"),
            prop::sample::select(naive::PATTERNS.to_vec()).prop_map(|(pattern, _)| json!(pattern))
        ),
        (
            Just("between"),
            prop_oneof![(number(), number()), (text(), text())].prop_map(|(a, b)| json!([a, b]))
        ),
        (prop::sample::select(vec!["exists", "notExists"]), Just(Value::Null)),
    ];
    (prop::sample::select(vec!["x", "y", "z"]), wanted).prop_map(|(path, (op, value))| match value {
        Value::Null => json!({"questionId": path, "op": op}),
        value => json!({"questionId": path, "op": op, "value": value}),
    })
}

fn document() -> impl Strategy<Value = Value> {
    comparison().prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|parts| json!({ "all": parts })),
            prop::collection::vec(inner.clone(), 0..4).prop_map(|parts| json!({ "any": parts })),
            inner.prop_map(|part| json!({ "not": part })),
        ]
    })
}

/// Any JSON, mostly made of the words that conditions are made of.
fn anything() -> impl Strategy<Value = Value> {
    let words = [
        "questionId",
        "op",
        "value",
        "all",
        "any",
        "not",
        "==",
        "in",
        "matches",
        "between",
        "contains",
        "(",
        "é",
    ];
    let word = move || prop::sample::select(words.to_vec()).prop_map(str::to_owned);
    let name = move || prop_oneof![4 => word(), 1 => ".{0,6}"];
    let simple = prop_oneof![
        scalar(),
        Just(Value::Null),
        name().prop_map(Value::String),
        any::<f64>().prop_map(|n| json!(n))
    ];
    simple.prop_recursive(6, 60, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            prop::collection::btree_map(name(), inner, 0..4).prop_map(|map| json!(map)),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// TRG-4: two evaluators agree, and so does the explanation.
    #[test]
    fn trg_4_a_second_evaluator_agrees(document in document(), data in data()) {
        let (condition, facts) = (read(&document), facts(&data));
        let want = naive::holds(&document, &data);
        prop_assert_eq!(condition.holds(&facts), want, "{} of {}", document, data);
        let explanation = condition.explain(&facts);
        prop_assert_eq!(explanation.holds, want, "explained: {} of {}", document, data);
        prop_assert_eq!(explanation.findings.len(), condition.paths().len());
        for finding in &explanation.findings {
            let alone = json!({"questionId": finding.question_id, "op": finding.op, "value": finding.wanted});
            prop_assert_eq!(finding.held, naive::holds(&alone, &data), "{} of {}", alone, data);
        }
    }

    /// TRG-4: what is written back is what was read.
    #[test]
    fn trg_4_a_condition_survives_a_round_trip(document in document()) {
        let condition = read(&document);
        prop_assert_eq!(&condition.to_json(), &document);
        prop_assert_eq!(read(&condition.to_json()), condition);
    }

    /// TRG-4: no input makes it panic, and problems are told whenever nothing is read.
    #[test]
    fn trg_4_arbitrary_json_never_panics(document in anything(), payload in anything()) {
        let mut facts = Facts::default();
        facts.flatten("x", &payload).unwrap();
        let mut problems = Problems::default();
        match Condition::read(&document, "filter", &mut problems) {
            Some(condition) => {
                prop_assert!(problems.0.is_empty());
                prop_assert_eq!(condition.holds(&facts), condition.explain(&facts).holds);
                prop_assert!(condition.steps() <= STEPS_MAX);
            }
            None => {
                prop_assert!(!problems.0.is_empty());
                prop_assert!(problems.0.iter().all(|problem| problem.path.starts_with("filter")));
            }
        }
    }
}

/// Facts that cost most: as many as there may be, their paths alike to the end.
fn worst_facts(texts: &[(String, Value)]) -> Facts<'_> {
    let mut facts = Facts::default();
    for n in 0..limits::FACTS_MAX - texts.len() {
        facts.insert(path(n), json!(n));
    }
    for (path, value) in texts {
        facts.insert(path.as_str(), value.clone());
    }
    facts
}

fn path(n: usize) -> String {
    format!("{}{n:06}", "p".repeat(limits::FACT_PATH_BYTES_MAX - 6))
}

/// Documents at the limits, none of whose comparisons holds, and the facts that cost them most.
fn worst_documents() -> Vec<(&'static str, Vec<Value>, Value)> {
    let (at, long) = (path(limits::FACTS_MAX), "a".repeat(limits::CONDITION_TEXT_BYTES_MAX - 1));
    let leaf = |op: &str, value: Value| json!({"questionId": at, "op": op, "value": value});
    let list: Vec<String> = (0..1_000).map(|n| format!("{}{n:03}", &long[2..])).collect();
    let (lists, searches) =
        (vec![leaf("in", json!(list)); 4], |n| vec![leaf("contains", json!(format!("{long}b"))); n]);
    let patterns = |n: usize| vec![leaf("matches", json!(format!("(?:a?){{{}}}b", 84 / n))); n];
    let mixed =
        [lists.clone(), searches(20), patterns(1), vec![leaf("<", json!("2024-01-01")); 230]].concat();
    let text = |chars: usize| json!("a".repeat(chars));
    let most = limits::CONDITION_PARTS_MAX - 1;
    vec![
        (
            "times",
            vec![leaf("<", json!("2024-01-01T00:00:00.123456789Z")); most],
            json!("2025-01-01T00:00:00.123456789+02:00"),
        ),
        ("lists", lists, json!(format!("{}xyz", &long[2..]))),
        ("one contains", searches(1), text(limits::CONDITION_SEARCH_BYTES_MAX)),
        ("many contains", searches(most), text(limits::CONDITION_SEARCH_BYTES_MAX / most)),
        (
            "a list that is searched",
            searches(1),
            json!(vec![format!("{long}c"); limits::CONDITION_SEARCH_BYTES_MAX / 32]),
        ),
        ("one pattern", patterns(1), text(100)),
        ("four patterns", patterns(4), text(100)),
        ("small patterns", vec![leaf("matches", json!("^a+c")); 30], text(100)),
        ("everything", mixed, text(100)),
    ]
}

/// TRG-4: the worst document within the limits is decided within a millisecond's work.
#[test]
fn trg_4_the_worst_document_is_bounded() {
    for (name, parts, found) in worst_documents() {
        let condition = read(&json!({ "any": parts }));
        let texts = [(path(limits::FACTS_MAX), found)];
        let facts = worst_facts(&texts);
        let _warm = condition.holds(&facts);
        let begun = monotonic();
        let held = condition.holds(&facts);
        let took = begun.elapsed();
        eprintln!("{name}: {took:?}, at most {} steps", condition.steps());
        assert!(condition.steps() <= STEPS_MAX, "{name} may take {} steps", condition.steps());
        assert!(!held, "{name}: one that holds ends early");
        assert!(!condition.explain(&facts).because.contains("too long"), "{name}: is looked through");
    }
}
