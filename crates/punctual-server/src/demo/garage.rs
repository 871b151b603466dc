//! The garage of the demo: visits close, cars are sold, and customers are asked how it was.
//!
//! Two surveys are published: one right after a service visit with a reminder a day later, one 60 days
//! after a sale with reminders 5, 10 and 15 days apart. Cars were sold 60 days ago, so that their
//! invitations are due now. Messages go to the sandbox; some customers answer.

use punctual::base::random;
use punctual::engine::IngestRequest;
use punctual::flow::store::flows::FlowDraft;
use punctual::queue::rules::subscription::{NewSubscription, SubscriptionTarget};
use punctual::{Engine, FlowId, Result, Tenant};
use serde_json::{Map, Value, json};
use std::time::Duration;

const CSI_GR: &str = include_str!("csi-gr.json");
const VOC: &str = include_str!("voc.json");
/// The time between two visits.
const BETWEEN_VISITS: Duration = Duration::from_secs(7);
/// From a car's sale to the question how it is.
const SALE_AGE: Duration = Duration::from_secs(60 * 24 * 60 * 60);
const NAMES: [&str; 6] =
    ["Kadhem Owaid", "Zainab Hassan", "Ali Jabbar", "Noor Saleh", "Mustafa Amin", "Sara Wells"];

/// Publishes the surveys, and lets two systems listen to their answers.
///
/// # Errors
/// When the database does not answer.
pub async fn open(engine: &Engine) -> Result<()> {
    if !engine.store().flows(Tenant::DEFAULT, FlowId(0), 1).await?.is_empty() {
        return Ok(());
    }
    for (name, id, text) in [("CSI-GR", "csi-gr", CSI_GR), ("VOC 60 days", "voc", VOC)] {
        let definition = serde_json::from_str(text).unwrap_or_default();
        let draft = FlowDraft { name: name.into(), integration_id: Some(id.into()), definition };
        let flow = engine.store().create_flow(Tenant::DEFAULT, draft).await?;
        engine.store().publish_flow(Tenant::DEFAULT, flow.id).await?;
    }
    for name in ["bi", "tickets"] {
        let wanted = NewSubscription::new(SubscriptionTarget::Queue);
        engine.put_subscription(Tenant::DEFAULT, "survey.responses", name, wanted).await?;
    }
    Ok(())
}

/// Works until the process ends.
pub async fn work(engine: Engine) {
    let mut number = 40_956;
    loop {
        number += 1;
        if let Err(error) = one_more(&engine, number).await {
            tracing::warn!(target: "punctual", %error, "the demo's garage could not work");
        }
        tokio::time::sleep(BETWEEN_VISITS).await;
    }
}

async fn one_more(engine: &Engine, number: u64) -> Result<()> {
    let seed = random::seed();
    let name = NAMES[usize::try_from(seed % 6).unwrap_or(0)];
    let locale = if name == "Sara Wells" { "en" } else { "ar" };
    let recipient = json!({"address": format!("+964 770 {:03} {:04}", seed / 7 % 1_000, number % 10_000),
        "locale": locale, "customerRef": format!("cust-{number}")});
    let now = engine.store().now().await?;
    let (kind, item) = if seed.is_multiple_of(4) {
        let payload =
            json!({"salesInvoiceNumber": number.to_string(), "dealerId": "1", "CustomerName": name});
        let sold = now.minus(SALE_AGE);
        ("vehicle-sold", json!({"payload": payload, "recipient": recipient, "occurredAt": sold}))
    } else {
        let payload =
            json!({"wip": number.to_string(), "dealerId": "1", "jobType": "GR", "CustomerName": name});
        ("service-visit-closed", json!({"payload": payload, "recipient": recipient}))
    };
    let made =
        engine.ingest(Tenant::DEFAULT, &IngestRequest { event_kind: kind.into(), items: vec![item] }).await?;
    if seed.is_multiple_of(3) && kind == "service-visit-closed" {
        tokio::time::sleep(Duration::from_secs(2)).await;
        for instance in made.iter().flat_map(|item| &item.instances) {
            engine.record_opened(instance.public_id).await?;
            engine.submit(instance.public_id, answers(seed), None).await?;
        }
    }
    Ok(())
}

/// Most are content; one in five is not.
fn answers(seed: u64) -> Map<String, Value> {
    let angry = seed.is_multiple_of(5);
    let mut answers = json!({"rate": if angry { 3 } else { 7 + seed / 5 % 4 },
        "recommend": if angry { 2 } else { 8 + seed / 5 % 3 },
        "has-a-complaint": if angry { "Yes" } else { "No" }});
    if angry {
        answers["about"] = json!(["time"]);
        answers["complaint"] = json!("It took three days, and nobody called.");
    }
    answers.as_object().cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual::Problems;
    use punctual::survey::rules::survey::Survey;

    #[test]
    fn the_surveys_of_the_demo_are_clean_and_their_answers_fit() {
        for text in [CSI_GR, VOC] {
            let (mut problems, mut warnings) = (Problems::default(), Problems::default());
            let definition: Value = serde_json::from_str(text).unwrap();
            let survey = Survey::read(&definition, &mut problems, &mut warnings);
            assert_eq!((&problems, &warnings), (&Problems::default(), &Problems::default()));
            let survey = survey.unwrap();
            assert_eq!(survey.locales, ["en", "ar"]);
            if text == CSI_GR {
                for seed in 0..20 {
                    assert!(survey.accept(&answers(seed)).is_ok(), "{seed}");
                }
            }
        }
    }
}
