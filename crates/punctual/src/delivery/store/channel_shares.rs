//! Shares of channels' limits: one row for each process that uses a channel with limits.
//!
//! A row says what is reserved for its process, which is what the process may use, or what it used a moment
//! ago. The row without a holder is the lock of its channel. Rows belong to no tenant, as channels do not.

use crate::base::error::Result;
use crate::database::planted_bugs::PlantedBug;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::{Tx, VerbFuture};
use crate::database::value::{Row, params};
use crate::delivery::rules::channel_share::{
    SHARE_LEASE, SHARE_SETTLED_AFTER, ShareAmounts, ShareMembers, grant,
};

/// A process that asks for its share of a channel.
#[derive(Clone, Debug)]
pub struct ShareRequest {
    /// The channel.
    pub channel: String,
    /// The process.
    pub holder: String,
    /// The limits of the channel; zero where it has none.
    pub limit: ShareAmounts,
    /// What the process has used no more than for [`SHARE_SETTLED_AFTER`]; none while that is not so.
    pub settled: Option<ShareAmounts>,
    /// Its sends in flight now, which may be more than its share.
    pub in_flight: u32,
}

impl Store {
    /// Leases a share of a channel's limits for [`SHARE_LEASE`], or renews it; `None` while another process
    /// does.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn lease_share(&self, request: ShareRequest) -> VerbFuture<'_, Option<ShareAmounts>> {
        self.write(request, |tx, request| Box::pin(lease(tx, request)))
    }

    /// Gives all shares of a process back.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn release_shares(&self, holder: String) -> VerbFuture<'_, ()> {
        self.write(holder, |tx, holder| {
            Box::pin(async move {
                let now = tx.now().await?;
                tx.execute(RELEASE, params![holder.as_str(), now]).await.map(|_| ())
            })
        })
    }
}

statements! {
    const RELEASE = "
        update punctual.channel_share
        set lease_until = $2
        where holder = $1 and lease_until > $2
    ";
}

/// The largest amount that its column holds.
const AMOUNT_MAX: u32 = i32::MAX.cast_unsigned();

/// What is reserved for a process.
struct ReservedShare {
    holder: String,
    amounts: ShareAmounts,
    is_leased: bool,
}

fn read(row: &Row) -> Result<ReservedShare> {
    let amounts = ShareAmounts { per_second: row.count(1)?, in_flight: row.count(2)? };
    Ok(ReservedShare { holder: row.text(0)?, amounts, is_leased: row.flag(3)? })
}

async fn lease(tx: &mut Tx, request: &ShareRequest) -> Result<Option<ShareAmounts>> {
    if tx.has(PlantedBug::LimitOfEachProcess) {
        return Ok(Some(request.limit));
    }
    let channel = request.channel.as_str();
    tx.execute(ADD_LOCK, params![channel]).await?;
    if tx.query(LOCK, params![channel]).await?.is_empty() {
        return Ok(None);
    }
    let now = tx.now().await?;
    tx.execute(DROP_OVER, params![channel, now.minus(SHARE_SETTLED_AFTER)]).await?;
    let rows = tx.query(RESERVED, params![channel, now]).await?;
    let rows = rows.iter().map(read).collect::<Result<Vec<_>>>()?;
    let (mine, others): (Vec<ReservedShare>, Vec<ReservedShare>) =
        rows.into_iter().partition(|row| row.holder == request.holder);
    let granted = grant(request.limit, members(&others, &request.holder), sum(&others));
    let mine = sum(&mine);
    let reserved =
        request.settled.map_or(mine, |settled| settled.with(mine, u32::min)).with(granted, u32::max);
    let in_flight = i64::from(reserved.in_flight.max(request.in_flight).min(AMOUNT_MAX));
    let per_second = i64::from(reserved.per_second.min(AMOUNT_MAX));
    tx.execute(PUT, params![channel, request.holder.as_str(), per_second, in_flight, now.plus(SHARE_LEASE)])
        .await?;
    Ok(Some(granted))
}

fn members(others: &[ReservedShare], holder: &str) -> ShareMembers {
    let here = || others.iter().filter(|other| other.is_leased);
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let before = here().filter(|other| other.holder.as_str() < holder).count();
    ShareMembers { count: count(here().count()).saturating_add(1), before: count(before) }
}

fn sum(rows: &[ReservedShare]) -> ShareAmounts {
    rows.iter().fold(ShareAmounts::default(), |sum, row| sum.with(row.amounts, u32::saturating_add))
}

macro_rules! add {
    () => {
        "
        insert into punctual.channel_share (channel, holder, per_second, in_flight, lease_until)
        "
    };
}

statements! {
    const ADD_LOCK = add!(), "
        values ($1, '', 0, 0, 0)
        on conflict do nothing
    ";

    const LOCK = "
        select 1
        from punctual.channel_share
        where channel = $1 and holder = ''
        for update skip locked
    ";

    const DROP_OVER = "
        delete from punctual.channel_share
        where channel = $1 and holder <> '' and lease_until < $2
    ";

    const RESERVED = "
        select holder, per_second, in_flight, case when lease_until > $2 then 1 else 0 end
        from punctual.channel_share
        where channel = $1 and holder <> ''
    ";

    const PUT = add!(), "
        values ($1, $2, $3, $4, $5)
        on conflict (channel, holder)
        do update set per_second = excluded.per_second, in_flight = excluded.in_flight,
            lease_until = excluded.lease_until
    ";
}
