//! Sends: the claim with its intents, and the settlement with its outcomes.
//!
//! [`Store::begin_sends`] takes due work, looks at each entry for the last time **under its lock**, and
//! writes the claim and an intent for each send, in one transaction. What has ended by then is not
//! sent. Only when that is committed, channels are called. [`Store::end_sends`] writes what
//! became of it: outcomes always, the entry only in the version that was seen, or, if it has changed
//! meanwhile, as the rules say once more. A claim that was lost writes nothing.
//!
//! Not promised: that nobody gets a message after they answered. One that left just before may
//! arrive just after. A try that was lost in a crash is written down as unknown by whoever comes next,
//! and made again under the same idempotency key.

use super::super::Store;
use super::super::claims::{self, Taken, Wish};
use super::super::columns::Column;
use super::super::planted::Bug;
use super::super::points::{Point, reach};
use super::super::queues;
use super::super::settle;
use super::super::tx::Tx;
use super::super::value::{Value, params};
use super::tell::{self, Moment};
use super::{Entry, expire_lane, lock, read_entry};
use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::{LaneId, Token};
use crate::base::tenant::Tenant;
use crate::rules::attempt::{Patience, kept_error};
use crate::rules::claim::{self, Item};
use crate::rules::entry::failure::{self, Failure, Verdict};
use crate::rules::entry::log::Outcome;
use crate::rules::entry::schedule::Schedule;
use crate::rules::entry::standing::Standing;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// A send that is due, and whose intent is written.
#[derive(Clone, Debug)]
pub struct Due {
    /// The item as the claim row has it.
    pub item: Item,
    /// Its entry, as it stood when the intent was written.
    pub entry: Entry,
}

impl Due {
    /// The number of this try of the send, from 1.
    #[must_use]
    pub const fn tried(&self) -> u32 {
        self.item.attempt()
    }
}

/// What a claim of sends brought.
#[derive(Debug, Default)]
pub struct Outgoing {
    /// The token that every later word about these must carry; none when nothing is to be sent.
    pub token: Option<Token>,
    /// The sends.
    pub due: Vec<Due>,
    /// How many work rows each lane gave, what was dropped included.
    pub taken: HashMap<LaneId, usize>,
    /// The authority's time of the claim.
    pub now: Option<Timestamp>,
}

/// What became of a try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tried {
    /// The channel took it.
    Sent {
        /// The provider's id of the message.
        message_id: Option<String>,
    },
    /// It did not, or nobody knows.
    NotSent {
        /// What is written down.
        outcome: Outcome,
        /// What it leads to.
        failure: Failure,
        /// What went wrong.
        error: String,
    },
    /// It was never begun.
    NotBegun,
}

/// One send with what became of it.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The send.
    pub due: Due,
    /// The timetable of its trigger; an entry without one halts.
    pub schedule: Arc<Schedule>,
    /// The flow's name in another system.
    pub integration_id: Option<Arc<str>>,
    /// What became of it.
    pub tried: Tried,
}

/// What a settlement of sends did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The claim was lost; nothing was written.
    LostClaim,
    /// As told.
    Done,
}

struct Ending {
    token: Token,
    ended: Arc<[Ended]>,
    seed: u64,
}

impl Store {
    /// Takes due sends from the lanes of the wish, and writes the intent to make them.
    ///
    /// # Errors
    /// [`crate::base::error::Error::Invalid`] for an impossible lease or owner.
    pub async fn begin_sends(&self, wish: Wish) -> Result<Outgoing> {
        wish.check()?;
        if wish.takes.is_empty() {
            return Ok(Outgoing::default());
        }
        let begun = self.write(wish, |tx, wish| Box::pin(begin(tx, wish))).await;
        reach(Point::ClaimedBeforeAnswer);
        begun
    }

