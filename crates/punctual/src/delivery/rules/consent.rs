//! Whether, how and when a recipient may be sent a message: suppressions, preferences, quiet hours.
//!
//! From a [`ConsentQuestion`], the [`AddressConsent`] of one address and the settings of its tenant
//! ([`ConsentContext`]), [`decide`] derives one [`ConsentDecision`], in this order:
//!
//! 1. **The channel.** The recipient's override, else the tenant's, else the one asked for. One hop only.
//! 2. **May it be sent?** A suppression or an opt-out that covers that channel and kind: never.
//! 3. **Is it quiet there?** Then later, at the first moment that is not ([`quiet`]). Kinds that the tenant
//!    exempts are not held.
//!
//! A shift never drops a message: the caller asks again at the moment that the verdict names. An override may
//! lead to a channel with another kind of address (a phone, a mailbox); then ask again with that address's
//! standing and [`ConsentQuestion::redirected`] set. Addresses are compared in one form
//! ([`address::normal`]).
//!
//! Not promised: that a provider has not taken it already. The answer is as old as the transaction that
//! read the standing, so it is asked for each claim anew.

pub mod address;
mod document;
pub mod quiet;
#[cfg(test)]
mod tests;

pub use crate::delivery::rules::consent::document::{RecipientPreferences, TenantSettings};

use crate::base::clock::Timestamp;
use crate::base::zone::Zone;
use crate::delivery::rules::consent::quiet::QuietPreference;
use crate::delivery::rules::template::choose::kind_of;

/// The word for every channel, where one is named.
pub const ALL_CHANNELS: &str = "all";

/// The messages that a suppression or an opt-out covers. A field that is `None` matches every message.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConsentScope {
    /// By this kind of channel, in lower case: `sms`, `whatsapp`, `email`.
    pub channel: Option<String>,
    /// Of this kind of event.
    pub kind: Option<String>,
}

impl ConsentScope {
    /// Whether a message of an event kind by a kind of channel is meant.
    #[must_use]
    pub fn covers(&self, channel: &str, kind: &str) -> bool {
        self.channel.as_deref().is_none_or(|own| own == channel)
            && self.kind.as_deref().is_none_or(|own| own == kind)
    }
}

/// Why an address is suppressed. The gravest comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SuppressionReason {
    /// The provider reported that the address does not exist.
    HardBounce,
    /// They answered STOP.
    Stop,
    /// They followed the link.
    Unsubscribe,
    /// An operator or an API client entered it.
    Manual,
}

impl SuppressionReason {
    /// All reasons, with their words.
    pub const ALL: [(Self, &'static str); 4] = [
        (Self::HardBounce, "hard-bounce"),
        (Self::Stop, "stop"),
        (Self::Unsubscribe, "unsubscribe"),
        (Self::Manual, "manual"),
    ];

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(reason, _)| *reason == self).map_or("manual", |(_, word)| word)
    }

    /// The reason of a word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, w)| *w == word).map(|(reason, _)| *reason)
    }
}

/// The suppressions and preferences of one address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressConsent {
    /// The messages that are never sent to the address, with the reason.
    pub suppressed: Vec<(ConsentScope, SuppressionReason)>,
    /// The preferences of its owner.
    pub preferences: RecipientPreferences,
}

/// The tenant's settings that a decision needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsentContext {
    /// Its settings.
    pub settings: TenantSettings,
    /// Its time zone, an IANA name.
    pub time_zone: String,
}

/// A message for which the caller asks whether it may be sent.
#[derive(Clone, Copy, Debug)]
pub struct ConsentQuestion<'a> {
    /// By the channel of this key.
    pub channel: &'a str,
    /// The kind of the event.
    pub kind: &'a str,
    /// At this moment.
    pub now: Timestamp,
    /// Whether an override led to this channel already.
    pub redirected: bool,
    /// The recipient's zone, as the event names it; an unknown zone is ignored.
    pub zone: Option<&'a str>,
}

/// Why something is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsentRefusal {
    /// The address is suppressed.
    Suppressed(SuppressionReason),
    /// The recipient does not want it.
    OptedOut,
}

