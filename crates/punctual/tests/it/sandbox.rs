//! The sandbox: what it keeps, what it answers, and who has one.

use crate::bench::{Bench, TENANT, seconds};
use crate::invitation;
use punctual::access::store::tenants::NewTenant;
use punctual::base::limits;
use punctual::delivery::rules::script::{Script, ScriptStep};
use punctual::delivery::run::sandbox::{SandboxFilter, SandboxOutcome};
use punctual::testing::Stage;
use punctual::{
    AcceptedMessage, Channel, Engine, Error, RenderedMessage, Sandbox, SendError, Tenant, Timestamp,
};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

cases![
    prd_17_a_manual_clock_has_a_sandbox_and_the_system_clock_none,
    trg_17_channels_are_found_by_their_key,
    a_stage_shows_what_was_sent,
    prd_17_an_invitation_that_timed_out_is_seen_twice,
    a_second_delivery_under_a_key_is_kept_and_marked,
];

fn letter(channel: &str, to: &str, key: &str) -> RenderedMessage {
    RenderedMessage {
        tenant: TENANT,
        channel: channel.into(),
        to: to.into(),
        locale: "en".into(),
        attempt: 1,
        public_id: None,
        survey_url: None,
        subject: None,
        body: "How was it?".into(),
        html: None,
        unsubscribe_url: None,
        provider_template: None,
        payload: Arc::new(json!({"big": "x".repeat(100)})),
        idempotency_key: key.into(),
        sent_at: Timestamp::from_micros(1),
    }
}

async fn send(sandbox: &Sandbox, to: &str, key: &str) -> Result<AcceptedMessage, SendError> {
    sandbox.send(Arc::new(letter("memory:a", to, key))).await
}

fn scripted(words: serde_json::Value) -> Script {
    Script::read(&json!({ "script": words })).unwrap()
}

fn keys(sandbox: &Sandbox) -> Vec<String> {
    let all = sandbox.messages(&SandboxFilter::default(), 1_000);
    all.iter().map(|received| received.message.idempotency_key.clone()).collect()
}

