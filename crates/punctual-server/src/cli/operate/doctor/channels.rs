//! Channels: one line each, without their secrets, with the address for reports of their providers.

use super::{Finding, Mark};
use crate::config::channels::{Channels, RealChannel};
use punctual::base::backoff::Backoff;
use punctual::base::duration;
use punctual::delivery::rules::channel::{ChannelPolicy, UnknownOutcomePolicy};

/// Checks the channels of a server with the public address `url`.
pub(super) fn look(channels: &Channels, url: Option<&str>) -> Vec<Finding> {
    let memory = channels.sandboxed.iter().map(|key| {
        let said = format!("{key} reaches no recipient: provider memory");
        Finding { mark: Mark::Warn, what: "channel", said }
    });
    let real = channels.real.iter().map(|real| {
        let policy = channels.policies.get(&real.key).cloned().unwrap_or_default();
        Finding { mark: Mark::Ok, what: "channel", said: line(real, &policy) }
    });
    let heard = channels.real.iter().filter(|real| real.receipts.is_some());
    real.chain(memory).chain(heard.map(|real| callback(real, url))).collect()
}

/// Returns the address for the reports of a channel's provider.
fn callback(real: &RealChannel, url: Option<&str>) -> Finding {
    let (key, path) = (&real.key, format!("/webhooks/{}", real.provider));
    let (mark, said) = match url {
        Some(url) => (Mark::Ok, format!("{key} receives reports at {url}{path}")),
        None => {
            let said = "set `url` under [public], so that the provider can be given an address";
            (Mark::Warn, format!("{key} receives reports at {path} of an unknown address: {said}"))
        }
    };
    Finding { mark, what: "callback", said }
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
    if policy.unknown == UnknownOutcomePolicy::Hold {
        said.push_str("; holds what may have been sent");
    }
    if let Some(retries) = policy.unknown_retries.filter(|_| policy.unknown == UnknownOutcomePolicy::Resend) {
        said.push_str(&format!("; an unknown outcome is tried again {retries} times"));
    }
    if let Some(patience) = &policy.patience {
        said.push_str(&format!("; at most {} tries", patience.max_attempts));
        match &patience.backoff {
            Backoff::Steps(waits) => {
                let waits: Vec<String> = waits.iter().map(|wait| duration::write(*wait)).collect();
                said.push_str(&format!(", {} apart", waits.join(", ")));
            }
            Backoff::Exponential { from, to } => {
                let (from, to) = (duration::write(*from), duration::write(*to));
                said.push_str(&format!(", {from} apart and twice as long each time, up to {to}"));
            }
        }
    }
    match policy.breaker_failures {
        Some(0) => said.push_str("; never counts as down"),
        Some(failures) => said.push_str(&format!("; counts as down after {failures} failures")),
        None => {}
    }
    if let Some(fallback) = &policy.fallback {
        said.push_str(&format!("; then {fallback}"));
    }
    said
}
