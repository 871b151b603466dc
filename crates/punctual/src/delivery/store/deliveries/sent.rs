//! Deliveries that a provider took: by far the most common outcome, so they have statements of their own,
//! which carry only the columns that such a delivery changes. They say the same as the general ones
//! (`settle.rs`).

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::database::columns::Column;
use crate::database::dialect::Dialect;
use crate::database::statement::statements;
use crate::database::tx::Tx;
use crate::database::value::params;
use crate::delivery::rules::delivery::delivery_status;
use crate::delivery::store::deliveries::delivery::{DeliveryOutcome, SettledDelivery};
use crate::delivery::store::deliveries::settle;
use std::collections::HashSet;

/// The first of the columns are those of a try.
const TRY_COLUMNS: usize = 6;

/// A delivery that a provider took.
struct AcceptedDelivery<'a> {
    one: &'a SettledDelivery,
    provider_id: Option<&'a str>,
    answer: Option<&'a str>,
}

fn taken(one: &SettledDelivery) -> Option<AcceptedDelivery<'_>> {
    match &one.outcome {
        DeliveryOutcome::Sent { provider_id, answer } => {
            Some(AcceptedDelivery { one, provider_id: provider_id.as_deref(), answer: answer.as_deref() })
        }
        _ => None,
    }
}

/// Writes down these tries, and their deliveries as sent; answers those that were still waiting.
pub(crate) async fn write(tx: &mut Tx, ended: &[&SettledDelivery], now: Timestamp) -> Result<HashSet<i64>> {
    let all: Vec<AcceptedDelivery<'_>> = ended.iter().filter_map(|one| taken(one)).collect();
    let warnings: Vec<Option<String>> = all.iter().map(|t| settle::warnings(t.one)).collect();
    let ints = |pick: &dyn Fn(&AcceptedDelivery<'_>) -> i64| Column::Ints(all.iter().map(pick).collect());
    let columns = [
        ints(&|t| t.one.due.delivery.id.0),
        ints(&|t| i64::from(t.one.due.number())),
        Column::Texts(all.iter().map(|t| t.provider_id).collect()),
        Column::Texts(all.iter().map(|t| t.answer).collect()),
        Column::Texts(warnings.iter().map(Option::as_deref).collect()),
        Column::Texts(all.iter().map(|t| t.one.due.provider.as_deref()).collect()),
        ints(&|t| i64::from(t.one.due.item.attempt())),
    ];
    if tx.dialect() == Dialect::Sqlite {
        tx.in_columns((SENT_AT_ONCE, TRY), params![now], &columns[..TRY_COLUMNS]).await?;
    }
    let at_once = if tx.is_rerun() { SENT_AT_ONCE_AND_KNOWN } else { SENT_AT_ONCE };
    let rows = tx.in_columns((at_once, SENT), params![now], &columns).await?;
    Ok(tx.listed(&rows, 0)?.into_iter().collect())
}

macro_rules! sent_at_once {
    ($known:literal) => {
        concat! {"
            with x as materialized (
                select unnest($2::bigint[]) id, unnest($3::int[]) tried, unnest($4::text[]) provider_id,
                    unnest($5::text[]) answer, unnest($6::text[]) warnings, unnest($7::text[]) provider,
                    unnest($8::int[]) tries
            ),
            told as (
                insert into punctual.delivery_attempt (
                    at, delivery_id, tried, outcome, provider_id, answer, warnings, provider
                )
                select $1::bigint, x.id, x.tried, 'sent', x.provider_id, x.answer, x.warnings,
                    x.provider
                from x ", $known, "
            ),
            sent as (
                update punctual.delivery d
                set status = ", delivery_status!(Sent), ", error = null,
                    provider_id = x.provider_id, tries = x.tries,
                    due_at = null, sent_at = $1::bigint, version = d.version + 1
                from x
                where d.id = x.id and d.status = ", delivery_status!(Pending), "
                returning d.id
            )
            select array_agg(id)
            from sent
        "}
    };
}

statements! {
    /// The tries and the deliveries in one statement. Only a delivery that still waits is changed. A try of
    /// this number is not there yet; an insert that bears with one costs more for every row.
    const SENT_AT_ONCE for Postgres = sent_at_once!("");

    const SENT_AT_ONCE_AND_KNOWN for Postgres = sent_at_once!(" on conflict do nothing");

    const TRY = "
        insert into punctual.delivery_attempt (
            at, delivery_id, tried, outcome, provider_id, answer, warnings, provider
        )
        values ($1, $2, $3, 'sent', $4, $5, $6, $7)
        on conflict do nothing
    ";

    const SENT for Sqlite = "
        update punctual.delivery
        set status = ", delivery_status!(Sent), ", error = null,
            provider_id = $4, tries = $8, due_at = null, sent_at = $1,
            version = version + 1
        where id = $2 and status = ", delivery_status!(Pending), "
        returning id
    ";
}
