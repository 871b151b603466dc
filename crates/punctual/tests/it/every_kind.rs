//! One pipeline: what holds for one kind of entry holds for all. Each case runs for surveys and for
//! notifications, on both databases. A third kind joins by a variant of [`Kind`].

mod lost_sends;
mod story;

use crate::bench::{Bench, TENANT, author, replay, seconds};
use crate::invitation::{self, Mailbox, engine_with, publish, survey, time, transient};
use crate::notification::{self, booking, define, prefer};
use punctual::delivery::rules::channel::{ChannelPolicy, UnknownOutcomePolicy};
use punctual::delivery::rules::delivery::DeliveryStatus;
use punctual::delivery::rules::receipt::{Receipt, ReceiptStatus};
use punctual::delivery::rules::template::TemplateDefinition;
use punctual::delivery::run::channel::SendFuture;
use punctual::delivery::store::deliveries::log::{DeliveryFilter, LoggedDelivery};
use punctual::delivery::store::entries::actions::{
    ActionOutcome, EntryAction, EntryActionRequest, EntryReference,
};
use punctual::delivery::store::entries::replay::ReplayMode;
use punctual::delivery::store::entries::replay::ReplaySelection;
use punctual::delivery::store::receipts::ReceiptBatch;
use punctual::flow::rules::entity::NewEntityState;
use punctual::{
    AcceptedMessage, Channel, ClockMode, DeliveryId, Engine, Entity, EntryId, Problems, RenderedMessage,
    SendError, TemplateId,
};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

cases![
    ntf_19_each_send_is_in_the_communication_log,
    ntf_16_a_receipt_finds_its_delivery_by_the_providers_id,
    ntf_17_a_fallback_channel_takes_what_one_refuses,
    ntf_4_what_may_have_gone_out_is_held_by_policy,
    ntf_4_a_provider_that_takes_the_key_is_asked_again,
    ntf_4_a_provider_that_takes_the_key_leaves_nothing_uncertain,
    ntf_19_a_try_names_the_provider_that_it_was_handed_to,
    ntf_5_a_retry_has_the_key_and_the_words_of_its_first_try,
    ntf_5_a_text_of_our_own_stays_the_text_of_its_delivery,
    ntf_5_a_replay_has_the_words_of_its_delivery,
    ntf_18_a_suppressed_recipient_is_skipped_with_the_reason,
    ntf_18_quiet_hours_shift_a_send,
    ntf_10_a_missing_value_is_a_warning_in_the_log,
    ntf_22_what_failed_is_replayed_under_its_key,
    ntf_22_what_failed_is_replayed_by_filter,
    ntf_3_what_is_pointless_by_now_is_cancelled,
    rmd_20_a_held_entry_sends_nothing_until_it_is_released,
    rmd_20_a_cancelled_entry_sends_nothing_more,
    rmd_20_a_retry_does_not_wait_for_its_time,
    ntf_4_a_crash_leaves_only_the_window_in_doubt,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Survey,
    Notification,
}

impl Kind {
    const ALL: [Self; 2] = [Self::Survey, Self::Notification];

    const fn event_type(self) -> &'static str {
        match self {
            Self::Survey => "survey.invitation",
            Self::Notification => notification::KIND,
        }
    }

    /// The address of every recipient.
    const fn address(self) -> &'static str {
        match self {
            Self::Survey => "+964 770 000 0001",
            Self::Notification => "+919876543210",
        }
    }
}

/// An engine with one channel that plays a script, and a definition of the kind.
struct Desk {
    kind: Kind,
    engine: Engine,
    mailbox: Mailbox,
}

impl Desk {
    async fn open(t: &Bench, kind: Kind, policy: ChannelPolicy) -> Self {
        let (engine, mailbox) = engine_with(t, |b| b.channel_policy("memory:default", policy)).await;
        match kind {
            Kind::Survey => {
                let once = |d: &mut Value| d["triggers"][0]["schedule"]["reminders"] = json!([]);
                publish(&engine, survey(once)).await;
            }
            Kind::Notification => define(&engine, TENANT, |_| {}).await,
        }
        let desk = Self { kind, engine, mailbox };
        desk.template("Hello {{name}}").await;
        desk
    }

