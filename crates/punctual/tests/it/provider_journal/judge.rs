//! The provider's journal against the database: every promise that was not kept, as a sentence.

use super::provider::{Call, Made, RETRY_AFTER};
use super::{HOLDING, KNOWING};
use crate::engine::Live;
use punctual::delivery::rules::delivery::DeliveryStatus;
use std::collections::HashMap;

/// A delivery as the database has it.
#[derive(Debug)]
struct Logged {
    channel: String,
    key: String,
    status: DeliveryStatus,
    provider_id: Option<String>,
    notification: i64,
    tries: Vec<String>,
}

impl Logged {
    /// Tries of which nobody knows whether they went out.
    fn ambiguous(&self) -> usize {
        self.tries.iter().filter(|word| matches!(word.as_str(), "timeout" | "unknown")).count()
    }
}

fn number(text: Option<&String>) -> i64 {
    text.unwrap().parse().unwrap()
}

async fn log(live: &Live) -> Vec<Logged> {
    let mut tries: HashMap<i64, Vec<String>> = HashMap::new();
    let sql = "select delivery_id, outcome from punctual.delivery_attempt order by delivery_id, tried";
    for row in live.texts(sql).await {
        tries.entry(number(row[0].as_ref())).or_default().push(row[1].clone().unwrap());
    }
    let sql = "select id, channel, idempotency_key, status, provider_id, entry_id from punctual.delivery";
    let mut all = Vec::new();
    for mut row in live.texts(sql).await {
        all.push(Logged {
            channel: row[1].take().unwrap(),
            key: row[2].take().unwrap(),
            status: DeliveryStatus::from_code(number(row[3].as_ref())).unwrap(),
            provider_id: row[4].take(),
            notification: number(row[5].as_ref()),
            tries: tries.remove(&number(row[0].as_ref())).unwrap_or_default(),
        });
    }
    all
}

/// Every promise that was not kept, and how many tries nobody knows the outcome of.
pub async fn judge(live: &Live, calls: &[Call], events: usize) -> (Vec<String>, usize) {
    let mut broken = Vec::new();
    let log = log(live).await;
    if log.len() != 3 * events {
        broken.push(format!("{events} events came to {} deliveries, not three each", log.len()));
    }
    let mut by_key: HashMap<&str, Vec<(usize, &Call)>> = HashMap::new();
    for (n, call) in calls.iter().enumerate() {
        by_key.entry(&call.key).or_default().push((n, call));
    }
    for one in &log {
        let heard = by_key.remove(one.key.as_str()).unwrap_or_default();
        for said in judge_one(one, &heard) {
            broken.push(format!("{}: {said}; {one:?}, and the provider: {heard:?}", one.key));
        }
    }
    for key in by_key.keys() {
        broken.push(format!("{key}: the provider was called for what is not in the log"));
    }
    judge_notifications(live, &log, &mut broken).await;
    (broken, log.iter().map(Logged::ambiguous).sum())
}

/// What is wrong with one delivery and the calls for it.
fn judge_one(one: &Logged, heard: &[(usize, &Call)]) -> Vec<&'static str> {
    let effects = heard.iter().filter(|(_, call)| call.is_effect()).count();
    let (sent, ambiguous) = (one.status == DeliveryStatus::Sent, one.ambiguous());
    let mut wrong = Vec::new();
    let mut must = |holds: bool, said: &'static str| wrong.extend((!holds).then_some(said));
    must(heard.len() <= one.tries.len(), "it was called more often than the log says");
    must(one.tries.iter().filter(|word| *word == "sent").count() == usize::from(sent), "it was sent twice");
    must(!sent || effects > 0, "it is said to be sent, and had no effect");
    must(effects <= usize::from(sent) + ambiguous, "it had effects that the log does not account for");
    let answered = |n: usize, call: &Call| {
        one.provider_id.as_deref() == Some(n.to_string().as_str())
            && matches!(call.made, Made::Effect | Made::Known)
    };
    must(!sent || heard.iter().any(|(n, call)| answered(*n, call)), "its provider's id is of no effect");
    let last = one.tries.last().map(String::as_str);
    match one.status {
        DeliveryStatus::Sent => {}
        DeliveryStatus::Failed => must(last == Some("permanent"), "it was given up without a refusal"),
        DeliveryStatus::Uncertain => {
            let unknown = one.tries.iter().filter(|word| *word == "unknown").count();
            must(one.channel == HOLDING || unknown > 1, "its channel sends again, and it was held");
            must(matches!(last, Some("timeout" | "unknown")), "it is uncertain, and the last try is not");
        }
        _ => must(false, "it has not come to an end"),
    }
    if one.channel == KNOWING {
        let uncertain = one.status == DeliveryStatus::Uncertain && effects < 2;
        must(
            uncertain || effects == usize::from(sent),
            "it should have had exactly one effect if it was not refused",
        );
    }
    if one.channel == HOLDING {
        must(effects <= 1, "its channel does not send twice, and it had two effects");
    }
    let early = heard.windows(2).any(|pair| {
        let (before, next) = (pair[0].1, pair[1].1);
        before.made == Made::Wait && next.begun < before.answered.plus(RETRY_AFTER)
    });
    must(!early, "it came again before the provider wanted it");
    wrong
}

