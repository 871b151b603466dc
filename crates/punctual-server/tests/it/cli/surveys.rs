//! `punctual surveys`, `ingest`, `explain`, `tick`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "test code")]

use super::process::{Place, Run};
use crate::surveys::csi_gr;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::Stdio;

const KIND: [&str; 2] = ["--kind", "service-visit-closed"];

/// A place whose database has the survey published.
fn with_survey() -> Place {
    let place = Place::new();
    place.json(&["migrate"]);
    let file = place.file("csi-gr.json", &csi_gr().to_string());
    let made = place.json(&["surveys", "create", &file]);
    assert_eq!((&made["id"], &made["name"]), (&json!(1), &json!("csi-gr")), "a file's name is the survey's");
    assert_eq!(place.json(&["surveys", "publish", "1"]), json!({"surveyId": 1, "version": 1}));
    place
}

fn item(wip: u32, job_type: &str) -> Value {
    json!({
        "payload": {"wip": wip.to_string(), "dealerId": "1", "jobType": job_type},
        "recipient": {"address": "+964 770 000 0001"},
        "occurredAt": "2026-05-14T05:13:00Z",
    })
}

fn ingest(place: &Place, arguments: &[&str]) -> Value {
    let said = place.run(&[&["ingest", "--json"], &KIND[..], arguments].concat());
    assert_eq!(said.code, 0, "{said:?}");
    serde_json::from_str(&said.out).unwrap()
}

/// TRG-5: of many rows each is taken once, and of a broken one its line is told.
#[test]
fn trg_5_a_file_of_events_is_ingested_once() {
    let place = with_survey();
    let mut text = String::new();
    for n in 0..20_000 {
        writeln!(text, "{}", item(n % 10_000, "GR")).unwrap();
    }
    let file = place.file("events.ndjson", &text);
    let done = ingest(&place, &[&file]);
    let count = |name: &str| done[name].as_u64().unwrap();
    let counts = ["rows", "created", "skipped", "stopped", "failed", "unmatched"].map(count);
    assert_eq!(counts, [20_000, 10_000, 10_000, 0, 0, 0], "half are duplicates: {done}");
    let again = place.run(&[&["ingest", &file, "--batch", "777"], &KIND[..]].concat()).out;
    assert!(again.starts_with("20000 rows: 0 created, 20000 skipped, 0 stopped, "), "{again}");
    assert!(again.contains(" 0 stopped, 0 failed, 0 unmatched, in "), "{again}");
    let results = place.json(&["surveys", "results", "1"]);
    assert_eq!(results["byStatus"]["Pending"], json!(10_000), "{results}");
}

#[test]
fn rows_that_cannot_be_read_fail_alone() {
    let place = with_survey();
    let mut text = format!("{}\n\n{{no\n{}\n{{}}\n7\n", item(1, "GR"), item(2, "BP"));
    for _ in 0..30 {
        text.push_str("not json\n");
    }
    text.push_str(&item(3, "GR").to_string());
    let mut command =
        place.command(&["ingest", "-", "--json", "--batch", "2", "--database", &place.database()]);
    let mut child = command.args(KIND).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let done: Value = serde_json::from_slice(&output.stdout).unwrap();
    let counts = ["rows", "created", "failed", "unmatched"].map(|name| done[name].as_u64().unwrap());
    assert_eq!(counts, [36, 2, 33, 1], "{done}");
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.contains("line 3: is not JSON: key must be a string at column 2\n"), "{err}");
    assert!(err.contains("line 5: recipient"), "{err}");
    assert_eq!((err.lines().count(), done["errors"].as_array().unwrap().len()), (20, 20), "{err}");

    let file = place.file("strict.ndjson", &format!("oops\n{}\n", item(4, "GR")));
    let said = place.run(&[&["ingest", &file, "--strict"], &KIND[..]].concat());
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.ends_with("punctual: 1 of 2 rows failed\n"), "{said:?}");
    assert!(said.out.starts_with("2 rows: 1 created"), "the others are written: {said:?}");
}

/// TRG-5: a file of which nothing is taken is a failure, and CSV is called CSV.
#[test]
fn trg_5_an_ingest_of_nothing_fails() {
    let place = with_survey();
    let file = place.file("wrong.ndjson", "{}\n{}\n");
    let said = place.run(&[&["ingest", &file], &KIND[..]].concat());
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.ends_with("punctual: 2 of 2 rows failed\n"), "{said:?}");
    let file = place.file("events.csv", "address,wip\n+964 1,1\n");
    let said = place.run(&[&["ingest", &file], &KIND[..]].concat());
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("events.csv looks like CSV"), "{said:?}");
    let file = place.file("one.ndjson", &item(1, "GR").to_string());
    let said = place.run(&["ingest", &file, "--kind", "service-visit-close"]);
    let warning = "warning: no published trigger is about events of kind `service-visit-close`; did you \
                   mean `service-visit-closed`?";
    assert!(said.code == 0 && said.err.contains(warning), "{said:?}");
}