    /// Writes what became of sends of one claim.
    pub async fn end_sends(&self, token: Token, ended: Arc<[Ended]>, seed: u64) -> Result<Settled> {
        let ending = Ending { token, ended, seed };
        let settled = self.write(ending, |tx, ending| Box::pin(end(tx, ending))).await;
        reach(Point::SettledBeforeAnswer);
        settled
    }
}

async fn begin(tx: &mut Tx, wish: &Wish) -> Result<Outgoing> {
    let (now, taken) = claims::take(tx, &wish.takes).await?;
    let Some(now) = now else { return Ok(Outgoing::default()) };
    let mut outgoing = Outgoing { now: Some(now), ..Outgoing::default() };
    for t in &taken {
        *outgoing.taken.entry(t.item.lane()).or_default() += 1;
    }
    let dropped;
    (outgoing.due, dropped) = last_look(tx, taken, now).await?;
    note_lost_tries(tx, outgoing.due.iter().chain(&dropped), now).await?;
    if outgoing.due.is_empty() {
        return Ok(outgoing);
    }
    reach(Point::ClaimedBeforeCommit);
    let token = Token::fresh();
    write_intents(tx, wish, &token, &outgoing.due, now).await?;
    outgoing.token = Some(token);
    Ok(outgoing)
}

/// Which of the items are really to be sent, and which are dropped because their entry has ended. What
/// somebody has locked at this moment goes back as it was, and comes again.
async fn last_look(tx: &mut Tx, taken: Vec<Taken>, now: Timestamp) -> Result<(Vec<Due>, Vec<Due>)> {
    let ids: Vec<i64> = taken.iter().filter_map(|t| t.item.entry()).map(|id| id.0).collect();
    let mut entries: HashMap<i64, Entry> =
        if tx.has(Bug::IntentWithoutLock) { unlocked(tx, &ids).await? } else { lock(tx, &ids).await? }
            .into_iter()
            .map(|entry| (entry.id.0, entry))
            .collect();
    let missing: Vec<i64> = ids.iter().copied().filter(|id| !entries.contains_key(id)).collect();
    let busy: HashSet<i64> = if missing.is_empty() { HashSet::new() } else { there(tx, &missing).await? };
    let (mut due, mut dropped, mut back) = (Vec::with_capacity(taken.len()), Vec::new(), Vec::new());
    let whatever = tx.has(Bug::SendAfterTheEnd);
    for t in taken {
        let Some(id) = t.item.entry() else { continue };
        match entries.remove(&id.0) {
            Some(entry) if whatever || (entry.standing.is_due(now) && !entry.deleted) => {
                due.push(Due { item: t.item, entry });
            }
            Some(entry) => dropped.push(Due { item: t.item, entry }),
            None if busy.contains(&id.0) => back.push(t),
            None => {}
        }
    }
    let back: Vec<Vec<Value<'_>>> = back.iter().map(|t| as_it_was(&t.item, t.due_at)).collect();
    tx.each(super::super::sequences::WORK_AGAIN, &back).await?;
    Ok((due, dropped))
}

/// A work row as if it had not been claimed.
fn as_it_was(item: &Item, due_at: Timestamp) -> Vec<Value<'_>> {
    let (attempts, unstarted) = (i64::from(item.attempt()) - 1, i64::from(item.unstarted()));
    vec![
        item.message().0.into(),
        item.lane().0.into(),
        due_at.into(),
        attempts.into(),
        unstarted.into(),
        Value::Null,
    ]
}

/// Which of these exist.
async fn there(tx: &mut Tx, ids: &[i64]) -> Result<HashSet<i64>> {
    let rows = tx.query(THERE, &[Value::Ints(ids)]).await?;
    rows.iter().map(|row| row.int(0)).collect()
}

const THERE: &str = "select id from punctual.entry where id = any($1::bigint[])";

/// A planted bug: the last look locks nothing.
async fn unlocked(tx: &mut Tx, ids: &[i64]) -> Result<Vec<Entry>> {
    let mut rows = tx.query(UNLOCKED, &[Value::Ints(ids)]).await?;
    rows.iter_mut().map(read_entry).collect()
}

