//! What people are shown of notifications, what they ask for again, and what they replay.

use crate::bench::replay;
use crate::bench::{Bench, SEED, TENANT, seconds, wish};
use punctual::access::store::tenants::NewTenant;
use punctual::base::id::{DeliveryId, EntryId, LaneId, TemplateId};
use punctual::delivery::rules::delivery::{DeliveryStatus, PlannedDelivery, RecipientIdentity};
use punctual::delivery::rules::send_terms::SendTerms;
use punctual::delivery::store::deliveries::delivery::{DeliveryOutcome, DueDelivery, SettledDelivery};
use punctual::delivery::store::deliveries::log::{DeliveryFilter, LoggedDelivery};
use punctual::delivery::store::deliveries::planned_events::{PlannedEntry, PlannedEvent, WriteOutcome};
use punctual::delivery::store::deliveries::schedule::{LatestEvent, ScheduledEntry};
use punctual::delivery::store::entries::replay::ReplayMode;
use punctual::delivery::store::entries::replay::ReplaySelection;
use punctual::flow::rules::entry::{EntryKind, EntryStatus};
use punctual::flow::rules::input_hash::EntryOrigin;
use punctual::flow::store::entries::lists::EntryFilter;
use punctual::{Entity, Message, NewMessage, Tenant, Token};

cases![
    ntf_19_the_log_has_every_try_in_order,
    ntf_19_a_delivery_in_a_claim_is_being_sent,
    ntf_20_the_log_is_found_by_what_a_support_person_knows,
    ntf_20_lists_go_back_page_by_page,
    ntf_20_notices_are_found_by_their_keys,
    ntf_23_nobody_sees_or_replays_another_tenants,
    ntf_21_a_request_is_a_row_of_its_own,
    ntf_21_the_latest_event_is_the_one_that_is_sent_again,
    ntf_22_a_replay_sends_again_what_failed_and_nothing_else,
    ntf_22_a_replayed_delivery_has_all_its_tries_again,
    ntf_22_a_dry_run_tells_and_changes_nothing,
    ntf_22_what_another_channel_took_over_stays,
    ntf_22_of_two_replays_at_once_one_sends_it,
    ntf_22_a_replay_that_fails_halfway_changes_nothing,
];

const EVERYTHING: (DeliveryId, usize) = (DeliveryId(i64::MAX), 100);

fn about(id: &str) -> Entity {
    Entity { kind: "booking".into(), id: id.into() }
}

pub fn planned(entity: &str, named: &str, channel: &str, address: &str) -> PlannedDelivery {
    PlannedDelivery {
        send: 1,
        key: format!("{entity}:booking.created:{named}:3"),
        channel: channel.into(),
        address: Some(address.into()),
        part: 0,
        template: TemplateId(3),
        version: 2,
        recipient: RecipientIdentity::default(),
    }
}

pub fn sms(entity: &str) -> PlannedDelivery {
    planned(entity, "SMS", "memory:sms", "+9647700000001")
}

fn mail(entity: &str) -> PlannedDelivery {
    planned(entity, "Email", "email:smtp", "ana@example.org")
}

pub fn notification_of(entity: &str, deliveries: Vec<PlannedDelivery>) -> PlannedEntry {
    PlannedEntry {
        kind: EntryKind::Notification,
        entity: Some(about(entity)),
        ended: None,
        deliveries,
        request: None,
        origin: EntryOrigin::default(),
    }
}

pub async fn event(t: &Bench, tenant: Tenant, entity: &str) -> (Message, Token) {
    let message = NewMessage::new("bookings", "booking.created", "{}").entity("booking", entity);
    let message = message.correlation_id(format!("story-{entity}"));
    let lane = t.store().declare_queue(tenant, "bookings").await.unwrap().id;
    t.store().enqueue(tenant, vec![message]).await.unwrap();
    let item = t.claim_one(lane).await;
    (item.message, item.token)
}

/// Files a notification about a new event.
pub async fn file(t: &Bench, tenant: Tenant, entity: &str, deliveries: Vec<PlannedDelivery>) -> Message {
    let (event, token) = event(t, tenant, entity).await;
    let filed = [(event.clone().into(), PlannedEvent::Entry(Box::new(notification_of(entity, deliveries))))];
    let filed = t.store().write_planned_events(token, filed.into(), None, SEED).await.unwrap();
    assert!(matches!(filed, WriteOutcome::Written { .. }), "the claim should hold");
    event
}

