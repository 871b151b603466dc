//! The rows of new messages and of their work: in arrays on PostgreSQL, row after row on SQLite.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::MessageId;
use crate::base::tenant::Tenant;
use crate::database::statement::statements;
use crate::database::tx::Tx;
#[cfg(feature = "postgres")]
use crate::database::value::Row;
use crate::database::value::Value;
#[cfg(feature = "sqlite")]
use crate::database::value::params;
use crate::queue::rules::message::NewMessage;
#[cfg(feature = "postgres")]
use crate::queue::store::messages::parts::parts;
use crate::queue::store::messages::source_of;

/// Writes messages and their work; ids in the order given.
pub(crate) async fn insert(tx: &mut Tx, tenant: Tenant, messages: &[&NewMessage]) -> Result<Vec<MessageId>> {
    if messages.is_empty() {
        return Ok(Vec::new());
    }
    match tx {
        #[cfg(feature = "postgres")]
        Tx::Postgres(_) => insert_arrays(tx, tenant, messages).await,
        #[cfg(feature = "sqlite")]
        Tx::Sqlite(_) => insert_rows(tx, tenant, messages).await,
    }
}

/// Large messages in several statements of the transaction. Later ones have higher ids, as they have been
/// read from the sequence later.
#[cfg(feature = "postgres")]
async fn insert_arrays(tx: &mut Tx, tenant: Tenant, messages: &[&NewMessage]) -> Result<Vec<MessageId>> {
    let mut ids = Vec::with_capacity(messages.len());
    for part in parts(messages, |message| message.bytes()) {
        ids.extend(insert_part(tx, tenant, part).await?);
    }
    Ok(ids)
}

#[cfg(feature = "postgres")]
async fn insert_part(tx: &mut Tx, tenant: Tenant, messages: &[&NewMessage]) -> Result<Vec<MessageId>> {
    let texts = |pick: fn(&NewMessage) -> Option<&str>| messages.iter().map(|m| pick(m)).collect::<Vec<_>>();
    let payloads = texts(|m| Some(&m.payload));
    if let Some((topic, kind)) = uniform(messages) {
        let values = [tenant.id().into(), topic.into(), kind.into(), Value::Texts(&payloads)];
        let rows = tx.query(INSERT_UNIFORM, &values).await?;
        let mut ids = rows.first().map_or_else(|| Ok(Vec::new()), |row| row.ints(0))?;
        ids.sort_unstable();
        return Ok(ids.into_iter().map(MessageId).collect());
    }
    let times = |pick: fn(&NewMessage) -> Option<Timestamp>| {
        messages.iter().map(|m| pick(m).map(Timestamp::as_micros)).collect::<Vec<_>>()
    };
    let (due, occurred) = (times(|m| m.due_at), times(|m| m.occurred_at));
    let lists: [Vec<Option<&str>>; 10] = [
        texts(|m| Some(&m.topic)),
        texts(|m| Some(&m.kind)),
        texts(|m| m.key.as_deref()),
        texts(|m| m.entity.as_ref().map(|e| e.kind.as_str())),
        texts(|m| m.entity.as_ref().map(|e| e.id.as_str())),
        texts(|m| m.correlation_id.as_deref()),
        texts(|m| m.headers.as_deref()),
        texts(source_of),
        texts(|m| m.id.as_deref()),
        texts(|m| m.schema_version.as_deref()),
    ];
    let mut values = vec![tenant.id().into(), Value::Texts(&payloads)];
    values.extend([Value::MaybeInts(&due), Value::MaybeInts(&occurred)]);
    values.extend(lists.iter().map(|list| Value::Texts(list)));
    ids(&tx.query(INSERT_FULL, &values).await?)
}

