//! The definitions that let events lead to sends: an event kind with two templates, and a survey with two
//! triggers. They belong to a tenant of their own, so that no other message passes the event planner.

use punctual::access::store::tenants::NewTenant;
use punctual::delivery::rules::template::TemplateDefinition;
use punctual::flow::store::flows::FlowDraft;
use punctual::{Engine, Problems, Tenant};
use serde_json::{Value, json};
use std::time::Duration;

/// The slug of the tenant whose customers get messages.
pub const SLUG: &str = "customers";
/// Sends a message again when its outcome is unknown.
pub const SMS: &str = "sms:journal";
/// Holds a message whose outcome is unknown.
pub const MAIL: &str = "email:journal";
pub const CHANNELS: [&str; 2] = [SMS, MAIL];

/// The kind and the topic of events that customers are notified of, by both channels.
pub const NOTIFIED: &str = "order.shipped";
/// The kind of events that begin a survey through `Engine::ingest`, by text message.
pub const INGESTED: &str = "visit.ended";
/// The kind and the topic of events that begin a survey through a topic, by mail.
pub const SURVEYED: &str = "call.ended";
/// The kind of the message by which a survey reports an answer.
pub const COMPLETED: &str = "response-completed";

/// An invitation, and its reminders.
pub const SENDS: u32 = 3;
/// From each send of an instance to the next one.
pub const REMINDERS: [Duration; SENDS as usize - 1] =
    [Duration::from_millis(300), Duration::from_millis(400)];
/// An instance expires so long after its last send.
const EXPIRY: &str = "400ms";

/// Creates the tenant with all its definitions.
pub async fn install(engine: &Engine) -> Tenant {
    let new = NewTenant { slug: SLUG.into(), name: "Customers".into(), ..NewTenant::default() };
    let tenant = engine.store().create_tenant(new).await.unwrap().tenant;
    let kind = json!({"topic": NOTIFIED, "entityType": "order", "entityIdPath": "op",
        "recipients": {"phone": "phone", "email": "email"}});
    engine.put_event_kind(tenant, NOTIFIED, kind).await.unwrap();
    for channel in CHANNELS {
        let mut problems = Problems::default();
        let template = json!({"eventType": NOTIFIED, "channel": channel, "language": "en",
            "body": "Order {{op}} is on its way", "subject": (channel == MAIL).then_some("Your order")});
        let template =
            TemplateDefinition::read(&template, &mut problems).unwrap_or_else(|| panic!("{problems}"));
        engine.store().create_template(tenant, template).await.unwrap();
    }
    let draft = FlowDraft { name: "How was it?".into(), integration_id: None, definition: survey() };
    let flow = engine.store().create_flow(tenant, draft).await.unwrap();
    engine.store().publish_flow(tenant, flow.id).await.unwrap();
    tenant
}

/// Nobody subscribes to its reports: they are read where they are written.
fn survey() -> Value {
    let reminders: Vec<String> = REMINDERS.iter().map(|wait| format!("{}ms", wait.as_millis())).collect();
    let trigger = |kind: &str, channel: &str| {
        json!({"id": kind.replace('.', "-"), "enabled": true, "eventKind": kind, "channel": channel,
            "expiry": EXPIRY, "dedupRecipe": ["templateId", "recipient.address"],
            "schedule": {"initialDelay": "0s", "reminders": reminders}})
    };
    json!({"title": {"en": "How was it?"}, "locales": ["en"], "defaultLocale": "en", "subscribers": [],
        "questions": [{"id": "rate", "type": "rating", "required": true, "text": {"en": "How?"}}],
        "triggers": [trigger(INGESTED, SMS), trigger(SURVEYED, MAIL)]})
}