/// Claims all deliveries that are due, in the order they were made.
pub async fn begin(t: &Bench) -> (Token, Vec<DueDelivery>) {
    let lanes = t.ints("select id from punctual.lane where purpose = 'send' order by id").await;
    let takes: Vec<_> = lanes.iter().map(|row| (LaneId(row[0].unwrap()), 100)).collect();
    let mut outgoing = t
        .store()
        .begin_deliveries(wish(&takes), EntryKind::Notification, SendTerms::default())
        .await
        .unwrap();
    outgoing.due.sort_by_key(|due| due.delivery.id);
    (outgoing.token.expect("something should be due"), outgoing.due)
}

pub async fn end(t: &Bench, token: Token, due: Vec<DueDelivery>, endings: Vec<DeliveryOutcome>) {
    assert_eq!(due.len(), endings.len(), "{due:?}");
    let ended: Vec<SettledDelivery> = due
        .into_iter()
        .zip(endings)
        .map(|(due, ending)| SettledDelivery { due, outcome: ending, entry: None })
        .collect();
    t.store().end_deliveries(token, ended.into(), None).await.unwrap();
}

/// What is due is sent, and comes to this.
async fn send(t: &Bench, endings: Vec<DeliveryOutcome>) {
    let (token, due) = begin(t).await;
    end(t, token, due, endings).await;
}

pub fn sent(id: &str) -> DeliveryOutcome {
    DeliveryOutcome::Sent { provider_id: Some(id.into()), answer: Some(format!("{{\"id\":\"{id}\"}}")) }
}

fn failed() -> DeliveryOutcome {
    DeliveryOutcome::Failed { outcome: Some("permanent"), error: "no such number".into(), fallback: None }
}

fn again() -> DeliveryOutcome {
    DeliveryOutcome::Retry { outcome: "transient", error: "busy".into(), wait: seconds(60), counted: true }
}

async fn log(t: &Bench, filter: DeliveryFilter) -> Vec<LoggedDelivery> {
    t.store().communication_log(TENANT, filter, EVERYTHING.0, EVERYTHING.1).await.unwrap()
}

async fn notifications(t: &Bench, filter: EntryFilter) -> Vec<ScheduledEntry> {
    t.store().schedule(TENANT, filter, EntryId(i64::MAX), 100).await.unwrap()
}

fn outcomes(one: &LoggedDelivery) -> Vec<(u32, &str)> {
    one.tries.iter().map(|tried| (tried.number, tried.outcome.as_str())).collect()
}

/// NTF-19: a history of every attempt, which is only added to.
async fn ntf_19_the_log_has_every_try_in_order(t: &Bench) {
    let event = file(t, TENANT, "b1", vec![sms("b1")]).await;
    send(t, vec![again()]).await;
    t.advance(seconds(60)).await;
    send(t, vec![sent("p-1")]).await;
    let all = log(t, DeliveryFilter::default()).await;
    let [one] = all.as_slice() else { panic!("one delivery, not {all:?}") };
    assert_eq!(outcomes(one), [(1, "transient"), (2, "sent")]);
    assert_eq!(one.tries[0].error.as_deref(), Some("busy"));
    assert_eq!((one.status, one.provider_id.as_deref()), (DeliveryStatus::Sent, Some("p-1")));
    assert_eq!((one.channel.as_str(), one.address.as_str()), ("memory:sms", "+9647700000001"));
    assert_eq!((one.template, one.template_version), (TemplateId(3), 2));
    assert_eq!(one.idempotency_key, "b1:booking.created:SMS:3");
    assert_eq!((one.event_kind.as_str(), &one.entity), ("booking.created", &Some(about("b1"))));
    assert_eq!(one.correlation_id, event.correlation_id);
    assert_eq!((one.by_request, one.due_at), (false, None));
    assert_eq!(one.tries[1].answer, None, "lists are without what providers answered");
    let whole = t.store().communication(TENANT, one.id).await.unwrap().expect("it is there");
    assert_eq!(whole.tries[1].answer.as_deref(), Some("{\"id\":\"p-1\"}"));
}