const UNLOCKED: &str =
    concat!("select ", super::entry_columns!(), " from punctual.entry e where e.id = any($1::bigint[])");

/// A try before this one that nobody wrote down was lost in a crash: it may have gone out. That is
/// so whether or not there is another one.
async fn note_lost_tries(tx: &mut Tx, seen: impl Iterator<Item = &Due>, now: Timestamp) -> Result<()> {
    let again: Vec<&Due> = seen.filter(|d| d.tried() > 1).collect();
    let said = "whoever sent it did not say what came of it; it may have gone out";
    let rows: Vec<Vec<Value<'_>>> = again
        .iter()
        .map(|d| {
            vec![
                d.entry.id.0.into(),
                i64::from(d.entry.attempt()).into(),
                (i64::from(d.tried()) - 1).into(),
                now.into(),
                said.into(),
            ]
        })
        .collect();
    tx.each(NOTE_LOST, &rows).await?;
    Ok(())
}

/// Only a try whose intent was written can be lost.
const NOTE_LOST: &str = "insert into punctual.delivery_outcome (entry_id, attempt, tried, at, status, error) \
    select $1, $2, $3, $4, 'unknown', $5 where exists (select 1 from punctual.delivery d \
        where d.entry_id = $1 and d.attempt = $2 and d.part = 0) on conflict do nothing";

/// The claim row and the intents: the last word of the transaction.
async fn write_intents(tx: &mut Tx, wish: &Wish, token: &Token, due: &[Due], now: Timestamp) -> Result<()> {
    let items = claim::write(due.iter().map(|d| &d.item));
    let ids = || due.iter().map(|d| d.item.message().0);
    let claim = vec![
        token.text().into(),
        wish.owner.as_str().into(),
        now.into(),
        now.plus(wish.lease).into(),
        (due.len() == 1).into(),
        items.as_str().into(),
        ids().min().unwrap_or_default().into(),
        ids().max().unwrap_or_default().into(),
    ];
    let columns = [
        Column::Ints(due.iter().map(|d| d.entry.id.0).collect()),
        Column::Ints(due.iter().map(|d| i64::from(d.entry.attempt())).collect()),
        Column::Texts(due.iter().map(|d| Some(d.entry.channel.as_str())).collect()),
        Column::Texts(due.iter().map(|d| Some(d.entry.address.as_str())).collect()),
    ];
    tx.in_columns((INTENTS_AT_ONCE, INTENT), params![now], &columns).await?;
    tx.finish(&[(claims::INSERT_CLAIM, claim)]).await?;
    Ok(())
}

const INTENTS_AT_ONCE: &str = "insert into punctual.delivery (entry_id, attempt, channel, address, created_at) \
    select entry_id, attempt, channel, address, $1::bigint \
    from unnest($2::bigint[], $3::int[], $4::text[], $5::text[]) x (entry_id, attempt, channel, address) \
    on conflict do nothing";
const INTENT: &str = "insert into punctual.delivery (entry_id, attempt, channel, address, created_at) \
    values ($2, $3, $4, $5, $1) on conflict do nothing";

async fn end(tx: &mut Tx, ending: &Ending) -> Result<Settled> {
    let now = tx.now().await?;
    let items: Vec<&Item> = ending.ended.iter().map(|e| &e.due.item).collect();
    if !settle::finish_items(tx, &ending.token, &items, now).await? {
        return Ok(Settled::LostClaim);
    }
    log(tx, &ending.ended, now).await?;
    let lanes = lanes_of_failures(tx, &ending.ended).await?;
    let mut steps = Vec::with_capacity(ending.ended.len());
    for ended in ending.ended.iter() {
        let patience = patience(lanes.get(&ended.due.item.lane()));
        let seed = ending.seed ^ ended.due.entry.id.0.unsigned_abs();
        if let Some(step) = Step::after(ended, &ended.due.entry, &patience, now, seed) {
            steps.push(step);
        }
    }
    let behind = write_steps(tx, &steps).await?;
    for step in behind {
        write_again(tx, step, &lanes, now, ending.seed).await?;
    }
    tell_sent(tx, &ending.ended, now).await?;
    reach(Point::SettledBeforeCommit);
    Ok(Settled::Done)
}

