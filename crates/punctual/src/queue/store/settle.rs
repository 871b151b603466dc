//! Settling: a claimer reports the results of the items it holds.
//!
//! Every settlement first takes the claim's row by its token. If the claim is gone or was reaped, nothing is
//! written and the claimer gets [`SettleOutcome::LostClaim`]. A claim may be settled in parts; an item that
//! was settled before answers [`SettleOutcome::AlreadyFinished`], for as long as claims are kept. Only
//! exceptions (again, dead) write rows of their own; a batch that went well is one update.
//!
//! A token holds until its claim is reaped, even a moment after the lease's end: work that was done while the
//! database was away is not done again if no other claimer took it.

mod aftermath;
mod failed_attempt;
pub(crate) mod hooks;

pub(crate) use crate::queue::store::settle::aftermath::Aftermath;
pub(crate) use crate::queue::store::settle::failed_attempt::{FailedAttempt, fetch_snoozes};

use crate::base::clock::Timestamp;
use crate::base::error::{Error, Result};
use crate::base::id::{LaneId, MessageId, Token};
use crate::base::limits;
use crate::database::crash_points::{CrashPoint, reach};
use crate::database::planted_bugs::PlantedBug;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::Tx;
use crate::database::tx::VerbFuture;
use crate::database::value::{Value, params};
use crate::queue::rules::attempt::Retry;
use crate::queue::rules::claim;
use crate::queue::rules::claim::ClaimItem;
use crate::queue::rules::message::Message;
use crate::queue::rules::purpose::Purpose;
use crate::queue::store::queues;
use crate::queue::store::queues::Lane;
use crate::queue::store::settle::hooks::{SettlementHooks, WantedHooks};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

/// The result of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettleAction {
    /// The item is done.
    Ack,
    /// The item is done, with an output: kept with the run of a job, if the item is one.
    Done {
        /// The output, as JSON text.
        output: String,
    },
    /// The attempt failed; try again.
    Abandon {
        /// Why, for the history.
        error: String,
        /// When.
        retry: Retry,
    },
    /// No attempt will succeed; dead until replayed.
    Fail {
        /// Why, for the history.
        error: String,
    },
    /// The item was never begun; as if it had not been claimed.
    Release,
}

/// Items of one claim, each with its action.
#[derive(Clone, Debug)]
pub struct Settlement {
    /// The claim.
    pub token: Token,
    /// The items and their actions.
    pub words: Vec<(MessageId, SettleAction)>,
}

/// The outcome of a settlement for one item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub enum SettleOutcome {
    /// The action was carried out.
    Done,
    /// The claim was lost; nothing was written.
    LostClaim,
    /// The item was settled before, by the same claim; nothing was written.
    AlreadyFinished,
    /// This claim never held it; nothing was written.
    NotFound,
}

struct Request {
    settlements: Vec<Settlement>,
    /// Only items of this lane may be touched.
    within: Option<LaneId>,
    seed: u64,
}

impl Store {
    /// Settles claims whose items all went well, have no key and are wanted by no settlement hook
    /// ([`Store::has_hooks_for`]); answers those that held.
    pub fn ack_whole(&self, tokens: Vec<Token>) -> VerbFuture<'_, HashSet<Token>> {
        VerbFuture::new(async move {
            let held = self.write_alone(tokens, |tx, tokens| Box::pin(ack_whole(tx, tokens))).await;
            reach(CrashPoint::SettledBeforeAnswer);
            held
        })
    }

    /// Settles items of claims; answers in the order given. With `within`, items of other
    /// lanes are not found.
    pub fn settle(
        &self,
        settlements: Vec<Settlement>,
        within: Option<LaneId>,
        seed: u64,
    ) -> VerbFuture<'_, Vec<Vec<SettleOutcome>>> {
        VerbFuture::new(async move {
            let items: usize = settlements.iter().map(|s| s.words.len()).sum();
            if items > limits::BATCH_ITEMS_MAX {
                let said = format!("{items} items, at most {} are allowed", limits::BATCH_ITEMS_MAX);
                return Err(Error::invalid("items", said));
            }
            let request = Request { settlements, within, seed };
            let settled = self.write(request, |tx, request| Box::pin(settle_all(tx, request))).await;
            reach(CrashPoint::SettledBeforeAnswer);
            let (outcomes, failed) = settled?;
            failed.iter().for_each(FailedAttempt::log);
            Ok(outcomes)
        })
    }
}

