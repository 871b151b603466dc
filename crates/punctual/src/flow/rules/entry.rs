//! An entry: one occurrence of a trigger, from its event to its end, and the one table of what
//! may become of it.
//!
//! Whatever happens to an entry is a [`Deed`], and [`EntryStatus::after`] says what the deed makes of
//! it, or refuses it. Nothing else decides a status; the store writes what was decided here under
//! the version it was decided by, so that of two deeds at the same time one sees the other.
//!
//! A send is two deeds. [`Deed::Sending`] is committed before the channel is called, and is the
//! last look: nothing is sent that ended before it. [`Deed::Sent`] is committed after the call, and
//! may be refused because the entry has ended meanwhile. The message is out then; it is logged, and
//! the status stays. What the table does not promise is that nobody gets a message after they
//! answered: one that left just before may arrive just after.
//!
//! When what is sent is [`schedule`], what an entry's row has to remember of it [`state`], what
//! a failure leads to [`failure`], and what is written down of each try [`log`].

use std::fmt;

pub mod failure;
pub mod log;
pub mod schedule;
pub mod state;

/// What kind of entry it is: who plans it and who renders its deliveries. All else is the same for every
/// kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EntryKind {
    /// A survey for one person, with reminders until it is answered.
    Survey,
    /// What an event means for the people it is about.
    Notification,
}

impl EntryKind {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::Survey, Self::Notification];

    /// The word that the database keeps.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Survey => "survey",
            Self::Notification => "notification",
        }
    }

    /// Whether nothing more can be sent of an entry of this kind with this status.
    #[must_use]
    pub const fn has_ended(self, status: EntryStatus) -> bool {
        match self {
            Self::Survey => !status.is_active(),
            Self::Notification => !matches!(status, EntryStatus::Pending),
        }
    }

    /// Whether entries of this kind send by a timetable: one send after the other, until they end.
    #[must_use]
    pub const fn has_timetable(self) -> bool {
        matches!(self, Self::Survey)
    }

    /// Whether an entry with this status lets no delivery be tried again.
    #[must_use]
    pub const fn stops_sends(self, status: EntryStatus) -> bool {
        match self {
            Self::Survey => !status.is_active(),
            // Its deliveries end before it does: only a cancelled one stops them.
            Self::Notification => matches!(status, EntryStatus::Cancelled),
        }
    }

    /// Whether the status of an entry follows from the outcomes of its deliveries alone.
    #[must_use]
    pub const fn ends_with_deliveries(self) -> bool {
        matches!(self, Self::Notification)
    }

    /// The kind with this word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

/// What has become of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntryStatus {
    /// It was made; nothing has reached anybody.
    Pending,
    /// At least one send went out.
    Sent,
    /// Somebody has opened its page. Reminders still go.
    Opened,
    /// It was answered.
    Completed,
    /// It was quiet for too long.
    Expired,
    /// Somebody withdrew it.
    Cancelled,
    /// No send got through, and none is left. Whoever has the link may still answer.
    Failed,
}

impl EntryStatus {
    /// All of them, in the order of their codes.
    pub const ALL: [Self; 7] = [
        Self::Pending,
        Self::Sent,
        Self::Opened,
        Self::Completed,
        Self::Expired,
        Self::Cancelled,
        Self::Failed,
    ];

    /// Its word, as the API says it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Sent => "Sent",
            Self::Opened => "Opened",
            Self::Completed => "Completed",
            Self::Expired => "Expired",
            Self::Cancelled => "Cancelled",
            Self::Failed => "Failed",
        }
    }

    /// The status of a word, whatever its case.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.word().eq_ignore_ascii_case(word))
    }

    /// Its number, as the database keeps it: the column is in every index of live entries, so it
    /// is narrow. The numbers are never given a new meaning.
    #[must_use]
    pub const fn code(self) -> i64 {
        match self {
            Self::Pending => 0,
            Self::Sent => 1,
            Self::Opened => 2,
            Self::Completed => 3,
            Self::Expired => 4,
            Self::Cancelled => 5,
            Self::Failed => 6,
        }
    }

    /// The status of a number.
    #[must_use]
    pub fn from_code(code: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.code() == code)
    }

    /// Whether it can still be sent and can still expire: what the hot index holds.
    #[must_use]
    pub const fn is_active(self) -> bool {
        matches!(self, Self::Pending | Self::Sent | Self::Opened)
    }

    /// Whether no deed changes it any more. `Failed` is neither active nor this: nothing is sent
    /// and it does not expire, but an answer completes it.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Expired | Self::Cancelled)
    }

    /// What the deed makes of an entry in this status: the table of all legal moves.
    ///
    /// `Ok` with the same status is a deed that changes nothing, such as opening a page again.
    ///
    /// # Errors
    /// A [`Refusal`] when it may not happen any more; nothing is written then.
    pub const fn after(self, deed: Deed) -> Result<Self, Refusal> {
        use EntryStatus::{Cancelled, Completed, Expired, Failed, Opened, Pending, Sent};
        let next = match (deed, self) {
            (Deed::Sending | Deed::NotSent, Pending | Sent | Opened) => self,
            (Deed::Sent, Pending | Sent) => Sent,
            (Deed::Sent, Opened) => Opened,
            (Deed::GaveUp, Pending) => Failed,
            (Deed::GaveUp, Sent | Opened) => self,
            (Deed::Opened, Pending | Sent | Opened) => Opened,
            (Deed::Opened, Completed | Expired | Cancelled | Failed) => self,
            (Deed::Submitted, Pending | Sent | Opened | Failed) => Completed,
            (Deed::Expired, Pending | Sent | Opened) => Expired,
            (Deed::Cancelled | Deed::Deleted, Pending | Sent | Opened | Failed | Cancelled) => Cancelled,
            (Deed::Deleted, Completed | Expired) => self,
            (Deed::Replayed, Failed) => Pending,
            (Deed::Sending | Deed::Sent | Deed::NotSent | Deed::GaveUp | Deed::Expired, _)
            | (Deed::Submitted | Deed::Cancelled | Deed::Replayed, _) => {
                return Err(Refusal { status: self, deed });
            }
        };
        Ok(next)
    }
}

