//! The only source of randomness: the operating system's. With the feature `testing`, a
//! simulation may put a source of its own in its place ([`override_source`]).

use std::fmt::Write;

/// `N` random bytes.
///
/// An operating system that cannot give random bytes cannot run a server safely; that is
/// an invariant of the platform, not an error a caller could handle.
#[must_use]
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut out = [0; N];
    fill(&mut out);
    out
}

/// `count` times `N` random bytes, drawn at once.
#[must_use]
pub fn many<const N: usize>(count: usize) -> Vec<[u8; N]> {
    let mut out = vec![[0; N]; count];
    fill(out.as_flattened_mut());
    out
}

fn fill(out: &mut [u8]) {
    #[cfg(feature = "testing")]
    if let Some(fill) = PRETENDED.get() {
        return fill(out);
    }
    // invariant: the platform's random source works, else no token would be safe.
    #[allow(clippy::expect_used, reason = "see the documentation of `bytes`")]
    getrandom::fill(out).expect("the operating system gives random bytes");
}

/// `N` random bytes in lower-case hexadecimal.
#[must_use]
pub fn hex<const N: usize>() -> String {
    bytes::<N>().iter().fold(String::with_capacity(2 * N), |mut out, b| {
        let _ = write!(out, "{b:02x}");
        out
    })
}

/// A seed for a rule that spreads things out (rules themselves never draw).
#[must_use]
pub fn seed() -> u64 {
    u64::from_le_bytes(bytes::<8>())
}

/// A source that fills bytes in the place of the operating system.
#[cfg(feature = "testing")]
pub type RandomSource = fn(&mut [u8]);

#[cfg(feature = "testing")]
thread_local! {
    static PRETENDED: std::cell::Cell<Option<RandomSource>> = const { std::cell::Cell::new(None) };
}

/// From now on this thread draws from this source; `None` is the operating system's again.
#[cfg(feature = "testing")]
pub fn override_source(source: Option<RandomSource>) {
    PRETENDED.set(source);
}
