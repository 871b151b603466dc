//! What must hold of notifications and surveys: no event is lost, each message is sent or says why it is
//! not, the log knows of every message that providers got, and nothing is sent after its end.
//!
//! The checker compares what publishers and customers asked and were told, what providers got, and what the
//! engine's lists and logs say (`send_reads.rs`).

use super::checker::{Broken, MILLISECOND, Promise, int, text};
use super::customers::Act;
use super::definitions::{CHANNELS, MAIL, REMINDERS, SENDS};
use super::history::Event;
use super::operation::Operation;
use super::provider::{Answer, REFUSAL};
use super::send_reads::{self, Delivery, Instance, Outcome, Schedule, Try};
use super::tally::Tally;
use punctual::testing::Backend;
use punctual::testing::place::Rows;
use punctual::{Engine, Tenant};
use std::collections::{BTreeMap, BTreeSet};

/// An event as its publisher knows it.
#[derive(Clone, Debug)]
struct Request {
    what: Operation,
    /// Its message, if it was acknowledged.
    answered: Option<i64>,
    /// Instances that it was told it began.
    begun: BTreeSet<String>,
    /// Whether it may have happened without an answer.
    open: bool,
}

/// What a customer did, and when the customer was told that it counts.
#[derive(Clone, Debug)]
struct CustomerAct {
    act: Act,
    done_at: Option<i64>,
}

/// Everything that is known of one round's sends.
#[derive(Default)]
pub struct Sends {
    first_op: u64,
    last_schedule: i64,
    last_instance: i64,
    last_claim: i64,
    last_report: i64,
    asked: BTreeMap<u64, Request>,
    acted: BTreeMap<u64, CustomerAct>,
    /// What providers got, by key.
    offered: BTreeMap<String, Vec<Answer>>,
    /// The key of each send of an instance.
    keys: BTreeMap<(String, u32), BTreeSet<String>>,
    /// How often the answer of an instance was reported.
    reported: BTreeMap<String, usize>,
    schedules: Vec<Schedule>,
    instances: Vec<Instance>,
    /// When sends of an instance were claimed.
    claims: Vec<(i64, i64)>,
}

impl Sends {
    /// Forgets the last round.
    pub fn begin(&mut self, first_op: u64) {
        let last_schedule = self.schedules.iter().map(|one| one.id).fold(self.last_schedule, i64::max);
        let last_instance = self.instances.iter().map(|one| one.id).fold(self.last_instance, i64::max);
        let (last_claim, last_report) = (self.last_claim, self.last_report);
        *self = Self { first_op, last_schedule, last_instance, last_claim, last_report, ..Self::default() };
    }

    /// Takes in what a process wrote down.
    pub fn hear(&mut self, event: &Event) {
        match event {
            Event::Asked { op, what } if *op >= self.first_op && what.is_sent() => {
                let asked = Request { what: *what, answered: None, begun: BTreeSet::new(), open: true };
                self.asked.entry(*op).or_insert(asked);
            }
            Event::Answered { op, message } => self.on(*op, |asked| asked.answered = Some(*message)),
            Event::Begun { op, instance } => self.on(*op, |asked| asked.begun.extend([instance.clone()])),
            Event::Refused { op, .. } => self.on(*op, |asked| asked.open &= asked.what.is_repeated()),
            Event::Acting { op, act } if *op >= self.first_op => {
                self.acted.insert(*op, CustomerAct { act: *act, done_at: None });
            }
            Event::Acted { op, act, done, at } if *op >= self.first_op => {
                self.acted.insert(*op, CustomerAct { act: *act, done_at: done.then_some(*at) });
            }
            Event::Offered { op, key, instance, send, answer } if *op >= self.first_op => {
                self.offered.entry(key.clone()).or_default().push(*answer);
                if let Some(instance) = instance {
                    self.keys.entry((instance.clone(), *send)).or_default().insert(key.clone());
                }
            }
            _ => {}
        }
    }

    fn on(&mut self, op: u64, change: impl FnOnce(&mut Request)) {
        if let Some(asked) = self.asked.get_mut(&op) {
            change(asked);
        }
    }

    /// The statement that asks for claims of this round.
    pub fn claims(&self, backend: Backend) -> String {
        send_reads::claims(backend, self.last_claim)
    }

    /// The statement that asks for reports of this round.
    pub fn reports(&self) -> String {
        send_reads::reports(self.last_report)
    }

