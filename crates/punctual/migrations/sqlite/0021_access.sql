-- What tenants set for all their recipients, keys, secrets, and first answers to requests.

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
