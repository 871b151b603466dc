//! Deliveries on their way: the claim, and the settlement.
//!
//! [`Store::begin_deliveries`] takes due work, reads its deliveries, and writes the claim: from then on its
//! sends may be made. (Letters that nothing waits before have a claim since they were written, see
//! [`super::begin`].) Only when that is committed, channels are called. [`Store::end_deliveries`] writes what
//! became of them: every try, the delivery, its notification, and the work of what comes again. A claim
//! that was lost writes nothing; whoever has the deliveries then makes them again, under the same keys.
//!
//! A process that sends slowly begins at most a window of its claim before it settles what has finished
//! and moves the claim's mark. After a crash only what lies before the mark may have gone out: the rest
//! comes back as it was (`give_back`).
//!
//! A try that nobody wrote down was lost in a crash, and may have gone out: it is written down as unknown by
//! whoever comes next, and [`Due::lost`] says so.

use super::super::Store;
use super::super::claims::{self, ClaimRequest, Taken};
use super::super::dialect::Dialect;
use super::super::entries::step::SurveyContext;
use super::super::planted::Bug;
use super::super::points::{Point, reach};
use super::super::sequences::WORK_AGAIN;
use super::super::tx::Tx;
use super::super::value::{Row, Value, params};
use super::entry_end::skip_ended;
use super::outcome;
use crate::base::clock::Timestamp;
use crate::base::error::{Error, Result};
use crate::base::id::{DeliveryId, EntryId, LaneId, TemplateId, Token};
use crate::base::tenant::Tenant;
use crate::rules::claim::Item;
use crate::rules::entry::{EntryKind, Status};
use crate::rules::notification::{Planned, Whom};
use crate::rules::purpose::Purpose;
use crate::store::tx::VerbFuture;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

pub(in crate::store) use outcome::give_up;

/// A delivery that is to be made.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Its number.
    pub id: DeliveryId,
    /// Whose it is.
    pub tenant: Tenant,
    /// What it is part of.
    pub entry: EntryId,
    /// The kind of that.
    pub kind: EntryKind,
    /// What makes it the same as another.
    pub key: String,
    /// The key of its channel.
    pub channel: String,
    /// Where it goes, as it was given.
    pub address: String,
    /// The number of the send: 1 is the first, n + 1 the nth reminder.
    pub send: u32,
    /// Which of the event's recipients it is for.
    pub part: usize,
    /// The template; 0 is a text of our own.
    pub template: TemplateId,
    /// The version of the template, fixed when the delivery was written.
    pub template_version: u32,
    /// Tries that do not count, or no longer.
    pub tried_before: u32,
    /// When it was due.
    pub due_at: Option<Timestamp>,
}

/// What a claim of deliveries brought.
#[derive(Debug, Default)]
pub struct ClaimedDeliveries {
    /// The token that every settlement of these must carry; none when nothing is to be sent.
    pub token: Option<Token>,
    /// The deliveries, in the order of the claim.
    pub due: Vec<Due>,
    /// How many of them may be begun before the mark is moved; all if `None`.
    pub mark: Option<usize>,
    /// How many work rows each lane gave, what was dropped included.
    pub taken: HashMap<LaneId, usize>,
    /// The authority's time of the claim.
    pub now: Option<Timestamp>,
}

/// What a settlement of deliveries did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The claim was lost; nothing was written.
    LostClaim,
    /// The outcomes are written.
    Done,
}

/// A delivery that was claimed.
#[derive(Clone, Debug)]
pub struct Due {
    /// The item as the claim row has it.
    pub item: Item,
    /// The delivery.
    pub delivery: Delivery,
    /// Whether the try before this one was lost, so that it may have gone out.
    pub lost: bool,
    /// How many tries before this one had an unknown outcome, since it was last put back.
    pub unknown: u32,
    /// Whether one of them may have gone out: it had an unknown outcome, or no answer.
    pub unsure: bool,
    /// What its words lacked, when they were made.
    pub warnings: Vec<String>,
    /// The name of the provider that this try was handed to; none before that.
    pub provider: Option<String>,
}

impl Due {
    /// A delivery that was claimed as this item.
    pub(in crate::store) const fn new(item: Item, delivery: Delivery) -> Self {
        Self { item, delivery, lost: false, unknown: 0, unsure: false, warnings: Vec::new(), provider: None }
    }

    /// The number of this try among all that were made of its delivery, from 1.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.delivery.tried_before.saturating_add(self.item.attempt())
    }
}

