//! Doubts about a template, by the placeholders that its event kind is known to have.

use crate::base::document::quote;
use crate::base::error::Problems;
use crate::base::suggestion::nearest;
use crate::delivery::rules::template::event_type::OwnEventType;
use crate::delivery::rules::template::review::review;
use crate::delivery::rules::template::{KnownNames, MessageTemplate};
use crate::flow::rules::event_kind::EventKind;
use crate::flow::run::event_kinds::EventKindSet;

impl EventKindSet {
    /// Returns the doubtful parts of a template, checked against the known names of its kind.
    #[must_use]
    pub fn review(&self, template: &MessageTemplate) -> Problems {
        let (of, texts) = (&template.definition, &template.texts);
        let event_type = of.event_type.as_str();
        if let Some(own) = OwnEventType::find(event_type) {
            return review(of, texts, &self.known_of(&own), None);
        }
        match self.get(event_type) {
            Some(kind) => {
                let sample = kind.sample_of(template);
                review(of, texts, &kind.known(event_type), sample.as_ref())
            }
            None => {
                let mut warnings = review(of, texts, &EventKind::undefined().known(event_type), None);
                if let Some(meant) = nearest(event_type, self.names()) {
                    let said =
                        format!("`{}` is not an event kind; did you mean `{meant}`?", quote(event_type));
                    warnings.push("eventType", said);
                }
                warnings
            }
        }
    }

    /// The names that texts of an event type of our own can use: its own ones, and those that templates of
    /// any event kind can use, because each of them may begin a survey. So may an event without a definition.
    fn known_of(&self, own: &OwnEventType) -> KnownNames {
        let mut known = KnownNames::always(own.keys);
        let prefixes = ["", own.payload];
        EventKind::undefined().add_names(&mut known, &prefixes);
        for kind in self.names().filter_map(|name| self.get(name)) {
            if !known.has_room() {
                break;
            }
            kind.add_names(&mut known, &prefixes);
        }
        known.mark_any_kind();
        known
    }
}
