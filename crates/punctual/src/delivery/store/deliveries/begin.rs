//! Deliveries that are begun as they are written.
//!
//! The process that writes deliveries may send them at once: instead of work for any process there are claims
//! in the same transaction, as if the work had been taken in that moment. So a delivery is not looked for,
//! taken and read again, and is on its way one transaction earlier. Everything after that is the same as for
//! a delivery that was taken ([`super::claim`]): the claim says that a send may have been made, it is
//! renewed, and when it is lost its deliveries come again as work.
//!
//! Deliveries that wait go first: a lane that has something due is left to the processes that take from it,
//! and so is a lane that is paused. Deliveries that a channel has no room for ([`BeginRequest::room`]) wait
//! as well.
//!
//! Not promised: an order among processes that write at the same time.

use crate::base::clock::Timestamp;
use crate::base::error::{Error, Result};
use crate::base::id::{DeliveryId, EntryId, LaneId, MessageId, Token};
use crate::base::limits::CLAIM_ITEMS_MAX;
use crate::database::planted_bugs::PlantedBug;
use crate::database::statement::statements;
use crate::database::tx::Tx;
use crate::database::value::Value;
use crate::delivery::rules::delivery::DeliveryStatus;
use crate::delivery::rules::send_capacity::SendCapacity;
use crate::delivery::rules::send_terms::SendTerms;
use crate::delivery::store::deliveries::claim::give_back;
use crate::delivery::store::deliveries::delivery::{ClaimedDeliveries, Delivery, DueDelivery};
use crate::delivery::store::deliveries::new_deliveries::{NewDelivery, insert_begun, written_by_id};
use crate::queue::rules::claim::ClaimItem;
use crate::queue::store::claims;
use crate::queue::store::claims::{ClaimRequest, DeliveryClaim};
use std::collections::BTreeSet;
use std::time::Duration;

/// The worker that begins deliveries, and how many it may begin.
#[derive(Clone, Debug)]
pub struct BeginRequest {
    /// The claimer's name.
    pub owner: String,
    /// How long they are its own.
    pub lease: Duration,
    /// At most so many deliveries in each claim.
    pub batch: usize,
    /// At most so many in all.
    pub room: SendCapacity,
    /// How each claim is sent.
    pub terms: SendTerms,
}

/// The deliveries that are begun, and those that wait.
pub(crate) async fn choose<'a>(
    tx: &mut Tx,
    start: Option<&BeginRequest>,
    rows: Vec<NewDelivery<'a>>,
    now: Timestamp,
) -> Result<(Vec<NewDelivery<'a>>, Vec<NewDelivery<'a>>)> {
    let Some(start) = start.filter(|_| !tx.has(PlantedBug::IntentAfterCall)) else {
        return Ok((Vec::new(), rows));
    };
    let lanes: BTreeSet<i64> = rows.iter().map(|row| row.lane).collect();
    let free = free_lanes(tx, &lanes.into_iter().collect::<Vec<_>>(), now).await?;
    let mut room = start.room.clone();
    let mut begins = |row: &NewDelivery<'_>| {
        let may = row.status() == DeliveryStatus::Pending && !row.held && free.contains(&row.lane);
        may && room.take(&row.planned.channel)
    };
    Ok(rows.into_iter().partition(|row| begins(row)))
}

async fn free_lanes(tx: &mut Tx, lanes: &[i64], now: Timestamp) -> Result<BTreeSet<i64>> {
    if lanes.is_empty() {
        return Ok(BTreeSet::new());
    }
    let rows = tx.query(FREE_LANES, &[Value::Ints(lanes), now.into()]).await?;
    rows.iter().map(|row| row.int(0)).collect()
}

statements! {
    /// One step into the index for each lane; asked otherwise, all work would be read.
    const FREE_LANES = "
        select l.id
        from punctual.lane l
        where l.id = any($1::bigint[])
            and l.paused = 0
            and coalesce(
                (select min(w.due_at) from punctual.work w where w.lane_id = l.id), $2::bigint + 1
            ) > $2::bigint
    ";
}

