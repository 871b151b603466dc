//! What requests cost of the server's memory.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "test code")]

use super::process::{Place, Run, Serving};
use std::io::{Read, Write};
use std::net::TcpStream;

const MIB: usize = 1024 * 1024;
/// What a server that does nothing takes, and a few bodies beside it.
const PEAK_MIB_MAX: u64 = 250;

/// PRD-14: 32 MiB of rubbish by a viewer is refused before it is parsed, and what is parsed stays small.
#[cfg(target_os = "linux")]
#[test]
fn prd_14_rubbish_costs_little_memory() {
    let place = Place::new();
    let serving =
        place.command(&["serve", "--database", &place.database(), "--listen", "127.0.0.1:0"]).serve();
    let key = |role: &str| {
        place.json(&["keys", "create", role, "--role", role])["key"].as_str().unwrap().to_owned()
    };
    let (viewer, support) = (key("viewer"), key("support"));
    let items =
        |bytes: usize| format!("{{\"eventKind\":\"k\",\"items\":[{}0]}}", "0,".repeat(bytes / 2 - 20));
    let objects = |bytes: usize| format!("[{}{{}}]", "{\"a\":0},".repeat(bytes / 8 - 1));
    for (key, path, body, status) in [
        (&viewer, "/api/triggers/explain", items(32 * MIB), 413),
        (&viewer, "/api/triggers/explain", items(2 * MIB), 413),
        (&viewer, "/api/triggers/explain", items(MIB / 8), 422),
        (&support, "/api/triggers/ingest", items(32 * MIB), 413),
        (&support, "/api/events", items(32 * MIB).replacen("{\"eventKind\":\"k\",\"items\":", "", 1), 413),
        (&support, "/api/events", objects(32 * MIB), 413),
    ] {
        let answer = post(&serving, path, key, &body);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{path}: {}",
            &answer[..answer.len().min(400)]
        );
        assert!(answer.len() < 64 * 1024, "{path}: an answer of {} bytes", answer.len());
    }
    let peak = serving.memory_peak_kib() / 1024;
    assert!(peak < PEAK_MIB_MAX, "the server took {peak} MiB");
}

fn post(serving: &Serving, path: &str, key: &str, body: &str) -> String {
    let address = serving.address();
    let mut stream = TcpStream::connect(&address).unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    // A server that refuses early may close before everything was sent.
    stream.write_all(body.as_bytes()).ok();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok();
    String::from_utf8(answer).unwrap()
}
