//! The settings and checks of a new connection: how long it may be silent, that it does not compile
//! statements (ours are short, and a page of the outbox took forty times as long with it), and whether it can
//! become the role of tenants' verbs (`database/row_security.rs`). All in one round trip.

use crate::base::rehearsal::hastened;
use crate::database::postgres::{CONNECT_PATIENCE, SILENCE_MAX};
use crate::database::statement::statements;
use deadpool_postgres::{ClientWrapper, HookError};
use std::sync::atomic::{AtomicBool, Ordering};
use tokio_postgres::SimpleQueryMessage;

/// Limits the silence of a new connection, and looks whether it can change to the role of tenants' verbs.
pub(crate) async fn prepare(client: &ClientWrapper, wall: &AtomicBool) -> Result<(), HookError> {
    let limit = hastened(SILENCE_MAX).as_millis();
    let words = format!("set idle_in_transaction_session_timeout = {limit}; set jit = off; {IS_READY}");
    let said = client.simple_query(&words);
    match tokio::time::timeout(hastened(CONNECT_PATIENCE), said).await {
        Ok(Ok(answers)) => wall.store(says_yes(&answers), Ordering::Relaxed),
        Ok(Err(error)) => return Err(HookError::Backend(error)),
        Err(_) => return Err(HookError::message("the server did not answer in time")),
    }
    Ok(())
}

/// Whether a row was given.
pub(crate) fn says_yes(answers: &[SimpleQueryMessage]) -> bool {
    answers.iter().any(|answer| matches!(answer, SimpleQueryMessage::Row(row) if row.get(0) == Some("1")))
}

statements! {
    /// Gives a row when the caller can become the role and the role can use the tables.
    pub(crate) const IS_READY for Postgres = "
        select 1
        where pg_has_role(to_regrole('punctual_tenant'), 'member')
            and has_table_privilege(
                to_regrole('punctual_tenant'), to_regclass('punctual.tenant'), 'insert'
            )
    ";
}
