//! `punctual bench ingest` and `punctual bench send`: events into entries, and entries into letters,
//! each beside hand-written SQL for the same rows.
//!
//! Ours does what the hand-written loop leaves out: it reads the items as they come over HTTP, matches
//! them against 200 published triggers, hashes their keys, words each letter, hands it to a channel,
//! keeps the whole log, fences every write, and tells others of every send. Both run on the same server
//! in the same run, in turns.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ::punctual::engine::IngestRequest;
use ::punctual::flow::store::flows::FlowDraft;
use ::punctual::{AcceptedMessage, Engine, RenderedMessage, Tenant};
use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::cluster::{Cluster, ClusterOptions};
use crate::database::Database;
use crate::evaluations::Evaluations;
use crate::machine::Machine;
use crate::ours::Place;
use crate::raw_entries::{BATCH, RawEntries, RawEvent};
use crate::report::{Bound, Report, ReportFuture};
use crate::rounds::rotated;
use crate::series::Series;

/// Published triggers.
const TRIGGERS: usize = 200;
/// Triggers in each survey.
const TRIGGERS_EACH: usize = 50;
/// The kind of the events.
pub(crate) const KIND: &str = "service-visit-closed";
/// How long all letters may take before we call them lost.
const PATIENCE: Duration = Duration::from_secs(300);

/// What is measured, and how much of it.
#[derive(Debug, Clone, Copy)]
pub struct SurveyOptions {
    /// Events, or letters, in each round.
    pub entries: usize,
    /// Rounds.
    pub rounds: usize,
    /// Connections that send side by side.
    pub connections: usize,
}

/// What an ingest reaches at least, beside one by hand, by the share of events that are known.
const INGEST_LEAST: [(&str, f64); 3] = [("0 %", 0.55), ("50 %", 0.6), ("100 %", 0.8)];

/// Measures ingest.
pub fn ingest(options: SurveyOptions) -> ReportFuture {
    Box::pin(async move {
        let (cluster, mut report) = begin(&options).await?;
        let mut series: [[Series; 2]; 3] = Default::default();
        let mut evaluations = Evaluations::default();
        for round in 0..options.rounds {
            for side in rotated(round, 2) {
                let rates = if side == 0 {
                    ingest_by_hand(&cluster, options.entries).await?
                } else {
                    ingest_ours(&cluster, options.entries, &mut evaluations).await?
                };
                for (series, rate) in series.iter_mut().zip(rates) {
                    series[side].push(rate);
                }
                let who = ["by hand", "punctual"][side];
                eprintln!(
                    "  round {}/{} {who:10} new {:.0}/s  half {:.0}/s  duplicates {:.0}/s",
                    round + 1,
                    options.rounds,
                    rates[0],
                    rates[1],
                    rates[2]
                );
            }
        }
        for ((what, least), [raw, ours]) in INGEST_LEAST.into_iter().zip(&series) {
            report.figure(&format!("ingest by hand, {what} duplicates"), "entries/s", raw);
            report.figure(&format!("ingest, {what} duplicates"), "entries/s", ours);
            let ratio = ours.median() / raw.median();
            report.require(&format!("ingest / by hand, {what} duplicates"), ratio, Bound::AtLeast(least));
        }
        evaluations.report(&mut report);
        Ok(report)
    })
}

/// Measures sends.
pub fn send(options: SurveyOptions) -> ReportFuture {
    Box::pin(async move {
        let (cluster, mut report) = begin(&options).await?;
        let mut series: [Series; 2] = Default::default();
        for round in 0..options.rounds {
            for side in rotated(round, 2) {
                let took = if side == 0 {
                    send_by_hand(&cluster, options).await?
                } else {
                    send_ours(&cluster, options).await?
                };
                series[side].push_rate(options.entries, took);
                let who = ["by hand", "punctual"][side];
                eprintln!("  round {}/{} {who:10} {:.0}/s", round + 1, options.rounds, series[side].last());
            }
        }
        let [raw, ours] = &series;
        report.figure("send by hand", "letters/s", raw);
        report.figure("send", "letters/s", ours);
        report.require("send / by hand", ours.median() / raw.median(), Bound::AtLeast(0.6));
        Ok(report)
    })
}

async fn begin(options: &SurveyOptions) -> Result<(Arc<Cluster>, Report)> {
    let cluster = Arc::new(Cluster::start(&ClusterOptions::durable())?);
    let mut report = Report { machine: Machine::here(&std::env::temp_dir()), ..Report::default() };
    report.machine.postgres = Some(Database::version(&cluster).await?);
    let settings =
        [("entries", options.entries), ("rounds", options.rounds), ("connections", options.connections)];
    for (name, value) in settings {
        report.settings.insert(name.to_owned(), value.to_string());
    }
    Ok((cluster, report))
}

fn address(n: usize) -> String {
    format!("+96477{n:07}")
}

fn payload(n: usize) -> Value {
    let job_type = format!("T{}", n % TRIGGERS);
    json!({"wip": n.to_string(), "dealerId": "1", "jobType": job_type, "pad": "x".repeat(150)})
}

fn raw_event(n: usize) -> RawEvent {
    let digest = ::punctual::base::digest::of([n.to_string().as_bytes()]);
    let key = digest.as_bytes()[..32].to_vec();
    RawEvent { key, address: address(n), payload: payload(n).to_string() }
}

pub(crate) fn item(n: usize) -> Value {
    json!({"payload": payload(n),
        "recipient": {"address": address(n), "locale": "ar", "customerRef": "customer"}})
}

