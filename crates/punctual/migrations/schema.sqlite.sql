-- What all migrations add up to, for reading. A test keeps it so; nobody runs it.

CREATE TABLE punctual_admitted (
    tenant_id   integer    not null,
    source      text   not null,
    external_id text   not null,
    digest      text   not null,
    seen_at     integer not null,
    primary key (tenant_id, source, external_id)
);

CREATE TABLE punctual_answer (
    tenant_id       integer    not null,
    idempotency_key text   not null,
    digest          text   not null,
    asked_at        integer not null,
    status          integer,
    body            text,
    token           text,
    suspended       integer not null default 0,
    primary key (tenant_id, idempotency_key)
);

CREATE INDEX punctual_answer_by_time on punctual_answer (asked_at);

CREATE TABLE punctual_api_key (
    id           integer primary key autoincrement,
    tenant_id    integer    not null references punctual_tenant,
    name         text   not null,
    role         text   not null check (role in ('metrics', 'viewer', 'support', 'author', 'admin', 'ops')),
    prefix       text   not null,
    digest       text   not null unique,
    created_at   integer not null,
    expires_at   integer,
    last_used_at integer,
    revoked_at   integer
);

CREATE INDEX punctual_api_key_by_tenant on punctual_api_key (tenant_id, id);

CREATE TABLE punctual_attempt (
    id         integer primary key autoincrement,
    message_id integer not null,
    lane_id    integer    not null,
    number     integer    not null,
    at         integer not null,
    owner      text   not null,
    outcome    text   not null check (outcome in ('abandoned', 'failed', 'reaped', 'snoozed')),
    error      text   not null,
    reason_class text,
    next_due   integer
);

CREATE INDEX punctual_attempt_by_message on punctual_attempt (message_id, lane_id, id);

CREATE TABLE punctual_channel_share (
    channel     text    not null,
    holder      text    not null,
    per_second  integer not null,
    in_flight   integer not null,
    lease_until integer not null,
    primary key (channel, holder)
);

CREATE TABLE punctual_claim (
    token       text   primary key,
    purpose     text   not null default 'dispatch',
    owner       text   not null,
    claimed_at  integer not null,
    lease_until integer not null,
    started     integer    not null default 0 check (started in (0, 1)),
    items       text   not null,
    open        text,
    first_id    integer not null,
    last_id     integer not null,
    mark        integer,
    keyed_lanes text,
    finished_at integer,
    ending      text check (ending in ('settled', 'reaped')),
    check ((finished_at is null) = (ending is null))
);

CREATE INDEX punctual_claim_by_end on punctual_claim (finished_at) where finished_at is not null;

CREATE INDEX punctual_claim_by_lease on punctual_claim (lease_until) where finished_at is null;

CREATE INDEX punctual_claim_by_message on punctual_claim (last_id) where purpose = 'dispatch';

CREATE TABLE punctual_clock (
    id         integer    primary key check (id = 1),
    manual     integer    not null default 0 check (manual in (0, 1)),
    now_us     integer not null default 0,
    holder     text,
    held_until integer
);

CREATE TABLE punctual_consent_tenant (
    tenant_id integer primary key references punctual_tenant
);

CREATE TABLE punctual_dead_letter (
    id         integer primary key autoincrement,
    tenant_id  integer    not null,
    lane_id    integer    not null references punctual_lane,
    message_id integer not null,
    key        text,
    attempts   integer    not null,
    died_at    integer not null,
    error      text   not null,
    reason_class text,
    unique (lane_id, message_id)
);

CREATE INDEX punctual_dead_letter_by_message on punctual_dead_letter (message_id);

CREATE INDEX punctual_dead_letter_by_tenant on punctual_dead_letter (tenant_id, id);

CREATE TABLE punctual_delivery (
    id               integer primary key autoincrement,
    tenant_id        integer not null,
    entry_id         integer not null,
    idempotency_key  text not null,
    lane_id          integer not null,
    channel          text not null,
    address          text not null,
    send             integer not null default 1,
    part             integer not null,
    template_id      integer not null,
    template_version integer not null,
    status           integer not null default 0 check (status between 0 and 5),
    held             integer not null default 0,
    error            text,
    provider_id      text,
    tries            integer not null default 0,
    tried_before     integer not null default 0,
    replaced_by      integer,
    carried_by       integer,
    not_after        integer,
    created_at       integer not null,
    due_at           integer,
    sent_at          integer,
    version          integer not null default 1,
    recipient        text,
    recipient_ref    text,
    person_id        text
);

CREATE INDEX punctual_delivery_by_address on punctual_delivery (address, tenant_id);

