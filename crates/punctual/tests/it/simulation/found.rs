//! What simulated seeds have found, each as a case of its own.

use punctual::base::clock;
use punctual::base::clock::Clocks;
use punctual::database::sqlite::simulated::{
    CallSite, LinkFuture, SimulatedDatabase, SimulatedLink, SimulatedReply, SimulatedRequest,
};
use punctual::engine::IngestRequest;
use punctual::flow::store::flows::FlowDraft;
use punctual::testing::TemporaryStore;
use punctual::{
    AcceptedMessage, Engine, NewMessage, RenderedMessage, Result, SendError, Tenant, Timestamp, Work,
};
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// A link on which the first answer to a verb of this file takes its time: one that wrote, or one that read.
#[derive(Debug)]
struct Late {
    epoch: Instant,
    late: AtomicBool,
    file: &'static str,
    wrote: bool,
}

impl Late {
    fn new(late: bool, file: &'static str) -> Arc<Self> {
        Arc::new(Self { epoch: Instant::now(), late: AtomicBool::new(late), file, wrote: true })
    }

    fn reading(late: bool, file: &'static str) -> Arc<Self> {
        Arc::new(Self { epoch: Instant::now(), late: AtomicBool::new(late), file, wrote: false })
    }
}

impl SimulatedLink for Late {
    fn now(&self) -> Timestamp {
        TemporaryStore::START.plus(self.epoch.elapsed())
    }

    fn request(&self, _: CallSite) -> LinkFuture<'_, Result<SimulatedRequest>> {
        // Whatever else can go on does.
        Box::pin(async {
            tokio::task::yield_now().await;
            Ok(SimulatedRequest::default())
        })
    }

    fn answer(&self, verb: CallSite, answer: SimulatedReply) -> LinkFuture<'_, Result<()>> {
        let meant = answer.wrote == self.wrote && verb.file().ends_with(self.file);
        let late = meant && self.late.swap(false, Ordering::Relaxed);
        Box::pin(async move {
            if late {
                sleep(Duration::from_secs(5)).await;
            }
            Ok(())
        })
    }

    fn notify(&self) -> LinkFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }

    fn wait_for_wake(&self) -> LinkFuture<'_, Result<()>> {
        Box::pin(std::future::pending())
    }
}

/// PLT-2: an engine whose claim took longer than its lease begins nothing of it, because the item is
/// somebody else's by then.
#[tokio::test(start_paused = true)]
async fn plt_2_a_claim_whose_answer_is_late_begins_nothing() {
    let monotonic = || Instant::now().into_std();
    clock::override_clocks(Some(Clocks { wall: || TemporaryStore::START, monotonic }));
    let database = SimulatedDatabase::new().unwrap();
    let begun: Arc<Mutex<Vec<&str>>> = Arc::default();
    let mut engines = Vec::new();
    for (name, late) in [("late", true), ("prompt", false)] {
        let begun = Arc::clone(&begun);
        let handler = move |_: Work| {
            begun.lock().unwrap().push(name);
            async { Ok(()) }
        };
        let builder = Engine::builder("simulated").on_store(database.store(Late::new(late, "claims.rs")));
        let builder = builder.owner(name).lease(Duration::from_secs(2)).handler("orders", handler);
        engines.push(builder.open().await.unwrap());
    }
    engines[0].enqueue_one(Tenant::DEFAULT, NewMessage::new("orders", "k", "{}")).await.unwrap();
    engines[0].start();
    sleep(Duration::from_millis(100)).await;
    engines[1].start();
    sleep(Duration::from_secs(30)).await;
    clock::override_clocks(None);
    assert_eq!(*begun.lock().unwrap(), ["prompt"], "who began the message");
}

/// TRG-16: the same for letters: what was claimed long ago may be somebody else's, and its entry may
/// have been answered since.
#[tokio::test(start_paused = true)]
async fn trg_16_a_claim_of_letters_whose_answer_is_late_begins_nothing() {
    assert_eq!(
        who_begins_a_letter(|late| Late::new(late, "delivery/store/entries/advance.rs")).await,
        ["prompt"]
    );
}

