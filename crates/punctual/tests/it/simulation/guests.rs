//! What happens around bookings: events that guests are notified of, with their doubles and now and then
//! with more guests than a window of sends; bookings that are cancelled, and guests who want no more. And
//! what operators do to entries of both kinds: hold, release, retry, cancel.

use super::entries::PersonRequest;
use super::faults::Wire;
use super::people::CHANNEL;
use super::truth::Verdict;
use super::workload::Scene;
use punctual::base::limits::SEND_WINDOW;
use punctual::delivery::rules::consent::{ConsentScope, SuppressionReason};
use punctual::delivery::rules::template::TemplateDefinition;
use punctual::delivery::store::consent::NewSuppression;
use punctual::delivery::store::entries::actions::{
    ActionOutcome, EntryAction, EntryActionRequest, EntryReference,
};
use punctual::flow::rules::entity::NewEntityState;
use punctual::{Engine, Entity, EntryId, NewMessage, Problems, Tenant};
use serde_json::{Value, json};

pub const KIND: &str = "booking.confirmed";
pub const TOPIC: &str = "booking.events";
const BOOKINGS: u64 = 4;

impl Scene {
    /// Defines the event and its template in every tenant.
    pub async fn define_notifications(&self) -> punctual::Result<()> {
        let cancelled = json!({"questionId": "entity.status", "op": "==", "value": "Cancelled"});
        let kind = json!({"topic": TOPIC, "entityType": "booking", "entityIdPath": "bookingId",
            "recipients": {"each": "guests", "phone": "phone"}, "cancelWhen": cancelled});
        let template = json!({"eventType": KIND, "channel": CHANNEL, "language": "en",
            "body": "Confirmed {{bookingId}}"});
        for tenant in &self.tenants {
            self.operator.put_event_kind(*tenant, KIND, kind.clone()).await?;
            let mut problems = Problems::default();
            let definition = TemplateDefinition::read(&template, &mut problems).expect("a template");
            self.operator.create_template(*tenant, definition).await?;
        }
        Ok(())
    }

    /// An event for the guests of a booking.
    pub async fn notify_guests(&self, engine: &Engine, tenant: Tenant) {
        let (n, booking, guests) = {
            let mut state = self.world.state();
            let booking = state.dice.from(1..=BOOKINGS);
            let crowd = std::mem::take(&mut state.plan.crowd);
            let guests = if crowd { SEND_WINDOW + state.dice.count(6..=26) } else { state.dice.count(1..=2) };
            (state.entries.events.publish(), booking, guests)
        };
        let guests: Vec<Value> = (1..=guests).map(|guest| json!({"phone": phone(booking, guest)})).collect();
        let payload = json!({"event": n, "bookingId": name(booking), "guests": guests});
        let message = NewMessage::new(TOPIC, KIND, payload.to_string());
        if engine.enqueue(tenant, vec![message]).await.is_ok() {
            let verdict = self.world.state().entries.events.accept(n);
            self.world.judge(verdict);
        }
    }

    /// A booking is cancelled: nobody is to be told of it any more.
    pub async fn cancel_booking(&self, engine: &Engine, tenant: Tenant) {
        let booking = name(self.world.state().dice.from(1..=BOOKINGS));
        let subject = self.ask_for_silence(tenant, booking.clone());
        let entity = Entity { kind: "booking".into(), id: booking };
        let state = json!({"status": "Cancelled"}).to_string();
        if engine.store().put_entity(tenant, NewEntityState { entity, state, version: None }).await.is_ok() {
            self.keep_silence(subject, "booking cancelled");
        }
    }

    /// A guest wants no more messages.
    pub async fn unsubscribe(&self, engine: &Engine, tenant: Tenant) {
        let address = phone(self.world.state().dice.from(1..=BOOKINGS), 1);
        let subject = self.ask_for_silence(tenant, address.clone());
        let suppression = NewSuppression {
            told_at: None,
            address,
            scope: ConsentScope { channel: None, kind: None },
            reason: SuppressionReason::Unsubscribe,
            by: "recipient".to_owned(),
        };
        if engine.store().suppress(tenant, suppression).await.is_ok() {
            self.keep_silence(subject, "guest unsubscribed");
        }
    }

    fn ask_for_silence(&self, tenant: Tenant, of: String) -> (i64, String) {
        let subject = (tenant.id(), of);
        self.world.state().entries.silence.asked.insert(subject.clone());
        subject
    }