/// What is tried again by a policy that the channel's lane may change.
fn patience(lane: Option<&queues::Lane>) -> Patience {
    let usual = failure::patience();
    let Some(lane) = lane else { return usual };
    Patience {
        max_attempts: lane.settings.max_attempts.unwrap_or(usual.max_attempts),
        backoff: lane.settings.backoff.clone().unwrap_or(usual.backoff),
    }
}

async fn lanes_of_failures(tx: &mut Tx, ended: &[Ended]) -> Result<HashMap<LaneId, queues::Lane>> {
    let failed = ended.iter().filter(|e| matches!(e.tried, Tried::NotSent { .. }));
    let ids: HashSet<LaneId> = failed.map(|e| e.due.item.lane()).collect();
    if ids.is_empty() { Ok(HashMap::new()) } else { queues::lanes(tx, &ids).await }
}

/// Writes down what became of each try.
async fn log(tx: &mut Tx, ended: &[Ended], now: Timestamp) -> Result<()> {
    let begun: Vec<&Ended> = ended.iter().filter(|e| e.tried != Tried::NotBegun).collect();
    let errors: Vec<Option<String>> = begun.iter().map(|e| error_of(&e.tried)).collect();
    let columns = [
        Column::Ints(begun.iter().map(|e| e.due.entry.id.0).collect()),
        Column::Ints(begun.iter().map(|e| i64::from(e.due.entry.attempt())).collect()),
        Column::Ints(begun.iter().map(|e| i64::from(e.due.tried())).collect()),
        Column::Texts(begun.iter().map(|e| Some(word_of(&e.tried))).collect()),
        Column::Texts(begun.iter().map(|e| message_id(&e.tried)).collect()),
        Column::Texts(errors.iter().map(Option::as_deref).collect()),
    ];
    tx.in_columns((OUTCOMES_AT_ONCE, OUTCOME), params![now], &columns).await?;
    Ok(())
}

fn error_of(tried: &Tried) -> Option<String> {
    if let Tried::NotSent { error, .. } = tried { Some(kept_error(error)) } else { None }
}

const fn word_of(tried: &Tried) -> &'static str {
    match tried {
        Tried::NotSent { outcome, .. } => outcome.word(),
        Tried::Sent { .. } | Tried::NotBegun => Outcome::Delivered.word(),
    }
}

fn message_id(tried: &Tried) -> Option<&str> {
    if let Tried::Sent { message_id } = tried { message_id.as_deref() } else { None }
}

const OUTCOMES_AT_ONCE: &str = "insert into punctual.delivery_outcome \
        (entry_id, attempt, tried, at, status, provider_id, error) \
    select entry_id, attempt, tried, $1::bigint, status, provider_id, error \
    from unnest($2::bigint[], $3::int[], $4::int[], $5::text[], $6::text[], $7::text[]) \
        x (entry_id, attempt, tried, status, provider_id, error) on conflict do nothing";
const OUTCOME: &str = "insert into punctual.delivery_outcome \
        (entry_id, attempt, tried, at, status, provider_id, error) \
    values ($2, $3, $4, $1, $5, $6, $7) on conflict do nothing";

/// What an entry becomes, and the work that follows.
struct Step<'a> {
    ended: &'a Ended,
    version: i64,
    standing: Standing,
    work: Next,
}

/// The work that follows a send.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// A reminder, or the same send once more, with the attempts it has had.
    Send {
        at: Timestamp,
        attempts: u32,
        unstarted: u32,
    },
    /// The end, if nobody answers.
    Expire(Timestamp),
    Nothing,
}

