-- Definitions, entries, and messages to people.

-- flow ------------------------------------------------------------------------------
-- Definitions with their versions, event kinds, entities, and entries: each occurrence of a trigger.

-- A definition. The draft is edited; versions are facts. `hears` says which messages may begin or stop entries of the
-- published version: none (0), events (1), or also what surveys tell (2).
-- `removed_…` count what retention has dropped, so that results can say so.
create table punctual_flow (
    id              integer primary key autoincrement,
    tenant_id       integer not null references punctual_tenant,
    kind            text   not null default 'survey',
    name            text    not null,
    integration_id  text,
    draft           text    not null,
    published       integer,
    created_at      integer not null,
    updated_at      integer not null,
    deleted_at      integer,
    removed_entries integer not null default 0,
    removed_answers integer not null default 0
);
create index punctual_flow_by_tenant on punctual_flow (tenant_id, id);

create table punctual_flow_version (
    flow_id      integer not null references punctual_flow,
    number       integer    not null,
    definition   text   not null,
    published_at integer not null,
    primary key (flow_id, number)
);
create trigger punctual_flow_version_is_a_fact before update on punctual_flow_version
begin
    select raise(abort, 'a published version is never changed');
end;

-- Rises with everything that changes what an event may trigger in a tenant: what a process has read
-- before is valid while the stamp is the same.
create table punctual_flow_stamp (
    tenant_id integer    primary key,
    stamp     integer not null
);

-- Kinds of events: how an event names its recipients, what its templates can name, when a message about
-- it is pointless. One document for each kind.
create table punctual_event_kind (
    tenant_id  integer not null references punctual_tenant,
    kind       text    not null,
    version    integer not null default 1,
    document   text    not null,
    created_at integer not null,
    updated_at integer not null,
    primary key (tenant_id, kind)
) without rowid;

-- Rises with every change of a tenant's kinds, so that who keeps them in memory sees it.
create table punctual_event_kind_stamp (
    tenant_id integer primary key references punctual_tenant,
    stamp     integer not null
);

-- The latest known state of what events are about. A deleted one keeps its row without its state: that it
-- is gone is known, and an older state does not bring it back.
create table punctual_entity (
    tenant_id  integer not null references punctual_tenant,
    type       text    not null,
    id         text    not null,
    version    integer,
    state      text,
    updated_at integer not null,
    deleted_at integer,
    primary key (tenant_id, type, id)
);

-- One occurrence of a trigger, whatever its kind: a survey for one person, or what an event means for the people it is
-- about. A notification has a cause (`message_id`) and one row for each event, or for each request of a person
-- (`request_id`); a survey has a recipient and a public id. `key` is what makes it unique, as text: the digest of a
-- survey's recipe, `event:{message}` or `manual:{request}`; `entry_key` decides. `listeners` are the
-- subscriptions that its survey lists for it, as JSON; null is every one. `due_at` is when the next send of a survey is
-- due. `open` counts sends that have not ended, the one that is planned next included; `sent` and `failed` count those
-- that have. Numbers of statuses are those of `flow/rules/entry.rs`. `input_hash` is the digest of
-- what the entry was made of, `local_date` and `time_zone` say on which local day it was due. `person_id`, `not_after`,
-- `cursor` and `attempts` are for kinds that are not there yet.
-- What is updated is in no index, and a page has room for all its entries once more, so that an update stays on it.
-- Indexes begin with what tells entries apart.
create table punctual_entry (
    id             integer primary key autoincrement,
    tenant_id      integer not null,
    kind           text not null check (kind in
        ('survey', 'notification', 'reminder', 'report', 'userMessage')),
    event_kind     text not null,
    message_id     integer,
    request_id     text,
    triggered_by   text not null,
    entity_type    text,
    entity_id      text,
    correlation_id text,
    flow_id        integer,
    number         integer,
    trigger_id     text,
    public_high    integer,
    public_low     integer,
    key            text not null,
    listeners      text,
    channel        text,
    address        text,
    locale         text,
    customer_ref   text,
    person_id      text,
    input_hash     text,
    status         integer not null default 0 check (status between 0 and 7),
    reason         text,
    error          text,
    lane_id        integer,
    due_at         integer,
    local_date     text,
    time_zone      text,
    cursor         text,
    attempts       integer not null default 0,
    not_after      integer,
    held_at        integer,
    held_by        text,
    hold_reason    text,
    grace_us       integer,
    reminders      integer not null default 0,
    remaining      integer not null default 0,
    open           integer not null default 0,
    sent           integer not null default 0,
    failed         integer not null default 0,
    created_at     integer not null,
    last_sent_at   integer,
    opened_at      integer,
    completed_at   integer,
    ended_at       integer,
    deleted_at     integer,
    version        integer not null default 1
);
create index punctual_entry_by_message on punctual_entry (message_id) where message_id is not null;
create index punctual_entry_by_public_id on punctual_entry (public_high) where public_high is not null;
create index punctual_entry_by_flow on punctual_entry (flow_id, id) where flow_id is not null;
create index punctual_entry_by_entity on punctual_entry (entity_id, entity_type, tenant_id) where entity_id is not null;
create index punctual_entry_by_address on punctual_entry (address, tenant_id) where address is not null;
create index punctual_entry_by_customer on punctual_entry (customer_ref, tenant_id) where customer_ref is not null;
create index punctual_entry_by_correlation on punctual_entry (correlation_id, tenant_id) where correlation_id is not null;

