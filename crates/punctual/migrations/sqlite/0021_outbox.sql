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
