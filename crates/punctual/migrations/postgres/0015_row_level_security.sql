-- The second wall between tenants. A verb that is for one tenant becomes the role `punctual_tenant` for its transaction
-- and names the tenant in the setting `punctual.tenant`; then every table below shows that tenant's rows and no others,
-- whatever a statement asks for. Loops, the SQL functions and hosts' own transactions name no tenant. See docs/adr/0018.

-- Whose transaction this is; null when it is nobody's in particular.
create function punctual.tenant_here() returns int language sql stable as $$
    select nullif(current_setting('punctual.tenant', true), '')::int
$$;

-- Makes the role and gives it what it needs, as far as the caller may do that and something is lacking. Called by
-- every process that migrates; what an administrator has to do where the caller may not is in the guide. Two databases
-- of one server may call it at once.
create function punctual.raise_wall() returns void language plpgsql as $$
begin
    if pg_has_role(to_regrole('punctual_tenant'), 'member') and not exists (
        select 1 from pg_catalog.pg_class c
        where c.relnamespace = 'punctual'::regnamespace and c.relkind = 'r'
            and c.relname not in ('secret', 'migration', 'early_receipt')
            and not has_table_privilege(to_regrole('punctual_tenant'), c.oid, 'select')) then
        return;
    end if;
    if to_regrole('punctual_tenant') is null then
        begin
            create role punctual_tenant nologin;
        exception when duplicate_object or unique_violation then null;
        end;
    end if;
    if not pg_has_role(to_regrole('punctual_tenant'), 'member') then
        begin
            execute format('grant punctual_tenant to %I', current_user);
        exception when unique_violation then null;
        end;
    end if;
    grant usage on schema punctual to punctual_tenant;
    grant select, insert, update, delete on all tables in schema punctual to punctual_tenant;
    revoke all on punctual.secret, punctual.migration, punctual.early_receipt from punctual_tenant;
exception when insufficient_privilege then
    raise notice 'the role punctual_tenant could not be made ready: row-level security is not in force';
end
$$;

-- Shuts a table to other tenants: by its column `tenant_id`, or by the row of another walled table that it is a
-- part of. Migrations that make tables call it. What may be written is what can be seen, unless it is said.
create function punctual.wall(shut regclass, belongs text default null, writable text default null)
returns void language plpgsql as $$
declare
    here constant text := '(select punctual.tenant_here())';
    seen constant text := coalesce(belongs, 'tenant_id = ' || here);
begin
    execute format('alter table %s enable row level security', shut);
    execute format('create policy tenant on %1$s using (%2$s is null or %3$s) with check (%2$s is null or %4$s)',
        shut, here, seen, coalesce(writable, seen));
end
$$;

select punctual.wall(a.attrelid::regclass)
from pg_catalog.pg_attribute a join pg_catalog.pg_class c on c.oid = a.attrelid
where c.relnamespace = 'punctual'::regnamespace and c.relkind = 'r' and a.attname = 'tenant_id'
order by c.relname;

select punctual.wall('punctual.tenant', 'id = (select punctual.tenant_here())');
select punctual.wall('punctual.attempt', 'lane_id in (select l.id from punctual.lane l)');
select punctual.wall('punctual.delivery', 'exists (select 1 from punctual.entry e where e.id = entry_id)');
select punctual.wall('punctual.delivery_outcome', 'exists (select 1 from punctual.entry e where e.id = entry_id)');
select punctual.wall('punctual.progress', 'exists (select 1 from punctual.entry e where e.id = entry_id)');
select punctual.wall('punctual.flow_version', 'exists (select 1 from punctual.flow f where f.id = flow_id)');
select punctual.wall('punctual.message_template_version',
    'exists (select 1 from punctual.message_template t where t.id = template_id)');
select punctual.wall('punctual.notice_attempt',
    'exists (select 1 from punctual.notice_delivery d where d.id = delivery_id)');
-- What waits for its route is in lane 0, which is nobody's: its message says whose it is. A statement that writes
-- both at once cannot see the message yet.
select punctual.wall('punctual.follower', 'lane_id in (select l.id from punctual.lane l) '
    'or (lane_id = 0 and exists (select 1 from punctual.message m where m.id = message_id))');
select punctual.wall('punctual.sequence', 'lane_id in (select l.id from punctual.lane l) '
    'or (lane_id = 0 and exists (select 1 from punctual.message m where m.id = head))');
select punctual.wall('punctual.work', 'lane_id in (select l.id from punctual.lane l) '
    'or (lane_id = 0 and exists (select 1 from punctual.message m where m.id = message_id))',
    'lane_id in (select l.id from punctual.lane l) or lane_id = 0');

select punctual.raise_wall();