    async fn template(&self, body: &str) -> TemplateId {
        self.template_in("en", body).await
    }

    async fn template_in(&self, language: &str, body: &str) -> TemplateId {
        let json = json!({"eventType": self.kind.event_type(), "channel": "memory:default",
            "language": language, "body": body});
        let mut problems = Problems::default();
        let definition =
            TemplateDefinition::read(&json, &mut problems).unwrap_or_else(|| panic!("{problems}"));
        self.engine.store().create_template(TENANT, definition).await.unwrap().id
    }

    /// Hands in an event that leads to one delivery.
    async fn event(&self, id: &str) {
        match self.kind {
            Kind::Survey => drop(invitation::invite(&self.engine, id).await),
            Kind::Notification => {
                notification::confirm_in(&self.engine, TENANT, &booking(id)).await;
            }
        }
    }

    async fn tick(&self) {
        self.engine.tick(100).await.unwrap();
    }

    async fn travel(&self, t: &Bench, by: Duration) {
        self.engine.travel(t.now().await.plus(by), true).await.unwrap();
    }

    async fn log(&self) -> Vec<LoggedDelivery> {
        let all = DeliveryFilter::default();
        let mut log =
            self.engine.store().communication_log(TENANT, all, DeliveryId(i64::MAX), 500).await.unwrap();
        log.reverse();
        log
    }

    /// The statuses of all deliveries, in order.
    async fn statuses(&self) -> Vec<DeliveryStatus> {
        self.log().await.iter().map(|one| one.status).collect()
    }

    /// Drops a tick before its channel has answered, as a process does that is gone.
    async fn crash(&self) {
        self.mailbox.never_answer(true);
        let tick = self.engine.tick(1_000);
        tokio::time::timeout(Duration::from_millis(1_500), tick).await.unwrap_err();
        self.mailbox.never_answer(false);
    }

    fn keys(&self) -> Vec<String> {
        self.mailbox.messages().iter().map(|letter| letter.idempotency_key.clone()).collect()
    }

    async fn change(&self, action: EntryAction) -> ActionOutcome {
        let name = EntryReference::Id(EntryId(1));
        let change = EntryActionRequest { name, action, author: author() };
        self.engine.change_entry(TENANT, change).await.unwrap()
    }
}

fn policy(edit: impl FnOnce(&mut ChannelPolicy)) -> ChannelPolicy {
    let mut policy = ChannelPolicy::default();
    edit(&mut policy);
    policy
}

fn unknown() -> Option<SendError> {
    Some(SendError::Unknown { error: "no answer".into() })
}

fn silence() -> Option<SendError> {
    Some(SendError::NoAnswer { error: "no answer".into() })
}

fn refused() -> Option<SendError> {
    Some(SendError::Permanent { error: "no such number".into() })
}

/// NTF-19: channel, address, template, key, provider's id and every try, whatever the kind.
async fn ntf_19_each_send_is_in_the_communication_log(t: &Bench) {
    for kind in Kind::ALL {
        let t = &Bench::on(t.backend).await;
        let desk = Desk::open(t, kind, ChannelPolicy::default()).await;
        desk.mailbox.fail_with(vec![transient()]);
        desk.event("1").await;
        desk.travel(t, seconds(3_600)).await;
        let log = desk.log().await;
        let one = &log[0];
        let tries: Vec<&str> = one.tries.iter().map(|tried| tried.outcome.as_str()).collect();
        assert_eq!((log.len(), tries), (1, vec!["transient", "sent"]), "{kind:?}");
        assert_eq!((one.event_kind.as_str(), one.address.as_str()), (kind.event_type(), kind.address()));
        assert_eq!((one.template, one.template_version), (TemplateId(1), 1), "{kind:?}");
        assert_eq!(one.provider_id.as_deref(), Some("mem-1"), "{kind:?}");
        assert_eq!(desk.keys(), [one.idempotency_key.clone(), one.idempotency_key.clone()], "{kind:?}");
        let address = Some(kind.address().to_owned());
        let filter = DeliveryFilter { address, ..DeliveryFilter::default() };
        let found = desk.engine.store().communication_log(TENANT, filter, DeliveryId(i64::MAX), 9).await;
        assert_eq!(found.unwrap().len(), 1, "{kind:?} is found by its address");
    }
}

