//! What a server shows without a key, and to whom.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "test code")]

use super::process::{Place, Run, Serving};

const FREE_PORT: &str = "127.0.0.1:0";
const KEY: &str = "a-root-key-of-more-than-32-characters";
const PAGES: [&str; 3] = ["/", "/metrics", "/health"];

fn serve(place: &Place, arguments: &[&str]) -> Serving {
    let base = ["serve", "--database", "sqlite::memory:", "--listen", FREE_PORT];
    place.command(&[&base, arguments].concat()).env("PUNCTUAL_ROOT_KEY", KEY).serve()
}

/// PRD-14: whoever configures a public address or a proxy shows operators' pages only for a key, while
/// probes are answered; and without such settings a request that a proxy passed on needs one, too.
#[test]
fn prd_14_behind_a_proxy_pages_and_metrics_need_a_key() {
    let place = Place::new();
    let public = place.file("public.toml", "[public]\nurl = \"https://notify.example\"\n");
    let trusting = place.file("trusting.toml", "[public]\ntrust_forwarded_for = true\n");
    let own_page = "https://notify.example/s/{publicId}";
    let authorized = format!("authorization: Bearer {KEY}\r\n");
    let proxied: [&[&str]; 3] =
        [&["--config", &public], &["--config", &trusting], &["--survey-url", own_page]];
    for arguments in proxied {
        let serving = serve(&place, arguments);
        for page in PAGES {
            assert_eq!(serving.get(page, "").0, 401, "{page} with {arguments:?}");
            assert_eq!(serving.get(page, &authorized).0, 200, "{page} with {arguments:?}");
        }
        assert_eq!(serving.get("/health/live", "").0, 200, "{arguments:?}");
    }
    let serving = serve(&place, &[]);
    for page in PAGES {
        assert_eq!(serving.get(page, "").0, 200, "{page}");
        for header in ["x-forwarded-for: 1.2.3.4", "forwarded: for=1.2.3.4", "x-real-ip: 1.2.3.4"] {
            assert_eq!(serving.get(page, &format!("{header}\r\n")).0, 401, "{page} with {header}");
        }
        assert_eq!(serving.get(page, "host: evil.example\r\n").0, 401, "{page} of a foreign host");
    }
    // A key is enough for the API, whatever name the proxy gives the server.
    let named = format!("host: notify.example\r\n{authorized}");
    assert_eq!(serving.get("/api/queues", &named).0, 200);
}

/// PRD-15, PRD-17: a foreign page whose name leads to this machine reaches neither the demo nor a server on
/// a manual clock.
#[test]
fn prd_15_a_foreign_host_is_refused_in_demo_and_manual_clock_mode() {
    let place = Place::new();
    let manual = serve(&place, &["--clock", "manual"]);
    let demo = place.command(&["demo", "--listen", FREE_PORT]).serve();
    for serving in [manual, demo] {
        for page in ["/", "/metrics", "/health", "/dev/inbox", "/demo/providers.json", "/api/queues", "/docs"]
        {
            let (status, answer) = serving.get(page, "host: evil.example:8080\r\n");
            assert_eq!(status, 421, "{page}: {answer}");
            assert!(answer.contains("application/problem+json") && answer.contains("public.url"), "{answer}");
        }
        assert_eq!(serving.get("/", "host: localhost:1\r\n").0, 200);
        assert_eq!(serving.get("http://evil.example/", "").0, 421);
    }
    let demo = place.command(&["demo", "--listen", FREE_PORT]).serve();
    for page in ["/", "/dev/inbox", "/demo/providers", "/demo/providers.json"] {
        assert_eq!(demo.get(page, "").0, 200, "{page}");
        assert_eq!(demo.get(page, "x-forwarded-for: 1.2.3.4\r\n").0, 401, "{page} through a proxy");
    }
}
