//! Random commands, given to the store and to a model of it: after each they must agree.
//!
//! `PUNCTUAL_CASES` says how many cases, `PUNCTUAL_SEED` repeats a run. A failing case is
//! made as short as it gets before it is shown.

use crate::bench::{Bench, SEED, TENANT, message, seconds, wish};
use crate::model_state::{Ending, Lane, Model};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner};
use punctual::base::backoff::Backoff;
use punctual::base::clock::Timestamp;
use punctual::base::id::{LaneId, MessageId};
use punctual::base::random;
use punctual::queue::rules::attempt::Retry;
use punctual::queue::rules::claim;
use punctual::queue::rules::queue::QueueSettings;
use punctual::queue::store::claims::ClaimRequest;
use punctual::queue::store::dead_letters::DeadLetterFilter;
use punctual::queue::store::settle::{SettleAction, Settlement};
use punctual::testing::Backend;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What may happen. Claims and items are named by number, modulo how many there are.
#[derive(Clone, Debug)]
enum Command {
    Enqueue { lane: usize, key: Option<u8>, due_in: i64 },
    Claim { lanes: Vec<(usize, usize)>, lease: u64 },
    Settle { claim: usize, words: Vec<(usize, Said)> },
    AckWhole { claim: usize },
    Extend { claim: usize, lease: u64 },
    MarkStarted { claim: usize },
    Reap,
    Advance { seconds: u64 },
    Pause { lane: usize, paused: bool },
    Replay,
    Purge,
}

#[derive(Clone, Copy, Debug)]
enum Said {
    Ack,
    Abandon,
    RetryAfter(u64),
    NotBefore(u64),
    Fail,
    Release,
}

impl Said {
    fn word(self) -> SettleAction {
        let abandon = |retry| SettleAction::Abandon { error: "no".into(), retry };
        match self {
            Self::Ack => SettleAction::Ack,
            Self::Abandon => abandon(Retry::Policy),
            Self::RetryAfter(s) => abandon(Retry::After(seconds(s))),
            Self::NotBefore(s) => abandon(Retry::NotBefore(seconds(s))),
            Self::Fail => SettleAction::Fail { error: "never".into() },
            Self::Release => SettleAction::Release,
        }
    }
}

fn commands() -> impl Strategy<Value = Vec<Command>> {
    let said = prop_oneof![
        4 => Just(Said::Ack),
        3 => Just(Said::Abandon),
        1 => (0..20_u64).prop_map(Said::RetryAfter),
        1 => (0..20_u64).prop_map(Said::NotBefore),
        1 => Just(Said::Fail),
        2 => Just(Said::Release),
    ];
    let lane = 0..3_usize;
    let command = prop_oneof![
        6 => (lane.clone(), prop::option::of(0..2_u8), -5..8_i64)
            .prop_map(|(lane, key, due_in)| Command::Enqueue { lane, key, due_in }),
        6 => (prop::collection::btree_map(lane.clone(), 0..4_usize, 1..3), 1..40_u64)
            .prop_map(|(lanes, lease)| Command::Claim { lanes: lanes.into_iter().collect(), lease }),
        6 => (any::<usize>(), prop::collection::vec((0..5_usize, said), 1..4))
            .prop_map(|(claim, words)| Command::Settle { claim, words }),
        1 => any::<usize>().prop_map(|claim| Command::AckWhole { claim }),
        1 => (any::<usize>(), 1..60_u64).prop_map(|(claim, lease)| Command::Extend { claim, lease }),
        1 => any::<usize>().prop_map(|claim| Command::MarkStarted { claim }),
        2 => Just(Command::Reap),
        4 => (0..30_u64).prop_map(|seconds| Command::Advance { seconds }),
        1 => (lane, any::<bool>()).prop_map(|(lane, paused)| Command::Pause { lane, paused }),
        1 => Just(Command::Replay),
        1 => Just(Command::Purge),
    ];
    prop::collection::vec(command, 1..50)
}

/// The store and the model side by side.
struct Pair {
    bench: Bench,
    model: Model,
    lanes: Vec<LaneId>,
}

const TOPICS: [&str; 3] = ["plain", "steps", "pass"];

