//! The SQL functions of PostgreSQL: the same rules, routes and answers as the library's.

use crate::bench::{Bench, TENANT, ids, message, seconds};
use punctual::base::id::MessageId;
use punctual::queue::rules::timer::{TimerProgress, TimerStatus};
use punctual::queue::store::messages::EnqueueOutcome;
use punctual::{Engine, NewMessage, Problems, Timestamp, Work};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

async fn call(t: &Bench, sql: &str) -> String {
    t.texts(sql).await[0][0].clone().unwrap_or_else(|| "null".into())
}

async fn id(t: &Bench, sql: &str) -> MessageId {
    MessageId(call(t, sql).await.parse().unwrap())
}

async fn refusal(t: &Bench, sql: &str) -> String {
    let refused = t.place.sql(&[sql.to_owned()]).await;
    format!("{:?}", refused.expect_err("this should be refused"))
}

fn time(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

/// PLT-13, NTF-1: what the function writes is what the library would have written.
#[tokio::test]
async fn plt_13_a_message_is_written_as_the_library_writes_it() {
    let t = &Bench::postgres().await;
    t.lane("orders").await;
    let theirs = id(
        t,
        "select punctual.enqueue('orders', '{\"order\": 7}', kind => 'order.placed', key => 'k', \
         correlation_id => 'story', headers => '{\"a\": \"b\"}', due_at => '2026-05-14T06:00:00Z', \
         entity_type => 'order', entity_id => '7', occurred_at => '2026-05-14T05:59:59.000001Z', \
         schema_version => '2')",
    )
    .await;
    let ours = NewMessage {
        headers: Some("{\"a\": \"b\"}".into()),
        due_at: Some(time("2026-05-14T06:00:00Z")),
        occurred_at: Some(time("2026-05-14T05:59:59.000001Z")),
        schema_version: Some("2".into()),
        ..NewMessage::new("orders", "order.placed", "{\"order\": 7}").key("k").correlation_id("story")
    };
    let ours = t.enqueue(vec![ours.entity("order", "7")]).await[0];
    let columns = "tenant_id, topic, kind, payload, created_at, due_at, occurred_at, key, entity_type, \
        entity_id, correlation_id, headers, source, external_id, schema_version";
    let rows = t.texts(&format!("select {columns} from punctual.message")).await;
    assert_eq!((rows.len(), &rows[0]), (2, &rows[1]));
    let rows = t.texts("select lane_id, due_at, attempts, unstarted, key from punctual.work").await;
    assert_eq!((rows.len(), &rows[0]), (2, &rows[1]));
    assert!(theirs < ours, "ids rise");
}

/// PLT-13: a topic nobody knows waits in lane 0, a known one goes to all its consumers.
#[tokio::test]
async fn plt_13_the_routes_are_followed() {
    let t = &Bench::postgres().await;
    let unrouted = id(t, "select punctual.enqueue('new', '{}')").await;
    assert_eq!(t.count("select count(*) from punctual.work where lane_id = 0").await, 1);
    t.store().route_waiting().await.unwrap();
    let lane = t.lane("new").await;
    let routed = id(t, "select punctual.enqueue('new', '1'::jsonb)").await;
    assert_eq!(ids(&t.claim(lane, 9).await), [unrouted, routed]);
}

/// PLT-13, PLT-29: the same limits and words, all problems at once, and nothing is written.
#[tokio::test]
async fn plt_13_bad_input_is_refused_in_the_librarys_words() {
    let t = &Bench::postgres().await;
    let names = [
        "punctual.x",
        "punctual.ingest",
        "punctual",
        "",
        " x",
        "x\u{a0}",
        "a\nb",
        "a\u{85}b",
        &"ü".repeat(256),
        "\u{3000}x",
        "fine",
        "ü",
    ];
    for name in names {
        let quoted = name.replace('\'', "''");
        let sql = format!("select punctual.enqueue('{quoted}', '{{}}', key => '{quoted}')");
        let mut problems = Problems::default();
        NewMessage::new(name, "message", "{}").key(name).check("", &mut problems);
        if problems.0.is_empty() {
            id(t, &sql).await;
        } else {
            let (expected, said) = (problems.to_string(), refusal(t, &sql).await);
            assert!(said.contains(&expected), "{name:?}: `{expected}` should be said, but it was {said}");
        }
    }
    t.place.sql(&["delete from punctual.work".into(), "delete from punctual.message".into()]).await.unwrap();
    let large = format!("\"{}\"", "x".repeat(1024 * 1024));
    let table = [
        ("select punctual.enqueue('a/b', '{}')".to_owned(), "topic: must not contain `/`, which sets off"),
        ("select punctual.enqueue(null, null, kind => null)".into(), "topic: is missing; kind: is missing"),
        (
            "select punctual.enqueue('t', '{no', key => '')".into(),
            "key: must not be empty; payload: is not JSON",
        ),
        (format!("select punctual.enqueue('t', '{large}')"), "payload: has 1048578 bytes, at most 1048576"),
        ("select punctual.enqueue('t', '{}', headers => '[]')".into(), "headers: must be a JSON object"),
        (
            "select punctual.enqueue('t', '{}', tenant => 'nobody')".into(),
            "tenant: there is no tenant `nobody`",
        ),
        ("select punctual.schedule('t', '{}', null)".into(), "due_at: is missing"),
        ("select punctual.schedule('t', '{}', 'infinity')".into(), "due_at: must lie between the years 1900"),
        (
            "select punctual.schedule('t', '{}', '1066-01-01')".into(),
            "due_at: must lie between the years 1900",
        ),
        (
            "select punctual.enqueue('t', '{}', entity_type => 'booking', schema_version => '')".into(),
            "schema_version: must not be empty; entity_id: is missing",
        ),
        ("select punctual.enqueue('t', '{}', entity_id => '7')".into(), "entity_type: is missing"),
        (
            "select punctual.schedule('t', '{}', now(), entity_type => ' x', entity_id => '')".into(),
            "entity_type: must not begin or end with white space; entity_id: must not be empty",
        ),
        (
            "select punctual.enqueue('t', '1'::jsonb, occurred_at => '-infinity')".into(),
            "occurred_at: must lie between the years 1900 and 9999",
        ),
    ];
    for (sql, sentence) in table {
        let said = refusal(t, &sql).await;
        assert!(said.contains(sentence), "`{sentence}` should be said, but it was {said}");
        assert!(said.contains("22023"), "{said}");
    }
    assert_eq!(t.count("select count(*) from punctual.message").await, 0);
    assert_eq!(t.count("select count(*) from punctual.admitted").await, 0);
}

/// PLT-13: what PostgreSQL calls JSON and the engine cannot read (`docs/guarantees.md`) is not refused here:
/// handlers get it as it is.
#[tokio::test]
async fn plt_13_json_beyond_the_engine_comes_to_handlers_as_it_is() {
    let t = &Bench::postgres().await;
    let lane = t.lane("orders").await;
    for payload in [r#"{"n": 1e400}"#, r#"{"n": -1e400}"#, r#"{"a": "\ud800"}"#] {
        let mut problems = Problems::default();
        NewMessage::new("orders", "message", payload).check("", &mut problems);
        assert_eq!(problems.0.len(), 1, "the library refuses {payload}: {problems}");
        let sent = id(t, &format!("select punctual.enqueue('orders', '{payload}')")).await;
        let item = t.claim_one(lane).await;
        assert_eq!((item.message.id, item.message.payload.as_str()), (sent, payload));
        t.ack(&item).await;
    }
    let jsonb = id(t, "select punctual.enqueue('orders', '{\"n\": 1e400}'::jsonb)").await;
    let item = t.claim_one(lane).await;
    let digits = format!("{{\"n\": 1{}}}", "0".repeat(400));
    assert_eq!((item.message.id, item.message.payload), (jsonb, digits), "jsonb writes a number out");
}

/// PLT-13: to surveys and notifications it is null, so the event fails.
#[tokio::test]
async fn plt_13_json_beyond_the_engine_is_null_to_notifications() {
    let t = &Bench::postgres().await;
    let engine = crate::notification::engine(t).await;
    crate::notification::define(&engine, TENANT, |_| {}).await;
    crate::notification::template(&engine, TENANT, "SMS", "x").await;
    let (topic, kind) = (crate::notification::TOPIC, crate::notification::KIND);
    let mut sent = Vec::new();
    for number in ["1e400", "1e300"] {
        let mut payload = crate::notification::booking(number);
        payload["n"] = 0.into();
        let payload = payload.to_string().replace("\"n\":0", &format!("\"n\":{number}"));
        sent.push(id(t, &format!("select punctual.enqueue('{topic}', '{payload}', kind => '{kind}')")).await);
    }
    crate::notification::tick(&engine).await;
    let got = crate::notification::inbox(&engine);
    assert_eq!(got.len(), 1, "the number that can be read goes out: {got:?}");
    let dead = t.texts("select message_id, error from punctual.dead_letter").await;
    let said = "its payload is not an object, so it names no recipient";
    assert_eq!(dead, [[Some(sent[0].to_string()), Some(said.to_owned())]]);
}

/// PLT-13: an id is admitted once, whoever hands it in, and the contents are compared alike.
#[tokio::test]
async fn plt_13_an_id_is_admitted_once() {
    let t = &Bench::postgres().await;
    let sql = |payload: &str| {
        format!(
            "select punctual.enqueue('t', '{payload}', kind => 'k', key => 'ü', source => 's', id => '7')"
        )
    };
    let first = id(t, &sql("{}")).await;
    assert_eq!(id(t, &sql("{}")).await, first);
    let same = NewMessage::new("t", "k", "{}").key("ü").id("s", "7");
    let other = NewMessage::new("t", "k", "[]").key("ü").id("s", "7");
    let found = t.store().enqueue(TENANT, vec![same]).await.unwrap();
    assert_eq!(found, [EnqueueOutcome::Duplicate { of: Some(first), same: true }], "the digests agree");
    let found = t.store().enqueue(TENANT, vec![other]).await.unwrap();
    assert_eq!(found, [EnqueueOutcome::Duplicate { of: Some(first), same: false }]);
    let named = "kind => 'k', id => '9', entity_type => 'a', entity_id => '1'";
    let about = id(t, &format!("select punctual.enqueue('t', '{{}}', {named})")).await;
    for (entity, same) in [("1", true), ("2", false)] {
        let again =
            NewMessage { id: Some("9".into()), ..NewMessage::new("t", "k", "{}").entity("a", entity) };
        let found = t.store().enqueue(TENANT, vec![again]).await.unwrap();
        assert_eq!(found, [EnqueueOutcome::Duplicate { of: Some(about), same }], "its entity is part of it");
    }
    let unnamed = id(t, "select punctual.enqueue('t', '{}', id => '8')").await;
    let again = NewMessage { id: Some("8".into()), ..NewMessage::new("t", "message", "{}") };
    let found = t.store().enqueue(TENANT, vec![again]).await.unwrap();
    assert_eq!(found, [EnqueueOutcome::Duplicate { of: Some(unnamed), same: true }], "without a source, too");
}

/// NTF-1: a timer takes the same fields.
#[tokio::test]
async fn ntf_1_a_timer_names_its_entity() {
    let t = &Bench::postgres().await;
    id(
        t,
        "select punctual.schedule('t', '{}'::jsonb, now(), entity_type => 'booking', entity_id => '7', \
         occurred_at => '1970-01-01T00:00:01Z', schema_version => '3')",
    )
    .await;
    let facts = "select entity_type, entity_id, occurred_at::text, schema_version from punctual.message";
    let written: Vec<_> = t.texts(facts).await[0].iter().flatten().cloned().collect();
    assert_eq!(written, ["booking", "7", "1000000", "3"]);
}

/// PLT-13, PLT-19: as the library cancels, with keys and without, and only in time.
#[tokio::test]
async fn plt_13_a_timer_is_cancelled_in_time_or_not() {
    let t = &Bench::postgres().await;
    let lane = t.lane("orders").await;
    let now = t.now().await;
    let cancel = async |id: MessageId| call(t, &format!("select punctual.cancel_timer({id})")).await;
    let mut all = Vec::new();
    for n in 1..=5 {
        let due = now.plus(seconds(n));
        all.push(
            id(t, &format!("select punctual.schedule('orders', '{n}', '{due}', key => 'k', wake => false)"))
                .await,
        );
    }
    let plain = id(t, "select punctual.schedule('unrouted', '{}', '2030-01-01')").await;
    assert_eq!(t.store().timer(TENANT, plain).await.unwrap().unwrap().status, TimerStatus::Waiting);
    assert_eq!(cancel(plain).await, "t");
    assert_eq!(cancel(plain).await, "f", "it was cancelled before");
    assert_eq!(t.store().timer(TENANT, plain).await.unwrap().unwrap().status, TimerStatus::Cancelled);
    t.advance(seconds(5)).await;
    let head = t.claim(lane, 9).await;
    assert_eq!(cancel(all[0]).await, "f", "it is in flight");
    assert_eq!(cancel(all[2]).await, "t", "it follows");
    t.assert_sound().await;
    t.ack(&head[0]).await;
    assert_eq!(cancel(all[1]).await, "t", "it is the head, and waits");
    t.assert_sound().await;
    let next = t.claim(lane, 9).await;
    assert_eq!(ids(&next), all[3..4], "the next of the key");
    t.ack(&next[0]).await;
    assert_eq!(cancel(all[4]).await, "t");
    assert_eq!(t.count("select count(*) from punctual.sequence").await, 0, "nothing is left");
    let done = t.store().timer(TENANT, all[0]).await.unwrap().unwrap();
    assert_eq!((done.status, done.progress), (TimerStatus::Fired, Some(TimerProgress::Done)));
    let event = t.enqueue(vec![message("orders")]).await[0];
    assert_eq!(cancel(event).await, "f", "a message that is no timer");
    assert_eq!(call(t, &format!("select punctual.cancel_timer({plain}, tenant => 'nobody')")).await, "f");
}

/// PLT-13: who may call them is granted by hand, and then needs no right to the tables.
#[tokio::test]
async fn plt_13_only_those_who_were_granted_it_may_call() {
    let t = &Bench::postgres().await;
    let role = format!("app_{}", punctual::base::random::hex::<6>());
    let grants = format!(
        "create role {role}; grant usage on schema punctual to {role}; set role {role}; \
         select punctual.enqueue('t', '{{}}')"
    );
    let refused = t.place.sql(&[grants]).await.expect_err("usage of the schema is not enough");
    assert!(format!("{refused:?}").contains("permission denied for function enqueue"), "{refused:?}");
    let script = format!(
        "reset role; create role {role}; grant usage on schema punctual to {role}; \
         grant execute on function punctual.enqueue(text, text, text, text, text, jsonb, timestamptz, text, \
         text, text, boolean, text, text, timestamptz, text), punctual.cancel_timer(bigint, text) \
         to {role}; set role {role}"
    );
    let enqueue = "select punctual.enqueue('t', '{}')".to_owned();
    let peek = "select count(*) from punctual.message".to_owned();
    let rows = t.place.sql(&[script, enqueue]).await.unwrap();
    assert!(rows[1][0][0].is_some(), "an id came back");
    let refused = t.place.sql(&[peek]).await.expect_err("the tables are not its own");
    assert!(format!("{refused:?}").contains("permission denied"), "{refused:?}");
    t.place.sql(&[format!("reset role; drop owned by {role}; drop role {role}")]).await.unwrap();
}

/// PLT-13: only a message that is due soon, and not told to be quiet, costs a notification.
#[tokio::test]
async fn plt_13_only_what_is_due_soon_notifies() {
    let t = &Bench::postgres().await;
    let (client, mut connection) =
        tokio_postgres::connect(t.place.url(), tokio_postgres::NoTls).await.unwrap();
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
            if matches!(message, tokio_postgres::AsyncMessage::Notification(_)) {
                tell.send(()).ok();
            }
        }
    });
    client.batch_execute("listen punctual").await.unwrap();
    let day = t.now().await.plus(seconds(86_400));
    for quiet in [
        "select punctual.enqueue('t', '{}', wake => false)".to_owned(),
        format!("select punctual.schedule('t', '{{}}', '{day}')"),
    ] {
        client.batch_execute(&quiet).await.unwrap();
        assert!(told.try_recv().is_err(), "nobody should be woken by {quiet}");
    }
    client.batch_execute("select punctual.enqueue('t', '{}'), punctual.enqueue('t', '{}')").await.unwrap();
    told.recv().await.expect("they are told");
    client.batch_execute("select 1").await.unwrap();
    assert!(told.try_recv().is_err(), "one notification for one transaction");
}

