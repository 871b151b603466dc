//! The context of reading a survey: its locales, and the lists of problems and warnings.

use crate::base::condition::Condition;
use crate::base::document::{kind, quote};
use crate::base::error::Problems;
use crate::base::limits;
use crate::base::locale;
use crate::base::locale::LocalizedText;
use crate::base::suggestion::nearest;
use serde_json::Value;
use std::collections::BTreeSet;

/// The state of reading one definition.
pub(crate) struct SurveyReader<'r> {
    /// The locales that every text should have.
    pub locales: Vec<String>,
    /// The locale that every text must have; none if the definition names none.
    pub default: Option<String>,
    /// The ids of the questions, as far as they have been read.
    pub ids: Vec<String>,
    /// The ids of those that are answered with `"Yes"` or `"No"`.
    pub yes_no_ids: Vec<String>,
    /// Problems that make the definition unusable.
    pub problems: &'r mut Problems,
    /// Parts that are allowed, but probably not meant.
    pub warnings: &'r mut Problems,
}

impl SurveyReader<'_> {
    /// A text in several locales. Missing in the default one is a problem, in another a warning.
    pub fn texts(&mut self, value: &Value, path: &str) -> LocalizedText {
        let mut texts = LocalizedText::default();
        let Some(fields) = value.as_object() else {
            let example = self.default.as_deref().unwrap_or("en");
            let said =
                format!("must be an object with a text for each locale, such as {{\"{example}\": \"…\"}}");
            self.problems.push(path, format!("{said}, not {}", kind(value)));
            return texts;
        };
        let there = || fields.iter().filter(|(_, value)| !value.is_null());
        for (tag, value) in there().take(limits::LOCALES_MAX) {
            self.one_text(tag, value, path, &mut texts);
        }
        if fields.len() > limits::LOCALES_MAX {
            let (has, most) = (fields.len(), limits::LOCALES_MAX);
            self.problems.push(path, format!("has {has} locales, at most {most} are allowed"));
        }
        // A blank text is missing; one that is wrong is not missing as well.
        let blank = |value: &Value| value.as_str().is_some_and(|text| text.trim().is_empty());
        let tags: Vec<&str> =
            there().filter(|(_, value)| !blank(value)).map(|(tag, _)| tag.as_str()).collect();
        self.missing(&tags, path);
        texts
    }

    fn one_text(&mut self, tag: &str, value: &Value, path: &str, texts: &mut LocalizedText) {
        let path = format!("{path}.{}", quote(tag));
        if let Err(said) = locale::check(tag) {
            return self.problems.push(path, said);
        }
        if texts.find(tag).is_some() {
            return self.problems.push(path, "is there twice, in capital and in small letters");
        }
        let Some(text) = value.as_str() else {
            return self.problems.push(path, format!("must be a string, not {}", kind(value)));
        };
        let chars = text.chars().count();
        if chars > limits::LABEL_CHARS_MAX {
            let most = limits::LABEL_CHARS_MAX;
            self.problems.push(&path, format!("has {chars} characters, at most {most} are allowed"));
        }
        if !self.locales.is_empty() && !self.locales.iter().any(|known| locale::same(known, tag)) {
            let known = self.locales.join(", ");
            self.warnings.push(path, format!("is never shown: the survey's locales are {known}"));
        }
        if !text.trim().is_empty() {
            texts.insert(tag, text);
        }
    }

    fn missing(&mut self, tags: &[&str], path: &str) {
        let Some(default) = self.default.clone() else { return };
        let lacks = |locale: &str| !tags.iter().any(|tag| locale::same(tag, locale));
        if lacks(&default) {
            let said = "needs a text: this is the survey's default locale";
            self.problems.push(format!("{path}.{default}"), said);
        }
        let others = self.locales.iter().filter(|tag| !locale::same(tag, &default));
        let without: Vec<&str> = others.map(String::as_str).filter(|tag| lacks(tag)).collect();
        if !without.is_empty() {
            let without = without.join(", ");
            self.warnings.push(path, format!("has no text in {without}: readers get the one in {default}"));
        }
    }

    /// A name that must be unlike those `seen` before.
    pub fn unique(&mut self, name: &str, path: &str, what: &str, seen: &mut BTreeSet<String>) {
        if !seen.insert(name.to_owned()) {
            let said = format!("`{}` is the {what} of an earlier one: each needs its own", quote(name));
            self.problems.push(path, said);
        }
    }

    /// A condition over facts that begin with one of `roots`. A question that does not exist has no answer:
    /// probably not meant, so a warning.
    pub fn filter(&mut self, value: Option<&Value>, path: &str, roots: &[&str]) -> Option<Condition> {
        let value = value?;
        let condition = Condition::read(value, path, self.problems)?;
        for (fact, at, compared) in comparisons(value, path.to_owned()) {
            self.check_root(fact, &at, roots);
            if let Some(id) = fact.strip_prefix("answers.") {
                self.check_yes_no(id, compared, &at);
            }
            let Some(id) = fact.strip_prefix("answers.").map(question_of) else { continue };
            if roots.contains(&"answers.*") && !self.ids.iter().any(|known| known == id) {
                let meant = meant(id, self.ids.iter().map(String::as_str), "answers.");
                self.warnings.push(at, format!("`{}` is the answer to no question{meant}", quote(fact)));
            }
        }
        Some(condition)
    }

    /// Warns of an answer to a `yesNo` question that is compared with anything but its two words.
    pub fn check_yes_no(&mut self, id: &str, compared: &Value, path: &str) {
        if !self.yes_no_ids.iter().any(|known| known == id) {
            return;
        }
        let values = compared.as_array().map_or(std::slice::from_ref(compared), Vec::as_slice);
        let never = |value: &&Value| !value.is_null() && !matches!(value.as_str(), Some("Yes" | "No"));
        if let Some(value) = values.iter().find(never) {
            let id = quote(id);
            let said = format!("the answer to `{id}` is never {value}: a yesNo answer is \"Yes\" or \"No\"");
            self.warnings.push(path, said);
        }
    }

    /// Warns of a fact that begins with none of `roots`: such a fact never exists.
    pub fn check_root(&mut self, fact: &str, path: &str, roots: &[&str]) {
        let known = |root: &&str| match root.strip_suffix('*') {
            Some(prefix) => fact.starts_with(prefix) && fact.len() > prefix.len(),
            None => fact == *root,
        };
        if !roots.iter().any(known) {
            let (fact, roots) = (quote(fact), roots.join(", "));
            self.warnings.push(path, format!("`{fact}` is never known here; there are {roots}"));
        }
    }
}

/// Every comparison of a condition: its fact, where that stands, and the value it is compared with.
pub(crate) fn comparisons(condition: &Value, path: String) -> Vec<(&str, String, &Value)> {
    let mut found = Vec::new();
    for combined in ["all", "any"] {
        for (n, inner) in condition[combined].as_array().into_iter().flatten().enumerate() {
            found.extend(comparisons(inner, format!("{path}.{combined}[{n}]")));
        }
    }
    if let Some(inner) = condition.get("not") {
        found.extend(comparisons(inner, format!("{path}.not")));
    }
    let fact = condition["questionId"].as_str();
    found.extend(fact.map(|fact| (fact, format!("{path}.questionId"), &condition["value"])));
    found
}

/// The question that a fact is about: words of one's own belong to theirs.
pub(crate) fn question_of(fact: &str) -> &str {
    fact.strip_suffix(".other").unwrap_or(fact)
}

/// The end of a sentence about an unknown question: the one that was probably meant, if any.
pub(crate) fn meant<'a>(id: &str, known: impl Iterator<Item = &'a str>, prefix: &str) -> String {
    nearest(id, known).map_or_else(String::new, |id| format!("; did you mean `{prefix}{id}`?"))
}
