//! Keys of entries: one for each, whatever its kind; and ingests in transactions of a thousand keys.

use crate::bench::author;
use crate::bench::{Bench, TENANT};
use crate::invitation::{DAY, engine, ingest, publish, survey, visit};
use crate::notification::{self, booking, confirm, define};
use punctual::delivery::store::entries::actions::{EntryAction, EntryActionRequest, EntryReference};
use punctual::engine::{IngestOutcome, IngestReport, IngestRequest, ResendOutcome, ResendRequest};
use punctual::flow::rules::public_id::PublicId;
use punctual::flow::store::flows::FlowDraft;
use punctual::queue::run::wake::Wake;
use punctual::survey::rules::candidate::Candidate;
use punctual::survey::run::definition_cache::DefinitionCache;
use punctual::survey::run::ingest as ingests;
use punctual::survey::run::ingest::{IngestBatch, IngestItem};
use punctual::survey::run::kind::SurveyKind;
use punctual::survey::store::visits::StopRequest;
use punctual::testing::Backend;
use punctual::{Engine, Entity, EntryId};
use serde_json::{Value, json};

cases![
    trg_8_every_entry_has_one_key_whatever_its_kind,
    trg_8_the_key_of_a_notification_outlives_it,
    trg_8_the_table_of_keys_decides_and_no_index_of_entries,
    trg_5_a_large_ingest_is_written_a_thousand_keys_at_a_time,
    trg_9_what_is_left_of_a_large_ingest_meets_what_is_published_by_then,
    trg_9_a_stop_of_many_takes_no_more_statements_than_a_stop_of_two,
    trg_9_an_ingest_of_many_takes_no_more_statements_than_an_ingest_of_two,
    trg_8_events_that_make_several_entries_are_never_divided,
    trg_8_tenants_do_not_share_their_keys,
];

/// TRG-8, NTF-1: surveys by their recipe, notifications by their event, and resends by their request.
async fn trg_8_every_entry_has_one_key_whatever_its_kind(t: &Bench) {
    let engine = notification::engine(t).await;
    publish(&engine, survey(|_| {})).await;
    ingest(&engine, vec![visit("1", "GR"), visit("2", "GR"), visit("1", "GR")]).await;
    define(&engine, TENANT, |_| {}).await;
    notification::template(&engine, TENANT, "SMS", "Hello").await;
    confirm(&engine, "B1").await;
    notification::tick(&engine).await;
    let request = resend(&engine).await;
    let keys = "select e.key from punctual.entry e join punctual.entry_key k on k.entry_id = e.id \
        and k.tenant_id = e.tenant_id and k.made_at = e.created_at order by e.id";
    let keys = crate::dump::first_column(&t.texts(keys).await);
    let event = t.count("select message_id from punctual.entry where kind = 'notification' limit 1").await;
    assert_eq!(keys[2..], [format!("event:{event}"), format!("manual:{request}")]);
    assert!(keys[..2].iter().all(|key| key.len() == 64), "{keys:?}");
    assert_eq!(t.count("select count(*) from punctual.entry_key").await, 4);
    let named = "select count(*) from punctual.entry_key k join punctual.entry e on e.id = k.entry_id \
        and e.public_high = k.public_high and e.public_low = k.public_low";
    assert_eq!(t.count(named).await, 2, "a duplicate of a survey is answered with its public id");
}

async fn resend(engine: &Engine) -> String {
    let resend = ResendRequest {
        entity: Entity { kind: "booking".into(), id: "B1".into() },
        channel: "SMS".into(),
        template: None,
        event_type: None,
        requested_by: "sue".into(),
    };
    match engine.resend(TENANT, resend).await.unwrap() {
        ResendOutcome::Asked { request_id, .. } => request_id,
        ResendOutcome::Refused(why) => panic!("{why}"),
    }
}

/// TRG-8: a notification goes after 400 days, its key after 800; cancelling it does not free the key.
async fn trg_8_the_key_of_a_notification_outlives_it(t: &Bench) {
    let engine = notification::engine(t).await;
    define(&engine, TENANT, |_| {}).await;
    notification::template(&engine, TENANT, "SMS", "Hello").await;
    notification::confirm_in(&engine, TENANT, &booking("B1")).await;
    notification::tick(&engine).await;
    let rows = |table: &str| format!("select count(*) from punctual.{table}");
    let name = EntryReference::Id(EntryId(1));
    let cancel = EntryActionRequest { name, action: EntryAction::Cancel, author: author() };
    engine.change_entry(TENANT, cancel).await.unwrap();
    let start = t.now().await;
    engine.travel(start.plus(440 * DAY), true).await.unwrap();
    assert_eq!((t.count(&rows("entry")).await, t.count(&rows("entry_key")).await), (0, 1));
    engine.travel(start.plus(801 * DAY), true).await.unwrap();
    assert_eq!(t.count(&rows("entry_key")).await, 0);
}

