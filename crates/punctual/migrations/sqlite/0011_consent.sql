-- Consent: who is never sent what (suppression), what recipients want (recipient_preference) and what
-- a tenant wants for all of them (tenant_setting). All of it is read where an intent to send is written.

-- '' in `channel` is every channel, in `kind` every kind of event. A row that was lifted stays: it
-- says from when to when somebody was not to be written to, and by whose word.
create table punctual_suppression (
    id        integer primary key autoincrement,
    tenant_id integer not null references punctual_tenant,
    address   text    not null,
    channel   text    not null,
    kind      text    not null,
    reason    text    not null check (reason in ('hard-bounce', 'stop', 'unsubscribe', 'manual')),
    since     integer not null,
    made_by   text    not null,
    lifted_at integer,
    lifted_by text,
    check ((lifted_at is null) = (lifted_by is null))
);
create unique index punctual_suppression_in_force on punctual_suppression (tenant_id, address, channel, kind)
    where lifted_at is null;
create index punctual_suppression_by_tenant on punctual_suppression (tenant_id, id);

create table punctual_recipient_preference (
    tenant_id  integer not null references punctual_tenant,
    address    text    not null,
    document   text    not null,
    updated_at integer not null,
    updated_by text    not null,
    primary key (tenant_id, address)
) without rowid;

create table punctual_tenant_setting (
    tenant_id  integer primary key references punctual_tenant,
    document   text    not null,
    updated_at integer not null,
    updated_by text    not null
);

-- Tenants that ever had any of these: for all others a sender asks nothing.
create table punctual_consent_tenant (
    tenant_id integer primary key references punctual_tenant
);

-- Secrets that the database makes for itself, in hexadecimal: `unsubscribe` seals the links.
create table punctual_secret (
    name    text    primary key,
    value   text    not null,
    made_at integer not null
) without rowid;
