//! `serve` and `demo`: starting, refusing, stopping.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "test code")]

use super::process::{Place, Run};
use punctual_bench::cluster::{Cluster, ClusterOptions};
use punctual_bench::database::Database;
use serde_json::json;
use std::time::{Duration, Instant};

const FREE_PORT: &str = "127.0.0.1:0";

/// PLT-26: the ready line comes once, and a stop is graceful and quick, by either signal.
#[test]
fn plt_26_a_server_says_when_it_is_ready_and_stops_when_told() {
    for signal in ["-TERM", "-INT"] {
        let place = Place::new();
        let serving =
            place.command(&["serve", "--database", &place.database(), "--listen", FREE_PORT]).serve();
        assert!(serving.ready.starts_with("punctual is ready on http://127.0.0.1:"), "{}", serving.ready);
        assert_eq!(serving.get("/health/live", "").0, 200);
        assert_eq!(serving.get("/", "").0, 200);
        let begun = Instant::now();
        let (status, rest, err) = serving.stop(signal);
        assert_eq!((status.code(), rest.as_str()), (Some(0), ""), "{err}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    }
}

/// PLT-26: what was accepted before the stop is there after it.
#[test]
fn plt_26_a_stop_loses_nothing() {
    let place = Place::new();
    let serve = ["serve", "--database", &place.database(), "--listen", FREE_PORT];
    let serving = place.command(&serve).serve();
    for n in 0..20 {
        place.json(&["emit", "--topic", "orders", "--kind", "order.placed", "--payload", &n.to_string()]);
    }
    assert!(serving.stop("-TERM").0.success());
    assert_eq!(place.json(&["status"])["queues"][0]["waiting"], 20);
    assert!(place.command(&serve).serve().stop("-TERM").0.success());
    assert_eq!(place.json(&["status"])["queues"][0]["waiting"], 20);
}

/// PRD-9, PRD-15: what cannot work is refused in one sentence, with a code that tells why.
#[test]
fn what_cannot_be_served_is_refused_in_one_sentence() {
    let place = Place::new();
    let typo = place.file("typo.toml", "databse = \"sqlite:x.db\"\n");
    let wrong = place.file("wrong.toml", "# a comment\nrole = \"boss\"\n");
    let broken = place.file("broken.toml", "listen =\n");
    let not_a_database = format!("sqlite:{}", place.file("text.db", &"this is no database ".repeat(100)));
    let gone = "postgres://nobody@127.0.0.1:1/nothing";
    let twilio = place.file("twilio.toml", "[channels.\"sms:twilio\"]\nprovider = \"twilio-sms\"\n");
    let table: [(&[&str], i32, &str); 13] = [
        (&["--database", "mysql://x"], 2, "begins with `mysql:` is not supported"),
        (&["--database", "sqlite:"], 2, "needs a path"),
        (&["--database", "sqlite:/no/such/folder/x.db"], 2, "cannot open the SQLite database"),
        (&["--database", &not_a_database], 2, "cannot open the SQLite database"),
        (
            &["--database", gone],
            3,
            "PostgreSQL at 127.0.0.1:1, database \"nothing\": error connecting to server: Connection refused",
        ),
        (&["--listen", "nowhere"], 2, "`nowhere` is not an address"),
        (&["--listen", "192.0.2.1:0"], 1, "this machine does not have that address"),
        (&["--stop-limit", "soon"], 2, "stop_limit: `soon` is not a duration"),
        (&["--config", "missing.toml"], 2, "cannot be read"),
        (&["--config", &typo], 2, "`databse` is not a setting; did you mean `database`?"),
        (&["--config", &wrong], 2, "line 2: unknown variant `boss`"),
        (&["--config", &broken], 2, "line 1:"),
        (&["--config", &twilio], 2, "channels.\"sms:twilio\": account_sid: is missing: the account's SID"),
    ];
    for (arguments, code, sentence) in table {
        let mut all = vec!["serve"];
        all.extend(arguments);
        if !arguments.contains(&"--listen") {
            all.extend(["--listen", FREE_PORT]);
        }
        let said = place.command(&all).said();
        assert_eq!(said.code, code, "{arguments:?}: {said:?}");
        assert!(said.err.contains(sentence), "{arguments:?}: {said:?}");
        assert_eq!((said.err.lines().count(), said.out.as_str()), (1, ""), "{said:?}");
    }
}

#[test]
fn a_short_root_key_is_refused_and_not_repeated() {
    let place = Place::new();
    let said = place.command(&["serve", "--listen", FREE_PORT]).env("PUNCTUAL_ROOT_KEY", "secret").said();
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("PUNCTUAL_ROOT_KEY has 6 characters, but needs at least 32"), "{said:?}");
    assert!(!said.err.contains("secret"), "{said:?}");
}

/// PRD-14: secrets cannot be sealed with half a key.
#[test]
fn prd_14_a_malformed_encryption_key_stops_the_start() {
    let place = Place::new();
    let serve = ["serve", "--database", "sqlite::memory:", "--listen", FREE_PORT];
    let said = place.command(&serve).env("PUNCTUAL_ENCRYPTION_KEY", "hush-hush").said();
    assert_eq!((said.code, said.out.as_str(), said.err.lines().count()), (2, "", 1), "{said:?}");
    assert!(said.err.contains("PUNCTUAL_ENCRYPTION_KEY is not base64"), "{said:?}");
    assert!(!said.err.contains("hush"), "{said:?}");
    let key = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
    let serving = place.command(&serve).env("PUNCTUAL_ENCRYPTION_KEY", format!("a:{key},b:{key}")).serve();
    assert!(serving.stop("-TERM").0.success());
}

/// PRD-14: the server says at once which key it lacks, not when the first mail is due.
#[test]
fn prd_14_a_server_without_the_sealing_key_does_not_start() {
    let place = Place::new();
    let database = place.database();
    let serve = ["serve", "--database", &database, "--listen", FREE_PORT];
    let key = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
    let other = "QUJDMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
    // It starts plain, and a key seals what is there.
    assert!(place.command(&serve).serve().stop("-TERM").0.success());
    for (set, is_refused) in [
        (Some(format!("a:{key}")), false),
        (None, true),
        (Some(format!("b:{other}")), true),
        (Some(format!("b:{other},a:{key}")), false),
        (Some(other.to_owned()), false),
    ] {
        let mut command = place.command(&serve);
        if let Some(keys) = &set {
            command.env("PUNCTUAL_ENCRYPTION_KEY", keys);
        }
        if !is_refused {
            assert!(command.serve().stop("-TERM").0.success(), "{set:?}");
            continue;
        }
        let said = command.said();
        assert_eq!((said.code == 0, said.out.as_str(), said.err.lines().count()), (false, "", 1), "{said:?}");
        assert!(said.err.contains("sealed by the encryption key `a`"), "{said:?}");
        assert!(said.err.contains("add that key to PUNCTUAL_ENCRYPTION_KEY"), "{said:?}");
        assert!(!said.err.contains(key) && !said.err.contains(other), "{said:?}");
    }
}

/// PRD-14: addresses and payloads in a file are for its owner only, also in its journals.
#[cfg(unix)]
#[test]
fn prd_14_a_sqlite_file_is_its_owners_only() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let serving = place.command(&["serve", "--database", &place.database(), "--listen", FREE_PORT]).serve();
    place.json(&["emit", "--topic", "t", "--kind", "k", "--payload", "1"]);
    let file = place.database().replace("sqlite:", "");
    for journal in ["", "-wal", "-shm"] {
        let mode = std::fs::metadata(format!("{file}{journal}")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}{journal}");
    }
    assert!(serving.stop("-TERM").0.success());
}

