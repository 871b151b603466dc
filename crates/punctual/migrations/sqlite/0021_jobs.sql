-- Work that is due again and again.

create table punctual_job (
    id         integer primary key autoincrement,
    tenant_id  integer not null references punctual_tenant,
    name       text   not null,
    topic      text   not null,
    cron       text   not null,
    time_zone  text   not null,
    payload    text   not null,
    enabled    integer not null check (enabled in (0, 1)),
    misfire    text   not null check (misfire in ('runOnce', 'runAll', 'skip')),
    overlap    text   not null check (overlap in ('allow', 'skip', 'queue')),
    next_due   integer,
    version    integer not null default 1,
    created_at integer not null,
    updated_at integer not null,
    unique (tenant_id, name)
);
create index punctual_job_by_due on punctual_job (next_due) where next_due is not null;

-- A run outlives its job. `planned` is 0 for one that somebody triggered: of the others there is
-- one for each occurrence, however many planners there are.
create table punctual_run (
    id           integer primary key autoincrement,
    tenant_id    integer not null,
    job_id       integer not null,
    planned      integer not null check (planned in (0, 1)),
    scheduled_at integer not null,
    status       text   not null check (status in ('pending', 'queued', 'succeeded', 'failed', 'skipped')),
    message_id   integer,
    open         integer not null default 0 check (open >= 0),
    started_at   integer,
    ended_at     integer,
    attempts     integer not null default 0,
    claimed_by   text,
    output       text,
    last_error   text
);
create unique index punctual_run_by_occurrence on punctual_run (job_id, scheduled_at) where planned = 1;
create index punctual_run_by_job on punctual_run (job_id, id);
-- Whatever is asked often is asked of few rows: what is going on, what waits, what failed.
create index punctual_run_open on punctual_run (message_id) where open > 0;
create index punctual_run_going on punctual_run (job_id) where open > 0;
create index punctual_run_queued on punctual_run (job_id, id) where status = 'queued';
create index punctual_run_failed on punctual_run (message_id) where status = 'failed';
create index punctual_run_by_end on punctual_run (ended_at) where ended_at is not null;
