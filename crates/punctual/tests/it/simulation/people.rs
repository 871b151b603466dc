//! What people do with surveys: they are published and published anew, events come in with their
//! doubles, pages are opened, filled in and answered, entries are withdrawn and deleted, events
//! stop what others began; and somebody ticks beside the loops. Bookings and their guests, and what
//! operators do to entries of both kinds, are `guests.rs`.

use super::entries::{PersonRequest, tenant_of};
use super::faults::Wire;
use super::truth::Verdict;
use super::workload::{Scene, settings};
use crate::bench::change;
use punctual::base::duration;
use punctual::delivery::store::entries::actions::ActionOutcome;
use punctual::delivery::store::entries::actions::EntryAction;
use punctual::engine::{IngestOutcome, IngestReport, IngestRequest, SubmitOutcome};
use punctual::flow::rules::entry::EntryStatus;
use punctual::flow::rules::public_id::PublicId;
use punctual::flow::store::flows::FlowDraft;
use punctual::{Engine, FlowId, Tenant};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The channel that every engine has, and one that none has.
pub const CHANNEL: &str = "post:simulated";
pub const NOBODY: &str = "post:nobody";
/// Where others are told of entries.
pub const TOLD: &str = "survey.responses";
const VISITS: [&str; 5] = ["1", "2", "3", "4", "5"];
const KIND: &str = "visit-closed";
const STOP: &str = "visit-reopened";

/// What somebody does.
#[derive(Clone, Copy, Debug)]
enum Act {
    Ingest,
    Stop,
    Open,
    Keep,
    Submit,
    Cancel,
    Delete,
    Publish,
    Tick,
    Notify,
    CancelBooking,
    Unsubscribe,
    Change(EntryAction),
}

/// What a visitor or an editor does,
const ACTS: [Act; 22] = [
    Act::Ingest,
    Act::Ingest,
    Act::Ingest,
    Act::Ingest,
    Act::Ingest,
    Act::Stop,
    Act::Stop,
    Act::Open,
    Act::Open,
    Act::Keep,
    Act::Submit,
    Act::Submit,
    Act::Cancel,
    Act::Delete,
    Act::Publish,
    Act::Tick,
    Act::Tick,
    Act::Notify,
    Act::Notify,
    Act::Notify,
    Act::CancelBooking,
    Act::Unsubscribe,
];
/// and what somebody at a desk does.
const DESK_ACTS: [Act; 9] = [
    Act::Notify,
    Act::Notify,
    Act::Change(EntryAction::Hold),
    Act::Change(EntryAction::Hold),
    Act::Change(EntryAction::Release),
    Act::Change(EntryAction::Release),
    Act::Change(EntryAction::Retry),
    Act::Change(EntryAction::Retry),
    Act::Change(EntryAction::Cancel),
];

/// A visitor or an editor.
pub async fn person(scene: Arc<Scene>) {
    let count = scene.world.state().plan.operations + 5;
    act_often(&scene, &ACTS, count).await;
}

/// Somebody at a desk, who looks after entries of both kinds.
pub async fn clerk(scene: Arc<Scene>) {
    let count = 2 * scene.world.state().plan.operations + 6;
    act_often(&scene, &DESK_ACTS, count).await;
}

/// Does one thing after the other, each through an engine that runs.
async fn act_often(scene: &Scene, acts: &[Act], count: usize) {
    for _ in 0..count {
        let (pause, act, tenant) = {
            let dice = &mut scene.world.state().dice;
            (dice.millis(0..=1_500), *dice.pick(acts), *dice.pick(&scene.tenants))
        };
        tokio::time::sleep(pause).await;
        let Some((engine, wire)) = scene.world.any_node() else { continue };
        scene.world.say(&wire.name, &format!("is asked to {act:?}"));
        tokio::select! {
            biased;
            () = wire.died() => {}
            () = scene.act(&engine, &wire, act, tenant) => {}
        }
    }
}

