//! Databases that get more components, and engines that serve fewer than a database has.

use super::{CORE, builder, engine, expected, tables, texts};
use crate::bench::{Bench, TENANT, message, seconds};
use crate::migrate::schema;
use punctual::jobs::store::leases::AcquireOutcome;
use punctual::jobs::store::runs::RunStatus;
use punctual::testing::Backend;
use punctual::testing::place::TestDatabase;
use punctual::{Component, Components, Engine, NewJob, NewTimer, Store, Work};
use std::time::Duration;
use tokio::task::JoinSet;

cases![
    plt_27_a_database_of_leases_grows_to_all_and_keeps_its_rows,
    plt_27_growth_makes_the_schema_that_all_at_once_make,
    plt_27_processes_of_different_components_migrate_at_once,
    plt_27_an_engine_of_fewer_components_leaves_the_others_alone,
    plt_27_an_outbox_that_runs_already_ends_the_runs_of_jobs_that_are_added,
    plt_27_an_outbox_alone_keeps_messages_that_entries_refer_to,
];

const YEAR: Duration = Duration::from_secs(400 * 86_400);

async fn all_of_it(place: &TestDatabase) -> Engine {
    engine(place, &Component::ALL).await
}

async fn advance(engine: &Engine, by: Duration) {
    let to = engine.store().now().await.unwrap().plus(by);
    engine.travel(to, true).await.unwrap();
}

/// PLT-27
async fn plt_27_a_database_of_leases_grows_to_all_and_keeps_its_rows(t: &Bench) {
    let place = TestDatabase::empty(t.backend).await.unwrap();
    let leases = engine(&place, &[Component::Leases]).await;
    let hour = seconds(3_600);
    let held = leases.store().acquire_lease(TENANT, "report", "a", hour).await.unwrap();
    let AcquireOutcome::Acquired(held) = held else { panic!("nobody holds it") };
    let all = all_of_it(&place).await;
    let later = all.store().acquire_lease(TENANT, "report", "b", hour).await.unwrap();
    assert!(matches!(later, AcquireOutcome::Held(by) if by.token == held.token), "the lease is still held");
    all.enqueue_one(TENANT, message("t")).await.unwrap();
    // The process that was there before can do as much, although it serves less.
    leases.enqueue_one(TENANT, message("t")).await.unwrap();
    assert_eq!(leases.store().components().await.unwrap(), Components::ALL);
    if t.backend == Backend::Postgres {
        assert_eq!(all.store().check_row_security().await.unwrap(), Some(true));
        let open = texts(
            &place,
            "select c.relname::text from pg_class c where c.relnamespace = 'punctual'::regnamespace \
             and c.relkind = 'r' and not c.relrowsecurity order by 1",
        );
        let open = open.await;
        let known =
            ["channel_share", "claim", "clock", "early_receipt", "handled_topic", "migration", "secret"];
        assert_eq!(open, known, "every other table is walled");
    }
}

/// PLT-27: whatever the order in which components come.
async fn plt_27_growth_makes_the_schema_that_all_at_once_make(t: &Bench) {
    let grown = TestDatabase::empty(t.backend).await.unwrap();
    let store = Store::open(grown.url(), 2).unwrap();
    for component in [Component::Leases, Component::Jobs, Component::Inbox, Component::Flows] {
        store.migrate_components(Components::of(&[component])).await.unwrap();
        store.check_schema().await.unwrap();
    }
    let at_once = TestDatabase::migrated(t.backend).await.unwrap();
    assert_eq!(schema(&grown).await, schema(&at_once).await);
    assert_eq!(store.migrate_components(Components::ALL).await.unwrap().added, Components::NONE);
}

/// PLT-24, PLT-27
async fn plt_27_processes_of_different_components_migrate_at_once(t: &Bench) {
    let place = TestDatabase::empty(t.backend).await.unwrap();
    let mut tasks = JoinSet::new();
    for component in Component::ALL.into_iter().chain(Component::ALL) {
        let url = place.url().to_owned();
        tasks.spawn(async move {
            let migrated = Store::open(&url, 2)?.migrate_components(Components::of(&[component])).await?;
            Ok::<_, punctual::Error>(migrated.added)
        });
    }
    let added: Vec<Components> = tasks.join_all().await.into_iter().map(|added| added.unwrap()).collect();
    let times = |component| added.iter().filter(|added| added.has(component)).count();
    assert!(Component::ALL.into_iter().all(|component| times(component) == 1), "each once: {added:?}");
    let mut wanted =
        [expected(Component::Flows), expected(Component::Jobs), expected(Component::Leases)].concat();
    wanted.sort_unstable();
    wanted.dedup();
    assert_eq!(tables(&place).await, wanted);
    assert!(CORE.iter().all(|table| wanted.contains(table)));
}

