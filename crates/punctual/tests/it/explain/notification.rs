//! PRD-5 for notifications: explain says beforehand which deliveries an event leads to, and what comes of
//! each.
//!
//! Worlds are drawn from a seed: a kind of events, templates, entities, preferences, suppressions, quiet
//! hours, and often an earlier event whose deliveries have the keys already. Each event is explained, then
//! published, and the clock is moved on: what the database and the sandbox have then is what was foretold.

use super::{ZONES, hours, settle_tenant};
use crate::bench::{Bench, TENANT, author};
use crate::invitation::{self, DAY, publish, survey};
use crate::mutation::Dice;
use crate::notification::{KIND, TOPIC, inbox, prefer, script, tick};
use punctual::database::planted_bugs::PlantedBug;
use punctual::delivery::rules::consent::{ConsentScope, SuppressionReason};
use punctual::delivery::rules::template::TemplateDefinition;
use punctual::delivery::run::sandbox::SandboxFilter;
use punctual::delivery::store::consent::NewSuppression;
use punctual::delivery::store::entries::actions::{EntryAction, EntryActionRequest, EntryReference};
use punctual::engine::{
    DeliveryExplanation, DeliveryForecast, EventExplanation, EventToExplain, NotificationExplanation,
    NotificationOutcome,
};
use punctual::flow::rules::entity::NewEntityState;
use punctual::{
    ClockMode, Engine, EnqueueOutcome, Entity, EntryId, MessageId, NewMessage, Problems, Timestamp,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

cases![
    prd_5_explain_foretells_the_deliveries_of_notifications,
    prd_5_a_forecast_that_asks_nobody_is_caught,
    prd_5_explain_says_why_other_templates_are_not_chosen,
    prd_5_explain_tells_of_what_an_event_duplicates,
    prd_5_explain_of_an_event_tells_of_surveys_too,
    prd_5_explain_makes_no_secret_for_links,
    ntf_3_an_event_that_no_template_fits_fails,
];

const WORLDS: u64 = 60;
const PHONES: [&str; 2] = ["+919876543210", "+9647700000001"];
/// The channels that the worlds' messages go by.
const CHANNELS: [&str; 4] = ["memory:sms", "memory:email", "memory:whatsapp", "memory:default"];
const EMAILS: [&str; 2] = ["ana@example.com", "omar@example.com"];

/// A delivery as it was foretold, or as it came about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Fate {
    key: String,
    part: String,
    channel: String,
    address: String,
    template: String,
    version: String,
    /// When it went out or was skipped; none if nobody could be reached.
    at: Option<Timestamp>,
    /// Why it was skipped.
    reason: Option<String>,
    body: Option<String>,
}

struct World {
    engine: Engine,
    message: NewMessage,
    state: Option<NewEntityState>,
}

impl World {
    async fn build(t: &Bench, dice: &mut Dice, bug: Option<PlantedBug>) -> Self {
        let builder = Engine::builder(t.place.url()).on_store(t.another().await).clock(ClockMode::Manual);
        let builder = builder.unsubscribe_url("https://example.org/u/{token}");
        let engine = bug.into_iter().fold(builder, |builder, bug| builder.plant(bug)).open().await.unwrap();
        let each = dice.roll(3) == 0;
        define(&engine, dice, each).await;
        for _ in 0..dice.roll(9) {
            add_template(&engine, dice).await;
        }
        settle_tenant(&engine, dice).await;
        for address in PHONES.iter().chain(&EMAILS) {
            prefer(&engine, address, &preferences(dice)).await;
        }
        suppress(&engine, dice).await;
        tell_of_entities(&engine, dice).await;
        let message = event(t, dice, each).await;
        let mut world = Self { engine, message, state: None };
        if dice.roll(2) == 0 {
            world.send_an_earlier_event(t, dice).await;
        }
        world.state = state(dice, &world.message);
        world
    }

    /// Lets the same event come before, sent, waiting, given up or on hold.
    async fn send_an_earlier_event(&self, t: &Bench, dice: &mut Dice) {
        let word = ["ok", "transient", "permanent"][dice.roll(3)];
        for channel in CHANNELS {
            script(&self.engine, channel, json!([word, word, word]));
        }
        let mut earlier = self.message.clone();
        earlier.due_at = None;
        self.engine.enqueue(TENANT, vec![earlier]).await.unwrap();
        tick(&self.engine).await;
        for channel in CHANNELS {
            script(&self.engine, channel, json!([]));
        }
        let open = "select count(*) from punctual.entry where id = 1 and status < 3";
        if dice.roll(2) == 0 && t.count(open).await == 1 {
            let name = EntryReference::Id(EntryId(1));
            let change = EntryActionRequest { name, action: EntryAction::Hold, author: author() };
            self.engine.change_entry(TENANT, change).await.unwrap();
        }
    }

