//! How many SMS a text is.
//!
//! A text of the GSM alphabet has 160 characters in one SMS and 153 in each of several; any other
//! character makes the whole text UCS-2, with 70 and 67. A character of the GSM extension (`€`, `[`)
//! counts twice; an emoji does in UCS-2.

/// How a text travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segments {
    /// How many SMS.
    pub count: usize,
    /// Its length in the units of its encoding.
    pub units: usize,
    /// Whether the GSM alphabet sufficed.
    pub gsm: bool,
}

impl Segments {
    /// Of a text.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let gsm: Option<Vec<usize>> = text.chars().map(septets).collect();
        match gsm {
            Some(sizes) => Self { gsm: true, ..count(&sizes, 160, 153) },
            None => count(&text.chars().map(char::len_utf16).collect::<Vec<_>>(), 70, 67),
        }
    }

    /// The name of the encoding.
    #[must_use]
    pub const fn encoding(self) -> &'static str {
        if self.gsm { "GSM-7" } else { "UCS-2" }
    }
}

/// A character is never parted, so a segment may have a unit to spare.
fn count(sizes: &[usize], one: usize, each: usize) -> Segments {
    let units: usize = sizes.iter().sum();
    let mut segments = Segments { count: 1, units, gsm: false };
    if units <= one {
        return segments;
    }
    let mut used = 0;
    for size in sizes {
        if used + size > each {
            segments.count += 1;
            used = 0;
        }
        used += size;
    }
    segments
}

/// Returns the septets that a character takes in the GSM alphabet, if it is in it.
fn septets(c: char) -> Option<usize> {
    match c {
        'A'..='Z' | 'a'..='z' | '0'..='9' | ' ' | '\n' | '\r' => Some(1),
        '\u{c}' => Some(2),
        c if BASIC.contains(c) => Some(1),
        c if EXTENSION.contains(c) => Some(2),
        _ => None,
    }
}

/// GSM 03.38, without A to Z, a to z and the digits.
const BASIC: &str = "@£$¥èéùìòÇØøÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ!\"#¤%&'()*+,-./:;<=>?¡ÄÖÑÜ§¿äöñüà";
const EXTENSION: &str = "^{}\\[~]|€";

#[cfg(test)]
mod tests {
    use super::*;

    /// NTF-10: the length of an SMS, at every edge.
    #[test]
    fn ntf_10_segments_are_counted() {
        let table = [
            (String::new(), 1, 0, true),
            ("a".repeat(160), 1, 160, true),
            ("a".repeat(161), 2, 161, true),
            ("a".repeat(306), 2, 306, true),
            ("a".repeat(307), 3, 307, true),
            ("€".repeat(80), 1, 160, true),
            ("€".repeat(81), 2, 162, true),
            // 153 is odd: each segment has a unit to spare.
            ("€".repeat(153), 3, 306, true),
            ("ش".repeat(70), 1, 70, false),
            ("ش".repeat(71), 2, 71, false),
            ("ش".repeat(134), 2, 134, false),
            ("ش".repeat(135), 3, 135, false),
            ("🎉".repeat(35), 1, 70, false),
            ("🎉".repeat(67), 3, 134, false),
            ("Grüße @ [x]".to_owned(), 1, 13, true),
            ("“quoted”".to_owned(), 1, 8, false),
        ];
        for (text, count, units, gsm) in table {
            assert_eq!(Segments::of(&text), Segments { count, units, gsm }, "{text}");
        }
        assert_eq!((Segments::of("x").encoding(), Segments::of("ع").encoding()), ("GSM-7", "UCS-2"));
    }
}
