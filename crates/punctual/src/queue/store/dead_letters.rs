//! Dead letters: items that ran out of attempts, with their whole history, until they are replayed or purged.

use crate::base::clock::Timestamp;
use crate::base::error::{Error, Result};
use crate::base::id::{DeadLetterId, LaneId, MessageId};
use crate::base::limits;
use crate::base::tenant::Tenant;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::Tx;
use crate::database::tx::VerbFuture;
use crate::database::value::{Row, Value, params};
use crate::queue::rules::message::Message;
use crate::queue::store::messages::{message_columns, read_message};
use crate::queue::store::timers::own_due;

/// A dead letter.
#[derive(Clone, Debug)]
pub struct DeadLetter {
    /// Its id.
    pub id: DeadLetterId,
    /// The topic.
    pub topic: String,
    /// The subscription, empty for the topic's own queue.
    pub subscription: String,
    /// The message.
    pub message: Message,
    /// How often it was claimed.
    pub claims: u32,
    /// Every attempt that did not end well.
    pub attempts: Vec<DeadLetterAttempt>,
    /// When it died.
    pub died_at: Timestamp,
    /// The last error.
    pub error: String,
}

/// A dead letter without its payload and history, which may be large.
#[derive(Clone, Debug)]
pub struct DeadLetterSummary {
    /// Its id.
    pub id: DeadLetterId,
    /// The topic.
    pub topic: String,
    /// The subscription, empty for the topic's own queue.
    pub subscription: String,
    /// The kind of its message.
    pub kind: String,
    /// How many attempts did not end well.
    pub attempts: u32,
    /// When it died.
    pub died_at: Timestamp,
    /// The last error.
    pub error: String,
}

/// An attempt that did not end well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetterAttempt {
    /// Its number, from 1.
    pub number: u32,
    /// When it ended.
    pub at: Timestamp,
    /// The worker that made the attempt.
    pub owner: String,
    /// `abandoned`, `failed`, `reaped` or `snoozed`.
    pub outcome: String,
    /// Why.
    pub error: String,
}

/// Which dead letters.
#[derive(Clone, Debug, Default)]
pub struct DeadLetterFilter {
    /// Only these; all if `None`.
    pub ids: Option<Vec<DeadLetterId>>,
    /// Only of this topic.
    pub topic: Option<String>,
    /// Only of this subscription.
    pub subscription: Option<String>,
    /// Only those above this id.
    pub after: i64,
}

/// The result of a replay or purge, or of a dry run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadLetterOutcome {
    /// The dead letters.
    pub ids: Vec<DeadLetterId>,
    /// Whether there may be more.
    pub more: bool,
}

impl Store {
    /// Dead letters of a tenant, oldest first.
    pub fn dead_letters(
        &self,
        tenant: Tenant,
        which: DeadLetterFilter,
        limit: usize,
    ) -> VerbFuture<'_, Vec<DeadLetter>> {
        self.of(tenant).read((tenant, which, limit), |tx, (tenant, which, limit)| {
            Box::pin(list(tx, *tenant, which, *limit))
        })
    }

    /// The latest dead letters of a tenant, the newest first.
    pub fn latest_dead_letters(
        &self,
        tenant: Tenant,
        limit: usize,
    ) -> VerbFuture<'_, Vec<DeadLetterSummary>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.of(tenant).read((tenant, limit), |tx, (tenant, limit)| {
            Box::pin(async move {
                let rows = tx.query(LATEST, params![tenant.id(), *limit]).await?;
                rows.iter().map(read_summary).collect()
            })
        })
    }

    /// Puts dead letters back to work, a bounded number at a time. Those of a subscription that was
    /// deleted stay until there is one of its name again.
    pub fn replay(
        &self,
        tenant: Tenant,
        which: DeadLetterFilter,
        dry_run: bool,
    ) -> VerbFuture<'_, DeadLetterOutcome> {
        VerbFuture::new(async move {
            check(&which)?;
            self.of(tenant)
                .write((tenant, which, dry_run), |tx, (tenant, which, dry)| {
                    Box::pin(remove(tx, *tenant, which, *dry, true))
                })
                .await
        })
    }

    /// Deletes dead letters for good, a bounded number at a time.
    pub fn purge(
        &self,
        tenant: Tenant,
        which: DeadLetterFilter,
        dry_run: bool,
    ) -> VerbFuture<'_, DeadLetterOutcome> {
        VerbFuture::new(async move {
            check(&which)?;
            self.of(tenant)
                .write((tenant, which, dry_run), |tx, (tenant, which, dry)| {
                    Box::pin(remove(tx, *tenant, which, *dry, false))
                })
                .await
        })
    }
}

