//! What an invitation knows of its event, its reader and its entity: the same as a notification of the same
//! event. The clock stands at 2026-05-14T05:13:00Z.

use crate::bench::{Bench, TENANT};
use crate::invitation::{DAY, publish, read_template, survey, time};
use crate::notification::{KIND, booking, confirm_in, define, engine, inbox, prefer, texts, tick};
use punctual::delivery::rules::consent::TenantSettings;
use punctual::delivery::run::sandbox::SandboxFilter;
use punctual::engine::{ChosenTrigger, IngestOutcome, IngestReport, IngestRequest};
use punctual::flow::rules::entity::NewEntityState;
use punctual::testing::Backend;
use punctual::{Engine, Entity, Problems};
use serde_json::{Value, json};

cases![
    ntf_8_the_region_of_a_reader_is_kept,
    ntf_9_an_invitation_names_what_a_notification_does,
    ntf_9_each_of_a_list_is_named_as_the_kind_maps_them,
    ntf_9_without_a_kind_the_entity_is_named_all_the_same,
    ntf_9_a_viewer_is_not_shown_the_entity_by_explain,
    ntf_18_quiet_hours_of_an_invitation_go_by_the_zone_of_the_event,
    ntf_3_an_invitation_without_an_entity_is_asked_before_it_is_sent,
    ntf_3_an_ingest_call_asks_what_its_events_are_about,
    trg_18_our_own_words_are_in_the_language_of_the_survey,
];

const PHONE: &str = "+919876543210";

/// A survey after a confirmed booking, by SMS.
fn after_booking(edit: impl FnOnce(&mut Value)) -> Value {
    survey(|d| {
        d["triggers"][0] = json!({
            "id": "by-sms",
            "eventKind": KIND,
            "dedupRecipe": ["templateId", "candidate.bookingId"],
            "schedule": {"initialDelay": "0d", "reminders": []},
            "channel": "memory:sms",
        });
        edit(d);
    })
}

/// Texts of one language for the notification of a booking and for its survey, each with its name before it.
async fn tell_both(engine: &Engine, language: &str, body: &str) {
    for (event_type, name) in [(KIND, "N"), ("survey.invitation", "S")] {
        let template = json!({"eventType": event_type, "channel": "SMS", "language": language,
            "body": format!("{name} {body}")});
        engine.store().create_template(TENANT, read_template(&template)).await.unwrap();
    }
}

/// The texts that the sandbox has, sorted.
fn bodies(engine: &Engine) -> Vec<String> {
    let body = |got: &String| got.split_once(": ").unwrap().1.to_owned();
    let mut all: Vec<String> = inbox(engine).iter().map(body).collect();
    all.sort();
    all
}

/// The text of the first send that explain foretells for a booking.
async fn foretold(engine: &Engine, payload: &Value, recipient: Value) -> String {
    let item = json!({"payload": payload, "recipient": recipient});
    let ingest = IngestRequest { event_kind: KIND.into(), items: vec![item] };
    let mut explained = engine.explain(TENANT, &ingest).await.unwrap().remove(0);
    explained.triggers.remove(0).sends.remove(0).body
}

/// NTF-8, NTF-11, NTF-18: of `ar-IQ` and `ar` the reader's own is taken, and a text in Arabic has the dates
/// and the locale of a reader in Syria, for both kinds, in what explain foretells, and by a preference.
async fn ntf_8_the_region_of_a_reader_is_kept(t: &Bench) {
    let engine = engine(t).await;
    define(&engine, TENANT, |_| {}).await;
    publish(&engine, after_booking(|_| {})).await;
    for language in ["en", "ar", "ar-IQ"] {
        tell_both(
            &engine,
            language,
            &format!("{language} {{{{checkinDate|date}}}} {{{{recipient.locale}}}}"),
        )
        .await;
    }
    let table = [
        (Some("ar-IQ"), None, "ar-IQ ١٥ آذار ٢٠٢٦ ar-IQ"),
        (Some("ar-SY"), None, "ar ١٥ آذار ٢٠٢٦ ar-SY"),
        (Some("ar-EG"), None, "ar ١٥ مارس ٢٠٢٦ ar-EG"),
        (Some("fr"), None, "en March 15, 2026 fr"),
        (None, None, "en March 15, 2026 "),
        (Some("fr"), Some("ar-SY"), "ar ١٥ آذار ٢٠٢٦ ar-SY"),
    ];
    for (n, (locale, preferred, said)) in table.into_iter().enumerate() {
        let wants = preferred.map_or(json!({}), |locale: &str| json!({"locale": locale}));
        prefer(&engine, PHONE, &wants).await;
        let mut payload = booking(&n.to_string());
        payload["guest"]["locale"] = json!(locale);
        let recipient = json!({"address": PHONE, "locale": locale});
        assert_eq!(
            foretold(&engine, &payload, recipient).await,
            format!("S {said}"),
            "{locale:?} by explain"
        );
        confirm_in(&engine, TENANT, &payload).await;
        tick(&engine).await;
        assert_eq!(bodies(&engine), [format!("N {said}"), format!("S {said}")], "{locale:?}, {preferred:?}");
        engine.sandbox().unwrap().clear(&SandboxFilter::default());
    }
}