impl Scene {
    /// The surveys of this run: one for each tenant.
    pub async fn publish_surveys(&self) -> punctual::Result<()> {
        if self.world.state().plan.people == 0 {
            return Ok(());
        }
        self.keep_flows_out();
        self.set_patience();
        self.leave_work_behind();
        for tenant in &self.tenants {
            let settings = settings(&mut self.world.state().dice);
            self.operator.set_queue(*tenant, TOLD, settings).await?;
            let flow = self.operator.create_flow(*tenant, self.draft()).await?;
            self.operator.publish_flow(*tenant, flow.id).await?;
        }
        self.define_notifications().await
    }

    /// Messages of these worlds have one consumer each, which is what the checker and the model of timers
    /// know: events of bookings have the flows, all others a handler. What surveys make of events of topics
    /// is looked at in `told_flows.rs`.
    fn keep_flows_out(&self) {
        let kept = self.world.database.directly(|connection| {
            connection.execute_batch(&format!(
                "create trigger no_flows before insert on punctual_lane \
                    when new.subscription = '/flows' and new.topic <> '{}' \
                 begin select raise(ignore); end",
                super::guests::TOPIC
            ))
        });
        kept.expect("lanes to keep out");
    }

    /// Channels of these worlds are asked again soon, also when a claim of their deliveries was lost.
    fn set_patience(&self) {
        let tries = self.world.state().plan.tries;
        let set = self.world.database.directly(|connection| {
            connection.execute_batch(&format!(
                "create trigger patience after insert on punctual_lane when new.purpose = 'send' \
                 begin update punctual_lane set max_attempts = {tries}, \
                    backoff = '{{\"from\":\"1s\",\"to\":\"4s\"}}' where id = new.id; end"
            ))
        });
        set.expect("lanes to change");
    }

    /// Who ends an entry while others claim may leave the work of its delivery behind, which is for the next
    /// claim to drop. Nobody writes at the same time here, so it is left behind each time.
    fn leave_work_behind(&self) {
        let set = self.world.database.directly(|connection| {
            connection.execute_batch(
                "create trigger left_behind after update of status on punctual_delivery \
                    when old.status = 0 and new.status = 4 \
                 begin \
                    insert into punctual_work (message_id, lane_id, due_at, attempts, unstarted) \
                        select message_id, lane_id, due_at + 1, attempts, unstarted from punctual_work \
                        where message_id = new.id and lane_id = new.lane_id; \
                    delete from punctual_work where message_id = new.id and lane_id = new.lane_id \
                        and due_at < (select max(due_at) from punctual_work \
                            where message_id = new.id and lane_id = new.lane_id); \
                 end",
            )
        });
        set.expect("work to leave");
    }

    fn draft(&self) -> FlowDraft {
        let dice = &mut self.world.state().dice;
        let reminders = dice.count(0..=3);
        let reminders: Vec<String> =
            (0..reminders).map(|_| duration::write(dice.millis(500..=6_000))).collect();
        let first = json!({
            "id": "first", "enabled": true, "eventKind": KIND,
            "dedupRecipe": ["templateId", "recipient.address", "candidate.visit"],
            "schedule": {"initialDelay": duration::write(dice.millis(0..=3_000)), "reminders": reminders},
            "channel": CHANNEL,
            "expiry": duration::write(dice.millis(1_000..=9_000)),
            "stopOn": [STOP],
        });
        let mut triggers = vec![first.clone()];
        if dice.chance(150) {
            let mut second = first;
            (second["id"], second["channel"]) = (json!("second"), json!(NOBODY));
            second["dedupRecipe"].as_array_mut().unwrap().push(json!("recipient.locale"));
            triggers.push(second);
        }
        let definition = json!({
            "title": {"en": "How was it?"}, "locales": ["en"], "defaultLocale": "en",
            "questions": [{"id": "rate", "type": "rating", "required": true, "text": {"en": "How?"}}],
            "triggers": triggers,
        });
        FlowDraft { name: "visits".into(), integration_id: Some("visits".into()), definition }
    }

