//! The whole run at a small size, with a system under test that is a list in memory.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::*;
use crate::contender::Step;
use crate::ours::{Engine, Handler, Message};

/// Messages by address of the database.
#[derive(Default)]
struct Lists {
    lists: Mutex<HashMap<String, Arc<List>>>,
}

#[derive(Default)]
struct List {
    waiting: Mutex<Vec<(usize, Message)>>,
}

struct Loop {
    list: Arc<List>,
    running: Arc<AtomicBool>,
}

impl List {
    fn lock(&self) -> MutexGuard<'_, Vec<(usize, Message)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Up to 100 that are due, the last tenant's first.
    fn take(&self) -> Vec<(usize, Message)> {
        let mut waiting = self.lock();
        waiting.sort_by_key(|(tenant, message)| (message.delay.is_zero(), *tenant));
        let due = waiting.iter().rev().take(100).filter(|(_, message)| message.delay.is_zero());
        let first = waiting.len() - due.count();
        waiting.split_off(first)
    }
}

impl System for Lists {
    fn open<'a>(&'a self, url: &'a str, _: EngineSettings) -> Step<'a, Arc<dyn Engine>> {
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever removes the file has emptied the queue.
        if let Some(file) = url.strip_prefix("sqlite:").filter(|file| !Path::new(file).exists()) {
            lists.remove(url);
            std::fs::write(file, "").ok();
        }
        let list = Arc::clone(lists.entry(url.to_owned()).or_default());
        let engine: Arc<dyn Engine> = Arc::new(Loop { list, running: Arc::default() });
        Box::pin(async { Ok(engine) })
    }
}

impl Engine for Loop {
    fn enqueue(&self, tenant: usize, messages: Vec<Message>) -> Step<'_, ()> {
        self.list.lock().extend(messages.into_iter().map(|message| (tenant, message)));
        Box::pin(async { Ok(()) })
    }

    fn start(&self, handler: Handler) -> Step<'_, ()> {
        self.running.store(true, Ordering::Relaxed);
        let (list, running) = (Arc::clone(&self.list), Arc::clone(&self.running));
        tokio::spawn(async move {
            while running.load(Ordering::Relaxed) {
                list.take().iter().for_each(|(_, message)| handler(&message.payload));
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        Box::pin(async { Ok(()) })
    }

    fn idle(&self) -> Step<'_, bool> {
        let idle = self.list.lock().iter().all(|(_, message)| !message.delay.is_zero());
        Box::pin(async move { Ok(idle) })
    }

    fn stop(&self) -> Step<'_, ()> {
        self.running.store(false, Ordering::Relaxed);
        Box::pin(async { Ok(()) })
    }
}

fn small() -> QueueOptions {
    QueueOptions {
        messages: 300,
        rounds: 2,
        batch: 100,
        connections: 2,
        peers: Some(PathBuf::from("/no/such/folder")),
        extra: 50,
        drains_in_a_row: 2,
        latency: Duration::from_secs(1),
        backlog: 200_000,
        ..QueueOptions::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_part_of_the_run_gives_its_figures() -> Result<()> {
    let report = queue(Some(Arc::new(Lists::default())), small()).await?;
    println!("{}", report.table());
    let failed: Vec<_> = report.notes.iter().filter(|note| note.contains("failed")).collect();
    assert!(failed.is_empty(), "{failed:?}");
    let absent = report.notes.iter().filter(|note| note.contains("bench/peers/install"));
    assert_eq!(absent.count(), crate::peers::KNOWN.len());
    assert_eq!(report.ratios.iter().filter(|ratio| ratio.required.is_some()).count(), 14);
    assert!(report.ratios.iter().all(|ratio| ratio.value.is_finite()));
    let full = |name: &str| report.results.iter().any(|figure| figure.name == name);
    assert!(full("postgres drain, full: punctual"));
    assert!(full("postgres drain, full: one row per batch"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_engine_the_rest_is_measured_and_nothing_is_required() -> Result<()> {
    let report = queue(None, small()).await?;
    assert!(report.ratios.iter().all(|ratio| ratio.required.is_none()));
    assert!(report.results.iter().any(|figure| figure.name == "postgres drain: conventional"));
    assert!(report.results.iter().any(|figure| figure.name == "sqlite drain: rusqlite by hand"));
    assert!(report.notes.iter().any(|note| note.contains("no engine")));
    Ok(())
}
