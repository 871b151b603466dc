//! Results of a survey, and the export of its answers: which instances they are about.

use crate::client::Client;
use crate::surveys::{csi_gr, invite, publish};
use crate::world::{Base, World};
use serde_json::{Value, json};

on_each! { trg_26_results_are_of_the_instances_of_a_version_a_trigger_and_a_period }

async fn answer(client: &Client, id: &str, rate: i64, complaint: &str) {
    let answers = json!({"rate": rate, "has-a-complaint": "Yes", "complaint": complaint});
    client.does(&format!("/api/SurveyInstances/{id}/responses"), json!({"answers": answers}), 200).await;
}

/// TRG-26: a filter names instances, by when they were triggered; all figures, the texts and the lines of the
/// export are about these and no others, whenever they were answered.
async fn trg_26_results_are_of_the_instances_of_a_version_a_trigger_and_a_period(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    root.does("/dev/clock", json!({"set": "2026-05-14T05:00:00Z", "run": false}), 200).await;
    let survey = publish(&root, csi_gr()).await;
    let (early, _silent) = (invite(&root, "1").await, invite(&root, "2").await);
    root.does("/dev/clock", json!({"set": "2026-05-15T05:00:00Z"}), 200).await;
    let mut changed = csi_gr();
    changed["triggers"][0]["id"] = json!("second");
    let put = root.put(&format!("/api/surveys/{survey}"), json!({"definition": changed})).await;
    assert_eq!(put.status, 200, "{}", put.text);
    root.does(&format!("/api/surveys/{survey}/publish"), json!({}), 200).await;
    let late = invite(&root, "3").await;
    world.advance("1s").await;
    answer(&root, &late, 3, "late").await;
    answer(&root, &early, 9, "early").await;
    let both = ["late", "early"].as_slice();
    let table: [(&str, u64, &[&str]); 10] = [
        ("", 3, both),
        ("version=1", 2, &["early"]),
        ("version=2", 1, &["late"]),
        ("triggerId=csi-gr-trigger", 2, &["early"]),
        ("triggerId=second", 1, &["late"]),
        ("triggerId=second&version=1", 0, &[]),
        ("to=2026-05-15T00:00:00Z", 2, &["early"]),
        ("from=2026-05-15T00:00:00Z", 1, &["late"]),
        ("from=2026-05-14T05:00:00Z&to=2026-05-15T05:00:01Z", 3, both),
        ("from=2026-05-15T05:00:01Z", 0, &[]),
    ];
    for (filter, invited, texts) in table {
        let results = root.sees(&format!("/api/surveys/{survey}/results?{filter}")).await;
        let figures = (&results["invited"], &results["completed"], &results["questions"][0]["answered"]);
        let answered = json!(texts.len());
        assert_eq!(figures, (&json!(invited), &answered, &answered), "{filter}: {results}");
        let mut comments: Vec<&str> = of(&results["comments"], "text");
        comments.sort_unstable_by(|a, b| b.cmp(a));
        assert_eq!(comments, texts, "{filter}: {results}");
        let csv = root.get(&format!("/api/surveys/{survey}/responses.csv?{filter}")).await.text;
        // It is transferred in chunks, whose lengths have no comma.
        let cells = csv.lines().filter_map(|line| line.trim_end().rsplit_once(',')).map(|(_, last)| last);
        let mut lines: Vec<&str> = cells.filter(|last| *last != "complaint").collect();
        lines.sort_unstable_by(|a, b| b.cmp(a));
        assert_eq!(lines, texts, "{filter}: {csv}");
    }
}

fn of<'a>(list: &'a Value, field: &str) -> Vec<&'a str> {
    list.as_array().unwrap().iter().map(|one| one[field].as_str().unwrap()).collect()
}
