//! Which template is taken, as a table.

use super::*;
use crate::base::id::TemplateId;
use crate::delivery::rules::template::{TemplateDefinition, TemplateScope};

/// A template in short: `id channel language survey attempt`, `-` for none.
fn template(line: &str) -> MessageTemplate {
    let words: Vec<&str> = line.split_whitespace().collect();
    let some = |word: &str| Some(word.to_owned()).filter(|word| word != "-");
    let definition = TemplateDefinition {
        event_type: "survey.invitation".into(),
        channel: words[1].into(),
        language: words[2].into(),
        scope: some(words[3]).map(|id| TemplateScope { kind: "survey".into(), id }),
        attempt: some(words[4]).map(|n| n.parse().unwrap()),
        body: "x {{surveyUrl}}".into(),
        ..TemplateDefinition::default()
    };
    let texts = definition.compile().unwrap();
    MessageTemplate { id: TemplateId(words[0].parse().unwrap()), version: 1, definition, texts }
}

fn entity(kind: &str, id: &str) -> Entity {
    Entity { kind: kind.into(), id: id.into() }
}

const KEPT: [&str; 15] = [
    "1 WhatsApp en - -",
    "2 whatsapp ar - -",
    "3 WhatsApp ar-IQ - -",
    "4 WhatsApp en 7 -",
    "5 WhatsApp ar 7 -",
    "6 WhatsApp ar 7 2",
    "7 WhatsApp ar 7 4",
    "8 WhatsApp en 7 1",
    "9 SMS en - -",
    "10 sms:twilio en - -",
    "11 Email fr - -",
    "12 Email de - 2",
    "13 Push en 9 -",
    "14 SMS en - 1",
    "15 Pager pt-BR - -",
];

/// NTF-8, TRG-18: scope, then language with its fallbacks, then the channel's own key, then the send.
#[test]
fn ntf_8_the_most_fitting_template_is_taken() {
    let templates = KEPT.map(template);
    // Survey, channel, locale, attempt.
    let table = [
        (1, "whatsapp:default", Some("en"), 1, Some(1)),
        (1, "whatsapp:default", Some("ar"), 1, Some(2)),
        (1, "whatsapp:default", Some("ar-IQ"), 1, Some(3)),
        (1, "whatsapp:default", Some("AR-iq"), 3, Some(3)),
        (1, "whatsapp:default", Some("ar-SA"), 1, Some(2)),
        (1, "whatsapp:default", Some("fr"), 1, Some(1)),
        (1, "whatsapp:default", None, 1, Some(1)),
        (1, "memory:whatsapp-2", Some("ar"), 1, Some(2)),
        // The survey's own go first, even in another language.
        (7, "whatsapp:default", Some("en"), 1, Some(8)),
        (7, "whatsapp:default", Some("en"), 2, Some(4)),
        (7, "whatsapp:default", Some("ar-IQ"), 1, Some(5)),
        (7, "whatsapp:default", Some("ar"), 2, Some(6)),
        (7, "whatsapp:default", Some("ar"), 3, Some(6)),
        (7, "whatsapp:default", Some("ar"), 4, Some(7)),
        (7, "whatsapp:default", Some("ar"), 9, Some(7)),
        (7, "whatsapp:default", Some("fr"), 2, Some(4)),
        // A key of its own before the kind, and before the wording of a send.
        (7, "sms:twilio", Some("en"), 1, Some(10)),
        (7, "sms:msg91", Some("en"), 1, Some(14)),
        (7, "sms:msg91", Some("en"), 2, Some(9)),
        (7, "memory:sms", Some("ar"), 2, Some(9)),
        // In the end any language is better than none.
        (7, "email:smtp", Some("ar"), 1, Some(11)),
        (7, "memory:mail", Some("de-AT"), 1, Some(11)),
        (7, "memory:email", Some("de-AT"), 2, Some(12)),
        (7, "mail:smtp", None, 1, Some(11)),
        // Another region of the language.
        (7, "pager:one", Some("pt-PT"), 1, Some(15)),
        (7, "Pager", Some("pt"), 1, Some(15)),
        // Nothing fits.
        (7, "push:fcm", Some("en"), 1, None),
        (9, "push:fcm", Some("en"), 1, Some(13)),
        (7, "memory:default", Some("en"), 1, None),
        (7, "", None, 1, None),
    ];
    for (survey, channel, locale, attempt, want) in table {
        let scopes = [entity("survey", &survey.to_string())];
        let wanted = TemplateQuery { scopes: &scopes, channel, locale, defaults: &["en"], attempt };
        let found = choose(&templates, &wanted).map(|template| template.id.0);
        assert_eq!(found, want, "survey {survey}, {channel}, {locale:?}, send {attempt}");
    }
}

