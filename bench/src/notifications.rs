//! `punctual bench notify`: events into logged sends, two templates each, beside hand-written SQL for the
//! same rows.
//!
//! Timed are both ways from the first event written to the last send logged: events are emitted in batches,
//! then told to people. Ours does what the hand-written loop leaves out: it reads payloads, finds kind,
//! templates and recipients, asks for the entity's state and the recipients' wishes once before the plan and
//! once before each letter, words each letter, hands it to a channel, and fences every write. Both run on the
//! same server in the same run, in turns. How long one message takes to be rendered is measured beside it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ::punctual::delivery::rules::event_values::EventValues;
use ::punctual::delivery::rules::template::{MessageTemplate, TemplateDefinition, TemplateSet};
use ::punctual::flow::rules::entity::EntitySnapshot;
use ::punctual::flow::rules::event_kind::EventKind;
use ::punctual::{AcceptedMessage, Engine, NewMessage, Problems, RenderedMessage, TemplateId, Tenant};
use anyhow::{Result, anyhow, ensure};
use serde_json::{Value, json};

use crate::bounds::Wanted;
use crate::cluster::{Cluster, ClusterOptions};
use crate::database::Database;
use crate::machine::Machine;
use crate::ours::Place;
use crate::raw_notifications::{BATCH, BookingEvent, RawNotifications};
use crate::report::{Bound, Report, ReportFuture};
use crate::rounds::rotated;
use crate::series::Series;

/// Letters of each event.
const LETTERS_EACH: usize = 2;
/// Messages in each round when their rendering is measured.
const RENDERED: u32 = 20_000;
/// How long all letters may take before we call them lost.
const PATIENCE: Duration = Duration::from_secs(300);

/// What is measured, and how much of it.
#[derive(Debug, Clone, Copy)]
pub struct NotificationOptions {
    /// Events in each round.
    pub events: usize,
    /// Rounds.
    pub rounds: usize,
    /// Connections that send side by side.
    pub connections: usize,
}

/// Measures notifications.
pub fn notify(options: NotificationOptions) -> ReportFuture {
    Box::pin(async move {
        let cluster = Arc::new(Cluster::start(&ClusterOptions::durable())?);
        let mut report = Report { machine: Machine::here(&std::env::temp_dir()), ..Report::default() };
        report.machine.postgres = Some(Database::version(&cluster).await?);
        let settings =
            [("events", options.events), ("rounds", options.rounds), ("connections", options.connections)];
        for (name, value) in settings {
            report.settings.insert(name.to_owned(), value.to_string());
        }
        let mut series: [Series; 2] = Default::default();
        for round in 0..options.rounds {
            for side in rotated(round, 2) {
                let [emit, send] = if side == 0 {
                    by_hand(&cluster, options).await?
                } else {
                    ours(&cluster, options).await?
                };
                series[side].push_rate(options.events, emit + send);
                let who = ["by hand", "punctual"][side];
                let (n, of) = (round + 1, options.rounds);
                eprintln!(
                    "  round {n}/{of} {who:10} {:.0}/s (emit {emit:.1?}, send {send:.1?})",
                    series[side].last()
                );
            }
        }
        let [raw, ours] = &series;
        report.figure("notify by hand", "events/s", raw);
        report.figure("notify", "events/s", ours);
        report.require("notify / by hand", ours.median() / raw.median(), Bound::AtLeast(0.65));
        report_rendering(options.rounds, &mut report)?;
        Ok(report)
    })
}

/// Adds how long a message takes to be rendered, and what is required of it.
pub(crate) fn report_rendering(rounds: usize, report: &mut Report) -> Result<()> {
    let rendering = rendering(rounds)?;
    report.figure("a message rendered", "us", &rendering);
    Wanted::Rendering.judge("a message rendered", &rendering, report);
    Ok(())
}

/// How long the longer of the two messages takes to be rendered: its subject and its body, with the values of
/// an event that is parsed, in microseconds.
fn rendering(rounds: usize) -> Result<Series> {
    let mut problems = Problems::default();
    let kind = EventKind::read(&kind(), &mut problems).ok_or_else(|| anyhow!("a bad kind: {problems}"))?;
    let definition = definition(&TEMPLATES[1])?;
    let texts = definition.compile().map_err(|error| anyhow!("a bad template: {error}"))?;
    let template = MessageTemplate { id: TemplateId(2), version: 1, definition, texts };
    let payload: Value = serde_json::from_str(&event(1).payload)?;
    let recipient = kind.recipients(&payload, &EntitySnapshot::Unknown).next().unwrap_or_default();
    let occasion = EventValues {
        payload: &payload,
        entity: None,
        snapshot: &EntitySnapshot::Unknown,
        recipient: &recipient,
        related: &[],
        given: &[],
        payload_prefix: None,
    };
    let set = TemplateSet::default();
    let mut series = Series::default();
    for _ in 0..rounds {
        let begun = Instant::now();
        for _ in 0..RENDERED {
            std::hint::black_box(kind.word(&template, std::hint::black_box(&occasion), &set));
        }
        series.push(begun.elapsed().as_secs_f64() * 1e6 / f64::from(RENDERED));
    }
    Ok(series)
}