    fn keep_silence(&self, subject: (i64, String), word: &'static str) {
        let now = self.world.now();
        self.world.state().entries.silence.since.entry(subject).or_insert(now);
        self.world.did(word);
    }

    /// An operator holds, releases, retries or cancels an entry of any kind.
    pub async fn change_any(&self, engine: &Engine, wire: &Wire, action: EntryAction) {
        let Some((entry, tenant)) = self.draw_entry(action) else { return };
        self.world.say(&wire.name, &format!("{} entry {entry}", action.word()));
        // The engine's own verb replays what has failed; here an entry that has ended stays so.
        let answer = engine.store().change_entry(tenant, change(entry, action)).await;
        engine.wake();
        let Ok(outcome) = answer else { return };
        let verdict = self.heard_change(entry, action, &outcome);
        self.world.judge(verdict);
    }

    /// An entry to which this can be done; any if there is none, but for a release.
    fn draw_entry(&self, action: EntryAction) -> Option<(i64, Tenant)> {
        let now = self.world.now();
        let mut state = self.world.state();
        let seen = &state.entries.seen;
        let all: Vec<i64> = seen.rows.keys().chain(seen.notifications.keys()).copied().collect();
        let is = |entry: i64| seen.state_of(entry).expect("a state");
        let fit = |entry: &&i64| match action {
            EntryAction::Hold | EntryAction::Cancel | EntryAction::Delete => is(**entry).active,
            EntryAction::Release => is(**entry).active && is(**entry).held,
            EntryAction::Retry => seen.waits_for_later(**entry, now),
        };
        let mut fitting: Vec<i64> = all.iter().filter(fit).copied().collect();
        if fitting.is_empty() && action != EntryAction::Release {
            fitting = all;
        }
        if fitting.is_empty() {
            return None;
        }
        let entry = *state.dice.pick(&fitting);
        state.entries.asked.insert((entry, wish_of(action)));
        let id = state.entries.seen.tenant_of(entry)?;
        Some((entry, *self.tenants.iter().find(|tenant| tenant.id() == id)?))
    }

    /// Whoever is told that it is done can rely on it.
    fn heard_change(&self, entry: i64, action: EntryAction, outcome: &ActionOutcome) -> Verdict {
        let state = self.world.state();
        let is = state.entries.seen.state_of(entry);
        let deleted = state.entries.seen.rows.get(&entry).is_some_and(|row| row.deleted);
        match (outcome, is) {
            (ActionOutcome::NotFound, _) if deleted => Ok(()),
            (ActionOutcome::NotFound, _) | (_, None) => Err(format!("entry {entry} was not found")),
            (ActionOutcome::Done, Some(is)) if action == EntryAction::Cancel && is.active => {
                Err(format!("somebody was told that entry {entry} is cancelled, and it is active"))
            }
            (ActionOutcome::Refused(said), Some(is))
                if action == EntryAction::Hold && is.active && !deleted =>
            {
                Err(format!("entry {entry} is active, and could not be held: it {said}"))
            }
            _ => Ok(()),
        }
    }

    /// Releases everything that is on hold.
    pub async fn release_all(&self) -> punctual::Result<()> {
        while let Some((entry, tenant)) = self.draw_entry(EntryAction::Release) {
            // After a verdict the checker looks no more, and would see it on hold for ever.
            if self.world.is_broken() {
                return Ok(());
            }
            self.operator.change_entry(tenant, change(entry, EntryAction::Release)).await?;
        }
        Ok(())
    }
}

fn change(entry: i64, action: EntryAction) -> EntryActionRequest {
    let name = EntryReference::Id(EntryId(entry));
    EntryActionRequest { name, action, author: crate::bench::author() }
}

const fn wish_of(action: EntryAction) -> PersonRequest {
    match action {
        EntryAction::Hold => PersonRequest::Hold,
        EntryAction::Release => PersonRequest::Release,
        EntryAction::Retry => PersonRequest::Retry,
        EntryAction::Cancel => PersonRequest::Cancel,
        EntryAction::Delete => PersonRequest::Delete,
    }
}

fn name(booking: u64) -> String {
    format!("b{booking}")
}

fn phone(booking: u64, guest: usize) -> String {
    format!("+96477{booking:02}{guest:05}")
}
