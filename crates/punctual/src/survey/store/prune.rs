//! Answers leave with their entries, and are counted for the results.

use crate::base::error::Result;
use crate::database::statement::statements;
use crate::database::tx::Tx;
use crate::database::value::Value;

/// Drops the answers of entries that retention drops, and counts both for their flows.
pub(crate) async fn prune_answers(tx: &mut Tx, entries: &[i64]) -> Result<()> {
    for sql in [COUNT_REMOVED, DROP_RESPONSES, DROP_PROGRESS] {
        tx.execute(sql, &[Value::Ints(entries)]).await?;
    }
    Ok(())
}

statements! {
    const COUNT_REMOVED = "
        update punctual.flow as f
        set
            removed_entries = removed_entries + (
                select count(*)
                from punctual.entry e
                where e.flow_id = f.id and e.id = any($1::bigint[])
            ),
            removed_answers = removed_answers + (
                select count(*)
                from punctual.response r
                where r.flow_id = f.id and r.entry_id = any($1::bigint[])
            )
        where f.id in (select e.flow_id from punctual.entry e where e.id = any($1::bigint[]))
    ";

    const DROP_RESPONSES = "
        delete from punctual.response
        where entry_id = any($1::bigint[])
    ";

    const DROP_PROGRESS = "
        delete from punctual.progress
        where entry_id = any($1::bigint[])
    ";
}
