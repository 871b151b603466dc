//! A Rust file read well enough for the checks: comments and strings set apart from code,
//! functions and test regions found by matching braces. It is not a parser and need not be:
//! rustfmt and the compiler have seen the file before us.

use std::ops::Range;

/// A string literal or comment: where it starts and what it says.
pub struct Text {
    /// Line of its first character, from 1.
    pub line: usize,
    /// Without quotes.
    pub text: String,
}

/// A function with a body.
pub struct Function {
    /// Its name.
    pub name: String,
    /// Line of the word `fn`.
    pub line: usize,
    /// Lines from `fn` to the closing brace.
    pub length: usize,
}

/// One Rust file.
pub struct Source {
    /// The text with the inside of comments, strings and characters blanked; same offsets.
    pub code: String,
    /// String literals.
    pub literals: Vec<Text>,
    /// Comments, one entry per `//` line or block.
    pub comments: Vec<Text>,
    /// Modules declared as `#[cfg(test)] mod name;`.
    pub test_modules: Vec<String>,
    /// `#![cfg(test)]` stands at the top.
    pub all_test: bool,
    line_starts: Vec<usize>,
    test_lines: Vec<bool>,
}

impl Source {
    /// Reads a file's text.
    pub fn read(text: &str) -> Self {
        let line_starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1));
        let line_starts: Vec<usize> = line_starts.collect();
        let mut source = Self {
            code: String::new(),
            literals: Vec::new(),
            comments: Vec::new(),
            test_modules: Vec::new(),
            all_test: false,
            test_lines: vec![false; line_starts.len() + 1],
            line_starts,
        };
        source.blank(text);
        source.find_tests(text);
        source
    }

    /// The line, from 1, of a byte offset.
    pub fn line_of(&self, offset: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= offset)
    }

    /// Whether the line, from 1, is test code.
    pub fn is_test_line(&self, line: usize) -> bool {
        self.all_test || self.test_lines.get(line).copied().unwrap_or(false)
    }

    /// Lines outside test code.
    pub fn lines_of_code(&self) -> usize {
        (1..self.line_starts.len()).filter(|line| !self.is_test_line(*line)).count()
    }

    /// Every function that has a body.
    pub fn functions(&self) -> Vec<Function> {
        let found = words(&self.code).filter(|(_, word)| *word == "fn");
        found.filter_map(|(at, _)| self.function_at(at)).collect()
    }

    /// The lines of every block that these words open, such as the `{ … }` of a macro.
    pub fn lines_of_blocks(&self, opening: &str) -> Vec<std::ops::RangeInclusive<usize>> {
        let found = self.code.match_indices(opening).filter_map(|(at, _)| {
            let open = at + self.code[at..].find('{')?;
            Some(self.line_of(at)..=self.line_of(closing(&self.code, open)))
        });
        found.collect()
    }

    /// Inline modules (`mod name { … }`) that enclose the offset, outermost first.
    pub fn modules_around(&self, offset: usize) -> Vec<&str> {
        let code = &self.code;
        let inline = words(code).filter(|(_, word)| *word == "mod").filter_map(|(at, _)| {
            let (name_at, name) = words(&code[at + 3..]).next()?;
            let open = at + 3 + name_at + name.len();
            let open = open + code[open..].find(|c: char| !c.is_whitespace())?;
            let inside = code[open..].starts_with('{') && (open..closing(code, open)).contains(&offset);
            inside.then_some(name)
        });
        inline.collect()
    }

    fn function_at(&self, at: usize) -> Option<Function> {
        let (_, name) = words(&self.code[at + 2..]).next()?;
        // `fn(u8)` is a type, not a function.
        if self.code[at + 2..].trim_start().starts_with('(') {
            return None;
        }
        let open = body_or_end(&self.code, at)?;
        if !self.code[open..].starts_with('{') {
            return None;
        }
        let line = self.line_of(at);
        let length = self.line_of(closing(&self.code, open)) - line + 1;
        Some(Function { name: name.to_string(), line, length })
    }

    fn blank(&mut self, text: &str) {
        let mut code = text.as_bytes().to_vec();
        let mut at = 0;
        while at < text.len() {
            let Some(piece) = piece_at(text.as_bytes(), at) else {
                at += 1;
                continue;
            };
            for byte in &mut code[piece.inside.clone()] {
                if *byte != b'\n' {
                    *byte = b' ';
                }
            }
            let found = Text { line: self.line_of(at), text: text[piece.inside.clone()].to_string() };
            match piece.kind {
                Kind::Comment => self.comments.push(found),
                Kind::Literal => self.literals.push(found),
                Kind::Char => {}
            }
            at = piece.end;
        }
        self.code = String::from_utf8_lossy(&code).into_owned();
    }

    fn find_tests(&mut self, text: &str) {
        let marks: Vec<usize> = self.code.match_indices('#').map(|(at, _)| at).collect();
        for mark in marks {
            let Some(attribute) = attribute_at(&self.code, mark) else {
                continue;
            };
            if !attribute.means_test(&self.code) {
                continue;
            }
            if attribute.inner {
                self.all_test = true;
                continue;
            }
            let item = item_after(&self.code, attribute.end);
            let words: Vec<&str> = words(&self.code[item.clone()]).map(|(_, word)| word).collect();
            if let (Some(at), true) = (
                words.iter().position(|word| *word == "mod"),
                self.code[item.clone()].trim_end().ends_with(';'),
            ) {
                self.test_modules.extend(words.get(at + 1).map(ToString::to_string));
            }
            self.mark_tests(text, mark, item.end);
        }
    }

    /// Marks the item's lines, and the comments and attributes that stand right above it.
    fn mark_tests(&mut self, text: &str, start: usize, end: usize) {
        let (mut first, last) = (self.line_of(start), self.line_of(end.saturating_sub(1)));
        let lines: Vec<&str> = text.lines().collect();
        let belongs = |line: &str| line.trim_start().starts_with("//") || line.trim_start().starts_with("#[");
        while first > 1 && belongs(lines[first - 2]) {
            first -= 1;
        }
        for line in first..=last {
            self.test_lines[line] = true;
        }
    }
}