#[test]
fn a_taken_port_is_refused_before_the_database_is_touched() {
    let place = Place::new();
    let first = place.command(&["serve", "--database", &place.database(), "--listen", FREE_PORT]).serve();
    let address = first.address();
    let other = ["serve", "--database", "sqlite:other.db", "--listen", &address, "--json"];
    let said = place.command(&other).said();
    assert_eq!(said.code, 1, "{said:?}");
    let error: serde_json::Value = serde_json::from_str(&said.err).unwrap();
    let message = error["error"]["message"].as_str().unwrap();
    assert!(message.contains("another program listens there"), "{message}");
    assert_eq!(place.command(&["status", "--database", "sqlite:other.db"]).said().code, 3);
}

/// PLT-24: a database with a newer schema is refused by every command that would use it.
#[test]
fn plt_24_a_newer_schema_is_refused() {
    let cluster = std::sync::Arc::new(Cluster::start(&ClusterOptions::fast()).unwrap());
    let place = Place::new();
    let url = cluster.url("postgres");
    assert_eq!(place.command(&["migrate", "--database", &url]).said().code, 0);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Database::new(&cluster, "postgres").connect().await.unwrap();
        let newer = "insert into punctual.migration values ('core', 999, 'later', '', 0)";
        client.batch_execute(newer).await.unwrap();
    });
    for command in [&["serve", "--listen", FREE_PORT][..], &["migrate"], &["status"], &["doctor"]] {
        let said = place.command(&[command, &["--database", &url]].concat()).said();
        assert_eq!(said.code, 4, "{command:?}: {said:?}");
        let all = said.out + &said.err;
        assert!(all.contains("use a newer punctual"), "{command:?}: {all}");
    }
}

