//! Several sessions at once on the same entry: whoever wins, nothing is sent after the end, and what
//! is answered stays answered.

use crate::bench::change;
use crate::bench::{Bench, TENANT, seconds};
use crate::invitation::{
    BegunSends, begin_sends, due_takes, engine, entry, ingest, invite, publish, survey, visit, was_sent,
};
use punctual::base::id::LaneId;
use punctual::database::planted_bugs::PlantedBug;
use punctual::delivery::store::deliveries::delivery::DeliverySettlement;
use punctual::delivery::store::entries::actions::{ActionOutcome, EntryAction};
use punctual::engine::{IngestOutcome, SubmitOutcome};
use punctual::flow::rules::entry::EntryStatus;
use punctual::flow::rules::public_id::PublicId;
use punctual::queue::rules::purpose::Purpose;
use punctual::queue::rules::share::LaneQuota;
use punctual::{Engine, Store, Timestamp};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::future::Future;
use std::time::Duration;

cases![
    trg_16_answering_beside_beginning_a_send,
    trg_16_answering_beside_ending_a_send,
    trg_16_cancelling_beside_beginning_a_send,
    trg_13_opening_beside_ending_a_send,
    trg_13_of_expiring_and_answering_one_wins,
    trg_11_of_two_who_begin_sends_each_has_its_own,
    trg_8_deleting_beside_an_event_of_the_same_key,
];

const ROUNDS: usize = 25;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const LEFT: &str = crate::bench::WORK_BESIDE_MESSAGES;

async fn both<A: Send + 'static, B: Send + 'static>(
    a: impl Future<Output = A> + Send + 'static,
    b: impl Future<Output = B> + Send + 'static,
) -> (A, B) {
    let (a, b) = (tokio::spawn(a), tokio::spawn(b));
    (a.await.expect("no panic"), b.await.expect("no panic"))
}

/// Two engines, a survey with one reminder, and the lane of its channel.
struct Crowd {
    first: Engine,
    second: Engine,
    lane: LaneId,
}

impl Crowd {
    async fn new(t: &Bench, edit: impl FnOnce(&mut Value)) -> Self {
        let ((first, _), (second, _)) = (engine(t).await, engine(t).await);
        publish(&first, survey(edit)).await;
        let lane = t.ints("select id from punctual.lane where purpose = 'advance'").await[0][0].unwrap();
        let lane = LaneId(lane);
        Self { first, second, lane }
    }

    fn store(&self) -> Store {
        self.first.store().clone()
    }

    async fn settle(&self, begun: BegunSends) {
        let Some(token) = begun.outgoing.token.clone() else { return };
        let settled =
            self.first.store().end_deliveries(token, begun.ended(was_sent).into(), None).await.unwrap();
        assert_eq!(settled, DeliverySettlement::Done);
    }

    async fn log(&self, id: PublicId) -> usize {
        let entry = entry(&self.first, id).await;
        self.first.store().delivery_log(TENANT, entry.id).await.unwrap().len()
    }
}

async fn begin(store: Store, lane: LaneId, quota: usize) -> BegunSends {
    begin_sends(&store, vec![LaneQuota { lane, since: Timestamp::MIN, quota }]).await
}

async fn end(store: Store, begun: BegunSends) -> DeliverySettlement {
    let ended = begun.ended(was_sent);
    store.end_deliveries(begun.outgoing.token.unwrap(), ended.into(), None).await.unwrap()
}

async fn submit(engine: Engine, id: PublicId) -> SubmitOutcome {
    let answers: Map<String, Value> = json!({"rate": 5}).as_object().unwrap().clone();
    engine.submit(id, answers, None).await.unwrap()
}

/// TRG-16: the answer counts; a letter goes out only if its intent came first, and nothing after.
async fn trg_16_answering_beside_beginning_a_send(t: &Bench) {
    let crowd = Crowd::new(t, |_| {}).await;
    for round in 0..ROUNDS {
        let id = invite(&crowd.first, &round.to_string()).await;
        let (begun, said) = both(begin(crowd.store(), crowd.lane, 9), submit(crowd.second.clone(), id)).await;
        assert!(matches!(said, SubmitOutcome::Done { .. }), "{said:?}");
        let letters = begun.outgoing.due.len();
        crowd.settle(begun).await;
        // What was locked at that moment came back, and is dropped now.
        assert!(
            begin(crowd.store(), crowd.lane, 9).await.outgoing.due.is_empty(),
            "nothing is sent after the end"
        );
        let stands = entry(&crowd.first, id).await.state;
        assert_eq!((stands.status, stands.next_send_at), (EntryStatus::Completed, None), "round {round}");
        assert_eq!(crowd.log(id).await, letters, "a letter that went out is in the log");
    }
    assert_eq!(t.count(LEFT).await, 0);
}

