//! A singleton: three instances of a service, of which one at a time does the work. When the
//! holder leaves, another instance takes over, and late writes of the first are refused.
//!
//! `cargo run -p punctual --example lease_singleton`

use punctual::jobs::run::lease::CandidateOutcome;
use punctual::testing::Backend;
use punctual::testing::place::TestDatabase;
use punctual::{Engine, FencingToken, Tenant};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The protected resource: it refuses a token smaller than the greatest it has seen.
#[derive(Default)]
struct Ledger {
    greatest: Option<FencingToken>,
    lines: Vec<String>,
}

impl Ledger {
    fn write(&mut self, token: FencingToken, line: String) -> bool {
        if self.greatest.is_some_and(|greatest| token < greatest) {
            return false;
        }
        self.greatest = Some(token);
        self.lines.push(line);
        true
    }
}

/// Waits for the lease, works, and leaves after three lines.
async fn instance(
    name: &str,
    url: String,
    ledger: Arc<Mutex<Ledger>>,
) -> Result<FencingToken, punctual::Error> {
    let engine = Engine::builder(url).owner(name).open().await?;
    let lease = engine.lease(Tenant::DEFAULT, "ledger").duration(Duration::from_secs(5));
    let CandidateOutcome::Acquired(guard) = lease.acquire_within(Duration::from_secs(60)).await? else {
        return Err(punctual::Error::Conflict("the others never stopped".into()));
    };
    println!("{name} holds the lease under token {}", guard.token());
    let work = async {
        for n in 1..=3 {
            let line = format!("{name} writes line {n}");
            assert!(
                ledger.lock().unwrap_or_else(PoisonError::into_inner).write(guard.token(), line),
                "the holder is heard"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    // Stops where it stands when the lease is lost, before another can have it.
    guard.while_held(work).await?;
    let token = guard.token();
    guard.release().await?;
    Ok(token)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let place = TestDatabase::empty(Backend::Sqlite).await?;
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let all: Vec<_> = ["a", "b", "c"]
        .map(|name| tokio::spawn(instance(name, place.url().to_owned(), Arc::clone(&ledger))))
        .into_iter()
        .collect();
    let mut tokens = Vec::new();
    for task in all {
        tokens.push(task.await??);
    }
    tokens.sort_unstable();
    assert_eq!(tokens, [1, 2, 3].map(FencingToken), "one after the other");
    let mut ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
    for run in ledger.lines.chunks(3) {
        assert!(run.iter().all(|line| line[..1] == run[0][..1]), "nobody writes in between: {run:?}");
    }
    assert!(!ledger.write(tokens[0], "late".into()), "the first one's late word is refused");
    println!("{} lines, three holders, one at a time", ledger.lines.len());
    Ok(())
}
