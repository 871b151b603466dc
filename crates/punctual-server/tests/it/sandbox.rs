//! The sandbox: its inbox, its scripts, its page.

use crate::client::{Client, Reply};
use crate::world::{Base, ROOT_KEY, World};
use punctual::flow::rules::public_id::PublicId;
use punctual::{RenderedMessage, Sandbox, Tenant};
use punctual_server::app::Settings;
use serde_json::{Value, json};
use std::sync::Arc;

on_each! {
    prd_17_the_inbox_lists_what_was_sent,
    prd_17_the_inbox_is_read_in_parts_and_cleared,
    prd_17_a_script_makes_the_next_sends_go_wrong,
    without_a_sandbox_everything_is_refused,
    the_page_moves_the_clock_and_clears,
}

fn letter(to: &str, key: &str) -> RenderedMessage {
    RenderedMessage {
        tenant: Tenant::DEFAULT,
        channel: "memory:whatsapp".into(),
        to: to.into(),
        locale: "ar".into(),
        attempt: 2,
        public_id: Some(PublicId::from_random([7; 16])),
        survey_url: Some("https://ask.example/s/1?a=1&b=2".into()),
        subject: None,
        body: "كيف كانت زيارتك؟\nhttps://ask.example/s/1?a=1&b=2".into(),
        html: None,
        unsubscribe_url: None,
        provider_template: None,
        payload: Arc::new(json!({})),
        idempotency_key: key.into(),
        sent_at: punctual::Timestamp::parse("2026-05-14T05:13:00Z").unwrap(),
    }
}

/// Sends as the engine does, through its channels.
async fn send(world: &World, letter: RenderedMessage) -> bool {
    let channel = world.engine.channels().get(&letter.channel).expect("a memory channel");
    channel.send(Arc::new(letter)).await.is_ok()
}

fn keys(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["idempotencyKey"].as_str().unwrap()).collect()
}

/// PRD-17: every field that the contract names, oldest first, by channel and by address.
async fn prd_17_the_inbox_lists_what_was_sent(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    assert!(send(&world, letter("+9647701234567", "k1")).await);
    let mail = RenderedMessage {
        channel: "memory:mail".into(),
        locale: "en".into(),
        subject: Some("Your visit".into()),
        html: Some("<p>Hi</p>".into()),
        public_id: None,
        survey_url: None,
        attempt: 1,
        ..letter("ada@example.com", "k2")
    };
    assert!(send(&world, mail).await);
    let list = root.sees("/dev/messages").await;
    assert_eq!((keys(&list), &list["nextCursor"]), (vec!["k1", "k2"], &json!(null)));
    let first = &list["items"][0];
    let want = json!({
        "messageId": first["messageId"], "tenantId": 1, "channel": "memory:whatsapp", "to": "+9647701234567",
        "subject": null, "body": "كيف كانت زيارتك؟\nhttps://ask.example/s/1?a=1&b=2", "html": null,
        "locale": "ar", "attempt": 2, "idempotencyKey": "k1", "sentAt": "2026-05-14T05:13:00Z",
        "publicId": "07070707-0707-4707-8707-070707070707", "surveyUrl": "https://ask.example/s/1?a=1&b=2",
        "outcome": "sent", "duplicateOf": null,
    });
    assert_eq!(*first, want);
    assert!(first["messageId"].as_str().unwrap().starts_with("mem-"), "{first}");
    for (query, want) in [
        ("channel=memory:whatsapp", vec!["k1"]),
        ("channel=memory%3Amail&to=ada@example.com", vec!["k2"]),
        ("to=%2B9647701234567", vec!["k1"]),
        ("to=nobody", vec![]),
        ("channel=&to=", vec!["k1", "k2"]),
    ] {
        assert_eq!(keys(&root.sees(&format!("/dev/messages?{query}")).await), want, "{query}");
    }
}

/// PRD-17: `limit` and `cursor` as in every list; a tenant may be asked for by its header.
async fn prd_17_the_inbox_is_read_in_parts_and_cleared(base: Base) {
    let world = World::manual(base).await;
    let (root, acme) = (world.root(), world.tenant("acme").await);
    let tenant = world.engine.store().tenant("acme").await.unwrap().unwrap().tenant;
    for n in 0..5 {
        send(&world, letter("ada", &n.to_string())).await;
    }
    send(&world, RenderedMessage { tenant, ..letter("bob", "acme's") }).await;
    let mut seen = Vec::new();
    let mut path = "/dev/messages?limit=2".to_owned();
    loop {
        let list = root.sees(&path).await;
        assert_eq!((&list["total"], &list["dropped"]), (&json!(6), &json!(0)));
        seen.extend(keys(&list).into_iter().map(str::to_owned));
        let Some(cursor) = list["nextCursor"].as_str() else { break };
        path = format!("/dev/messages?limit=2&cursor={cursor}");
    }
    assert_eq!(seen, ["0", "1", "2", "3", "4", "acme's"]);
    assert_eq!(keys(&acme.sees("/dev/messages").await), ["acme's"]);
    for (query, path) in [("limit=0", "limit"), ("cursor=zz", "cursor"), ("cursor=6162", "cursor")] {
        assert_eq!(root.get(&format!("/dev/messages?{query}")).await.problem(422), [path], "{query}");
    }
    assert_eq!(acme.delete("/dev/messages").await.json(), json!({"deleted": 1}));
    assert_eq!(root.delete("/dev/messages?to=nobody").await.json(), json!({"deleted": 0}));
    assert_eq!(root.delete("/dev/messages?to=ada").await.json(), json!({"deleted": 5}));
    assert_eq!(root.sees("/dev/messages").await["items"], json!([]));
}

