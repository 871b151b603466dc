//! Removes secrets and addresses from texts that are kept.
//!
//! Promised: a secret of four characters or more is found as it is, percent-encoded (once or twice, any
//! case of the digits), escaped as in JSON or HTML, in hexadecimal, and within base64 of either alphabet,
//! also when other bytes stand around it there, as a name does in `Basic` credentials. Control characters
//! and marks that turn the direction of text become spaces or are left out, so that a text is safe to
//! show in a terminal. Not promised: a secret that a provider compressed, encrypted or split.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;

/// A secret shorter than this is not looked for in texts: redaction would hide half of them.
const SECRET_CHARS_MIN: usize = 4;
/// Base64 with fewer characters of a secret in it is not taken for one.
const BASE64_CHARS_MIN: usize = 4;
/// Replaces a secret.
pub(crate) const HIDDEN: &str = "•••";

/// The forms in which one secret is looked for.
#[derive(Clone)]
struct SecretForms {
    plain: Vec<u8>,
    hex: Vec<u8>,
    /// Its characters in base64 that do not depend on what stands around it, for each alignment.
    base64: Vec<Vec<u8>>,
}

/// The secrets of one channel.
#[derive(Clone, Default)]
pub(crate) struct Redaction {
    secrets: Vec<SecretForms>,
}

impl Redaction {
    /// Adds a secret, unless it is too short to be looked for.
    pub(crate) fn add(&mut self, secret: &str) {
        // A key in several lines is looked for by its lines: a text that is kept has no line breaks.
        secret.lines().filter(|line| !line.starts_with("-----")).for_each(|line| self.add_line(line.trim()));
        // Longer ones first: one secret may be part of another.
        self.secrets.sort_by_key(|forms| std::cmp::Reverse(forms.plain.len()));
    }

    fn add_line(&mut self, secret: &str) {
        if secret.chars().count() < SECRET_CHARS_MIN {
            return;
        }
        let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
        let base64 = (0..3).map(|offset| base64_core(secret.as_bytes(), offset)).collect();
        self.secrets.push(SecretForms { plain: secret.into(), hex: hex.into(), base64 });
    }

    /// Returns the text without secrets and control characters.
    pub(crate) fn apply(&self, text: &str) -> String {
        let mut text = without_controls(text);
        for forms in &self.secrets {
            text = replace(&text, &forms.plain, HIDDEN, false);
            text = replace(&text, &forms.hex, HIDDEN, true);
            for form in forms.base64.iter().filter(|form| form.len() >= BASE64_CHARS_MIN) {
                text = replace_base64(&text, form);
            }
        }
        text
    }
}

/// Replaces an address, however it is written, in any case of its messages.
#[cfg(any(feature = "http", feature = "smtp"))]
pub(crate) fn replace_address(text: &str, address: &str, with: &str) -> String {
    replace(text, address.as_bytes(), with, true)
}

/// Control characters become spaces; marks that turn the direction of text are left out.
pub(crate) fn without_controls(text: &str) -> String {
    let turns = |c: &char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let plain = |c: char| if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') { ' ' } else { c };
    text.chars().filter(|c| !turns(c)).map(plain).collect()
}

/// The characters of base64 that these bytes alone decide when `offset` other bytes stand before them.
fn base64_core(secret: &[u8], offset: usize) -> Vec<u8> {
    let mut bytes = vec![0; offset];
    bytes.extend_from_slice(secret);
    let whole = STANDARD_NO_PAD.encode(&bytes).into_bytes();
    let first = (offset * 8).div_ceil(6);
    let last = bytes.len() * 8 / 6;
    whole[first.min(last)..last].to_vec()
}

fn replace(text: &str, wanted: &[u8], with: &str, any_case: bool) -> String {
    let same = |a: u8, b: u8| a == b || any_case && a.eq_ignore_ascii_case(&b);
    let bytes = text.as_bytes();
    let begins =
        |byte: u8| wanted.first().is_some_and(|first| same(byte, *first)) || b"%\\&+".contains(&byte);
    let find = |at: usize| find_at(&bytes[at..], wanted, same).map(|taken| at + taken);
    let whole = |at: usize, end: &usize| text.is_char_boundary(at) && text.is_char_boundary(*end);
    let (mut out, mut kept, mut at) = (String::with_capacity(text.len()), 0, 0);
    while at < bytes.len() {
        let found = begins(bytes[at]).then(|| find(at)).flatten().filter(|end| whole(at, end));
        if let Some(end) = found {
            out.push_str(&text[kept..at]);
            out.push_str(with);
            kept = end;
        }
        at = found.unwrap_or(at + 1);
    }
    out.push_str(&text[kept..]);
    out
}

/// Hides every run of base64 that has these characters in it, whole: its neighbours would tell some bits.
fn replace_base64(text: &str, core: &[u8]) -> String {
    let same = |a: u8, b: u8| a == b || matches!((a, b), (b'-', b'+') | (b'_', b'/'));
    let has = |run: &str| (0..run.len()).any(|n| find_at(&run.as_bytes()[n..], core, same).is_some());
    let in_run = |c: char| c.is_ascii_alphanumeric() || "+/-_=%\\".contains(c);
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while !rest.is_empty() {
        let length = rest.find(|c| !in_run(c)).unwrap_or(rest.len());
        let (run, after) = rest.split_at(length);
        out.push_str(if length >= core.len() && has(run) { HIDDEN } else { run });
        let length = after.find(in_run).unwrap_or(after.len());
        out.push_str(&after[..length]);
        rest = &after[length..];
    }
    out
}

