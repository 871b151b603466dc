//! Suppressions, preferences and tenant settings over HTTP, and the unsubscribe page.

use crate::client::{Client, Reply};
use crate::world::{Base, World};
use punctual::delivery::rules::unsubscribe::UnsubscribeLink;
use punctual::{ClockMode, Tenant};
use punctual_server::app::Settings;
use punctual_server::http::public::visitor::PublicAccess;
use serde_json::{Value, json};

on_each! {
    ntf_18_suppressions_over_http,
    ntf_18_bad_suppressions_are_told_everything,
    ntf_18_preferences_over_http,
    ntf_18_tenant_settings_over_http,
    ntf_18_consent_is_its_tenants_and_masked_for_viewers,
    ntf_18_one_click_unsubscribes,
    ntf_18_a_look_at_a_link_changes_nothing,
    ntf_18_the_unsubscribe_page_is_dressed_for_strangers,
    ntf_18_strangers_may_not_ask_too_often,
}

const PATH: &str = "/api/suppressions";
const PHONE: &str = "+9647700000001";

async fn started(base: Base) -> (World, Client) {
    let world = World::manual(base).await;
    let root = world.root();
    root.does("/dev/clock", json!({"set": "2026-05-14T05:13:00Z", "run": false}), 200).await;
    (world, root)
}

/// NTF-18: every verb, with every field; made again it is the same.
async fn ntf_18_suppressions_over_http(base: Base) {
    let (_world, root) = started(base).await;
    let given = json!({"address": "+964 770 000 0001", "channel": "SMS", "reason": "stop"});
    let made = root.does(PATH, given.clone(), 201).await;
    let want = json!({"id": made["id"], "address": PHONE, "channel": "sms", "kind": null, "reason": "stop",
        "since": "2026-05-14T05:13:00Z", "by": "root", "liftedAt": null, "liftedBy": null});
    assert_eq!(made, want);
    assert_eq!(root.does(PATH, given, 200).await, want, "again is as good as once");
    let other = json!({"address": "Ana@Example.org", "kind": "news"});
    let other = root.does(PATH, other, 201).await;
    assert_eq!(
        (&other["channel"], &other["kind"], &other["reason"]),
        (&json!("all"), &json!("news"), &json!("manual"))
    );
    let all = root.does(PATH, json!({"address": "00964 770 000 0001", "channel": "all"}), 201).await;
    for (query, want) in [
        ("", vec![&made, &other, &all]),
        ("?address=%2B964%20770%20000%200001", vec![&made, &all]),
        ("?channel=sms", vec![&made]),
        ("?channel=all", vec![&other, &all]),
        ("?kind=news", vec![&other]),
        ("?reason=manual", vec![&other, &all]),
    ] {
        assert_eq!(root.sees(&format!("{PATH}{query}")).await["items"], json!(want), "{query}");
    }
    let first = root.sees(&format!("{PATH}?limit=1")).await;
    let next = root.sees(&format!("{PATH}?limit=2&cursor={}", first["nextCursor"].as_str().unwrap())).await;
    assert_eq!(next, json!({"items": [other, all], "nextCursor": null}));
    let lifted = root.delete(&format!("{PATH}?address={PHONE}&channel=sms")).await;
    let mut gone = want.clone();
    gone["liftedAt"] = json!("2026-05-14T05:13:00Z");
    gone["liftedBy"] = json!("root");
    assert_eq!((lifted.status, lifted.json()), (200, json!({"lifted": [gone], "left": [all]})));
    let rest = root.delete(&format!("{PATH}?address={PHONE}")).await.json();
    assert_eq!((rest["lifted"].as_array().unwrap().len(), &rest["left"]), (1, &json!([])));
    let again = root.delete(&format!("{PATH}?address={PHONE}")).await.json();
    assert_eq!(again, json!({"lifted": [], "left": []}));
    let history = root.sees(&format!("{PATH}?lifted=true&address={PHONE}")).await;
    assert_eq!(history["items"].as_array().unwrap().len(), 2, "{history}");
}

