//! The provider behind every channel: what it is given, what it does with it and what it answers, which is
//! not always the truth. No send is begun but under a claim that holds, before the claim's mark, after its
//! delivery was written, once for each claim, and again under the same key only when the try before it is
//! in the log as failed or unknown (TRG-15, TRG-16, NTF-4, NTF-5).

use super::checker::{Place, Tables, delivery_row};
use super::deliveries::{Delivery, Try};
use super::dice::Dice;
use super::entries::{Entries, PersonRequest};
use super::faults::{Kind, Wire};
use super::truth::Verdict;
use punctual::delivery::rules::delivery::DeliveryStatus;
use punctual::{AcceptedMessage, RenderedMessage, SendError, Timestamp};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What the provider answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderAnswer {
    Accepted,
    /// Not now; it is not to come again before.
    Transient(Option<Timestamp>),
    Permanent,
    NoAnswer,
    Unknown,
}

/// One call of the provider.
#[derive(Clone, Debug)]
struct ProviderCall {
    of: Try,
    token: String,
    key: String,
    /// Whether the recipient got a message by it.
    effect: bool,
    /// Nothing while the provider is at it, and when it was cut short.
    answer: Option<ProviderAnswer>,
}

/// All calls of a run.
#[derive(Clone, Debug, Default)]
pub struct Provider {
    calls: Vec<ProviderCall>,
    by_delivery: BTreeMap<i64, u64>,
    /// Whether what may have gone out is not sent again here.
    pub holds: bool,
}

impl Entries {
    /// A channel is called.
    fn begin(
        &mut self,
        actor: &str,
        message: &RenderedMessage,
        tables: &Tables,
        now: Timestamp,
    ) -> Verdict<usize> {
        let (send, key) = (message.attempt, message.idempotency_key.clone());
        let Some((id, delivery)) = self.delivery_by_key(&key) else {
            return Err(format!("{actor} began send {send} under the key {key}, which no delivery has"));
        };
        let entry = delivery.birth.entry;
        let say = |why: &str| Err(format!("{actor} began send {send} of entry {entry} {why}: {delivery:?}"));
        if delivery.birth.key != key {
            return say(&format!("under the key {key}, which is not its delivery's"));
        }
        if !self.is_addressed(message, delivery) {
            return say("as another's");
        }
        if delivery.status != DeliveryStatus::Pending {
            return say("which has ended");
        }
        let Some(Place::Flying(claim)) = tables.items.get(&delivery_row(id)).map(|item| &item.place) else {
            return say("without a claim");
        };
        if claim.owner != actor || claim.until <= now {
            return say(&format!("at {now}, under the claim of {} until {}", claim.owner, claim.until));
        }
        if !claim.may_begin {
            return say("beyond the mark of its claim");
        }
        if let Some(since) = self.silent_since(delivery).filter(|since| *since < claim.claimed_at) {
            return say(&format!("which nobody wanted since {since}"));
        }
        let of = (id, delivery.tried_before + i64::from(claim.attempt));
        let is_repeated = self.asked.contains(&(delivery.birth.entry, PersonRequest::Retry));
        let repeated = if is_repeated { delivery.tried_before } else { 0 };
        self.provider.assert_next(of, &claim.token, (&key, repeated), &self.seen.attempts)?;
        let call = ProviderCall { of, token: claim.token.clone(), key, effect: false, answer: None };
        *self.provider.by_delivery.entry(id).or_default() += 1;
        self.provider.calls.push(call);
        Ok(self.provider.calls.len() - 1)
    }

    /// The delivery that a message is of. One that gave its key back makes way for a later one.
    fn delivery_by_key(&self, key: &str) -> Option<(i64, &Delivery)> {
        let made_of =
            |of: &Delivery| key.strip_prefix(&of.birth.key).is_some_and(|rest| rest.starts_with('@'));
        let all = || self.seen.deliveries.iter().map(|(id, of)| (*id, of));
        let kept = all().find(|(_, of)| of.keeps_key && of.birth.key == key);
        kept.or_else(|| all().find(|(_, of)| of.birth.key == key))
            .or_else(|| all().find(|(_, of)| made_of(of)))
    }

    fn is_addressed(&self, message: &RenderedMessage, delivery: &Delivery) -> bool {
        let birth = &delivery.birth;
        let of_entry = match message.public_id {
            Some(id) => self.by_public_id(id).is_some_and(|(entry, _)| entry == birth.entry),
            None => self.seen.notifications.contains_key(&birth.entry),
        };
        of_entry
            && i64::from(message.attempt) == birth.send
            && (&message.to, &message.channel) == (&birth.address, &birth.channel)
    }
}