#[test]
fn an_ingest_that_cannot_begin_says_why() {
    let place = with_survey();
    let file = place.file("one.ndjson", &item(1, "BP").to_string());
    let unwanted = place.run(&[&["ingest", &file], &KIND[..]].concat()).out;
    assert!(unwanted.contains("no trigger wanted any of them"), "{unwanted}");
    let table: [(&[&str], i32, &str); 4] = [
        (&["ingest", "missing.ndjson", "--kind", "k"], 2, "missing.ndjson cannot be read"),
        (&["ingest", &file, "--kind", ""], 2, "eventKind: must not be empty"),
        (&["ingest", &file, "--kind", "k", "--batch", "0"], 2, "--batch"),
        (&["ingest", &file, "--kind", "k", "--tenant", "gone"], 1, "there is no tenant `gone`"),
    ];
    for (arguments, code, sentence) in table {
        let said = place.run(arguments);
        assert_eq!(said.code, code, "{said:?}");
        assert!(said.err.contains(sentence), "{said:?}");
    }
    let away =
        place.command(&["ingest", &file, "--kind", "k", "--database", "postgres://x@127.0.0.1:1/x"]).said();
    assert_eq!(away.code, 3, "{away:?}");
}

/// PRD-5: what an event would come to is told in words and as the API does. The event is of the past, so its
/// first send is overdue, and its reminder counts from now.
#[test]
fn prd_5_an_event_is_explained_in_words() {
    let place = with_survey();
    let file = place.file("items.json", &json!([item(1, "GR"), item(2, "BP"), {}]).to_string());
    let explain = [&["explain", &file], &KIND[..]].concat();
    let words = place.run(&explain).out;
    for part in [
        "event 1\n  survey 1 version 1, trigger csi-gr-trigger: Created\n",
        "dedup text  templateId=1␟recipient.address=+964 770 000 0001␟candidate.dealerId=1␟candidate.wip=1\n",
        "  Sent\n      planned for 2026-05-14T05:13:00Z\n      by a text of our own, ",
        "\n    send 2      ",
        "event 2\n  survey 1 version 1, trigger csi-gr-trigger: NoMatch\n    skipped because ",
        "event 3\n  Failed: ",
    ] {
        assert!(words.contains(part), "{part:?} is not in:\n{words}");
    }
    assert!(!words.contains("known"), "a command has no channels, and says nothing of them: {words}");
    let told = place.json(&explain);
    let trigger = &told["items"][0]["triggers"][0];
    assert_eq!((&trigger["outcome"], &trigger["surveyId"]), (&json!("Created"), &json!(1)), "{told}");
    let hash = trigger["uniqueHash"].as_str().unwrap();
    assert!(words.contains(&format!("dedup hash  {hash}\n")), "{words}");
    assert_eq!(
        place.json(&["surveys", "results", "1"])["byStatus"]["Pending"],
        json!(0),
        "nothing is written"
    );
    let csv = place.file("items.csv", "address,wip\n+964 1,1\n");
    let said = place.run(&["explain", &csv, "--kind", "k"]);
    assert!(said.code == 2 && said.err.contains("items.csv looks like CSV"), "{said:?}");
    let other = place.run(&["explain", &file, "--kind", "other"]).out;
    assert!(other.contains("NoMatch: no published survey has a trigger for `other`"), "{other}");
}

/// PRD-5: events of a topic, as `POST /api/events` takes them, with the notification that they lead to. The
/// channels are those of the configuration.
#[test]
fn prd_5_an_event_of_a_topic_is_explained_in_words() {
    let place = with_survey();
    let event = json!({"topic": "visits", "kind": "service-visit-closed",
        "entity": {"type": "visit", "id": "1"},
        "payload": {"wip": "1", "dealerId": "1", "jobType": "GR", "phone": "+9647700000001"}});
    let file = place.file("events.json", &json!([event]).to_string());
    let words = place.run(&["explain", &file]).out;
    for part in [
        "event 1\n  survey 1 version 1, trigger csi-gr-trigger: Created\n",
        "\n  notification: NoMatch\n    there is no template for `service-visit-closed`\n",
    ] {
        assert!(words.contains(part), "{part:?} is not in:\n{words}");
    }
    let told = place.json(&["explain", &file]);
    assert_eq!(told["items"][0]["notification"]["outcome"], json!("NoMatch"), "{told}");
    let emitted = place.json(&["emit", "--topic", "visits", "--kind", "other", "--payload", "{}"]);
    let recorded = place.run(&["explain", "--event-id", &emitted["id"].to_string()]).out;
    assert!(recorded.contains("notification: NoMatch"), "{recorded}");
    let none = place.run(&["explain", "--event-id", "99"]);
    assert!(none.code != 0 && none.err.contains("there is no event 99"), "{none:?}");
}

