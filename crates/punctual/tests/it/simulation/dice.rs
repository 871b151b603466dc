//! Everything a simulation draws comes from here, so that its seed repeats it.

use std::ops::RangeInclusive;
use std::time::Duration;

/// A small generator of numbers (splitmix64).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub const fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number of the range.
    pub fn from(&mut self, range: RangeInclusive<u64>) -> u64 {
        range.start() + self.draw() % (range.end() - range.start() + 1)
    }

    pub fn count(&mut self, range: RangeInclusive<usize>) -> usize {
        usize::try_from(self.from(*range.start() as u64..=*range.end() as u64)).unwrap()
    }

    pub fn millis(&mut self, range: RangeInclusive<u64>) -> Duration {
        Duration::from_millis(self.from(range))
    }

    /// True so many times in a thousand.
    pub fn chance(&mut self, per_mille: u64) -> bool {
        self.from(0..=999) < per_mille
    }

    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.count(0..=all.len() - 1)]
    }

    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let drawn = self.draw().to_le_bytes();
            chunk.copy_from_slice(&drawn[..chunk.len()]);
        }
    }
}
