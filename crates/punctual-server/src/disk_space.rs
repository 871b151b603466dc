//! The room on the disk of an SQLite file. What PostgreSQL has, only its own machine knows.

use punctual::Store;

/// Less than this, and less than one part in [`FREE_SHARE`] of the disk, is too little.
const FREE_BYTES_MIN: u64 = 1 << 30;
/// See [`FREE_BYTES_MIN`].
const FREE_SHARE: u64 = 20;

/// The room on a disk, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct DiskSpace {
    /// What this process may still use.
    pub free: u64,
    total: u64,
}

impl DiskSpace {
    /// Asks for the disk of the database, where it is a file.
    #[must_use]
    pub fn of(store: &Store) -> Option<Self> {
        let found = rustix::fs::statvfs(store.file()?).ok()?;
        Some(Self {
            free: found.f_bavail.saturating_mul(found.f_frsize),
            total: found.f_blocks.saturating_mul(found.f_frsize),
        })
    }

    /// What to do about too little room.
    #[must_use]
    pub fn complaint(self) -> Option<String> {
        let is_little = self.free < FREE_BYTES_MIN && self.free < self.total / FREE_SHARE;
        is_little.then(|| {
            format!(
                "the disk of the database has {} MiB left of {} MiB: free space on it, or move the file to a \
                 larger disk",
                self.free >> 20,
                self.total >> 20
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PLT-25: a nearly full disk is reported before writes fail; a small disk with room is not.
    #[test]
    fn plt_25_little_space_is_reported() {
        let gib = 1 << 30;
        for (free, total, is_little) in
            [(gib / 4, 100 * gib, true), (2 * gib, 100 * gib, false), (gib / 4, gib, false), (0, gib, true)]
        {
            assert_eq!(DiskSpace { free, total }.complaint().is_some(), is_little, "{free} of {total} bytes");
        }
    }
}
