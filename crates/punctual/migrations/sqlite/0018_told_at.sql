-- An opt-out is never lifted by news that is older than it. `told_at` is when the recipient last said it, by the
-- provider's clock where it tells; `heard_resumption` knows the news that messages are wanted again for as long as an
-- opt-out may last, so that the same news does not count a second time.
alter table punctual_suppression add column told_at integer not null default 0;
update punctual_suppression set told_at = since;
alter table punctual_early_receipt add column occurred_at integer;

create table punctual_heard_resumption (
    tenant_id integer not null references punctual_tenant,
    source    text    not null,
    key       text    not null,
    at        integer not null,
    primary key (tenant_id, source, key)
) without rowid;
