//! Definitions: reading, refusals and warnings.

use super::*;
use crate::delivery::rules::template::KnownNames;
use crate::delivery::rules::template::event_type::SURVEY_INVITATION;
use crate::delivery::rules::template::review::review;
use serde_json::json;

const TYPE: &str = SURVEY_INVITATION.name;

fn read(json: &Value) -> (Option<TemplateDefinition>, String) {
    let mut problems = Problems::default();
    let read = TemplateDefinition::read(json, &mut problems);
    (read, problems.to_string())
}

fn reviewed(definition: &TemplateDefinition) -> String {
    let known = KnownNames::always(SURVEY_INVITATION.keys);
    review(definition, &definition.compile().unwrap(), &known, None).to_string()
}

/// NTF-7: a definition is read, kept and shown the same.
#[test]
fn ntf_7_a_definition_reads_what_it_shows() {
    let json = json!({"eventType": TYPE, "channel": "Email", "name": "Mail", "language": "ar-IQ",
        "scopeType": "survey", "scopeId": "7", "attempt": 2, "subject": "S", "body": "{{surveyUrl}}",
        "html": "<b>{{surveyUrl}}</b>", "providerTemplate": {"key": "csi", "params": ["{{wip}}"]},
        "missing": "asWritten"});
    let (read_once, said) = read(&json);
    let definition = read_once.unwrap_or_else(|| panic!("{said}"));
    assert_eq!(Value::Object(definition.to_json()), json);
    assert_eq!(reviewed(&definition), "");
    let mut back = json.clone();
    for (name, value) in
        [("id", json!("1")), ("templateVersion", json!(3)), ("warnings", json!([])), ("scopeId", json!(7))]
    {
        back[name] = value;
    }
    assert_eq!(read(&back).0, Some(definition), "what was shown may be handed back");
}

/// NTF-10: everything that is wrong, by its path.
#[test]
fn ntf_10_a_bad_definition_is_told_everything() {
    let (_, said) = read(&json!({}));
    for path in ["eventType", "channel", "language", "body"] {
        assert!(said.contains(&format!("{path}: is missing")), "{said}");
    }
    let (none, said) =
        read(&json!({"eventType": TYPE, "channel": " ", "language": "arabic", "scopeType": "listing",
        "scopeId": "1", "attempt": 0, "subject": "a\nb {{", "body": "Hi {{a b}} {{c|x}}", "html": 7,
        "isActive": "yes", "missing": "asWriten",
        "providerTemplate": {"params": {"a": "{{", "b": 1}, "colour": 1}, "langauge": "x"}));
    assert_eq!(none, None);
    for want in [
        "channel: must not",
        "language: `arabic` is not a locale",
        "scopeType: `listing` is never used",
        "attempt: must be the number of a send",
        "subject: has a line break",
        "subject: line 2, column 3: is not closed",
        "body: line 1, column 6: `a b` has a space",
        "body: line 1, column 16: `x` is not a filter",
        "html: must be a string",
        "isActive: must be true or false",
        "missing: `asWriten` is not a way to treat what has no value; did you mean `asWritten`?",
        "providerTemplate.key: is missing",
        "providerTemplate.params.a: line 1, column 1: is not closed",
        "providerTemplate.params.b: must be a string",
        "providerTemplate.colour: `colour` is not a field",
        "langauge: `langauge` is not a field; did you mean `language`?",
    ] {
        assert!(said.contains(want), "{want} in {said}");
    }
    let (_, said) =
        read(&json!({"eventType": "e", "channel": "SMS", "language": "en", "body": "x", "scopeId": 3,
        "providerTemplate": {"key": "k", "params": 3}}));
    assert_eq!(
        said,
        "scopeType: is missing: the type of what it is only for, such as `survey`; \
         providerTemplate.params: must be a list or an object of at most 100 texts, not a number"
    );
}

/// NTF-10: slips in the names that are always there, missing links, long SMS.
#[test]
fn ntf_10_what_is_probably_not_meant_is_warned_of() {
    let warnings = |channel: &str, body: &str, subject: Option<&str>| {
        let json = json!({"eventType": TYPE, "channel": channel, "language": "en", "body": body,
            "subject": subject});
        let definition = read(&json).0.unwrap();
        reviewed(&definition)
    };
    let long = format!("{{{{surveyUrl}}}} {}", "é".repeat(160));
    let table = [
        ("WhatsApp", "{{surveyUrl}} {{wip}} {{candidate.x}} {{recipientAddress}}", None, ""),
        (
            "WhatsApp",
            "{{surveyUrl}} {{surveyTitel}}",
            None,
            "body: `{{surveyTitel}}` is not known; did you mean `{{surveyTitle}}`?",
        ),
        ("WhatsApp", "{{surveyUrll}}", None, "body: has no `{{surveyUrl}}`"),
        (
            "WhatsApp",
            "{{surveyUrl}}",
            Some("{{recipient.adress}}"),
            "subject: `{{recipient.adress}}` is not known",
        ),
        (
            "Whatsap",
            "{{surveyUrl}}",
            None,
            "channel: `Whatsap` is taken as a kind of its own; did you mean `WhatsApp`?",
        ),
        ("email:smtp", "{{surveyUrl}}", None, "subject: is missing: a mail has one"),
        ("SMS", "{{surveyUrl}}", Some("x"), "subject: is not sent by SMS"),
        ("memory:sms", &long, None, "body: is 161 characters of GSM-7 without its values: 2 SMS or more"),
    ];
    for (channel, body, subject, want) in table {
        let said = warnings(channel, body, subject);
        assert!(said.contains(want) && said.is_empty() == want.is_empty(), "{channel} {body}: {said}");
    }
}
