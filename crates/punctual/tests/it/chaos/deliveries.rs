//! What must hold of received messages: each has one effect, however often it is delivered.

use super::beside::Deliveries;
use super::checker::{Broken, Promise, text};
use super::history::Event;
use punctual::testing::place::Rows;
use std::collections::HashMap;

/// What the database is asked for.
pub const EFFECTS: &str = "select message, token from chaos_received";
pub const STATUS: &str = "select message_id, status from punctual.inbox";
/// How many are processed.
pub const PROCESSED: &str = "select count(*) from punctual.inbox where status = 'processed'";

/// What is known of one round's deliveries.
#[derive(Default)]
pub struct Received {
    round: Option<Deliveries>,
    /// The tokens under which a message's effect was committed.
    effects: HashMap<u64, Vec<String>>,
    status: HashMap<u64, String>,
    told: Vec<(u64, String, String)>,
}

impl Received {
    /// Forgets the last round.
    pub fn begin(&mut self, round: Option<Deliveries>) {
        *self = Self { round, ..Self::default() };
    }

    fn is_of_this_round(&self, message: u64) -> bool {
        self.round.is_some_and(|round| (round.first..round.first + round.count).contains(&message))
    }

    /// Takes in what a worker wrote down.
    pub fn hear(&mut self, event: Event) {
        if let Event::Received { message, token, told } = event
            && self.is_of_this_round(message)
        {
            self.told.push((message, token, told));
        }
    }

    /// Takes in what the database wrote down.
    pub fn read(&mut self, effects: &Rows, status: &Rows) {
        let number = |row: &[Option<String>]| text(row, 0).parse::<u64>().unwrap();
        for row in effects.iter().filter(|row| self.round.is_some_and(|r| number(row) >= r.first)) {
            self.effects.entry(number(row)).or_default().push(text(row, 1).to_owned());
        }
        self.status.extend(status.iter().map(|row| (number(row), text(row, 1).to_owned())));
    }

    /// Every promise about deliveries that was not kept.
    pub fn judge(&self, broken: &mut Vec<Broken>) {
        let Some(round) = self.round else { return };
        let none = Vec::new();
        for message in round.first..round.first + round.count {
            let effects = self.effects.get(&message).unwrap_or(&none);
            let status = self.status.get(&message).map_or("not there", String::as_str);
            if effects.len() != 1 || status != "processed" {
                let promise = if effects.len() > 1 { Promise::DoneOnce } else { Promise::NothingLost };
                let said = format!("received {message} is {status}, with effects of {effects:?}");
                broken.push(Broken::new(promise, said));
            }
        }
        for (message, token, told) in &self.told {
            let effects = self.effects.get(message).unwrap_or(&none);
            let fine = match told.as_str() {
                "completed" => effects.contains(token),
                "refused" => !effects.contains(token),
                "already" => !effects.is_empty(),
                _ => true,
            };
            if !fine {
                let said = format!("received {message}: {token} was told {told}, effects of {effects:?}");
                broken.push(Broken::new(Promise::Truth, said));
            }
        }
    }

    fn times(&self, word: &str) -> usize {
        self.told.iter().filter(|(_, _, told)| told == word).count()
    }

    /// Deliveries that were told to process, and those that were told it is done.
    pub fn count(&self) -> usize {
        self.times("process") + self.times("already")
    }

    /// Completions that came too late.
    pub fn refused(&self) -> usize {
        self.times("refused")
    }
}

#[test]
fn a_second_effect_a_missing_one_and_a_lie_are_found() {
    let text = |word: &str| Some(word.to_owned());
    let found = |effects: &[&str], told: &str| {
        let mut received = Received::default();
        received.begin(Some(Deliveries { first: 7, count: 1 }));
        received.hear(Event::Received { message: 7, token: "a".into(), told: told.into() });
        let effects = effects.iter().map(|token| vec![text("7"), text(token)]).collect();
        received.read(&effects, &vec![vec![text("7"), text("processed")]]);
        let mut broken = Vec::new();
        received.judge(&mut broken);
        super::checker::promises(&broken).into_iter().collect::<Vec<_>>()
    };
    assert_eq!(found(&["a"], "completed"), []);
    assert_eq!(found(&["a", "b"], "completed"), [Promise::DoneOnce]);
    assert_eq!(found(&[], "refused"), [Promise::NothingLost]);
    assert_eq!(found(&["a"], "refused"), [Promise::Truth]);
    assert_eq!(found(&["b"], "completed"), [Promise::Truth]);
}
