//! What must hold of leases: one holder at a time, tokens that grow, and nothing under a stale one.

use super::checker::{Broken, Promise, int, maybe_int, text};
use super::history::Event;
use punctual::testing::place::Rows;
use std::collections::{BTreeMap, HashMap, HashSet};

/// What the database is asked for; more is added behind `where`.
pub const ACQUIRED: &str = "select seq, at, name, token, was, held_until from chaos_lease";
pub const EFFECTS: &str = "select seq, name, token, effect from chaos_effect";

/// So many effects may be under way at once.
const STILL_OPEN: i64 = 200;

/// While somebody surely believed in a lease.
#[derive(Clone, Debug)]
struct Held {
    from: i64,
    until: i64,
}

/// What is known of leases, from the first round on: holders do not stop between rounds.
#[derive(Default)]
pub struct Leases {
    pub last_acquired: i64,
    last_effect: i64,
    /// Effects by their number, which may be seen out of order.
    seen: HashSet<i64>,
    held: BTreeMap<(String, i64), Held>,
    /// The last token whose effect was accepted, by name.
    latest: HashMap<String, i64>,
    /// Who wrote under a token.
    writers: HashMap<(String, i64), String>,
    accepted: HashMap<(String, i64, String), usize>,
    told: Vec<(String, i64, String, String)>,
    found: Vec<Broken>,
    acquired: usize,
}

impl Leases {
    /// Takes in what a worker wrote down.
    pub fn hear(&mut self, event: Event) {
        match event {
            Event::Held { name, token, from, until } => {
                let held = self.held.entry((name.clone(), token)).or_insert(Held { from, until });
                if held.from != from {
                    let said = format!("lease {name}: token {token} was given out twice");
                    self.found.push(Broken::new(Promise::OneHolder, said));
                }
                held.until = held.until.max(until);
            }
            Event::Fenced { name, token, effect, told } => self.told.push((name, token, effect, told)),
            _ => {}
        }
    }

    /// Takes in what the database wrote down.
    pub fn read(&mut self, acquired: &Rows, effects: &Rows, slack: i64) {
        for row in acquired {
            self.last_acquired = self.last_acquired.max(int(row, 0));
            self.acquired += 1;
            let (at, name, token) = (int(row, 1), text(row, 2), int(row, 3));
            if token <= int(row, 4) {
                let said = format!("lease {name}: token {token} came after {}", int(row, 4));
                self.found.push(Broken::new(Promise::OneHolder, said));
            }
            if let Some(until) = maybe_int(row, 5).filter(|until| at + slack < *until) {
                let said = format!("lease {name} was given to {token} {} us too early", until - at);
                self.found.push(Broken::new(Promise::OneHolder, said));
            }
        }
        for row in effects {
            self.last_effect = self.last_effect.max(int(row, 0));
            if !self.seen.insert(int(row, 0)) {
                continue;
            }
            let (name, token, effect) = (text(row, 1).to_owned(), int(row, 2), text(row, 3).to_owned());
            self.accept(name, token, effect);
        }
    }

    /// Effects are read from here on. A number is drawn before its commit, so an earlier one may come later.
    pub const fn read_from(&self) -> i64 {
        self.last_effect - STILL_OPEN
    }

    fn accept(&mut self, name: String, token: i64, effect: String) {
        let latest = self.latest.entry(name.clone()).or_default();
        if token < *latest {
            let said = format!("lease {name}: {effect} under {token} was accepted after one under {latest}");
            self.found.push(Broken::new(Promise::NoStaleToken, said));
        }
        *latest = token.max(*latest);
        let process = effect.split('-').next().unwrap_or_default().to_owned();
        let writer = self.writers.entry((name.clone(), token)).or_insert_with(|| process.clone());
        if *writer != process {
            let said = format!("lease {name}: {writer} and {process} wrote under {token}");
            self.found.push(Broken::new(Promise::OneHolder, said));
        }
        *self.accepted.entry((name, token, effect)).or_default() += 1;
    }

    /// Every promise about leases that was not kept.
    pub fn judge(&self, broken: &mut Vec<Broken>) {
        broken.extend(self.found.iter().cloned());
        for (((name, token), held), ((next_name, next), other)) in
            self.held.iter().zip(self.held.iter().skip(1))
        {
            if name == next_name && other.from < held.until {
                let said =
                    format!("lease {name}: {token} was held {} us after {next} was", held.until - other.from);
                broken.push(Broken::new(Promise::OneHolder, said));
            }
        }
        for told in &self.told {
            let (name, token, effect, word) = told;
            let times = self.accepted.get(&(name.clone(), *token, effect.clone())).copied().unwrap_or(0);
            let fine = match word.as_str() {
                "accepted" => times == 1,
                "refused" | "nothing" => times == 0,
                _ => times <= 1,
            };
            if !fine {
                let said = format!(
                    "lease {name}: {effect} under {token} was told {word}, and is there {times} times"
                );
                broken.push(Broken::new(Promise::Truth, said));
            }
        }
    }

    pub const fn acquired(&self) -> usize {
        self.acquired
    }

    /// Effects that came too late, and were told so.
    pub fn refused(&self) -> usize {
        self.told.iter().filter(|(_, _, _, word)| word == "refused").count()
    }
}

#[test]
fn two_holders_and_a_stale_effect_are_found() {
    let held = |token, from, until| Event::Held { name: "left".into(), token, from, until };
    let found = |events: Vec<Event>, effects: &[(i64, &str)]| {
        let mut leases = Leases::default();
        events.into_iter().for_each(|event| leases.hear(event));
        effects.iter().for_each(|(token, effect)| leases.accept("left".into(), *token, (*effect).into()));
        let mut broken = Vec::new();
        leases.judge(&mut broken);
        super::checker::promises(&broken).into_iter().collect::<Vec<_>>()
    };
    assert_eq!(found(vec![held(1, 0, 5), held(1, 0, 9), held(2, 9, 12)], &[(1, "7-0"), (2, "8-0")]), []);
    assert_eq!(found(vec![held(1, 0, 9), held(2, 8, 12)], &[]), [Promise::OneHolder]);
    assert_eq!(found(vec![held(1, 0, 9), held(1, 3, 9)], &[]), [Promise::OneHolder]);
    assert_eq!(found(Vec::new(), &[(1, "7-0"), (1, "8-0")]), [Promise::OneHolder]);
    assert_eq!(found(Vec::new(), &[(2, "8-0"), (1, "7-0")]), [Promise::NoStaleToken]);
    let refused =
        Event::Fenced { name: "left".into(), token: 1, effect: "7-0".into(), told: "refused".into() };
    assert_eq!(found(vec![refused], &[(1, "7-0")]), [Promise::Truth]);
}
