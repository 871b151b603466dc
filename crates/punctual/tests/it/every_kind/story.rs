//! What the tables keep of an entry beside its deliveries: history, traces, counts; and what happens to
//! deliveries in flight while a person changes their entry.

use super::{Desk, Kind, policy, refused, unknown};
use crate::bench::{Bench, TENANT, author, fail, replay, seconds};
use crate::dump::first_column;
use crate::invitation::{self, engine_with, publish, survey, transient};
use crate::notification::{self, booking, define, prefer};
use punctual::delivery::rules::channel::{ChannelPolicy, UnknownOutcomePolicy};
use punctual::delivery::rules::delivery::DeliveryStatus;
use punctual::delivery::rules::receipt::{Receipt, ReceiptStatus};
use punctual::delivery::store::entries::actions::{
    ActionOutcome, EntryAction, EntryActionRequest, EntryReference,
};
use punctual::delivery::store::entries::replay::ReplaySelection;
use punctual::delivery::store::receipts::ReceiptBatch;
use punctual::flow::rules::entity::NewEntityState;
use punctual::flow::rules::public_id::PublicId;
use punctual::flow::store::entries::lists::EntryFilter;
use punctual::operate::run::prune::RetentionSettings;
use punctual::queue::rules::message::Entity;
use punctual::{EntryId, NewMessage, NewTimer, TemplateId};
use serde_json::{Value, json};
use std::time::Duration;

cases![
    rmd_20_every_change_of_an_entry_has_a_line_of_history,
    rmd_20_the_end_of_a_survey_has_a_line_of_history,
    rmd_20_what_was_loaded_and_resolved_is_kept,
    ntf_22_what_failed_while_it_was_held_is_sent_by_a_replay,
    trg_16_what_ends_behind_the_window_is_not_sent,
    trg_16_who_opts_out_behind_the_window_is_sent_nothing_more,
    rmd_20_what_is_held_behind_the_window_waits,
    ntf_16_a_bounce_and_its_fallback_are_counted_once,
    ntf_16_a_bounce_beside_a_cancellation_sends_nothing_more,
    ntf_16_a_bounce_after_a_deletion_sends_nothing_more,
    ntf_5_a_skip_after_a_lost_try_keeps_its_key,
    ntf_20_schedules_are_listed_by_entity_and_by_key,
    ntf_19_the_retention_of_the_log_spares_answers,
    plt_8_surveys_are_kept_as_long_as_configured,
    plt_4_attempts_and_dead_letters_have_a_reason_class,
    plt_29_topics_of_the_engine_are_not_published_to,
];

impl Desk {
    /// Hands in an event about a booking.
    async fn event_about(&self, id: &str) {
        match self.kind {
            Kind::Survey => {
                let mut visit = invitation::visit(id, "GR");
                visit["entity"] = json!({"type": "booking", "id": id});
                invitation::ingest(&self.engine, vec![visit]).await;
            }
            Kind::Notification => {
                let event = NewMessage::new(notification::TOPIC, notification::KIND, booking(id).to_string());
                self.engine.enqueue_one(TENANT, event.entity("booking", id)).await.unwrap();
            }
        }
    }

    async fn history(&self, entry: i64) -> Vec<String> {
        let changes = self.engine.store().entry_history(TENANT, EntryId(entry)).await.unwrap();
        changes.iter().map(|c| format!("{} {} -> {} by {}", c.action, c.from, c.to, c.actor)).collect()
    }

    async fn ids(&self) -> Vec<PublicId> {
        let filter = EntryFilter::default();
        let all = self.engine.store().entries(TENANT, filter, EntryId(i64::MAX), 500).await.unwrap();
        let mut ids: Vec<_> = all.iter().map(|entry| (entry.id, entry.public_id)).collect();
        ids.sort_unstable();
        ids.into_iter().filter_map(|(_, id)| id).collect()
    }
}

