//! What an invitation knows of its event, its reader and its entity: the same as a notification of the same
//! event. The clock stands at 2026-05-14T05:13:00Z.

use crate::bench::{Bench, TENANT};
use crate::invitation::{publish, read_template, survey, time};
use crate::notification::{KIND, booking, confirm_in, define, engine, inbox, prefer, tick};
use punctual::delivery::rules::consent::Settings;
use punctual::delivery::run::sandbox::Wanted;
use punctual::engine::{Ingest, Ingested};
use punctual::flow::rules::entity::NewState;
use punctual::testing::Backend;
use punctual::{Engine, Entity, Problems};
use serde_json::{Value, json};

cases![
    ntf_8_the_region_of_a_reader_is_kept,
    ntf_9_each_of_a_list_is_named_as_the_kind_maps_them,
    ntf_9_without_a_kind_the_entity_is_named_all_the_same,
    ntf_18_quiet_hours_of_an_invitation_go_by_the_zone_of_the_event,
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
    let ingest = Ingest { event_kind: KIND.into(), items: vec![item] };
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
        (Some("ar-IQ"), None, "ar-IQ 15 آذار 2026 ar-IQ"),
        (Some("ar-SY"), None, "ar 15 آذار 2026 ar-SY"),
        (Some("ar-EG"), None, "ar 15 مارس 2026 ar-EG"),
        (Some("fr"), None, "en 15 March 2026 fr"),
        (None, None, "en 15 March 2026 "),
        (Some("fr"), Some("ar-SY"), "ar 15 آذار 2026 ar-SY"),
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
        engine.sandbox().unwrap().clear(&Wanted::default());
    }
}

async fn tell_of(engine: &Engine, kind: &str, id: &str, state: Value) {
    let entity = Entity { kind: kind.into(), id: id.into() };
    let state = NewState { entity, state: state.to_string(), version: None };
    engine.store().put_entity(TENANT, state).await.unwrap();
}

/// Hands in one event of a booking.
async fn ingest(engine: &Engine, payload: &Value, recipient: Value) -> Ingested {
    let item = json!({"payload": payload, "recipient": recipient});
    let ingest = Ingest { event_kind: KIND.into(), items: vec![item] };
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

    engine.sandbox().unwrap().clear(&Wanted::default());
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
        let ingest = Ingest { event_kind: KIND.into(), items: vec![item] };
        engine.ingest(TENANT, &ingest).await.unwrap();
    };
    tell("1").await;
    rename_entities(t, "entity", "away").await;
    assert_eq!(tick(&engine).await.sent, 1, "our own words name no entity");
    rename_entities(t, "away", "entity").await;
    engine.sandbox().unwrap().clear(&Wanted::default());
    tell_both(&engine, "en", "{{status}} {{entity.id}} {{recipient.name}}").await;
    tell("2").await;
    tick(&engine).await;
    assert_eq!(bodies(&engine), ["S open 1 Ada"]);
}

/// NTF-18: quiet hours are those of the zone that the event names for the recipient, as for notifications;
/// explain says the same.
async fn ntf_18_quiet_hours_of_an_invitation_go_by_the_zone_of_the_event(t: &Bench) {
    let engine = engine(t).await;
    define(&engine, TENANT, |kind| kind["recipients"]["timeZone"] = json!("guest.zone")).await;
    publish(&engine, after_booking(|_| {})).await;
    tell_both(&engine, "en", "{{bookingId}} {{recipient.timeZone}}").await;
    let night = json!({"quietHours": {"from": "21:00", "to": "08:00"}});
    let night = Settings::read(&night, &mut Problems::default()).unwrap();
    engine.store().put_tenant_settings(TENANT, night, "test").await.unwrap();
    // It is 05:13 in the tenant's UTC, 01:13 in New York and 10:43 in India.
    let zones = [("1", None), ("2", Some("America/New_York")), ("3", Some("Asia/Kolkata"))];
    let wants = ["2026-05-14T08:00:00Z", "2026-05-14T12:00:00Z", "2026-05-14T05:13:00Z"];
    for ((id, zone), at) in zones.into_iter().zip(wants) {
        let mut payload = booking(id);
        payload["guest"]["zone"] = json!(zone);
        let item = json!({"payload": payload, "recipient": {"address": PHONE}});
        let ingest = Ingest { event_kind: KIND.into(), items: vec![item] };
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