impl Pair {
    async fn new(backend: Backend) -> Self {
        let bench = Bench::on(backend).await;
        let settings = [
            json!({"maxAttempts": 3}),
            json!({"maxAttempts": 5, "backoff": ["2s", "7s"]}),
            json!({"maxAttempts": 2, "deadHead": "pass"}),
        ];
        let (mut lanes, mut known) = (Vec::new(), BTreeMap::new());
        for (topic, settings) in TOPICS.iter().zip(settings) {
            let id = bench.lane_with(topic, settings.clone()).await;
            let settings = QueueSettings::default().changed_by(settings.as_object().unwrap()).unwrap();
            let lane = Lane { paused: false, patience: settings.patience(), dead_head: settings.dead_head };
            known.insert(id, lane);
            lanes.push(id);
        }
        assert_ne!(known[&lanes[1]].patience.backoff, Backoff::default());
        let model = Model::new(bench.now().await, known);
        Self { bench, model, lanes }
    }

    async fn run(&mut self, command: &Command) {
        let claims = self.model.claims.len();
        match command {
            Command::Enqueue { lane, key, due_in } => self.enqueue(*lane, *key, *due_in).await,
            Command::Claim { lanes, lease } => self.claim(lanes, seconds(*lease)).await,
            Command::Settle { claim, words } if claims > 0 => self.settle(claim % claims, words).await,
            Command::AckWhole { claim } if claims > 0 => self.ack_whole(claim % claims).await,
            Command::Extend { claim, lease } if claims > 0 => {
                let token = self.model.claims[claim % claims].token.clone();
                let held = self.bench.store().extend(vec![token], seconds(*lease)).await.unwrap();
                assert_eq!(!held.is_empty(), self.model.extend(claim % claims, seconds(*lease)));
            }
            Command::MarkStarted { claim } if claims > 0 => {
                let token = self.model.claims[claim % claims].token.clone();
                let held = self.bench.store().mark_started(token).await.unwrap();
                assert_eq!(held, self.model.mark_started(claim % claims));
            }
            Command::Reap => self.reap().await,
            Command::Advance { seconds: s } => self.model.now = self.bench.advance(seconds(*s)).await,
            Command::Pause { lane, paused } => {
                self.bench.pause(TOPICS[*lane], *paused).await;
                self.model.lanes.get_mut(&self.lanes[*lane]).unwrap().paused = *paused;
            }
            Command::Replay => self.move_dead(true).await,
            Command::Purge => self.move_dead(false).await,
            _ => {}
        }
    }

    async fn enqueue(&mut self, lane: usize, key: Option<u8>, due_in: i64) {
        let due = Timestamp::from_micros(self.model.now.as_micros() + due_in * 1_000_000);
        let mut new = message(TOPICS[lane]).due_at(due);
        new.key = key.map(|k| format!("k{k}"));
        let id = self.bench.enqueue(vec![new.clone()]).await[0];
        self.model.enqueue(id, self.lanes[lane], due, new.key);
    }

    async fn claim(&mut self, lanes: &[(usize, usize)], lease: Duration) {
        let takes: Vec<_> = lanes.iter().map(|(lane, quota)| (self.lanes[*lane], *quota)).collect();
        let wish = ClaimRequest { lease, ..wish(&takes) };
        let got = self.bench.store().claim(wish).await.unwrap();
        let known = self.model.claims.len();
        let groups = self.model.claim(&takes, lease);
        let mut real: Vec<Vec<claim::ClaimItem>> = Vec::new();
        let mut tokens = Vec::new();
        for item in got.items {
            match tokens.iter().position(|t| *t == item.token) {
                Some(n) => real[n].push(item.item),
                None => {
                    tokens.push(item.token);
                    real.push(vec![item.item]);
                }
            }
        }
        let all = |groups: &[Vec<claim::ClaimItem>]| -> BTreeSet<Vec<String>> {
            groups.iter().map(|g| g.iter().map(|i| format!("{i:?}")).collect()).collect()
        };
        assert_eq!(all(&real), all(&groups), "what is claimed together");
        for (token, items) in tokens.into_iter().zip(real) {
            let of_items = |c: &&mut crate::model_state::Held| c.items == items;
            self.model.claims[known..].iter_mut().find(of_items).unwrap().token = token;
        }
    }

