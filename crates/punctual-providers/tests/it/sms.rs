//! SMS: Twilio, Infobip, MSG91.

use crate::letters::{
    INDIAN, SPACED, UUID, channel, class, classes, fields, letter, retry_after, send, templated,
};
use crate::stub::{Answer, Stub, reply};
use serde_json::json;
use std::time::Duration;

const TWILIO: [(&str, &str); 3] =
    [("account_sid", "AC123"), ("auth_token", "t0k3n-t0k3n"), ("from", "+15550100")];
const INFOBIP: [(&str, &str); 2] = [("api_key", "k3y-k3y-k3y"), ("from", "Punctual")];
const MSG91: [(&str, &str); 2] = [("auth_key", "4uthk3y"), ("sender", "PNCTUL")];

fn twilio_error(code: u32, message: &str, status: u16) -> Answer {
    let info = format!("https://www.twilio.com/docs/errors/{code}");
    reply(status, json!({"code": code, "message": message, "more_info": info, "status": status}))
}

/// NTF-13: Twilio gets the form that its documentation asks for, with the number unmodified.
#[tokio::test]
async fn ntf_13_twilio_sms_is_asked_as_documented() {
    let taken = json!({"sid": "SM90c6fc909d8504d45ecdb3a3d5b3556e", "status": "queued", "error_code": null});
    let stub = Stub::start([reply(201, taken)]).await;
    let sent = send(&channel("twilio-sms", &stub, &TWILIO), letter(INDIAN)).await.unwrap();
    assert_eq!(sent.message_id.as_deref(), Some("SM90c6fc909d8504d45ecdb3a3d5b3556e"));
    assert!(sent.answer.unwrap().contains("queued"), "the answer is kept for the log");
    let asked = stub.only();
    assert_eq!(
        (asked.method.as_str(), asked.target.as_str()),
        ("POST", "/2010-04-01/Accounts/AC123/Messages.json")
    );
    // AC123:t0k3n-t0k3n
    assert_eq!(asked.header("authorization"), "Basic QUMxMjM6dDBrM24tdDBrM24=");
    assert_eq!(
        asked.form(),
        fields(&[("To", INDIAN), ("From", "+15550100"), ("Body", &letter(INDIAN).body)])
    );
}

/// NTF-15: spaces are left out of a number; what cannot be a number is refused before any call.
#[tokio::test]
async fn ntf_15_numbers_reach_twilio_in_e164_or_not_at_all() {
    let stub = Stub::start([reply(201, json!({"sid": "SM1"}))]).await;
    let channel = channel("twilio-sms", &stub, &TWILIO);
    send(&channel, letter(SPACED)).await.unwrap();
    assert!(stub.only().form().contains(&("To".into(), "+9647700000001".into())));
    for bad in ["", "9876543210", "+910000000000", "+91 98765 4321x", "ada@example.com", "+1\r\nX: y"] {
        let sent = send(&channel, letter(bad)).await;
        assert_eq!(class(&sent).0, "permanent", "{bad}: {sent:?}");
    }
    assert_eq!(stub.asked().len(), 1, "no call was made for those");
}

/// NTF-12: Twilio's answers, each in its class.
#[tokio::test]
async fn ntf_12_twilio_errors_are_classed() {
    let table = vec![
        (
            twilio_error(21211, "Invalid 'To' Phone Number: +919876543210", 400),
            "permanent",
            "Invalid 'To' Phone Number",
        ),
        (twilio_error(21610, "Attempt to send to unsubscribed recipient", 400), "permanent", "unsubscribed"),
        (twilio_error(20003, "Authenticate", 401), "permanent", "answered 401: Authenticate"),
        (twilio_error(20404, "The requested resource was not found", 404), "permanent", "not found"),
        (twilio_error(20429, "Too Many Requests", 429), "transient", "Too Many Requests"),
        (twilio_error(14107, "Message rate limit exceeded", 400), "transient", "rate limit"),
        (twilio_error(20500, "Internal Server Error", 500), "transient", "answered 500"),
        (twilio_error(20503, "Service Unavailable", 503), "transient", "answered 503"),
        (Answer::Cut, "no answer", "it may have been sent"),
    ];
    classes("twilio-sms", &TWILIO, || letter(INDIAN), table).await;
}

/// NTF-12: how long Twilio wants to be left alone is respected.
#[tokio::test]
async fn ntf_12_retry_after_of_twilio_is_told() {
    let busy = twilio_error(20429, "Too Many Requests", 429).with("retry-after", "7");
    let stub = Stub::start([busy]).await;
    let sent = send(&channel("twilio-sms", &stub, &TWILIO), letter(INDIAN)).await;
    assert_eq!(retry_after(&sent), Some(Duration::from_secs(7)));
}

/// Infobip's answer about one message.
fn infobip(group: &str, name: &str) -> serde_json::Value {
    let status = json!({"groupId": 1, "groupName": group, "id": 26, "name": name, "description": name});
    json!({"bulkId": "b", "messages": [{"messageId": UUID, "status": status, "destination": "919876543210"}]})
}