/// TRG-17, PRD-17: what a script says comes in its order; a timeout delivers, a refusal does not.
#[tokio::test]
async fn prd_17_sends_go_wrong_as_the_script_says() {
    let sandbox = Sandbox::new();
    let words = json!([{"transient": {"retryAfter": "2m", "error": "busy"}}, "transient", "permanent",
        "timeout", {"timeout": {"delivered": false}}, "ok"]);
    sandbox.script("memory:a", scripted(words)).unwrap();
    let mut answers = Vec::new();
    for n in 0..7 {
        answers.push(send(&sandbox, "ada", &format!("k{n}")).await);
    }
    let busy = SendError::Transient { error: "busy".into(), retry_after: Some(seconds(120)) };
    assert_eq!(answers[0], Err(busy));
    assert!(matches!(&answers[1], Err(SendError::Transient { retry_after: None, .. })), "{answers:?}");
    assert!(matches!(&answers[2], Err(SendError::Permanent { .. })), "{answers:?}");
    assert!(answers[3..5].iter().all(|one| matches!(one, Err(SendError::NoAnswer { .. }))), "{answers:?}");
    assert!(answers[5..].iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(keys(&sandbox), ["k3", "k5", "k6"]);
    let all = sandbox.messages(&SandboxFilter::default(), 9);
    let outcomes: Vec<SandboxOutcome> = all.iter().map(|received| received.outcome).collect();
    assert_eq!(outcomes, [SandboxOutcome::Timeout, SandboxOutcome::Sent, SandboxOutcome::Sent]);
    let told = answers[5].as_ref().unwrap().message_id.as_deref();
    assert_eq!(told, Some(all[1].message_id.as_str()), "the id in the list is the one that was told");
    assert!(told.unwrap().starts_with("mem-"), "{told:?}");
}

/// PRD-17: a new script replaces the old one, and each channel has its own.
#[tokio::test]
async fn prd_17_a_new_script_replaces_the_old_one() {
    let sandbox = Sandbox::new();
    sandbox.script("memory:a", scripted(json!(["permanent", "permanent"]))).unwrap();
    sandbox.script("memory:b", scripted(json!(["transient"]))).unwrap();
    assert!(send(&sandbox, "ada", "1").await.is_err());
    assert_eq!(sandbox.scripted("memory:a"), scripted(json!(["permanent"])));
    sandbox.script("memory:a", scripted(json!(["ok", "timeout"]))).unwrap();
    assert!(send(&sandbox, "ada", "2").await.is_ok());
    sandbox.script("memory:a", Script::default()).unwrap();
    assert!(send(&sandbox, "ada", "3").await.is_ok());
    assert_eq!(sandbox.scripted("memory:b"), scripted(json!(["transient"])));
    let said = sandbox.script("sms:twilio", Script::default()).unwrap_err();
    assert!(matches!(&said, Error::NotFound(text) if text.contains("`sms:twilio`")), "{said}");
}

/// A double send can be seen; the same key of another tenant is no double.
async fn a_second_delivery_under_a_key_is_kept_and_marked(t: &Bench) {
    let sandbox = Sandbox::new();
    sandbox.script("memory:a", scripted(json!(["timeout"]))).unwrap();
    send(&sandbox, "ada", "p:1:0").await.unwrap_err();
    send(&sandbox, "ada", "p:1:0").await.unwrap();
    send(&sandbox, "ada", "p:2:0").await.unwrap();
    let all = sandbox.messages(&SandboxFilter::default(), 9);
    let first = Some(all[0].message_id.clone());
    let marks: Vec<Option<String>> = all.iter().map(|received| received.duplicate_of.clone()).collect();
    assert_eq!(marks, [None, first, None]);
    let new = NewTenant { slug: "acme".into(), name: "Acme".into(), ..NewTenant::default() };
    let other = t.store().create_tenant(new).await.unwrap().tenant;
    let strange = RenderedMessage { tenant: other, ..letter("memory:a", "ada", "p:1:0") };
    sandbox.send(Arc::new(strange)).await.unwrap();
    assert_eq!(sandbox.latest(&SandboxFilter::default(), 1)[0].duplicate_of, None);
    let of = |tenant: Tenant| SandboxFilter { tenant: Some(tenant), ..SandboxFilter::default() };
    assert_eq!((sandbox.count(&of(TENANT)), sandbox.count(&of(other))), (3, 1));
}

#[tokio::test]
async fn letters_are_listed_by_channel_and_address_and_in_parts() {
    let sandbox = Sandbox::new();
    for n in 0..6 {
        let channel = if n % 3 == 0 { "memory:b" } else { "memory:a" };
        let to = if n % 2 == 0 { "ada" } else { "+964 770" };
        sandbox.send(Arc::new(letter(channel, to, &n.to_string()))).await.unwrap();
    }
    let wanted = |channel: Option<&str>, to: Option<&str>| SandboxFilter {
        channel: channel.map(str::to_owned),
        to: to.map(str::to_owned),
        ..SandboxFilter::default()
    };
    let table = [
        (wanted(None, None), "012345"),
        (wanted(Some("memory:b"), None), "03"),
        (wanted(None, Some("+964 770")), "135"),
        (wanted(Some("memory:a"), Some("ada")), "24"),
        (wanted(Some("memory:c"), None), ""),
        (SandboxFilter { after: 4, ..SandboxFilter::default() }, "45"),
        (SandboxFilter { before: Some(3), ..SandboxFilter::default() }, "01"),
    ];
    for (wanted, keys) in table {
        let key = |received: &Arc<punctual::delivery::run::sandbox::SandboxMessage>| {
            received.message.idempotency_key.clone()
        };
        assert_eq!(sandbox.messages(&wanted, 99).iter().map(key).collect::<String>(), keys, "{wanted:?}");
        let back: String = sandbox.latest(&wanted, 99).iter().map(key).collect();
        assert_eq!(back, keys.chars().rev().collect::<String>(), "{wanted:?}");
        assert_eq!(sandbox.count(&wanted), keys.len());
        assert_eq!(sandbox.messages(&wanted, 1).len(), keys.len().min(1));
    }
    assert_eq!(sandbox.clear(&wanted(None, Some("ada"))), 3);
    assert_eq!(keys(&sandbox), ["1", "3", "5"]);
    assert_eq!(
        sandbox.messages(&SandboxFilter { after: 2, ..SandboxFilter::default() }, 9).len(),
        2,
        "gaps do not matter"
    );
    assert_eq!(sandbox.clear(&SandboxFilter::default()), 3);
    sandbox.send(Arc::new(letter("memory:a", "ada", "1"))).await.unwrap();
    let again = &sandbox.messages(&SandboxFilter::default(), 9)[0];
    assert_eq!(
        (again.number, &again.duplicate_of),
        (7, &None),
        "numbers go on, what was cleared is forgotten"
    );
    assert_eq!(*again.message.payload, json!(null), "payloads are not kept");
}

/// The oldest go when there are too many, or too large ones, and are counted.
#[tokio::test]
async fn a_full_sandbox_lets_the_oldest_go() {
    let sandbox = Sandbox::new();
    for n in 0..limits::SANDBOX_MESSAGES_MAX + 2 {
        send(&sandbox, "ada", &n.to_string()).await.unwrap();
    }
    assert_eq!(
        (sandbox.count(&SandboxFilter::default()), sandbox.dropped()),
        (limits::SANDBOX_MESSAGES_MAX, 2)
    );
    assert_eq!(sandbox.messages(&SandboxFilter::default(), 1)[0].message.idempotency_key, "2");
    assert_eq!(sandbox.clear(&SandboxFilter::default()), limits::SANDBOX_MESSAGES_MAX);
    assert_eq!(sandbox.dropped(), 0);
    for n in 0..9 {
        let large = RenderedMessage {
            body: "x".repeat(limits::SANDBOX_BYTES_MAX / 8),
            ..letter("memory:a", "ada", "k")
        };
        sandbox.send(Arc::new(RenderedMessage { idempotency_key: n.to_string(), ..large })).await.unwrap();
    }
    assert_eq!((sandbox.count(&SandboxFilter::default()), sandbox.dropped()), (7, 2));
    let whole =
        RenderedMessage { body: "x".repeat(limits::SANDBOX_BYTES_MAX + 1), ..letter("memory:a", "ada", "k") };
    sandbox.send(Arc::new(whole)).await.unwrap();
    assert_eq!(
        (sandbox.count(&SandboxFilter::default()), sandbox.dropped()),
        (0, 10),
        "too large even alone"
    );
}

/// The letter is there when the send begins; the answer takes its time, and who gives up has sent it.
#[tokio::test(start_paused = true)]
async fn latency_delays_the_answer_and_not_the_delivery() {
    let sandbox = Sandbox::new();
    sandbox.script("memory:a", Script::default().latency(seconds(30))).unwrap();
    let began = tokio::time::Instant::now();
    let cut = tokio::time::timeout(seconds(10), send(&sandbox, "ada", "1")).await;
    assert!(cut.is_err());
    assert_eq!(keys(&sandbox), ["1"]);
    send(&sandbox, "ada", "2").await.unwrap();
    assert_eq!(began.elapsed().as_secs(), 40);
}

/// Many senders at once: every step is used once, and nothing is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_sends_at_once_use_each_step_once() {
    let sandbox = Sandbox::new();
    let steps = (0..50).map(|_| ScriptStep::Permanent { error: None });
    sandbox.script("memory:a", Script::new(steps)).unwrap();
    let sends = (0..200).map(|n| {
        let sandbox = sandbox.clone();
        tokio::spawn(async move { send(&sandbox, "ada", &n.to_string()).await.is_ok() })
    });
    let mut fine = 0;
    for one in sends.collect::<Vec<_>>() {
        fine += usize::from(one.await.unwrap());
    }
    assert_eq!((fine, sandbox.count(&SandboxFilter::default())), (150, 150));
    let numbers: Vec<u64> =
        sandbox.messages(&SandboxFilter::default(), 999).iter().map(|one| one.number).collect();
    assert!(numbers.is_sorted(), "{numbers:?}");
}

