//! PLT-21: cron patterns, against tables of other schedulers and our own.
//!
//! The large table is read where `PUNCTUAL_CONFORMANCE_DATA` says. Where we decide otherwise than
//! its authors, the cases are named below, each with its reason; a named case that passes after
//! all is a failure, too.

use crate::public_table::public_table;
use proptest::prelude::*;
use punctual::base::clock::monotonic;
use punctual::base::zone::Zone;
use punctual::jobs::rules::cron::Cron;
use punctual::jobs::rules::timetable::Timetable;
use punctual::{Problems, Timestamp};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// Where we decide otherwise: the mark of a case in the table, why, and the cases that come out
/// differently for it.
const DEVIATIONS: [(&str, &str, &[u64]); 4] = [
    (
        "dom-dow-and",
        "both day fields are restricted: a day that fits either is meant, the classic rule",
        &[
            574, 582, 584, 1042, 1044, 1046, 1048, 1050, 1052, 1054, 1056, 1058, 1060, 1062, 1064, 1066,
            1068, 1070, 1072, 1074, 1076, 1078, 1080, 1082, 1084, 1086, 1088, 1090, 1092, 1094, 1096, 1098,
            1100, 1102, 1104, 1282, 1284, 1290, 1292, 1462, 1472, 1484,
        ],
    ),
    ("gap-shift-by-gap-length", "a time in a gap is due at the first moment after it", &[1506, 1510]),
    ("gap-end-itself-not-a-match", "the first moment after a gap is due for what the gap swallowed", &[]),
    ("year-field", "there is no seventh field", &[1522]),
];

fn timetable(cron: &str, zone: &str) -> Timetable {
    let mut problems = Problems::default();
    Timetable::parse(cron, zone, &mut problems).unwrap_or_else(|| panic!("{cron}: {problems}"))
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
    DEVIATIONS.iter().map(|(mark, ..)| *mark).find(|mark| marks.contains(mark))
}

/// PLT-21: several hundred cases of two other schedulers.
#[test]
#[ignore = "needs PUNCTUAL_CONFORMANCE_DATA"]
fn plt_21_the_public_table_of_cron_patterns_passes() {
    let table = public_table("cron.json");
    let cases = table["cases"].as_array().unwrap();
    assert!(cases.len() > 500, "only {} cases", cases.len());
    let mut failures = Vec::new();
    let mut deviating: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for case in cases {
        let number = case["case"].as_u64().unwrap();
        match (deviation(case), wrong(case)) {
            (Some(mark), Some(_)) => deviating.entry(mark).or_default().push(number),
            (_, None) => {}
            (None, Some(said)) => failures.push(format!("{number} {}: {said}", case["expression"])),
        }
    }
    assert!(failures.is_empty(), "{} cases fail:\n{}", failures.len(), failures.join("\n"));
    // The other half of the table has other numbers; of this one they are known.
    if table["half"] == "even" {
        for (mark, why, cases) in DEVIATIONS {
            assert_eq!(deviating.get(mark).map_or(&[][..], Vec::as_slice), cases, "{mark}: {why}");
        }
    }
}

