//! Kinds of entries: what each of them adds to the pipeline.
//!
//! A kind is a [`Planner`], which says what a due entry sends next, and a [`Renderer`], which makes messages
//! of its deliveries. Claims, sending, settlement, consent, fallback, log, replay and receipts are written
//! once and hold for every kind. A new kind is a variant of [`EntryKind`], these two, and a line in
//! [`Kinds::built_in`].

use super::channel::RenderedMessage;
use super::delivery_gate::GateDecision;
use super::notification_renderer::NotificationRenderer;
use super::send::DeliveryContext;
use super::survey_renderer::{SurveyPlanner, SurveyRenderer};
use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::DeliveryId;
use crate::rules::entry::EntryKind;
use crate::rules::notification::Planned;
use crate::store::deliveries::deliver::{Delivery, Due, Ending};
use crate::store::entries::advance::{PeekedEntries, PlannedSend};
use crate::store::entries::step::SurveyContext;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::pin::Pin;

/// The future of a method of a trait object.
pub type BoxFuture<'f, T> = Pin<Box<dyn Future<Output = T> + Send + 'f>>;

/// Says what due entries of one kind send next.
pub trait Planner: Debug + Send + Sync {
    /// Plans the next send of due entries. Definitions are loaded here, before the entries are taken.
    fn plan_sends<'f>(
        &'f self,
        post: &'f DeliveryContext,
        peeked: &'f PeekedEntries,
    ) -> BoxFuture<'f, Result<Vec<PlannedSend>>>;

    /// Makes a renderer of deliveries that were just written for these entries.
    fn renderer_of(&self, contexts: Vec<SurveyContext>) -> Box<dyn Renderer>;
}

/// Makes messages of the deliveries of one claim.
pub trait Renderer: Send {
    /// Reads what is known of these deliveries, before the first of them is rendered: once for all, not
    /// once for each.
    fn load<'f>(&'f mut self, post: &'f DeliveryContext, due: &'f [Due]) -> BoxFuture<'f, Result<()>>;

    /// Says whether a delivery goes on to its channel as it is.
    fn gate(&self, post: &DeliveryContext, due: &Due, now: Timestamp) -> GateDecision;

    /// Makes the message of a delivery that the gate lets through.
    ///
    /// # Errors
    /// Why there is none to send, now or at all.
    fn render(
        &self,
        post: &DeliveryContext,
        due: &Due,
        now: Timestamp,
    ) -> std::result::Result<Rendered, Box<Ending>>;

    /// Plans what another channel is given if this delivery's refuses it for good.
    fn fallback(&self, post: &DeliveryContext, of: &Delivery) -> Option<Planned>;

    /// Reads what fallbacks of these deliveries need, where a receipt says that they did not arrive.
    fn load_fallbacks<'f>(
        &'f mut self,
        post: &'f DeliveryContext,
        of: &'f [Delivery],
    ) -> BoxFuture<'f, Result<()>>;

    /// Returns what the entry of a delivery needs to go on, where that is a survey.
    fn survey(&self, of: &Delivery) -> Option<SurveyContext>;
}

/// A message that is ready for its channel.
#[derive(Debug)]
pub struct Rendered {
    /// The message.
    pub letter: RenderedMessage,
    /// What its words lacked.
    pub warnings: Vec<String>,
}

/// What the pipeline needs of one kind.
#[derive(Debug)]
struct KindParts {
    /// None where entries of the kind get their deliveries when they are written.
    planner: Option<Box<dyn Planner>>,
    renderer: fn() -> Box<dyn Renderer>,
}

/// The kinds of a process.
#[derive(Debug)]
pub struct Kinds(BTreeMap<EntryKind, KindParts>);

impl Kinds {
    /// Registers the kinds of the engine.
    #[must_use]
    pub fn built_in() -> Self {
        let survey = KindParts {
            planner: Some(Box::new(SurveyPlanner)),
            renderer: || Box::new(SurveyRenderer::default()),
        };
        let notification =
            KindParts { planner: None, renderer: || Box::new(NotificationRenderer::default()) };
        Self(BTreeMap::from([(EntryKind::Survey, survey), (EntryKind::Notification, notification)]))
    }

    /// The kinds, in a fixed order.
    pub(super) fn all(&self) -> impl Iterator<Item = EntryKind> + '_ {
        self.0.keys().copied()
    }

    /// Whose planner is asked about due entries of a kind.
    pub(super) fn planner(&self, kind: EntryKind) -> Option<&dyn Planner> {
        self.0.get(&kind)?.planner.as_deref()
    }

    /// A renderer of deliveries of which nothing is known yet.
    pub(super) fn renderer(&self, kind: EntryKind) -> Option<Box<dyn Renderer>> {
        self.0.get(&kind).map(|parts| (parts.renderer)())
    }

    /// Plans what other channels are given if it turns out that these deliveries did not arrive.
    ///
    /// # Errors
    /// When the database does not answer.
    pub(super) async fn fallbacks(
        &self,
        post: &DeliveryContext,
        deliveries: Vec<Delivery>,
    ) -> Result<HashMap<DeliveryId, Planned>> {
        let mut by_kind: BTreeMap<EntryKind, Vec<Delivery>> = BTreeMap::new();
        for of in deliveries {
            by_kind.entry(of.kind).or_default().push(of);
        }
        let mut planned = HashMap::new();
        for (kind, deliveries) in by_kind {
            let Some(mut renderer) = self.renderer(kind) else { continue };
            renderer.load_fallbacks(post, &deliveries).await?;
            planned.extend(deliveries.iter().filter_map(|of| Some((of.id, renderer.fallback(post, of)?))));
        }
        Ok(planned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_renderer() {
        let kinds = Kinds::built_in();
        assert_eq!(kinds.all().collect::<Vec<_>>(), EntryKind::ALL);
        assert!(EntryKind::ALL.into_iter().all(|kind| kinds.renderer(kind).is_some()));
    }
}