impl Store {
    /// Whether something beside the queue may commit with the settlement of this message, such as the
    /// run of a job: its claim cannot be settled by [`Store::ack_whole`].
    #[must_use]
    pub fn has_hooks_for(&self, message: &Message) -> bool {
        self.settlement_hooks().want_message(message)
    }

    /// Renews the leases of claims that hold these items in this lane; answers in the order
    /// given. A claim that holds none of them is left alone.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an impossible lease.
    pub fn extend_within(
        &self,
        items: Vec<(Token, MessageId)>,
        lease: Duration,
        lane: LaneId,
    ) -> VerbFuture<'_, Vec<SettleOutcome>> {
        VerbFuture::new(async move {
            super::claims::check_lease(lease)?;
            self.write((items, lease, lane), |tx, (items, lease, lane)| {
                Box::pin(extend_within(tx, items, *lease, *lane))
            })
            .await
        })
    }
}

async fn extend_within(
    tx: &mut Tx,
    items: &[(Token, MessageId)],
    lease: Duration,
    lane: LaneId,
) -> Result<Vec<SettleOutcome>> {
    let mut claims: BTreeMap<&Token, Option<ClaimRow>> =
        items.iter().map(|(token, _)| (token, None)).collect();
    for (token, held) in &mut claims {
        *held = take_claim(tx, token, None).await?;
    }
    let standing = |(token, message): &(Token, MessageId)| {
        let held = claims.get(token).and_then(Option::as_ref);
        held.map_or(SettleOutcome::LostClaim, |held| held.standing(*message, Some(lane)))
    };
    let outcomes: Vec<SettleOutcome> = items.iter().map(standing).collect();
    let until = tx.now().await?.plus(lease);
    let held: BTreeSet<&Token> =
        items.iter().zip(&outcomes).filter(|(_, o)| **o == SettleOutcome::Done).map(|(i, _)| &i.0).collect();
    for token in held {
        tx.execute(RENEW, params![token.text(), until]).await?;
    }
    Ok(outcomes)
}

statements! {
    const RENEW = "
        update punctual.claim
        set lease_until = $2
        where token = $1 and finished_at is null
    ";
}

async fn ack_whole(tx: &mut Tx, tokens: &[Token]) -> Result<HashSet<Token>> {
    let texts: Vec<Option<&str>> = tokens.iter().map(|t| Some(t.text())).collect();
    let now = match tx.dialect() {
        // The server fills in its own time, which saves a question.
        crate::database::dialect::Dialect::Postgres => Value::Null,
        crate::database::dialect::Dialect::Sqlite => tx.now().await?.into(),
    };
    let mut sql = tx.dialect().pick(ACK_WHOLE_AT_SERVER_TIME, ACK_WHOLE);
    if tx.has(PlantedBug::NoFence) {
        sql = ACK_WHOLE_UNFENCED;
    }
    let rows = tx.query(sql, &[now, Value::Texts(&texts)]).await?;
    rows.iter().map(|row| row.text(0).map(Token::from)).collect()
}

statements! {
    const ACK_WHOLE = "
        update punctual.claim
        set finished_at = $1, ending = 'settled', open = '[]'
        where token = any($2::text[]) and finished_at is null
        returning token
    ";

    const ACK_WHOLE_AT_SERVER_TIME for Postgres = "
        update punctual.claim
        set finished_at = coalesce($1::bigint, punctual.now_us()), ending = 'settled', open = '[]'
        where token = any($2::text[]) and finished_at is null
        returning token
    ";

    /// A planted bug.
    const ACK_WHOLE_UNFENCED = "
        update punctual.claim
        set finished_at = coalesce($1::bigint, lease_until), ending = 'settled', open = '[]'
        where token = any($2::text[])
        returning token
    ";
}

async fn settle_all(tx: &mut Tx, request: &Request) -> Result<(Vec<Vec<SettleOutcome>>, Vec<FailedAttempt>)> {
    let mut order: Vec<usize> = (0..request.settlements.len()).collect();
    // Every settler locks claims in the same order.
    order.sort_by(|a, b| request.settlements[*a].token.cmp(&request.settlements[*b].token));
    let mut outcomes = vec![Vec::new(); request.settlements.len()];
    let mut failed = Vec::new();
    for n in order {
        outcomes[n] = settle_one(tx, &request.settlements[n], request, &mut failed).await?;
    }
    reach(CrashPoint::SettledBeforeCommit);
    Ok((outcomes, failed))
}

/// Settles items of one claim as part of a greater transaction; answers in the order given.
pub(crate) async fn settle_items(
    tx: &mut Tx,
    settlement: Settlement,
    seed: u64,
) -> Result<Vec<SettleOutcome>> {
    let request = Request { settlements: vec![settlement], within: None, seed };
    let (mut outcomes, _) = settle_all(tx, &request).await?;
    Ok(outcomes.pop().unwrap_or_default())
}