impl Provider {
    /// Whether this try may follow those before it. A person may have had them repeated up to this number.
    fn assert_next(
        &self,
        of: Try,
        token: &str,
        (key, repeated): (&str, i64),
        attempts: &BTreeMap<Try, String>,
    ) -> Verdict {
        for other in self.calls.iter().filter(|other| other.of.0 == of.0) {
            if other.key != key {
                return Err(format!("the sends {:?} and {of:?} have two keys: {other:?}, {key}", other.of));
            }
            if other.token == token {
                return Err(format!("the send {of:?} was begun twice under one claim"));
            }
            match attempts.get(&other.of).map(String::as_str) {
                Some("transient") => {}
                Some("unknown" | "timeout") if !self.holds => {}
                Some(outcome) if other.of.1 <= repeated && outcome != "sent" => {}
                was => return Err(format!("the send {of:?} was begun, and {:?} is {was:?}", other.of)),
            }
        }
        Ok(())
    }

    /// Whether a send of this delivery was begun under this claim.
    pub fn is_begun(&self, token: &str, id: i64) -> bool {
        self.calls.iter().any(|call| call.token == token && call.of.0 == id)
    }

    /// Whether the outcome of a send of this delivery is not in the log.
    pub fn has_open(&self, id: i64, attempts: &BTreeMap<Try, String>) -> bool {
        self.calls.iter().any(|call| call.of.0 == id && !attempts.contains_key(&call.of))
    }

    /// Whoever sends again waits for as long as the provider wanted.
    pub fn assert_waits(&self, token: &str, id: i64, due: Timestamp) -> Verdict {
        let mut calls = self.calls.iter();
        match calls.find(|call| call.token == token && call.of.0 == id).map(|call| call.answer) {
            Some(Some(ProviderAnswer::Transient(Some(at)))) if due < at => {
                Err(format!("it is due at {due}, and its channel is to be left alone until {at}"))
            }
            _ => Ok(()),
        }
    }

    fn find(&self, of: Try) -> Option<&ProviderCall> {
        self.calls.iter().rfind(|call| call.of == of)
    }

    /// The provider has accepted this send, under this claim.
    pub fn assert_accepted(&self, of: Try, token: &str) -> Verdict {
        match self.find(of) {
            Some(call) if call.token == token && call.answer == Some(ProviderAnswer::Accepted) => Ok(()),
            other => Err(format!("no provider has accepted {of:?}: {other:?}")),
        }
    }

    /// Whether an outcome is what happened. `held` is the claim that stood until now: what was
    /// sent under it is known to whoever settles it, and what was sent before is not.
    pub fn judge(&self, of: Try, word: &str, channel: &str, held: Option<&str>) -> Verdict<&'static str> {
        let call = self.find(of);
        let answer = call.and_then(|call| call.answer);
        let known = call.is_some_and(|call| Some(call.token.as_str()) == held);
        match (word, answer) {
            ("sent", Some(ProviderAnswer::Accepted)) => Ok("send accepted"),
            ("transient", Some(ProviderAnswer::Transient(_))) => Ok("send failed"),
            ("permanent", Some(ProviderAnswer::Permanent)) => Ok("send refused"),
            ("timeout", Some(ProviderAnswer::NoAnswer)) => Ok("send not answered"),
            ("unknown", Some(ProviderAnswer::Unknown)) => Ok("send unknown"),
            // The provider may have been given so much time and no more.
            ("unknown" | "timeout", answer) if answer.is_none() || !known => Ok("send lost"),
            ("no-channel", None) if channel == super::people::NOBODY => Ok("send without a channel"),
            _ => Err(format!("try {of:?} is in the log as {word}: {call:?}")),
        }
    }

    /// In the end: every send is in the log, and every message that a recipient got is accounted for.
    pub fn assert_all_logged(&self, entries: &Entries) -> Verdict {
        let seen = &entries.seen;
        if let Some(call) = self.calls.iter().find(|call| !seen.attempts.contains_key(&call.of)) {
            return Err(format!("the outcome of a send is not in the log: {call:?}"));
        }
        for (id, delivery) in &seen.deliveries {
            let effects = self.calls.iter().filter(|call| call.of.0 == *id && call.effect).count();
            let sent = usize::from(delivery.status == DeliveryStatus::Sent);
            let tries = seen.attempts.range((*id, 1)..(*id + 1, -1));
            let unsure = tries.filter(|(_, word)| matches!(word.as_str(), "unknown" | "timeout")).count();
            if effects < sent || effects > sent + unsure || (self.holds && effects > 1) {
                return Err(format!("{effects} messages were received by delivery {id}: {delivery:?}"));
            }
        }
        Ok(())
    }
}

