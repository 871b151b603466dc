//! Callbacks, as providers send and sign them.

use crate::letters::settings;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use punctual::Timestamp;
use punctual_providers::{
    Callback, CallbackError, CallbackOutcome, Catalogue, ProviderFile, Receipt, ReceiptStatus, Receipts,
    Settings,
};
use ring::hmac;
use serde_json::{Value, json};

fn receipts(provider: &str, pairs: &[(&str, &str)]) -> Receipts {
    let catalogue = Catalogue::shipped().unwrap();
    let file = catalogue.get(provider).unwrap();
    let settings = Settings::new(file.settings(), settings(pairs)).unwrap();
    Receipts::of(file, &settings).unwrap()
}

/// A provider of our own; `VERIFY` stands for how its callbacks are verified.
const PROVIDER: &str = r#"
title = "Acme"
kind = "sms"
address = "phone"
[settings]
key = { about = "a key", secret = true }
[request]
url = "https://acme.example/"
timeout = "5s"
[[request.body]]
json = { text = "{{body}}" }
[response]
message_id = "id"
[receipt]
verify = { VERIFY, secret = "{{setting.key}}" }
[[receipt.event]]
message_id = "id"
status = "status"
delivered = ["sent"]
"#;

fn of_text(text: &str) -> Receipts {
    let file = ProviderFile::parse("acme", text).unwrap();
    let settings = Settings::new(file.settings(), settings(&[("key", "s3cret")])).unwrap();
    Receipts::of(&file, &settings).unwrap()
}

fn heard(receipts: &Receipts, callback: &Callback<'_>) -> Vec<(Option<String>, ReceiptStatus)> {
    match receipts.hear(callback) {
        Ok(CallbackOutcome::Receipts(all)) => {
            all.into_iter().map(|one| (one.message_id, one.status)).collect()
        }
        other => panic!("receipts expected, not {other:?}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sha256(secret: &str, body: &[u8]) -> String {
    hex(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), body).as_ref())
}

fn meta_status(id: &str, status: &str, error: Option<(u32, &str)>) -> Value {
    let errors = error.map(|(code, title)| json!([{"code": code, "title": title}]));
    json!({"id": id, "status": status, "timestamp": "1504902988", "recipient_id": "919876543210",
        "errors": errors})
}

fn meta_body(statuses: &[Value]) -> Vec<u8> {
    let value = json!({"messaging_product": "whatsapp", "statuses": statuses});
    let entry = json!([{"id": "1", "changes": [{"value": value, "field": "messages"}]}]);
    json!({"object": "whatsapp_business_account", "entry": entry}).to_string().into_bytes()
}

/// NTF-16: Meta's signature is checked over the very bytes, and its statuses are read.
#[test]
fn ntf_16_meta_is_verified_and_read() {
    let receipts = receipts(
        "meta-whatsapp",
        &[
            ("phone_number_id", "1"),
            ("access_token", "EAA"),
            ("app_secret", "app5ecret"),
            ("verify_token", "w0rd"),
        ],
    );
    let body = meta_body(&[
        meta_status("wamid.1", "sent", None),
        meta_status("wamid.1", "delivered", None),
        meta_status("wamid.2", "read", None),
        meta_status("wamid.3", "failed", Some((131026, "Message undeliverable"))),
    ]);
    let signature = format!("sha256={}", sha256("app5ecret", &body));
    let headers = [("x-hub-signature-256", signature.as_str())];
    let good = Callback {
        method: "POST",
        url: "https://x.example/webhooks/meta-whatsapp",
        headers: &headers,
        body: &body,
    };
    let id = |id: &str| Some(id.to_owned());
    let want = vec![
        (id("wamid.1"), ReceiptStatus::Delivered),
        (id("wamid.2"), ReceiptStatus::Read),
        (id("wamid.3"), ReceiptStatus::Failed),
        (id("wamid.3"), ReceiptStatus::Bounced),
    ];
    assert_eq!(heard(&receipts, &good), want);
    let mut forged = body.clone();
    forged[10] ^= 1;
    let other = format!("sha256={}", sha256("other", &body));
    for (headers, body) in [
        (vec![("X-Hub-Signature-256", signature.as_str())], &forged),
        (vec![("X-Hub-Signature-256", other.as_str())], &body),
        (vec![("X-Hub-Signature-256", signature.trim_start_matches("sha256="))], &body),
        (vec![("X-Hub-Signature-256", "sha256=zz")], &body),
        (vec![("X-Hub-Signature-256", "")], &body),
        (vec![], &body),
    ] {
        let said = receipts.hear(&Callback { headers: &headers, body, ..good });
        assert!(matches!(said, Err(CallbackError::Unproved(_))), "{headers:?}: {said:?}");
    }
    let greeting =
        "https://x.example/webhooks/meta?hub.mode=subscribe&hub.verify_token=w0rd&hub.challenge=11%2B58";
    let greet = |url| receipts.hear(&Callback { method: "GET", url, headers: &[], body: b"" });
    assert_eq!(
        greet(greeting),
        Ok(CallbackOutcome::Answer { body: "11+58".into(), content_type: "text/plain" })
    );
    assert!(matches!(greet(&greeting.replace("w0rd", "word")), Err(CallbackError::Unproved(_))));
}

