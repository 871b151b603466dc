//! Reading the document of an event kind: strictly, every problem by its path.

use crate::base::condition::Condition;
use crate::base::document::{DocumentList, DocumentObject, join, kind, quote, text};
use crate::base::error::Problems;
use crate::base::limits;
use crate::base::name::check_name;
use crate::base::path::Path;
use crate::base::schema::Schema;
use crate::flow::rules::event_kind::recipients::FIELDS;
use crate::flow::rules::event_kind::{EventKind, RecipientMapping, RelatedEntity};
use crate::queue::rules::message::check_topic;
use serde_json::Value;

const KNOWN: [&str; 10] = [
    "topic",
    "entityType",
    "entityIdPath",
    "recipients",
    "cancelWhen",
    "requireEntity",
    "related",
    "secrets",
    "schema",
    "sample",
];
/// Fields that a client reads and sends back with its changes; the client cannot set them.
const READ_BACK: [&str; 5] = ["kind", "version", "warnings", "createdAt", "updatedAt"];
/// Names that mean something else in a template.
const RESERVED: [&str; 6] = ["payload", "entity", "recipient", "candidate", "event", "link"];

pub(crate) fn event_kind(json: &Value, problems: &mut Problems) -> Option<EventKind> {
    let part = DocumentObject::read(json, "", &[KNOWN.as_slice(), &READ_BACK].concat(), problems)?;
    if json.to_string().len() > limits::EVENT_KIND_BYTES_MAX {
        problems.push("", format!("is larger than {} KiB", limits::EVENT_KIND_BYTES_MAX / 1024));
        return None;
    }
    let (entity_type, entity_id) = entity(&part, problems);
    let topic = part.get("topic").and_then(|value| text(value, "topic", problems));
    if let Some(topic) = topic {
        check_topic(topic, "topic", problems);
    }
    if part.get("secrets").is_some() {
        check_secrets(&part, problems);
    }
    let schema = part.get("schema").and_then(|value| Schema::read(value, "schema", problems));
    let sample = sample(&part, schema.as_ref(), problems);
    Some(EventKind {
        topic: topic.map(str::to_owned),
        entity_type,
        entity_id,
        recipients: recipients(&part, problems),
        cancel_when: cancel_when(&part, problems),
        require_entity: part.flag("requireEntity", false, problems),
        related: related(&part, problems),
        schema,
        sample,
        version: 0,
        document: document(json),
    })
}

