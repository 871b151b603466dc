//! `punctual lease` and `punctual inbox`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "test code")]

use super::process::{Place, Run};
use punctual::queue::store::inbox::{InboxBeginOutcome, ProcessingOutcome};
use punctual::{ClockMode, Engine, InboxDelivery, Store, Tenant};
use serde_json::json;
use std::time::Duration;

fn migrated() -> Place {
    let place = Place::new();
    place.json(&["migrate"]);
    place
}

/// PLT-10
#[test]
fn plt_10_a_lease_is_acquired_listed_and_released() {
    let place = migrated();
    assert_eq!(place.run(&["lease", "list"]).out, "no leases\n");
    let held = place.json(&["lease", "acquire", "nightly", "--owner", "a", "--for", "1h"]);
    assert_eq!((&held["fencingToken"], &held["holder"]), (&json!(1), &json!("a")));
    let second = place.run(&["lease", "acquire", "nightly", "--owner", "b"]);
    assert_eq!(second.code, 1);
    assert!(second.err.contains("the lease `nightly` is held by a until"), "{}", second.err);
    let renewed = place.json(&["lease", "renew", "nightly", "--owner", "a", "--token", "1", "--for", "2h"]);
    assert!(renewed["expiresAt"].as_str() > held["expiresAt"].as_str());
    let listed = place.run(&["lease", "list"]).out;
    assert!(listed.contains("nightly  a"), "{listed}");
    let stale = place.run(&["lease", "release", "nightly", "--owner", "a", "--token", "2"]);
    assert!(stale.code == 1 && stale.err.contains("does not hold the lease"), "{stale:?}");
    let released = place.json(&["lease", "release", "nightly", "--owner", "a", "--token", "1"]);
    assert_eq!(released, json!({"released": true}));
    assert_eq!(place.json(&["lease", "list"])["items"][0]["held"], json!(false));
}

/// PLT-11: with its token, its own exit code, and free for the next one afterwards.
#[test]
fn plt_11_a_command_runs_under_a_lease() {
    let place = migrated();
    let database = place.database();
    let run = |command: &[&str]| {
        let before = ["lease", "run", "nightly", "--held-code", "75", "--database", &database, "--"];
        place.command(&[&before, command].concat()).said()
    };
    let said = run(&["sh", "-c", "echo token $PUNCTUAL_FENCING_TOKEN; exit 7"]);
    assert_eq!((said.code, said.out.as_str()), (7, "token 1\n"), "{}", said.err);
    assert_eq!(run(&["true"]).code, 0, "it was given back");
    assert_eq!(run(&["/no/such/program"]).code, 1);
    place.json(&["lease", "acquire", "nightly", "--owner", "somebody"]);
    let said = run(&["echo", "should not run"]);
    assert_eq!((said.code, said.out.as_str()), (75, ""));
    assert!(said.err.contains("is held by somebody"), "{}", said.err);
}

/// PLT-11: a command whose lease is taken away is killed long before it is through.
#[test]
fn plt_11_a_command_is_killed_when_its_lease_is_lost() {
    let place = migrated();
    let database = place.database();
    let started = std::time::Instant::now();
    let child = place
        .command(&["lease", "run", "nightly", "--for", "1s", "--database", &database, "--", "sleep", "60"])
        .spawn()
        .unwrap();
    let item = || place.json(&["lease", "list"])["items"][0].clone();
    let held = loop {
        let item = item();
        if item["held"] == json!(true) {
            break item;
        }
        assert!(started.elapsed().as_secs() < 20, "it should hold the lease by now");
    };
    let token = held["fencingToken"].to_string();
    let owner = held["holder"].as_str().unwrap();
    place.json(&["lease", "release", "nightly", "--owner", owner, "--token", &token]);
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && err.contains("so the command was killed"), "{err}");
    assert!(started.elapsed().as_secs() < 30, "it did not wait for the command");
}