/// Writes them, and answers those whose keys were new.
pub(crate) async fn insert(
    tx: &mut Tx,
    rows: &[NewDelivery<'_>],
    now: Timestamp,
) -> Result<Vec<DueDelivery>> {
    let mut made = insert_begun(tx, rows, now).await?;
    made.sort_unstable();
    let begun: Vec<DueDelivery> = if is_each_of(rows, &made) {
        rows.iter().zip(&made).map(|(row, (id, _))| due(row, *id, now)).collect()
    } else {
        let mut by_key = written_by_id(tx, &made).await?;
        rows.iter().filter_map(|row| Some(due(row, by_key.take(row)?, now))).collect()
    };
    // One that was left out would have neither work nor a claim, and would never be sent.
    if begun.len() < made.len() {
        let said = format!("{} deliveries were written, and {} of them found again", made.len(), begun.len());
        return Err(Error::Database(said.into()));
    }
    Ok(begun)
}

/// Whether all of the rows were written. Ids are drawn in the order of the rows, so those that were written
/// need not be looked up then, which is nearly always.
fn is_each_of(rows: &[NewDelivery<'_>], made: &[(DeliveryId, EntryId)]) -> bool {
    rows.len() == made.len() && rows.iter().zip(made).all(|(row, (_, entry))| row.entry == *entry)
}

fn due(row: &NewDelivery<'_>, id: DeliveryId, now: Timestamp) -> DueDelivery {
    let planned = row.planned;
    let delivery = Delivery {
        id,
        tenant: row.tenant,
        entry: row.entry,
        kind: row.kind,
        key: planned.key.clone(),
        channel: planned.channel.clone(),
        address: planned.address.clone().unwrap_or_default(),
        send: planned.send,
        part: planned.part,
        template: planned.template,
        template_version: planned.version,
        tried_before: 0,
        due_at: Some(now),
    };
    let item = ClaimItem(MessageId(id.0), LaneId(row.lane), 1, 0, None);
    DueDelivery::new(item, delivery)
}

/// Writes their claims: the last word of its transaction.
pub(crate) async fn hold(
    tx: &mut Tx,
    start: &BeginRequest,
    mut due: Vec<DueDelivery>,
    now: Timestamp,
) -> Result<Vec<ClaimedDeliveries>> {
    let mut all = Vec::new();
    // A claim has deliveries of one kind, which one renderer serves.
    due.sort_by_key(|due| due.delivery.kind);
    while let Some(kind) = due.first().map(|due| due.delivery.kind) {
        let of_kind = due.iter().take_while(|due| due.delivery.kind == kind).count();
        let rest = due.split_off(of_kind.min(start.batch.clamp(1, CLAIM_ITEMS_MAX)));
        all.push((Token::fresh(), std::mem::replace(&mut due, rest)));
    }
    for (_, due) in &mut all {
        // Lane by lane, so that numbers of one lane make runs. They are begun in this order.
        due.sort_by_key(|due| due.item.lane());
        note_keyed(due, &start.terms);
    }
    let claims: Vec<DeliveryClaim<'_>> =
        all.iter().map(|(token, due)| delivery_claim(token.clone(), due)).collect();
    let wish = ClaimRequest { owner: start.owner.clone(), lease: start.lease, takes: Vec::new() };
    hold_claims(tx, &wish, &claims, start.terms.window, now).await?;
    let (now, mark) = (Some(now), start.terms.window);
    let outgoing = |(token, due)| ClaimedDeliveries {
        token: Some(token),
        due,
        now,
        mark,
        ..ClaimedDeliveries::default()
    };
    Ok(all.into_iter().map(outgoing).collect())
}

/// Notes which deliveries go to a provider that sends a repeated message once.
pub(crate) fn note_keyed(due: &mut [DueDelivery], terms: &SendTerms) {
    for one in due {
        one.takes_key = terms.keyed_channels.contains(&one.delivery.channel);
    }
}

/// The claim of deliveries of which it is noted whether their providers take our key.
pub(crate) fn delivery_claim(token: Token, due: &[DueDelivery]) -> DeliveryClaim<'_> {
    let keyed = due.iter().filter(|one| one.takes_key);
    DeliveryClaim {
        token,
        items: due.iter().map(|one| &one.item).collect(),
        keyed_lanes: keyed.map(|one| one.item.lane()).collect(),
    }
}

/// Writes claims of deliveries. With a bug planted, a delivery that is sent now waits all the same, and is
/// taken when its outcome is written.
pub(crate) async fn hold_claims(
    tx: &mut Tx,
    request: &ClaimRequest,
    claims: &[DeliveryClaim<'_>],
    window: Option<usize>,
    now: Timestamp,
) -> Result<()> {
    if tx.has(PlantedBug::IntentAfterCall) {
        let waiting = claims.iter().flat_map(|one| &one.items).map(|item| (*item).clone());
        return give_back(tx, &waiting.collect::<Vec<_>>(), now).await;
    }
    claims::hold_deliveries(tx, request, claims, window, now).await
}
