//! Leases and the inbox against small models in memory: the same random words, the same
//! answers. `PUNCTUAL_SEED` repeats a run.

use crate::bench::{Bench, TENANT, seconds};
use punctual::InboxDelivery;
use punctual::base::clock::Timestamp;
use punctual::base::id::FencingToken;
use punctual::base::random;
use punctual::jobs::store::leases::{AcquireOutcome, LeaseHold, ReleaseOutcome, RenewOutcome};
use punctual::queue::rules::inbox::InboxStatus;
use punctual::queue::store::inbox::{InboxBeginOutcome, InboxFilter, InboxTicket, ProcessingOutcome};
use punctual::queue::store::settle::SettleOutcome;
use std::collections::BTreeMap;

cases![plt_10_leases_do_what_the_model_does, plt_16_the_inbox_does_what_the_model_does];

const STEPS: usize = 400;
const MAX_ATTEMPTS: u32 = 2;

/// Numbers that repeat themselves from a seed.
pub struct Dice(u64);

impl Dice {
    pub fn new() -> Self {
        let given = std::env::var("PUNCTUAL_SEED").ok().map(|text| text.parse().expect("a number"));
        let seed = given.unwrap_or_else(random::seed);
        println!("PUNCTUAL_SEED={seed}");
        Self(seed)
    }

    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % n
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// The model of a lease: its last token, its holder, and the end that its row has.
struct Held {
    token: i64,
    by: Option<(String, Timestamp)>,
    until: Timestamp,
}

/// The model of the leases of a tenant: their rows, and the greatest token of a deleted row.
#[derive(Default)]
struct Leases {
    rows: BTreeMap<String, Held>,
    floor: i64,
}

impl Leases {
    fn prune(&mut self, before: Timestamp) {
        let gone = self.rows.values().filter(|held| held.until < before).map(|held| held.token);
        self.floor = gone.max().unwrap_or(0).max(self.floor);
        self.rows.retain(|_, held| held.until >= before);
    }
}

impl Held {
    fn holder(&self, now: Timestamp) -> Option<&str> {
        self.by.as_ref().filter(|(_, until)| *until > now).map(|(owner, _)| owner.as_str())
    }

