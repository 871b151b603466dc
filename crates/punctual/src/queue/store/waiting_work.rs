//! Work rows, and conditions on a message `m` that waits: SQL that the stores of several domains share.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::database::columns::Column;
use crate::database::statement::statements;
use crate::database::tx::Tx;
use crate::database::value::params;

/// The beginning of a statement that adds work: ids, lanes and due times follow.
macro_rules! add_work {
    () => {
        "
        insert into punctual.work (message_id, lane_id, due_at)
        "
    };
}
pub(crate) use add_work;

statements! {
    /// Adds one row of work.
    pub(crate) const ADD_WORK_ROW = add_work!(), "
        values ($1, $2, $3)
    ";
}

/// Lets an item wait in a lane until it is due.
pub(crate) async fn let_wait(tx: &mut Tx, id: i64, lane: i64, due: Timestamp) -> Result<()> {
    tx.execute(ADD_WORK_ROW, params![id, lane, due]).await?;
    Ok(())
}

/// Takes an item that waits out of its lane.
pub(crate) async fn take_out(tx: &mut Tx, id: i64, lane: i64, due: Timestamp) -> Result<()> {
    tx.execute(TAKE_OUT, params![lane, due, id]).await?;
    Ok(())
}

/// Takes items that wait out of their lanes: ids, lanes and due times.
pub(crate) async fn take_out_all(tx: &mut Tx, items: &[(i64, i64, Timestamp)]) -> Result<()> {
    let columns = [
        Column::Ints(items.iter().map(|(_, lane, _)| *lane).collect()),
        Column::Ints(items.iter().map(|(.., due)| due.as_micros()).collect()),
        Column::Ints(items.iter().map(|(id, ..)| *id).collect()),
    ];
    tx.in_columns((TAKE_OUT_AT_ONCE, TAKE_OUT), &[], &columns).await?;
    Ok(())
}

statements! {
    const TAKE_OUT_AT_ONCE for Postgres = "
        delete from punctual.work w
        using (select unnest($1::int[]) lane_id, unnest($2::bigint[]) due_at, unnest($3::bigint[]) id) x
        where w.lane_id = x.lane_id and w.due_at = x.due_at and w.message_id = x.id
    ";

    const TAKE_OUT = "
        delete from punctual.work
        where lane_id = $1 and due_at = $2 and message_id = $3
    ";
}

/// Whether work of a message `m` waits in a lane `l` of its topic that `$also` holds for, or it stands
/// behind its key there.
macro_rules! waits_in_a_lane {
    ($also:literal) => {
        concat! {"
            (
                exists (
                    select 1
                    from punctual.lane l
                    join punctual.work w on w.lane_id = l.id
                        and w.message_id = m.id
                        and w.due_at = coalesce(
                            (
                                select a.next_due
                                from punctual.attempt a
                                where a.message_id = m.id and a.lane_id = l.id
                                order by a.id desc
                                limit 1
                            ),
                            ", $crate::queue::store::timers::own_due!(), "
                        )
                    where l.tenant_id = m.tenant_id
                        and l.topic = m.topic
                        and l.purpose = 'dispatch'
                        and ", $also, "
                )
                    or (
                        m.key is not null
                            and exists (
                                select 1
                                from punctual.lane l
                                join punctual.follower f on f.lane_id = l.id
                                    and f.key = m.key
                                    and f.message_id = m.id
                                where l.tenant_id = m.tenant_id
                                    and l.topic = m.topic
                                    and l.purpose = 'dispatch'
                                    and ", $also, "
                            )
                    )
            )
        "}
    };
}
pub(crate) use waits_in_a_lane;

/// Whether work of a message `m` waits anywhere, or it stands behind its key.
macro_rules! something_waits {
    () => {
        concat! {"
            (
                exists (
                    select 1
                    from punctual.work w
                    where w.lane_id = 0
                        and w.message_id = m.id
                        and w.due_at = ", $crate::queue::store::timers::own_due!(), "
                )
                    or ", $crate::queue::store::waiting_work::waits_in_a_lane!("1 = 1"), "
            )
        "}
    };
}
pub(crate) use something_waits;
