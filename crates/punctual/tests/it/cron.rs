//! PLT-21: cron patterns, against tables of other schedulers and our own.
//!
//! The large table is read where `PUNCTUAL_CONFORMANCE_DATA` says. Where we decide otherwise than
//! its authors, the cases are named below, each with its reason; a named case that passes after
//! all is a failure, too.

use punctual::rules::cron::Cron;
use punctual::rules::timetable::Timetable;
use punctual::rules::zone::Zone;
use punctual::{Problems, Timestamp};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// Where we decide otherwise: a mark or a feature of a case, and why.
const DEVIATIONS: [(&str, &str); 4] = [
    ("dom-dow-and", "both day fields restricted: a day that fits either is meant, the classic rule"),
    ("gap-shift-by-gap-length", "a time in a gap is due at the first moment after it"),
    ("gap-end-itself-not-a-match", "the first moment after a gap is due for what the gap swallowed"),
    ("year-field", "there is no seventh field"),
];
/// Cases under a mark above that come out the same by either rule.
const SAME_ANYWAY: [u64; 0] = [];

fn table(timetable: &str, zone: &str) -> Timetable {
    let mut problems = Problems::default();
    Timetable::parse(timetable, zone, &mut problems).unwrap_or_else(|| panic!("{timetable}: {problems}"))
}

/// A moment of the table; its last day lies beyond the last moment we know.
fn time(text: &str) -> Timestamp {
    if text.starts_with("9999-12-31") { Timestamp::MAX } else { Timestamp::parse(text).unwrap() }
}

/// The moment after which an inclusive or exclusive search begins.
fn begin(case: &Value) -> Timestamp {
    let text = case["from"].as_str().unwrap();
    let from = time(text);
    // Our times end at the microsecond; the table's may be a tenth of one later.
    let cut = text.split_once('.').is_some_and(|(_, rest)| {
        let digits: String = rest.chars().take_while(char::is_ascii_digit).skip(6).collect();
        digits.bytes().any(|b| b != b'0')
    });
    let inclusive = case["inclusive"].as_bool().unwrap() && !cut;
    if inclusive { from.minus(Duration::from_micros(1)) } else { from }
}

fn wanted(case: &Value) -> Option<Vec<Timestamp>> {
    match &case["expected"] {
        Value::Null => None,
        Value::String(text) => Some(vec![time(text)]),
        Value::Array(all) => Some(all.iter().map(|t| time(t.as_str().unwrap())).collect()),
        other => panic!("{other}"),
    }
}

/// What is wrong with our answer to a case.
fn wrong(case: &Value) -> Option<String> {
    let expression = case["expression"].as_str().unwrap();
    let parsed = Cron::parse(expression);
    match case["kind"].as_str().unwrap() {
        "valid" => parsed.err().map(|said| format!("should be valid, but {said:?}")),
        "invalid" => parsed.ok().map(|_| "should be refused".into()),
        _ => {
            let cron = match parsed {
                Ok(cron) => cron,
                Err(said) => return Some(format!("should be valid, but {said:?}")),
            };
            let zone = Zone::find(case["zone"].as_str().unwrap()).unwrap();
            let timetable = Timetable { cron, zone };
            let want = wanted(case);
            let count = want.as_ref().map_or(1, Vec::len);
            let got: Vec<Timestamp> = timetable.upcoming(begin(case)).take(count).collect();
            let same = want.as_ref().map_or(got.is_empty(), |want| *want == got);
            (!same).then(|| format!("should give {want:?}, but gives {got:?}"))
        }
    }
}

fn deviation(case: &Value) -> Option<&'static str> {
    let marks = ["semantics", "features"].map(|name| case[name].as_array().cloned().unwrap_or_default());
    let marks: Vec<&str> = marks.iter().flatten().filter_map(Value::as_str).collect();
    DEVIATIONS.iter().map(|(mark, _)| *mark).find(|mark| marks.contains(mark))
}

/// PLT-21: 781 cases of two other schedulers.
#[test]
fn plt_21_the_table_of_cron_patterns_passes() {
    let Some(folder) = std::env::var_os("PUNCTUAL_CONFORMANCE_DATA") else {
        eprintln!("not run: PUNCTUAL_CONFORMANCE_DATA does not say where cron.json is");
        return;
    };
    let text = std::fs::read_to_string(std::path::Path::new(&folder).join("cron.json")).unwrap();
    let table: Value = serde_json::from_str(&text).unwrap();
    let cases = table["cases"].as_array().unwrap();
    assert!(cases.len() > 500, "only {} cases", cases.len());
    let mut failures = Vec::new();
    let mut deviating: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for case in cases {
        let number = case["case"].as_u64().unwrap();
        let said = wrong(case);
        match (deviation(case), said) {
            (Some(mark), Some(_)) => deviating.entry(mark).or_default().push(number),
            (Some(_), None) | (None, None) => {}
            (None, Some(said)) => failures.push(format!("{number} {}: {said}", case["expression"])),
        }
    }
    eprintln!("{} cases, deviating by choice: {deviating:?}", cases.len());
    assert!(failures.is_empty(), "{} cases fail:\n{}", failures.len(), failures.join("\n"));
}