fn event(n: usize) -> BookingEvent {
    let (phone, email) = (format!("+96477{n:08}"), format!("guest{n}@example.com"));
    let payload = json!({"bookingId": format!("booking-{n}"), "listing": "Villa Maya",
        "checkinDate": "2026-12-24",
        "guest": {"name": "Layla", "phone": phone, "email": email, "locale": "en"}, "pad": "x".repeat(100)});
    BookingEvent { entity: format!("booking-{n}"), phone, email, payload: payload.to_string() }
}

async fn by_hand(cluster: &Arc<Cluster>, options: NotificationOptions) -> Result<[Duration; 2]> {
    let raw = RawNotifications::new(Database::new(cluster, "by_hand")).await?;
    let events: Vec<BookingEvent> = (0..options.events).map(event).collect();
    let emit = raw.emit(&events).await?;
    raw.settle().await?;
    Ok([emit, raw.send(&events, options.connections).await?])
}

async fn ours(cluster: &Arc<Cluster>, options: NotificationOptions) -> Result<[Duration; 2]> {
    let sent = Arc::new(AtomicUsize::new(0));
    let engine = engine(cluster, options.connections, &sent).await?;
    let batches: Vec<Vec<NewMessage>> =
        (0..options.events).collect::<Vec<_>>().chunks(BATCH).map(batch).collect();
    let begun = Instant::now();
    for batch in batches {
        engine.enqueue(Tenant::DEFAULT, batch).await?;
    }
    let emit = begun.elapsed();
    Database::new(cluster, "ours").settle().await?;
    let send = drain(&engine, &sent, LETTERS_EACH * options.events).await?;
    engine.stop(Duration::from_secs(10)).await;
    let logged = logged(&Database::new(cluster, "ours")).await?;
    ensure!(logged == LETTERS_EACH * options.events, "{logged} letters are in the log");
    Ok([emit, send])
}

fn batch(numbers: &[usize]) -> Vec<NewMessage> {
    let new = |n: &usize| {
        let event = event(*n);
        NewMessage::new("booking.events", "booking.confirmed", event.payload).entity("booking", event.entity)
    };
    numbers.iter().map(new).collect()
}

/// Timed from the start of the loops until everything is settled: no work is due, no claim is open.
async fn drain(engine: &Engine, sent: &AtomicUsize, wanted: usize) -> Result<Duration> {
    let begun = Instant::now();
    engine.start();
    while sent.load(Ordering::Relaxed) < wanted {
        ensure!(begun.elapsed() < PATIENCE, "the letters did not go out");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    while engine.store().peek_leases().await?.next.is_some() {
        ensure!(begun.elapsed() < PATIENCE, "the letters were not settled");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let took = begun.elapsed();
    ensure!(sent.load(Ordering::Relaxed) == wanted, "some letters went out twice");
    Ok(took)
}

async fn logged(database: &Database) -> Result<usize> {
    let client = database.connect().await?;
    let statement = "select count(*) from punctual.delivery_attempt where outcome = 'sent'";
    Ok(usize::try_from(client.query_one(statement, &[]).await?.try_get::<_, i64>(0)?)?)
}

/// An engine with a kind of events and two templates for it.
async fn engine(cluster: &Arc<Cluster>, connections: usize, sent: &Arc<AtomicUsize>) -> Result<Engine> {
    let database = Database::new(cluster, "ours");
    database.recreate().await?;
    let channel = |sent: &Arc<AtomicUsize>| {
        let sent = Arc::clone(sent);
        move |letter: Arc<RenderedMessage>| {
            let n = sent.fetch_add(1, Ordering::Relaxed);
            std::hint::black_box(&letter.body);
            async move { Ok(AcceptedMessage { message_id: Some(format!("mem-{n}")), answer: None }) }
        }
    };
    let engine = Engine::builder(Place::Postgres(database).url())
        // One more than by hand, for the loop that looks and claims while others send.
        .pool_size(connections + 1)
        .channel("memory:sms", channel(sent))
        .channel("memory:email", channel(sent))
        .open()
        .await?;
    define(&engine).await?;
    Ok(engine)
}

async fn define(engine: &Engine) -> Result<()> {
    engine.put_event_kind(Tenant::DEFAULT, "booking.confirmed", kind()).await?;
    for template in &TEMPLATES {
        engine.store().create_template(Tenant::DEFAULT, definition(template)?).await?;
    }
    Ok(())
}

fn kind() -> Value {
    json!({"topic": "booking.events", "entityType": "booking", "entityIdPath": "bookingId",
        "recipients": {"phone": "guest.phone", "email": "guest.email", "name": "guest.name",
            "locale": "guest.locale"}})
}

fn definition((channel, subject, body): &Texts) -> Result<TemplateDefinition> {
    let template = json!({"eventType": "booking.confirmed", "channel": channel, "language": "en",
        "subject": subject, "body": body});
    let mut problems = Problems::default();
    TemplateDefinition::read(&template, &mut problems).ok_or_else(|| anyhow!("a bad template: {problems}"))
}

/// The channel, the subject and the body of a template.
type Texts = (&'static str, Option<&'static str>, &'static str);

const TEMPLATES: [Texts; LETTERS_EACH] = [
    ("memory:sms", None, "Dear {{guestName}}, {{listing}} awaits you on {{checkinDate | date}}."),
    (
        "memory:email",
        Some("Your booking {{bookingId}}"),
        "Dear {{guestName | upper}},\n\nyour booking {{bookingId}} of {{listing}} is confirmed: we await you \
         on {{checkinDate | date}}.\n",
    ),
];
