//! Requests that would come to nothing say so.

use crate::surveys::csi_gr;
use crate::world::{Base, World};
use serde_json::{Value, json};

on_each! {
    prd_5_an_event_of_a_kind_for_another_topic_is_warned_of,
    prd_5_a_timer_of_a_kind_for_another_topic_is_warned_of,
    prd_5_an_ingest_of_an_unknown_kind_is_warned_of,
    prd_5_a_pause_of_an_unknown_queue_is_warned_of,
    plt_29_an_unknown_field_of_an_ingested_item_is_refused,
}

fn warnings(answer: &Value) -> Vec<(&str, &str)> {
    let list = answer["warnings"].as_array().into_iter().flatten();
    list.map(|one| (one["path"].as_str().unwrap(), one["message"].as_str().unwrap())).collect()
}

/// PRD-5: a booking that is published to another topic than its kind's reaches neither surveys nor templates.
async fn prd_5_an_event_of_a_kind_for_another_topic_is_warned_of(base: Base) {
    let root = World::manual(base).await.root();
    let kind = json!({"topic": "booking.events", "recipients": {"email": "to"}});
    root.put("/api/event-kinds/booking.confirmed", kind).await;
    let event =
        |topic: &str| json!({"topic": topic, "kind": "booking.confirmed", "payload": {"to": "a@b.example"}});
    let good = root.does("/api/events", event("booking.events"), 202).await;
    assert_eq!(warnings(&good), []);
    let said = "event kind `booking.confirmed` is defined for topic `booking.events`: surveys and \
                notifications ignore it here";
    let lost = root.does("/api/events", event("bookings"), 202).await;
    assert_eq!(warnings(&lost), [("topic", said)]);
    let many = root.does("/api/events", json!([event("booking.events"), event("bookings")]), 202).await;
    assert_eq!(warnings(&many), [("[1].topic", said)]);
}

/// PRD-5: so is a timer that would fire for nobody, each of a list with its own.
async fn prd_5_a_timer_of_a_kind_for_another_topic_is_warned_of(base: Base) {
    let root = World::manual(base).await.root();
    let kind = json!({"topic": "booking.events", "recipients": {"email": "to"}});
    root.put("/api/event-kinds/booking.confirmed", kind).await;
    let timer =
        |topic: &str| json!({"topic": topic, "kind": "booking.confirmed", "payload": 1, "delay": "1h"});
    let good = root.does("/api/timers", timer("booking.events"), 201).await;
    assert_eq!(good.get("warnings"), None, "{good}");
    let said = "event kind `booking.confirmed` is defined for topic `booking.events`: surveys and \
                notifications ignore it here";
    let lost = root.does("/api/timers", timer("bookings"), 201).await;
    assert_eq!(warnings(&lost), [("topic", said)]);
    let many = root.does("/api/timers", json!([timer("booking.events"), timer("bookings")]), 201).await;
    assert_eq!((warnings(&many[0]), warnings(&many[1])), (vec![], vec![("topic", said)]));
}

/// PRD-5
async fn prd_5_an_ingest_of_an_unknown_kind_is_warned_of(base: Base) {
    let root = World::manual(base).await.root();
    let ingest = |kind: &str| {
        let item = json!({"recipient": {"address": "+964 1"}, "payload": {"jobType": "none"}});
        json!({"eventKind": kind, "items": [item]})
    };
    let none = root.does("/api/triggers/ingest", ingest("service-visit-closed"), 200).await;
    let said = "no published trigger is about events of kind `service-visit-closed`; no survey with a \
                trigger is published";
    assert_eq!(warnings(&none), [("eventKind", said)]);
    let made = root.does("/api/surveys", json!({"name": "s", "definition": csi_gr()}), 201).await;
    root.does(&format!("/api/surveys/{}/publish", made["id"]), json!({}), 200).await;
    let known = root.does("/api/triggers/ingest", ingest("service-visit-closed"), 200).await;
    assert_eq!((warnings(&known), &known["unmatched"]), (vec![], &json!(1)), "its filter did not hold");
    let slip = root.does("/api/triggers/ingest", ingest("service-visit-close"), 200).await;
    let said = "no published trigger is about events of kind `service-visit-close`; did you mean \
                `service-visit-closed`?";
    assert_eq!(warnings(&slip), [("eventKind", said)]);
}

/// PRD-5
async fn prd_5_a_pause_of_an_unknown_queue_is_warned_of(base: Base) {
    let root = World::manual(base).await.root();
    let first = root.does("/api/queues/emial/pause", json!({}), 200).await;
    assert_eq!(warnings(&first), [("topic", "there was no queue `emial` before; it was made")]);
    let second = root.does("/api/queues/emial/resume", json!({}), 200).await;
    assert_eq!(second.get("warnings"), None);
}

/// PLT-29: such an item fails alone, with the nearest name.
async fn plt_29_an_unknown_field_of_an_ingested_item_is_refused(base: Base) {
    let root = World::manual(base).await.root();
    let items = json!([
        {"recipient": {"address": "+964 1"}, "paylod": {}},
        {"recipient": {"address": "+964 1", "lcale": "ar"}},
        {"recipient": {"address": "+964 1"}},
    ]);
    for path in ["/api/triggers/ingest", "/api/Surveys/Triggers/ingest"] {
        let done = root.does(path, json!({"eventKind": "k", "items": items}), 200).await;
        assert_eq!((&done["failed"], &done["unmatched"]), (&json!(2), &json!(1)), "{done}");
        let error = |n: usize| done["items"][n]["error"].as_str().unwrap_or_default().to_owned();
        assert!(error(0).contains("did you mean `payload`?"), "{done}");
        assert!(
            error(1).contains("recipient.lcale") && error(1).contains("did you mean `locale`?"),
            "{done}"
        );
    }
}
