//! Letters: what a channel is given and what it answers. None is begun but under a claim that holds,
//! after its delivery was written, once for each claim, and again under the same key only when the try before
//! it is written down as failed or unknown (TRG-15, TRG-16).

use super::checker::{Place, Tables, delivery_row};
use super::deliveries::Try;
use super::dice::Dice;
use super::entries::Entries;
use super::faults::{Kind, Wire};
use super::truth::Verdict;
use punctual::rules::notification::DeliveryStatus;
use punctual::{Accepted, Letter, NotSent, Timestamp};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What became of a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    Taken,
    /// Not now; it is not to come again before.
    Transient(Option<Timestamp>),
    Permanent,
    Unknown,
}

#[derive(Clone, Debug)]
struct Posted {
    of: Try,
    token: String,
    key: String,
    /// What the channel said; nothing while it is at it, and when it was cut short.
    answered: Option<Answered>,
}

/// All letters of a run.
#[derive(Clone, Debug, Default)]
pub struct Letters {
    all: Vec<Posted>,
    calls: BTreeMap<i64, u64>,
    /// Whether what may have gone out is not sent again here.
    pub holds: bool,
}

impl Entries {
    /// A channel is called.
    fn begin(&mut self, actor: &str, letter: &Letter, tables: &Tables, now: Timestamp) -> Verdict<usize> {
        let public_id = letter.public_id.ok_or("a letter of no entry")?;
        let (entry, row) = self.by_public_id(public_id).ok_or("a letter of an entry that is not there")?;
        let (send, key) = (i64::from(letter.attempt), letter.idempotency_key.clone());
        let mut deliveries = self.seen.deliveries.iter();
        let Some((id, delivery)) = deliveries.find(|(_, of)| key.starts_with(&of.birth.key)) else {
            return Err(format!("{actor} began letter {send} of entry {entry} without a delivery: {row:?}"));
        };
        let say =
            |why: &str| Err(format!("{actor} began letter {send} of entry {entry} {why}: {delivery:?}"));
        if delivery.birth.key != key {
            return say(&format!("under the key {key}, which is not its delivery's"));
        }
        if (delivery.birth.entry, delivery.birth.send) != (entry, send) {
            return say("as another's");
        }
        if delivery.status != DeliveryStatus::Pending {
            return say("which has ended");
        }
        let Some(Place::Flying { token, owner, until, attempt, .. }) =
            tables.items.get(&delivery_row(*id)).map(|item| &item.place)
        else {
            return say("without a claim");
        };
        if owner != actor || *until <= now {
            return say(&format!("at {now}, under the claim of {owner} until {until}"));
        }
        let of = (*id, delivery.tried_before + i64::from(*attempt));
        self.letters.assert_next(of, token, &key, &self.seen.attempts)?;
        *self.letters.calls.entry(*id).or_default() += 1;
        self.letters.all.push(Posted { of, token: token.clone(), key, answered: None });
        Ok(self.letters.all.len() - 1)
    }
}

impl Letters {
    /// Whether this try may follow those before it.
    fn assert_next(&self, of: Try, token: &str, key: &str, attempts: &BTreeMap<Try, String>) -> Verdict {
        for other in &self.all {
            let same = other.of.0 == of.0;
            if same != (other.key == key) {
                return Err(format!(
                    "the letters {:?} and {of:?} have the keys {} and {key}",
                    other.of, other.key
                ));
            }
            if !same {
                continue;
            }
            if other.token == token {
                return Err(format!("the letter {of:?} was begun twice under one claim"));
            }
            match attempts.get(&other.of).map(String::as_str) {
                Some("transient") => {}
                Some("unknown" | "timeout") if !self.holds => {}
                was => return Err(format!("the letter {of:?} was begun, and {:?} is {was:?}", other.of)),
            }
        }
        Ok(())
    }

    /// Whether a letter of this delivery was begun under this claim.
    pub fn is_begun(&self, token: &str, id: i64) -> bool {
        self.all.iter().any(|letter| letter.token == token && letter.of.0 == id)
    }

    /// Whether it is not in the log what became of a letter of this delivery.
    pub fn has_open(&self, id: i64, attempts: &BTreeMap<Try, String>) -> bool {
        self.all.iter().any(|letter| letter.of.0 == id && !attempts.contains_key(&letter.of))
    }

    /// Whoever sends a letter again waits for as long as its channel wanted.
    pub fn assert_waits(&self, token: &str, id: i64, due: Timestamp) -> Verdict {
        let mut all = self.all.iter();
        match all.find(|letter| letter.token == token && letter.of.0 == id).map(|letter| letter.answered) {
            Some(Some(Answered::Transient(Some(at)))) if due < at => {
                Err(format!("it is due at {due}, and its channel is to be left alone until {at}"))
            }
            _ => Ok(()),
        }
    }