/// What became of a delivery.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// A provider took it.
    Sent {
        /// The provider's id of the message.
        provider_id: Option<String>,
        /// What it answered.
        answer: Option<String>,
    },
    /// It did not go well, and is tried again after a while.
    Again {
        /// The word for it.
        outcome: &'static str,
        /// What went wrong.
        error: String,
        /// How long after.
        wait: Duration,
        /// Whether it used up one of its tries.
        counted: bool,
    },
    /// It is given up; another channel may take its place.
    Failed {
        /// The word for the last try; none if there was none.
        outcome: Option<&'static str>,
        /// What went wrong.
        error: String,
        /// What is sent in its place.
        instead: Option<Planned>,
    },
    /// Nobody knows, and it is not sent again.
    Uncertain {
        /// The word for this try; none if there was none.
        outcome: Option<&'static str>,
        /// What is known.
        error: String,
    },
    /// It is not to be sent.
    Skipped {
        /// The word for why, in lists.
        reason: String,
        /// The sentence.
        said: String,
    },
    /// It was not begun, and comes again then.
    Later(Timestamp),
    /// It is held back until then.
    HeldBack {
        /// When it comes again.
        until: Timestamp,
        /// The word for why, and the sentence.
        said: String,
    },
    /// It goes by another channel.
    Moved {
        /// The key of the channel.
        channel: String,
        /// The address there.
        address: String,
    },
}

/// One delivery with what became of it.
#[derive(Clone, Debug)]
pub struct SettledDelivery {
    /// The delivery.
    pub due: Due,
    /// What became of it.
    pub ending: Ending,
    /// What its entry needs to go on, where that is a survey.
    pub survey: Option<SurveyContext>,
}

impl Store {
    /// Takes due deliveries from the lanes of the wish. Of these, `window` may be begun before
    /// [`Store::end_deliveries`] moves the mark.
    ///
    /// # Errors
    /// [`crate::base::error::Error::Invalid`] for an impossible lease or owner.
    pub fn begin_deliveries(
        &self,
        wish: ClaimRequest,
        window: Option<usize>,
    ) -> VerbFuture<'_, ClaimedDeliveries> {
        VerbFuture::new(async move {
            wish.check()?;
            if wish.takes.is_empty() {
                return Ok(ClaimedDeliveries::default());
            }
            let request = (wish, window);
            let begun = self.write(request, |tx, (wish, window)| Box::pin(begin(tx, wish, *window))).await;
            reach(Point::ClaimedBeforeAnswer);
            begun
        })
    }

    /// Writes what became of deliveries of one claim, and moves its mark: so many of the claim's
    /// deliveries may have been begun from now on.
    pub fn end_deliveries(
        &self,
        token: Token,
        ended: Arc<[SettledDelivery]>,
        mark: Option<usize>,
    ) -> VerbFuture<'_, Settled> {
        VerbFuture::new(async move {
            let request = (token, ended, mark);
            let settled = self
                .write(request, |tx, (token, ended, mark)| Box::pin(outcome::end(tx, token, ended, *mark)))
                .await;
            reach(Point::SettledBeforeAnswer);
            settled
        })
    }

    /// Whom deliveries were for, as far as they keep it.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn kept_recipients(&self, ids: Vec<DeliveryId>) -> VerbFuture<'_, HashMap<DeliveryId, Whom>> {
        self.read(ids, |tx, ids| Box::pin(kept_recipients(tx, ids)))
    }
}

async fn kept_recipients(tx: &mut Tx, ids: &[DeliveryId]) -> Result<HashMap<DeliveryId, Whom>> {
    let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
    let rows = tx.query(KEPT_RECIPIENTS, &[Value::Ints(&ids)]).await?;
    let kept = rows.iter().map(|row| {
        let whom = Whom { name: row.maybe_text(1)?, reference: row.maybe_text(2)? };
        Ok((DeliveryId(row.int(0)?), whom))
    });
    kept.collect()
}

const KEPT_RECIPIENTS: &str =
    "select id, recipient, recipient_ref from punctual.delivery where id = any($1::bigint[])";

