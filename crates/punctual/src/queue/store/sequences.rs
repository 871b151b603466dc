//! Sequences: messages of one key are handled in order, one at a time.
//!
//! Keyed messages wait like all others. When one is claimed it takes the head of its
//! sequence, or, if another holds it, is set aside as a follower. When the head is
//! settled for good, the next follower goes back to the waiting work and becomes head.
//! So an enqueue takes no lock at all, and only heads are ever handed out.
//!
//! Both sides lock the sequence's row before they look at its followers, in key order: a follower is never
//! left behind without a head. A message that is about to become head then looks for an earlier message of
//! its key that still waits (another claimer may be taking it at this moment, or a hint may have hidden it)
//! and lets that one be head instead.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::{LaneId, MessageId};
use crate::database::statement::statements;
use crate::database::tx::Tx;
use crate::database::value::Value;
use crate::queue::rules::claim::ClaimItem;

/// Of rows taken from the work table, keeps those without a key and the heads of their
/// sequences; the others become followers.
pub(crate) async fn keep_heads<T>(
    tx: &mut Tx,
    rows: Vec<T>,
    item: fn(&T) -> &ClaimItem,
    due_at: fn(&T) -> Timestamp,
) -> Result<Vec<T>> {
    if rows.iter().all(|row| item(row).key().is_none()) {
        return Ok(rows);
    }
    let mut keyed: Vec<usize> = (0..rows.len()).filter(|n| item(&rows[*n]).key().is_some()).collect();
    keyed.sort_by(|a, b| {
        let place = |n: &usize| (item(&rows[*n]).lane(), item(&rows[*n]).key(), due_at(&rows[*n]), *n);
        place(a).cmp(&place(b))
    });
    let takers: Vec<Vec<Value<'_>>> = keyed
        .iter()
        .map(|n| item(&rows[*n]))
        .map(|i| vec![i.lane().0.into(), i.key().into(), i.message().0.into()])
        .collect();
    let heads = tx.each(TAKE_HEAD, &takers).await?;
    let mut waits = vec![false; rows.len()];
    let (mut followers, mut new_heads) = (Vec::new(), Vec::new());
    for (n, head) in keyed.iter().zip(&heads) {
        let i = item(&rows[*n]);
        if head.first().map(|row| row.int(0)).transpose()? != Some(i.message().0) {
            waits[*n] = true;
            followers.push(follower(i, due_at(&rows[*n])));
        } else if i.attempt() == 1 {
            // A head that was tried before is head for good.
            new_heads.push(*n);
        }
    }
    for n in give_way(tx, &new_heads, |n| (item(&rows[n]), due_at(&rows[n]))).await? {
        waits[n] = true;
        followers.push(follower(item(&rows[n]), due_at(&rows[n])));
    }
    tx.each(ADD_FOLLOWER, &followers).await?;
    drop(takers);
    drop(followers);
    Ok(rows.into_iter().zip(waits).filter(|(_, waits)| !waits).map(|(row, _)| row).collect())
}

/// Lets earlier messages that still wait be heads; answers whose place they took.
async fn give_way<'r>(
    tx: &mut Tx,
    heads: &[usize],
    row: impl Fn(usize) -> (&'r ClaimItem, Timestamp),
) -> Result<Vec<usize>> {
    let places: Vec<Vec<Value<'_>>> = heads
        .iter()
        .map(|n| row(*n))
        .map(|(i, due)| vec![i.lane().0.into(), i.key().into(), due.into(), i.message().0.into()])
        .collect();
    let earlier = tx.each(EARLIER, &places).await?;
    let (mut gave_way, mut instead) = (Vec::new(), Vec::new());
    for (n, found) in heads.iter().zip(&earlier) {
        let Some(first) = found.first() else { continue };
        let (i, _) = row(*n);
        instead.push(vec![i.lane().0.into(), i.key().into(), first.int(0)?.into()]);
        gave_way.push(*n);
    }
    tx.each(SET_HEAD, &instead).await?;
    Ok(gave_way)
}

statements! {
    /// The first message of a key that waits before a given place.
    const EARLIER = "
        select message_id
        from punctual.work
        where lane_id = $1 and key = $2 and (due_at, message_id) < ($3, $4)
        order by due_at, message_id
        limit 1
    ";
}

/// A follower was not handed out, so this claim does not count as an attempt.
fn follower(i: &ClaimItem, due_at: Timestamp) -> Vec<Value<'_>> {
    let attempts = i64::from(i.attempt()) - 1;
    vec![
        i.lane().0.into(),
        i.key().into(),
        due_at.into(),
        i.message().0.into(),
        attempts.into(),
        i64::from(i.unstarted()).into(),
    ]
}

