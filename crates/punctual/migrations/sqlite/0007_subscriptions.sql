-- Subscriptions: who else gets the messages of a topic, each with a lane of its own. `handler` is
-- the name in the target, if that is a handler in a process.

create table punctual_subscription (
    tenant_id  integer not null references punctual_tenant,
    topic      text   not null,
    name       text   not null,
    lane_id    integer not null unique references punctual_lane,
    target     text   not null,
    handler    text,
    filter     text,
    enabled    integer not null check (enabled in (0, 1)),
    created_at integer not null,
    updated_at integer not null,
    primary key (tenant_id, topic, name)
);

-- Topics that some process has a handler for: their own queues are wanted in every tenant.
create table punctual_handled_topic (
    topic text   primary key,
    since integer not null
);
