//! Placeholders, filters, escaping, and the problems of a text.

use super::*;
use crate::base::zone::Zone;
use proptest::prelude::*;
use serde_json::{Value, json};

fn payload() -> Value {
    json!({"CustomerName": "Kadhem <b>Owaid</b>", "guest": {"phone": "+964", "Name": {"first": "Ada"}},
        "guestphone": null, "count": 3.0, "vip": true, "tags": ["a", 2, null, {"x": 1}], "empty": "  ",
        "at": "2026-05-14T22:13:00Z", "day": "2026-05-04", "wall": "2026-05-14T09:05:00",
        "amount": -1234567.5,
        "a.b": 1, "a": {"b": 2, "c": 3}, "ÜBER": "x", "lines": "one\r\ntwo", "typed": "٧٫٥"})
}

fn render(text: &str, target: TextTarget, locale: &str) -> RenderedText {
    let payload = payload();
    let zone = Zone::find("Asia/Baghdad").unwrap();
    let values = TemplateValues::default()
        .zone(&zone)
        .with_value("surveyUrl", "https://s.example/x?a=1&b=2")
        .with_value("recipient.address", "+964 770")
        .with_json("candidate", &payload)
        .with_json("", &payload);
    TextTemplate::parse(text).unwrap().render(&values, target, locale)
}

/// NTF-9: keys in any case, nested or joined, bare or behind their prefix.
#[test]
fn ntf_9_placeholders_find_their_values() {
    let table = [
        ("Hi {{guest.phone}}!", "Hi +964!"),
        ("{{ GUEST.PHONE }}", "+964"),
        ("{{guestPhone}}", "+964"),
        ("{{guestNameFirst}} {{guest.name.first}} {{guest.nameFirst}}", "Ada Ada Ada"),
        ("{{candidate.guest.phone}} {{candidateGuestPhone}}", "+964 +964"),
        ("{{customername}}", "Kadhem <b>Owaid</b>"),
        ("{{Candidate.CustomerName}}", "Kadhem <b>Owaid</b>"),
        ("{{recipientAddress}} {{recipient.ADDRESS}}", "+964 770 +964 770"),
        ("{{SURVEYURL}}", "https://s.example/x?a=1&b=2"),
        ("{{count}} {{vip}} {{tags}}", "3 true a, 2"),
        ("{{a.b}} {{a.c}} {{über}}", "1 3 x"),
        (r"\{{a}} }}", "{{a}} }}"),
        ("", ""),
        ("no { braces } here", "no { braces } here"),
    ];
    for (text, want) in table {
        let made = render(text, TextTarget::Text, "en");
        assert_eq!((made.text.as_str(), made.warnings.len()), (want, 0), "{text}: {:?}", made.warnings);
    }
}

/// NTF-9: a missing value is empty or left, gives a warning, and never fails; null and objects are missing.
#[test]
fn ntf_9_a_missing_value_is_told() {
    let made = render("a{{nobody}}b{{guest}}c{{guest.phone.x}}d{{nobody}}", TextTarget::Text, "en");
    assert_eq!(made.text, "abcd");
    let want = [
        "`{{nobody}}` has no value",
        "`{{guest}}` is an object: name what is in it",
        "`{{guest}}` has no value",
        "`{{guest.phone.x}}` has no value",
    ];
    assert_eq!(made.warnings, want);
    let left = TemplateValues::default().missing(MissingValuePolicy::AsWritten);
    let made = TextTemplate::parse("x {{ no | upper }} y").unwrap().render(&left, TextTarget::Html, "en");
    assert_eq!(made.text, "x {{ no | upper }} y");
    assert_eq!(made.warnings.len(), 1);
}