/// TRG-16, seeds 1147 and 1148: what a letter is made of is read under the lease, too, and may come when that
/// is over. The lease was looked at before a letter was made, and not after.
#[tokio::test(start_paused = true)]
async fn trg_16_a_letter_that_was_long_in_the_making_is_not_begun() {
    for file in ["flow/store/flows.rs", "delivery/store/templates.rs", "delivery/store/consent.rs"] {
        let begun = who_begins_a_letter(|late| Late::reading(late, file)).await;
        assert_eq!(begun.len(), 1, "{file} was late, and the letter was begun by {begun:?}");
    }
}

/// Two engines with a lease of two seconds, one of them on a link that is late; answers who sent the letter.
async fn who_begins_a_letter(link: impl Fn(bool) -> Arc<Late>) -> Vec<&'static str> {
    let monotonic = || Instant::now().into_std();
    clock::override_clocks(Some(Clocks { wall: || TemporaryStore::START, monotonic }));
    let database = SimulatedDatabase::new().unwrap();
    let begun: Arc<Mutex<Vec<&str>>> = Arc::default();
    let (mut engines, mut links) = (Vec::new(), Vec::new());
    for (name, late) in [("late", true), ("prompt", false)] {
        let begun = Arc::clone(&begun);
        let channel = move |_: Arc<RenderedMessage>| {
            begun.lock().unwrap().push(name);
            async { Ok::<_, SendError>(AcceptedMessage::default()) }
        };
        let link = link(false);
        let builder = Engine::builder("simulated").on_store(database.store(Arc::clone(&link) as _));
        links.push((link, late));
        let builder = builder.owner(name).lease(Duration::from_secs(2)).channel("post:box", channel);
        engines.push(builder.open().await.unwrap());
    }
    let definition = json!({
        "title": {"en": "How?"}, "locales": ["en"], "defaultLocale": "en",
        "questions": [{"id": "rate", "type": "rating", "text": {"en": "How?"}}],
        "triggers": [{
            "id": "t", "eventKind": "visit", "dedupRecipe": ["templateId", "recipient.address"],
            "schedule": {"initialDelay": "0s", "reminders": []}, "channel": "post:box",
        }],
    });
    let store = engines[1].store();
    let draft = FlowDraft { name: "s".into(), integration_id: None, definition };
    let flow = store.create_flow(Tenant::DEFAULT, draft).await.unwrap();
    store.publish_flow(Tenant::DEFAULT, flow.id).await.unwrap();
    let items = vec![json!({"payload": {}, "recipient": {"address": "+1"}})];
    engines[1].ingest(Tenant::DEFAULT, &IngestRequest { event_kind: "visit".into(), items }).await.unwrap();
    // Only now: what is read before is not what a letter is made of.
    links.iter().for_each(|(link, late)| link.late.store(*late, Ordering::Relaxed));
    engines[0].start();
    sleep(Duration::from_millis(100)).await;
    engines[1].start();
    sleep(Duration::from_secs(120)).await;
    clock::override_clocks(None);
    assert!(links.iter().all(|(link, _)| !link.late.load(Ordering::Relaxed)), "nothing was late");
    begun.lock().unwrap().clone()
}

/// TRG-11: a tick beside loops whose handlers are busy waits for them, and asks the database no more than
/// now and then meanwhile. (One that spins lets no virtual time pass, and never ends here.)
#[tokio::test(start_paused = true)]
async fn trg_11_a_tick_beside_busy_handlers_does_not_spin() {
    let monotonic = || Instant::now().into_std();
    clock::override_clocks(Some(Clocks { wall: || TemporaryStore::START, monotonic }));
    let database = SimulatedDatabase::new().unwrap();
    let slow = |_: Work| async {
        sleep(Duration::from_millis(100)).await;
        Ok(())
    };
    let builder = Engine::builder("simulated").on_store(database.store(Late::new(false, "")));
    let engine = builder.handler_with("orders", 1, slow).open().await.unwrap();
    // More than one claim takes, so that something is left for the tick to see.
    let orders = (0..300).map(|_| NewMessage::new("orders", "k", "{}")).collect();
    engine.enqueue(Tenant::DEFAULT, orders).await.unwrap();
    engine.start();
    sleep(Duration::from_secs(1)).await;
    let begun = Instant::now();
    engine.tick(1).await.unwrap();
    clock::override_clocks(None);
    assert!(begun.elapsed() >= Duration::from_secs(2), "it waited for handlers, not {:?}", begun.elapsed());
}
