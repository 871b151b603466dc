//! Claims: the items in flight, one row per claimed batch.
//!
//! Claiming takes due work rows out of the table and writes one claim row that holds
//! them, in one transaction: an item is either waiting or under exactly one open claim.
//! (Deliveries may be begun as they are written, and then never wait: `deliveries/begin.rs`.)
//! The claim's token fences every later write (see [`super::settle`]). An item that was
//! in a crash before is claimed under a token of its own, so that it comes back alone.
//!
//! Not promised: that a claim was really received by its claimer. If the answer is lost,
//! the lease runs out and [`super::reap`] brings the items back.

mod due_work;
mod payload_size;
#[cfg(feature = "postgres")]
mod single_statement;

pub(crate) use crate::queue::store::claims::due_work::take;

use crate::base::clock::Timestamp;
use crate::base::error::{Error, Problems, Result};
use crate::base::id::{LaneId, MessageId, Token};
use crate::base::limits;
use crate::base::name::check_name;
use crate::database::crash_points::{CrashPoint, reach};
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::Tx;
use crate::database::tx::VerbFuture;
use crate::database::value::{Row, Value, params};
use crate::queue::rules::claim;
use crate::queue::rules::claim::ClaimItem;
use crate::queue::rules::message::Message;
use crate::queue::rules::purpose::Purpose;
use crate::queue::rules::share::LaneQuota;
use crate::queue::store::messages::{message_columns, read_message};
use crate::queue::store::settle::read_items;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A request for due work of given lanes.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// The claimer's name, for people who look at stuck work.
    pub owner: String,
    /// How long the items are its own.
    pub lease: Duration,
    /// From which lanes, how many.
    pub takes: Vec<LaneQuota>,
}

impl ClaimRequest {
    pub(crate) fn check(&self) -> Result<()> {
        check_lease(self.lease)?;
        let mut problems = Problems::default();
        check_name(&self.owner, "owner", &mut problems);
        problems.into_result()
    }
}

/// A lease is between a second and a day.
pub(crate) fn check_lease(lease: Duration) -> Result<()> {
    if lease < limits::LEASE_MIN || lease > limits::LEASE_MAX {
        let said = "must be between 1 second and 24 hours: a shorter lease is lost to one slow commit";
        return Err(Error::invalid("leaseSeconds", said));
    }
    Ok(())
}

/// One claimed item with its message.
#[derive(Clone, Debug)]
pub struct ClaimedItem {
    /// The token that every later word about this item must carry.
    pub token: Token,
    /// The item as the claim row has it.
    pub item: ClaimItem,
    /// When it was due.
    pub due_at: Timestamp,
    /// The message.
    pub message: Message,
}

/// The items of a claim.
#[derive(Debug, Default)]
pub struct ClaimedBatch {
    /// The items, in due order within each lane.
    pub items: Vec<ClaimedItem>,
    /// How many work rows each lane gave, followers of a sequence included.
    pub taken: HashMap<LaneId, usize>,
    /// When the lease ends.
    pub lease_until: Option<Timestamp>,
    /// The authority's time of the claim.
    pub now: Option<Timestamp>,
    /// Whether the bytes that one claim may have ended it: there may be more.
    pub is_cut: bool,
}

impl ClaimedBatch {
    fn count(&mut self, taken: &[TakenWork]) {
        for rows in taken.chunk_by(|a, b| a.item.lane() == b.item.lane()) {
            *self.taken.entry(rows[0].item.lane()).or_default() += rows.len();
        }
    }
}

/// Lanes that had keys when last seen: a hint that a claim in one statement would not do.
#[derive(Debug, Default)]
pub(crate) struct KeyedLanes(Mutex<HashSet<LaneId>>);

impl KeyedLanes {
    fn learn(&self, asked: &[LaneId], catch: &ClaimedBatch) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for lane in asked {
            known.remove(lane);
        }
        known.extend(catch.items.iter().filter(|c| c.item.key().is_some()).map(|c| c.item.lane()));
    }

    #[cfg(feature = "postgres")]
    fn has_any(&self, takes: &[LaneQuota]) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        !known.is_empty() && takes.iter().any(|t| known.contains(&t.lane))
    }
}

