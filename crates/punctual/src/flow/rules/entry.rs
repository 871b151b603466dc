//! An entry: one occurrence of a trigger, from its event to its end, and the one table of its transitions.
//!
//! Every change of an entry is a [`Transition`], and [`EntryStatus::after`] returns the status after it, or
//! refuses it. No other code decides a status; the store writes a decision under the version of the entry
//! that it was based on, so that of two transitions at the same time one sees the other.
//!
//! A send is two transitions. [`Transition::Sending`] is committed before the channel is called, and is the
//! last check: an entry that ended before it sends nothing. [`Transition::Sent`] is committed after the call,
//! and may be refused because the entry has ended meanwhile. The message is out then; it is logged, and the
//! status stays. The table does not promise that a recipient gets no message after answering: a message that
//! left just before may arrive just after.
//!
//! [`schedule`] decides when an entry sends, [`state`] has the columns of its row, [`failure`] decides after
//! a failed try, and [`log`] has the record of each try.

use std::fmt;

pub mod failure;
pub mod log;
pub mod schedule;
pub mod state;

/// The kind of an entry: it decides which planner makes the entry and which renderer makes its messages. All
/// else is the same for every kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EntryKind {
    /// A survey for one person, with reminders until it is answered.
    Survey,
    /// A notification of the people that an event is about.
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

    /// Whether people answer entries of this kind. These are kept for a time of their own, whatever the
    /// retention of the communication log.
    #[must_use]
    pub const fn has_answers(self) -> bool {
        matches!(self, Self::Survey)
    }

    /// The kind with this word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

/// The number of a status as a literal, by which statements name it.
macro_rules! entry_status {
    (Pending) => {
        0
    };
    (Sent) => {
        1
    };
    (Opened) => {
        2
    };
    (Completed) => {
        3
    };
    (Expired) => {
        4
    };
    (Cancelled) => {
        5
    };
    (Failed) => {
        6
    };
}
pub(crate) use entry_status;

