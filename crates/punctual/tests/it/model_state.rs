//! A queue in memory: what the store should do, without a database, without concurrency, and
//! with the same rules.

use crate::bench::SEED;
use punctual::base::clock::Timestamp;
use punctual::base::id::{LaneId, MessageId, Token};
use punctual::queue::rules::attempt::{RetryDecision, RetryPolicy, is_snooze};
use punctual::queue::rules::claim::ClaimItem;
use punctual::queue::rules::queue::DeadHeadPolicy;
use punctual::queue::store::settle::{SettleAction, SettleOutcome};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The key of a sequence in its lane.
type Place = (LaneId, String);
/// A message in due order.
type Turn = (Timestamp, MessageId);

#[derive(Clone, Debug)]
pub struct Lane {
    pub paused: bool,
    pub patience: RetryPolicy,
    pub dead_head: DeadHeadPolicy,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Waiting {
    pub attempts: u32,
    pub unstarted: u32,
    pub key: Option<String>,
}

#[derive(Clone, Debug)]
struct Fact {
    due: Timestamp,
    /// What its last attempt in its lane named.
    next_due: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    Open,
    Settled,
    Reaped,
}

#[derive(Clone, Debug)]
pub struct Held {
    pub token: Token,
    pub items: Vec<ClaimItem>,
    pub open: Vec<ClaimItem>,
    pub lease_until: Timestamp,
    pub started: bool,
    pub ending: Ending,
}

/// Everything there is.
#[derive(Debug)]
pub struct Model {
    pub now: Timestamp,
    pub lanes: BTreeMap<LaneId, Lane>,
    pub work: BTreeMap<(LaneId, Timestamp, MessageId), Waiting>,
    pub followers: BTreeMap<(LaneId, String, Timestamp, MessageId), Waiting>,
    pub heads: BTreeMap<Place, MessageId>,
    pub claims: Vec<Held>,
    pub dead: BTreeMap<MessageId, (LaneId, u32, Option<String>)>,
    pub attempts: BTreeMap<MessageId, u32>,
    /// Waits that were asked for and used up no attempt.
    pub snoozes: BTreeMap<MessageId, u32>,
    facts: BTreeMap<MessageId, Fact>,
}

/// What a reaping brought.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reaped {
    pub claims: usize,
    pub returned: usize,
    pub dead: usize,
}

impl Model {
    pub fn new(now: Timestamp, lanes: BTreeMap<LaneId, Lane>) -> Self {
        Self {
            now,
            lanes,
            work: BTreeMap::new(),
            followers: BTreeMap::new(),
            heads: BTreeMap::new(),
            claims: Vec::new(),
            dead: BTreeMap::new(),
            attempts: BTreeMap::new(),
            snoozes: BTreeMap::new(),
            facts: BTreeMap::new(),
        }
    }

    pub fn enqueue(&mut self, id: MessageId, lane: LaneId, due: Timestamp, key: Option<String>) {
        self.facts.insert(id, Fact { due, next_due: None });
        self.work.insert((lane, due, id), Waiting { attempts: 0, unstarted: 0, key });
    }

    /// What a claim of these lanes hands out, in groups that share a token.
    pub fn claim(&mut self, takes: &[(LaneId, usize)], lease: Duration) -> Vec<Vec<ClaimItem>> {
        let mut taken: Vec<(Turn, ClaimItem)> = Vec::new();
        for (lane, quota) in takes {
            if self.lanes[lane].paused {
                continue;
            }
            let due: Vec<_> = self
                .work
                .range((*lane, Timestamp::MIN, MessageId(i64::MIN))..=(*lane, self.now, MessageId(i64::MAX)))
                .take(*quota)
                .map(|(place, waiting)| (*place, waiting.clone()))
                .collect();
            for (place, w) in due {
                self.work.remove(&place);
                let item = ClaimItem(place.2, *lane, w.attempts + 1, w.unstarted, w.key);
                taken.push(((place.1, place.2), item));
            }
        }
        taken.sort_by_key(|(turn, _)| *turn);
        let heads: Vec<ClaimItem> =
            taken.into_iter().filter_map(|(turn, i)| self.take_head(turn, i)).collect();
        self.hold(heads, lease)
    }