/// NTF-18
async fn ntf_18_bad_suppressions_are_told_everything(base: Base) {
    let (_world, root) = started(base).await;
    let wrong = json!({"channel": 7, "kind": "", "reason": "because", "adress": "x"});
    let said = root.post(PATH, wrong).await.problem(422);
    assert_eq!(said, ["adress", "address", "channel", "kind", "reason"]);
    assert_eq!(root.post(PATH, json!({"address": " "})).await.problem(422), ["address"]);
    assert_eq!(root.delete(PATH).await.problem(422), ["address"]);
    let said = root.get(&format!("{PATH}?reason=x&lifted=maybe&address=%00")).await.problem(422);
    assert_eq!(said, ["address", "reason", "lifted"]);
    assert_eq!(root.sees(PATH).await["items"], json!([]));
}

/// NTF-18: shown for everybody, replaced as a whole, and what is shown may be handed back.
async fn ntf_18_preferences_over_http(base: Base) {
    let (_world, root) = started(base).await;
    let path = "/api/recipients/%2B964%20770%20000%200001/preferences";
    let nothing = json!({"address": PHONE, "optOuts": [], "channelOverride": {}, "locale": null,
        "timeZone": null, "quietHours": null, "updatedAt": null, "updatedBy": null});
    assert_eq!(root.sees(path).await, nothing);
    let given = json!({"optOuts": [{"channel": "sms", "kind": "news"}],
        "channelOverride": {"whatsapp": "sms:x"}, "locale": "ar-IQ", "timeZone": "asia/baghdad",
        "quietHours": {"from": "22:00", "to": "07:30"}});
    let put = root.put(path, given).await;
    assert_eq!(put.status, 200, "{}", put.text);
    let want = json!({"address": PHONE, "optOuts": [{"channel": "sms", "kind": "news"}],
        "channelOverride": {"whatsapp": "sms:x"}, "locale": "ar-IQ", "timeZone": "Asia/Baghdad",
        "quietHours": {"from": "22:00", "to": "07:30"}, "updatedAt": "2026-05-14T05:13:00Z",
        "updatedBy": "root"});
    assert_eq!(put.json(), want);
    assert_eq!(root.sees(&format!("/api/recipients/{PHONE}/preferences")).await, want);
    assert_eq!(root.put(path, want.clone()).await.json(), want, "what is shown may be handed back");
    let none = root.put(path, json!({"quietHours": "none"})).await.json();
    assert_eq!((&none["quietHours"], &none["optOuts"]), (&json!("none"), &json!([])));
    let wrong = json!({"optOuts": [{}], "timeZone": "x", "quietHours": {"from": "1"}, "chanel": 1});
    let said = root.put(path, wrong).await.problem(422);
    assert_eq!(said, ["chanel", "optOuts[0]", "timeZone", "quietHours.from", "quietHours.to"]);
    assert_eq!(root.sees(path).await["quietHours"], "none", "nothing was written");
    root.put("/api/recipients/%00/preferences", json!({})).await.problem(422);
}

/// NTF-18
async fn ntf_18_tenant_settings_over_http(base: Base) {
    let (_world, root) = started(base).await;
    let path = "/api/tenant-settings";
    let nothing = json!({"quietHours": null, "quietHoursExempt": [], "channelOverride": {},
        "updatedAt": null, "updatedBy": null});
    assert_eq!(root.sees(path).await, nothing);
    let given = json!({"quietHours": {"from": "21:00", "to": "08:00", "timeZone": "Asia/Baghdad"},
        "quietHoursExempt": ["otp"], "channelOverride": {"whatsapp": "sms:twilio"}});
    let put = root.put(path, given.clone()).await.json();
    let mut want = given;
    want["updatedAt"] = json!("2026-05-14T05:13:00Z");
    want["updatedBy"] = json!("root");
    assert_eq!(put, want);
    assert_eq!(root.sees(path).await, want);
    let said = root.put(path, json!({"quietHours": {"from": "08:00", "to": "08:00"}})).await.problem(422);
    assert_eq!(said, ["quietHours.to"]);
}

