//! A pooled connection on loan: it goes back only if nothing is left open on it.
//!
//! A transaction that ends in neither a commit nor a rollback, such as one whose verb panicked,
//! would else hand its connection to the next verb, which would work inside that transaction and
//! lose everything with it.

use deadpool_postgres::Object;
use std::ops::Deref;

/// A connection that may have to be thrown away.
pub(super) struct Lent {
    object: Option<Object>,
    /// Whether something may be left open on it.
    pub(super) unclean: bool,
}

impl Lent {
    pub(super) const fn new(object: Object) -> Self {
        Self { object: Some(object), unclean: false }
    }
}

impl Deref for Lent {
    type Target = Object;

    fn deref(&self) -> &Object {
        // invariant: only `drop` takes it out.
        #[allow(clippy::expect_used, reason = "see the comment above")]
        self.object.as_ref().expect("a loan has its connection until it ends")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if self.unclean
            && let Some(object) = self.object.take()
        {
            drop(Object::take(object));
        }
    }
}