    async fn explain(&self) -> EventExplanation {
        let event = EventToExplain::New {
            message: self.message.clone().into(),
            state: self.state.clone().map(Box::new),
        };
        self.engine.explain_event(TENANT, event).await.unwrap()
    }

    /// Publishes the event, and lets three days pass.
    async fn publish(&self, t: &Bench) -> MessageId {
        let states = self.state.clone().map(|state| (0, state)).into_iter().collect();
        let done = self.engine.enqueue_with_states(TENANT, vec![self.message.clone()], states).await.unwrap();
        let Some(EnqueueOutcome::New(id)) = done.into_iter().next() else {
            panic!("the event should be new")
        };
        self.engine.travel(t.now().await.plus(3 * DAY), true).await.unwrap();
        id
    }

    /// What the sandbox has got, by key.
    fn bodies(&self, after: usize) -> BTreeMap<String, String> {
        let all = self.engine.sandbox().unwrap().messages(&SandboxFilter::default(), 1_000);
        let of = |got: &std::sync::Arc<punctual::delivery::run::sandbox::SandboxMessage>| {
            (got.message.idempotency_key.clone(), got.message.body.clone())
        };
        all.iter().skip(after).map(of).collect()
    }
}

async fn define(engine: &Engine, dice: &mut Dice, each: bool) {
    let mut kind = json!({"topic": TOPIC, "entityType": "booking", "entityIdPath": "bookingId",
        "related": {"listing": {"type": "listing", "idPath": "listingId"}},
        "recipients": {"phone": "guest.phone", "email": "guest.email", "name": "guest.name",
            "locale": "guest.locale", "timeZone": "guest.zone"}});
    if each {
        kind["recipients"] = json!({"each": "guests", "phone": "phone", "email": "email", "name": "name",
            "locale": "locale"});
    }
    if dice.roll(5) == 0 {
        kind["cancelWhen"] = json!({"questionId": "entity.status", "op": "==", "value": "Closed"});
    }
    kind["requireEntity"] = json!(dice.roll(9) == 0);
    engine.put_event_kind(TENANT, KIND, kind).await.unwrap();
}

async fn add_template(engine: &Engine, dice: &mut Dice) {
    let channel = ["SMS", "Email", "memory:sms", "WhatsApp", "memory:default"][dice.roll(5)];
    let language = ["en", "ar", "ar-IQ"][dice.roll(3)];
    let body =
        format!("{language} {} {{{{guestName}}}} {{{{entity.status}}}} {{{{listingName}}}}", dice.roll(9));
    let mut json = json!({"eventType": KIND, "channel": channel, "language": language, "body": body,
        "isActive": dice.roll(6) > 0});
    match dice.roll(6) {
        0 => (json["scopeType"], json["scopeId"]) = (json!("booking"), json!((1 + dice.roll(2)).to_string())),
        1 => (json["scopeType"], json["scopeId"]) = (json!("listing"), json!("77")),
        _ => {}
    }
    let mut problems = Problems::default();
    let definition = TemplateDefinition::read(&json, &mut problems).unwrap_or_else(|| panic!("{problems}"));
    engine.store().create_template(TENANT, definition).await.unwrap();
}

fn preferences(dice: &mut Dice) -> Value {
    let mut wants = json!({});
    if dice.roll(4) == 0 {
        wants["quietHours"] = hours(dice);
        wants["timeZone"] = json!(ZONES[dice.roll(ZONES.len())]);
    }
    if dice.roll(6) == 0 {
        wants["optOuts"] = json!([{"channel": (["memory", "sms", "email"][dice.roll(3)])}]);
    }
    if dice.roll(5) == 0 {
        wants["channelOverride"] = json!({"SMS": (["memory:email", "memory:whatsapp"][dice.roll(2)])});
    }
    if dice.roll(3) == 0 {
        wants["locale"] = json!(["ar", "en", "ar-IQ"][dice.roll(3)]);
    }
    wants
}

