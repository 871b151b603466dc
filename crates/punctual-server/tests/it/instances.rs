//! Survey instances in lists, and whose they are.

use crate::surveys::{csi_gr, event, invite, publish};
use crate::world::{Base, World};
use serde_json::{Value, json};

on_each! {
    trg_15_a_list_of_instances_has_what_was_done_for_each,
    trg_27_two_keys_of_one_name_are_two_senders,
}

/// TRG-15, TRG-25: list and detail have one shape, also of deliveries and subscribers.
async fn trg_15_a_list_of_instances_has_what_was_done_for_each(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    let mut definition = csi_gr();
    definition["subscribers"] = json!([{"key": "crm"}, {"key": "lost"}]);
    publish(&root, definition).await;
    let mut ids = Vec::new();
    for wip in ["1", "2", "3"] {
        ids.push(invite(&root, wip).await);
    }
    world.advance("1s").await;
    let queue = json!({"target": {"type": "queue"}});
    for name in ["crm", "mail"] {
        let put = root.put(&format!("/api/subscriptions/survey.responses/{name}"), queue.clone()).await;
        assert_eq!(put.status, 200, "{}", put.text);
    }
    for id in &ids[..2] {
        let answers = json!({"answers": {"rate": 9, "has-a-complaint": "No"}});
        root.does(&format!("/api/SurveyInstances/{id}/responses"), answers, 200).await;
    }
    let claimed = crate::world::claim(&root, "survey.responses/crm").await;
    let failed = json!({"id": claimed[0]["id"], "token": claimed[0]["token"], "error": "no"});
    crate::world::settle(&root, "survey.responses/crm", "fail", failed).await;
    world.advance("2d").await;
    root.does("/api/triggers/ingest", event("4"), 200).await;
    let listed = root.sees("/api/survey-instances").await["items"].as_array().unwrap().clone();
    assert_eq!(listed.len(), 4);
    for one in &listed {
        let id = one["publicId"].as_str().unwrap();
        assert_eq!(
            one,
            &root.sees(&format!("/api/survey-instances/{id}")).await,
            "the list shows what it is"
        );
    }
    let words = |of: &Value, list: &str, field: &str| -> Vec<String> {
        let lines = of[list].as_array().unwrap().iter();
        lines.map(|line| line[field].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(words(&listed[0], "deliveryLog", "status"), Vec::<String>::new(), "nothing was sent yet");
    assert_eq!(words(&listed[1], "deliveryLog", "status"), ["delivered", "delivered"], "and its reminder");
    assert_eq!(words(&listed[1], "dispatches", "status"), Vec::<String>::new(), "it was not answered");
    assert_eq!(words(&listed[2], "deliveryLog", "status"), ["delivered"]);
    assert_eq!(words(&listed[2], "dispatches", "subscriber"), ["crm", "lost"]);
    let mut statuses = [&listed[2], &listed[3]].map(|one| words(one, "dispatches", "status").remove(0));
    statuses.sort_unstable();
    assert_eq!(statuses, ["Failed", "Pending"], "the answer that was claimed first has failed");
}

/// TRG-27: `triggeredBy` is `user:` and the id of the key, since names are neither unique nor kept.
async fn trg_27_two_keys_of_one_name_are_two_senders(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    let survey = publish(&root, csi_gr()).await;
    let path = format!("/api/surveys/{survey}/triggers/csi-gr-trigger/send");
    let mut senders = Vec::new();
    for wip in ["1", "2"] {
        let made = root.does("/api/keys", json!({"name": "support", "role": "support"}), 201).await;
        let client = world.anybody().key(made["key"].as_str().unwrap());
        let one = json!({"recipients": ["+964 9"], "payload": {"wip": wip, "dealerId": "1"}});
        let sent = client.does(&path, one, 200).await;
        let id = sent["items"][0]["instances"][0]["publicId"].as_str().unwrap().to_owned();
        let by = root.sees(&format!("/api/survey-instances/{id}")).await["triggeredBy"].clone();
        assert_eq!(by, format!("user:{}", made["id"].as_str().unwrap()));
        senders.push(by);
    }
    assert_ne!(senders[0], senders[1]);
}