/// NTF-18, NTF-23: nobody sees or changes another tenant's, and viewers see addresses in part.
async fn ntf_18_consent_is_its_tenants_and_masked_for_viewers(base: Base) {
    let (world, root) = started(base).await;
    let acme = world.tenant("acme").await;
    let preferences = format!("/api/recipients/{PHONE}/preferences");
    root.does(PATH, json!({"address": PHONE}), 201).await;
    root.put(&preferences, json!({"locale": "ar"})).await;
    assert_eq!(acme.sees(PATH).await["items"], json!([]));
    assert_eq!(acme.sees(&preferences).await["locale"], Value::Null);
    let elsewhere = acme.delete(&format!("{PATH}?address={PHONE}")).await.json();
    assert_eq!(elsewhere, json!({"lifted": [], "left": []}));
    let viewer = world.key(&root, "viewer").await;
    assert_eq!(viewer.sees(PATH).await["items"][0]["address"], "••• 0001");
    assert_eq!(viewer.sees(&preferences).await["address"], "••• 0001");
    let support = world.key(&root, "support").await;
    assert_eq!(support.sees(PATH).await["items"][0]["address"], PHONE);
    let by = support.does(PATH, json!({"address": "x@y.example"}), 201).await;
    assert_eq!(by["by"], "the support");
}

/// The path of a link for somebody's mailbox.
async fn link(world: &World, kind: Option<&str>, locale: Option<&str>) -> String {
    let link = UnsubscribeLink {
        tenant: Tenant::DEFAULT,
        address: "ana@example.org".into(),
        channel: "email".into(),
        kind: kind.map(str::to_owned),
        locale: locale.map(str::to_owned),
    };
    format!("/u/{}", world.engine.store().link_secret().await.unwrap().seal(&link))
}

async fn post(client: &Client, path: &str, form: &str) -> Reply {
    client.with("content-type", "application/x-www-form-urlencoded").send("POST", path, form).await
}

/// NTF-18: RFC 8058, again and again, and back.
async fn ntf_18_one_click_unsubscribes(base: Base) {
    let (world, root) = started(base).await;
    let (path, anybody) = (link(&world, Some("news"), Some("en")).await, world.anybody());
    for _ in 0..2 {
        let reply = post(&anybody, &path, "List-Unsubscribe=One-Click").await;
        assert_eq!((reply.status, reply.header("location")), (200, ""), "{}", reply.text);
        assert!(reply.text.contains("You are unsubscribed") && reply.text.contains("value=\"undo\""));
        let all = root.sees(PATH).await;
        let one = &all["items"][0];
        assert_eq!((&one["address"], &one["channel"]), (&json!("ana@example.org"), &json!("email")));
        assert_eq!((&one["kind"], &one["reason"]), (&json!("news"), &json!("unsubscribe")));
        assert_eq!((&one["by"], &all["items"][1]), (&json!("recipient"), &Value::Null));
    }
    assert!(anybody.get(&path).await.text.contains("You are unsubscribed"));
    for _ in 0..2 {
        let reply = post(&anybody, &path, "do=undo").await;
        assert!(reply.status == 200 && reply.text.contains("You are subscribed again"), "{}", reply.text);
        assert_eq!(root.sees(PATH).await["items"], json!([]));
    }
    assert!(anybody.get(&path).await.text.contains("Unsubscribe?"));
    root.does(PATH, json!({"address": "ANA@example.org"}), 201).await;
    let reply = post(&anybody, &path, "do=undo").await;
    assert!(reply.text.contains("You are unsubscribed") && !reply.text.contains("<form"), "by somebody else");
    let multipart =
        "--x\r\nContent-Disposition: form-data; name=\"List-Unsubscribe\"\r\n\r\nOne-Click\r\n--x--\r\n";
    let whole = link(&world, None, None).await;
    let reply =
        anybody.with("content-type", "multipart/form-data; boundary=x").send("POST", &whole, multipart).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert_eq!(root.sees(&format!("{PATH}?reason=unsubscribe")).await["items"][0]["kind"], Value::Null);
}

