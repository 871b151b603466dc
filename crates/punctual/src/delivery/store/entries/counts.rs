//! The counts of an entry's sends. An entry whose kind ends with its deliveries gets its status from them:
//! one with nothing left to wait for has ended.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::EntryId;
use crate::database::columns::Column;
use crate::database::statement::statements;
use crate::database::tx::Tx;
use crate::database::value::{Value, params};
use crate::flow::rules::entry::{EntryKind, entry_status};
use std::collections::BTreeMap;

/// The change of an entry's counts, and the reason of its end.
#[derive(Default)]
pub(crate) struct CountChange {
    pub open: i64,
    pub sent: i64,
    pub failed: i64,
    pub reason: Option<String>,
    pub error: Option<String>,
}

/// Changes the counts of entries, and ends those that are through.
pub(crate) async fn change_counts(
    tx: &mut Tx,
    changes: &BTreeMap<EntryId, CountChange>,
    now: Timestamp,
) -> Result<()> {
    let all: Vec<(&EntryId, &CountChange)> = changes.iter().collect();
    let ints = |pick: &dyn Fn(&CountChange) -> i64| Column::Ints(all.iter().map(|(_, c)| pick(c)).collect());
    let columns = [
        Column::Ints(all.iter().map(|(entry, _)| entry.0).collect()),
        ints(&|change| change.open),
        ints(&|change| change.sent),
        ints(&|change| change.failed),
        Column::Texts(all.iter().map(|(_, change)| change.reason.as_deref()).collect()),
        Column::Texts(all.iter().map(|(_, change)| change.error.as_deref()).collect()),
    ];
    let ending = EntryKind::ALL.into_iter().filter(|kind| kind.ends_with_deliveries());
    let ending: Vec<Option<&str>> = ending.map(|kind| Some(kind.word())).collect();
    tx.in_columns((COUNT_AT_ONCE, COUNT), &[now.into(), Value::Texts(&ending)], &columns).await?;
    Ok(())
}

/// Whether the status of an entry does not follow from its deliveries.
macro_rules! is_fixed {
    () => {
        concat! {"
            n.status = ", entry_status!(Cancelled), " or not (n.kind = any($2::text[]))
        "}
    };
}
macro_rules! keeps_hold {
    ($column:literal, $open:literal) => {
        concat! {"
            , ", $column, " = case when ", is_fixed!(), " or n.open + ", $open, " > 0 then n.", $column, " end
        "}
    };
}
/// A cancelled entry stays cancelled, since the time at which it was. An entry that has ended is not on hold
/// any more, and a receipt that comes later does not move its end.
macro_rules! counted {
    ($open:literal, $sent:literal, $failed:literal, $reason:literal, $error:literal) => {
        concat! {"
            set open = n.open + ", $open, ", sent = n.sent + ", $sent, ", failed = n.failed + ", $failed, ",
                status = case
                    when ", is_fixed!(), " then n.status
                    when n.open + ", $open, " > 0 then ", entry_status!(Pending), "
                    when n.failed + ", $failed, " > 0 then ", entry_status!(Failed), "
                    when n.sent + ", $sent, " > 0 then ", entry_status!(Sent), "
                    else ", entry_status!(Cancelled), "
                end,
                reason = coalesce(", $reason, ", n.reason), error = coalesce(", $error, ", n.error),
                ended_at = case
                    when ", is_fixed!(), " then n.ended_at
                    when n.open + ", $open, " > 0 then null
                    else coalesce(n.ended_at, $1::bigint)
                end
                ", keeps_hold!("held_at", $open), "
                ", keeps_hold!("held_by", $open), "
                ", keeps_hold!("hold_reason", $open), ",
                version = n.version + 1
        "}
    };
}

statements! {
    const COUNT_AT_ONCE for Postgres = "
        update punctual.entry n
        ", counted!("x.open", "x.sent", "x.failed", "x.reason", "x.error"), "
        from (
            select unnest($3::bigint[]) id, unnest($4::int[]) open, unnest($5::int[]) sent,
                unnest($6::int[]) failed, unnest($7::text[]) reason, unnest($8::text[]) error
        ) x
        where n.id = x.id
    ";

    const COUNT = "
        update punctual.entry as n
        ", counted!("$4", "$5", "$6", "$7", "$8"), "
        where n.id = $3
    ";
}

/// Takes sends of entries out of the count that were skipped.
pub(crate) async fn uncount(tx: &mut Tx, skipped: &BTreeMap<i64, i64>) -> Result<()> {
    let rows: Vec<Vec<Value<'_>>> = skipped.iter().map(|(id, n)| params![*id, *n].to_vec()).collect();
    tx.each(UNCOUNT, &rows).await?;
    Ok(())
}

statements! {
    const UNCOUNT = "
        update punctual.entry
        set open = open - $2, version = version + 1
        where id = $1
    ";
}