    /// The item, if it is or becomes the head of its sequence; else it follows.
    fn take_head(&mut self, (due, id): Turn, item: ClaimItem) -> Option<ClaimItem> {
        let Some(key) = item.key().map(str::to_owned) else {
            return Some(item);
        };
        let head = *self.heads.entry((item.lane(), key.clone())).or_insert(id);
        if head == id {
            return Some(item);
        }
        let waiting =
            Waiting { attempts: item.attempt() - 1, unstarted: item.unstarted(), key: Some(key.clone()) };
        self.followers.insert((item.lane(), key, due, id), waiting);
        None
    }

    fn hold(&mut self, items: Vec<ClaimItem>, lease: Duration) -> Vec<Vec<ClaimItem>> {
        let (suspects, rest): (Vec<ClaimItem>, Vec<ClaimItem>) =
            items.into_iter().partition(ClaimItem::is_suspect);
        let mut groups: Vec<Vec<ClaimItem>> = suspects.into_iter().map(|i| vec![i]).collect();
        if !rest.is_empty() {
            groups.push(rest);
        }
        for group in &groups {
            self.claims.push(Held {
                token: Token::from(String::new()),
                items: group.clone(),
                open: group.clone(),
                lease_until: self.now.plus(lease),
                started: group.len() == 1 && !group[0].is_suspect(),
                ending: Ending::Open,
            });
        }
        groups
    }

    pub fn settle(&mut self, claim: usize, words: &[(MessageId, SettleAction)]) -> Vec<SettleOutcome> {
        let mut held = self.claims[claim].clone();
        let mut outcomes = Vec::new();
        for (id, word) in words {
            let at = held.open.iter().position(|i| i.message() == *id);
            let known = held.items.iter().any(|i| i.message() == *id);
            outcomes.push(match (at, &held.ending) {
                (Some(at), Ending::Open) => {
                    let item = held.open.remove(at);
                    self.hear(&item, word);
                    SettleOutcome::Done
                }
                (Some(_), Ending::Reaped) => SettleOutcome::LostClaim,
                _ if known => SettleOutcome::AlreadyFinished,
                _ => SettleOutcome::NotFound,
            });
        }
        if held.ending == Ending::Open && held.open.is_empty() {
            held.ending = Ending::Settled;
        }
        self.claims[claim] = held;
        outcomes
    }

    fn hear(&mut self, item: &ClaimItem, word: &SettleAction) {
        match word {
            SettleAction::Ack | SettleAction::Done { .. } => self.out_of_the_way(item),
            SettleAction::Release => {
                let fact = &self.facts[&item.message()];
                let due = fact.next_due.unwrap_or(fact.due);
                self.wait(item, due, item.attempt() - 1);
            }
            SettleAction::Fail { .. } => self.end(item, RetryDecision::Dead),
            SettleAction::Abandon { retry, .. } => {
                let seed = SEED ^ item.message().0.unsigned_abs();
                let verdict =
                    self.lanes[&item.lane()].patience.after_abandon(item, self.snoozes(item), *retry, seed);
                self.end(item, verdict);
                if is_snooze(self.snoozes(item), *retry) {
                    *self.snoozes.entry(item.message()).or_default() += 1;
                }
            }
        }
    }

    fn snoozes(&self, item: &ClaimItem) -> u32 {
        self.snoozes.get(&item.message()).copied().unwrap_or_default()
    }

    fn wait(&mut self, item: &ClaimItem, due: Timestamp, attempts: u32) {
        let key = item.key().map(str::to_owned);
        let waiting = Waiting { attempts, unstarted: item.unstarted(), key };
        self.work.insert((item.lane(), due, item.message()), waiting);
    }

    fn end(&mut self, item: &ClaimItem, verdict: RetryDecision) {
        *self.attempts.entry(item.message()).or_default() += 1;
        let next_due = match verdict {
            RetryDecision::Again(wait) => Some(self.now.plus(wait)),
            RetryDecision::Dead => None,
        };
        self.facts.get_mut(&item.message()).unwrap().next_due = next_due;
        if let Some(due) = next_due {
            self.wait(item, due, item.attempt());
            return;
        }
        let key = item.key().map(str::to_owned);
        self.dead.insert(item.message(), (item.lane(), item.attempt(), key));
        if self.lanes[&item.lane()].dead_head == DeadHeadPolicy::Pass {
            self.out_of_the_way(item);
        }
    }

