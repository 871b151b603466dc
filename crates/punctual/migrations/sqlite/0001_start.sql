-- The start: facts (message), what is waiting (work), what is in flight (claim), and who
-- consumes what (lane, route). Times are whole microseconds since 1970, in UTC.

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

create table punctual_tenant (
    id             integer primary key autoincrement,
    slug           text   not null unique,
    name           text   not null,
    time_zone      text   not null default 'UTC',
    default_locale text   not null default 'en',
    created_at     integer not null
);
insert into punctual_tenant (id, slug, name, created_at) values (1, 'default', 'Default', cast(strftime('%s') as integer) * 1000000);

create table punctual_api_key (
    id           integer primary key autoincrement,
    tenant_id    integer    not null references punctual_tenant,
    name         text   not null,
    role         text   not null check (role in ('viewer', 'support', 'author', 'admin', 'ops')),
    prefix       text   not null,
    digest       text   not null unique,
    created_at   integer not null,
    expires_at   integer,
    last_used_at integer,
    revoked_at   integer
);
create index punctual_api_key_by_tenant on punctual_api_key (tenant_id, id);

-- What one consumer of one topic owes for one tenant. `subscription` is empty for the
-- topic's own queue. Settings that are null stand at their defaults.
create table punctual_lane (
    id           integer primary key autoincrement,
    tenant_id    integer    not null references punctual_tenant,
    topic        text   not null,
    subscription text   not null default '',
    declared     integer    not null default 0 check (declared in (0, 1)),
    paused       integer    not null default 0 check (paused in (0, 1)),
    max_attempts integer    check (max_attempts > 0),
    backoff      text,
    retention_us integer check (retention_us > 0),
    dead_head    text   not null default 'block' check (dead_head in ('block', 'pass')),
    created_at   integer not null,
    unique (tenant_id, topic, subscription),
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
    schema_version text
);
create index punctual_message_by_external_id on punctual_message (tenant_id, source, external_id)
    where external_id is not null;

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
-- of it is not settled yet (null: all of it). A finished claim stays as history.
create table punctual_claim (
    token       text   primary key,
    owner       text   not null,
    claimed_at  integer not null,
    lease_until integer not null,
    started     integer    not null default 0 check (started in (0, 1)),
    items       text   not null,
    open        text,
    first_id    integer not null,
    last_id     integer not null,
    finished_at integer,
    ending      text check (ending in ('settled', 'reaped')),
    check ((finished_at is null) = (ending is null))
);
create index punctual_claim_by_lease on punctual_claim (lease_until) where finished_at is null;
create index punctual_claim_by_end on punctual_claim (finished_at) where finished_at is not null;
create index punctual_claim_by_message on punctual_claim (last_id);

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
    outcome    text   not null check (outcome in ('abandoned', 'failed', 'reaped')),
    error      text   not null,
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
    unique (lane_id, message_id)
);
create index punctual_dead_letter_by_tenant on punctual_dead_letter (tenant_id, id);
create index punctual_dead_letter_by_message on punctual_dead_letter (message_id);

-- First answers to requests that carried an Idempotency-Key.
create table punctual_answer (
    tenant_id       integer    not null,
    idempotency_key text   not null,
    digest          text   not null,
    asked_at        integer not null,
    status          integer,
    body            text,
    primary key (tenant_id, idempotency_key)
);
create index punctual_answer_by_time on punctual_answer (asked_at);
