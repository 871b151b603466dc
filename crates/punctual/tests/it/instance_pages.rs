//! What was done for the survey instances of a page, read for all of them at once.

use crate::bench::{Bench, TENANT};
use crate::invitation::{answers, engine, ingest, publish, survey, tick, visit};
use punctual::{EntryId, Result, Store};

cases![trg_15_a_page_of_instances_takes_no_more_statements_than_one];

/// How many statements the largest transaction of a verb has, and what the verb answers.
async fn statements<T, F>(t: &Bench, verb: impl Fn(Store) -> F) -> (usize, T)
where
    F: Future<Output = Result<T>>,
{
    let mut statements = 0;
    loop {
        match verb(t.store().failing_at(statements + 1)).await {
            Ok(answer) => return (statements, answer),
            Err(_) => statements += 1,
        }
    }
}

/// TRG-15, TRG-25: deliveries, answers and their subscribers.
async fn trg_15_a_page_of_instances_takes_no_more_statements_than_one(t: &Bench) {
    let mut counts = Vec::new();
    for many in [1, 40] {
        let t = &Bench::on(t.backend).await;
        let (engine, _) = engine(t).await;
        publish(&engine, survey(|_| {})).await;
        let made = ingest(&engine, (0..many).map(|n| visit(&n.to_string(), "GR")).collect()).await;
        tick(&engine).await;
        let mut ids: Vec<EntryId> = Vec::new();
        for one in &made {
            let id = one.instances[0].public_id;
            engine.submit(id, answers(5), None).await.unwrap();
            ids.push(crate::invitation::entry(&engine, id).await.id);
        }
        let ids = &ids;
        let (first, logs) =
            statements(t, |store| async move { store.delivery_logs(TENANT, ids.clone()).await }).await;
        let (second, told) =
            statements(t, |store| async move { store.listeners_of(TENANT, ids.clone()).await }).await;
        assert_eq!((logs.len(), told.len()), (many, many));
        assert!(logs.values().all(|lines| lines.len() == 1), "{logs:?}");
        let asked: Vec<_> = told.values().map(|of| (of.message, vec!["crm".to_owned()])).collect();
        let asked = &asked;
        let (third, found) =
            statements(t, |store| async move { store.dispatches_of(TENANT, asked.clone()).await }).await;
        assert_eq!(found.len(), many);
        counts.push([first, second, third]);
    }
    assert_eq!(counts[0], counts[1], "statements for one instance, and for forty");
}