/// The status of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntryStatus {
    /// The entry was made; no message has reached the recipient.
    Pending,
    /// At least one send went out.
    Sent,
    /// The recipient has opened the page. Reminders are still sent.
    Opened,
    /// The recipient has answered.
    Completed,
    /// The entry was quiet for too long.
    Expired,
    /// The entry was cancelled by a request.
    Cancelled,
    /// No send succeeded, and none is left. A recipient who has the link may still answer.
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
            Self::Pending => entry_status!(Pending),
            Self::Sent => entry_status!(Sent),
            Self::Opened => entry_status!(Opened),
            Self::Completed => entry_status!(Completed),
            Self::Expired => entry_status!(Expired),
            Self::Cancelled => entry_status!(Cancelled),
            Self::Failed => entry_status!(Failed),
        }
    }

    /// The status of a number.
    #[must_use]
    pub fn from_code(code: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.code() == code)
    }

    /// Whether the entry can still send and expire: the entries of the hot index.
    #[must_use]
    pub const fn is_active(self) -> bool {
        matches!(self, Self::Pending | Self::Sent | Self::Opened)
    }

    /// Whether no transition changes it any more. `Failed` is neither active nor this: nothing is sent
    /// and it does not expire, but an answer completes it.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Expired | Self::Cancelled)
    }

    /// Returns the status after a transition from this status: the table of all legal moves.
    ///
    /// `Ok` with the same status is a transition that changes nothing, such as opening a page again.
    ///
    /// # Errors
    /// A [`TransitionRefusal`] when it may not happen any more; nothing is written then.
    pub const fn after(self, transition: Transition) -> Result<Self, TransitionRefusal> {
        use EntryStatus::{Cancelled, Completed, Expired, Failed, Opened, Pending, Sent};
        let next = match (transition, self) {
            (Transition::Sending | Transition::NotSent, Pending | Sent | Opened) => self,
            (Transition::Sent, Pending | Sent) => Sent,
            (Transition::Sent, Opened) => Opened,
            (Transition::GaveUp, Pending) => Failed,
            (Transition::GaveUp, Sent | Opened) => self,
            (Transition::Opened, Pending | Sent | Opened) => Opened,
            (Transition::Opened, Completed | Expired | Cancelled | Failed) => self,
            (Transition::Submitted, Pending | Sent | Opened | Failed) => Completed,
            (Transition::Expired, Pending | Sent | Opened) => Expired,
            (Transition::Cancelled | Transition::Deleted, Pending | Sent | Opened | Failed | Cancelled) => {
                Cancelled
            }
            (Transition::Deleted, Completed | Expired) => self,
            (Transition::Replayed, Failed) => Pending,
            (
                Transition::Sending
                | Transition::Sent
                | Transition::NotSent
                | Transition::GaveUp
                | Transition::Expired,
                _,
            )
            | (Transition::Submitted | Transition::Cancelled | Transition::Replayed, _) => {
                return Err(TransitionRefusal { status: self, transition });
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

/// A change of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transition {
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
    /// The entry was quiet for too long.
    Expired,
    /// The entry was cancelled by a request.
    Cancelled,
    /// The entry was deleted by a request. The deletion itself is a mark beside the status; the status makes
    /// sure that nothing is sent.
    Deleted,
    /// A request has the failed send repeated.
    Replayed,
}

impl Transition {
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

/// A transition that may not happen any more, and why. Its text is the error that a caller gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.words())]
pub struct TransitionRefusal {
    status: EntryStatus,
    transition: Transition,
}

impl TransitionRefusal {
    /// The status that forbids it.
    #[must_use]
    pub const fn status(&self) -> EntryStatus {
        self.status
    }

    /// Returns the refused transition.
    #[must_use]
    pub const fn transition(&self) -> Transition {
        self.transition
    }

    /// Whether what the caller wanted is gone for good (410), not merely in conflict (409): an
    /// answer to what has ended without one. A second answer is a conflict with the first.
    #[must_use]
    pub const fn is_gone(&self) -> bool {
        matches!(
            (self.transition, self.status),
            (Transition::Submitted, EntryStatus::Expired | EntryStatus::Cancelled)
        )
    }

    fn words(&self) -> String {
        let why = match (self.transition, self.status) {
            (Transition::Submitted, EntryStatus::Completed) => "was answered already, and one answer counts",
            (Transition::Submitted, EntryStatus::Expired) => "has expired and takes no answers any more",
            (Transition::Submitted, _) => "was withdrawn and takes no answers any more",
            (Transition::Cancelled, EntryStatus::Completed) => "was answered, so it cannot be cancelled",
            (Transition::Cancelled, _) => "has expired, so there is nothing left to cancel",
            (Transition::Replayed, _) => "has not failed, so there is nothing to send again",
            (Transition::Expired, _) => return format!("is {} and does not expire any more", self.status),
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

    /// TRG-13: an entry that has ended keeps its status in every transition.
    #[test]
    fn trg_13_nothing_changes_a_terminal_status() {
        for status in EntryStatus::ALL.into_iter().filter(|status| status.is_terminal()) {
            for transition in Transition::ALL {
                assert_eq!(status.after(transition).unwrap_or(status), status, "{transition:?}");
            }
        }
    }

    /// TRG-16: no send begins or ends from a status that is not active.
    #[test]
    fn trg_16_nothing_is_sent_once_it_has_ended() {
        for status in EntryStatus::ALL {
            for transition in [Transition::Sending, Transition::Sent, Transition::NotSent, Transition::GaveUp]
            {
                assert_eq!(status.after(transition).is_ok(), status.is_active(), "{status} {transition:?}");
            }
        }
    }

    #[test]
    fn a_refusal_says_what_a_caller_is_told() {
        let table = [
            (
                EntryStatus::Completed,
                Transition::Submitted,
                false,
                "was answered already, and one answer counts",
            ),
            (EntryStatus::Expired, Transition::Submitted, true, "has expired and takes no answers any more"),
            (
                EntryStatus::Cancelled,
                Transition::Submitted,
                true,
                "was withdrawn and takes no answers any more",
            ),
            (EntryStatus::Completed, Transition::Cancelled, false, "was answered, so it cannot be cancelled"),
            (
                EntryStatus::Expired,
                Transition::Cancelled,
                false,
                "has expired, so there is nothing left to cancel",
            ),
            (EntryStatus::Failed, Transition::Sending, false, "is Failed, so nothing is sent any more"),
            (EntryStatus::Completed, Transition::Sent, false, "is Completed, so nothing is sent any more"),
            (EntryStatus::Cancelled, Transition::Expired, false, "is Cancelled and does not expire any more"),
        ];
        for (status, transition, gone, words) in table {
            let refusal = status.after(transition).unwrap_err();
            assert_eq!((refusal.status(), refusal.transition()), (status, transition));
            assert_eq!((refusal.is_gone(), refusal.to_string().as_str()), (gone, words));
        }
    }
}
