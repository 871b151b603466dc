//! Callbacks of providers, truly signed: a local server takes the send and gives it an id, the provider calls
//! back, and the log shows it.

use crate::client::{Client, Reply};
use crate::world::{Base, World, engine_on};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use punctual::base::clock::host_now;
use punctual_providers::Catalogue;
use punctual_server::app::{Exposure, Settings};
use punctual_server::http::public::visitor::PublicAccess;
use punctual_server::http::webhooks::{CallbackChannel, Webhooks};
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

on_each! {
    ntf_16_twilio_reports_over_http,
    ntf_16_meta_reports_over_http,
    ntf_16_sendgrid_reports_over_http,
    ntf_16_the_channel_whose_secret_fits_is_heard,
    ntf_16_strangers_are_refused_and_write_nothing,
}

const URL: &str = "https://notify.example.com";
const LOG: &str = "/api/communication-logs";
const NUMBER: &str = "+14155552671";

/// A provider that takes every send with this answer.
async fn provider(head: &'static str, body: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut asked = [0; 16_384];
            let _ = stream.read(&mut asked).await;
            let length = body.len();
            let said = format!(
                "HTTP/1.1 201 Created\r\n{head}connection: close\r\ncontent-length: {length}\r\n\r\n{body}"
            );
            let _ = stream.write_all(said.as_bytes()).await;
        }
    });
    url
}

/// A channel: its key, its provider and the settings of that.
type Given<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);

/// A server with these channels.
async fn server(base: Base, given: &[Given<'_>]) -> (World, Client) {
    let catalogue = Catalogue::shipped().unwrap();
    let mut channels = Vec::new();
    let world = engine_on(base, |mut builder| {
        for (key, provider, settings) in given {
            let settings: BTreeMap<String, String> =
                settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let opened =
                catalogue.provider(provider).unwrap().open(settings).unwrap_or_else(|said| panic!("{said}"));
            builder = builder.channel(*key, opened.channel);
            let (provider, channel) = ((*provider).to_owned(), (*key).to_owned());
            channels.push(CallbackChannel { provider, channel, receipts: opened.receipts.unwrap() });
        }
        builder
    })
    .await;
    let webhooks = Webhooks { url: URL.into(), channels };
    let public = PublicAccess::new(30, false);
    let world = World::serve(
        world,
        Settings { webhooks, public, exposure: Exposure::Proxied, ..Settings::default() },
    )
    .await;
    let root = world.root();
    (world, root)
}

/// An event is told by one channel; answers what the log shows of it.
async fn told(root: &Client, channel: &str) -> Value {
    let kind = json!({"entityType": "booking", "entityIdPath": "bookingId",
        "recipients": {"phone": "phone", "email": "email"}});
    assert_eq!(root.put("/api/event-kinds/booking.confirmed", kind).await.status, 200);
    let subject = channel.starts_with("email").then_some("Your booking");
    let template = json!({"eventType": "booking.confirmed", "channel": channel, "language": "en",
        "body": "Booking {{bookingId}} is confirmed.", "subject": subject});
    root.does("/api/message-templates", template, 201).await;
    let event = json!({"topic": "bookings", "kind": "booking.confirmed",
        "payload": {"bookingId": "B-7", "phone": NUMBER, "email": "ana@example.org"}});
    root.does("/api/events", event, 202).await;
    root.does("/api/scheduler/tick", json!({}), 200).await;
    let logged = log(root).await;
    assert_eq!(logged["status"], "Sent", "{logged}");
    logged
}

async fn log(root: &Client) -> Value {
    root.sees(LOG).await["items"][0].clone()
}

fn twilio_signed(secret: &str, path: &str, form: &str) -> String {
    let mut fields: Vec<(String, String)> = form
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(n, v)| (n.into(), v.replace("%2B", "+")))
        .collect();
    fields.sort();
    let content =
        fields.iter().fold(format!("{URL}{path}"), |all, (name, value)| format!("{all}{name}{value}"));
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret.as_bytes());
    STANDARD.encode(hmac::sign(&key, content.as_bytes()))
}

async fn from_twilio(world: &World, secret: &str, path: &str, form: &str) -> Reply {
    let client = world.anybody().with("x-twilio-signature", &twilio_signed(secret, path, form));
    client.with("content-type", "application/x-www-form-urlencoded").send("POST", path, form).await
}

const TWILIO: &str = "/webhooks/twilio-sms";

async fn twilio(base: Base) -> (World, Client) {
    let url = provider("content-type: application/json\r\n", json!({"sid": "SM77"}).to_string()).await;
    let settings = [
        ("account_sid", "AC1"),
        ("auth_token", "s3cret"),
        ("from", "+15005550006"),
        ("base_url", url.as_str()),
        ("allow_host", "127.0.0.1"),
    ];
    server(base, &[("sms:twilio", "twilio-sms", &settings)]).await
}

