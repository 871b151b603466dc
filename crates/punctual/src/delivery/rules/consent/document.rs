//! The preferences of recipients and the settings of tenants about messages, as documents.
//!
//! A document is replaced as a whole, and shown with all its fields. Channels are kinds in lower case
//! (`whatsapp`) or, where another is to be used instead, keys (`sms:twilio`).

use crate::base::document::{DocumentObject, join, kind, text};
use crate::base::error::Problems;
use crate::base::limits;
use crate::base::locale;
use crate::base::name::check_name;
use crate::delivery::rules::channel::check_key;
use crate::delivery::rules::consent::quiet;
use crate::delivery::rules::consent::quiet::{QuietHours, QuietPreference};
use crate::delivery::rules::consent::{ALL_CHANNELS, ConsentScope, channel_kind};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Which channel is used in the place of another, by its kind or its key.
type Channels = BTreeMap<String, String>;

/// The preferences of the owner of an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecipientPreferences {
    /// The messages that the owner does not want.
    pub opt_outs: Vec<ConsentScope>,
    /// By which channel they would rather have it: by the kind or key of the one asked for, another's key.
    pub channels: Channels,
    /// Their language.
    pub locale: Option<String>,
    /// Their time zone, an IANA name.
    pub time_zone: Option<String>,
    /// Their quiet hours; the tenant's if they say nothing.
    pub quiet: Option<QuietPreference>,
}

/// The settings of a tenant for all its recipients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantSettings {
    /// Quiet hours of recipients who say nothing; none if absent.
    pub quiet: Option<QuietHours>,
    /// Kinds of events that quiet hours do not hold back.
    pub quiet_exempt: Vec<String>,
    /// Channels that are used in the place of others.
    pub channels: Channels,
}

impl RecipientPreferences {
    /// Reads preferences, with every problem by its path.
    pub fn read(value: &Value, problems: &mut Problems) -> Option<Self> {
        let known = ["optOuts", "channelOverride", "locale", "timeZone", "quietHours"];
        let part = DocumentObject::read(value, "", &known, problems)?;
        Some(Self {
            opt_outs: opt_outs(&part, problems),
            channels: channels(&part, problems),
            locale: language(&part, problems),
            time_zone: quiet::zone(&part, "timeZone", problems),
            quiet: part
                .get("quietHours")
                .and_then(|value| QuietPreference::read(value, "quietHours", problems)),
        })
    }

    /// As they are read, with every field.
    #[must_use]
    pub fn to_json(&self) -> Map<String, Value> {
        Map::from_iter([
            ("optOuts".into(), self.opt_outs.iter().map(scope_json).collect()),
            ("channelOverride".into(), json!(self.channels)),
            ("locale".into(), json!(self.locale)),
            ("timeZone".into(), json!(self.time_zone)),
            ("quietHours".into(), json!(self.quiet.as_ref().map(QuietPreference::to_json))),
        ])
    }
}

impl TenantSettings {
    /// Reads settings, with every problem by its path.
    pub fn read(value: &Value, problems: &mut Problems) -> Option<Self> {
        let part = DocumentObject::read(
            value,
            "",
            &["quietHours", "quietHoursExempt", "channelOverride"],
            problems,
        )?;
        let quiet = part.get("quietHours");
        Some(Self {
            quiet: quiet.and_then(|value| QuietHours::read(value, "quietHours", problems)),
            quiet_exempt: exempt(&part, problems),
            channels: channels(&part, problems),
        })
    }

    /// As they are read, with every field.
    #[must_use]
    pub fn to_json(&self) -> Map<String, Value> {
        Map::from_iter([
            ("quietHours".into(), json!(self.quiet.as_ref().map(QuietHours::to_json))),
            ("quietHoursExempt".into(), json!(self.quiet_exempt)),
            ("channelOverride".into(), json!(self.channels)),
        ])
    }
}

fn scope_json(scope: &ConsentScope) -> Value {
    json!({"channel": scope.channel.as_deref().unwrap_or(ALL_CHANNELS), "kind": scope.kind})
}

impl ConsentScope {
    /// Reads the two fields of a scope, `channel` and `kind`; `all` stands for every channel.
    pub fn of(part: &DocumentObject<'_>, problems: &mut Problems) -> Self {
        let mut field = |name: &str| part.get(name).and_then(|value| text(value, &part.at(name), problems));
        let (channel, kind) = (field("channel"), field("kind"));
        Self {
            channel: channel.and_then(|channel| kind_named(channel, &part.at("channel"), problems)),
            kind: kind.inspect(|kind| check_name(kind, &part.at("kind"), problems)).map(str::to_owned),
        }
    }
}

/// Reads the kind of a channel as a document names it: a kind in any case, or a key.
pub(crate) fn kind_named(channel: &str, path: &str, problems: &mut Problems) -> Option<String> {
    if channel.contains(':') {
        check_key(channel, path, problems);
    } else {
        check_name(channel, path, problems);
    }
    Some(channel_kind(channel)).filter(|kind| kind != ALL_CHANNELS)
}

fn opt_outs(part: &DocumentObject<'_>, problems: &mut Problems) -> Vec<ConsentScope> {
    let listed = part.list("optOuts", limits::OPT_OUTS_MAX, problems).unwrap_or_default();
    let mut all = Vec::new();
    for (value, path) in listed.iter() {
        let Some(one) = DocumentObject::read(value, path, &["channel", "kind"], problems) else { continue };
        if one.get("channel").is_none() && one.get("kind").is_none() {
            problems.push(path, "says nothing: name a channel (`all` for every one), a kind, or both");
        }
        all.push(ConsentScope::of(&one, problems));
    }
    all.sort();
    all.dedup();
    all
}

fn channels(part: &DocumentObject<'_>, problems: &mut Problems) -> Channels {
    let Some(value) = part.get("channelOverride") else { return Channels::new() };
    let path = part.at("channelOverride");
    let Some(map) = value.as_object() else {
        let said = "must be an object such as {\"whatsapp\": \"sms:twilio\"}, not";
        problems.push(path, format!("{said} {}", kind(value)));
        return Channels::new();
    };
    if map.len() > limits::CHANNEL_OVERRIDES_MAX {
        let most = limits::CHANNEL_OVERRIDES_MAX;
        problems.push(&path, format!("has {} channels, at most {most} are allowed", map.len()));
    }
    let mut all = Channels::new();
    for (from, to) in map.iter().take(limits::CHANNEL_OVERRIDES_MAX) {
        let at = join(&path, from);
        let named = kind_named(from, &at, problems);
        let Some(to) = text(to, &at, problems) else { continue };
        check_key(to, &at, problems);
        let from = if from.contains(':') { Some(from.clone()) } else { named };
        all.extend(from.map(|from| (from, to.to_owned())));
    }
    all
}

fn language(part: &DocumentObject<'_>, problems: &mut Problems) -> Option<String> {
    let tag = text(part.get("locale")?, &part.at("locale"), problems)?;
    if let Err(said) = locale::check(tag) {
        problems.push(part.at("locale"), said);
    }
    Some(tag.to_owned())
}

fn exempt(part: &DocumentObject<'_>, problems: &mut Problems) -> Vec<String> {
    let listed = part.list("quietHoursExempt", limits::QUIET_EXEMPT_KINDS_MAX, problems).unwrap_or_default();
    let mut kinds = Vec::new();
    for (value, path) in listed.iter() {
        if let Some(kind) = text(value, path, problems) {
            check_name(kind, path, problems);
            kinds.push(kind.to_owned());
        }
    }
    kinds
}
