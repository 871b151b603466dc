//! The words of enumerations, taken from the types that read and write them wherever the engine lists them.

use punctual::access::store::keys;
use punctual::delivery::rules::consent;
use punctual::delivery::rules::receipt;
use punctual::delivery::rules::template::values::MissingValuePolicy;
use punctual::flow::rules::entry;
use punctual::jobs::rules::job;
use punctual::operate::store::outbox;
use punctual::queue::rules::inbox;
use punctual::queue::rules::purpose::Purpose;
use punctual::queue::rules::queue::DeadHeadPolicy;
use punctual::queue::rules::timer;
use punctual::survey::rules::survey;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

/// Declares types that are only a list of words: `inline` ones stand where they are used, others are
/// components.
macro_rules! words {
    ($($(#[doc = $about:literal])* $kind:ident $name:ident = $words:expr;)+) => {$(
        $(#[doc = $about])*
        #[derive(Debug)]
        pub enum $name {}

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                stringify!($kind) == "inline"
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                let mut schema = json_schema!({"type": "string", "enum": $words});
                if stringify!($kind) == "component" {
                    schema.insert("description".to_owned(), concat!($($about),*).trim().into());
                }
                schema
            }
        }
    )+};
}

words! {
    /// From `viewer` on, each may do all that stands before it. `metrics` reads /metrics of all tenants and
    /// nothing else; only `ops` makes and revokes such keys.
    component Role = keys::Role::ALL.map(|(_, word)| word);
    /// Pending: waits or is in flight. Published: nothing is left of it. Failed: it has a dead letter.
    /// Unconsumed: nobody takes it. Cancelled: a timer that was cancelled.
    component OutboxStatus = outbox::OutboxStatus::ALL.map(|(_, word)| word);
    /// The outcome of one event.
    component IngestOutcome = ["Created", "Skipped", "Stopped", "Failed", "NoMatch"];
    /// The outcome of one recipient; `WouldCreate` stands for `Created` in a dry run.
    inline SendOutcome = ["Created", "WouldCreate", "Skipped", "Stopped", "Failed", "NoMatch"];
    /// The status of a survey instance.
    component InstanceStatus = entry::EntryStatus::ALL.map(entry::EntryStatus::word);
    /// The status of a message to a person.
    component CommunicationStatus =
        ["Pending", "Sending", "Sent", "Delivered", "Failed", "Skipped", "Uncertain"];
    /// The status of a schedule.
    component ScheduleStatus = [
        "Pending", "Processing", "Sent", "Opened", "Completed", "Failed", "Deactivated", "Cancelled",
        "Expired",
    ];
    /// The status of a run.
    component RunStatus = ["Pending", "Queued", "Running", "Succeeded", "Failed", "Skipped"];
    /// What happens to occurrences that were missed: the last one is run, all are, or none is.
    component Misfire = job::MisfirePolicy::ALL.map(job::MisfirePolicy::word);
    /// What happens while an earlier run is going: run beside it, not at all, or afterwards.
    component Overlap = job::OverlapPolicy::ALL.map(job::OverlapPolicy::word);
    /// Why an address is suppressed.
    inline SuppressionReason = consent::SuppressionReason::ALL.map(|(_, word)| word);
    /// The kind of an entry.
    inline EntryKind = ["notification", "survey"];
    /// What a provider reported.
    inline ReceiptStatus = receipt::ReceiptStatus::ALL.map(receipt::ReceiptStatus::word);
    /// The outcome of a try to send.
    inline TryOutcome = ["sent", "transient", "permanent", "timeout", "unknown"];
    /// Why a try was not made.
    inline TryReason = ["no-channel"];
    /// The outcome of a send in the log of an instance.
    inline SendLogOutcome = entry::log::AttemptOutcome::ALL.map(entry::log::AttemptOutcome::word);
    /// The outcome of an attempt.
    inline AttemptOutcome = ["abandoned", "failed", "reaped", "snoozed"];
    /// What a receiver is to do with a message.
    inline InboxDecision = ["Process", "AlreadyProcessed", "InProgress", "Conflict", "Dead"];
    /// The status of a received message.
    inline InboxStatus = inbox::InboxStatus::ALL.map(|status| capital(status.word()));
    /// The outcome of a mark in the inbox.
    inline InboxOutcome = ["Done", "AlreadyFinished"];
    /// What a dead letter means for later items of its key.
    inline DeadHeadWord = [DeadHeadPolicy::Block.word(), DeadHeadPolicy::Pass.word()];
    /// What a schedule began with.
    inline TriggerType = ["Event", "Manual"];
    /// One step of a schedule's history.
    inline ScheduleStepOutcome = [
        "sent", "transient", "permanent", "timeout", "unknown", "skipped", "held", "released", "retried",
        "stopped", "remindersStopped", "cancelled", "expired", "deleted",
    ];
    /// When something of a schedule was resolved.
    inline ResolvedAt = ["planned", "advanced"];
    /// The status of messages that a replay can select.
    inline ReplayedStatus = ["Failed", "Uncertain"];
    /// The status of a timer.
    inline TimerStatus = timer::TimerStatus::ALL.map(|(_, word)| word);
    /// How far the message of a fired timer has come.
    inline TimerProgress = ["Queued", "InFlight", "Retrying", "Dead", "Done"];
    /// The direction of a text.
    inline TextDirection = ["ltr", "rtl"];
    /// The type of a question.
    inline QuestionType = survey::QuestionKind::WORDS;
    /// The outcome of a settlement.
    inline SettledOutcome = ["Done", "LostClaim", "AlreadyFinished", "NotFound"];
    /// Where a subscription's messages go.
    inline TargetType = ["queue", "handler"];
    /// What the sender of a sandbox message was told.
    inline SandboxOutcome = ["sent", "timeout"];
    /// Health as one word.
    inline HealthStatus = ["ok", "degraded", "down"];
    /// Whether a probe is content.
    inline ProbeStatus = ["ok", "down"];
    /// The source of time.
    inline ClockSource = ["system", "manual"];
    /// The source of time of a server whose clock can be moved.
    inline ManualClock = ["manual"];
    /// What a lane's work is.
    inline LanePurpose = Purpose::ALL.map(Purpose::word);
    /// What an event would do to a survey instance.
    inline OutlookOutcome = ["Created", "Skipped", "Stopped"];
    /// What becomes of a placeholder without a value.
    inline MissingValue = MissingValuePolicy::ALL.map(MissingValuePolicy::word);
    /// The encoding of an SMS.
    inline SmsEncoding = ["GSM-7", "UCS-2"];
    /// What a trigger of a survey would do.
    inline ExplainedTriggerOutcome = ["Created", "Skipped", "NoMatch", "Failed"];
    /// Whether a send would be made.
    inline ExplainedSendOutcome = ["Sent", "Skipped"];
    /// What a notification would come to.
    inline ExplainedNotificationOutcome = ["Created", "Skipped", "Cancelled", "Failed", "NoMatch"];
    /// What a message would come to.
    inline ExplainedDeliveryOutcome = ["Sent", "Skipped", "Duplicate", "NoTemplate", "Failed"];
    /// The one version of CloudEvents.
    inline CloudEventsVersion = ["1.0"];
    /// For no quiet hours at all.
    inline NoQuietHours = ["none"];
    /// What a send of a sandbox channel comes to.
    inline PlainStep = ["ok", "transient", "permanent", "timeout"];
    /// The one status that an outbox replay can select.
    inline FailedStatus = [outbox::OutboxStatus::Failed.word()];
}

/// A word of the database as the API writes it.
fn capital(word: &str) -> String {
    let (first, rest) = word.split_at(1);
    first.to_ascii_uppercase() + rest
}
