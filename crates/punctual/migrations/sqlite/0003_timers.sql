-- Timers: a timer is a message with a due time of its own, so it needs no table. What is
-- decided about it later (another time, or never) is a fact beside it, because messages are
-- never rewritten.

-- `due_at` is where the timer stands now: the time it was moved to, or the one it was
-- cancelled at. The change with the highest id counts.
create table punctual_timer_change (
    id         integer primary key autoincrement,
    tenant_id  integer not null,
    message_id integer not null,
    at         integer not null,
    due_at     integer not null,
    cancelled  integer not null check (cancelled in (0, 1))
);
create index punctual_timer_change_by_message on punctual_timer_change (tenant_id, message_id, id);
create index punctual_timer_change_by_due on punctual_timer_change (tenant_id, due_at, message_id);

-- Timers in the order they are due, and those of one story. Other messages are not in here.
create index punctual_message_timer on punctual_message (tenant_id, due_at, id, topic)
    where due_at is not null;
create index punctual_message_timer_by_correlation on punctual_message (tenant_id, correlation_id)
    where due_at is not null and correlation_id is not null;