/// PRD-9: what is told beforehand is what a server with the same file would do.
#[test]
fn prd_9_explain_uses_the_links_and_channels_of_the_file() {
    let place = with_survey();
    let file = place.file("items.json", &item(1, "GR").to_string());
    let channel = |key: &str| format!("[channels.\"{key}\"]\nprovider = \"twilio-sms\"\n");
    let trigger = |settings: &str, environment: Option<&str>| {
        let config = place.file("punctual.toml", settings);
        let (database, explain) = (place.database(), [&["explain", &file], &KIND[..]].concat());
        let run = |json: &[&str]| {
            let options = ["--config", &config, "--database", &database];
            let mut command = place.command(&[&explain, &options[..], json].concat());
            environment.map(|url| command.env("PUNCTUAL_SURVEY_URL", url));
            let said = command.said();
            assert_eq!(said.code, 0, "{said:?}");
            said.out
        };
        let told: Value = serde_json::from_str(&run(&["--json"])).unwrap();
        (told["items"][0]["triggers"][0].clone(), run(&[]))
    };
    let used = trigger("", None).0["channel"].as_str().unwrap().to_owned();
    let public = "[public]\nurl = \"https://notify.example/\"\n";
    let (known, words) = trigger(&format!("{public}{}", channel(&used)), None);
    assert_eq!(known["channelKnown"], true, "its secrets are not needed: {known}");
    assert!(words.contains("https://notify.example/s/") && !words.contains("does not configure"), "{words}");
    let (unknown, words) = trigger(&channel("sms:other"), Some("https://other.example/{publicId}"));
    assert_eq!(unknown["channelKnown"], false, "{unknown}");
    assert!(
        words.contains("https://other.example/") && words.contains("the file does not configure"),
        "{words}"
    );
}

#[test]
fn surveys_are_made_shown_and_published() {
    let place = with_survey();
    let list = place.run(&["surveys", "list"]).out;
    assert!(list.contains("csi-gr") && list.starts_with("id  name"), "{list}");
    let words = place.run(&["surveys", "show", "1"]).out;
    assert!(words.starts_with("survey 1 (csi-gr) is published as version 1\n{"), "{words}");
    assert_eq!(place.json(&["surveys", "show", "1"])["draft"], csi_gr());
    let results = place.run(&["surveys", "results", "1"]).out;
    assert!(results.starts_with("0 invitations, 0 answered (-), NPS -, CSAT -\nquestion"), "{results}");
    let broken = place.file("broken.json", "{\"title\": 1}");
    let table: [(&[&str], i32, &str); 6] = [
        (&["surveys", "create", &broken], 2, "definition.questions"),
        (&["surveys", "create", "-"], 2, "--name"),
        (&["surveys", "create", "missing.json"], 2, "missing.json cannot be read"),
        (&["surveys", "show", "9"], 1, "there is no survey 9"),
        (&["surveys", "publish", "9"], 1, "there is no survey 9"),
        (&["surveys", "results", "9"], 1, "there is no survey 9"),
    ];
    for (arguments, code, sentence) in table {
        let said = place.run(arguments);
        assert_eq!(said.code, code, "{said:?}");
        assert!(said.err.contains(sentence), "{said:?}");
    }
}

/// TRG-11: a tick is the server's, which has channels; without a server or a key nothing happens.
#[test]
fn trg_11_a_tick_asks_the_server() {
    let place = with_survey();
    let file = place.file("one.ndjson", &item(1, "GR").to_string());
    let away = place.run(&["tick", "--url", "http://127.0.0.1:1"]);
    assert_eq!(away.code, 3, "{away:?}");
    assert!(away.err.contains("the server at 127.0.0.1:1 cannot be reached"), "{away:?}");
    let key = "k".repeat(40);
    let clock = ["serve", "--listen", "127.0.0.1:0", "--clock", "manual", "--database"];
    let serving =
        place.command(&[&clock[..], &[&place.database()]].concat()).env("PUNCTUAL_ROOT_KEY", &key).serve();
    let bearer = format!("authorization: Bearer {key}\r\n");
    serving.post("/dev/clock", &bearer, &json!({"set": "2026-05-14T05:14:00Z", "run": false}));
    assert_eq!(ingest(&place, &[&file])["created"], json!(1));
    let tick = |more: &[&str], key: &str| {
        let mut command = place.command(&[&["tick"], more].concat());
        command.env("PUNCTUAL_LISTEN", serving.address()).env("PUNCTUAL_KEY", key).said()
    };
    let refused = tick(&[], "wrong");
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("the server refused (401)"), "{refused:?}");
    let said = tick(&["--batch", "10", "--json"], &key);
    assert_eq!(said.code, 0, "{said:?}");
    let told: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(told, json!({"sent": 1, "failed": 0, "expired": 0, "dispatched": 0}));
    assert_eq!(tick(&[], &key).out, "0 sent, 0 failed, 0 expired, 0 dispatched\n");
}
