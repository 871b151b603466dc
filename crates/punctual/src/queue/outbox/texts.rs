//! The outbox's statements, one set for each database.
//!
//! Both take the whole batch as one JSON text, because one text is what every driver can
//! bind: on PostgreSQL that makes one statement and one flight, on SQLite two or three
//! statements however large the batch is.

use crate::database::statement::statements;

statements! {
    /// Writes a batch: `$1` tenant, `$2` messages, `$3` 1 to notify. The order in which ids are admitted is
    /// the same for every batch, so that two batches cannot deadlock over them. The last column is not read;
    /// PostgreSQL evaluates `told` because the select list names it.
    pub const POSTGRES for Postgres = "
        with e as (
            select *
            from rows from (
                json_to_recordset($2::text::json) as (
                    topic text, kind text, payload text, due_at bigint, occurred_at bigint, key text,
                    entity_type text, entity_id text, correlation_id text, headers text, source text,
                    external_id text, digest text, schema_version text
                )
            ) with ordinality as e (
                topic, kind, payload, due_at, occurred_at, key, entity_type, entity_id, correlation_id,
                headers, source, external_id, digest, schema_version, place
            )
        ),
        n as materialized (
            select punctual.now_us() as now
        ),
        a as (
            insert into punctual.admitted (tenant_id, source, external_id, digest, seen_at)
            select $1::bigint, e.source, e.external_id, e.digest, n.now
            from e
            cross join n
            where e.external_id is not null
            order by e.source, e.external_id
            on conflict do nothing
            returning source, external_id
        ),
        m as (
            insert into punctual.message (
                tenant_id, topic, kind, payload, created_at, due_at, occurred_at, key, entity_type,
                entity_id, correlation_id, headers, source, external_id, schema_version
            )
            select $1::bigint, e.topic, e.kind, e.payload, n.now, e.due_at, e.occurred_at, e.key,
                e.entity_type, e.entity_id, e.correlation_id, e.headers, e.source, e.external_id,
                e.schema_version
            from e
            cross join n
            left join a on a.source = e.source and a.external_id = e.external_id
            where e.external_id is null or a.external_id is not null
            order by e.place
            returning id, tenant_id, topic, key, coalesce(due_at, created_at) as due_at, source,
                external_id
        ),
        w as (
            insert into punctual.work (message_id, lane_id, due_at, key)
            select m.id, coalesce(r.lane_id, 0), m.due_at, m.key
            from m
            left join punctual.route r on r.tenant_id = m.tenant_id and r.topic = m.topic
        ),
        told as materialized (
            select pg_notify('punctual', '')
            where $3::bigint = 1
        )
        select m.id, m.source, m.external_id, (select count(*) from told) as told
        from m
    ";

    /// Reads ids that were admitted before: `$1` tenant, `$2` the ids.
    pub const POSTGRES_KNOWN for Postgres = "
        select a.source, a.external_id, a.digest,
            (
                select max(m.id)
                from punctual.message m
                where m.tenant_id = a.tenant_id
                    and m.source = a.source
                    and m.external_id = a.external_id
            )
        from json_to_recordset($2::text::json) as e (source text, external_id text)
        join punctual.admitted a on a.tenant_id = $1::bigint
            and a.source = e.source
            and a.external_id = e.external_id
    ";

    /// Writes messages that were not admitted before: `?1` tenant, `?2` messages, `?3` the host's time.
    /// SQLite has one writer, so no other connection admits an id between this and [`SQLITE_ADMIT`].
    pub const SQLITE_MESSAGE for Sqlite = "
        insert into punctual_message (
            tenant_id, topic, kind, payload, created_at, due_at, occurred_at, key, entity_type,
            entity_id, correlation_id, headers, source, external_id, schema_version
        )
        select ?1, e.value ->> 'topic', e.value ->> 'kind', e.value ->> 'payload',
            coalesce((select now_us from punctual_clock where id = 1 and manual = 1), ?3),
            e.value ->> 'due_at', e.value ->> 'occurred_at', e.value ->> 'key',
            e.value ->> 'entity_type', e.value ->> 'entity_id', e.value ->> 'correlation_id',
            e.value ->> 'headers', e.value ->> 'source', e.value ->> 'external_id',
            e.value ->> 'schema_version'
        from json_each(?2) e
        where e.value ->> 'external_id' is null
            or not exists (
                select 1
                from punctual_admitted a
                where a.tenant_id = ?1
                    and a.source = e.value ->> 'source'
                    and a.external_id = e.value ->> 'external_id'
            )
        order by e.key
        returning id, source, external_id
    ";

    /// Writes the work of the messages that the statement before has written: ids of one
    /// insert follow each other, and the range is empty when there were none.
    pub const SQLITE_WORK for Sqlite = "
        insert into punctual_work (message_id, lane_id, due_at, key)
        select m.id, coalesce(r.lane_id, 0), coalesce(m.due_at, m.created_at), m.key
        from punctual_message m
        left join punctual_route r on r.tenant_id = m.tenant_id and r.topic = m.topic
        where m.id between last_insert_rowid() - changes() + 1 and last_insert_rowid()
    ";

    /// Remembers the ids: `?1` tenant, `?2` messages, `?3` the host's time.
    pub const SQLITE_ADMIT for Sqlite = "
        insert into punctual_admitted (tenant_id, source, external_id, digest, seen_at)
        select ?1, e.value ->> 'source', e.value ->> 'external_id', e.value ->> 'digest',
            coalesce((select now_us from punctual_clock where id = 1 and manual = 1), ?3)
        from json_each(?2) e
        where e.value ->> 'external_id' is not null
        on conflict do nothing
    ";

    /// As [`POSTGRES_KNOWN`].
    pub const SQLITE_KNOWN for Sqlite = "
        select a.source, a.external_id, a.digest,
            (
                select max(m.id)
                from punctual_message m
                where m.tenant_id = a.tenant_id
                    and m.source = a.source
                    and m.external_id = a.external_id
            )
        from json_each(?2) e
        join punctual_admitted a on a.tenant_id = ?1
            and a.source = e.value ->> 'source'
            and a.external_id = e.value ->> 'external_id'
    ";
}