/// A work row that was taken out of the table.
pub(crate) struct TakenWork {
    pub(crate) item: ClaimItem,
    pub(crate) due_at: Timestamp,
}

impl Store {
    /// Takes due work from the lanes of the wish, without waiting for any other claimer.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an impossible lease or owner.
    pub fn claim(&self, wish: ClaimRequest) -> VerbFuture<'_, ClaimedBatch> {
        self.claim_within(wish, None)
    }

    /// The same with a bound for the bytes of all payloads and headers. What does not fit goes back in the
    /// transaction that took it, as it was; one item is claimed however large it is.
    ///
    /// # Errors
    /// As [`Store::claim`].
    pub fn claim_within(&self, wish: ClaimRequest, bytes_max: Option<usize>) -> VerbFuture<'_, ClaimedBatch> {
        VerbFuture::new(async move {
            let bytes_max = bytes_max.filter(|most| payload_size::may_exceed(&wish.takes, *most));
            wish.check()?;
            if wish.takes.is_empty() {
                return Ok(ClaimedBatch::default());
            }
            #[cfg(feature = "postgres")]
            if self.may_claim_at_once(&wish)
                && let Some(catch) = self.claim_at_once(&wish, bytes_max).await?
            {
                reach(CrashPoint::ClaimedBeforeAnswer);
                return Ok(catch);
            }
            self.claim_in_steps(wish, bytes_max).await
        })
    }

    async fn claim_in_steps(&self, wish: ClaimRequest, bytes_max: Option<usize>) -> Result<ClaimedBatch> {
        let lanes: Vec<LaneId> = wish.takes.iter().map(|t| t.lane).collect();
        let request = (wish, bytes_max);
        let (mut catch, held) =
            self.write(request, |tx, (wish, most)| Box::pin(claim_work(tx, wish, *most))).await?;
        reach(CrashPoint::ClaimedBeforeAnswer);
        // Decoding is the claimer's work, not the database thread's.
        catch.items = held.decode()?;
        self.part::<KeyedLanes>().learn(&lanes, &catch);
        Ok(catch)
    }

    /// Marks a claim as begun, before its item runs: after a crash it counts as a started
    /// attempt. Answers whether the claim still holds.
    pub fn mark_started(&self, token: Token) -> VerbFuture<'_, bool> {
        VerbFuture::new(async move {
            let held = self
                .write(token, |tx, token| {
                    Box::pin(async move { Ok(tx.execute(MARK_STARTED, params![token.text()]).await? == 1) })
                })
                .await;
            reach(CrashPoint::MarkedBeforeStart);
            held
        })
    }

    /// Moves the end of open claims' leases; answers which of them still hold.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an impossible lease.
    pub fn extend(&self, tokens: Vec<Token>, lease: Duration) -> VerbFuture<'_, Vec<Token>> {
        VerbFuture::new(async move {
            check_lease(lease)?;
            self.write((tokens, lease), |tx, (tokens, lease)| Box::pin(extend(tx, tokens, *lease))).await
        })
    }
}

statements! {
    const MARK_STARTED = "
        update punctual.claim
        set started = 1
        where token = $1 and finished_at is null
    ";
}

async fn extend(tx: &mut Tx, tokens: &[Token], lease: Duration) -> Result<Vec<Token>> {
    let until = tx.now().await?.plus(lease);
    let texts: Vec<Option<&str>> = tokens.iter().map(|t| Some(t.text())).collect();
    let rows = tx.query(EXTEND, &[until.into(), Value::Texts(&texts)]).await?;
    rows.iter().map(|row| row.text(0).map(Token::from)).collect()
}

statements! {
    const EXTEND = "
        update punctual.claim
        set lease_until = $1
        where token = any($2::text[]) and finished_at is null
        returning token
    ";
}

