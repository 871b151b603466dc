//! A claim in one statement, on Postgres, for plain items: no key, never in a crash.
//!
//! The rows are locked where they stand, deleted by their address, written into the claim
//! row and answered with their messages. If one of them is not plain, the statement writes
//! nothing and says so; the claim is then made step by step (see [`super`]), because only
//! there keys are sorted out and suspects get tokens of their own.

use super::{Catch, Claimed, Wish};
use crate::base::error::Result;
use crate::base::id::{LaneId, Token};
use crate::base::limits;
use crate::rules::claim::Item;
use crate::store::Store;
use crate::store::dialect::Dialect;
use crate::store::messages::{message_columns, read_message};
use crate::store::tx::Tx;
use crate::store::value::{Row, Value};
use std::time::Duration;

/// Columns before those of the message.
const OWN_COLUMNS: usize = 5;

struct Request {
    wish: Wish,
    token: Token,
}

impl Store {
    /// Whether all of it fits into one claim row, and no keys are expected.
    pub(super) fn may_claim_at_once(&self, wish: &Wish) -> bool {
        let items: usize = wish.takes.iter().map(|t| t.quota).sum();
        self.dialect() == Dialect::Postgres
            && items <= limits::CLAIM_ITEMS_MAX
            && !self.keyed_lanes.has_any(&wish.takes)
    }

    /// The catch; nothing if the claim must be made step by step.
    pub(super) async fn claim_at_once(&self, wish: &Wish) -> Result<Option<Catch>> {
        let token = Token::fresh();
        let request = Request { wish: wish.clone(), token: token.clone() };
        let rows = self.write_alone(request, |tx, request| Box::pin(take_and_hold(tx, request))).await?;
        decode(rows, &token, wish.lease)
    }
}

async fn take_and_hold(tx: &mut Tx, request: &Request) -> Result<Vec<Row>> {
    let wish = &request.wish;
    let lanes: Vec<i64> = wish.takes.iter().map(|t| t.lane.0).collect();
    let since: Vec<i64> = wish.takes.iter().map(|t| t.since.as_micros()).collect();
    let quota: Vec<i64> = wish.takes.iter().map(|t| i64::try_from(t.quota).unwrap_or(i64::MAX)).collect();
    let lease = i64::try_from(wish.lease.as_micros()).unwrap_or(i64::MAX);
    let values = [
        Value::Ints(&lanes),
        Value::Ints(&since),
        Value::Ints(&quota),
        request.token.text().into(),
        wish.owner.as_str().into(),
        lease.into(),
    ];
    tx.query(TAKE_AND_HOLD, &values).await
}

fn decode(rows: Vec<Row>, token: &Token, lease: Duration) -> Result<Option<Catch>> {
    let mut catch = Catch { items: Vec::with_capacity(rows.len()), ..Catch::default() };
    for mut row in rows {
        if !row.flag(0)? {
            return Ok(None);
        }
        catch.now = Some(row.time(1)?);
        let lane = LaneId(row.int(2)?);
        *catch.taken.entry(lane).or_default() += 1;
        // A message that is gone (dropped by hand) leaves its item to nobody.
        if row.maybe_int(OWN_COLUMNS)?.is_some() {
            let (due_at, attempts) = (row.time(3)?, row.count(4)?);
            let message = read_message(&mut row, OWN_COLUMNS)?;
            let item = Item(message.id, lane, attempts + 1, 0, None);
            catch.items.push(Claimed { token: token.clone(), item, due_at, message });
        }
    }
    catch.lease_until = catch.now.map(|now| now.plus(lease));
    catch.items.sort_by_key(|c| (c.due_at, c.item.message()));
    Ok(Some(catch))
}

/// `offset 0` keeps the look-up of a message a walk down its index for each item, whatever
/// the planner thinks of the table's size.
const TAKE_AND_HOLD: &str = concat!(
    "\
    with n as materialized (select punctual.now_us() as now), \
    picked as materialized ( \
        select w.* from unnest($1::int[], $2::bigint[], $3::bigint[]) t (lane_id, since, quota) \
        join punctual.lane l on l.id = t.lane_id and l.paused = 0 \
        cross join lateral ( \
            select x.ctid as place, x.message_id, x.lane_id, x.due_at, x.attempts, \
                x.key is null and x.unstarted = 0 as plain from punctual.work x \
            where x.lane_id = t.lane_id and x.due_at >= t.since and x.due_at <= (select now from n) \
            order by x.due_at, x.message_id limit t.quota for update skip locked) w), \
    told as materialized (select coalesce(bool_and(plain), false) as plain from picked), \
    gone as (delete from punctual.work \
        where ctid = any(array(select place from picked)) and (select plain from told)), \
    held as (insert into punctual.claim \
            (token, owner, claimed_at, lease_until, started, items, first_id, last_id) \
        select $4::text, $5::text, n.now, n.now + $6::bigint, (sum(g.size) = 1)::int, \
            '[' || string_agg('[' || g.lane_id || ',' || g.attempts + 1 || ',0,' || g.ids || ']', ',') || ']', \
            min(g.first_id), max(g.last_id) \
        from n, (select lane_id, attempts, count(*) as size, \
                '[' || array_to_string(array_agg(message_id), ',') || ']' as ids, \
                min(message_id) as first_id, max(message_id) as last_id \
            from picked group by lane_id, attempts) g \
        where (select plain from told) group by n.now) \
    select told.plain::int, n.now, p.lane_id, p.due_at, p.attempts, ",
    message_columns!(),
    " from n, told, picked p left join lateral (select ",
    message_columns!(),
    " from punctual.message m where m.id = p.message_id offset 0) m on true"
);
