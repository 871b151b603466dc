//! A provider that is down for an hour, on the manual clock: it is probed and not hammered, the other
//! channels do not notice, nothing is given up for it, and what waited goes out in its order at the
//! rate.

use crate::bench::{Bench, TENANT, seconds};
use crate::notification::{KIND, TOPIC, booking, define, template};
use punctual::base::limits::BREAKER_PROBE_EVERY;
use punctual::delivery::rules::channel::ChannelPolicy;
use punctual::{AcceptedMessage, ClockMode, Engine, NewMessage, RenderedMessage, SendError, Timestamp};
use std::sync::{Arc, Mutex};
use std::time::Duration;

cases![
    ntf_17_an_hour_without_a_provider,
    ntf_17_an_outage_uses_up_nobodys_tries,
    ntf_17_an_outage_uses_up_no_tries_of_invitations,
    ntf_17_a_provider_that_never_comes_back_is_given_up_in_the_end,
];

/// The channel whose provider is down, and two that work.
const DOWN: &str = "sms:north";
const OTHERS: [&str; 2] = ["whatsapp:south", "email:east"];
/// Letters a second by the channel that is down, and by each other.
const RATE: u32 = 4;
const RATE_OF_OTHERS: u32 = 100;
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);

/// One call of a provider.
#[derive(Clone, Debug)]
struct Call {
    channel: String,
    key: String,
    at: Timestamp,
    taken: bool,
}

/// Providers that write down every call; one of them is down until a moment.
#[derive(Clone)]
struct Providers {
    calls: Arc<Mutex<Vec<Call>>>,
    down_until: Timestamp,
}

impl Providers {
    fn new(down_until: Timestamp) -> Self {
        Self { calls: Arc::default(), down_until }
    }

    fn take(&self, letter: &RenderedMessage) -> Result<AcceptedMessage, SendError> {
        let (channel, key) = (letter.channel.clone(), letter.idempotency_key.clone());
        let taken = channel != DOWN || letter.sent_at >= self.down_until;
        self.calls.lock().unwrap().push(Call { channel, key, at: letter.sent_at, taken });
        if taken {
            return Ok(AcceptedMessage::default());
        }
        Err(SendError::Transient { error: "503, it is down".into(), retry_after: None })
    }

    /// Calls of one channel, in their order.
    fn of(&self, channel: &str, taken: bool) -> Vec<Call> {
        let all = self.calls.lock().unwrap();
        all.iter().filter(|call| call.channel == channel && call.taken == taken).cloned().collect()
    }
}

async fn engine(t: &Bench, providers: &Providers) -> Engine {
    let mut builder = Engine::builder(t.place.url()).on_store(t.another().await).clock(ClockMode::Manual);
    for (key, rate) in [(DOWN, RATE), (OTHERS[0], RATE_OF_OTHERS), (OTHERS[1], RATE_OF_OTHERS)] {
        let policy = ChannelPolicy { rate_per_second: Some(rate), ..ChannelPolicy::default() };
        let providers = providers.clone();
        let channel = move |letter: Arc<RenderedMessage>| std::future::ready(providers.take(&letter));
        builder = builder.channel_policy(key, policy).channel(key, channel);
    }
    let engine = builder.open().await.unwrap();
    define(&engine, TENANT, |_| {}).await;
    engine
}

/// Bookings of these numbers are confirmed.
async fn confirm(engine: &Engine, numbers: std::ops::Range<usize>) {
    let one = |n: usize| NewMessage::new(TOPIC, KIND, booking(&n.to_string()).to_string());
    engine.enqueue(TENANT, numbers.map(one).collect()).await.unwrap();
}

/// No two probes are nearer to each other than a probe's interval, and none to what opened the breaker.
fn assert_probed_not_hammered(failed: &[Call], opened_by: usize) {
    let probes = &failed[opened_by - 1..];
    for pair in probes.windows(2) {
        let apart = pair[1].at.since(pair[0].at);
        assert!(
            apart >= BREAKER_PROBE_EVERY,
            "{} was probed at {} and again {apart:?} later",
            pair[1].channel,
            pair[0].at
        );
    }
}

/// In no second, wherever it begins, were there more calls than the rate.
fn assert_rate_held(calls: &[Call], rate: u32) {
    for (n, first) in calls.iter().enumerate() {
        let end = first.at.plus(seconds(1));
        let within = calls[n..].iter().take_while(|call| call.at < end).count();
        assert!(within <= rate as usize, "{within} calls in the second from {}, not {rate}", first.at);
    }
}

/// Deliveries of the channel that wait, in the order of their due times and ids.
async fn backlog(t: &Bench) -> Vec<String> {
    let sql = format!(
        "select idempotency_key from punctual.delivery where status = 0 and channel = '{DOWN}' \
         order by due_at, id"
    );
    crate::dump::first_column(&t.texts(&sql).await)
}

