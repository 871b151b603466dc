-- The baseline: all tables, by domain. `punctual migrate --print` shows it, `schema.sqlite.sql` what it comes to.

-- clock ------------------------------------------------------------------------------
-- The database's clock: times are whole microseconds since 1970, in UTC.

-- The clock that decides what is due. A manual clock is kept here, so that several
-- processes share it; `holder` is the process that is moving it.
create table punctual_clock (
    id         integer    primary key check (id = 1),
    manual     integer    not null default 0 check (manual in (0, 1)),
    now_us     integer not null default 0,
    holder     text,
    held_until integer
);
insert into punctual_clock (id) values (1);

-- access ------------------------------------------------------------------------------
-- Tenants, what they set for all their recipients, keys, secrets, and first answers to requests.

create table punctual_tenant (
    id             integer primary key autoincrement,
    slug           text   not null unique,
    name           text   not null,
    time_zone      text   not null default 'UTC',
    default_locale text   not null default 'en',
    created_at     integer not null
);
insert into punctual_tenant (id, slug, name, created_at) values (1, 'default', 'Default', cast(strftime('%s') as integer) * 1000000);

create table punctual_tenant_setting (
    tenant_id  integer primary key references punctual_tenant,
    document   text    not null,
    updated_at integer not null,
    updated_by text    not null
);