async fn ntf_19_a_delivery_in_a_claim_is_being_sent(t: &Bench) {
    file(t, TENANT, "b1", vec![sms("b1"), mail("b1")]).await;
    let all = |flying| DeliveryFilter {
        status: Some((DeliveryStatus::Pending, flying)),
        ..DeliveryFilter::default()
    };
    assert_eq!((log(t, all(Some(false))).await.len(), log(t, all(Some(true))).await.len()), (2, 0));
    let (token, mut due) = begin(t).await;
    assert_eq!((log(t, all(Some(false))).await.len(), log(t, all(Some(true))).await.len()), (0, 2));
    assert!(notifications(t, EntryFilter::default()).await[0].is_in_flight());
    let flying = EntryFilter { in_flight: Some(true), ..EntryFilter::default() };
    assert_eq!(notifications(t, flying.clone()).await.len(), 1);
    let later = due.pop().unwrap();
    end(t, token.clone(), due, vec![sent("p-1")]).await;
    end(t, token, vec![later], vec![again()]).await;
    let waits = log(t, all(None)).await;
    assert_eq!(waits.len(), 1);
    assert!(!waits[0].in_flight, "what comes again waits");
    assert_eq!(notifications(t, flying).await, []);
}

/// NTF-20: by entity, address, status, channel and time.
async fn ntf_20_the_log_is_found_by_what_a_support_person_knows(t: &Bench) {
    file(t, TENANT, "b1", vec![sms("b1"), mail("b1")]).await;
    send(t, vec![sent("p-1"), failed()]).await;
    let later = t.advance(seconds(60)).await;
    file(t, TENANT, "b2", vec![sms("b2")]).await;
    let some = |text: &str| Some(text.to_owned());
    let all = DeliveryFilter::default;
    let failed = Some((DeliveryStatus::Failed, None));
    let cases = [
        ("everything", all(), vec!["b2 memory:sms", "b1 email:smtp", "b1 memory:sms"]),
        ("an entity", DeliveryFilter { entity_id: some("b2"), ..all() }, vec!["b2 memory:sms"]),
        (
            "its type",
            DeliveryFilter { entity_type: some("Booking"), entity_id: some("b2"), ..all() },
            vec!["b2 memory:sms"],
        ),
        (
            "another type",
            DeliveryFilter { entity_type: some("order"), entity_id: some("b2"), ..all() },
            vec![],
        ),
        ("a mailbox", DeliveryFilter { address: some("Ana@Example.org"), ..all() }, vec!["b1 email:smtp"]),
        (
            "a number",
            DeliveryFilter { address: some("00964 770 000 0001"), entity_id: some("b1"), ..all() },
            vec!["b1 memory:sms"],
        ),
        ("a status", DeliveryFilter { status: failed, ..all() }, vec!["b1 email:smtp"]),
        ("a key", DeliveryFilter { channel: some("email:smtp"), ..all() }, vec!["b1 email:smtp"]),
        ("a kind", DeliveryFilter { channel: some("sms"), ..all() }, vec!["b2 memory:sms", "b1 memory:sms"]),
        ("no kind", DeliveryFilter { channel: some("push"), ..all() }, vec![]),
        ("since", DeliveryFilter { from: Some(later), ..all() }, vec!["b2 memory:sms"]),
        ("until", DeliveryFilter { to: Some(later), ..all() }, vec!["b1 email:smtp", "b1 memory:sms"]),
    ];
    for (by, filter, expected) in cases {
        let found = log(t, filter).await;
        let name = |one: &LoggedDelivery| format!("{} {}", one.entity.as_ref().unwrap().id, one.channel);
        assert_eq!(found.iter().map(name).collect::<Vec<_>>(), expected, "by {by}");
    }
}

async fn ntf_20_lists_go_back_page_by_page(t: &Bench) {
    for entity in ["b1", "b2", "b3"] {
        file(t, TENANT, entity, vec![sms(entity)]).await;
    }
    let (mut before, mut seen) = (DeliveryId(i64::MAX), Vec::new());
    let mut notification = EntryId(i64::MAX);
    for _ in 0..3 {
        let page = t.store().communication_log(TENANT, DeliveryFilter::default(), before, 1).await.unwrap();
        let list = t.store().schedule(TENANT, EntryFilter::default(), notification, 1).await.unwrap();
        assert_eq!(list[0].deliveries, page, "a notification shows its deliveries");
        seen.push(page[0].entity.clone().unwrap().id);
        (before, notification) = (page[0].id, list[0].entry.id);
    }
    assert_eq!(seen, ["b3", "b2", "b1"]);
    assert_eq!(t.store().communication_log(TENANT, DeliveryFilter::default(), before, 1).await.unwrap(), []);
    assert_eq!(t.store().schedule(TENANT, EntryFilter::default(), notification, 1).await.unwrap(), []);
}