-- Changes of an entry that its deliveries and answers do not show: holds, releases, retries, endings. `detail` is for
-- conflicts with both inputs. Never changed.
create table punctual_entry_history (
    id          integer primary key autoincrement,
    tenant_id   integer not null,
    entry_id    integer not null,
    at          integer not null,
    action      text not null,
    from_status text not null,
    to_status   text not null,
    actor       text not null,
    reason      text not null,
    cause       text,
    detail      text
);
create index punctual_entry_history_by_entry on punctual_entry_history (entry_id, id);

-- What was loaded and resolved for an entry when it was planned or advanced, as JSON, for support. Goes earlier than
-- its entry.
create table punctual_entry_trace (
    id        integer primary key autoincrement,
    tenant_id integer not null,
    entry_id  integer not null,
    at        integer not null,
    step      text not null,
    detail    text not null
);
create index punctual_entry_trace_by_entry on punctual_entry_trace (entry_id, id);

-- The key of every entry, as the first half of a SHA-256: its primary key lets one entry of a key through. It outlives
-- its entry, so that an event which comes again is answered with what it duplicates; only deleting the entry frees it.
create table punctual_entry_key (
    tenant_id   integer not null,
    key_high    integer not null,
    key_low     integer not null,
    entry_id    integer not null,
    public_high integer,
    public_low  integer,
    made_at     integer not null,
    primary key (key_high, key_low, tenant_id)
);
create index punctual_entry_key_by_time on punctual_entry_key (made_at);

-- An answer. `told` are the subscriptions that its message went to.
create table punctual_response (
    entry_id     integer primary key,
    tenant_id    integer    not null,
    flow_id      integer not null,
    number       integer    not null,
    trigger_id   text   not null,
    answers      text   not null,
    meta         text,
    completed_at integer not null,
    message_id   integer not null,
    told         text   not null
);
create index punctual_response_by_flow on punctual_response (tenant_id, flow_id, completed_at);

-- What somebody has filled in and not sent yet.
create table punctual_progress (
    entry_id integer primary key,
    answers  text   not null,
    at       integer not null
);

-- delivery ------------------------------------------------------------------------------
-- Templates, consent, messages to people with every try, and what providers told of them later.

create table punctual_message_template (
    id         integer primary key autoincrement,
    tenant_id  integer not null references punctual_tenant,
    event_type text    not null,
    channel    text    not null,
    language   text    not null,
    scope_type text,
    scope_id   text,
    version    integer not null default 1,
    active     integer not null check (active in (0, 1)),
    created_at integer not null,
    updated_at integer not null,
    deleted_at integer
);
create index punctual_message_template_by_event on punctual_message_template (tenant_id, event_type)
    where deleted_at is null;

-- A version is never changed: editing makes the next one.
create table punctual_message_template_version (
    template_id integer not null references punctual_message_template,
    number      integer not null,
    definition  text    not null,
    created_at  integer not null,
    primary key (template_id, number)
) without rowid;
create trigger punctual_message_template_version_is_never_updated
before update on punctual_message_template_version
begin select raise(abort, 'rows of message_template_version are inserted and deleted, never updated'); end;

-- Rises with every change of a tenant's templates, so that who keeps them in memory sees it.
create table punctual_template_stamp (
    tenant_id integer primary key references punctual_tenant,
    stamp     integer not null
);