/// PLT-18, PRD-9: the doctor judges by the same length as the server, from the file or the environment.
#[tokio::test(flavor = "multi_thread")]
async fn plt_18_the_doctor_obeys_the_length_after_which_a_message_is_stuck() {
    let place = migrated();
    let store = Store::open(&place.database(), 2).unwrap();
    let now = store.now().await.unwrap();
    store.use_clock(ClockMode::Manual, false).await.unwrap();
    store.set_clock(now.minus(Duration::from_secs(30 * 60))).await.unwrap();
    let delivery = InboxDelivery { lease: Duration::from_secs(1), ..InboxDelivery::new("shop", "1") };
    store.begin_inbox(Tenant::DEFAULT, delivery).await.unwrap();
    let file = place.file("punctual.toml", "inbox_stuck_after = \"10m\"\n");
    let usual = place.run(&["doctor"]).out;
    assert!(usual.contains("1 received message in progress"), "{usual}");
    let obeyed = place.run(&["doctor", "--config", &file]).out;
    assert!(obeyed.contains("1 received message long past its lease"), "{obeyed}");
    let mut longer = place.command(&["doctor", "--config", &file, "--database", &place.database()]);
    let longer = longer.env("PUNCTUAL_INBOX_STUCK_AFTER", "1h").said().out;
    assert!(longer.contains("1 received message in progress"), "the environment goes before: {longer}");
    let mut wrong = place.command(&["doctor", "--database", &place.database()]);
    let wrong = wrong.env("PUNCTUAL_INBOX_STUCK_AFTER", "soon").said();
    assert!(wrong.code == 2 && wrong.err.contains("`soon` is not a duration"), "{wrong:?}");
}

/// PLT-18
#[tokio::test(flavor = "multi_thread")]
async fn plt_18_the_inbox_is_listed_and_replayed() {
    let place = migrated();
    let engine = Engine::builder(place.database()).open().await.unwrap();
    for id in ["1", "2"] {
        let begun =
            engine.store().begin_inbox(Tenant::DEFAULT, InboxDelivery::new("shop", id)).await.unwrap();
        let InboxBeginOutcome::Process { ticket, .. } = begun else { panic!("{begun:?}") };
        let mark = ProcessingOutcome::Dead { error: "no".into() };
        engine.store().mark_inbox(Tenant::DEFAULT, ticket, mark).await.unwrap();
    }
    let listed = place.json(&["inbox", "list", "--source", "shop", "--status", "dead"]);
    assert_eq!(listed["items"].as_array().unwrap().len(), 2);
    let words = place.run(&["inbox", "list"]).out;
    assert!(words.contains("id  source  message  status"), "{words}");
    assert_eq!(place.run(&["inbox", "replay"]).code, 2, "it must be said which");
    assert_eq!(place.run(&["inbox", "replay", "--all"]).code, 2, "nobody is there to be asked");
    let dry = place.json(&["inbox", "replay", "--all", "--dry-run"]);
    assert_eq!((&dry["wouldReplay"], &dry["dryRun"]), (&json!(2), &json!(true)));
    let nothing = place.json(&["inbox", "replay", "--source", "none", "--yes"]);
    let said = (&json!(0), &json!("there is no such dead message"));
    assert_eq!((&nothing["replayed"], &nothing["reason"]), said, "{nothing}");
    let missing = place.run(&["inbox", "replay", "--ids", "999", "--yes"]);
    assert_eq!(missing.code, 1, "{missing:?}");
    assert!(
        missing.err.contains("inbox message 999 was not replayed: it is not there, or not dead"),
        "{missing:?}"
    );
    let id = listed["items"][0]["id"].to_string();
    assert_eq!(place.json(&["inbox", "replay", "--ids", &id, "--yes"])["replayed"], json!(1));
    let doctor = place.run(&["doctor"]).out;
    assert!(doctor.contains("1 dead; see `punctual inbox list --status dead`"), "{doctor}");
}
