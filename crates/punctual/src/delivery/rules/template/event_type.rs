//! Event types that no event kind stands behind: texts that a kind of entry sends by itself.

/// An event type of templates with placeholders of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnEventType {
    /// The event type that templates name.
    pub name: &'static str,
    /// The only scope type that its templates may have.
    pub scope: &'static str,
    /// The placeholder of the link, without which a text is of little use.
    pub link: &'static str,
    /// The prefix of the payload's placeholders, which they may have or not.
    pub payload: &'static str,
    /// The placeholders that need no event. Those of the event come beside them: its payload, its entity, the
    /// related ones, and its recipient.
    pub keys: &'static [&'static str],
}

/// Invitations to surveys, and their reminders.
pub const SURVEY_INVITATION: OwnEventType = OwnEventType {
    name: "survey.invitation",
    scope: "survey",
    link: "surveyUrl",
    payload: "candidate",
    keys: &[
        "surveyUrl",
        "unsubscribeUrl",
        "surveyTitle",
        "publicId",
        "attempt",
        "recipient.address",
        "recipient.locale",
        "recipient.customerRef",
    ],
};

impl OwnEventType {
    /// All of them.
    pub const ALL: [Self; 1] = [SURVEY_INVITATION];

    /// Finds the event type of a name.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|own| own.name == name)
    }
}
