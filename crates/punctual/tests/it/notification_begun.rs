//! Letters that are begun with the filing of their notifications: by a claim in the same transaction,
//! where nothing waits before them.

use crate::bench::{Bench, SEED, TENANT, seconds};
use crate::notification_log::{begin, end, event, notification_of, planned, sent, sms};
use punctual::Token;
use punctual::base::id::DeliveryId;
use punctual::base::limits::CLAIM_ITEMS_MAX;
use punctual::delivery::rules::delivery::PlannedDelivery;
use punctual::delivery::rules::send_capacity::SendCapacity;
use punctual::delivery::rules::send_terms::SendTerms;
use punctual::delivery::store::deliveries::begin::BeginRequest;
use punctual::delivery::store::deliveries::delivery::{DeliveryOutcome, DueDelivery};
use punctual::delivery::store::deliveries::planned_events::{PlannedEvent, WriteOutcome};

cases![
    ntf_4_letters_are_begun_with_their_notification,
    ntf_4_a_letter_begun_and_lost_in_a_crash_comes_again_as_one_in_doubt,
    ntf_2_what_waits_goes_before_what_comes,
    ntf_2_what_waits_for_its_next_try_holds_nobody_up,
    ntf_2_a_paused_channel_begins_nothing,
    ntf_17_no_more_letters_begin_than_there_is_room_for,
    ntf_3_a_known_key_is_not_begun,
    ntf_2_many_letters_are_begun_in_several_claims,
    ntf_2_a_filing_that_fails_halfway_begins_nothing,
];

const WAITING: &str = crate::bench::WORK_BESIDE_MESSAGES;
const CLAIMED: &str = "select count(*) from punctual.claim where purpose = 'send'";

fn start(room: &[(&str, usize)]) -> BeginRequest {
    let by_channel = room.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
    let room = SendCapacity { messages: 5_000, by_channel };
    BeginRequest {
        owner: "teller".into(),
        lease: seconds(30),
        batch: CLAIM_ITEMS_MAX,
        room,
        terms: SendTerms::default(),
    }
}

fn by_sms() -> BeginRequest {
    start(&[("memory:sms", 5_000)])
}

/// Files a notification about a new event, and answers the claims that were begun.
async fn begun(
    t: &Bench,
    entity: &str,
    deliveries: Vec<PlannedDelivery>,
    start: BeginRequest,
) -> Vec<(Token, Vec<DueDelivery>)> {
    let (event, token) = event(t, TENANT, entity).await;
    let filed = [(event.into(), PlannedEvent::Entry(Box::new(notification_of(entity, deliveries))))];
    match t.store().write_planned_events(token, filed.into(), Some(start), SEED).await.unwrap() {
        WriteOutcome::Written { begun, .. } => {
            begun.into_iter().map(|one| (one.token.expect("a claim has a token"), one.due)).collect()
        }
        WriteOutcome::LostClaim => panic!("the claim should hold"),
    }
}

/// How many letters were begun.
fn letters(begun: &[(Token, Vec<DueDelivery>)]) -> usize {
    begun.iter().map(|(_, due)| due.len()).sum()
}

/// A letter by the same channel to another recipient of the same event.
fn another(n: usize) -> PlannedDelivery {
    PlannedDelivery { part: n, ..planned(&format!("b{n}"), "SMS", "memory:sms", "+9647700000001") }
}

/// NTF-4: the claim that says that a send may have been made is committed before the send, in the transaction
/// that writes the letter; there is no work for anybody else.
async fn ntf_4_letters_are_begun_with_their_notification(t: &Bench) {
    let mut claims = begun(t, "b1", vec![sms("b1"), another(2)], by_sms()).await;
    assert_eq!((claims.len(), letters(&claims)), (1, 2));
    assert_eq!((t.count(WAITING).await, t.count(CLAIMED).await), (0, 1));
    let (token, due) = claims.remove(0);
    assert_eq!(
        (due[0].number(), due[0].lost, due[0].delivery.key.as_str()),
        (1, false, sms("b1").key.as_str())
    );
    end(t, token, due, vec![sent("p-1"), sent("p-2")]).await;
    let log = "select count(*) from punctual.delivery_attempt where outcome = 'sent' and tried = 1";
    assert_eq!(t.count(log).await, 2);
    assert_eq!(t.count("select status from punctual.entry").await, 1, "the notification is sent");
    t.assert_sound().await;
}

/// NTF-4: whoever comes next must not take it for never sent.
async fn ntf_4_a_letter_begun_and_lost_in_a_crash_comes_again_as_one_in_doubt(t: &Bench) {
    begun(t, "b1", vec![sms("b1")], by_sms()).await;
    t.advance(seconds(31)).await;
    t.reap().await;
    t.advance(seconds(3_600)).await;
    let (_, due) = begin(t).await;
    assert_eq!((due.len(), due[0].number(), due[0].lost), (1, 2, true));
}

/// NTF-2: letters of a channel go in their order: what comes while others wait is put behind them.
async fn ntf_2_what_waits_goes_before_what_comes(t: &Bench) {
    let first = begun(t, "b1", vec![sms("b1"), another(2)], start(&[("memory:sms", 1)])).await;
    assert_eq!((letters(&first), t.count(WAITING).await), (1, 1), "one has no room");
    let mail = planned("b3", "Email", "memory:email", "ana@example.org");
    let room = start(&[("memory:sms", 9), ("memory:email", 9)]);
    let second = begun(t, "b3", vec![sms("b3"), mail.clone()], room).await;
    let keys: Vec<&str> = second[0].1.iter().map(|due| due.delivery.key.as_str()).collect();
    assert_eq!(keys, [mail.key.as_str()], "the other channel has nothing before it");
    let (_, due) = begin(t).await;
    assert_eq!(due.iter().map(|due| due.delivery.id).collect::<Vec<_>>(), ids_waiting(t).await);
    assert_eq!(due.len(), 2);
}

