//! Whether the database takes writes, found out by a write that changes nothing.

use crate::base::component::Component;
use crate::base::random;
use crate::base::storage_fault::StorageFault;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::VerbFuture;
use crate::database::value::params;
use std::time::Duration;

/// How long a write that is tried may take.
const WRITE_PATIENCE: Duration = Duration::from_secs(2);
/// A WAL that is larger than this is not being checkpointed: SQLite begins to at 4 MB.
const WAL_BYTES_MAX: u64 = 256 << 20;

/// The state of the storage.
#[derive(Clone, Debug, Default)]
pub struct StorageStatus {
    /// Why the last write failed; none if it went well.
    pub write_error: Option<String>,
    /// The size of the write-ahead log of an SQLite file.
    pub wal_bytes: Option<u64>,
}

impl StorageStatus {
    /// Everything that is not as it should be, in words.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        let wal = self.wal_bytes.filter(|bytes| *bytes > WAL_BYTES_MAX).map(|bytes| {
            format!(
                "the write-ahead log of the database has grown to {} MiB, because a reader that does not \
                 end keeps it from being checkpointed: end long reads of the file, such as backups and open \
                 SQL shells",
                bytes >> 20
            )
        });
        let write = self.write_error.as_deref().map(|error| match StorageFault::find(error) {
            Some(fault) => format!("writes fail, {}: {}", fault.finding(), fault.advice()),
            None => format!("writes fail: {error}"),
        });
        write.into_iter().chain(wal).collect()
    }
}

impl Store {
    /// Writes a row and deletes it again. A write that changes nothing would not reach the disk.
    ///
    /// # Errors
    /// When the database takes no writes.
    pub fn probe_write(&self) -> VerbFuture<'_, ()> {
        // A name of its own: no two of these wait for each other.
        let name = format!("punctual.probe.{}", random::hex::<8>());
        self.write(name, |tx, name| {
            Box::pin(async move {
                let has_outbox = tx.has_component(Component::Outbox).await?;
                let (add, delete) = if has_outbox { (ADD, DELETE) } else { (ADD_TO_CORE, DELETE_FROM_CORE) };
                tx.execute(add, params![name.as_str()]).await?;
                tx.execute(delete, params![name.as_str()]).await.map(|_| ())
            })
        })
    }

    /// Finds out whether the database takes writes, waiting no longer than `WRITE_PATIENCE`.
    pub async fn storage_status(&self) -> StorageStatus {
        let write_error = match tokio::time::timeout(WRITE_PATIENCE, self.probe_write()).await {
            Ok(tried) => tried.err().map(|error| error.to_string()),
            Err(_) => Some(format!("a write did not end within {} seconds", WRITE_PATIENCE.as_secs())),
        };
        StorageStatus { write_error, wal_bytes: self.wal_bytes() }
    }

    fn wal_bytes(&self) -> Option<u64> {
        let mut wal = self.file()?.as_os_str().to_owned();
        wal.push("-wal");
        Some(std::fs::metadata(wal).ok()?.len())
    }
}

statements! {
    /// No transaction but this one ever sees it.
    const ADD = "
        insert into punctual.handled_topic (topic, since)
        values ($1, 0)
    ";

    const DELETE = "
        delete from punctual.handled_topic
        where topic = $1
    ";

    /// Every database has this table, but its row is not as small.
    const ADD_TO_CORE = "
        insert into punctual.migration (component, version, name, checksum, applied_at)
        values ($1, 0, '', '', 0)
    ";

    const DELETE_FROM_CORE = "
        delete from punctual.migration
        where component = $1
    ";
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PLT-25: a problem is reported with advice.
    #[test]
    fn plt_25_a_database_that_takes_no_writes_is_reported_with_advice() {
        let status = |error: Option<&str>, wal| StorageStatus {
            write_error: error.map(str::to_owned),
            wal_bytes: wal,
        };
        assert_eq!(status(None, Some(WAL_BYTES_MAX)).complaints(), [""; 0]);
        for (status, words) in [
            (status(Some("database or disk is full"), None), "free space on it"),
            (status(Some("cannot execute UPDATE in a read-only transaction"), None), "at the primary"),
            (status(Some("disk I/O error"), None), "the system's log"),
            (status(Some("connection refused"), None), "writes fail: connection refused"),
            (status(None, Some(WAL_BYTES_MAX + 1)), "256 MiB, because a reader"),
        ] {
            let all = status.complaints();
            assert!(all.len() == 1 && all[0].contains(words), "{words}: {all:?}");
        }
    }
}