/// NTF-16: a reply that says stop names the address, and the same news has the same key.
#[test]
fn ntf_16_stop_and_doubles() {
    let receipts = receipts(
        "meta-whatsapp",
        &[("phone_number_id", "1"), ("access_token", "EAA"), ("app_secret", "app5ecret")],
    );
    let message =
        json!({"from": "919876543210", "id": "wamid.9", "type": "text", "text": {"body": " Stop "}});
    let chat =
        json!({"from": "919876543210", "id": "wamid.8", "type": "text", "text": {"body": "don't stop"}});
    let value = json!({"messages": [message, chat]});
    let body = json!({"entry": [{"changes": [{"value": value}]}]}).to_string().into_bytes();
    let signature = format!("sha256={}", sha256("app5ecret", &body));
    let headers = [("X-Hub-Signature-256", signature.as_str())];
    let callback = Callback { method: "POST", url: "https://x.example/", headers: &headers, body: &body };
    let Ok(CallbackOutcome::Receipts(all)) = receipts.hear(&callback) else { panic!("not heard") };
    let stop = Receipt {
        occurred_at: None,
        message_id: None,
        address: Some("919876543210".into()),
        status: ReceiptStatus::Stopped,
        said: " Stop ".into(),
        error: None,
        event_id: Some("wamid.9".into()),
    };
    assert_eq!(all, std::slice::from_ref(&stop));
    assert!(stop.status.suppresses().is_some());
    let Ok(CallbackOutcome::Receipts(again)) = receipts.hear(&callback) else { panic!("not heard") };
    assert_eq!(again[0].dedup_key(), stop.dedup_key());
    let delivered = Receipt { status: ReceiptStatus::Delivered, ..stop.clone() };
    assert_ne!(delivered.dedup_key(), stop.dedup_key());
}

/// NTF-16: without its secret a channel hears nothing, whatever is sent.
#[test]
fn ntf_16_a_channel_without_a_secret_hears_nothing() {
    let receipts = receipts("meta-whatsapp", &[("phone_number_id", "1"), ("access_token", "EAA")]);
    let body = meta_body(&[meta_status("wamid.1", "delivered", None)]);
    let signature = format!("sha256={}", sha256("", &body));
    let headers = [("X-Hub-Signature-256", signature.as_str())];
    let said = receipts.hear(&Callback {
        method: "POST",
        url: "https://x.example/",
        headers: &headers,
        body: &body,
    });
    assert_eq!(said, Err(CallbackError::NotSetUp("set `app_secret` to hear this provider".into())));
}