/// NTF-16
async fn ntf_16_a_receipt_finds_its_delivery_by_the_providers_id(t: &Bench) {
    for kind in Kind::ALL {
        let t = &Bench::on(t.backend).await;
        let desk = Desk::open(t, kind, ChannelPolicy::default()).await;
        desk.event("1").await;
        desk.tick().await;
        let receipt = Receipt {
            message_id: Some("mem-1".into()),
            address: None,
            status: ReceiptStatus::Delivered,
            said: "delivered".into(),
            error: None,
            event_id: None,
            occurred_at: None,
        };
        let batch = ReceiptBatch {
            provider: "p".into(),
            channels: vec!["memory:default".into()],
            receipts: vec![receipt],
        };
        assert_eq!(desk.engine.record_receipts(batch).await.unwrap().new.len(), 1, "{kind:?}");
        assert_eq!(desk.statuses().await, [DeliveryStatus::Delivered], "{kind:?}");
    }
}

/// NTF-17
async fn ntf_17_a_fallback_channel_takes_what_one_refuses(t: &Bench) {
    for kind in Kind::ALL {
        let t = &Bench::on(t.backend).await;
        let fallback = policy(|policy| policy.fallback = Some("memory:sms".into()));
        let desk = Desk::open(t, kind, fallback).await;
        desk.mailbox.fail_with(vec![refused()]);
        desk.event("1").await;
        desk.travel(t, seconds(60)).await;
        let log = desk.log().await;
        assert_eq!(desk.statuses().await, [DeliveryStatus::Failed, DeliveryStatus::Sent], "{kind:?}");
        assert_eq!(log[0].replaced_by, Some(log[1].id), "{kind:?}");
        assert_eq!((log[1].channel.as_str(), log[1].address.as_str()), ("memory:sms", kind.address()));
        let ended = t.count("select count(*) from punctual.entry where status = 1").await;
        assert_eq!(ended, 1, "{kind:?}: its entry is sent, not failed");
    }
}

/// NTF-4
async fn ntf_4_what_may_have_gone_out_is_held_by_policy(t: &Bench) {
    for kind in Kind::ALL {
        for (on_unknown, sends, status) in [
            (UnknownOutcomePolicy::Hold, 1, DeliveryStatus::Uncertain),
            (UnknownOutcomePolicy::default(), 2, DeliveryStatus::Sent),
        ] {
            let t = &Bench::on(t.backend).await;
            let desk = Desk::open(t, kind, policy(|policy| policy.unknown = on_unknown)).await;
            desk.mailbox.fail_with(vec![unknown()]);
            desk.event("1").await;
            desk.travel(t, seconds(3_600)).await;
            let seen = (desk.mailbox.messages().len(), desk.statuses().await);
            assert_eq!(seen, (sends, vec![status]), "{kind:?}, {on_unknown:?}");
        }
    }
}

/// NTF-4: where the provider takes our key, a send that may have gone out is made again under it, also by a
/// channel that is to hold.
async fn ntf_4_a_provider_that_takes_the_key_is_asked_again(t: &Bench) {
    for kind in Kind::ALL {
        for trouble in [unknown(), silence(), None] {
            let t = &Bench::on(t.backend).await;
            let desk =
                Desk::open(t, kind, policy(|policy| policy.unknown = UnknownOutcomePolicy::Hold)).await;
            desk.mailbox.take_keys();
            desk.event("1").await;
            match &trouble {
                Some(_) => desk.mailbox.fail_with(vec![trouble.clone()]),
                None => desk.crash().await,
            }
            desk.travel(t, seconds(3_600)).await;
            let key = desk.log().await[0].idempotency_key.clone();
            assert_eq!(desk.keys(), [key.clone(), key], "{kind:?}, {trouble:?}");
            assert_eq!(desk.statuses().await, [DeliveryStatus::Sent], "{kind:?}, {trouble:?}");
        }
    }
}