impl ConsentRefusal {
    /// The word for it, as a log has it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Suppressed(reason) => reason.word(),
            Self::OptedOut => "opted-out",
        }
    }
}

impl std::fmt::Display for ConsentRefusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the recipient is not sent this: {}", self.word())
    }
}

/// The decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConsentDecision {
    /// Send it.
    Send,
    /// Never send it.
    Suppressed(ConsentRefusal),
    /// Send it by the channel of this key.
    UseChannel(String),
    /// Ask again at this moment, which is later.
    ShiftTo(Timestamp),
}

/// The kind of a channel's key, as scopes name it: `sms:twilio` and `memory:sms-2` are `sms`.
#[must_use]
pub fn channel_kind(channel: &str) -> String {
    kind_of(channel).to_ascii_lowercase()
}

/// Whether, how and when it may be sent.
#[must_use]
pub fn decide(
    asked: &ConsentQuestion<'_>,
    standing: &AddressConsent,
    house: &ConsentContext,
) -> ConsentDecision {
    let other = instead_of(asked, standing, house);
    let channel = channel_kind(other.unwrap_or(asked.channel));
    if let Some(why) = standing.refusal(&channel, asked.kind) {
        return ConsentDecision::Suppressed(why);
    }
    if let Some(end) = quiet_until(asked, standing, house) {
        return ConsentDecision::ShiftTo(end);
    }
    other.map_or(ConsentDecision::Send, |key| ConsentDecision::UseChannel(key.to_owned()))
}

/// The key of another channel that is to be used. One named by its key goes before one named by its kind.
fn instead_of<'a>(
    asked: &ConsentQuestion<'_>,
    standing: &'a AddressConsent,
    house: &'a ConsentContext,
) -> Option<&'a str> {
    if asked.redirected {
        return None;
    }
    let kind = channel_kind(asked.channel);
    let sources = [&standing.preferences.channels, &house.settings.channels];
    let found = sources.iter().find_map(|by| by.get(asked.channel).or_else(|| by.get(&kind)))?;
    (found != asked.channel).then_some(found.as_str())
}

impl AddressConsent {
    fn refusal(&self, channel: &str, kind: &str) -> Option<ConsentRefusal> {
        let covering = self.suppressed.iter().filter(|(scope, _)| scope.covers(channel, kind));
        if let Some(reason) = covering.map(|(_, reason)| *reason).min() {
            return Some(ConsentRefusal::Suppressed(reason));
        }
        self.preferences
            .opt_outs
            .iter()
            .any(|scope| scope.covers(channel, kind))
            .then_some(ConsentRefusal::OptedOut)
    }
}

/// When the quiet hours end that hold now. The recipient's go before the tenant's. Their zone is the one
/// they want, else the one their event names, else the tenant's; only a zone that their own hours name goes
/// before.
fn quiet_until(
    asked: &ConsentQuestion<'_>,
    standing: &AddressConsent,
    house: &ConsentContext,
) -> Option<Timestamp> {
    let (own, settings) = (&standing.preferences, &house.settings);
    let theirs = [own.time_zone.as_deref(), asked.zone];
    let (hours, zones) = match (&own.quiet, &settings.quiet) {
        (Some(QuietPreference::Never), _) | (None, None) => return None,
        (Some(QuietPreference::Hours(hours)), _) => {
            (hours, [hours.time_zone.as_deref(), theirs[0], theirs[1]])
        }
        (None, Some(hours)) => (hours, [theirs[0], theirs[1], hours.time_zone.as_deref()]),
    };
    if settings.quiet_exempt.iter().any(|kind| kind == asked.kind) {
        return None;
    }
    let named = zones.into_iter().flatten().chain([house.time_zone.as_str()]);
    // Zones that this version does not know: UTC is wrong by hours, but never drops.
    let zone = named.filter_map(|name| Zone::find(name).ok()).next().unwrap_or_else(Zone::utc);
    hours.end_after(asked.now, &zone)
}
