//! SQLite: a commit that fails may be there after a crash, and a transaction that SQLite ended by itself
//! must not go on.
//!
//! The disk under these tests (`punctual-faulty-disk`) fails one write or flush of the write-ahead log at a
//! time, before, amid or after it was carried out. A crash is a copy of the files, which a second store
//! recovers.

use crate::bench::{TENANT, message};
use punctual::access::store::keys::Role;
use punctual::access::store::tenants::NewTenant;
use punctual::base::id::MessageId;
use punctual::database::store::Store;
use punctual::queue::store::inbox::{InboxBeginOutcome, InboxTicket};
use punctual::queue::store::messages::EnqueueOutcome;
use punctual::{Error, InboxDelivery, NewMessage, Result, Tenant};
use punctual_faulty_disk::{Fault, FaultTarget, Operation, heal, install, plan};
use std::path::{Path, PathBuf};

/// A database in a folder of its own.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let name = format!("punctual_commit_{}", punctual::base::random::hex::<8>());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).unwrap();
        Self(folder)
    }

    fn database(&self) -> PathBuf {
        self.0.join("punctual.db")
    }

    fn open(&self) -> Store {
        Store::open(&format!("sqlite:{}", self.database().display()), 2).unwrap()
    }

    async fn migrated() -> (Self, Store) {
        install();
        let folder = Self::new();
        let store = folder.open();
        store.migrate().await.unwrap();
        (folder, store)
    }

    /// What is left when the power goes: the files without the shared memory, in another place.
    fn after_crash(&self) -> Self {
        let copy = Self::new();
        for file in ["punctual.db", "punctual.db-wal"] {
            std::fs::copy(self.0.join(file), copy.0.join(file)).unwrap();
        }
        copy
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// What a caller heard of a commit that failed at one point, and what a crash left of it.
#[derive(Debug)]
struct Trial {
    fault: Fault,
    met: Operation,
    heard: Result<()>,
    there: bool,
}

impl Trial {
    fn check(&self) {
        let honest = match &self.heard {
            Ok(()) => self.there,
            Err(Error::Unknown(_)) => true,
            Err(_) => !self.there,
        };
        let Self { fault, met, heard, there } = self;
        assert!(
            honest,
            "{met:?} failed ({fault:?}), the caller heard {heard:?}, and there after a crash: {there}"
        );
    }
}

/// Fails every step of the commit of `$verb` in its own database, and looks after a crash for what `$there`
/// finds.
macro_rules! each_step {
    (|$store:ident| $verb:expr, |$left:ident| $there:expr) => {{
        let mut trials = Vec::new();
        for fault in Fault::ALL {
            for n in 1.. {
                let (folder, $store) = Folder::migrated().await;
                plan(&folder.database(), FaultTarget::Nth(n), fault);
                let heard = $verb.await.map(drop);
                let failed = heal(&folder.database());
                let Some(met) = failed.first().copied() else {
                    assert!(heard.is_ok(), "nothing failed, and yet: {heard:?}");
                    break;
                };
                let crashed = folder.after_crash();
                let $left = crashed.open();
                let there = $there.await;
                let trial = Trial { fault, met, heard, there };
                trial.check();
                trials.push(trial);
            }
        }
        assert_all_were_seen(&trials);
    }};
}

/// A run in which no failed commit came back shows nothing.
fn assert_all_were_seen(trials: &[Trial]) {
    let unknown =
        |there| trials.iter().any(|t| matches!(t.heard, Err(Error::Unknown(_))) && t.there == there);
    assert!(unknown(true), "no failed commit was there after the crash: {trials:#?}");
    assert!(unknown(false), "every failed commit was there after the crash: {trials:#?}");
    let synced = trials.iter().any(|t| t.met == Operation::Sync);
    let written = trials.iter().any(|t| matches!(t.met, Operation::Write(_)));
    assert!(synced && written, "a commit writes and flushes: {trials:#?}");
}

async fn is_there(store: &Store, id: i64) -> bool {
    store.message(TENANT, MessageId(id)).await.unwrap().is_some()
}

/// PLT-3
#[tokio::test]
async fn plt_3_a_failed_commit_of_a_verb_is_unknown() {
    let named = || vec![message("orders").id("shop", "1")];
    each_step!(|store| store.enqueue(TENANT, named()), |left| is_there(&left, 1));
}

/// PLT-3
#[tokio::test]
async fn plt_3_a_failed_commit_of_a_single_message_is_unknown() {
    each_step!(|store| store.enqueue(TENANT, vec![message("orders")]), |left| is_there(&left, 1));
}

/// PLT-3
#[tokio::test]
async fn plt_3_a_failed_commit_of_a_key_is_unknown() {
    each_step!(|store| store.create_key(TENANT, "till", Role::Viewer, None), |left| async {
        !left.keys(TENANT, punctual::base::id::KeyId(0), 9).await.unwrap().is_empty()
    });
}

/// A driver of the host's own, with which it enqueues and completes beside the engine.
#[derive(Clone, Copy, Debug)]
enum Driver {
    Rusqlite,
    Sqlx,
}

impl Driver {
    async fn enqueue(self, database: &Path, disk: impl FnOnce()) -> Result<()> {
        let messages = [message("orders").id("shop", "1")];
        match self {
            Self::Rusqlite => {
                let connection = rusqlite::Connection::open(database).unwrap();
                disk();
                punctual::queue::outbox::rusqlite::enqueue(&connection, TENANT, &messages).map(drop)
            }
            Self::Sqlx => {
                let mut connection = sqlite_connection(database).await;
                disk();
                punctual::queue::outbox::sqlx_sqlite::enqueue(&mut connection, TENANT, &messages)
                    .await
                    .map(drop)
            }
        }
    }

    async fn complete(self, database: &Path, ticket: &InboxTicket, disk: impl FnOnce()) -> Result<()> {
        match self {
            Self::Rusqlite => {
                let connection = rusqlite::Connection::open(database).unwrap();
                disk();
                punctual::queue::inbox::rusqlite::complete(&connection, TENANT, ticket)
            }
            Self::Sqlx => {
                let mut connection = sqlite_connection(database).await;
                disk();
                punctual::queue::inbox::sqlx_sqlite::complete(&mut connection, TENANT, ticket).await
            }
        }
    }
}

async fn sqlite_connection(database: &Path) -> sqlx::SqliteConnection {
    let url = format!("sqlite:{}", database.display());
    <sqlx::SqliteConnection as sqlx::Connection>::connect(&url).await.unwrap()
}

/// PLT-3: the adapters, in a transaction of their own.
#[tokio::test]
async fn plt_3_a_failed_commit_of_an_adapter_is_unknown() {
    for driver in [Driver::Rusqlite, Driver::Sqlx] {
        let mut trials = Vec::new();
        for fault in Fault::ALL {
            for n in 1.. {
                let (folder, _store) = Folder::migrated().await;
                let database = folder.database();
                let heard = driver.enqueue(&database, || plan(&database, FaultTarget::Nth(n), fault)).await;
                let Some(met) = heal(&database).first().copied() else { break };
                let there = is_there(&folder.after_crash().open(), 1).await;
                let trial = Trial { fault, met, heard, there };
                trial.check();
                trials.push(trial);
            }
        }
        assert_all_were_seen(&trials);
    }
}

/// PLT-13: a completion outside of any transaction of the host.
#[tokio::test]
async fn plt_13_a_failed_commit_of_a_completion_is_unknown() {
    for driver in [Driver::Rusqlite, Driver::Sqlx] {
        let mut unknown = 0;
        for fault in Fault::ALL {
            let (folder, store) = Folder::migrated().await;
            let begun = store.begin_inbox(TENANT, InboxDelivery::new("shop", "1")).await.unwrap();
            let InboxBeginOutcome::Process { ticket, .. } = begun else { panic!("{begun:?}") };
            let database = folder.database();
            let heard =
                driver.complete(&database, &ticket, || plan(&database, FaultTarget::Syncs, fault)).await;
            heal(&database);
            unknown += usize::from(matches!(heard, Err(Error::Unknown(_))));
            assert!(!matches!(heard, Err(Error::Unavailable(_))), "{driver:?}: {heard:?}");
        }
        assert!(unknown > 0, "{driver:?}: no commit failed");
    }
}

/// PLT-3, PLT-24: a migration that fails in its commit can be made again.
#[tokio::test]
async fn plt_3_a_failed_commit_of_a_migration_leaves_all_or_nothing() {
    install();
    for fault in Fault::ALL {
        let folder = Folder::new();
        let store = folder.open();
        plan(&folder.database(), FaultTarget::Syncs, fault);
        let heard = store.migrate().await;
        assert!(matches!(heard, Err(Error::Unknown(_))), "{heard:?}");
        assert!(!heal(&folder.database()).is_empty());
        let left = folder.after_crash().open();
        left.migrate().await.unwrap();
        left.check_schema().await.unwrap();
        store.migrate().await.unwrap();
        store.check_schema().await.unwrap();
    }
}

/// PLT-3: all requests of a group commit hear the same; one that had failed by itself wrote nothing, and
/// knows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plt_3_a_failed_group_commit_is_unknown_for_all_that_wrote() {
    let (folder, store) = Folder::migrated().await;
    plan(&folder.database(), FaultTarget::Syncs, Fault::Done);
    let mut callers = tokio::task::JoinSet::new();
    for n in 0..40 {
        let broken = n % 10 == 9;
        let store = if broken { store.failing_at(2) } else { store.clone() };
        callers.spawn(async move {
            let named = message("orders").id("shop", n.to_string());
            (broken, store.enqueue(TENANT, vec![named]).await)
        });
    }
    for (broken, heard) in callers.join_all().await {
        match heard {
            Err(Error::Unavailable(_)) if broken => {}
            Err(Error::Unknown(_)) if !broken => {}
            other => panic!("broken: {broken}, heard: {other:?}"),
        }
    }
    assert!(heal(&folder.database()).len() < 40, "some of them shared a commit");
}

