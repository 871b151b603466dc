//! Deliveries on their way: the claim, and the settlement.
//!
//! [`Store::begin_deliveries`] takes due work, reads its deliveries, and writes the claim: from then on its
//! sends may be made. (Letters that nothing waits before have a claim since they were written, see
//! [`super::begin`].) Only when that is committed, channels are called. [`Store::end_deliveries`] writes what
//! became of them: every try, the delivery, its notice, and the work of what comes again. A claim that was
//! lost writes nothing; whoever has the deliveries then makes them again, under the same keys.
//!
//! A try that nobody wrote down was lost in a crash, and may have gone out: it is written down as unknown by
//! whoever comes next, and [`Due::lost`] says so.

use super::super::Store;
use super::super::claims::{self, Taken, Wish};
use super::super::entries::send::Outgoing;
use super::super::messages::{message_columns, read_message};
use super::super::points::{Point, reach};
use super::super::tx::Tx;
use super::super::value::{Row, Value, params};
use super::{entity, outcome};
use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::{DeliveryId, NoticeId, TemplateId, Token};
use crate::base::tenant::Tenant;
use crate::rules::claim::Item;
use crate::rules::message::{Entity, Message};
use crate::rules::notice::{Planned, Whom};
use crate::store::tx::VerbFuture;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

pub use super::super::entries::send::Settled;
pub(in crate::store) use outcome::give_up;

/// A delivery that is to be made.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Its number.
    pub id: DeliveryId,
    /// Whose it is.
    pub tenant: Tenant,
    /// What it is part of.
    pub notice: NoticeId,
    /// What makes it the same as another.
    pub key: String,
    /// The key of its channel.
    pub channel: String,
    /// Where it goes, as it was given.
    pub address: String,
    /// Which of the event's recipients it is for.
    pub part: usize,
    /// The template.
    pub template: TemplateId,
    /// Tries that do not count, or no longer.
    pub tried_before: u32,
    /// When it was due.
    pub due_at: Option<Timestamp>,
}

/// Why a notice was given.
#[derive(Clone, Debug)]
pub struct Cause {
    /// The event.
    pub event: Arc<Message>,
    /// What it is about.
    pub entity: Option<Entity>,
    /// Whether a person asked for it again.
    pub by_hand: bool,
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
}

impl Due {
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
        /// The version of the template that was sent.
        version: u32,
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
pub struct Ended {
    /// The delivery.
    pub due: Due,
    /// What became of it.
    pub ending: Ending,
}

impl Store {
    /// Takes due deliveries from the lanes of the wish.
    ///
    /// # Errors
    /// [`crate::base::error::Error::Invalid`] for an impossible lease or owner.
    pub fn begin_deliveries(&self, wish: Wish) -> VerbFuture<'_, Outgoing<Due>> {
        VerbFuture::new(async move {
            wish.check()?;
            if wish.takes.is_empty() {
                return Ok(Outgoing::default());
            }
            let begun = self.write(wish, |tx, wish| Box::pin(begin(tx, wish))).await;
            reach(Point::ClaimedBeforeAnswer);
            begun
        })
    }

    /// Writes what became of deliveries of one claim.
    pub fn end_deliveries(&self, token: Token, ended: Arc<[Ended]>) -> VerbFuture<'_, Settled> {
        VerbFuture::new(async move {
            let settled = self
                .write((token, ended), |tx, (token, ended)| Box::pin(outcome::end(tx, token, ended)))
                .await;
            reach(Point::SettledBeforeAnswer);
            settled
        })
    }

    /// Why these notices were given. One whose event was dropped by age is left out.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn causes(&self, notices: Vec<NoticeId>) -> VerbFuture<'_, HashMap<NoticeId, Cause>> {
        self.read(notices, |tx, notices| Box::pin(causes(tx, notices)))
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
    "select id, recipient, recipient_ref from punctual.notice_delivery where id = any($1::bigint[])";

async fn begin(tx: &mut Tx, wish: &Wish) -> Result<Outgoing<Due>> {
    let (now, taken) = claims::take(tx, &wish.takes).await?;
    let Some(now) = now else { return Ok(Outgoing::default()) };
    let mut outgoing = Outgoing { now: Some(now), ..Outgoing::default() };
    for t in &taken {
        *outgoing.taken.entry(t.item.lane()).or_default() += 1;
    }
    outgoing.due = look(tx, taken).await?;
    if outgoing.due.is_empty() {
        return Ok(outgoing);
    }
    note_lost(tx, &mut outgoing.due, now).await?;
    let items = outgoing.due.iter().map(|due| &due.item);
    outgoing.token = Some(claims::hold_letters(tx, wish, items, now).await?);
    Ok(outgoing)
}