async fn suppress(engine: &Engine, dice: &mut Dice) {
    let all = PHONES.iter().chain(&EMAILS).copied();
    for address in all.filter(|_| dice.roll(10) == 0) {
        let (reason, scope) = (SuppressionReason::Stop, ConsentScope::default());
        let new = NewSuppression { told_at: None, address: address.into(), scope, reason, by: "test".into() };
        engine.store().suppress(TENANT, new).await.unwrap();
    }
}

fn status(dice: &mut Dice) -> String {
    json!({"status": (["Open", "Closed"][dice.roll(2)])}).to_string()
}

async fn tell_of_entities(engine: &Engine, dice: &mut Dice) {
    let booking = Entity { kind: "booking".into(), id: "1".into() };
    match dice.roll(9) {
        0 | 2 => {}
        1 => drop(engine.store().delete_entity(TENANT, booking, None).await.unwrap()),
        _ => {
            let state = NewEntityState { entity: booking, state: status(dice), version: Some(5) };
            engine.store().put_entity(TENANT, state).await.unwrap();
        }
    }
    let entity = Entity { kind: "listing".into(), id: "77".into() };
    let state = NewEntityState { entity, state: json!({"name": "Sea view"}).to_string(), version: None };
    engine.store().put_entity(TENANT, state).await.unwrap();
}

/// The state that comes with the event: older than the known one, or newer, or without a version.
fn state(dice: &mut Dice, message: &NewMessage) -> Option<NewEntityState> {
    let version = [None, Some(4), Some(6)][dice.roll(3)];
    let entity = message.entity.clone()?;
    (dice.roll(2) == 0).then(|| NewEntityState { entity, state: status(dice), version })
}

fn guest(dice: &mut Dice, n: usize) -> Value {
    let mut guest = json!({"name": (["Ana", "Omar"][n])});
    if dice.roll(5) > 0 {
        guest["phone"] = json!(PHONES[n]);
    }
    if dice.roll(4) > 0 {
        guest["email"] = json!(EMAILS[n]);
    }
    if dice.roll(2) == 0 {
        guest["locale"] = json!(["ar-IQ", "en-GB"][dice.roll(2)]);
    }
    if dice.roll(3) == 0 {
        guest["zone"] = json!(ZONES[dice.roll(ZONES.len())]);
    }
    guest
}

async fn event(t: &Bench, dice: &mut Dice, each: bool) -> NewMessage {
    let mut payload = json!({"bookingId": "1"});
    if dice.roll(2) == 0 {
        payload["listingId"] = json!(76 + dice.roll(2));
    }
    if each {
        payload["guests"] = (0..dice.roll(3)).map(|n| guest(dice, n)).collect();
    } else {
        payload["guest"] = guest(dice, 0);
    }
    if dice.roll(12) == 0 {
        payload.as_object_mut().unwrap().remove("bookingId");
    }
    let topic = if dice.roll(12) == 0 { "another.topic" } else { TOPIC };
    let mut message = NewMessage::new(topic, KIND, payload.to_string());
    if dice.roll(2) == 0 {
        message = message.entity("booking", "1");
    }
    if dice.roll(5) == 0 {
        message.due_at = Some(t.now().await.plus(Duration::from_secs(3_600 * dice.roll(30) as u64)));
    }
    message
}

/// The deliveries that are to be written, as they were foretold.
fn foretold(of: &NotificationExplanation) -> Vec<Fate> {
    let written = |one: &&DeliveryExplanation| {
        matches!(one.outcome, DeliveryForecast::Sent | DeliveryForecast::Skipped)
    };
    let fate = |one: &DeliveryExplanation| Fate {
        key: one.idempotency_key.clone().unwrap_or_default(),
        part: one.recipient_index.to_string(),
        channel: one.channel.clone(),
        address: one.to_address.clone().unwrap_or_default(),
        template: one.template_id.clone().unwrap_or_default(),
        version: one.template_version.unwrap_or_default().to_string(),
        at: one.to_address.is_some().then_some(one.at),
        reason: one.reason.clone(),
        body: one.body.clone(),
    };
    let mut fates: Vec<Fate> = of.deliveries.iter().filter(written).map(fate).collect();
    fates.sort();
    fates
}

