//! A provider's own template: words that the provider has approved and keeps (WhatsApp, DLT). We name it
//! and fill in its parameters, by their places or by name.

use crate::base::document::{DocumentList, DocumentObject, kind, quote, text};
use crate::base::error::Problems;
use crate::base::limits;
use crate::base::name::check_name;
use crate::delivery::rules::template::TextTemplate;
use crate::delivery::rules::template::definition::parse;
use serde_json::Value;

/// `{key, params?, language?, entityId?}`; its parameters are texts with placeholders, or filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderTemplate<T> {
    /// The name that the provider knows it by.
    pub key: String,
    /// The parameters in their order, those of an object by name.
    pub params: Vec<(Option<String>, T)>,
    /// The language it was approved in.
    pub language: Option<String>,
    /// The entity that registered the template, where a regulator requires it (DLT).
    pub entity_id: Option<String>,
}

const PATH: &str = "providerTemplate";

impl ProviderTemplate<TextTemplate> {
    /// Reads a provider template; every problem is reported.
    pub(crate) fn read(json: &Value, problems: &mut Problems) -> Option<Self> {
        let before = problems.0.len();
        let part = DocumentObject::read(json, PATH, &["key", "params", "language", "entityId"], problems)?;
        let key = part.need_text("key", "the name that the provider knows it by", problems);
        let name = |field: &str, problems: &mut Problems| {
            let found = part.get(field).and_then(|value| text(value, &part.at(field), problems));
            found.inspect(|found| check_name(found, &part.at(field), problems)).map(str::to_owned)
        };
        if let Some(key) = key {
            check_name(key, &part.at("key"), problems);
        }
        let (language, entity_id) = (name("language", problems), name("entityId", problems));
        let params = params(&part, problems);
        let read = Self { key: key?.to_owned(), params, language, entity_id };
        Some(read).filter(|_| problems.0.len() == before)
    }

    /// The parameters, each with its path.
    pub(crate) fn params(&self) -> impl Iterator<Item = (String, &TextTemplate)> {
        self.params.iter().enumerate().map(|(n, (name, text))| match name {
            Some(name) => (format!("{PATH}.params.{}", quote(name)), text),
            None => (format!("{PATH}.params[{n}]"), text),
        })
    }

    /// Fills in the parameters, each by its path.
    pub(crate) fn fill(
        &self,
        mut render: impl FnMut(&str, &TextTemplate) -> String,
    ) -> ProviderTemplate<String> {
        let names = self.params.iter().map(|(name, _)| name.clone());
        let params = names.zip(self.params()).map(|(name, (path, text))| (name, render(&path, text)));
        ProviderTemplate {
            key: self.key.clone(),
            params: params.collect(),
            language: self.language.clone(),
            entity_id: self.entity_id.clone(),
        }
    }
}

impl ProviderTemplate<String> {
    /// As it is shown and handed on.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let named = self.params.iter().any(|(name, _)| name.is_some());
        let params: Value = if named {
            let name = |name: &Option<String>| name.clone().unwrap_or_default();
            self.params.iter().map(|(n, value)| (name(n), Value::from(value.as_str()))).collect()
        } else {
            self.params.iter().map(|(_, value)| value.as_str()).collect()
        };
        let (language, entity) = (&self.language, &self.entity_id);
        serde_json::json!({"key": self.key, "params": params, "language": language, "entityId": entity})
    }
}

fn params(part: &DocumentObject<'_>, problems: &mut Problems) -> Vec<(Option<String>, TextTemplate)> {
    let most = limits::PROVIDER_PARAMS_MAX;
    match part.get("params") {
        Some(Value::Array(_)) => {
            let list = part.list("params", most, problems);
            let all = list.iter().flat_map(DocumentList::iter);
            all.filter_map(|(value, path)| Some((None, param(value, path, problems)?))).collect()
        }
        Some(Value::Object(named)) if named.len() <= most => {
            let mut found = Vec::new();
            for (name, value) in named {
                let path = format!("{}.{}", part.at("params"), quote(name));
                found.extend(param(value, &path, problems).map(|text| (Some(name.clone()), text)));
            }
            found
        }
        Some(other) => {
            let said = format!("must be a list or an object of at most {most} texts, not {}", kind(other));
            problems.push(part.at("params"), said);
            Vec::new()
        }
        None => Vec::new(),
    }
}

fn param(value: &Value, path: &str, problems: &mut Problems) -> Option<TextTemplate> {
    parse(text(value, path, problems)?, path, problems)
}
