//! The reasons why a database takes no writes, by the errors of SQLite and PostgreSQL, with advice for an
//! operator. PostgreSQL translates its words, so its codes count as well.

/// The fault of a database's storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageFault {
    /// The disk is full.
    Full,
    /// The database is a replica, or its file may not be written.
    ReadOnly,
    /// The disk cannot be read or written.
    Broken,
}

impl StorageFault {
    /// Finds the fault that an error speaks of; none where the database is away or busy.
    ///
    /// ```
    /// use punctual::base::storage_fault::StorageFault;
    ///
    /// assert_eq!(StorageFault::find("database or disk is full"), Some(StorageFault::Full));
    /// assert_eq!(StorageFault::find("connection refused"), None);
    /// ```
    #[must_use]
    pub fn find(error: &str) -> Option<Self> {
        let has = |words: &[&str]| words.iter().any(|word| error.contains(word));
        if has(&["disk is full", "No space left on device", "could not extend file", "SQLSTATE 53100"]) {
            Some(Self::Full)
        } else if has(&["readonly database", "read-only transaction", "SQLSTATE 25006"]) {
            Some(Self::ReadOnly)
        } else if has(&["disk I/O error", "Input/output error", "SQLSTATE 58030"]) {
            Some(Self::Broken)
        } else {
            None
        }
    }

    /// Says what is wrong.
    #[must_use]
    pub const fn finding(self) -> &'static str {
        match self {
            Self::Full => "the disk of the database is full",
            Self::ReadOnly => "the database is read-only (a replica, or a file that may not be written)",
            Self::Broken => "the disk of the database cannot be read or written",
        }
    }

    /// Says what to do about it.
    #[must_use]
    pub const fn advice(self) -> &'static str {
        match self {
            Self::Full => "free space on it and try again",
            Self::ReadOnly => "point the server at the primary, or let it write to the file",
            Self::Broken => "look at the disk and at the system's log",
        }
    }
}