CREATE INDEX punctual_delivery_by_entry on punctual_delivery (entry_id);

CREATE TABLE punctual_delivery_attempt (
    delivery_id integer not null,
    tried       integer not null,
    at          integer not null,
    outcome     text not null check (outcome in
        ('sent', 'transient', 'permanent', 'timeout', 'unknown', 'no-channel', 'skipped')),
    reason      text,
    reason_class text,
    provider    text,
    provider_id text,
    error       text,
    answer      text,
    warnings    text,
    primary key (delivery_id, tried)
);

CREATE INDEX punctual_delivery_attempt_by_provider on punctual_delivery_attempt (provider_id) where provider_id is not null;

CREATE TRIGGER punctual_delivery_attempt_is_never_updated before update on punctual_delivery_attempt
begin select raise(abort, 'rows of delivery_attempt are inserted and deleted, never updated'); end;

CREATE TABLE punctual_delivery_key (
    tenant_id   integer not null,
    key_high    integer not null,
    key_low     integer not null,
    delivery_id integer not null,
    made_at     integer not null,
    primary key (key_high, key_low, tenant_id)
);

CREATE INDEX punctual_delivery_key_by_time on punctual_delivery_key (made_at);

CREATE TABLE punctual_early_receipt (
    id          integer primary key autoincrement,
    provider    text    not null,
    channels    text    not null,
    key         text    not null,
    message_id  text    not null,
    address     text,
    status      text    not null,
    said        text    not null,
    error       text,
    event_id    text,
    received_at integer not null,
    look_at     integer not null,
    occurred_at integer
);

CREATE UNIQUE INDEX punctual_early_receipt_by_key on punctual_early_receipt (key, provider);

CREATE INDEX punctual_early_receipt_by_look on punctual_early_receipt (look_at);

CREATE TABLE punctual_entity (
    tenant_id  integer not null references punctual_tenant,
    type       text    not null,
    id         text    not null,
    version    integer,
    state      text,
    updated_at integer not null,
    deleted_at integer,
    primary key (tenant_id, type, id)
);

CREATE TABLE punctual_entry (
    id             integer primary key autoincrement,
    tenant_id      integer not null,
    kind           text not null check (kind in
        ('survey', 'notification', 'reminder', 'report', 'userMessage')),
    event_kind     text not null,
    message_id     integer,
    request_id     text,
    triggered_by   text not null,
    entity_type    text,
    entity_id      text,
    correlation_id text,
    flow_id        integer,
    number         integer,
    trigger_id     text,
    public_high    integer,
    public_low     integer,
    key            text not null,
    listeners      text,
    channel        text,
    address        text,
    locale         text,
    customer_ref   text,
    person_id      text,
    input_hash     text,
    status         integer not null default 0 check (status between 0 and 7),
    reason         text,
    error          text,
    lane_id        integer,
    due_at         integer,
    local_date     text,
    time_zone      text,
    cursor         text,
    attempts       integer not null default 0,
    not_after      integer,
    held_at        integer,
    held_by        text,
    hold_reason    text,
    grace_us       integer,
    reminders      integer not null default 0,
    remaining      integer not null default 0,
    open           integer not null default 0,
    sent           integer not null default 0,
    failed         integer not null default 0,
    created_at     integer not null,
    last_sent_at   integer,
    opened_at      integer,
    completed_at   integer,
    ended_at       integer,
    deleted_at     integer,
    version        integer not null default 1
);

CREATE INDEX punctual_entry_by_address on punctual_entry (address, tenant_id) where address is not null;

CREATE INDEX punctual_entry_by_correlation on punctual_entry (correlation_id, tenant_id) where correlation_id is not null;

CREATE INDEX punctual_entry_by_customer on punctual_entry (customer_ref, tenant_id) where customer_ref is not null;

CREATE INDEX punctual_entry_by_entity on punctual_entry (entity_id, entity_type, tenant_id) where entity_id is not null;

CREATE INDEX punctual_entry_by_flow on punctual_entry (flow_id, id) where flow_id is not null;

CREATE INDEX punctual_entry_by_message on punctual_entry (message_id) where message_id is not null;

CREATE INDEX punctual_entry_by_public_id on punctual_entry (public_high) where public_high is not null;

CREATE TABLE punctual_entry_history (
    id          integer primary key autoincrement,
    tenant_id   integer not null,
    entry_id    integer not null,
    at          integer not null,
    action      text not null,
    from_status text not null,
    to_status   text not null,
    actor       text not null,
    reason      text not null,
    cause       text,
    detail      text
);

CREATE INDEX punctual_entry_history_by_entry on punctual_entry_history (entry_id, id);

