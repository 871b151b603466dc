//! Provider files: an HTTP provider as data.
//!
//! A file says what settings a channel needs, which request sends a message, where the answer has the
//! message's id, which answers mean what, and how callbacks are verified and read. It is TOML, read to
//! its end, and every problem is told by its path. A file that was read makes only requests that can
//! be made: names it uses exist, methods and headers are well formed. Not promised: that the provider
//! agrees.

pub(crate) mod answer;
pub(crate) mod receipt;
pub(crate) mod request;

use crate::http::destination::ALLOW_HOST;
use crate::known::Names;
use crate::settings::Setting;
use answer::{Response, Rule};
use punctual::Problems;
use punctual::base::document;
use punctual::base::document::{DocumentObject, quote};
use punctual::base::suggestion::hint;
use receipt::ReceiptForm;
use request::Request;
use serde_json::Value;
use std::collections::BTreeSet;

/// Kinds of channels, as keys begin with them.
pub const KINDS: [&str; 7] = ["whatsapp", "sms", "email", "push", "inapp", "webhook", "chat"];
/// What the configuration of a channel calls its own.
pub const RESERVED: [&str; 9] = [
    "provider",
    "rate_per_second",
    "in_flight",
    "unknown",
    "unknown_retries",
    "fallback",
    "max_attempts",
    "waits",
    "breaker_failures",
];
/// Longer files are mistakes, in bytes.
const FILE_BYTES_MAX: usize = 64 * 1024;

/// What a provider takes for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressForm {
    /// A phone number, in E.164.
    Phone,
    /// A mailbox.
    Email,
    /// Whatever it is: a room, or nothing.
    Any,
}

/// A provider as its file says.
#[derive(Clone, Debug)]
pub struct ProviderFile {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) kind: String,
    pub(crate) address: AddressForm,
    pub(crate) settings: Vec<Setting>,
    pub(crate) request: Request,
    pub(crate) response: Response,
    pub(crate) rules: Vec<Rule>,
    pub(crate) receipt: Option<ReceiptForm>,
}

impl ProviderFile {
    /// Reads a file; `name` is what channels call the provider.
    ///
    /// # Errors
    /// Everything that is wrong with it, by path.
    pub fn parse(name: &str, text: &str) -> Result<Self, Problems> {
        let mut problems = Problems::default();
        if text.len() > FILE_BYTES_MAX {
            problems.push("", format!("is larger than {} KiB", FILE_BYTES_MAX / 1024));
            return Err(problems);
        }
        let document: Value = match toml::from_str(text) {
            Ok(document) => document,
            Err(error) => {
                problems.push("", at_line(text, &error));
                return Err(problems);
            }
        };
        match read(name, &document, &mut problems) {
            Some(file) if problems.0.is_empty() => Ok(file),
            _ => Err(problems),
        }
    }

    /// What channels call it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What people call it.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The kind of channel that it serves: one of [`KINDS`].
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// What it takes for an address.
    #[must_use]
    pub const fn address(&self) -> AddressForm {
        self.address
    }

    /// The settings of a channel.
    #[must_use]
    pub fn settings(&self) -> &[Setting] {
        &self.settings
    }

    /// Whether the provider sends a message once, however often it gets it under one key.
    #[must_use]
    pub const fn takes_idempotency_key(&self) -> bool {
        self.request.idempotency.is_some() || self.request.idempotency_body
    }

    /// Whether it tells what became of a message.
    #[must_use]
    pub const fn has_receipts(&self) -> bool {
        self.receipt.is_some()
    }
}

