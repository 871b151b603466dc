//! WhatsApp: Meta, 360dialog, Interakt, Infobip, Twilio.

use crate::letters::{INDIAN, SPACED, UUID, channel, class, classes, fields, letter, send, templated};
use crate::stub::{Answer, Stub, reply};
use serde_json::{Value, json};

const META: [(&str, &str); 2] = [("phone_number_id", "1065"), ("access_token", "EAAtoken")];
const DIALOG: [(&str, &str); 1] = [("api_key", "d360key")];
const INTERAKT: [(&str, &str); 1] = [("api_key", "c2VjcmV0Og==")];
const INFOBIP: [(&str, &str); 2] = [("api_key", "k3y-k3y-k3y"), ("from", "441134960000")];
const TWILIO: [(&str, &str); 3] =
    [("account_sid", "AC123"), ("auth_token", "t0k3n-t0k3n"), ("from", "+14155238886")];

fn booking() -> Value {
    json!({"key": "booking_confirmed", "language": "en_US", "params": ["Ada \"L\"", "15 March"]})
}

fn taken() -> Answer {
    let contacts = json!([{"input": INDIAN, "wa_id": "919876543210"}]);
    let messages = json!([{"id": "wamid.HBgM", "message_status": "accepted"}]);
    reply(200, json!({"messaging_product": "whatsapp", "contacts": contacts, "messages": messages}))
}

fn meta_error(status: u16, code: u32, message: &str) -> Answer {
    let data = json!({"messaging_product": "whatsapp", "details": "more"});
    let error = json!({"message": message, "type": "OAuthException", "code": code, "error_data": data,
        "fbtrace_id": "Az8or2yhqkZfEZ"});
    reply(status, json!({"error": error}))
}

/// NTF-13: Meta gets a template with its parameters, in order or by name, or a text.
#[tokio::test]
async fn ntf_13_meta_is_asked_as_documented() {
    let stub = Stub::start([taken(), taken(), taken(), taken()]).await;
    let channel = channel("meta-whatsapp", &stub, &META);
    let sent = send(&channel, templated(INDIAN, booking())).await.unwrap();
    assert_eq!(sent.message_id.as_deref(), Some("wamid.HBgM"));
    send(&channel, templated(INDIAN, json!({"key": "b", "params": {"guest": "Ada"}}))).await.unwrap();
    send(&channel, templated(INDIAN, json!({"key": "b", "language": "ar"}))).await.unwrap();
    send(&channel, letter(SPACED)).await.unwrap();
    let asked = stub.asked();
    assert_eq!(asked[0].target, "/v23.0/1065/messages");
    assert_eq!(asked[0].header("authorization"), "Bearer EAAtoken");
    let parameters = json!([{"type": "text", "text": "Ada \"L\""}, {"type": "text", "text": "15 March"}]);
    let want = json!({
        "messaging_product": "whatsapp", "recipient_type": "individual", "to": INDIAN, "type": "template",
        "biz_opaque_callback_data": UUID,
        "template": {"name": "booking_confirmed", "language": {"code": "en_US"},
            "components": [{"type": "body", "parameters": parameters}]},
    });
    assert_eq!(asked[0].json(), want);
    let named = json!([{"type": "text", "parameter_name": "guest", "text": "Ada"}]);
    assert_eq!(asked[1].json()["template"]["components"][0]["parameters"], named);
    assert_eq!(asked[1].json()["template"]["language"]["code"], "en_IN", "the letter's locale");
    assert_eq!(asked[2].json()["template"], json!({"name": "b", "language": {"code": "ar"}}));
    let text = asked[3].json();
    assert_eq!((&text["to"], &text["type"]), (&json!("+9647700000001"), &json!("text")));
    assert_eq!(text["text"], json!({"body": letter(SPACED).body, "preview_url": true}));
}

