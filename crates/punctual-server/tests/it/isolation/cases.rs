//! How each route is called with what another tenant has.

use super::seed::{Known, NUMBER};
use crate::client::Reply;
use punctual_server::http::Route;
use serde_json::{Value, json};

/// One call of a route.
#[derive(Debug)]
pub struct Case {
    pub path: String,
    pub body: Option<Value>,
    /// Whether the path names something by a number that is unique to the whole house: it must not be there.
    /// Names are each tenant's own, and under the same one the caller may have something else, or make it.
    pub by_number: bool,
    /// Whether the answer is a list, of which nothing may be left.
    pub lists: bool,
    /// What was added to a call that is good by itself: the route may refuse it for that, and for nothing
    /// else.
    pub extras: &'static [&'static str],
}

impl Case {
    /// Whether a 422 is about what was added, and nothing else.
    pub fn is_refused_for_its_extras(&self, reply: &Reply) -> bool {
        let answer = reply.json();
        let errors = answer["errors"].as_array().map_or(&[][..], Vec::as_slice);
        let is_extra = |error: &Value| {
            let path = error["path"].as_str().unwrap_or_default();
            self.extras.contains(&path.rsplit('.').next().unwrap_or(path))
        };
        reply.status == 422 && !errors.is_empty() && errors.iter().all(is_extra)
    }
}

/// The calls of a route: as it is, and with the other tenant named where a careless program could look.
pub fn of(route: &Route, known: &Known) -> Vec<Case> {
    let (method, pattern) = route.method_and_path();
    let path = fill(pattern, known) + query(route.name);
    assert!(!path.contains('{'), "route {} has no case in the matrix: add its path to `fill`", route.name);
    let body = body(route.name, known);
    let writes = method == "POST" || method == "PUT";
    assert!(!writes || body.is_some(), "route {} has no case in the matrix: add its body", route.name);
    let by_number = numbered(pattern);
    let lists = method == "GET" && !pattern.contains('{') && !MADE_BY_US.contains(&pattern);
    let named = body.clone().map(|mut body| {
        if let Some(fields) = body.as_object_mut() {
            fields.insert("tenantId".into(), json!(super::THEIRS));
            fields.insert("tenant".into(), json!(super::THEIRS));
        }
        body
    });
    let mark = if path.contains('?') { '&' } else { '?' };
    let asked = format!("{path}{mark}tenantId={0}&tenant={0}", super::THEIRS);
    let extras: &[&str] = &["tenantId", "tenant"];
    let mut all = vec![
        Case { path: path.clone(), body: body.clone(), by_number, lists, extras: &[] },
        Case { path: asked, body, by_number: false, lists, extras },
    ];
    if named.is_some() {
        all.push(Case { path: path.clone(), body: named, by_number: false, lists, extras });
    }
    if lists {
        all.extend(FILTERS.iter().map(|(name, value)| {
            let path = format!("{path}?{name}={value}");
            Case { path, body: None, by_number: false, lists, extras: std::slice::from_ref(name) }
        }));
    }
    all
}

/// Lists that hold something of the callers' own, or of nobody.
const MADE_BY_US: [&str; 4] = ["/api/keys", "/api/tenants", "/api/tenant-settings", "/api/queues"];

/// Filters that the other tenant's things match; a list that does not know one says so.
const FILTERS: [(&str, &str); 6] = [
    ("topic", "orders"),
    ("bookingId", "B-7"),
    ("address", "%2B9647700000001"),
    ("customerRef", "cust-123"),
    ("source", "shop"),
    ("eventType", "booking.confirmed"),
];

/// What a route must be asked for in its query.
fn query(route: &str) -> &'static str {
    match route {
        "DELETE /api/suppressions" => "?address=%2B9647700000001&channel=email",
        _ => "",
    }
}

fn numbered(pattern: &str) -> bool {
    const BY_NAME: [&str; 2] = ["/api/entities/", "/api/bookings/"];
    let by_name = BY_NAME.iter().any(|start| pattern.starts_with(start));
    (pattern.contains("{id}") && !by_name) || pattern.contains("{publicId}")
}