/// A notification stands as its deliveries do, and nothing waits.
async fn judge_notifications(live: &Live, log: &[Logged], broken: &mut Vec<String>) {
    let mut all_sent: HashMap<i64, bool> = HashMap::new();
    for one in log {
        *all_sent.entry(one.notification).or_insert(true) &= one.status == DeliveryStatus::Sent;
    }
    for row in live.texts("select id, status, open from punctual.entry").await {
        let (id, status, open) = (number(row[0].as_ref()), number(row[1].as_ref()), number(row[2].as_ref()));
        let want = if all_sent.get(&id) == Some(&true) { 1 } else { 6 };
        if (status, open) != (want, 0) {
            broken.push(format!(
                "notification {id} has the status {status} and {open} open, not {want} and none"
            ));
        }
    }
    let left = live.count("select count(*) from punctual.work").await;
    if left > 0 {
        broken.push(format!("{left} rows of work are left"));
    }
}

/// A judge that finds nothing proves something only if it would have.
#[test]
fn what_is_not_as_promised_is_told() {
    use DeliveryStatus::{Failed, Pending, Sent, Uncertain};
    use Made::{Effect, MuddledEffect, Refused, SilentEffect, Transient, Wait};
    let said = |channel: &str, status, tries: &[&str], made: &[Made]| {
        let tries = tries.iter().map(|word| (*word).to_owned()).collect();
        let provider_id = made.iter().rposition(|made| *made == Effect).map(|n| n.to_string());
        let (channel, key) = (channel.to_owned(), "k".to_owned());
        let one = Logged { channel, key, status, provider_id, notification: 1, tries };
        let at = punctual::Timestamp::from_micros(1);
        let call = |made: &Made| Call { key: "k".into(), made: *made, begun: at, answered: at };
        let calls: Vec<Call> = made.iter().map(call).collect();
        judge_one(&one, &calls.iter().enumerate().collect::<Vec<_>>()).join("; ")
    };
    let again = super::AGAIN;
    assert_eq!(said(again, Sent, &["timeout", "sent"], &[SilentEffect, Effect]), "");
    assert_eq!(said(HOLDING, Uncertain, &["unknown"], &[SilentEffect]), "");
    assert_eq!(said(again, Uncertain, &["unknown", "unknown"], &[MuddledEffect, MuddledEffect]), "");
    assert_eq!(said(KNOWING, Failed, &["transient", "permanent"], &[Transient, Refused]), "");
    let wrong = [
        (said(again, Sent, &["sent"], &[Effect, Effect]), "called more often"),
        (said(again, Sent, &["transient", "sent"], &[SilentEffect, Effect]), "not account for"),
        (said(again, Sent, &["sent"], &[Transient]), "had no effect"),
        (said(again, Failed, &["transient"], &[Transient]), "given up without a refusal"),
        (said(again, Pending, &[], &[]), "not come to an end"),
        (said(again, Uncertain, &["unknown"], &[SilentEffect]), "its channel sends again"),
        (said(again, Sent, &["transient", "sent"], &[Wait, Effect]), "before the provider wanted it"),
        (said(KNOWING, Sent, &["timeout", "sent"], &[SilentEffect, Effect]), "exactly one effect"),
        (said(HOLDING, Sent, &["unknown", "sent"], &[SilentEffect, Effect]), "had two effects"),
    ];
    for (said, want) in wrong {
        assert!(said.contains(want), "`{want}` should have been told, not `{said}`");
    }
}