    /// Takes in the claims and the reports.
    pub fn take_in(&mut self, claims: &Rows, deliveries: &Rows, reports: &Rows) {
        let deliveries: BTreeMap<i64, i64> =
            deliveries.iter().map(|row| (int(row, 0), int(row, 1))).collect();
        for row in claims {
            self.last_claim = self.last_claim.max(int(row, 0));
            let instances = send_reads::claimed_instances(text(row, 2), &deliveries);
            self.claims.extend(instances.into_iter().map(|instance| (instance, int(row, 1))));
        }
        for row in reports {
            self.last_report = self.last_report.max(int(row, 0));
            *self.reported.entry(send_reads::reported_instance(text(row, 1))).or_default() += 1;
        }
    }

    /// Takes in what the engine says.
    pub async fn read(&mut self, engine: &Engine, tenant: Tenant) -> Result<(), String> {
        self.schedules = send_reads::schedules(engine.store(), tenant, self.last_schedule).await?;
        self.instances = send_reads::instances(engine.store(), tenant, self.last_instance).await?;
        Ok(())
    }

    /// Every promise about sends that was not kept.
    pub fn judge(&self, backend: Backend, broken: &mut Vec<Broken>) {
        self.judge_events(broken);
        self.judge_offers(broken);
        for schedule in &self.schedules {
            self.judge_schedule(schedule, broken);
        }
        for instance in &self.instances {
            self.judge_instance(instance, broken);
            self.judge_customer(instance, backend, broken);
        }
    }

    /// Each acknowledged event has one schedule entry or one instance; no other has any.
    fn judge_events(&self, broken: &mut Vec<Broken>) {
        let mut made: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        for one in &self.schedules {
            made.entry(one.op).or_default().push(one.message.to_string());
        }
        for one in &self.instances {
            made.entry(one.op).or_default().push(one.name.clone());
        }
        for (op, asked) in &self.asked {
            let made = made.remove(op).unwrap_or_default();
            let mut say = |promise, said: &str| {
                broken.push(Broken::new(promise, format!("{:?} {op} {said}: {made:?}", asked.what)));
            };
            let message = asked.answered.map(|id| id.to_string());
            let named = if asked.what == Operation::Surveyed { None } else { message };
            let told = asked.begun.iter().chain(&named);
            if (asked.answered.is_some() && made.is_empty()) || told.clone().any(|one| !made.contains(one)) {
                say(Promise::NothingLost, "was acknowledged, and what it should lead to is not there");
            }
            if made.len() > 1 {
                say(Promise::NothingMadeUp, "led to more than one");
            }
            if asked.answered.is_none() && !asked.open && !made.is_empty() {
                say(Promise::NothingMadeUp, "was refused, and led to something");
            }
        }
        for (op, made) in made {
            broken.push(Broken::new(Promise::NothingMadeUp, format!("nobody asked for {op}: {made:?}")));
        }
    }

    /// Providers get only messages that the log knows, and each send of an instance has one key.
    fn judge_offers(&self, broken: &mut Vec<Broken>) {
        let deliveries = self.schedules.iter().flat_map(|one| &one.deliveries);
        let mut known: BTreeSet<&String> = deliveries.map(|one| &one.key).collect();
        let names: BTreeSet<&String> = self.instances.iter().map(|one| &one.name).collect();
        for ((instance, send), keys) in &self.keys {
            if keys.len() > 1 || !names.contains(instance) {
                let said = format!("instance {instance}, send {send}, went out under {keys:?}");
                broken.push(Broken::new(Promise::LoggedSends, said));
            }
            known.extend(keys);
        }
        for (key, answers) in self.offered.iter().filter(|(key, _)| !known.contains(key)) {
            let said = format!("a provider got {key}, of which the log knows nothing: {answers:?}");
            broken.push(Broken::new(Promise::LoggedSends, said));
        }
    }

    fn judge_schedule(&self, schedule: &Schedule, broken: &mut Vec<Broken>) {
        let name = format!("schedule {} ({})", schedule.id, schedule.op);
        let channels: BTreeSet<&str> = schedule.deliveries.iter().map(|one| one.channel.as_str()).collect();
        if schedule.deliveries.len() != CHANNELS.len() || channels.len() != CHANNELS.len() {
            let said = format!("{name} should have a delivery for each channel: {schedule:?}");
            broken.push(Broken::new(Promise::NothingLost, said));
        }
        let all_sent = schedule.deliveries.iter().all(|one| one.status == "Sent");
        if schedule.status != if all_sent { "Sent" } else { "Failed" } {
            let said = format!("{name} is {}: {:?}", schedule.status, schedule.deliveries);
            broken.push(Broken::new(Promise::Truth, said));
        }
        for delivery in &schedule.deliveries {
            self.judge_delivery(&name, delivery, broken);
        }
    }