/// Messages of one topic and kind with nothing but a payload, by far the most common
/// batch, are written with fewer parameters.
fn uniform<'a>(messages: &[&'a NewMessage]) -> Option<(&'a str, &'a str)> {
    let first = messages.first()?;
    let alike = |m: &&NewMessage| {
        let texts = [&m.key, &m.correlation_id, &m.headers, &m.source, &m.id, &m.schema_version];
        m.topic == first.topic
            && m.kind == first.kind
            && m.entity.is_none()
            && m.due_at.is_none()
            && m.occurred_at.is_none()
            && texts.iter().all(|t| t.is_none())
    };
    messages.iter().all(alike).then_some((&first.topic, &first.kind))
}

/// Ids rise in input order.
#[cfg(feature = "postgres")]
fn ids(rows: &[Row]) -> Result<Vec<MessageId>> {
    let mut ids = rows.iter().map(|row| row.int(0).map(MessageId)).collect::<Result<Vec<_>>>()?;
    ids.sort_unstable();
    Ok(ids)
}

statements! {
    /// The clock is asked in a query of its own, which runs once, not once per row.
    #[cfg(feature = "postgres")]
    const INSERT_UNIFORM for Postgres = "
        with n as materialized (
            select punctual.now_us() as now
        ),
        m as (
            insert into punctual.message (tenant_id, topic, kind, payload, created_at)
            select $1::int, $2::text, $3::text, p, (select now from n)
            from unnest($4::text[]) p
            returning id
        ),
        w as (
            insert into punctual.work (message_id, lane_id, due_at)
            select m.id, r.lane_id, (select now from n)
            from m
            cross join (
                select lane_id
                from punctual.route
                where tenant_id = $1::int and topic = $2::text
                union all
                select 0
                where not exists (
                    select 1
                    from punctual.route
                    where tenant_id = $1::int and topic = $2::text
                )
            ) r
        )
        select array_agg(id)
        from m
    ";

    #[cfg(feature = "postgres")]
    const INSERT_FULL for Postgres = "
        with m as (
            insert into punctual.message (
                tenant_id, topic, kind, payload, created_at, due_at, occurred_at, key, entity_type,
                entity_id, correlation_id, headers, source, external_id, schema_version
            )
            select $1::int, e.topic, e.kind, e.payload, (select punctual.now_us()), e.due_at,
                e.occurred_at, e.key, e.entity_type, e.entity_id, e.correlation_id, e.headers, e.source,
                e.external_id, e.schema_version
            from (
                select unnest($2::text[]) payload, unnest($3::bigint[]) due_at,
                    unnest($4::bigint[]) occurred_at, unnest($5::text[]) topic, unnest($6::text[]) kind,
                    unnest($7::text[]) key, unnest($8::text[]) entity_type,
                    unnest($9::text[]) entity_id, unnest($10::text[]) correlation_id,
                    unnest($11::text[]) headers, unnest($12::text[]) source,
                    unnest($13::text[]) external_id, unnest($14::text[]) schema_version
            ) e
            returning id, tenant_id, topic, key, coalesce(due_at, created_at) as due_at
        ),
        w as (
            insert into punctual.work (message_id, lane_id, due_at, key)
            select m.id, coalesce(r.lane_id, 0), m.due_at, m.key
            from m
            left join punctual.route r on r.tenant_id = m.tenant_id and r.topic = m.topic
        )
        select id
        from m
    ";
}

