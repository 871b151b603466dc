//! The inbox: of all deliveries of a message one at a time is told to process it, each with a
//! token of its own; one completion is accepted; and whoever vanishes gives way when its lease
//! ends (PLT-16).

use super::checker::{Hand, OPERATOR};
use super::faults::Wire;
use super::truth::Verdict;
use super::workload::Scene;
use punctual::queue::store::inbox::{InboxBeginOutcome, InboxFilter, InboxTicket, ProcessingOutcome};
use punctual::queue::store::settle::SettleOutcome;
use punctual::{InboxDelivery, Store, Tenant, Timestamp};
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const IDS: [&str; 3] = ["m1", "m2", "m3"];
const MOST: u32 = 3;
/// After healing, every message is processed within this time.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Received {
    status: String,
    token: String,
    attempts: u32,
    until: Timestamp,
}

/// What became of one message, whatever its row says.
#[derive(Clone, Debug, Default)]
struct Story {
    /// Whose the present token is.
    holder: String,
    /// What its holder has said of it, the answer heard or not.
    marks: Vec<&'static str>,
    /// Completions that were accepted.
    completions: usize,
}

type Key = (i64, String);

/// The inbox as it was after a transaction.
#[derive(Clone, Debug, Default)]
pub struct Inbox {
    rows: BTreeMap<Key, Received>,
    stories: BTreeMap<Key, Story>,
}

impl Inbox {
    /// Reads it again; what has changed, if that may be, as words for the trace.
    pub fn look(&mut self, connection: &Connection, hand: &Hand<'_>) -> Verdict<Vec<(&'static str, String)>> {
        let is = read(connection).map_err(|e| e.to_string())?;
        if let Some(key) = self.rows.keys().find(|key| !is.contains_key(*key)) {
            return Err(format!("{key:?} is gone from the inbox before its time"));
        }
        let mut said = Vec::new();
        for (key, row) in &is {
            let was = self.rows.get(key);
            if was == Some(row) {
                continue;
            }
            let words = format!("received {key:?}: {was:?} -> {row:?}");
            let story = self.stories.entry(key.clone()).or_default();
            let step = story.step(was, row, hand);
            said.push((step.map_err(|why| format!("{why}: {words}, by {}", hand.actor))?, words));
        }
        self.rows = is;
        Ok(said)
    }

    fn story(&mut self, tenant: Tenant, id: &str) -> &mut Story {
        self.stories.entry((tenant.id(), id.to_owned())).or_default()
    }

    fn status(&self, tenant: Tenant, id: &str) -> Option<&str> {
        self.rows.get(&(tenant.id(), id.to_owned())).map(|row| row.status.as_str())
    }
}

impl Story {
    /// Whether a row may have become this.
    fn step(&mut self, was: Option<&Received>, is: &Received, hand: &Hand<'_>) -> Verdict<&'static str> {
        let before = was.map_or("nothing", |row| row.status.as_str());
        let over = was.is_some_and(|row| row.until <= hand.now);
        let attempts = was.map_or(0, |row| row.attempts);
        let same = was.is_some_and(|row| (&row.token, row.attempts) == (&is.token, is.attempts));
        let last = attempts >= MOST;
        let said = |mark| same && self.holder == hand.actor && self.marks.contains(&mark);
        let deed = match (before, is.status.as_str()) {
            ("nothing" | "failed", "processing") if !same && is.attempts == attempts + 1 => "inbox begun",
            ("processing", "processing") if !same && over && is.attempts == attempts + 1 => {
                "inbox taken over"
            }
            ("processing", "processed") if said("processed") => "inbox processed",
            ("processing", "failed") if said("failed") && !last => "inbox failed",
            ("processing", "dead") if said("dead") || (said("failed") && last) => "inbox dead",
            ("processing", "dead") if same && over && last => "inbox dead by a lost lease",
            ("dead", "failed") if hand.actor == OPERATOR && is.attempts == 0 => "inbox replayed",
            _ => return Err("no message of the inbox goes this way".into()),
        };
        if is.status == "processing" {
            (self.holder, self.marks) = (hand.actor.to_owned(), Vec::new());
        }
        Ok(deed)
    }

    /// What whoever has said that a message is done hears.
    fn complete(&mut self, id: &str, outcome: SettleOutcome) -> Verdict {
        self.completions += usize::from(outcome == SettleOutcome::Done);
        match self.completions {
            0 | 1 => Ok(()),
            n => Err(format!("{n} completions of {id} were accepted")),
        }
    }
}

fn read(connection: &Connection) -> rusqlite::Result<BTreeMap<Key, Received>> {
    let mut statement = connection.prepare_cached(
        "select tenant_id, message_id, status, token, attempts, lease_until from punctual_inbox",
    )?;
    let rows = statement.query_map([], |row| {
        let until = Timestamp::from_micros(row.get(5)?);
        let received = Received { status: row.get(2)?, token: row.get(3)?, attempts: row.get(4)?, until };
        Ok(((row.get(0)?, row.get(1)?), received))
    })?;
    rows.collect()
}

/// Somebody who gets the same few messages again and again.
pub async fn receiver(scene: Arc<Scene>) {
    let operations = scene.world.state().plan.operations * 2;
    for _ in 0..operations {
        let pause = scene.world.state().dice.millis(0..=2_000);
        tokio::time::sleep(pause).await;
        let Some((engine, wire)) = scene.world.any_node() else { continue };
        let (tenant, id) = {
            let dice = &mut scene.world.state().dice;
            (*dice.pick(&scene.tenants), *dice.pick(&IDS))
        };
        tokio::select! {
            biased;
            () = wire.died() => {}
            () = scene.receive(engine.store(), &wire, tenant, id) => {}
        }
    }
}

impl Scene {
    async fn receive(&self, store: &Store, wire: &Wire, tenant: Tenant, id: &'static str) {
        let (lease, takes, mark) = {
            let dice = &mut self.world.state().dice;
            let marks = ["processed", "processed", "failed", "failed", "failed", "dead", "vanish"];
            (dice.millis(1_000..=4_000), dice.millis(0..=5_000), *dice.pick(&marks))
        };
        let delivery = InboxDelivery::new("shop", id).lease(lease).max_attempts(MOST);
        let Ok(begun) = store.begin_inbox(tenant, delivery).await else { return };
        let InboxBeginOutcome::Process { ticket, .. } = begun else {
            let verdict = self.told(tenant, id, &begun);
            return self.world.judge(verdict);
        };
        // Some are through before their lease ends, and some are not.
        wire.rest(takes).await;
        if mark != "vanish" {
            self.mark(store, tenant, (ticket, id), mark).await;
        }
    }