/// PLT-24: a server that may not migrate waits for a schema, as long as it is told.
#[test]
fn plt_24_a_schema_that_does_not_fit_is_refused() {
    let place = Place::new();
    let database = place.database();
    for (wait, waits) in [("0s", false), ("300ms", true)] {
        let serve = ["serve", "--database", &database, "--listen", FREE_PORT, "--migrate", "false"];
        let said = place.command(&[&serve[..], &["--schema-wait", wait]].concat()).said();
        assert_eq!(said.code, 4, "{said:?}");
        assert!(said.err.contains("run `punctual migrate`"), "{said:?}");
        assert_eq!(said.err.contains("waiting for another process to migrate it"), waits, "{said:?}");
        assert_eq!(said.err.contains("no process migrated it within 300ms"), waits, "{said:?}");
    }
}

/// PLT-24: the server starts first, another process migrates, and the server goes on.
#[test]
fn plt_24_a_server_goes_on_when_another_process_has_migrated() {
    let place = Place::new();
    let database = place.database();
    std::thread::scope(|threads| {
        let mut command =
            place.command(&["serve", "--database", &database, "--listen", FREE_PORT, "--migrate", "false"]);
        let served = threads.spawn(move || command.serve());
        std::thread::sleep(Duration::from_millis(600));
        assert!(!served.is_finished(), "the server waits for the schema");
        place.json(&["migrate"]);
        assert!(served.join().unwrap().ready.contains("punctual is ready"));
    });
}

/// A flag goes before the environment, that before the file.
#[test]
fn prd_9_flags_go_before_environment_before_file() {
    let place = Place::new();
    let text = "role = \"worker\"\nclock = \"manual\"\nlisten = \"127.0.0.1:0\"\n";
    let file = place.file("punctual.toml", text);
    let start = |arguments: &[&str], role: Option<&str>| {
        let mut command = place.command(&[&["serve", "--config", &file], arguments].concat());
        command.env("PUNCTUAL_DATABASE", "sqlite::memory:");
        role.map(|role| command.env("PUNCTUAL_ROLE", role));
        command.serve()
    };
    assert!(start(&[], None).ready.contains("role worker, manual clock"));
    assert!(start(&[], Some("api")).ready.contains("role api, manual clock"));
    assert!(start(&["--role", "all"], Some("api")).ready.contains("role all, manual clock"));
}

/// A database that ran on a manual clock goes on with the system's only when told.
#[test]
fn a_manual_clock_is_left_only_when_told() {
    let place = Place::new();
    let database = place.database();
    let serve = |more: &[&str]| {
        place.command(&[&["serve", "--database", &database, "--listen", FREE_PORT], more].concat())
    };
    serve(&["--clock", "manual"]).serve().stop("-TERM");
    let said = serve(&[]).said();
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("--leave-manual-clock"), "{said:?}");
    // Commands go by the clock that is there.
    assert_eq!(place.run(&["emit", "--topic", "t", "--kind", "k"]).code, 0);
    assert!(serve(&["--leave-manual-clock"]).serve().stop("-TERM").0.success());
}

