//! The layout of the operators' pages.

use crate::http::html::page_text;
use maud::{DOCTYPE, Markup, html};

/// Renders a page around `body`, with `head` at the end of its head.
pub(super) fn document(title: &str, head: Markup, body: Markup) -> String {
    page_text(html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                link rel="icon" href="data:,";
                link rel="stylesheet" href="/status.css";
                (head)
            }
            body { (body) }
        }
    })
}

/// Makes a page load itself again: by its script, or without scripts by the browser.
pub(super) fn reload() -> Markup {
    html! {
        noscript { meta http-equiv="refresh" content="5"; }
        script src="/status.js" defer {}
    }
}

/// Adds the style of a list of messages.
pub(super) fn message_style() -> Markup {
    html! { link rel="stylesheet" href="/dev/inbox.css"; }
}

/// Renders the page for a caller without a key.
pub(super) fn render_sign_in() -> String {
    let body = html! {
        main {
            h1 { "Punctual" }
            p {
                "This page needs a key: the root key, or one with the role " code { "ops" } ". Give it as \
                 the password (any name will do), or send " code { "Authorization: Bearer KEY" } "."
            }
        }
    };
    document("A key is needed - Punctual", Markup::default(), body)
}

/// Renders the page for a database that does not answer.
pub(super) fn render_trouble(error: &str) -> String {
    let body = html! {
        main {
            h1 { "Punctual" }
            p class="bad" role="status" { (error) }
            p { "This page looks again by itself." }
        }
    };
    document("Trouble - Punctual", reload(), body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_stays_text() {
        let page = render_trouble("<b>\u{202e}no");
        assert!(page.contains(">&lt;b&gt;no<"), "{page}");
    }
}
