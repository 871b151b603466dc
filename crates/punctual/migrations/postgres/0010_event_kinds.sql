-- Kinds of events: how an event names its recipients, what its templates can name, when a message about
-- it is pointless. One document for each kind. A kind that says who is told of its events takes their topic:
-- those need not wait in the topic's own queue as well.
create table punctual.event_kind (
    tenant_id  int    not null references punctual.tenant,
    kind       text   not null,
    version    int    not null default 1,
    document   text   not null,
    told_topic text,
    created_at bigint not null,
    updated_at bigint not null,
    primary key (tenant_id, kind)
);

-- Rises with every change of a tenant's kinds, so that who keeps them in memory sees it.
create table punctual.event_kind_stamp (
    tenant_id int    primary key references punctual.tenant,
    stamp     bigint not null
);

-- The latest known state of what events are about. A deleted one keeps its row without its state: that it
-- is gone is known, and an older state does not bring it back.
create table punctual.entity (
    tenant_id  int    not null references punctual.tenant,
    type       text   not null,
    id         text   not null,
    version    bigint,
    state      text,
    updated_at bigint not null,
    deleted_at bigint,
    primary key (tenant_id, type, id)
) with (fillfactor = 80);