fn fill(pattern: &str, known: &Known) -> String {
    let id = match pattern.split('/').nth(2) {
        Some("events") => text(&known.event),
        Some("dead-letters") => text(&known.dead_letter),
        Some("timers") => text(&known.timer),
        Some("surveys") => text(&known.survey),
        Some("message-templates") => text(&known.template),
        Some("communication-logs") => text(&known.log),
        Some("automation-schedules") => text(&known.schedule),
        Some("keys") => text(&known.key),
        Some("entities" | "bookings") => "B-7".into(),
        _ => "{id}".into(),
    };
    let name = match pattern.split('/').nth(2) {
        Some("subscriptions") => "mail",
        Some("jobs") => "nightly",
        Some("leases") => "night",
        _ => "{name}",
    };
    [
        ("{id}", id.as_str()),
        ("{name}", name),
        ("{topic}", "orders"),
        ("{subscription}", "mail"),
        ("{kind}", "booking.confirmed"),
        ("{type}", "booking"),
        ("{n}", "1"),
        ("{triggerId}", "csi-gr-trigger"),
        ("{publicId}", &text(&known.instance)),
        ("{address}", NUMBER),
        ("{key}", "memory:default"),
    ]
    .into_iter()
    .fold(pattern.to_owned(), |path, (name, value)| path.replace(name, value))
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// What is sent along: the other tenant's numbers, names and tokens, wherever the route takes some.
fn body(route: &str, known: &Known) -> Option<Value> {
    let (method, path) = route.split_once(' ')?;
    if method == "DELETE" || method == "GET" {
        return None;
    }
    of_work(path, known)
        .or_else(|| of_time(path, known))
        .or_else(|| of_surveys(path))
        .or_else(|| of_words(method, path, known))
        .or_else(|| of_the_house(path))
}

fn of_work(path: &str, known: &Known) -> Option<Value> {
    let held = if path.contains("{subscription}") { &known.held_by_subscription } else { &known.held };
    let item = json!({"id": held["id"], "token": held["token"], "error": "no", "delaySeconds": 0});
    Some(match path.rsplit('/').next()? {
        "events" => {
            json!({"topic": "orders", "kind": "order.placed", "source": "shop", "id": "o-1", "payload": {}})
        }
        "claim" => json!({"owner": "us", "leaseSeconds": 30, "limit": 10}),
        "ack" | "abandon" => json!({"items": [{"id": held["id"], "token": held["token"]}]}),
        "fail" if path.starts_with("/api/queues") => json!({"items": [item]}),
        "extend" => json!({"items": [{"id": held["id"], "token": held["token"]}], "leaseSeconds": 600}),
        "{topic}" => json!({"maxAttempts": 2}),
        "pause" | "resume" => json!({}),
        "{name}" if path.starts_with("/api/subscriptions") => json!({"target": {"type": "queue"}}),
        "replay" | "purge" if path.starts_with("/api/dead-letters") => json!({"ids": [known.dead_letter]}),
        _ => return None,
    })
}

fn of_time(path: &str, known: &Known) -> Option<Value> {
    let said = json!({"source": "shop", "messageId": "m-1", "token": known.inbox_token, "error": "no"});
    Some(match path {
        "/api/timers" => json!({"topic": "orders", "payload": {}, "delay": "1h"}),
        "/api/timers/{id}/move" => json!({"delay": "3h"}),
        "/api/timers/cancel" => json!({"ids": [known.timer]}),
        "/api/timers/move" => json!({"ids": [known.timer], "delay": "3h"}),
        "/api/jobs/{name}" => json!({"topic": "reports", "cron": "0 0 7 * * *"}),
        "/api/jobs/{name}/enable" | "/api/jobs/{name}/disable" | "/api/jobs/{name}/trigger" => json!({}),
        "/api/leases/{name}/acquire" => json!({"owner": "us", "seconds": 60}),
        "/api/leases/{name}/renew" => json!({"owner": "night-watch", "fencingToken": 1, "seconds": 60}),
        "/api/leases/{name}/release" => json!({"owner": "night-watch", "fencingToken": 1}),
        "/api/inbox/begin" => json!({"source": "shop", "messageId": "m-1", "leaseSeconds": 60}),
        "/api/inbox/complete" | "/api/inbox/fail" | "/api/inbox/dead" => said,
        "/api/inbox/replay" => json!({"filter": {"source": "shop"}}),
        _ => return None,
    })
}

fn of_surveys(path: &str) -> Option<Value> {
    let recipients = json!([{"address": NUMBER, "payload": {"wip": "9", "dealerId": "1"}}]);
    Some(match path {
        "/api/surveys" | "/api/surveys/{id}" => {
            json!({"name": "ours", "definition": crate::surveys::csi_gr()})
        }
        "/api/surveys/{id}/publish" | "/api/surveys/{id}/unpublish" => json!({}),
        "/api/surveys/{id}/triggers/{triggerId}/send" => json!({"recipients": recipients}),
        "/api/triggers/ingest" | "/api/Surveys/Triggers/ingest" | "/api/triggers/explain" => {
            crate::surveys::event("1")
        }
        "/api/survey-instances/{publicId}/cancel" | "/api/SurveyInstances/{publicId}/opened" => json!({}),
        "/api/SurveyInstances/{publicId}/responses" => {
            json!({"answers": {"rate": 9, "has-a-complaint": "No"}})
        }
        _ => return None,
    })
}

fn of_words(method: &str, path: &str, known: &Known) -> Option<Value> {
    let template =
        json!({"eventType": "booking.confirmed", "channel": "SMS", "language": "en", "body": "ours"});
    Some(match path {
        "/api/message-templates" | "/api/message-templates/{id}" => template,
        "/api/message-templates/{id}/preview" => json!({"entityId": "B-7"}),
        "/api/event-kinds/{kind}" => {
            json!({"entityType": "booking", "entityIdPath": "bookingId", "recipients": {"phone": "phone"}})
        }
        "/api/entities/{type}/{id}" if method == "PUT" => json!({"version": 9, "state": {}}),
        "/api/automation-schedules/replay" => json!({"ids": [known.schedule]}),
        "/api/automation-schedules/{id}/hold"
        | "/api/automation-schedules/{id}/release"
        | "/api/automation-schedules/{id}/retry"
        | "/api/automation-schedules/{id}/cancel" => json!({"reason": "ours"}),
        "/api/bookings/{id}/resend-notification" | "/api/entities/{type}/{id}/resend-notification" => {
            json!({"channel": "SMS"})
        }
        "/api/suppressions" => json!({"address": NUMBER, "channel": "email"}),
        "/api/recipients/{address}/preferences" => json!({"locale": "en"}),
        "/api/tenant-settings" => json!({"quietHours": {"from": "21:00", "to": "07:00"}}),
        _ => return None,
    })
}

/// Those that only operators of the whole house may call get nothing worth reading.
fn of_the_house(path: &str) -> Option<Value> {
    Some(match path {
        "/api/keys" => json!({"name": "ours", "role": "viewer"}),
        "/api/tenants"
        | "/ops/outbox/replay"
        | "/api/scheduler/tick"
        | "/dev/clock"
        | "/dev/channels/{key}" => {
            json!({})
        }
        _ => return None,
    })
}

/// Whether an answer has no items.
pub fn nothing_of(reply: &Reply) -> bool {
    let answer = reply.json();
    answer["items"].as_array().is_none_or(Vec::is_empty)
}
