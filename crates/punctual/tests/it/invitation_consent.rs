//! Invitations ask for consent, and keep to what their channels say, as notifications do. The clock stands at
//! 2026-05-14T05:13:00Z.

use crate::bench::{Bench, TENANT, seconds};
use crate::bench::{author, change};
use crate::invitation::{
    DAY, answers, begin_sends, due_takes, engine, engine_with, entry, invite, publish, read_template, status,
    survey, tick, time, transient, visit,
};
use crate::notification::prefer;
use punctual::delivery::rules::channel::{ChannelPolicy, UnknownOutcomePolicy};
use punctual::delivery::rules::consent::{ConsentScope, SuppressionReason, TenantSettings};
use punctual::delivery::rules::send_terms::SendTerms;
use punctual::delivery::run::sandbox::SandboxFilter;
use punctual::delivery::store::consent::{NewSuppression, SuppressionFilter};
use punctual::delivery::store::deliveries::delivery::{
    ClaimedDeliveries, DeliveryOutcome, DeliverySettlement, SettledDelivery,
};
use punctual::delivery::store::entries::actions::EntryAction;
use punctual::delivery::store::entries::replay::ReplayMode;
use punctual::delivery::store::entries::replay::ReplaySelection;
use punctual::engine::{ChosenTrigger, IngestOutcome, SubmitOutcome};
use punctual::flow::rules::entry::EntryStatus;
use punctual::flow::rules::entry::failure;
use punctual::flow::rules::public_id::PublicId;
use punctual::queue::rules::attempt::RetryPolicy;
use punctual::queue::rules::purpose::Purpose;
use punctual::queue::store::claims::ClaimRequest;
use punctual::{Engine, Problems, SendError};
use serde_json::json;

cases![
    ntf_18_who_was_suppressed_gets_no_survey,
    ntf_18_a_stop_ends_the_reminders_and_its_lift_brings_none_back,
    ntf_18_quiet_hours_shift_an_invitation,
    ntf_18_another_channel_takes_the_invitation_if_it_can,
    ntf_18_one_click_ends_invitations,
    ntf_18_a_dry_run_tells_who_is_not_sent_it,
    ntf_8_a_preferred_language_words_the_invitation,
    ntf_10_a_providers_own_template_invites,
    ntf_24_a_channels_tries_hold_for_invitations,
    ntf_5_the_key_of_a_fallback_names_the_send_and_its_channel,
    ntf_24_a_sixth_try_waits_sixteen_minutes,
    ntf_4_an_invitation_that_may_have_gone_out_is_held,
    ntf_4_a_lost_invitation_is_held,
    ntf_4_a_lost_invitation_is_held_when_its_claim_was_put_back,
    ntf_22_a_failed_invitation_is_sent_once_more,
];

/// The address of every visit.
const ADDRESS: &str = "+964 770 000 0001";

async fn suppress(engine: &Engine, address: &str, reason: SuppressionReason) {
    let wish = NewSuppression {
        told_at: None,
        address: address.into(),
        scope: ConsentScope::default(),
        reason,
        by: "test".into(),
    };
    engine.store().suppress(TENANT, wish).await.unwrap();
}

async fn lift(engine: &Engine) {
    let all = SuppressionFilter { address: Some(ADDRESS.into()), ..SuppressionFilter::default() };
    let lifted = engine.store().lift_suppressions(TENANT, all, "test").await.unwrap();
    assert_eq!(lifted.lifted.len(), 1);
}

/// The log of an entry as `attempt status reason`.
async fn log(engine: &Engine, id: PublicId) -> Vec<String> {
    let lines = engine.store().delivery_log(TENANT, entry(engine, id).await.id).await.unwrap();
    let reason =
        |reason: &Option<String>| reason.as_ref().map_or_else(String::new, |word| format!(" {word}"));
    lines
        .iter()
        .map(|line| format!("{} {}{}", line.attempt, line.status.word(), reason(&line.reason)))
        .collect()
}

async fn error(engine: &Engine, id: PublicId) -> String {
    let lines = engine.store().delivery_log(TENANT, entry(engine, id).await.id).await.unwrap();
    lines.last().unwrap().error.clone().unwrap()
}

fn policy(edit: impl FnOnce(&mut ChannelPolicy)) -> ChannelPolicy {
    let mut policy = ChannelPolicy::default();
    edit(&mut policy);
    policy
}

