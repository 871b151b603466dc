//! Purposes of lanes and claims: the object that the id of a work item refers to, and the executor that takes
//! it.

/// The kind of a lane's items, which decides how they are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Purpose {
    /// Messages that a consumer is owed. Only these have queue attempts and dead letters.
    Dispatch,
    /// Entries that are due: their deliveries are written.
    Advance,
    /// Deliveries that are sent by one channel.
    Send,
    /// Entries that end if nothing happens to them.
    Expire,
}

impl Purpose {
    /// All purposes.
    pub const ALL: [Self; 4] = [Self::Dispatch, Self::Advance, Self::Send, Self::Expire];

    /// The word that the database keeps.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Dispatch => "dispatch",
            Self::Advance => "advance",
            Self::Send => "send",
            Self::Expire => "expire",
        }
    }

    /// The purpose with this word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|purpose| purpose.word() == word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_purpose_is_found_by_its_word() {
        for purpose in Purpose::ALL {
            assert_eq!(Purpose::from_word(purpose.word()), Some(purpose));
        }
        assert_eq!(Purpose::from_word("notification"), None);
    }
}