/// The deliveries that an event has led to.
async fn came_about(t: &Bench, event: MessageId, bodies: &BTreeMap<String, String>) -> Vec<Fate> {
    let sql = format!(
        "select d.idempotency_key, d.part, d.channel, d.address, d.template_id, d.template_version, \
            coalesce(d.sent_at, a.at), \
            case when d.address = '' then 'NoRecipient' else a.reason end, d.status \
         from punctual.delivery d join punctual.entry e on e.id = d.entry_id \
         left join punctual.delivery_attempt a on a.delivery_id = d.id and a.outcome in ('sent', 'skipped') \
         where e.message_id = {event}"
    );
    let text = |cell: &Option<String>| cell.clone().unwrap_or_default();
    let read = |row: &Vec<Option<String>>| {
        let key = text(&row[0]);
        let at = row[6].as_ref().map(|at| Timestamp::from_micros(at.parse().unwrap()));
        Fate {
            part: text(&row[1]),
            channel: text(&row[2]),
            address: text(&row[3]),
            template: text(&row[4]),
            version: text(&row[5]),
            at,
            reason: row[7].clone(),
            body: (text(&row[8]) == "1").then(|| bodies.get(&key).cloned()).flatten(),
            key,
        }
    };
    let mut fates: Vec<Fate> = t.texts(&sql).await.iter().map(read).collect();
    fates.sort();
    fates
}

/// What is wrong with the explanation of an entry, by the entry as it was written.
async fn wrong_entry(t: &Bench, event: MessageId, told: &NotificationExplanation) -> Option<String> {
    let sql = format!(
        "select status, coalesce(reason, '-'), coalesce(error, '-') from punctual.entry \
            where message_id = {event}"
    );
    let entry = t.texts(&sql).await.pop();
    let entry: Option<Vec<String>> =
        entry.map(|row| row.into_iter().map(Option::unwrap_or_default).collect());
    let reason = told.reason.as_deref().unwrap_or("-");
    let fits = match (told.outcome, &entry) {
        (NotificationOutcome::NoMatch, None) => true,
        (NotificationOutcome::Failed, None) => {
            let dead = format!("select error from punctual.dead_letter where message_id = {event}");
            t.texts(&dead).await == [[Some(told.because.clone())]]
        }
        (NotificationOutcome::Failed, Some(row)) => row[0] == "6" && row[2] == told.because,
        (NotificationOutcome::Cancelled, Some(row)) => {
            row[0] == "5" && row[1] == reason && row[2] == told.because
        }
        (NotificationOutcome::Created, Some(row)) => !row[1].starts_with("Already"),
        _ => false,
    };
    let (outcome, because) = (told.outcome, &told.because);
    (!fits).then(|| format!("the entry is {entry:?}, foretold was {outcome:?}, {reason}: {because}"))
}

