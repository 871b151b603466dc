//! Messages that are written for the record: only explicit subscriptions of their topic get them.
//!
//! The topic has no queue of its own, and the flows do not look at it: the change that a message reports was
//! made in the same transaction.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::MessageId;
use crate::base::tenant::Tenant;
use crate::database::columns::Column;
use crate::database::statement::statements;
use crate::database::tx::Tx;
use crate::database::value::params;
use crate::queue::rules::message::Entity;
use crate::queue::store::waiting_work::{ADD_WORK_ROW, add_work};

/// A message that is written for the record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FactMessage<'a> {
    pub kind: &'a str,
    pub payload: &'a str,
    pub occurred_at: Option<Timestamp>,
    pub entity: Option<&'a Entity>,
    pub correlation_id: Option<&'a str>,
}

/// Writes messages of a topic, and the work of its enabled subscriptions; returns their ids, in order.
pub(crate) async fn insert_facts(
    tx: &mut Tx,
    tenant: Tenant,
    topic: &str,
    messages: &[FactMessage<'_>],
    now: Timestamp,
) -> Result<Vec<MessageId>> {
    if messages.is_empty() {
        return Ok(Vec::new());
    }
    let columns = [
        Column::Texts(messages.iter().map(|m| Some(m.kind)).collect()),
        Column::Texts(messages.iter().map(|m| Some(m.payload)).collect()),
        Column::MaybeInts(messages.iter().map(|m| m.occurred_at.map(Timestamp::as_micros)).collect()),
        Column::Texts(messages.iter().map(|m| m.entity.map(|entity| entity.kind.as_str())).collect()),
        Column::Texts(messages.iter().map(|m| m.entity.map(|entity| entity.id.as_str())).collect()),
        Column::Texts(messages.iter().map(|m| m.correlation_id).collect()),
    ];
    let rows = tx.in_columns((INSERT_AT_ONCE, INSERT), params![tenant.id(), topic, now], &columns).await?;
    let mut ids = rows.iter().map(|row| row.int(0)).collect::<Result<Vec<_>>>()?;
    // Ids are drawn in the order of the rows, whichever order they are returned in.
    ids.sort_unstable();
    for row in tx.query(LANES, params![tenant.id(), topic]).await? {
        let lanes = vec![row.int(0)?; ids.len()];
        let due = vec![now.as_micros(); ids.len()];
        let work = [Column::Ints(ids.clone()), Column::Ints(lanes), Column::Ints(due)];
        tx.in_columns((WORK_AT_ONCE, ADD_WORK_ROW), &[], &work).await?;
    }
    Ok(ids.into_iter().map(MessageId).collect())
}

statements! {
    const INSERT_AT_ONCE for Postgres = "
        insert into punctual.message (
            tenant_id, topic, created_at, kind, payload, occurred_at, entity_type, entity_id,
            correlation_id
        )
        select $1::int, $2::text, $3::bigint, unnest($4::text[]), unnest($5::text[]),
            unnest($6::bigint[]), unnest($7::text[]), unnest($8::text[]), unnest($9::text[])
        returning id
    ";

    const INSERT = "
        insert into punctual.message (
            tenant_id, topic, created_at, kind, payload, occurred_at, entity_type, entity_id,
            correlation_id
        )
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
        returning id
    ";

    const WORK_AT_ONCE for Postgres = add_work!(), "
        select unnest($1::bigint[]), unnest($2::int[]), unnest($3::bigint[])
    ";

    const LANES = "
        select s.lane_id
        from punctual.subscription s
        where s.tenant_id = $1 and s.topic = $2 and s.enabled = 1
        order by s.lane_id
    ";
}