impl<'a> Step<'a> {
    /// What the rules make of an entry as it stands; `None` if nothing may happen to it any more.
    fn after(
        ended: &'a Ended,
        entry: &Entry,
        patience: &Patience,
        now: Timestamp,
        seed: u64,
    ) -> Option<Self> {
        let (item, stands) = (&ended.due.item, &entry.standing);
        let made = |standing: Standing| {
            let work = match standing.next_send_at {
                Some(at) => Next::Send { at, attempts: 0, unstarted: 0 },
                None => standing.expires_at(entry.grace).map_or(Next::Nothing, Next::Expire),
            };
            Self { ended, version: entry.version, standing, work }
        };
        let again = |at: Timestamp, attempts: u32| Self {
            ended,
            version: entry.version,
            standing: *stands,
            work: Next::Send { at, attempts, unstarted: item.unstarted() },
        };
        match &ended.tried {
            Tried::Sent { .. } => stands.sent(&ended.schedule, now).ok().map(made),
            Tried::NotBegun if !stands.status.is_active() => None,
            Tried::NotBegun => Some(again(stands.next_send_at.unwrap_or(now), item.attempt() - 1)),
            Tried::NotSent { failure, .. } => {
                let tries = item.attempt().saturating_sub(item.unstarted());
                match failure::after_failure(*failure, tries, patience, now, seed) {
                    Verdict::RetryAt(_) if !stands.status.is_active() => None,
                    Verdict::RetryAt(at) => Some(again(at, item.attempt())),
                    Verdict::GiveUp => stands.gave_up(&ended.schedule, now).ok().map(made),
                    Verdict::Halt => stands.halted().ok().map(made),
                }
            }
        }
    }

    const fn tenant(&self) -> Tenant {
        self.ended.due.entry.tenant
    }
}

/// Writes what entries became, each in the version that was seen, with the work that follows;
/// answers those that have changed meanwhile.
async fn write_steps<'s, 'a>(tx: &mut Tx, steps: &'s [Step<'a>]) -> Result<Vec<&'s Step<'a>>> {
    if steps.is_empty() {
        return Ok(Vec::new());
    }
    let lanes = expire_lanes(tx, steps).await?;
    let work: Vec<WorkRow> = steps.iter().map(|step| WorkRow::of(step, &lanes)).collect();
    let columns = step_columns(steps, &work);
    let unversioned = tx.has(Bug::StandingWithoutVersion);
    let written = match tx {
        #[cfg(feature = "postgres")]
        Tx::Postgres(_) => {
            let text = if unversioned { STEPS_UNVERSIONED } else { STEPS_AT_ONCE };
            tx.in_columns((text, ""), &[], &columns).await?
        }
        #[cfg(feature = "sqlite")]
        Tx::Sqlite(_) => {
            let text = if unversioned { STEP_UNVERSIONED } else { STEP };
            tx.in_columns(("", text), &[], &columns[..STEP_COLUMNS]).await?
        }
    };
    let written: HashSet<i64> = written.iter().map(|row| row.int(0)).collect::<Result<_>>()?;
    #[cfg(feature = "sqlite")]
    if matches!(tx, Tx::Sqlite(_)) {
        let rows: Vec<Vec<Value<'_>>> = steps
            .iter()
            .zip(&work)
            .filter(|(step, _)| written.contains(&step.ended.due.entry.id.0))
            .filter_map(|(step, row)| row.values(step))
            .collect();
        tx.each(super::super::sequences::WORK_AGAIN, &rows).await?;
    }
    Ok(steps.iter().filter(|step| !written.contains(&step.ended.due.entry.id.0)).collect())
}