async fn tell_of(engine: &Engine, kind: &str, id: &str, state: Value) {
    let entity = Entity { kind: kind.into(), id: id.into() };
    let state = NewEntityState { entity, state: state.to_string(), version: None };
    engine.store().put_entity(TENANT, state).await.unwrap();
}

/// NTF-9, NTF-11: the state of the entity, what it leads to, the name that the kind maps, and dates where the
/// entity is; by an event of a topic and by an ingest call, in what explain foretells, and anew for a
/// reminder.
async fn ntf_9_an_invitation_names_what_a_notification_does(t: &Bench) {
    let engine = engine(t).await;
    let related = json!({"listing": {"type": "listing", "idPath": "entity.listingId"}});
    define(&engine, TENANT, |kind| kind["related"] = related).await;
    publish(&engine, after_booking(|d| d["triggers"][0]["schedule"]["reminders"] = json!(["1d"]))).await;
    let body = "{{recipient.name}} {{entityId}} {{entity.status}} {{paid}} {{listingName}} \
        {{at|date:datetime}} {{guestName}} {{payload.bookingId}}";
    tell_both(&engine, "en", body).await;
    let state = |status: &str| {
        let mut state = json!({"paid": "deposit", "listingId": 77, "timeZone": "Asia/Baghdad"});
        state["status"] = json!(status);
        state
    };
    tell_of(&engine, "booking", "1", state("open")).await;
    tell_of(&engine, "listing", "77", json!({"name": "Sea View"})).await;
    let mut payload = booking("1");
    payload["at"] = json!("2026-05-14T22:00:00Z");
    let recipient = json!({"address": "+91 98765 43210"});
    let said = "John Doe 1 open deposit Sea View May 15, 2026 at 1:00 AM John Doe 1";
    assert_eq!(foretold(&engine, &payload, recipient.clone()).await, format!("S {said}"));
    confirm_in(&engine, TENANT, &payload).await;
    tick(&engine).await;
    assert_eq!(bodies(&engine), [format!("N {said}"), format!("S {said}")]);
    let warnings = "select count(*) from punctual.delivery_attempt where warnings is not null";
    assert_eq!(t.count(warnings).await, 0, "every name has a value");

    engine.sandbox().unwrap().clear(&SandboxFilter::default());
    tell_of(&engine, "booking", "1", state("paid")).await;
    engine.travel(t.now().await.plus(DAY), true).await.unwrap();
    let reminded = said.replace("open", "paid");
    assert_eq!(bodies(&engine), [format!("S {reminded}")], "a reminder names the entity as it is by then");

    engine.sandbox().unwrap().clear(&SandboxFilter::default());
    tell_of(&engine, "booking", "2", state("open")).await;
    let mut payload = payload.clone();
    payload["bookingId"] = json!("2");
    ingest(&engine, &payload, recipient).await;
    tick(&engine).await;
    let said = "S John Doe 2 open deposit Sea View May 15, 2026 at 1:00 AM John Doe 2";
    assert_eq!(bodies(&engine), [said], "an event that is handed in");
}

/// Hands in one event of a booking.
async fn ingest(engine: &Engine, payload: &Value, recipient: Value) -> IngestReport {
    let item = json!({"payload": payload, "recipient": recipient});
    let ingest = IngestRequest { event_kind: KIND.into(), items: vec![item] };
    engine.ingest(TENANT, &ingest).await.unwrap().remove(0)
}

