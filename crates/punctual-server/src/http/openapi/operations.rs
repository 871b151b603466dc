//! What each route is for, what it takes and what it gives. A test holds this list and the
//! route table together.

/// The description of one route.
#[derive(Debug)]
pub struct Operation {
    /// The route, as the table names it.
    pub route: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// Parameters of the query, by their name among the components.
    pub query: &'static [&'static str],
    /// The schema of the body.
    pub takes: Option<&'static str>,
    /// Whether there must be a body.
    pub body_needed: bool,
    /// The status and schema of a good answer: a name, `Name[]` for a list, a media type,
    /// or nothing.
    pub gives: (u16, &'static str),
    /// Another good answer.
    pub or_gives: Option<(u16, &'static str)>,
}

const fn op(route: &'static str, summary: &'static str, gives: (u16, &'static str)) -> Operation {
    Operation { route, summary, query: &[], takes: None, body_needed: false, gives, or_gives: None }
}

impl Operation {
    const fn takes(mut self, schema: &'static str) -> Self {
        self.takes = Some(schema);
        self.body_needed = true;
        self
    }

    const fn may_take(mut self, schema: &'static str) -> Self {
        self.takes = Some(schema);
        self
    }

    const fn or_gives(mut self, status: u16, schema: &'static str) -> Self {
        self.or_gives = Some((status, schema));
        self
    }

    const fn query(mut self, names: &'static [&'static str]) -> Self {
        self.query = names;
        self
    }
}

/// The parameters of every list.
const LIST: &[&str] = &["Limit", "Cursor"];

/// The parameters of results.
const RESULTS: &[&str] = &["Version", "TriggerId", "From", "To"];

/// One for every route.
#[rustfmt::skip]
pub const OPERATIONS: &[Operation] = &[
    op("POST /api/events", "Publish one event, a list of them, or CloudEvents", (202, "Published"))
        .takes("Events"),
    op("GET /api/events/{id}", "One message", (200, "Message")),

    op("GET /api/queues", "All queues, with what waits in them", (200, "Queue[]")).query(LIST),
    op("GET /api/queues/{topic}", "One queue", (200, "Queue")),
    op("PUT /api/queues/{topic}", "Declare a queue, or change its settings", (200, "Queue"))
        .takes("QueueSettings"),
    op("POST /api/queues/{topic}/pause", "Stop handing out work of a queue", (200, "Queue")),
    op("POST /api/queues/{topic}/resume", "Hand out work again", (200, "Queue")),
    op("POST /api/queues/{topic}/claim", "Take due work, with a lease", (200, "Claimed")).takes("Claim"),
    op("POST /api/queues/{topic}/ack", "Items are done", (200, "Settled")).takes("Settle"),
    op("POST /api/queues/{topic}/abandon", "Items go back, to be tried again", (200, "Settled"))
        .takes("Settle"),
    op("POST /api/queues/{topic}/fail", "Items will never work out: dead letters", (200, "Settled"))
        .takes("Settle"),
    op("POST /api/queues/{topic}/extend", "Hold claims for longer", (200, "Settled")).takes("Extend"),
    op("POST /api/queues/{topic}/{subscription}/claim", "Take due work of a subscription", (200, "Claimed"))
        .takes("Claim"),
    op("POST /api/queues/{topic}/{subscription}/ack", "Items are done", (200, "Settled")).takes("Settle"),
    op("POST /api/queues/{topic}/{subscription}/abandon", "Items go back", (200, "Settled")).takes("Settle"),
    op("POST /api/queues/{topic}/{subscription}/fail", "Items become dead letters", (200, "Settled"))
        .takes("Settle"),
    op("POST /api/queues/{topic}/{subscription}/extend", "Hold claims for longer", (200, "Settled"))
        .takes("Extend"),

    op("GET /api/subscriptions", "All subscriptions, by topic and name", (200, "Subscription[]"))
        .query(&["Topic", "Limit", "Cursor"]),
    op("GET /api/subscriptions/{topic}/{name}", "One subscription, with what waits", (200, "Subscription")),
    op("PUT /api/subscriptions/{topic}/{name}", "Make or change a subscription", (200, "Subscription"))
        .takes("NewSubscription"),
    op("DELETE /api/subscriptions/{topic}/{name}", "Delete a subscription with what waits for it",
        (200, "DeletedSubscription")),

    op("GET /api/dead-letters", "Dead letters, oldest first", (200, "DeadLetter[]"))
        .query(&["Topic", "Subscription", "Limit", "Cursor"]),
    op("GET /api/dead-letters/{id}", "One dead letter, with every attempt", (200, "DeadLetter")),
    op("POST /api/dead-letters/replay", "Put dead letters back to work", (200, "Moved")).takes("Which"),
    op("POST /api/dead-letters/purge", "Delete dead letters for good", (200, "Moved")).takes("Which"),

    op("POST /api/surveys", "Make a survey from its draft", (201, "Survey")).takes("NewSurvey"),
    op("GET /api/surveys", "All surveys", (200, "Survey[]")).query(LIST),
    op("GET /api/surveys/{id}", "One survey, with its draft", (200, "Survey")),
    op("PUT /api/surveys/{id}", "Change the draft of a survey", (200, "Survey")).takes("SurveyChange"),
    op("POST /api/surveys/{id}/publish", "Publish the draft as the next version", (200, "SurveyPublished")),
    op("POST /api/surveys/{id}/unpublish", "Let no event begin it any more", (200, "Survey")),
    op("GET /api/surveys/{id}/versions/{n}", "One version, as it was published", (200, "SurveyVersion")),
    op("GET /api/surveys/{id}/results", "What the answers come to", (200, "SurveyResults")).query(RESULTS),
    op("GET /api/surveys/{id}/comments", "Free-text answers, the newest first", (200, "Comment[]"))
        .query(&["QuestionId", "Version", "TriggerId", "From", "To", "Limit", "Cursor"]),
    op("GET /api/surveys/{id}/responses.csv", "Every answer, a line each", (200, "text/csv")).query(RESULTS),
    op("POST /api/surveys/{id}/triggers/{triggerId}/send", "Send a survey by hand, or see who would get it",
        (200, "SentByHand")).takes("SendByHand"),

    op("POST /api/triggers/ingest", "Events that may begin surveys", (200, "Ingested")).takes("Ingest"),
    op("POST /api/Surveys/Triggers/ingest", "The same", (200, "Ingested")).takes("Ingest"),
    op("POST /api/triggers/explain", "What events would come to, and why; writes nothing",
        (200, "Explanations")).takes("ToExplain"),

    op("GET /api/survey-instances", "Survey instances, the newest first", (200, "SurveyInstance[]"))
        .query(&["SurveyId", "InstanceStatus", "Address", "CustomerRef", "Limit", "Cursor"]),
    op("GET /api/survey-instances/{publicId}", "One instance, with all that was done for it",
        (200, "SurveyInstance")),
    op("DELETE /api/survey-instances/{publicId}", "Delete an instance; its event may come again", (204, "")),
    op("POST /api/survey-instances/{publicId}/cancel", "Withdraw an instance", (200, "SurveyInstance")),

    op("GET /api/jobs", "All jobs, by name", (200, "Job[]")).query(LIST),
    op("GET /api/jobs/{name}", "One job", (200, "Job")),
    op("PUT /api/jobs/{name}", "Make a job, or change it into this", (200, "Job")).takes("NewJob"),
    op("DELETE /api/jobs/{name}", "Delete a job with its runs that wait", (200, "DeletedJob")),
    op("POST /api/jobs/{name}/enable", "Plan a job from now on", (200, "Job")),
    op("POST /api/jobs/{name}/disable", "Plan a job no more", (200, "Job")),
    op("POST /api/jobs/{name}/trigger", "Start a run now, beside the timetable", (202, "Triggered")),
    op("GET /api/jobs/{name}/runs", "Runs of a job, the latest first", (200, "Run[]")).query(LIST),
    op("GET /api/jobs/{name}/next", "When a job is due next, as a preview", (200, "Moments"))
        .query(&["Count"]),

    op("POST /api/timers", "Schedule one timer, or a list of them", (201, "ScheduledTimers"))
        .takes("NewTimers").query(&["Spread"]),
    op("GET /api/timers", "Timers, by the time they are due", (200, "Timer[]"))
        .query(&["Topic", "Key", "CorrelationId", "TimerStatus", "DueFrom", "DueBefore", "Limit", "Cursor"]),
    op("GET /api/timers/{id}", "One timer, and where it stands", (200, "Timer")),
    op("DELETE /api/timers/{id}", "Cancel a timer; says whether it was in time", (200, "TimerCancelled")),
    op("POST /api/timers/{id}/move", "Move a timer; says whether it was in time", (200, "TimerMoved"))
        .takes("TimerMove"),
    op("POST /api/timers/cancel", "Cancel many timers", (200, "TimersChanged")).takes("TimersCancel"),
    op("POST /api/timers/move", "Move many timers", (200, "TimersChanged")).takes("TimersMove"),

    op("GET /api/leases", "All leases by name, held or not", (200, "Lease[]")).query(LIST),
    op("GET /api/leases/{name}", "One lease", (200, "Lease")),
    op("POST /api/leases/{name}/acquire", "Hold a lease, if nobody does", (200, "LeaseAcquired"))
        .takes("LeaseAcquire"),
    op("POST /api/leases/{name}/renew", "Hold a lease for longer; 409 with a stale token", (200, "Lease"))
        .takes("LeaseRenew"),
    op("POST /api/leases/{name}/release", "Give a lease back; 409 with a stale token", (200, "LeaseReleased"))
        .takes("LeaseRelease"),

    op("GET /api/inbox", "Received messages, in the order they came", (200, "InboxMessage[]"))
        .query(&["Source", "InboxStatus", "Limit", "Cursor"]),
    op("POST /api/inbox/begin", "Ask what to do with a received message", (200, "InboxTold"))
        .takes("InboxDelivery"),
    op("POST /api/inbox/complete", "It is processed; 409 with a stale token", (200, "InboxMarked"))
        .takes("InboxMark"),
    op("POST /api/inbox/fail", "It failed; the next delivery tries again", (200, "InboxMarked"))
        .takes("InboxMark"),
    op("POST /api/inbox/dead", "It will never work out", (200, "InboxMarked")).takes("InboxMark"),
    op("POST /api/inbox/replay", "Make dead messages welcome again", (200, "Moved")).takes("InboxWhich"),

    op("GET /api/message-templates", "Message templates, by id", (200, "MessageTemplate[]"))
        .query(&["EventType", "TemplateChannel", "Language", "ScopeType", "ScopeId", "IsActive",
            "Limit", "Cursor"]),
    op("POST /api/message-templates", "Make a message template", (201, "MessageTemplate"))
        .takes("NewMessageTemplate"),
    op("GET /api/message-templates/{id}", "One message template", (200, "MessageTemplate")),
    op("PUT /api/message-templates/{id}", "Make a new version of a template", (200, "MessageTemplate"))
        .takes("NewMessageTemplate"),
    op("DELETE /api/message-templates/{id}",
        "Delete a message template; one that the log refers to is deactivated (200)", (204, ""))
        .or_gives(200, "MessageTemplate"),
    op("POST /api/message-templates/{id}/preview", "What a template says; nothing is sent",
        (200, "MessageTemplatePreview")).may_take("PreviewMessageTemplate"),
    op("GET /api/message-templates/{id}/versions/{n}", "What a version said, also of a deleted template",
        (200, "MessageTemplateVersion")),

    op("GET /api/event-kinds", "Event kinds, by name", (200, "EventKind[]")).query(LIST),
    op("GET /api/event-kinds/{kind}", "One event kind", (200, "EventKind")),
    op("PUT /api/event-kinds/{kind}", "Make an event kind, or change it into this", (200, "EventKind"))
        .takes("NewEventKind"),
    op("DELETE /api/event-kinds/{kind}", "Forget an event kind", (204, "")),

    op("GET /api/entities/{type}/{id}", "The latest known state of an entity", (200, "EntityState")),
    op("PUT /api/entities/{type}/{id}", "Tell the state of an entity; an older version changes nothing",
        (200, "EntityState")).takes("NewEntityState"),
    op("DELETE /api/entities/{type}/{id}", "An entity is gone; 409 if something newer is known", (204, ""))
        .query(&["EntityVersion"]),

    op("GET /api/communication-logs", "Every message to a person, the newest first", (200, "Communication[]"))
        .query(&["BookingId", "EntityType", "EntityId", "LogAddress", "DeliveryStatus", "LogChannel",
            "LogKind", "LogPublicId", "EntryKey", "CorrelationId", "WrittenFrom", "WrittenTo", "Limit",
            "Cursor"]),
    op("GET /api/communication-logs/{id}", "One message, with what its provider answered",
        (200, "Communication")),
    op("GET /api/automation-schedules", "What is done for events, the newest first", (200, "Schedule[]"))
        .query(&["BookingId", "EntityType", "EntityId", "ScheduleKey", "ScheduleStatus", "OnHold", "Limit",
            "Cursor"]),
    op("GET /api/automation-schedules/{id}", "One schedule, with every try", (200, "Schedule")),
    op("GET /api/automation-schedules/{id}/trace", "What happened for it, in words", (200, "ScheduleTrace")),
    op("POST /api/automation-schedules/replay", "Send again what failed", (200, "SchedulesReplayed"))
        .takes("WhichSchedules"),
    op("POST /api/automation-schedules/{id}/hold",
            "Send nothing of it until it is released; 409 when it has ended",
        (200, "Schedule")).takes("ScheduleChange"),
    op("POST /api/automation-schedules/{id}/release", "Let it go on; 409 when it is not on hold",
        (200, "Schedule")).takes("ScheduleChange"),
    op("POST /api/automation-schedules/{id}/retry", "Try now what waits or has failed; 409 when nothing does",
        (200, "Schedule")).takes("ScheduleChange"),
    op("POST /api/automation-schedules/{id}/cancel", "Send nothing more of it; 409 when it has ended",
        (200, "Schedule")).takes("ScheduleChange"),
    op("POST /api/bookings/{id}/resend-notification", "Tell the latest event about a booking again",
        (202, "ResendAccepted")).takes("ResendNotification"),
    op("POST /api/entities/{type}/{id}/resend-notification", "Tell the latest event about an entity again",
        (202, "ResendAccepted")).takes("ResendNotification"),

    op("GET /api/suppressions", "Who is never sent what, by id", (200, "Suppression[]"))
        .query(&["OfAddress", "OfChannel", "OfKind", "Reason", "Lifted", "Limit", "Cursor"]),
    op("POST /api/suppressions", "Never send this address anything, or something; 200 if it was so before",
        (201, "Suppression")).takes("NewSuppression").or_gives(200, "Suppression"),
    op("DELETE /api/suppressions", "Lift suppressions of an address; says which", (200, "LiftedSuppressions"))
        .query(&["OneAddress", "OfChannel", "OfKind"]),
    op("GET /api/recipients/{address}/preferences", "What the owner of an address wants",
        (200, "RecipientPreferences")),
    op("PUT /api/recipients/{address}/preferences", "Replace what the owner of an address wants",
        (200, "RecipientPreferences")).takes("NewRecipientPreferences"),
    op("GET /api/tenant-settings", "Quiet hours and channels for all recipients", (200, "TenantSettings")),
    op("PUT /api/tenant-settings", "Replace quiet hours and channels for all recipients",
        (200, "TenantSettings")).takes("NewTenantSettings"),

    op("GET /u/{token}", "The page of an unsubscribe link; changes nothing", (200, "text/html"))
        .query(&["Lang"]),
    op("POST /u/{token}", "Unsubscribe by one click (RFC 8058); again is as good as once", (200, "text/html"))
        .may_take("UnsubscribeForm").query(&["Lang"]),
    op("GET /webhooks/{provider}", "The greeting that some providers want before they report",
        (200, "text/plain")).query(&["ByChannel"]),
    op("POST /webhooks/{provider}", "What a provider reports of messages; its signature is the credential",
        (200, "")).may_take("ProviderCallback").query(&["ByChannel"]),
    op("GET /s/{publicId}", "The page of a survey; changes nothing", (200, "text/html"))
        .query(&["Lang", "Step"]),
    op("POST /s/{publicId}", "Take one step of the page; leads to the next", (303, ""))
        .takes("SurveyForm").query(&["Lang", "Step"]).or_gives(204, ""),
    op("GET /api/public/survey-instances/{publicId}", "What a link asks, for own front ends", (200, "Visit")),
    op("POST /api/SurveyInstances/{publicId}/opened", "A person has the page open", (204, "")),
    op("POST /api/SurveyInstances/{publicId}/responses",
        "Hand in answers, once; 409 the second time, 410 when it is over", (200, "Completed"))
        .takes("Response"),

    op("POST /api/tenants", "Make a tenant", (201, "Tenant")).takes("NewTenant"),
    op("GET /api/tenants", "All tenants", (200, "Tenant[]")).query(LIST),
    op("POST /api/keys", "Make a key; its secret is shown once", (201, "NewKeyShown")).takes("NewKey"),
    op("GET /api/keys", "The tenant's keys, without their secrets", (200, "Key[]")).query(LIST),
    op("DELETE /api/keys/{id}", "Revoke a key; it stops working within a second", (204, "")),

    op("GET /ops/outbox", "Every message of every tenant, the newest first, and what became of it",
        (200, "OutboxMessage[]"))
        .query(&["OutboxStatus", "WrittenFrom", "WrittenTo", "TenantId", "Topic", "OfKind",
            "Limit", "Cursor"]),
    op("POST /ops/outbox/replay", "Try again what failed, or say what that would be", (200, "OutboxReplayed"))
        .takes("OutboxWhich"),

    op("POST /api/scheduler/tick", "Do everything that is due now", (200, "Ticked"))
        .may_take("Tick"),
    op("GET /dev/clock", "The manual clock", (200, "Clock")),
    op("POST /dev/clock", "Move the manual clock, doing what becomes due on the way", (200, "Clock"))
        .takes("Travel"),
    op("GET /dev/messages", "What the sandbox was given, oldest first", (200, "SandboxInbox"))
        .query(&["Channel", "ToAddress", "Limit", "Cursor"]),
    op("DELETE /dev/messages", "Forget what the sandbox was given", (200, "Deleted"))
        .query(&["Channel", "ToAddress"]),
    op("GET /dev/channels/{key}", "What is left of a sandbox channel's script", (200, "ChannelScript")),
    op("PUT /dev/channels/{key}", "Make the next sends of a sandbox channel go wrong", (200, "ChannelScript"))
        .takes("Script"),

    op("GET /health", "Health with its details; 503 when something is down", (200, "Health")),
    op("GET /health/live", "Whether this process should go on", (200, "Status")),
    op("GET /health/ready", "Whether requests should come here", (200, "Status")),
    op("GET /metrics", "Metrics for Prometheus", (200, "text/plain")),
    op("GET /openapi.json", "This document", (200, "OpenApi")),
    op("GET /docs", "The operations on one page", (200, "text/html")),
];
