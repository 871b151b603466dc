//! The values that templates of an event kind can name, and the names that they can count on.

use crate::base::document::join;
use crate::base::path::Path;
use crate::base::schema::Schema;
use crate::delivery::rules::template::set::{FilledTemplate, TemplateSet};
use crate::delivery::rules::template::{KnownNames, MessageTemplate, TemplateValues};
use crate::flow::rules::entity::EntitySnapshot;
use crate::flow::rules::event_kind::{EventKind, Recipient, RecipientMapping, entity_or_payload};
use crate::queue::rules::message::Entity;
use serde_json::Value;

/// The values that the text of one message is made from.
#[derive(Clone, Copy, Debug)]
pub struct EventValues<'a> {
    /// The event's payload.
    pub payload: &'a Value,
    /// The entity of the event.
    pub entity: Option<&'a Entity>,
    /// The snapshot of that entity.
    pub snapshot: &'a EntitySnapshot,
    /// The recipient of the message.
    pub recipient: &'a Recipient<'a>,
    /// The states of related entities, by the kind's names.
    pub related: &'a [(&'a str, Value)],
    /// Further named values, such as a link; they take precedence over all others.
    pub given: &'a [(&'a str, &'a str)],
    /// A further prefix of the payload's names, beside `payload`.
    pub payload_prefix: Option<&'a str>,
}

/// What every event about an entity says of it.
const ENTITY: [&str; 2] = ["entity.id", "entity.type"];

impl EventKind {
    /// Words one message: dates in the zone of the entity, else in the tenant's; in the recipient's locale,
    /// if the template is of that language. The tenant's zone and locale are those of `set`.
    #[must_use]
    pub fn word(
        &self,
        template: &MessageTemplate,
        of: &EventValues<'_>,
        set: &TemplateSet,
    ) -> FilledTemplate {
        let own = self.zone(of.payload, of.snapshot, of.related);
        let values = self.values(of).zone(own.as_ref().unwrap_or(&set.zone));
        let values = values.fallback_locale(&set.default_locale);
        template.fill(&values, template.locale_for(of.recipient.locale.as_deref()))
    }

    /// Returns the values that the templates of a message can name: the given ones, the recipient and the
    /// entity's name, then the payload, the entity's state, and the related entities.
    #[must_use]
    pub fn values<'a>(&'a self, of: &EventValues<'a>) -> TemplateValues<'a> {
        let who = of.recipient;
        let given = of
            .given
            .iter()
            .fold(TemplateValues::default(), |values, (name, value)| values.with_value(name, *value));
        let mut values = given
            .with_optional("recipient.phone", who.phone.as_deref())
            .with_optional("recipient.email", who.email.as_deref())
            .with_optional("recipient.name", who.name.as_deref())
            .with_optional("recipient.locale", who.locale.as_deref())
            .with_optional("recipient.ref", who.reference.as_deref())
            .with_optional("recipient.timeZone", who.zone.as_deref())
            .with_optional("entity.id", of.entity.map(|entity| entity.id.as_str()))
            .with_optional("entity.type", of.entity.map(|entity| entity.kind.as_str()));
        if let Some(element) = who.element.as_deref() {
            values = values.with_json("recipient", element);
        }
        if let Some(prefix) = of.payload_prefix {
            values = values.with_json(prefix, of.payload);
        }
        values = values.with_json("", of.payload).with_json("payload", of.payload);
        if let Some(state) = of.snapshot.state() {
            values = values.with_json("", state);
        }
        values = values.with_json("entity", entity_or_payload(of.payload, of.snapshot));
        of.related.iter().fold(values, |values, (name, state)| values.with_json(name, state))
    }

    /// The names that its templates can use. Any other name is doubtful.
    #[must_use]
    pub fn known(&self, kind: &str) -> KnownNames {
        let mut known = KnownNames::always(&["unsubscribeUrl"]);
        self.add_names(&mut known, &[""]);
        match (&self.sample, &self.schema) {
            (Some(_), _) => known.mark_complete(format!("the sample of {kind}")),
            (None, Some(_)) => known.mark_complete(format!("the schema of {kind}")),
            (None, None) => known.mark_unlisted(kind),
        }
        known
    }

    /// Adds the names that its events have, those of the payload behind each of these prefixes.
    pub(crate) fn add_names(&self, known: &mut KnownNames, prefixes: &[&str]) {
        ENTITY.into_iter().for_each(|name| known.name(name));
        for (name, _) in self.recipients.fields().iter().filter(|(_, paths)| !paths.is_empty()) {
            known.name(format!("recipient.{name}"));
        }
        known.open("entity");
        for related in &self.related {
            known.open(&related.name);
        }
        for prefix in prefixes {
            self.mapped().for_each(|path| known.name(join(prefix, &path.dotted())));
            let names = self.schema.iter().flat_map(Schema::names);
            names.for_each(|name| known.name(join(prefix, &name)));
            self.sample.iter().for_each(|sample| known.sample(prefix, sample));
        }
        if let Some(sample) = &self.sample {
            let unknown = EntitySnapshot::Unknown;
            let first = self.recipients(sample, &unknown).next().and_then(|who| who.element);
            first.inspect(|element| known.sample("recipient", element));
        }
    }

    /// The paths into the payload that it names itself.
    fn mapped(&self) -> impl Iterator<Item = &Path> {
        let RecipientMapping { each, .. } = &self.recipients;
        let fields = self.recipients.fields();
        let own = fields.into_iter().filter(|_| each.is_none()).flat_map(|(_, paths)| paths);
        let ids = self.entity_id.iter().chain(self.related.iter().map(|related| &related.id));
        own.chain(ids).chain(each).filter(|path| path.root() != Some("entity"))
    }

    /// Renders a template with the sample, if there is one.
    #[must_use]
    pub fn sample_of(&self, template: &MessageTemplate) -> Option<FilledTemplate> {
        let payload = self.sample.as_ref()?;
        let snapshot = EntitySnapshot::Unknown;
        let entity = self.entity_of(None, payload);
        let recipient = self.recipients(payload, &snapshot).next().unwrap_or_default();
        let of = EventValues {
            payload,
            entity: entity.as_ref(),
            snapshot: &snapshot,
            recipient: &recipient,
            related: &[],
            given: &[],
            payload_prefix: None,
        };
        Some(self.word(template, &of, &TemplateSet::default()))
    }
}