CREATE TABLE punctual_entry_key (
    tenant_id   integer not null,
    key_high    integer not null,
    key_low     integer not null,
    entry_id    integer not null,
    public_high integer,
    public_low  integer,
    made_at     integer not null,
    primary key (key_high, key_low, tenant_id)
);

CREATE INDEX punctual_entry_key_by_time on punctual_entry_key (made_at);

CREATE TABLE punctual_entry_trace (
    id        integer primary key autoincrement,
    tenant_id integer not null,
    entry_id  integer not null,
    at        integer not null,
    step      text not null,
    detail    text not null
);

CREATE INDEX punctual_entry_trace_by_entry on punctual_entry_trace (entry_id, id);

CREATE TABLE punctual_event_kind (
    tenant_id  integer not null references punctual_tenant,
    kind       text    not null,
    version    integer not null default 1,
    document   text    not null,
    created_at integer not null,
    updated_at integer not null,
    primary key (tenant_id, kind)
) without rowid;

CREATE TABLE punctual_event_kind_stamp (
    tenant_id integer primary key references punctual_tenant,
    stamp     integer not null
);

CREATE TABLE punctual_flow (
    id              integer primary key autoincrement,
    tenant_id       integer not null references punctual_tenant,
    kind            text   not null default 'survey',
    name            text    not null,
    integration_id  text,
    draft           text    not null,
    published       integer,
    created_at      integer not null,
    updated_at      integer not null,
    deleted_at      integer,
    removed_entries integer not null default 0,
    removed_answers integer not null default 0
);

CREATE INDEX punctual_flow_by_tenant on punctual_flow (tenant_id, id);

CREATE TABLE punctual_flow_stamp (
    tenant_id integer    primary key,
    stamp     integer not null
);

CREATE TABLE punctual_flow_version (
    flow_id      integer not null references punctual_flow,
    number       integer    not null,
    definition   text   not null,
    published_at integer not null,
    primary key (flow_id, number)
);

CREATE TRIGGER punctual_flow_version_is_a_fact before update on punctual_flow_version
begin
    select raise(abort, 'a published version is never changed');
end;

CREATE TABLE punctual_follower (
    lane_id    integer      not null,
    key        text     not null,
    due_at     integer   not null,
    message_id integer   not null,
    attempts   integer not null default 0,
    unstarted  integer not null default 0,
    primary key (lane_id, key, due_at, message_id)
) without rowid;

CREATE TABLE punctual_handled_topic (
    topic text   primary key,
    since integer not null
);

CREATE TABLE punctual_inbox (
    id           integer primary key autoincrement,
    tenant_id    integer not null,
    source       text    not null,
    message_id   text    not null,
    hash         text,
    status       text    not null check (status in ('processing', 'processed', 'failed', 'dead')),
    token        text    not null,
    attempts     integer not null check (attempts >= 0),
    max_attempts integer not null check (max_attempts > 0),
    lease_until  integer not null,
    first_seen   integer not null,
    last_seen    integer not null,
    finished_at  integer,
    error        text,
    unique (tenant_id, source, message_id),
    check ((finished_at is null) = (status = 'processing'))
);

CREATE INDEX punctual_inbox_by_end on punctual_inbox (status, finished_at)
    where finished_at is not null;

CREATE INDEX punctual_inbox_by_lease on punctual_inbox (lease_until) where status = 'processing';

CREATE INDEX punctual_inbox_by_status on punctual_inbox (status, tenant_id, id);

CREATE TABLE punctual_job (
    id         integer primary key autoincrement,
    tenant_id  integer not null references punctual_tenant,
    name       text   not null,
    topic      text   not null,
    cron       text   not null,
    time_zone  text   not null,
    payload    text   not null,
    enabled    integer not null check (enabled in (0, 1)),
    misfire    text   not null check (misfire in ('runOnce', 'runAll', 'skip')),
    overlap    text   not null check (overlap in ('allow', 'skip', 'queue')),
    next_due   integer,
    version    integer not null default 1,
    created_at integer not null,
    updated_at integer not null,
    unique (tenant_id, name)
);

CREATE INDEX punctual_job_by_due on punctual_job (next_due) where next_due is not null;

CREATE TABLE punctual_lane (
    id           integer primary key autoincrement,
    tenant_id    integer    not null references punctual_tenant,
    purpose      text   not null default 'dispatch' check (purpose in ('dispatch', 'advance', 'send', 'expire')),
    topic        text   not null,
    subscription text   not null default '',
    declared     integer    not null default 0 check (declared in (0, 1)),
    paused       integer    not null default 0 check (paused in (0, 1)),
    max_attempts integer    check (max_attempts > 0),
    backoff      text,
    retention_us integer check (retention_us > 0),
    dead_head    text   not null default 'block' check (dead_head in ('block', 'pass')),
    created_at   integer not null,
    unique (tenant_id, topic, subscription, purpose),
    check (id > 0)
);

