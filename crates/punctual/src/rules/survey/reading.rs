//! What a survey is read with: its locales, and where problems and warnings go.

use crate::base::error::Problems;
use crate::base::limits;
use crate::rules::condition::Condition;
use crate::rules::document::{Listed, kind, quote};
use crate::rules::locale::{self, Texts};
use crate::rules::message::check_name;
use serde_json::Value;
use std::collections::BTreeSet;

/// The state of reading one definition.
pub(super) struct Reading<'r> {
    /// The locales that every text should have.
    pub locales: Vec<String>,
    /// The locale that every text must have; none if the definition names none.
    pub default: Option<String>,
    /// What makes the definition unusable.
    pub problems: &'r mut Problems,
    /// What is allowed, but probably not meant.
    pub warnings: &'r mut Problems,
}

impl Reading<'_> {
    /// A text in several locales. Missing in the default one is a problem, in another a warning.
    pub fn texts(&mut self, value: &Value, path: &str) -> Texts {
        let mut texts = Texts::default();
        let Some(fields) = value.as_object() else {
            let example = self.default.as_deref().unwrap_or("en");
            let said = format!("must be an object with a text for each locale, such as {{\"{example}\": \"…\"}}");
            self.problems.push(path, format!("{said}, not {}", kind(value)));
            return texts;
        };
        for (tag, value) in fields.iter().take(limits::LOCALES_MAX) {
            self.one_text(tag, value, path, &mut texts);
        }
        if fields.len() > limits::LOCALES_MAX {
            let (has, most) = (fields.len(), limits::LOCALES_MAX);
            self.problems.push(path, format!("has {has} locales, at most {most} are allowed"));
        }
        self.missing(&texts, path);
        texts
    }

    fn one_text(&mut self, tag: &str, value: &Value, path: &str, texts: &mut Texts) {
        let path = format!("{path}.{}", quote(tag));
        if let Err(said) = locale::check(tag) {
            return self.problems.push(path, said);
        }
        if texts.find(tag).is_some() {
            return self.problems.push(path, "is there twice, in capital and in small letters");
        }
        let Some(text) = value.as_str() else {
            return self.problems.push(path, format!("must be a text, not {}", kind(value)));
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

    fn missing(&mut self, texts: &Texts, path: &str) {
        let Some(default) = self.default.clone() else { return };
        if texts.find(&default).is_none() {
            let said = "needs a text: this is the survey's default locale";
            self.problems.push(format!("{path}.{default}"), said);
        }
        let others = self.locales.iter().filter(|tag| !locale::same(tag, &default));
        let without: Vec<&str> = others.map(String::as_str).filter(|tag| texts.find(tag).is_none()).collect();
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

    /// Each text of a list, checked as a name, with its path.
    pub fn names<'v>(&mut self, list: &Listed<'v>) -> Vec<&'v str> {
        let mut names = Vec::new();
        for (value, path) in list.iter() {
            if let Some(name) = crate::rules::document::text(value, path, self.problems) {
                check_name(name, path, self.problems);
                names.push(name);
            }
        }
        names
    }

    /// A condition whose facts begin with one of `roots`. One that begins otherwise is never
    /// there, which is probably not meant.
    pub fn filter(&mut self, value: Option<&Value>, path: &str, roots: &[&str]) -> Option<Condition> {
        let condition = Condition::read(value?, path, self.problems)?;
        for fact in condition.paths() {
            let known = |root: &&str| match root.strip_suffix('*') {
                Some(prefix) => fact.starts_with(prefix) && fact.len() > prefix.len(),
                None => fact == *root,
            };
            if !roots.iter().any(|root| known(root)) {
                let (fact, roots) = (quote(fact), roots.join(", "));
                self.warnings.push(path, format!("`{fact}` is never known here; there are {roots}"));
            }
        }
        Some(condition)
    }
}