/// NTF-9, NTF-11: filters, with the locale's words and the zone's clock.
#[test]
fn ntf_9_filters_shape_values() {
    let table = [
        ("en", "{{customerName|upper}}", "KADHEM <B>OWAID</B>"),
        ("en", "{{vip | UPPER | lower}}", "true"),
        ("en", r#"{{nobody | default:"guest | }} friend"}}"#, "guest | }} friend"),
        ("en", "{{empty|default:you}}", "you"),
        ("en", r#"{{nobody|default:""}}"#, ""),
        ("en", r#"{{nobody|upper|default:"x"|upper}}"#, "X"),
        ("en", "{{amount|number}}", "-1,234,567.5"),
        ("de", "{{amount|number:2}}", "-1.234.567,50"),
        ("fr-CA", "{{amount|number:0}}", "-1\u{a0}234\u{a0}568"),
        ("ar", "{{typed|number}} {{count|number:1}}", "7.5 3.0"),
        ("en-GB", "{{at|date}}", "15 May 2026"),
        ("en-US", "{{at|date}} {{at|date:time}}", "May 15, 2026 1:13 AM"),
        (
            "en-GB",
            "{{at|date:datetime}} {{at|date:short}} {{at|date:iso}}",
            "15 May 2026 at 01:13 15/05/2026 2026-05-15",
        ),
        ("en-GB", "{{day|date:full}}", "Monday, 4 May 2026"),
        ("ar", "{{day|date}}", "4 مايو 2026"),
        ("ar-IQ", "{{day|date:full}}", "الاثنين، ٤ أيار ٢٠٢٦"),
        ("tr", "{{day|date:full}} {{wall|date:datetime}}", "4 Mayıs 2026 Pazartesi 14 Mayıs 2026 09:05"),
        ("en", r#"{{wall|date:"%d.%m.%y %H:%M"}}"#, "14.05.26 09:05"),
    ];
    for (locale, text, want) in table {
        let made = render(text, TextTarget::Text, locale);
        assert_eq!((made.text.as_str(), made.warnings), (want, vec![]), "{locale} {text}");
    }
    let made = render("{{vip|number}} {{vip|date}} {{day|date:time}}", TextTarget::Text, "en");
    assert_eq!(made.text, "true true 2026-05-04");
    assert_eq!(made.warnings.len(), 3, "{:?}", made.warnings);
    assert_eq!(made.warnings[0], "`{{vip}}` is not a number, and was left as it is");
}

/// NTF-9: values are escaped for where they go, and never what the author wrote.
#[test]
fn ntf_9_values_are_escaped_for_their_target() {
    let nasty = json!({"x": "<a href=\"j\" id='k'>&\u{0}\r\n\t\u{2028}</a>"});
    let values = TemplateValues::default().with_json("", &nasty);
    let template = TextTemplate::parse("<b>{{x}}</b>").unwrap();
    let table = [
        (
            TextTarget::Html,
            "<b>&lt;a href=&quot;j&quot; id=&#39;k&#39;&gt;&amp; \u{20}\n\t\u{2028}&lt;/a&gt;</b>",
        ),
        (TextTarget::Text, "<b><a href=\"j\" id='k'>& \u{20}\n\t\u{2028}</a></b>"),
        (TextTarget::Line, "<b><a href=\"j\" id='k'>&     </a></b>"),
    ];
    for (target, want) in table {
        assert_eq!(template.render(&values, target, "en").text, want, "{target:?}");
    }
    assert!(!render("{{lines}}", TextTarget::Line, "en").text.contains(['\r', '\n']));
}

/// NTF-10: every problem is reported with its line and column.
#[test]
fn ntf_10_a_broken_text_is_told_by_its_place() {
    let table = [
        ("Hello {{name", "line 1, column 7: is not closed"),
        ("é\né {{a}} {{", "line 2, column 9: is not closed"),
        ("{{a\n}}", "line 1, column 1: is not closed"),
        ("{{}}", "line 1, column 3: is empty: write a key"),
        ("{{ | upper}}", "is empty: write a key"),
        ("{{{a}}}", "column 3: `{a` has a brace too many"),
        ("{{a b}}", "column 3: `a b` has a space in it"),
        ("{{a/b}}", "column 3: `a/b` is not a key: `/` cannot be in one"),
        ("{{a | uper}}", "column 7: `uper` is not a filter; did you mean `upper`?"),
        ("{{a|}}", "column 5: a filter is missing behind the `|`"),
        ("{{a|upper:1}}", "`upper` takes nothing behind a `:`"),
        ("{{a|default}}", "write default:\"…\""),
        ("{{a|default:}}", "something is missing behind the `:`"),
        ("{{a|default:\"x\"y\"z\"}}", "is not one text in quotes"),
        ("{{a|number:11}}", "write a number from 0 to 10"),
        ("{{a|date:lang}}", "`lang` is not a form of dates; did you mean `long`?"),
        ("{{a|date:\"%Q!\"}}", "is not a pattern such as %d/%m/%Y"),
        ("{{a|date:\"long short\"}}", "`long short` is not a form of dates"),
        ("{{a | money}}", "column 7: `money` needs a currency: write money:USD"),
        ("{{a | money:EUX}}", "column 7: `EUX` is not the code of a currency; did you mean `EUR`?"),
        ("{{a | money:\"US Dollar\"}}", "is neither a currency such as USD nor a key"),
        ("{{a | mony:USD}}", "`mony` is not a filter; did you mean `money`?"),
    ];
    for (text, want) in table {
        let wrongs = TextTemplate::parse(text).expect_err(text);
        let said = wrongs[0].to_string();
        assert!(wrongs.len() == 1 && said.contains(want), "{text}: {said}");
    }
    let many = TextTemplate::parse("{{a b}}\n{{c|x}} {{d|y}}\n{{").unwrap_err();
    let places: Vec<_> = many.iter().map(|wrong| (wrong.line, wrong.column)).collect();
    assert_eq!(places, [(1, 3), (2, 5), (2, 13), (3, 1)]);
    assert_eq!(TextTemplate::parse(&"{{a b}}".repeat(100)).unwrap_err().len(), 20);
}

/// NTF-9: sizes are bounded on both sides.
#[test]
fn ntf_9_sizes_are_bounded() {
    let most = limits::TEMPLATE_PLACEHOLDERS_MAX;
    assert!(TextTemplate::parse(&"x".repeat(limits::TEMPLATE_BYTES_MAX + 1)).is_err());
    assert!(TextTemplate::parse(&"{{a}}".repeat(most + 1)).unwrap_err()[0].message.contains("more than 500"));
    assert!(TextTemplate::parse(&format!("{{{{a{}}}}}", "|upper".repeat(9))).is_err());
    assert!(TextTemplate::parse(&format!("{{{{{}}}}}", "k".repeat(513))).is_err());
    let deep = (0..200).fold(json!(1), |inner, _| json!({"d": inner}));
    let huge = json!({"a": "é".repeat(600_000), "l": vec!["xyz"; 100_000], "deep": deep});
    let values = TemplateValues::default().with_json("", &huge);
    let made = TextTemplate::parse(&"{{a}}".repeat(most)).unwrap().render(&values, TextTarget::Html, "en");
    assert!(
        made.text.len() <= limits::RENDERED_BYTES_MAX && made.text.len() > 500_000,
        "{}",
        made.text.len()
    );
    assert!(made.warnings.iter().any(|said| said.contains("was cut")), "{:?}", &made.warnings[..2]);
    assert!(made.warnings.iter().any(|said| said.contains("would be too long")));
    let list = TextTemplate::parse("{{l}}").unwrap().render(&values, TextTarget::Text, "en");
    assert!(list.text.len() <= limits::TEMPLATE_VALUE_BYTES_MAX);
    let deep = format!("{{{{deep{}}}}}", ".D".repeat(200));
    assert_eq!(
        TextTemplate::parse(&deep).unwrap().render(&values, TextTarget::Text, "en").text,
        "",
        "too deep"
    );
}

/// NTF-9: one message of an ordinary size is rendered many thousand times a second, also by a debug
/// build on a busy machine.
#[test]
fn ntf_9_rendering_is_cheap() {
    let text = "Dear {{CustomerName}}, your {{vehicle.model | upper}} ({{VIN}}) was ready on {{at | date}}. \
        How was it? {{surveyUrl}} {{recipient.address}} {{guestPhone | default:\"-\"}}";
    let template = TextTemplate::parse(text).unwrap();
    let payload = json!({"wip": "40956", "dealerId": "1", "jobType": "GR", "VIN": "JTMABBBJ2N4024400",
        "CustomerName": "Kadhem Owaid", "vehicle": {"model": "Prado"}, "at": "2026-05-14T05:13:00Z"});
    let begin = crate::base::clock::monotonic();
    for _ in 0..10_000 {
        let values = TemplateValues::default()
            .with_value("surveyUrl", "https://s.example/x")
            .with_value("recipient.address", "+964");
        let made = template.render(
            &values.with_json("candidate", &payload).with_json("", &payload),
            TextTarget::Text,
            "en",
        );
        assert!(made.warnings.is_empty());
    }
    let each = begin.elapsed() / 10_000;
    println!("{each:?} for one message");
    assert!(each < std::time::Duration::from_millis(1), "{each:?} for one message");
}

/// Texts that are made of what the reader looks for.
fn nonsense() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "{{", "}}", "{", "}", "|", "\"", ":", "\\", "\n", " ", "a", "é", ".", "upper", "default", "date",
        "number", "%", "%d", "9", "x.y", "money", "USD", "full",
    ]);
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// Documents of few names, so that they are met on every level.
fn document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        Just(json!(true)),
        (0..9).prop_map(|n| json!(n)),
        "[a-z<]{0,4}".prop_map(|s| json!(s))
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let names = prop::sample::select(vec!["a", "b", "C", "Dd", "é"]);
        prop::collection::btree_map(names, inner, 0..4)
            .prop_map(|map| map.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    })
}

