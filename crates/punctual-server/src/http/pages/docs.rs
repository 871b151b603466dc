//! `GET /docs`: the operations on one page that needs nothing but itself.

use crate::auth::Need;
use crate::http::html::page_text;
use crate::http::{Route, openapi};
use axum::http::header::CONTENT_SECURITY_POLICY;
use axum::response::{Html, IntoResponse};
use maud::{DOCTYPE, PreEscaped, html};
use punctual::base::random;

const STYLE: &str = "\
    :root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}\
    body{max-width:60rem;margin:2rem auto;padding:0 1rem}\
    table{border-collapse:collapse;width:100%}\
    th,td{text-align:start;padding:.4rem .6rem;border-bottom:1px solid #8884;vertical-align:top}\
    code{font:.9em ui-monospace,monospace;overflow-wrap:anywhere}\
    .verb{font-weight:600}";

const COLUMNS: [&str; 4] = ["Verb", "Path", "What it does", "Role"];

/// The page.
pub async fn show() -> impl IntoResponse {
    let nonce = random::hex::<16>();
    let policy = format!("default-src 'none'; style-src 'nonce-{nonce}'; frame-ancestors 'none'");
    ([(CONTENT_SECURITY_POLICY, policy)], Html(page(&crate::http::table(), &nonce)))
}

fn page(routes: &[Route], nonce: &str) -> String {
    let listed = routes.iter().filter_map(|route| {
        let operation = openapi::OPERATIONS.iter().find(|operation| operation.route == route.name)?;
        Some((route.method_and_path(), operation.summary, role(route.need)))
    });
    page_text(html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width";
                title { "Punctual: operations" }
                style nonce=(nonce) { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "Operations" }
                p {
                    "Send a key as " code { "Authorization: Bearer KEY" } ". Shapes of requests and answers \
                     are in " a href="/openapi.json" { "openapi.json" } ", which every OpenAPI viewer reads."
                }
                table {
                    thead { tr { @for title in COLUMNS { th scope="col" { (title) } } } }
                    tbody {
                        @for ((method, path), summary, role) in listed {
                            tr {
                                td class="verb" { (method) }
                                td { code { (path) } }
                                td { (summary) }
                                td { (role) }
                            }
                        }
                    }
                }
            }
        }
    })
}

fn role(need: Need) -> &'static str {
    match need {
        Need::Nothing | Need::Probe | Need::Metrics | Need::Private(_) => "-",
        Need::Key(role) => role.word(),
    }
}
