//! The review of a template: doubtful parts, reported whenever the template is shown. A review changes
//! nothing: a payload may have a key that no sample has shown yet.

use crate::base::document::quote;
use crate::base::error::Problems;
use crate::base::id::TemplateId;
use crate::base::locale;
use crate::base::suggestion::nearest;
use crate::delivery::rules::template::KnownNames;
use crate::delivery::rules::template::choose::kind_of;
use crate::delivery::rules::template::definition::{CompiledTemplate, KINDS, TemplateDefinition};
use crate::delivery::rules::template::event_type::OwnEventType;
use crate::delivery::rules::template::segments::Segments;
use crate::delivery::rules::template::set::FilledTemplate;
use crate::delivery::rules::template::values::same_name;

/// Says what is probably not meant so, by the names that are known and, if there is one, by what the
/// template says with its kind's sample.
#[must_use]
pub fn review(
    of: &TemplateDefinition,
    texts: &CompiledTemplate,
    known: &KnownNames,
    sample: Option<&FilledTemplate>,
) -> Problems {
    let mut warnings = Problems::default();
    let is_known = of.channel.contains(':') || KINDS.contains(&kind_of(&of.channel));
    if let Some(meant) = nearest(&of.channel, KINDS).filter(|_| !is_known) {
        let said = format!("`{}` is taken as a kind of its own; did you mean `{meant}`?", quote(&of.channel));
        warnings.push("channel", said);
    }
    doubt_keys(texts, known, &mut warnings);
    doubt_forms(of, texts, &mut warnings);
    if let Some(own) = OwnEventType::find(&of.event_type) {
        let linked = texts.body.keys().any(|key| same_name(key, own.link));
        if !linked && of.provider_template.is_none() {
            let said = format!("has no `{{{{{}}}}}`: its recipients cannot follow the link", own.link);
            warnings.push("body", said);
        }
    }
    match kind_of(&of.channel) {
        "Email" if of.subject.is_none() => warnings.push("subject", "is missing: a mail has one"),
        "SMS" => doubt_sms(of, texts, sample, &mut warnings),
        _ => {}
    }
    warnings
}

/// Warns of every other template in use that is for just the same: only the newest of them is ever taken.
pub fn warn_of_duplicates<'o>(
    (id, of): (TemplateId, &TemplateDefinition),
    others: impl Iterator<Item = (TemplateId, &'o TemplateDefinition)>,
    warnings: &mut Problems,
) {
    for (other, _) in others.filter(|(other, twin)| *other != id && are_twins(of, twin)) {
        let (used, unused) = (id.max(other), id.min(other));
        let said = format!(
            "template {other} is for the same events, channel, language and scope: {used} is used, \
             and {unused} never is"
        );
        warnings.push("channel", said);
    }
}

fn are_twins(a: &TemplateDefinition, b: &TemplateDefinition) -> bool {
    let channel = |of: &TemplateDefinition| match of.channel.contains(':') {
        true => of.channel.clone(),
        false => kind_of(&of.channel).to_ascii_lowercase(),
    };
    a.event_type == b.event_type
        && a.scope == b.scope
        && a.attempt == b.attempt
        && channel(a) == channel(b)
        && locale::same(&a.language, &b.language)
}

/// Warns of dates, numbers and money that are not shown as the language has them.
fn doubt_forms(of: &TemplateDefinition, texts: &CompiledTemplate, warnings: &mut Problems) {
    for (path, text) in texts.all() {
        for said in text.filters().filter_map(|filter| filter.doubt(&of.language)) {
            if !warnings.0.iter().any(|told| told.path == path && told.message == said) {
                warnings.push(path.as_ref(), said);
            }
        }
    }
}

fn doubt_keys(texts: &CompiledTemplate, known: &KnownNames, warnings: &mut Problems) {
    for (path, text) in texts.all() {
        for key in text.keys() {
            let Some(said) = known.doubt(key) else { continue };
            if !warnings.0.iter().any(|told| told.path == path && told.message == said) {
                warnings.push(path.as_ref(), said);
            }
        }
    }
}

fn doubt_sms(
    of: &TemplateDefinition,
    texts: &CompiledTemplate,
    sample: Option<&FilledTemplate>,
    warnings: &mut Problems,
) {
    let fixed = Segments::of(&texts.body.fixed());
    let filled = sample.map(|filled| Segments::of(&filled.body));
    if fixed.count > 1 {
        let (units, count, encoding) = (fixed.units, fixed.count, fixed.encoding());
        let said = format!("is {units} characters of {encoding} without its values: {count} SMS or more");
        warnings.push("body", said);
    } else if let Some(full) = filled.filter(|full| full.count > 1) {
        let (units, count, encoding) = (full.units, full.count, full.encoding());
        let said = format!("is {units} characters of {encoding} with the sample's values: {count} SMS");
        warnings.push("body", said);
    }
    for (path, there) in [("subject", of.subject.is_some()), ("html", of.html.is_some())] {
        if there {
            warnings.push(path, "is not sent by SMS");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn definition(edit: impl FnOnce(&mut Value)) -> TemplateDefinition {
        let mut json = json!({"eventType": "a.b", "channel": "SMS", "language": "en", "body": "x"});
        edit(&mut json);
        let mut problems = Problems::default();
        TemplateDefinition::read(&json, &mut problems).unwrap_or_else(|| panic!("{problems}"))
    }

    /// NTF-8: of two templates for just the same only the newest is taken, and the review of a saved one
    /// reports it.
    #[test]
    fn ntf_8_two_templates_for_the_same_are_told() {
        let one = definition(|_| {});
        let scope = |json: &mut Value| {
            json["scopeType"] = json!("booking");
            json["scopeId"] = json!("7");
        };
        let table = [
            (definition(|json| json["body"] = json!("y")), true),
            (definition(|json| json["channel"] = json!("sms")), true),
            (definition(|json| json["channel"] = json!("sms:twilio")), false),
            (definition(|json| json["language"] = json!("ar")), false),
            (definition(|json| json["eventType"] = json!("a.c")), false),
            (definition(|json| json["attempt"] = json!(2)), false),
            (definition(scope), false),
        ];
        for (other, want) in table {
            let mut warnings = Problems::default();
            let both = [(TemplateId(3), &one), (TemplateId(8), &other)];
            warn_of_duplicates(both[0], both.into_iter(), &mut warnings);
            let said = "channel: template 8 is for the same events, channel, language and scope: \
                8 is used, and 3 never is";
            assert_eq!(warnings.to_string(), if want { said } else { "" }, "{other:?}");
        }
    }
}
