//! The hotel of the demo: bookings are confirmed, and guests are told by WhatsApp, SMS and mail.
//!
//! Its channels are real ones, by the shipped provider files; at their other end are [`FakeProviders`]. Some
//! bookings are confirmed twice, as by a double click, and some are cancelled before the guest is told.

use super::fakes::FakeProviders;
use crate::cli::failure::{CommandFailure, Outcome};
use crate::config::channels;
use crate::config::channels::{Channels, Written};
use punctual::base::random;
use punctual::delivery::rules::template::TemplateDefinition;
use punctual::flow::rules::entity::NewEntityState;
use punctual::{Engine, Entity, NewMessage, Problems, Result, Tenant};
use serde_json::{Value, json};
use std::time::Duration;

const DOCUMENTS: &str = include_str!("hotel.json");
/// The topic and the kind of its events.
const EVENT: (&str, &str) = ("booking.events", "booking.confirmed");
/// The time between two bookings.
const BETWEEN_BOOKINGS: Duration = Duration::from_secs(6);
const GUESTS: [(&str, &str, &str); 4] = [
    ("Zainab Hassan", "ar-IQ", "+964 770 12"),
    ("Arjun Rao", "en-IN", "+91 98765 "),
    ("Sara Wells", "en", "+44 7400 1"),
    ("Ali Jabbar", "ar", "+964 780 34"),
];
const LISTINGS: [&str; 3] = ["Riverside House", "Palm Courtyard", "The Old Mill"];

/// The hotel's channels, which end at the fakes.
///
/// # Errors
/// When a provider's file cannot be used.
pub fn channels(fakes: &FakeProviders) -> Outcome<Channels> {
    let url = fakes.url();
    let secret = super::fakes::APP_SECRET;
    let text = format!(
        "[\"whatsapp:meta\"]\nprovider = \"meta-whatsapp\"\nphone_number_id = \"1055\"\n\
         access_token = \"demo\"\napp_secret = \"{secret}\"\nbase_url = \"{url}\"\n\
         allow_host = \"127.0.0.1\"\n\
         [\"sms:twilio\"]\nprovider = \"twilio-sms\"\naccount_sid = \"ACdemo\"\nauth_token = \"demo\"\n\
         from = \"+15550100\"\nbase_url = \"{url}\"\nallow_host = \"127.0.0.1\"\n\
         [\"email:sendgrid\"]\nprovider = \"sendgrid\"\napi_key = \"demo\"\nsender = \"stay@hotel.example\"\n\
         sender_name = \"The hotel\"\nbase_url = \"{url}\"\nallow_host = \"127.0.0.1\"\n"
    );
    let written: Written =
        toml::from_str(&text).map_err(|error| CommandFailure::failed(error.to_string()))?;
    channels::decide(&written, None)
}

/// Puts the event's kind and its templates, unless they are there.
///
/// # Errors
/// When the database does not answer.
pub async fn open(engine: &Engine) -> Result<()> {
    let store = engine.store();
    if store.event_kind(Tenant::DEFAULT, EVENT.1).await?.is_some() {
        return Ok(());
    }
    let documents: Value = serde_json::from_str(DOCUMENTS).unwrap_or_default();
    engine.put_event_kind(Tenant::DEFAULT, EVENT.1, documents["kind"].clone()).await?;
    for template in documents["templates"].as_array().into_iter().flatten() {
        let mut problems = Problems::default();
        let read = TemplateDefinition::read(template, &mut problems);
        problems.into_result()?;
        if let Some(definition) = read {
            store.create_template(Tenant::DEFAULT, definition).await?;
        }
    }
    Ok(())
}

/// Takes bookings until the process ends.
pub async fn receive(engine: Engine) {
    let mut number = 12_344;
    loop {
        number += 1;
        if let Err(error) = one_more(&engine, number, random::seed()).await {
            tracing::warn!(target: "punctual", %error, "the demo's hotel could not confirm a booking");
        }
        tokio::time::sleep(BETWEEN_BOOKINGS).await;
    }
}

async fn one_more(engine: &Engine, number: u64, seed: u64) -> Result<()> {
    let id = number.to_string();
    let payload = payload(number, seed, engine.store().now().await?);
    let entity = Entity { kind: "booking".into(), id: id.clone() };
    let status = if seed.is_multiple_of(9) { "Cancelled" } else { "Confirmed" };
    let state = NewEntityState { entity, state: json!({"status": status}).to_string(), version: Some(1) };
    let event = || {
        NewMessage::new(EVENT.0, EVENT.1, payload.to_string())
            .entity("booking", id.clone())
            .correlation_id(format!("booking-{id}"))
    };
    let twice = seed.is_multiple_of(5);
    let events = if twice { vec![event(), event()] } else { vec![event()] };
    engine.enqueue_with_states(Tenant::DEFAULT, events, vec![(0, state)]).await.map(|_| ())
}

fn payload(number: u64, seed: u64, now: punctual::Timestamp) -> Value {
    let pick = |count: usize, by: u64| usize::try_from(seed / by % count as u64).unwrap_or(0);
    let (name, locale, phone) = GUESTS[pick(GUESTS.len(), 3)];
    let mailbox = name.to_ascii_lowercase().replace(' ', ".");
    let check_in = now.plus(Duration::from_secs((3 + seed % 60) * 24 * 60 * 60));
    json!({"bookingId": number.to_string(), "listing": LISTINGS[pick(LISTINGS.len(), 7)],
        "checkIn": check_in, "nights": 2 + seed / 11 % 6, "total": 120 + seed / 13 % 900,
        "guest": {"id": format!("g-{}", seed % 1_000), "name": name, "locale": locale,
            "phone": format!("{phone}{:05}", number % 100_000), "email": format!("{mailbox}@example.com")}})
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual::flow::rules::event_kind::EventKind;

    #[test]
    fn the_documents_of_the_hotel_are_clean_and_its_bookings_fit() {
        let documents: Value = serde_json::from_str(DOCUMENTS).unwrap();
        let mut problems = Problems::default();
        let kind = EventKind::read(&documents["kind"], &mut problems).unwrap();
        for template in documents["templates"].as_array().unwrap() {
            TemplateDefinition::read(template, &mut problems).unwrap();
        }
        assert_eq!(problems, Problems::default());
        let snapshot = punctual::flow::rules::entity::EntitySnapshot::Unknown;
        for seed in 0..12 {
            let payload = payload(12_345, seed, punctual::Timestamp::from_micros(0));
            let guest = kind.recipients(&payload, &snapshot).next().unwrap();
            let phone = punctual_providers::PhoneNumber::parse(&guest.phone.unwrap());
            assert!(phone.is_ok() && guest.email.is_some() && guest.locale.is_some(), "{phone:?}");
        }
    }
}