/// PLT-27: it neither takes tables away nor lets history go that is not its own.
async fn plt_27_an_engine_of_fewer_components_leaves_the_others_alone(t: &Bench) {
    let place = TestDatabase::empty(t.backend).await.unwrap();
    let all = builder(&place, &Component::ALL).handler("t", |_: Work| async { Ok(()) });
    let all = all.open().await.unwrap();
    all.enqueue_one(TENANT, message("t")).await.unwrap();
    all.put_job(TENANT, "hourly", NewJob::new("elsewhere", "0 0 * * * *")).await.unwrap();
    all.step().await.unwrap();
    all.store().acquire_lease(TENANT, "report", "a", seconds(30)).await.unwrap();
    let before = schema(&place).await;
    let leases = engine(&place, &[Component::Leases]).await;
    advance(&leases, YEAR).await;
    assert_eq!(schema(&place).await, before, "no table came or went");
    let count = async |table: &str| texts(&place, &format!("select count(*) from punctual.{table}")).await;
    assert_eq!(count("lease").await, ["0"], "its own history goes");
    assert_eq!(count("message").await, ["1"], "that of the outbox stays");
    assert_eq!(count("run").await, ["0"], "and no job was planned");
    advance(&all, seconds(1)).await;
    let old = texts(&place, "select count(*) from punctual.message where topic = 't'").await;
    assert_eq!(old, ["0"], "the whole engine lets it go");
}

/// PLT-27: the engine of the outbox was opened when there were no jobs, and settles their messages.
async fn plt_27_an_outbox_that_runs_already_ends_the_runs_of_jobs_that_are_added(t: &Bench) {
    let place = TestDatabase::empty(t.backend).await.unwrap();
    let outbox = builder(&place, &[Component::Outbox]).handler("reports", |_: Work| async { Ok(()) });
    let outbox = outbox.open().await.unwrap();
    outbox.enqueue_one(TENANT, message("reports")).await.unwrap();
    outbox.step().await.unwrap();
    let timer = NewTimer::after(seconds(60), "reports", "{}");
    let first = outbox.schedule_one(TENANT, timer.clone()).await.unwrap();
    assert!(outbox.cancel_timer(TENANT, first.id).await.unwrap());
    let jobs = engine(&place, &[Component::Jobs]).await;
    jobs.put_job(TENANT, "nightly", NewJob::new("reports", "@daily")).await.unwrap();
    jobs.trigger_job(TENANT, "nightly").await.unwrap();
    outbox.step().await.unwrap();
    let runs = jobs.store().runs(TENANT, "nightly", None, 10).await.unwrap().unwrap();
    let statuses: Vec<RunStatus> = runs.iter().map(|run| run.status).collect();
    assert_eq!(statuses, [RunStatus::Succeeded]);
    let second = outbox.schedule_one(TENANT, timer).await.unwrap();
    assert!(outbox.cancel_timer(TENANT, second.id).await.unwrap());
}

/// PLT-27: the pruning of messages goes by what the database has, not by what the process serves.
async fn plt_27_an_outbox_alone_keeps_messages_that_entries_refer_to(t: &Bench) {
    let place = TestDatabase::empty(t.backend).await.unwrap();
    let outbox = builder(&place, &[Component::Outbox]).handler("t", |_: Work| async { Ok(()) });
    let outbox = outbox.open().await.unwrap();
    let kept = outbox.enqueue_one(TENANT, message("t")).await.unwrap();
    outbox.enqueue_one(TENANT, message("t")).await.unwrap();
    outbox.step().await.unwrap();
    all_of_it(&place).await;
    let entry = format!(
        "insert into punctual.entry (tenant_id, kind, event_kind, message_id, triggered_by, key, created_at) \
         values (1, 'survey', 'k', {kept}, 'event', 'k', 0)"
    );
    let entry = if t.backend == Backend::Sqlite { entry.replace("punctual.", "punctual_") } else { entry };
    place.sql(&[entry]).await.unwrap();
    advance(&outbox, YEAR).await;
    assert_eq!(texts(&place, "select id from punctual.message").await, [kept.to_string()]);
}