async fn begin(tx: &mut Tx, wish: &ClaimRequest, window: Option<usize>) -> Result<ClaimedDeliveries> {
    let (now, taken) = claims::take(tx, Purpose::Send, &wish.takes).await?;
    let Some(now) = now else { return Ok(ClaimedDeliveries::default()) };
    let mut outgoing = ClaimedDeliveries { now: Some(now), ..ClaimedDeliveries::default() };
    for t in &taken {
        *outgoing.taken.entry(t.item.lane()).or_default() += 1;
    }
    outgoing.due = look(tx, taken).await?;
    if outgoing.due.is_empty() {
        return Ok(outgoing);
    }
    note_lost(tx, &mut outgoing.due, now).await?;
    // Lane by lane, so that numbers of one lane make runs. They are begun in this order.
    outgoing.due.sort_by_key(|due| due.item.lane());
    let token = Token::fresh();
    let items = outgoing.due.iter().map(|due| &due.item).collect();
    claims::hold_deliveries(tx, wish, &[(token.clone(), items)], window, now).await?;
    (outgoing.token, outgoing.mark) = (Some(token), window);
    Ok(outgoing)
}

/// Those that are still to be sent, under their locks: whoever ends or holds an entry marks what waits,
/// and must see what is in flight. What another transaction has locked at this moment goes back as it
/// was, and comes again. What is not pending any more, or whose entry has ended, is dropped.
async fn look(tx: &mut Tx, taken: Vec<Taken>) -> Result<Vec<Due>> {
    let ids: Vec<i64> = taken.iter().map(|t| t.item.delivery().0).collect();
    let mut found = HashMap::with_capacity(ids.len());
    let whatever = tx.has(Bug::SendAfterTheEnd);
    for row in tx.query(if whatever { WHATEVER } else { WAITING }, &[Value::Ints(&ids)]).await? {
        found.insert(row.int(0)?, read(&row)?);
    }
    let (mut due, mut missing) = (Vec::with_capacity(taken.len()), Vec::new());
    for t in taken {
        match found.remove(&t.item.delivery().0) {
            Some(delivery) => due.push(Due::new(t.item, delivery)),
            None => missing.push(t),
        }
    }
    put_back_locked(tx, missing).await?;
    Ok(due)
}

async fn put_back_locked(tx: &mut Tx, missing: Vec<Taken>) -> Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    let ids: Vec<i64> = missing.iter().map(|t| t.item.delivery().0).collect();
    skip_ended(tx, &ids).await?;
    if tx.dialect() == Dialect::Sqlite {
        return Ok(());
    }
    let rows = tx.query(STILL_WAITING, &[Value::Ints(&ids)]).await?;
    let locked = rows.iter().map(|row| row.int(0)).collect::<Result<HashSet<_>>>()?;
    let back = missing.iter().filter(|t| locked.contains(&t.item.delivery().0));
    let back: Vec<Vec<Value<'_>>> = back.map(|t| as_it_was(&t.item, t.due_at)).collect();
    tx.each(WORK_AGAIN, &back).await?;
    Ok(())
}

/// A work row as if it had not been claimed.
fn as_it_was(item: &Item, due_at: Timestamp) -> Vec<Value<'_>> {
    let (attempts, unstarted) = (i64::from(item.attempt()) - 1, i64::from(item.unstarted()));
    let (id, lane) = (item.delivery().0, item.lane().0);
    vec![id.into(), lane.into(), due_at.into(), attempts.into(), unstarted.into(), Value::Null]
}

/// Notes when deliveries of a lost claim come again: whoever holds or ends their entry finds their work
/// by that.
pub(in crate::store) async fn move_due(tx: &mut Tx, due: &[(DeliveryId, Timestamp)]) -> Result<()> {
    let rows: Vec<Vec<Value<'_>>> = due.iter().map(|(id, at)| vec![id.0.into(), (*at).into()]).collect();
    tx.each("update punctual.delivery set due_at = $2 where id = $1 and status = 0", &rows).await?;
    Ok(())
}

/// Deliveries of a lost claim that were never begun: they wait again, as if they had not been claimed.
pub(in crate::store) async fn give_back(tx: &mut Tx, items: &[Item], now: Timestamp) -> Result<()> {
    let rows: Vec<Vec<Value<'_>>> = items
        .iter()
        .map(|item| {
            let (attempts, unstarted) = (i64::from(item.attempt()) - 1, i64::from(item.unstarted()));
            let id = item.delivery().0;
            vec![id.into(), item.lane().0.into(), now.into(), attempts.into(), unstarted.into()]
        })
        .collect();
    tx.each(GIVE_BACK, &rows).await?;
    Ok(())
}

const GIVE_BACK: &str = "insert into punctual.work (message_id, lane_id, due_at, attempts, unstarted) \
    select d.id, $2, coalesce(d.due_at, $3), $4, $5 from punctual.delivery d \
    where d.id = $1 and d.status = 0";