create table punctual_api_key (
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
create index punctual_api_key_by_tenant on punctual_api_key (tenant_id, id);

-- Secrets that the database makes for itself, in hexadecimal: `unsubscribe` seals the links.
create table punctual_secret (
    name    text    primary key,
    value   text    not null,
    made_at integer not null
) without rowid;

-- First answers to requests that carried an Idempotency-Key. Messages of such a request get ids from its token; a
-- request whose outcome is unknown is suspended, and may be carried out again under the same token.
create table punctual_answer (
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
create index punctual_answer_by_time on punctual_answer (asked_at);

-- queue ------------------------------------------------------------------------------
-- Facts (message), the work that waits, claims in flight, and the consumers of topics (lane, route).

-- A queue of one tenant's work. `purpose` says what its items are: messages that one consumer of a topic is owed
-- (dispatch; `subscription` is empty for the topic's own queue), entries that are due (advance) or end if nothing
-- happens to them (expire), deliveries (send; `topic` is the channel). Settings that are null stand at their defaults.
create table punctual_lane (
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

-- Where messages of a topic go now. A message without a route waits in lane 0, which
-- has no row: a host's transaction never has to create anything.
create table punctual_route (
    tenant_id integer  not null,
    topic     text not null,
    lane_id   integer  not null references punctual_lane,
    primary key (tenant_id, topic, lane_id)
);

create table punctual_subscription (
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

-- Topics that some process has a handler for: their own queues are wanted in every tenant.
create table punctual_handled_topic (
    topic text   primary key,
    since integer not null
);

-- What definitions want of a tenant's topics, written by whoever changes a definition, so that routing looks at no
-- definition. A row without a topic is about all of them: level 1 wants events, level 2 also those that surveys publish.
-- A row with a topic takes it: its messages need not wait in the topic's own queue as well.
create table punctual_topic_interest (
    tenant_id integer  not null,
    source    text not null,
    topic     text not null default '',
    level     integer  not null,
    primary key (tenant_id, source, topic)
);

-- Facts. Inserted, never rewritten, dropped by age.
create table punctual_message (
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
create index punctual_message_by_external_id on punctual_message (tenant_id, source, external_id)
    where external_id is not null;

-- Timers in the order they are due, and those of one story. Other messages are not in here.
create index punctual_message_timer on punctual_message (tenant_id, due_at, id, topic)
    where due_at is not null;
create index punctual_message_timer_by_correlation on punctual_message (tenant_id, correlation_id)
    where due_at is not null and correlation_id is not null;

-- Ids that a publisher gave to its messages: the second of a pair is a duplicate. Kept
-- longer than the messages they admitted.
create table punctual_admitted (
    tenant_id   integer    not null,
    source      text   not null,
    external_id text   not null,
    digest      text   not null,
    seen_at     integer not null,
    primary key (tenant_id, source, external_id)
);

-- What is waiting. Narrow, and only there while it waits; inserted and deleted, never
-- updated, as on PostgreSQL. The rows live in the index they are claimed by.
create table punctual_work (
    message_id integer   not null,
    lane_id    integer      not null,
    due_at     integer   not null,
    attempts   integer not null default 0,
    unstarted  integer not null default 0,
    key        text,
    primary key (lane_id, due_at, message_id)
) without rowid;
create index punctual_work_by_key on punctual_work (lane_id, key, due_at, message_id)
    where key is not null;

create trigger punctual_work_is_never_updated before update on punctual_work
begin select raise(abort, 'rows of work are inserted and deleted, never updated'); end;
create trigger punctual_message_is_never_updated before update on punctual_message
begin select raise(abort, 'rows of message are inserted and deleted, never updated'); end;

-- What is in flight: one row per claimed batch. `items` is what was claimed, `open` what
-- of it is not settled yet (null: all of it). A finished claim stays as history. Ids of items are ids of messages,
-- entries or deliveries, as the claim's purpose says: whoever looks for one names the purpose. Of a claim of
-- deliveries the first `mark` items may have been begun, the others were not; null is all of them. `keyed_lanes` are
-- those of its lanes whose provider sends a repeated message once, by the channels of the process that claimed them.
create table punctual_claim (
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
create index punctual_claim_by_lease on punctual_claim (lease_until) where finished_at is null;
create index punctual_claim_by_end on punctual_claim (finished_at) where finished_at is not null;
create index punctual_claim_by_message on punctual_claim (last_id) where purpose = 'dispatch';

-- Messages of one key are handled one at a time: `head` is the one whose turn it is,
-- the others follow in the order they became due.
create table punctual_sequence (
    lane_id integer    not null,
    key     text   not null,
    head    integer not null,
    primary key (lane_id, key)
) without rowid;
create table punctual_follower (
    lane_id    integer      not null,
    key        text     not null,
    due_at     integer   not null,
    message_id integer   not null,
    attempts   integer not null default 0,
    unstarted  integer not null default 0,
    primary key (lane_id, key, due_at, message_id)
) without rowid;

-- What went wrong: one row for every attempt that did not end well.
create table punctual_attempt (
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
create index punctual_attempt_by_message on punctual_attempt (message_id, lane_id, id);

create table punctual_dead_letter (
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
create index punctual_dead_letter_by_tenant on punctual_dead_letter (tenant_id, id);
create index punctual_dead_letter_by_message on punctual_dead_letter (message_id);

-- `due_at` is where the timer stands now: the time it was moved to, or the one it was
-- cancelled at. The change with the highest id counts.
create table punctual_timer_change (
    id         integer primary key autoincrement,
    tenant_id  integer not null,
    message_id integer not null,
    at         integer not null,
    due_at     integer not null,
    cancelled  integer not null check (cancelled in (0, 1))
);
create index punctual_timer_change_by_message on punctual_timer_change (tenant_id, message_id, id);
create index punctual_timer_change_by_due on punctual_timer_change (tenant_id, due_at, message_id);

-- One row per received message. `token` belongs to whoever was last told to process it;
-- it holds until somebody else is. `failed` waits for the next delivery.
create table punctual_inbox (
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
create index punctual_inbox_by_status on punctual_inbox (status, tenant_id, id);
create index punctual_inbox_by_lease on punctual_inbox (lease_until) where status = 'processing';
create index punctual_inbox_by_end on punctual_inbox (status, finished_at)
    where finished_at is not null;

-- jobs ------------------------------------------------------------------------------
-- Leases with one holder at a time, and work that is due again and again.

-- One row per name, deleted long after its lease ended. The fencing token grows with each acquisition and
-- never begins anew: the floor of a tenant is the greatest token that was deleted. A lease is held while it
-- is not released and `lease_until` lies ahead.
create table punctual_lease (
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
create index punctual_lease_by_acquired on punctual_lease (acquired_at);
create table punctual_lease_floor (
    tenant_id integer primary key,
    token     integer not null
);

create table punctual_job (
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
create index punctual_job_by_due on punctual_job (next_due) where next_due is not null;

-- A run outlives its job. `planned` is 0 for one that somebody triggered: of the others there is
-- one for each occurrence, however many planners there are.
create table punctual_run (
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
create unique index punctual_run_by_occurrence on punctual_run (job_id, scheduled_at) where planned = 1;
create index punctual_run_by_job on punctual_run (job_id, id);
-- Whatever is asked often is asked of few rows: what is going on, what waits, what failed.
create index punctual_run_open on punctual_run (message_id) where open > 0;
create index punctual_run_going on punctual_run (job_id) where open > 0;
create index punctual_run_queued on punctual_run (job_id, id) where status = 'queued';
create index punctual_run_failed on punctual_run (message_id) where status = 'failed';
create index punctual_run_by_end on punctual_run (ended_at) where ended_at is not null;

-- flow ------------------------------------------------------------------------------
-- Definitions with their versions, event kinds, entities, and entries: each occurrence of a trigger.

-- A definition. The draft is edited; versions are facts. `hears` says which messages may begin or stop entries of the
-- published version: none (0), events (1), or also what surveys tell (2).
-- `removed_…` count what retention has dropped, so that results can say so.
create table punctual_flow (
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
create index punctual_flow_by_tenant on punctual_flow (tenant_id, id);

create table punctual_flow_version (
    flow_id      integer not null references punctual_flow,
    number       integer    not null,
    definition   text   not null,
    published_at integer not null,
    primary key (flow_id, number)
);
create trigger punctual_flow_version_is_a_fact before update on punctual_flow_version
begin
    select raise(abort, 'a published version is never changed');
end;

-- Rises with everything that changes what an event may trigger in a tenant: what a process has read
-- before is valid while the stamp is the same.
create table punctual_flow_stamp (
    tenant_id integer    primary key,
    stamp     integer not null
);

-- Kinds of events: how an event names its recipients, what its templates can name, when a message about
-- it is pointless. One document for each kind.
create table punctual_event_kind (
    tenant_id  integer not null references punctual_tenant,
    kind       text    not null,
    version    integer not null default 1,
    document   text    not null,
    created_at integer not null,
    updated_at integer not null,
    primary key (tenant_id, kind)
) without rowid;

-- Rises with every change of a tenant's kinds, so that who keeps them in memory sees it.
create table punctual_event_kind_stamp (
    tenant_id integer primary key references punctual_tenant,
    stamp     integer not null
);

-- The latest known state of what events are about. A deleted one keeps its row without its state: that it
-- is gone is known, and an older state does not bring it back.
create table punctual_entity (
    tenant_id  integer not null references punctual_tenant,
    type       text    not null,
    id         text    not null,
    version    integer,
    state      text,
    updated_at integer not null,
    deleted_at integer,
    primary key (tenant_id, type, id)
);

-- One occurrence of a trigger, whatever its kind: a survey for one person, or what an event means for the people it is
-- about. A notification has a cause (`message_id`) and one row for each event, or for each request of a person
-- (`request_id`); a survey has a recipient and a public id. `key` is what makes it unique, as text: the digest of a
-- survey's recipe, `event:{message}` or `manual:{request}`; `entry_key` decides. `listeners` are the
-- subscriptions that its survey lists for it, as JSON; null is every one. `due_at` is when the next send of a survey is
-- due. `open` counts sends that have not ended, the one that is planned next included; `sent` and `failed` count those
-- that have. Numbers of statuses are those of `flow/rules/entry.rs`. `input_hash` is the digest of
-- what the entry was made of, `local_date` and `time_zone` say on which local day it was due. `person_id`, `not_after`,
-- `cursor` and `attempts` are for kinds that are not there yet.
-- What is updated is in no index, and a page has room for all its entries once more, so that an update stays on it.
-- Indexes begin with what tells entries apart.
create table punctual_entry (
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
create index punctual_entry_by_message on punctual_entry (message_id) where message_id is not null;
create index punctual_entry_by_public_id on punctual_entry (public_high) where public_high is not null;
create index punctual_entry_by_flow on punctual_entry (flow_id, id) where flow_id is not null;
create index punctual_entry_by_entity on punctual_entry (entity_id, entity_type, tenant_id) where entity_id is not null;
create index punctual_entry_by_address on punctual_entry (address, tenant_id) where address is not null;
create index punctual_entry_by_customer on punctual_entry (customer_ref, tenant_id) where customer_ref is not null;
create index punctual_entry_by_correlation on punctual_entry (correlation_id, tenant_id) where correlation_id is not null;

-- Changes of an entry that its deliveries and answers do not show: holds, releases, retries, endings. `detail` is for
-- conflicts with both inputs. Never changed.
create table punctual_entry_history (
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
create index punctual_entry_history_by_entry on punctual_entry_history (entry_id, id);

-- What was loaded and resolved for an entry when it was planned or advanced, as JSON, for support. Goes earlier than
-- its entry.
create table punctual_entry_trace (
    id        integer primary key autoincrement,
    tenant_id integer not null,
    entry_id  integer not null,
    at        integer not null,
    step      text not null,
    detail    text not null
);
create index punctual_entry_trace_by_entry on punctual_entry_trace (entry_id, id);

-- The key of every entry, as the first half of a SHA-256: its primary key lets one entry of a key through. It outlives
-- its entry, so that an event which comes again is answered with what it duplicates; only deleting the entry frees it.
create table punctual_entry_key (
    tenant_id   integer not null,
    key_high    integer not null,
    key_low     integer not null,
    entry_id    integer not null,
    public_high integer,
    public_low  integer,
    made_at     integer not null,
    primary key (key_high, key_low, tenant_id)
);
create index punctual_entry_key_by_time on punctual_entry_key (made_at);

-- An answer. `told` are the subscriptions that its message went to.
create table punctual_response (
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
create index punctual_response_by_flow on punctual_response (tenant_id, flow_id, completed_at);

-- What somebody has filled in and not sent yet.
create table punctual_progress (
    entry_id integer primary key,
    answers  text   not null,
    at       integer not null
);

-- delivery ------------------------------------------------------------------------------
-- Templates, consent, messages to people with every try, and what providers told of them later.

create table punctual_message_template (
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
create index punctual_message_template_by_event on punctual_message_template (tenant_id, event_type)
    where deleted_at is null;

-- A version is never changed: editing makes the next one.
create table punctual_message_template_version (
    template_id integer not null references punctual_message_template,
    number      integer not null,
    definition  text    not null,
    created_at  integer not null,
    primary key (template_id, number)
) without rowid;
create trigger punctual_message_template_version_is_never_updated
before update on punctual_message_template_version
begin select raise(abort, 'rows of message_template_version are inserted and deleted, never updated'); end;

-- Rises with every change of a tenant's templates, so that who keeps them in memory sees it.
create table punctual_template_stamp (
    tenant_id integer primary key references punctual_tenant,
    stamp     integer not null
);

-- '' in `channel` is every channel, in `kind` every kind of event. A row that was lifted stays: it
-- says from when to when somebody was not to be written to, and by whose word. `told_at` is when the recipient last said
-- it: an older resumption does not lift it.
create table punctual_suppression (
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
create unique index punctual_suppression_in_force on punctual_suppression (tenant_id, address, channel, kind)
    where lifted_at is null;
create index punctual_suppression_by_tenant on punctual_suppression (tenant_id, id);

create table punctual_recipient_preference (
    tenant_id  integer not null references punctual_tenant,
    address    text    not null,
    person_id  text,
    document   text    not null,
    updated_at integer not null,
    updated_by text    not null,
    primary key (tenant_id, address)
) without rowid;

-- Tenants that ever had any of these: for all others a sender asks nothing.
create table punctual_consent_tenant (
    tenant_id integer primary key references punctual_tenant
);

-- What is reserved for a process of the limits of a channel; the row without a holder is the lock of its channel. Belongs
-- to no tenant, as a channel does not.
create table punctual_channel_share (
    channel     text    not null,
    holder      text    not null,
    per_second  integer not null,
    in_flight   integer not null,
    lease_until integer not null,
    primary key (channel, holder)
);

-- One message to one address by one channel and template; `send` is the number of the send, 1 for the first and n + 1 for
-- the nth reminder. `held` is set while its entry is on hold. Tries count from 0 again when it is replayed or moved; those
-- before are remembered, so that every try has a number of its own. `not_after`, `carried_by`
-- and `person_id` are for digests, for messages that are too late, and for erasure: not written yet.
create table punctual_delivery (
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
create index punctual_delivery_by_entry on punctual_delivery (entry_id);
create index punctual_delivery_by_address on punctual_delivery (address, tenant_id);

-- The key of every delivery that may have gone out or still may, as the first half of a SHA-256: its primary key lets one
-- delivery of a key through. A delivery that is skipped when it is written has no row here; one that is skipped later
-- gives it back, unless a try may have gone out. A key outlives its delivery.
create table punctual_delivery_key (
    tenant_id   integer not null,
    key_high    integer not null,
    key_low     integer not null,
    delivery_id integer not null,
    made_at     integer not null,
    primary key (key_high, key_low, tenant_id)
);
create index punctual_delivery_key_by_time on punctual_delivery_key (made_at);

-- A try of a delivery, with its outcome and the provider it was handed to. Never changed. Number 0 says why there was no
-- try yet, -1 why there never was one.
create table punctual_delivery_attempt (
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
create trigger punctual_delivery_attempt_is_never_updated before update on punctual_delivery_attempt
begin select raise(abort, 'rows of delivery_attempt are inserted and deleted, never updated'); end;

-- A delivery is found by the id that its provider gave a try of it.
create index punctual_delivery_attempt_by_provider on punctual_delivery_attempt (provider_id) where provider_id is not null;

-- A provider's word on one delivery. Never changed.
create table punctual_receipt (
    id          integer primary key autoincrement,
    tenant_id   integer not null,
    delivery_id integer not null,
    at          integer not null,
    status      text    not null check (status in ('delivered', 'read', 'bounced', 'failed', 'stopped', 'resumed')),
    said        text    not null,
    error       text
);
create index punctual_receipt_by_delivery on punctual_receipt (delivery_id);
create trigger punctual_receipt_is_never_updated before update on punctual_receipt
begin select raise(abort, 'rows of receipt are inserted and deleted, never updated'); end;

-- What was told of a message that nobody knows yet: its provider was faster than the commit of its answer. It
-- belongs to no tenant until the message is found, and goes when it is, or when it is too old.
create table punctual_early_receipt (
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
create unique index punctual_early_receipt_by_key on punctual_early_receipt (key, provider);
create index punctual_early_receipt_by_look on punctual_early_receipt (look_at);

create table punctual_resumption (
    source text    not null,
    key    text    not null,
    at     integer not null,
    primary key (source, key)
) without rowid;
