//! `punctual timer`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "test code")]

use super::process::Place;
use serde_json::json;

/// PLT-19
#[test]
fn plt_19_timers_are_scheduled_listed_cancelled_and_moved() {
    let place = Place::new();
    place.json(&["migrate"]);
    let mut ids = Vec::new();
    for (delay, key) in [("1h", "a"), ("2h", "b"), ("3h", "b")] {
        let made = place.json(&["timer", "schedule", "--topic", "orders", "--delay", delay, "--key", key]);
        ids.push(made["id"].as_i64().unwrap());
    }
    let [first, second, third] = ids[..] else { panic!("three were made") };
    let list = place.json(&["timer", "list", "--topic", "orders", "--status", "waiting"]);
    let listed: Vec<i64> =
        list["items"].as_array().unwrap().iter().map(|t| t["id"].as_i64().unwrap()).collect();
    assert_eq!(listed, ids);
    let dry = place.json(&["timer", "cancel", "--key", "b", "--dry-run"]);
    assert_eq!(dry, json!({"wouldCancel": 2, "ids": [second, third], "more": false, "dryRun": true}));
    let moved = place.json(&["timer", "move", &second.to_string(), "--due-at", "2031-01-01T00:00:00Z"]);
    assert_eq!(moved["moved"], json!(1));
    assert_eq!(place.json(&["timer", "show", &second.to_string()])["dueAt"], json!("2031-01-01T00:00:00Z"));
    assert_eq!(place.run(&["timer", "cancel", "--key", "b"]).code, 2, "nobody is here to answer");
    assert_eq!(place.json(&["timer", "cancel", "--key", "b", "--yes"])["cancelled"], json!(2));
    let late = place.run(&["timer", "cancel", &third.to_string()]);
    assert_eq!(late.code, 1, "{late:?}");
    let said = format!("timer {third} was not cancelled: it is not there, has fired or was cancelled before");
    assert!(late.err.contains(&said), "{late:?}");
    let nothing = place.run(&["timer", "cancel", "--key", "none", "--yes"]);
    assert!(
        nothing.code == 0 && nothing.out.contains("nothing was cancelled: no such timer waits"),
        "{nothing:?}"
    );
    let nothing = place.json(&["timer", "cancel", "--key", "none", "--yes"]);
    assert_eq!((&nothing["cancelled"], &nothing["reason"]), (&json!(0), &json!("no such timer waits")));
    let words = place.run(&["timer", "list"]).out;
    assert!(words.contains("Waiting") && words.contains("Cancelled"), "{words}");
    assert_eq!(place.json(&["timer", "cancel", &first.to_string()])["cancelled"], json!(1));
    assert_eq!(place.json(&["timer", "list", "--status", "waiting"])["items"], json!([]));
    for wrong in [&["timer", "cancel"][..], &["timer", "move", "1"], &["timer", "list", "--status", "late"]] {
        assert_eq!(place.run(wrong).code, 2, "{wrong:?}");
    }
    let said = place.run(&["timer", "schedule", "--topic", "t", "--delay", "soon"]);
    assert!(said.err.contains("--delay: `soon` is not a duration"), "{said:?}");
}