CREATE TABLE punctual_lease (
    tenant_id   integer not null,
    name        text    not null,
    owner       text    not null,
    token       integer not null check (token > 0),
    acquired_at integer not null,
    renewed_at  integer not null,
    lease_until integer not null,
    released_at integer,
    primary key (tenant_id, name)
) without rowid;

CREATE INDEX punctual_lease_by_acquired on punctual_lease (acquired_at);

CREATE TABLE punctual_lease_floor (
    tenant_id integer primary key,
    token     integer not null
);

CREATE TABLE punctual_message (
    id             integer primary key autoincrement,
    tenant_id      integer    not null,
    topic          text   not null,
    kind           text   not null,
    payload        text   not null,
    created_at     integer not null,
    due_at         integer,
    occurred_at    integer,
    key            text,
    entity_type    text,
    entity_id      text,
    correlation_id text,
    headers        text,
    source         text,
    external_id    text,
    schema_version text,
    sealed         text
);

CREATE INDEX punctual_message_by_external_id on punctual_message (tenant_id, source, external_id)
    where external_id is not null;

CREATE TRIGGER punctual_message_is_never_updated before update on punctual_message
begin select raise(abort, 'rows of message are inserted and deleted, never updated'); end;

CREATE INDEX punctual_message_timer on punctual_message (tenant_id, due_at, id, topic)
    where due_at is not null;

CREATE INDEX punctual_message_timer_by_correlation on punctual_message (tenant_id, correlation_id)
    where due_at is not null and correlation_id is not null;

CREATE TABLE punctual_message_template (
    id         integer primary key autoincrement,
    tenant_id  integer not null references punctual_tenant,
    event_type text    not null,
    channel    text    not null,
    language   text    not null,
    scope_type text,
    scope_id   text,
    version    integer not null default 1,
    active     integer not null check (active in (0, 1)),
    created_at integer not null,
    updated_at integer not null,
    deleted_at integer
);

CREATE INDEX punctual_message_template_by_event on punctual_message_template (tenant_id, event_type)
    where deleted_at is null;

CREATE TABLE punctual_message_template_version (
    template_id integer not null references punctual_message_template,
    number      integer not null,
    definition  text    not null,
    created_at  integer not null,
    primary key (template_id, number)
) without rowid;

CREATE TRIGGER punctual_message_template_version_is_never_updated
before update on punctual_message_template_version
begin select raise(abort, 'rows of message_template_version are inserted and deleted, never updated'); end;

CREATE TABLE punctual_migration (
    component text not null, version integer not null, name text not null, checksum text not null, applied_at integer not null,
    primary key (component, version)
);

CREATE TABLE punctual_progress (
    entry_id integer primary key,
    answers  text   not null,
    at       integer not null
);

CREATE TABLE punctual_receipt (
    id          integer primary key autoincrement,
    tenant_id   integer not null,
    delivery_id integer not null,
    at          integer not null,
    status      text    not null check (status in ('delivered', 'read', 'bounced', 'failed', 'stopped', 'resumed')),
    said        text    not null,
    error       text
);

CREATE INDEX punctual_receipt_by_delivery on punctual_receipt (delivery_id);

CREATE TRIGGER punctual_receipt_is_never_updated before update on punctual_receipt
begin select raise(abort, 'rows of receipt are inserted and deleted, never updated'); end;

CREATE TABLE punctual_recipient_preference (
    tenant_id  integer not null references punctual_tenant,
    address    text    not null,
    person_id  text,
    document   text    not null,
    updated_at integer not null,
    updated_by text    not null,
    primary key (tenant_id, address)
) without rowid;

CREATE TABLE punctual_response (
    entry_id     integer primary key,
    tenant_id    integer    not null,
    flow_id      integer not null,
    number       integer    not null,
    trigger_id   text   not null,
    answers      text   not null,
    meta         text,
    completed_at integer not null,
    message_id   integer not null,
    told         text   not null
);

CREATE INDEX punctual_response_by_flow on punctual_response (tenant_id, flow_id, completed_at);

CREATE TABLE punctual_resumption (
    source text    not null,
    key    text    not null,
    at     integer not null,
    primary key (source, key)
) without rowid;