/// TRG-16: the answer comes while a letter is being settled: no reminder follows, whoever is first.
async fn trg_16_answering_beside_ending_a_send(t: &Bench) {
    let crowd = Crowd::new(t, |_| {}).await;
    for round in 0..ROUNDS {
        let id = invite(&crowd.first, &round.to_string()).await;
        let begun = begin(crowd.store(), crowd.lane, 9).await;
        let settle = end(crowd.store(), begun);
        let (settled, said) = both(settle, submit(crowd.second.clone(), id)).await;
        assert_eq!(settled, DeliverySettlement::Done);
        assert!(matches!(said, SubmitOutcome::Done { .. }), "{said:?}");
        let stands = entry(&crowd.first, id).await.state;
        assert_eq!((stands.status, stands.next_send_at), (EntryStatus::Completed, None), "round {round}");
        assert_eq!(crowd.log(id).await, 1);
    }
    assert_eq!(t.count(LEFT).await, 0, "no reminder waits");
    let told = "select count(*) from punctual.message where kind = 'response-completed'";
    assert_eq!(t.count(told).await, i64::try_from(ROUNDS).unwrap(), "one message for each answer");
}

/// TRG-16
async fn trg_16_cancelling_beside_beginning_a_send(t: &Bench) {
    let crowd = Crowd::new(t, |_| {}).await;
    for round in 0..ROUNDS {
        let id = invite(&crowd.first, &round.to_string()).await;
        let store = crowd.second.store().clone();
        let cancel = async move { change(&store, TENANT, id, EntryAction::Cancel).await.unwrap() };
        let (begun, said) = both(begin(crowd.store(), crowd.lane, 9), cancel).await;
        assert_eq!(said, ActionOutcome::Done);
        let letters = begun.outgoing.due.len();
        crowd.settle(begun).await;
        assert!(
            begin(crowd.store(), crowd.lane, 9).await.outgoing.due.is_empty(),
            "nothing is sent after the end"
        );
        assert_eq!(entry(&crowd.first, id).await.state.status, EntryStatus::Cancelled);
        assert_eq!(crowd.log(id).await, letters);
    }
    assert_eq!(t.count(LEFT).await, 0);
}

/// TRG-13: whoever is first, it is opened, and its reminder waits once.
async fn trg_13_opening_beside_ending_a_send(t: &Bench) {
    let crowd = Crowd::new(t, |_| {}).await;
    for round in 0..ROUNDS {
        let id = invite(&crowd.first, &round.to_string()).await;
        let begun = begin(crowd.store(), crowd.lane, 9).await;
        let (settle, second) = (end(crowd.store(), begun), crowd.second.clone());
        let (settled, opened) = both(settle, async move { second.record_opened(id).await.unwrap() }).await;
        assert_eq!((settled, opened), (DeliverySettlement::Done, true));
        let stands = entry(&crowd.first, id).await.state;
        let now = t.now().await;
        assert_eq!((stands.status, stands.last_sent_at), (EntryStatus::Opened, Some(now)), "round {round}");
        assert_eq!((stands.next_send_at, stands.remaining), (Some(now.plus(DAY)), 0));
        assert_eq!(t.count(LEFT).await, i64::try_from(round).unwrap() + 1, "one reminder waits for each");
    }
}

/// TRG-13, TRG-14: an entry expires or is answered, and others are told that one thing.
async fn trg_13_of_expiring_and_answering_one_wins(t: &Bench) {
    let crowd = Crowd::new(t, |d| {
        d["triggers"][0]["schedule"]["reminders"] = json!([]);
        d["triggers"][0]["expiry"] = json!("1h");
    })
    .await;
    let mut answered = 0;
    for round in 0..ROUNDS {
        let id = invite(&crowd.first, &round.to_string()).await;
        crowd.first.tick(9).await.unwrap();
        t.advance(seconds(3_601)).await;
        let takes = due_takes(crowd.first.store(), Purpose::Expire).await;
        let store = crowd.store();
        let expire = async move { store.expire_entries(takes).await.unwrap() };
        let (quieted, said) = both(expire, submit(crowd.second.clone(), id)).await;
        let status = entry(&crowd.first, id).await.state.status;
        match said {
            SubmitOutcome::Done { .. } => {
                answered += 1;
                assert_eq!((status, quieted.expired), (EntryStatus::Completed, 0), "round {round}");
            }
            SubmitOutcome::Ended(refusal) => {
                assert!(refusal.is_gone());
                assert_eq!((status, quieted.expired), (EntryStatus::Expired, 1), "round {round}");
            }
            other => panic!("{other:?}"),
        }
        crowd.first.tick(9).await.unwrap();
    }
    let told = |kind: &str| format!("select count(*) from punctual.message where kind = '{kind}'");
    assert_eq!(t.count(&told("response-completed")).await, answered);
    let rounds = i64::try_from(ROUNDS).unwrap();
    assert_eq!(t.count(&told("instance-expired")).await, rounds - answered);
    assert_eq!(t.count(LEFT).await, 0);
}