enum Kind {
    Comment,
    Literal,
    Char,
}

struct Piece {
    kind: Kind,
    inside: Range<usize>,
    end: usize,
}

/// The comment, string or character that starts at `at`, if one does.
fn piece_at(text: &[u8], at: usize) -> Option<Piece> {
    let rest = &text[at..];
    match rest {
        [b'/', b'/', ..] => {
            let end = at + rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
            Some(Piece { kind: Kind::Comment, inside: at + 2..end, end })
        }
        [b'/', b'*', ..] => Some(block_comment(text, at)),
        [b'"', ..] => Some(string(text, at)),
        [b'r', b'"' | b'#', ..] if !continues_word(text, at) => raw_string(text, at),
        [b'\'', ..] => character(text, at),
        _ => None,
    }
}

/// Whether the byte before `at` makes it part of a longer word; `br"` and `cr"` do not count.
fn continues_word(text: &[u8], at: usize) -> bool {
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    match at.checked_sub(1).map(|before| text[before]) {
        Some(b'b' | b'c') => at >= 2 && is_word(text[at - 2]),
        Some(before) => is_word(before),
        None => false,
    }
}

fn block_comment(text: &[u8], at: usize) -> Piece {
    let mut depth = 1;
    let mut end = at + 2;
    while end < text.len() && depth > 0 {
        match &text[end..] {
            [b'/', b'*', ..] => (depth, end) = (depth + 1, end + 2),
            [b'*', b'/', ..] => (depth, end) = (depth - 1, end + 2),
            _ => end += 1,
        }
    }
    let inside = at + 2..if depth == 0 { end - 2 } else { end };
    Piece { kind: Kind::Comment, inside, end }
}

fn string(text: &[u8], at: usize) -> Piece {
    let mut end = at + 1;
    while end < text.len() && text[end] != b'"' {
        end += if text[end] == b'\\' { 2 } else { 1 };
    }
    let close = end.min(text.len());
    Piece { kind: Kind::Literal, inside: at + 1..close, end: (close + 1).min(text.len()) }
}

fn raw_string(text: &[u8], at: usize) -> Option<Piece> {
    let hashes = text[at + 1..].iter().take_while(|b| **b == b'#').count();
    let open = at + 1 + hashes;
    if text.get(open) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.resize(hashes + 1, b'#');
    let length = text[open + 1..].windows(close.len()).position(|window| window == close);
    let end = length.map_or(text.len(), |length| open + 1 + length);
    let after = (end + close.len()).min(text.len());
    Some(Piece { kind: Kind::Literal, inside: open + 1..end, end: after })
}

/// A character literal; a lifetime is none.
fn character(text: &[u8], at: usize) -> Option<Piece> {
    let rest = &text[at + 1..];
    let length = match rest.first()? {
        b'\\' => 2 + rest.get(2..)?.iter().position(|b| *b == b'\'')?,
        b'\'' => return None,
        _ => {
            let length = 1 + rest[1..].iter().take_while(|b| **b & 0xC0 == 0x80).count();
            (rest.get(length) == Some(&b'\'')).then_some(length)?
        }
    };
    Some(Piece { kind: Kind::Char, inside: at + 1..at + 1 + length, end: at + 2 + length })
}