/// The columns that [`read`] reads.
macro_rules! deliveries {
    ($condition:literal) => {
        concat!(
            "select d.id, d.tenant_id, d.entry_id, d.idempotency_key, d.channel, d.address, d.part, \
                d.template_id, d.tried_before, d.due_at, d.send, e.kind, d.template_version \
            from punctual.delivery d join punctual.entry e on e.id = d.entry_id where ",
            $condition
        )
    };
}
/// A status of an entry below this number has not ended (`rules/entry.rs`).
const WAITING: &str = deliveries!(
    "d.id = any($1::bigint[]) and d.status = 0 and e.status < 3 and e.held_at is null \
    for update of d skip locked"
);
const _: () = assert!(Status::Opened.code() == 2 && Status::Completed.code() == 3);
/// A planted bug: nobody asks whether the entry has ended.
const WHATEVER: &str = deliveries!("d.id = any($1::bigint[])");
const STILL_WAITING: &str = "select d.id from punctual.delivery d join punctual.entry e on e.id = d.entry_id \
    where d.id = any($1::bigint[]) and d.status = 0 and e.status < 3 and e.held_at is null";

fn read(row: &Row) -> Result<Delivery> {
    Ok(Delivery {
        id: DeliveryId(row.int(0)?),
        tenant: Tenant::from_row(row.int(1)?),
        entry: EntryId(row.int(2)?),
        key: row.text(3)?,
        channel: row.text(4)?,
        address: row.text(5)?,
        part: usize::try_from(row.int(6)?).unwrap_or_default(),
        template: TemplateId(row.int(7)?),
        tried_before: row.count(8)?,
        due_at: row.maybe_time(9)?,
        send: row.count(10)?,
        kind: read_kind(&row.text(11)?)?,
        template_version: row.count(12)?,
    })
}

pub(in crate::store) fn read_kind(word: &str) -> Result<EntryKind> {
    let unknown = || Error::Database(format!("`{word}` is not a kind of entry").into());
    EntryKind::from_word(word).ok_or_else(unknown)
}

/// What is written about a try that nobody wrote down.
pub(super) const LOST: &str = "whoever sent it did not say what came of it; it may have gone out";

/// Tries before these that nobody wrote down. They are written down now; a claim that was put back unused
/// may have done so before.
async fn note_lost(tx: &mut Tx, due: &mut [Due], now: Timestamp) -> Result<()> {
    for one in due.iter_mut().filter(|one| one.item.attempt() > 1) {
        let (id, before) = (one.delivery.id.0, i64::from(one.number()) - 1);
        one.lost = tx.execute(NOTE_LOST, params![id, before, now, LOST]).await? > 0
            || tx.first(WAS_LOST, params![id, before, LOST]).await?.is_some();
    }
    count_unknown(tx, due).await
}

/// Only of those that were tried before: a first try costs no statement.
async fn count_unknown(tx: &mut Tx, due: &mut [Due]) -> Result<()> {
    let again = due.iter().filter(|one| one.item.attempt() > 1);
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

const UNKNOWN: &str = "select d.id, sum(case when a.outcome = 'unknown' then 1 else 0 end) \
    from punctual.delivery d \
    join punctual.delivery_attempt a on a.delivery_id = d.id and a.tried > d.tried_before \
    where d.id = any($1::bigint[]) and a.outcome in ('unknown', 'timeout') group by d.id";

const NOTE_LOST: &str = "insert into punctual.delivery_attempt (delivery_id, tried, at, outcome, error) \
    values ($1, $2, $3, 'unknown', $4) on conflict do nothing";
const WAS_LOST: &str = "select 1 from punctual.delivery_attempt \
    where delivery_id = $1 and tried = $2 and outcome = 'unknown' and error = $3";

/// A delivery that waits, locked.
pub(super) async fn pending(tx: &mut Tx, id: DeliveryId) -> Result<Option<Delivery>> {
    let row = tx.first(PENDING, params![id.0]).await?;
    row.as_ref().map(read).transpose()
}

const PENDING: &str = deliveries!("d.id = $1 and d.status = 0 for update of d");

/// Deliveries of these channels that a provider gave these ids.
pub(in crate::store) async fn given_ids(
    tx: &mut Tx,
    ids: &[Option<&str>],
    channels: &[Option<&str>],
) -> Result<Vec<Delivery>> {
    let rows = tx.query(GIVEN_IDS, &[Value::Texts(ids), Value::Texts(channels)]).await?;
    rows.iter().map(read).collect()
}

const GIVEN_IDS: &str = deliveries!(
    "d.provider_id is not null and d.channel = any($2::text[]) and d.id in ( \
        select a.delivery_id from punctual.delivery_attempt a where a.provider_id = any($1::text[]))"
);
