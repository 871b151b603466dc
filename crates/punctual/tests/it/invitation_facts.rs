//! What an invitation knows of its event, its reader and its entity: the same as a notification of the same
//! event. The clock stands at 2026-05-14T05:13:00Z.

use crate::bench::{Bench, TENANT};
use crate::invitation::{publish, read_template, survey};
use crate::notification::{KIND, booking, confirm_in, define, engine, inbox, prefer, tick};
use punctual::Engine;
use punctual::delivery::run::sandbox::Wanted;
use punctual::engine::Ingest;
use serde_json::{Value, json};

cases![ntf_8_the_region_of_a_reader_is_kept];

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