proptest! {
    /// NTF-9: no text and no payload makes it panic; a text without placeholders stays as it is.
    #[test]
    fn ntf_9_nothing_breaks_a_template(text in nonsense(), payload in document()) {
        let values = TemplateValues::default().with_json("", &payload).with_json("p", &payload);
        match TextTemplate::parse(&text) {
            Ok(template) => {
                let made = template.render(&values, TextTarget::Html, "ar");
                if template.is_plain() {
                    prop_assert_eq!(made.text, text.replace("\\{{", "{{"));
                }
            }
            Err(wrongs) => {
                prop_assert!(!wrongs.is_empty() && wrongs.iter().all(|w| w.line > 0 && w.column > 0));
            }
        }
    }

    /// NTF-9: a lookup without building the map finds the same value as the map of facts.
    #[test]
    fn ntf_9_lookups_agree_with_the_facts(payload in document()) {
        let mut facts = crate::base::facts::Facts::default();
        facts.flatten("candidate", &payload).unwrap();
        let values = TemplateValues::default().with_json("candidate", &payload);
        for (path, value) in facts.iter().filter(|(path, value)| !value.is_object() && *path != "candidate") {
            let want = Some(values::ResolvedValue::Json(value));
            prop_assert_eq!(values.get(path, &mut 10_000), want, "{}", path);
            let loud = path.to_uppercase();
            prop_assert!(values.get(&loud, &mut 10_000).is_some(), "{}", loud);
            let joined = path.replace('.', "");
            prop_assert!(values.get(&joined, &mut 10_000).is_some(), "{}", joined);
        }
    }
}
