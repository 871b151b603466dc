//! Nonsense, by the thousand: whatever comes in, nothing breaks and every refusal is a problem.

use crate::world::{Base, World};
use punctual_server::http::table;
use serde_json::{Map, Value, json};

on_each! { prd_7_no_input_breaks_the_server }

/// A small generator of numbers: the same nonsense every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).unwrap_or(0) % sides
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.roll(from.len())]
    }

    fn value(&mut self, depth: usize) -> Value {
        match self.roll(if depth == 0 { 9 } else { 12 }) {
            0 => Value::Null,
            1 => json!(self.roll(2) == 0),
            2 => json!(self.roll(2_000)),
            3 => json!(-1),
            4 => json!(1.5e300),
            5 => json!(i64::MAX),
            6..=8 => json!(self.pick(&WORDS)),
            9 => (0..self.roll(4)).map(|_| self.value(depth - 1)).collect(),
            _ => Value::Object(self.object(depth - 1)),
        }
    }

    fn object(&mut self, depth: usize) -> Map<String, Value> {
        let count = self.roll(8);
        (0..count).map(|_| (self.pick(&FIELDS).to_owned(), self.value(depth))).collect()
    }
}

const FIELDS: [&str; 62] = [
    "address",
    "channel",
    "reason",
    "optOuts",
    "channelOverride",
    "quietHours",
    "from",
    "tenantId",
    "script",
    "latencyMs",
    "transient",
    "timeout",
    "seconds",
    "fencingToken",
    "messageId",
    "hash",
    "status",
    "every",
    "topic",
    "kind",
    "payload",
    "key",
    "entity",
    "type",
    "id",
    "state",
    "occurredAt",
    "dueAt",
    "headers",
    "source",
    "schemaVersion",
    "correlationId",
    "specversion",
    "data",
    "data_base64",
    "time",
    "owner",
    "leaseSeconds",
    "limit",
    "waitSeconds",
    "items",
    "token",
    "error",
    "retryAfter",
    "output",
    "paused",
    "maxAttempts",
    "backoff",
    "retention",
    "ids",
    "filter",
    "dryRun",
    "slug",
    "name",
    "role",
    "delay",
    "spread",
    "dueFrom",
    "cron",
    "timeZone",
    "misfire",
    "overlap",
];
const WORDS: [&str; 18] = [
    "",
    "orders",
    "a/b",
    "\u{0}",
    "\u{202e}x",
    "1.0",
    "30s",
    "1d12h",
    "9999999d",
    "2026-05-14T05:13:00Z",
    "9999-12-31T23:59:59Z",
    "0001-01-01T00:00:00Z",
    "viewer",
    "acme",
    "Europe/Berlin",
    "0 0 * * *",
    "* * 31 2 FRI#5",
    "😀 ' \" \\ ; --",
];
const PATHS: [&str; 10] =
    ["orders", "memory:a", "1", "-1", "99999999999999999999", "%00", "%F0%28", "a%2Fb", "%20", "x%27%22"];

/// PRD-7: no input makes the server fail, and what it refuses it refuses in the same form.
async fn prd_7_no_input_breaks_the_server(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    for round in 0..8 {
        for route in table() {
            let (method, path) = route.method_and_path();
            let mut path = path.to_owned();
            for name in [
                "{topic}",
                "{subscription}",
                "{id}",
                "{name}",
                "{key}",
                "{publicId}",
                "{triggerId}",
                "{n}",
                "{address}",
                "{token}",
                "{provider}",
            ] {
                path = path.replace(name, dice.pick(&PATHS));
            }
            if (method == "GET" || method == "DELETE") && dice.roll(2) == 0 {
                let names = [
                    "limit",
                    "cursor",
                    "topic",
                    "subscription",
                    "source",
                    "status",
                    "dueFrom",
                    "key",
                    "count",
                    "address",
                    "channel",
                    "kind",
                    "reason",
                    "from",
                    "tenantId",
                ];
                let (name, value) = (dice.pick(&names), dice.pick(&PATHS));
                path = format!("{path}?{name}={value}");
            }
            let body = match dice.roll(5) {
                0 => dice.value(2),
                1 => Value::Array((0..3).map(|_| Value::Object(dice.object(2))).collect()),
                _ => Value::Object(dice.object(2)),
            };
            // A clock that jumps to the end of time, or a claim that waits, only costs time.
            let body = body.to_string().replace("\"waitSeconds\":", "\"wait\":");
            let body = if method == "GET" { String::new() } else { body };
            let reply = root.send(method, &path, &body).await;
            assert!((200..500).contains(&reply.status), "{round} {method} {path} {body}: {}", reply.text);
            // Pages say on a page what is wrong.
            if reply.status >= 400 && !path.starts_with("/s/") && !path.starts_with("/u/") {
                let form = reply.header("content-type");
                assert_eq!(form, "application/problem+json", "{round} {method} {path}: {}", reply.text);
                reply.problem(reply.status);
            }
        }
    }
}
