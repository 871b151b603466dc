//! The length of a lease, of a claim as of a lock.

use crate::base::error::Problems;
use crate::base::limits;
use std::time::Duration;

/// Adds the problems with the length of a lease.
pub fn check_duration(duration: Duration, path: &str, problems: &mut Problems) {
    if duration < limits::LEASE_MIN || duration > limits::LEASE_MAX {
        problems.push(path, "must be between 1 second and 24 hours");
    }
}
