//! Claims of due deliveries.
//!
//! [`Store::begin_deliveries`] takes due work, reads its deliveries, and writes the claim, which is the
//! intent: from then on its sends may be made. (Deliveries that nothing waits before have a claim since they
//! were written, see [`super::begin`].) Only when that is committed, channels are called. A delivery that is
//! not pending any more, or is held, is dropped: its work row was left behind by a race.
//!
//! A process that sends slowly begins at most a window of its claim before it settles what has finished and
//! moves the claim's mark. After a crash only what lies before the mark may have gone out; the rest comes
//! back as it was (`give_back`).
//!
//! A try that was never settled was lost in a crash, and may have gone out: the next claim of the delivery
//! writes it down as unknown, and [`DueDelivery::lost`] says so.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::{DeliveryId, Token};
use crate::base::reason_class::reason_class;
use crate::database::crash_points::{CrashPoint, reach};
use crate::database::dialect::Dialect;
use crate::database::planted_bugs::PlantedBug;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::{Tx, VerbFuture};
use crate::database::value::{Value, params};
use crate::delivery::rules::delivery::{RecipientIdentity, delivery_status};
use crate::delivery::rules::send_terms::SendTerms;
use crate::delivery::store::deliveries::begin::{delivery_claim, hold_claims, note_keyed};
use crate::delivery::store::deliveries::delivery::{
    ClaimedDeliveries, Delivery, DueDelivery, delivery_columns, read_delivery,
};
use crate::flow::rules::entry::EntryKind;
use crate::flow::store::entries::read_kind;
use crate::queue::rules::claim::ClaimItem;
use crate::queue::rules::purpose::Purpose;
use crate::queue::store::claims::{self, ClaimRequest, TakenWork};
use crate::queue::store::sequences::WORK_AGAIN;
use std::collections::{HashMap, HashSet};

impl Store {
    /// Claims due deliveries of entries of one kind, from the lanes of the request, to send them by these
    /// terms: as many as their window may be begun before [`Store::end_deliveries`] moves the mark.
    ///
    /// # Errors
    /// [`crate::base::error::Error::Invalid`] for an impossible lease or owner.
    pub fn begin_deliveries(
        &self,
        request: ClaimRequest,
        kind: EntryKind,
        terms: SendTerms,
    ) -> VerbFuture<'_, ClaimedDeliveries> {
        VerbFuture::new(async move {
            request.check()?;
            if request.takes.is_empty() {
                return Ok(ClaimedDeliveries::default());
            }
            let claimed = self
                .write((request, kind, terms), |tx, (request, kind, terms)| {
                    Box::pin(claim(tx, request, *kind, terms))
                })
                .await;
            reach(CrashPoint::ClaimedBeforeAnswer);
            claimed
        })
    }

    /// The recipients of deliveries, as far as the deliveries keep them.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn kept_recipients(
        &self,
        ids: Vec<DeliveryId>,
    ) -> VerbFuture<'_, HashMap<DeliveryId, RecipientIdentity>> {
        self.read(ids, |tx, ids| Box::pin(kept_recipients(tx, ids)))
    }
}

async fn kept_recipients(tx: &mut Tx, ids: &[DeliveryId]) -> Result<HashMap<DeliveryId, RecipientIdentity>> {
    let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
    let rows = tx.query(KEPT_RECIPIENTS, &[Value::Ints(&ids)]).await?;
    let kept = rows.iter().map(|row| {
        let recipient = RecipientIdentity { name: row.maybe_text(1)?, reference: row.maybe_text(2)? };
        Ok((DeliveryId(row.int(0)?), recipient))
    });
    kept.collect()
}

statements! {
    const KEPT_RECIPIENTS = "
        select id, recipient, recipient_ref
        from punctual.delivery
        where id = any($1::bigint[])
    ";
}

async fn claim(
    tx: &mut Tx,
    request: &ClaimRequest,
    kind: EntryKind,
    terms: &SendTerms,
) -> Result<ClaimedDeliveries> {
    let (now, taken) = claims::take(tx, Purpose::Send, &request.takes).await?;
    let Some(now) = now else { return Ok(ClaimedDeliveries::default()) };
    let mut claimed = ClaimedDeliveries { now: Some(now), ..ClaimedDeliveries::default() };
    for one in &taken {
        *claimed.taken.entry(one.item.lane()).or_default() += 1;
    }
    claimed.due = lock_pending(tx, taken, kind).await?;
    if claimed.due.is_empty() {
        return Ok(claimed);
    }
    note_lost(tx, &mut claimed.due, now).await?;
    // Lane by lane, so that numbers of one lane make runs. They are begun in this order.
    claimed.due.sort_by_key(|due| due.item.lane());
    let token = Token::fresh();
    note_keyed(&mut claimed.due, terms);
    let held = delivery_claim(token.clone(), &claimed.due);
    hold_claims(tx, request, &[held], terms.window, now).await?;
    (claimed.token, claimed.mark) = (Some(token), terms.window);
    Ok(claimed)
}

