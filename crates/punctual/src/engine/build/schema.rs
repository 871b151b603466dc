//! Waits until another process has brought the schema up to date.

use crate::base::clock::{Monotonic, monotonic};
use crate::base::component::Components;
use crate::base::duration;
use crate::base::error::{Error, Result};
use crate::database::migrate::{SCHEMA_VERSION, SchemaGap, SchemaStatus};
use crate::database::store::Store;
use std::time::Duration;

/// The pause between two looks at the schema's version.
const SCHEMA_POLL: Duration = Duration::from_millis(250);

/// Waits up to `patience` while the schema of these components is missing or older than this binary. A schema
/// that waiting cannot mend, such as a newer one, is refused at once.
///
/// # Errors
/// [`Error::Schema`] when the schema does not fit, or does not fit in time.
pub(super) async fn wait_for_schema(store: &Store, components: Components, patience: Duration) -> Result<()> {
    let began = monotonic();
    let mut waits = false;
    while let SchemaStatus::Behind(behind) = store.schema_status(components).await? {
        let left = patience.saturating_sub(began.elapsed());
        if left.is_zero() {
            return Err(refuse(behind, patience));
        }
        if !waits {
            say_waiting(behind, patience);
        }
        waits = true;
        tokio::time::sleep(left.min(SCHEMA_POLL)).await;
    }
    if waits {
        say_arrived(began);
        // The connections were opened before the migration gave the roles of tenants their rights.
        store.refresh_row_security().await?;
    }
    Ok(())
}

fn say_waiting(behind: SchemaGap, patience: Duration) {
    let SchemaGap { version, lacks } = behind;
    tracing::warn!(
        target: "punctual",
        version, needed = SCHEMA_VERSION, %lacks, patience_seconds = patience.as_secs_f64(),
        "the schema is behind and its deployment is turned off here; waiting for another process to \
         migrate it (`punctual migrate`)"
    );
}

fn say_arrived(began: Monotonic) {
    let waited_seconds = began.elapsed().as_secs_f64();
    tracing::info!(target: "punctual", version = SCHEMA_VERSION, waited_seconds, "the schema fits now");
}

fn refuse(behind: SchemaGap, patience: Duration) -> Error {
    if patience.is_zero() {
        return behind.refused("");
    }
    behind.refused(&format!(", and no process migrated it within {}", duration::write(patience)))
}