/// NTF-4: without more tries, and for a recipient who does not want it any more, such a delivery has failed.
async fn ntf_4_a_provider_that_takes_the_key_leaves_nothing_uncertain(t: &Bench) {
    for kind in Kind::ALL {
        for (trouble, sends) in [(unknown(), 2), (silence(), 5)] {
            let t = &Bench::on(t.backend).await;
            let desk =
                Desk::open(t, kind, policy(|policy| policy.unknown = UnknownOutcomePolicy::Hold)).await;
            desk.mailbox.take_keys();
            desk.mailbox.fail_with(vec![trouble; 9]);
            desk.event("1").await;
            desk.travel(t, seconds(3_600)).await;
            let seen = (desk.mailbox.messages().len(), desk.statuses().await);
            assert_eq!(seen, (sends, vec![DeliveryStatus::Failed]), "{kind:?}");
        }
        let t = &Bench::on(t.backend).await;
        let desk = Desk::open(t, kind, ChannelPolicy::default()).await;
        desk.mailbox.take_keys();
        desk.mailbox.fail_with(vec![silence()]);
        desk.event("1").await;
        desk.tick().await;
        let opt_out = json!({"optOuts": [{"channel": "memory:default"}]});
        prefer(&desk.engine, kind.address(), &opt_out).await;
        desk.travel(t, seconds(3_600)).await;
        let one = desk.log().await.remove(0);
        assert_eq!((desk.mailbox.messages().len(), one.status), (1, DeliveryStatus::Failed), "{kind:?}");
        let said = one.error.unwrap_or_default();
        assert!(said.starts_with("a try before may have gone out; it is not sent again"), "{said}");
    }
}

/// NTF-19: after a channel was given another provider, older tries name the one that they were handed to.
async fn ntf_19_a_try_names_the_provider_that_it_was_handed_to(t: &Bench) {
    for kind in Kind::ALL {
        let t = &Bench::on(t.backend).await;
        let mut desk = Desk::open(t, kind, ChannelPolicy::default()).await;
        desk.mailbox.fail_with(vec![transient()]);
        desk.event("1").await;
        desk.tick().await;
        desk.engine = Engine::builder(t.place.url())
            .on_store(t.another().await)
            .clock(ClockMode::Manual)
            .channel("memory:default", OtherProvider)
            .open()
            .await
            .unwrap();
        desk.travel(t, seconds(3_600)).await;
        let log = desk.log().await;
        let providers: Vec<Option<&str>> =
            log[0].tries.iter().map(|tried| tried.provider.as_deref()).collect();
        assert_eq!(providers, [Some("memory"), Some("other-provider")], "{kind:?}");
    }
}

/// A channel that takes everything.
struct OtherProvider;

impl Channel for OtherProvider {
    fn send(&self, _: Arc<RenderedMessage>) -> SendFuture {
        Box::pin(async { Ok(AcceptedMessage::default()) })
    }

    fn provider(&self) -> Option<&str> {
        Some("other-provider")
    }
}

/// What is done to a template while a delivery waits for its retry.
#[derive(Clone, Copy, Debug)]
enum TemplateChange {
    Text,
    Language,
    SwitchOff,
    Delete,
}

impl Desk {
    async fn change_template(&self, change: TemplateChange) {
        let (store, id) = (self.engine.store(), TemplateId(1));
        let mut definition = store.template(TENANT, id).await.unwrap().unwrap().definition;
        match change {
            TemplateChange::Text => definition.body = "Other words".into(),
            TemplateChange::Language => definition.language = "ar".into(),
            TemplateChange::SwitchOff => definition.active = Some(false),
            TemplateChange::Delete => {
                store.delete_template(TENANT, id).await.unwrap();
                return;
            }
        }
        store.change_template(TENANT, id, definition).await.unwrap();
    }

    /// Key, words and language of each message that the provider was given.
    fn words(&self) -> Vec<(String, String, String)> {
        let letters = self.mailbox.messages();
        let words = |letter: &Arc<RenderedMessage>| {
            (letter.idempotency_key.clone(), letter.body.clone(), letter.locale.clone())
        };
        letters.iter().map(words).collect()
    }
}