/// Those that are still to be sent. They need no lock: their work was taken, so nobody else sends them, and
/// what is written of them later asks once more whether they still wait.
async fn look(tx: &mut Tx, taken: Vec<Taken>) -> Result<Vec<Due>> {
    let ids: Vec<i64> = taken.iter().filter_map(|t| t.item.delivery()).map(|id| id.0).collect();
    let mut found = HashMap::with_capacity(ids.len());
    for row in tx.query(WAITING, &[Value::Ints(&ids)]).await? {
        found.insert(row.int(0)?, read(&row)?);
    }
    let due = taken.into_iter().filter_map(|t| {
        let delivery = found.remove(&t.item.delivery()?.0)?;
        Some(Due { item: t.item, delivery, lost: false, unknown: 0, unsure: false, warnings: Vec::new() })
    });
    Ok(due.collect())
}

/// The columns that [`read`] reads.
macro_rules! deliveries {
    ($condition:literal) => {
        concat!(
            "select d.id, d.tenant_id, d.notice_id, d.idempotency_key, d.channel, d.address, d.part, \
                d.template_id, d.tried_before, d.due_at from punctual.notice_delivery d where ",
            $condition
        )
    };
}
const WAITING: &str = deliveries!("d.id = any($1::bigint[]) and d.status = 0");

fn read(row: &Row) -> Result<Delivery> {
    Ok(Delivery {
        id: DeliveryId(row.int(0)?),
        tenant: Tenant::from_row(row.int(1)?),
        notice: NoticeId(row.int(2)?),
        key: row.text(3)?,
        channel: row.text(4)?,
        address: row.text(5)?,
        part: usize::try_from(row.int(6)?).unwrap_or_default(),
        template: TemplateId(row.int(7)?),
        tried_before: row.count(8)?,
        due_at: row.maybe_time(9)?,
    })
}

/// What is written about a try that nobody wrote down.
const LOST: &str = "whoever sent it did not say what came of it; it may have gone out";

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
    from punctual.notice_delivery d \
    join punctual.notice_attempt a on a.delivery_id = d.id and a.tried > d.tried_before \
    where d.id = any($1::bigint[]) and a.outcome in ('unknown', 'timeout') group by d.id";

const NOTE_LOST: &str = "insert into punctual.notice_attempt (delivery_id, tried, at, outcome, error) \
    values ($1, $2, $3, 'unknown', $4) on conflict do nothing";
const WAS_LOST: &str = "select 1 from punctual.notice_attempt \
    where delivery_id = $1 and tried = $2 and outcome = 'unknown' and error = $3";

async fn causes(tx: &mut Tx, notices: &[NoticeId]) -> Result<HashMap<NoticeId, Cause>> {
    let ids: Vec<i64> = notices.iter().map(|id| id.0).collect();
    let mut causes = HashMap::with_capacity(ids.len());
    for mut row in tx.query(CAUSES, &[Value::Ints(&ids)]).await? {
        let (entity, by_hand) = (entity(&row, 1)?, row.maybe_text(3)?.is_some());
        let event = Arc::new(read_message(&mut row, 4)?);
        causes.insert(NoticeId(row.int(0)?), Cause { event, entity, by_hand });
    }
    Ok(causes)
}

const CAUSES: &str = concat!(
    "select n.id, n.entity_type, n.entity_id, n.request_id, ",
    message_columns!(),
    " from punctual.notice n join punctual.message m on m.id = n.message_id where n.id = any($1::bigint[])"
);

/// A delivery that waits, locked.
pub(super) async fn pending(tx: &mut Tx, id: DeliveryId) -> Result<Option<Delivery>> {
    let row = tx.first(PENDING, params![id.0]).await?;
    row.as_ref().map(read).transpose()
}

const PENDING: &str = deliveries!("d.id = $1 and d.status = 0 for update");

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
        select a.delivery_id from punctual.notice_attempt a where a.provider_id = any($1::text[]))"
);