/// RMD-20: who changed it, from what to what.
async fn rmd_20_every_change_of_an_entry_has_a_line_of_history(t: &Bench) {
    for kind in Kind::ALL {
        let t = &Bench::on(t.backend).await;
        let desk = Desk::open(t, kind, ChannelPolicy::default()).await;
        desk.mailbox.fail_with(vec![refused(), refused(), transient()]);
        desk.event("1").await;
        desk.tick().await;
        assert_eq!(desk.change(EntryAction::Retry).await, ActionOutcome::Done, "{kind:?}");
        desk.tick().await;
        let all = ReplaySelection::default();
        assert_eq!(desk.engine.replay_failed(TENANT, all, replay()).await.unwrap().again, 1, "{kind:?}");
        desk.tick().await;
        for action in [EntryAction::Hold, EntryAction::Release, EntryAction::Retry] {
            assert_eq!(desk.change(action).await, ActionOutcome::Done, "{kind:?}");
        }
        desk.mailbox.fail_with(vec![transient()]);
        desk.tick().await;
        for action in [EntryAction::Hold, EntryAction::Cancel] {
            assert_eq!(desk.change(action).await, ActionOutcome::Done, "{kind:?}");
        }
        assert_eq!(
            desk.history(1).await,
            [
                "retried Failed -> Pending by sue",
                "retried Failed -> Pending by sue",
                "held Pending -> OnHold by sue",
                "released OnHold -> Pending by sue",
                "retried Pending -> Pending by sue",
                "held Pending -> OnHold by sue",
                "cancelled OnHold -> Cancelled by sue",
            ],
            "{kind:?}"
        );
    }
}

/// RMD-20: expired, stopped by an event, deleted; what changes nothing leaves no line.
async fn rmd_20_the_end_of_a_survey_has_a_line_of_history(t: &Bench) {
    let desk = Desk::open(t, Kind::Survey, ChannelPolicy::default()).await;
    for id in ["1", "2", "3"] {
        desk.event(id).await;
    }
    desk.tick().await;
    let ids = desk.ids().await;
    let change = async |id: PublicId, action| {
        let request = EntryActionRequest { name: EntryReference::PublicId(id), action, author: author() };
        assert_eq!(desk.engine.change_entry(TENANT, request).await.unwrap(), ActionOutcome::Done);
    };
    change(ids[1], EntryAction::Cancel).await;
    change(ids[1], EntryAction::Cancel).await;
    change(ids[2], EntryAction::Delete).await;
    desk.travel(t, seconds(60 * 24 * 3_600)).await;
    assert_eq!(desk.history(1).await, ["expired Sent -> Expired by engine"]);
    assert_eq!(desk.history(2).await, ["cancelled Sent -> Cancelled by sue"]);
    assert_eq!(desk.history(3).await, ["deleted Sent -> Deleted by sue"]);
}

/// RMD-3, RMD-20: input hash, zone and local date stand in the entry. What was loaded for it and that neither
/// it nor its deliveries say, such as the language that a recipient prefers, stands beside it for a shorter
/// time.
async fn rmd_20_what_was_loaded_and_resolved_is_kept(t: &Bench) {
    for kind in Kind::ALL {
        let t = &Bench::on(t.backend).await;
        let desk = Desk::open(t, kind, ChannelPolicy::default()).await;
        desk.template_in("ar", "{{name}}").await;
        prefer(&desk.engine, kind.address(), &json!({"locale": "ar"})).await;
        let entity = Entity { kind: "booking".into(), id: "1".into() };
        let state = NewEntityState { entity, state: json!({"status": "Open"}).to_string(), version: None };
        desk.engine.store().put_entity(TENANT, state).await.unwrap();
        desk.event_about("1").await;
        desk.tick().await;
        desk.event("2").await;
        desk.tick().await;
        let rows = t.texts("select input_hash, time_zone, local_date from punctual.entry order by id").await;
        let hash = |n: usize| rows[n][0].clone().unwrap();
        assert_eq!(hash(0).len(), 64, "{kind:?}");
        assert_ne!(hash(0), hash(1), "{kind:?}: another event is another input");
        let place: Vec<Option<&str>> = rows[0][1..].iter().map(Option::as_deref).collect();
        assert_eq!(place, [Some("UTC"), Some("2026-05-14")], "{kind:?}");
        let traces = desk.engine.store().entry_traces(TENANT, EntryId(1)).await.unwrap();
        let step = if kind == Kind::Survey { "advanced" } else { "planned" };
        assert_eq!(traces.iter().map(|trace| trace.step.as_str()).collect::<Vec<_>>(), [step], "{kind:?}");
        let detail: Value = serde_json::from_str(&traces[0].detail).unwrap();
        match kind {
            Kind::Survey => assert_eq!(detail, json!({"send": 1, "preferredLocale": "ar"})),
            Kind::Notification => assert_eq!(detail, json!({"entityState": "known"})),
        }
        let unknown = desk.engine.store().entry_traces(TENANT, EntryId(2)).await.unwrap();
        assert_eq!(unknown.len(), usize::from(kind == Kind::Survey), "{kind:?}: nothing was loaded");
        let entry = desk.engine.store().entries_by_id(vec![EntryId(1)]).await.unwrap().remove(0);
        let version = (kind == Kind::Notification).then_some(1);
        assert_eq!(entry.event_kind_version, version, "{kind:?}");
        let first = desk.log().await.remove(0);
        assert_eq!((first.template, first.template_version), (TemplateId(2), 1), "{kind:?}");
        desk.travel(t, seconds(31 * 24 * 3_600)).await;
        let left = desk.engine.store().entry_traces(TENANT, EntryId(1)).await.unwrap();
        assert_eq!(left.len(), 0, "{kind:?}: traces go before their entry");
        assert_eq!(t.count("select count(*) from punctual.entry").await, 2, "{kind:?}");
    }
}

