//! Every bound, with its unit in its name and its reason beside it.

use std::time::Duration;

/// Problems of one input that are kept.
pub const PROBLEMS_KEPT_MAX: usize = 1_000;
/// Topics, kinds, keys, message ids and sources, in characters.
pub const NAME_CHARS_MAX: usize = 255;
/// One payload, in bytes of JSON text.
pub const PAYLOAD_BYTES_MAX: usize = 1024 * 1024;
/// All headers of one message, in bytes of JSON text.
pub const HEADERS_BYTES_MAX: usize = 64 * 1024;
/// What one message has at most of both.
pub const CONTENT_BYTES_MAX: usize = PAYLOAD_BYTES_MAX + HEADERS_BYTES_MAX;
/// Items in one batch of anything.
pub const BATCH_ITEMS_MAX: usize = 10_000;
/// Keys of entries that one transaction of an ingest inserts, so that no other writer waits for long.
pub const ENTRY_KEYS_PER_TRANSACTION: usize = 1_000;
/// The longest delay of a timer: a longer one is a slip in its unit.
pub const TIMER_DELAY_MAX: Duration = Duration::from_secs(100 * 366 * 24 * 60 * 60);
/// The longest window over which equal due times are spread.
pub const SPREAD_MAX: Duration = Duration::from_secs(31 * 24 * 60 * 60);
/// Timers that one cancelling or moving by a filter touches; the number of the others is reported.
pub const TIMERS_CHANGED_MAX: usize = 1_000_000;
/// Items under one claim row: more would make a partial settlement rewrite too much.
pub const CLAIM_ITEMS_MAX: usize = 1_000;
/// Items that one claim over HTTP takes when it does not say.
pub const CLAIM_ITEMS_DEFAULT: usize = 50;
/// Payloads and headers that one claim over HTTP answers with, in bytes: an answer is in memory several
/// times.
pub const CLAIM_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Lanes that one claim visits: bounds the statement, the rest waits for the next turn.
pub const CLAIM_LANES_MAX: usize = 128;
/// A lease when none is named.
pub const LEASE_DEFAULT: Duration = Duration::from_secs(30);
/// The shortest lease: less than this is lost to one slow commit.
pub const LEASE_MIN: Duration = Duration::from_secs(1);
/// The longest lease: a crashed worker holds its items for this long.
pub const LEASE_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// The part of a lease's length after which its guard renews it, in percent.
pub const LEASE_RENEW_PERCENT: u8 = 60;
/// The least and the most of it: earlier is only load, later leaves no time for a second try.
pub const LEASE_RENEW_PERCENT_RANGE: std::ops::RangeInclusive<u8> = 10..=80;
/// A candidate that waits for a lease looks at least this often whether it was released.
pub const LEASE_LOOK: Duration = Duration::from_millis(500);
/// Started attempts before an item is dead-lettered, unless the queue says otherwise.
pub const ATTEMPTS_DEFAULT: u32 = 10;
/// The most attempts a queue may ask for.
pub const ATTEMPTS_MAX: u32 = 1_000;
/// Waits that handlers may ask for before an item's waits count as attempts: enough for a partner that is
/// down for days at an hour a time, and few enough to keep in its history.
pub const SNOOZES_MAX: u32 = 100;
/// How often an item may be lost with a batch before it was started, as a multiple of
/// its attempts: a crashing neighbour or a deploy must not use them up.
pub const UNSTARTED_FACTOR: u32 = 5;
/// An error text as it is stored, in characters; the rest is cut off.
pub const ERROR_CHARS_MAX: usize = 4_000;
/// Tenant slugs, in characters.
pub const SLUG_CHARS_MAX: usize = 63;
/// Questions of one survey: more than a respondent answers.
pub const QUESTIONS_MAX: usize = 200;
/// Options of one question.
pub const OPTIONS_MAX: usize = 100;
/// The id of a question, in characters: it is a column of an export and a name in a form.
pub const QUESTION_ID_CHARS_MAX: usize = 100;
/// Triggers of one survey.
pub const TRIGGERS_MAX: usize = 100;
/// Facts in one dedup recipe.
pub const RECIPE_PATHS_MAX: usize = 32;
/// Reminders of one trigger.
pub const REMINDERS_MAX: usize = 50;
/// Subscribers of a survey or a trigger.
pub const SUBSCRIBERS_MAX: usize = 100;
/// Kinds of events that stop what one trigger began.
pub const STOPS_MAX: usize = 50;
/// Locales of one survey.
pub const LOCALES_MAX: usize = 50;
/// A title, question, help or option in one locale, in characters.
pub const LABEL_CHARS_MAX: usize = 2_000;
/// The highest rating: more steps than this are a number.
pub const RATING_MAX: i64 = 10;
/// An answer in one line, and words of one's own beside the options, in characters.
pub const SHORT_ANSWER_CHARS_MAX: usize = 500;
/// An answer in several lines, in characters.
pub const LONG_ANSWER_CHARS_MAX: usize = 10_000;
/// How long messages are kept after they are done.
pub const MESSAGE_RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How long an entry is kept after its last event, with its deliveries and its answer.
pub const ENTRY_RETENTION: Duration = Duration::from_secs(400 * 24 * 60 * 60);
/// How long the dedup key of an entry is remembered.
pub const ENTRY_KEY_RETENTION: Duration = Duration::from_secs(800 * 24 * 60 * 60);
/// How long the loaded and resolved inputs of an entry are kept.
pub const ENTRY_TRACE_RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// The key of a delivery is kept this long after it was made: as long as the ids of events.
pub const DELIVERY_KEY_RETENTION: Duration = Duration::from_secs(800 * 24 * 60 * 60);
/// How long an admitted message id is remembered.
pub const ADMITTED_RETENTION: Duration = Duration::from_secs(800 * 24 * 60 * 60);
/// How long a processed or failed message is remembered in the inbox.
pub const INBOX_RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How often the inbox is cleaned and looked through.
pub const INBOX_EVERY: Duration = Duration::from_secs(6 * 60 * 60);
/// A message in progress this long past its lease is stuck: its sender does not deliver it again.
pub const INBOX_STUCK_AFTER: Duration = Duration::from_secs(60 * 60);
/// How long the answer to an Idempotency-Key is kept.
pub const ANSWER_RETENTION: Duration = Duration::from_secs(24 * 60 * 60);
/// Rows that one prune statement removes, so that it never holds up the workers.
pub const PRUNE_ROWS: usize = 1_000;
/// Items in a list when the caller does not say, and the most it may ask for.
pub const LIST_ITEMS_DEFAULT: usize = 100;
/// The most items a list returns.
pub const LIST_ITEMS_MAX: usize = 1_000;
/// How long an engine that may not migrate waits for another process to do it.
pub const SCHEMA_PATIENCE: Duration = Duration::from_secs(5 * 60);
/// Polling starts at this pace after work was seen …
pub const POLL_MIN: Duration = Duration::from_millis(250);
/// … and slows down to this one: only a safety net behind the wake-ups.
pub const POLL_MAX: Duration = Duration::from_secs(30);
/// A loop that failed pauses this long, growing …
pub const TROUBLE_PAUSE: Duration = Duration::from_secs(5);
/// … up to this.
pub const TROUBLE_PAUSE_MAX: Duration = Duration::from_secs(60);
/// A host whose clock is further off than this has misleading times in its log.
pub const HOST_SKEW_MAX: Duration = Duration::from_secs(1);
/// A job's name, in characters.
pub const JOB_NAME_CHARS_MAX: usize = 100;
/// A single occurrence of a job that is planned later than this after its time was missed.
pub const MISFIRE_GRACE: Duration = Duration::from_secs(60);
/// Missed occurrences that the policy `runAll` runs after a downtime, the latest ones.
pub const MISFIRE_RUNS_MAX: usize = 1_000;
/// The output of a run, in bytes of JSON text.
pub const OUTPUT_BYTES_MAX: usize = 64 * 1024;
/// How long runs of jobs are kept after they ended.
pub const RUN_RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How long the row of a lease is kept after it ended.
pub const LEASE_RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Occurrences that one preview of a job returns.
pub const PREVIEW_ITEMS_MAX: usize = 1_000;
/// Runs of one job that may wait for an earlier one (overlap policy `queue`).
pub const QUEUED_RUNS_MAX: i64 = 1_000;
/// Facts about one event, each a path and a value; more is a file, not an event.
pub const FACTS_MAX: usize = 10_000;
/// How deep nested objects are opened into facts; objects that lie deeper stay one value.
pub const FACT_DEPTH_MAX: usize = 32;
/// The path of a fact, in bytes: a longer one cannot be asked for, and so is not kept.
pub const FACT_PATH_BYTES_MAX: usize = 512;
/// The parts of one condition: comparisons, and each `all`, `any` and `not`.
pub const CONDITION_PARTS_MAX: usize = 256;
/// How deep a condition is nested.
pub const CONDITION_DEPTH_MAX: usize = 16;
/// One list that a condition compares with, in items …
pub const CONDITION_LIST_ITEMS_MAX: usize = 1_000;
/// … and all lists of one condition together.
pub const CONDITION_ITEMS_MAX: usize = 4_000;
/// A string that a condition compares with, in bytes.
pub const CONDITION_TEXT_BYTES_MAX: usize = 512;
/// A pattern as it is written, in bytes.
pub const CONDITION_PATTERN_BYTES_MAX: usize = 250;
/// All patterns of one condition as they are compiled, in bytes: `.{3}` is as large as `...`.
pub const CONDITION_COMPILED_BYTES_MAX: usize = 10_000;
/// The work of all patterns of one condition: characters looked at, times compiled bytes. A step is 0.4 ns.
pub const CONDITION_PATTERN_STEPS_MAX: usize = 1_000_000;
/// The work of every `contains` of one condition together, in bytes looked at: 2 ns each at worst.
pub const CONDITION_SEARCH_BYTES_MAX: usize = 100_000;
/// Problems that are reported about one condition; the author corrects these first.
pub const CONDITION_PROBLEMS_MAX: usize = 100;
/// Tries of one send (an invitation, a reminder) before it is given up, unless its channel says otherwise.
pub const SEND_TRIES_DEFAULT: u32 = 5;
/// The newest messages that are searched for an event that had no notifications when it came.
pub const UNTOLD_MESSAGES_MAX: usize = 100_000;
/// How often a send with an answer that could not be understood is repeated, unless its channel has another
/// limit.
pub const UNKNOWN_RETRIES_DEFAULT: u32 = 1;
/// The wait after the first failed try of a send; it doubles …
pub const SEND_WAIT_MIN: Duration = Duration::from_secs(60);
/// … up to this: a provider is seldom away for longer without an operator looking.
pub const SEND_WAIT_MAX: Duration = Duration::from_secs(60 * 60);
/// A channel that has not answered after this long may have sent; the outcome is unknown.
pub const SEND_TIMEOUT: Duration = Duration::from_secs(20);
/// Sends of one claim that are begun and not settled: after a crash no more than these may have gone out.
pub const SEND_WINDOW: usize = 64;
/// An entry without a next send expires when it has been quiet for longer than this.
pub const EXPIRY_GRACE_DEFAULT: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// The key of a channel, in characters.
pub const CHANNEL_KEY_CHARS_MAX: usize = 100;
/// Messages that a sandbox keeps …
pub const SANDBOX_MESSAGES_MAX: usize = 100_000;
/// … and their texts together, in bytes; the oldest go first.
pub const SANDBOX_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Channels of a sandbox that have a script at the same time.
pub const SANDBOX_SCRIPTS_MAX: usize = 1_000;
/// Steps of one script.
pub const SCRIPT_STEPS_MAX: usize = 10_000;
/// The longest that a scripted answer takes.
pub const SCRIPT_LATENCY_MAX: Duration = Duration::from_secs(60);
/// A template's text, in bytes: a long mail with its markup.
pub const TEMPLATE_BYTES_MAX: usize = 256 * 1024;
/// A template's subject, in characters: mail programs show the first 80.
pub const SUBJECT_CHARS_MAX: usize = 500;
/// Placeholders of one text.
pub const TEMPLATE_PLACEHOLDERS_MAX: usize = 500;
/// Filters of one placeholder.
pub const TEMPLATE_FILTERS_MAX: usize = 8;
/// The argument behind the colon of a filter, in bytes.
pub const TEMPLATE_ARGUMENT_BYTES_MAX: usize = 500;
/// One value in a text, in bytes; the rest of it is cut off.
pub const TEMPLATE_VALUE_BYTES_MAX: usize = 16 * 1024;
/// A text with its values, in bytes; a value that no longer fits is left out.
pub const RENDERED_BYTES_MAX: usize = 512 * 1024;
/// Names of payloads that one text looks at for keys in another case or joined: a few milliseconds.
pub const TEMPLATE_NAMES_MAX: usize = 200_000;
/// Parameters of a provider's own template.
pub const PROVIDER_PARAMS_MAX: usize = 100;
/// The send that a template is for, at most: the invitation and every reminder.
pub const TEMPLATE_ATTEMPT_MAX: u32 = REMINDERS_MAX as u32 + 1;
/// A change of templates is seen by other processes after at most this long.
pub const TEMPLATES_FRESH: Duration = Duration::from_secs(1);
/// Sets of templates that a process keeps; beyond that it forgets them all and reads them again.
pub const TEMPLATE_SETS_MAX: usize = 10_000;
/// Versions of templates out of use that a process keeps; beyond that it forgets them all.
pub const TEMPLATE_VERSIONS_MAX: usize = 10_000;
/// Schemas within one schema of an event kind.
pub const SCHEMA_NODES_MAX: usize = 1_000;
/// How deep a schema is nested.
pub const SCHEMA_DEPTH_MAX: usize = 20;
/// Items of one list in a schema: values, required names, alternatives.
pub const SCHEMA_LIST_ITEMS_MAX: usize = 1_000;
/// Schema problems that are reported for one event.
pub const SCHEMA_PROBLEMS_MAX: usize = 20;
/// A string that a schema's pattern looks at, in characters; a longer one does not fit.
pub const SCHEMA_PATTERN_CHARS_MAX: usize = 1_000;
/// Paths that are tried for one field of a recipient.
pub const RECIPIENT_PATHS_MAX: usize = 8;
/// Related entities that one event kind names.
pub const RELATED_MAX: usize = 10;
/// The document of an event kind, in bytes: a schema and a sample.
pub const EVENT_KIND_BYTES_MAX: usize = 256 * 1024;
/// Event kinds of one tenant: each process keeps them all.
pub const EVENT_KINDS_MAX: usize = 1_000;
/// A change of event kinds is seen by other processes after at most this long.
pub const EVENT_KINDS_FRESH: Duration = TEMPLATES_FRESH;
/// The published surveys are read again after this long for events older than the last read; for newer ones
/// always.
pub const FLOWS_FRESH: Duration = TEMPLATES_FRESH;
/// The state of an entity, in bytes of JSON text.
pub const ENTITY_STATE_BYTES_MAX: usize = PAYLOAD_BYTES_MAX;
/// An address, in characters: the longest that mail allows.
pub const ADDRESS_CHARS_MAX: usize = 320;
/// Opt-outs of one recipient.
pub const OPT_OUTS_MAX: usize = 200;
/// Channels that are used in the place of others.
pub const CHANNEL_OVERRIDES_MAX: usize = 20;
/// Kinds of events that one tenant's quiet hours do not hold back.
pub const QUIET_EXEMPT_KINDS_MAX: usize = 200;
/// Failures in a row after which a channel's breaker opens, unless its settings say otherwise.
pub const BREAKER_FAILURES_DEFAULT: u32 = 20;
/// How often a channel whose breaker is open is probed, unless its settings say otherwise.
pub const BREAKER_PROBE_EVERY: Duration = Duration::from_secs(30);
/// Sends per second that a channel may be allowed: each of the last second's is remembered.
pub const SENDS_PER_SECOND_MAX: u32 = 100_000;
/// Messages that one page of the outbox looks at for a status; the others are on the next page.
pub const OUTBOX_EXAMINED_MAX: usize = 10_000;
/// How far a message's time may lie from those of its neighbours by id, as in a long transaction.
pub const OUTBOX_TIME_SLACK: Duration = Duration::from_secs(60 * 60);
/// How long a receipt is kept whose message is unknown: longer than any send takes to be stored.
pub const RECEIPT_KEPT: Duration = Duration::from_secs(15 * 60);
/// The first look for its message is after this long; each later one after as long as it has waited.
pub const RECEIPT_LOOK_MIN: Duration = Duration::from_secs(1);
/// Receipts that wait for their message, at most: a foreign system's must not fill the table.
pub const RECEIPTS_WAITING_MAX: usize = 50_000;
/// Receipts that wait and are looked at in one go.
pub const RECEIPTS_LOOKED_AT: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(60 * 60);
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    /// PLT-4, PLT-7, PLT-8, PLT-11, PLT-15, PLT-18: the defaults that the documentation names, by number. The
    /// other tests use the constants, and would hold with any.
    #[test]
    fn plt_4_plt_7_plt_8_plt_11_plt_15_plt_18_defaults_are_as_documented() {
        let table = [
            ("a lease", LEASE_DEFAULT, Duration::from_secs(30)),
            ("the first poll", POLL_MIN, Duration::from_millis(250)),
            ("the slowest poll", POLL_MAX, Duration::from_secs(30)),
            ("the first pause after trouble", TROUBLE_PAUSE, Duration::from_secs(5)),
            ("the longest pause after trouble", TROUBLE_PAUSE_MAX, Duration::from_secs(60)),
            ("finished messages", MESSAGE_RETENTION, 30 * DAY),
            ("runs", RUN_RETENTION, 30 * DAY),
            ("ended leases", LEASE_RETENTION, 30 * DAY),
            ("surveys and the log", ENTRY_RETENTION, 400 * DAY),
            ("admitted ids", ADMITTED_RETENTION, 800 * DAY),
            ("keys of entries", ENTRY_KEY_RETENTION, 800 * DAY),
            ("keys of deliveries", DELIVERY_KEY_RETENTION, 800 * DAY),
            ("the answer to an Idempotency-Key", ANSWER_RETENTION, 24 * HOUR),
            ("the inbox", INBOX_RETENTION, 30 * DAY),
            ("the inbox's maintenance", INBOX_EVERY, 6 * HOUR),
            ("a stuck message of the inbox", INBOX_STUCK_AFTER, HOUR),
            ("the wait for a schema", SCHEMA_PATIENCE, Duration::from_secs(5 * 60)),
        ];
        for (what, value, documented) in table {
            assert_eq!(value, documented, "{what}");
        }
        assert_eq!((CLAIM_ITEMS_DEFAULT, LIST_ITEMS_DEFAULT, LIST_ITEMS_MAX), (50, 100, 1_000));
        assert_eq!((ATTEMPTS_DEFAULT, UNSTARTED_FACTOR, LEASE_RENEW_PERCENT), (10, 5, 60));
    }
}