/// The deliveries that are still to be sent, under their locks: a transaction that ends or holds an entry
/// marks what waits, and must see what is in flight. A delivery that another transaction has locked at this
/// moment goes back as it was, and comes again.
async fn lock_pending(tx: &mut Tx, taken: Vec<TakenWork>, kind: EntryKind) -> Result<Vec<DueDelivery>> {
    let ids: Vec<i64> = taken.iter().map(|one| one.item.delivery().0).collect();
    let mut found = HashMap::with_capacity(ids.len());
    let sql = if tx.has(PlantedBug::SendAfterTheEnd) { ANY } else { PENDING_LOCKED };
    for row in tx.query(sql, &[Value::Ints(&ids)]).await? {
        found.insert(row.int(0)?, read_delivery(&row, kind)?);
    }
    let (mut due, mut missing) = (Vec::with_capacity(taken.len()), Vec::new());
    for one in taken {
        match found.remove(&one.item.delivery().0) {
            Some(delivery) => due.push(DueDelivery::new(one.item, delivery)),
            None => missing.push(one),
        }
    }
    put_back_locked(tx, &missing).await?;
    Ok(due)
}

async fn put_back_locked(tx: &mut Tx, missing: &[TakenWork]) -> Result<()> {
    // SQLite's writer is alone: nothing is locked there.
    if missing.is_empty() || tx.dialect() == Dialect::Sqlite {
        return Ok(());
    }
    let ids: Vec<i64> = missing.iter().map(|one| one.item.delivery().0).collect();
    let rows = tx.query(PENDING_IDS, &[Value::Ints(&ids)]).await?;
    let locked = rows.iter().map(|row| row.int(0)).collect::<Result<HashSet<_>>>()?;
    let back = missing.iter().filter(|one| locked.contains(&one.item.delivery().0));
    let back: Vec<Vec<Value<'_>>> = back.map(|one| untaken_row(&one.item, one.due_at)).collect();
    tx.each(WORK_AGAIN, &back).await?;
    Ok(())
}

/// A work row as if it had not been claimed.
fn untaken_row(item: &ClaimItem, due_at: Timestamp) -> Vec<Value<'_>> {
    let (attempts, unstarted) = (i64::from(item.attempt()) - 1, i64::from(item.unstarted()));
    let (id, lane) = (item.delivery().0, item.lane().0);
    vec![id.into(), lane.into(), due_at.into(), attempts.into(), unstarted.into(), Value::Null]
}

/// Notes when deliveries of a lost claim come again: a transaction that holds or ends their entry finds their
/// work by that.
pub(crate) async fn move_due(tx: &mut Tx, due: &[(DeliveryId, Timestamp)]) -> Result<()> {
    let rows: Vec<Vec<Value<'_>>> = due.iter().map(|(id, at)| vec![id.0.into(), (*at).into()]).collect();
    tx.each(MOVE_DUE, &rows).await?;
    Ok(())
}

statements! {
    const MOVE_DUE = "
        update punctual.delivery
        set due_at = $2
        where id = $1 and status = ", delivery_status!(Pending), "
    ";
}

/// Lets deliveries of a lost claim that were never begun wait again, as if they had not been claimed.
pub(crate) async fn give_back(tx: &mut Tx, items: &[ClaimItem], now: Timestamp) -> Result<()> {
    let ids: Vec<i64> = items.iter().map(|item| item.delivery().0).collect();
    let mut due = HashMap::with_capacity(ids.len());
    for row in tx.query(DUE_TIMES, &[Value::Ints(&ids)]).await? {
        due.insert(row.int(0)?, row.maybe_time(1)?.unwrap_or(now));
    }
    let back = items.iter().filter_map(|item| Some(untaken_row(item, *due.get(&item.delivery().0)?)));
    tx.each(WORK_AGAIN, &back.collect::<Vec<_>>()).await?;
    Ok(())
}

