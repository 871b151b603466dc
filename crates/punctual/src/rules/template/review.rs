//! What is doubtful about a template, told whenever it is shown. It changes nothing: a payload may have
//! the key that nobody knows of yet.

use super::Known;
use super::choose::kind_of;
use super::definition::{Compiled, Definition, KINDS};
use super::segments::Segments;
use super::set::Filled;
use super::values::same_name;
use crate::base::error::Problems;
use crate::rules::document::quote;
use crate::rules::invitation;
use crate::rules::nearest::nearest;

/// Says what is probably not meant so, by the names that are known and, if there is one, by what the
/// template says with its kind's sample.
#[must_use]
pub fn review(of: &Definition, texts: &Compiled, known: &Known, sample: Option<&Filled>) -> Problems {
    let mut warnings = Problems::default();
    let is_known = of.channel.contains(':') || KINDS.contains(&kind_of(&of.channel));
    if let Some(meant) = nearest(&of.channel, KINDS).filter(|_| !is_known) {
        let said = format!("`{}` is taken as a kind of its own; did you mean `{meant}`?", quote(&of.channel));
        warnings.push("channel", said);
    }
    doubt_keys(texts, known, &mut warnings);
    if of.event_type == invitation::EVENT_TYPE {
        let linked = texts.body.keys().any(|key| same_name(key, invitation::LINK));
        if !linked && of.provider_template.is_none() {
            warnings.push("body", "has no `{{surveyUrl}}`: nobody can get to the survey from it");
        }
    }
    match kind_of(&of.channel) {
        "Email" if of.subject.is_none() => warnings.push("subject", "is missing: a mail has one"),
        "SMS" => doubt_sms(of, texts, sample, &mut warnings),
        _ => {}
    }
    warnings
}

fn doubt_keys(texts: &Compiled, known: &Known, warnings: &mut Problems) {
    for (path, text) in texts.all() {
        for key in text.keys() {
            let Some(said) = known.doubt(key) else { continue };
            if !warnings.0.iter().any(|told| told.path == path && told.message == said) {
                warnings.push(path.as_ref(), said);
            }
        }
    }
}

fn doubt_sms(of: &Definition, texts: &Compiled, sample: Option<&Filled>, warnings: &mut Problems) {
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
