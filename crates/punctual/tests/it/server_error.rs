//! Errors of PostgreSQL name the server and the cause, wherever they come up.

use crate::bench::{TENANT, message};
use punctual::testing::TemporaryStore;
use punctual::{Engine, Error, Store};
use std::time::Duration;

/// PRD-9: the driver says only "db error"; the words of the server are kept.
#[tokio::test]
async fn prd_9_a_refused_statement_names_the_server_and_the_cause() {
    let place = TemporaryStore::postgres().await.unwrap();
    place.sql(&["alter table punctual.message drop column payload".to_owned()]).await.unwrap();
    let error = place.store().enqueue(TENANT, vec![message("orders")]).await.unwrap_err();
    let told = error.to_string();
    assert!(matches!(error, Error::Database(_)), "{told}");
    for part in [
        "the database refused a statement: PostgreSQL at ",
        ", database \"",
        "\": ERROR: column \"payload\" of relation \"message\" does not exist (SQLSTATE 42703)",
    ] {
        assert!(told.contains(part), "`{part}` should be in: {told}");
    }
    assert!(!told.contains("db error"), "{told}");
}

/// PRD-9: so do the connection for wake-ups, and the loops that fail.
#[tokio::test]
async fn prd_9_an_unreachable_server_is_named_by_its_listener_and_loops() {
    let url = "postgres://nobody:hush@127.0.0.1:1/nothing";
    let want = "no connection to PostgreSQL at 127.0.0.1:1, database \"nothing\": error connecting to \
                server: Connection refused";
    let store = Store::open(url, 2).unwrap();
    for told in [store.listen().await.unwrap_err(), store.now().await.unwrap_err()] {
        let told = told.to_string();
        assert!(told.contains(want) && !told.contains("hush"), "{told}");
    }
    let engine = Engine::builder(url).without_migrations().schema_wait(Duration::ZERO).open().await;
    let told = engine.map(|_| ()).unwrap_err().to_string();
    assert!(told.contains(want), "{told}");
}
