//! Commands that work on the database.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "test code")]

use super::process::{Place, Run};
use punctual::{Engine, HandlerError, Work};
use serde_json::json;

/// PLT-24: the schema can be printed, and what is printed is what is applied.
#[test]
fn plt_24_the_schema_is_printed_without_touching_anything() {
    let place = Place::new();
    for (url, word) in
        [(place.database(), "punctual_work"), ("postgres://x@127.0.0.1:1/x".into(), "punctual.work")]
    {
        let said = place.command(&["migrate", "--print", "--database", &url]).said();
        assert_eq!((said.code, said.err.as_str()), (0, ""));
        assert!(said.out.contains(&format!("create table {word}")), "{}", said.out);
    }
    assert_eq!(place.run(&["status"]).code, 3, "printing makes no database");
}

/// PLT-24: any number of instances may migrate at once; a second time changes nothing.
#[test]
fn plt_24_migrations_may_run_at_once() {
    let place = Place::new();
    let database = place.database();
    let start = |_| place.command(&["migrate", "--json", "--database", &database]).spawn().unwrap();
    let all: Vec<_> = (0..6).map(start).collect();
    let outputs: Vec<_> = all.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
    assert!(outputs.iter().all(|o| o.status.success()), "{outputs:?}");
    let changed = outputs.iter().filter(|o| String::from_utf8_lossy(&o.stdout).contains("\"changed\":true"));
    assert_eq!(changed.count(), 1, "{outputs:?}");
    assert_eq!(place.json(&["migrate"])["changed"], json!(false));
}

/// PLT-27: a database of single components is used as it is, and gets more by name.
#[test]
fn plt_27_a_database_is_migrated_for_single_components() {
    let place = Place::new();
    let migrated = place.json(&["migrate", "--components", "leases"]);
    assert_eq!(migrated["added"], json!(["leases"]));
    assert_eq!(place.json(&["migrate", "--components", "leases"])["changed"], json!(false));
    let checks = place.json(&["doctor"]);
    assert_eq!(checks["state"], json!("ok"), "{checks}");
    assert!(place.run(&["doctor"]).out.contains("with only the components leases"));
    let said = place.run(&["emit", "--topic", "t", "--kind", "k"]);
    assert_eq!(said.code, 4, "{said:?}");
    assert!(said.err.contains("run `punctual migrate --components outbox`"), "{said:?}");
    let grown = place.run(&["migrate", "--components", "jobs"]);
    assert!(grown.out.contains("has the components outbox, jobs now, too"), "{grown:?}");
    assert!(place.json(&["emit", "--topic", "t", "--kind", "k"])["id"].is_i64());
    let wrong = place.run(&["migrate", "--components", "lease"]);
    assert_eq!(wrong.code, 2, "{wrong:?}");
    assert!(wrong.err.contains("must be one of access, outbox, inbox, leases, jobs, flows"), "{wrong:?}");
    let printed = place.run(&["migrate", "--print", "--components", "leases"]).out;
    assert!(printed.contains("punctual_lease") && !printed.contains("punctual_work"), "{printed}");
}

#[test]
fn what_is_emitted_is_seen_in_status() {
    let place = Place::new();
    place.json(&["migrate"]);
    let file = place.file("payload.json", "{\"order\": 7}");
    let emit = ["emit", "--topic", "orders", "--kind", "order.placed"];
    let more: [&[&str]; 4] = [
        &["--payload", "{\"order\":6}"],
        &["--payload", &format!("@{file}")],
        &["--key", "k"],
        &["--delay", "1h"],
    ];
    for arguments in more {
        assert!(place.json(&[&emit, arguments].concat())["id"].is_i64());
    }
    let twice = [&emit[..], &["--id", "a-1"]].concat();
    assert_eq!(place.json(&twice)["duplicate"], json!(false));
    assert_eq!(place.json(&twice)["duplicate"], json!(true));
    let status = place.json(&["status"]);
    assert_eq!(
        (&status["queues"][0]["topic"], &status["queues"][0]["waiting"]),
        (&json!("orders"), &json!(5))
    );
    assert_eq!(status["queues"][0]["due"], json!(4));
    let words = place.run(&["status"]).out;
    assert!(words.contains("queue   waiting  due") && words.contains("orders"), "{words}");
}