/// A claim row as a settlement sees it.
struct ClaimRow {
    purpose: Purpose,
    owner: String,
    claimed_at: Timestamp,
    wanted: WantedHooks,
    items: Vec<ClaimItem>,
    open: Vec<ClaimItem>,
    finished: bool,
    reaped: bool,
}

async fn settle_one(
    tx: &mut Tx,
    settlement: &Settlement,
    request: &Request,
    failed: &mut Vec<FailedAttempt>,
) -> Result<Vec<SettleOutcome>> {
    let hooks = tx.settlement_hooks().await?;
    let Some(mut held) = take_claim(tx, &settlement.token, Some(&hooks)).await? else {
        return Ok(vec![SettleOutcome::LostClaim; settlement.words.len()]);
    };
    // Entries and deliveries are settled by their own verbs.
    if held.purpose != Purpose::Dispatch {
        return Ok(vec![SettleOutcome::NotFound; settlement.words.len()]);
    }
    let mut outcomes = Vec::with_capacity(settlement.words.len());
    let mut said: Vec<(ClaimItem, &SettleAction)> = Vec::new();
    for (message, word) in &settlement.words {
        outcomes.push(held.take_item(*message, request.within, word, &mut said));
    }
    if said.is_empty() {
        return Ok(outcomes);
    }
    let now = tx.now().await?;
    failed.extend(apply(tx, &held, &said, now, request).await?);
    write_back(tx, &settlement.token, &held.open, now).await?;
    Ok(outcomes)
}

impl ClaimRow {
    /// Returns the outcome that an action on this item would have.
    fn standing(&self, message: MessageId, within: Option<LaneId>) -> SettleOutcome {
        let is_it = |item: &ClaimItem| is_it(item, message, within);
        match self.open.iter().any(is_it) {
            true if !self.finished => SettleOutcome::Done,
            true if self.reaped => SettleOutcome::LostClaim,
            _ if self.items.iter().any(is_it) => SettleOutcome::AlreadyFinished,
            _ => SettleOutcome::NotFound,
        }
    }

    /// Takes an item out of what is open, or says why not.
    fn take_item<'w>(
        &mut self,
        message: MessageId,
        within: Option<LaneId>,
        word: &'w SettleAction,
        said: &mut Vec<(ClaimItem, &'w SettleAction)>,
    ) -> SettleOutcome {
        let outcome = self.standing(message, within);
        if outcome == SettleOutcome::Done
            && let Some(at) = self.open.iter().position(|item| is_it(item, message, within))
        {
            said.push((self.open.remove(at), word));
        }
        outcome
    }
}

/// Takes these deliveries out of what a claim still holds, all of them or none, and moves the claim's mark. A
/// caller that asks again, because the first answer was lost on its way, learns that they are settled
/// already.
pub(crate) async fn finish_deliveries(
    tx: &mut Tx,
    token: &Token,
    items: &[&ClaimItem],
    mark: Option<usize>,
    now: Timestamp,
) -> Result<SettleOutcome> {
    if tx.has(PlantedBug::SettleWithoutToken) {
        return Ok(SettleOutcome::Done);
    }
    if tx.has(PlantedBug::IntentAfterCall) {
        for item in items {
            tx.execute(TAKE_LATE, params![item.lane().0, item.message().0]).await?;
        }
        return Ok(SettleOutcome::Done);
    }
    let held = take_claim(tx, token, None).await?.filter(|held| held.purpose == Purpose::Send);
    let Some(mut held) = held else { return Ok(SettleOutcome::LostClaim) };
    let ids: HashSet<MessageId> = items.iter().map(|item| item.message()).collect();
    let of_these = |held: &[ClaimItem]| held.iter().filter(|item| ids.contains(&item.message())).count();
    let (open, all) = (of_these(&held.open), of_these(&held.items));
    if open == 0 && all == ids.len() {
        return Ok(SettleOutcome::AlreadyFinished);
    }
    if held.finished || open != ids.len() {
        return Ok(SettleOutcome::LostClaim);
    }
    held.open.retain(|item| !ids.contains(&item.message()));
    write_back(tx, token, &held.open, now).await?;
    if let Some(mark) = mark.filter(|_| !held.open.is_empty()) {
        let mark = i64::try_from(mark).unwrap_or(i64::MAX);
        tx.execute(SET_MARK, params![token.text(), mark]).await?;
    }
    Ok(SettleOutcome::Done)
}

