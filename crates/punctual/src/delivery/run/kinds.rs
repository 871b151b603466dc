//! Kinds of entries: the part that each of them adds to the pipeline.
//!
//! A kind is a [`Planner`], which says which entries events lead to and what a due entry sends next, and a
//! [`Renderer`], which makes messages of its deliveries. Claims, sending, settlement, consent, fallback, log,
//! replay and receipts are written once and hold for every kind. A new kind is a variant of [`EntryKind`],
//! these two, and a line in `engine/build.rs`.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::DeliveryId;
use crate::delivery::rules::delivery::PlannedDelivery;
use crate::delivery::run::channel::RenderedMessage;
use crate::delivery::run::context::DeliveryContext;
use crate::delivery::run::delivery_gate::GateDecision;
use crate::delivery::run::source_events::SourceEventByEntry;
use crate::delivery::store::deliveries::delivery::{Delivery, DeliveryOutcome, DueDelivery};
use crate::delivery::store::deliveries::planned_events::PlannedEntry;
use crate::delivery::store::entries::advance::{PeekedEntries, PlannedSend};
use crate::delivery::store::entries::step::EntryContext;
use crate::flow::rules::entry::EntryKind;
use crate::flow::run::source_event::SourceEvent;
use crate::queue::run::executor::BoxFuture;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::sync::Arc;

/// Says which entries of one kind become due, and what they send.
pub trait Planner: Debug + Send + Sync {
    /// The kind.
    fn kind(&self) -> EntryKind;

    /// Plans the entries that events lead to, one plan for each event. Entries that are not written with the
    /// settlement of their event must be committed here, under keys that let each through once.
    fn plan_events<'f>(
        &'f self,
        context: &'f DeliveryContext,
        events: &'f [SourceEvent<'f>],
    ) -> BoxFuture<'f, Result<Vec<EventPlan>>>;

    /// Plans the next send of due entries. Definitions are loaded here, before the entries are taken.
    fn plan_sends<'f>(
        &'f self,
        context: &'f DeliveryContext,
        peeked: &'f PeekedEntries,
    ) -> BoxFuture<'f, Result<Vec<PlannedSend>>>;

    /// Makes a renderer for the deliveries of one claim.
    fn renderer(&self) -> Box<dyn Renderer>;
}

/// The plan of a kind for an event.
#[derive(Clone, Debug)]
pub enum EventPlan {
    /// The kind has no definition for such events.
    Ignored,
    /// The kind has looked at the event, and committed what it leads to.
    Taken {
        /// Whether the event led to an entry, now or before, or ended one.
        made: bool,
        /// Why a definition that wants the event could not be served.
        problem: Option<String>,
    },
    /// The event lacks what the kind needs of it; with a sentence.
    Failed(String),
    /// An entry with its deliveries, to be written with the settlement of the event.
    Entry(Box<PlannedEntry>),
    /// The same, unless another kind takes the event.
    Otherwise(Box<PlannedEntry>),
}

/// Makes messages of the deliveries of one claim.
pub trait Renderer: Send + Sync {
    /// Hands over the entries of deliveries that were just written, so that they need not be read.
    fn know_entries(&mut self, entries: Vec<EntryContext>) {
        drop(entries);
    }

    /// Hands over the events of deliveries that were just written, so that they need not be read.
    fn know_events(&mut self, events: Arc<SourceEventByEntry>) {
        drop(events);
    }

    /// Loads what is known of these deliveries, before the first of them is rendered: once for all, not
    /// once for each.
    fn load<'f>(
        &'f mut self,
        context: &'f DeliveryContext,
        due: &'f [DueDelivery],
    ) -> BoxFuture<'f, Result<()>>;

    /// Says whether a delivery goes on to its channel as it is.
    fn gate(&self, context: &DeliveryContext, due: &DueDelivery, now: Timestamp) -> GateDecision;

    /// Renders the message of a delivery that its gate lets through.
    ///
    /// # Errors
    /// The reason why there is no message to send, now or at all.
    fn render(
        &self,
        context: &DeliveryContext,
        due: &DueDelivery,
        now: Timestamp,
    ) -> std::result::Result<RenderOutcome, Box<DeliveryOutcome>>;

    /// Plans the delivery by another channel, for the case that this delivery's channel refuses it for good.
    fn fallback(&self, context: &DeliveryContext, of: &Delivery) -> Option<PlannedDelivery>;

    /// Loads what fallbacks of these deliveries need, where a receipt says that they did not arrive.
    fn load_fallbacks<'f>(
        &'f mut self,
        context: &'f DeliveryContext,
        of: &'f [Delivery],
    ) -> BoxFuture<'f, Result<()>>;

    /// Returns what the entry of a delivery needs to go on, where it has a timetable.
    fn entry(&self, of: &Delivery) -> Option<EntryContext> {
        let _ = of;
        None
    }
}

/// A message that is ready for its channel.
#[derive(Debug)]
pub struct RenderOutcome {
    /// The message.
    pub message: RenderedMessage,
    /// Placeholders without a value, and other doubts.
    pub warnings: Vec<String>,
}

/// The kinds of a process.
#[derive(Debug)]
pub struct EntryKinds(BTreeMap<EntryKind, Box<dyn Planner>>);

impl EntryKinds {
    /// Registers kinds.
    #[must_use]
    pub fn new(planners: Vec<Box<dyn Planner>>) -> Self {
        Self(planners.into_iter().map(|planner| (planner.kind(), planner)).collect())
    }

    /// The kinds, in a fixed order.
    pub(crate) fn all(&self) -> impl Iterator<Item = EntryKind> + '_ {
        self.0.keys().copied()
    }

    /// The planners, in the order of their kinds.
    pub(crate) fn planners(&self) -> impl Iterator<Item = &dyn Planner> {
        self.0.values().map(Box::as_ref)
    }

    /// The planner of a kind.
    pub(crate) fn get(&self, kind: EntryKind) -> Option<&dyn Planner> {
        self.0.get(&kind).map(Box::as_ref)
    }

    /// Plans deliveries by other channels, for deliveries that turn out not to have arrived.
    ///
    /// # Errors
    /// When the database does not answer.
    pub(crate) async fn fallbacks(
        &self,
        context: &DeliveryContext,
        deliveries: Vec<Delivery>,
    ) -> Result<HashMap<DeliveryId, PlannedDelivery>> {
        let mut by_kind: BTreeMap<EntryKind, Vec<Delivery>> = BTreeMap::new();
        for of in deliveries {
            by_kind.entry(of.kind).or_default().push(of);
        }
        let mut planned = HashMap::new();
        for (kind, deliveries) in by_kind {
            let Some(mut renderer) = self.get(kind).map(Planner::renderer) else { continue };
            renderer.load_fallbacks(context, &deliveries).await?;
            planned.extend(deliveries.iter().filter_map(|of| Some((of.id, renderer.fallback(context, of)?))));
        }
        Ok(planned)
    }
}
