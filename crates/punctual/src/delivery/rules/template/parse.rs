//! Reading a text with placeholders. Every problem is reported with its line and column.

use crate::base::document::quote;
use crate::base::facts::check_path;
use crate::base::limits;
use crate::delivery::rules::template::filter::Filter;
use crate::delivery::rules::template::{Part, Placeholder};
use std::fmt;

/// Something wrong with a text, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateProblem {
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
    /// The problem, and how to correct it.
    pub message: String,
}

impl fmt::Display for TemplateProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.message)
    }
}

/// Problems that are reported for one text; the author corrects these first.
const WRONGS_TOLD_MAX: usize = 20;

struct Reader<'t> {
    text: &'t str,
    /// Where the part that is being read begins.
    at: usize,
    parts: Vec<Part>,
    words: String,
    wrongs: Vec<TemplateProblem>,
}

/// The parts of a text, in their order.
pub(crate) fn parts(text: &str) -> Result<Vec<Part>, Vec<TemplateProblem>> {
    let mut reader = Reader { text, at: 0, parts: Vec::new(), words: String::new(), wrongs: Vec::new() };
    if text.len() > limits::TEMPLATE_BYTES_MAX {
        let most = limits::TEMPLATE_BYTES_MAX;
        reader.wrong(0, format!("the text has {} bytes, at most {most} are allowed", text.len()));
        return Err(reader.wrongs);
    }
    reader.read();
    if reader.wrongs.is_empty() { Ok(reader.parts) } else { Err(reader.wrongs) }
}

impl<'t> Reader<'t> {
    fn read(&mut self) {
        let mut placeholders = 0;
        while let Some(found) = self.text[self.at..].find("{{") {
            let open = self.at + found;
            if self.text[..open].ends_with('\\') && open > self.at {
                self.words.push_str(&self.text[self.at..open - 1]);
                self.words.push_str("{{");
                self.at = open + 2;
                continue;
            }
            self.words.push_str(&self.text[self.at..open]);
            placeholders += 1;
            if placeholders > limits::TEMPLATE_PLACEHOLDERS_MAX {
                let most = limits::TEMPLATE_PLACEHOLDERS_MAX;
                self.wrong(open, format!("there are more than {most} placeholders"));
                return;
            }
            let Some(close) = self.close(open + 2) else {
                self.wrong(open, "is not closed: write `}}` behind the key, or `\\{{` for two braces");
                return;
            };
            self.placeholder(open, close);
            self.at = close + 2;
        }
        self.words.push_str(&self.text[self.at..]);
        self.end_words();
    }

    /// Where the `}}` of what opened before `from` stands: not within quotes, and on the same line.
    fn close(&self, from: usize) -> Option<usize> {
        let mut quoted = false;
        let inside = self.text[from..].char_indices();
        for (n, c) in inside.take_while(|(_, c)| *c != '\n') {
            match c {
                '"' => quoted = !quoted,
                '}' if !quoted && self.text[from + n..].starts_with("}}") => return Some(from + n),
                _ => {}
            }
        }
        None
    }

    fn end_words(&mut self) {
        if !self.words.is_empty() {
            self.parts.push(Part::Words(std::mem::take(&mut self.words)));
        }
    }

    fn placeholder(&mut self, open: usize, close: usize) {
        let mut pieces = pieces(self.text, open + 2, close).into_iter();
        let (at, key) = pieces.next().unwrap_or((open, ""));
        if let Err(said) = check_key(key) {
            self.wrong(at, said);
            return;
        }
        let mut filters = Vec::new();
        for (at, piece) in pieces {
            match Filter::parse(piece) {
                Ok(filter) => filters.push(filter),
                Err(said) => self.wrong(at, said),
            }
        }
        if filters.len() > limits::TEMPLATE_FILTERS_MAX {
            let most = limits::TEMPLATE_FILTERS_MAX;
            self.wrong(at, format!("has {} filters, at most {most} are allowed", filters.len()));
        }
        self.end_words();
        let written = self.text[open..close + 2].to_owned();
        self.parts.push(Part::Value(Placeholder { key: key.to_owned(), filters, written }));
    }

    fn wrong(&mut self, at: usize, message: impl Into<String>) {
        if self.wrongs.len() >= WRONGS_TOLD_MAX {
            return;
        }
        let before = &self.text[..at];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        self.wrongs.push(TemplateProblem { line, column, message: message.into() });
    }
}

/// Splits at the bars and trims the parts, each with its place. Bars within quotes do not split.
fn pieces(text: &str, from: usize, to: usize) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let (mut begin, mut quoted) = (from, false);
    for (n, c) in text[from..to].char_indices() {
        match c {
            '"' => quoted = !quoted,
            '|' if !quoted => {
                found.push((begin, &text[begin..from + n]));
                begin = from + n + 1;
            }
            _ => {}
        }
    }
    found.push((begin, &text[begin..to]));
    let trimmed = |at: usize, piece: &str| at + piece.len() - piece.trim_start().len();
    found.into_iter().map(|(at, piece)| (trimmed(at, piece), piece.trim())).collect()
}

fn check_key(key: &str) -> Result<(), String> {
    if key.is_empty() {
        return Err("is empty: write a key between the braces, such as `{{surveyUrl}}`".into());
    }
    let fine = |c: char| c.is_alphanumeric() || "_-.@$".contains(c);
    if let Some(c) = key.chars().find(|c| !fine(*c)) {
        let shown = quote(key);
        return Err(match c {
            '{' => format!("`{shown}` has a brace too many: write two on each side"),
            ' ' | '\t' => format!("`{shown}` has a space in it: a key is one word; filters follow a `|`"),
            _ => format!("`{shown}` is not a key: `{}` cannot be in one", quote(&c.to_string())),
        });
    }
    check_path(key)
}