    fn judge_delivery(&self, name: &str, delivery: &Delivery, broken: &mut Vec<Broken>) {
        let Delivery { key, tries, status, reason, .. } = delivery;
        self.judge_key(key, tries, broken);
        let has = |outcome| tries.iter().any(|one| one.outcome == outcome);
        let promise = match *status {
            "Pending" => Some(Promise::NothingLost),
            "Sent" => (!has(Outcome::Sent)).then_some(Promise::LoggedSends),
            "Failed" => (has(Outcome::Sent) || !self.was_refused(key)).then_some(Promise::LoggedSends),
            "Uncertain" => (has(Outcome::Sent) || !has(Outcome::Unsure)).then_some(Promise::LoggedSends),
            _ => Some(Promise::Truth),
        };
        let mute = *status != "Sent" && reason.is_none();
        if let Some(promise) = promise.or(mute.then_some(Promise::LoggedSends)) {
            let said = format!("{name}: {delivery:?}, and its provider got {:?}", self.offered.get(key));
            broken.push(Broken::new(promise, said));
        }
    }

    fn was_refused(&self, key: &str) -> bool {
        self.offered.get(key).is_some_and(|answers| answers.contains(&Answer::Refused))
    }

    /// A provider gets a message again only if the log says why, and the log says sent only of what it got.
    fn judge_key(&self, key: &str, tries: &[Try], broken: &mut Vec<Broken>) {
        let answers = self.offered.get(key).map_or(&[][..], Vec::as_slice);
        let said = |outcome| tries.iter().filter(|one| one.outcome == outcome).count();
        let taken = answers.iter().filter(|answer| **answer == Answer::Taken).count();
        let (sent, unsure) = (said(Outcome::Sent), said(Outcome::Unsure));
        let in_silence = answers.len() > tries.len() || taken > sent + unsure;
        if in_silence || sent > 1 || sent > taken {
            let said = format!("{key}: its provider got {answers:?}, and the log says {tries:?}");
            broken.push(Broken::new(Promise::LoggedSends, said));
        }
    }

    fn judge_instance(&self, instance: &Instance, broken: &mut Vec<Broken>) {
        let (name, none) = (format!("instance {} ({})", instance.name, instance.op), BTreeSet::new());
        let mut say = |promise, said: &str| {
            broken.push(Broken::new(promise, format!("{name} {said}: {instance:?}")));
        };
        match instance.status {
            "Completed" | "Cancelled" => {}
            "Expired" | "Failed" => {
                if !(1..=SENDS).all(|send| instance.is_through(send)) {
                    say(Promise::AllSends, "has ended without all its sends");
                }
            }
            _ => say(Promise::NothingLost, "has not ended"),
        }
        if instance.sends.keys().any(|send| !(1..=SENDS).contains(send)) {
            say(Promise::AllSends, "has more sends than it should");
        }
        if instance.is_early() {
            say(Promise::NotEarly, "was reminded too early");
        }
        for (send, tries) in &instance.sends {
            let keys = self.keys.get(&(instance.name.clone(), *send)).unwrap_or(&none);
            keys.iter().for_each(|key| self.judge_key(key, tries, broken));
            if keys.is_empty() && tries.iter().any(|one| one.outcome == Outcome::Sent) {
                let said = format!("{name}: the log says that send {send} went out: {tries:?}");
                broken.push(Broken::new(Promise::LoggedSends, said));
            }
        }
        for ((_, send), keys) in self.keys.iter().filter(|((of, _), _)| *of == instance.name) {
            if !instance.sends.contains_key(send) {
                let said = format!("{name}: the log has no send {send}, which went out as {keys:?}");
                broken.push(Broken::new(Promise::LoggedSends, said));
            }
        }
    }

