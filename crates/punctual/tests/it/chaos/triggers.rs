//! The database's own history: tables and triggers that write down each step of each claim, job and
//! lease, in the order of the transactions and with the server's clock; and the tables that hosts
//! write to. Lanes that the engine makes for itself are as patient as the queues of a world.

use super::beside::LEASES;
use punctual::testing::Backend;

/// What makes them, in PostgreSQL's words where both know them.
pub fn statements(backend: Backend) -> Vec<String> {
    let own = match backend {
        Backend::Sqlite => SQLITE,
        Backend::Postgres => POSTGRES,
    };
    let fence = |name: &&str| format!("insert into chaos_fence (name, token) values ('{name}', 0)");
    let texts = HOSTS.iter().chain(own).map(|text| (*text).to_owned());
    texts.chain(LEASES.iter().map(fence)).collect()
}

/// What a lease protects takes no word under a token smaller than the last one.
const HOSTS: &[&str] = &[
    "create table chaos_fence (name text primary key, token bigint not null, effect text)",
    "create table chaos_received (message text not null, token text not null)",
];

const POSTGRES: &[&str] = &[
    "create function chaos_now() returns bigint language sql volatile as \
     $f$ select (extract(epoch from clock_timestamp()) * 1000000)::bigint $f$",
    "create table chaos_log (seq bigint generated always as identity, at bigint, token text, \
     fresh integer, was text, became text, items text, open text, purpose text)",
    "create function chaos_note() returns trigger language plpgsql security definer as $f$ begin \
     insert into chaos_log (at, token, fresh, was, became, items, open, purpose) values ( \
        chaos_now(), new.token, \
        (tg_op = 'INSERT')::int, case when tg_op = 'UPDATE' then old.ending end, new.ending, \
        case when tg_op = 'INSERT' then new.items end, new.open, new.purpose); \
     return null; end $f$",
    "create trigger chaos_new after insert on punctual.claim for each row execute function chaos_note()",
    "create trigger chaos_change after update on punctual.claim for each row \
     when (old.ending is distinct from new.ending or old.open is distinct from new.open) \
     execute function chaos_note()",
    "create table chaos_job (seq bigint generated always as identity, at bigint, job bigint, \
     was bigint, became bigint)",
    "create function chaos_job_note() returns trigger language plpgsql security definer as $f$ begin \
     insert into chaos_job (at, job, was, became) values (chaos_now(), new.id, old.next_due, new.next_due); \
     return null; end $f$",
    "create trigger chaos_planned after update on punctual.job for each row \
     when (old.next_due is distinct from new.next_due) execute function chaos_job_note()",
    "create table chaos_lease (seq bigint generated always as identity, at bigint, name text, \
     token bigint, was bigint, held_until bigint)",
    "create function chaos_lease_note() returns trigger language plpgsql security definer as $f$ begin \
     insert into chaos_lease (at, name, token, was, held_until) values (chaos_now(), new.name, new.token, \
        old.token, case when old.released_at is null then old.lease_until end); \
     return null; end $f$",
    "create trigger chaos_acquired after update on punctual.lease for each row \
     when (old.token is distinct from new.token) execute function chaos_lease_note()",
    "create table chaos_effect (seq bigint generated always as identity, name text, token bigint, \
     effect text)",
    "create function chaos_effect_note() returns trigger language plpgsql security definer as $f$ begin \
     insert into chaos_effect (name, token, effect) values (new.name, new.token, new.effect); \
     return null; end $f$",
    "create trigger chaos_fenced after update on chaos_fence for each row \
     execute function chaos_effect_note()",
    r#"create function chaos_lane_patience() returns trigger language plpgsql as $f$ begin
     new.max_attempts := coalesce(new.max_attempts, 1000);
     new.backoff := coalesce(new.backoff, '{"from": "10ms", "to": "40ms"}');
     return new; end $f$"#,
    "create trigger chaos_lane before insert on punctual.lane for each row \
     execute function chaos_lane_patience()",
    // Who ends an entry while others claim may leave the work of its delivery behind; here, each time.
    "create function chaos_left_behind() returns trigger language plpgsql security definer as $f$ begin \
     insert into punctual.work (message_id, lane_id, due_at) values (new.id, new.lane_id, old.due_at + 1); \
     return null; end $f$",
    "create trigger chaos_left after update on punctual.delivery for each row \
     when (old.status = 0 and new.status = 4 and old.due_at is not null) \
     execute function chaos_left_behind()",
];

const SQLITE: &[&str] = &[
    "create table chaos_log (seq integer primary key autoincrement, at integer, token text, \
     fresh integer, was text, became text, items text, open text, purpose text)",
    "create trigger chaos_new after insert on punctual.claim begin \
     insert into chaos_log (at, token, fresh, was, became, items, open, purpose) values ( \
        cast(unixepoch('subsec') * 1000000 as integer), new.token, 1, null, new.ending, \
            new.items, new.open, new.purpose); \
     end",
    "create trigger chaos_change after update on punctual.claim \
     when old.ending is not new.ending or old.open is not new.open begin \
     insert into chaos_log (at, token, fresh, was, became, items, open, purpose) values ( \
        cast(unixepoch('subsec') * 1000000 as integer), new.token, 0, old.ending, new.ending, \
            null, new.open, new.purpose); \
     end",
    "create table chaos_job (seq integer primary key autoincrement, at integer, job integer, \
     was integer, became integer)",
    "create trigger chaos_planned after update on punctual.job when old.next_due is not new.next_due begin \
     insert into chaos_job (at, job, was, became) values ( \
        cast(unixepoch('subsec') * 1000000 as integer), new.id, old.next_due, new.next_due); \
     end",
    "create table chaos_lease (seq integer primary key autoincrement, at integer, name text, \
     token integer, was integer, held_until integer)",
    "create trigger chaos_acquired after update on punctual.lease when old.token is not new.token begin \
     insert into chaos_lease (at, name, token, was, held_until) values ( \
        cast(unixepoch('subsec') * 1000000 as integer), new.name, new.token, old.token, \
        case when old.released_at is null then old.lease_until end); \
     end",
    "create table chaos_effect (seq integer primary key autoincrement, name text, token integer, \
     effect text)",
    "create trigger chaos_fenced after update on chaos_fence begin \
     insert into chaos_effect (name, token, effect) values (new.name, new.token, new.effect); \
     end",
    r#"create trigger chaos_lane after insert on punctual.lane begin
     update punctual.lane set max_attempts = coalesce(max_attempts, 1000),
        backoff = coalesce(backoff, '{"from": "10ms", "to": "40ms"}') where id = new.id;
     end"#,
    "create trigger chaos_left after update of status on punctual.delivery \
     when old.status = 0 and new.status = 4 and old.due_at is not null begin \
     insert into punctual.work (message_id, lane_id, due_at) values (new.id, new.lane_id, old.due_at + 1); \
     end",
];
