//! Reads lines of JSON, one at a time, each within a limit of memory.

use punctual::base::limits::PAYLOAD_BYTES_MAX;
use serde_json::Value;
use std::io::{BufRead, Read};

/// The limit of a line's length; a longer line fails. A payload has half of it at most.
pub(super) const LINE_BYTES_MAX: usize = 2 * PAYLOAD_BYTES_MAX;
/// The byte order mark, which some programs write first.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A reader of lines.
pub(super) struct Lines<R> {
    from: R,
    text: Vec<u8>,
    number: u64,
    bytes: u64,
}

/// One line.
#[derive(Debug, PartialEq)]
pub(super) enum Line {
    /// An empty line.
    Blank,
    /// JSON, and its length in bytes.
    Item(Value, usize),
    /// The header of a CSV file.
    Csv,
    /// Any other content, with a description.
    Wrong(String),
}

impl<R: BufRead> Lines<R> {
    pub(super) const fn new(from: R) -> Self {
        Self { from, text: Vec::new(), number: 0, bytes: 0 }
    }

    /// Returns the number of the last line that was read, from 1.
    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    /// Returns the number of bytes that were read.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the next line; none at the end.
    pub(super) fn next_line(&mut self) -> std::io::Result<Option<Line>> {
        self.text.clear();
        // One more for the line's end.
        let most = LINE_BYTES_MAX as u64 + 1;
        let read = self.from.by_ref().take(most).read_until(b'\n', &mut self.text)?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        self.bytes += read as u64;
        if self.text.len() > LINE_BYTES_MAX && !self.text.ends_with(b"\n") {
            self.bytes += self.from.skip_until(b'\n')? as u64;
            let most = LINE_BYTES_MAX / (1024 * 1024);
            return Ok(Some(Line::Wrong(format!("is longer than {most} MiB"))));
        }
        Ok(Some(read_line(&self.text, self.number == 1)))
    }
}

fn read_line(text: &[u8], first: bool) -> Line {
    let text = if first { text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text) } else { text };
    let text = text.trim_ascii();
    if text.is_empty() {
        return Line::Blank;
    }
    match serde_json::from_slice(text) {
        Ok(item) => Line::Item(item, text.len()),
        Err(_) if first && is_csv_header(text) => Line::Csv,
        // The number of a line that serde counts is always 1.
        Err(error) => Line::Wrong(format!(
            "is not JSON: {}",
            error.to_string().replace(" at line 1 column", " at column")
        )),
    }
}

/// Returns whether a first line has several names and no JSON.
pub(in crate::cli) fn is_csv_header(text: &[u8]) -> bool {
    let separated = |separator: u8| text.split(|byte| *byte == separator).count() > 1;
    let is_json = text.first().is_some_and(|byte| b"{[".contains(byte));
    !is_json && std::str::from_utf8(text).is_ok() && b",;\t".iter().any(|byte| separated(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn all(text: &[u8]) -> Vec<(u64, Line)> {
        let mut lines = Lines::new(text);
        let mut all = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            all.push((lines.number(), line));
        }
        assert_eq!(lines.bytes(), text.len() as u64, "every byte is counted");
        all
    }

    #[test]
    fn lines_are_json_or_say_what_is_wrong() {
        let text = b"\xef\xbb\xbf{\"a\":1}\r\n\n  [2]  \n{no\n\xff\n3";
        let read = all(text);
        assert_eq!(read[0], (1, Line::Item(json!({"a": 1}), 7)));
        assert_eq!(read[1], (2, Line::Blank));
        assert_eq!(read[2], (3, Line::Item(json!([2]), 3)));
        let said = "is not JSON: key must be a string at column 2";
        assert_eq!(read[3], (4, Line::Wrong(said.into())));
        assert!(matches!(read[4], (5, Line::Wrong(_))), "{:?}", read[4]);
        assert_eq!(read[5], (6, Line::Item(json!(3), 1)), "a last line without an end counts");
        assert_eq!((read.len(), all(b"").len()), (6, 0));
    }

    #[test]
    fn the_header_of_a_csv_file_is_known() {
        for text in ["address,wip\n", "address;wip", "\"address\"\t\"wip\""] {
            assert_eq!(all(text.as_bytes())[0].1, Line::Csv, "{text}");
        }
        for text in ["address", "{\"a\": 1,", "[1,"] {
            assert!(matches!(all(text.as_bytes())[0].1, Line::Wrong(_)), "{text}");
        }
        assert!(matches!(all(b"{}\na,b")[1].1, Line::Wrong(_)), "only the first line is a header");
    }

    #[test]
    fn a_line_without_an_end_is_not_kept() {
        let longest = format!("\"{}\"", "x".repeat(LINE_BYTES_MAX - 2));
        let text = format!("{longest}\n{longest}y\n1\n{}", "z".repeat(3 * LINE_BYTES_MAX));
        let read = all(text.as_bytes());
        assert!(matches!(read[0], (1, Line::Item(..))), "the longest that fits");
        let wrong = Line::Wrong("is longer than 2 MiB".into());
        assert_eq!((&read[1].1, &read[3].1), (&wrong, &wrong));
        assert_eq!((read[2].0, &read[2].1), (3, &Line::Item(json!(1), 1)));
    }
}
