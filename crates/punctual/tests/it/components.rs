//! PLT-27: engines of single components, on databases that have only their tables.

mod alone;
mod growth;

use crate::bench::{Bench, TENANT, message, seconds};
use crate::dump::first_column;
use punctual::database::migrate::SCHEMA_VERSION;
use punctual::engine::Builder;
use punctual::operate::store::prune::EntryRetention;
use punctual::queue::store::dead_letters::DeadLetterFilter;
use punctual::testing::Backend;
use punctual::testing::place::TestDatabase;
use punctual::{
    ClockMode, Component, Components, Engine, Error, InboxDelivery, MessageId, NewJob, Store, Work,
};

cases![
    plt_27_each_component_makes_its_tables_and_no_others,
    plt_27_a_verb_of_a_missing_component_names_it,
    plt_27_a_builder_refuses_what_its_components_cannot_do,
    plt_27_an_engine_without_migrations_waits_for_its_components,
];

/// What every database has.
const CORE: [&str; 3] = ["clock", "migration", "tenant"];
const ACCESS: [&str; 4] = ["answer", "api_key", "secret", "tenant_setting"];
const OUTBOX: [&str; 13] = [
    "admitted",
    "attempt",
    "claim",
    "dead_letter",
    "follower",
    "handled_topic",
    "lane",
    "message",
    "route",
    "sequence",
    "subscription",
    "timer_change",
    "topic_interest",
];
const WORK: [&str; 1] = ["work"];
const INBOX: [&str; 1] = ["inbox"];
const LEASES: [&str; 2] = ["lease", "lease_floor"];
const JOBS: [&str; 2] = ["job", "run"];
const FLOWS: [&str; 25] = [
    "channel_share",
    "consent_tenant",
    "delivery",
    "delivery_attempt",
    "delivery_key",
    "early_receipt",
    "entity",
    "entry",
    "entry_history",
    "entry_key",
    "entry_trace",
    "event_kind",
    "event_kind_stamp",
    "flow",
    "flow_stamp",
    "flow_version",
    "message_template",
    "message_template_version",
    "progress",
    "receipt",
    "recipient_preference",
    "response",
    "resumption",
    "suppression",
    "template_stamp",
];

fn expected(component: Component) -> Vec<&'static str> {
    let own: &[&[&str]] = match component {
        Component::Access => &[&ACCESS],
        Component::Outbox => &[&OUTBOX, &WORK],
        Component::Inbox => &[&INBOX],
        Component::Leases => &[&LEASES],
        Component::Jobs => &[&OUTBOX, &WORK, &JOBS],
        _ => &[&ACCESS, &OUTBOX, &WORK, &INBOX, &FLOWS],
    };
    let mut all: Vec<&str> = own.concat().into_iter().chain(CORE).collect();
    all.sort_unstable();
    all
}

/// The tables that the catalogue names.
async fn tables(place: &TestDatabase) -> Vec<String> {
    let sql = match place.backend() {
        Backend::Sqlite => {
            "select substr(name, 10) from sqlite_master where type = 'table' and name like 'punctual_%' \
             order by 1"
        }
        Backend::Postgres => {
            "select tablename::text from pg_tables where schemaname = 'punctual' \
             order by tablename::text collate \"C\""
        }
    };
    first_column(&place.sql(&[sql.to_owned()]).await.unwrap()[0])
}

/// The first column of what a statement in PostgreSQL's words answers.
async fn texts(place: &TestDatabase, sql: &str) -> Vec<String> {
    let words = match place.backend() {
        Backend::Sqlite => punctual::database::dialect::for_sqlite(sql),
        Backend::Postgres => sql.to_owned(),
    };
    first_column(&place.sql(&[words]).await.unwrap()[0])
}

fn builder(place: &TestDatabase, components: &[Component]) -> Builder {
    Engine::builder(place.url()).pool_size(2).clock(ClockMode::Manual).components(components)
}

async fn engine(place: &TestDatabase, components: &[Component]) -> Engine {
    builder(place, components).open().await.unwrap()
}

/// PLT-27: exactly the tables of the component and of what it needs; health, census and maintenance are
/// content with them.
async fn plt_27_each_component_makes_its_tables_and_no_others(t: &Bench) {
    for component in Component::ALL {
        let place = TestDatabase::empty(t.backend).await.unwrap();
        let engine = engine(&place, &[component]).await;
        assert_eq!(tables(&place).await, expected(component), "{component}");
        assert_eq!(engine.components(), Components::of(&[component]));
        assert_eq!(engine.store().components().await.unwrap(), Components::of(&[component]));
        engine.store().check_schema().await.unwrap();
        assert_healthy(&engine).await;
        let later = engine.store().now().await.unwrap().plus(seconds(500 * 86_400));
        engine.travel(later, true).await.unwrap();
        assert_healthy(&engine).await;
        if t.backend == Backend::Postgres {
            assert_eq!(engine.store().check_row_security().await.unwrap(), Some(true), "{component}");
        }
        assert_eq!(tables(&place).await, expected(component), "{component}, after 500 days");
    }
}