statements! {
    /// Takes the head if it is free, locks the row in any case, and returns the head.
    const TAKE_HEAD = "
        insert into punctual.sequence as s (lane_id, key, head)
        values ($1, $2, $3)
        on conflict (lane_id, key)
        do update set head = s.head
        returning head
    ";

    const ADD_FOLLOWER = "
        insert into punctual.follower (lane_id, key, due_at, message_id, attempts, unstarted)
        values ($1, $2, $3, $4, $5, $6)
        on conflict do nothing
    ";
}

/// Messages that were taken out of the waiting work, and not claimed, leave their sequences. A claimer may be
/// making one of them head at this moment, in a sequence that no other transaction sees yet: taking the head
/// waits for it, where only looking would miss it and leave a head that never comes.
pub(crate) async fn leave(tx: &mut Tx, gone: &[(LaneId, &str, MessageId)]) -> Result<()> {
    let mut gone = gone.to_vec();
    gone.sort_unstable();
    let takers: Vec<Vec<Value<'_>>> =
        gone.iter().map(|(lane, key, id)| vec![lane.0.into(), (*key).into(), id.0.into()]).collect();
    tx.each(TAKE_HEAD, &takers).await?;
    release(tx, &gone).await
}

/// These messages are out of their sequences' way: the next of each key may be claimed.
/// A message that is not its sequence's head changes nothing.
pub(crate) async fn release(tx: &mut Tx, done: &[(LaneId, &str, MessageId)]) -> Result<()> {
    let mut done = done.to_vec();
    done.sort_unstable();
    let heads = tx.each(LOCK_HEAD, &place_values(&done)).await?;
    let mut free = Vec::new();
    for (place, head) in done.iter().zip(&heads) {
        if head.first().map(|row| row.int(0)).transpose()? == Some(place.2.0) {
            free.push(*place);
        }
    }
    let next = tx.each(NEXT_FOLLOWER, &place_values(&free)).await?;
    let mut ended = Vec::new();
    let mut followers = Vec::new();
    for ((lane, key, _), next) in free.iter().zip(&next) {
        let (lane, key) = (Value::from(lane.0), Value::from(*key));
        match next.first() {
            None => ended.push(vec![lane, key]),
            Some(row) => followers.push((vec![lane, key, row.int(0)?.into(), row.int(1)?.into()], row)),
        }
    }
    let places: Vec<Vec<Value<'_>>> = followers.iter().map(|(place, _)| place.clone()).collect();
    let earlier = tx.each(EARLIER, &places).await?;
    let (mut gone, mut heads, mut again) = (Vec::new(), Vec::new(), Vec::new());
    for ((place, row), earlier) in followers.iter().zip(&earlier) {
        let (lane, key, due, message) = (place[0], place[1], place[2], place[3]);
        if let Some(first) = earlier.first() {
            heads.push(vec![lane, key, first.int(0)?.into()]);
            continue;
        }
        gone.push(place.clone());
        heads.push(vec![lane, key, message]);
        again.push(vec![message, lane, due, row.int(2)?.into(), row.int(3)?.into(), key]);
    }
    tx.each(END_SEQUENCE, &ended).await?;
    tx.each(DELETE_FOLLOWER, &gone).await?;
    tx.each(SET_HEAD, &heads).await?;
    tx.each(WORK_AGAIN, &again).await?;
    Ok(())
}

/// Locks sequences in the one order that every transaction keeps.
pub(crate) async fn lock_heads(tx: &mut Tx, of: impl Iterator<Item = (i64, &str)>) -> Result<()> {
    let mut places: Vec<(i64, &str)> = of.collect();
    places.sort_unstable();
    places.dedup();
    let rows: Vec<Vec<Value<'_>>> =
        places.iter().map(|(lane, key)| vec![(*lane).into(), (*key).into()]).collect();
    tx.each(LOCK_HEAD, &rows).await?;
    Ok(())
}

fn place_values<'a>(of: &[(LaneId, &'a str, MessageId)]) -> Vec<Vec<Value<'a>>> {
    of.iter().map(|(lane, key, _)| vec![lane.0.into(), (*key).into()]).collect()
}

statements! {
    const LOCK_HEAD = "
        select head
        from punctual.sequence
        where lane_id = $1 and key = $2
        for update
    ";

    const END_SEQUENCE = "
        delete from punctual.sequence
        where lane_id = $1 and key = $2
    ";

    const NEXT_FOLLOWER = "
        select due_at, message_id, attempts, unstarted
        from punctual.follower
        where lane_id = $1 and key = $2
        order by due_at, message_id
        limit 1
    ";

    pub(crate) const DELETE_FOLLOWER = "
        delete from punctual.follower
        where lane_id = $1 and key = $2 and due_at = $3 and message_id = $4
        returning message_id
    ";

    const SET_HEAD = "
        update punctual.sequence
        set head = $3
        where lane_id = $1 and key = $2
    ";

    /// Puts an item back among what waits.
    pub(crate) const WORK_AGAIN = "
        insert into punctual.work (message_id, lane_id, due_at, attempts, unstarted, key)
        values ($1, $2, $3, $4, $5, $6)
    ";
}