/// NTF-16: Twilio's documented example of a signature.
#[test]
fn ntf_16_twilio_is_verified_and_read() {
    let pairs = [("account_sid", "AC1"), ("auth_token", "12345"), ("from", "+1")];
    let receipts = receipts("twilio-sms", &pairs);
    // From Twilio's page on webhook security: its URL, fields, token and signature.
    let url = "https://mycompany.com/myapp.php?foo=1&bar=2";
    let body =
        b"CallSid=CA1234567890ABCDE&Caller=%2B14158675309&Digits=1234&From=%2B14158675309&To=%2B18005551212";
    let headers = [("X-Twilio-Signature", "RSOYDt4T1cUTdK1PDd93/VVr8B8=")];
    let example = Callback { method: "POST", url, headers: &headers, body };
    assert_eq!(heard(&receipts, &example), vec![], "signed, and about something else");
    for (url, body) in [("https://mycompany.com/myapp.php?foo=1&bar=3", &body[..]), (url, b"CallSid=1")] {
        let said = receipts.hear(&Callback { url, body, ..example });
        assert!(matches!(said, Err(CallbackError::Unproved(_))), "{said:?}");
    }
    let status = |body: &str| {
        let url = "https://x.example/webhooks/twilio-sms";
        let mut fields: Vec<_> = form_urlencoded::parse(body.as_bytes()).collect();
        fields.sort();
        let content = fields.iter().fold(url.to_owned(), |all, (name, value)| format!("{all}{name}{value}"));
        let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, b"12345");
        let signature = STANDARD.encode(hmac::sign(&key, content.as_bytes()));
        let headers = [("X-Twilio-Signature", signature.as_str())];
        heard(&receipts, &Callback { method: "POST", url, headers: &headers, body: body.as_bytes() })
    };
    let id = Some("SM1".to_owned());
    assert_eq!(status("MessageSid=SM1&MessageStatus=sent&To=%2B1"), vec![]);
    assert_eq!(
        status("MessageSid=SM1&MessageStatus=delivered&To=%2B1"),
        [(id.clone(), ReceiptStatus::Delivered)]
    );
    assert_eq!(
        status("MessageSid=SM1&MessageStatus=undelivered&ErrorCode=30005&To=%2B1"),
        [(id.clone(), ReceiptStatus::Failed), (id.clone(), ReceiptStatus::Bounced)]
    );
    assert_eq!(status("From=%2B14155552671&Body=STOP&OptOutType=STOP"), [(None, ReceiptStatus::Stopped)]);
}

/// NTF-16: SendGrid's own test vector, and its events; an id ends at the first dot.
#[test]
fn ntf_16_sendgrid_is_verified_and_read() {
    let key = concat!(
        "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEEDr2LjtURuePQzplybdC+u4CwrqDqBaWjc",
        "MMsTbhdbcwHBcepxo7yAQGhHPTnlvFYPAZFceEu/1FwCM/QmGUhA=="
    );
    let signature =
        "MEUCIQCtIHJeH93Y+qpYeWrySphQgpNGNr/U+UyUlBkU6n7RAwIgJTz2C+8a8xonZGi6BpSzoQsbVRamr2nlxFDWYNH2j/0=";
    let pairs = [("api_key", "SG.x"), ("sender", "a@example.com"), ("webhook_public_key", key)];
    let receipts = receipts("sendgrid", &pairs);
    let body = br#"{"category":"example_payload","event":"test_event","message_id":"message_id"}"#;
    let headers = [
        ("X-Twilio-Email-Event-Webhook-Signature", signature),
        ("X-Twilio-Email-Event-Webhook-Timestamp", "1588788367"),
    ];
    let callback = Callback { method: "POST", url: "https://x.example/", headers: &headers, body };
    let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
    let hear = |callback: &Callback<'_>, seconds| receipts.hear_at(callback, at(seconds));
    assert_eq!(hear(&callback, 1_588_788_367), Ok(CallbackOutcome::Receipts(vec![])));
    let later = [headers[0], ("X-Twilio-Email-Event-Webhook-Timestamp", "1588788368")];
    let said = hear(&Callback { headers: &later, ..callback }, 1_588_788_367);
    assert!(matches!(said, Err(CallbackError::Unproved(_))), "{said:?}");
}

