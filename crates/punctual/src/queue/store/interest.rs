//! The interest of definitions in a tenant's topics.
//!
//! A transaction that changes a definition stores the definition's new interest (`set_interest`), and the
//! routes follow in the same transaction. Routing looks at these rows only, never at a definition.

use crate::base::error::Result;
use crate::base::tenant::Tenant;
use crate::database::statement::statements;
use crate::database::tx::Tx;
use crate::database::value::params;
use crate::queue::store::routes::{events_wanted, reroute_all, route_anew};
use std::collections::BTreeSet;

/// Which messages a definition looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InterestLevel {
    /// None.
    Nothing,
    /// Events of every topic but those that surveys publish.
    Events,
    /// Also those that surveys publish.
    AllEvents,
}

impl InterestLevel {
    const fn code(self) -> i64 {
        match self {
            Self::Nothing => 0,
            Self::Events => 1,
            Self::AllEvents => 2,
        }
    }
}

/// Says what a definition wants: events of a level, and perhaps a topic that it takes, so that messages need
/// not wait in the topic's own queue as well. `source` names the definition within its tenant.
pub(crate) async fn set_interest(
    tx: &mut Tx,
    tenant: Tenant,
    source: &str,
    level: InterestLevel,
    takes: Option<&str>,
) -> Result<()> {
    let before = events_wanted(tx, tenant).await?;
    let old = tx.query(TAKEN, params![tenant.id(), source]).await?;
    let old = old.iter().map(|row| row.text(0)).collect::<Result<BTreeSet<_>>>()?;
    tx.execute(FORGET, params![tenant.id(), source]).await?;
    if level != InterestLevel::Nothing {
        tx.execute(ADD, params![tenant.id(), source, "", level.code()]).await?;
    }
    if let Some(topic) = takes {
        tx.execute(ADD, params![tenant.id(), source, topic, 0]).await?;
    }
    if events_wanted(tx, tenant).await? != before {
        reroute_all(tx, tenant).await?;
    }
    let new: BTreeSet<String> = takes.map(str::to_owned).into_iter().collect();
    // In one order, so that two changes never wait for each other in a circle.
    for topic in old.symmetric_difference(&new) {
        route_anew(tx, tenant, topic).await?;
    }
    Ok(())
}

statements! {
    const TAKEN = "
        select topic
        from punctual.topic_interest
        where tenant_id = $1 and source = $2 and topic <> ''
    ";

    const FORGET = "
        delete from punctual.topic_interest
        where tenant_id = $1 and source = $2
    ";

    const ADD = "
        insert into punctual.topic_interest (tenant_id, source, topic, level)
        values ($1, $2, $3, $4)
    ";
}
