//! What each route is for, what it takes and what it gives. A test holds this list and the
//! route table together.

use super::components::BodyType;
use super::parameters::{
    ADDRESS, BOOKING_ID, BY_CHANNEL, CHANNEL, CORRELATION_ID, COUNT, CURSOR, CUSTOMER_REF, DELIVERY_STATUS,
    DUE_BEFORE, DUE_FROM, ENTITY_ID, ENTITY_TYPE, ENTITY_VERSION, ENTRY_KEY, EVENT_TYPE, FROM, INBOX_STATUS,
    INSTANCE_STATUS, IS_ACTIVE, KEY, LANG, LANGUAGE, LIFTED, LIMIT, LOG_ADDRESS, LOG_CHANNEL, LOG_KIND,
    LOG_PUBLIC_ID, OF_ADDRESS, OF_CHANNEL, OF_KIND, ON_HOLD, ONE_ADDRESS, OUTBOX_STATUS, Parameter,
    QUESTION_ID, REASON, SCHEDULE_KEY, SCHEDULE_STATUS, SCOPE_ID, SCOPE_TYPE, SOURCE, SPREAD, STEP,
    SUBSCRIPTION, SURVEY_ID, TEMPLATE_CHANNEL, TENANT_ID, TIMER_STATUS, TO, TO_ADDRESS, TOPIC, TRIGGER_ID,
    VERSION, WRITTEN_FROM, WRITTEN_TO,
};
use super::values::{OpenApi, ProviderCallback};
use crate::http::api::access::{keys, tenant_settings, tenants};
use crate::http::api::delivery::{communication_logs, recipients, resends, suppressions, templates};
use crate::http::api::flow::{entities, event_kinds, schedules};
use crate::http::api::jobs::{cron_jobs, leases};
use crate::http::api::queue::{dead_letters, events, inbox, queues, subscriptions, timers, work};
use crate::http::api::requests::{
    Claim, DeadLetterSelection, Events, ExtendLease, InboxDelivery, InboxMark, InboxSelection, Ingest,
    LeaseAcquire, LeaseRelease, LeaseRenew, NewEntityState, NewEventKind, NewJob, NewKey, NewMessageTemplate,
    NewRecipientPreferences, NewSubscription, NewSuppression, NewSurvey, NewTenant, NewTenantSettings,
    NewTimers, OutboxSelection, PreviewMessageTemplate, QueueSettings, ResendNotification, ScheduleChange,
    ScheduleSelection, Script, SendByHand, Settle, SurveyChange, SurveyForm, SurveyResponse, Tick, TimerMove,
    TimersCancel, TimersMove, ToExplain, Travel, UnsubscribeForm,
};
use crate::http::api::selection;
use crate::http::api::survey::{instances, surveys, triggers, visits};
use crate::http::dev::{channels, clock, messages};
use crate::http::health;
use crate::http::ops::outbox;
use crate::http::pagination::List;
use schemars::JsonSchema;

/// The description of one route.
#[derive(Debug)]
pub struct Operation {
    /// The route, as the table names it.
    pub route: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// Parameters of the query.
    pub query: &'static [Parameter],
    /// The type of the body.
    pub takes: Option<BodyType>,
    /// Whether there must be a body.
    pub body_needed: bool,
    /// A good answer.
    pub gives: Gives,
    /// Another good answer.
    pub or_gives: Option<Gives>,
}

/// A good answer.
#[derive(Clone, Copy, Debug)]
pub struct Gives {
    /// Its status.
    pub status: u16,
    /// Its body.
    pub content: Content,
}

/// The body of an answer.
#[derive(Clone, Copy, Debug)]
pub enum Content {
    /// None.
    Nothing,
    /// A text of a media type.
    Text(&'static str),
    /// A value of a type.
    Json(BodyType),
}

const fn json<T: JsonSchema>(status: u16) -> Gives {
    Gives { status, content: Content::Json(BodyType::of::<T>()) }
}

const fn text(status: u16, media_type: &'static str) -> Gives {
    Gives { status, content: Content::Text(media_type) }
}

const fn nothing(status: u16) -> Gives {
    Gives { status, content: Content::Nothing }
}

const fn op(route: &'static str, summary: &'static str, gives: Gives) -> Operation {
    Operation { route, summary, query: &[], takes: None, body_needed: false, gives, or_gives: None }
}

impl Operation {
    const fn takes<T: JsonSchema>(mut self) -> Self {
        self.takes = Some(BodyType::of::<T>());
        self.body_needed = true;
        self
    }