/// PRD-17: any `memory:` name is a channel on a manual clock, and none is elsewhere.
async fn prd_17_a_manual_clock_has_a_sandbox_and_the_system_clock_none(t: &Bench) {
    let stage = Stage::on(t.backend).open().await.unwrap();
    let channels = stage.engine().channels();
    assert!(channels.get("memory:default").is_some() && channels.get("memory:whatsapp2").is_some());
    assert!(channels.get("whatsapp:default").is_none());
    let real = Engine::builder("sqlite::memory:").open().await.unwrap();
    assert!(real.sandbox().is_none() && real.channels().get("memory:default").is_none());
    let named = Sandbox::of(["whatsapp:default".to_owned()]);
    let named = Engine::builder("sqlite::memory:").sandbox(named).open().await.unwrap();
    assert!(named.channels().get("whatsapp:default").is_some());
    assert!(named.channels().get("memory:default").is_none());
}

/// TRG-17: channels are registered in code; wrong and double keys are all told.
async fn trg_17_channels_are_found_by_their_key(t: &Bench) {
    let refuse = |_: Arc<RenderedMessage>| async { Err(SendError::Permanent { error: "no".into() }) };
    let stage = Stage::on(t.backend).with(move |builder| {
        let sandbox = Sandbox::new().also("whatsapp:default");
        builder.channel("sms:own", refuse).channel("memory:own", refuse).sandbox(sandbox)
    });
    let stage = stage.open().await.unwrap();
    for (key, fine) in
        [("sms:own", false), ("memory:own", false), ("memory:x", true), ("whatsapp:default", true)]
    {
        let channel = stage.engine().channels().get(key).unwrap();
        assert_eq!(channel.send(Arc::new(letter(key, "ada", key))).await.is_ok(), fine, "{key}");
    }
    assert_eq!(stage.sandbox().channels().into_iter().collect::<Vec<_>>(), ["memory:x", "whatsapp:default"]);
    let wrong = Engine::builder("sqlite::memory:")
        .channel("sms", refuse)
        .channel("sms:own", refuse)
        .channel("sms:own", refuse)
        .sandbox(Sandbox::new().also("sms:own").also("sms own"));
    let Err(Error::Invalid(problems)) = wrong.open().await else { panic!("it should be refused") };
    let paths: Vec<&str> = problems.0.iter().map(|problem| problem.path.as_str()).collect();
    assert_eq!(paths, ["channels[0]", "channels[2]", "channels[3]", "channels[4]"], "{problems}");
}