/// NTF-13: Infobip gets JSON, digits only, a DLT template's ids in their place.
#[tokio::test]
async fn ntf_13_infobip_sms_is_asked_as_documented() {
    let stub = Stub::start([
        reply(200, infobip("PENDING", "PENDING_ACCEPTED")),
        reply(200, infobip("PENDING", "PENDING_ACCEPTED")),
        reply(200, infobip("PENDING", "PENDING_ACCEPTED")),
    ])
    .await;
    let entity = [INFOBIP[0], INFOBIP[1], ("entity_id", "1101")];
    let channel = channel("infobip-sms", &stub, &entity);
    let sent = send(&channel, letter(INDIAN)).await.unwrap();
    assert_eq!(sent.message_id.as_deref(), Some(UUID));
    send(&channel, templated(INDIAN, json!({"key": "1107", "entityId": "1102"}))).await.unwrap();
    send(&channel, templated(INDIAN, json!({"key": "1107"}))).await.unwrap();
    let asked = stub.asked();
    assert_eq!(asked[0].target, "/sms/3/messages");
    assert_eq!(asked[0].header("authorization"), "App k3y-k3y-k3y");
    let plain = json!({
        "sender": "Punctual",
        "destinations": [{"to": "919876543210", "messageId": UUID}],
        "content": {"text": letter(INDIAN).body},
    });
    assert_eq!(asked[0].json(), json!({"messages": [plain]}));
    let dlt = |n: usize| asked[n].json()["messages"][0]["options"]["regional"]["indiaDlt"].clone();
    assert_eq!(dlt(1), json!({"contentTemplateId": "1107", "principalEntityId": "1102"}));
    assert_eq!(dlt(2), json!({"contentTemplateId": "1107", "principalEntityId": "1101"}));
}

/// NTF-12: Infobip's answers, each in its class; a refusal comes with 200.
#[tokio::test]
async fn ntf_12_infobip_errors_are_classed() {
    let error =
        |id: &str, text: &str| json!({"requestError": {"serviceException": {"messageId": id, "text": text}}});
    let table = vec![
        (reply(200, infobip("REJECTED", "REJECTED_DESTINATION")), "permanent", "REJECTED_DESTINATION"),
        (reply(400, error("BAD_REQUEST", "Bad Request")), "permanent", "answered 400: Bad Request"),
        (reply(401, error("UNAUTHORIZED", "Invalid login details")), "permanent", "Invalid login details"),
        (reply(429, error("TOO_MANY_REQUESTS", "Too many requests")), "transient", "Too many requests"),
        (reply(500, error("GENERAL_ERROR", "Something went wrong.")), "transient", "Something went wrong"),
        (Answer::Cut, "no answer", "it may have been sent"),
    ];
    classes("infobip-sms", &INFOBIP, || letter(INDIAN), table).await;
}

/// NTF-13: MSG91 gets its template's id, the entity's, digits only, and the params by name.
#[tokio::test]
async fn ntf_13_msg91_is_asked_as_documented() {
    let taken = json!({"message": "5762846b4f8d285d378b4567", "type": "success"});
    let stub = Stub::start([reply(200, taken.clone()), reply(200, taken)]).await;
    let with_entity = [MSG91[0], MSG91[1], ("entity_id", "1101456")];
    let channel = channel("msg91", &stub, &with_entity);
    let named =
        json!({"key": "6087cbd0", "entityId": "1201", "params": {"name": "Ada \"L\"", "mobiles": "evil"}});
    let sent = send(&channel, templated(INDIAN, named)).await.unwrap();
    assert_eq!(sent.message_id.as_deref(), Some("5762846b4f8d285d378b4567"));
    send(&channel, templated(SPACED, json!({"key": "6087cbd0", "params": ["Ada", "7 May"]}))).await.unwrap();
    let asked = stub.asked();
    assert_eq!(asked[0].target, "/api/v5/flow");
    assert_eq!(asked[0].header("authkey"), "4uthk3y");
    let want = json!({
        "template_id": "6087cbd0", "sender": "PNCTUL", "PE_ID": "1201", "short_url": "0",
        "recipients": [{"mobiles": "919876543210", "CRQID": UUID, "name": "Ada \"L\""}],
    });
    assert_eq!(asked[0].json(), want, "a param cannot take the number's place");
    let second = asked[1].json();
    assert_eq!(second["PE_ID"], "1101456");
    let want = json!([{"mobiles": "9647700000001", "CRQID": UUID, "VAR1": "Ada", "VAR2": "7 May"}]);
    assert_eq!(second["recipients"], want);
}

/// NTF-12: MSG91's answers; its refusals come with 200, and without a DLT template nothing is asked.
#[tokio::test]
async fn ntf_12_msg91_errors_are_classed() {
    let error = |message: &str, code: &str| json!({"type": "error", "message": message, "code": code});
    let table = vec![
        (reply(200, error("Missing Authentication Key", "106")), "permanent", "Missing Authentication Key"),
        (reply(401, error("Invalid authkey", "201")), "permanent", "Invalid authkey"),
        (reply(400, error("template id missing", "400")), "permanent", "template id missing"),
        (reply(418, error("Unauthorized IP", "418")), "permanent", "Unauthorized IP"),
        (reply(429, error("Too many requests", "429")), "transient", "Too many requests"),
        (reply(200, error("Something went wrong, please try again", "001")), "transient", "try again"),
        (reply(502, json!({})), "transient", "answered 502"),
        (Answer::Cut, "no answer", "it may have been sent"),
    ];
    classes("msg91", &MSG91, || templated(INDIAN, json!({"key": "6087cbd0"})), table).await;
    let stub = Stub::start([]).await;
    let sent = send(&channel("msg91", &stub, &MSG91), letter(INDIAN)).await;
    assert!(matches!(class(&sent), ("permanent", said) if said.contains("its own template")), "{sent:?}");
    assert!(stub.asked().is_empty());
}
