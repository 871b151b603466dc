-- An opt-out is never lifted by news that is older than it. `told_at` is when the recipient last said it, by the
-- provider's clock where it tells; `heard_resumption` knows the news that messages are wanted again for as long as an
-- opt-out may last, so that the same news does not count a second time.
alter table punctual.suppression add column told_at bigint;
update punctual.suppression set told_at = since;
alter table punctual.suppression alter column told_at set not null;
alter table punctual.early_receipt add column occurred_at bigint;

create table punctual.heard_resumption (
    tenant_id int    not null references punctual.tenant,
    source    text   not null,
    key       text   not null,
    at        bigint not null,
    primary key (tenant_id, source, key)
);
select punctual.wall('punctual.heard_resumption');