    async fn settle(&mut self, claim: usize, words: &[(usize, Said)]) {
        let held = &self.model.claims[claim];
        // A number beyond the items is somebody else's message.
        let id = |n: usize| held.items.get(n).map_or(MessageId(1_000_000), claim::ClaimItem::message);
        let words: Vec<_> = words.iter().map(|(n, said)| (id(*n), said.word())).collect();
        let settlement = Settlement { token: held.token.clone(), words: words.clone() };
        let said = self.bench.store().settle(vec![settlement], None, SEED).await.unwrap();
        assert_eq!(said[0], self.model.settle(claim, &words), "what the settlement says");
    }

    /// Only for claims without keys, as its contract asks.
    async fn ack_whole(&mut self, claim: usize) {
        let held = self.model.claims[claim].clone();
        if held.items.iter().any(|i| i.key().is_some()) {
            return;
        }
        let done = self.bench.store().ack_whole(vec![held.token]).await.unwrap();
        assert_eq!(done.len() == 1, held.ending == Ending::Open);
        let words: Vec<_> = held.open.iter().map(|i| (i.message(), SettleAction::Ack)).collect();
        self.model.settle(claim, &words);
    }

    async fn reap(&mut self) {
        let mut total = crate::model_state::Reaped::default();
        loop {
            let reaped = self.bench.reap().await;
            total.claims += reaped.claims;
            total.returned += reaped.returned;
            total.dead += reaped.dead;
            if reaped.claims == 0 {
                break;
            }
        }
        assert_eq!(total, self.model.reap());
    }

    async fn move_dead(&mut self, again: bool) {
        let store = self.bench.store();
        let known = store.dead_letters(TENANT, DeadLetterFilter::default(), 1_000).await.unwrap();
        let moved = if again {
            store.replay(TENANT, DeadLetterFilter::default(), false).await.unwrap()
        } else {
            store.purge(TENANT, DeadLetterFilter::default(), false).await.unwrap()
        };
        assert_eq!(moved.ids, known.iter().map(|l| l.id).collect::<Vec<_>>());
        let ids: BTreeSet<_> = known.iter().map(|l| l.message.id).collect();
        assert_eq!(ids, self.model.move_dead(again));
    }

    /// Every table says what the model says.
    async fn compare(&self) {
        let real = self.bench.all_texts(&TABLES).await;
        let model = self.expected();
        for (n, (real, (what, model))) in real.into_iter().zip(model).enumerate() {
            let claims = n + 1 == TABLES.len();
            let line = |row| joined(if claims { sorted_items(row) } else { row });
            assert_same(what, real.into_iter().map(line).collect(), model);
        }
    }

