//! The inbox: a message that was received is processed once, however often it is delivered.
//!
//! The key is (tenant, source, message id). [`Store::begin_inbox`] decides about a delivery in one
//! transaction: of any number at once, one is told to process the message, and gets a token with a lease.
//! When the lease ends, the next delivery gets a token of its own, and from then on, not before, the old one
//! holds nothing any more: a mark with it returns `LostClaim`, and nothing is written. To commit the effect
//! and the mark together, complete in a transaction of your own: see [`crate::queue::inbox`].
//!
//! Not promised: that a dead or failed message comes again by itself. The sender delivers it again, or an
//! operator has it delivered; a replay only accepts the next delivery.

mod received;

mod prune;

pub use prune::InboxRetention;

use crate::base::clock::Timestamp;
use crate::base::error::{Error, Result};
use crate::base::id::{InboxId, Token};
use crate::base::limits;
use crate::base::tenant::Tenant;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::Tx;
use crate::database::tx::VerbFuture;
use crate::database::value::{Row, params};
use crate::queue::rules::attempt::kept_error;
use crate::queue::rules::inbox::{
    InboxDecision, InboxDelivery, InboxStatus, StoredInboxMessage, after_failure,
};
use crate::queue::store::inbox::received::{read, replay, select};
use crate::queue::store::settle::SettleOutcome;
use std::time::Duration;

/// The right to mark a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxTicket {
    /// The sender of the message.
    pub source: String,
    /// The sender's id of it.
    pub message_id: String,
    /// The token, which holds until another receiver is told to process the message.
    pub token: Token,
}

/// The answer to a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InboxBeginOutcome {
    /// Process the message, and mark it with the ticket.
    Process {
        /// The right to say so.
        ticket: InboxTicket,
        /// Which attempt this is, from 1.
        attempts: u32,
        /// From then on another delivery may get the same answer.
        lease_until: Timestamp,
    },
    /// The message was processed: acknowledge the delivery, and do nothing.
    AlreadyProcessed {
        /// How many attempts it took.
        attempts: u32,
    },
    /// Another receiver processes it: have it delivered again later.
    InProgress {
        /// Which attempt that is.
        attempts: u32,
    },
    /// The same id came with other content before: an operator must look.
    Conflict {
        /// How often the first was tried.
        attempts: u32,
    },
    /// Every attempt failed: acknowledge the delivery, and do nothing.
    Dead {
        /// How often it was tried.
        attempts: u32,
    },
}

/// The result of processing a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessingOutcome {
    /// The message was processed.
    Processed,
    /// Processing failed; the next delivery tries again, unless it was the last attempt.
    Failed {
        /// Why.
        error: String,
    },
    /// Processing will never succeed.
    Dead {
        /// Why.
        error: String,
    },
}

/// A message of the inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxMessage {
    /// Its place in lists.
    pub id: InboxId,
    /// The sender.
    pub source: String,
    /// The sender's id of it.
    pub message_id: String,
    /// The digest of its content, if one was given.
    pub hash: Option<String>,
    /// The status of the message.
    pub status: InboxStatus,
    /// How often it was tried.
    pub attempts: u32,
    /// When the present attempt, or the last one, must be through.
    pub lease_until: Timestamp,
    /// When it came first.
    pub first_seen: Timestamp,
    /// When it came last. A delivery that comes in the very moment in which another one is decided, or in
    /// which the message is marked, does not count.
    pub last_seen: Timestamp,
    /// When it was processed, failed or died.
    pub finished_at: Option<Timestamp>,
    /// The last error.
    pub error: Option<String>,
}

/// Which messages of the inbox.
#[derive(Clone, Debug, Default)]
pub struct InboxFilter {
    /// Only these; all if `None`.
    pub ids: Option<Vec<InboxId>>,
    /// Only of this source.
    pub source: Option<String>,
    /// Only with this status.
    pub status: Option<InboxStatus>,
    /// Only those above this id.
    pub after: i64,
}