/// NTF-16: delivered, read, repeated; then a reply that says stop.
async fn ntf_16_twilio_reports_over_http(base: Base) {
    let (world, root) = twilio(base).await;
    assert_eq!(told(&root, "sms:twilio").await["providerMessageId"], "SM77");
    let delivered = "MessageSid=SM77&MessageStatus=delivered&To=%2B14155552671";
    let reply = from_twilio(&world, "s3cret", TWILIO, delivered).await;
    assert_eq!((reply.status, reply.text.as_str()), (200, ""));
    let logged = log(&root).await;
    assert_eq!(
        (&logged["status"], &logged["receipts"][0]["status"]),
        (&json!("Delivered"), &json!("delivered"))
    );
    for form in [delivered, "MessageSid=SM77&MessageStatus=sent&To=%2B14155552671"] {
        assert_eq!(from_twilio(&world, "s3cret", TWILIO, form).await.status, 200);
        assert_eq!(log(&root).await, logged, "a replayed callback changes nothing");
    }
    let named = format!("{TWILIO}?channel=sms:twilio");
    let failed = "MessageSid=SM77&MessageStatus=undelivered&ErrorCode=30003&To=%2B14155552671";
    assert_eq!(from_twilio(&world, "s3cret", &named, failed).await.status, 200);
    assert_eq!(log(&root).await["status"], "Delivered", "it has arrived already");
    let stop = "MessageSid=SM90&From=%2B14155552671&Body=STOP&OptOutType=STOP";
    assert_eq!(from_twilio(&world, "s3cret", TWILIO, stop).await.status, 200);
    let stopped = root.sees("/api/suppressions").await["items"][0].clone();
    assert_eq!(
        (&stopped["address"], &stopped["channel"], &stopped["reason"]),
        (&json!(NUMBER), &json!("sms"), &json!("stop"))
    );
    let start = "MessageSid=SM91&From=%2B14155552671&Body=START&OptOutType=START";
    assert_eq!(from_twilio(&world, "s3cret", TWILIO, start).await.status, 200);
    assert_eq!(root.sees("/api/suppressions").await["items"], json!([]));
}

/// NTF-16: the greeting as plain text, then a signed report.
async fn ntf_16_meta_reports_over_http(base: Base) {
    let body = json!({"messages": [{"id": "wamid.1"}]}).to_string();
    let url = provider("content-type: application/json\r\n", body).await;
    let settings = [
        ("phone_number_id", "1"),
        ("access_token", "EAA"),
        ("app_secret", "app5ecret"),
        ("verify_token", "w0rd"),
        ("base_url", url.as_str()),
        ("allow_host", "127.0.0.1"),
    ];
    let (world, root) = server(base, &[("whatsapp:meta", "meta-whatsapp", &settings)]).await;
    let path = "/webhooks/meta-whatsapp";
    let greet = |word: &str| format!("{path}?hub.mode=subscribe&hub.verify_token={word}&hub.challenge=1158");
    let reply = world.anybody().get(&greet("w0rd")).await;
    assert_eq!(
        (reply.status, reply.text.as_str(), reply.header("content-type")),
        (200, "1158", "text/plain")
    );
    world.anybody().get(&greet("word")).await.problem(401);
    told(&root, "whatsapp:meta").await;
    let report = |status: &str, secret: &str| {
        let statuses = json!([{"id": "wamid.1", "status": status, "recipient_id": "14155552671"}]);
        let body = json!({"entry": [{"changes": [{"value": {"statuses": statuses}}]}]}).to_string();
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        let hex: String =
            hmac::sign(&key, body.as_bytes()).as_ref().iter().map(|b| format!("{b:02x}")).collect();
        (body, format!("sha256={hex}"))
    };
    for (status, secret, answer, want) in [
        ("read", "guess", 401, "Sent"),
        ("read", "app5ecret", 200, "Delivered"),
        ("failed", "app5ecret", 200, "Delivered"),
    ] {
        let (body, signed) = report(status, secret);
        let reply = world.anybody().with("x-hub-signature-256", &signed).send("POST", path, &body).await;
        assert_eq!(
            (reply.status, log(&root).await["status"].as_str()),
            (answer, Some(want)),
            "{status} {secret}"
        );
    }
    let told: Vec<Value> =
        log(&root).await["receipts"].as_array().unwrap().iter().map(|r| r["status"].clone()).collect();
    assert_eq!(told, ["read", "failed"]);
}