/// RMD-20, NTF-22: a hold that ends with its entry leaves nothing held.
async fn ntf_22_what_failed_while_it_was_held_is_sent_by_a_replay(t: &Bench) {
    for kind in Kind::ALL {
        let t = &Bench::on(t.backend).await;
        let desk = Desk::open(t, kind, ChannelPolicy::default()).await;
        desk.mailbox.fail_with(vec![refused()]);
        desk.event("1").await;
        let silence = desk.mailbox.hold_answers().await;
        let held = async {
            desk.mailbox.wait_for(1).await;
            assert_eq!(desk.change_alone(EntryAction::Hold).await, ActionOutcome::Done, "{kind:?}");
            drop(silence);
        };
        tokio::join!(desk.tick(), held);
        assert_eq!(desk.statuses().await, [DeliveryStatus::Failed], "{kind:?}");
        assert_eq!(desk.change(EntryAction::Retry).await, ActionOutcome::Done, "{kind:?}");
        desk.tick().await;
        assert_eq!(desk.statuses().await, [DeliveryStatus::Sent], "{kind:?}");
    }
}

impl Desk {
    /// Changes the first entry while the engine is busy.
    async fn change_alone(&self, action: EntryAction) -> ActionOutcome {
        self.change_entry_alone(EntryId(1), action).await
    }

    async fn change_entry_alone(&self, entry: EntryId, action: EntryAction) -> ActionOutcome {
        let request = EntryActionRequest { name: EntryReference::Id(entry), action, author: author() };
        self.engine.store().change_entry(TENANT, request).await.unwrap()
    }

    /// Changes the entry of the last of 100 deliveries of one claim while the first window is out; returns
    /// that entry.
    async fn change_behind_the_window(&self, t: &Bench, action: EntryAction) -> EntryId {
        let change = async {
            let last = "select entry_id from punctual.delivery order by id desc limit 1";
            let last = EntryId(t.count(last).await);
            assert_eq!(self.change_entry_alone(last, action).await, ActionOutcome::Done);
            last
        };
        self.behind_the_window(change).await
    }

    /// Lets 100 events come to deliveries of one claim, awaits the change while the first window is out, and
    /// lets the channel answer.
    async fn behind_the_window<T>(&self, change: impl Future<Output = T>) -> T {
        for n in 0..100 {
            self.event(&n.to_string()).await;
        }
        let silence = self.mailbox.hold_answers().await;
        let changed = async {
            self.mailbox.wait_for(64).await;
            let done = change.await;
            drop(silence);
            done
        };
        let tick = async { self.engine.tick(1_000).await.unwrap() };
        tokio::join!(tick, changed).1
    }
}