    /// What a customer was told is so, is reported once, and nothing is claimed for sending after it.
    fn judge_customer(&self, instance: &Instance, backend: Backend, broken: &mut Vec<Broken>) {
        let mut say = |promise, said: String| {
            broken.push(Broken::new(promise, format!("instance {} {said}", instance.name)));
        };
        let acted = self.acted.get(&instance.op);
        let reports = self.reported.get(&instance.name).copied().unwrap_or_default();
        if reports != usize::from(instance.status == "Completed") {
            say(Promise::Truth, format!("is {}, and has {reports} reports of an answer", instance.status));
        }
        let ended = match acted.map(|acted| acted.act) {
            Some(Act::Answer) => "Completed",
            Some(Act::Withdraw) => "Cancelled",
            None => "",
        };
        if ["Completed", "Cancelled"].contains(&instance.status) && instance.status != ended {
            say(Promise::NothingMadeUp, format!("is {}, and its customer did {acted:?}", instance.status));
        }
        let Some(told) = acted.and_then(|acted| acted.done_at) else { return };
        if instance.status != ended {
            say(Promise::Truth, format!("is {}, and its customer was told that {acted:?}", instance.status));
        }
        let slack = if backend == Backend::Sqlite { MILLISECOND } else { 0 };
        for (_, at) in self.claims.iter().filter(|(of, at)| *of == instance.id && *at > told + slack) {
            let late = at - told;
            say(Promise::NotAfterEnd, format!("was claimed {late} us after its customer was told its end"));
        }
    }

    /// Operations of this round that lead to sends.
    pub fn asked(&self) -> usize {
        self.asked.len()
    }

    /// Operations of this round that were never acknowledged and may have happened.
    pub fn unsure(&self) -> usize {
        let unsure = |asked: &&Request| asked.answered.is_none() && asked.begun.is_empty() && asked.open;
        self.asked.values().filter(unsure).count()
    }

    /// Adds this round to what is told at the end.
    pub fn count(&self, tally: &mut Tally) {
        let done =
            |act: Act| self.acted.values().filter(|one| one.act == act && one.done_at.is_some()).count();
        let of_schedules = self.schedules.iter().flat_map(|one| &one.deliveries).flat_map(|one| &one.tries);
        let of_instances = self.instances.iter().flat_map(|one| one.sends.values().flatten());
        let unsure = of_schedules.chain(of_instances).filter(|one| one.outcome == Outcome::Unsure).count();
        let answers = || self.offered.values().flatten();
        let said = answers().filter(|one| matches!(one, Answer::Unknown | Answer::Timeout)).count();
        let again = |of: &&Vec<Answer>| of.iter().filter(|one| **one == Answer::Taken).count() > 1;
        tally.schedules += self.schedules.len();
        tally.instances += self.instances.len();
        tally.offered += answers().count();
        tally.reminded += self.keys.keys().filter(|(_, send)| *send > 1).count();
        tally.answered += done(Act::Answer);
        tally.withdrawn += done(Act::Withdraw);
        tally.lost_sends += unsure.saturating_sub(said);
        tally.doubled += self.offered.values().filter(again).count();
    }
}

impl Instance {
    /// Whether a send was made, or given up for a reason that ends it: a refusal, or an unknown outcome on a
    /// channel that holds such a message.
    fn is_through(&self, send: u32) -> bool {
        let last = self.sends.get(&send).and_then(|tries| tries.last());
        last.is_some_and(|last| match last.outcome {
            Outcome::Sent => true,
            Outcome::Unsure => self.channel == MAIL,
            Outcome::NotSent => last.reason.as_deref() == Some(REFUSAL),
        })
    }