/// PLT-29: what is wrong is said, and nothing is written.
#[test]
fn plt_29_a_wrong_message_is_refused() {
    let place = Place::new();
    place.json(&["migrate"]);
    let table: [(&[&str], &str); 5] = [
        (&["--topic", "a/b", "--kind", "k"], "topic: must not contain `/`"),
        (&["--topic", "t", "--kind", "k", "--payload", "{no"], "payload: is not JSON"),
        (
            &["--topic", "t", "--kind", "k", "--due-at", "tomorrow"],
            "--due-at: `tomorrow` is not an RFC 3339 time",
        ),
        (&["--topic", "t", "--kind", "k", "--delay", "soon"], "--delay: `soon` is not a duration"),
        (&["--topic", "t", "--kind", "k", "--payload", "@missing"], "--payload: missing cannot be read"),
    ];
    for (arguments, sentence) in table {
        let said = place.run(&[&["emit"], arguments].concat());
        assert_eq!(said.code, 2, "{arguments:?}: {said:?}");
        assert!(said.err.contains(sentence), "{said:?}");
    }
    assert_eq!(place.json(&["status"])["queues"], json!([]));
    let said = place.run(&["emit", "--topic", "t", "--kind", "k", "--tenant", "nobody"]);
    assert_eq!(said.code, 1, "{said:?}");
}

/// PLT-25: a fresh database is found to be well; one without a schema is not.
#[test]
fn plt_25_the_doctor_looks_at_a_fresh_database() {
    let place = Place::new();
    assert_eq!(place.run(&["doctor"]).code, 3);
    let gone = ["doctor", "--database", "postgres://nobody@127.0.0.1:1/nothing"];
    let said = place.command(&gone).said();
    assert_eq!(said.code, 3, "{said:?}");
    assert!(said.out.starts_with("bad   database"), "{said:?}");
    place.file("test.db", "");
    let said = place.run(&["doctor"]);
    assert_eq!(said.code, 4, "{said:?}");
    assert!(said.out.contains("bad   schema") && said.out.contains("run `punctual migrate`"), "{said:?}");
    place.json(&["migrate"]);
    let checks = place.json(&["doctor"]);
    assert_eq!(checks["state"], json!("ok"), "{checks}");
    assert!(checks["checks"].as_array().unwrap().len() >= 7, "{checks}");
}

#[test]
fn queues_are_paused_resumed_and_set() {
    let place = Place::new();
    place.json(&["migrate"]);
    let missing = place.run(&["queues", "pause", "orders"]);
    assert_eq!(missing.code, 1, "{missing:?}");
    assert!(
        missing.err.contains("there is no queue `orders`; `punctual queues set` makes one"),
        "{missing:?}"
    );
    place.json(&["queues", "set", "orders", "--max-attempts", "3"]);
    let misspelt = place.run(&["queues", "resume", "order"]);
    assert!(misspelt.err.contains("there is no queue `order`; did you mean `orders`?"), "{misspelt:?}");
    assert_eq!(place.json(&["queues", "pause", "orders"])["paused"], json!(true));
    let set = place.json(&["queues", "set", "orders", "--max-attempts", "3", "--backoff", "5m,1h"]);
    assert_eq!((&set["maxAttempts"], &set["backoff"]), (&json!(3), &json!(["5m", "1h"])));
    assert_eq!(set["paused"], json!(true), "what is not named stays");
    assert_eq!(place.json(&["queues", "resume", "orders"])["paused"], json!(false));
    let back = place.json(&["queues", "set", "orders", "--max-attempts", "default"]);
    assert_eq!(back["maxAttempts"], json!(10));
    assert_eq!(place.run(&["queues", "set", "orders", "--backoff", "soon"]).code, 2);
    assert_eq!(place.run(&["queues", "set", "orders"]).code, 2);
}

#[test]
fn keys_and_tenants_are_made_listed_and_revoked() {
    let place = Place::new();
    place.json(&["migrate"]);
    place.json(&["tenants", "create", "acme", "--time-zone", "Europe/Berlin"]);
    assert_eq!(place.run(&["tenants", "create", "acme"]).code, 1);
    assert_eq!(place.run(&["tenants", "create", "Acme!"]).code, 2);
    assert_eq!(place.json(&["tenants", "list"])["items"].as_array().unwrap().len(), 2);
    let key =
        place.json(&["keys", "create", "ci", "--role", "viewer", "--tenant", "acme", "--expires-in", "90d"]);
    assert!(key["key"].as_str().unwrap().starts_with("pk_"));
    let listed = place.json(&["keys", "list", "--tenant", "acme"]);
    assert_eq!(listed["items"][0]["name"], json!("ci"));
    assert!(listed["items"][0]["key"].is_null(), "a key is shown once");
    assert_eq!(place.run(&["keys", "create", "x", "--role", "boss"]).code, 2);
    let id = key["id"].to_string();
    assert_eq!(place.run(&["keys", "revoke", &id]).code, 1, "another tenant's");
    assert_eq!(place.json(&["keys", "revoke", &id, "--tenant", "acme"])["revoked"], key["id"]);
    assert_eq!(place.run(&["keys", "revoke", &id, "--tenant", "acme"]).code, 1);
}