/// NTF-17: an hour in which bookings come in every minute, for three channels of which one is down.
async fn ntf_17_an_hour_without_a_provider(t: &Bench) {
    let start = t.now().await;
    let (begin, end) = (start.plus(MINUTE), start.plus(MINUTE + HOUR));
    let providers = Providers::new(end);
    let engine = engine(t, &providers).await;
    for channel in ["SMS", "WhatsApp", "Email"] {
        template(&engine, TENANT, channel, "Confirmed {{bookingId}}").await;
    }
    engine.travel(begin, true).await.unwrap();
    for minute in 0..60 {
        confirm(&engine, minute * 6..minute * 6 + 6).await;
        engine.travel(begin.plus(MINUTE * (minute as u32 + 1)), true).await.unwrap();
    }
    let failed = providers.of(DOWN, false);
    let before = providers.of(DOWN, true);
    assert_eq!(before.iter().filter(|call| call.at < end).count(), 0, "nothing got through in that hour");
    // 20 failures in a row, some of them of the same delivery, open it; then it is only probed.
    assert_probed_not_hammered(&failed, 20);
    let most = 20 + HOUR.as_secs() / BREAKER_PROBE_EVERY.as_secs();
    assert!((failed.len() as u64) <= most, "{} calls of a provider that is down", failed.len());
    assert!(failed.len() > 100, "it was probed all the time, not {} times", failed.len());
    let waiting = backlog(t).await;
    assert_eq!(waiting.len() + before.len(), 360, "nothing was given up");

    engine.travel(end.plus(HOUR), true).await.unwrap();
    for channel in OTHERS {
        let calls = providers.of(channel, true);
        assert_eq!(calls.len(), 360, "each booking was told by {channel}");
        let created = |n: usize| begin.plus(MINUTE * (n as u32 / 6));
        let late = calls.iter().enumerate().find(|(n, call)| call.at != created(*n));
        assert!(late.is_none(), "{channel} was late for {late:?}");
    }
    let drained = providers.of(DOWN, true);
    assert_eq!(drained.len(), 360, "the hour was made up for");
    let order: Vec<&str> = drained.iter().skip(before.len()).map(|call| call.key.as_str()).collect();
    assert_eq!(order, waiting, "what waited goes in the order of due times and ids");
    assert_rate_held(&drained, RATE);
    let lasted = drained[340].at.since(end);
    assert!(lasted <= BREAKER_PROBE_EVERY + seconds(360 / u64::from(RATE)), "it took {lasted:?} to drain");
    assert_eq!(t.count("select count(*) from punctual.entry where status <> 1").await, 0);
    assert_eq!(t.count("select count(*) from punctual.work").await, 0);
}

/// NTF-17, NTF-24: a channel with little to send probes with the same few deliveries again and again. None of
/// them is given up for that: a failed probe tells of the provider, not of the letter.
async fn ntf_17_an_outage_uses_up_nobodys_tries(t: &Bench) {
    let start = t.now().await;
    let providers = Providers::new(start.plus(HOUR));
    let engine = engine(t, &providers).await;
    template(&engine, TENANT, "SMS", "x").await;
    confirm(&engine, 0..8).await;
    engine.travel(start.plus(HOUR), true).await.unwrap();
    assert_probed_not_hammered(&providers.of(DOWN, false), 20);
    let failed = "select count(*) from punctual.delivery where status <> 0";
    assert_eq!(t.count(failed).await, i64::try_from(providers.of(DOWN, true).len()).unwrap(), "given up");
    engine.travel(start.plus(2 * HOUR), true).await.unwrap();
    assert_eq!(providers.of(DOWN, true).len(), 8, "each went out when the provider was back");
    let logged = t.count("select count(*) from punctual.delivery_attempt where outcome = 'transient'").await;
    assert_eq!(logged, i64::try_from(providers.of(DOWN, false).len()).unwrap(), "every probe is in the log");
    assert_eq!(t.count("select count(*) from punctual.entry where status <> 1").await, 0);
}

/// NTF-17, TRG-15: the same for invitations of surveys.
async fn ntf_17_an_outage_uses_up_no_tries_of_invitations(t: &Bench) {
    let start = t.now().await;
    let providers = Providers::new(start.plus(HOUR));
    let engine = engine(t, &providers).await;
    let definition = crate::invitation::survey(|d| {
        d["triggers"][0]["channel"] = DOWN.into();
        d["triggers"][0]["schedule"]["reminders"] = serde_json::json!([]);
    });
    crate::invitation::publish(&engine, definition).await;
    for n in 0..8 {
        crate::invitation::invite(&engine, &n.to_string()).await;
    }
    engine.travel(start.plus(HOUR), true).await.unwrap();
    assert_probed_not_hammered(&providers.of(DOWN, false), 20);
    assert_eq!(t.count("select count(*) from punctual.entry where status = 6").await, 0, "given up");
    engine.travel(start.plus(2 * HOUR), true).await.unwrap();
    assert_eq!(providers.of(DOWN, true).len(), 8, "each went out when the provider was back");
    let logged = t
        .count("select count(*) from punctual.delivery_attempt where outcome = 'transient' and tried > 0")
        .await;
    assert_eq!(logged, i64::try_from(providers.of(DOWN, false).len()).unwrap(), "every probe is in the log");
}

/// NTF-24: nothing waits for ever: what was tried five times as often as it may be is given up, probes or
/// not.
async fn ntf_17_a_provider_that_never_comes_back_is_given_up_in_the_end(t: &Bench) {
    let start = t.now().await;
    let providers = Providers::new(Timestamp::MAX);
    let engine = engine(t, &providers).await;
    template(&engine, TENANT, "SMS", "x").await;
    confirm(&engine, 0..8).await;
    engine.travel(start.plus(48 * HOUR), true).await.unwrap();
    assert_eq!(t.count("select count(*) from punctual.entry where status <> 6").await, 0, "all have failed");
    assert_eq!(t.count("select count(*) from punctual.work").await, 0);
    assert_eq!(providers.of(DOWN, false).len(), 8 * 25);
}