    /// The next follower of the key goes back to work, as head.
    fn out_of_the_way(&mut self, item: &ClaimItem) {
        if let Some(key) = item.key() {
            self.pass_on((item.lane(), key.to_owned()), item.message());
        }
    }

    fn pass_on(&mut self, place: Place, id: MessageId) {
        if self.heads.get(&place) != Some(&id) {
            return;
        }
        let (lane, key) = place.clone();
        let start = (lane, key.clone(), Timestamp::MIN, MessageId(i64::MIN));
        let next = self.followers.range(start..).next().map(|(turn, w)| (turn.clone(), w.clone()));
        let Some((turn, waiting)) = next.filter(|(turn, _)| (turn.0, &turn.1) == (lane, &key)) else {
            self.heads.remove(&place);
            return;
        };
        let earlier = self.work.iter().find(|((l, due, id), w)| {
            *l == lane && w.key.as_ref() == Some(&key) && (*due, *id) < (turn.2, turn.3)
        });
        if let Some(((_, _, id), _)) = earlier {
            self.heads.insert(place, *id);
            return;
        }
        self.followers.remove(&turn);
        self.heads.insert(place, turn.3);
        self.work.insert((lane, turn.2, turn.3), waiting);
    }

    pub fn extend(&mut self, claim: usize, lease: Duration) -> bool {
        let until = self.now.plus(lease);
        let held = &mut self.claims[claim];
        let open = held.ending == Ending::Open;
        if open {
            held.lease_until = until;
        }
        open
    }

    pub fn mark_started(&mut self, claim: usize) -> bool {
        let held = &mut self.claims[claim];
        let open = held.ending == Ending::Open;
        held.started |= open;
        open
    }

    /// All claims whose lease ran out.
    pub fn reap(&mut self) -> Reaped {
        let mut reaped = Reaped::default();
        let expired = |c: &Held| c.ending == Ending::Open && c.lease_until <= self.now;
        let mut lost: Vec<usize> = (0..self.claims.len()).filter(|n| expired(&self.claims[*n])).collect();
        lost.sort_by_key(|n| self.claims[*n].lease_until);
        for n in lost {
            self.claims[n].ending = Ending::Reaped;
            reaped.claims += 1;
            let (started, items) = (self.claims[n].started, self.claims[n].open.clone());
            for item in items {
                let seed = SEED ^ item.message().0.unsigned_abs();
                let verdict =
                    self.lanes[&item.lane()].patience.after_reap(&item, self.snoozes(&item), started, seed);
                match verdict {
                    RetryDecision::Again(_) => reaped.returned += 1,
                    RetryDecision::Dead => reaped.dead += 1,
                }
                let unstarted = item.unstarted() + u32::from(!started);
                self.end(&ClaimItem(item.0, item.1, item.2, unstarted, item.4), verdict);
            }
        }
        reaped
    }

    /// All dead letters go back to work, or away.
    pub fn move_dead(&mut self, again: bool) -> BTreeSet<MessageId> {
        let dead = std::mem::take(&mut self.dead);
        let ids = dead.keys().copied().collect();
        if again {
            for (id, (lane, _, key)) in dead {
                let due = self.facts[&id].due;
                self.snoozes.remove(&id);
                self.work.insert((lane, due, id), Waiting { attempts: 0, unstarted: 0, key });
            }
            return ids;
        }
        for (id, (lane, _, key)) in dead {
            if let Some(key) = key {
                self.pass_on((lane, key), id);
            }
        }
        ids
    }

    /// Messages that are not done.
    pub fn unfinished(&self) -> BTreeSet<MessageId> {
        let waiting = self.work.keys().map(|place| place.2);
        let following = self.followers.keys().map(|turn| turn.3);
        let open = self.claims.iter().filter(|c| c.ending == Ending::Open);
        let in_flight = open.flat_map(|c| c.open.iter().map(ClaimItem::message));
        waiting.chain(following).chain(in_flight).chain(self.dead.keys().copied()).collect()
    }
}