async fn claim_work(
    tx: &mut Tx,
    wish: &ClaimRequest,
    bytes_max: Option<usize>,
) -> Result<(ClaimedBatch, ClaimContents)> {
    let (now, mut taken) = take(tx, Purpose::Dispatch, &wish.takes).await?;
    let Some(now) = now else { return Ok((ClaimedBatch::default(), ClaimContents::default())) };
    let mut catch = ClaimedBatch { now: Some(now), ..ClaimedBatch::default() };
    if let Some(most) = bytes_max {
        // Before the heads of sequences are sorted out: what goes back is neither head nor follower.
        (taken, catch.is_cut) = payload_size::give_back_beyond(tx, taken, most).await?;
    }
    catch.count(&taken);
    let taken = super::sequences::keep_heads(tx, taken, |t| &t.item, |t| t.due_at).await?;
    let until = now.plus(wish.lease);
    catch.lease_until = Some(until);
    reach(CrashPoint::ClaimedBeforeCommit);
    let held = hold(tx, wish, taken, now, until).await?;
    tx.fire_early();
    Ok((catch, held))
}

/// The contents of a claim, as read from the database.
#[derive(Default)]
struct ClaimContents {
    claims: Vec<NewClaim>,
    messages: Vec<Row>,
}

impl ClaimContents {
    fn decode(self) -> Result<Vec<ClaimedItem>> {
        let messages =
            self.messages.into_iter().map(|mut row| read_message(&mut row, 0)).collect::<Result<Vec<_>>>()?;
        Ok(join(self.claims.into_iter().map(|c| (c.token, c.batch)).collect(), messages))
    }
}

/// Writes the claim rows and reads the messages: the last word of the transaction.
async fn hold(
    tx: &mut Tx,
    wish: &ClaimRequest,
    taken: Vec<TakenWork>,
    now: Timestamp,
    until: Timestamp,
) -> Result<ClaimContents> {
    if taken.is_empty() {
        return Ok(ClaimContents::default());
    }
    let ids: Vec<i64> = taken.iter().map(|t| t.item.message().0).collect();
    let claims: Vec<NewClaim> = batches(taken).into_iter().map(NewClaim::new).collect();
    let mut last: Vec<(&'static str, Vec<Value<'_>>)> =
        claims.iter().map(|claim| (INSERT_CLAIM, claim.row(wish, now, until))).collect();
    last.push((MESSAGES_BY_ID, vec![Value::Ints(&ids)]));
    let messages = tx.finish(&last).await?.pop().unwrap_or_default();
    drop(last);
    Ok(ClaimContents { claims, messages })
}

/// Suspects alone, the rest together, as many as a claim row may hold.
fn batches(taken: Vec<TakenWork>) -> Vec<Vec<TakenWork>> {
    let (suspects, rest): (Vec<TakenWork>, Vec<TakenWork>) =
        taken.into_iter().partition(|t| t.item.is_suspect());
    let mut batches: Vec<Vec<TakenWork>> = suspects.into_iter().map(|t| vec![t]).collect();
    let mut rest = rest.into_iter().peekable();
    while rest.peek().is_some() {
        batches.push(rest.by_ref().take(limits::CLAIM_ITEMS_MAX).collect());
    }
    batches
}

/// Brings each item together with its message. If a message is gone (deleted in the database), its item is
/// not handed out; it is settled with its claim.
fn join(claims: Vec<(Token, Vec<TakenWork>)>, mut messages: Vec<Message>) -> Vec<ClaimedItem> {
    messages.sort_unstable_by_key(|m| m.id);
    let ids: Vec<MessageId> = messages.iter().map(|m| m.id).collect();
    // A message that two lanes gave is needed twice; all others are moved, not copied.
    let items: usize = claims.iter().map(|(_, batch)| batch.len()).sum();
    let shared = items > messages.len();
    let mut messages: Vec<Option<Message>> = messages.into_iter().map(Some).collect();
    let mut claimed = Vec::with_capacity(items);
    for (token, batch) in claims {
        for t in batch {
            let Ok(at) = ids.binary_search(&t.item.message()) else { continue };
            let message = if shared { messages[at].clone() } else { messages[at].take() };
            let Some(message) = message else { continue };
            claimed.push(ClaimedItem { token: token.clone(), item: t.item, due_at: t.due_at, message });
        }
    }
    claimed.sort_by_key(|c| (c.due_at, c.item.message()));
    claimed
}

/// A claim row to be.
struct NewClaim {
    token: Token,
    batch: Vec<TakenWork>,
    items: String,
}

impl NewClaim {
    fn new(batch: Vec<TakenWork>) -> Self {
        Self { token: Token::fresh(), items: claim::write(batch.iter().map(|t| &t.item)), batch }
    }

