//! Shares of a channel's limits: how much of them each process may use.
//!
//! A process leases a share of a channel that has limits, renews it while it sends, and loses it with the
//! lease. All shares that may be in use at one moment are together no more than the limit. So a process
//! that is to use less reports that it does before what it gave up is granted to another, and it reports so
//! only when a whole second has passed: no second in which it used more is open then.

use std::time::Duration;

/// How long a share may be used without being renewed.
pub const SHARE_LEASE: Duration = Duration::from_millis(1_500);
/// A share in use is renewed this often.
pub const SHARE_RENEWAL: Duration = Duration::from_millis(300);
/// A share that was lowered, or whose lease is over, is free after this long: a second, and the unevenness of
/// clocks that count it.
pub const SHARE_SETTLED_AFTER: Duration = Duration::from_millis(1_100);

/// An amount of each limit of a channel: a limit, a share of it, or what is reserved for a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareAmounts {
    /// Sends that begin in any one second.
    pub per_second: u32,
    /// Sends in flight at the same time.
    pub in_flight: u32,
}

impl ShareAmounts {
    /// Combines two amounts, limit by limit.
    #[must_use]
    pub fn with(self, other: Self, combine: impl Fn(u32, u32) -> u32) -> Self {
        Self {
            per_second: combine(self.per_second, other.per_second),
            in_flight: combine(self.in_flight, other.in_flight),
        }
    }
}

/// The process that asks, among all that have a share of the channel.
#[derive(Clone, Copy, Debug)]
pub struct ShareMembers {
    /// How many there are, the one that asks included.
    pub count: u32,
    /// How many of them come before it.
    pub before: u32,
}

/// Grants a share: an equal part of the limit, as far as it is not reserved for others. What an equal
/// division leaves over goes to those that come first.
#[must_use]
pub fn grant(limit: ShareAmounts, members: ShareMembers, reserved: ShareAmounts) -> ShareAmounts {
    let limits = [limit.per_second, limit.in_flight].into_iter().filter(|limit| *limit > 0);
    // A part of one limit is of no use without a part of the other.
    let count = limits.fold(members.count, u32::min).max(1);
    if members.before >= count {
        return ShareAmounts::default();
    }
    let fair = |limit: u32| limit / count + u32::from(members.before < limit % count);
    let free = limit.with(reserved, u32::saturating_sub);
    ShareAmounts { per_second: fair(limit.per_second), in_flight: fair(limit.in_flight) }.with(free, u32::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn amounts(per_second: u32, in_flight: u32) -> ShareAmounts {
        ShareAmounts { per_second, in_flight }
    }

    /// NTF-17: equal parts, and never what another may still use.
    #[test]
    fn ntf_17_a_share_is_an_equal_part_of_what_is_free() {
        let limit = amounts(200, 10);
        for (count, before, reserved, expected) in [
            (1, 0, amounts(0, 0), amounts(200, 10)),
            (2, 0, amounts(0, 0), amounts(100, 5)),
            (2, 1, amounts(200, 10), amounts(0, 0)),
            (3, 0, amounts(0, 0), amounts(67, 4)),
            (3, 1, amounts(0, 0), amounts(67, 3)),
            (3, 2, amounts(0, 0), amounts(66, 3)),
            (3, 2, amounts(150, 0), amounts(50, 3)),
            (300, 250, amounts(0, 0), amounts(0, 0)),
            (12, 9, amounts(0, 0), amounts(20, 1)),
            (12, 10, amounts(0, 0), amounts(0, 0)),
        ] {
            let granted = grant(limit, ShareMembers { count, before }, reserved);
            assert_eq!(granted, expected, "{before} of {count} with {reserved:?} reserved");
        }
    }

    /// One process as the rules see it: what it uses, what is reserved for it, and whether it has a lease.
    #[derive(Clone, Copy, Debug, Default)]
    struct Member {
        uses: u32,
        reserved: u32,
        is_here: bool,
    }

    proptest! {
        /// NTF-17: processes come, renew, report and go in any order: all shares in use are
        /// together no more than the limit, and all of it is in use when everyone has renewed often enough.
        #[test]
        fn ntf_17_all_shares_in_use_are_within_the_limit(
            limit in 1_u32..500,
            steps in prop::collection::vec((0_usize..4, 0_u8..3), 0..60),
        ) {
            let mut all = [Member::default(); 4];
            let renew = |all: &mut [Member; 4], n: usize, is_settled: bool| {
                let me = all[n];
                let base = if is_settled { me.uses } else { me.reserved };
                all[n].is_here = true;
                let others = || all.iter().enumerate().filter(|(other, _)| *other != n);
                let count = u32::try_from(all.iter().filter(|member| member.is_here).count()).unwrap();
                let before = u32::try_from(all[..n].iter().filter(|member| member.is_here).count()).unwrap();
                let reserved: u32 = others().map(|(_, member)| member.reserved).sum();
                let members = ShareMembers { count, before };
                let share = grant(amounts(limit, 0), members, amounts(reserved, 0)).per_second;
                (all[n].uses, all[n].reserved) = (share, base.max(share));
            };
            for (n, what) in steps {
                match what {
                    2 => all[n] = Member::default(),
                    what => renew(&mut all, n, what == 1),
                }
                let used: u32 = all.iter().map(|member| member.reserved).sum();
                prop_assert!(used <= limit, "{} of {} in use: {:?}", used, limit, all);
            }
            if all.iter().any(|member| member.is_here) {
                for _ in 0..3 {
                    for n in 0..4 {
                        if all[n].is_here {
                            renew(&mut all, n, true);
                        }
                    }
                }
                prop_assert_eq!(all.iter().map(|member| member.uses).sum::<u32>(), limit, "{:?}", all);
            }
        }
    }
}
