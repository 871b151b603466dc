//! The facts of the candidates of an explanation: those that a real send would have, read once for all.

use crate::base::error::Result;
use crate::base::tenant::Tenant;
use crate::database::store::Store;
use crate::delivery::rules::event_values::EventValues;
use crate::delivery::run::consent::ClaimRecipients;
use crate::engine::explain::events::AssumedStates;
use crate::flow::rules::entity::EntitySnapshot;
use crate::flow::rules::event_kind::{CancelReason, EventKind, Recipient};
use crate::flow::run::entity_states::EntityStates;
use crate::queue::rules::message::Entity;
use crate::survey::rules::candidate::Candidate;
use crate::survey::rules::candidate::recipients::{DescribedRecipients, reader};
use serde_json::Value;

/// The facts of one candidate.
pub(super) struct CandidateFacts<'k> {
    /// The reason why messages of this event would be pointless, if there is one.
    pub(super) pointless: Option<CancelReason>,
    /// The time zone of the recipient, if the event names it.
    pub(super) zone: Option<String>,
    /// The recipient as they are written to.
    pub(super) reader: Recipient<'static>,
    /// The definition of the event's kind, or an empty one.
    pub(super) kind: &'k EventKind,
    payload: Value,
    entity: Option<Entity>,
    snapshot: EntitySnapshot,
    related: Vec<(&'k str, Value)>,
}

/// The definition of a kind of events, if the tenant has one.
pub(super) type KindDefinition<'k> = Option<&'k EventKind>;

impl<'k> CandidateFacts<'k> {
    /// Reads the facts of candidates; `None` for those that cannot be read. Assumed states stand in for what
    /// is known of their entities. Without `open` no state of an
    /// entity is shown: the payload stands in for it in texts, but the rules of the send see the state.
    ///
    /// # Errors
    /// When the database does not answer.
    pub(super) async fn of_all(
        store: &Store,
        (tenant, defined): (Tenant, KindDefinition<'k>),
        items: &[Option<&Candidate<'_>>],
        (recipients, open): (&ClaimRecipients, bool),
        assumed: &AssumedStates,
    ) -> Result<Vec<Option<Self>>> {
        let kind = defined.unwrap_or_else(|| EventKind::undefined());
        let candidates = || items.iter().copied();
        let payload = |of: &Candidate<'_>| serde_json::from_str(&of.payload_text).unwrap_or_default();
        let read: Vec<Option<(Value, Option<Entity>)>> =
            candidates().map(|of| of.map(|of| (payload(of), of.entity()))).collect();
        let mut states = EntityStates::default();
        let own = read.iter().flatten().filter_map(|(_, entity)| Some((tenant, entity.clone()?)));
        states.read(store, own.collect()).await?;
        states.assume(tenant, assumed);
        let related = read.iter().flatten().flat_map(|(payload, entity)| {
            kind.related_ids(payload, states.of(tenant, entity.as_ref())).into_iter()
        });
        let related = related.map(|(_, entity)| (tenant, entity)).collect();
        states.read(store, related).await?;
        states.assume(tenant, assumed);
        let facts = candidates().zip(read).map(|(of, read)| {
            let wanted = recipients.locale(tenant, of?.address).or(of?.locale);
            Some(Self::new(defined, of?, read?, wanted, (&states, tenant, open)))
        });
        Ok(facts.collect())
    }

    fn new(
        defined: KindDefinition<'k>,
        of: &Candidate<'_>,
        (payload, entity): (Value, Option<Entity>),
        wanted: Option<&str>,
        (states, tenant, open): (&EntityStates, Tenant, bool),
    ) -> Self {
        let kind = defined.unwrap_or_else(|| EventKind::undefined());
        let real = states.of(tenant, entity.as_ref());
        let pointless = kind.is_pointless(real, &payload);
        let zone = DescribedRecipients::of(&payload, defined, real)
            .find(of.address)
            .and_then(|who| who.zone.clone());
        let snapshot = if open { real.clone() } else { EntitySnapshot::Unknown };
        let related = if open { states.related(tenant, kind, &payload, real) } else { Vec::new() };
        let described = DescribedRecipients::of(&payload, defined, &snapshot);
        let person = described.find(of.address).map(Recipient::owned);
        let reader = reader(person.as_ref(), of.address, wanted, of.customer_ref);
        drop(described);
        Self { pointless, zone, reader, kind, payload, entity, snapshot, related }
    }

    /// The values for the text of a message.
    pub(super) fn occasion(&self) -> EventValues<'_> {
        EventValues {
            payload: &self.payload,
            entity: self.entity.as_ref(),
            snapshot: &self.snapshot,
            recipient: &self.reader,
            related: &self.related,
            given: &[],
            payload_prefix: None,
        }
    }
}