/// TRG-8: history can be partitioned by id, because only its id is unique.
async fn trg_8_the_table_of_keys_decides_and_no_index_of_entries(t: &Bench) {
    let unique = match t.backend {
        Backend::Sqlite => "select count(*) from pragma_index_list('punctual_entry') where \"unique\" = 1",
        Backend::Postgres => {
            "select count(*) - 1 from pg_index where indrelid = 'punctual.entry'::regclass and indisunique"
        }
    };
    assert_eq!(t.count(unique).await, 0);
}

/// Visits, of which those at two places are for one customer.
fn visits(count: usize, same: [usize; 2]) -> Vec<Value> {
    let item = |n: usize| {
        let mut item = visit(&n.to_string(), "GR");
        let customer = if same.contains(&n) { "twice".to_owned() } else { n.to_string() };
        item["recipient"]["customerRef"] = json!(customer);
        item
    };
    (0..count).map(item).collect()
}

async fn try_ingest(engine: &Engine, items: Vec<Value>) -> punctual::Result<Vec<IngestReport>> {
    engine.ingest(TENANT, &IngestRequest { event_kind: "service-visit-closed".into(), items }).await
}

const ENTRIES: &str = "select count(*) from punctual.entry";

/// TRG-5, TRG-8: 2,500 events are three transactions. One that fails leaves those before it whole, and the
/// same events again are duplicates and the rest.
async fn trg_5_a_large_ingest_is_written_a_thousand_keys_at_a_time(t: &Bench) {
    let (engine, _) = engine(t).await;
    publish(&engine, survey(|_| {})).await;
    t.texts("create unique index one_customer on punctual.entry (customer_ref)").await;
    // The second of one customer fails its transaction, and so tells where that begins.
    for (same, whole) in [([0, 999], 0), ([999, 1000], 1000), ([1000, 1999], 1000), ([1999, 2000], 2000)] {
        try_ingest(&engine, visits(2_500, same)).await.unwrap_err();
        assert_eq!(t.count(ENTRIES).await, whole, "{same:?}");
        // What is there has customers of its own from now on.
        t.texts("update punctual.entry set customer_ref = 'was ' || id").await;
    }
    let made = ingest(&engine, visits(2_500, [0, 0])).await;
    let outcomes: Vec<IngestOutcome> = made.iter().map(|one| one.outcome).collect();
    assert_eq!(outcomes, [vec![IngestOutcome::Skipped; 2_000], vec![IngestOutcome::Created; 500]].concat());
    for table in ["entry", "entry_key", "work"] {
        assert_eq!(t.count(&format!("select count(*) from punctual.{table}")).await, 2_500, "{table}");
    }
    let again = ingest(&engine, visits(2_500, [0, 0])).await;
    let ids = |made: &[IngestReport]| made.iter().map(|one| one.instances[0].public_id).collect::<Vec<_>>();
    assert_eq!(ids(&again), ids(&made));
}

/// TRG-9: a survey that is published between two transactions is met by the events that are left.
async fn trg_9_what_is_left_of_a_large_ingest_meets_what_is_published_by_then(t: &Bench) {
    let (engine, _) = engine(t).await;
    let flow = publish(&engine, survey(|_| {})).await;
    let ingesting = try_ingest(&engine, visits(5_000, [0, 0]));
    let publishing = async {
        while t.count(ENTRIES).await == 0 {
            tokio::task::yield_now().await;
        }
        engine.store().publish_flow(TENANT, flow).await.unwrap();
    };
    let (made, ()) = tokio::join!(ingesting, publishing);
    assert!(made.unwrap().iter().all(|one| one.outcome == IngestOutcome::Created));
    let numbers = t.ints("select number, count(*) from punctual.entry group by number order by 1").await;
    let whole = numbers.iter().all(|row| row[1].unwrap() % 1_000 == 0);
    assert!(whole, "a transaction writes one version: {numbers:?}");
    assert_eq!(numbers.iter().map(|row| row[1].unwrap()).sum::<i64>(), 5_000);
}

/// TRG-5: two triggers make 1,500 events 3,000 keys: three transactions, with the answer of one.
async fn trg_8_events_that_make_several_entries_are_never_divided(t: &Bench) {
    let (engine, _) = engine(t).await;
    publish(&engine, survey(|_| {})).await;
    publish(&engine, survey(|_| {})).await;
    let made = ingest(&engine, visits(1_500, [0, 0])).await;
    assert!(made.iter().all(|one| one.instances.len() == 2 && one.outcome == IngestOutcome::Created));
    assert_eq!(t.count(ENTRIES).await, 3_000);
    let ids = |one: &IngestReport| one.instances.iter().map(|each| each.public_id).collect::<Vec<_>>();
    let again = ingest(&engine, visits(1_500, [0, 0])).await;
    assert!(again.iter().all(|one| one.outcome == IngestOutcome::Skipped));
    assert_eq!(again.iter().flat_map(ids).collect::<Vec<_>>(), made.iter().flat_map(ids).collect::<Vec<_>>());
}

