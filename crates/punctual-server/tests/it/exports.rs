//! Answers that are streamed: whole, or visibly broken off.

use crate::client::Client;
use crate::surveys::{csi_gr, invite, publish};
use crate::world::{Base, World};
use punctual::testing::{Backend, TemporaryStore};
use punctual::{ClockMode, Engine};
use punctual_server::app::Settings;
use serde_json::json;
use tokio::io::AsyncReadExt;

on_each! { trg_26_an_export_that_fails_is_broken_off }

/// What ends a transfer in chunks.
const FINAL_CHUNK: &str = "0\r\n\r\n";

/// TRG-26: a file that is not whole does not end like one.
async fn trg_26_an_export_that_fails_is_broken_off(base: Base) {
    let backend = if matches!(base, Base::Sqlite) { Backend::Sqlite } else { Backend::Postgres };
    let place = TemporaryStore::new(backend).await.unwrap();
    let engine = Engine::builder(place.url()).pool_size(4).clock(ClockMode::Manual).open().await.unwrap();
    engine.start();
    let world = World::serve(engine, Settings::default()).await;
    let root = world.root();
    let survey = publish(&root, csi_gr()).await;
    let id = invite(&root, "1").await;
    root.does("/api/scheduler/tick", json!({}), 200).await;
    let answers = json!({"answers": {"rate": 9, "has-a-complaint": "No"}});
    root.does(&format!("/api/SurveyInstances/{id}/responses"), answers, 200).await;
    let path = format!("/api/surveys/{survey}/responses.csv");
    let whole = transfer(&root, &path).await;
    assert!(whole.contains(&id) && whole.ends_with(FINAL_CHUNK), "{whole}");
    let table = if matches!(base, Base::Sqlite) { "punctual_entry" } else { "punctual.entry" };
    place.sql(&[format!("update {table} set public_low = 0")]).await.unwrap();
    let broken = transfer(&root, &path).await;
    // What was in flight may be lost with the connection.
    assert!(broken.is_empty() || broken.starts_with("HTTP/1.1 200"), "{broken}");
    assert!(!broken.ends_with(FINAL_CHUNK), "a part ends like the whole: {broken}");
}

async fn transfer(client: &Client, path: &str) -> String {
    let mut answer = Vec::new();
    client.begin("GET", path, "").await.read_to_end(&mut answer).await.ok();
    String::from_utf8_lossy(&answer).into_owned()
}
