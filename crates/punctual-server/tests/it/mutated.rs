//! Mutated CloudEvents and bodies: the server answers each in time, and refuses in the form of a problem.

use crate::client::{Client, Reply};
use crate::mutation::Mutations;
use crate::surveys::{csi_gr, invite, publish};
use crate::world::{Base, World};
use punctual::delivery::rules::unsubscribe::UnsubscribeLink;
use punctual::{ClockMode, Tenant};
use punctual_server::app::Settings;
use punctual_server::http::public::visitor::PublicAccess;
use std::time::{Duration, Instant};

/// How long an answer may take on a busy machine, without optimisation.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Pages of each kind. A page takes 120 forms a minute, so the forms go round.
const PAGES: usize = 150;

fn inputs(name: &str) -> Mutations {
    Mutations::new(env!("CARGO_MANIFEST_DIR"), name)
}

async fn ask(client: &Client, method: &str, path: &str, body: &[u8], seed: u64) -> Reply {
    let began = Instant::now();
    let reply = client.send(method, path, body).await;
    let case = format!("PUNCTUAL_SEED={seed}: {method} {path} {}", body.escape_ascii());
    assert!(began.elapsed() < ANSWER_MAX, "{case} took {:?}", began.elapsed());
    assert!((200..500).contains(&reply.status), "{case}: {} {}", reply.status, reply.text);
    if reply.status >= 400 {
        let is_page = path.starts_with("/s/") || path.starts_with("/u/");
        let form = if is_page { "text/html; charset=utf-8" } else { "application/problem+json" };
        assert_eq!(reply.header("content-type"), form, "{case}: {}", reply.text);
    }
    reply
}

/// Pages that take a form: surveys that were sent, and links to unsubscribe.
async fn pages(world: &World) -> Vec<String> {
    publish(&world.root(), csi_gr()).await;
    let secret = world.engine.store().link_secret().await.unwrap();
    let mut pages = Vec::new();
    for n in 0..PAGES {
        pages.push(format!("/s/{}", invite(&world.root(), &n.to_string()).await));
        let link = UnsubscribeLink {
            tenant: Tenant::DEFAULT,
            address: format!("ana{n}@example.org"),
            channel: "email".into(),
            kind: None,
            locale: None,
        };
        pages.push(format!("/u/{}", secret.seal(&link)));
    }
    pages
}

/// PRD-7: a form of whatever bytes is answered with a page.
#[tokio::test]
#[ignore = "slow"]
async fn prd_7_mutated_forms_are_answered_with_a_page() {
    let settings = Settings { public: PublicAccess::new(u32::MAX, false), ..Settings::default() };
    let world = World::start(Base::Sqlite, ClockMode::Manual, settings).await;
    let pages = pages(&world).await;
    let reader = world.anybody().with("content-type", "application/x-www-form-urlencoded");
    let (mut inputs, mut well) = (inputs("forms"), 0);
    while let Some(input) = inputs.next_input() {
        for page in pages.iter().skip(inputs.tried() % PAGES * 2).take(2) {
            let reply = ask(&reader, "POST", page, &input, inputs.seed).await;
            well += usize::from(reply.status < 400);
        }
    }
    assert!(well > 0, "no form was taken");
    println!("{} inputs, {well} taken", inputs.tried());
}

/// PRD-7: a CloudEvent of whatever form is taken or refused, and what is taken can be read.
#[tokio::test]
#[ignore = "slow"]
async fn prd_7_mutated_cloud_events_are_taken_or_refused() {
    let world = World::manual(Base::Sqlite).await;
    let root = world.root();
    let one = root.with("content-type", "application/cloudevents+json");
    let many = root.with("content-type", "application/cloudevents-batch+json");
    let mut inputs = inputs("cloud-events");
    while let Some(input) = inputs.next_input() {
        for client in [&one, &many, &root] {
            ask(client, "POST", "/api/events", &input, inputs.seed).await;
        }
    }
    println!("{} inputs", inputs.tried());
}

/// PRD-7: the body of any request is taken or refused, whatever is in it.
#[tokio::test]
#[ignore = "slow"]
async fn prd_7_mutated_bodies_are_taken_or_refused() {
    let world = World::manual(Base::Sqlite).await;
    let root = world.root();
    let mut inputs = inputs("bodies");
    while let Some(input) = inputs.next_input() {
        let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
        let line = String::from_utf8_lossy(&input[..end]).into_owned();
        // What is no line of a request is sent where any body may come.
        let plain = |text: &&str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b"/-_:.".contains(&b));
        let (method, path) = line
            .split_once(' ')
            .filter(|(method, path)| {
                ["POST", "PUT"].contains(method) && path.starts_with("/api/") && plain(path)
            })
            .unwrap_or(("POST", "/api/events"));
        ask(&root, method, path, input.get(end + 1..).unwrap_or_default(), inputs.seed).await;
    }
    println!("{} inputs", inputs.tried());
}
