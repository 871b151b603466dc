//! Attempts that fail: each has a log line, and a wait that a handler asks for uses up none. Also the log
//! line about a channel that is missing.

use crate::bench::{Bench, TENANT, abandon, fail, seconds};
use crate::notification;
use punctual::base::{limits, random};
use punctual::queue::rules::attempt::Retry;
use punctual::queue::store::dead_letters::DeadLetterFilter;
use punctual::queue::store::settle::SettleAction;
use punctual::{ClockMode, Engine, Work};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Mutex, Once};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};

cases![
    plt_4_each_failed_attempt_and_each_dead_letter_is_logged,
    plt_4_a_panic_of_a_handler_is_logged,
    plt_4_a_dead_letter_of_a_crash_is_logged,
    plt_4_a_wait_that_is_asked_for_uses_up_no_attempt,
    plt_4_waits_without_end_are_attempts,
    trg_15_a_channel_that_this_process_lacks_is_logged_at_once,
];

/// One log line: its level and its fields, the message among them.
#[derive(Clone, Debug)]
struct Line {
    level: Level,
    fields: BTreeMap<String, String>,
}

/// Keeps the lines about failed attempts of the whole process: other tests run beside these.
struct Capture;

static LINES: Mutex<Vec<Line>> = Mutex::new(Vec::new());

/// Begins to capture, if nobody has yet; answers a topic of the caller's own.
fn captured_topic() -> String {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing::subscriber::set_global_default(Capture).expect("nobody else captures"));
    format!("orders-{}", random::seed())
}

fn lines(topic: &str, level: Level) -> Vec<Line> {
    let named = |line: &Line| line.fields.get("topic").or(line.fields.get("channel")).cloned();
    let ours = |line: &&Line| line.level == level && named(line).as_deref() == Some(topic);
    LINES.lock().unwrap().iter().filter(ours).cloned().collect()
}

impl Subscriber for Capture {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let modules = ["failed_attempt", "executors::send"];
        metadata.module_path().is_some_and(|path| modules.iter().any(|module| path.ends_with(module)))
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line { level: *event.metadata().level(), fields: BTreeMap::new() };
        event.record(&mut line);
        LINES.lock().unwrap().push(line);
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.fields.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name().to_owned(), value.to_owned());
    }
}

/// PLT-4
async fn plt_4_each_failed_attempt_and_each_dead_letter_is_logged(t: &Bench) {
    let topic = captured_topic();
    let lane = t.lane_with(&topic, json!({"maxAttempts": 2})).await;
    let ids = t.put(&topic, 2).await;
    let first = t.claim(lane, 2).await;
    t.say(&first[..1], abandon("no connection")).await;
    t.say(&first[1..], fail("no such customer")).await;
    let due = t.ints("select next_due from punctual.attempt order by id").await[0][0].unwrap();
    t.advance(seconds(60)).await;
    let second = t.claim_one(lane).await;
    t.say(&[second], abandon("no connection again")).await;

    let failed = lines(&topic, Level::WARN);
    assert_eq!(failed.len(), 3, "{failed:?}");
    let wanted =
        [("topic", topic.as_str()), ("kind", "happened"), ("attempt", "1"), ("error", "no connection")];
    for (name, value) in wanted {
        assert_eq!(failed[0].fields[name], value, "{failed:?}");
    }
    assert_eq!(failed[0].fields["id"], ids[0].to_string());
    let due = punctual::base::clock::Timestamp::from_micros(due).to_string();
    assert_eq!(failed[0].fields["next_due"], due);
    assert!(!failed[1].fields.contains_key("next_due"), "nothing is due next: {failed:?}");
    let dead = lines(&topic, Level::ERROR);
    let told: Vec<_> = dead.iter().map(|line| (&*line.fields["id"], &*line.fields["error"])).collect();
    let [one, two] = [ids[0].to_string(), ids[1].to_string()];
    assert_eq!(told, [(&*two, "no such customer"), (&*one, "no connection again")]);
}

