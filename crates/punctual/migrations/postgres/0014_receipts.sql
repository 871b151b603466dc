-- Receipts: what providers tell later about messages to people.

-- What was told of one delivery of a notice. Never changed.
create table punctual.receipt (
    id          bigint generated always as identity primary key,
    tenant_id   int    not null,
    delivery_id bigint not null,
    at          bigint not null,
    status      text   not null check (status in ('delivered', 'read', 'bounced', 'failed', 'stopped', 'resumed')),
    said        text   not null,
    error       text
);
create index receipt_by_delivery on punctual.receipt (delivery_id);
create trigger receipt_is_never_updated before update on punctual.receipt
    for each row execute function punctual.never_updated();

-- What was told of a message that nobody knows yet: its provider was faster than the commit of its answer. It
-- belongs to no tenant until the message is found, and goes when it is, or when it is too old.
create table punctual.early_receipt (
    id          bigint generated always as identity primary key,
    provider    text   not null,
    channels    text   not null,
    key         text   not null,
    message_id  text   not null,
    address     text,
    status      text   not null,
    said        text   not null,
    error       text,
    event_id    text,
    received_at bigint not null,
    look_at     bigint not null
);
create unique index early_receipt_by_key on punctual.early_receipt (key, provider);
create index early_receipt_by_look on punctual.early_receipt (look_at);

-- A delivery is found by the id that its provider gave a try of it.
create index notice_attempt_by_provider on punctual.notice_attempt (provider_id) where provider_id is not null;