#[cfg(feature = "sqlite")]
async fn insert_rows(tx: &mut Tx, tenant: Tenant, messages: &[&NewMessage]) -> Result<Vec<MessageId>> {
    let now = tx.now().await?;
    match uniform(messages) {
        Some((topic, kind)) if messages.len() == 1 => {
            let row = params![tenant.id(), topic, kind, &messages[0].payload, now];
            tx.execute(INSERT_MESSAGE_PLAIN, row).await?;
        }
        Some((topic, kind)) => {
            let payloads: Vec<Option<&str>> = messages.iter().map(|m| Some(m.payload.as_str())).collect();
            let row = [tenant.id().into(), topic.into(), kind.into(), Value::Texts(&payloads), now.into()];
            tx.execute(INSERT_MESSAGES_UNIFORM, &row).await?;
        }
        None => {
            let rows: Vec<_> = messages.iter().map(|m| columns(tenant, m, now)).collect();
            tx.each(INSERT_MESSAGE, &rows).await?;
        }
    }
    // The writer is alone, so the ids of one run of inserts follow each other.
    let last = tx.last_id();
    let first = last - i64::try_from(messages.len()).unwrap_or(0) + 1;
    match uniform(messages) {
        Some((topic, _)) => {
            tx.execute(INSERT_WORK_UNIFORM, params![first, last, tenant.id(), topic, now]).await?;
        }
        None => {
            tx.execute(INSERT_WORK_OF, params![first, last]).await?;
        }
    }
    Ok((first..=last).map(MessageId).collect())
}

statements! {
    #[cfg(feature = "sqlite")]
    const INSERT_MESSAGE_PLAIN = "
        insert into punctual.message (tenant_id, topic, kind, payload, created_at)
        values ($1, $2, $3, $4, $5)
    ";

    #[cfg(feature = "sqlite")]
    const INSERT_MESSAGES_UNIFORM for Sqlite = "
        insert into punctual.message (tenant_id, topic, kind, payload, created_at)
        select $1, $2, $3, value, $5
        from rarray($4)
    ";

    /// The lanes are looked up once, then each takes all messages.
    #[cfg(feature = "sqlite")]
    const INSERT_WORK_UNIFORM = "
        insert into punctual.work (message_id, lane_id, due_at)
        select m.id, r.lane_id, $5
        from (
            select lane_id
            from punctual.route
            where tenant_id = $3 and topic = $4
            union all
            select 0
            where not exists (select 1 from punctual.route where tenant_id = $3 and topic = $4)
        ) r
        cross join punctual.message m
        where m.id between $1 and $2
    ";

    #[cfg(feature = "sqlite")]
    const INSERT_WORK_OF = "
        insert into punctual.work (message_id, lane_id, due_at, key)
        select m.id, coalesce(r.lane_id, 0), coalesce(m.due_at, m.created_at), m.key
        from punctual.message m
        left join punctual.route r on r.tenant_id = m.tenant_id and r.topic = m.topic
        where m.id between $1 and $2
    ";
}

pub(crate) fn columns<'a>(tenant: Tenant, m: &'a NewMessage, now: Timestamp) -> Vec<Value<'a>> {
    let micros = |t: Option<Timestamp>| t.map(Timestamp::as_micros);
    vec![
        tenant.id().into(),
        m.topic.as_str().into(),
        m.kind.as_str().into(),
        m.payload.as_str().into(),
        now.into(),
        micros(m.due_at).into(),
        micros(m.occurred_at).into(),
        m.key.as_deref().into(),
        m.entity.as_ref().map(|e| e.kind.as_str()).into(),
        m.entity.as_ref().map(|e| e.id.as_str()).into(),
        m.correlation_id.as_deref().into(),
        m.headers.as_deref().into(),
        source_of(m).into(),
        m.id.as_deref().into(),
        m.schema_version.as_deref().into(),
    ]
}

macro_rules! insert_message {
    () => {
        "
        insert into punctual.message (
            tenant_id, topic, kind, payload, created_at, due_at, occurred_at, key, entity_type,
            entity_id, correlation_id, headers, source, external_id, schema_version
        )
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
        "
    };
}
pub(crate) use insert_message;

statements! {
    #[cfg(feature = "sqlite")]
    const INSERT_MESSAGE = insert_message!();

    /// One work row; also for what comes back into the table one by one.
    pub(crate) const INSERT_WORK = "
        insert into punctual.work (message_id, lane_id, due_at, key)
        values ($1, $2, $3, $4)
    ";
}