statements! {
    const DUE_TIMES = "
        select id, due_at
        from punctual.delivery
        where id = any($1::bigint[]) and status = ", delivery_status!(Pending), "
    ";

    const PENDING_LOCKED = "
        select ", delivery_columns!(), "
        from punctual.delivery d
        where d.id = any($1::bigint[]) and d.status = ", delivery_status!(Pending), " and d.held = 0
        for update skip locked
    ";

    /// A planted bug: the claim does not check whether the delivery is still to be sent.
    const ANY = "
        select ", delivery_columns!(), "
        from punctual.delivery d
        where d.id = any($1::bigint[])
    ";

    const PENDING_IDS = "
        select d.id
        from punctual.delivery d
        where d.id = any($1::bigint[]) and d.status = ", delivery_status!(Pending), " and d.held = 0
    ";
}

/// The error of a try that was never settled.
pub(crate) const LOST: &str =
    "the sender crashed before it stored the outcome; the message may have gone out";

/// Writes tries down that were never settled. A claim that was put back unused may have done so before.
async fn note_lost(tx: &mut Tx, due: &mut [DueDelivery], now: Timestamp) -> Result<()> {
    let class = reason_class(LOST);
    for one in due.iter_mut().filter(|one| one.item.attempt() > 1) {
        let (id, before) = (one.delivery.id.0, i64::from(one.number()) - 1);
        one.lost = tx.execute(NOTE_LOST, params![id, before, now, LOST, class.as_str()]).await? > 0
            || tx.first(WAS_LOST, params![id, before, LOST]).await?.is_some();
    }
    count_unknown(tx, due).await
}

/// Notes which deliveries may have gone out by any try, also by one that used up no attempt or was made
/// before a replay, and counts the unanswered tries since then. Only of deliveries that were tried before: a
/// first try costs no statement.
async fn count_unknown(tx: &mut Tx, due: &mut [DueDelivery]) -> Result<()> {
    let again = due.iter().filter(|one| one.number() > 1);
    let ids: Vec<i64> = again.map(|one| one.delivery.id.0).collect();
    if ids.is_empty() {
        return Ok(());
    }
    let mut counts = HashMap::with_capacity(ids.len());
    for row in tx.query(UNKNOWN, &[Value::Ints(&ids)]).await? {
        counts.insert(row.int(0)?, row.count(1)?);
    }
    for one in due.iter_mut() {
        let count = counts.remove(&one.delivery.id.0);
        (one.unknown, one.unsure) = (count.unwrap_or_default(), count.is_some());
    }
    Ok(())
}

statements! {
    const UNKNOWN = "
        select d.id, sum(case when a.outcome = 'unknown' and a.tried > d.tried_before then 1 else 0 end)
        from punctual.delivery d
        join punctual.delivery_attempt a on a.delivery_id = d.id
        where d.id = any($1::bigint[]) and a.outcome in ('unknown', 'timeout')
        group by d.id
    ";

    const NOTE_LOST = "
        insert into punctual.delivery_attempt (delivery_id, tried, at, outcome, error, reason_class)
        values ($1, $2, $3, 'unknown', $4, $5)
        on conflict do nothing
    ";

    const WAS_LOST = "
        select 1
        from punctual.delivery_attempt
        where delivery_id = $1 and tried = $2 and outcome = 'unknown' and error = $3
    ";
}

/// Deliveries that wait, by their ids, locked. Their entries must be locked.
pub(crate) async fn lock_waiting(tx: &mut Tx, ids: &[i64]) -> Result<Vec<Delivery>> {
    let rows = tx.query(WAITING, &[Value::Ints(ids)]).await?;
    rows.iter().map(|row| read_delivery(row, read_kind(&row.text(12)?)?)).collect()
}

/// Deliveries of these channels that a provider gave these ids.
pub(crate) async fn given_ids(
    tx: &mut Tx,
    ids: &[Option<&str>],
    channels: &[Option<&str>],
) -> Result<Vec<Delivery>> {
    let rows = tx.query(GIVEN_IDS, &[Value::Texts(ids), Value::Texts(channels)]).await?;
    rows.iter().map(|row| read_delivery(row, read_kind(&row.text(12)?)?)).collect()
}

macro_rules! with_kind {
    () => {
        concat! {"
        select ", delivery_columns!(), ", e.kind
        from punctual.delivery d
        join punctual.entry e on e.id = d.entry_id
        "}
    };
}

statements! {
    const WAITING = with_kind!(), "
        where d.id = any($1::bigint[]) and d.status = ", delivery_status!(Pending), "
        order by d.id
        for update of d
    ";

    const GIVEN_IDS = with_kind!(), "
        where d.provider_id is not null
            and d.channel = any($2::text[])
            and d.id in (
                select a.delivery_id
                from punctual.delivery_attempt a
                where a.provider_id = any($1::text[])
            )
    ";
}