/// NTF-5: a template that changes between a try whose outcome nobody knows and its retry changes neither the
/// key nor the words: the version is fixed when the delivery is written.
async fn ntf_5_a_retry_has_the_key_and_the_words_of_its_first_try(t: &Bench) {
    use TemplateChange::{Delete, Language, SwitchOff, Text};
    for kind in Kind::ALL {
        for change in [Text, Language, SwitchOff, Delete] {
            let t = &Bench::on(t.backend).await;
            let desk = Desk::open(t, kind, ChannelPolicy::default()).await;
            desk.mailbox.fail_with(vec![unknown()]);
            desk.event("1").await;
            desk.tick().await;
            desk.change_template(change).await;
            desk.template("A newer template").await;
            desk.travel(t, seconds(3_600)).await;
            let words = desk.words();
            assert_eq!(words.len(), 2, "{kind:?}, {change:?}");
            assert!(words[0].1.starts_with("Hello") && words[0] == words[1], "{change:?}: {words:?}");
            let log = desk.log().await;
            assert_eq!(
                (log[0].template, log[0].template_version),
                (TemplateId(1), 1),
                "{kind:?}, {change:?}"
            );
            assert_eq!(log[0].status, DeliveryStatus::Sent, "{kind:?}, {change:?}");
        }
    }
}

/// NTF-5: a survey without a template has our own words, also when a template and another language of its
/// reader come before the retry.
async fn ntf_5_a_text_of_our_own_stays_the_text_of_its_delivery(t: &Bench) {
    let desk = Desk::open(t, Kind::Survey, ChannelPolicy::default()).await;
    desk.change_template(TemplateChange::Delete).await;
    desk.mailbox.fail_with(vec![unknown()]);
    desk.event("1").await;
    desk.tick().await;
    desk.template("A newer template").await;
    prefer(&desk.engine, Kind::Survey.address(), &json!({"locale": "en"})).await;
    desk.travel(t, seconds(3_600)).await;
    let words = desk.words();
    assert_eq!((words.len(), words[0].2.as_str()), (2, "ar"), "{words:?}");
    assert_eq!(words[0], words[1]);
    let log = desk.log().await;
    assert_eq!((log[0].template, log[0].template_version), (TemplateId(0), 2));
}

/// NTF-5, NTF-22: so does what is replayed; a new send has the newer words.
async fn ntf_5_a_replay_has_the_words_of_its_delivery(t: &Bench) {
    for kind in Kind::ALL {
        let t = &Bench::on(t.backend).await;
        let desk = Desk::open(t, kind, ChannelPolicy::default()).await;
        desk.mailbox.fail_with(vec![refused()]);
        desk.event("1").await;
        desk.tick().await;
        desk.change_template(TemplateChange::Text).await;
        assert_eq!(desk.change(EntryAction::Retry).await, ActionOutcome::Done, "{kind:?}");
        desk.tick().await;
        desk.event("2").await;
        desk.tick().await;
        let words = desk.words();
        assert_eq!(words.len(), 3, "{kind:?}");
        assert_eq!((&words[0], words[2].1.as_str()), (&words[1], "Other words"), "{kind:?}");
        let versions: Vec<u32> = desk.log().await.iter().map(|one| one.template_version).collect();
        assert_eq!(versions, [1, 2], "{kind:?}");
    }
}

/// NTF-18
async fn ntf_18_a_suppressed_recipient_is_skipped_with_the_reason(t: &Bench) {
    for kind in Kind::ALL {
        let t = &Bench::on(t.backend).await;
        let desk = Desk::open(t, kind, ChannelPolicy::default()).await;
        let opt_out = json!({"optOuts": [{"channel": "memory:default"}]});
        prefer(&desk.engine, kind.address(), &opt_out).await;
        desk.event("1").await;
        desk.tick().await;
        assert_eq!(desk.statuses().await, [DeliveryStatus::Skipped], "{kind:?}");
        assert_eq!(desk.mailbox.messages().len(), 0, "{kind:?}");
        let reasons = t.texts("select reason from punctual.delivery_attempt where outcome = 'skipped'").await;
        assert_eq!(reasons, [[Some("opted-out".to_owned())]], "{kind:?}");
    }
}