/// The result of a replay, or of a dry run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InboxReplayOutcome {
    /// The messages.
    pub ids: Vec<InboxId>,
    /// Whether there may be more.
    pub more: bool,
}

/// Counts of messages in a status that an operator should know of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InboxCounts {
    /// In progress, stuck or not.
    pub processing: i64,
    /// In progress long past their lease; their senders do not deliver them again.
    pub stuck: i64,
    /// Dead.
    pub dead: i64,
}

impl Store {
    /// Begins a delivery: decides whether its message is to be processed.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every problem.
    pub fn begin_inbox(&self, tenant: Tenant, delivery: InboxDelivery) -> VerbFuture<'_, InboxBeginOutcome> {
        VerbFuture::new(async move {
            delivery.check()?;
            self.of(tenant)
                .write((tenant, delivery, Token::fresh()), |tx, (tenant, delivery, token)| {
                    Box::pin(begin(tx, *tenant, delivery, token))
                })
                .await
        })
    }

    /// Marks a message: `LostClaim` when the ticket's token holds nothing any more, `AlreadyFinished` when it
    /// has the same mark already.
    pub fn mark_inbox(
        &self,
        tenant: Tenant,
        ticket: InboxTicket,
        mark: ProcessingOutcome,
    ) -> VerbFuture<'_, SettleOutcome> {
        self.of(tenant).write((tenant, ticket, mark), |tx, (tenant, ticket, word)| {
            Box::pin(mark_as(tx, *tenant, ticket, word))
        })
    }

    /// Messages of a tenant, in the order they came first.
    pub fn inbox(
        &self,
        tenant: Tenant,
        which: InboxFilter,
        limit: usize,
    ) -> VerbFuture<'_, Vec<InboxMessage>> {
        VerbFuture::new(async move {
            check(&which)?;
            self.of(tenant)
                .read((tenant, which, limit), |tx, (tenant, which, limit)| {
                    Box::pin(async move {
                        let rows = select(tx, *tenant, which, *limit).await?;
                        rows.iter().map(read).collect()
                    })
                })
                .await
        })
    }

    /// Requeues dead messages, a bounded number at a time: the next delivery of each is processed, with its
    /// attempts counted anew.
    pub fn replay_inbox(
        &self,
        tenant: Tenant,
        which: InboxFilter,
        dry_run: bool,
    ) -> VerbFuture<'_, InboxReplayOutcome> {
        VerbFuture::new(async move {
            check(&which)?;
            let which = InboxFilter { status: Some(InboxStatus::Dead), ..which };
            self.of(tenant)
                .write((tenant, which, dry_run), |tx, (tenant, which, dry_run)| {
                    Box::pin(replay(tx, *tenant, which, *dry_run))
                })
                .await
        })
    }

    /// Counts messages in a status that an operator should know of; a message this far past its lease is
    /// stuck.
    pub fn count_inbox(&self, stuck_after: Duration) -> VerbFuture<'_, InboxCounts> {
        self.read(stuck_after, |tx, after| {
            Box::pin(async move {
                let now = tx.now().await?;
                let Some(row) = tx.first(COUNTS, params![now.minus(*after)]).await? else {
                    return Ok(InboxCounts::default());
                };
                Ok(InboxCounts { processing: row.int(0)?, stuck: row.int(1)?, dead: row.int(2)? })
            })
        })
    }
}

fn check(which: &InboxFilter) -> Result<()> {
    match &which.ids {
        Some(ids) if ids.len() > limits::BATCH_ITEMS_MAX => {
            let said = format!("{} ids, at most {} are allowed", ids.len(), limits::BATCH_ITEMS_MAX);
            Err(Error::invalid("ids", said))
        }
        _ => Ok(()),
    }
}

