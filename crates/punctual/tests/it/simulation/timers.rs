//! Timers: scheduled, cancelled and moved, each in time or too late.
//!
//! A timer is a message; what is said here is only what changing one may do to it. It is either
//! changed by somebody who asked for that very change, before anybody had it in hand, or it is
//! not changed at all, and whoever asked is told which (PLT-19).

use super::checker::{Hand, Place};
use super::truth::{Entry, Verdict};
use super::workload::Scene;
use punctual::{
    DueTime, EnqueueOutcome, Error, NewTimer, Result as Answered, ScheduledTimer, Tenant, Timestamp,
};
use std::time::Duration;

/// A change that somebody asked for: to another time, or away.
#[derive(Clone, Debug)]
pub struct Change {
    actor: String,
    to: Option<Timestamp>,
    /// Whether the answer is still to come.
    open: bool,
    done: bool,
}

impl Entry {
    /// A step that only a change explains; `None` if this is no such step.
    pub fn changed(&mut self, hand: &Hand<'_>, from: Option<&Place>, to: Option<&Place>) -> Option<Verdict> {
        let (was, tried) = waits(from?)?;
        let to = match to {
            None => None,
            Some(place) => Some(waits(place)?.0).filter(|due| *due != was).map(Some)?,
        };
        let wanted = |c: &&mut Change| c.open && !c.done && c.actor == hand.actor && c.to == to;
        let Some(change) = self.changes.iter_mut().find(wanted) else {
            return Some(Err("it was cancelled or moved, and nobody asked for that".into()));
        };
        if tried || self.flights.iter().any(|f| f.begun || f.end.is_none()) {
            return Some(Err("it was cancelled or moved after somebody had had it".into()));
        }
        change.done = true;
        match (to, &mut self.row) {
            (Some(due), Some((_, order))) => (self.due, *order, self.moved) = (due, due, true),
            _ => self.cancelled = true,
        }
        Some(Ok(()))
    }

    fn ask_change(&mut self, actor: &str, to: Option<Timestamp>) -> usize {
        self.changes.push(Change { actor: actor.into(), to, open: true, done: false });
        self.changes.len() - 1
    }

    /// What whoever asked hears: whether it was in time.
    fn hear_change(&mut self, at: usize, answer: Option<&Answered<bool>>) -> Verdict {
        let change = &mut self.changes[at];
        change.open = false;
        let told = match answer {
            None | Some(Err(Error::Unknown(_))) => return Ok(()),
            Some(Err(_)) => false,
            Some(Ok(in_time)) => *in_time,
        };
        if told == change.done {
            return Ok(());
        }
        let asked = change.clone();
        // Somebody who asked for the same twice, and has had no answer to the other: one is the other.
        let same = |c: &&mut Change| c.open && c.actor == asked.actor && c.to == asked.to && c.done == told;
        let Some(other) = self.changes.iter_mut().find(same) else {
            let said = format!("was to be {:?}: told {told}, and it is {}", asked.to, asked.done);
            return Err(format!("message {} {said}", self.n));
        };
        other.done = asked.done;
        self.changes[at].done = told;
        Ok(())
    }
}

/// When it is due where it waits, and whether it was tried before; `None` if it does not wait.
const fn waits(place: &Place) -> Option<(Timestamp, bool)> {
    match place {
        Place::Waiting { due, attempts, unstarted } | Place::Following { due, attempts, unstarted } => {
            Some((*due, *attempts + *unstarted > 0))
        }
        _ => None,
    }
}

impl Scene {
    /// Schedules a timer through an engine that runs, by a time from now on.
    pub async fn schedule(&self, tenant: Tenant) {
        let n = self.draw(tenant, 1)[0];
        let Some((engine, wire)) = self.world.any_node() else { return };
        let wait = self.world.state().dice.millis(0..=12_000);
        let due = self.world.now().plus(wait);
        let message = {
            let mut state = self.world.state();
            let entry = state.truth.entry_mut(n);
            (entry.due, entry.message.due_at, entry.message.id) = (due, Some(due), None);
            let message = entry.message.clone();
            state.truth.ask(&[n]);
            message
        };
        self.world.say(&wire.name, &format!("schedules {n}"));
        let timer = NewTimer { message, when: DueTime::In(wait) };
        let answer = tokio::select! {
            biased;
            answer = engine.schedule_one(tenant, timer) => Some(answer),
            () = wire.died() => None,
        };
        let answer = answer.map(|answer| answer.map(|one| vec![enqueued(one)]));
        let verdict = self.world.state().truth.answered(&[n], answer.as_ref());
        self.world.judge(verdict);
    }

    /// Cancels or moves a timer, which may be too late.
    pub async fn change_timer(&self) {
        let timers: Vec<u64> = {
            let state = self.world.state();
            let timers = state.truth.entries.values().filter(|e| e.message.due_at.is_some() && !e.done);
            timers.filter(|e| e.row.is_some()).map(|e| e.n).collect()
        };
        let Some((engine, wire)) = self.world.any_node().filter(|_| !timers.is_empty()) else { return };
        let now = self.world.now();
        let (tenant, id, at, to) = {
            let mut state = self.world.state();
            let n = *state.dice.pick(&timers);
            // No time that it has already.
            let odd = Duration::from_micros(1 + state.dice.from(0..=900));
            let later = now.minus(Duration::from_secs(1)).plus(state.dice.millis(0..=10_000) + odd);
            let to = state.dice.chance(500).then_some(later);
            let entry = state.truth.entry_mut(n);
            (entry.tenant, (n, entry.row.expect("a row").0), entry.ask_change(&wire.name, to), to)
        };
        let (n, row) = (id.0, punctual::MessageId(id.1));
        self.world.say(&wire.name, &format!("changes {n} to {to:?}"));
        let asked = async {
            match to {
                None => engine.cancel_timer(tenant, row).await,
                Some(due) => engine.move_timer(tenant, row, DueTime::At(due)).await.map(|due| due.is_some()),
            }
        };
        let answer = tokio::select! {
            biased;
            answer = asked => Some(answer),
            () = wire.died() => None,
        };
        self.world.did(match (&answer, to) {
            (Some(Ok(true)), None) => "timer cancelled",
            (Some(Ok(true)), Some(_)) => "timer moved",
            (Some(Ok(false)), _) => "timer changed too late",
            _ => "timer change not answered",
        });
        let verdict = self.world.state().truth.entry_mut(n).hear_change(at, answer.as_ref());
        self.world.judge(verdict);
    }
}

const fn enqueued(one: ScheduledTimer) -> EnqueueOutcome {
    match one.duplicate {
        true => EnqueueOutcome::Duplicate { of: Some(one.id), same: true },
        false => EnqueueOutcome::New(one.id),
    }
}