struct Attribute {
    inner: bool,
    inside: Range<usize>,
    end: usize,
}

impl Attribute {
    /// `#[test]`, `#[any::test(…)]`, `#[cfg(test)]`, `#[cfg(all(test, …))]`; not `any(test, …)`,
    /// which also ships.
    fn means_test(&self, code: &str) -> bool {
        let said: String = code[self.inside.clone()].split_whitespace().collect();
        let path = said.split('(').next().unwrap_or_default();
        path == "test" || path.ends_with("::test") || said == "cfg(test)" || said.starts_with("cfg(all(test,")
    }
}

fn attribute_at(code: &str, at: usize) -> Option<Attribute> {
    let rest = code[at..].strip_prefix('#')?;
    let inner = rest.starts_with('!');
    let open = at + 1 + usize::from(inner);
    if !code[open..].starts_with('[') {
        return None;
    }
    let close = closing(code, open);
    Some(Attribute { inner, inside: open + 1..close, end: (close + 1).min(code.len()) })
}

/// The item that follows an attribute, further attributes included.
fn item_after(code: &str, from: usize) -> Range<usize> {
    let mut start = from;
    loop {
        start += code[start..].len() - code[start..].trim_start().len();
        match attribute_at(code, start) {
            Some(attribute) => start = attribute.end,
            None => break,
        }
    }
    let end = match body_or_end(code, start) {
        Some(open) if code[open..].starts_with('{') => closing(code, open) + 1,
        Some(end) => end + 1,
        None => code.len(),
    };
    start..end.min(code.len())
}

/// Offset of the first `{` or `;` outside parentheses and brackets.
fn body_or_end(code: &str, from: usize) -> Option<usize> {
    let mut depth = 0_i32;
    for (at, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b'{' | b';' if depth <= 0 => return Some(at),
            _ => {}
        }
    }
    None
}

/// Offset of the bracket that closes the one at `open`, or the end of the code.
fn closing(code: &str, open: usize) -> usize {
    let mut depth = 0_i32;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    code.len()
}

/// Words (identifiers, keywords, numbers) with their offsets.
pub fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut at = 0;
    std::iter::from_fn(move || {
        at += code[at..].find(is_word)?;
        let length = code[at..].find(|c| !is_word(c)).unwrap_or(code.len() - at);
        let word = (at, &code[at..at + length]);
        at += length;
        Some(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_and_comments_are_set_apart() {
        let text = r##"let a = "one // {"; // two "x"
let b = r#"thr"ee"#; /* four /* five */ */ let c = '"'; let d: &'static str = b"six\"";"##;
        let source = Source::read(text);
        let said: Vec<&str> = source.literals.iter().map(|l| l.text.as_str()).collect();
        assert_eq!(said, ["one // {", "thr\"ee", "six\\\""]);
        assert_eq!(source.comments.len(), 2);
        assert_eq!(source.comments[1].line, 2);
        assert_eq!(source.code.len(), text.len());
        assert!(!source.code.contains("two") && !source.code.contains('{'));
        assert!(source.code.contains("&'static str"));
    }

    #[test]
    fn a_literal_that_is_not_ascii_keeps_the_offsets() {
        let source = Source::read("let a = 'é'; let b = \"→ ü\"; x.unwrap()");
        assert_eq!(source.literals[0].text, "→ ü");
        assert!(source.code.ends_with("x.unwrap()"));
    }

    #[test]
    fn functions_are_measured_from_fn_to_brace() {
        let source = Source::read("type F = fn(u8);\npub fn a<T>(x: [u8; 3])\nwhere T: X\n{\n}\nfn b();\n");
        let found: Vec<_> = source.functions().into_iter().map(|f| (f.name, f.line, f.length)).collect();
        assert_eq!(found, [("a".to_string(), 2, 4)]);
    }

    #[test]
    fn test_code_is_known() {
        let text = "fn a() {}\n\n/// a\n#[test]\n#[ignore]\nfn t() {\n}\nfn b() {}\n#[cfg(test)]\nmod x;\n\
                    #[cfg(any(test, y))]\nfn c() {}\n";
        let source = Source::read(text);
        let lines: Vec<usize> = (1..=12).filter(|line| source.is_test_line(*line)).collect();
        assert_eq!(lines, [3, 4, 5, 6, 7, 9, 10]);
        assert_eq!(source.test_modules, ["x"]);
    }

    #[test]
    fn inline_modules_are_known() {
        let text = "mod a { mod b { here } }\nmod c;\nthere";
        let source = Source::read(text);
        assert_eq!(source.modules_around(text.find("here").unwrap()), ["a", "b"]);
        assert!(source.modules_around(text.find("there").unwrap()).is_empty());
    }
}
