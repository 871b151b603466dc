//! Tenants: every verb on something a tenant owns demands one.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A tenant that is known to exist. Only the store makes one (from a slug), so holding
/// a `Tenant` proves that it was looked up; forgetting the tenant does not compile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tenant(i64);

impl Tenant {
    /// The tenant that always exists, for those who need no other.
    pub const DEFAULT: Self = Self(1);
    /// The slug of [`Tenant::DEFAULT`].
    pub const DEFAULT_SLUG: &'static str = "default";

    pub(crate) const fn from_row(id: i64) -> Self {
        Self(id)
    }

    /// The number of its row.
    #[must_use]
    pub const fn id(self) -> i64 {
        self.0
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