/// PLT-21: patterns, where a search begins, and the next moments.
#[test]
fn plt_21_patterns_come_due_when_they_say() {
    let table = [
        ("0 30 9 * * *", "2026-05-14T09:30:00Z", "2026-05-15T09:30:00Z 2026-05-16T09:30:00Z"),
        ("30 9 * * *", "2026-05-14T09:29:59.999999Z", "2026-05-14T09:30:00Z 2026-05-15T09:30:00Z"),
        ("*/20 * * * * *", "2026-05-14T23:59:30Z", "2026-05-14T23:59:40Z 2026-05-15T00:00:00Z"),
        ("0 0 9-17/4 * * MON-FRI", "2026-05-15T13:00:00Z", "2026-05-15T17:00:00Z 2026-05-18T09:00:00Z"),
        ("0 0 22-2/2 * * ?", "2026-05-14T21:00:00Z", "2026-05-14T22:00:00Z 2026-05-15T00:00:00Z"),
        ("0 0 0 29 2 *", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00Z 2108-02-29T00:00:00Z"),
        ("0 0 0 * 2 SUN#5", "2005-01-01T00:00:00Z", "2032-02-29T00:00:00Z 2060-02-29T00:00:00Z"),
        ("0 0 0 L-1W * *", "2026-05-01T00:00:00Z", "2026-05-29T00:00:00Z 2026-06-29T00:00:00Z"),
        ("0 0 0 1W * *", "2026-07-02T00:00:00Z", "2026-08-03T00:00:00Z 2026-09-01T00:00:00Z"),
        // The classic rule: the 13th, and every Friday. A plus asks for both.
        ("0 0 0 13 * FRI", "2026-05-08T00:00:00Z", "2026-05-13T00:00:00Z 2026-05-15T00:00:00Z"),
        ("0 0 0 13 * +FRI", "2026-05-08T00:00:00Z", "2026-11-13T00:00:00Z 2027-08-13T00:00:00Z"),
        ("@weekly", "2026-05-14T00:00:00Z", "2026-05-17T00:00:00Z 2026-05-24T00:00:00Z"),
    ];
    for (cron, after, want) in table {
        let got: Vec<_> = timetable(cron, "UTC").upcoming(time(after)).take(2).collect();
        let want: Vec<_> = want.split(' ').map(time).collect();
        assert_eq!(got, want, "{cron} after {after}");
    }
}

/// PLT-29: what cannot be understood is refused, each field by its name.
#[test]
fn plt_29_a_broken_pattern_says_which_field_and_why() {
    let table = [
        ("", "has 0 fields"),
        ("* * * *", "has 4 fields, but needs six"),
        ("61 * * * * *", "second: `61` must be a number from 0 to 59"),
        ("0 0 25 * * *", "hour: `25` must be a number from 0 to 23"),
        ("0 0 0 1-32 * *", "day of month: `32` must be"),
        ("0 0 0 * FOO *", "month: `FOO` must be a number from 1 to 12 or a name from JAN to DEC"),
        ("0 0 0 * * MON#6", "day of week: `MON#6` must have a number from 1 to 5"),
        ("0 */0 * * * *", "minute: `0` is not a step from 1 to 59"),
        ("0 0 0 1,15W * *", "a W stands behind one day"),
        ("0 0 0 * * L", "needs a day before its L"),
        ("@fortnightly", "is not a macro; known are @yearly"),
        ("*,5 * * * * *", "`*` stands alone"),
    ];
    for (cron, want) in table {
        let said = Cron::parse(cron).expect_err(cron).join("; ");
        assert!(said.contains(want), "{cron:?}: {said}");
    }
    let said = Cron::parse("60 60 24 0 13 8").unwrap_err();
    assert_eq!(said.len(), 6, "every field is told: {said:?}");
    assert!(Cron::parse(&"1,".repeat(10_000)).is_err());
}

/// PLT-29: a day that never comes is told at once, and searched for at most 400 years. Other tests may hold
/// up one of three tries.
#[test]
fn plt_29_a_date_that_never_comes_is_never() {
    let fastest = (0..3).map(|_| look_for_impossible_dates()).min().unwrap();
    assert!(fastest < Duration::from_millis(500), "{fastest:?}");
    let mut problems = Problems::default();
    assert!(Timetable::parse("0 0 30 2 *", "UTC", &mut problems).is_none());
    assert!(problems.to_string().contains("cron: never comes due"), "{problems}");
}

fn look_for_impossible_dates() -> Duration {
    let begun = monotonic();
    for cron in ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 31W 2 ?", "0 0 0 L-30 2 *", "0 0 30 2 +MON"] {
        let cron = Cron::parse(cron).unwrap();
        assert!(!cron.is_possible(), "{}", cron.text());
        let zone = Zone::find("America/New_York").unwrap();
        assert_eq!(Timetable { cron, zone }.next_after(time("2026-01-01T00:00:00Z")), None);
    }
    begun.elapsed()
}

proptest! {
    /// PLT-21: the moments of a timetable rise, each is found from just before it, and the last
    /// of a span is what a walk through it ends with.
    #[test]
    fn plt_21_a_timetable_only_rises(
        second in field(60), minute in field(60), hour in field(24),
        day in prop::sample::select(vec!["*", "L", "1", "15", "30", "LW"]),
        weekday in prop::sample::select(vec!["*", "MON-FRI", "2#2"]),
        zone in prop::sample::select(vec!["UTC", "America/New_York", "Pacific/Apia", "Australia/Lord_Howe"]),
        start in 0_i64..2_000_000_000,
    ) {
        let table = timetable(&format!("{second} {minute} {hour} {day} * {weekday}"), zone);
        let after = Timestamp::from_micros(start * 1_000_000 + 1);
        let all: Vec<_> = table.upcoming(after).take(50).collect();
        prop_assert_eq!(all.len(), 50);
        prop_assert!(all[0] > after && all.windows(2).all(|two| two[0] < two[1]));
        for at in &all {
            let before = Timestamp::from_micros(at.as_micros() - 1);
            prop_assert_eq!(table.next_after(before), Some(*at));
        }
        prop_assert_eq!(table.last_within(after, all[49]), Some(all[49]));
        prop_assert_eq!(table.last_within(after, all[30].plus(Duration::from_millis(1))), Some(all[30]));
    }
}

fn field(values: u32) -> impl Strategy<Value = String> {
    let step = 1..values - 1;
    prop_oneof![
        Just("*".to_owned()),
        (0..values).prop_map(|n| n.to_string()),
        step.prop_map(|n| format!("*/{n}")),
        (0..values, 0..values).prop_map(|(a, b)| format!("{a}-{b}")),
    ]
}

/// A preview of a thousand moments takes milliseconds; this allows for a busy machine without
/// optimisation.
#[test]
fn a_preview_of_a_thousand_moments_is_quick() {
    for cron in ["0 30 2 * * *", "0 0 9 L * *", "*/5 * * * * *"] {
        let table = timetable(cron, "America/New_York");
        let begun = monotonic();
        assert_eq!(table.upcoming(time("2026-01-01T00:00:00Z")).take(1_000).count(), 1_000);
        assert!(begun.elapsed() < Duration::from_secs(2), "{cron}: {:?}", begun.elapsed());
    }
}