    /// A delivery that is told that its message is done, or dead, can rely on that.
    fn told(&self, tenant: Tenant, id: &str, begun: &InboxBeginOutcome) -> Verdict {
        let state = self.world.state();
        let status = state.inbox.status(tenant, id);
        match begun {
            InboxBeginOutcome::AlreadyProcessed { .. } if status != Some("processed") => {
                Err(format!("a delivery of {id} was told that it is done, and it is {status:?}"))
            }
            InboxBeginOutcome::Conflict { .. } => Err(format!("a delivery of {id} was told of a conflict")),
            _ => Ok(()),
        }
    }

    async fn mark(
        &self,
        store: &Store,
        tenant: Tenant,
        (ticket, id): (InboxTicket, &str),
        mark: &'static str,
    ) {
        {
            let mut state = self.world.state();
            let current = state.inbox.rows.get(&(tenant.id(), id.to_owned()));
            if current.is_some_and(|row| row.token == ticket.token.text()) {
                state.inbox.story(tenant, id).marks.push(mark);
            }
        }
        let word = match mark {
            "processed" => ProcessingOutcome::Processed,
            "failed" => ProcessingOutcome::Failed { error: "no".into() },
            _ => ProcessingOutcome::Dead { error: "never".into() },
        };
        // Whoever does not hear an answer says it again.
        for _ in 0..3 {
            let Ok(outcome) = store.mark_inbox(tenant, ticket.clone(), word.clone()).await else { continue };
            if outcome == SettleOutcome::LostClaim {
                self.world.did("inbox completion refused");
            }
            if mark == "processed" {
                let verdict = self.world.state().inbox.story(tenant, id).complete(id, outcome);
                self.world.judge(verdict);
            }
            return;
        }
    }

    /// After healing: the dead are replayed, and then one delivery after another gets every message done.
    pub async fn receive_all(&self) -> Verdict {
        let end = self.world.now().plus(PATIENCE);
        for (tenant, id) in self.tenants.iter().flat_map(|t| IDS.map(|id| (*t, id))) {
            loop {
                self.operator
                    .replay_inbox(tenant, InboxFilter::default(), false)
                    .await
                    .map_err(|e| e.to_string())?;
                let delivery = InboxDelivery::new("shop", id).max_attempts(MOST);
                match self.operator.begin_inbox(tenant, delivery).await.map_err(|e| e.to_string())? {
                    InboxBeginOutcome::Process { ticket, .. } => {
                        self.mark(&self.operator, tenant, (ticket, id), "processed").await;
                    }
                    InboxBeginOutcome::AlreadyProcessed { .. } => break,
                    other if self.world.now() > end => return Err(format!("{id} is never done: {other:?}")),
                    _ => tokio::time::sleep(Duration::from_secs(1)).await,
                }
            }
        }
        Ok(())
    }
}
