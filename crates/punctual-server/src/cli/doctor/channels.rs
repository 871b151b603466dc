//! Channels: one line each, without their secrets.

use super::{Finding, Mark};
use crate::config::channels::{Channels, RealChannel};
use punctual::rules::channel::{ChannelPolicy, OnUnknown};

/// What is to be said about channels.
pub(super) fn look(channels: &Channels) -> Vec<Finding> {
    let memory = channels.sandboxed.iter().map(|key| {
        let said = format!("{key} reaches nobody: provider memory");
        Finding { mark: Mark::Warn, what: "channel", said }
    });
    let real = channels.real.iter().map(|real| {
        let policy = channels.policies.get(&real.key).cloned().unwrap_or_default();
        Finding { mark: Mark::Ok, what: "channel", said: line(real, &policy) }
    });
    real.chain(memory).collect()
}

fn line(real: &RealChannel, policy: &ChannelPolicy) -> String {
    let shown: Vec<String> = real.shown.iter().map(|(name, value)| format!("{name} {value}")).collect();
    let mut said = format!("{} sends by {} ({})", real.key, real.provider, shown.join(", "));
    if let Some(rate) = policy.rate_per_second {
        said.push_str(&format!("; {rate} a second"));
    }
    if let Some(most) = policy.in_flight {
        said.push_str(&format!("; {most} at once"));
    }
    if policy.unknown == OnUnknown::Hold {
        said.push_str("; holds what may have been sent");
    }
    if let Some(retries) = policy.unknown_retries.filter(|_| policy.unknown == OnUnknown::Resend) {
        said.push_str(&format!("; an unknown outcome is tried again {retries} times"));
    }
    if let Some(patience) = &policy.patience {
        said.push_str(&format!("; at most {} tries", patience.max_attempts));
    }
    if let Some(fallback) = &policy.fallback {
        said.push_str(&format!("; then {fallback}"));
    }
    said
}