/// NTF-9: everybody of a list is written to by their own name, and one whom only an ingest call gives an
/// address by the name in its payload.
async fn ntf_9_each_of_a_list_is_named_as_the_kind_maps_them(t: &Bench) {
    let engine = engine(t).await;
    let each = json!({"each": "guests", "phone": "phone", "name": "name", "ref": "ref"});
    define(&engine, TENANT, |kind| kind["recipients"] = each).await;
    let recipe = json!(["templateId", "candidate.bookingId", "recipient.address"]);
    publish(&engine, after_booking(|d| d["triggers"][0]["dedupRecipe"] = recipe)).await;
    tell_both(&engine, "en", "{{recipientName}} {{recipient.room}} {{recipient.ref}}").await;
    let guest =
        |n: u8, name: &str| json!({"phone": format!("+1555010{n}"), "name": name, "room": n, "ref": name});
    let payload = json!({"bookingId": "1", "guests": [guest(1, "Ada"), guest(2, "Ben")]});
    confirm_in(&engine, TENANT, &payload).await;
    tick(&engine).await;
    assert_eq!(bodies(&engine), ["N Ada 1 Ada", "N Ben 2 Ben", "S Ada 1 Ada", "S Ben 2 Ben"]);

    engine.sandbox().unwrap().clear(&SandboxFilter::default());
    define(&engine, TENANT, |kind| kind["recipients"] = json!({"name": "customer", "phone": "phone"})).await;
    ingest(&engine, &json!({"bookingId": "2", "customer": "Cy"}), json!({"address": "+15550103"})).await;
    let agent = json!({"bookingId": "3", "customer": "Cy", "phone": "+15550104"});
    ingest(&engine, &agent, json!({"address": "+15550105", "customerRef": "agent"})).await;
    tick(&engine).await;
    assert_eq!(bodies(&engine), ["S   agent", "S Cy  "], "another person is not called by this name");
}

/// Takes the table of entities away, so that whoever reads it fails; or brings it back.
async fn rename_entities(t: &Bench, from: &str, to: &str) {
    let prefix = if t.backend == Backend::Sqlite { "punctual_" } else { "" };
    t.texts(&format!("alter table punctual.{from} rename to {prefix}{to}")).await;
}

/// NTF-9: also an event without a definition has an entity, whose state is read when a template names it,
/// and only then.
async fn ntf_9_without_a_kind_the_entity_is_named_all_the_same(t: &Bench) {
    let engine = engine(t).await;
    publish(&engine, after_booking(|_| {})).await;
    tell_of(&engine, "booking", "1", json!({"status": "open"})).await;
    let tell = async |id: &str| {
        let payload = json!({"bookingId": id, "name": "Ada"});
        let item = json!({"payload": payload, "recipient": {"address": PHONE},
            "entity": {"type": "booking", "id": "1"}});
        let ingest = IngestRequest { event_kind: KIND.into(), items: vec![item] };
        engine.ingest(TENANT, &ingest).await.unwrap();
    };
    tell("1").await;
    rename_entities(t, "entity", "away").await;
    assert_eq!(tick(&engine).await.sent, 1, "our own words name no entity");
    rename_entities(t, "away", "entity").await;
    engine.sandbox().unwrap().clear(&SandboxFilter::default());
    tell_both(&engine, "en", "{{status}} {{entity.id}} {{recipient.name}}").await;
    tell("2").await;
    tick(&engine).await;
    assert_eq!(bodies(&engine), ["S open 1 Ada"]);
}

/// NTF-9, NTF-19: explain tells the state of an entity to those who may see people.
async fn ntf_9_a_viewer_is_not_shown_the_entity_by_explain(t: &Bench) {
    let engine = engine(t).await;
    define(&engine, TENANT, |_| {}).await;
    publish(&engine, after_booking(|_| {})).await;
    tell_both(&engine, "en", "{{entity.secret}}{{entity.status}}").await;
    tell_of(&engine, "booking", "1", json!({"status": "open", "secret": "s3cret "})).await;
    let item = json!({"payload": booking("1"), "recipient": {"address": PHONE}});
    let ingest = IngestRequest { event_kind: KIND.into(), items: vec![item] };
    let open = engine.explain(TENANT, &ingest).await.unwrap();
    let closed = engine.explain_without_states(TENANT, &ingest).await.unwrap();
    let body =
        |explained: &[punctual::engine::EventExplanation]| explained[0].triggers[0].sends[0].body.clone();
    assert_eq!((body(&open).as_str(), body(&closed).as_str()), ("S s3cret open", "S Confirmed"));
}