/// PRD-17, TRG-17: the sandbox is there on a manual clock, and where the configuration puts a channel
/// into it, which a server on the system clock says aloud.
#[test]
fn prd_17_the_sandbox_is_there_when_asked_for() {
    let place = Place::new();
    let named = place.file("named.toml", "[channels.\"whatsapp:default\"]\nprovider = \"memory\"\n");
    let key = "k".repeat(40);
    let bearer = format!("authorization: Bearer {key}\r\n");
    for (more, memory, whatsapp, warned) in [
        (&[][..], 409, 409, false),
        (&["--clock", "manual"], 200, 404, false),
        (&["--config", &named], 404, 200, true),
        (&["--config", &named, "--clock", "manual"], 200, 200, false),
    ] {
        let serve = ["serve", "--database", "sqlite::memory:", "--listen", FREE_PORT];
        let mut command = place.command(&[&serve, more].concat());
        let serving = command.env("PUNCTUAL_ROOT_KEY", &key).serve();
        let status = |path: &str| serving.get(path, &bearer).0;
        assert_eq!(status("/dev/channels/memory:default"), memory, "{more:?}");
        assert_eq!(status("/dev/channels/whatsapp:default"), whatsapp, "{more:?}");
        let (_, _, err) = serving.stop("-TERM");
        assert_eq!(
            err.contains("messages of whatsapp:default reach no recipient"),
            warned,
            "{more:?}: {err}"
        );
    }
    let demo = place.command(&["demo", "--listen", FREE_PORT]).serve();
    assert_eq!(demo.get("/dev/inbox", "").0, 200);
}

/// PLT-27: a worker answers operators only.
#[test]
fn plt_27_a_worker_serves_no_api() {
    let place = Place::new();
    let key = "k".repeat(40);
    let bearer = format!("authorization: Bearer {key}\r\n");
    for (role, status) in [("worker", 404), ("api", 200), ("all", 200)] {
        let mut command =
            place.command(&["serve", "--database", "sqlite::memory:", "--listen", FREE_PORT, "--role", role]);
        let serving = command.env("PUNCTUAL_ROOT_KEY", &key).serve();
        assert_eq!(serving.get("/api/queues", &bearer).0, status, "{role}");
        assert_eq!(serving.get("/health/live", "").0, 200, "{role}");
    }
}

/// PLT-27: an `api` process sends and receives wake-ups, and leaves the work to others.
#[test]
fn plt_27_a_role_runs_its_own_loops() {
    let place = Place::new();
    for (role, works) in [("api", false), ("worker", true), ("all", true)] {
        let serve =
            ["serve", "--database", "sqlite::memory:", "--listen", FREE_PORT, "--role", role, "--json"];
        let serving = place.command(&serve).serve();
        let (_, answer) = serving.get("/health", "");
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let health: serde_json::Value = serde_json::from_str(body).unwrap();
        let loops: Vec<&str> =
            health["loops"].as_array().unwrap().iter().map(|of| of["name"].as_str().unwrap()).collect();
        for name in ["wake notifier", "wake listener"] {
            assert!(loops.contains(&name), "{role} should run `{name}`: {loops:?}");
        }
        for name in ["worker", "reaper", "job planner", "retention", "inbox maintenance"] {
            assert_eq!(loops.contains(&name), works, "{role} and `{name}`: {loops:?}");
        }
    }
}

/// PLT-24, PLT-27: any number of instances start at once on one new PostgreSQL database,
/// see the same queues, and end well.
#[test]
fn plt_27_many_instances_share_one_postgres() {
    let cluster = Cluster::start(&ClusterOptions::fast()).unwrap();
    let place = Place::new();
    let url = cluster.url("postgres");
    let start = |role: &str| {
        place
            .command(&[
                "serve",
                "--database",
                &url,
                "--listen",
                FREE_PORT,
                "--role",
                role,
                "--stop-limit",
                "2s",
            ])
            .spawn()
            .unwrap()
    };
    // All at once, before any of them can have finished with the schema.
    let mut starting: Vec<_> = ["all", "api", "worker", "worker"].map(start).into();
    let ready = starting.iter_mut().map(|child| {
        use std::io::BufRead;
        let mut line = String::new();
        std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        line
    });
    let ready: Vec<String> = ready.collect();
    assert!(ready.iter().all(|line| line.contains("PostgreSQL")), "{ready:?}");
    let emit = ["emit", "--topic", "orders", "--kind", "k", "--database", &url, "--json"];
    assert_eq!(place.command(&emit).said().code, 0);
    let status = place.command(&["status", "--json", "--database", &url]).said();
    assert!(status.out.contains("\"waiting\":1"), "{status:?}");
    assert_eq!(place.command(&["doctor", "--database", &url]).said().code, 0);
    for child in &starting {
        let stopped = std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
        assert!(stopped.unwrap().success());
    }
    assert!(starting.iter_mut().all(|child| child.wait().unwrap().success()));
}