/// How many bytes of the text are the wanted ones, each as it is or escaped, if it begins with them.
fn find_at(text: &[u8], wanted: &[u8], same: impl Fn(u8, u8) -> bool) -> Option<usize> {
    let mut at = 0;
    for want in wanted {
        at += unit(text.get(at..)?, *want, &same)?;
    }
    (at > 0).then_some(at)
}

/// The length of one byte of the text, if it is the wanted one in some form.
fn unit(text: &[u8], want: u8, same: &impl Fn(u8, u8) -> bool) -> Option<usize> {
    let first = *text.first()?;
    let forms = match first {
        b'%' => [percent_twice(text), percent(text)],
        b'\\' => [json(text), None],
        b'&' => [html(text), None],
        b'+' => [Some((b' ', 1)), None],
        _ => [None, None],
    };
    let forms = forms.into_iter().flatten().chain([(first, 1)]);
    forms.into_iter().find(|(byte, _)| same(*byte, want)).map(|(_, length)| length)
}

/// `%2B`.
fn percent(text: &[u8]) -> Option<(u8, usize)> {
    Some((hex(text.get(1..3)?)?, 3))
}

/// `%252B`.
fn percent_twice(text: &[u8]) -> Option<(u8, usize)> {
    let rest = text.strip_prefix(b"%25")?;
    Some((hex(rest.get(..2)?)?, 5))
}

/// `\/` and `\u002f`, also in JSON within JSON, where a backslash is two.
fn json(text: &[u8]) -> Option<(u8, usize)> {
    let slashes = text.iter().take_while(|byte| **byte == b'\\').count();
    match text.get(slashes) {
        Some(b'u') if text.get(slashes + 1..slashes + 3)? == b"00" => {
            Some((hex(text.get(slashes + 3..slashes + 5)?)?, slashes + 5))
        }
        Some(c @ (b'"' | b'/')) => Some((*c, slashes + 1)),
        _ => (slashes > 1).then_some((b'\\', 2)),
    }
}

/// `&amp;`, and what else HTML escapes.
fn html(text: &[u8]) -> Option<(u8, usize)> {
    let known: [(&[u8], u8); 6] = [
        (b"&amp;", b'&'),
        (b"&lt;", b'<'),
        (b"&gt;", b'>'),
        (b"&quot;", b'"'),
        (b"&#39;", b'\''),
        (b"&#x27;", b'\''),
    ];
    known.iter().find(|(word, _)| text.starts_with(word)).map(|(word, byte)| (*byte, word.len()))
}

fn hex(digits: &[u8]) -> Option<u8> {
    let text = std::str::from_utf8(digits).ok()?;
    let plain = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    plain.then(|| u8::from_str_radix(text, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "s3cr+t/\"&=t0k3n ü";

    fn redacted(text: &str) -> String {
        let mut redaction = Redaction::default();
        redaction.add(SECRET);
        redaction.apply(text)
    }

    /// A secret is hidden in every encoding that a provider may echo it in.
    #[test]
    fn a_secret_is_hidden_in_every_encoding() {
        let percent: String = SECRET.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let form = form_urlencoded::byte_serialize(SECRET.as_bytes()).collect::<String>();
        let hex: String = SECRET.bytes().map(|byte| format!("{byte:02X}")).collect();
        let json = serde_json::Value::from(SECRET).to_string().trim_matches('"').to_owned();
        let mut forms = vec![
            SECRET.to_owned(),
            percent.to_uppercase(),
            percent.replace('%', "%25"),
            percent,
            form,
            hex.to_lowercase(),
            hex,
            json.replace('/', "\\/"),
            json.replace('\\', "\\\\"),
            SECRET.replace('t', "\\u0074"),
            SECRET.replace('&', "&amp;").replace('"', "&quot;"),
        ];
        for around in ["", "u", "us", "user:", "\0user\0"] {
            let bytes = format!("{around}{SECRET}{around}");
            forms.push(base64::engine::general_purpose::STANDARD.encode(&bytes));
            forms.push(base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(&bytes));
            forms.push(STANDARD_NO_PAD.encode(&bytes).replace('+', "%2B").replace('/', "\\/"));
        }
        for form in forms {
            let said = redacted(&format!("bad `{form}`!"));
            assert_eq!(said, "bad `•••`!", "{form}");
        }
    }

    #[test]
    fn what_is_no_secret_stays() {
        for text in
            ["", "Basic authentication failed: bad user", "dXNlcjpwYXNzd29yZA==", "100 % of \\u00e4 &amp;"]
        {
            assert_eq!(redacted(text), text);
        }
    }

    #[test]
    fn controls_do_not_reach_a_terminal() {
        assert_eq!(redacted("a\u{1b}[31mb\u{9b}1m\u{7}c\r\n\u{202e}d\u{2066}e"), "a [31mb 1m c  de");
    }

    #[test]
    fn addresses_are_found_in_any_form() {
        let said = replace_address("to A%40Example.com, a&#64;x", "a@example.com", "•••");
        assert_eq!(said, "to •••, a&#64;x");
    }
}
