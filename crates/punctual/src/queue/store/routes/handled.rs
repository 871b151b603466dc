//! Topics that processes have handlers for: their own queues are declared, whichever subscriptions there are.

use crate::base::error::Result;
use crate::base::tenant::Tenant;
use crate::database::dialect::Dialect;
use crate::database::statement::statements;
use crate::database::tx::Tx;
use crate::database::value::Value;
use crate::queue::store::routes::declare;

pub(super) async fn note_handled(tx: &mut Tx, topics: &[String]) -> Result<()> {
    let names: Vec<Option<&str>> = topics.iter().map(|topic| Some(topic.as_str())).collect();
    let known = tx.query(HANDLED, &[Value::Texts(&names)]).await?;
    let known = known.iter().map(|row| row.text(0)).collect::<Result<Vec<_>>>()?;
    let mut new: Vec<&String> = topics.iter().filter(|topic| !known.contains(topic)).collect();
    if new.is_empty() {
        return Ok(());
    }
    if tx.dialect() == Dialect::Postgres {
        // Waits for transactions that are just putting a subscription without knowing of these.
        tx.execute(LOCK_SUBSCRIPTIONS, &[]).await?;
    }
    new.sort_unstable();
    let now = tx.now().await?;
    let rows: Vec<Vec<Value<'_>>> = new.iter().map(|topic| vec![topic.as_str().into(), now.into()]).collect();
    tx.each(ADD_HANDLED, &rows).await?;
    Ok(())
}

statements! {
    const LOCK_SUBSCRIPTIONS for Postgres = "
        lock table punctual.subscription in share mode
    ";

    const ADD_HANDLED = "
        insert into punctual.handled_topic (topic, since)
        values ($1, $2)
        on conflict do nothing
    ";

    const HANDLED = "
        select topic
        from punctual.handled_topic
        where topic = any($1::text[])
    ";
}

pub(super) async fn declare_handled(tx: &mut Tx, topics: &[String]) -> Result<()> {
    let names: Vec<Option<&str>> = topics.iter().map(|topic| Some(topic.as_str())).collect();
    for row in tx.query(DISPLACED, &[Value::Texts(&names)]).await? {
        declare(tx, Tenant::from_row(row.int(0)?), &row.text(1)?).await?;
    }
    Ok(())
}

statements! {
    const DISPLACED = "
        select distinct s.tenant_id, s.topic
        from punctual.subscription s
        where s.topic = any($1::text[])
            and not exists (
                select 1
                from punctual.lane l
                join punctual.route r on r.lane_id = l.id
                    and r.tenant_id = l.tenant_id
                    and r.topic = l.topic
                where l.tenant_id = s.tenant_id
                    and l.topic = s.topic
                    and l.subscription = ''
                    and l.purpose = 'dispatch'
                    and l.declared = 1
            )
        order by s.tenant_id, s.topic
    ";
}
