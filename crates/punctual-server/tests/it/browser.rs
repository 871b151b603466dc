//! The survey page in a real browser: what a person sees, with and without scripts.

use crate::visit::{invite, publish};
use crate::world::{Base, World};
use punctual::flow::rules::entry::EntryStatus;
use punctual::{ClockMode, Tenant};
use punctual_server::app::Settings;
use punctual_server::http::public::visitor::PublicAccess;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the browser's scripts.
fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser")
}

/// TRG-19, TRG-20: axe finds nothing on any page in either language and scheme; the survey is answered
/// with the keyboard and without scripts; the script keeps what is typed and says that somebody is there.
#[tokio::test]
#[ignore = "slow: needs chromium and axe-core, which ./test installs"]
async fn trg_19_the_page_works_in_a_browser() {
    let settings = Settings { public: PublicAccess::new(100_000, false), ..Settings::default() };
    let world = World::start(Base::Sqlite, ClockMode::Manual, settings).await;
    let survey = std::fs::read_to_string(scripts().join("survey.json")).unwrap();
    publish(&world, serde_json::from_str(&survey).unwrap()).await;
    let mut links = Vec::new();
    for wip in ["english", "arabic", "keyboard", "typing", "looking"] {
        links.push(invite(&world, wip, None).await);
    }
    assert!(std::env::var_os("PUNCTUAL_CLIENTS").is_some(), "PUNCTUAL_CLIENTS should be set: run ./test");
    let pictures = Path::new(env!("CARGO_TARGET_TMPDIR")).join("survey-page");
    let mut node = Command::new("node");
    node.arg(scripts().join("survey_page.mjs")).arg(format!("http://{}", world.address)).arg(pictures);
    node.args(links.iter().map(ToString::to_string));
    let said =
        tokio::task::spawn_blocking(move || node.output()).await.unwrap().expect("node can be started");
    assert!(said.status.success(), "the browser: {}", String::from_utf8_lossy(&said.stderr));
    let mut became = Vec::new();
    for link in links {
        let entry = world.engine.store().entry(Tenant::DEFAULT, link).await.unwrap().unwrap();
        became.push(entry.state.status);
    }
    use EntryStatus::{Completed, Opened};
    assert_eq!(became, [Completed, Completed, Completed, Opened, Opened]);
}