/// What the provider does with a message.
#[derive(Clone, Copy, Debug)]
enum Behaviour {
    Fine,
    Slow(Duration),
    Transient(Option<Duration>),
    Permanent,
    NoAnswer { effect: bool },
    Unknown { effect: bool },
    Panic,
    Poison { effect: bool },
}

impl Behaviour {
    const fn has_effect(self) -> bool {
        match self {
            Self::Fine | Self::Slow(_) | Self::Panic => true,
            Self::Transient(_) | Self::Permanent => false,
            Self::NoAnswer { effect } | Self::Unknown { effect } | Self::Poison { effect } => effect,
        }
    }
}

/// How the provider treats a message: by its delivery, and how often it came.
fn draw_behaviour(dice: &mut Dice, lease: Duration) -> Behaviour {
    let (drawn, effect) = (dice.from(0..=39), dice.chance(500));
    match drawn {
        0..=17 => Behaviour::Fine,
        18..=19 => Behaviour::Slow(lease + dice.millis(0..=2_000)),
        20..=21 => Behaviour::Slow(dice.millis(10..=900)),
        22..=26 => Behaviour::Transient(None),
        27..=29 => Behaviour::Transient(Some(dice.millis(100..=2_000))),
        30..=32 => Behaviour::Permanent,
        33..=34 => Behaviour::NoAnswer { effect },
        35..=36 => Behaviour::Unknown { effect },
        37..=38 => Behaviour::Panic,
        _ => Behaviour::Poison { effect },
    }
}

/// The channel of every engine.
pub async fn take(wire: Arc<Wire>, message: Arc<RenderedMessage>) -> Result<AcceptedMessage, SendError> {
    let world = &wire.world;
    if wire.is_dead() {
        return std::future::pending().await;
    }
    let now = world.now();
    let begun = {
        let mut state = world.state();
        let super::world::State { entries, tables, .. } = &mut *state;
        entries.begin(&wire.name, &message, tables, now)
    };
    let Ok(n) = begun else {
        world.judge(begun.map(|_| ()));
        return std::future::pending().await;
    };
    let (of, behaviour) = {
        let mut state = world.state();
        let of = state.entries.provider.calls[n].of;
        let calls = state.entries.provider.by_delivery[&of.0];
        let seed = state.plan.provider ^ (of.0.unsigned_abs() << 16 | calls);
        let drawn = draw_behaviour(&mut Dice::new(seed), state.plan.lease);
        let behaviour = if state.healed { Behaviour::Fine } else { drawn };
        state.entries.provider.calls[n].effect = behaviour.has_effect();
        (of, behaviour)
    };
    world.say(&wire.name, &format!("begins send {of:?}"));
    let answer = match behaviour {
        Behaviour::Fine => ProviderAnswer::Accepted,
        Behaviour::Slow(time) => {
            wire.rest(time).await;
            ProviderAnswer::Accepted
        }
        Behaviour::Transient(wait) => ProviderAnswer::Transient(wait.map(|wait| now.plus(wait))),
        Behaviour::Permanent => ProviderAnswer::Permanent,
        Behaviour::NoAnswer { .. } => ProviderAnswer::NoAnswer,
        Behaviour::Unknown { .. } | Behaviour::Panic => ProviderAnswer::Unknown,
        Behaviour::Poison { .. } => {
            world.state().counts.add(Kind::Poisoned);
            wire.die(Kind::Poisoned);
            return std::future::pending().await;
        }
    };
    world.state().entries.provider.calls[n].answer = Some(answer);
    world.say(&wire.name, &format!("send {of:?}: {answer:?}"));
    let error = "no".to_owned();
    match behaviour {
        Behaviour::Transient(retry_after) => Err(SendError::Transient { error, retry_after }),
        Behaviour::Permanent => Err(SendError::Permanent { error }),
        Behaviour::NoAnswer { .. } => Err(SendError::NoAnswer { error }),
        Behaviour::Unknown { .. } => Err(SendError::Unknown { error }),
        Behaviour::Panic => std::panic::resume_unwind(Box::new("a planned panic")),
        _ => Ok(AcceptedMessage { message_id: Some(n.to_string()), answer: None }),
    }
}