async fn assert_healthy(engine: &Engine) {
    let health = engine.health().await;
    assert!(health.is_ready(), "{:?}", health.database);
    assert_eq!(health.complaints(), [""; 0]);
    let census = health.database.unwrap();
    assert_eq!((census.schema_version, census.components), (SCHEMA_VERSION, engine.components()));
}

/// PLT-27: never a table that is not there.
async fn plt_27_a_verb_of_a_missing_component_names_it(t: &Bench) {
    let place = TestDatabase::empty(t.backend).await.unwrap();
    let store = engine(&place, &[Component::Leases]).await.store().clone();
    let engine = engine(&place, &[Component::Leases]).await;
    let ids = DeadLetterFilter::default();
    let to = store.now().await.unwrap();
    lacks(engine.enqueue_one(TENANT, message("t")).await, Component::Outbox);
    lacks(store.enqueue(TENANT, vec![message("t")]).await, Component::Outbox);
    lacks(store.dead_letters(TENANT, ids, 10).await, Component::Outbox);
    lacks(store.cancel_timers(TENANT, vec![MessageId(1)]).await, Component::Outbox);
    lacks(store.prune_messages(0, seconds(1)).await, Component::Outbox);
    lacks(store.begin_inbox(TENANT, InboxDelivery::new("shop", "1")).await, Component::Inbox);
    lacks(store.count_inbox(seconds(1)).await, Component::Inbox);
    lacks(store.keys(TENANT, punctual::KeyId(0), 10).await, Component::Access);
    lacks(store.jobs(TENANT, "", 10).await, Component::Jobs);
    lacks(store.event_kinds(TENANT, "", 10).await, Component::Flows);
    let kept = EntryRetention { surveys: seconds(1), log: seconds(1) };
    lacks(store.prune_entries(0, kept).await, Component::Flows);
    let other = TestDatabase::empty(t.backend).await.unwrap();
    let outbox = self::engine(&other, &[Component::Outbox]).await;
    lacks(outbox.lease(TENANT, "report").try_acquire().await, Component::Leases);
    lacks(outbox.put_job(TENANT, "nightly", NewJob::new("t", "@daily")).await, Component::Jobs);
    outbox.travel(to, true).await.unwrap();
}

#[track_caller]
fn lacks<T: std::fmt::Debug>(result: Result<T, Error>, component: Component) {
    match result {
        Err(error @ Error::MissingComponent(named)) if named == component => {
            let said = error.to_string();
            let wanted = format!("run `punctual migrate --components {component}`");
            assert!(said.ends_with(&wanted), "{said}");
        }
        other => panic!("the component `{component}` should be named, but it was {other:?}"),
    }
}

/// PLT-27
async fn plt_27_a_builder_refuses_what_its_components_cannot_do(t: &Bench) {
    let place = TestDatabase::empty(t.backend).await.unwrap();
    let leases = || builder(&place, &[Component::Leases]);
    let nothing = |_: Work| async { Ok(()) };
    for (builder, said) in [
        (leases().handler("t", nothing), "handlers: need the component `outbox`"),
        (leases().job("nightly", NewJob::new("t", "@daily")), "jobs: need the component `jobs`"),
        (leases().unsubscribe_url("https://e/{token}"), "unsubscribeUrl: need the component `flows`"),
        (leases().components(&[]), "components: must name at least one component"),
    ] {
        let refused = builder.open().await.expect_err(said).to_string();
        assert!(refused.contains(said), "{refused}");
    }
    assert_eq!(tables(&place).await, [""; 0], "nothing was made");
}

/// PLT-24, PLT-27: the schema of other components is not the one that is waited for.
async fn plt_27_an_engine_without_migrations_waits_for_its_components(t: &Bench) {
    let place = TestDatabase::empty(t.backend).await.unwrap();
    engine(&place, &[Component::Leases]).await;
    let waiting = |patience, components: &[Component]| {
        builder(&place, components).without_migrations().schema_wait(patience)
    };
    waiting(seconds(0), &[Component::Leases]).open().await.unwrap();
    let refused = waiting(seconds(0), &[Component::Jobs]).open().await.expect_err("there are no jobs");
    let said = "the database has no tables of the components outbox, jobs; \
        run `punctual migrate --components outbox,jobs`";
    assert_eq!(refused.to_string(), said);
    let waits = tokio::spawn(waiting(seconds(60), &[Component::Jobs]).open());
    tokio::time::sleep(std::time::Duration::from_millis(400)).await;
    assert!(!waits.is_finished(), "it waits for the tables of jobs");
    let migrated = Store::open(place.url(), 2).unwrap();
    let migrated = migrated.migrate_components(Components::of(&[Component::Jobs])).await.unwrap();
    assert_eq!(migrated.added, Components::of(&[Component::Jobs]));
    waits.await.unwrap().unwrap();
}