    /// Whether a reminder came sooner than its schedule says after a send that went out.
    fn is_early(&self) -> bool {
        (1..).zip(REMINDERS).any(|(send, wait)| {
            let went_out = self.sends.get(&send).and_then(|tries| tries.last());
            let went_out = went_out.filter(|last| last.outcome == Outcome::Sent);
            let next = self.sends.get(&(send + 1)).and_then(|tries| tries.first());
            let wait = i64::try_from(wait.as_micros()).unwrap();
            went_out.zip(next).is_some_and(|(last, next)| next.at < last.at + wait)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::checker;
    use super::super::definitions::SMS;
    use super::*;

    fn sent(at: i64) -> Vec<Try> {
        vec![Try { outcome: Outcome::Sent, reason: None, at }]
    }

    fn offered(key: &str, instance: Option<&str>, send: u32) -> Event {
        let (key, instance) = (key.to_owned(), instance.map(str::to_owned));
        Event::Offered { op: 7, key, instance, send, answer: Answer::Taken }
    }

    fn found(sends: &Sends) -> Vec<Promise> {
        let mut broken = Vec::new();
        sends.judge(Backend::Sqlite, &mut broken);
        checker::promises(&broken).into_iter().collect()
    }

    /// A notification that went out by both channels.
    fn notification() -> Sends {
        let mut sends = Sends::default();
        sends.hear(&Event::Asked { op: 7, what: Operation::Notified });
        sends.hear(&Event::Answered { op: 7, message: 9 });
        let delivery = |channel: &str| Delivery {
            key: channel.to_owned(),
            channel: channel.to_owned(),
            status: "Sent",
            reason: None,
            tries: sent(1),
        };
        let deliveries = CHANNELS.map(delivery).to_vec();
        sends.schedules = vec![Schedule { id: 1, op: 7, message: 9, status: "Sent", deliveries }];
        CHANNELS.iter().for_each(|channel| sends.hear(&offered(channel, None, 1)));
        sends
    }

    /// A survey that nobody answered.
    fn survey() -> Sends {
        let mut sends = Sends::default();
        sends.hear(&Event::Asked { op: 7, what: Operation::Ingested });
        sends.hear(&Event::Begun { op: 7, instance: "abc".into() });
        let (name, channel) = ("abc".to_owned(), SMS.to_owned());
        let tries = (1..=SENDS).map(|send| (send, sent(i64::from(send) * 1_000_000))).collect();
        sends.instances = vec![Instance { id: 1, op: 7, name, channel, status: "Expired", sends: tries }];
        (1..=SENDS).for_each(|send| sends.hear(&offered(&format!("abc-{send}"), Some("abc"), send)));
        sends
    }

    #[test]
    fn a_lost_event_a_silent_double_and_a_mute_failure_are_found() {
        assert_eq!(found(&notification()), []);
        let change = |change: &dyn Fn(&mut Sends)| {
            let mut sends = notification();
            change(&mut sends);
            found(&sends)
        };
        assert_eq!(
            change(&|sends| sends.schedules.clear()),
            [Promise::NothingLost, Promise::LoggedSends],
            "no schedule entry"
        );
        assert_eq!(change(&|sends| sends.asked.clear()), [Promise::NothingMadeUp]);
        assert_eq!(change(&|sends| sends.hear(&offered(SMS, None, 1))), [Promise::LoggedSends], "twice");
        assert_eq!(change(&|sends| drop(sends.offered.remove(SMS))), [Promise::LoggedSends], "never");
        let fail = |sends: &mut Sends| {
            sends.schedules[0].status = "Failed";
            sends.schedules[0].deliveries[0].status = "Failed";
            sends.schedules[0].deliveries[0].tries.clear();
        };
        assert_eq!(change(&fail), [Promise::LoggedSends]);
        let wait = |sends: &mut Sends| sends.schedules[0].deliveries[0].status = "Pending";
        assert_eq!(change(&wait), [Promise::NothingLost, Promise::Truth]);
    }

    #[test]
    fn a_missing_reminder_an_early_one_and_a_send_after_the_end_are_found() {
        assert_eq!(found(&survey()), []);
        let change = |change: &dyn Fn(&mut Sends)| {
            let mut sends = survey();
            change(&mut sends);
            found(&sends)
        };
        let miss = |sends: &mut Sends| {
            drop(sends.instances[0].sends.remove(&SENDS));
            drop(sends.keys.remove(&("abc".into(), SENDS)));
            drop(sends.offered.remove(&format!("abc-{SENDS}")));
        };
        assert_eq!(change(&miss), [Promise::AllSends]);
        let early = |sends: &mut Sends| drop(sends.instances[0].sends.insert(2, sent(1_000_001)));
        assert_eq!(change(&early), [Promise::NotEarly]);
        let complete = |sends: &mut Sends| {
            sends.hear(&Event::Acted { op: 7, act: Act::Answer, done: true, at: 5_000_000 });
            sends.reported.insert("abc".into(), 1);
            sends.instances[0].status = "Completed";
        };
        assert_eq!(change(&complete), []);
        let late = |sends: &mut Sends| {
            complete(sends);
            sends.claims = vec![(1, 4_000_000), (1, 6_000_000)];
        };
        assert_eq!(change(&late), [Promise::NotAfterEnd]);
        assert_eq!(
            change(&|sends| sends.instances[0].status = "Completed"),
            [Promise::NothingMadeUp, Promise::Truth],
            "nobody answered"
        );
    }
}
