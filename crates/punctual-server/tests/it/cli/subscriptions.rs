//! `punctual subscriptions`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "test code")]

use super::process::Place;
use serde_json::json;

/// FAN-1
#[test]
fn fan_1_subscriptions_are_put_listed_and_deleted() {
    let place = Place::new();
    place.json(&["migrate"]);
    let put = ["subscriptions", "put", "orders", "mail", "--max-attempts", "3", "--backoff", "1m,5m"];
    let filter = json!({"questionId": "kind", "op": "==", "value": "placed"});
    let made = place.json(&[&put[..], &["--filter", &filter.to_string()]].concat());
    assert_eq!(
        made,
        json!({"topic": "orders", "name": "mail", "filter": filter, "target": {"type": "queue"},
            "retry": {"maxAttempts": 3, "backoff": ["1m", "5m"]}, "enabled": true,
            "waiting": 0, "due": 0, "inFlight": 0, "dead": 0})
    );
    let said = place.run(&["subscriptions", "put", "orders", "crm", "--target", "handler:crm"]).out;
    assert_eq!(said.trim(), "orders/crm is enabled and goes to handler:crm");
    let again = place.run(&["subscriptions", "put", "orders", "crm", "--target", "handler:crm"]).out;
    assert!(again.starts_with("nothing has changed"), "{again}");
    place.json(&["emit", "--topic", "orders", "--kind", "placed"]);
    let list = place.json(&["subscriptions", "list", "--topic", "orders"]);
    let waiting: Vec<_> = list["items"].as_array().unwrap().iter().map(|s| s["waiting"].clone()).collect();
    assert_eq!(waiting, [1, 1]);
    let words = place.run(&["subscriptions", "list"]).out;
    assert!(words.contains("handler:crm") && words.contains("mail"), "{words}");
    assert_eq!(place.run(&["subscriptions", "delete", "orders", "mail"]).code, 2, "nobody is here to answer");
    let gone = place.json(&["subscriptions", "delete", "orders", "mail", "--yes"]);
    assert_eq!(gone, json!({"dropped": 1, "inFlight": 0}));
    let said = place.run(&["subscriptions", "delete", "orders", "mail", "--yes"]);
    assert!(said.err.contains("there is no subscription `orders/mail`"), "{said:?}");
    let said = place.run(&["subscriptions", "put", "orders", "mail", "--target", "webhook"]);
    assert!(said.err.contains("target.type: `webhook` is not there in this version"), "{said:?}");
    assert_eq!(place.run(&["subscriptions", "put", "orders", "mail", "--filter", "{"]).code, 2);
}