/// NTF-18: shifted, never dropped. The clock stands at 05:13 UTC.
async fn ntf_18_quiet_hours_shift_a_send(t: &Bench) {
    for kind in Kind::ALL {
        let t = &Bench::on(t.backend).await;
        let desk = Desk::open(t, kind, ChannelPolicy::default()).await;
        let quiet = json!({"quietHours": {"from": "22:00", "to": "07:00"}, "timeZone": "UTC"});
        prefer(&desk.engine, kind.address(), &quiet).await;
        desk.event("1").await;
        desk.tick().await;
        assert_eq!(desk.mailbox.messages().len(), 0, "{kind:?}");
        let log = desk.log().await;
        assert_eq!(log[0].due_at, Some(time("2026-05-14T07:00:00Z")), "{kind:?}");
        assert!(log[0].tries.is_empty(), "{kind:?}: it uses up no try");
        desk.travel(t, seconds(2 * 3_600)).await;
        assert_eq!(desk.statuses().await, [DeliveryStatus::Sent], "{kind:?}");
    }
}

/// NTF-9, NTF-10
async fn ntf_10_a_missing_value_is_a_warning_in_the_log(t: &Bench) {
    for kind in Kind::ALL {
        let t = &Bench::on(t.backend).await;
        let desk = Desk::open(t, kind, ChannelPolicy::default()).await;
        desk.engine.store().delete_template(TENANT, TemplateId(1)).await.unwrap();
        desk.template("Hello {{nobodyNamedThis}}").await;
        desk.event("1").await;
        desk.tick().await;
        let log = desk.log().await;
        assert_eq!(log[0].status, DeliveryStatus::Sent, "{kind:?}: it never fails the send");
        let warnings = &log[0].tries[0].warnings;
        assert!(warnings.iter().any(|said| said.contains("nobodyNamedThis")), "{kind:?}: {warnings:?}");
    }
}

/// NTF-22
async fn ntf_22_what_failed_is_replayed_under_its_key(t: &Bench) {
    for kind in Kind::ALL {
        let t = &Bench::on(t.backend).await;
        let desk = Desk::open(t, kind, ChannelPolicy::default()).await;
        desk.mailbox.fail_with(vec![refused()]);
        desk.event("1").await;
        desk.tick().await;
        assert_eq!(desk.statuses().await, [DeliveryStatus::Failed], "{kind:?}");
        assert_eq!(desk.change(EntryAction::Retry).await, ActionOutcome::Done, "{kind:?}");
        desk.tick().await;
        let keys = desk.keys();
        assert_eq!((keys.len(), &keys[0]), (2, &keys[1]), "{kind:?}");
        assert_eq!(desk.statuses().await, [DeliveryStatus::Sent], "{kind:?}");
    }
}

/// NTF-3: an entity that is gone, or for which `cancelWhen` holds, when a retry is due: nothing is sent, and
/// the entry is cancelled, not failed.
async fn ntf_3_what_is_pointless_by_now_is_cancelled(t: &Bench) {
    for kind in Kind::ALL {
        for (gone, reason) in [(true, "EntityDeleted"), (false, "CancelWhen")] {
            let t = &Bench::on(t.backend).await;
            let desk = Desk::open(t, kind, ChannelPolicy::default()).await;
            let cancel = json!({"questionId": "entity.status", "op": "==", "value": "Closed"});
            let definition = json!({"topic": "visits", "entityType": "booking", "cancelWhen": cancel,
                "recipients": {"phone": "phone"}});
            match kind {
                Kind::Survey => {
                    desk.engine.put_event_kind(TENANT, "service-visit-closed", definition).await.unwrap();
                }
                Kind::Notification => define(&desk.engine, TENANT, |d| d["cancelWhen"] = cancel).await,
            }
            desk.mailbox.fail_with(vec![transient()]);
            desk.event("1").await;
            desk.tick().await;
            t.texts("update punctual.entry set entity_type = 'booking', entity_id = '1'").await;
            let entity = Entity { kind: "booking".into(), id: "1".into() };
            if gone {
                desk.engine.store().delete_entity(TENANT, entity, None).await.unwrap();
            } else {
                let state =
                    NewEntityState { entity, state: json!({"status": "Closed"}).to_string(), version: None };
                desk.engine.store().put_entity(TENANT, state).await.unwrap();
            }
            desk.travel(t, seconds(3_600)).await;
            assert_eq!(desk.mailbox.messages().len(), 1, "{kind:?}, {reason}: one try, before");
            assert_eq!(desk.statuses().await, [DeliveryStatus::Skipped], "{kind:?}, {reason}");
            let ended = t.ints("select status from punctual.entry").await;
            assert_eq!(ended, [[Some(5)]], "{kind:?}, {reason}: cancelled");
            let said = "select reason from punctual.delivery_attempt where outcome = 'skipped'";
            assert_eq!(t.texts(said).await, [[Some(reason.to_owned())]], "{kind:?}");
        }
    }
}

