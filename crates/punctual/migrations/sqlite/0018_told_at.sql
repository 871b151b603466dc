-- An opt-out is never lifted by news that is older than it. `told_at` is when the recipient last said it, by the
-- provider's clock where it tells; `resumption` keeps every receipt that says that messages are wanted again, for
-- as long as an opt-out may last, so that a copy of it counts from when the first one was received.
alter table punctual_suppression add column told_at integer not null default 0;
update punctual_suppression set told_at = since;
alter table punctual_early_receipt add column occurred_at integer;

create table punctual_resumption (
    source text    not null,
    key    text    not null,
    at     integer not null,
    primary key (source, key)
) without rowid;

-- Messages of a request with an Idempotency-Key get ids from this token, so that they are written once however often
-- the request is repeated while its outcome is unknown.
alter table punctual_answer add column token text;
alter table punctual_answer add column suspended integer not null default 0;
