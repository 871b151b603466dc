//! PLT-21: local times that do not exist, or exist twice, in every zone.

use crate::bench::seconds;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use punctual::base::zone::Zone;
use punctual::jobs::rules::timetable::Timetable;
use punctual::{Problems, Timestamp};
use serde_json::Value;
use std::collections::BTreeSet;

/// PLT-21: five hundred local times, a third of them in gaps and overlaps.
#[test]
fn plt_21_the_table_of_local_times_passes() {
    let table: Value = serde_json::from_str(include_str!("../data/dst.json")).unwrap();
    let cases = table["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 500);
    for case in cases {
        let zone = Zone::find(case["zone"].as_str().unwrap()).unwrap();
        let local: DateTime = case["local"].as_str().unwrap().parse().unwrap();
        let want = Timestamp::parse(case["firstUtc"].as_str().unwrap()).unwrap();
        assert_eq!(zone.moment(local), Some(want), "{case}");
        // The same time of day as a daily job, seen from the day before.
        let daily = daily(local.time(), zone.name());
        let got: Vec<_> = daily.upcoming(want.minus(seconds(1))).take(1).collect();
        assert_eq!(got, [want], "as a job: {case}");
    }
}

fn daily(time: Time, zone: &str) -> Timetable {
    let cron = format!("{} {} {} * * *", time.second(), time.minute(), time.hour());
    Timetable::parse(&cron, zone, &mut Problems::default()).unwrap()
}

/// A change of the clocks: when, and the local times before and after it.
struct Change {
    at: Timestamp,
    before: DateTime,
    after: DateTime,
}

const SINCE: &str = "1970-01-01T00:00:00Z";
const UNTIL: &str = "2040-01-01T00:00:00Z";

fn changes(zone: &TimeZone) -> Vec<Change> {
    let second = jiff::SignedDuration::from_secs(1);
    let until: jiff::Timestamp = UNTIL.parse().unwrap();
    let starts = zone.following(SINCE.parse().unwrap()).map(|t| t.timestamp());
    let change = |at: jiff::Timestamp| {
        let before = zone.to_offset(at.checked_sub(second).unwrap()).to_datetime(at);
        let after = zone.to_offset(at).to_datetime(at);
        Change { at: Timestamp::from_micros(at.as_microsecond()), before, after }
    };
    starts.take_while(|at| *at < until).map(change).filter(|c| c.before != c.after).collect()
}

/// A daily job at a local time in the gap or overlap fires exactly when [`Zone::moment`] says,
/// once for every date; the dates around are looked at, too.
fn check(name: &str, zone: &Zone, change: &Change) {
    let (low, high) = (change.before.min(change.after), change.before.max(change.after));
    let middle = low.date();
    let half =
        low.checked_add(jiff::SignedDuration::from_secs(low.duration_until(high).as_secs() / 2)).unwrap();
    for local in [low, half, high.checked_sub(jiff::SignedDuration::from_secs(1)).unwrap()] {
        let table = daily(local.time(), name);
        let around = |days: i64| -> Date { middle.checked_add(jiff::Span::new().days(days)).unwrap() };
        let all: BTreeSet<Timestamp> =
            (-4..=4).filter_map(|days| zone.moment(around(days).to_datetime(local.time()))).collect();
        let (from, to) = (change.at.minus(seconds(2 * 86_400)), change.at.plus(seconds(2 * 86_400)));
        let want: Vec<Timestamp> = all.into_iter().filter(|at| *at > from && *at <= to).collect();
        let got: Vec<Timestamp> = table.upcoming(from).take_while(|at| *at <= to).collect();
        assert_eq!(got, want, "{name}: daily at {} around {}", local.time(), change.at);
        let due = zone.moment(local).unwrap();
        assert_eq!(got.iter().filter(|at| **at == due).count(), 1, "{name}: {local} is due once");
        if change.after > change.before {
            assert_eq!(due, change.at, "{name}: {local} does not exist, so it is due right after the gap");
        }
    }
}

fn check_zone(name: &str) -> usize {
    let zone = Zone::find(name).unwrap();
    let known = TimeZoneDatabase::bundled().get(name).unwrap();
    let changes = changes(&known);
    changes.iter().for_each(|change| check(name, &zone, change));
    changes.len()
}

/// PLT-21: a daily job at a time that is skipped or repeated runs once, in zones with every kind
/// of oddity: half hours, midnight gaps, skipped days.
#[test]
fn plt_21_odd_zones_run_a_daily_job_once() {
    for name in
        ["Australia/Lord_Howe", "Asia/Amman", "Pacific/Apia", "Pacific/Kwajalein", "Africa/Casablanca"]
    {
        assert!(check_zone(name) > 0, "{name} has changes");
    }
}

/// PLT-21: the same for every gap and overlap of every zone since 1970.
#[test]
#[ignore = "slow"]
fn plt_21_every_gap_and_overlap_runs_a_daily_job_once() {
    let count: usize = Zone::all().iter().map(|name| check_zone(name)).sum();
    assert!(count > 20_000, "only {count} changes of clocks");
}

/// PLT-21: a calendar day that a zone skipped does not stop a job.
#[test]
fn plt_21_a_skipped_day_stops_no_job() {
    let table = daily(Time::constant(8, 0, 0, 0), "Pacific/Apia");
    let got: Vec<String> = table
        .upcoming(Timestamp::parse("2011-12-29T00:00:00Z").unwrap())
        .take(4)
        .map(|at| table.zone.show(at))
        .collect();
    // The 30th of December 2011 never was: its run comes right after the gap.
    let want = ["2011-12-29T08:00:00-10", "2011-12-31T00:00:00+14", "2011-12-31T08:00:00+14"];
    for (got, want) in got.iter().zip(want) {
        assert!(got.starts_with(want), "{got} is not {want}");
    }
}

/// PLT-21: what goes on through the day goes on through a repeated hour; a time of day does not.
#[test]
fn plt_21_a_repeated_hour_repeats_intervals_only() {
    let fires = |cron: &str| {
        let table = Timetable::parse(cron, "Europe/Berlin", &mut Problems::default()).unwrap();
        let end = Timestamp::parse("2026-10-25T02:00:00Z").unwrap();
        let start = Timestamp::parse("2026-10-24T23:59:59Z").unwrap();
        table.upcoming(start).take_while(|at| *at <= end).map(|at| at.to_string()).collect::<Vec<_>>()
    };
    let z = |times: &[&str]| times.iter().map(|t| format!("2026-10-25T{t}:00Z")).collect::<Vec<_>>();
    assert_eq!(fires("0 30 2 * * *"), z(&["00:30"]), "02:30 exists twice, the first counts");
    assert_eq!(fires("0 */30 2 * * *"), z(&["00:00", "00:30", "01:00", "01:30"]));
    assert_eq!(fires("0 0 * * * *"), z(&["00:00", "01:00", "02:00"]), "every hour is every hour");
}