/// PLT-4: a handler that panics has the lines of every other failed attempt, with the words of its panic.
async fn plt_4_a_panic_of_a_handler_is_logged(t: &Bench) {
    let topic = captured_topic();
    t.lane_with(&topic, json!({"maxAttempts": 2})).await;
    let id = t.put(&topic, 1).await[0].to_string();
    let handler = async |work: Work| {
        assert!(work.message.kind == "fine", "a bug in attempt {}", work.attempt);
        Ok(())
    };
    let builder = Engine::builder(t.place.url()).on_store(t.another().await).clock(ClockMode::Manual);
    let engine = builder.handler(&topic, handler).open().await.unwrap();
    for attempt in ["1", "2"] {
        engine.tick(10).await.unwrap();
        let failed = lines(&topic, Level::WARN).pop().expect("a line for each attempt");
        let error = format!("the handler panicked: a bug in attempt {attempt}");
        for (name, value) in [("id", &*id), ("kind", "happened"), ("attempt", attempt), ("error", &error)] {
            assert_eq!(failed.fields[name], value, "{failed:?}");
        }
        assert_eq!(failed.fields.contains_key("next_due"), attempt == "1", "{failed:?}");
        t.advance(seconds(60)).await;
    }
    assert_eq!(lines(&topic, Level::WARN).len(), 2);
    let dead = lines(&topic, Level::ERROR);
    assert_eq!(dead.len(), 1, "{dead:?}");
    assert_eq!(dead[0].fields["id"], id);
    assert_eq!(dead[0].fields["error"], "the handler panicked: a bug in attempt 2");
}

/// PLT-4: what dies with its process is logged by the process that reaps it.
async fn plt_4_a_dead_letter_of_a_crash_is_logged(t: &Bench) {
    let topic = captured_topic();
    let lane = t.lane_with(&topic, json!({"maxAttempts": 1})).await;
    t.put(&topic, 1).await;
    let item = t.claim_one(lane).await;
    t.store().mark_started(item.token).await.unwrap();
    t.advance(seconds(86_400)).await;
    t.reap().await;
    let dead = lines(&topic, Level::ERROR);
    assert_eq!(dead.len(), 1, "{dead:?}");
    assert_eq!(dead[0].fields["error"], "the lease of tester ran out");
    assert_eq!(lines(&topic, Level::WARN).len(), 1);
}

/// PLT-4: of three attempts none is used up by five waits, also if they come between failures, and a replay
/// begins anew.
async fn plt_4_a_wait_that_is_asked_for_uses_up_no_attempt(t: &Bench) {
    let lane = t.lane_with("orders", json!({"maxAttempts": 3})).await;
    t.put("orders", 1).await;
    for life in 0..2 {
        for n in 1..=8 {
            let item = t.claim_one(lane).await;
            assert_eq!(item.item.attempt(), n, "it is how often it was claimed");
            let retry = if n % 3 == 0 || n == 8 { Retry::Policy } else { Retry::NotBefore(seconds(120)) };
            t.say(&[item], SettleAction::Abandon { error: "busy".into(), retry }).await;
            t.advance(seconds(120)).await;
        }
        let letters = t.store().dead_letters(TENANT, DeadLetterFilter::default(), 10).await.unwrap();
        assert_eq!(letters.len(), 1, "the third failure of life {life} is the last");
        let words: Vec<_> = letters[0].attempts.iter().skip(8 * life).map(|a| &*a.outcome).collect();
        let (snoozed, failed) = ("snoozed", "abandoned");
        assert_eq!(words, [snoozed, snoozed, failed, snoozed, snoozed, failed, snoozed, failed]);
        t.store().replay(TENANT, DeadLetterFilter::default(), false).await.unwrap();
    }
}

/// PLT-4: a handler cannot put off a message without end.
async fn plt_4_waits_without_end_are_attempts(t: &Bench) {
    let lane = t.lane_with("orders", json!({"maxAttempts": 2})).await;
    t.put("orders", 1).await;
    for n in 1..=limits::SNOOZES_MAX + 2 {
        let item = t.claim_one(lane).await;
        assert_eq!(item.item.attempt(), n);
        let word = SettleAction::Abandon { error: "busy".into(), retry: Retry::NotBefore(seconds(1)) };
        t.say(&[item], word).await;
        t.advance(seconds(60)).await;
    }
    assert_eq!(t.whereabouts().await.into_values().collect::<Vec<_>>(), [["dead"]]);
}

/// TRG-15: among many processes the channel may be another's, so the delivery waits; the first look says so,
/// once, and until when.
async fn trg_15_a_channel_that_this_process_lacks_is_logged_at_once(t: &Bench) {
    let channel = captured_topic().replace("orders", "sms:late");
    let engine = notification::one_of_many(t).await;
    notification::define(&engine, TENANT, |_| {}).await;
    notification::template(&engine, TENANT, &channel, "x").await;
    notification::confirm(&engine, "1").await;
    for _ in 0..3 {
        assert_eq!(notification::tick(&engine).await.failed, 0);
    }
    let said = lines(&channel, Level::WARN);
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(said[0].fields["message"], "deliveries wait for a process with their channel");
    assert!(said[0].fields["until"].contains(':'), "it says until when: {said:?}");
    t.advance(seconds(11 * 60)).await;
    assert_eq!(notification::tick(&engine).await.failed, 1, "nobody had it for ten minutes");
    assert_eq!(lines(&channel, Level::WARN).len(), 1);
}
