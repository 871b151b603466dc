//! The frame of every page, and the one way text gets into it.

/// Text that cannot become markup.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    escape_into(text, &mut out);
    out
}

/// Writes text that cannot become markup.
pub(crate) fn escape_into(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // What no HTML may hold, and what turns the reading direction of all that follows.
            c if c.is_control() && c != '\n' => out.push(' '),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
            c => out.push(c),
        }
    }
}

/// What the head of a page needs that looks again by itself.
pub(super) const LIVE: &str = "<noscript><meta http-equiv=\"refresh\" content=\"5\"></noscript>\
    <script src=\"/status.js\" defer></script>";

/// A whole page around `main`, with something `more` in its head.
pub(super) fn frame(title: &str, main: &str, more: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{}</title>\n<link rel=\"icon\" href=\"data:,\">\n\
         <link rel=\"stylesheet\" href=\"/status.css\">\n{more}\n</head>\n\
         <body>\n{main}\n</body>\n</html>\n",
        escape(title)
    )
}

/// A page for somebody without a key.
pub(super) fn refusal() -> String {
    let main = "<main><h1>Punctual</h1><p>This page needs a key: the root key, or one with the role \
        <code>ops</code>. Give it as the password (any name will do), or send \
        <code>Authorization: Bearer KEY</code>.</p></main>";
    frame("A key is needed - Punctual", main, "")
}

/// A page for a database that does not answer.
pub(super) fn trouble(said: &str) -> String {
    let main = format!(
        "<main><h1>Punctual</h1><p class=\"bad\" role=\"status\">{}</p>\
         <p>This page looks again by itself.</p></main>",
        escape(said)
    );
    frame("Trouble - Punctual", &main, LIVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_markup() {
        assert_eq!(escape("<a href='x'>\"&\""), "&lt;a href=&#39;x&#39;&gt;&quot;&amp;&quot;");
        assert_eq!(escape("a\u{202e}b\u{0}c"), "ab c");
        assert!(!trouble("<script>").contains("<script>"));
    }
}