/// TRG-11: each send is claimed by one of them.
async fn trg_11_of_two_who_begin_sends_each_has_its_own(t: &Bench) {
    let crowd = Crowd::new(t, |_| {}).await;
    for round in 0..ROUNDS {
        let items = (0..6).map(|n| visit(&format!("{round}-{n}"), "GR")).collect();
        let made: BTreeSet<PublicId> =
            ingest(&crowd.first, items).await.iter().map(|item| item.instances[0].public_id).collect();
        let other = crowd.second.store().clone();
        let (a, b) = both(begin(crowd.store(), crowd.lane, 4), begin(other, crowd.lane, 4)).await;
        let rest = begin(crowd.store(), crowd.lane, 9).await;
        let all: Vec<PublicId> = [&a, &b, &rest]
            .iter()
            .flat_map(|begun| &begun.contexts)
            .filter_map(|of| of.entry.public_id)
            .collect();
        assert_eq!(all.len(), 6, "each to exactly one");
        assert_eq!(all.into_iter().collect::<BTreeSet<_>>(), made);
        for begun in [a, b, rest] {
            crowd.settle(begun).await;
        }
    }
}

/// TRG-8: the event meets the old entry, or makes a new one; there is never a second of its key.
async fn trg_8_deleting_beside_an_event_of_the_same_key(t: &Bench) {
    let crowd = Crowd::new(t, |_| {}).await;
    for round in 0..ROUNDS {
        let wip = round.to_string();
        let id = invite(&crowd.first, &wip).await;
        let (store, second, item) = (crowd.store(), crowd.second.clone(), visit(&wip, "GR"));
        let delete = async move { change(&store, TENANT, id, EntryAction::Delete).await.unwrap() };
        let (said, made) = both(delete, async move { ingest(&second, vec![item]).await }).await;
        assert_eq!(said, ActionOutcome::Done);
        let (outcome, owner) = (made[0].outcome, made[0].instances[0].public_id);
        match outcome {
            IngestOutcome::Created => assert_ne!(owner, id, "round {round}"),
            IngestOutcome::Skipped => assert_eq!(owner, id, "round {round}"),
            other => panic!("{other:?}"),
        }
        let after = ingest(&crowd.first, vec![visit(&wip, "GR")]).await;
        let expected =
            if outcome == IngestOutcome::Created { IngestOutcome::Skipped } else { IngestOutcome::Created };
        assert_eq!(after[0].outcome, expected, "round {round}: it does not block");
        let live = t.count("select count(*) from punctual.entry where deleted_at is null").await;
        assert_eq!(live, i64::try_from(round).unwrap() + 1, "one of each key");
    }
}

/// TRG-16: what somebody is answering at this very moment is not sent. A last look that locks
/// nothing is caught by the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trg_16_what_is_being_answered_is_not_sent_on_postgres() {
    let t = &Bench::postgres().await;
    let crowd = Crowd::new(t, |_| {}).await;
    for bug in [None, Some(PlantedBug::IntentWithoutLock)] {
        let id = invite(&crowd.first, &format!("{bug:?}")).await;
        let (mut client, connection) =
            tokio_postgres::connect(t.place.url(), tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let answering = client.transaction().await.unwrap();
        let end = "update punctual.entry set status = 3, due_at = null, version = version + 1 \
            where public_high = $1 and public_low = $2";
        let (high, low) = id.to_halves();
        assert_eq!(answering.execute(end, &[&high, &low]).await.unwrap(), 1);
        let store = bug.map_or_else(|| crowd.store(), |bug| crowd.store().with_bug(bug));
        let begun = begin(store, crowd.lane, 9).await;
        answering.commit().await.unwrap();
        let intents = format!(
            "select count(*) from punctual.delivery d join punctual.entry e on e.id = d.entry_id \
             where e.public_high = {high} and e.public_low = {low}"
        );
        let (sent, meant) = (begun.outgoing.due.len(), t.count(&intents).await);
        match bug {
            None => assert_eq!((sent, meant), (0, 0), "an intent was committed beside its end"),
            Some(bug) => assert_eq!((sent, meant), (1, 1), "{bug:?} was not caught"),
        }
        crowd.settle(begun).await;
    }
}
