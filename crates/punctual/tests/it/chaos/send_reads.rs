//! What the engine says about sends: one function for each question. Everything that knows the engine's
//! lists, and the two tables that are read beside them, stands here; `sends.rs` judges the answers.

use super::definitions::COMPLETED;
use super::history::whole;
use punctual::Tenant;
use punctual::base::id::EntryId;
use punctual::database::store::Store;
use punctual::delivery::store::deliveries::log::LoggedDelivery;
use punctual::flow::rules::entry::EntryKind;
use punctual::flow::rules::entry::log::{AttemptOutcome, DeliveryLine};
use punctual::flow::store::entries::lists::EntryFilter;
use punctual::queue::rules::claim;
use punctual::testing::Backend;
use serde_json::Value;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::time::Duration;

/// Rows of one page.
const PAGE: usize = 500;
/// A database that was restarted is asked again after this long, and so often.
const AGAIN: Duration = Duration::from_millis(50);
const TRIES: u32 = 100;

/// What the log says of a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Sent,
    /// It may have gone out: unknown, a timeout, or lost with its worker.
    Unsure,
    NotSent,
}

/// One try, as the log has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Try {
    pub outcome: Outcome,
    pub reason: Option<String>,
    /// By the database's clock, in microseconds.
    pub at: i64,
}

/// One message of a notification.
#[derive(Clone, Debug)]
pub struct Delivery {
    pub key: String,
    pub channel: String,
    pub status: &'static str,
    pub reason: Option<String>,
    pub tries: Vec<Try>,
}

/// One schedule entry: what an event means for its customers.
#[derive(Clone, Debug)]
pub struct Schedule {
    pub id: i64,
    pub op: u64,
    pub message: i64,
    pub status: &'static str,
    pub deliveries: Vec<Delivery>,
}

/// One instance of a survey, with the tries of each of its sends.
#[derive(Clone, Debug)]
pub struct Instance {
    pub id: i64,
    pub op: u64,
    pub name: String,
    pub channel: String,
    pub status: &'static str,
    pub sends: BTreeMap<u32, Vec<Try>>,
}

/// The schedule entries behind the one of this number.
pub async fn schedules(store: &Store, tenant: Tenant, after: i64) -> Result<Vec<Schedule>, String> {
    all_after(after, |one: &Schedule| one.id, |before| Box::pin(schedule_page(store, tenant, before))).await
}

async fn schedule_page(store: &Store, tenant: Tenant, before: i64) -> punctual::Result<Vec<Schedule>> {
    let filter = EntryFilter { kind: Some(EntryKind::Notification), ..EntryFilter::default() };
    let page = store.schedule(tenant, filter, EntryId(before), PAGE).await?;
    let read = page.into_iter().map(|one| Schedule {
        id: one.entry.id.0,
        op: one.entry.entity.as_ref().unwrap().id.parse().unwrap(),
        message: one.entry.message.unwrap().0,
        status: one.entry.state.status.word(),
        deliveries: one.deliveries.into_iter().map(delivery).collect(),
    });
    Ok(read.collect())
}

fn delivery(one: LoggedDelivery) -> Delivery {
    let tries = one.tries.iter().map(|tried| {
        let outcome = match tried.outcome.as_str() {
            "sent" => Outcome::Sent,
            "unknown" | "timeout" => Outcome::Unsure,
            _ => Outcome::NotSent,
        };
        Try { outcome, reason: tried.error.clone(), at: tried.at.as_micros() }
    });
    Delivery {
        tries: tries.collect(),
        key: one.idempotency_key,
        channel: one.channel,
        status: one.status.word(),
        reason: one.error,
    }
}

/// The instances behind the one of this number.
pub async fn instances(store: &Store, tenant: Tenant, after: i64) -> Result<Vec<Instance>, String> {
    all_after(after, |one: &Instance| one.id, |before| Box::pin(instance_page(store, tenant, before))).await
}

