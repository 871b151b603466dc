//! Entities: the latest known state of what events are about.
//!
//! A state replaces the one before it. One with a version is fenced: an older version never replaces a newer
//! one, and a deleted entity only comes back with a newer version. One without a version is taken as it
//! comes, also for a deleted entity: a publisher whose events may overtake each other gives versions.

use crate::base::error::Problems;
use crate::base::limits;
use crate::base::name::check_name;
use crate::queue::rules::message::{Entity, check_json};
use serde_json::Value;
use std::collections::BTreeMap;

/// The latest known state of an entity.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum EntitySnapshot {
    /// The entity was never reported.
    #[default]
    Unknown,
    /// The entity was deleted.
    Deleted,
    /// Its latest state.
    State(Value),
}

impl EntitySnapshot {
    /// The state, if there is one.
    #[must_use]
    pub const fn state(&self) -> Option<&Value> {
        match self {
            Self::State(state) => Some(state),
            Self::Unknown | Self::Deleted => None,
        }
    }
}

/// A reported state of an entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEntityState {
    /// The entity.
    pub entity: Entity,
    /// The state: an object's JSON text.
    pub state: String,
    /// The source's own version of it; the higher, the newer.
    pub version: Option<i64>,
}

impl NewEntityState {
    /// Adds what is wrong with it: with the entity under its own fields, with the rest under `path`.
    pub fn check(&self, path: &str, problems: &mut Problems) {
        check_entity(&self.entity, problems);
        let place = |name: &str| crate::base::document::join(path, name);
        check_json(&self.state, limits::ENTITY_STATE_BYTES_MAX, &place("state"), problems);
        if !self.state.trim_start().starts_with('{') {
            problems.push(place("state"), "must be an object");
        }
        if self.version.is_some_and(|version| version < 0) {
            problems.push(place("version"), "must be a whole number, 0 or more");
        }
    }

    /// Whether this state is written over what is known of its entity: nothing newer, by the rule of the
    /// statement in `flow/store/entities.rs`.
    #[must_use]
    pub fn replaces(&self, known: &EntitySnapshot, version: Option<i64>) -> bool {
        match (self.version, version) {
            (Some(new), Some(old)) => new > old || new == old && *known != EntitySnapshot::Deleted,
            _ => true,
        }
    }

    /// Whether this state may replace another one that was reported before it.
    fn follows(&self, other: &Self) -> bool {
        match (self.version, other.version) {
            (Some(new), Some(old)) => new >= old,
            _ => true,
        }
    }
}

/// Adds what is wrong with an entity's name.
pub fn check_entity(entity: &Entity, problems: &mut Problems) {
    check_name(&entity.kind, "type", problems);
    check_name(&entity.id, "id", problems);
}

/// Reduces to one state for each entity, as if the states had been reported one after another; sorted, so
/// that two writers never wait for each other in a circle.
#[must_use]
pub fn settled(states: Vec<NewEntityState>) -> Vec<NewEntityState> {
    let mut by_entity: BTreeMap<Entity, NewEntityState> = BTreeMap::new();
    for mut state in states {
        match by_entity.get_mut(&state.entity) {
            Some(known) if state.follows(known) => {
                state.version = state.version.or(known.version);
                *known = state;
            }
            Some(_) => {}
            None => {
                by_entity.insert(state.entity.clone(), state);
            }
        }
    }
    by_entity.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(id: &str, state: &str, version: Option<i64>) -> NewEntityState {
        let entity = Entity { kind: "booking".into(), id: id.into() };
        NewEntityState { entity, state: state.into(), version }
    }

    /// PRD-18: within a batch the newest stays, whatever the order.
    #[test]
    fn prd_18_a_batch_leaves_one_state_for_each_entity() {
        let given = vec![
            state("b", "{\"n\":1}", None),
            state("a", "{\"n\":2}", Some(5)),
            state("a", "{\"n\":3}", Some(4)),
            state("b", "{\"n\":4}", None),
            state("c", "{\"n\":5}", Some(1)),
            state("c", "{\"n\":6}", None),
            state("c", "{\"n\":7}", Some(0)),
        ];
        let want = vec![
            state("a", "{\"n\":2}", Some(5)),
            state("b", "{\"n\":4}", None),
            state("c", "{\"n\":6}", Some(1)),
        ];
        assert_eq!(settled(given), want);
    }

    /// PRD-18: every problem of a state is reported.
    #[test]
    fn prd_18_a_bad_state_is_told() {
        let mut problems = Problems::default();
        state("", "[1]", Some(-1)).check("", &mut problems);
        let paths: Vec<&str> = problems.0.iter().map(|p| p.path.as_str()).collect();
        assert_eq!(paths, ["id", "state", "version"]);
        let mut problems = Problems::default();
        state("a", &format!("{{\"x\":\"{}\"}}", "x".repeat(limits::ENTITY_STATE_BYTES_MAX)), None)
            .check("entity", &mut problems);
        assert!(problems.to_string().starts_with("entity.state: has 1048584 bytes"), "{problems}");
    }
}