/// PRD-17, TRG-17: an invitation through the sandbox, at the engine's time, with what a channel needs;
/// the try after a timeout goes out under the same key, and is seen as the double it is.
async fn prd_17_an_invitation_that_timed_out_is_seen_twice(t: &Bench) {
    let (engine, _) = invitation::engine(t).await;
    let by_sandbox = |survey: &mut serde_json::Value| survey["triggers"][0]["channel"] = json!("memory:sms");
    invitation::publish(&engine, invitation::survey(by_sandbox)).await;
    let sandbox = engine.sandbox().unwrap();
    sandbox.script("memory:sms", scripted(json!(["timeout", "permanent"]))).unwrap();
    let id = invitation::invite(&engine, "1").await;
    let start = t.now().await;
    engine.travel(start.plus(Duration::from_secs(60 * 60)), true).await.unwrap();
    assert_eq!(sandbox.count(&SandboxFilter::default()), 1, "the second try was refused for good");
    sandbox.script("memory:sms", scripted(json!(["timeout"]))).unwrap();
    engine.travel(start.plus(Duration::from_secs(25 * 60 * 60)), true).await.unwrap();
    let all = sandbox.messages(&SandboxFilter::default(), 9);
    let attempts: Vec<u32> = all.iter().map(|one| one.message.attempt).collect();
    assert_eq!(attempts, [1, 2, 2], "the invitation, and its reminder twice");
    assert_eq!(all[2].duplicate_of.as_ref(), Some(&all[1].message_id));
    let first = &all[0].message;
    assert_eq!((first.sent_at, first.public_id, first.locale.as_str()), (start, Some(id), "ar"));
    assert_eq!(first.to, "+964 770 000 0001", "the address as it was given");
    assert_eq!(first.survey_url, Some(format!("https://survey.example/s/{id}")));
}

async fn a_stage_shows_what_was_sent(t: &Bench) {
    let stage = Stage::on(t.backend).open().await.unwrap();
    let channel = stage.engine().channels().get("memory:default").unwrap();
    let sent_at = stage.now().await.unwrap().plus(Duration::from_secs(1));
    channel
        .send(Arc::new(RenderedMessage { sent_at, ..letter("memory:default", "ada", "k") }))
        .await
        .unwrap();
    let received = stage.sandbox().messages(&SandboxFilter::default(), 10);
    assert_eq!((received[0].message.sent_at, received[0].message.to.as_str()), (sent_at, "ada"));
}
