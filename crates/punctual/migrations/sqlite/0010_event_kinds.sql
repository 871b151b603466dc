-- Kinds of events: how an event names its recipients, what its templates can name, when a message about
-- it is pointless. One document for each kind. A kind that says who is told of its events takes their topic:
-- those need not wait in the topic's own queue as well.
create table punctual_event_kind (
    tenant_id  integer not null references punctual_tenant,
    kind       text    not null,
    version    integer not null default 1,
    document   text    not null,
    told_topic text,
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