/// PLT-13, PLT-7: those who sleep are woken.
#[tokio::test]
#[ignore = "slow"]
async fn plt_13_a_message_wakes_its_handler() {
    let place =
        punctual::testing::place::TestDatabase::empty(punctual::testing::Backend::Postgres).await.unwrap();
    let (tell, mut told) = tokio::sync::mpsc::channel(8);
    let handler = move |work: Work| {
        let tell = tell.clone();
        async move { Ok(tell.send(work.message.payload).await?) }
    };
    let engine = Engine::builder(place.url()).handler("orders", handler).open().await.unwrap();
    engine.start();
    place.sql(&["select punctual.enqueue('orders', '0')".to_owned()]).await.unwrap();
    assert_eq!(told.recv().await.unwrap(), "0");
    // By now the dispatcher sleeps for some seconds at a time; only a notification is faster.
    tokio::time::sleep(Duration::from_secs(4)).await;
    let begun = std::time::Instant::now();
    place.sql(&["select punctual.schedule('orders', '1', now() + interval '100 ms')".into()]).await.unwrap();
    assert_eq!(told.recv().await.unwrap(), "1");
    assert!(begun.elapsed() < Duration::from_secs(2), "it took {:?}", begun.elapsed());
    engine.stop(Duration::from_secs(5)).await;
}

