//! Pages as text: `maud` writes and escapes them, and this module finishes them.
//!
//! Promised: no page holds a control character beside the line feed, or a character that changes the reading
//! direction of the text behind it, whoever wrote that text.

use maud::{Markup, html};
use std::fmt;

/// Finishes a page: removes the characters that no page may hold.
pub(crate) fn page_text(page: Markup) -> String {
    let text = page.into_string();
    if !text.contains(|c| is_forbidden_control(c) || is_direction_control(c)) {
        return text;
    }
    let kept = text.chars().filter(|c| !is_direction_control(*c));
    kept.map(|c| if is_forbidden_control(c) { ' ' } else { c }).collect()
}

fn is_forbidden_control(c: char) -> bool {
    c.is_control() && c != '\n'
}

/// Whether a character overrides, embeds or isolates a direction (Unicode's bidirectional algorithm).
const fn is_direction_control(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Writes a value that runs from left to right into a sentence of any direction: a date in an Arabic sentence
/// would otherwise be read backwards.
pub(crate) fn left_to_right(value: impl fmt::Display) -> Markup {
    html! { bdi dir="ltr" { (value) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_markup() {
        let evil = "<a href='x'>\"&\"";
        let page = page_text(html! { p title=(evil) { (evil) (left_to_right("<")) } });
        let escaped = "&lt;a href='x'&gt;&quot;&amp;&quot;";
        assert_eq!(page, format!("<p title=\"{escaped}\">{escaped}<bdi dir=\"ltr\">&lt;</bdi></p>"));
    }

    #[test]
    fn a_page_has_no_characters_that_change_its_direction() {
        assert_eq!(page_text(html! { ("a\u{202e}b\u{0}c\u{2066}\nd") }), "ab c\nd");
    }
}