/// NTF-18: link previews and mail scanners fetch pages, and a wrong token is nobody's.
async fn ntf_18_a_look_at_a_link_changes_nothing(base: Base) {
    let (world, root) = started(base).await;
    let (path, anybody) = (link(&world, None, None).await, world.anybody());
    for _ in 0..3 {
        assert_eq!(anybody.get(&path).await.status, 200);
        assert_eq!(anybody.send("HEAD", &path, "").await.status, 200);
    }
    for wrong in ["/u/x", "/u/%00", "/u/%F0%28", &path[..path.len() - 1], &format!("{path}A")] {
        assert_eq!(anybody.get(wrong).await.status, 404, "{wrong}");
        assert_eq!(post(&anybody, wrong, "").await.status, 404, "{wrong}");
    }
    assert_eq!(root.sees(PATH).await["items"], json!([]));
}

/// NTF-18: in the reader's language, under a strict policy, without a script or the whole address.
async fn ntf_18_the_unsubscribe_page_is_dressed_for_strangers(base: Base) {
    let (world, root) = started(base).await;
    let (path, anybody) = (link(&world, None, Some("ar")).await, world.anybody());
    let reply = anybody.get(&path).await;
    assert!(reply.text.contains("<html lang=\"ar\" dir=\"rtl\">") && reply.text.contains("إلغاء الاشتراك"));
    assert!(!reply.text.contains("<script") && !reply.text.contains("ana@"), "{}", reply.text);
    let policy = reply.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("script"), "{policy}");
    assert!(policy.contains("form-action 'self'") && policy.contains("frame-ancestors 'none'"), "{policy}");
    for (name, value) in [
        ("cache-control", "no-store"),
        ("referrer-policy", "no-referrer"),
        ("x-robots-tag", "noindex"),
        ("content-type", "text/html; charset=utf-8"),
        ("set-cookie", ""),
    ] {
        assert_eq!(reply.header(name), value, "{name}");
    }
    let style = reply.text.split("href=\"../s/assets/").nth(1).unwrap().split('"').next().unwrap().to_owned();
    assert_eq!(anybody.get(&format!("/s/assets/{style}")).await.status, 200);
    let english = anybody.get(&format!("{path}?lang=en")).await;
    assert!(english.text.contains("<html lang=\"en\" dir=\"ltr\">"), "the reader chose");
    root.put("/api/recipients/ana@example.org/preferences", json!({"locale": "en-GB"})).await;
    assert!(
        anybody.get(&path).await.text.contains("<html lang=\"en-GB\" dir=\"ltr\">"),
        "the recipient's own"
    );
    let unknown = anybody.with("accept-language", "ar").get("/u/x").await;
    assert!(unknown.status == 404 && unknown.text.contains("الرابط غير موجود"));
}

/// NTF-18: counted like every public request.
async fn ntf_18_strangers_may_not_ask_too_often(base: Base) {
    let settings = Settings { public: PublicAccess::new(5, false), ..Settings::default() };
    let world = World::start(base, ClockMode::Manual, settings).await;
    let (path, anybody) = (link(&world, None, None).await, world.anybody());
    for _ in 0..5 {
        assert_eq!(anybody.get(&path).await.status, 200);
    }
    for reply in [anybody.get(&path).await, post(&anybody, &path, "").await] {
        assert_eq!(reply.status, 429);
        assert!(!reply.header("retry-after").is_empty() && reply.text.contains("One moment, please"));
    }
    assert_eq!(world.root().sees(PATH).await["items"], json!([]), "what was refused did nothing");
}