fn timeout() -> Option<SendError> {
    Some(SendError::Unknown { error: "no answer in 10 s".into() })
}

/// NTF-18: suppressed or opted out: nothing is sent, the instance says why, and lifting sends nothing stale.
async fn ntf_18_who_was_suppressed_gets_no_survey(t: &Bench) {
    let (engine, mailbox) = engine(t).await;
    publish(&engine, survey(|_| {})).await;
    suppress(&engine, ADDRESS, SuppressionReason::HardBounce).await;
    let id = invite(&engine, "1").await;
    assert_eq!((tick(&engine).await.sent, mailbox.messages().len()), (0, 0));
    assert_eq!(
        (status(&engine, id).await, log(&engine, id).await),
        (EntryStatus::Failed, vec!["1 failed hard-bounce".into()])
    );
    assert_eq!(error(&engine, id).await, "the recipient is not sent this: hard-bounce");
    assert_eq!(t.count("select count(*) from punctual.work").await, 0);
    lift(&engine).await;
    engine.travel(t.now().await.plus(5 * DAY), true).await.unwrap();
    assert_eq!(mailbox.messages().len(), 0, "nothing stale follows");

    prefer(&engine, ADDRESS, &json!({"optOuts": [{"kind": "survey.invitation"}]})).await;
    let id = invite(&engine, "2").await;
    tick(&engine).await;
    assert_eq!((mailbox.messages().len(), log(&engine, id).await), (0, vec!["1 failed opted-out".into()]));
    prefer(&engine, ADDRESS, &json!({"optOuts": [{"kind": "booking.confirmed"}]})).await;
    invite(&engine, "3").await;
    assert_eq!(tick(&engine).await.sent, 1, "another kind is another matter");
}

/// NTF-18: who has the link and says STOP gets no reminder, may answer, and expires if they do not.
async fn ntf_18_a_stop_ends_the_reminders_and_its_lift_brings_none_back(t: &Bench) {
    let (engine, mailbox) = engine(t).await;
    publish(&engine, survey(|d| d["triggers"][0]["schedule"]["reminders"] = json!(["1d", "1d"]))).await;
    let (answering, forgetting) = (invite(&engine, "1").await, invite(&engine, "2").await);
    assert_eq!(tick(&engine).await.sent, 2);
    suppress(&engine, ADDRESS, SuppressionReason::Stop).await;
    engine.travel(t.now().await.plus(DAY), true).await.unwrap();
    for id in [answering, forgetting] {
        assert_eq!(log(&engine, id).await, ["1 delivered", "2 failed stop"]);
        let standing = entry(&engine, id).await.state;
        assert_eq!((standing.status, standing.next_send_at), (EntryStatus::Sent, None));
    }
    lift(&engine).await;
    engine.travel(t.now().await.plus(3 * DAY), true).await.unwrap();
    assert_eq!(mailbox.messages().len(), 2, "only the invitations");
    assert!(matches!(engine.submit(answering, answers(5), None).await.unwrap(), SubmitOutcome::Done { .. }));
    engine.travel(t.now().await.plus(30 * DAY), true).await.unwrap();
    assert_eq!(status(&engine, forgetting).await, EntryStatus::Expired);
}