    async fn act(&self, engine: &Engine, wire: &Wire, act: Act, tenant: Tenant) {
        match act {
            Act::Ingest => self.ingest(engine, tenant).await,
            Act::Stop => self.stop_visit(engine, tenant).await,
            Act::Publish => self.publish_anew(engine, tenant).await,
            Act::Tick => self.tick(engine, wire).await,
            Act::Notify => self.notify_guests(engine, tenant).await,
            Act::CancelBooking => self.cancel_booking(engine, tenant).await,
            Act::Unsubscribe => self.unsubscribe(engine, tenant).await,
            Act::Change(action) => self.change_any(engine, wire, action).await,
            _ => self.do_to_one(engine, wire, act).await,
        }
    }

    /// Ticks an engine beside its loops, unless somebody does or it is about to stop.
    async fn tick(&self, engine: &Engine, wire: &Wire) {
        let (ticking, batch) = {
            let mut state = self.world.state();
            let is_it = |node: &&super::world::Node| {
                node.running.as_ref().is_some_and(|(_, running)| running.name == wire.name)
            };
            let ticking = state.nodes.iter().find(is_it).map(|node| Arc::clone(&node.ticking));
            (ticking, state.dice.count(1..=8))
        };
        let Some(Ok(_alone)) = ticking.as_ref().map(|ticking| ticking.try_lock()) else { return };
        engine.tick(batch).await.ok();
    }

    /// Events with doubles among them, and of those before.
    async fn ingest(&self, engine: &Engine, tenant: Tenant) {
        let visits: Vec<&str> = {
            let dice = &mut self.world.state().dice;
            let count = dice.count(1..=4);
            (0..count).map(|_| *dice.pick(&VISITS)).collect()
        };
        let ingest =
            IngestRequest { event_kind: KIND.into(), items: visits.iter().map(|v| event(v)).collect() };
        let Ok(answer) = engine.ingest(tenant, &ingest).await else { return };
        let verdict = self.heard_ingest(tenant, &visits, &answer);
        self.world.judge(verdict);
    }

    /// Whoever is told of an entry can rely on it: it is there, of this very event, and new only once.
    fn heard_ingest(&self, tenant: Tenant, visits: &[&str], answer: &[IngestReport]) -> Verdict {
        let mut state = self.world.state();
        for (visit, item) in visits.iter().zip(answer) {
            for instance in &item.instances {
                let id = instance.public_id;
                let Some((_, row)) = state.entries.by_public_id(id) else {
                    return Err(format!("{id} was told, and is not there"));
                };
                let of = (row.birth.tenant, row.birth.flow, row.birth.trigger.as_str());
                let want = (tenant.id(), instance.flow.0, &*instance.trigger_id);
                if of != want || !row.is_of(tenant.id(), &payload(visit).to_string()) {
                    return Err(format!("{id} was told for visit {visit} of {want:?}, and is {row:?}"));
                }
                let new = instance.outcome == IngestOutcome::Created;
                if new && !state.entries.created.insert(id.to_halves()) {
                    return Err(format!("{id} was told to be new twice"));
                }
                let word = if new { "event began an entry" } else { "event was a duplicate" };
                *state.counts.deeds.entry(word).or_default() += 1;
            }
        }
        Ok(())
    }

    async fn stop_visit(&self, engine: &Engine, tenant: Tenant) {
        let visit = {
            let mut state = self.world.state();
            let visit = *state.dice.pick(&VISITS);
            state.entries.stops.insert((tenant.id(), payload(visit).to_string()));
            visit
        };
        let ingest = IngestRequest { event_kind: STOP.into(), items: vec![event(visit)] };
        let Ok(answer) = engine.ingest(tenant, &ingest).await else { return };
        let stopped = answer[0].instances.iter().filter(|i| i.outcome == IngestOutcome::Stopped);
        for instance in stopped {
            self.world.did("event stopped an entry");
            let verdict = self.assert_status(instance.public_id, EntryStatus::Cancelled);
            self.world.judge(verdict);
        }
    }

    fn assert_status(&self, id: PublicId, wanted: EntryStatus) -> Verdict {
        let state = self.world.state();
        match state.entries.by_public_id(id).map(|(_, row)| row.status) {
            Some(status) if status == wanted => Ok(()),
            other => Err(format!("somebody was told that {id} is {wanted}, and it is {other:?}")),
        }
    }

