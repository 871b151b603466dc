//! Broken and hostile templates: each is refused with a word that helps, or says something harmless within
//! its limits.

use super::*;
use crate::delivery::rules::template::definition::parse;
use serde_json::{Value, json};

/// The expected result of a text.
enum Expectation {
    /// The text is refused with this message.
    Refused(&'static str),
    /// The text renders to this, with so many warnings.
    Says(&'static str, usize),
    /// The text stays within the limits, with this warning.
    Bounded(&'static str),
}
use Expectation::{Bounded, Refused, Says};

fn payload() -> Value {
    let deep = (0..120).fold(json!("bottom"), |inner, _| json!({"d": inner}));
    json!({
        "name": "Ada", "n": 12, "list": ["a", ["b"], {"c": 1}, "d"], "object": {"x": 1}, "nothing": null,
        "html": "<script>alert(1)</script><img src=x onerror='a'>\"&",
        "header": "Hi\r\nBcc: victim@example.org\r\n\r\nbody", "nul": "a\u{0}b\u{7}c\u{1b}[31m",
        "bidi": "x\u{202e}gpj.exe\u{2066}y", "separators": "a\u{2028}b\u{2029}c\u{85}d",
        "template": "{{name}} {{secret}}", "filtered": "{{name|upper}}",
        "huge": "é".repeat(500_000), "many": vec!["word"; 200_000], "deep": deep,
        "number": "1e400", "big": 1e300, "date": "9999-99-99", "epoch": "-9999-01-01",
        "sharp": "ß".repeat(10_000),
    })
}

#[rustfmt::skip]
fn table() -> Vec<(String, Expectation)> {
    let deep_key = format!("{{{{deep{}}}}}", ".d".repeat(120));
    let cases = vec![
        // Not closed, not opened, not a key.
        ("Hello {{name".to_owned(), Refused("line 1, column 7: is not closed")),
        ("{{".to_owned(), Refused("is not closed")),
        ("{{name}".to_owned(), Refused("is not closed")),
        ("{{na\nme}}".to_owned(), Refused("is not closed")),
        ("{{name | default:\"x}}".to_owned(), Refused("is not closed")),
        ("}} {{name}} }}".to_owned(), Says("}} Ada }}", 0)),
        ("{ {name} }".to_owned(), Says("{ {name} }", 0)),
        ("{{}}".to_owned(), Refused("is empty: write a key")),
        ("{{ . }}".to_owned(), Says("", 1)),
        ("{{..}}{{a..b}}".to_owned(), Says("", 2)),
        ("{{{name}}}".to_owned(), Refused("has a brace too many")),
        ("{{{{name}}}}".to_owned(), Refused("has a brace too many")),
        ("{{na\u{200b}me}}".to_owned(), Refused("cannot be in one")),
        ("{{\u{202e}name}}".to_owned(), Refused("cannot be in one")),
        ("{{name\u{0}}}".to_owned(), Refused("control character U+0000")),
        ("text \u{1b}[31m".to_owned(), Refused("control character U+001B")),
        ("{{../../etc/passwd}}".to_owned(), Refused("`/` cannot be in one")),
        ("{{name.constructor('x')}}".to_owned(), Refused("cannot be in one")),
        ("{{name + 1}}".to_owned(), Refused("has a space in it")),
        ("{{__proto__.x}}".to_owned(), Says("", 1)),
        // Languages that we do not speak do nothing.
        ("{% for x in list %}{{name}}{% endfor %}".to_owned(), Says("{% for x in list %}Ada{% endfor %}", 0)),
        ("{{#each list}}x{{/each}}".to_owned(), Refused("`#` cannot be in one")),
        ("{{> partial}}".to_owned(), Refused("cannot be in one")),
        ("${7*7} #{7*7} <%= 7*7 %>".to_owned(), Says("${7*7} #{7*7} <%= 7*7 %>", 0)),
        // Values are never read as templates.
        ("{{template}} {{filtered}}".to_owned(), Says("{{name}} {{secret}} {{name|upper}}", 0)),
        // Values that are not text.
        ("{{nobody}}{{nothing}}".to_owned(), Says("", 2)),
        ("{{object}}".to_owned(), Says("", 2)),
        ("{{list}}".to_owned(), Says("a, d", 0)),
        (deep_key, Says("bottom", 0)),
        // Control characters, line breaks, and characters that turn the direction of a text.
        ("{{nul}}".to_owned(), Says("a b c [31m", 0)),
        ("{{bidi}}!".to_owned(), Says("xgpj.exey!", 0)),
        // Filters.
        ("{{name|eval}}".to_owned(), Refused("`eval` is not a filter")),
        (format!("{{{{name{}}}}}", "|upper".repeat(9)), Refused("9 filters, at most 8")),
        ("{{n|number:99999999999999999999}}".to_owned(), Refused("write a number from 0 to 10")),
        ("{{number|number:10}} {{date|date:long}} {{epoch|date}}".to_owned(),
            Says("1e400 9999-99-99 -9999-01-01", 3)),
        ("{{n|date:\"%10000000000d\"}}".to_owned(), Refused("is not a pattern")),
        ("{{n|date:\"%\"}}".to_owned(), Refused("is not a pattern")),
        (format!("{{{{n|default:\"{}\"}}}}", "x".repeat(501)), Refused("longer than 500 bytes")),
        ("{{nobody|default:\"<b>{{name}}</b>\"}}".to_owned(), Says("<b>{{name}}</b>", 0)),
        // Sizes.
        ("x".repeat(1024 * 1024), Refused("at most 262144 are allowed")),
        ("{{name}}".repeat(501), Refused("there are more than 500 placeholders")),
        (format!("{{{{{}}}}}", "k".repeat(600)), Refused("a path has at most 512")),
        ("{{huge}}".repeat(500), Bounded("the text would be too long")),
        ("{{many}}{{huge|upper}}".to_owned(), Bounded("is very long and was cut")),
        ("{{sharp|upper}}".repeat(100), Bounded("the text would be too long")),
        ("{{big|number:2}}".repeat(500), Bounded("")),
        // Money.
        ("{{n|money:XXX}} {{n|money:\u{200b}}}".to_owned(), Refused("`XXX` is not the code of a currency")),
        ("{{n|money:../x}}".to_owned(), Refused("`/` cannot be in one")),
        (format!("{{{{n|money:{}}}}}", "k".repeat(501)), Refused("longer than 500 bytes")),
        ("{{html|money:USD}}|{{n|money:huge}}|{{n|money:object}}".to_owned(),
            Says("<script>alert(1)</script><img src=x onerror='a'>\"&|12|12", 3)),
        ("{{huge|money:EUR}}".repeat(500), Bounded("is not a number")),
        ("{{n|money:many}}".repeat(500), Bounded("has a currency that is not known")),
        ("{{big|money:USD}}".to_owned(), Says("1e+300", 1)),
        ("{{date|date:\"full datetime\"}}{{epoch|date:weekday}}".to_owned(),
            Says("9999-99-99-9999-01-01", 2)),
    ];
    cases
}

/// NTF-9, NTF-10: forty and more broken or hostile texts.
#[test]
fn ntf_10_hostile_templates_are_refused_or_harmless() {
    let payload = payload();
    let table = table();
    assert!(table.len() >= 40, "{} cases", table.len());
    for (text, want) in table {
        let shown = quote(&text);
        let mut problems = crate::base::error::Problems::default();
        let parsed = parse(&text, "body", &mut problems);
        let made = parsed.map(|template| {
            template.render(&TemplateValues::default().with_json("", &payload), TextTarget::Text, "en")
        });
        match (want, made) {
            (Refused(why), None) => assert!(problems.to_string().contains(why), "{shown}: {problems}"),
            (Says(text, told), Some(made)) => {
                assert_eq!(
                    (made.text.as_str(), made.warnings.len()),
                    (text, told),
                    "{shown}: {:?}",
                    made.warnings
                );
            }
            (Bounded(why), Some(made)) => {
                assert!(made.text.len() <= limits::RENDERED_BYTES_MAX, "{shown}: {} bytes", made.text.len());
                assert!(made.warnings.len() <= 500, "{shown}: {} warnings", made.warnings.len());
                let told = made.warnings.iter().any(|said| said.contains(why));
                assert!(told || why.is_empty(), "{shown}: {:?}", made.warnings);
            }
            (_, made) => {
                panic!("{shown}: {problems} {}", made.map(|made| quote(&made.text)).unwrap_or_default())
            }
        }
    }
}

/// NTF-9, NTF-10: no value gets out of its place: not into a header, not into the markup.
#[test]
fn ntf_9_values_stay_in_their_place() {
    let payload = payload();
    let values = TemplateValues::default().with_json("", &payload);
    let render = |text: &str, target| TextTemplate::parse(text).unwrap().render(&values, target, "en").text;
    let subject = render("Re: {{header}}{{separators}}", TextTarget::Line);
    assert_eq!(subject, "Re: Hi  Bcc: victim@example.org    bodya b c d");
    assert!(!subject.contains(['\r', '\n', '\u{2028}', '\u{2029}', '\u{85}']));
    let html = render("<p title=\"{{html}}\">{{html}}</p>", TextTarget::Html);
    assert!(!html[10..].contains("<script") && !html.contains("<img") && !html.contains("='a'"), "{html}");
    let left = values.clone().missing(MissingValuePolicy::AsWritten);
    let made = TextTemplate::parse("<p>{{x|default:\"<b>\"|upper}} {{nobody.at}}</p>").unwrap();
    let made = made.render(&left, TextTarget::Html, "en");
    assert_eq!(made.text, "<p>&lt;B&gt; {{nobody.at}}</p>");
}

/// NTF-9: a wide payload does not make many placeholders slow: names beyond the limit are found only as
/// they are written.
#[test]
fn ntf_9_a_wide_payload_is_looked_through_within_limits() {
    let wide: Value = (0..60_000).map(|n| (format!("key{n}"), json!(n))).collect();
    let values = TemplateValues::default().with_json("", &wide);
    let text: String = (0..500).map(|n| format!("{{{{KEY{n}x}}}}")).collect();
    let template = TextTemplate::parse(&text).unwrap();
    let begin = crate::base::clock::monotonic();
    assert_eq!(template.render(&values, TextTarget::Text, "en").text, "");
    println!("{:?} for 500 names that are not there, among 60,000", begin.elapsed());
    let exact = TextTemplate::parse("{{key59999}}").unwrap();
    assert_eq!(exact.render(&values, TextTarget::Text, "en").text, "59999");
}
