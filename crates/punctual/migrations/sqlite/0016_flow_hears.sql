-- Which messages may begin or stop entries of a published survey, so that routes need not read its definition: none (0),
-- events (1), or also what surveys tell (2).
alter table punctual_flow add column hears integer not null default 0;

-- Those of before may hear anything; publishing them again says it better.
update punctual_flow set hears = 2 where published is not null and deleted_at is null;

-- Their tenants' topics get the lane of the flows, and its route.
insert into punctual_lane (tenant_id, topic, subscription, created_at)
    select l.tenant_id, l.topic, '/flows', l.created_at from punctual_lane l
    where l.subscription = ''
        and exists (select 1 from punctual_flow f where f.tenant_id = l.tenant_id and f.hears > 0)
    on conflict do nothing;
insert into punctual_route (tenant_id, topic, lane_id)
    select l.tenant_id, l.topic, l.id from punctual_lane l
    where l.subscription = '/flows'
        and exists (select 1 from punctual_flow f where f.tenant_id = l.tenant_id and f.hears > 0)
    on conflict do nothing;