/// PLT-3: the advice that goes with an unknown outcome is good advice.
#[tokio::test]
async fn plt_3_asking_again_under_the_same_id_makes_an_unknown_outcome_known() {
    let named = || vec![message("orders").id("shop", "1")];
    for fault in Fault::ALL {
        let (folder, store) = Folder::migrated().await;
        plan(&folder.database(), FaultTarget::Syncs, fault);
        assert!(matches!(store.enqueue(TENANT, named()).await, Err(Error::Unknown(_))));
        heal(&folder.database());
        let left = folder.after_crash();
        for store in [left.open(), store] {
            let first = store.enqueue(TENANT, named()).await.unwrap();
            let again = store.enqueue(TENANT, named()).await.unwrap();
            assert_eq!(first[0].id(), again[0].id(), "once, whatever the commit did");
            assert!(matches!(again[0], EnqueueOutcome::Duplicate { same: true, .. }));
        }
    }
}

/// PLT-3: SQLite ends a transaction by itself when the disk is full. Whatever the group still does must not
/// be committed statement by statement, and then be refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plt_3_a_transaction_that_a_full_disk_has_ended_does_not_go_on() {
    let (folder, store) = Folder::migrated().await;
    let other = NewTenant { slug: "other".into(), name: "Other".into(), ..Default::default() };
    let other = store.create_tenant(other).await.unwrap().tenant;
    let large = || NewMessage::new("orders", "placed", format!("\"{}\"", "x".repeat(200_000)));
    store.fill_disk(true).await.unwrap();
    for _ in 0..200 {
        let (lost, small) = tokio::join!(
            store.enqueue(TENANT, vec![large()]),
            store.enqueue(other, vec![NewMessage::new("orders", "placed", "1")]),
        );
        assert!(matches!(lost, Err(Error::Unavailable(_))), "there is no room: {lost:?}");
        let count = count(&folder.database(), other);
        match small {
            Ok(_) => assert_eq!(count, 1, "it was acknowledged"),
            Err(error) => assert_eq!(count, 0, "it was refused ({error}), and is there"),
        }
        clear(&folder.database());
    }
}

fn count(database: &Path, tenant: Tenant) -> i64 {
    let sql = "select count(*) from punctual_message where tenant_id = ?1";
    let connection = rusqlite::Connection::open(database).unwrap();
    connection.query_row(sql, [tenant.id()], |row| row.get(0)).unwrap()
}

fn clear(database: &Path) {
    let connection = rusqlite::Connection::open(database).unwrap();
    connection.execute_batch("delete from punctual_work; delete from punctual_message").unwrap();
}
