-- Leases with one holder at a time.

-- One row per name, deleted long after its lease ended. The fencing token grows with each acquisition and
-- never begins anew: the floor of a tenant is the greatest token that was deleted. A lease is held while it
-- is not released and `lease_until` lies ahead.
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
create index punctual_lease_by_acquired on punctual_lease (acquired_at);
create table punctual_lease_floor (
    tenant_id integer primary key,
    token     integer not null
);
