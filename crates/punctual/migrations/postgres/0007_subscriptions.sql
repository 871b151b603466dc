-- Subscriptions: who else gets the messages of a topic, each with a lane of its own. `handler` is
-- the name in the target, if that is a handler in a process.

create table punctual.subscription (
    tenant_id  int    not null references punctual.tenant,
    topic      text   not null,
    name       text   not null,
    lane_id    int    not null unique references punctual.lane,
    target     text   not null,
    handler    text,
    filter     text,
    enabled    int    not null check (enabled in (0, 1)),
    created_at bigint not null,
    updated_at bigint not null,
    primary key (tenant_id, topic, name)
);

-- Topics that some process has a handler for: their own queues are wanted in every tenant.
create table punctual.handled_topic (
    topic text   primary key,
    since bigint not null
);
