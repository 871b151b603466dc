//! The public id of an entry: unguessable, and the only content of its link.
//!
//! 122 random bits in the form of a UUID, version 4. A person who knows an id may open and answer its entry,
//! so ids are not written to logs: `Debug` shows only its beginning.
//!
//! There is one text for each id, 36 characters long, and [`PublicId::parse`] takes nothing else: a text that
//! is not an id is answered in the same way as an unknown id.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The public id of an entry.
///
/// ```
/// use punctual::flow::rules::public_id::PublicId;
/// let id = PublicId::from_random([0x5a; 16]);
/// assert_eq!(id.to_string(), "5a5a5a5a-5a5a-4a5a-9a5a-5a5a5a5a5a5a");
/// assert_eq!(PublicId::parse(&id.to_string()), Some(id));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicId(u128);

/// Characters of every public id.
pub const CHARS: usize = 36;
/// Where the hyphens stand.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];
/// The bits that say "version 4, variant 1", and the places they have.
const FORM: u128 = 0x0000_0000_0000_4000_8000_0000_0000_0000;
const FORM_MASK: u128 = 0x0000_0000_0000_f000_c000_0000_0000_0000;

impl PublicId {
    /// An id of random bytes. 6 of the 128 bits say that it is a UUID of version 4; all others are taken as
    /// they are, so they must come from an unpredictable source.
    #[must_use]
    pub const fn from_random(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes) & !FORM_MASK | FORM)
    }

    /// Reads an id; `None` is a text that names nothing.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.as_bytes();
        if text.len() != CHARS {
            return None;
        }
        let mut bits = 0_u128;
        for (at, byte) in text.iter().enumerate() {
            if HYPHENS.contains(&at) {
                (*byte == b'-').then_some(())?;
            } else {
                bits = bits << 4 | u128::from(digit(*byte)?);
            }
        }
        (bits & FORM_MASK == FORM).then_some(Self(bits))
    }

    /// Its bits as two integers, which every database keeps and compares well.
    #[must_use]
    pub const fn to_halves(self) -> (i64, i64) {
        ((self.0 >> 64) as u64 as i64, self.0 as u64 as i64)
    }

    /// The id of two such integers; `None` if they are not one.
    #[must_use]
    pub const fn from_halves((high, low): (i64, i64)) -> Option<Self> {
        let bits = (high as u64 as u128) << 64 | low as u64 as u128;
        if bits & FORM_MASK == FORM { Some(Self(bits)) } else { None }
    }

    /// The groups of its text.
    const fn groups(self) -> (u128, u128, u128, u128, u128) {
        let bits = self.0;
        (bits >> 96, bits >> 80 & 0xffff, bits >> 64 & 0xffff, bits >> 48 & 0xffff, bits & 0xffff_ffff_ffff)
    }
}

/// The value of a lower-case hexadecimal digit.
const fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

impl fmt::Display for PublicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (a, b, c, d, e) = self.groups();
        write!(f, "{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}")
    }
}

impl fmt::Debug for PublicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicId({:08x}-…)", self.groups().0)
    }
}

impl Serialize for PublicId {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PublicId {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(d)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("not a public id"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TRG-23: every bit of an id but the six of its form is one of the random bits it was given.
    #[test]
    fn trg_23_122_bits_are_random() {
        let base = PublicId::from_random([0; 16]);
        let kept = (0..128).filter(|bit| {
            let changed = PublicId::from_random((1_u128 << bit).to_be_bytes());
            changed.0 ^ base.0 == 1 << bit
        });
        assert_eq!(kept.count(), 122);
    }

    /// TRG-23: a text that is not an id names nothing, and there is one text for each id.
    #[test]
    fn trg_23_anything_else_names_nothing() {
        let good = "8f3a1c4e-0b5d-4e6f-a7b8-c9d0e1f2a3b4";
        assert_eq!(PublicId::parse(good).unwrap().to_string(), good);
        let bad = [
            "",
            "8f3a1c4e",
            "8F3A1C4E-0B5D-4E6F-A7B8-C9D0E1F2A3B4",
            "8f3a1c4e0b5d4e6fa7b8c9d0e1f2a3b4",
            "{8f3a1c4e-0b5d-4e6f-a7b8-c9d0e1f2a3b4}",
            " 8f3a1c4e-0b5d-4e6f-a7b8-c9d0e1f2a3b4",
            "8f3a1c4e-0b5d-4e6f-a7b8-c9d0e1f2a3b4 ",
            "8f3a1c4e-0b5d-4e6f-a7b8-c9d0e1f2a3b",
            "8f3a1c4e-0b5d-4e6f-a7b8-c9d0e1f2a3bg",
            "8f3a1c4e-0b5d-1e6f-a7b8-c9d0e1f2a3b4",
            "8f3a1c4e-0b5d-4e6f-c7b8-c9d0e1f2a3b4",
            "8f3a1c4e_0b5d-4e6f-a7b8-c9d0e1f2a3b4",
            "8f3a1c4-e0b5d-4e6f-a7b8-c9d0e1f2a3b4",
            "00000000-0000-0000-0000-000000000000",
            "+f3a1c4e-0b5d-4e6f-a7b8-c9d0e1f2a3b4",
            "8f3a1c4e-0b5d-4e6f-a7b8-c9d0e1f2a3é",
        ];
        for text in bad {
            assert_eq!(PublicId::parse(text), None, "`{text}`");
        }
    }

    /// TRG-23: an id that is logged by mistake does not give it away.
    #[test]
    fn trg_23_debug_shows_only_the_beginning() {
        let id = PublicId::from_random([0xff; 16]);
        assert_eq!(format!("{id:?}"), "PublicId(ffffffff-…)");
    }
}
