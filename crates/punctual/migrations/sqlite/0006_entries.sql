-- Flows and entries: a definition with its versions; and each occurrence of a trigger, from its
-- event to its end. What of an entry is due stands in `work`, and only there: `work.message_id` is
-- the entry's number with a minus sign, in lanes whose subscription begins with a slash.

-- A definition. The draft is edited; versions are facts.
create table punctual_flow (
    id             integer primary key autoincrement,
    tenant_id      integer    not null references punctual_tenant,
    name           text   not null,
    integration_id text,
    draft          text   not null,
    published      integer,
    created_at     integer not null,
    updated_at     integer not null,
    deleted_at     integer
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

create table punctual_entry (
    id           integer primary key autoincrement,
    tenant_id    integer      not null,
    flow_id      integer   not null,
    number       integer      not null,
    trigger_id   text     not null,
    lane_id      integer      not null,
    channel      text     not null,
    public_high  integer   not null,
    public_low   integer   not null,
    key_high     integer  not null,
    key_low      integer  not null,
    unique_hash  text     not null,
    address      text     not null,
    locale       text,
    customer_ref text,
    payload      text     not null,
    triggered_by text     not null,
    triggered_at integer   not null,
    grace_us     integer   not null,
    status       integer not null default 0 check (status between 0 and 6),
    next_send_at integer,
    last_sent_at integer,
    reminders    integer      not null,
    remaining    integer      not null,
    opened_at    integer,
    completed_at integer,
    deleted_at   integer,
    version      integer      not null default 1
);
-- The first half of the dedup key's digest; what was deleted does not block.
create unique index punctual_entry_by_key on punctual_entry (tenant_id, key_high, key_low) where deleted_at is null;
create index punctual_entry_by_public_id on punctual_entry (public_high);
create index punctual_entry_by_flow on punctual_entry (tenant_id, flow_id, id);
create index punctual_entry_by_address on punctual_entry (tenant_id, address);
create index punctual_entry_by_customer on punctual_entry (tenant_id, customer_ref) where customer_ref is not null;

-- Dedup keys of entries that are gone: a key outlives its entry.
create table punctual_entry_key (
    tenant_id   integer not null,
    key_high    integer not null,
    key_low     integer not null,
    public_high integer not null,
    public_low  integer not null,
    made_at     integer not null,
    primary key (tenant_id, key_high, key_low)
);

-- The intent to send: written before a channel is called. `part` counts the letters of one send.
create table punctual_delivery (
    entry_id   integer not null,
    attempt    integer    not null,
    part       integer    not null default 0,
    channel    text   not null,
    address    text   not null,
    created_at integer not null,
    primary key (entry_id, attempt, part)
);
-- What became of each try.
create table punctual_delivery_outcome (
    entry_id    integer not null,
    attempt     integer    not null,
    part        integer    not null default 0,
    tried       integer    not null,
    at          integer not null,
    status      text   not null check (status in ('delivered', 'failed', 'unknown', 'no-channel')),
    provider_id text,
    error       text,
    primary key (entry_id, attempt, part, tried)
);

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
