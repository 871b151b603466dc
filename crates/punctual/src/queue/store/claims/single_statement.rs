//! A claim in one statement, on Postgres, for plain items: no key, never in a crash.
//!
//! The rows are locked where they stand, deleted by their address, written into the claim
//! row and answered with their messages. If one of them is not plain, the statement writes
//! nothing and says so; the claim is then made step by step (see [`super`]), because only
//! there keys are sorted out and suspects get tokens of their own. So it is when the messages weigh more
//! than the claim may.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::{LaneId, MessageId, Token};
use crate::base::limits;
use crate::database::dialect::Dialect;
use crate::database::planted_bugs::PlantedBug;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::Tx;
use crate::database::value::{Row, Value};
use crate::queue::rules::claim::ClaimItem;
use crate::queue::store::claims::{ClaimRequest, ClaimedBatch, KeyedLanes, TakenWork, join};
use crate::queue::store::messages::{message_columns, read_message};
use std::collections::HashSet;
use std::time::Duration;

/// Columns before those of a message.
const OWN_COLUMNS: usize = 6;

struct Request {
    wish: ClaimRequest,
    token: Token,
    bytes_max: Option<usize>,
}

impl Store {
    /// Whether all of it fits into one claim row, no lane is named twice (its rows would be
    /// picked twice), and no keys are expected.
    pub(crate) fn may_claim_at_once(&self, wish: &ClaimRequest) -> bool {
        let items: usize = wish.takes.iter().map(|t| t.quota).sum();
        let lanes: HashSet<LaneId> = wish.takes.iter().map(|t| t.lane).collect();
        self.dialect() == Dialect::Postgres
            && items <= limits::CLAIM_ITEMS_MAX
            && lanes.len() == wish.takes.len()
            && !self.has(PlantedBug::TimerFiredBeforeCommit)
            && !self.part::<KeyedLanes>().has_any(&wish.takes)
    }

    /// The catch; nothing if the claim must be made step by step.
    pub(crate) async fn claim_at_once(
        &self,
        wish: &ClaimRequest,
        bytes_max: Option<usize>,
    ) -> Result<Option<ClaimedBatch>> {
        let token = Token::fresh();
        let request = Request { wish: wish.clone(), token: token.clone(), bytes_max };
        let rows = self.write_alone(request, |tx, request| Box::pin(take_and_hold(tx, request))).await?;
        decode(rows, token, wish.lease)
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
        request.bytes_max.map(|most| i64::try_from(most).unwrap_or(i64::MAX)).into(),
    ];
    tx.query(TAKE_AND_HOLD, &values).await
}

fn decode(rows: Vec<Row>, token: Token, lease: Duration) -> Result<Option<ClaimedBatch>> {
    let mut taken = None;
    let mut messages = Vec::with_capacity(rows.len());
    let mut catch = ClaimedBatch::default();
    for mut row in rows {
        match row.maybe_int(0)? {
            None => messages.push(read_message(&mut row, OWN_COLUMNS)?),
            Some(0) => return Ok(None),
            Some(_) => {
                catch.now = Some(row.time(1)?);
                taken = Some(read_all_taken(&row)?);
            }
        }
    }
    let taken = taken.unwrap_or_default();
    catch.count(&taken);
    catch.lease_until = catch.now.map(|now| now.plus(lease));
    catch.items = join(vec![(token, taken)], messages);
    Ok(Some(catch))
}

/// The head of the answer: a list for each column of the work rows. Those of lanes and
/// attempts are left out when all are of the first lane and none was claimed before.
fn read_all_taken(row: &Row) -> Result<Vec<TakenWork>> {
    let (ids, due) = (row.ints(2)?, row.ints(3)?);
    let lane = row.int(4)?;
    let rest = row.maybe_ints(5)?.unwrap_or_default();
    let taken = |(n, (id, due)): (usize, (i64, i64))| {
        let (lane, attempts) = rest.get(2 * n).zip(rest.get(2 * n + 1)).map_or((lane, 0), |(l, a)| (*l, *a));
        let attempt = u32::try_from(attempts).unwrap_or(0) + 1;
        let item = ClaimItem(MessageId(id), LaneId(lane), attempt, 0, None);
        TakenWork { item, due_at: Timestamp::from_micros(due) }
    };
    Ok(ids.into_iter().zip(due).enumerate().map(taken).collect())
}