/// TRG-16, NTF-4: a delivery that was claimed and not begun is not sent any more when its entry has ended.
async fn trg_16_what_ends_behind_the_window_is_not_sent(t: &Bench) {
    for kind in Kind::ALL {
        let t = &Bench::on(t.backend).await;
        let desk = Desk::open(t, kind, ChannelPolicy::default()).await;
        desk.change_behind_the_window(t, EntryAction::Cancel).await;
        assert_eq!(desk.mailbox.messages().len(), 99, "{kind:?}");
        assert_eq!(desk.statuses().await[99], DeliveryStatus::Skipped, "{kind:?}");
        assert_eq!(
            t.count(
                "select count(*) from punctual.work w join punctual.lane l on l.id = w.lane_id \
            where l.purpose = 'send'"
            )
            .await,
            0,
            "{kind:?}"
        );
    }
}

/// TRG-16, NTF-18: who opts out while a window is out is sent what has begun, and nothing that is behind it.
async fn trg_16_who_opts_out_behind_the_window_is_sent_nothing_more(t: &Bench) {
    for kind in Kind::ALL {
        let t = &Bench::on(t.backend).await;
        let desk = Desk::open(t, kind, ChannelPolicy::default()).await;
        let opts_out = json!({"optOuts": [{"kind": kind.event_type()}]});
        desk.behind_the_window(prefer(&desk.engine, kind.address(), &opts_out)).await;
        desk.travel(t, seconds(3_600)).await;
        assert_eq!(desk.mailbox.messages().len(), 64, "{kind:?}: only what had begun");
        let skipped = "select count(*) from punctual.delivery_attempt where reason = 'opted-out'";
        assert_eq!(t.count(skipped).await, 36, "{kind:?}");
    }
}

/// RMD-20: one that was put on hold meanwhile waits until it is released.
async fn rmd_20_what_is_held_behind_the_window_waits(t: &Bench) {
    for kind in Kind::ALL {
        let t = &Bench::on(t.backend).await;
        let desk = Desk::open(t, kind, ChannelPolicy::default()).await;
        let held = desk.change_behind_the_window(t, EntryAction::Hold).await;
        desk.travel(t, seconds(3_600)).await;
        assert_eq!(desk.mailbox.messages().len(), 99, "{kind:?}");
        assert_eq!(desk.change_entry_alone(held, EntryAction::Release).await, ActionOutcome::Done);
        desk.travel(t, seconds(60)).await;
        assert_eq!(desk.mailbox.messages().len(), 100, "{kind:?}");
    }
}

fn bounced() -> ReceiptBatch {
    let receipt = Receipt {
        message_id: Some("mem-1".into()),
        address: None,
        status: ReceiptStatus::Failed,
        said: "undelivered".into(),
        error: None,
        event_id: None,
        occurred_at: None,
    };
    ReceiptBatch { provider: "p".into(), channels: vec!["memory:default".into()], receipts: vec![receipt] }
}

/// NTF-16, NTF-17: what did not arrive goes by the other channel, and the entry counts one message.
async fn ntf_16_a_bounce_and_its_fallback_are_counted_once(t: &Bench) {
    for kind in Kind::ALL {
        let t = &Bench::on(t.backend).await;
        let desk = Desk::open(t, kind, policy(|policy| policy.fallback = Some("memory:sms".into()))).await;
        desk.event("1").await;
        desk.tick().await;
        desk.engine.record_receipts(bounced()).await.unwrap();
        desk.tick().await;
        assert_eq!(desk.statuses().await, [DeliveryStatus::Failed, DeliveryStatus::Sent], "{kind:?}");
        let counts = t.ints("select sent, failed from punctual.entry").await;
        assert_eq!(counts, [[Some(1), Some(0)]], "{kind:?}");
    }
}

