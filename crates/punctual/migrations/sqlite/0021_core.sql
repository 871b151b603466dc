-- What every component stands on: the clock that decides, and tenants.
-- `punctual migrate --print` shows all components, `schema.sqlite.sql` what they come to.

-- The database's clock: times are whole microseconds since 1970, in UTC.

-- The clock that decides what is due. A manual clock is kept here, so that several
-- processes share it; `holder` is the process that is moving it.
create table punctual_clock (
    id         integer    primary key check (id = 1),
    manual     integer    not null default 0 check (manual in (0, 1)),
    now_us     integer not null default 0,
    holder     text,
    held_until integer
);
insert into punctual_clock (id) values (1);

create table punctual_tenant (
    id             integer primary key autoincrement,
    slug           text   not null unique,
    name           text   not null,
    time_zone      text   not null default 'UTC',
    default_locale text   not null default 'en',
    created_at     integer not null
);
insert into punctual_tenant (id, slug, name, created_at) values (1, 'default', 'Default', cast(strftime('%s') as integer) * 1000000);