/// NTF-16: a signed batch of events; the bounce suppresses the mailbox, and the next mail is not sent.
async fn ntf_16_sendgrid_reports_over_http(base: Base) {
    let url = provider("X-Message-Id: abc\r\n", String::new()).await;
    let random = SystemRandom::new();
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).unwrap();
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, pkcs8.as_ref(), &random).unwrap();
    // What X.509 says before the point of a P-256 key.
    let mut public = STANDARD.decode("MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgA=").unwrap();
    public.extend_from_slice(pair.public_key().as_ref());
    assert_eq!(pair.public_key().as_ref().len(), 65);
    let public = STANDARD.encode(public);
    let settings = [
        ("api_key", "SG.x"),
        ("sender", "a@example.com"),
        ("webhook_public_key", public.as_str()),
        ("base_url", url.as_str()),
        ("allow_host", "127.0.0.1"),
    ];
    let (world, root) = server(base, &[("email:sendgrid", "sendgrid", &settings)]).await;
    told(&root, "email:sendgrid").await;
    let now = host_now().as_micros() / 1_000_000;
    let send_at = async |stamp: i64, events: Value, tampered: &str| {
        let body = events.to_string();
        let signed = pair.sign(&random, format!("{stamp}{body}").as_bytes()).unwrap();
        let client = world.anybody().with("x-twilio-email-event-webhook-timestamp", &stamp.to_string());
        let client = client.with("x-twilio-email-event-webhook-signature", &STANDARD.encode(signed));
        client.send("POST", "/webhooks/sendgrid", &format!("{body}{tampered}")).await.status
    };
    let send = async |events: Value, tampered: &str| send_at(now, events, tampered).await;
    let bounce = json!([{"email": "ana@example.org", "event": "bounce", "type": "bounce",
        "reason": "550 no such user",
        "sg_message_id": "abc.filter1", "sg_event_id": "e1"}]);
    assert_eq!(send(bounce.clone(), " ").await, 401);
    assert_eq!(send_at(now - 3_600, bounce.clone(), "").await, 401, "signed an hour ago");
    assert_eq!(log(&root).await["status"], "Sent");
    assert_eq!(send(bounce, "").await, 200);
    let logged = log(&root).await;
    assert_eq!(logged["status"], "Failed");
    assert!(logged["lastError"].as_str().unwrap().contains("550 no such user"), "{logged}");
    let event = json!({"topic": "bookings", "kind": "booking.confirmed",
        "payload": {"bookingId": "B-8", "phone": NUMBER, "email": "Ana@Example.org"}});
    root.does("/api/events", event, 202).await;
    root.does("/api/scheduler/tick", json!({}), 200).await;
    assert_eq!(log(&root).await["status"], "Skipped");
}

/// NTF-16: two accounts of one provider; each speaks for its own messages only.
async fn ntf_16_the_channel_whose_secret_fits_is_heard(base: Base) {
    let url = provider("content-type: application/json\r\n", json!({"sid": "SM77"}).to_string()).await;
    let of = |secret| {
        let url = ("base_url", url.as_str());
        let from = ("from", "+15005550006");
        [("account_sid", "AC1"), ("auth_token", secret), from, url, ("allow_host", "127.0.0.1")]
    };
    let (one, two) = (of("first-secret"), of("second-secret"));
    let (world, root) =
        server(base, &[("sms:one", "twilio-sms", &one), ("sms:two", "twilio-sms", &two)]).await;
    told(&root, "sms:two").await;
    let delivered = "MessageSid=SM77&MessageStatus=delivered&To=%2B14155552671";
    assert_eq!(from_twilio(&world, "first-secret", TWILIO, delivered).await.status, 200);
    assert_eq!(log(&root).await["status"], "Sent", "it is not that channel's message");
    let wrong = format!("{TWILIO}?channel=sms:one");
    from_twilio(&world, "second-secret", &wrong, delivered).await.problem(401);
    from_twilio(&world, "second-secret", &format!("{TWILIO}?channel=sms:three"), delivered)
        .await
        .problem(404);
    assert_eq!(from_twilio(&world, "second-secret", TWILIO, delivered).await.status, 200);
    assert_eq!(log(&root).await["status"], "Delivered");
}

/// NTF-16: nothing of what cannot prove itself is believed, and who tries too often is turned away.
async fn ntf_16_strangers_are_refused_and_write_nothing(base: Base) {
    let (world, root) = twilio(base).await;
    told(&root, "sms:twilio").await;
    let delivered = "MessageSid=SM77&MessageStatus=delivered&To=%2B14155552671";
    from_twilio(&world, "guess", TWILIO, delivered).await.problem(401);
    world.anybody().send("POST", TWILIO, delivered).await.problem(401);
    world.anybody().get(TWILIO).await.problem(401);
    world.anybody().with("host", "notify.example.com").send("POST", TWILIO, "").await.problem(401);
    for unknown in ["/webhooks/twilio", "/webhooks/smtp", "/webhooks/%00", "/webhooks/sendgrid"] {
        world.anybody().send("POST", unknown, "{}").await.problem(404);
    }
    world.anybody().send("POST", TWILIO, &"x".repeat(2_000_000)).await.problem(413);
    for odd in [
        "",
        "=",
        "&&&",
        "MessageSid",
        "%ff%fe",
        "MessageSid=&MessageStatus=delivered",
        "To=%2B1&ErrorCode=21610",
    ] {
        let status = from_twilio(&world, "s3cret", TWILIO, odd).await.status;
        assert!(status == 200 || status == 401, "{odd}: {status}");
    }
    assert_eq!(log(&root).await["status"], "Sent");
    assert_eq!(log(&root).await["receipts"], Value::Null);
    let mut answers = Vec::new();
    for _ in 0..40 {
        answers.push(from_twilio(&world, "guess", TWILIO, delivered).await.status);
    }
    assert_eq!((answers.first(), answers.last()), (Some(&401), Some(&429)), "{answers:?}");
}