/// NTF-18: at night it waits until the morning where the recipient lives; that is no try, and no reminder.
async fn ntf_18_quiet_hours_shift_an_invitation(t: &Bench) {
    let (engine, mailbox) = engine(t).await;
    publish(&engine, survey(|_| {})).await;
    let quiet = json!({"timeZone": "America/New_York", "quietHours": {"from": "21:00", "to": "08:00"}});
    prefer(&engine, ADDRESS, &quiet).await;
    let id = invite(&engine, "1").await;
    assert_eq!(tick(&engine).await.sent, 0, "it is 01:13 in New York");
    let (morning, waits) = (time("2026-05-14T12:00:00Z"), entry(&engine, id).await);
    assert_eq!((waits.state.next_send_at, waits.state.remaining), (Some(morning), 1));
    assert_eq!((waits.state.status, log(&engine, id).await), (EntryStatus::Pending, vec![]));
    assert_eq!(t.ints("select attempts, unstarted from punctual.work").await, [[Some(0), Some(0)]]);
    mailbox.fail_with(vec![transient()]);
    engine.travel(time("2026-05-14T11:59:59Z"), true).await.unwrap();
    assert_eq!(mailbox.messages().len(), 0);
    engine.travel(time("2026-05-14T12:10:00Z"), true).await.unwrap();
    assert_eq!(log(&engine, id).await, ["1 failed", "1 delivered"]);
    let sent = entry(&engine, id).await.state;
    assert_eq!((sent.status, sent.remaining), (EntryStatus::Sent, 0), "the reminder is still to come");
    engine.travel(time("2026-05-16T12:10:00Z"), true).await.unwrap();
    assert_eq!(log(&engine, id).await, ["1 failed", "1 delivered", "2 delivered"]);

    let waiting = invite(&engine, "2").await;
    let settings = TenantSettings::read(
        &json!({"quietHours": {"from": "00:00", "to": "23:00", "timeZone": "UTC"}}),
        &mut Problems::default(),
    );
    prefer(&engine, ADDRESS, &json!({})).await;
    engine.store().put_tenant_settings(TENANT, settings.unwrap(), "test").await.unwrap();
    assert_eq!(tick(&engine).await.sent, 0);
    let at = entry(&engine, waiting).await.state.next_send_at;
    assert_eq!(at, Some(time("2026-05-16T23:00:00Z")), "the tenant's hours hold as well");
    assert!(change(engine.store(), TENANT, waiting, EntryAction::Cancel).await.is_ok());
    assert_eq!(t.count(crate::bench::WORK_BESIDE_MESSAGES).await, 1, "only an expiry is left");
}

/// NTF-18: an override holds where the other channel takes the address; else nobody can be reached.
async fn ntf_18_another_channel_takes_the_invitation_if_it_can(t: &Bench) {
    let (engine, mailbox) = engine(t).await;
    publish(&engine, survey(|_| {})).await;
    prefer(&engine, ADDRESS, &json!({"channelOverride": {"memory:default": "memory:sms"}})).await;
    let id = invite(&engine, "1").await;
    assert_eq!((tick(&engine).await.sent, mailbox.messages().len()), (1, 0));
    let got = engine.sandbox().unwrap().messages(&SandboxFilter::default(), 10);
    assert_eq!((got[0].message.channel.as_str(), got[0].message.to.as_str()), ("memory:sms", ADDRESS));
    assert_eq!(status(&engine, id).await, EntryStatus::Sent);
    prefer(&engine, ADDRESS, &json!({"channelOverride": {"memory:default": "memory:email"}})).await;
    let id = invite(&engine, "2").await;
    tick(&engine).await;
    assert_eq!(
        (status(&engine, id).await, log(&engine, id).await),
        (EntryStatus::Failed, vec!["1 failed NoRecipient".into()])
    );
    assert!(error(&engine, id).await.contains("`memory:email`"));
}

/// NTF-18: an invitation has the link that ends invitations, and whoever follows it gets no more.
async fn ntf_18_one_click_ends_invitations(t: &Bench) {
    let (engine, _) = engine_with(t, |b| b.unsubscribe_url("https://example.org/u/{token}")).await;
    publish(&engine, survey(|d| d["triggers"][0]["channel"] = json!("memory:mail"))).await;
    let template = json!({"eventType": "survey.invitation", "channel": "Email", "language": "ar",
        "subject": "x", "body": "{{surveyUrl}} {{unsubscribeUrl}}"});
    engine.store().create_template(TENANT, read_template(&template)).await.unwrap();
    let invite = async |wip: &str| {
        let mut visit = visit(wip, "GR");
        visit["recipient"]["address"] = json!("Guest@example.com");
        let made = crate::invitation::ingest(&engine, vec![visit]).await;
        tick(&engine).await;
        made[0].instances[0].public_id
    };
    invite("1").await;
    let got = engine.sandbox().unwrap().messages(&SandboxFilter::default(), 10);
    let url = got[0].message.unsubscribe_url.clone().expect("a link");
    assert!(got[0].message.body.ends_with(&url), "{}", got[0].message.body);
    let token = url.strip_prefix("https://example.org/u/").unwrap();
    let link = engine.store().link_secret().await.unwrap().open(token).expect("it opens");
    assert_eq!((link.address.as_str(), link.channel.as_str()), ("guest@example.com", "email"));
    assert_eq!((link.kind.as_deref(), link.locale.as_deref()), (Some("survey.invitation"), Some("ar")));
    engine.store().follow_link(link).await.unwrap();
    let refused = invite("2").await;
    assert_eq!(log(&engine, refused).await, ["1 failed unsubscribe"]);
    assert_eq!(engine.sandbox().unwrap().count(&SandboxFilter::default()), 1);
}