async fn instance_page(store: &Store, tenant: Tenant, before: i64) -> punctual::Result<Vec<Instance>> {
    let filter = EntryFilter { kind: Some(EntryKind::Survey), ..EntryFilter::default() };
    let page = store.entries(tenant, filter, EntryId(before), PAGE).await?;
    let mut read = Vec::with_capacity(page.len());
    for entry in page {
        let payload: Value = serde_json::from_str(entry.payload.as_deref().unwrap()).unwrap();
        read.push(Instance {
            id: entry.id.0,
            op: payload["op"].as_str().unwrap().parse().unwrap(),
            name: entry.public_id.unwrap().to_string(),
            channel: entry.recipient.unwrap().channel,
            status: entry.state.status.word(),
            sends: sends(store.delivery_log(tenant, entry.id).await?),
        });
    }
    Ok(read)
}

fn sends(lines: Vec<DeliveryLine>) -> BTreeMap<u32, Vec<Try>> {
    let mut sends: BTreeMap<u32, Vec<Try>> = BTreeMap::new();
    for line in lines {
        let outcome = match line.status {
            AttemptOutcome::Delivered => Outcome::Sent,
            AttemptOutcome::Unknown => Outcome::Unsure,
            AttemptOutcome::Failed | AttemptOutcome::NoChannel => Outcome::NotSent,
        };
        let tried = Try { outcome, reason: line.error, at: line.sent_at.as_micros() };
        sends.entry(line.attempt).or_default().push(tried);
    }
    sends
}

/// A page of what has numbers below one.
type Page<'a, T> = Pin<Box<dyn Future<Output = punctual::Result<Vec<T>>> + Send + 'a>>;

/// Reads pages, the newest first, down to a number that is known. The server may have been restarted since
/// the last question.
async fn all_after<'a, T>(
    after: i64,
    id: fn(&T) -> i64,
    page: impl Fn(i64) -> Page<'a, T>,
) -> Result<Vec<T>, String> {
    let (mut all, mut before, mut tries) = (Vec::new(), i64::MAX, 0);
    loop {
        let rows = match page(before).await {
            Ok(rows) => rows,
            Err(why) if tries >= TRIES => return Err(whole(&why)),
            Err(_) => {
                tries += 1;
                tokio::time::sleep(AGAIN).await;
                continue;
            }
        };
        before = rows.last().map_or(i64::MIN, id);
        let is_last = rows.len() < PAGE || before <= after;
        all.extend(rows.into_iter().filter(|row| id(row) > after));
        if is_last {
            return Ok(all);
        }
    }
}

/// Asks for the claims behind this one: its number, when it was committed, and its items. On SQLite, where
/// one transaction follows the other, the time of the trigger serves.
pub fn claims(backend: Backend, after: i64) -> String {
    let at = match backend {
        Backend::Postgres => "(extract(epoch from pg_xact_commit_timestamp(xmin)) * 1000000)::bigint",
        Backend::Sqlite => "at",
    };
    format!(
        "select seq, {at}, items from chaos_log where fresh = 1 and purpose = 'send' \
                and seq > {after} order by seq"
    )
}

/// Asks for the deliveries of instances: their numbers, and those of the instances.
pub const DELIVERIES: &str = "select d.id, d.entry_id from punctual.delivery d \
    join punctual.entry e on e.id = d.entry_id and e.kind = 'survey'";

/// The numbers of the instances whose sends a claim holds.
pub fn claimed_instances(items: &str, deliveries: &BTreeMap<i64, i64>) -> Vec<i64> {
    let claimed = claim::read(items).unwrap();
    claimed.iter().filter_map(|item| deliveries.get(&item.delivery().0).copied()).collect()
}

/// Asks for the reports of answers behind this message: its number and its payload.
pub fn reports(after: i64) -> String {
    format!(
        "select id, payload from punctual.message where kind = '{COMPLETED}' and id > {after} order by id"
    )
}

/// The public id of the instance that a report is about.
pub fn reported_instance(payload: &str) -> String {
    let payload: Value = serde_json::from_str(payload).unwrap();
    payload["instancePublicId"].as_str().unwrap().to_owned()
}