async fn ntf_20_notices_are_found_by_their_keys(t: &Bench) {
    file(t, TENANT, "b:1", vec![sms("b:1")]).await;
    file(t, TENANT, "b2", vec![sms("b2")]).await;
    let all = notifications(t, EntryFilter::default()).await;
    let [second, first] = all.as_slice() else { panic!("two notifications, not {all:?}") };
    let (first, second) = (&first.entry, &second.entry);
    assert_eq!((first.key.clone(), first.sends.open), (format!("event:{}", first.message.unwrap()), 1));
    let number = second.id.to_string();
    let colons = ":".repeat(60_000);
    for (key, expected) in [
        (colons.as_str(), None),
        (first.key.as_str(), Some(first.id)),
        (second.key.as_str(), Some(second.id)),
        ("b2:booking.created:SMS:3", Some(second.id)),
        (number.as_str(), Some(second.id)),
        ("b2:booking.cancelled", None),
        ("b2", None),
    ] {
        let found = notifications(t, EntryFilter { key: Some(key.into()), ..EntryFilter::default() }).await;
        assert_eq!(found.first().map(|one| one.entry.id), expected, "by {key}");
        assert!(found.len() < 2, "{key} should name one at most");
    }
}

/// NTF-23: another tenant's ids lead nowhere.
async fn ntf_23_nobody_sees_or_replays_another_tenants(t: &Bench) {
    let other = NewTenant { slug: "other".into(), name: "Other".into(), ..NewTenant::default() };
    let other = t.store().create_tenant(other).await.unwrap().tenant;
    file(t, TENANT, "b1", vec![sms("b1")]).await;
    send(t, vec![failed()]).await;
    let (mine, notification) =
        (log(t, DeliveryFilter::default()).await, notifications(t, EntryFilter::default()).await);
    let store = t.store();
    assert_eq!(store.communication(other, mine[0].id).await.unwrap(), None);
    assert_eq!(store.scheduled_entry(other, notification[0].entry.id).await.unwrap(), None);
    let theirs = store.communication_log(other, DeliveryFilter::default(), EVERYTHING.0, 9).await.unwrap();
    assert_eq!(theirs, []);
    let key = EntryFilter { key: Some(notification[0].entry.id.to_string()), ..EntryFilter::default() };
    assert_eq!(store.schedule(other, key, EntryId(i64::MAX), 9).await.unwrap(), []);
    assert!(matches!(store.latest_event(other, about("b1"), None).await.unwrap(), LatestEvent::Never));
    let which = ReplaySelection { ids: Some(vec![notification[0].entry.id]), ..ReplaySelection::default() };
    assert_eq!(store.replay_failed(other, which, replay()).await.unwrap().again, 0);
    assert_eq!(log(t, DeliveryFilter::default()).await, mine);
    // The same key in another tenant is another message.
    file(t, other, "b1", vec![sms("b1")]).await;
    let theirs = store.communication_log(other, DeliveryFilter::default(), EVERYTHING.0, 9).await.unwrap();
    assert_eq!(theirs.len(), 1);
}