/// Looks first, then inserts or takes. On PostgreSQL an insert would wait for a transaction that
/// is updating the row it meets, which may be a host's own and long; a look does not.
async fn begin(
    tx: &mut Tx,
    tenant: Tenant,
    delivery: &InboxDelivery,
    token: &Token,
) -> Result<InboxBeginOutcome> {
    let now = tx.now().await?;
    let key = params![tenant.id(), &delivery.source, &delivery.message_id];
    let process = |attempts| InboxBeginOutcome::Process {
        ticket: InboxTicket::of(delivery, token),
        attempts,
        lease_until: now.plus(delivery.lease),
    };
    let Some(seen) = tx.first(PEEK, key).await? else {
        if insert(tx, tenant, delivery, token, now).await? {
            return Ok(process(1));
        }
        // Another delivery was faster by a moment, and may have had other content.
        let Some(winner) = tx.first(PEEK, key).await? else {
            return Ok(InboxBeginOutcome::InProgress { attempts: 1 });
        };
        return told_by(&winner, delivery, now);
    };
    let Some(row) = tx.first(LOCK, key).await? else {
        // Another transaction begins or marks the message at this moment. This one does not wait for it,
        // returns the state before, and leaves no trace.
        return told_by(&seen, delivery, now);
    };
    let (id, known) = (row.int(0)?, known(&row)?);
    let attempts = known.attempts;
    let verdict = match known.verdict(delivery, now) {
        InboxDecision::Process => {
            let (most, until) = (i64::from(delivery.max_attempts), now.plus(delivery.lease));
            let hash = delivery.hash.as_deref();
            tx.execute(TAKE, params![id, token.text(), most, until, now, hash]).await?;
            return Ok(process(attempts + 1));
        }
        InboxDecision::Dies => {
            let error = format!("the lease of attempt {attempts} ran out, and it was the last one");
            tx.execute(FINISH, params![id, InboxStatus::Dead.word(), now, &error]).await?;
            InboxDecision::Dead
        }
        other => other,
    };
    tx.execute(SEEN, params![id, now]).await?;
    Ok(to_begin_outcome(verdict, attempts))
}

/// Returns the answer to a delivery whose message another transaction has.
fn told_by(row: &Row, delivery: &InboxDelivery, now: Timestamp) -> Result<InboxBeginOutcome> {
    let known = known(row)?;
    Ok(to_begin_outcome(known.verdict(delivery, now), known.attempts))
}

async fn insert(
    tx: &mut Tx,
    tenant: Tenant,
    delivery: &InboxDelivery,
    token: &Token,
    now: Timestamp,
) -> Result<bool> {
    let row = params![
        tenant.id(),
        &delivery.source,
        &delivery.message_id,
        delivery.hash.as_deref(),
        token.text(),
        i64::from(delivery.max_attempts),
        now.plus(delivery.lease),
        now
    ];
    Ok(tx.execute(INSERT, row).await? == 1)
}

/// Takes in a message that is processed in this very transaction; `false` if it was before.
pub(crate) async fn admit(tx: &mut Tx, tenant: Tenant, source: &str, message_id: &str) -> Result<bool> {
    let now = tx.now().await?;
    let token = Token::fresh();
    if tx.execute(ADMIT, params![tenant.id(), source, message_id, token.text(), now]).await? == 1 {
        return Ok(true);
    }
    tx.execute(SEEN_AGAIN, params![tenant.id(), source, message_id, now]).await?;
    Ok(false)
}

statements! {
    const ADMIT = "
        insert into punctual.inbox (
            tenant_id, source, message_id, status, token, attempts, max_attempts, lease_until,
            first_seen, last_seen, finished_at
        )
        values ($1, $2, $3, 'processed', $4, 1, 1, $5, $5, $5, $5)
        on conflict (tenant_id, source, message_id) do nothing
    ";

    const SEEN_AGAIN = "
        update punctual.inbox
        set last_seen = $4
        where tenant_id = $1 and source = $2 and message_id = $3
    ";
}