/// NTF-22: one verb with the same filters for every kind; a dry run counts the same and writes nothing.
async fn ntf_22_what_failed_is_replayed_by_filter(t: &Bench) {
    for kind in Kind::ALL {
        let t = &Bench::on(t.backend).await;
        let desk = Desk::open(t, kind, ChannelPolicy::default()).await;
        desk.mailbox.fail_with(vec![refused(), None, refused()]);
        for id in ["1", "2"] {
            desk.event(id).await;
            desk.tick().await;
        }
        let between = t.now().await.plus(seconds(60));
        desk.travel(t, seconds(120)).await;
        desk.event("3").await;
        desk.tick().await;
        use DeliveryStatus::{Failed, Sent, Uncertain};
        assert_eq!(desk.statuses().await, [Failed, Sent, Failed], "{kind:?}");
        let all = ReplaySelection::default;
        let text = |text: &str| Some(text.to_owned());
        let filters = [
            ("none", all(), 2),
            ("channel", ReplaySelection { channel: text("memory:default"), ..all() }, 2),
            ("another channel", ReplaySelection { channel: text("memory:other"), ..all() }, 0),
            ("failed", ReplaySelection { status: Some(Failed), ..all() }, 2),
            ("uncertain", ReplaySelection { status: Some(Uncertain), ..all() }, 0),
            ("event kind", ReplaySelection { kind: text(kind.event_type()), ..all() }, 2),
            ("another kind", ReplaySelection { kind: text("other.kind"), ..all() }, 0),
            ("from", ReplaySelection { from: Some(between), ..all() }, 1),
            ("to", ReplaySelection { to: Some(between), ..all() }, 1),
            ("another entity", ReplaySelection { entity_id: text("none"), ..all() }, 0),
        ];
        let before = t.dump().await;
        for (name, which, again) in &filters {
            let would = desk.engine.replay_failed(TENANT, which.clone(), ReplayMode::DryRun).await.unwrap();
            assert_eq!((would.again, would.told.len()), (*again, again_told(*again)), "{kind:?}, {name}");
        }
        before.assert_equals(&t.dump().await, "a dry run");
        for (from, statuses) in [(Some(between), [Failed, Sent, Sent]), (None, [Sent, Sent, Sent])] {
            let which = ReplaySelection { from, channel: text("memory:default"), ..all() };
            assert_eq!(
                desk.engine.replay_failed(TENANT, which, replay()).await.unwrap().again,
                1,
                "{kind:?}"
            );
            desk.tick().await;
            assert_eq!(desk.statuses().await, statuses, "{kind:?}");
        }
        let mut keys = desk.keys();
        assert_eq!(keys.len(), 5, "{kind:?}");
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 3, "{kind:?}: each under its key");
        assert_eq!(desk.engine.replay_failed(TENANT, all(), replay()).await.unwrap().again, 0, "{kind:?}");
    }
}

fn again_told(again: u64) -> usize {
    usize::try_from(again).unwrap()
}