fn check(which: &DeadLetterFilter) -> Result<()> {
    match &which.ids {
        Some(ids) if ids.len() > limits::BATCH_ITEMS_MAX => {
            let said = format!("{} ids, at most {} are allowed", ids.len(), limits::BATCH_ITEMS_MAX);
            Err(Error::invalid("ids", said))
        }
        _ => Ok(()),
    }
}

/// Dead letters moved by one transaction.
const MOVE_MAX: usize = 1_000;

fn read_summary(row: &Row) -> Result<DeadLetterSummary> {
    Ok(DeadLetterSummary {
        id: DeadLetterId(row.int(0)?),
        topic: row.text(1)?,
        subscription: row.text(2)?,
        kind: row.text(3)?,
        died_at: row.time(4)?,
        error: row.text(5)?,
        attempts: row.count(6)?,
    })
}

statements! {
    const LATEST = "
        select d.id, l.topic, l.subscription, m.kind, d.died_at, d.error,
            (
                select count(*)
                from punctual.attempt a
                where a.message_id = d.message_id and a.lane_id = d.lane_id
            )
        from punctual.dead_letter d
        join punctual.lane l on l.id = d.lane_id
        join punctual.message m on m.id = d.message_id
        where d.tenant_id = $1
        order by d.id desc
        limit $2
    ";
}

/// With `served`, only those that a consumer would get: dead letters of a deleted subscription stay.
async fn select(
    tx: &mut Tx,
    sql: &'static str,
    tenant: Tenant,
    (which, limit): (&DeadLetterFilter, usize),
    served: bool,
) -> Result<Vec<Row>> {
    let ids: Vec<i64> = which.ids.iter().flatten().map(|id| id.0).collect();
    let values = [
        tenant.id().into(),
        which.after.into(),
        which.topic.as_deref().into(),
        which.subscription.as_deref().into(),
        which.ids.is_none().into(),
        Value::Ints(&ids),
        i64::try_from(limit).unwrap_or(0).into(),
        served.into(),
    ];
    tx.query(sql, &values).await
}

macro_rules! of_which {
    () => {
        "
        from punctual.dead_letter d
        join punctual.lane l on l.id = d.lane_id
        join punctual.message m on m.id = d.message_id
        where d.tenant_id = $1
            and d.id > $2
            and ($3::text is null or l.topic = $3)
            and ($4::text is null or l.subscription = $4)
            and ($5 = 1 or d.id = any($6::bigint[]))
            and (
                $8 = 0
                    or l.subscription in ('', '/flows')
                    or exists (select 1 from punctual.subscription s where s.lane_id = l.id)
            )
        order by d.id
        limit $7
        "
    };
}

statements! {
    const LIST = "
        select d.id, l.topic, l.subscription, d.attempts, d.died_at, d.error, d.lane_id,
            ", message_columns!(), " ", of_which!();

    /// Without payloads: a thousand are moved at once.
    const PLACES = "
        select d.id, d.lane_id, d.key, d.message_id ", of_which!();
}