/// PRD-17: scripted failures; what is left of a script can be seen, and a new one replaces it.
async fn prd_17_a_script_makes_the_next_sends_go_wrong(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    let script = json!({"script": ["transient", "permanent", "timeout", "ok"], "latencyMs": 0});
    let put = root.put("/dev/channels/memory:whatsapp", script).await.json();
    assert_eq!(put["script"], json!(["transient", "permanent", "timeout", "ok"]), "{put}");
    let mut went = Vec::new();
    for _ in 0..3 {
        went.push(send(&world, letter("ada", "k")).await);
    }
    assert_eq!(went, [false, false, false]);
    let left = root.sees("/dev/channels/memory:whatsapp").await;
    assert_eq!(left, json!({"key": "memory:whatsapp", "script": ["ok"], "latencyMs": 0}));
    assert!(send(&world, letter("ada", "k")).await && send(&world, letter("ada", "other")).await);
    let list = root.sees("/dev/messages").await;
    assert_eq!(keys(&list), ["k", "k", "other"]);
    let (timed_out, again) = (&list["items"][0], &list["items"][1]);
    assert_eq!((&timed_out["outcome"], &again["outcome"]), (&json!("timeout"), &json!("sent")));
    assert_eq!(again["duplicateOf"], timed_out["messageId"], "a double send can be seen");
    let wrong =
        root.put("/dev/channels/memory:whatsapp", json!({"script": ["no", 1], "latencyMs": -1})).await;
    assert_eq!(wrong.problem(422), ["script[0]", "script[1]", "latencyMs"]);
    root.send("PUT", "/dev/channels/memory:whatsapp", "no").await.problem(400);
    root.put("/dev/channels/sms:twilio", json!({})).await.problem(404);
    root.get("/dev/channels/sms:twilio").await.problem(404);
    assert_eq!(root.get("/dev/channels/sms").await.problem(422), ["key"]);
}

async fn without_a_sandbox_everything_is_refused(base: Base) {
    let world = World::system(base).await;
    let root = world.root();
    assert!(world.engine.channels().get("memory:default").is_none());
    for (method, path) in [
        ("GET", "/dev/messages"),
        ("DELETE", "/dev/messages"),
        ("GET", "/dev/channels/memory:a"),
        ("PUT", "/dev/channels/memory:a"),
        ("GET", "/dev/inbox"),
        ("POST", "/dev/inbox?do=clear"),
    ] {
        let reply = root.send(method, path, "{}").await;
        reply.problem(409);
        assert!(reply.text.contains("--clock manual"), "{method} {path}: {}", reply.text);
    }
}

/// A server on the system clock with a channel of its configuration in the sandbox.
#[tokio::test]
async fn a_named_channel_may_be_in_the_sandbox_on_the_system_clock() {
    let sandbox = Sandbox::of(["whatsapp:default".to_owned()]);
    let engine = punctual::Engine::builder("sqlite::memory:").sandbox(sandbox).open().await.unwrap();
    let world = World::serve(engine, Settings::default()).await;
    assert!(send(&world, RenderedMessage { channel: "whatsapp:default".into(), ..letter("ada", "k") }).await);
    assert_eq!(keys(&world.root().sees("/dev/messages").await), ["k"]);
    world.root().put("/dev/channels/whatsapp:default", json!({"script": ["ok"]})).await;
    world.root().get("/dev/channels/memory:a").await.problem(404);
    let page = world.root().get("/dev/inbox").await;
    assert!(page.status == 200 && !page.text.contains("1 day on"), "no hands for the system's clock");
    world.root().send("POST", "/dev/inbox?do=day", "").await.problem(409);
}

