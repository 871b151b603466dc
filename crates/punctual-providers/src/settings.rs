//! Settings that a provider needs: what it calls them, which are secret, and what was given.

use crate::redaction::Redaction;
use punctual::Problems;
use punctual::base::suggestion::hint;
use std::collections::BTreeMap;
use std::fmt;

/// One setting of a provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    /// Its name in the configuration.
    pub name: String,
    /// What it is for, in a few words.
    pub about: String,
    /// Whether it is never shown.
    pub secret: bool,
    /// Whether a channel cannot do without.
    pub required: bool,
    /// What it is when nobody says.
    pub default: Option<String>,
    /// Whether it is an address that stands in the request's URL as it is.
    pub url: bool,
}

/// The settings of one channel. Debugging shows names only.
#[derive(Clone, Default)]
pub struct Settings {
    values: BTreeMap<String, String>,
    redaction: Redaction,
    has_secret: bool,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.values.keys()).finish()
    }
}

impl Settings {
    /// What was given, with defaults for the rest.
    ///
    /// # Errors
    /// Every setting that is unknown, missing or empty.
    pub fn new(known: &[Setting], mut given: BTreeMap<String, String>) -> Result<Self, Problems> {
        let mut problems = Problems::default();
        let mut settings = Self::default();
        for setting in known {
            let value = given.remove(&setting.name).or_else(|| setting.default.clone());
            let Some(value) = value else {
                if setting.required {
                    problems.push(&setting.name, format!("is missing: {}", setting.about));
                }
                continue;
            };
            settings.take(setting, value, &mut problems);
        }
        let names: Vec<&str> = known.iter().map(|setting| setting.name.as_str()).collect();
        for name in given.keys() {
            problems.push(name, format!("is not a setting of this provider{}", hint(name, &names)));
        }
        if problems.0.is_empty() { Ok(settings) } else { Err(problems) }
    }

    fn take(&mut self, setting: &Setting, value: String, problems: &mut Problems) {
        if value.trim().is_empty() {
            problems.push(&setting.name, format!("is empty: {}", setting.about));
        } else if value.contains(['\r', '\n', '\0']) && !value.starts_with("-----BEGIN") {
            problems.push(&setting.name, "has a line break in it");
        } else if setting.url && !(value.starts_with("https://") || value.starts_with("http://")) {
            problems.push(&setting.name, "is not an address: write one that begins with https://");
        }
        if setting.secret {
            self.redaction.add(&value);
            // A secret address is echoed without its host, too.
            let path = value.split_once("://").and_then(|(_, rest)| rest.split_once('/'));
            if let Some((_, path)) = path.filter(|_| setting.url) {
                self.redaction.add(path);
            }
            self.has_secret = true;
        }
        let value = if setting.url { value.trim_end_matches('/').to_owned() } else { value };
        self.values.insert(setting.name.clone(), value);
    }

    /// The value of a setting, if it has one.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// Whether one of them is secret.
    #[cfg(feature = "http")]
    pub(crate) const fn has_secret(&self) -> bool {
        self.has_secret
    }

    /// Every name with its value.
    #[cfg(feature = "http")]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns the text without the channel's secrets, in whatever encoding, and without control characters.
    #[must_use]
    pub fn redacted(&self, text: &str) -> String {
        self.redaction.apply(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Vec<Setting> {
        let named = |name: &str| Setting { name: name.into(), about: "words".into(), ..Setting::default() };
        vec![
            Setting { required: true, ..named("from") },
            Setting { required: true, secret: true, ..named("token") },
            Setting { default: Some("https://api.example".into()), url: true, ..named("base_url") },
        ]
    }

    fn given(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn every_setting_that_is_wrong_is_told() {
        let said = Settings::new(&known(), given(&[("form", "x"), ("base_url", "ftp://x")])).unwrap_err();
        let want = "from: is missing: words; token: is missing: words; base_url: is not an address: write \
                    one that begins with https://; form: is not a setting of this provider; did you mean \
                    `from`?";
        assert_eq!(said.to_string(), want);
        let said = Settings::new(&known(), given(&[("from", " "), ("token", "a\nb")])).unwrap_err();
        assert_eq!(said.to_string(), "from: is empty: words; token: has a line break in it");
    }

    #[test]
    fn secrets_are_hidden() {
        let settings = Settings::new(&known(), given(&[("from", "+1"), ("token", "s3cr3t")])).unwrap();
        assert_eq!(settings.redacted("bad token s3cr3t!"), "bad token •••!");
        assert_eq!(settings.get("base_url"), Some("https://api.example"));
        assert!(!format!("{settings:?}").contains("s3cr3t"));
    }
}