async fn expire_lanes(tx: &mut Tx, steps: &[Step<'_>]) -> Result<BTreeMap<Tenant, i64>> {
    let mut lanes = BTreeMap::new();
    for step in steps.iter().filter(|step| matches!(step.work, Next::Expire(_))) {
        let tenant = step.tenant();
        if let std::collections::btree_map::Entry::Vacant(unknown) = lanes.entry(tenant) {
            unknown.insert(expire_lane(tx, tenant).await?);
        }
    }
    Ok(lanes)
}

/// The work row that follows a step, if one does.
#[derive(Clone, Copy, Default)]
struct WorkRow {
    lane: i64,
    due: Option<Timestamp>,
    attempts: u32,
    unstarted: u32,
}

impl WorkRow {
    fn of(step: &Step<'_>, lanes: &BTreeMap<Tenant, i64>) -> Self {
        let lane = step.ended.due.item.lane().0;
        match step.work {
            Next::Nothing => Self::default(),
            Next::Send { at, attempts, unstarted } => Self { lane, due: Some(at), attempts, unstarted },
            Next::Expire(at) => {
                let lane = lanes.get(&step.tenant()).copied().unwrap_or_default();
                Self { lane, due: Some(at), ..Self::default() }
            }
        }
    }

    fn values<'v>(self, step: &Step<'_>) -> Option<Vec<Value<'v>>> {
        let (attempts, unstarted) = (i64::from(self.attempts), i64::from(self.unstarted));
        let id = step.ended.due.entry.work_id();
        Some(vec![
            id.into(),
            self.lane.into(),
            self.due?.into(),
            attempts.into(),
            unstarted.into(),
            Value::Null,
        ])
    }
}

/// Columns that say what an entry becomes; those of its work follow.
const STEP_COLUMNS: usize = 6;

