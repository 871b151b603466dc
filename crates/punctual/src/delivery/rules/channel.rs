//! Keys of channels: a kind and a name, such as `whatsapp:default`.

use crate::base::document::quote;
use crate::base::error::Problems;
use crate::base::limits;
use crate::flow::rules::entry::failure;
use crate::queue::rules::attempt::RetryPolicy;

/// The prefix of every key of the sandbox.
pub const MEMORY: &str = "memory:";

/// The policy of a channel: its configuration beside the settings of its provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChannelPolicy {
    /// Sends per second, at most; as many as there are if `None`.
    pub rate_per_second: Option<u32>,
    /// Sends that are under way at once, at most.
    pub in_flight: Option<usize>,
    /// The policy for a send whose outcome is unknown.
    pub unknown: UnknownOutcomePolicy,
    /// How often a send with an answer that could not be understood is repeated before it is held; once if
    /// `None`.
    pub unknown_retries: Option<u32>,
    /// The channel that takes what this one refuses for good.
    pub fallback: Option<String>,
    /// How often a send is tried and how long it waits in between; if `None` 5 times, 1, 2, 4 and 8 minutes
    /// apart.
    pub patience: Option<RetryPolicy>,
    /// Failures in a row after which nothing but probes is sent, 0 for never; if `None` 20, and never for the
    /// sandbox.
    pub breaker_failures: Option<u32>,
}

impl ChannelPolicy {
    /// Whether a send that may have gone out is repeated. A provider that takes our idempotency key sends a
    /// repeated message once, so the policy decides only for the others.
    #[must_use]
    pub fn resends_in_doubt(&self, takes_key: bool) -> bool {
        takes_key || self.unknown == UnknownOutcomePolicy::Resend
    }

    /// Whether a send with an answer that could not be understood is repeated after `before` sends of that
    /// kind.
    #[must_use]
    pub fn resends_unknown(&self, before: u32, takes_key: bool) -> bool {
        let retries = self.unknown_retries.unwrap_or(limits::UNKNOWN_RETRIES_DEFAULT);
        self.resends_in_doubt(takes_key) && before < retries
    }

    /// Decides whether a delivery is sent once more after its last send was lost in a crash; `attempt` is the
    /// number of the send that would be made.
    ///
    /// # Errors
    /// The sentence for why it is not.
    pub fn after_lost_send(&self, attempt: u32, takes_key: bool) -> Result<(), &'static str> {
        if !self.resends_in_doubt(takes_key) {
            return Err("it may have gone out, and its channel does not send twice");
        }
        let patience = self.patience.clone().unwrap_or_else(failure::patience);
        if attempt > patience.max_attempts {
            return Err("its sends were lost too often; it may have gone out");
        }
        Ok(())
    }
}

/// The policy for a send whose outcome is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownOutcomePolicy {
    /// The message is sent again; the recipient may get it twice.
    #[default]
    Resend,
    /// The message waits until an operator decides; the recipient may not get it at all.
    Hold,
}

/// Whether a text is a channel's key. Whether there is such a channel is asked elsewhere.
pub fn check_key(key: &str, path: &str, problems: &mut Problems) {
    let chars = key.chars().count();
    if chars > limits::CHANNEL_KEY_CHARS_MAX {
        let most = limits::CHANNEL_KEY_CHARS_MAX;
        problems.push(path, format!("has {chars} characters, at most {most} are allowed"));
    } else if !key.split_once(':').is_some_and(|(kind, name)| word(kind) && word(name)) {
        let said =
            "is not a channel's key: write its kind and its name, such as sms:twilio or memory:default";
        problems.push(path, format!("`{}` {said}", quote(key)));
    }
}

fn word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(key: &str) -> String {
        let mut problems = Problems::default();
        check_key(key, "channel", &mut problems);
        problems.to_string()
    }

    /// NTF-12: an unknown outcome is tried again once, or as often as the channel says, or not at all.
    #[test]
    fn ntf_12_an_unknown_outcome_is_tried_again_once() {
        let policy =
            |unknown, unknown_retries| ChannelPolicy { unknown, unknown_retries, ..ChannelPolicy::default() };
        let table = [
            (policy(UnknownOutcomePolicy::Resend, None), [1, 1]),
            (policy(UnknownOutcomePolicy::Resend, Some(0)), [0, 0]),
            (policy(UnknownOutcomePolicy::Resend, Some(3)), [3, 3]),
            (policy(UnknownOutcomePolicy::Hold, None), [0, 1]),
            (policy(UnknownOutcomePolicy::Hold, Some(0)), [0, 0]),
            (policy(UnknownOutcomePolicy::Hold, Some(3)), [0, 3]),
        ];
        for (policy, want) in table {
            let again = [false, true].map(|takes_key| {
                (0..9).take_while(|before| policy.resends_unknown(*before, takes_key)).count()
            });
            assert_eq!(again, want, "{policy:?}, without the key and with it");
        }
    }

    /// NTF-4, PLT-4: a delivery whose sends are lost again and again is not sent without end.
    #[test]
    fn ntf_4_a_lost_send_is_made_again_as_often_as_the_channel_tries() {
        let policy = |unknown, tries| {
            let patience = Some(RetryPolicy { max_attempts: tries, ..RetryPolicy::default() });
            ChannelPolicy { unknown, patience, ..ChannelPolicy::default() }
        };
        let again = |policy: &ChannelPolicy, takes_key| {
            (2..20).take_while(|attempt| policy.after_lost_send(*attempt, takes_key).is_ok()).count()
        };
        assert_eq!(again(&policy(UnknownOutcomePolicy::Resend, 3), false), 2, "attempts 2 and 3 of 3");
        assert_eq!(again(&ChannelPolicy::default(), false), 4, "5 attempts in all");
        assert_eq!(again(&policy(UnknownOutcomePolicy::Hold, 3), false), 0);
        assert_eq!(again(&policy(UnknownOutcomePolicy::Hold, 3), true), 2, "the provider sends it once");
        assert_eq!(again(&policy(UnknownOutcomePolicy::Resend, 3), true), 2);
    }

    /// TRG-17: a channel is known by its kind and its name.
    #[test]
    fn trg_17_a_key_is_a_kind_and_a_name() {
        let longest = format!("sms:{}", "x".repeat(96));
        for key in ["whatsapp:default", "sms:twilio", "email:smtp", "memory:a-b_c.1", longest.as_str()] {
            assert_eq!(said(key), "", "{key}");
        }
        for key in ["", ":", "sms", "sms:", ":twilio", "sms:a:b", "sms:a b", "sms:a/b", "sms:ü", "sms:a\n"] {
            assert!(said(key).contains("is not a channel's key: write its kind"), "{key}: {}", said(key));
        }
        let long = said(&format!("{longest}x"));
        assert_eq!(long, "channel: has 101 characters, at most 100 are allowed");
    }
}