/// Counts of what the worlds had, so that no rule goes untried.
#[derive(Debug, Default)]
struct Seen(BTreeMap<&'static str, usize>);

impl Seen {
    fn note(&mut self, what: &'static str, count: usize) {
        *self.0.entry(what).or_default() += count;
    }

    fn take(&mut self, told: &NotificationExplanation) {
        let count =
            |is: &dyn Fn(&DeliveryExplanation) -> bool| told.deliveries.iter().filter(|d| is(d)).count();
        self.note("sent", count(&|one| one.outcome == DeliveryForecast::Sent));
        self.note("skipped", count(&|one| one.outcome == DeliveryForecast::Skipped));
        self.note("duplicates", count(&|one| one.duplicate_of.is_some()));
        self.note("of entries on hold", count(&|one| one.duplicate_on_hold.is_some()));
        self.note("without a template", count(&|one| one.outcome == DeliveryForecast::NoTemplate));
        self.note("shifted", count(&|one| one.at > one.planned_at));
        self.note("redirected", count(&|one| one.channel != one.planned_channel));
        self.note("not alone", usize::from(told.deliveries.iter().any(|one| one.recipient_index > 0)));
        self.note(
            match told.outcome {
                NotificationOutcome::Created => "created",
                NotificationOutcome::Skipped => "known",
                NotificationOutcome::Cancelled => "cancelled",
                NotificationOutcome::Failed => "failed",
                NotificationOutcome::NoMatch => "passed over",
            },
            1,
        );
    }
}

/// Plays a world; returns what was foretold wrongly.
async fn play(t: &Bench, seed: u64, bug: Option<PlantedBug>, seen: &mut Seen) -> Option<String> {
    let mut dice = Dice::new(seed);
    let world = World::build(t, &mut dice, bug).await;
    let before = t.dump().await;
    let told = world.explain().await.notification.expect("an event is explained");
    before.assert_equals(&t.dump().await, "an explanation");
    seen.take(&told);
    for one in &told.deliveries {
        let chosen: Vec<&String> =
            one.templates.iter().filter(|t| t.chosen).map(|template| &template.template_id).collect();
        assert_eq!(chosen, one.template_id.iter().collect::<Vec<_>>(), "PUNCTUAL_SEED={seed}");
    }
    let sent = world.bodies(0).len();
    let event = world.publish(t).await;
    let (want, got) = (foretold(&told), came_about(t, event, &world.bodies(sent)).await);
    if want != got {
        return Some(format!("foretold: {want:#?}\ncame about: {got:#?}"));
    }
    wrong_entry(t, event, &told).await
}

async fn prd_5_explain_foretells_the_deliveries_of_notifications(t: &Bench) {
    let seed = std::env::var("PUNCTUAL_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut seen = Seen::default();
    for world in seed..seed + WORLDS {
        let t = &Bench::on(t.backend).await;
        if let Some(wrong) = play(t, world, None, &mut seen).await {
            panic!("PUNCTUAL_SEED={world}: {wrong}");
        }
    }
    let untried: Vec<_> = seen.0.iter().filter(|(what, count)| **count == 0 && **what != "known").collect();
    assert!(untried.is_empty() && seen.0.len() >= 12, "{seen:?}");
}

/// The worlds above catch a forecast that leaves out what is asked before each send.
async fn prd_5_a_forecast_that_asks_nobody_is_caught(t: &Bench) {
    for world in 1..=WORLDS {
        let t = &Bench::on(t.backend).await;
        let wrong = play(t, world, Some(PlantedBug::ForecastAsksNobody), &mut Seen::default()).await;
        if wrong.is_some_and(|wrong| wrong.starts_with("foretold")) {
            return;
        }
    }
    panic!("{WORLDS} worlds have not caught a forecast that asks nobody");
}

async fn engine(t: &Bench) -> Engine {
    crate::notification::engine(t).await
}

async fn explain(engine: &Engine, message: NewMessage) -> EventExplanation {
    engine.explain_event(TENANT, EventToExplain::New { message: message.into(), state: None }).await.unwrap()
}

fn confirmed(id: &str) -> NewMessage {
    NewMessage::new(TOPIC, KIND, crate::notification::booking(id).to_string())
}

async fn worded(engine: &Engine, edit: impl FnOnce(&mut Value)) {
    let mut json = json!({"eventType": KIND, "channel": "SMS", "language": "en", "body": "x"});
    edit(&mut json);
    let definition = TemplateDefinition::read(&json, &mut Problems::default()).unwrap();
    engine.store().create_template(TENANT, definition).await.unwrap();
}

/// PRD-5: for each template in use, the first reason why it is not the one.
async fn prd_5_explain_says_why_other_templates_are_not_chosen(t: &Bench) {
    let engine = engine(t).await;
    crate::notification::define(&engine, TENANT, |_| {}).await;
    worded(&engine, |_| {}).await;
    worded(&engine, |json| json["language"] = json!("ar")).await;
    worded(&engine, |json| (json["scopeType"], json["scopeId"]) = (json!("booking"), json!("2"))).await;
    worded(&engine, |json| json["channel"] = json!("memory:sms")).await;
    worded(&engine, |json| json["channel"] = json!("memory:sms")).await;
    worded(&engine, |json| json["channel"] = json!("Email")).await;
    let told = explain(&engine, confirmed("1")).await.notification.unwrap();
    let by_sms = told.deliveries.iter().find(|one| one.channel == "memory:sms").unwrap();
    let reasons: Vec<(&str, &str)> =
        by_sms.templates.iter().map(|of| (of.template_id.as_str(), of.because)).collect();
    let want = [
        ("1", "the chosen one names this channel, and this one only its kind"),
        ("2", "the language of the chosen one is nearer to the recipient's"),
        ("3", "it is for an entity that the event is not about"),
        ("4", "the chosen one fits as well and was made later"),
        ("5", "it fits best"),
        ("6", "it is for another channel"),
    ];
    assert_eq!(reasons, want);
}

/// PRD-5: an event that was published has led to its entry, and its deliveries have their keys.
async fn prd_5_explain_tells_of_what_an_event_duplicates(t: &Bench) {
    let engine = engine(t).await;
    crate::notification::define(&engine, TENANT, |_| {}).await;
    worded(&engine, |_| {}).await;
    let message = confirmed("1").id("shop", "7");
    let event = engine.enqueue_one(TENANT, message.clone()).await.unwrap();
    let recorded = || engine.explain_event(TENANT, EventToExplain::Recorded(event));
    let early = recorded().await.unwrap().notification.unwrap();
    assert_eq!((early.outcome, early.duplicate_of), (NotificationOutcome::Created, None));
    tick(&engine).await;
    let told = recorded().await.unwrap().notification.unwrap();
    assert_eq!((told.outcome, told.duplicate_of.as_deref()), (NotificationOutcome::Skipped, Some("1")));
    assert_eq!(told.duplicate_status, Some("Sent"));
    let one = &told.deliveries[0];
    assert_eq!((one.outcome, one.duplicate_of.as_deref()), (DeliveryForecast::Duplicate, Some("1")));
    assert_eq!((one.duplicate_status, one.body.as_deref()), (Some("Sent"), Some("x")));
    let same_id = explain(&engine, message).await;
    assert_eq!(same_id.duplicate_of, Some(event.to_string()));
    assert!(same_id.notification.is_none() && same_id.error.is_some(), "{same_id:?}");
    let none = engine.explain_event(TENANT, EventToExplain::Recorded(MessageId(99))).await;
    assert!(none.unwrap_err().to_string().contains("there is no event 99"));
}

/// PRD-5: an event of a topic may begin surveys and lead to a notification, and both are told.
async fn prd_5_explain_of_an_event_tells_of_surveys_too(t: &Bench) {
    let (engine, _) = invitation::engine_with(t, |builder| builder).await;
    publish(&engine, survey(|_| {})).await;
    let definition = json!({"eventType": "service-visit-closed", "channel": "memory:default",
        "language": "en", "body": "Thank you"});
    let definition = TemplateDefinition::read(&definition, &mut Problems::default()).unwrap();
    engine.store().create_template(TENANT, definition).await.unwrap();
    let visit = invitation::visit("1", "GR");
    let mut payload = visit["payload"].clone();
    payload["recipient"] = visit["recipient"].clone();
    payload["phone"] = visit["recipient"]["address"].clone();
    let message = NewMessage::new("visits", "service-visit-closed", payload.to_string());
    let told = explain(&engine, message.clone()).await;
    assert_eq!(told.triggers.len(), 1, "{told:?}");
    assert_eq!(told.triggers[0].outcome, punctual::engine::IngestOutcome::Created, "{told:?}");
    let notification = told.notification.unwrap();
    assert_eq!(notification.outcome, NotificationOutcome::Created, "{notification:?}");
    engine.enqueue_one(TENANT, message).await.unwrap();
    engine.travel(t.now().await.plus(Duration::from_secs(60)), true).await.unwrap();
    let made = t.texts("select kind from punctual.entry order by kind").await;
    assert_eq!(made, [[Some("notification".to_owned())], [Some("survey".to_owned())]]);
}

/// PRD-5: writes nothing, also where a text has a link that unsubscribes and no link was ever made.
async fn prd_5_explain_makes_no_secret_for_links(t: &Bench) {
    let builder = Engine::builder(t.place.url()).on_store(t.another().await).clock(ClockMode::Manual);
    let engine = builder.unsubscribe_url("https://example.org/u/{token}").open().await.unwrap();
    crate::notification::define(&engine, TENANT, |_| {}).await;
    worded(&engine, |json| json["body"] = json!("stop: {{unsubscribeUrl}}")).await;
    let before = t.dump().await;
    let told = explain(&engine, confirmed("1")).await.notification.unwrap();
    before.assert_equals(&t.dump().await, "an explanation");
    assert_eq!(told.deliveries[0].body.as_deref(), Some("stop: https://example.org/u/{token}"));
    assert_eq!(told.deliveries[0].warnings, Vec::<String>::new());
}

/// NTF-3: templates that are all limited to other entities are no templates for an event.
async fn ntf_3_an_event_that_no_template_fits_fails(t: &Bench) {
    let engine = engine(t).await;
    crate::notification::define(&engine, TENANT, |_| {}).await;
    worded(&engine, |json| (json["scopeType"], json["scopeId"]) = (json!("booking"), json!("2"))).await;
    engine.enqueue_one(TENANT, confirmed("1")).await.unwrap();
    tick(&engine).await;
    let entry = t.texts("select status, error from punctual.entry").await;
    assert_eq!(entry, [[Some("6".to_owned()), Some("Template not found".to_owned())]]);
    assert_eq!(inbox(&engine), Vec::<String>::new());
}