    fn find(&self, of: Try) -> Option<&Posted> {
        self.all.iter().rfind(|letter| letter.of == of)
    }

    /// A channel has taken this letter, under this claim.
    pub fn assert_taken(&self, of: Try, token: &str) -> Verdict {
        match self.find(of) {
            Some(letter) if letter.token == token && letter.answered == Some(Answered::Taken) => Ok(()),
            other => Err(format!("no channel has taken {of:?}: {other:?}")),
        }
    }

    /// Whether an outcome is what happened. `held` is the claim that stood until now: what was
    /// sent under it is known to whoever settles it, and what was sent before is not.
    pub fn judge(&self, of: Try, word: &str, channel: &str, held: Option<&str>) -> Verdict<&'static str> {
        let letter = self.find(of);
        let answered = letter.and_then(|letter| letter.answered);
        let known = letter.is_some_and(|letter| Some(letter.token.as_str()) == held);
        match (word, answered) {
            ("sent", Some(Answered::Taken)) => Ok("letter sent"),
            ("transient", Some(Answered::Transient(_))) => Ok("letter failed"),
            ("permanent", Some(Answered::Permanent)) => Ok("letter refused"),
            ("unknown", Some(Answered::Unknown)) => Ok("letter unknown"),
            // The channel may have been given so much time and no more.
            ("unknown" | "timeout", answered) if answered.is_none() || !known => Ok("letter lost"),
            ("no-channel", None) if channel == super::people::NOBODY => Ok("letter without a channel"),
            _ => Err(format!("try {of:?} is written down as {word}: {letter:?}")),
        }
    }

    /// What went out is in the log.
    pub fn assert_all_logged(&self, attempts: &BTreeMap<Try, String>) -> Verdict {
        match self.all.iter().find(|letter| !attempts.contains_key(&letter.of)) {
            Some(letter) => Err(format!("what became of a letter is not in the log: {letter:?}")),
            None => Ok(()),
        }
    }
}

/// What a channel does with a letter.
enum Manner {
    Fine,
    Slow(Duration),
    Transient(Option<Duration>),
    Permanent,
    Unknown,
    Panic,
    Poison,
}

/// How a channel treats this letter: by its delivery, and how often it came.
fn manner(dice: &mut Dice, lease: Duration) -> Manner {
    match dice.from(0..=19) {
        0..=9 => Manner::Fine,
        10 => Manner::Slow(lease + dice.millis(0..=2_000)),
        11 => Manner::Slow(dice.millis(10..=900)),
        12..=13 => Manner::Transient(None),
        14 => Manner::Transient(Some(dice.millis(100..=2_000))),
        15 => Manner::Permanent,
        16..=17 => Manner::Unknown,
        18 => Manner::Panic,
        _ => Manner::Poison,
    }
}

/// The channel of every engine.
pub async fn take(wire: Arc<Wire>, letter: Arc<Letter>) -> Result<Accepted, NotSent> {
    let world = &wire.world;
    let now = world.now();
    let begun = {
        let mut state = world.state();
        let super::world::State { entries, tables, .. } = &mut *state;
        entries.begin(&wire.name, &letter, tables, now)
    };
    let Ok(n) = begun else {
        world.judge(begun.map(|_| ()));
        return std::future::pending().await;
    };
    let (of, manner) = {
        let state = world.state();
        let of = state.entries.letters.all[n].of;
        let calls = state.entries.letters.calls[&of.0];
        let seed = of.0.unsigned_abs() << 16 | calls;
        (of, if state.healed { Manner::Fine } else { manner(&mut Dice::new(seed), state.plan.lease) })
    };
    world.say(&wire.name, &format!("begins letter {of:?}"));
    let answered = match &manner {
        Manner::Fine => Answered::Taken,
        Manner::Slow(time) => {
            wire.rest(*time).await;
            Answered::Taken
        }
        Manner::Transient(wait) => Answered::Transient(wait.map(|wait| now.plus(wait))),
        Manner::Permanent => Answered::Permanent,
        Manner::Unknown | Manner::Panic => Answered::Unknown,
        Manner::Poison => {
            world.state().counts.add(Kind::Poisoned);
            wire.die(Kind::Poisoned);
            return std::future::pending().await;
        }
    };
    world.state().entries.letters.all[n].answered = Some(answered);
    world.say(&wire.name, &format!("letter {of:?}: {answered:?}"));
    let error = || "no".to_owned();
    match manner {
        Manner::Transient(retry_after) => Err(NotSent::Transient { error: error(), retry_after }),
        Manner::Permanent => Err(NotSent::Permanent { error: error() }),
        Manner::Unknown => Err(NotSent::Unknown { error: error() }),
        Manner::Panic => std::panic::resume_unwind(Box::new("a planned panic")),
        _ => Ok(Accepted { message_id: Some(n.to_string()), answer: None }),
    }
}