/// The folder of the drivers.
fn clients() -> PathBuf {
    let clients = std::env::var_os("PUNCTUAL_CLIENTS").map(PathBuf::from);
    clients.expect("PUNCTUAL_CLIENTS should name the folder of the drivers: run ./test")
}

/// How a client's program is started.
fn program(name: &str) -> Command {
    match name {
        "python" => Command::new(clients().join("python/bin/python")),
        "java" => {
            let mut java = Command::new("java");
            java.arg("-cp").arg(clients().join("postgresql.jar"));
            java
        }
        name => Command::new(name),
    }
}

/// The source of a client's program.
fn client_file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

/// Runs a client's script against a fresh database; answers the database.
async fn client(name: &str, script: &str) -> Bench {
    let t = Bench::postgres().await;
    let (mut program, script, url) = (program(name), client_file(script), t.place.url().to_owned());
    let run = move || program.arg(script).arg(url).output();
    let said = tokio::task::spawn_blocking(run).await.unwrap().expect("the client can be started");
    assert!(said.status.success(), "the client failed: {}", String::from_utf8_lossy(&said.stderr));
    t
}

/// What psycopg and node-postgres leave behind: two messages that are due, of which the guide's example left
/// one, and one timer.
async fn left_by(t: &Bench, name: &str) {
    t.store().route_waiting().await.unwrap();
    let lane = t.lane("orders").await;
    let item = t.claim_one(lane).await;
    let shown = t.claim_one(lane).await.message;
    let payload: serde_json::Value = serde_json::from_str(&shown.payload).unwrap();
    assert_eq!((shown.kind.as_str(), payload), ("order.placed", serde_json::json!({"order": 7})));
    assert_eq!(
        t.texts("select number, what from orders").await,
        [["7", "a lamp"].map(|of| Some(of.to_owned()))]
    );
    let payload: serde_json::Value = serde_json::from_str(&item.message.payload).unwrap();
    assert_eq!(payload, serde_json::json!({"order": 2, "by": name}));
    assert_eq!((item.message.key.as_deref(), item.message.kind.as_str()), (Some("k"), "order.placed"));
    assert_eq!(item.message.headers.as_deref(), Some("{\"trace\": \"t\"}"));
    let timers = t.store().timers(TENANT, Default::default(), None, None, 9).await.unwrap();
    let mut standing: Vec<TimerStatus> = timers.iter().map(|timer| timer.status).collect();
    standing.sort_by_key(|status| *status as u8);
    assert_eq!(standing.len(), 2, "a rolled back cancel is none: {timers:?}");
    assert_eq!(t.count("select count(*) from punctual.message").await, 4);
    assert_eq!(t.count("select count(*) from punctual.timer_change").await, 1);
    assert_eq!(t.count("select count(*) from shop_order").await, 1);
}