/// The letters by SMS that are not sent, but for the first.
async fn ids_waiting(t: &Bench) -> Vec<DeliveryId> {
    let sql = "select id from punctual.delivery where channel = 'memory:sms' order by id";
    t.ints(sql).await.iter().skip(1).map(|row| DeliveryId(row[0].unwrap())).collect()
}

async fn ntf_2_what_waits_for_its_next_try_holds_nobody_up(t: &Bench) {
    let (token, due) = begun(t, "b1", vec![sms("b1")], by_sms()).await.remove(0);
    let busy = DeliveryOutcome::Retry {
        outcome: "transient",
        error: "busy".into(),
        wait: seconds(60),
        counted: true,
    };
    end(t, token, due, vec![busy]).await;
    assert_eq!(t.count(WAITING).await, 1, "it comes again in a minute");
    assert_eq!(letters(&begun(t, "b2", vec![sms("b2")], by_sms()).await), 1);
    t.advance(seconds(60)).await;
    assert_eq!(letters(&begun(t, "b3", vec![sms("b3")], by_sms()).await), 0, "now it is due, and first");
}

async fn ntf_2_a_paused_channel_begins_nothing(t: &Bench) {
    begun(t, "b1", vec![sms("b1")], by_sms()).await;
    t.texts("update punctual.lane set paused = 1 where purpose = 'send'").await;
    assert_eq!(letters(&begun(t, "b2", vec![sms("b2")], by_sms()).await), 0);
    assert_eq!(t.count(WAITING).await, 1);
}

/// NTF-17: of what a channel allows now, and of what one process takes on at once.
async fn ntf_17_no_more_letters_begin_than_there_is_room_for(t: &Bench) {
    let all = || vec![sms("b1"), another(2), another(3)];
    let cases = [
        ("nothing is known of the channel", start(&[("memory:email", 9)]), 0),
        ("the channel is closed", start(&[("memory:sms", 0)]), 0),
        ("the channel has room for two", start(&[("memory:sms", 2)]), 2),
        ("one in all", BeginRequest { room: SendCapacity { messages: 1, ..by_sms().room }, ..by_sms() }, 1),
        ("claims of one", BeginRequest { batch: 1, ..by_sms() }, 3),
    ];
    for (n, (what, start, expected)) in cases.into_iter().enumerate() {
        let deliveries =
            all().into_iter().map(|of| PlannedDelivery { key: format!("{n}:{}", of.key), ..of }).collect();
        let claims = begun(t, &format!("b{n}"), deliveries, start).await;
        assert_eq!(letters(&claims), expected, "{what}");
        assert_eq!(t.count(WAITING).await, 3 - i64::try_from(expected).unwrap(), "{what}");
        let rest = if expected < 3 { Some(begin(t).await) } else { None };
        for (token, due) in claims.into_iter().chain(rest) {
            let endings = due.iter().map(|due| sent(&format!("p-{}", due.delivery.id))).collect();
            end(t, token, due, endings).await;
        }
    }
    t.assert_sound().await;
}

/// NTF-3: what has a key that was used before is left out, and the others keep their own numbers.
async fn ntf_3_a_known_key_is_not_begun(t: &Bench) {
    begun(t, "b1", vec![sms("b1")], by_sms()).await;
    let claims = begun(t, "b1", vec![another(2), sms("b1"), another(3)], by_sms()).await;
    assert_eq!(letters(&claims), 2);
    for due in &claims[0].1 {
        let (id, key) = (due.delivery.id, &due.delivery.key);
        let of_key = format!("select id from punctual.delivery where idempotency_key = '{key}'");
        assert_eq!(t.count(&of_key).await, id.0, "{id} should have the key {key}");
    }
    assert_eq!(letters(&begun(t, "b1", vec![sms("b1")], by_sms()).await), 0);
    let open = t.ints("select open, status from punctual.entry order by id").await;
    let open: Vec<_> = open.iter().map(|row| (row[0].unwrap(), row[1].unwrap())).collect();
    assert_eq!(open, [(1, 0), (2, 0), (0, 5)], "the last notification has nothing of its own to send");
    t.assert_sound().await;
}

async fn ntf_2_many_letters_are_begun_in_several_claims(t: &Bench) {
    let many = (0..CLAIM_ITEMS_MAX + 5).map(another).collect();
    let claims = begun(t, "b1", many, by_sms()).await;
    assert_eq!(claims.iter().map(|(_, due)| due.len()).collect::<Vec<_>>(), [CLAIM_ITEMS_MAX, 5]);
    assert_eq!((t.count(WAITING).await, t.count(CLAIMED).await), (0, 2));
    for (token, due) in claims {
        let endings = due.iter().map(|due| sent(&format!("p-{}", due.delivery.id))).collect();
        end(t, token, due, endings).await;
    }
    assert_eq!(t.count("select status from punctual.entry").await, 1, "the notification is sent");
    t.assert_sound().await;
}

async fn ntf_2_a_filing_that_fails_halfway_begins_nothing(t: &Bench) {
    let (event, token) = event(t, TENANT, "b1").await;
    let filed: punctual::delivery::store::deliveries::planned_events::PlannedEvents =
        [(event.into(), PlannedEvent::Entry(Box::new(notification_of("b1", vec![sms("b1"), another(2)]))))]
            .into();
    shake!(t, "filing notifications and beginning their letters", |store| {
        store.write_planned_events(token.clone(), filed.clone(), Some(by_sms()), SEED)
    });
    assert_eq!(t.count(CLAIMED).await, 1);
}
