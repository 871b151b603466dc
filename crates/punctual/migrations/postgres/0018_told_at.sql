-- An opt-out is never lifted by news that is older than it. `told_at` is when the recipient last said it, by the
-- provider's clock where it tells; `resumption` keeps every receipt that says that messages are wanted again, for
-- as long as an opt-out may last, so that a copy of it counts from when the first one was received.
alter table punctual.suppression add column told_at bigint;
update punctual.suppression set told_at = since;
alter table punctual.suppression alter column told_at set not null;
alter table punctual.early_receipt add column occurred_at bigint;

create table punctual.resumption (
    source text   not null,
    key    text   not null,
    at     bigint not null,
    primary key (source, key)
);
-- It is of no tenant, and none has to see it.
select punctual.wall('punctual.resumption', 'false');

-- Messages of a request with an Idempotency-Key get ids from this token, so that they are written once however often
-- the request is repeated while its outcome is unknown.
alter table punctual.answer add column token text;
alter table punctual.answer add column suspended smallint not null default 0;