/// PLT-13
#[tokio::test]
#[ignore = "slow: needs psycopg, which ./test installs"]
async fn plt_13_psycopg_enqueues_in_its_own_transaction() {
    left_by(&client("python", "psycopg_test.py").await, "psycopg").await;
}

/// PLT-13
#[tokio::test]
#[ignore = "slow: needs node-postgres, which ./test installs"]
async fn plt_13_node_postgres_enqueues_in_its_own_transaction() {
    left_by(&client("node", "node_postgres_test.mjs").await, "node").await;
}

/// PLT-13: two calls were committed, and nothing of what was rolled back is there.
#[tokio::test]
#[ignore = "slow: needs Java and the JDBC driver, which ./test installs"]
async fn plt_13_jdbc_enqueues_and_schedules_in_its_own_transaction() {
    let t = &client("java", "Jdbc.java").await;
    t.store().route_waiting().await.unwrap();
    let lane = t.lane("orders").await;
    let item = t.claim_one(lane).await;
    assert_eq!(
        (item.message.kind.as_str(), item.message.payload.as_str()),
        ("order.placed", "{\"order\": 7}")
    );
    let timers = t.store().timers(TENANT, Default::default(), None, None, 9).await.unwrap();
    let standing: Vec<TimerStatus> = timers.iter().map(|timer| timer.status).collect();
    assert_eq!(standing, [TimerStatus::Waiting], "a rolled back cancel is none");
    assert_eq!(t.count("select count(*) from punctual.message").await, 2);
    assert_eq!(t.count("select count(*) from orders").await, 1);
}

/// PLT-13: the programs that the clients run hold the guide's blocks, line by line.
#[test]
fn plt_13_the_guide_shows_the_programs_that_are_run() {
    let guide = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/sql.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    for (language, file, head, indent) in [
        ("python", "psycopg_test.py", "def place(connection):\n", 4),
        ("js", "node_postgres_test.mjs", "async function place() {\n", 2),
        ("java", "Jdbc.java", "static void place(Connection connection) throws SQLException {\n", 8),
    ] {
        let blocks: Vec<&str> = guide.split(&format!("```{language}\n")).skip(1).collect();
        assert_eq!(blocks.len(), 1, "the guide has one block in {language}");
        let shown = blocks[0].split("```").next().unwrap();
        let body: String = shown.lines().map(|line| format!("{:indent$}{line}\n", "")).collect();
        let program = std::fs::read_to_string(client_file(file)).unwrap();
        assert!(program.contains(&format!("{head}{body}")), "the guide shows another program than {file}");
    }
}