/// NTF-18: quiet hours are those of the zone that the event names for the recipient, as for notifications;
/// explain says the same.
async fn ntf_18_quiet_hours_of_an_invitation_go_by_the_zone_of_the_event(t: &Bench) {
    let engine = engine(t).await;
    define(&engine, TENANT, |kind| kind["recipients"]["timeZone"] = json!("guest.zone")).await;
    publish(&engine, after_booking(|_| {})).await;
    tell_both(&engine, "en", "{{bookingId}} {{recipient.timeZone}}").await;
    let night = json!({"quietHours": {"from": "21:00", "to": "08:00"}});
    let night = TenantSettings::read(&night, &mut Problems::default()).unwrap();
    engine.store().put_tenant_settings(TENANT, night, "test").await.unwrap();
    // It is 05:13 in the tenant's UTC, 01:13 in New York and 10:43 in India.
    let zones = [("1", None), ("2", Some("America/New_York")), ("3", Some("Asia/Kolkata"))];
    let wants = ["2026-05-14T08:00:00Z", "2026-05-14T12:00:00Z", "2026-05-14T05:13:00Z"];
    for ((id, zone), at) in zones.into_iter().zip(wants) {
        let mut payload = booking(id);
        payload["guest"]["zone"] = json!(zone);
        let item = json!({"payload": payload, "recipient": {"address": PHONE}});
        let ingest = IngestRequest { event_kind: KIND.into(), items: vec![item] };
        let explained = engine.explain(TENANT, &ingest).await.unwrap();
        assert_eq!(explained[0].triggers[0].sends[0].at, time(at), "booking {id} by explain");
        confirm_in(&engine, TENANT, &payload).await;
    }
    let mut sent = Vec::new();
    for moment in ["05:13:00", "07:59:59", "08:00:00", "11:59:59", "12:00:00"] {
        engine.travel(time(&format!("2026-05-14T{moment}Z")), true).await.unwrap();
        tick(&engine).await;
        sent.push(bodies(&engine).iter().filter(|body| body.starts_with('S')).count());
    }
    assert_eq!(sent, [1, 1, 2, 2, 3]);
    let of_new_york = "S 2 America/New_York".to_owned();
    assert!(bodies(&engine).contains(&of_new_york), "{:?}", bodies(&engine));
}

/// NTF-3: `cancelWhen` over the payload and `requireEntity` are asked before each send, also of an entry
/// without an entity.
async fn ntf_3_an_invitation_without_an_entity_is_asked_before_it_is_sent(t: &Bench) {
    let of_payload = json!({"questionId": "payload.status", "op": "==", "value": "Confirmed"});
    let of_entity = json!({"questionId": "entity.status", "op": "==", "value": "Confirmed"});
    let other = json!({"questionId": "payload.status", "op": "==", "value": "Paid"});
    let table = [
        (json!({"cancelWhen": of_payload}), "CancelWhen"),
        (json!({"cancelWhen": of_entity}), "CancelWhen"),
        (json!({"requireEntity": true, "entityType": "booking", "entityIdPath": "none"}), "EntityUnknown"),
        (json!({"cancelWhen": other}), ""),
    ];
    for (mut definition, reason) in table {
        definition["recipients"] = json!({"phone": "guest.phone"});
        let t = &Bench::on(t.backend).await;
        let engine = engine(t).await;
        publish(&engine, after_booking(|_| {})).await;
        ingest(&engine, &booking("1"), json!({"address": PHONE})).await;
        engine.put_event_kind(TENANT, KIND, definition.clone()).await.unwrap();
        tick(&engine).await;
        let sent = bodies(&engine).len();
        assert_eq!(sent, usize::from(reason.is_empty()), "{definition}");
        let why = "select coalesce(reason, '') from punctual.entry where kind = 'survey'";
        assert_eq!(texts(t, why).await, [reason], "{definition}");
    }
}