/// NTF-12: Meta's codes, each in its class, whatever the status says.
#[tokio::test]
async fn ntf_12_meta_errors_are_classed() {
    let table = vec![
        (meta_error(400, 131026, "Message undeliverable"), "permanent", "Message undeliverable"),
        (meta_error(400, 131047, "Re-engagement message"), "permanent", "Re-engagement"),
        (
            meta_error(404, 132001, "Template name does not exist in the translation"),
            "permanent",
            "Template name",
        ),
        (meta_error(400, 132000, "Number of parameters does not match"), "permanent", "parameters"),
        (meta_error(401, 190, "Access token has expired"), "permanent", "expired"),
        (meta_error(400, 130429, "(#130429) Rate limit hit"), "transient", "Rate limit hit"),
        (meta_error(400, 131056, "(Business, Consumer) pair rate limit hit"), "transient", "pair rate limit"),
        (meta_error(429, 80007, "Rate limit issues"), "transient", "Rate limit issues"),
        (meta_error(500, 131000, "Something went wrong"), "transient", "Something went wrong"),
        (meta_error(503, 2, "API Service"), "transient", "API Service"),
        (Answer::Cut, "no answer", "it may have been sent"),
    ];
    classes("meta-whatsapp", &META, || templated(INDIAN, booking()), table).await;
}

/// NTF-13, NTF-12: 360dialog speaks as Meta does, with a key of its own and digits only.
#[tokio::test]
async fn ntf_13_360dialog_is_asked_as_documented() {
    let stub = Stub::start([taken()]).await;
    let sent = send(&channel("360dialog", &stub, &DIALOG), templated(INDIAN, booking())).await.unwrap();
    assert_eq!(sent.message_id.as_deref(), Some("wamid.HBgM"));
    let asked = stub.only();
    assert_eq!((asked.target.as_str(), asked.header("d360-api-key")), ("/messages", "d360key"));
    let body = asked.json();
    assert_eq!(
        (&body["to"], &body["template"]["name"]),
        (&json!("919876543210"), &json!("booking_confirmed"))
    );
    let own = json!({"meta": {"api_status": "stable", "success": false, "http_code": 401,
        "developer_message": "Invalid api key"}});
    let table = vec![
        (reply(401, own), "permanent", "Invalid api key"),
        (meta_error(400, 132001, "Template name does not exist"), "permanent", "Template name"),
        (meta_error(429, 130429, "Rate limit hit"), "transient", "Rate limit hit"),
        (reply(503, json!({})), "transient", "answered 503"),
        (Answer::Cut, "no answer", "it may have been sent"),
    ];
    classes("360dialog", &DIALOG, || templated(INDIAN, booking()), table).await;
}

/// NTF-13: Interakt gets the number in two parts.
#[tokio::test]
async fn ntf_13_interakt_is_asked_as_documented() {
    let queued = json!({"result": true, "message": "Message queued for sending", "id": "d1b7"});
    let stub = Stub::start([reply(201, queued.clone()), reply(200, queued)]).await;
    let channel = channel("interakt", &stub, &INTERAKT);
    let sent = send(&channel, templated(INDIAN, booking())).await.unwrap();
    assert_eq!(sent.message_id.as_deref(), Some("d1b7"));
    send(&channel, letter(SPACED)).await.unwrap();
    let asked = stub.asked();
    assert_eq!(asked[0].target, "/v1/public/message/");
    assert_eq!(asked[0].header("authorization"), "Basic c2VjcmV0Og==");
    let want = json!({
        "countryCode": "+91", "phoneNumber": "9876543210", "callbackData": UUID, "type": "Template",
        "template": {"name": "booking_confirmed", "languageCode": "en_US",
            "bodyValues": ["Ada \"L\"", "15 March"]},
    });
    assert_eq!(asked[0].json(), want);
    let want = json!({
        "countryCode": "+964", "phoneNumber": "7700000001", "callbackData": UUID, "type": "Text",
        "data": {"message": letter(SPACED).body},
    });
    assert_eq!(asked[1].json(), want);
}