/// New ones, then as many of which every second is known, then only known ones.
fn thirds(n: usize) -> [Vec<usize>; 3] {
    let half = (0..n).map(|i| if i % 2 == 0 { i } else { n + i }).collect();
    [(0..n).collect(), half, (0..n).collect()]
}

async fn ingest_by_hand(cluster: &Arc<Cluster>, n: usize) -> Result<[f64; 3]> {
    let raw = RawEntries::new(Database::new(cluster, "by_hand")).await?;
    let mut rates = [0.0; 3];
    for (rate, numbers) in rates.iter_mut().zip(thirds(n)) {
        let events: Vec<RawEvent> = numbers.into_iter().map(raw_event).collect();
        let (_, took) = raw.ingest(&events).await?;
        *rate = crate::series::rate(n, took);
    }
    Ok(rates)
}

/// An engine with so many triggers published, each of which wants its share of the events.
async fn ours(cluster: &Arc<Cluster>, connections: usize, counter: &Arc<AtomicUsize>) -> Result<Engine> {
    let database = Database::new(cluster, "ours");
    database.recreate().await?;
    let counter = Arc::clone(counter);
    let channel = move |letter: Arc<RenderedMessage>| {
        let n = counter.fetch_add(1, Ordering::Relaxed);
        std::hint::black_box(&letter.body);
        async move { Ok(AcceptedMessage { message_id: Some(format!("mem-{n}")), answer: None }) }
    };
    let place = Place::Postgres(database);
    let engine = Engine::builder(place.url())
        .pool_size(connections + 2)
        .channel("memory:default", channel)
        .open()
        .await?;
    publish(&engine).await?;
    Ok(engine)
}

/// Publishes the surveys with their triggers.
pub(crate) async fn publish(engine: &Engine) -> Result<()> {
    for first in (0..TRIGGERS).step_by(TRIGGERS_EACH) {
        let name = format!("survey {first}");
        let draft = FlowDraft { name, integration_id: None, definition: survey(first) };
        let flow = engine.store().create_flow(Tenant::DEFAULT, draft).await?;
        engine.store().publish_flow(Tenant::DEFAULT, flow.id).await?;
    }
    Ok(())
}

fn survey(first: usize) -> Value {
    let trigger = |n: usize| {
        json!({"id": format!("t{n}"), "eventKind": KIND, "channel": "memory:default",
            "filter": {"questionId": "candidate.jobType", "op": "==", "value": format!("T{n}")},
            "dedupRecipe": ["templateId", "recipient.address", "candidate.dealerId", "candidate.wip"],
            "schedule": {"initialDelay": "0d", "reminders": ["1d"]}})
    };
    json!({"title": {"en": "How was your visit?", "ar": "كيف كانت زيارتك؟"}, "locales": ["en", "ar"],
        "defaultLocale": "en",
        "questions": [{"id": "rate", "type": "rating", "text": {"en": "How was it?", "ar": "كيف كانت؟"}}],
        "triggers": (first..first + TRIGGERS_EACH).map(trigger).collect::<Vec<_>>()})
}

async fn ingest_ours(cluster: &Arc<Cluster>, n: usize, evaluations: &mut Evaluations) -> Result<[f64; 3]> {
    let engine = ours(cluster, 1, &Arc::default()).await?;
    evaluations.measure(engine.store(), KIND, item).await?;
    let mut rates = [0.0; 3];
    for (rate, numbers) in rates.iter_mut().zip(thirds(n)) {
        let batches = batches(&numbers);
        let begun = Instant::now();
        for batch in &batches {
            engine.ingest(Tenant::DEFAULT, batch).await?;
        }
        *rate = crate::series::rate(n, begun.elapsed());
    }
    Ok(rates)
}

fn batches(numbers: &[usize]) -> Vec<IngestRequest> {
    let batch = |part: &[usize]| IngestRequest {
        event_kind: KIND.to_owned(),
        items: part.iter().map(|n| item(*n)).collect(),
    };
    numbers.chunks(BATCH).map(batch).collect()
}

async fn send_by_hand(cluster: &Arc<Cluster>, options: SurveyOptions) -> Result<Duration> {
    let raw = RawEntries::new(Database::new(cluster, "by_hand")).await?;
    let events: Vec<RawEvent> = (0..options.entries).map(raw_event).collect();
    raw.ingest(&events).await?;
    raw.settle().await?;
    raw.send(options.entries, options.connections).await
}

/// Timed from the start of the loops until everything is settled: no work is due, no claim is open.
async fn send_ours(cluster: &Arc<Cluster>, options: SurveyOptions) -> Result<Duration> {
    let sent = Arc::new(AtomicUsize::new(0));
    let engine = ours(cluster, options.connections, &sent).await?;
    for batch in batches(&(0..options.entries).collect::<Vec<_>>()) {
        engine.ingest(Tenant::DEFAULT, &batch).await?;
    }
    Database::new(cluster, "ours").settle().await?;
    let begun = Instant::now();
    engine.start();
    while sent.load(Ordering::Relaxed) < options.entries {
        ensure!(begun.elapsed() < PATIENCE, "the letters did not go out");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    while engine.store().peek_leases().await?.next.is_some() {
        ensure!(begun.elapsed() < PATIENCE, "the letters were not settled");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let took = begun.elapsed();
    engine.stop(Duration::from_secs(10)).await;
    ensure!(sent.load(Ordering::Relaxed) == options.entries, "some letters went out twice");
    Ok(took)
}