/// Returns the answer to a delivery that does not process the message. To process the message, or to let it
/// die, takes the row; without the row another receiver has it.
const fn to_begin_outcome(verdict: InboxDecision, attempts: u32) -> InboxBeginOutcome {
    match verdict {
        InboxDecision::AlreadyProcessed => InboxBeginOutcome::AlreadyProcessed { attempts },
        InboxDecision::Process | InboxDecision::Dies | InboxDecision::InProgress => {
            InboxBeginOutcome::InProgress { attempts }
        }
        InboxDecision::Conflict => InboxBeginOutcome::Conflict { attempts },
        InboxDecision::Dead => InboxBeginOutcome::Dead { attempts },
    }
}

impl InboxTicket {
    fn of(delivery: &InboxDelivery, token: &Token) -> Self {
        let (source, message_id) = (delivery.source.clone(), delivery.message_id.clone());
        Self { source, message_id, token: token.clone() }
    }
}

fn known(row: &Row) -> Result<StoredInboxMessage> {
    Ok(StoredInboxMessage {
        status: status(row, 1)?,
        hash: row.maybe_text(2)?,
        attempts: row.count(3)?,
        lease_until: row.time(4)?,
    })
}

fn status(row: &Row, n: usize) -> Result<InboxStatus> {
    let word = row.text(n)?;
    InboxStatus::parse(&word)
        .ok_or_else(|| Error::Database(format!("`{word}` is no status of the inbox").into()))
}

async fn mark_as(
    tx: &mut Tx,
    tenant: Tenant,
    ticket: &InboxTicket,
    mark: &ProcessingOutcome,
) -> Result<SettleOutcome> {
    let now = tx.now().await?;
    let Some(row) = tx.first(HOLDER, params![tenant.id(), &ticket.source, &ticket.message_id]).await? else {
        return Ok(SettleOutcome::NotFound);
    };
    let before = status(&row, 1)?;
    let (after, error) = match mark {
        ProcessingOutcome::Processed => (InboxStatus::Processed, None),
        ProcessingOutcome::Failed { error } => {
            (after_failure(row.count(3)?, row.count(4)?), Some(kept_error(error)))
        }
        ProcessingOutcome::Dead { error } => (InboxStatus::Dead, Some(kept_error(error))),
    };
    if row.text(2)? != ticket.token.text() {
        return Ok(SettleOutcome::LostClaim);
    }
    if before != InboxStatus::Processing {
        return Ok(if before == after { SettleOutcome::AlreadyFinished } else { SettleOutcome::LostClaim });
    }
    tx.execute(FINISH, params![row.int(0)?, after.word(), now, error.as_deref()]).await?;
    Ok(SettleOutcome::Done)
}

statements! {
    const SEEN = "
        update punctual.inbox
        set last_seen = $2
        where id = $1
    ";

    const INSERT = "
        insert into punctual.inbox (
            tenant_id, source, message_id, hash, status, token, attempts, max_attempts, lease_until,
            first_seen, last_seen
        )
        values ($1, $2, $3, $4, 'processing', $5, 1, $6, $7, $8, $8)
        on conflict (tenant_id, source, message_id) do nothing
    ";

    const LOCK = "
        select id, status, hash, attempts, lease_until
        from punctual.inbox
        where tenant_id = $1 and source = $2 and message_id = $3
        for update skip locked
    ";

    const PEEK = "
        select id, status, hash, attempts, lease_until
        from punctual.inbox
        where tenant_id = $1 and source = $2 and message_id = $3
    ";

    const TAKE = "
        update punctual.inbox
        set status = 'processing', token = $2, attempts = attempts + 1, max_attempts = $3,
            lease_until = $4, last_seen = $5, finished_at = null, hash = coalesce(hash, $6)
        where id = $1
    ";

    const HOLDER = "
        select id, status, token, attempts, max_attempts
        from punctual.inbox
        where tenant_id = $1 and source = $2 and message_id = $3
        for update
    ";

    const FINISH = "
        update punctual.inbox
        set status = $2, finished_at = $3, error = $4
        where id = $1
    ";

    const COUNTS = "
        select (select count(*) from punctual.inbox where status = 'processing'),
            (select count(*) from punctual.inbox where status = 'processing' and lease_until < $1),
            (select count(*) from punctual.inbox where status = 'dead')
    ";
}
