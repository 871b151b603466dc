//! The write-ahead log of an SQLite file while a reader is open, and after it.

use crate::bench::{TENANT, message};
use punctual::testing::TemporaryStore;
use punctual::{NewMessage, Store};

/// Payloads that make the log larger than health accepts.
const MIB: usize = 1 << 20;
const MESSAGES: usize = 258;

/// PLT-25: a log that a reader keeps from being checkpointed is reported, and is cut back when the reader is
/// gone, without a restart.
#[tokio::test]
async fn plt_25_a_log_is_reported_while_a_reader_holds_it_and_cut_back_afterwards() {
    let place = TemporaryStore::sqlite().await.unwrap();
    let store = place.store();
    let reader = rusqlite::Connection::open(store.file().unwrap()).unwrap();
    reader.execute_batch("begin; select count(*) from punctual_message").unwrap();
    let payload = format!("\"{}\"", "x".repeat(MIB - 2));
    for _ in 0..MESSAGES {
        store.enqueue(TENANT, vec![NewMessage::new("orders", "placed", &payload)]).await.unwrap();
    }
    let held = store.storage_status().await;
    let told = held.complaints();
    assert!(told.len() == 1 && told[0].contains("because a reader that does not end keeps it"), "{told:?}");
    reader.execute_batch("commit").unwrap();
    commit_twice(store).await;
    let freed = store.storage_status().await;
    assert_eq!(freed.complaints(), [""; 0], "{freed:?}");
}

/// The first commit checkpoints the log, and the second begins it anew.
async fn commit_twice(store: &Store) {
    for _ in 0..2 {
        store.enqueue(TENANT, vec![message("orders")]).await.unwrap();
    }
}
