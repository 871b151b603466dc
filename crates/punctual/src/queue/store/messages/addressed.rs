//! A message for some subscriptions of its topic, and for no other consumer.
//!
//! The routes of its topic decide where a message usually goes. A sender that names subscriptions itself
//! reaches those that exist and are enabled at that moment, each as it would by a route: with its own lane,
//! filter, retries and dead letters. The topic's own queue gets nothing then.

use crate::base::error::Result;
use crate::base::id::MessageId;
use crate::base::tenant::Tenant;
use crate::database::columns::Column;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::Tx;
use crate::database::tx::VerbFuture;
use crate::database::value::{Value, params};
use crate::queue::rules::message::NewMessage;
use crate::queue::store::messages::{check, columns, insert, insert_message};
use crate::queue::store::routes;

/// A message that was written, and its consumers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressedMessage {
    /// The message.
    pub id: MessageId,
    /// Names of the subscriptions it went to, in their order; an empty name is the topic's own queue.
    pub to: Vec<String>,
    /// Names that were asked for and have no enabled subscription.
    pub unknown: Vec<String>,
}

impl Store {
    /// Writes one message: to the consumers of its topic's routes, or only to the subscriptions named. With
    /// an empty list the message is kept without work. Its id is ignored.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] with every problem when the message is not acceptable.
    pub fn enqueue_to(
        &self,
        tenant: Tenant,
        message: NewMessage,
        only: Option<Vec<String>>,
    ) -> VerbFuture<'_, AddressedMessage> {
        VerbFuture::new(async move {
            check(std::slice::from_ref(&message))?;
            self.of(tenant)
                .write((tenant, message, only), |tx, (tenant, message, only)| {
                    Box::pin(insert_to(tx, *tenant, message, only.as_deref()))
                })
                .await
        })
    }
}

/// The same inside a transaction, for a message that was checked.
pub(crate) async fn insert_to(
    tx: &mut Tx,
    tenant: Tenant,
    message: &NewMessage,
    only: Option<&[String]>,
) -> Result<AddressedMessage> {
    match only {
        None => insert_routed(tx, tenant, message).await,
        Some(names) => insert_only(tx, tenant, message, names).await,
    }
}

/// The consumers are read from the written work: routes may change at any moment.
async fn insert_routed(tx: &mut Tx, tenant: Tenant, message: &NewMessage) -> Result<AddressedMessage> {
    routes::ensure(tx, tenant, &message.topic).await?;
    let ids = insert(tx, tenant, &[message]).await?;
    let id = ids.first().copied().unwrap_or(MessageId(0));
    let rows = tx.query(OWED, params![tenant.id(), &message.topic, id.0]).await?;
    let to = rows.iter().map(|row| row.text(0)).collect::<Result<Vec<_>>>()?;
    Ok(AddressedMessage { id, to, unknown: Vec::new() })
}

statements! {
    const OWED = "
        select l.subscription
        from punctual.lane l
        join punctual.message m on m.id = $3
        join punctual.work w on w.lane_id = l.id
            and w.message_id = m.id
            and w.due_at = coalesce(m.due_at, m.created_at)
        where l.tenant_id = $1 and l.topic = $2 and l.purpose = 'dispatch'
        order by l.subscription
    ";
}

/// Messages of one topic and kind, with nothing but a payload, for subscriptions named; set by set.
pub(crate) async fn insert_all_to(
    tx: &mut Tx,
    tenant: Tenant,
    messages: &[NewMessage],
    names: &[String],
) -> Result<()> {
    let Some(first) = messages.first() else { return Ok(()) };
    let lanes = enabled(tx, tenant, &first.topic, names).await?;
    let now = tx.now().await?;
    let payloads = [Column::Texts(messages.iter().map(|message| Some(message.payload.as_str())).collect())];
    let shared = params![tenant.id(), &first.topic, &first.kind, now];
    let made = tx.in_columns((PLAIN_AT_ONCE, PLAIN), shared, &payloads).await?;
    let ids = made.iter().map(|row| row.int(0)).collect::<Result<Vec<_>>>()?;
    for (_, lane) in lanes {
        let columns = [Column::Ints(ids.clone())];
        tx.in_columns((WORK_AT_ONCE, WORK), params![lane, now], &columns).await?;
    }
    Ok(())
}

statements! {
    const PLAIN_AT_ONCE for Postgres = "
        insert into punctual.message (tenant_id, topic, kind, payload, created_at)
        select $1::int, $2::text, $3::text, p, $4::bigint
        from unnest($5::text[]) p
        returning id
    ";

    const PLAIN = "
        insert into punctual.message (tenant_id, topic, kind, payload, created_at)
        values ($1, $2, $3, $5, $4)
        returning id
    ";

    const WORK_AT_ONCE for Postgres = "
        insert into punctual.work (message_id, lane_id, due_at)
        select id, $1::int, $2::bigint
        from unnest($3::bigint[]) id
    ";

    const WORK = "
        insert into punctual.work (message_id, lane_id, due_at)
        values ($3, $1, $2)
    ";
}

/// The subscriptions of these names that are there and enabled, with their lanes.
async fn enabled(tx: &mut Tx, tenant: Tenant, topic: &str, names: &[String]) -> Result<Vec<(String, i64)>> {
    let wanted: Vec<Option<&str>> = names.iter().map(|name| Some(name.as_str())).collect();
    let rows = tx.query(ENABLED, &[tenant.id().into(), Value::from(topic), Value::Texts(&wanted)]).await?;
    rows.iter().map(|row| Ok((row.text(0)?, row.int(1)?))).collect()
}

async fn insert_only(
    tx: &mut Tx,
    tenant: Tenant,
    message: &NewMessage,
    names: &[String],
) -> Result<AddressedMessage> {
    let found = enabled(tx, tenant, &message.topic, names).await?;
    let now = tx.now().await?;
    let made = tx.first(INSERT_RETURNING, &columns(tenant, message, now)).await?;
    let id = made.map_or(Ok(0), |row| row.int(0))?;
    let due = message.due_at.unwrap_or(now);
    let work: Vec<Vec<Value<'_>>> = found
        .iter()
        .map(|(_, lane)| vec![id.into(), (*lane).into(), due.into(), message.key.as_deref().into()])
        .collect();
    tx.each(super::INSERT_WORK, &work).await?;
    let known = |name: &&String| !found.iter().any(|(found, _)| found == *name);
    let mut unknown: Vec<String> = names.iter().filter(known).cloned().collect();
    unknown.sort_unstable();
    unknown.dedup();
    Ok(AddressedMessage { id: MessageId(id), to: found.into_iter().map(|(name, _)| name).collect(), unknown })
}

statements! {
    const ENABLED = "
        select s.name, s.lane_id
        from punctual.subscription s
        where s.tenant_id = $1 and s.topic = $2 and s.name = any($3::text[]) and s.enabled = 1
        order by s.name
    ";

    const INSERT_RETURNING = insert_message!(), "
        returning id
    ";
}