-- '' in `channel` is every channel, in `kind` every kind of event. A row that was lifted stays: it
-- says from when to when somebody was not to be written to, and by whose word. `told_at` is when the recipient last said
-- it: an older resumption does not lift it.
create table punctual_suppression (
    id        integer primary key autoincrement,
    tenant_id integer not null references punctual_tenant,
    address   text    not null,
    person_id text,
    channel   text    not null,
    kind      text    not null,
    reason    text    not null check (reason in ('hard-bounce', 'stop', 'unsubscribe', 'manual')),
    since     integer not null,
    made_by   text    not null,
    lifted_at integer,
    lifted_by text,
    told_at   integer not null,
    check ((lifted_at is null) = (lifted_by is null))
);
create unique index punctual_suppression_in_force on punctual_suppression (tenant_id, address, channel, kind)
    where lifted_at is null;
create index punctual_suppression_by_tenant on punctual_suppression (tenant_id, id);

create table punctual_recipient_preference (
    tenant_id  integer not null references punctual_tenant,
    address    text    not null,
    person_id  text,
    document   text    not null,
    updated_at integer not null,
    updated_by text    not null,
    primary key (tenant_id, address)
) without rowid;

-- Tenants that ever had any of these: for all others a sender asks nothing.
create table punctual_consent_tenant (
    tenant_id integer primary key references punctual_tenant
);

-- What is reserved for a process of the limits of a channel; the row without a holder is the lock of its channel. Belongs
-- to no tenant, as a channel does not.
create table punctual_channel_share (
    channel     text    not null,
    holder      text    not null,
    per_second  integer not null,
    in_flight   integer not null,
    lease_until integer not null,
    primary key (channel, holder)
);

-- One message to one address by one channel and template; `send` is the number of the send, 1 for the first and n + 1 for
-- the nth reminder. `held` is set while its entry is on hold. Tries count from 0 again when it is replayed or moved; those
-- before are remembered, so that every try has a number of its own. `not_after`, `carried_by`
-- and `person_id` are for digests, for messages that are too late, and for erasure: not written yet.
create table punctual_delivery (
    id               integer primary key autoincrement,
    tenant_id        integer not null,
    entry_id         integer not null,
    idempotency_key  text not null,
    lane_id          integer not null,
    channel          text not null,
    address          text not null,
    send             integer not null default 1,
    part             integer not null,
    template_id      integer not null,
    template_version integer not null,
    status           integer not null default 0 check (status between 0 and 5),
    held             integer not null default 0,
    error            text,
    provider_id      text,
    tries            integer not null default 0,
    tried_before     integer not null default 0,
    replaced_by      integer,
    carried_by       integer,
    not_after        integer,
    created_at       integer not null,
    due_at           integer,
    sent_at          integer,
    version          integer not null default 1,
    recipient        text,
    recipient_ref    text,
    person_id        text
);
create index punctual_delivery_by_entry on punctual_delivery (entry_id);
create index punctual_delivery_by_address on punctual_delivery (address, tenant_id);

-- The key of every delivery that may have gone out or still may, as the first half of a SHA-256: its primary key lets one
-- delivery of a key through. A delivery that is skipped when it is written has no row here; one that is skipped later
-- gives it back, unless a try may have gone out. A key outlives its delivery.
create table punctual_delivery_key (
    tenant_id   integer not null,
    key_high    integer not null,
    key_low     integer not null,
    delivery_id integer not null,
    made_at     integer not null,
    primary key (key_high, key_low, tenant_id)
);
create index punctual_delivery_key_by_time on punctual_delivery_key (made_at);

-- A try of a delivery, with its outcome and the provider it was handed to. Never changed. Number 0 says why there was no
-- try yet, -1 why there never was one.
create table punctual_delivery_attempt (
    delivery_id integer not null,
    tried       integer not null,
    at          integer not null,
    outcome     text not null check (outcome in
        ('sent', 'transient', 'permanent', 'timeout', 'unknown', 'no-channel', 'skipped')),
    reason      text,
    reason_class text,
    provider    text,
    provider_id text,
    error       text,
    answer      text,
    warnings    text,
    primary key (delivery_id, tried)
);
create trigger punctual_delivery_attempt_is_never_updated before update on punctual_delivery_attempt
begin select raise(abort, 'rows of delivery_attempt are inserted and deleted, never updated'); end;

-- A delivery is found by the id that its provider gave a try of it.
create index punctual_delivery_attempt_by_provider on punctual_delivery_attempt (provider_id) where provider_id is not null;

-- A provider's word on one delivery. Never changed.
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
    look_at     integer not null,
    occurred_at integer
);
create unique index punctual_early_receipt_by_key on punctual_early_receipt (key, provider);
create index punctual_early_receipt_by_look on punctual_early_receipt (look_at);

create table punctual_resumption (
    source text    not null,
    key    text    not null,
    at     integer not null,
    primary key (source, key)
) without rowid;
