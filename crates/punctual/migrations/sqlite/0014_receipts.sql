-- Receipts: what providers tell later about messages to people.

-- What was told of one delivery of a notice. Never changed.
create table punctual_receipt (
    id          integer primary key autoincrement,
    tenant_id   integer not null,
    delivery_id integer not null,
    at          integer not null,
    status      text    not null check (status in ('delivered', 'read', 'bounced', 'failed', 'stopped', 'resumed')),
    said        text    not null,
    error       text
);
create index punctual_receipt_by_delivery on punctual_receipt (delivery_id);
create trigger punctual_receipt_is_never_updated before update on punctual_receipt
begin select raise(abort, 'rows of receipt are inserted and deleted, never updated'); end;

-- What was told of a message that nobody knows yet: its provider was faster than the commit of its answer. It
-- belongs to no tenant until the message is found, and goes when it is, or when it is too old.
create table punctual_early_receipt (
    id          integer primary key autoincrement,
    provider    text    not null,
    channels    text    not null,
    key         text    not null,
    message_id  text    not null,
    address     text,
    status      text    not null,
    said        text    not null,
    error       text,
    event_id    text,
    received_at integer not null,
    look_at     integer not null
);
create unique index punctual_early_receipt_by_key on punctual_early_receipt (key, provider);
create index punctual_early_receipt_by_look on punctual_early_receipt (look_at);

-- A delivery is found by the id that its provider gave a try of it.
create index punctual_notice_attempt_by_provider on punctual_notice_attempt (provider_id) where provider_id is not null;
