//! An event in our own form.

use super::{Draft, Reading, join};
use crate::http::api::flow::entities;
use crate::http::api::requests;
use crate::http::api::requests::EventEntity;
use crate::http::input::Fields;
use punctual::flow::rules::entity::NewEntityState;
use punctual::{Entity, NewMessage, Problems};
use serde_json::{Map, Value};

/// Reads an event; what is wrong with it is noted.
pub fn read(draft: Draft<'_>, reading: &mut Reading) -> (NewMessage, String) {
    let Draft { fields, content, at, publisher } = draft;
    if content.is_none() {
        reading.problems.push(join(&at, "payload"), "is missing");
    }
    let mut read = Fields::new(&fields, &*at, &mut reading.problems);
    // A misspelt `dueAt` must not become a message that is due at once.
    read.only_of::<requests::Event>();
    let id = read.id_text("id");
    let source = read.text("source").or_else(|| id.as_ref().map(|_| publisher.to_owned()));
    let message = NewMessage {
        topic: read.need_text("topic"),
        kind: read.need_text("kind"),
        payload: content.map(|c| c.get().to_owned()).unwrap_or_default(),
        key: read.id_text("key"),
        correlation_id: read.id_text("correlationId"),
        occurred_at: read.time("occurredAt"),
        due_at: read.time("dueAt"),
        schema_version: read.id_text("schemaVersion"),
        id,
        source,
        ..NewMessage::default()
    };
    let (headers, entity) = (read.object("headers"), read.object("entity"));
    let headers = headers.and_then(|h| text_headers(h, &join(&at, "headers"), &mut reading.problems));
    let entity = entity.map(|e| read_entity(e, &join(&at, "entity"), reading));
    (NewMessage { headers, entity, ..message }, at)
}

/// `state` belongs to the entity's snapshot, not to the message.
fn read_entity(entity: &Map<String, Value>, at: &str, reading: &mut Reading) -> Entity {
    let mut read = Fields::new(entity, at, &mut reading.problems);
    read.only_of::<EventEntity>();
    read.need("id");
    let named = Entity { kind: read.need_text("type"), id: read.id_text("id").unwrap_or_default() };
    let (state, version) = entities::read_state(&mut read);
    if let Some(state) = state {
        reading.add_state(NewEntityState { entity: named.clone(), state, version }, at);
    } else if version.is_some() {
        reading.problems.push(join(at, "version"), "is the version of a state, and there is none");
    }
    named
}

/// Headers are an object of strings.
fn text_headers(headers: &Map<String, Value>, at: &str, problems: &mut Problems) -> Option<String> {
    for (name, value) in headers {
        if !value.is_string() {
            problems.push(join(at, name), "must be a string");
        }
    }
    serde_json::to_string(headers).ok()
}