/// NTF-3, TRG-5: an ingest call finds the entity by the path of the kind, and what is pointless begins
/// nothing and says why; so do explain and the dry run of a send by hand.
async fn ntf_3_an_ingest_call_asks_what_its_events_are_about(t: &Bench) {
    let engine = engine(t).await;
    let cancel = json!({"questionId": "entity.status", "op": "==", "value": "Closed"});
    define(&engine, TENANT, |kind| kind["cancelWhen"] = cancel).await;
    let flow = publish(
        &engine,
        after_booking(|d| {
            d["triggers"][0]["filter"] = json!({"questionId": "entity.type", "op": "==", "value": "booking"});
        }),
    )
    .await;
    tell_of(&engine, "booking", "2", json!({"status": "Closed"})).await;
    let gone = Entity { kind: "booking".into(), id: "3".into() };
    engine.store().delete_entity(TENANT, gone, None).await.unwrap();
    let recipient = json!({"address": PHONE});
    let table = [
        ("1", IngestOutcome::Created, None),
        ("2", IngestOutcome::NoMatch, Some("nothing begins: cancelWhen holds: ")),
        ("3", IngestOutcome::NoMatch, Some("nothing begins: what the event is about was deleted")),
    ];
    for (id, outcome, error) in table {
        let item = json!({"payload": booking(id), "recipient": recipient});
        let asked = IngestRequest { event_kind: KIND.into(), items: vec![item.clone()] };
        let foretold = engine.explain(TENANT, &asked).await.unwrap().remove(0).triggers.remove(0);
        assert_eq!((foretold.outcome, foretold.sends.is_empty()), (outcome, error.is_some()), "explain {id}");
        let chosen = ChosenTrigger { flow, trigger_id: "by-sms".into(), by: "ops".into(), dry_run: true };
        let by_hand = engine.send_by_hand(TENANT, &chosen, vec![item]).await.unwrap().remove(0);
        let would = if error.is_some() { IngestOutcome::Skipped } else { IngestOutcome::Created };
        assert_eq!(by_hand.outcome, would, "by hand {id}: {by_hand:?}");
        let got = ingest(&engine, &booking(id), recipient.clone()).await;
        assert_eq!(got.outcome, outcome, "{id}: {got:?}");
        let begins = |said: &str| got.error.as_deref().is_some_and(|error| error.starts_with(said));
        assert!(error.map_or(got.error.is_none(), begins), "{id}: {got:?}");
        error.inspect(|error| assert!(foretold.because.starts_with(error), "{id}: {}", foretold.because));
    }
    let about = "select entity_type || ' ' || entity_id from punctual.entry where kind = 'survey'";
    assert_eq!(texts(t, about).await, ["booking 1"]);
}

/// TRG-18: a survey without a template invites and reminds in its own language, also a reader of another one.
async fn trg_18_our_own_words_are_in_the_language_of_the_survey(t: &Bench) {
    let table = [
        ("fr", "fr-CA", "fr-CA", "Merci de prendre un instant", "Petit rappel"),
        ("he", "fr", "he", "נשמח אם תקדישו", "תזכורת"),
        ("zh-TW", "zh-HK", "zh-HK", "請抽空", "溫馨提醒"),
    ];
    for (language, reader, locale, invites, reminds) in table {
        let t = &Bench::on(t.backend).await;
        let engine = engine(t).await;
        let definition = json!({"title": {(language): "CSI"}, "locales": [language],
            "defaultLocale": language,
            "questions": [{"id": "rate", "type": "rating", "text": {(language): "?"}}],
            "triggers": [{"id": "by-sms", "eventKind": KIND, "channel": "memory:sms",
                "dedupRecipe": ["candidate.bookingId"],
                "schedule": {"initialDelay": "0d", "reminders": ["1d"]}}]});
        publish(&engine, definition).await;
        let recipient = json!({"address": PHONE, "locale": reader});
        let foretold = foretold(&engine, &booking("1"), recipient.clone()).await;
        ingest(&engine, &booking("1"), recipient).await;
        engine.travel(t.now().await.plus(2 * DAY), true).await.unwrap();
        let got = engine.sandbox().unwrap().messages(&SandboxFilter::default(), 10);
        let got: Vec<(&str, &str)> =
            got.iter().map(|got| (got.message.locale.as_str(), got.message.body.as_str())).collect();
        assert_eq!((got[0].0, got[1].0), (locale, locale), "{language}");
        assert!(got[0].1.starts_with(invites) && got[1].1.starts_with(reminds), "{language}: {got:?}");
        assert!(foretold.starts_with(invites), "{language}: {foretold}");
    }
}