/// NTF-16, TRG-16: whatever comes first, an entry that is cancelled has nothing left to send.
async fn ntf_16_a_bounce_beside_a_cancellation_sends_nothing_more(t: &Bench) {
    for round in 0..12 {
        let t = &Bench::on(t.backend).await;
        let desk =
            Desk::open(t, Kind::Survey, policy(|policy| policy.fallback = Some("memory:sms".into()))).await;
        desk.event("1").await;
        desk.tick().await;
        let cancel = async {
            tokio::time::sleep(Duration::from_micros(200 * round)).await;
            desk.change_alone(EntryAction::Cancel).await
        };
        let (heard, cancelled) = tokio::join!(desk.engine.record_receipts(bounced()), cancel);
        heard.unwrap();
        assert_eq!(cancelled, ActionOutcome::Done, "round {round}");
        desk.travel(t, seconds(3_600)).await;
        let pending = "select count(*) from punctual.delivery where status = 0";
        assert_eq!(t.count(pending).await, 0, "round {round}: nothing waits");
        let late = "select count(*) from punctual.delivery d join punctual.entry e on e.id = d.entry_id \
            where d.sent_at > e.ended_at";
        assert_eq!(t.count(late).await, 0, "round {round}: nothing went out after the end");
    }
}

/// NTF-16: a person who deletes an entry wants nothing more of it, also when a receipt says later that its
/// message did not arrive.
async fn ntf_16_a_bounce_after_a_deletion_sends_nothing_more(t: &Bench) {
    for kind in Kind::ALL {
        let t = &Bench::on(t.backend).await;
        let desk = Desk::open(t, kind, policy(|policy| policy.fallback = Some("memory:sms".into()))).await;
        desk.event("1").await;
        desk.tick().await;
        assert_eq!(desk.change_alone(EntryAction::Delete).await, ActionOutcome::Done, "{kind:?}");
        desk.engine.record_receipts(bounced()).await.unwrap();
        desk.travel(t, seconds(3_600)).await;
        assert_eq!(desk.mailbox.messages().len(), 1, "{kind:?}: nothing goes by the fallback");
        let open = "select count(*) from punctual.delivery where status = 0";
        assert_eq!(t.count(open).await, 0, "{kind:?}: nothing waits");
    }
}

/// NTF-5: a replay counts its tries from 0, and still knows of a try before it that may have gone out.
async fn ntf_5_a_skip_after_a_lost_try_keeps_its_key(t: &Bench) {
    let (doubtful, skipped) = (DeliveryStatus::Uncertain, DeliveryStatus::Skipped);
    for (outcome, status, keys) in [(unknown(), doubtful, 1), (refused(), skipped, 0)] {
        for kind in Kind::ALL {
            let t = &Bench::on(t.backend).await;
            let desk =
                Desk::open(t, kind, policy(|policy| policy.unknown = UnknownOutcomePolicy::Hold)).await;
            desk.mailbox.fail_with(vec![outcome.clone()]);
            desk.event("1").await;
            desk.tick().await;
            prefer(&desk.engine, kind.address(), &json!({"optOuts": [{"channel": "memory:default"}]})).await;
            assert_eq!(desk.change(EntryAction::Retry).await, ActionOutcome::Done, "{kind:?}");
            desk.tick().await;
            assert_eq!(desk.statuses().await, [status], "{kind:?}");
            let kept = t.count("select count(*) from punctual.delivery_key").await;
            assert_eq!(kept, keys, "{kind:?} after {outcome:?}");
        }
    }
}

/// NTF-20
async fn ntf_20_schedules_are_listed_by_entity_and_by_key(t: &Bench) {
    for kind in Kind::ALL {
        let t = &Bench::on(t.backend).await;
        let desk = Desk::open(t, kind, ChannelPolicy::default()).await;
        for id in ["1", "2"] {
            desk.event_about(id).await;
        }
        desk.tick().await;
        let listed = async |filter: EntryFilter| {
            let found = desk.engine.store().schedule(TENANT, filter, EntryId(i64::MAX), 9).await.unwrap();
            found.iter().map(|one| (one.entry.id.0, one.deliveries.len())).collect::<Vec<_>>()
        };
        let about = |id: &str| EntryFilter {
            entity_type: Some("Booking".into()),
            entity_id: Some(id.into()),
            ..EntryFilter::default()
        };
        assert_eq!(listed(EntryFilter::default()).await, [(2, 1), (1, 1)], "{kind:?}");
        assert_eq!(listed(about("2")).await, [(2, 1)], "{kind:?}");
        assert_eq!(listed(about("3")).await, [], "{kind:?}");
        let keys = t.texts("select key from punctual.entry order by id").await;
        let names = [keys[0][0].clone().unwrap(), desk.keys()[0].clone()];
        for key in names {
            let filter = EntryFilter { key: Some(key.clone()), ..EntryFilter::default() };
            assert_eq!(listed(filter).await, [(1, 1)], "{kind:?} by {key}");
        }
    }
}