fn read(name: &str, document: &Value, problems: &mut Problems) -> Option<ProviderFile> {
    let known = ["title", "kind", "address", "settings", "request", "response", "classify", "receipt"];
    let part = DocumentObject::read(document, "", &known, problems)?;
    let kind = read_kind(&part, problems);
    let address = read_address(&part, problems);
    let mut settings = read_settings(&part, problems);
    settings.push(allow_host());
    let named: BTreeSet<String> = settings.iter().map(|setting| setting.name.clone()).collect();
    let names = Names { settings: &named };
    let need = "what is asked of the provider";
    let request =
        part.need("request", need, problems).and_then(|value| Request::read(value, &names, problems));
    let response = part.get("response").map(|value| Response::read(value, problems)).unwrap_or_default();
    let rules = answer::read_rules(&part, problems);
    let receipt = part.get("receipt").and_then(|value| ReceiptForm::read(value, &names, problems));
    let title = part.get("title").and_then(|value| document::text(value, "title", problems)).unwrap_or(name);
    if let Some(request) = &request {
        request.check_base(&settings, problems);
    }
    Some(ProviderFile {
        name: name.to_owned(),
        title: title.to_owned(),
        kind: kind?,
        address: address?,
        settings,
        request: request?,
        response,
        rules,
        receipt,
    })
}

fn read_kind(part: &DocumentObject<'_>, problems: &mut Problems) -> Option<String> {
    let text = part.need_text("kind", "the kind of channel, such as sms or email", problems)?.to_lowercase();
    if !KINDS.contains(&text.as_str()) {
        problems.push("kind", format!("`{}` is not a kind of channel{}", quote(&text), hint(&text, &KINDS)));
        return None;
    }
    Some(text)
}

fn read_address(part: &DocumentObject<'_>, problems: &mut Problems) -> Option<AddressForm> {
    match part.need_text("address", "what it sends to: phone, email or any", problems)? {
        "phone" => Some(AddressForm::Phone),
        "email" => Some(AddressForm::Email),
        "any" => Some(AddressForm::Any),
        other => {
            let said = hint(other, &["phone", "email", "any"]);
            problems.push("address", format!("`{}` is not a form of address{said}", quote(other)));
            None
        }
    }
}

fn read_settings(part: &DocumentObject<'_>, problems: &mut Problems) -> Vec<Setting> {
    let Some(value) = part.get("settings") else { return Vec::new() };
    let Some(all) = value.as_object() else {
        problems.push("settings", "must be a table with an entry for each setting");
        return Vec::new();
    };
    all.iter().filter_map(|(name, value)| read_setting(name, value, problems)).collect()
}

/// The setting that every provider over HTTP has.
fn allow_host() -> Setting {
    let about = "a host that is not public or has no TLS, and that the channel may send to all the same";
    Setting { name: ALLOW_HOST.into(), about: about.into(), ..Setting::default() }
}

fn read_setting(name: &str, value: &Value, problems: &mut Problems) -> Option<Setting> {
    let path = format!("settings.{}", quote(name));
    let well_formed = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && name.starts_with(|c: char| c.is_ascii_lowercase());
    if !well_formed {
        problems.push(&path, "is not a name for a setting: use a-z, 0-9 and _, and begin with a letter");
    } else if name == ALLOW_HOST || RESERVED.contains(&name) {
        problems.push(&path, "is a name that every channel has already; choose another");
    }
    let part =
        DocumentObject::read(value, &path, &["about", "secret", "required", "default", "url"], problems)?;
    let about = part.need_text("about", "what it is for, in a few words", problems)?.to_owned();
    let default = part.get("default").and_then(|value| document::text(value, &part.at("default"), problems));
    let secret = part.flag("secret", false, problems);
    let required = part.flag("required", default.is_none(), problems);
    if required && default.is_some() {
        problems.push(part.at("required"), "has a default, so nobody is required to give it");
    }
    let url = part.flag("url", false, problems);
    Some(Setting { name: name.to_owned(), about, secret, required, default: default.map(str::to_owned), url })
}

fn at_line(text: &str, error: &toml::de::Error) -> String {
    let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
    let said = error.message().replace('\n', " ");
    line.map_or_else(|| said.clone(), |line| format!("line {line}: {said}"))
}

#[cfg(test)]
mod tests;