fn step_columns(steps: &[Step<'_>], work: &[WorkRow]) -> Vec<Column<'static>> {
    let ints = |pick: &dyn Fn(&Step<'_>) -> i64| Column::Ints(steps.iter().map(pick).collect());
    let times = |pick: &dyn Fn(&Step<'_>) -> Option<Timestamp>| {
        Column::MaybeInts(steps.iter().map(|s| pick(s).map(Timestamp::as_micros)).collect())
    };
    let of_work = |pick: &dyn Fn(&WorkRow) -> i64| Column::Ints(work.iter().map(pick).collect());
    vec![
        ints(&|s| s.ended.due.entry.id.0),
        ints(&|s| s.version),
        ints(&|s| s.standing.status.code()),
        times(&|s| s.standing.next_send_at),
        times(&|s| s.standing.last_sent_at),
        ints(&|s| s.standing.remaining),
        of_work(&|w| w.lane),
        Column::MaybeInts(work.iter().map(|w| w.due.map(Timestamp::as_micros)).collect()),
        of_work(&|w| i64::from(w.attempts)),
        of_work(&|w| i64::from(w.unstarted)),
    ]
}

#[cfg(feature = "postgres")]
macro_rules! steps_at_once {
    ($version:literal) => {
        concat!(
    "with u as (update punctual.entry e set status = x.status, next_send_at = x.next_send_at, \
            last_sent_at = x.last_sent_at, remaining = x.remaining, version = e.version + 1 \
        from unnest($1::bigint[], $2::int[], $3::int[], $4::bigint[], $5::bigint[], $6::int[], $7::int[], \
                $8::bigint[], $9::int[], $10::int[]) \
            x (id, version, status, next_send_at, last_sent_at, remaining, lane_id, due_at, attempts, \
                unstarted) \
        where e.id = x.id ",
            $version,
            " returning e.id, x.lane_id, x.due_at, x.attempts, x.unstarted), \
    w as (insert into punctual.work (message_id, lane_id, due_at, attempts, unstarted) \
        select -id, lane_id, due_at, attempts, unstarted from u where due_at is not null) \
    select id from u"
        )
    };
}
#[cfg(feature = "postgres")]
const STEPS_AT_ONCE: &str = steps_at_once!("and e.version = x.version");
/// A planted bug: whoever has changed the entry meanwhile is overwritten.
#[cfg(feature = "postgres")]
const STEPS_UNVERSIONED: &str = steps_at_once!("");
#[cfg(feature = "sqlite")]
const STEP: &str = "update punctual.entry set status = $3, next_send_at = $4, last_sent_at = $5, \
        remaining = $6, version = version + 1 where id = $1 and version = $2 returning id";
/// A planted bug, as above.
#[cfg(feature = "sqlite")]
const STEP_UNVERSIONED: &str = "update punctual.entry set status = $3, next_send_at = $4, \
        last_sent_at = $5, remaining = $6, version = version + 1 where id = $1 and $2 > 0 returning id";

/// An entry that has changed since its intent was written: the rules are asked once more, under its
/// lock, about how it stands now.
async fn write_again(
    tx: &mut Tx,
    step: &Step<'_>,
    lanes: &HashMap<LaneId, queues::Lane>,
    now: Timestamp,
    seed: u64,
) -> Result<()> {
    let ended = step.ended;
    let Some(mut row) = tx.first(WAIT_FOR, params![ended.due.entry.id.0]).await? else { return Ok(()) };
    let entry = read_entry(&mut row)?;
    let patience = patience(lanes.get(&ended.due.item.lane()));
    let seed = seed ^ entry.id.0.unsigned_abs();
    let Some(step) = Step::after(ended, &entry, &patience, now, seed) else { return Ok(()) };
    write_steps(tx, &[step]).await?;
    Ok(())
}

const WAIT_FOR: &str =
    concat!("select ", super::entry_columns!(), " from punctual.entry e where e.id = $1 for update");

async fn tell_sent(tx: &mut Tx, ended: &[Ended], now: Timestamp) -> Result<()> {
    let sent = ended.iter().filter(|e| matches!(e.tried, Tried::Sent { .. }));
    let told = sent.map(|e| {
        let entry = &e.due.entry;
        let moment = Moment::Sent { at: now, attempt: entry.attempt() };
        (entry.tenant, tell::message(entry, e.integration_id.as_deref(), &moment))
    });
    tell::tell_all(tx, told.collect()).await
}

/// The queue has given these up: their sends were lost too often. Reminders that are left still go.
pub(in super::super) async fn give_up(tx: &mut Tx, items: &[Item], now: Timestamp) -> Result<()> {
    for item in items {
        let Some(id) = item.entry() else { continue };
        let Some(mut row) = tx.first(WAIT_FOR, params![id.0]).await? else { continue };
        let entry = read_entry(&mut row)?;
        let schedule = Arc::new(schedule_of(tx, &entry).await?);
        let due = Due { item: item.clone(), entry };
        let error = "its send was lost too often".to_owned();
        let tried = Tried::NotSent { outcome: Outcome::Unknown, failure: Failure::Permanent, error };
        let ended = Ended { due, schedule, integration_id: None, tried };
        log(tx, std::slice::from_ref(&ended), now).await?;
        if let Some(step) = Step::after(&ended, &ended.due.entry, &failure::patience(), now, 0) {
            write_steps(tx, &[step]).await?;
        }
    }
    Ok(())
}

/// The timetable of an entry's trigger, read from its version.
async fn schedule_of(tx: &mut Tx, entry: &Entry) -> Result<Schedule> {
    let row = tx.first(DEFINITION, params![entry.flow.0, i64::from(entry.number)]).await?;
    let Some(row) = row else { return Ok(Schedule::default()) };
    let Ok(definition) = serde_json::from_str(&row.text(0)?) else { return Ok(Schedule::default()) };
    let (mut problems, mut warnings) = Default::default();
    let survey = crate::rules::survey::Survey::read(&definition, &mut problems, &mut warnings);
    let trigger = survey.as_ref().and_then(|survey| survey.trigger(&entry.trigger_id));
    Ok(trigger.map(|trigger| trigger.schedule.clone()).unwrap_or_default())
}

const DEFINITION: &str = "select definition from punctual.flow_version where flow_id = $1 and number = $2";