CREATE TABLE punctual_route (
    tenant_id integer  not null,
    topic     text not null,
    lane_id   integer  not null references punctual_lane,
    primary key (tenant_id, topic, lane_id)
);

CREATE TABLE punctual_run (
    id           integer primary key autoincrement,
    tenant_id    integer not null,
    job_id       integer not null,
    planned      integer not null check (planned in (0, 1)),
    scheduled_at integer not null,
    status       text   not null check (status in ('pending', 'queued', 'succeeded', 'failed', 'skipped')),
    message_id   integer,
    open         integer not null default 0 check (open >= 0),
    started_at   integer,
    ended_at     integer,
    attempts     integer not null default 0,
    claimed_by   text,
    output       text,
    last_error   text
);

CREATE INDEX punctual_run_by_end on punctual_run (ended_at) where ended_at is not null;

CREATE INDEX punctual_run_by_job on punctual_run (job_id, id);

CREATE UNIQUE INDEX punctual_run_by_occurrence on punctual_run (job_id, scheduled_at) where planned = 1;

CREATE INDEX punctual_run_failed on punctual_run (message_id) where status = 'failed';

CREATE INDEX punctual_run_going on punctual_run (job_id) where open > 0;

CREATE INDEX punctual_run_open on punctual_run (message_id) where open > 0;

CREATE INDEX punctual_run_queued on punctual_run (job_id, id) where status = 'queued';

CREATE TABLE punctual_secret (
    name    text    primary key,
    value   text    not null,
    made_at integer not null
) without rowid;

CREATE TABLE punctual_sequence (
    lane_id integer    not null,
    key     text   not null,
    head    integer not null,
    primary key (lane_id, key)
) without rowid;

CREATE TABLE punctual_subscription (
    tenant_id  integer not null references punctual_tenant,
    topic      text   not null,
    name       text   not null,
    lane_id    integer not null unique references punctual_lane,
    target     text   not null,
    handler    text,
    filter     text,
    enabled    integer not null check (enabled in (0, 1)),
    created_at integer not null,
    updated_at integer not null,
    primary key (tenant_id, topic, name)
);

CREATE TABLE punctual_suppression (
    id        integer primary key autoincrement,
    tenant_id integer not null references punctual_tenant,
    address   text    not null,
    person_id text,
    channel   text    not null,
    kind      text    not null,
    reason    text    not null check (reason in ('hard-bounce', 'stop', 'unsubscribe', 'manual')),
    since     integer not null,
    made_by   text    not null,
    lifted_at integer,
    lifted_by text,
    told_at   integer not null,
    check ((lifted_at is null) = (lifted_by is null))
);

CREATE INDEX punctual_suppression_by_tenant on punctual_suppression (tenant_id, id);

CREATE UNIQUE INDEX punctual_suppression_in_force on punctual_suppression (tenant_id, address, channel, kind)
    where lifted_at is null;

CREATE TABLE punctual_template_stamp (
    tenant_id integer primary key references punctual_tenant,
    stamp     integer not null
);

CREATE TABLE punctual_tenant (
    id             integer primary key autoincrement,
    slug           text   not null unique,
    name           text   not null,
    time_zone      text   not null default 'UTC',
    default_locale text   not null default 'en',
    created_at     integer not null
);

CREATE TABLE punctual_tenant_setting (
    tenant_id  integer primary key references punctual_tenant,
    document   text    not null,
    updated_at integer not null,
    updated_by text    not null
);

CREATE TABLE punctual_timer_change (
    id         integer primary key autoincrement,
    tenant_id  integer not null,
    message_id integer not null,
    at         integer not null,
    due_at     integer not null,
    cancelled  integer not null check (cancelled in (0, 1))
);

CREATE INDEX punctual_timer_change_by_due on punctual_timer_change (tenant_id, due_at, message_id);

CREATE INDEX punctual_timer_change_by_message on punctual_timer_change (tenant_id, message_id, id);

CREATE TABLE punctual_topic_interest (
    tenant_id integer  not null,
    source    text not null,
    topic     text not null default '',
    level     integer  not null,
    primary key (tenant_id, source, topic)
);

CREATE TABLE punctual_work (
    message_id integer   not null,
    lane_id    integer      not null,
    due_at     integer   not null,
    attempts   integer not null default 0,
    unstarted  integer not null default 0,
    key        text,
    primary key (lane_id, due_at, message_id)
) without rowid;

CREATE INDEX punctual_work_by_key on punctual_work (lane_id, key, due_at, message_id)
    where key is not null;

CREATE TRIGGER punctual_work_is_never_updated before update on punctual_work
begin select raise(abort, 'rows of work are inserted and deleted, never updated'); end;
