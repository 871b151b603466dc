-- What was received: which delivery processes it, and what became of it.

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
