//! Migrations: safe when many start at once, forward only, printable.

use crate::bench::{Bench, message};
use crate::dump::first_column;
use punctual::base::clock::monotonic;
use punctual::base::tenant::Tenant;
use punctual::database::dialect::Dialect;
use punctual::database::migrate::{SCHEMA_VERSION, print};
use punctual::database::store::Store;
use punctual::database::tx::VerbFuture;
use punctual::testing::Backend;
use punctual::testing::place::{Rows, TestDatabase};
use punctual::{Components, Engine, Error};
use std::path::PathBuf;
use std::time::Duration;
use tokio::task::JoinSet;

cases![
    plt_24_ten_at_once_migrate_once,
    plt_24_many_may_open_a_new_database_at_once,
    plt_24_migrating_again_changes_nothing,
    plt_24_a_newer_schema_is_refused,
    plt_24_a_database_of_an_older_build_is_refused,
    plt_24_a_database_of_before_components_is_refused,
    plt_24_other_texts_are_refused,
    plt_24_an_old_schema_is_told,
    plt_24_a_worker_waits_for_a_migration_by_another_process,
    plt_24_a_worker_gives_up_when_no_process_migrates,
    plt_24_a_schema_that_no_migration_mends_is_refused_at_once,
    plt_24_the_printed_sql_makes_the_same_schema,
    plt_24_the_schema_is_the_one_on_file,
];

/// PLT-24: many instances start at once on an empty database.
async fn plt_24_ten_at_once_migrate_once(t: &Bench) {
    let place = TestDatabase::empty(t.backend).await.unwrap();
    let mut tasks = JoinSet::new();
    for _ in 0..10 {
        let url = place.url().to_owned();
        tasks.spawn(async move {
            let store = Store::open(&url, 2)?;
            let answer = store.migrate().await;
            store.check_schema().await?;
            answer
        });
    }
    let answers = tasks.join_all().await;
    let mut answers: Vec<_> = answers.into_iter().map(|a| a.expect("each start succeeds")).collect();
    answers.sort_unstable();
    assert_eq!(answers[0], (0, SCHEMA_VERSION));
    assert!(answers[1..].iter().all(|a| *a == (SCHEMA_VERSION, SCHEMA_VERSION)), "{answers:?}");
}

/// PLT-24: each on a thread of its own, as processes would be.
async fn plt_24_many_may_open_a_new_database_at_once(t: &Bench) {
    for _ in 0..10 {
        let place = TestDatabase::empty(t.backend).await.unwrap();
        let open = || {
            let url = place.url().to_owned();
            std::thread::spawn(move || Store::open(&url, 2).map(drop))
        };
        let all: Vec<_> = (0..8).map(|_| open()).collect();
        for opened in all {
            opened.join().unwrap().expect("each can open it");
        }
    }
}

/// PLT-24
async fn plt_24_migrating_again_changes_nothing(t: &Bench) {
    t.put("orders", 1).await;
    let before = t.dump().await;
    assert_eq!(t.store().migrate().await.unwrap(), (SCHEMA_VERSION, SCHEMA_VERSION));
    before.assert_equals(&t.dump().await, "a second migration");
}

async fn ledger(t: &Bench, change: &str) {
    let table = match t.backend {
        Backend::Sqlite => "punctual_migration",
        Backend::Postgres => "punctual.migration",
    };
    t.place.sql(&[change.replace("LEDGER", table)]).await.unwrap();
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: punctual::Result<T>, said: &str) {
    match result {
        Err(Error::Schema(text)) if text.contains(said) => {}
        other => panic!("`{said}` should be said, but it was {other:?}"),
    }
}

/// PLT-24
async fn plt_24_a_newer_schema_is_refused(t: &Bench) {
    ledger(t, "insert into LEDGER values ('core', 999, 'later', '', 0)").await;
    let before = t.dump().await;
    refused(t.store().migrate().await, "is at version 999");
    refused(t.store().check_schema().await, "use a newer punctual");
    before.assert_equals(&t.dump().await, "a refused migration");
}

