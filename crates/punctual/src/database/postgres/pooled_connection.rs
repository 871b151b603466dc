//! A pooled connection on loan, which goes back only if nothing is left open on it.
//!
//! A transaction that ends in neither a commit nor a rollback, such as one whose verb panicked,
//! would else hand its connection to the next verb, which would work inside that transaction and
//! lose everything with it.
//!
//! A transaction that only reads is ended here, without waiting for the answer: the statements of the next
//! verb come after the commit on the same connection. So the commit costs its caller nothing, and a caller
//! that goes away costs no connection.

use deadpool_postgres::Object;
use futures_util::FutureExt;
use std::ops::Deref;

/// A connection that may have to be thrown away.
pub(crate) struct PooledConnection {
    object: Option<Object>,
    /// Whether something may be left open on it.
    pub(crate) unclean: bool,
    /// Whether a transaction is open on it that only reads.
    pub(crate) reads: bool,
}

impl PooledConnection {
    pub(crate) const fn new(object: Object) -> Self {
        Self { object: Some(object), unclean: false, reads: false }
    }
}

impl Deref for PooledConnection {
    type Target = Object;

    fn deref(&self) -> &Object {
        // invariant: only `drop` takes it out.
        #[allow(clippy::expect_used, reason = "see the comment above")]
        self.object.as_ref().expect("a loan has its connection until it ends")
    }
}

impl Drop for PooledConnection {
    fn drop(&mut self) {
        if self.reads && !self.unclean {
            // The first poll sends it. A connection that is closed already says so to its pool.
            self.batch_execute("commit").now_or_never();
        }
        if self.unclean
            && let Some(object) = self.object.take()
        {
            drop(Object::take(object));
        }
    }
}