/// RMD-20: held with a reason, in the list, and released; the history says who did what.
async fn rmd_20_a_held_entry_sends_nothing_until_it_is_released(t: &Bench) {
    for kind in Kind::ALL {
        let t = &Bench::on(t.backend).await;
        let desk = Desk::open(t, kind, ChannelPolicy::default()).await;
        desk.mailbox.fail_with(vec![transient()]);
        desk.event("1").await;
        desk.tick().await;
        assert_eq!(desk.change(EntryAction::Hold).await, ActionOutcome::Done, "{kind:?}");
        let held = desk.engine.store().scheduled_entry(TENANT, EntryId(1)).await.unwrap().unwrap();
        assert_eq!(held.entry.hold.map(|hold| hold.reason).as_deref(), Some("asked for"), "{kind:?}");
        desk.travel(t, seconds(24 * 3_600)).await;
        assert_eq!(desk.mailbox.messages().len(), 1, "{kind:?}: nothing is sent while it is held");
        assert_eq!(desk.change(EntryAction::Release).await, ActionOutcome::Done, "{kind:?}");
        desk.travel(t, seconds(60)).await;
        assert_eq!(desk.statuses().await, [DeliveryStatus::Sent], "{kind:?}");
        assert!(matches!(desk.change(EntryAction::Release).await, ActionOutcome::Refused(_)), "{kind:?}");
        let history = desk.engine.store().entry_history(TENANT, EntryId(1)).await.unwrap();
        let told: Vec<(&str, &str)> =
            history.iter().map(|line| (line.action.as_str(), line.actor.as_str())).collect();
        assert_eq!(told, [("held", "sue"), ("released", "sue")], "{kind:?}");
    }
}

/// RMD-20, TRG-16
async fn rmd_20_a_cancelled_entry_sends_nothing_more(t: &Bench) {
    for kind in Kind::ALL {
        let t = &Bench::on(t.backend).await;
        let desk = Desk::open(t, kind, ChannelPolicy::default()).await;
        desk.mailbox.fail_with(vec![transient()]);
        desk.event("1").await;
        desk.tick().await;
        assert_eq!(desk.change(EntryAction::Cancel).await, ActionOutcome::Done, "{kind:?}");
        assert_eq!(desk.statuses().await, [DeliveryStatus::Skipped], "{kind:?}");
        desk.travel(t, seconds(24 * 3_600)).await;
        assert_eq!(desk.mailbox.messages().len(), 1, "{kind:?}");
        assert_eq!(t.count("select count(*) from punctual.entry where status = 5").await, 1, "{kind:?}");
        assert!(matches!(desk.change(EntryAction::Hold).await, ActionOutcome::Refused(_)), "{kind:?}");
    }
}

/// RMD-20
async fn rmd_20_a_retry_does_not_wait_for_its_time(t: &Bench) {
    for kind in Kind::ALL {
        let t = &Bench::on(t.backend).await;
        let desk = Desk::open(t, kind, ChannelPolicy::default()).await;
        desk.mailbox.fail_with(vec![transient()]);
        desk.event("1").await;
        desk.tick().await;
        desk.tick().await;
        assert_eq!(desk.mailbox.messages().len(), 1, "{kind:?}: it waits for its time");
        assert_eq!(desk.change(EntryAction::Retry).await, ActionOutcome::Done, "{kind:?}");
        desk.tick().await;
        assert_eq!(desk.statuses().await, [DeliveryStatus::Sent], "{kind:?}");
    }
}

/// NTF-4: of 200 deliveries in one claim, only the window may have gone out when their process is gone.
async fn ntf_4_a_crash_leaves_only_the_window_in_doubt(t: &Bench) {
    for kind in Kind::ALL {
        let t = &Bench::on(t.backend).await;
        let holding = policy(|policy| policy.unknown = UnknownOutcomePolicy::Hold);
        let desk = Desk::open(t, kind, holding).await;
        for n in 0..200 {
            desk.event(&n.to_string()).await;
        }
        desk.crash().await;
        let begun = desk.mailbox.messages().len();
        assert_eq!(begun, 64, "{kind:?}: no more are begun than may be in doubt");
        desk.travel(t, seconds(3_600)).await;
        let statuses = desk.statuses().await;
        let count = |status| statuses.iter().filter(|one| **one == status).count();
        let seen = (count(DeliveryStatus::Uncertain), count(DeliveryStatus::Sent));
        assert_eq!(seen, (64, 136), "{kind:?}");
        let classes = "select distinct reason_class from punctual.delivery_attempt where outcome = 'unknown'";
        let lost = "the sender crashed before it stored the outcome; the message may have gone out";
        assert_eq!(t.texts(classes).await, [[Some(lost.to_owned())]], "{kind:?}: they are one class");
    }
}
