//! A stop while requests are under way.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "test code")]

use super::process::{Place, Run};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const KEY: &str = "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk";
/// Publishers at once, so that some of their requests are under way at any moment.
const PUBLISHERS: usize = 4;

/// Sends a request; answers the status and the body, or nothing if there was no whole answer.
fn post(address: &str, path: &str, body: &Value) -> Option<(u16, Value)> {
    let mut stream = TcpStream::connect(address).ok()?;
    let body = body.to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\nauthorization: Bearer {KEY}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, serde_json::from_str(body).ok()?))
}

/// PLT-26: a claim that waits for work is answered, every event that was accepted is there, and no request is
/// waited for longer than it takes.
#[test]
fn plt_26_requests_under_way_are_answered_and_what_they_wrote_is_kept() {
    let place = Place::new();
    let database = place.database();
    let mut command = place.command(&["serve", "--database", &database, "--listen", "127.0.0.1:0"]);
    let serving = command.env("PUNCTUAL_ROOT_KEY", KEY).serve();
    let address = serving.address();
    let published = AtomicUsize::new(0);
    let publish = || {
        let mut ids = Vec::new();
        let event = json!({"topic": "orders", "kind": "order.placed", "payload": {}});
        while let Some((202, answer)) = post(&address, "/api/events", &event) {
            ids.push(answer["ids"][0].as_str().unwrap().to_owned());
            published.fetch_add(1, Ordering::Relaxed);
        }
        ids
    };
    let claim = json!({"owner": "worker-1", "waitSeconds": 30});
    let (claimed, accepted) = std::thread::scope(|threads| {
        let claiming = threads.spawn(|| post(&address, "/api/queues/idle/claim", &claim));
        let publishing: Vec<_> = (0..PUBLISHERS).map(|_| threads.spawn(publish)).collect();
        let began = Instant::now();
        while published.load(Ordering::Relaxed) < 10 * PUBLISHERS {
            assert!(began.elapsed() < Duration::from_secs(30), "events should be accepted");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(!claiming.is_finished(), "the claim waits for work");
        let began = Instant::now();
        let (status, _, err) = serving.stop("-TERM");
        assert!(status.success(), "{err}");
        assert!(began.elapsed() < Duration::from_secs(9), "the stop took {:?}", began.elapsed());
        let accepted: Vec<Vec<String>> = publishing.into_iter().map(|one| one.join().unwrap()).collect();
        (claiming.join().unwrap(), accepted.concat())
    });
    assert_eq!(claimed.map(|(status, answer)| (status, answer["items"].clone())), Some((200, json!([]))));
    let connection = rusqlite::Connection::open(database.trim_start_matches("sqlite:")).unwrap();
    let mut kept = connection.prepare("select id from punctual_message").unwrap();
    let kept: BTreeSet<String> =
        kept.query_map([], |row| row.get::<_, i64>(0)).unwrap().map(|id| id.unwrap().to_string()).collect();
    let lost: Vec<&String> = accepted.iter().filter(|id| !kept.contains(*id)).collect();
    assert!(lost.is_empty(), "of {} events that were accepted these are gone: {lost:?}", accepted.len());
}