impl fmt::Display for EntryStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// What happens to an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Deed {
    /// A send is about to be made. Changes nothing; refused when nothing may be sent any more.
    Sending,
    /// The invitation or a reminder went out.
    Sent,
    /// A try did not go well, or a send was given up and more are to come. Changes nothing.
    NotSent,
    /// The last send there is was given up.
    GaveUp,
    /// A person opened the page.
    Opened,
    /// A person answered.
    Submitted,
    /// It was quiet for too long.
    Expired,
    /// Somebody withdrew it.
    Cancelled,
    /// Somebody deleted it. That it is deleted is a mark beside the status; the status makes sure
    /// that nothing is sent.
    Deleted,
    /// Somebody has what failed sent once more.
    Replayed,
}

impl Deed {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Sending,
        Self::Sent,
        Self::NotSent,
        Self::GaveUp,
        Self::Opened,
        Self::Submitted,
        Self::Expired,
        Self::Cancelled,
        Self::Deleted,
        Self::Replayed,
    ];
}

/// A deed that may not happen any more, and why. Displayed, it is what a caller is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.words())]
pub struct Refusal {
    status: EntryStatus,
    deed: Deed,
}

impl Refusal {
    /// The status that forbids it.
    #[must_use]
    pub const fn status(&self) -> EntryStatus {
        self.status
    }

    /// What was refused.
    #[must_use]
    pub const fn deed(&self) -> Deed {
        self.deed
    }

    /// Whether what the caller wanted is gone for good (410), not merely in conflict (409): an
    /// answer to what has ended without one. A second answer is a conflict with the first.
    #[must_use]
    pub const fn is_gone(&self) -> bool {
        matches!((self.deed, self.status), (Deed::Submitted, EntryStatus::Expired | EntryStatus::Cancelled))
    }

    fn words(&self) -> String {
        let why = match (self.deed, self.status) {
            (Deed::Submitted, EntryStatus::Completed) => "was answered already, and one answer counts",
            (Deed::Submitted, EntryStatus::Expired) => "has expired and takes no answers any more",
            (Deed::Submitted, _) => "was withdrawn and takes no answers any more",
            (Deed::Cancelled, EntryStatus::Completed) => "was answered, so it cannot be cancelled",
            (Deed::Cancelled, _) => "has expired, so there is nothing left to cancel",
            (Deed::Replayed, _) => "has not failed, so there is nothing to send again",
            (Deed::Expired, _) => return format!("is {} and does not expire any more", self.status),
            _ => return format!("is {}, so nothing is sent any more", self.status),
        };
        why.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_reads_its_own_word_and_number() {
        for (place, status) in EntryStatus::ALL.into_iter().enumerate() {
            assert_eq!(EntryStatus::parse(status.word()), Some(status));
            assert_eq!(EntryStatus::parse(&status.word().to_lowercase()), Some(status));
            assert_eq!(status.code(), i64::try_from(place).unwrap());
            assert_eq!(EntryStatus::from_code(status.code()), Some(status));
        }
        assert_eq!(
            (EntryStatus::parse("gone"), EntryStatus::from_code(7), EntryStatus::from_code(-1)),
            (None, None, None)
        );
    }

    /// TRG-13: what has ended stays as it is, whatever happens to it.
    #[test]
    fn trg_13_nothing_changes_a_terminal_status() {
        for status in EntryStatus::ALL.into_iter().filter(|status| status.is_terminal()) {
            for deed in Deed::ALL {
                assert_eq!(status.after(deed).unwrap_or(status), status, "{deed:?}");
            }
        }
    }

    /// TRG-16: no send begins or ends from a status that is not active.
    #[test]
    fn trg_16_nothing_is_sent_once_it_has_ended() {
        for status in EntryStatus::ALL {
            for deed in [Deed::Sending, Deed::Sent, Deed::NotSent, Deed::GaveUp] {
                assert_eq!(status.after(deed).is_ok(), status.is_active(), "{status} {deed:?}");
            }
        }
    }

    #[test]
    fn a_refusal_says_what_a_caller_is_told() {
        let table = [
            (EntryStatus::Completed, Deed::Submitted, false, "was answered already, and one answer counts"),
            (EntryStatus::Expired, Deed::Submitted, true, "has expired and takes no answers any more"),
            (EntryStatus::Cancelled, Deed::Submitted, true, "was withdrawn and takes no answers any more"),
            (EntryStatus::Completed, Deed::Cancelled, false, "was answered, so it cannot be cancelled"),
            (EntryStatus::Expired, Deed::Cancelled, false, "has expired, so there is nothing left to cancel"),
            (EntryStatus::Failed, Deed::Sending, false, "is Failed, so nothing is sent any more"),
            (EntryStatus::Completed, Deed::Sent, false, "is Completed, so nothing is sent any more"),
            (EntryStatus::Cancelled, Deed::Expired, false, "is Cancelled and does not expire any more"),
        ];
        for (status, deed, gone, words) in table {
            let refusal = status.after(deed).unwrap_err();
            assert_eq!((refusal.status(), refusal.deed()), (status, deed));
            assert_eq!((refusal.is_gone(), refusal.to_string().as_str()), (gone, words));
        }
    }
}