/// TRG-9: `stopOn` is set-based.
async fn trg_9_a_stop_of_many_takes_no_more_statements_than_a_stop_of_two(t: &Bench) {
    let mut counts = Vec::new();
    for many in [2, 300] {
        let t = &Bench::on(t.backend).await;
        let (engine, _) = engine(t).await;
        publish(&engine, survey(|_| {})).await;
        let made = ingest(&engine, visits(many, [many, many])).await;
        let ids: Vec<PublicId> = made.iter().map(|one| one.instances[0].public_id).collect();
        let stops = || ids.iter().map(|id| StopRequest { public_id: *id, event: None }).collect();
        let mut statements = 0;
        let stopped = loop {
            let store = t.store().failing_at(statements + 1);
            match store.stop_entries(TENANT, "visit-reopened".into(), stops()).await {
                Ok(stopped) => break stopped,
                Err(_) => statements += 1,
            }
        };
        assert_eq!(stopped.len(), many);
        let history = "select count(*) from punctual.entry_history where action = 'stopped'";
        assert_eq!(t.count(history).await, i64::try_from(many).unwrap());
        let cancelled = "select count(*) from punctual.entry where status = 5";
        assert_eq!(t.count(cancelled).await, i64::try_from(many).unwrap());
        counts.push(statements);
    }
    assert!(counts[0] == counts[1] && counts[0] < 20, "{counts:?}");
}

/// TRG-9: an ingest is set-based, too. A transaction takes up to a thousand keys.
async fn trg_9_an_ingest_of_many_takes_no_more_statements_than_an_ingest_of_two(t: &Bench) {
    let mut counts = Vec::new();
    for many in [2, 300] {
        let t = &Bench::on(t.backend).await;
        let (engine, _) = engine(t).await;
        publish(&engine, survey(|_| {})).await;
        let items = visits(many, [many, many]);
        let mut statements = 0;
        let made = loop {
            let read = items.iter().enumerate();
            let read = read.map(|(at, item)| IngestItem::from_submission(at, Candidate::read(item), None));
            let lot = IngestBatch { kind: "service-visit-closed", items: read.collect() };
            let kind = SurveyKind {
                store: t.store().failing_at(statements + 1),
                wake: Wake::default(),
                cache: DefinitionCache::default(),
                url: String::new(),
            };
            match ingests::ingest(&kind, TENANT, &[lot]).await {
                Ok(made) => break made,
                Err(_) => statements += 1,
            }
        };
        assert!(made[0].len() == many && made[0].iter().all(|one| one.outcome == IngestOutcome::Created));
        assert_eq!(t.count(ENTRIES).await, i64::try_from(many).unwrap());
        counts.push(statements);
    }
    assert!(counts[0] == counts[1] && counts[0] < 20, "statements of one transaction: {counts:?}");
}

/// TRG-8: a key is unique for each tenant. By a recipe without `templateId` the same event has one digest in
/// two tenants, begins an entry in each, and is a duplicate of its own tenant's.
async fn trg_8_tenants_do_not_share_their_keys(t: &Bench) {
    let (engine, _) = engine(t).await;
    let tenants = [TENANT, crate::tenant::acme(t).await];
    let recipe = json!(["recipient.address", "candidate.wip"]);
    for tenant in tenants {
        let definition = survey(|d| d["triggers"][0]["dedupRecipe"] = recipe.clone());
        let draft = FlowDraft { name: "CSI-GR".into(), integration_id: None, definition };
        let flow = engine.store().create_flow(tenant, draft).await.unwrap();
        engine.store().publish_flow(tenant, flow.id).await.unwrap();
    }
    let event = IngestRequest { event_kind: "service-visit-closed".into(), items: vec![visit("1", "GR")] };
    let mut made = Vec::new();
    for tenant in tenants {
        let one = engine.ingest(tenant, &event).await.unwrap().remove(0);
        assert_eq!(one.outcome, IngestOutcome::Created, "the first of {tenant}: {one:?}");
        made.push(one.instances[0].public_id);
    }
    for (tenant, own) in tenants.into_iter().zip(made) {
        let again = engine.ingest(tenant, &event).await.unwrap().remove(0);
        assert_eq!((again.outcome, again.instances[0].public_id), (IngestOutcome::Skipped, own), "{tenant}");
    }
    let digests = "select count(distinct key) from punctual.entry";
    assert_eq!((t.count(ENTRIES).await, t.count(digests).await), (2, 1));
}
