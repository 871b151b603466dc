//! Tenants, keys and what recipients want.

use crate::http::openapi::values::ChannelKey;
use crate::http::openapi::values::{Name, RecipientAddress, Slug, Time, TimeOfDay};
use crate::http::openapi::words::NoQuietHours;
use crate::http::openapi::words::{Role, SuppressionReason};
use schemars::JsonSchema;
use std::collections::BTreeMap;

/// A tenant to make.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewTenant {
    slug: Slug,
    name: Name,
    /// An IANA name such as Europe/Berlin; UTC if left out.
    #[schemars(regex(pattern = r"^[A-Z][A-Za-z_+/0-9-]*$"))]
    time_zone: Option<String>,
    #[schemars(regex(pattern = r"^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,3}$"))]
    default_locale: Option<String>,
}

/// A key to make.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewKey {
    name: Name,
    role: Role,
    expires_at: Option<Time>,
}

/// A suppression to make.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct NewSuppression {
    address: RecipientAddress,
    /// A kind of channel (`sms`, `whatsapp`, `email`, …) or a channel's key; `all`, or absent, for every
    /// one.
    #[schemars(length(max = 100))]
    channel: Option<String>,
    /// A kind of event; every kind if absent.
    kind: Option<Name>,
    #[schemars(extend("default" = "manual"))]
    reason: Option<SuppressionReason>,
}

/// The hours of the day in which nothing is sent.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct QuietHours {
    from: TimeOfDay,
    /// Not the same as `from`; earlier means the next day.
    to: TimeOfDay,
    /// An IANA name; else the recipient's, else the tenant's.
    time_zone: Option<String>,
}

/// At least one of the two.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct OptOut {
    /// A kind of channel; `all` for every one.
    channel: Option<String>,
    /// A kind of event.
    kind: Option<String>,
}

/// What the owner of an address wants.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewRecipientPreferences {
    #[schemars(length(max = 200))]
    opt_outs: Option<Vec<OptOut>>,
    channel_override: Option<ChannelOverride>,
    locale: Option<String>,
    /// An IANA name.
    time_zone: Option<String>,
    /// The tenant's if absent; `none` for none at all.
    quiet_hours: Option<QuietHoursOrNone>,
}

/// Quiet hours and channels for all recipients.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewTenantSettings {
    /// Of recipients who say nothing; none if absent.
    quiet_hours: Option<QuietHours>,
    /// Kinds of events that quiet hours do not hold back.
    #[schemars(length(max = 200))]
    quiet_hours_exempt: Option<Vec<Name>>,
    channel_override: Option<ChannelOverride>,
}

/// The hours, or `none`.
#[derive(JsonSchema)]
#[schemars(inline, untagged)]
pub enum QuietHoursOrNone {
    /// The hours.
    Hours(QuietHours),
    /// No hours at all.
    No(NoQuietHours),
}

/// The key of the channel to use, by the kind or the key of the one that was asked for.
#[derive(JsonSchema)]
#[schemars(extend("maxProperties" = 20))]
pub struct ChannelOverride(BTreeMap<String, ChannelKey>);

/// Anything, such as `List-Unsubscribe=One-Click`; only a field `do` of `undo` takes it back.
#[derive(JsonSchema)]
pub struct UnsubscribeForm(BTreeMap<String, String>);