    /// The survey of a tenant, in a new version.
    async fn publish_anew(&self, engine: &Engine, tenant: Tenant) {
        let store = engine.store();
        let Ok(flows) = store.flows(tenant, FlowId(0), 1).await else { return };
        let Some(flow) = flows.first() else { return };
        if store.change_flow(tenant, flow.id, self.draft()).await.is_ok() {
            store.publish_flow(tenant, flow.id).await.ok();
        }
    }

    async fn do_to_one(&self, engine: &Engine, wire: &Wire, act: Act) {
        let (id, entry, tenant) = {
            let mut state = self.world.state();
            let all: Vec<i64> = state.entries.seen.rows.keys().copied().collect();
            if all.is_empty() {
                return;
            }
            let entry = *state.dice.pick(&all);
            let wish = match act {
                Act::Open => PersonRequest::Open,
                Act::Submit => PersonRequest::Submit,
                Act::Cancel => PersonRequest::Cancel,
                _ => PersonRequest::Delete,
            };
            if !matches!(act, Act::Keep) {
                state.entries.asked.insert((entry, wish));
            }
            let row = &state.entries.seen.rows[&entry];
            (row.public_id(), entry, tenant_of(row, &self.tenants))
        };
        self.world.say(&wire.name, &format!("{act:?} entry {entry}"));
        let verdict = match act {
            Act::Open => engine.record_opened(id).await.map(|_| Ok(())),
            Act::Keep => engine.keep_progress(id, answers()).await.map(|_| Ok(())),
            Act::Submit => self.submit(engine, id).await,
            Act::Cancel => {
                let said = change(engine.store(), tenant, id, EntryAction::Cancel).await;
                said.map(|said| self.heard_cancel(id, &said))
            }
            _ => change(engine.store(), tenant, id, EntryAction::Delete).await.map(|_| Ok(())),
        };
        self.world.judge(verdict.unwrap_or(Ok(())));
    }

    /// Answers, and presses the button twice now and then.
    async fn submit(&self, engine: &Engine, id: PublicId) -> punctual::Result<Verdict> {
        let presses = if self.world.state().dice.chance(400) { 2 } else { 1 };
        for _ in 0..presses {
            let verdict = self.heard_submit(id, engine.submit(id, answers(), None).await?);
            if verdict.is_err() {
                return Ok(verdict);
            }
        }
        Ok(Ok(()))
    }

    fn heard_submit(&self, id: PublicId, said: SubmitOutcome) -> Verdict {
        match said {
            SubmitOutcome::Done { .. } => self.assert_status(id, EntryStatus::Completed),
            SubmitOutcome::Ended(refusal) => {
                self.world.did("answer refused");
                self.assert_status(id, refusal.status())
            }
            SubmitOutcome::Wrong(refused) => Err(format!("a good answer was refused: {refused:?}")),
            SubmitOutcome::Unknown => self.assert_deleted(id),
        }
    }

    fn heard_cancel(&self, id: PublicId, said: &ActionOutcome) -> Verdict {
        match said {
            ActionOutcome::Done => self.assert_status(id, EntryStatus::Cancelled),
            ActionOutcome::Refused(_) => self
                .assert_status(id, EntryStatus::Completed)
                .or_else(|_| self.assert_status(id, EntryStatus::Expired)),
            ActionOutcome::NotFound => self.assert_deleted(id),
        }
    }

    fn assert_deleted(&self, id: PublicId) -> Verdict {
        let state = self.world.state();
        match state.entries.by_public_id(id) {
            Some((_, row)) if row.deleted => Ok(()),
            other => Err(format!("somebody was told that {id} is not there: {other:?}")),
        }
    }
}

fn payload(visit: &str) -> Value {
    json!({ "visit": visit })
}

fn event(visit: &str) -> Value {
    json!({"payload": payload(visit), "recipient": {"address": "+964 770 000 0001", "locale": "en"}})
}

fn answers() -> Map<String, Value> {
    json!({"rate": 5}).as_object().unwrap().clone()
}
