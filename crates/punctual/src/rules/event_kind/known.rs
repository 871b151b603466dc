//! What templates of a kind can count on.

use super::{EventKind, Mapping, Occasion};
use crate::rules::entity::Snapshot;
use crate::rules::path::Path;
use crate::rules::template::set::Filled;
use crate::rules::template::{Known, MessageTemplate};
use crate::rules::zone::Zone;

/// Names that every message has.
const ALWAYS: [&str; 3] = ["entity.id", "entity.type", "unsubscribeUrl"];

impl EventKind {
    /// The names that its templates can use. Any other name is doubtful.
    #[must_use]
    pub fn known(&self, kind: &str) -> Known {
        let mut known = Known::always(&ALWAYS);
        for (name, _) in self.recipients.fields().iter().filter(|(_, paths)| !paths.is_empty()) {
            known.name(format!("recipient.{name}"));
        }
        known.open("entity");
        for related in &self.related {
            known.open(&related.name);
        }
        self.mapped().for_each(|path| known.name(path.dotted()));
        if let Some(schema) = &self.schema {
            schema.names().into_iter().for_each(|name| known.name(name));
        }
        if let Some(sample) = &self.sample {
            known.sample("", sample);
            let unknown = Snapshot::Unknown;
            let first = self.recipients(sample, &unknown).next().and_then(|who| who.element);
            first.inspect(|element| known.sample("recipient", element));
        }
        match (&self.sample, &self.schema) {
            (Some(_), _) => known.all_told_by(format!("the sample of {kind}")),
            (None, Some(_)) => known.all_told_by(format!("the schema of {kind}")),
            (None, None) => known.told_by_nothing(kind),
        }
        known
    }

    /// The paths into the payload that it names itself.
    fn mapped(&self) -> impl Iterator<Item = &Path> {
        let Mapping { each, .. } = &self.recipients;
        let fields = self.recipients.fields();
        let own = fields.into_iter().filter(|_| each.is_none()).flat_map(|(_, paths)| paths);
        let ids = self.entity_id.iter().chain(self.related.iter().map(|related| &related.id));
        own.chain(ids).chain(each).filter(|path| path.root() != Some("entity"))
    }

    /// What a template says with the sample, if there is one.
    #[must_use]
    pub fn sample_of(&self, template: &MessageTemplate, zone: &Zone) -> Option<Filled> {
        let payload = self.sample.as_ref()?;
        let snapshot = Snapshot::Unknown;
        let entity = self.entity_of(None, payload);
        let recipient = self.recipients(payload, &snapshot).next().unwrap_or_default();
        let of = Occasion {
            payload,
            entity: entity.as_ref(),
            snapshot: &snapshot,
            recipient: &recipient,
            related: &[],
            given: &[],
        };
        Some(self.word(template, &of, zone))
    }
}