    /// What each of [`TABLES`] should say.
    fn expected(&self) -> [(&'static str, BTreeSet<String>); 6] {
        let m = &self.model;
        let work = m.work.iter().map(|((lane, due, id), w)| {
            let key = shown(w.key.as_ref());
            line(&[&lane.0, &due.as_micros(), &id.0, &w.attempts, &w.unstarted, &key])
        });
        let followers = m.followers.iter().map(|((lane, key, due, id), w)| {
            line(&[&lane.0, &due.as_micros(), &id.0, &w.attempts, &w.unstarted, key])
        });
        let heads = m.heads.iter().map(|((lane, key), id)| line(&[&lane.0, key, &id.0]));
        let dead = m
            .dead
            .iter()
            .map(|(id, (lane, attempts, key))| line(&[&id.0, &lane.0, attempts, &shown(key.as_ref())]));
        let attempts = m.attempts.iter().map(|(id, n)| line(&[&id.0, n]));
        let claims = m.claims.iter().map(|c| {
            let ending = match c.ending {
                Ending::Open => "-",
                Ending::Settled => "settled",
                Ending::Reaped => "reaped",
            };
            let started = i32::from(c.started);
            line(&[&c.token, &c.lease_until.as_micros(), &started, &ending, &by_id(c.open.clone())])
        });
        [
            ("work", work.collect()),
            ("followers", followers.collect()),
            ("heads", heads.collect()),
            ("dead letters", dead.collect()),
            ("attempts", attempts.collect()),
            ("claims", claims.collect()),
        ]
    }

    /// PLT-8: when nothing is in flight, pruning takes exactly what is done.
    async fn finish(mut self) {
        self.model.now = self.bench.advance(seconds(120)).await;
        self.reap().await;
        let mut cursor = 0;
        loop {
            let step = self.bench.store().prune_messages(cursor, Duration::from_millis(1)).await.unwrap();
            cursor = step.cursor;
            if step.finished {
                break;
            }
        }
        let kept = self.bench.ints("select id from punctual.message").await;
        let kept: BTreeSet<_> = kept.iter().map(|row| MessageId(row[0].unwrap())).collect();
        assert_eq!(kept, self.model.unfinished(), "what pruning leaves");
    }
}

const TABLES: [&str; 6] = [
    "select lane_id, due_at, message_id, attempts, unstarted, key from punctual.work",
    "select lane_id, due_at, message_id, attempts, unstarted, key from punctual.follower",
    "select lane_id, key, head from punctual.sequence",
    "select message_id, lane_id, attempts, key from punctual.dead_letter",
    "select message_id, count(*) from punctual.attempt group by message_id",
    "select token, lease_until, started, ending, coalesce(open, items) from punctual.claim",
];

fn shown(key: Option<&String>) -> String {
    key.cloned().unwrap_or_else(|| "-".into())
}

fn line(values: &[&dyn std::fmt::Display]) -> String {
    values.iter().map(|v| v.to_string()).collect::<Vec<_>>().join(" ")
}

fn joined(row: Vec<Option<String>>) -> String {
    let text = |v: Option<String>| v.unwrap_or_else(|| "-".into());
    row.into_iter().map(text).collect::<Vec<_>>().join(" ")
}

fn sorted_items(mut row: Vec<Option<String>>) -> Vec<Option<String>> {
    let items = row.pop().flatten().unwrap();
    row.push(Some(by_id(claim::read(&items).unwrap())));
    row
}

/// The order of a claim's items says nothing.
fn by_id(mut items: Vec<claim::ClaimItem>) -> String {
    items.sort_by_key(claim::ClaimItem::message);
    claim::write(&items)
}

#[track_caller]
fn assert_same(what: &str, real: BTreeSet<String>, model: BTreeSet<String>) {
    let more: Vec<_> = real.difference(&model).collect();
    let fewer: Vec<_> = model.difference(&real).collect();
    assert!(
        more.is_empty() && fewer.is_empty(),
        "{what}: the store has {more:?} where the model has {fewer:?}"
    );
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

fn agree(backend: Backend, cases: u32) {
    let cases = number("PUNCTUAL_CASES").map_or(cases, |n| u32::try_from(n).unwrap());
    let seed = number("PUNCTUAL_SEED").unwrap_or_else(|| random::seed() >> 1);
    let config = Config {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_iters: 300,
        ..Config::default()
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let result = TestRunner::new(config).run(&commands(), |commands| {
        let case = async {
            let mut pair = Pair::new(backend).await;
            for command in &commands {
                pair.run(command).await;
                pair.compare().await;
            }
            pair.finish().await;
        };
        let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| runtime.block_on(case)));
        tried.map_err(|panic| TestCaseError::fail(words(&*panic)))
    });
    if let Err(TestError::Fail(why, commands)) = result {
        panic!("PUNCTUAL_SEED={seed}: {why}\nafter {commands:#?}");
    }
}

fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned())).unwrap_or_default()
}

mod sqlite {
    /// PLT-1, PLT-2, PLT-3, PLT-4, PLT-8, PLT-14: the store does what the model does.
    #[test]
    fn the_store_does_what_the_model_does() {
        super::agree(super::Backend::Sqlite, 64);
    }
}

mod postgres {
    /// PLT-1, PLT-2, PLT-3, PLT-4, PLT-8, PLT-14: the store does what the model does.
    #[test]
    fn the_store_does_what_the_model_does() {
        super::agree(super::Backend::Postgres, 24);
    }
}