    fn holds(&self, held: &LeaseHold, now: Timestamp) -> bool {
        held.token == FencingToken(self.token) && self.holder(now) == Some(&held.owner)
    }
}

/// PLT-10
async fn plt_10_leases_do_what_the_model_does(t: &Bench) {
    let mut dice = Dice::new();
    let mut model = Leases::default();
    let mut known: Vec<LeaseHold> = Vec::new();
    for step in 0..STEPS {
        let (now, length) = (t.now().await, seconds(1 + dice.below(4) as u64));
        let (name, owner) = (*dice.pick(&["x", "y"]), *dice.pick(&["a", "b", "c"]));
        match dice.below(9) {
            0 => {
                t.store().prune_leases(seconds(2)).await.unwrap();
                model.prune(now.minus(seconds(2)));
            }
            1 | 2 => drop(t.advance(seconds(1)).await),
            3 | 4 => {
                let said = t.store().acquire_lease(TENANT, name, owner, length).await.unwrap();
                let first = Held { token: model.floor, by: None, until: now };
                let held = model.rows.entry(name.into()).or_insert(first);
                let free = held.holder(now).is_none();
                let (AcquireOutcome::Acquired(lease) | AcquireOutcome::Held(lease)) = &said;
                assert_eq!(matches!(said, AcquireOutcome::Acquired(_)), free, "step {step}: {said:?}");
                if free {
                    let until = now.plus(length);
                    *held = Held { token: held.token + 1, by: Some((owner.into(), until)), until };
                    known.push(LeaseHold { name: name.into(), owner: owner.into(), token: lease.token });
                }
                assert_eq!((lease.token.0, lease.holder()), (held.token, held.holder(now)), "step {step}");
            }
            5 | 6 if !known.is_empty() => {
                let holding = dice.pick(&known).clone();
                let held = model.rows.get_mut(&holding.name).filter(|held| held.holds(&holding, now));
                let said = t.store().renew_lease(TENANT, holding.clone(), length).await.unwrap();
                assert_eq!(matches!(said, RenewOutcome::Renewed(_)), held.is_some(), "step {step}: {said:?}");
                if let Some(held) = held {
                    held.until = now.plus(length);
                    held.by = Some((holding.owner, held.until));
                }
            }
            _ if !known.is_empty() => {
                let holding = dice.pick(&known).clone();
                let held = model.rows.get_mut(&holding.name).filter(|held| held.holds(&holding, now));
                let said = t.store().release_lease(TENANT, holding.clone()).await.unwrap();
                assert_eq!(said == ReleaseOutcome::Released, held.is_some(), "step {step}");
                if let Some(held) = held {
                    held.by = None;
                }
            }
            _ => {}
        }
    }
}

/// What the model knows of a message.
struct Message {
    status: InboxStatus,
    ticket: Option<InboxTicket>,
    attempts: u32,
    until: Timestamp,
}

fn told(m: &Message, now: Timestamp) -> InboxBeginOutcome {
    let attempts = m.attempts;
    match m.status {
        InboxStatus::Processed => InboxBeginOutcome::AlreadyProcessed { attempts },
        InboxStatus::Dead => InboxBeginOutcome::Dead { attempts },
        InboxStatus::Processing if m.until > now => InboxBeginOutcome::InProgress { attempts },
        InboxStatus::Processing if attempts >= MAX_ATTEMPTS => InboxBeginOutcome::Dead { attempts },
        // To process: the ticket is not known beforehand.
        _ => InboxBeginOutcome::Conflict { attempts: attempts + 1 },
    }
}

/// PLT-16, PLT-17
async fn plt_16_the_inbox_does_what_the_model_does(t: &Bench) {
    let mut dice = Dice::new();
    let mut model: BTreeMap<String, Message> = BTreeMap::new();
    let mut known: Vec<InboxTicket> = Vec::new();
    for step in 0..STEPS {
        let (now, lease) = (t.now().await, seconds(1 + dice.below(3) as u64));
        match dice.below(6) {
            0 => drop(t.advance(seconds(1)).await),
            1 | 2 => {
                let id = dice.pick(&["1", "2", "3", "4", "5", "6", "7", "8"]).to_string();
                let delivery = InboxDelivery::new("shop", &id).lease(lease).max_attempts(MAX_ATTEMPTS);
                let said = t.store().begin_inbox(TENANT, delivery).await.unwrap();
                let expected =
                    model.get(&id).map_or(InboxBeginOutcome::Conflict { attempts: 1 }, |m| told(m, now));
                match (said, expected) {
                    (
                        InboxBeginOutcome::Process { ticket, attempts, lease_until },
                        InboxBeginOutcome::Conflict { attempts: due },
                    ) => {
                        assert_eq!((attempts, lease_until), (due, now.plus(lease)), "step {step}");
                        let (status, ticket) = (InboxStatus::Processing, Some(ticket));
                        known.extend(ticket.clone());
                        model.insert(id, Message { status, ticket, attempts, until: lease_until });
                    }
                    (said, expected) => {
                        assert_eq!(said, expected, "step {step}");
                        if matches!(said, InboxBeginOutcome::Dead { .. }) {
                            model.get_mut(&id).unwrap().status = InboxStatus::Dead;
                        }
                    }
                }
            }
            3 | 4 if !known.is_empty() => {
                let ticket = dice.pick(&known).clone();
                let message = model.get_mut(&ticket.message_id).unwrap();
                let error = String::from("no");
                let failed =
                    if message.attempts >= MAX_ATTEMPTS { InboxStatus::Dead } else { InboxStatus::Failed };
                let (mark, after) = match dice.below(4) {
                    0 => (ProcessingOutcome::Processed, InboxStatus::Processed),
                    1 => (ProcessingOutcome::Dead { error }, InboxStatus::Dead),
                    _ => (ProcessingOutcome::Failed { error }, failed),
                };
                let expected = match (message.ticket.as_ref() == Some(&ticket), message.status) {
                    (true, InboxStatus::Processing) => SettleOutcome::Done,
                    (true, status) if status == after => SettleOutcome::AlreadyFinished,
                    _ => SettleOutcome::LostClaim,
                };
                let said = t.store().mark_inbox(TENANT, ticket, mark).await.unwrap();
                assert_eq!(said, expected, "step {step}");
                if said == SettleOutcome::Done {
                    message.status = after;
                }
            }
            5 => {
                let moved = t.store().replay_inbox(TENANT, InboxFilter::default(), false).await.unwrap();
                let dead: Vec<&mut Message> =
                    model.values_mut().filter(|m| m.status == InboxStatus::Dead).collect();
                assert_eq!(moved.ids.len(), dead.len(), "step {step}");
                for message in dead {
                    (message.status, message.ticket, message.attempts) = (InboxStatus::Failed, None, 0);
                }
            }
            _ => {}
        }
        let rows = t.store().inbox(TENANT, InboxFilter::default(), 100).await.unwrap();
        let rows: BTreeMap<_, _> = rows.into_iter().map(|r| (r.message_id, (r.status, r.attempts))).collect();
        let expected: BTreeMap<_, _> =
            model.iter().map(|(id, m)| (id.clone(), (m.status, m.attempts))).collect();
        assert_eq!(rows, expected, "step {step}");
    }
}