async fn list(
    tx: &mut Tx,
    tenant: Tenant,
    which: &DeadLetterFilter,
    limit: usize,
) -> Result<Vec<DeadLetter>> {
    let rows = select(tx, LIST, tenant, (which, limit), false).await?;
    let mut letters = Vec::with_capacity(rows.len());
    for mut row in rows {
        let message = read_message(&mut row, 7)?;
        let attempts = attempts_of(tx, message.id, LaneId(row.int(6)?)).await?;
        letters.push(DeadLetter {
            id: DeadLetterId(row.int(0)?),
            topic: row.text(1)?,
            subscription: row.text(2)?,
            claims: row.count(3)?,
            died_at: row.time(4)?,
            error: row.text(5)?,
            message,
            attempts,
        });
    }
    Ok(letters)
}

async fn attempts_of(tx: &mut Tx, message: MessageId, lane: LaneId) -> Result<Vec<DeadLetterAttempt>> {
    let rows = tx.query(ATTEMPTS, params![message.0, lane.0]).await?;
    rows.iter()
        .map(|row| {
            Ok(DeadLetterAttempt {
                number: row.count(0)?,
                at: row.time(1)?,
                owner: row.text(2)?,
                outcome: row.text(3)?,
                error: row.text(4)?,
            })
        })
        .collect()
}

statements! {
    const ATTEMPTS = "
        select number, at, owner, outcome, error
        from punctual.attempt
        where message_id = $1 and lane_id = $2
        order by id
    ";
}

/// Takes dead letters away; with `again`, puts their messages back to work.
async fn remove(
    tx: &mut Tx,
    tenant: Tenant,
    which: &DeadLetterFilter,
    dry_run: bool,
    again: bool,
) -> Result<DeadLetterOutcome> {
    let rows = select(tx, PLACES, tenant, (which, MOVE_MAX), again).await?;
    let mut moved = DeadLetterOutcome { ids: Vec::with_capacity(rows.len()), more: rows.len() == MOVE_MAX };
    let mut letters = Vec::with_capacity(rows.len());
    for row in &rows {
        moved.ids.push(DeadLetterId(row.int(0)?));
        letters.push((LaneId(row.int(1)?), row.maybe_text(2)?, MessageId(row.int(3)?)));
    }
    if dry_run {
        return Ok(moved);
    }
    let ids: Vec<Vec<Value<'_>>> = moved.ids.iter().map(|id| vec![id.0.into()]).collect();
    let gone = tx.each(DELETE, &ids).await?;
    // Another replay or purge may have been faster: it counts the dead letters that it moved.
    let mine: Vec<bool> = gone.iter().map(|rows| !rows.is_empty()).collect();
    let mut ours = mine.iter();
    moved.ids.retain(|_| ours.next().copied().unwrap_or_default());
    let letters = letters.into_iter().zip(&mine).filter(|(_, mine)| **mine);
    let letters: Vec<_> = letters.map(|(letter, _)| letter).collect();
    if again {
        let work: Vec<Vec<Value<'_>>> = letters
            .iter()
            .map(|(lane, key, m)| vec![m.0.into(), lane.0.into(), key.as_deref().into()])
            .collect();
        tx.each(WORK_ANEW, &work).await?;
        let messages: Vec<MessageId> = letters.iter().map(|letter| letter.2).collect();
        tx.settlement_hooks().await?.after_replay(tx, &messages).await?;
    } else {
        let done: Vec<(LaneId, &str, MessageId)> =
            letters.iter().filter_map(|(lane, key, m)| Some((*lane, key.as_deref()?, *m))).collect();
        super::sequences::release(tx, &done).await?;
    }
    Ok(moved)
}

statements! {
    /// Attempts begin anew; the history stays.
    const WORK_ANEW = "
        insert into punctual.work (message_id, lane_id, due_at, key)
        select m.id, $2, ", own_due!(), ", $3
        from punctual.message m
        where m.id = $1
    ";
}

statements! {
    const DELETE = "
        delete from punctual.dead_letter
        where id = $1
        returning id
    ";
}