/// NTF-21: a new row with who asked; the original stays as it was.
async fn ntf_21_a_request_is_a_row_of_its_own(t: &Bench) {
    let event = file(t, TENANT, "b1", vec![sms("b1")]).await;
    send(t, vec![sent("p-1")]).await;
    let before = log(t, DeliveryFilter::default()).await;
    let mut key = "manual:b1:SMS:3:r1".to_owned();
    for request in ["r1", "r2"] {
        key.replace_range(key.len() - 2.., request);
        let deliveries = vec![PlannedDelivery { key: key.clone(), ..sms("b1") }];
        let request = Some((request.to_owned(), "kadhem".to_owned()));
        let notification =
            PlannedEntry { kind: EntryKind::Notification, request, ..notification_of("b1", deliveries) };
        let asked = t.store().write_resend(event.clone(), notification).await.unwrap();
        assert_eq!(asked.iter().map(|one| one.idempotency_key.as_str()).collect::<Vec<_>>(), [&key]);
    }
    let all = log(t, DeliveryFilter::default()).await;
    assert_eq!(all[2..], before, "the original stays as it was");
    assert!(all[..2].iter().all(|one| one.by_request && one.triggered_by == "kadhem"));
    let found = EntryFilter { key: Some("manual:r2".into()), ..EntryFilter::default() };
    assert_eq!(notifications(t, found).await[0].deliveries, all[..1]);
    send(t, vec![sent("p-2"), sent("p-3")]).await;
    assert!(
        notifications(t, EntryFilter::default())
            .await
            .iter()
            .all(|n| n.entry.state.status == EntryStatus::Sent)
    );
}

async fn ntf_21_the_latest_event_is_the_one_that_is_sent_again(t: &Bench) {
    let latest = |kind: Option<&str>| {
        t.store().latest_event(TENANT, about("b1"), kind.map(|kind| vec![kind.to_owned()]))
    };
    assert!(matches!(latest(None).await.unwrap(), LatestEvent::Never));
    let first = file(t, TENANT, "b1", vec![sms("b1")]).await;
    let second = file(t, TENANT, "b1", vec![mail("b1")]).await;
    file(t, TENANT, "b2", vec![sms("b2")]).await;
    // A request about the first one does not make that the latest.
    let request = Some(("r1".to_owned(), "kadhem".to_owned()));
    let notification =
        PlannedEntry { kind: EntryKind::Notification, request, ..notification_of("b1", vec![]) };
    t.store().write_resend(first, notification).await.unwrap();
    match latest(Some("booking.created")).await.unwrap() {
        LatestEvent::Event(event, entity) => assert_eq!((event.id, entity), (second.id, about("b1"))),
        other => panic!("the event should be there, but: {other:?}"),
    }
    assert!(matches!(latest(Some("booking.cancelled")).await.unwrap(), LatestEvent::Never));
}

/// NTF-22: what was sent is stopped by its key.
async fn ntf_22_a_replay_sends_again_what_failed_and_nothing_else(t: &Bench) {
    file(t, TENANT, "b1", vec![sms("b1"), mail("b1")]).await;
    send(t, vec![failed(), sent("p-1")]).await;
    file(t, TENANT, "b2", vec![sms("b2")]).await;
    send(t, vec![DeliveryOutcome::Uncertain { outcome: Some("unknown"), error: "no answer".into() }]).await;
    file(t, TENANT, "b3", vec![sms("b3")]).await;
    send(t, vec![sent("p-2")]).await;
    let by_entity = |id: &str| ReplaySelection { entity_id: Some(id.into()), ..ReplaySelection::default() };
    let one = t.store().replay_failed(TENANT, by_entity("b2"), replay()).await.unwrap();
    assert_eq!((one.ids.len(), one.again, one.stopped, one.next), (1, 1, 0, None));
    let rest = t.store().replay_failed(TENANT, ReplaySelection::default(), replay()).await.unwrap();
    assert_eq!((rest.ids.len(), rest.again, rest.stopped), (1, 1, 1));
    let none = t.store().replay_failed(TENANT, ReplaySelection::default(), replay()).await.unwrap();
    assert_eq!((none.again, none.stopped), (0, 0), "nothing is failed any more");
    let first = &notifications(t, EntryFilter::default()).await[2];
    assert_eq!(
        (first.entry.state.status, first.entry.sends.open, first.entry.sends.sent, first.entry.sends.failed),
        (EntryStatus::Pending, 1, 1, 0,)
    );
    send(t, vec![sent("p-3"), sent("p-4")]).await;
    let all = notifications(t, EntryFilter::default()).await;
    assert!(all.iter().all(|one| one.entry.state.status == EntryStatus::Sent), "{all:?}");
    t.assert_sound().await;
}