/// Returns the document to store: the writer's fields, without those that are null.
fn document(json: &Value) -> Value {
    let fields = json.as_object().into_iter().flatten();
    let own = fields.filter(|(name, value)| KNOWN.contains(&name.as_str()) && !value.is_null());
    own.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn entity(part: &DocumentObject<'_>, problems: &mut Problems) -> (Option<String>, Option<Path>) {
    let kind = part.get("entityType").and_then(|value| text(value, "entityType", problems));
    if let Some(kind) = kind {
        check_name(kind, "entityType", problems);
    }
    let id = part.get("entityIdPath").and_then(|value| path(value, "entityIdPath", problems));
    if id.is_some() && part.get("entityType").is_none() {
        problems.push("entityType", "is missing: the type of what entityIdPath leads to, such as booking");
    }
    (kind.map(str::to_owned), id)
}

fn path(value: &Value, at: &str, problems: &mut Problems) -> Option<Path> {
    let written = text(value, at, problems)?;
    Path::parse(written).map_err(|said| problems.push(at, said)).ok()
}

fn recipients(part: &DocumentObject<'_>, problems: &mut Problems) -> RecipientMapping {
    const WHY: &str = "where in the payload the recipient stands, such as {\"phone\": \"guest.phone\"}";
    let mut mapping = RecipientMapping::default();
    let Some(value) = part.need("recipients", WHY, problems) else { return mapping };
    let known = [FIELDS.as_slice(), &["each"]].concat();
    let Some(fields) = DocumentObject::read(value, "recipients", &known, problems) else { return mapping };
    for name in FIELDS {
        *mapping.field(name) = paths(&fields, name, problems);
    }
    mapping.each = fields.get("each").and_then(|value| path(value, "recipients.each", problems));
    if ["phone", "email", "ref"].iter().all(|name| fields.get(name).is_none()) {
        problems.push("recipients", "names no address: write where phone or email stands");
    }
    if mapping.each.is_none() {
        for (name, _) in mapping.fields().iter().filter(|(_, paths)| paths.iter().any(Path::is_whole)) {
            let said = "`$` is the element of a list: say with `each` which list";
            problems.push(join("recipients", name), said);
        }
    }
    mapping
}

/// One path, or a list of them.
fn paths(fields: &DocumentObject<'_>, name: &str, problems: &mut Problems) -> Vec<Path> {
    let at = fields.at(name);
    match fields.get(name) {
        None => Vec::new(),
        Some(Value::Array(_)) => {
            let listed = fields.list(name, limits::RECIPIENT_PATHS_MAX, problems);
            if fields.is_empty_list(name) {
                problems.push(at, "is empty: write a path");
            }
            listed
                .iter()
                .flat_map(DocumentList::iter)
                .filter_map(|(value, at)| path(value, at, problems))
                .collect()
        }
        Some(one) => path(one, &at, problems).into_iter().collect(),
    }
}

fn cancel_when(part: &DocumentObject<'_>, problems: &mut Problems) -> Option<Condition> {
    let condition = Condition::read(part.get("cancelWhen")?, "cancelWhen", problems)?;
    for path in condition.paths() {
        let root = path.split_once('.').map(|(root, _)| root);
        if !root.is_some_and(|root| ["entity", "payload"].contains(&root)) {
            let said = format!("`{}` leads nowhere: a path begins with `entity.` or `payload.`", quote(path));
            problems.push("cancelWhen", said);
        }
    }
    Some(condition)
}

fn related(part: &DocumentObject<'_>, problems: &mut Problems) -> Vec<RelatedEntity> {
    let Some(value) = part.get("related") else { return Vec::new() };
    let Some(all) = value.as_object() else {
        let said = format!("must be an object such as {{\"listing\": {{\"type\": …}}}}, not {}", kind(value));
        problems.push("related", said);
        return Vec::new();
    };
    if all.len() > limits::RELATED_MAX {
        problems
            .push("related", format!("has {} names, at most {} are allowed", all.len(), limits::RELATED_MAX));
    }
    let mut found: Vec<RelatedEntity> = Vec::new();
    for (name, value) in all.iter().take(limits::RELATED_MAX) {
        let at = join("related", &quote(name));
        check_related_name(name, &at, &found, problems);
        let Some(fields) = DocumentObject::read(value, &at, &["type", "idPath"], problems) else { continue };
        let kind = fields.need_text("type", "the type of the entity, such as listing", problems);
        kind.inspect(|kind| check_name(kind, &fields.at("type"), problems));
        let id = fields.need("idPath", "where its id stands, such as listingId", problems);
        let id = id.and_then(|value| path(value, &fields.at("idPath"), problems));
        found.extend(kind.zip(id).map(|(kind, id)| RelatedEntity {
            name: name.clone(),
            kind: kind.to_owned(),
            id,
        }));
    }
    found
}

fn check_related_name(name: &str, at: &str, found: &[RelatedEntity], problems: &mut Problems) {
    let begins = name.chars().next().is_some_and(char::is_alphabetic);
    if !begins || !name.chars().all(|c| c.is_alphanumeric() || c == '_') || name.chars().count() > 50 {
        problems.push(at, "is not a name for templates: write up to 50 letters and digits, such as listing");
    }
    if RESERVED.iter().any(|reserved| reserved.eq_ignore_ascii_case(name)) {
        problems.push(at, "means something else in a template; choose another name");
    }
    if found.iter().any(|other| other.name.to_lowercase() == name.to_lowercase()) {
        problems.push(at, "is there twice: templates ignore case");
    }
}

fn check_secrets(part: &DocumentObject<'_>, problems: &mut Problems) {
    let before = problems.0.len();
    let listed = part.list("secrets", limits::RECIPE_PATHS_MAX, problems);
    for (value, at) in listed.iter().flat_map(DocumentList::iter) {
        path(value, at, problems);
    }
    if problems.0.len() == before && !part.is_empty_list("secrets") {
        let said =
            "cannot be used yet: this version does not seal secrets, so they would be kept as they are";
        problems.push("secrets", said);
    }
}

fn sample(part: &DocumentObject<'_>, schema: Option<&Schema>, problems: &mut Problems) -> Option<Value> {
    let sample = part.get("sample")?;
    if !sample.is_object() {
        problems.push("sample", format!("must be a payload, an object, not {}", kind(sample)));
        return None;
    }
    if let Some(schema) = schema {
        schema.check(sample, "sample", problems);
    }
    Some(sample.clone())
}