/// NTF-16: a callback whose signed time is more than five minutes from now is refused as a replay.
#[test]
fn ntf_16_a_signed_time_must_be_near() {
    let file = PROVIDER.replace("VERIFY", r#"type = "hmac", header = "x-sig", timestamp_header = "x-at""#);
    let slack = PROVIDER
        .replace("VERIFY", r#"type = "hmac", header = "x-sig", timestamp_header = "x-at", tolerance = "8h""#);
    let hear = |file: &str, stamp: &str, came_at: i64| {
        let body = br#"{"id":"1","status":"sent"}"#;
        let signature = sha256("s3cret", &[stamp.as_bytes(), b".", body].concat());
        let headers = [("x-sig", signature.as_str()), ("x-at", stamp)];
        let callback = Callback { method: "POST", url: "https://x.example/", headers: &headers, body };
        let said = of_text(file).hear_at(&callback, Timestamp::from_micros(came_at * 1_000_000));
        match said {
            Ok(CallbackOutcome::Receipts(all)) => Ok(all[0].occurred_at.unwrap().as_micros() / 1_000_000),
            Ok(other) => panic!("{other:?}"),
            Err(refused) => Err(format!("{refused:?}")),
        }
    };
    for (file, stamp, came_at, fine) in [
        (&file, "1000000", 1_000_000, true),
        (&file, "1000000", 1_000_300, true),
        (&file, "1000000", 1_000_301, false),
        (&file, "1000000", 999_700, true),
        (&file, "1000000", 999_699, false),
        (&file, "soon", 1_000_000, false),
        (&slack, "1000000", 1_020_000, true),
        (&slack, "1000000", 1_030_000, false),
    ] {
        let said = hear(file, stamp, came_at);
        assert_eq!(said.is_ok(), fine, "signed at {stamp}, came at {came_at}: {said:?}");
        assert!(!fine || said == Ok(1_000_000), "news that has no time happened when it was signed");
    }
}

/// A callback whose token is in the query.
fn by_query(receipts: &Receipts, body: &Value) -> Vec<(Option<String>, ReceiptStatus)> {
    let body = body.to_string().into_bytes();
    let url = "https://x.example/webhooks/x?token=w%26rd";
    let callback = Callback { method: "POST", url, headers: &[], body: &body };
    for wrong in ["https://x.example/webhooks/x", "https://x.example/?token=", "https://x.example/?token=w"] {
        let said = receipts.hear(&Callback { url: wrong, ..callback });
        assert!(matches!(said, Err(CallbackError::Unproved(_))), "{wrong}: {said:?}");
    }
    heard(receipts, &callback)
}

/// NTF-16: providers that sign nothing prove themselves by a word in the address.
#[test]
fn ntf_16_tokens_in_the_query() {
    let token = ("webhook_token", "w&rd");
    let id = |id: &str| Some(id.to_owned());
    let infobip =
        receipts("infobip-sms", &[("base_url", "https://x"), ("api_key", "k"), ("from", "x"), token]);
    let results = json!({"results": [
        {"messageId": "1", "to": "91", "status": {"groupName": "DELIVERED"}, "error": {"name": "NO_ERROR"}},
        {"messageId": "2", "to": "91", "status": {"groupName": "UNDELIVERABLE"},
            "error": {"name": "EC_UNKNOWN_SUBSCRIBER", "description": "Unknown Subscriber"}},
    ]});
    let want = [
        (id("1"), ReceiptStatus::Delivered),
        (id("2"), ReceiptStatus::Failed),
        (id("2"), ReceiptStatus::Bounced),
    ];
    assert_eq!(by_query(&infobip, &results), want);
    let msg91 = receipts("msg91", &[("auth_key", "k"), token]);
    let report =
        |status: &str| json!({"number": "919876543210", "requestId": "346", "status": status, "desc": "x"});
    assert_eq!(by_query(&msg91, &report("1")), [(id("346"), ReceiptStatus::Delivered)]);
    assert_eq!(by_query(&msg91, &report("16")), [(id("346"), ReceiptStatus::Failed)]);
    let blocked = [(id("346"), ReceiptStatus::Failed), (id("346"), ReceiptStatus::Stopped)];
    assert_eq!(by_query(&msg91, &report("17")), blocked);
    let pairs = [("base_url", "https://x"), ("access_key", "YQ=="), ("sender", "a@example.com"), token];
    let azure = receipts("azure-email", &pairs);
    let event = |status: &str| {
        json!([{"eventType": "Microsoft.Communication.EmailDeliveryReportReceived",
        "data": {"messageId": "m", "recipient": "ada@example.com", "status": status}}])
    };
    assert_eq!(by_query(&azure, &event("Delivered")), [(id("m"), ReceiptStatus::Delivered)]);
    assert_eq!(by_query(&azure, &event("Bounced")), [(id("m"), ReceiptStatus::Bounced)]);
    let body = json!([{"eventType": "Microsoft.EventGrid.SubscriptionValidationEvent",
        "data": {"validationCode": "512d38b6"}}])
    .to_string();
    let url = "https://x.example/?token=w%26rd";
    let said = azure.hear(&Callback { method: "POST", url, headers: &[], body: body.as_bytes() });
    let want = CallbackOutcome::Answer {
        body: r#"{"validationResponse":"512d38b6"}"#.into(),
        content_type: "application/json",
    };
    assert_eq!(said, Ok(want));
}

/// NTF-16: Interakt signs as Meta does, under a header of its own; 360dialog sends a header we chose.
#[test]
fn ntf_16_interakt_and_360dialog() {
    let interakt = receipts("interakt", &[("api_key", "k"), ("webhook_secret", "s3cr3t")]);
    let body = json!({"version": "1.0", "type": "message_api_delivered",
        "data": {"customer": {"phone_number": "9876543210"}, "message": {"id": "d1b7"}}})
    .to_string();
    let signature = format!("sha256={}", sha256("s3cr3t", body.as_bytes()));
    let headers = [("Interakt-Signature", signature.as_str())];
    let url = "https://x.example/";
    let callback = Callback { method: "POST", url, headers: &headers, body: body.as_bytes() };
    assert_eq!(heard(&interakt, &callback), [(Some("d1b7".into()), ReceiptStatus::Delivered)]);
    let dialog = receipts("360dialog", &[("api_key", "k"), ("webhook_token", "w0rd")]);
    let body = meta_body(&[meta_status("wamid.1", "read", None)]);
    let headers = [("x-webhook-token", "w0rd")];
    let callback = Callback { method: "POST", url, headers: &headers, body: &body };
    assert_eq!(heard(&dialog, &callback), [(Some("wamid.1".into()), ReceiptStatus::Read)]);
    let headers = [("x-webhook-token", "word")];
    assert!(matches!(
        dialog.hear(&Callback { headers: &headers, ..callback }),
        Err(CallbackError::Unproved(_))
    ));
}

/// NTF-16: a body that cannot be read is refused, after its signature was checked.
#[test]
fn ntf_16_unreadable_bodies_are_refused() {
    let msg91 = receipts("msg91", &[("auth_key", "k"), ("webhook_token", "w")]);
    let hear =
        |body: &[u8]| msg91.hear(&Callback { method: "POST", url: "https://x/?token=w", headers: &[], body });
    assert!(matches!(hear(b"{"), Err(CallbackError::Unreadable(_))));
    assert!(matches!(hear(&vec![b' '; 2_000_000]), Err(CallbackError::Unreadable(_))));
    for odd in ["null", "[]", "{}", "7", r#"{"status": {}, "requestId": []}"#, r#"{"status": "1"}"#] {
        assert_eq!(hear(odd.as_bytes()), Ok(CallbackOutcome::Receipts(vec![])), "{odd}");
    }
}
