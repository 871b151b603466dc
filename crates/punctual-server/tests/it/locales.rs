//! Dates, numbers and money of messages in the locale of whoever reads them, from an event to what is sent.

use crate::client::Client;
use crate::world::{Base, World};
use serde_json::{Value, json};

on_each! {
    ntf_11_a_message_has_the_forms_of_its_reader_and_the_zone_of_its_entity,
    ntf_11_an_unknown_locale_is_sent_with_a_warning,
    ntf_11_a_doubtful_form_is_told_when_a_template_is_saved,
    ntf_11_an_sms_has_plain_spaces,
}

const TEMPLATES: &str = "/api/message-templates";

/// A tenant in Baghdad that speaks Arabic, with a kind of events.
async fn hotel(world: &World) -> Client {
    let root = world.root();
    root.does("/dev/clock", json!({"set": "2026-05-14T05:13:00Z", "run": false}), 200).await;
    let tenant = json!({"slug": "iraq", "name": "Iraq", "timeZone": "Asia/Baghdad", "defaultLocale": "ar"});
    root.does("/api/tenants", tenant, 201).await;
    let hotel = root.tenant("iraq");
    let kind = json!({"topic": "booking.events", "entityType": "booking", "entityIdPath": "bookingId",
        "recipients": {"phone": "phone", "locale": "locale"}});
    let reply = hotel.put("/api/event-kinds/booking.confirmed", kind).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    hotel
}

fn template(channel: &str, language: &str, body: &str) -> Value {
    json!({"eventType": "booking.confirmed", "channel": channel, "language": language, "body": body})
}

/// A booking of somebody with a locale is confirmed, in a zone if one is known.
fn booking(id: &str, locale: &str, zone: Option<&str>) -> Value {
    json!({"topic": "booking.events", "kind": "booking.confirmed",
        "entity": {"type": "booking", "id": id, "state": {"timeZone": zone}},
        "payload": {"bookingId": id, "phone": "+9647700000001", "locale": locale,
            "checkIn": "2026-05-14T21:30:00Z", "total": "1234567.8905", "currency": "KWD"}})
}

async fn sent(client: &Client) -> Vec<String> {
    let list = client.sees("/dev/messages").await;
    let items = list["items"].as_array().unwrap().iter();
    items.map(|message| message["body"].as_str().unwrap().to_owned()).collect()
}

/// NTF-11: the sender, as the preview, shows dates, numbers and money in the recipient's locale, and moments
/// in the zone of the entity, else of the tenant.
async fn ntf_11_a_message_has_the_forms_of_its_reader_and_the_zone_of_its_entity(base: Base) {
    let world = World::manual(base).await;
    let hotel = hotel(&world).await;
    let body = "{{checkIn | date:full}} {{checkIn | date:time}} {{total | number:1}} \
        {{total | money:currency}}";
    let made = hotel.does(TEMPLATES, template("WhatsApp", "ar", body), 201).await;
    for (id, locale, zone) in [
        ("1", "ar-IQ", Some("America/New_York")),
        ("2", "ar-IQ", None),
        ("3", "ar-AE", Some("Asia/Dubai")),
        ("4", "de", Some("UTC")),
    ] {
        hotel.does("/api/events", booking(id, locale, zone), 202).await;
        world.advance("1s").await;
    }
    let want = [
        "الخميس، ١٤ أيار ٢٠٢٦ ٥:٣٠ م ١٬٢٣٤٬٥٦٧٫٩ \u{200f}١٬٢٣٤٬٥٦٧٫٨٩١\u{a0}د.ك.\u{200f}",
        "الجمعة، ١٥ أيار ٢٠٢٦ ١٢:٣٠ ص ١٬٢٣٤٬٥٦٧٫٩ \u{200f}١٬٢٣٤٬٥٦٧٫٨٩١\u{a0}د.ك.\u{200f}",
        "الجمعة، 15 مايو 2026 1:30 ص 1,234,567.9 \u{200f}1,234,567.891\u{a0}د.ك.\u{200f}",
        "الخميس، 14 مايو 2026 9:30 م 1,234,567.9 \u{200f}1,234,567.891\u{a0}د.ك.\u{200f}",
    ];
    assert_eq!(sent(&hotel).await, want);
    let path = format!("{TEMPLATES}/{}/preview", made["id"].as_str().unwrap());
    let payload = booking("2", "ar-IQ", None)["payload"].clone();
    let seen = hotel.does(&path, json!({"payload": payload}), 200).await;
    assert_eq!((&seen["body"], &seen["locale"]), (&json!(want[1]), &json!("ar-IQ")));
    let said = "`{{total}}` has more than the 3 decimals of KWD, and was rounded";
    assert_eq!(seen["warnings"], json!([{"path": "body", "message": said}]));
}