/// NTF-18, TRG-27: a send by hand obeys, and its dry run says so.
async fn ntf_18_a_dry_run_tells_who_is_not_sent_it(t: &Bench) {
    let (engine, mailbox) = engine(t).await;
    let flow = publish(&engine, survey(|_| {})).await;
    suppress(&engine, "+964 1", SuppressionReason::Manual).await;
    let item = |address: &str| json!({"recipient": {"address": address}, "payload": {"wip": address}});
    let send = async |dry_run| {
        let chosen = ChosenTrigger { flow, trigger_id: "csi-gr-trigger".into(), by: "test".into(), dry_run };
        let items = vec![item("+964 1"), item("+964 2"), json!({})];
        engine.send_by_hand(TENANT, &chosen, items).await.unwrap()
    };
    let dry = send(true).await;
    let outcomes: Vec<IngestOutcome> = dry.iter().map(|one| one.outcome).collect();
    assert_eq!(outcomes, [IngestOutcome::Skipped, IngestOutcome::Created, IngestOutcome::Failed]);
    assert_eq!(dry[0].error.as_deref(), Some("the recipient is not sent this: manual"));
    let made = send(false).await;
    assert_eq!(tick(&engine).await.sent, 1);
    assert_eq!(mailbox.messages()[0].to, "+964 2");
    assert_eq!(log(&engine, made[0].instances[0].public_id).await, ["1 failed manual"]);
}

/// NTF-8, NTF-18: the language that somebody wants goes before the one that the event names.
async fn ntf_8_a_preferred_language_words_the_invitation(t: &Bench) {
    let (engine, mailbox) = engine(t).await;
    publish(&engine, survey(|_| {})).await;
    invite(&engine, "1").await;
    tick(&engine).await;
    prefer(&engine, ADDRESS, &json!({"locale": "en"})).await;
    invite(&engine, "2").await;
    tick(&engine).await;
    let locales: Vec<String> = mailbox.messages().iter().map(|letter| letter.locale.clone()).collect();
    assert_eq!(locales, ["ar", "en"]);
}

/// NTF-10: the provider's own template goes to the channel, with its parameters filled in.
async fn ntf_10_a_providers_own_template_invites(t: &Bench) {
    let (engine, _) = engine(t).await;
    publish(&engine, survey(|d| d["triggers"][0]["channel"] = json!("memory:whatsapp"))).await;
    let template = json!({"eventType": "survey.invitation", "channel": "WhatsApp", "language": "ar",
        "body": "a survey", "providerTemplate": {"key": "csi_invite", "language": "ar",
            "params": ["{{CustomerName}}", "{{surveyUrl}}"]}});
    engine.store().create_template(TENANT, read_template(&template)).await.unwrap();
    let id = invite(&engine, "1").await;
    assert_eq!(tick(&engine).await.sent, 1);
    let letter = engine.sandbox().unwrap().messages(&SandboxFilter::default(), 1).remove(0).message.clone();
    let own = letter.provider_template.expect("the provider's own template");
    let url = format!("https://survey.example/s/{id}");
    assert_eq!(
        *own,
        json!({"key": "csi_invite", "params": ["Kadhem Owaid", url], "language": "ar", "entityId": null})
    );
}

/// NTF-24: a channel's own number of tries holds for its invitations; later reminders still go.
async fn ntf_24_a_channels_tries_hold_for_invitations(t: &Bench) {
    let twice = RetryPolicy { max_attempts: 2, ..failure::patience() };
    let twice = policy(|policy| policy.patience = Some(twice));
    let (engine, mailbox) = engine_with(t, |b| b.channel_policy("memory:default", twice)).await;
    publish(&engine, survey(|_| {})).await;
    mailbox.fail_with(vec![transient(), transient()]);
    let id = invite(&engine, "1").await;
    engine.travel(t.now().await.plus(DAY / 2), true).await.unwrap();
    assert_eq!(log(&engine, id).await, ["1 failed", "1 failed"]);
    engine.travel(t.now().await.plus(DAY), true).await.unwrap();
    assert_eq!(log(&engine, id).await, ["1 failed", "1 failed", "2 delivered"]);
}