/// The page, its text, and nothing that could be markup or a script.
#[tokio::test]
async fn the_page_shows_messages_as_their_readers_would_see_them() {
    let world = World::manual(Base::Sqlite).await;
    world.root().does("/dev/clock", json!({"set": "2026-07-13T05:13:00Z"}), 200).await;
    send(&world, letter("+9647701234567", "k1")).await;
    let nasty = "<script>alert(1)</script>\"'&";
    let wild = RenderedMessage {
        subject: Some(nasty.into()),
        body: nasty.into(),
        html: Some(nasty.into()),
        locale: format!("en\"{nasty}"),
        survey_url: Some("javascript:alert(1)".into()),
        idempotency_key: nasty.into(),
        attempt: 1,
        ..letter(nasty, nasty)
    };
    send(&world, wild).await;
    let page = world.root().get("/dev/inbox").await;
    assert_eq!(page.status, 200, "{}", page.text);
    let policy = page.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("script"), "{policy}");
    for words in [
        "lang=\"ar\" dir=\"rtl\"",
        "href=\"https://ask.example/s/1?a=1&amp;b=2\"",
        "2026-07-13 05:13:00 UTC",
        "1 day on",
        "Reminder 1, delivered as mem-",
        "Invitation, delivered as mem-",
        "&lt;script&gt;",
        "2 messages",
    ] {
        assert!(page.text.contains(words), "{words} in {}", page.text);
    }
    assert!(!page.text.contains("<script") && !page.text.contains("javascript:"), "{}", page.text);
    let newest = page.text.find("Invitation").unwrap();
    assert!(newest < page.text.find("Reminder 1").unwrap(), "the newest comes first");
    let mine = world.root().get("/dev/inbox?to=%2B9647701234567&channel=memory:whatsapp").await;
    assert!(mine.text.contains("1 message.") && !mine.text.contains("Invitation"), "{}", mine.text);
    assert!(mine.text.contains("to=%2B9647701234567"), "the buttons keep the filter: {}", mine.text);
    assert_eq!(world.anybody().get("/dev/inbox.css").await.status, 200);
    assert!(world.anybody().get("/").await.text.contains("href=\"/dev/inbox\""));
}

/// A hundred on one page, and a way to the older ones.
#[tokio::test]
async fn the_page_leads_to_older_messages() {
    let world = World::manual(Base::Sqlite).await;
    for n in 0..101 {
        send(&world, letter(&format!("reader-{n:03}"), &n.to_string())).await;
    }
    let page = world.root().get("/dev/inbox").await.text;
    assert!(page.contains("reader-100") && !page.contains("reader-000"));
    let older = page.split("href=\"").find(|part| part.contains("before=")).unwrap();
    let older = world.root().get(older.split('"').next().unwrap()).await.text;
    assert!(older.contains("reader-000") && !older.contains("reader-001") && !older.contains("Older ones"));
    assert!(older.contains("101 messages"), "{older}");
}

async fn post(client: &Client, deed: &str) -> Reply {
    client.send("POST", &format!("/dev/inbox?do={deed}&to=ada"), "").await
}

async fn the_page_moves_the_clock_and_clears(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    root.does("/dev/clock", json!({"set": "2026-05-14T00:00:00Z"}), 200).await;
    for (deed, now) in [
        ("hour", "2026-05-14T01:00:00Z"),
        ("day", "2026-05-15T01:00:00Z"),
        ("week", "2026-05-22T01:00:00Z"),
        ("tick", "2026-05-22T01:00:00Z"),
    ] {
        let reply = post(&root, deed).await;
        assert_eq!((reply.status, reply.header("location")), (303, "/dev/inbox?to=ada"), "{deed}");
        assert_eq!(root.sees("/dev/clock").await["now"], now, "{deed}");
    }
    send(&world, letter("ada", "1")).await;
    send(&world, letter("bob", "2")).await;
    assert_eq!(post(&root.with("origin", "https://evil.example"), "clear").await.status, 403);
    assert_eq!(post(&root, "clear").await.status, 303);
    assert_eq!(keys(&root.sees("/dev/messages").await), ["2"]);
    post(&root, "nothing").await.problem(404);
}

/// Words that are meant for somebody want a key of the role `ops`, as a bearer or as a password;
/// only the demo is open.
#[tokio::test]
async fn the_page_wants_a_key_except_in_the_demo() {
    let world = World::manual(Base::Sqlite).await;
    let admin = world.key(&world.root(), "admin").await;
    for client in [world.anybody(), admin] {
        let reply = client.get("/dev/inbox").await;
        assert_eq!(reply.status, 401);
        assert!(reply.header("www-authenticate").starts_with("Basic"), "the browser asks for it");
        assert_eq!(post(&client, "day").await.status, 401);
    }
    let ops = world.key(&world.root(), "ops").await;
    assert_eq!(ops.get("/dev/inbox").await.status, 200);
    let basic = "dGVzdDpyb290LWtleS1vZi10aGUtdGVzdHMtMDEyMzQ1Njc4OWFiY2RlZg==";
    assert_eq!(ROOT_KEY, "root-key-of-the-tests-0123456789abcdef", "what is encoded here");
    let browser = world.anybody().with("authorization", &format!("Basic {basic}"));
    assert_eq!(browser.get("/dev/inbox").await.status, 200);
    let engine = punctual::Engine::builder("sqlite::memory:").sandbox(Sandbox::new()).open().await.unwrap();
    let demo = World::serve(engine, Settings { demo: true, ..Settings::default() }).await;
    assert_eq!(demo.anybody().get("/dev/inbox").await.status, 200);
    demo.anybody().get("/dev/messages").await.problem(401);
}