/// NTF-11: a locale that nobody knows has the forms of the tenant's; the message is sent, and its log tells.
async fn ntf_11_an_unknown_locale_is_sent_with_a_warning(base: Base) {
    let world = World::manual(base).await;
    let hotel = hotel(&world).await;
    let made = hotel.does(TEMPLATES, template("WhatsApp", "tlh", "{{checkIn | date}}"), 201).await;
    let said = "the forms of the locale `tlh` are not known";
    let told = made["warnings"].to_string();
    assert!(told.contains(said), "whoever saves it is told: {told}");
    hotel.does("/api/events", booking("1", "tlh-KX", None), 202).await;
    world.advance("1s").await;
    assert_eq!(sent(&hotel).await, ["15 مايو 2026"], "as the tenant's default locale has it");
    let log = hotel.sees("/api/communication-logs").await["items"][0].clone();
    let told = log["warnings"].to_string();
    assert!(log["status"] == "Sent" && told.contains("as in `ar`, because the forms of"), "{log}");
}

/// NTF-11: whoever saves a template is told at once what is wrong with a filter, and where, or doubtful.
async fn ntf_11_a_doubtful_form_is_told_when_a_template_is_saved(base: Base) {
    let world = World::manual(base).await;
    let hotel = hotel(&world).await;
    for (body, said) in [
        (
            "Hi\n {{checkIn | date:lnog}}",
            "line 2, column 14: `lnog` is not a form of dates; did you mean `long`?",
        ),
        (
            "{{total | money:EUX}}",
            "line 1, column 11: `EUX` is not the code of a currency; did you mean `EUR`?",
        ),
        ("{{total | money}}", "line 1, column 11: `money` needs a currency"),
        ("{{total | number:many}}", "line 1, column 11: `many` decimals: write a number from 0 to 10"),
    ] {
        let reply = hotel.post(TEMPLATES, template("WhatsApp", "ar", body)).await;
        assert!(reply.status == 422 && reply.text.contains(said), "{body}: {}", reply.text);
    }
    for (body, said) in [
        ("{{checkIn | date:\"%d %B\"}}", "`%d %B` has names in English: write date:full for those of `ar`"),
        ("{{total | money:curency}}", "`{{curency}}` is not known"),
    ] {
        let made = hotel.does(TEMPLATES, template("WhatsApp", "ar", body), 201).await;
        let told = made["warnings"].to_string();
        assert!(told.contains(said), "{body}: {told}");
    }
}

/// NTF-11: a no-break space of a number would make an SMS twice as dear.
async fn ntf_11_an_sms_has_plain_spaces(base: Base) {
    let world = World::manual(base).await;
    let hotel = hotel(&world).await;
    for channel in ["SMS", "WhatsApp"] {
        let made = hotel.does(TEMPLATES, template(channel, "fr", "{{total | money:EUR}}"), 201).await;
        let path = format!("{TEMPLATES}/{}/preview", made["id"].as_str().unwrap());
        let seen = hotel.does(&path, json!({"payload": {"total": "-1234567.5"}}), 200).await;
        let want = match channel {
            "SMS" => "-1 234 567,50 €",
            _ => "-1\u{202f}234\u{202f}567,50\u{a0}€",
        };
        assert_eq!(seen["body"], want, "{channel}");
        if channel == "SMS" {
            assert_eq!(seen["segments"]["encoding"], "GSM-7");
        }
    }
}