/// NTF-5: `survey:{publicId}:{n}` by its own channel, and with the channel behind it by another; each try of
/// either has the same key.
async fn ntf_5_the_key_of_a_fallback_names_the_send_and_its_channel(t: &Bench) {
    let other = policy(|policy| policy.fallback = Some("memory:sms".into()));
    let (engine, mailbox) = engine_with(t, |b| b.channel_policy("memory:default", other)).await;
    publish(&engine, survey(|_| {})).await;
    let refused = || Some(SendError::Permanent { error: "no such number".into() });
    mailbox.fail_with(vec![transient(), refused(), refused()]);
    let id = invite(&engine, "1").await;
    engine.travel(t.now().await.plus(2 * DAY), true).await.unwrap();
    let own: Vec<String> = mailbox.messages().iter().map(|m| m.idempotency_key.clone()).collect();
    assert_eq!(own, [format!("survey:{id}:1"), format!("survey:{id}:1"), format!("survey:{id}:2")]);
    let by_sms = engine.sandbox().unwrap().messages(&SandboxFilter::default(), 10);
    let by_sms: Vec<&str> = by_sms.iter().map(|got| got.message.idempotency_key.as_str()).collect();
    assert_eq!(by_sms, [format!("survey:{id}:1:memory:sms"), format!("survey:{id}:2:memory:sms")]);
    let keys = "select idempotency_key from punctual.delivery order by send, id";
    let stored = crate::notification::texts(t, keys).await;
    assert_eq!(stored, [own[0].as_str(), by_sms[0], &own[2], by_sms[1]], "as they are stored");
}

/// NTF-24: a channel with more tries waits 16 minutes before the sixth: 1, 2, 4, 8, 16, each up to a tenth
/// less.
async fn ntf_24_a_sixth_try_waits_sixteen_minutes(t: &Bench) {
    let six = RetryPolicy { max_attempts: 6, ..failure::patience() };
    let six = policy(|policy| policy.patience = Some(six));
    let (engine, mailbox) = engine_with(t, |b| b.channel_policy("memory:default", six)).await;
    publish(&engine, survey(|_| {})).await;
    mailbox.fail_with((0..5).map(|_| transient()).collect());
    let (id, start) = (invite(&engine, "1").await, t.now().await);
    let minutes = |n: u64| start.plus(seconds(60 * n));
    engine.travel(minutes(15), true).await.unwrap();
    assert_eq!(mailbox.messages().len(), 5, "1 + 2 + 4 + 8 minutes");
    engine.travel(minutes(27), true).await.unwrap();
    assert_eq!(mailbox.messages().len(), 5, "the sixth is not before nine tenths of 31 minutes");
    engine.travel(minutes(31), true).await.unwrap();
    assert_eq!(log(&engine, id).await[4..], ["1 failed", "1 delivered"]);
}

fn holding() -> ChannelPolicy {
    policy(|policy| policy.unknown = UnknownOutcomePolicy::Hold)
}

/// NTF-4: `unknown = "hold"`: what may have gone out is not sent twice; the reminder is another letter.
async fn ntf_4_an_invitation_that_may_have_gone_out_is_held(t: &Bench) {
    let (engine, mailbox) = engine_with(t, |b| b.channel_policy("memory:default", holding())).await;
    publish(&engine, survey(|_| {})).await;
    mailbox.fail_with(vec![timeout()]);
    let id = invite(&engine, "1").await;
    engine.travel(t.now().await.plus(DAY / 2), true).await.unwrap();
    assert_eq!((mailbox.messages().len(), log(&engine, id).await), (1, vec!["1 unknown".into()]));
    assert_eq!(error(&engine, id).await, "no answer in 10 s");
    assert_eq!(
        t.count("select count(*) from punctual.delivery where status = 5").await,
        1,
        "it is uncertain"
    );
    engine.travel(t.now().await.plus(DAY), true).await.unwrap();
    assert_eq!(log(&engine, id).await, ["1 unknown", "2 delivered"]);
}

/// NTF-4: so is one whose process was lost.
async fn ntf_4_a_lost_invitation_is_held(t: &Bench) {
    let (engine, mailbox) = engine_with(t, |b| b.channel_policy("memory:default", holding())).await;
    publish(&engine, survey(|d| d["triggers"][0]["schedule"]["reminders"] = json!([]))).await;
    let id = invite(&engine, "1").await;
    assert_eq!(claim(&engine).await.due.len(), 1);
    engine.travel(t.now().await.plus(DAY), true).await.unwrap();
    assert_eq!((mailbox.messages().len(), status(&engine, id).await), (0, EntryStatus::Failed));
    assert_eq!(log(&engine, id).await, ["1 unknown"]);
    let held =
        "select count(*) from punctual.delivery where status = 5 and error like '%does not send twice'";
    assert_eq!(t.count(held).await, 1, "it is uncertain, and says why");
}