/// Makes dead letters by handling messages with something that never works.
fn let_die(place: &Place, count: usize) {
    let_die_of(place, count, "the mailbox does not exist");
}

fn let_die_of(place: &Place, count: usize, error: &'static str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let broken = move |_: Work| async move { Err(HandlerError::fail(error)) };
    runtime.block_on(async {
        let engine = Engine::builder(place.database()).handler("mail", broken).open().await.unwrap();
        for n in 0..count {
            let message = punctual::NewMessage::new("mail", "mail.sent", n.to_string());
            engine.enqueue_one(punctual::Tenant::DEFAULT, message).await.unwrap();
        }
        assert_eq!(engine.step().await.unwrap().handler_failures, count);
    });
}

/// NTF-20
#[test]
fn ntf_20_the_outbox_is_listed_by_status() {
    let place = Place::new();
    let_die(&place, 2);
    let listed = place.json(&["outbox", "--status", "Failed", "--topic", "mail", "--tenant", "default"]);
    assert_eq!(listed["items"].as_array().unwrap().len(), 2);
    let newest = &listed["items"][0];
    assert_eq!((&newest["status"], &newest["attempts"]), (&json!("Failed"), &json!(1)));
    assert_eq!(newest["lastError"], json!("the mailbox does not exist"));
    assert_eq!(place.json(&["outbox", "--status", "Published"])["items"], json!([]));
    let said = place.run(&["outbox", "--limit", "1"]);
    assert!(said.code == 0 && said.out.contains("the mailbox does not exist"), "{said:?}");
    assert_eq!(place.run(&["outbox", "--status", "Lost"]).code, 2);
    assert_eq!(place.run(&["outbox", "--tenant", "nobody"]).code, 1);
}

