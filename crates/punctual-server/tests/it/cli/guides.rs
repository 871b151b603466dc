//! The shell blocks of the guides, pasted in their order.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "test code")]

use super::process::Place;
use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a paste has around it: a request that is refused, claims nothing or settles nothing ends the script,
/// and everything that was started ends with it.
const BEFORE: &str = r#"
set -euo pipefail
trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT
curl() {
  local said
  said=$(command curl --silent --show-error --fail-with-body "$@") || { echo "$said"; return 1; }
  printf '%s\n' "$said"
  ! grep -q '"outcome":"\(LostClaim\|NotFound\)"\|^{"items":\[\]}$' <<<"$said"
}
"#;

/// Waits until the server that a block has started listens.
const READY: &str = r#"
for _ in $(seq 600); do
  if command curl --silent --fail "localhost:8080/health/ready" >/dev/null; then break; fi
  sleep 0.1
done
"#;

/// What guides take from the guide to HTTP that start no server of their own.
const SERVER: &str = r#"
export PUNCTUAL_ROOT_KEY=$(openssl rand -hex 32) PUNCTUAL_DATABASE=sqlite:shop.db
punctual serve &
auth="Authorization: Bearer $PUNCTUAL_ROOT_KEY"
"#;

/// How blocks begin that build things: other tests run these commands.
const BUILDS: [&str; 3] = ["./run", "cargo tree", "cargo build"];

/// Texts with a test of their own.
const STARTING: [&str; 4] =
    ["README.md", "docs/guide/http.md", "docs/guide/consent.md", "docs/guide/booking.md"];
/// Guides to what is sent, and when.
const SENDING: [&str; 4] =
    ["docs/guide/jobs.md", "docs/guide/timers.md", "docs/guide/templates.md", "docs/guide/notifications.md"];
/// Guides to where messages go.
const ROUTING: [&str; 3] = ["docs/guide/queues.md", "docs/guide/subscriptions.md", "docs/guide/surveys.md"];
/// Guides to what stands beside the queues.
const STAGING: [&str; 4] =
    ["docs/guide/time-travel.md", "docs/guide/inbox.md", "docs/guide/leases.md", "docs/guide/operations.md"];

/// The blocks of a Markdown text that are marked as shell.
fn shell_blocks(text: &str) -> Vec<&str> {
    text.split("```sh\n").skip(1).map(|rest| rest.split("\n```").next().unwrap()).collect()
}

/// Whether a block starts a server.
fn starts_server(block: &str) -> bool {
    block.contains("serve ") || block.contains("serve\n")
}

/// The whole guide as one script, on a port of its own.
fn script(text: &str, port: u16) -> String {
    let mut script = BEFORE.to_owned();
    if !shell_blocks(text).into_iter().any(starts_server) {
        script.extend([SERVER, READY]);
    }
    let builds = |block: &&str| BUILDS.iter().any(|command| block.starts_with(command));
    for block in shell_blocks(text).into_iter().filter(|block| !builds(block)) {
        script.push_str(block);
        script.push('\n');
        if starts_server(block) {
            script.push_str(READY);
        }
    }
    let script = script.replace("cargo run --release -p punctual-server --", "punctual");
    script.replace("localhost:8080", &format!("localhost:{port}"))
}

/// Where the repository is.
fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The README and all guides.
fn texts() -> Vec<String> {
    let guides = std::fs::read_dir(repository().join("docs/guide")).unwrap();
    let guides = guides.map(|guide| format!("docs/guide/{}", guide.unwrap().file_name().display()));
    guides.chain(["README.md".to_owned()]).collect()
}

/// Pastes a guide into a shell of its own, in a folder that has the repository's `docs`.
fn paste(name: &str) {
    let place = Place::new();
    let text = std::fs::read_to_string(repository().join(name)).unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let file = place.file("paste.sh", &script(&text, free));
    std::os::unix::fs::symlink(repository().join("docs"), Path::new(&file).with_file_name("docs")).unwrap();
    let binaries = Path::new(env!("CARGO_BIN_EXE_punctual")).parent().unwrap();
    let output = Command::new("bash")
        .arg(&file)
        .current_dir(Path::new(&file).parent().unwrap())
        .env("PATH", format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap()))
        .env("PUNCTUAL_LISTEN", format!("127.0.0.1:{free}"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{name}: {said}\n{}", String::from_utf8_lossy(&output.stderr));
}

/// PRD-9
#[test]
fn prd_9_the_readme_can_be_pasted() {
    paste("README.md");
}

/// PRD-9
#[test]
fn prd_9_the_guide_to_http_can_be_pasted() {
    paste("docs/guide/http.md");
}

/// PRD-9
#[test]
fn prd_9_the_guide_to_consent_can_be_pasted() {
    paste("docs/guide/consent.md");
}

/// PRD-9
#[test]
fn prd_9_the_guide_to_a_booking_can_be_pasted() {
    paste("docs/guide/booking.md");
}

/// PRD-9
#[test]
fn prd_9_the_guides_to_jobs_timers_templates_and_notifications_can_be_pasted() {
    SENDING.into_iter().for_each(paste);
}

/// PRD-9
#[test]
fn prd_9_the_guides_to_queues_subscriptions_and_surveys_can_be_pasted() {
    ROUTING.into_iter().for_each(paste);
}

/// PRD-9
#[test]
fn prd_9_the_guides_to_time_travel_the_inbox_leases_and_operations_can_be_pasted() {
    STAGING.into_iter().for_each(paste);
}

/// PRD-9: no guide has a Rust block that is not compiled.
#[test]
fn prd_9_every_rust_block_is_compiled() {
    let read = |name: &str| std::fs::read_to_string(repository().join(name)).unwrap();
    let compiled = read("crates/punctual/src/testing/guides.rs");
    for name in texts() {
        let text = read(&name);
        assert_eq!(text.contains("```rust"), compiled.contains(&format!("/{name}\"")), "{name}");
        assert!(!text.contains("```rust,ignore"), "{name}: a Rust block is compiled, or marked as `text`");
    }
}

/// PRD-9: the survey that the guide shows is the one that its commands create.
#[test]
fn prd_9_the_survey_of_the_guide_is_its_example() {
    let read = |name: &str| std::fs::read_to_string(repository().join(name)).unwrap();
    let example = read("docs/examples/surveys/csi-gr.json");
    assert!(read("docs/guide/surveys.md").contains(&format!("```json\n{example}```")));
}

/// PRD-9: no guide has a shell block that no test pastes.
#[test]
fn prd_9_every_shell_block_is_pasted() {
    let pasted: BTreeSet<&str> = [&STARTING[..], &SENDING, &ROUTING, &STAGING].concat().into_iter().collect();
    for name in texts() {
        let text = std::fs::read_to_string(repository().join(&name)).unwrap();
        assert_eq!(!shell_blocks(&text).is_empty(), pasted.contains(name.as_str()), "{name}");
        for language in ["bash", "shell", "console"] {
            assert!(!text.contains(&format!("```{language}")), "{name}: mark shell blocks as `sh`");
        }
        for command in ["punctual ", "curl ", "PUNCTUAL_"] {
            let hidden = format!("```text\n{command}");
            assert!(
                !text.contains(&hidden),
                "{name}: commands in a block of `text` are not tried: mark it as `sh`"
            );
        }
    }
}
