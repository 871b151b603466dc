//! How much the messages of a claim weigh: those beyond the bound go back before they are read.
//!
//! Databases know the length of a stored text without reading it, so a claim that finds a thousand large
//! messages has only those in memory that it returns.

use super::TakenWork;
use crate::base::error::Result;
use crate::base::id::MessageId;
use crate::base::limits::CONTENT_BYTES_MAX;
use crate::database::statement::statements;
use crate::database::tx::Tx;
use crate::database::value::Value;
use crate::queue::rules::share::LaneQuota;
use crate::queue::store::sequences::WORK_AGAIN;
use std::collections::HashMap;

/// Whether so many items can weigh more at all.
pub(super) fn may_exceed(takes: &[LaneQuota], bytes_max: usize) -> bool {
    let items: usize = takes.iter().map(|t| t.quota).sum();
    items.saturating_mul(CONTENT_BYTES_MAX) > bytes_max
}

/// Keeps the first items that weigh no more together, at least one, and puts the others back as they were.
/// Returns what is kept and whether others were put back.
pub(super) async fn give_back_beyond(
    tx: &mut Tx,
    mut taken: Vec<TakenWork>,
    bytes_max: usize,
) -> Result<(Vec<TakenWork>, bool)> {
    if taken.is_empty() {
        return Ok((taken, false));
    }
    let ids: Vec<i64> = taken.iter().map(|t| t.item.message().0).collect();
    let mut bytes: HashMap<MessageId, usize> = HashMap::with_capacity(ids.len());
    for row in tx.query(BYTES, &[Value::Ints(&ids)]).await? {
        bytes.insert(MessageId(row.int(0)?), usize::try_from(row.int(1)?).unwrap_or(usize::MAX));
    }
    let of = |t: &TakenWork| bytes.get(&t.item.message()).copied().unwrap_or_default();
    let beyond = taken.split_off(count_within(taken.iter().map(of), bytes_max));
    tx.each(WORK_AGAIN, &beyond.iter().map(waiting).collect::<Vec<_>>()).await?;
    Ok((taken, !beyond.is_empty()))
}

/// How many items weigh no more together; one at least.
fn count_within(bytes: impl Iterator<Item = usize>, bytes_max: usize) -> usize {
    let sums = bytes.scan(0_usize, |sum, more| {
        *sum = sum.saturating_add(more);
        Some(*sum)
    });
    sums.take_while(|sum| *sum <= bytes_max).count().max(1)
}

/// The work row that an item was: this claim is no attempt.
fn waiting(t: &TakenWork) -> Vec<Value<'_>> {
    vec![
        t.item.message().0.into(),
        t.item.lane().0.into(),
        t.due_at.into(),
        (i64::from(t.item.attempt()) - 1).into(),
        i64::from(t.item.unstarted()).into(),
        t.item.key().into(),
    ]
}

statements! {
    const BYTES = "
        select m.id, cast(octet_length(m.payload) + coalesce(octet_length(m.headers), 0) as bigint)
        from punctual.message m
        where m.id = any($1::bigint[])
    ";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_kept_while_they_fit_and_one_always() {
        let table: [(&[usize], usize); 6] = [
            (&[4, 4, 2], 3),
            (&[4, 4, 3], 2),
            (&[11, 1], 1),
            (&[10, 1], 1),
            (&[6, 6, 0], 1),
            (&[0, 10, 0], 3),
        ];
        for (bytes, count) in table {
            assert_eq!(count_within(bytes.iter().copied(), 10), count, "{bytes:?}");
        }
        assert_eq!(count_within([usize::MAX, usize::MAX].into_iter(), 10), 1);
    }
}
