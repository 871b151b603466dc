-- Notices: what an event means for the people it is about, and each message to one of them. What of it is
-- due stands in `work`, and only there: `work.message_id` is a delivery's number counted up from
-- -(2 to the power of 62), in lanes whose subscription is `/deliver`, one for each tenant and channel.

-- One for each event whose kind tells somebody; and one for each that a person asked for again.
create table punctual_notice (
    id             integer primary key autoincrement,
    tenant_id      integer      not null,
    message_id     integer   not null,
    kind           text     not null,
    entity_type    text,
    entity_id      text,
    correlation_id text,
    request_id     text,
    requested_by   text,
    status         integer not null default 0 check (status between 0 and 3),
    reason         text,
    error          text,
    open           integer      not null default 0,
    sent           integer      not null default 0,
    failed         integer      not null default 0,
    created_at     integer   not null,
    ended_at       integer
);
create unique index punctual_notice_by_event on punctual_notice (message_id) where request_id is null;
create index punctual_notice_by_entity on punctual_notice (entity_id, entity_type, tenant_id) where entity_id is not null;

-- One message to one address by one channel and template. The key makes a second one impossible; what was
-- skipped does not count: it keeps its key no longer (a column of its own, since an index must not look at the
-- status, which every send changes). Tries count from 0 again when it is replayed or moved; those before are remembered, so
-- that every try has a number of its own.
create table punctual_notice_delivery (
    id               integer primary key autoincrement,
    tenant_id        integer      not null,
    notice_id        integer   not null,
    idempotency_key  text     not null,
    lane_id          integer      not null,
    channel          text     not null,
    address          text     not null,
    part             integer      not null,
    template_id      integer   not null,
    template_version integer      not null,
    status           integer not null default 0 check (status between 0 and 5),
    keeps_key        integer not null default 1,
    error            text,
    provider_id      text,
    tries            integer      not null default 0,
    tried_before     integer  not null default 0,
    replaced_by      integer,
    created_at       integer   not null,
    due_at           integer,
    sent_at          integer,
    version          integer      not null default 1
);
create unique index punctual_notice_delivery_by_key on punctual_notice_delivery (idempotency_key, tenant_id)
    where keeps_key = 1;
create index punctual_notice_delivery_by_notice on punctual_notice_delivery (notice_id);
create index punctual_notice_delivery_by_address on punctual_notice_delivery (address, tenant_id);

-- What became of each try. Never changed.
create table punctual_notice_attempt (
    delivery_id integer not null,
    tried       integer    not null,
    at          integer not null,
    outcome     text   not null check (outcome in ('sent', 'transient', 'permanent', 'timeout', 'unknown')),
    provider_id text,
    error       text,
    answer      text,
    primary key (delivery_id, tried)
);
create trigger punctual_notice_attempt_is_never_updated before update on punctual_notice_attempt
begin select raise(abort, 'rows of notice_attempt are inserted and deleted, never updated'); end;