    const fn may_take<T: JsonSchema>(mut self) -> Self {
        self.takes = Some(BodyType::of::<T>());
        self
    }

    const fn or_gives(mut self, gives: Gives) -> Self {
        self.or_gives = Some(gives);
        self
    }

    const fn query(mut self, parameters: &'static [Parameter]) -> Self {
        self.query = parameters;
        self
    }
}

/// The parameters of every list.
const LIST: &[Parameter] = &[LIMIT, CURSOR];

/// The parameters of results.
const RESULTS: &[Parameter] = &[VERSION, TRIGGER_ID, FROM, TO];

/// One for every route.
#[rustfmt::skip]
pub const OPERATIONS: &[Operation] = &[
    op("POST /api/events", "Publish one event, a list of them, or CloudEvents",
        json::<events::Published>(202))
        .takes::<Events>(),
    op("GET /api/events/{id}", "One message", json::<events::MessageView>(200)),

    op("GET /api/queues", "All queues, with the counts of their items", json::<List<queues::QueueView>>(200))
        .query(LIST),
    op("GET /api/queues/{topic}", "One queue", json::<queues::QueueView>(200)),
    op("PUT /api/queues/{topic}", "Declare a queue, or change its settings", json::<queues::QueueView>(200))
        .takes::<QueueSettings>(),
    op("POST /api/queues/{topic}/pause", "Pause a queue", json::<queues::QueueView>(200)),
    op("POST /api/queues/{topic}/resume", "Resume a queue", json::<queues::QueueView>(200)),
    op("POST /api/queues/{topic}/claim", "Take due work, with a lease", json::<work::ClaimedItems>(200))
        .takes::<Claim>(),
    op("POST /api/queues/{topic}/ack", "Settle items as done",
        json::<work::SettledItems>(200)).takes::<Settle>(),
    op("POST /api/queues/{topic}/abandon", "Abandon items, to be tried again",
        json::<work::SettledItems>(200))
        .takes::<Settle>(),
    op("POST /api/queues/{topic}/fail", "Fail items: they become dead letters",
        json::<work::SettledItems>(200))
        .takes::<Settle>(),
    op("POST /api/queues/{topic}/extend", "Extend the leases of claims", json::<work::SettledItems>(200))
        .takes::<ExtendLease>(),
    op("POST /api/queues/{topic}/{subscription}/claim", "Take due work of a subscription",
        json::<work::ClaimedItems>(200))
        .takes::<Claim>(),
    op("POST /api/queues/{topic}/{subscription}/ack", "Settle items as done", json::<work::SettledItems>(200))
        .takes::<Settle>(),
    op("POST /api/queues/{topic}/{subscription}/abandon", "Abandon items, to be tried again",
        json::<work::SettledItems>(200))
        .takes::<Settle>(),
    op("POST /api/queues/{topic}/{subscription}/fail", "Fail items: they become dead letters",
        json::<work::SettledItems>(200))
        .takes::<Settle>(),
    op("POST /api/queues/{topic}/{subscription}/extend", "Extend the leases of claims",
        json::<work::SettledItems>(200))
        .takes::<ExtendLease>(),

    op("GET /api/subscriptions", "All subscriptions, by topic and name",
        json::<List<subscriptions::SubscriptionView>>(200))
        .query(&[TOPIC, LIMIT, CURSOR]),
    op("GET /api/subscriptions/{topic}/{name}", "One subscription, with what waits",
        json::<subscriptions::SubscriptionView>(200)),
    op("PUT /api/subscriptions/{topic}/{name}", "Make or change a subscription",
        json::<subscriptions::SubscriptionView>(200))
        .takes::<NewSubscription>(),
    op("DELETE /api/subscriptions/{topic}/{name}", "Delete a subscription with its waiting items",
        json::<subscriptions::DeletedSubscription>(200)),

    op("GET /api/dead-letters", "Dead letters, oldest first", json::<List<dead_letters::DeadLetterView>>(200))
        .query(&[TOPIC, SUBSCRIPTION, LIMIT, CURSOR]),
    op("GET /api/dead-letters/{id}", "One dead letter, with every attempt",
        json::<dead_letters::DeadLetterView>(200)),
    op("POST /api/dead-letters/replay", "Replay dead letters", json::<selection::MovedItems>(200))
        .takes::<DeadLetterSelection>(),
    op("POST /api/dead-letters/purge", "Delete dead letters for good", json::<selection::MovedItems>(200))
        .takes::<DeadLetterSelection>(),

    op("POST /api/surveys", "Make a survey from its draft",
        json::<surveys::SurveyView>(201)).takes::<NewSurvey>(),
    op("GET /api/surveys", "All surveys", json::<List<surveys::SurveyView>>(200)).query(LIST),
    op("GET /api/surveys/{id}", "One survey, with its draft", json::<surveys::SurveyView>(200)),
    op("PUT /api/surveys/{id}", "Change the draft of a survey", json::<surveys::SurveyView>(200))
        .takes::<SurveyChange>(),
    op("POST /api/surveys/{id}/publish", "Publish the draft as the next version",
        json::<surveys::PublishedSurvey>(200)),
    op("POST /api/surveys/{id}/unpublish", "Unpublish a survey: no event begins it any more",
        json::<surveys::SurveyView>(200)),
    op("GET /api/surveys/{id}/versions/{n}", "One version, as it was published",
        json::<surveys::SurveyVersionView>(200)),
    op("GET /api/surveys/{id}/results", "The results of a survey",
        json::<surveys::results::ResultsView>(200))
        .query(RESULTS),
    op("GET /api/surveys/{id}/comments", "Free-text answers, the newest first",
        json::<List<surveys::comments::CommentView>>(200))
        .query(&[QUESTION_ID, VERSION, TRIGGER_ID, FROM, TO, LIMIT, CURSOR]),
    op("GET /api/surveys/{id}/responses.csv", "Every answer, a line each", text(200, "text/csv"))
        .query(RESULTS),
    op("POST /api/surveys/{id}/triggers/{triggerId}/send", "Send a survey by hand, or see who would get it",
        json::<surveys::SentByHand>(200)).takes::<SendByHand>(),

    op("POST /api/triggers/ingest", "Ingest events that may begin surveys",
        json::<triggers::IngestResult>(200))
        .takes::<Ingest>(),
    op("POST /api/Surveys/Triggers/ingest", "Ingest events (the contract's other path)",
        json::<triggers::IngestResult>(200)).takes::<Ingest>(),
    op("POST /api/triggers/explain", "Explain the effects of events without writing anything",
        json::<triggers::Explanations>(200)).takes::<ToExplain>(),

    op("GET /api/survey-instances", "Survey instances, the newest first",
        json::<List<instances::SurveyInstanceView>>(200))
        .query(&[SURVEY_ID, INSTANCE_STATUS, ADDRESS, CUSTOMER_REF, LIMIT, CURSOR]),
    op("GET /api/survey-instances/{publicId}", "One instance, with all that was done for it",
        json::<instances::SurveyInstanceView>(200)),
    op("DELETE /api/survey-instances/{publicId}", "Delete an instance; its event may come again",
        nothing(204)),
    op("POST /api/survey-instances/{publicId}/cancel", "Withdraw an instance",
        json::<instances::SurveyInstanceView>(200)),

    op("GET /api/jobs", "All jobs, by name", json::<List<cron_jobs::JobView>>(200)).query(LIST),
    op("GET /api/jobs/{name}", "One job", json::<cron_jobs::JobView>(200)),
    op("PUT /api/jobs/{name}", "Make a job, or change it into this", json::<cron_jobs::JobView>(200))
        .takes::<NewJob>(),
    op("DELETE /api/jobs/{name}", "Delete a job with its runs that wait", json::<cron_jobs::DeletedJob>(200)),
    op("POST /api/jobs/{name}/enable", "Enable a job", json::<cron_jobs::JobView>(200)),
    op("POST /api/jobs/{name}/disable", "Disable a job", json::<cron_jobs::JobView>(200)),
    op("POST /api/jobs/{name}/trigger", "Start a run now, independent of the pattern",
        json::<cron_jobs::TriggeredRun>(202)),
    op("GET /api/jobs/{name}/runs", "Runs of a job, the latest first", json::<List<cron_jobs::RunView>>(200))
        .query(LIST),
    op("GET /api/jobs/{name}/next", "When a job is due next, as a preview", json::<cron_jobs::DueTimes>(200))
        .query(&[COUNT]),

    op("POST /api/timers", "Schedule one timer, or a list of them", json::<timers::ScheduledTimers>(201))
        .takes::<NewTimers>().query(&[SPREAD]),
    op("GET /api/timers", "Timers, by the time they are due", json::<List<timers::TimerView>>(200))
        .query(&[TOPIC, KEY, CORRELATION_ID, TIMER_STATUS, DUE_FROM, DUE_BEFORE, LIMIT, CURSOR]),
    op("GET /api/timers/{id}", "One timer, and where it stands", json::<timers::TimerView>(200)),
    op("DELETE /api/timers/{id}", "Cancel a timer; says whether it was in time",
        json::<timers::CancelledTimer>(200)),
    op("POST /api/timers/{id}/move", "Move a timer; says whether it was in time",
        json::<timers::MovedTimer>(200))
        .takes::<TimerMove>(),
    op("POST /api/timers/cancel", "Cancel many timers", json::<timers::ChangedTimers>(200))
        .takes::<TimersCancel>(),
    op("POST /api/timers/move", "Move many timers", json::<timers::ChangedTimers>(200)).takes::<TimersMove>(),

    op("GET /api/leases", "All leases by name, held or not",
        json::<List<leases::LeaseView>>(200)).query(LIST),
    op("GET /api/leases/{name}", "One lease", json::<leases::LeaseView>(200)),
    op("POST /api/leases/{name}/acquire", "Acquire a lease, if it is free", json::<leases::Acquired>(200))
        .takes::<LeaseAcquire>(),
    op("POST /api/leases/{name}/renew", "Renew a lease; 409 with a stale token",
        json::<leases::LeaseView>(200))
        .takes::<LeaseRenew>(),
    op("POST /api/leases/{name}/release", "Release a lease; 409 with a stale token",
        json::<leases::ReleasedLease>(200))
        .takes::<LeaseRelease>(),

    op("GET /api/inbox", "Received messages, in the order they came",
        json::<List<inbox::InboxMessageView>>(200))
        .query(&[SOURCE, INBOX_STATUS, LIMIT, CURSOR]),
    op("POST /api/inbox/begin", "Ask what to do with a received message",
        json::<inbox::InboxBeginResult>(200))
        .takes::<InboxDelivery>(),
    op("POST /api/inbox/complete", "Mark a message as processed; 409 with a stale token",
        json::<inbox::MarkedMessage>(200))
        .takes::<InboxMark>(),
    op("POST /api/inbox/fail", "Mark a message as failed; the next delivery tries again",
        json::<inbox::MarkedMessage>(200))
        .takes::<InboxMark>(),
    op("POST /api/inbox/dead", "Mark a message as dead", json::<inbox::MarkedMessage>(200))
        .takes::<InboxMark>(),
    op("POST /api/inbox/replay", "Requeue dead messages", json::<selection::MovedItems>(200))
        .takes::<InboxSelection>(),

    op("GET /api/message-templates", "Message templates, by id", json::<List<templates::TemplateView>>(200))
        .query(&[EVENT_TYPE, TEMPLATE_CHANNEL, LANGUAGE, SCOPE_TYPE, SCOPE_ID, IS_ACTIVE,
            LIMIT, CURSOR]),
    op("POST /api/message-templates", "Make a message template", json::<templates::TemplateView>(201))
        .takes::<NewMessageTemplate>(),
    op("GET /api/message-templates/{id}", "One message template", json::<templates::TemplateView>(200)),
    op("PUT /api/message-templates/{id}", "Make a new version of a template",
        json::<templates::TemplateView>(200))
        .takes::<NewMessageTemplate>(),
    op("DELETE /api/message-templates/{id}",
        "Delete a message template; one that the log refers to is deactivated (200)", nothing(204))
        .or_gives(json::<templates::TemplateView>(200)),
    op("POST /api/message-templates/{id}/preview", "Render a template; sends nothing",
        json::<templates::Preview>(200)).may_take::<PreviewMessageTemplate>(),
    op("GET /api/message-templates/{id}/versions/{n}", "What a version said, also of a deleted template",
        json::<templates::TemplateVersionView>(200)),

    op("GET /api/event-kinds", "Event kinds, by name",
        json::<List<event_kinds::EventKindView>>(200)).query(LIST),
    op("GET /api/event-kinds/{kind}", "One event kind", json::<event_kinds::EventKindView>(200)),
    op("PUT /api/event-kinds/{kind}", "Make an event kind, or change it into this",
        json::<event_kinds::EventKindView>(200))
        .takes::<NewEventKind>(),
    op("DELETE /api/event-kinds/{kind}", "Delete an event kind", nothing(204)),

    op("GET /api/entities/{type}/{id}", "The latest known state of an entity",
        json::<entities::EntityView>(200)),
    op("PUT /api/entities/{type}/{id}", "Tell the state of an entity; an older version changes nothing",
        json::<entities::EntityView>(200)).takes::<NewEntityState>(),
    op("DELETE /api/entities/{type}/{id}", "An entity is gone; 409 if something newer is known", nothing(204))
        .query(&[ENTITY_VERSION]),

    op("GET /api/communication-logs", "Every message to a person, the newest first",
        json::<List<communication_logs::DeliveryView>>(200))
        .query(&[BOOKING_ID, ENTITY_TYPE, ENTITY_ID, LOG_ADDRESS, DELIVERY_STATUS, LOG_CHANNEL,
            LOG_KIND, LOG_PUBLIC_ID, ENTRY_KEY, CORRELATION_ID, WRITTEN_FROM, WRITTEN_TO, LIMIT,
            CURSOR]),
    op("GET /api/communication-logs/{id}", "One message, with what its provider answered",
        json::<communication_logs::DeliveryView>(200)),
    op("GET /api/automation-schedules", "What is done for events, the newest first",
        json::<List<schedules::ScheduleView>>(200))
        .query(&[BOOKING_ID, ENTITY_TYPE, ENTITY_ID, SCHEDULE_KEY, SCHEDULE_STATUS, ON_HOLD, LIMIT,
            CURSOR]),
    op("GET /api/automation-schedules/{id}", "One schedule, with every try",
        json::<schedules::ScheduleView>(200)),
    op("GET /api/automation-schedules/{id}/trace", "What happened for it, in words",
        json::<schedules::Trace>(200)),
    op("POST /api/automation-schedules/replay", "Send again what failed",
        json::<schedules::ReplayedSchedules>(200))
        .takes::<ScheduleSelection>(),
    op("POST /api/automation-schedules/{id}/hold",
            "Send nothing of it until it is released; 409 when it has ended",
        json::<schedules::ScheduleView>(200)).takes::<ScheduleChange>(),
    op("POST /api/automation-schedules/{id}/release", "Let it go on; 409 when it is not on hold",
        json::<schedules::ScheduleView>(200)).takes::<ScheduleChange>(),
    op("POST /api/automation-schedules/{id}/retry", "Try now what waits or has failed; 409 when nothing does",
        json::<schedules::ScheduleView>(200)).takes::<ScheduleChange>(),
    op("POST /api/automation-schedules/{id}/cancel", "Send nothing more of it; 409 when it has ended",
        json::<schedules::ScheduleView>(200)).takes::<ScheduleChange>(),
    op("POST /api/bookings/{id}/resend-notification", "Tell the latest event about a booking again",
        json::<resends::AcceptedResend>(202)).takes::<ResendNotification>(),
    op("POST /api/entities/{type}/{id}/resend-notification", "Tell the latest event about an entity again",
        json::<resends::AcceptedResend>(202)).takes::<ResendNotification>(),

    op("GET /api/suppressions", "Who is never sent what, by id",
        json::<List<suppressions::SuppressionView>>(200))
        .query(&[OF_ADDRESS, OF_CHANNEL, OF_KIND, REASON, LIFTED, LIMIT, CURSOR]),
    op("POST /api/suppressions", "Never send this address anything, or something; 200 if it was so before",
        json::<suppressions::SuppressionView>(201)).takes::<NewSuppression>()
        .or_gives(json::<suppressions::SuppressionView>(200)),
    op("DELETE /api/suppressions", "Lift suppressions of an address; says which",
        json::<suppressions::LiftedSuppressions>(200))
        .query(&[ONE_ADDRESS, OF_CHANNEL, OF_KIND]),
    op("GET /api/recipients/{address}/preferences", "What the owner of an address wants",
        json::<recipients::PreferencesView>(200)),
    op("PUT /api/recipients/{address}/preferences", "Replace what the owner of an address wants",
        json::<recipients::PreferencesView>(200)).takes::<NewRecipientPreferences>(),
    op("GET /api/tenant-settings", "Quiet hours and channels for all recipients",
        json::<tenant_settings::TenantSettingsView>(200)),
    op("PUT /api/tenant-settings", "Replace quiet hours and channels for all recipients",
        json::<tenant_settings::TenantSettingsView>(200)).takes::<NewTenantSettings>(),

    op("GET /u/{token}", "The page of an unsubscribe link; changes nothing", text(200, "text/html"))
        .query(&[LANG]),
    op("POST /u/{token}", "Unsubscribe by one click (RFC 8058); again is as good as once",
        text(200, "text/html"))
        .may_take::<UnsubscribeForm>().query(&[LANG]),
    op("GET /webhooks/{provider}", "The greeting that some providers want before they report",
        text(200, "text/plain")).query(&[BY_CHANNEL]),
    op("POST /webhooks/{provider}", "What a provider reports of messages; its signature is the credential",
        nothing(200)).may_take::<ProviderCallback>().query(&[BY_CHANNEL]),
    op("GET /s/{publicId}", "The page of a survey; changes nothing", text(200, "text/html"))
        .query(&[LANG, STEP]),
    op("POST /s/{publicId}", "Take one step of the page; leads to the next", nothing(303))
        .takes::<SurveyForm>().query(&[LANG, STEP]).or_gives(nothing(204)),
    op("GET /api/public/survey-instances/{publicId}", "What a link asks, for own front ends",
        json::<visits::VisitView>(200)),
    op("POST /api/SurveyInstances/{publicId}/opened", "A person has the page open", nothing(204)),
    op("POST /api/SurveyInstances/{publicId}/responses",
        "Hand in answers, once; 409 the second time, 410 when it is over",
        json::<visits::CompletedVisit>(200))
        .takes::<SurveyResponse>(),

    op("POST /api/tenants", "Make a tenant", json::<tenants::TenantView>(201)).takes::<NewTenant>(),
    op("GET /api/tenants", "All tenants", json::<List<tenants::TenantView>>(200)).query(LIST),
    op("POST /api/keys", "Make a key; its secret is shown once",
        json::<keys::NewApiKeyView>(201)).takes::<NewKey>(),
    op("GET /api/keys", "The tenant's keys, without their secrets", json::<List<keys::ApiKeyView>>(200))
        .query(LIST),
    op("DELETE /api/keys/{id}", "Revoke a key; it stops working within a second", nothing(204)),

    op("GET /ops/outbox", "Every message of every tenant, the newest first, and what became of it",
        json::<List<outbox::OutboxMessageView>>(200))
        .query(&[OUTBOX_STATUS, WRITTEN_FROM, WRITTEN_TO, TENANT_ID, TOPIC, OF_KIND,
            LIMIT, CURSOR]),
    op("POST /ops/outbox/replay", "Try again what failed, or say what that would be",
        json::<outbox::Replayed>(200))
        .takes::<OutboxSelection>(),

    op("POST /api/scheduler/tick", "Do everything that is due now", json::<clock::TickReport>(200))
        .may_take::<Tick>(),
    op("GET /dev/clock", "The manual clock", json::<clock::ClockView>(200)),
    op("POST /dev/clock", "Move the manual clock, doing what becomes due on the way",
        json::<clock::ClockView>(200))
        .takes::<Travel>(),
    op("GET /dev/messages", "What the sandbox was given, oldest first", json::<messages::Inbox>(200))
        .query(&[CHANNEL, TO_ADDRESS, LIMIT, CURSOR]),
    op("DELETE /dev/messages", "Forget what the sandbox was given", json::<messages::DeletedMessages>(200))
        .query(&[CHANNEL, TO_ADDRESS]),
    op("GET /dev/channels/{key}", "What is left of a sandbox channel's script",
        json::<channels::ChannelScript>(200)),
    op("PUT /dev/channels/{key}", "Make the next sends of a sandbox channel go wrong",
        json::<channels::ChannelScript>(200))
        .takes::<Script>(),

    op("GET /health", "Health with its details; 503 when something is down", json::<health::Details>(200))
        .or_gives(json::<health::Details>(503)),
    op("GET /health/live", "Whether this process should go on", json::<health::Probe>(200))
        .or_gives(json::<health::Probe>(503)),
    op("GET /health/ready", "Whether requests should come here", json::<health::Probe>(200))
        .or_gives(json::<health::Probe>(503)),
    op("GET /metrics", "Metrics for Prometheus", text(200, "text/plain")),
    op("GET /openapi.json", "This document", json::<OpenApi>(200)),
    op("GET /docs", "The operations on one page", text(200, "text/html")),
];