/// PLT-24: a build from before the baseline made it.
async fn plt_24_a_database_of_an_older_build_is_refused(t: &Bench) {
    ledger(t, "update LEDGER set version = 18").await;
    let before = t.dump().await;
    refused(t.store().migrate().await, "start with an empty database");
    refused(t.store().check_schema().await, "has schema version 18 of a build from before the first release");
    before.assert_equals(&t.dump().await, "a refused migration");
}

/// PLT-24: the table of migrations of builds before components had no column for them.
async fn plt_24_a_database_of_before_components_is_refused(t: &Bench) {
    ledger(t, "delete from LEDGER where component <> 'core'").await;
    ledger(t, "update LEDGER set version = 20").await;
    ledger(t, "alter table LEDGER rename column component to part").await;
    refused(t.store().migrate().await, "start with an empty database");
    refused(t.store().check_schema().await, "has schema version 20 of a build from before the first release");
}

/// PLT-24
async fn plt_24_other_texts_are_refused(t: &Bench) {
    ledger(t, "update LEDGER set checksum = 'other'").await;
    refused(t.store().migrate().await, "was applied to this database in another form");
}

/// PLT-24: workers wait for the schema.
async fn plt_24_an_old_schema_is_told(t: &Bench) {
    let place = TestDatabase::empty(t.backend).await.unwrap();
    let store = Store::open(place.url(), 2).unwrap();
    refused(store.check_schema().await, "the schema is at version 0");
    store.migrate().await.unwrap();
    store.check_schema().await.unwrap();
}

fn open_without_migrations(place: &TestDatabase, wait: Duration) -> VerbFuture<'static, Engine> {
    Engine::builder(place.url()).pool_size(2).without_migrations().schema_wait(wait).open()
}

/// PLT-24: the worker starts first; on PostgreSQL, row security is on once it goes on.
async fn plt_24_a_worker_waits_for_a_migration_by_another_process(t: &Bench) {
    let place = TestDatabase::empty(t.backend).await.unwrap();
    let worker = tokio::spawn(open_without_migrations(&place, Duration::from_secs(60)));
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert!(!worker.is_finished(), "the worker waits for the schema");
    let other = Store::open(place.url(), 2).unwrap();
    other.migrate().await.unwrap();
    let engine = worker.await.unwrap().unwrap();
    assert_eq!(engine.store().check_row_security().await.unwrap(), other.check_row_security().await.unwrap());
    engine.enqueue_one(Tenant::DEFAULT, message("orders")).await.unwrap();
}

/// PLT-24: no process migrates.
async fn plt_24_a_worker_gives_up_when_no_process_migrates(t: &Bench) {
    let place = TestDatabase::empty(t.backend).await.unwrap();
    let began = monotonic();
    let opened = open_without_migrations(&place, Duration::from_millis(300)).await;
    refused(opened.map(drop), "no process migrated it within 300ms; run `punctual migrate`");
    assert!(began.elapsed() >= Duration::from_millis(300), "it waited");
    let opened = open_without_migrations(&place, Duration::ZERO).await;
    refused(opened.map(drop), "version 21 is needed; run `punctual migrate`");
}

/// PLT-24: a newer schema, or one of before the baseline, is no reason to wait.
async fn plt_24_a_schema_that_no_migration_mends_is_refused_at_once(t: &Bench) {
    for (version, said) in [(999, "use a newer punctual"), (18, "start with an empty database")] {
        let place = TestDatabase::migrated(t.backend).await.unwrap();
        let table = match t.backend {
            Backend::Sqlite => "punctual_migration",
            Backend::Postgres => "punctual.migration",
        };
        place.sql(&[format!("update {table} set version = {version}")]).await.unwrap();
        let opened = open_without_migrations(&place, Duration::from_secs(600));
        let opened = tokio::time::timeout(Duration::from_secs(30), opened).await.expect("it does not wait");
        refused(opened.map(drop), said);
    }
}