/// Entities by type and id, the most specific first.
type Scopes<'a> = &'a [(&'a str, &'a str)];

/// NTF-8: the template of the event's own entity goes before those of related entities, these in their
/// order before those without a scope, and only then the language counts.
#[test]
fn ntf_8_the_most_specific_scope_is_taken() {
    let scoped = |id: i64, language: &str, scope: Option<(&str, &str)>| {
        let mut template = template(&format!("{id} SMS {language} - -"));
        template.definition.scope =
            scope.map(|(kind, id)| TemplateScope { kind: kind.into(), id: id.into() });
        template
    };
    let templates = [
        scoped(9, "en", None),
        scoped(8, "en", Some(("owner", "5"))),
        scoped(7, "en", Some(("owner", "6"))),
        scoped(6, "ar", Some(("listing", "77"))),
        scoped(5, "en", Some(("listing", "77"))),
        scoped(4, "ar", Some(("booking", "1"))),
        scoped(3, "en", Some(("booking", "77"))),
    ];
    let table: [(Scopes<'_>, &str, i64); 9] = [
        (&[], "en", 9),
        (&[("booking", "2")], "en", 9),
        (&[("booking", "1")], "en", 4),
        (&[("booking", "1"), ("listing", "77")], "en", 4),
        (&[("booking", "2"), ("listing", "77")], "en", 5),
        (&[("booking", "2"), ("listing", "77")], "ar", 6),
        (&[("booking", "2"), ("listing", "77"), ("owner", "5")], "fr", 6),
        (&[("booking", "2"), ("owner", "5"), ("listing", "77")], "ar", 8),
        (&[("booking", "2"), ("listing", "1"), ("owner", "6")], "ar", 7),
    ];
    for (scopes, locale, want) in table {
        let entities: Vec<Entity> = scopes.iter().map(|(kind, id)| entity(kind, id)).collect();
        let channel = "sms:x";
        let wanted =
            TemplateQuery { scopes: &entities, channel, locale: Some(locale), defaults: &[], attempt: 1 };
        let found = choose(&templates, &wanted).map(|template| template.id.0);
        assert_eq!(found, Some(want), "{scopes:?}, {locale}");
    }
}

/// NTF-8: of two that are alike the newer is taken, and the order they come in does not matter.
#[test]
fn ntf_8_the_newer_of_two_is_taken() {
    let wanted = TemplateQuery { scopes: &[], channel: "sms:x", locale: None, defaults: &[], attempt: 1 };
    for lines in [["1 SMS en - -", "2 SMS fr - -"], ["2 SMS fr - -", "1 SMS en - -"]] {
        assert_eq!(choose(&lines.map(template), &wanted).map(|t| t.id.0), Some(2));
    }
}

#[test]
fn a_channel_has_a_kind() {
    let table = [
        ("whatsapp:default", "WhatsApp"),
        ("SMS", "SMS"),
        ("sms:twilio", "SMS"),
        ("mail:relay", "Email"),
        ("memory:whatsapp", "WhatsApp"),
        ("memory:WhatsApp-test", "WhatsApp"),
        ("memory:sms2", "SMS"),
        ("memory:mailbox", "Email"),
        ("memory:email", "Email"),
        ("memory:default", "memory"),
        ("memory:é", "memory"),
        ("inapp:web", "InApp"),
        ("pager", "pager"),
        ("", ""),
    ];
    for (channel, kind) in table {
        assert_eq!(kind_of(channel), kind, "{channel}");
    }
}

#[test]
fn a_channel_is_named_by_its_key_or_its_kind() {
    let table = [
        ("sms:twilio", "SMS", true),
        ("sms:twilio", "sms:Twilio", true),
        ("sms:twilio", "sms:other", false),
        ("memory:sms", "sms", true),
        ("mail:relay", "email", true),
        ("memory:default", "SMS", false),
        ("SMS", "sms", true),
        ("SMS", "sms:twilio", false),
    ];
    for (key, named, is) in table {
        assert_eq!(is_named(key, named), is, "{named} for {key}");
    }
}

#[test]
fn a_channel_without_a_common_name_is_called_by_its_key() {
    for (key, word) in [("sms:twilio", "SMS"), ("memory:default", "memory:default"), ("pager", "pager")] {
        assert_eq!(word_of(key), word, "{key}");
    }
}
