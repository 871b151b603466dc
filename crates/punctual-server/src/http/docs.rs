//! `GET /docs`: the operations on one page that needs nothing but itself.

use super::{Route, openapi};
use crate::auth::Access;
use axum::http::header::CONTENT_SECURITY_POLICY;
use axum::response::{Html, IntoResponse};
use punctual::base::random;
use std::fmt::Write;

const STYLE: &str = "\
    :root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}\
    body{max-width:60rem;margin:2rem auto;padding:0 1rem}\
    table{border-collapse:collapse;width:100%}\
    th,td{text-align:start;padding:.4rem .6rem;border-bottom:1px solid #8884;vertical-align:top}\
    code{font:.9em ui-monospace,monospace;overflow-wrap:anywhere}\
    .verb{font-weight:600}";

/// The page.
pub async fn show() -> impl IntoResponse {
    let nonce = random::hex::<16>();
    let policy = format!("default-src 'none'; style-src 'nonce-{nonce}'; frame-ancestors 'none'");
    ([(CONTENT_SECURITY_POLICY, policy)], Html(page(&super::table(), &nonce)))
}

fn page(routes: &[Route], nonce: &str) -> String {
    let mut rows = String::new();
    for route in routes {
        let Some(operation) = openapi::OPERATIONS.iter().find(|o| o.route == route.name) else {
            continue;
        };
        let (method, path) = route.method_and_path();
        let (summary, role) = (operation.summary, role(route.need));
        let _ =
            writeln!(rows, "<tr><td class=verb>{method}<td><code>{path}</code><td>{summary}<td>{role}</tr>");
    }
    format!(
        "<!doctype html><html lang=en><meta charset=utf-8>\
         <meta name=viewport content=\"width=device-width\"><title>Punctual: operations</title>\
         <style nonce={nonce}>{STYLE}</style><h1>Operations</h1>\
         <p>Send a key as <code>Authorization: Bearer KEY</code>. Shapes of requests and answers are in \
         <a href=\"/openapi.json\">openapi.json</a>, which every OpenAPI viewer reads.</p>\
         <table><thead><tr><th>Verb<th>Path<th>What it does<th>Role</thead>\
         <tbody>\n{rows}</tbody></table></html>"
    )
}

fn role(need: Access) -> &'static str {
    match need {
        Access::Nothing | Access::Probe | Access::Metrics | Access::Private(_) => "-",
        Access::Key(role) => role.word(),
    }
}
