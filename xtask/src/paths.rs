//! The paths a Rust file names (`a::b::c`), with `use` trees spread out and short names
//! followed back to their import, so that `time::sleep` after `use tokio::time` is seen as
//! `tokio::time::sleep`. Imports count for the whole file; shadowing is not followed.

use std::collections::HashMap;

use crate::source::Source;

/// One path and where it stands.
pub struct Named {
    /// Line, from 1.
    pub line: usize,
    /// Offset of its first segment.
    pub offset: usize,
    /// Segments; a glob ends in `*`.
    pub segments: Vec<String>,
}

impl Named {
    /// As written in Rust.
    pub fn text(&self) -> String {
        self.segments.join("::")
    }

    /// Whether these segments stand in the path one after the other.
    pub fn contains(&self, wanted: &[&str]) -> bool {
        self.segments.windows(wanted.len()).any(|window| window == wanted)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Token<'a> {
    Word(&'a str),
    Sep,
    Mark(u8),
}

/// Every path of two segments or more, and every import.
pub fn named(source: &Source) -> Vec<Named> {
    let tokens = tokens(&source.code);
    let mut found: Vec<(usize, Vec<String>)> = Vec::new();
    let mut short: HashMap<String, Vec<String>> = HashMap::new();
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at].1 == Token::Word("use") && starts_use(&tokens, at) {
            let mut tree = UseTree { tokens: &tokens, at: at + 1, found: Vec::new() };
            tree.read(&[]);
            at = tree.at;
            for import in tree.found {
                short.insert(import.name, import.segments.clone());
                found.push((import.offset, import.segments));
            }
        } else {
            let (path, next) = path_at(&tokens, at);
            if path.len() > 1 {
                found.push((tokens[at].0, path));
            }
            at = next;
        }
    }
    let spread = found.into_iter().map(|(offset, segments)| Named {
        line: source.line_of(offset),
        offset,
        segments: followed(segments, &short),
    });
    spread.collect()
}

/// `use` opens a declaration unless it is the capture list `impl Trait + use<'a>`.
fn starts_use(tokens: &[(usize, Token<'_>)], at: usize) -> bool {
    !matches!(tokens.get(at + 1), Some((_, Token::Mark(b'<'))))
}

fn followed(segments: Vec<String>, short: &HashMap<String, Vec<String>>) -> Vec<String> {
    match short.get(&segments[0]) {
        Some(full) if full[0] != segments[0] => [full, &segments[1..]].concat(),
        _ => segments,
    }
}

/// The path that starts at a token, and the token after it.
fn path_at(tokens: &[(usize, Token<'_>)], from: usize) -> (Vec<String>, usize) {
    let mut path = Vec::new();
    let mut at = from;
    while let Some((_, Token::Word(word))) = tokens.get(at) {
        path.push(word.to_string());
        at += 1;
        match tokens.get(at..at + 2) {
            Some([(_, Token::Sep), (_, Token::Word(_))]) => at += 1,
            _ => break,
        }
    }
    (path, at.max(from + 1))
}

struct Import {
    offset: usize,
    segments: Vec<String>,
    name: String,
}

struct UseTree<'a> {
    tokens: &'a [(usize, Token<'a>)],
    at: usize,
    found: Vec<Import>,
}

impl UseTree<'_> {
    fn read(&mut self, before: &[String]) {
        let mut path = before.to_vec();
        let offset = self.tokens.get(self.at).map_or(0, |(offset, _)| *offset);
        while let Some((_, token)) = self.tokens.get(self.at).copied() {
            self.at += 1;
            match token {
                Token::Sep => {}
                Token::Word("as") => {
                    if let Some((_, Token::Word(name))) = self.tokens.get(self.at).copied() {
                        self.at += 1;
                        return self.add(offset, path, Some(name));
                    }
                }
                // `{self, …}` is the path so far; a leading `self::` is a segment.
                Token::Word("self") if !path.is_empty() => {}
                Token::Word(word) => path.push(word.to_string()),
                Token::Mark(b'*') => path.push("*".to_string()),
                Token::Mark(b'{') => return self.read_group(&path),
                Token::Mark(_) => {
                    self.at -= 1;
                    return self.add(offset, path, None);
                }
            }
        }
    }

    fn read_group(&mut self, path: &[String]) {
        while let Some((_, token)) = self.tokens.get(self.at) {
            match token {
                Token::Mark(b'}') => {
                    self.at += 1;
                    return;
                }
                Token::Mark(b',') => self.at += 1,
                Token::Mark(b';') => return,
                _ => self.read(path),
            }
        }
    }

    fn add(&mut self, offset: usize, segments: Vec<String>, name: Option<&str>) {
        if let Some(last) = segments.last() {
            let name = name.unwrap_or(last).to_string();
            self.found.push(Import { offset, segments, name });
        }
    }
}

fn tokens(code: &str) -> Vec<(usize, Token<'_>)> {
    let bytes = code.as_bytes();
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b >= 0x80;
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let length = if is_word(bytes[at]) {
            let length = bytes[at..].iter().take_while(|b| is_word(**b)).count();
            tokens.push((at, Token::Word(&code[at..at + length])));
            length
        } else if bytes[at..].starts_with(b"::") {
            tokens.push((at, Token::Sep));
            2
        } else {
            if !bytes[at].is_ascii_whitespace() {
                tokens.push((at, Token::Mark(bytes[at])));
            }
            1
        };
        at += length;
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(code: &str, want: &[&str]) {
        let found: Vec<String> = named(&Source::read(code)).iter().map(Named::text).collect();
        assert_eq!(found, want, "{code}");
    }

    #[test]
    fn use_trees_are_spread_out() {
        check("use a::b;", &["a::b"]);
        check("pub(crate) use a::{b, c::{self, d as e}, f::*};", &["a::b", "a::c", "a::c::d", "a::f::*"]);
        check("use {a::b, ::c::d};", &["a::b", "c::d"]);
        check("use tokio;", &["tokio"]);
        check("use super::super::x;", &["super::super::x"]);
        check("use self::x::Y;", &["self::x::Y"]);
    }

    #[test]
    fn short_names_are_followed() {
        check("use tokio::time; fn f() { time::sleep(x) }", &["tokio::time", "tokio::time::sleep"]);
        check("use std::thread as t; t::sleep()", &["std::thread", "std::thread::sleep"]);
        check("use a::{self, b}; a::c()", &["a", "a::b", "a::c"]);
    }

    #[test]
    fn paths_in_code_are_found() {
        check(
            "fn f() -> crate::store::Work { $crate::run::go::<u8>() }",
            &["crate::store::Work", "crate::run::go"],
        );
        check("#[tokio::test] fn f() -> impl X + use<'a> { \"a::b\" } // c::d", &["tokio::test"]);
    }

    #[test]
    fn a_run_of_segments_is_found() {
        let path = &named(&Source::read("std::time::SystemTime::now()"))[0];
        assert!(path.contains(&["SystemTime", "now"]));
        assert!(!path.contains(&["time", "now"]));
    }
}