/// NTF-22: tries count anew, the history stays, and every try has a number of its own.
async fn ntf_22_a_replayed_delivery_has_all_its_tries_again(t: &Bench) {
    file(t, TENANT, "b1", vec![sms("b1")]).await;
    send(t, vec![again()]).await;
    t.advance(seconds(60)).await;
    send(t, vec![failed()]).await;
    t.store().replay_failed(TENANT, ReplaySelection::default(), replay()).await.unwrap();
    let (token, due) = begin(t).await;
    assert_eq!((due[0].item.attempt(), due[0].lost), (1, false));
    end(t, token, due, vec![again()]).await;
    t.advance(seconds(60)).await;
    // A sender that is lost in its second try of this round.
    begin(t).await;
    t.advance(seconds(600)).await;
    t.reap().await;
    t.advance(seconds(600)).await;
    let (token, due) = begin(t).await;
    assert!(due[0].lost, "nobody wrote down what came of the try before");
    end(t, token, due, vec![sent("p-1")]).await;
    let all = log(t, DeliveryFilter::default()).await;
    let words = ["transient", "permanent", "transient", "unknown", "sent"];
    assert_eq!(outcomes(&all[0]), (1..).zip(words).collect::<Vec<_>>());
}

async fn ntf_22_a_dry_run_tells_and_changes_nothing(t: &Bench) {
    file(t, TENANT, "b1", vec![sms("b1"), mail("b1")]).await;
    send(t, vec![failed(), sent("p-1")]).await;
    let before = (log(t, DeliveryFilter::default()).await, notifications(t, EntryFilter::default()).await);
    let would =
        t.store().replay_failed(TENANT, ReplaySelection::default(), ReplayMode::DryRun).await.unwrap();
    assert_eq!((would.ids, would.again, would.stopped), (vec![before.1[0].entry.id], 1, 1));
    assert_eq!(
        (log(t, DeliveryFilter::default()).await, notifications(t, EntryFilter::default()).await),
        before
    );
    assert!(t.whereabouts().await.is_empty(), "nothing should wait");
}

/// A message that another channel took over is not sent by both.
async fn ntf_22_what_another_channel_took_over_stays(t: &Bench) {
    file(t, TENANT, "b1", vec![sms("b1")]).await;
    let fallback = Some(mail("b1"));
    send(t, vec![DeliveryOutcome::Failed { outcome: Some("permanent"), error: "no".into(), fallback }]).await;
    send(t, vec![failed()]).await;
    let all = log(t, DeliveryFilter::default()).await;
    assert_eq!(all[1].replaced_by, Some(all[0].id));
    let replayed = t.store().replay_failed(TENANT, ReplaySelection::default(), replay()).await.unwrap();
    assert_eq!(replayed.again, 1);
    let (token, due) = begin(t).await;
    assert_eq!(due.iter().map(|due| due.delivery.id).collect::<Vec<_>>(), [all[0].id]);
    end(t, token, due, vec![sent("p-1")]).await;
    assert_eq!(notifications(t, EntryFilter::default()).await[0].entry.state.status, EntryStatus::Sent);
}

async fn ntf_22_of_two_replays_at_once_one_sends_it(t: &Bench) {
    for entity in ["b1", "b2", "b3"] {
        file(t, TENANT, entity, vec![sms(entity), mail(entity)]).await;
    }
    send(t, vec![failed(); 6]).await;
    let (one, other) = (t.store(), t.another().await);
    let (one, other) = tokio::join!(
        one.replay_failed(TENANT, ReplaySelection::default(), replay()),
        other.replay_failed(TENANT, ReplaySelection::default(), replay()),
    );
    assert_eq!(one.unwrap().again + other.unwrap().again, 6, "each should be put back once");
    let all = notifications(t, EntryFilter::default()).await;
    assert!(all.iter().all(|one| (one.entry.sends.open, one.entry.sends.failed) == (2, 0)), "{all:?}");
    send(t, vec![sent("p-1"); 6]).await;
    t.assert_sound().await;
}

async fn ntf_22_a_replay_that_fails_halfway_changes_nothing(t: &Bench) {
    file(t, TENANT, "b1", vec![sms("b1"), mail("b1")]).await;
    send(t, vec![failed(), failed()]).await;
    shake!(t, "a replay", |store| store.replay_failed(TENANT, ReplaySelection::default(), replay()));
    send(t, vec![sent("p-1"), sent("p-2")]).await;
    assert_eq!(notifications(t, EntryFilter::default()).await[0].entry.state.status, EntryStatus::Sent);
}
