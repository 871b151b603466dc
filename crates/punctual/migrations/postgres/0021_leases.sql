-- Leases with one holder at a time.

-- One row per name, deleted long after its lease ended. The fencing token grows with each acquisition and
-- never begins anew: the floor of a tenant is the greatest token that was deleted. A lease is held while it
-- is not released and `lease_until` lies ahead.
create table punctual.lease (
    tenant_id   int    not null,
    name        text   not null,
    owner       text   not null,
    token       bigint not null check (token > 0),
    acquired_at bigint not null,
    renewed_at  bigint not null,
    lease_until bigint not null,
    released_at bigint,
    primary key (tenant_id, name)
);
create index lease_by_acquired on punctual.lease (acquired_at);
create table punctual.lease_floor (
    tenant_id int    primary key,
    token     bigint not null
);

-- row security ------------------------------------------------------------------------------

select punctual.wall('punctual.lease');
select punctual.wall('punctual.lease_floor');
