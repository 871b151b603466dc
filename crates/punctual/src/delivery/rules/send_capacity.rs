//! How many messages may begin at once: in all, and by each channel.

use std::collections::HashMap;

/// The places that are left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SendCapacity {
    /// In all.
    pub messages: usize,
    /// By each channel; a channel that is not named has none.
    pub by_channel: HashMap<String, usize>,
}

impl SendCapacity {
    /// Takes the place of one message by this channel; returns whether there was one.
    pub fn take(&mut self, channel: &str) -> bool {
        let Some(left) = self.by_channel.get_mut(channel) else { return false };
        let fits = *left > 0 && self.messages > 0;
        if fits {
            *left -= 1;
            self.messages -= 1;
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Places in all and by each channel, the requests, and the expected answers.
    type Case = (usize, &'static [(&'static str, usize)], &'static str, &'static str);

    /// NTF-17: no more than a channel has room for, and no more than one process takes on.
    #[test]
    fn ntf_17_a_message_begins_where_there_is_a_place_for_it() {
        let cases: [Case; 6] = [
            (9, &[("sms", 2)], "sms sms sms", "yes yes no"),
            (2, &[("sms", 9)], "sms sms sms", "yes yes no"),
            (9, &[("sms", 0), ("email", 1)], "sms email email", "no yes no"),
            (9, &[("email", 1)], "sms email", "no yes"),
            (1, &[("sms", 0), ("email", 1)], "sms email", "no yes"),
            (0, &[("sms", 1)], "sms", "no"),
        ];
        for (messages, by_channel, asked, answers) in cases {
            let by_channel = by_channel.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
            let mut room = SendCapacity { messages, by_channel };
            let said: Vec<&str> =
                asked.split(' ').map(|channel| if room.take(channel) { "yes" } else { "no" }).collect();
            assert_eq!(said.join(" "), answers, "{messages} in all, asked for {asked}");
        }
    }
}