/// NTF-19, TRG-26: an answer is kept for 400 days, however short the log is.
async fn ntf_19_the_retention_of_the_log_spares_answers(t: &Bench) {
    let day = |n: u64| seconds(n * 24 * 3_600);
    let (engine, _mailbox) = engine_with(t, |b| b.log_retention(day(30))).await;
    publish(&engine, survey(|_| {})).await;
    define(&engine, TENANT, |_| {}).await;
    notification::template(&engine, TENANT, "memory:default", "Hello").await;
    let invited = invitation::invite(&engine, "1").await;
    notification::confirm(&engine, "1").await;
    engine.tick(100).await.unwrap();
    let answers = [("rate".to_owned(), json!(5))].into_iter().collect();
    engine.submit(invited, answers, None).await.unwrap();
    let kinds = "select kind from punctual.entry order by id";
    for (days, left) in [(20, &["survey", "notification"][..]), (20, &["survey"]), (380, &[])] {
        engine.travel(t.now().await.plus(day(days)), true).await.unwrap();
        assert_eq!(first_column(&t.texts(kinds).await), left, "{days} days later");
        let answers = t.count("select count(*) from punctual.response").await;
        assert_eq!(answers == 1, left.contains(&"survey"), "{days} days later");
    }
}

/// PLT-8: and the log as long as is usual.
async fn plt_8_surveys_are_kept_as_long_as_configured(t: &Bench) {
    let month = seconds(30 * 24 * 3_600);
    let kept = RetentionSettings { surveys: month, ..RetentionSettings::default() };
    let (engine, _mailbox) = engine_with(t, |b| b.retentions(kept)).await;
    publish(&engine, survey(|_| {})).await;
    define(&engine, TENANT, |_| {}).await;
    notification::template(&engine, TENANT, "memory:default", "Hello").await;
    let invited = invitation::invite(&engine, "1").await;
    notification::confirm(&engine, "1").await;
    engine.tick(100).await.unwrap();
    let answers = [("rate".to_owned(), json!(5))].into_iter().collect();
    engine.submit(invited, answers, None).await.unwrap();
    engine.travel(t.now().await.plus(month + seconds(1)), true).await.unwrap();
    let kinds = t.texts("select kind from punctual.entry order by id").await;
    assert_eq!(first_column(&kinds), ["notification"]);
    assert_eq!(t.count("select count(*) from punctual.response").await, 0);
}

/// PLT-4: equal failures have one class, so that they can be counted.
async fn plt_4_attempts_and_dead_letters_have_a_reason_class(t: &Bench) {
    t.put("orders", 2).await;
    let lane = t.lane("orders").await;
    for (n, one) in t.claim(lane, 9).await.iter().enumerate() {
        t.say(std::slice::from_ref(one), fail(&format!("order {n} of `A-{n}` was refused"))).await;
    }
    for table in ["attempt", "dead_letter"] {
        let sql = match table {
            "attempt" => "select distinct reason_class from punctual.attempt",
            _ => "select distinct reason_class from punctual.dead_letter",
        };
        assert_eq!(t.texts(sql).await, [[Some("order # of `…` was refused".to_owned())]], "{table}");
    }
}

/// PLT-29: a host's message to `punctual.ingest` would be planned twice, and no handler would take it.
async fn plt_29_topics_of_the_engine_are_not_published_to(t: &Bench) {
    let desk = Desk::open(t, Kind::Survey, ChannelPolicy::default()).await;
    let before = t.dump().await;
    let message = NewMessage::new("punctual.ingest", "service-visit-closed", "{}");
    let said = desk.engine.enqueue_one(TENANT, message).await.unwrap_err().to_string();
    assert!(said.contains("topic: is reserved: only the engine publishes"), "{said}");
    let timer = NewTimer::after(seconds(1), "punctual.operations", "{}");
    let said = desk.engine.schedule_one(TENANT, timer).await.unwrap_err().to_string();
    assert!(said.contains("is reserved"), "{said}");
    before.assert_equals(&t.dump().await, "a message to a reserved topic");
}