/// NTF-4: whoever claims it after the loss and puts it back unused leaves it in doubt.
async fn ntf_4_a_lost_invitation_is_held_when_its_claim_was_put_back(t: &Bench) {
    let (engine, mailbox) = engine_with(t, |b| b.channel_policy("memory:default", holding())).await;
    publish(&engine, survey(|d| d["triggers"][0]["schedule"]["reminders"] = json!([]))).await;
    let id = invite(&engine, "1").await;
    assert!(!claim(&engine).await.due[0].lost, "nobody had it before");
    t.advance(seconds(31)).await;
    t.reap().await;
    t.advance(seconds(3_600)).await;
    let ClaimedDeliveries { token, due, .. } = claim(&engine).await;
    assert!(due[0].lost, "its process was lost");
    let unused = due.into_iter().map(|due| {
        let ending = DeliveryOutcome::NotBegun(due.delivery.due_at.unwrap());
        SettledDelivery { due, outcome: ending, entry: None }
    });
    let settled = engine.store().end_deliveries(token.unwrap(), unused.collect(), None).await.unwrap();
    assert_eq!(settled, DeliverySettlement::Done);
    engine.travel(t.now().await.plus(DAY), true).await.unwrap();
    assert_eq!((mailbox.messages().len(), status(&engine, id).await), (0, EntryStatus::Failed));
}

/// Claims what is due, as a process does.
async fn claim(engine: &Engine) -> ClaimedDeliveries {
    let begun = begin_sends(engine.store(), due_takes(engine.store(), Purpose::Advance).await).await;
    if begun.outgoing.token.is_some() {
        return begun.outgoing;
    }
    let takes = due_takes(engine.store(), Purpose::Send).await;
    let wish = ClaimRequest { owner: "lost".into(), lease: seconds(30), takes };
    engine
        .store()
        .begin_deliveries(wish, punctual::flow::rules::entry::EntryKind::Survey, SendTerms::default())
        .await
        .unwrap()
}

/// NTF-22: what failed is sent once more under its key, with tries of its own; what did not is left alone.
async fn ntf_22_a_failed_invitation_is_sent_once_more(t: &Bench) {
    let (engine, mailbox) = engine(t).await;
    publish(&engine, survey(|d| d["triggers"][0]["schedule"]["reminders"] = json!([]))).await;
    let fine = invite(&engine, "1").await;
    tick(&engine).await;
    let failing = invite(&engine, "2").await;
    mailbox.fail_with(vec![Some(SendError::Permanent { error: "no such number".into() })]);
    tick(&engine).await;
    assert_eq!(
        (status(&engine, failing).await, status(&engine, fine).await),
        (EntryStatus::Failed, EntryStatus::Sent)
    );
    let replay = async |dry_run| {
        let public_ids = Some(vec![failing, fine]);
        let which = ReplaySelection { public_ids, ..ReplaySelection::default() };
        engine.replay_failed(TENANT, which, ReplayMode::of(dry_run, author())).await.unwrap().instances
    };
    assert_eq!(replay(true).await, [failing]);
    assert_eq!(status(&engine, failing).await, EntryStatus::Failed, "a dry run writes nothing");
    mailbox.fail_with(vec![transient(), transient(), transient(), transient()]);
    assert_eq!(replay(false).await, [failing]);
    assert_eq!(replay(false).await, [], "it waits already");
    engine.travel(t.now().await.plus(DAY), true).await.unwrap();
    let tries = ["1 failed", "1 failed", "1 failed", "1 failed", "1 failed", "1 delivered"];
    assert_eq!(
        (log(&engine, failing).await, status(&engine, failing).await),
        (tries.map(String::from).to_vec(), EntryStatus::Sent)
    );
    let keys: Vec<String> = mailbox.messages().iter().map(|l| l.idempotency_key.clone()).collect();
    let of_failing = keys.iter().filter(|key| **key == format!("survey:{failing}:1"));
    assert_eq!(of_failing.collect::<std::collections::BTreeSet<_>>().len(), 1, "one key: {keys:?}");
}