statements! {
    /// One row about the claim, then its messages. A run of messages is read as a range of the
    /// index, anything else by id. Items of one lane that were never claimed before, by far the
    /// most common claim, are written down the short way.
    const TAKE_AND_HOLD for Postgres = "
        with n as materialized (
            select punctual.now_us() as now
        ),
        picked as materialized (
            select w.*
            from unnest($1::int[], $2::bigint[], $3::bigint[]) t (lane_id, since, quota)
            join punctual.lane l on l.id = t.lane_id and l.paused = 0 and l.purpose = 'dispatch'
            cross join lateral (
                select x.ctid as place, x.message_id, x.lane_id, x.due_at, x.attempts, x.unstarted,
                    x.key
                from punctual.work x
                where x.lane_id = t.lane_id and x.due_at >= t.since and x.due_at <= (select now from n)
                order by x.due_at, x.message_id
                limit t.quota
                for update skip locked
            ) w
        ),
        seen as materialized (
            select
                bool_and(
                    key is null and unstarted = 0 and attempts = 0 and lane_id = ($1::int[])[1]
                ) as alike,
                min(message_id) as first_id, max(message_id) as last_id, count(*) as size
            from picked
        ),
        told as materialized (
            select s.*, s.last_id - s.first_id + 1 = s.size as dense,
                (s.alike or (select bool_and(key is null and unstarted = 0) from picked))
                    and (
                        $7::bigint is null
                            or $7::bigint >= (
                                select
                                    sum(octet_length(b.payload) + coalesce(octet_length(b.headers), 0))
                                from punctual.message b
                                where b.id = any(array(select message_id from picked))
                            )
                    ) as plain
            from seen s
            where s.size > 0
        ),
        gone as (
            delete from punctual.work
            where ctid = any(array(select place from picked)) and (select plain from told)
        ),
        held as (
            insert into punctual.claim (
                token, owner, claimed_at, lease_until, started, items, first_id, last_id
            )
            select $4::text, $5::text, n.now, n.now + $6::bigint, (size = 1)::int,
                case
                    when alike
                        and dense
                        and size > 2 then '[[' || (
                            $1::int[]
                        )[1] || ',1,0,[[' || first_id || ',' || last_id || ']]]]'
                    when alike then '[[' || ($1::int[])[1] || ',1,0,[' || array_to_string(
                        array(select message_id from picked), ','
                    ) || ']]]'
                    else (
                        select
                            '[' || string_agg(
                                '[' || g.lane_id || ',' || g.attempts + 1 || ',0,[' || g.ids || ']]',
                                ','
                            ) || ']'
                        from (
                            select lane_id, attempts, string_agg(message_id::text, ',') as ids
                            from picked
                            group by lane_id, attempts
                        ) g
                    )
                end,
                first_id, last_id
            from n, told
            where plain
        )
        select told.plain::int, n.now, array(select message_id from picked),
            array(select due_at from picked), ($1::int[])[1],
            case
                when not alike then array(
                    select e
                    from picked, unnest(array[lane_id::bigint, attempts::bigint]) e
                )
            end,
            null::bigint, null::int, null, null, null, null, null, null, null, null, null::bigint,
            null::bigint, null::bigint
        from n, told
        union all
        select null, null, null, null, null, null, ", message_columns!(), "
        from punctual.message m
        where (select plain and dense from told)
            and m.id between (select first_id from told) and (select last_id from told)
        union all
        select null, null, null, null, null, null, ", message_columns!(), "
        from punctual.message m
        where (select plain and not dense from told)
            and m.id = any(array(select message_id from picked))
    ";
}