statements! {
    const SET_MARK = "
        update punctual.claim
        set mark = $2
        where token = $1
    ";

    /// A planted bug: the work of a delivery is taken after its channel was called.
    const TAKE_LATE = "
        delete from punctual.work
        where lane_id = $1 and message_id = $2
    ";
}

/// A message may be there for several lanes: of one lane it is there once.
fn is_it(item: &ClaimItem, message: MessageId, within: Option<LaneId>) -> bool {
    item.message() == message && within.is_none_or(|lane| lane == item.lane())
}

/// Locks a claim's row; with `hooks`, asks which of them want it.
async fn take_claim(tx: &mut Tx, token: &Token, hooks: Option<&SettlementHooks>) -> Result<Option<ClaimRow>> {
    let sql = hooks.map_or(TAKE_CLAIM, SettlementHooks::take_claim);
    let Some(row) = tx.first(sql, params![token.text()]).await? else { return Ok(None) };
    let items = read_items(&row.text(1)?)?;
    let open = row.maybe_text(2)?.map(|text| read_items(&text)).transpose()?;
    let ending = row.maybe_text(3)?.filter(|ending| ending != "reaped" || !tx.has(PlantedBug::NoFence));
    Ok(Some(ClaimRow {
        purpose: read_purpose(&row.text(5)?)?,
        owner: row.text(0)?,
        claimed_at: row.time(4)?,
        wanted: hooks.map_or_else(|| Ok(WantedHooks::default()), |hooks| hooks.read_wanted(&row, 6))?,
        open: open.unwrap_or_else(|| items.clone()),
        items,
        finished: ending.is_some(),
        reaped: ending.as_deref() == Some("reaped"),
    }))
}

statements! {
    const TAKE_CLAIM = "
        select owner, items, open, ending, claimed_at, purpose
        from punctual.claim
        where token = $1
        for update
    ";
}

pub(crate) fn read_purpose(word: &str) -> Result<Purpose> {
    let unknown = || Error::Database(format!("`{word}` is not a purpose of a claim").into());
    Purpose::from_word(word).ok_or_else(unknown)
}

pub(crate) fn read_items(text: &str) -> Result<Vec<ClaimItem>> {
    claim::read(text).map_err(|e| Error::Database(e.into()))
}

async fn write_back(tx: &mut Tx, token: &Token, open: &[ClaimItem], now: Timestamp) -> Result<()> {
    let text = claim::write(open);
    if open.is_empty() {
        tx.execute(FINISH, params![token.text(), now]).await?;
    } else {
        tx.execute(KEEP_OPEN, params![token.text(), &text]).await?;
    }
    Ok(())
}

statements! {
    const FINISH = "
        update punctual.claim
        set finished_at = $2, ending = 'settled', open = '[]'
        where token = $1
    ";

    const KEEP_OPEN = "
        update punctual.claim
        set open = $2
        where token = $1
    ";
}

async fn apply(
    tx: &mut Tx,
    held: &ClaimRow,
    said: &[(ClaimItem, &SettleAction)],
    now: Timestamp,
    request: &Request,
) -> Result<Vec<FailedAttempt>> {
    let lanes = exceptional_lanes(tx, said).await?;
    let abandoned = said.iter().filter(|(_, word)| matches!(word, SettleAction::Abandon { .. }));
    let snoozes = fetch_snoozes(tx, abandoned.map(|(item, _)| item)).await?;
    let hooks = tx.settlement_hooks().await?;
    let mut aftermath =
        Aftermath::new((&hooks, &held.wanted), held.purpose, (&held.owner, held.claimed_at), now);
    for (item, word) in said {
        let lane = lanes.get(&item.lane());
        let snoozes = snoozes.get(&(item.message(), item.lane())).copied().unwrap_or_default();
        aftermath.add(item, word, lane, snoozes, request.seed);
    }
    aftermath.write(tx).await
}

/// Lanes whose settings are needed: only those of items that did not go well.
async fn exceptional_lanes(
    tx: &mut Tx,
    said: &[(ClaimItem, &SettleAction)],
) -> Result<HashMap<LaneId, Lane>> {
    let troubled =
        |word: &SettleAction| matches!(word, SettleAction::Abandon { .. } | SettleAction::Fail { .. });
    let ids: HashSet<LaneId> = said.iter().filter(|(_, w)| troubled(w)).map(|(i, _)| i.lane()).collect();
    if ids.is_empty() { Ok(HashMap::new()) } else { queues::lanes(tx, &ids).await }
}