/// NTF-12: Interakt's answers, each in its class.
#[tokio::test]
async fn ntf_12_interakt_errors_are_classed() {
    let no = |message: &str| json!({"result": false, "message": message});
    let table = vec![
        (reply(200, no("Customer is not available for the organization")), "permanent", "not available"),
        (reply(400, no("Template with this name not found")), "permanent", "not found"),
        (reply(401, json!({"message": "Unauthorized"})), "permanent", "Unauthorized"),
        (reply(429, no("Rate limit exceeded for this resource")), "transient", "Rate limit exceeded"),
        (reply(502, json!({})), "transient", "answered 502"),
        (Answer::Cut, "no answer", "it may have been sent"),
    ];
    classes("interakt", &INTERAKT, || templated(INDIAN, booking()), table).await;
}

/// NTF-13, NTF-12: Infobip takes templates only.
#[tokio::test]
async fn ntf_13_infobip_whatsapp_is_asked_as_documented() {
    let status = |group: &str| json!({"groupId": 1, "groupName": group, "id": 7, "name": group});
    let message = |group: &str| json!({"to": "919876543210", "messageId": UUID, "status": status(group)});
    let stub = Stub::start([reply(200, json!({"messages": [message("PENDING")]}))]).await;
    let channel = channel("infobip-whatsapp", &stub, &INFOBIP);
    let sent = send(&channel, templated(INDIAN, booking())).await.unwrap();
    assert_eq!(sent.message_id.as_deref(), Some(UUID));
    let asked = stub.only();
    assert_eq!(asked.target, "/whatsapp/1/message/template");
    assert_eq!(asked.header("authorization"), "App k3y-k3y-k3y");
    let content = json!({"templateName": "booking_confirmed", "language": "en_US",
        "templateData": {"body": {"placeholders": ["Ada \"L\"", "15 March"]}}});
    let want = json!({"from": "441134960000", "to": "919876543210", "messageId": UUID, "content": content});
    assert_eq!(asked.json(), json!({"messages": [want]}));
    let sent = send(&channel, letter(INDIAN)).await;
    assert!(class(&sent).1.contains("its own template"), "{sent:?}");
    let error = json!({"requestError": {"serviceException": {"text": "Invalid template"}}});
    let table = vec![
        (reply(200, json!({"messages": [message("REJECTED")]})), "permanent", "REJECTED"),
        (reply(400, error), "permanent", "Invalid template"),
        (reply(429, json!({})), "transient", "answered 429"),
        (reply(500, json!({})), "transient", "answered 500"),
        (Answer::Cut, "no answer", "it may have been sent"),
    ];
    classes("infobip-whatsapp", &INFOBIP, || templated(INDIAN, booking()), table).await;
}

/// NTF-13, NTF-12: Twilio's WhatsApp: addresses with a prefix, templates by content SID.
#[tokio::test]
async fn ntf_13_twilio_whatsapp_is_asked_as_documented() {
    let taken = || reply(201, json!({"sid": "SM2", "status": "queued"}));
    let stub = Stub::start([taken(), taken()]).await;
    let channel = channel("twilio-whatsapp", &stub, &TWILIO);
    let template = json!({"key": "HXb5b6", "params": ["Ada \"L\"", "15 March"]});
    send(&channel, templated(INDIAN, template)).await.unwrap();
    send(&channel, letter(SPACED)).await.unwrap();
    let asked = stub.asked();
    let want = [
        ("To", "whatsapp:+919876543210"),
        ("From", "whatsapp:+14155238886"),
        ("ContentSid", "HXb5b6"),
        ("ContentVariables", "{\"1\":\"Ada \\\"L\\\"\",\"2\":\"15 March\"}"),
    ];
    assert_eq!(asked[0].form(), fields(&want));
    let text = [
        ("To", "whatsapp:+9647700000001"),
        ("From", "whatsapp:+14155238886"),
        ("Body", &letter(SPACED).body),
    ];
    assert_eq!(asked[1].form(), fields(&text));
    let error =
        |code: u32, status: u16| reply(status, json!({"code": code, "message": "no", "status": status}));
    let table = vec![
        (error(63016, 400), "permanent", "63016"),
        (error(21211, 400), "permanent", "21211"),
        (error(63018, 429), "transient", "63018"),
        (error(20503, 503), "transient", "20503"),
        (Answer::Cut, "no answer", "it may have been sent"),
    ];
    classes("twilio-whatsapp", &TWILIO, || letter(INDIAN), table).await;
}
