//! The one way anything gets onto a page: words of our own as they are, everybody else's escaped.
//!
//! [`Markup::raw`] takes only texts that stand in this program, so an answer, a title or a locale
//! cannot become markup, whoever wrote it.

use crate::http::pages::html;
use std::fmt::{self, Write};

/// A page that is being written.
#[derive(Debug)]
pub struct Markup(String);

impl Markup {
    /// An empty page with room for `bytes`.
    pub fn with_room(bytes: usize) -> Self {
        Self(String::with_capacity(bytes))
    }

    /// Markup of our own.
    pub fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Markup of our own, if.
    pub fn raw_if(&mut self, holds: bool, markup: &'static str) -> &mut Self {
        if holds { self.raw(markup) } else { self }
    }

    /// A text of anybody's, fit for an element or a quoted attribute.
    pub fn text(&mut self, text: &str) -> &mut Self {
        html::escape_into(text, &mut self.0);
        self
    }

    /// Anything that can be written, as text.
    pub fn show(&mut self, value: impl fmt::Display) -> &mut Self {
        // Writing into a string does not fail.
        let _ = write!(Escaping(&mut self.0), "{value}");
        self
    }

    /// A sentence of ours with `value` in the place of `{}`. A date in an Arabic sentence would
    /// otherwise be read backwards.
    pub fn fill(&mut self, sentence: &'static str, value: impl fmt::Display) -> &mut Self {
        let Some((before, after)) = sentence.split_once("{}") else { return self.text(sentence) };
        self.text(before).raw("<bdi dir=\"ltr\">").show(value).raw("</bdi>").text(after)
    }

    /// The page.
    pub fn into_text(self) -> String {
        self.0
    }
}

struct Escaping<'a>(&'a mut String);

impl Write for Escaping<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        html::escape_into(text, self.0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_words_are_markup() {
        let mut page = Markup::with_room(0);
        page.raw("<p title=\"").text("\"><script>").raw("\">").show("<b>").fill("at least {}!", '<');
        page.raw_if(false, "<hr>").raw_if(true, "</p>");
        assert_eq!(
            page.into_text(),
            "<p title=\"&quot;&gt;&lt;script&gt;\">&lt;b&gt;at least <bdi dir=\"ltr\">&lt;</bdi>!</p>"
        );
    }
}