    fn row<'a>(&'a self, wish: &'a ClaimRequest, now: Timestamp, until: Timestamp) -> Vec<Value<'a>> {
        let ids = self.batch.iter().map(|t| t.item.message().0);
        // A batch of one is known to be started: there is no neighbour that could be meant.
        let started = self.batch.len() == 1 && !self.batch[0].item.is_suspect();
        row(&self.token, wish, Purpose::Dispatch, (now, until), started, &self.items, ids)
    }
}

fn row<'a>(
    token: &'a Token,
    wish: &'a ClaimRequest,
    purpose: Purpose,
    (now, until): (Timestamp, Timestamp),
    started: bool,
    items: &'a str,
    ids: impl Iterator<Item = i64> + Clone,
) -> Vec<Value<'a>> {
    vec![
        token.text().into(),
        wish.owner.as_str().into(),
        now.into(),
        until.into(),
        started.into(),
        items.into(),
        ids.clone().min().unwrap_or_default().into(),
        ids.max().unwrap_or_default().into(),
        purpose.word().into(),
    ]
}

/// A claim of deliveries that is to be written.
pub(crate) struct DeliveryClaim<'a> {
    pub(crate) token: Token,
    pub(crate) items: Vec<&'a ClaimItem>,
    /// The lanes whose provider sends a repeated message once.
    pub(crate) keyed_lanes: BTreeSet<LaneId>,
}

impl DeliveryClaim<'_> {
    fn write_keyed_lanes(&self) -> Option<String> {
        let lanes: Vec<i64> = self.keyed_lanes.iter().map(|lane| lane.0).collect();
        (!lanes.is_empty()).then(|| serde_json::Value::from(lanes).to_string())
    }
}

/// Writes claims of deliveries, which have no suspects: the last word of its transaction. Of each the
/// first `mark` items may be begun before the mark is moved; all of them if `None`.
pub(crate) async fn hold_deliveries(
    tx: &mut Tx,
    wish: &ClaimRequest,
    claims: &[DeliveryClaim<'_>],
    mark: Option<usize>,
    now: Timestamp,
) -> Result<()> {
    reach(CrashPoint::ClaimedBeforeCommit);
    let items: Vec<String> = claims.iter().map(|one| claim::write(one.items.iter().copied())).collect();
    let keyed: Vec<Option<String>> = claims.iter().map(DeliveryClaim::write_keyed_lanes).collect();
    let mark = mark.map(|mark| i64::try_from(mark).unwrap_or(i64::MAX));
    let rows = claims.iter().zip(&items).zip(&keyed).map(|((one, items), keyed)| {
        let ids = one.items.iter().map(|item| item.delivery().0);
        let times = (now, now.plus(wish.lease));
        let mut row = row(&one.token, wish, Purpose::Send, times, one.items.len() == 1, items, ids);
        row.push(mark.into());
        row.push(keyed.as_deref().into());
        (INSERT_MARKED_CLAIM, row)
    });
    tx.finish(&rows.collect::<Vec<_>>()).await?;
    Ok(())
}

statements! {
    const INSERT_MARKED_CLAIM = "
        insert into punctual.claim (
            token, owner, claimed_at, lease_until, started, items, first_id, last_id, purpose, mark,
            keyed_lanes
        )
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
    ";

    const INSERT_CLAIM = "
        insert into punctual.claim (
            token, owner, claimed_at, lease_until, started, items, first_id, last_id, purpose
        )
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
    ";

    const MESSAGES_BY_ID = "
        select ", message_columns!(), "
        from punctual.message m
        where m.id = any($1::bigint[])
    ";
}

/// The items of open claims, of one purpose if one is given.
pub(crate) async fn open_items(tx: &mut Tx, purpose: Option<Purpose>) -> Result<Vec<ClaimItem>> {
    let mut items = Vec::new();
    for row in tx.query(OPEN_ITEMS, params![purpose.map(Purpose::word)]).await? {
        items.extend(read_items(&row.text(0)?)?);
    }
    Ok(items)
}

statements! {
    const OPEN_ITEMS = "
        select coalesce(open, items)
        from punctual.claim
        where finished_at is null and ($1::text is null or purpose = $1)
    ";
}
