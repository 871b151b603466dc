//! Free-text answers over HTTP.

use crate::surveys::{csi_gr, invite, publish};
use crate::world::{Base, World};
use serde_json::{Value, json};

on_each! { trg_26_free_texts_come_in_pages }

/// TRG-26: all of them, however many, the newest first.
async fn trg_26_free_texts_come_in_pages(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    root.does("/dev/clock", json!({"set": "2026-05-14T05:12:34Z", "run": false}), 200).await;
    let survey = publish(&root, csi_gr()).await;
    for n in ["1", "2", "3"] {
        let path = format!("/api/SurveyInstances/{}/responses", invite(&root, n).await);
        let answers = json!({"rate": 3, "has-a-complaint": "Yes", "complaint": n});
        world.anybody().does(&path, json!({"answers": answers}), 200).await;
        world.advance("1s").await;
    }
    let path =
        format!("/api/surveys/{survey}/comments?questionId=complaint&triggerId=csi-gr-trigger&limit=2");
    let first = root.sees(&path).await;
    let cursor = first["nextCursor"].as_str().expect("there is a third one");
    let rest = root.sees(&format!("{path}&cursor={cursor}")).await;
    assert_eq!(rest["nextCursor"], Value::Null);
    let items = [&first["items"], &rest["items"]].map(|items| items.as_array().unwrap().clone()).concat();
    let texts: Vec<&Value> = items.iter().map(|item| &item["text"]).collect();
    assert_eq!(texts, ["3", "2", "1"]);
    let (question, at) = (&items[0]["questionId"], &items[0]["completedAt"]);
    assert_eq!((question, at), (&json!("complaint"), &json!("2026-05-14T05:12:36Z")));
    let wrong = format!("/api/surveys/{survey}/comments?questionId=rate");
    assert_eq!(root.get(&wrong).await.problem(422), ["questionId"]);
    let foreign = root.get(&format!("/api/surveys/{survey}/comments?cursor=78")).await;
    assert_eq!(foreign.problem(422), ["cursor"]);
}