/// PLT-24: also printable as SQL.
async fn plt_24_the_printed_sql_makes_the_same_schema(t: &Bench) {
    let by_hand = TestDatabase::empty(t.backend).await.unwrap();
    by_hand.sql(&[print(dialect(t.backend), Components::ALL)]).await.unwrap();
    let by_itself = TestDatabase::migrated(t.backend).await.unwrap();
    assert_eq!(schema(&by_hand).await, schema(&by_itself).await);
    let store = Store::open(by_hand.url(), 2).unwrap();
    assert_eq!(store.migrate().await.unwrap(), (SCHEMA_VERSION, SCHEMA_VERSION));
    assert_eq!(store.census().await.unwrap().missing, Vec::<String>::new());
}

/// PLT-24: `PUNCTUAL_WRITE_SCHEMA=1` rewrites the file.
async fn plt_24_the_schema_is_the_one_on_file(t: &Bench) {
    let name = match t.backend {
        Backend::Sqlite => "schema.sqlite.sql",
        Backend::Postgres => "schema.postgres.sql",
    };
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("migrations").join(name);
    let place = TestDatabase::migrated(t.backend).await.unwrap();
    let now = schema(&place).await;
    if std::env::var_os("PUNCTUAL_WRITE_SCHEMA").is_some() {
        std::fs::write(&path, &now).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == now, "migrations/{name} is old: run this test with PUNCTUAL_WRITE_SCHEMA=1");
}

const fn dialect(backend: Backend) -> Dialect {
    match backend {
        Backend::Sqlite => Dialect::Sqlite,
        Backend::Postgres => Dialect::Postgres,
    }
}

const TITLE: &str = "-- What all migrations add up to, for reading. A test keeps it so; nobody runs it.\n";

/// Everything that the database says of the schema.
pub async fn schema(place: &TestDatabase) -> String {
    match place.backend() {
        Backend::Sqlite => sqlite_schema(place).await,
        Backend::Postgres => postgres_schema(place).await,
    }
}

async fn sqlite_schema(place: &TestDatabase) -> String {
    let sql = "select sql || ';' from sqlite_master where sql is not null \
        and name not like 'sqlite%' order by tbl_name, type <> 'table', name";
    let rows = place.sql(&[sql.to_owned()]).await.unwrap();
    format!("{TITLE}\n{}\n", first_column(&rows[0]).join("\n\n"))
}

async fn postgres_schema(place: &TestDatabase) -> String {
    let parts = [TABLES, INDEXES, FUNCTIONS, TRIGGERS].map(str::to_owned);
    let rows = place.sql(&parts).await.unwrap();
    let texts = |rows: &Rows| first_column(rows).join("\n");
    let parts: Vec<String> = rows.iter().map(texts).collect();
    format!("{TITLE}\n{}\n", parts.join("\n\n"))
}

const TABLES: &str = "select 'create table punctual.' || c.relname || E' (\\n    ' || array_to_string( \
        array(select a.attname || ' ' || format_type(a.atttypid, a.atttypmod) \
            || case when a.attnotnull then ' not null' else '' end \
            || case when a.attidentity <> '' then ' generated by default as identity' else '' end \
            || coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), '') \
            from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum \
            where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped order by a.attnum) \
        || array(select pg_get_constraintdef(k.oid) from pg_constraint k \
            where k.conrelid = c.oid and k.contype in ('p', 'u', 'f', 'c') order by k.contype, k.conname), \
        E',\\n    ') || E'\\n)' \
        || coalesce(' with (' || array_to_string(c.reloptions, ', ') || ')', '') || ';' \
    from pg_class c where c.relnamespace = 'punctual'::regnamespace and c.relkind = 'r' order by c.relname";
const INDEXES: &str = "select indexdef || ';' from pg_indexes where schemaname = 'punctual' \
    and indexname not in (select conname from pg_constraint) order by indexname";
const FUNCTIONS: &str = "select trim(trailing E'\\n' from pg_get_functiondef(oid)) || ';' from pg_proc \
    where pronamespace = 'punctual'::regnamespace \
    order by proname, pg_get_function_identity_arguments(oid)";
const TRIGGERS: &str = "select pg_get_triggerdef(t.oid) || ';' from pg_trigger t \
    join pg_class c on c.oid = t.tgrelid \
    where c.relnamespace = 'punctual'::regnamespace and not t.tgisinternal order by t.tgname";
