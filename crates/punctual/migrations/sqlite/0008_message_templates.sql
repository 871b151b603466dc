-- Message templates: the words of what is sent. A template's row says what it is for and which
-- version is current; its words are in versions, because a log names the one that was sent.

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
