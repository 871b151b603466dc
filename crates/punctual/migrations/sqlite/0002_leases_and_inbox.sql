-- Named leases (one holder at a time, across machines), and an inbox (a received message
-- is processed once).

-- One row per name, kept for ever: the fencing token grows with each acquisition and must
-- never begin anew. A lease is held while it is not released and `lease_until` lies ahead.
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
create index punctual_inbox_by_end on punctual_inbox (finished_at) where status = 'processed';