/// PRD-17: two processes on one PostgreSQL database share its manual clock, whoever moves it.
#[test]
fn prd_17_two_processes_share_a_manual_clock() {
    let cluster = Cluster::start(&ClusterOptions::fast()).unwrap();
    let (place, url, key) = (Place::new(), cluster.url("postgres"), "k".repeat(40));
    let bearer = format!("authorization: Bearer {key}\r\n");
    let start = || {
        let arguments = ["serve", "--database", &url, "--listen", FREE_PORT, "--clock", "manual"];
        place.command(&arguments).env("PUNCTUAL_ROOT_KEY", &key).serve()
    };
    let (one, other) = (start(), start());
    one.post("/dev/clock", &bearer, &json!({"set": "2030-01-01T00:00:00Z"}));
    assert!(other.get("/dev/clock", &bearer).1.contains("2030-01-01T00:00:00Z"));
    let event = json!({"topic": "t", "kind": "k", "payload": {}, "dueAt": "2030-01-02T00:00:00Z"});
    one.post("/api/events", &bearer, &event);
    let claim = json!({"owner": "w", "leaseSeconds": 30, "limit": 10});
    let claimed = |server: &super::process::Serving| {
        let answer = server.post("/api/queues/t/claim", &bearer, &claim);
        answer["items"].as_array().unwrap().len()
    };
    assert_eq!(claimed(&other), 0, "a day early");
    let now = other.post("/dev/clock", &bearer, &json!({"advance": "1d"}));
    assert_eq!(now["now"], "2030-01-02T00:00:00Z");
    assert_eq!(claimed(&one), 1, "due by the clock that the other process moved");
}

/// PRD-15: the demo shows itself to everybody, so a public address must be asked for.
#[test]
fn prd_15_the_demo_refuses_a_public_address() {
    let place = Place::new();
    let said = place.command(&["demo", "--listen", "0.0.0.0:0"]).said();
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("--allow-public"), "{said:?}");
}

#[test]
fn the_demo_works_and_stops() {
    let place = Place::new();
    let serving = place.command(&["demo", "--listen", FREE_PORT]).serve();
    let (status, page) = serving.get("/", "");
    assert_eq!(status, 200);
    for part in ["content-security-policy: default-src 'none'", "orders", "invoices", "emails", "All well"] {
        assert!(page.contains(part), "{part} in {page}");
    }
    assert_eq!(serving.get("/status.css", "").0, 200);
    assert_eq!(serving.get("/status.js", "").0, 200);
    let (status, rest, _) = serving.stop("-INT");
    assert!(status.success());
    assert!(rest.contains("Root key:     demo_"), "{rest}");
}

/// PRD-14: where others can reach it, the status page wants a key.
#[test]
fn prd_14_the_status_page_of_a_public_listener_wants_a_key() {
    let place = Place::new();
    let key = "k".repeat(40);
    let mut command = place.command(&["serve", "--database", "sqlite::memory:", "--listen", "0.0.0.0:0"]);
    let serving = command.env("PUNCTUAL_ROOT_KEY", &key).serve();
    let (status, page) = serving.get("/", "");
    assert_eq!(status, 401);
    assert!(page.contains("This page needs a key") && !page.contains("Queues"), "{page}");
    assert_eq!(serving.get("/", &format!("authorization: Bearer {key}\r\n")).0, 200);
    // The same as a browser sends it: base64 of `me:kkk…`.
    let basic = format!("authorization: Basic bWU6{}aw==\r\n", "a2tr".repeat(13));
    assert_eq!(serving.get("/", &basic).0, 200);
}

#[test]
fn prd_9_a_server_without_any_key_says_what_to_do() {
    let place = Place::new();
    let warning = "set PUNCTUAL_ROOT_KEY (make one with `openssl rand -hex 32`)";
    for listen in [FREE_PORT, "0.0.0.0:0"] {
        let serve = ["serve", "--database", &place.database(), "--listen", listen];
        let (status, _, err) = place.command(&serve).serve().stop("-TERM");
        assert!(status.success());
        assert!(err.contains(warning), "{listen}: {err}");
        let mut command = place.command(&serve);
        let (_, _, err) = command.env("PUNCTUAL_ROOT_KEY", "k".repeat(32)).serve().stop("-TERM");
        assert!(!err.contains(warning), "{listen}: {err}");
    }
    place.json(&["keys", "create", "n"]);
    let serve = ["serve", "--database", &place.database(), "--listen", FREE_PORT];
    let (_, _, err) = place.command(&serve).serve().stop("-TERM");
    assert!(!err.contains(warning), "{err}");
}