#[test]
fn dead_letters_are_listed_shown_replayed_and_purged() {
    let place = Place::new();
    let_die(&place, 3);
    let listed = place.json(&["dead-letters", "list", "--topic", "mail"]);
    assert_eq!(listed["items"].as_array().unwrap().len(), 3);
    assert_eq!(listed["items"][0]["error"], json!("the mailbox does not exist"));
    let id = listed["items"][0]["id"].to_string();
    assert_eq!(place.json(&["dead-letters", "show", &id])["attempts"][0]["outcome"], json!("failed"));
    assert_eq!(place.run(&["dead-letters", "show", "999"]).code, 1);

    // Nobody sits at a terminal here, so nothing happens without --yes, and the count is said.
    let refused = place.run(&["dead-letters", "replay", "--topic", "mail"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.err.contains("3 dead letters will be replayed"), "{refused:?}");
    assert_eq!(place.run(&["dead-letters", "purge", "--yes"]).code, 2, "say which");
    let dry = place.json(&["dead-letters", "replay", "--topic", "mail", "--dry-run"]);
    assert_eq!((&dry["wouldReplay"], &dry["dryRun"]), (&json!(3), &json!(true)));
    assert_eq!(place.json(&["status"])["deadLetters"], json!(3));
    let nothing = place.run(&["dead-letters", "replay", "--topic", "male", "--yes"]);
    let said = "nothing was replayed: there is no such dead letter";
    assert!(nothing.code == 0 && nothing.out.contains(said), "{nothing:?}");
    let nothing = place.json(&["dead-letters", "purge", "--topic", "male", "--yes"]);
    let said = json!({"purged": 0, "ids": [], "dryRun": false, "reason": "there is no such dead letter"});
    assert_eq!(nothing, said, "JSON has the reason, too");
    let missing = place.run(&["dead-letters", "purge", "--ids", "998,999", "--yes"]);
    assert_eq!(missing.code, 1, "{missing:?}");
    let said = "dead letters 998, 999 were not deleted for good: there is no such dead letter";
    assert!(missing.err.contains(said), "{missing:?}");

    assert_eq!(place.json(&["dead-letters", "replay", "--ids", &id, "--yes"])["replayed"], json!(1));
    assert_eq!(place.json(&["dead-letters", "purge", "--all", "--yes"])["purged"], json!(2));
    let status = place.json(&["status"]);
    assert_eq!((&status["deadLetters"], &status["queues"][0]["due"]), (&json!(0), &json!(1)));
}

/// PRD-14: control characters in an error do not reach the terminal of `dead-letters show`.
#[test]
fn prd_14_a_dead_letter_sends_no_controls_to_the_terminal() {
    let place = Place::new();
    let_die_of(&place, 1, "gone\u{1b}]0;owned\u{7}\u{9b}31m\nagain");
    let id = place.json(&["dead-letters", "list"])["items"][0]["id"].to_string();
    let shown = place.run(&["dead-letters", "show", &id]).out;
    assert!(shown.contains("gone ]0;owned  31m again"), "{shown:?}");
    assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{shown:?}");
}

#[test]
fn a_wrong_command_line_is_refused_also_in_json() {
    let place = Place::new();
    for arguments in
        [&["emit"][..], &["nonsense"], &["serve", "--role", "boss"], &["bench", "queue", "--rounds", "0"]]
    {
        let said = place.command(arguments).said();
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{arguments:?}: {said:?}");
        let said = place.command(&[arguments, &["--json"]].concat()).said();
        let error: serde_json::Value = serde_json::from_str(&said.err).unwrap();
        assert_eq!((said.code, &error["error"]["code"]), (2, &json!(2)), "{arguments:?}");
    }
    assert_eq!(place.command(&["--help"]).said().code, 0);
    assert!(place.command(&["--help"]).said().out.contains("Exit codes:"));
}

/// PLT-21: jobs from a shell.
#[test]
fn plt_21_jobs_from_the_command_line() {
    let place = Place::new();
    place.json(&["migrate"]);
    let put =
        ["job", "put", "nightly", "--topic", "reports", "--cron", "0 30 6 * * *", "--zone", "Europe/Berlin"];
    let job = place.json(&put);
    assert_eq!(
        (&job["name"], &job["timeZone"], &job["version"]),
        (&json!("nightly"), &json!("Europe/Berlin"), &json!(1))
    );
    assert_eq!(place.json(&put)["version"], json!(1), "the same again changes nothing");
    assert_eq!(place.json(&["job", "list"])["items"][0]["nextDueTime"], job["nextDueTime"]);
    let next = place.json(&["job", "next", "nightly", "--count", "2"]);
    assert_eq!(next["items"][0], job["nextDueTime"]);
    let run = place.json(&["job", "trigger", "nightly"])["runId"].clone();
    let runs = place.json(&["job", "runs", "nightly"]);
    assert_eq!((&runs["items"][0]["id"], &runs["items"][0]["status"]), (&run, &json!("Pending")));
    assert_eq!(place.json(&["job", "disable", "nightly"])["enabled"], json!(false));
    assert_eq!(place.json(&["job", "enable", "nightly"])["enabled"], json!(true));
    for words in [&["job", "list"][..], &["job", "runs", "nightly"]] {
        let said = place.run(words);
        assert!(said.code == 0 && said.out.lines().count() == 2, "{said:?}");
    }
    assert_eq!(place.run(&["job", "delete", "nightly"]).code, 2, "nobody is here to answer");
    assert_eq!(place.json(&["job", "delete", "nightly", "--yes"])["deletedRuns"], json!(1));
    for words in
        [&["job", "runs", "nightly"][..], &["job", "trigger", "nightly"], &["job", "next", "nightly"]]
    {
        let said = place.run(words);
        assert!(said.code == 1 && said.err.contains("there is no job `nightly`"), "{said:?}");
    }
}

/// PLT-21: a pattern is previewed without any database; a broken one is told everything.
#[test]
fn plt_21_a_pattern_is_previewed_without_a_database() {
    let place = Place::new();
    let next = ["job", "next", "--cron", "30 2 * * *", "--zone", "Europe/Berlin", "--count", "2", "--from"];
    let said = place.run(&[&next[..], &["2026-03-28T12:00:00Z"]].concat());
    let want = "2026-03-29T01:00:00Z  2026-03-29T03:00:00+02 Europe/Berlin\n\
                2026-03-30T00:30:00Z  2026-03-30T02:30:00+02 Europe/Berlin\n";
    assert_eq!((said.code, said.out.as_str()), (0, want), "{}", said.err);
    let said = place.run(&["job", "next", "--cron", "61 2 * * MOON", "--zone", "Mars/Base"]);
    assert_eq!(said.code, 2);
    for part in ["minute: `61`", "day of week: `MOON`", "Mars/Base"] {
        assert!(said.err.contains(part), "{part} in {}", said.err);
    }
    assert_eq!(place.run(&["job", "list"]).code, 3, "a preview makes no database");
}
