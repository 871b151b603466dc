//! Every provider that this build knows: the shipped files, and those of a folder.

use crate::file::ProviderFile;
use crate::provider::{Provider, SMTP};
use punctual::Problems;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The shipped files, by name.
const SHIPPED: [(&str, &str); 11] = [
    ("360dialog", include_str!("../providers/360dialog.toml")),
    ("azure-email", include_str!("../providers/azure-email.toml")),
    ("infobip-sms", include_str!("../providers/infobip-sms.toml")),
    ("infobip-whatsapp", include_str!("../providers/infobip-whatsapp.toml")),
    ("interakt", include_str!("../providers/interakt.toml")),
    ("meta-whatsapp", include_str!("../providers/meta-whatsapp.toml")),
    ("msg91", include_str!("../providers/msg91.toml")),
    ("sendgrid", include_str!("../providers/sendgrid.toml")),
    ("slack-webhook", include_str!("../providers/slack-webhook.toml")),
    ("twilio-sms", include_str!("../providers/twilio-sms.toml")),
    ("twilio-whatsapp", include_str!("../providers/twilio-whatsapp.toml")),
];
/// Names that files cannot have: providers that are not files.
const TAKEN: [&str; 2] = [SMTP, "memory"];
/// Files of a folder, at most.
const FILES_MAX: usize = 1_000;

/// Providers by name.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    by_name: BTreeMap<String, Arc<ProviderFile>>,
}

impl Catalogue {
    /// The providers that are shipped.
    ///
    /// # Errors
    /// What is wrong with a shipped file; a test holds that nothing is.
    pub fn shipped() -> Result<Self, String> {
        let mut catalogue = Self::default();
        for (name, text) in SHIPPED {
            catalogue.add(name, text).map_err(|problems| format!("the provider {name}: {problems}"))?;
        }
        Ok(catalogue)
    }

    /// Adds a provider, or puts it in the place of another.
    ///
    /// # Errors
    /// Everything that is wrong with the file.
    pub fn add(&mut self, name: &str, text: &str) -> Result<(), Problems> {
        let file = ProviderFile::parse(name, text)?;
        self.by_name.insert(name.to_owned(), Arc::new(file));
        Ok(())
    }

    /// Adds every `*.toml` of a folder under its name; a folder that is not there has none.
    ///
    /// # Errors
    /// A sentence about the first file that cannot be used, with all that is wrong with it.
    pub fn add_folder(&mut self, folder: &Path) -> Result<(), String> {
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(format!("{} cannot be read: {error}", folder.display())),
        };
        let mut paths: Vec<_> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
        paths.retain(|path| path.extension().is_some_and(|end| end == "toml"));
        paths.sort();
        for path in paths.iter().take(FILES_MAX) {
            let place = path.display();
            let name = path.file_stem().and_then(|name| name.to_str());
            let name = name.ok_or_else(|| format!("{place}: the file's name is not plain text"))?;
            if TAKEN.contains(&name) {
                return Err(format!("{place}: `{name}` is a provider of its own; choose another name"));
            }
            let text = std::fs::read_to_string(path).map_err(|e| format!("{place} cannot be read: {e}"))?;
            self.add(name, &text).map_err(|problems| format!("{place}: {problems}"))?;
        }
        Ok(())
    }

    /// A file by its name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<ProviderFile>> {
        self.by_name.get(name)
    }

    /// A provider by its name: a file, or SMTP.
    #[must_use]
    pub fn provider(&self, name: &str) -> Option<Provider> {
        #[cfg(feature = "smtp")]
        if name == SMTP {
            return Some(Provider::Smtp);
        }
        self.get(name).map(|file| Provider::File(Arc::clone(file)))
    }

    /// The names of files, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }
}

#[cfg(all(test, feature = "smtp"))]
mod tests {
    use super::*;

    /// NTF-13: the guide has every shipped provider with every setting.
    #[test]
    fn ntf_13_the_guide_has_every_setting() {
        let guide = include_str!("../../../docs/guide/channels.md");
        assert!(guide.contains("| `allow_host` |"));
        let catalogue = Catalogue::shipped().unwrap();
        let smtp = Provider::Smtp;
        let files = catalogue.names().map(|name| (name, catalogue.provider(name).unwrap()));
        for (name, provider) in files.chain([(SMTP, smtp)]) {
            let section = guide.split(&format!("### `{name}`\n")).nth(1);
            let section = section.unwrap_or_else(|| panic!("the guide has no section about {name}"));
            let section = section.split("\n#").next().unwrap();
            // The guide has `allow_host` once, for all of them.
            for setting in provider.settings().iter().filter(|setting| setting.name != "allow_host") {
                let row = section.lines().find(|line| line.starts_with(&format!("| `{}` |", setting.name)));
                let row = row.unwrap_or_else(|| panic!("the guide lacks `{}` of {name}", setting.name));
                let notes = row.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
                assert_eq!(notes.contains("secret"), setting.secret, "{name}: {row}");
            }
        }
    }

    /// NTF-13: the guide's own file is right.
    #[test]
    fn ntf_13_the_guides_example_is_right() {
        let guide = include_str!("../../../docs/guide/channels.md");
        let example = guide.split("```toml\ntitle").nth(1).unwrap().split("```").next().unwrap();
        let read = ProviderFile::parse("acme", &format!("title{example}"));
        assert!(read.is_ok(), "{}", read.unwrap_err());
    }
}
