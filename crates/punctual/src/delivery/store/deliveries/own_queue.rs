//! The own queue of a topic whose events lead to notifications.
//!
//! An event that was taken (by notifications or surveys) does not wait there as well, unless the queue was
//! declared. An event that was passed over waits there, if no other consumer takes the topic's messages: an
//! event of a kind without notifications must not vanish because another kind of its topic has them.

use crate::base::error::Result;
use crate::base::id::LaneId;
use crate::base::tenant::Tenant;
use crate::database::columns::Column;
use crate::database::statement::statements;
use crate::database::tx::Tx;
use crate::database::value::params;
use crate::queue::rules::message::Message;
use crate::queue::store::sequences;
use std::collections::{BTreeMap, HashSet};

type Topics<'a> = BTreeMap<(Tenant, &'a str), Vec<&'a Message>>;

fn by_topic<'a>(events: &[&'a Message]) -> Topics<'a> {
    let mut topics = Topics::new();
    for event in events {
        topics.entry((event.tenant, &event.topic)).or_default().push(event);
    }
    topics
}

/// Takes events out of the own queues of their topics.
pub(crate) async fn take(tx: &mut Tx, taken: &[&Message]) -> Result<()> {
    for ((tenant, topic), events) in by_topic(taken) {
        let Some(own) = tx.first(UNDECLARED, params![tenant.id(), topic]).await? else { continue };
        let own = LaneId(own.int(0)?);
        let columns = [
            Column::Ints(events.iter().map(|event| event.due_at.as_micros()).collect()),
            Column::Ints(events.iter().map(|event| event.id.0).collect()),
        ];
        let gone = tx.in_columns((UNCLAIMED_AT_ONCE, UNCLAIMED), params![own.0], &columns).await?;
        let gone = gone.iter().map(|row| row.int(0)).collect::<Result<HashSet<_>>>()?;
        let keyed = events.iter().filter(|event| gone.contains(&event.id.0));
        let heads: Vec<_> = keyed.filter_map(|event| Some((own, event.key.as_deref()?, event.id))).collect();
        sequences::leave(tx, &heads).await?;
    }
    Ok(())
}

/// Puts events there that no other consumer takes.
pub(crate) async fn leave(tx: &mut Tx, passed: &[&Message]) -> Result<()> {
    for ((tenant, topic), events) in by_topic(passed) {
        let Some(own) = tx.first(UNROUTED, params![tenant.id(), topic]).await? else { continue };
        let columns = [
            Column::Ints(events.iter().map(|event| event.id.0).collect()),
            Column::Ints(events.iter().map(|event| event.due_at.as_micros()).collect()),
            Column::Texts(events.iter().map(|event| event.key.as_deref()).collect()),
        ];
        tx.in_columns((LEFT_AT_ONCE, LEFT), params![own.int(0)?], &columns).await?;
    }
    Ok(())
}

statements! {
    /// The own lane of a topic that only the flows have a route to.
    const UNROUTED = "
        select l.id
        from punctual.lane l
        where l.tenant_id = $1
            and l.topic = $2
            and l.subscription = ''
            and l.purpose = 'dispatch'
            and not exists (
                select 1
                from punctual.route r
                join punctual.lane o on o.id = r.lane_id
                where r.tenant_id = l.tenant_id and r.topic = l.topic and o.subscription <> '/flows'
            )
    ";

    /// An event that was written before the topic had notifications is there already.
    const LEFT_AT_ONCE for Postgres = "
        insert into punctual.work (message_id, lane_id, due_at, key)
        select x.id, $1::int, x.due_at, x.key
        from (select unnest($2::bigint[]) id, unnest($3::bigint[]) due_at, unnest($4::text[]) key) x
        where not exists (
            select 1
            from punctual.work w
            where w.lane_id = $1::int and w.due_at = x.due_at and w.message_id = x.id
        )
    ";

    const LEFT = "
        insert into punctual.work (message_id, lane_id, due_at, key)
        select $2, $1, $3, $4
        where not exists (
            select 1
            from punctual.work w
            where w.lane_id = $1 and w.due_at = $3 and w.message_id = $2
        )
    ";

    /// The least of an index is found at once; whether there is any row might be sought in the whole table.
    const UNDECLARED = "
        select l.id
        from punctual.lane l
        where l.tenant_id = $1
            and l.topic = $2
            and l.subscription = ''
            and l.purpose = 'dispatch'
            and l.declared = 0
            and (select min(w.due_at) from punctual.work w where w.lane_id = l.id) is not null
            and not exists (select 1 from punctual.handled_topic h where h.topic = l.topic)
    ";

    const UNCLAIMED_AT_ONCE for Postgres = "
        delete from punctual.work w
        using unnest($2::bigint[], $3::bigint[]) x (due_at, message_id)
        where w.lane_id = $1 and w.due_at = x.due_at and w.message_id = x.message_id
        returning w.message_id
    ";

    const UNCLAIMED = "
        delete from punctual.work
        where lane_id = $1 and due_at = $2 and message_id = $3
        returning message_id
    ";
}
