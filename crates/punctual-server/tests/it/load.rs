//! Another tenant's publishes while strangers stall, workers wait and somebody sends the largest bodies.
//!
//! The server is the real binary; publishes come at fixed times, and each is measured from the time at which
//! it should have begun, so that a server that stands still for a while is seen by all that were due then.

use crate::cli::process::{Place, Run, Serving};
use crate::world::{Base, RUNNING, World};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

const ROOT_KEY: &str = "root-key-of-the-tests-0123456789abcdef";
const MIB: usize = 1024 * 1024;

/// Sockets of strangers that send nothing, half a head, or half a body.
const STALLED: usize = 1_100;
/// Claims of workers that wait for work.
const WAITING: usize = 1_500;
/// Requests with a body of the largest size, always so many at once.
const LARGE: usize = 6;
/// Publishers of the tenant that is measured, with a connection each.
const PUBLISHERS: u32 = 8;
/// How often each of them publishes.
const EVERY: Duration = Duration::from_millis(160);
/// How many publishes of each are measured, at least …
const EACH: u32 = 150;
/// … and how many warm up, or show one part of the load alone.
const EACH_FEW: u32 = 30;
/// Measurements of which one must hold: something else on the machine may disturb one, and a server that
/// stands still disturbs every one.
const RUNS: usize = 3;
/// Large requests that must have been carried out meanwhile.
const LARGE_DONE_MIN: usize = LARGE;
/// How often the p99 beside the load may be that of an idle server.
const TIMES_MAX: f64 = 10.0;

/// One connection on which requests follow each other.
struct Line {
    stream: TcpStream,
    head: String,
}

impl Line {
    /// A connection from the n-th address of this host, in a tenant's name.
    async fn open(address: SocketAddr, host: u8, tenant: &str) -> std::io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from(([127, 0, 0, host], 0)))?;
        let stream = socket.connect(address).await?;
        stream.set_nodelay(true)?;
        let head = format!("host: x\r\nauthorization: Bearer {ROOT_KEY}\r\npunctual-tenant: {tenant}\r\n");
        Ok(Self { stream, head })
    }

    async fn ask(&mut self, path: &str, body: &[u8]) -> std::io::Result<u16> {
        let head = format!("POST {path} HTTP/1.1\r\n{}content-length: {}\r\n\r\n", self.head, body.len());
        self.stream.write_all(head.as_bytes()).await?;
        self.stream.write_all(body).await?;
        self.answer().await
    }

    /// The status of an answer, which is read to its end.
    async fn answer(&mut self) -> std::io::Result<u16> {
        let (mut text, mut buffer) = (Vec::new(), vec![0; 64 * 1024]);
        loop {
            let read = self.stream.read(&mut buffer).await?;
            if read == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            text.extend_from_slice(&buffer[..read]);
            let Some(end) = text.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
            let head = String::from_utf8_lossy(&text[..end]).to_ascii_lowercase();
            let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
            let length: usize = length.and_then(|digits| digits.trim().parse().ok()).unwrap_or(0);
            if text.len() >= end + 4 + length {
                return Ok(head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0));
            }
        }
    }
}

/// A connection that begins and does not go on; another one when it is closed.
async fn stall(address: SocketAddr, n: usize) {
    let post = "POST /api/events HTTP/1.1\r\nhost: x\r\n";
    let begun = [
        String::new(),
        format!("{post}x-slow: "),
        format!("{post}authorization: Bearer {ROOT_KEY}\r\ncontent-length: 100\r\n\r\n{{"),
    ];
    loop {
        if let Ok(mut line) = Line::open(address, u8::try_from(n % 5 + 2).unwrap(), "strangers").await {
            line.stream.write_all(begun[n % 3].as_bytes()).await.ok();
            line.answer().await.ok();
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// A worker that asks for work again and again, where there is none.
async fn wait_for_work(address: SocketAddr, n: usize) {
    let ask = json!({"owner": format!("w{n}"), "waitSeconds": 60}).to_string();
    loop {
        if let Ok(mut line) = Line::open(address, u8::try_from(n % 5 + 2).unwrap(), "workers").await {
            while line.ask("/api/queues/quiet/claim", ask.as_bytes()).await.is_ok_and(|status| status == 200)
            {
            }
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// A list of events just below 32 MiB: few large ones, or as many as a list may have.
fn large_body(many: bool) -> Vec<u8> {
    let (count, bytes) = if many { (10_000, 3_290) } else { (31, MIB + MIB / 32) };
    let event = |n: usize| {
        // Not all alike, as the database compresses what is.
        let noise: String =
            (0..bytes / 20).map(|i| format!("{:016x}-x- ", (n * 7_919 + i) * 0x9E37_79B9)).collect();
        json!({"topic": "large", "kind": "k", "payload": noise[..(bytes - 100).min(MIB - 2)]})
    };
    let body = Value::Array((0..count).map(event).collect()).to_string();
    assert!((28 * MIB..=32 * MIB).contains(&body.len()), "{} bytes", body.len());
    body.into_bytes()
}

/// Sends the body again and again; says how often it was taken.
async fn send_large(address: SocketAddr, body: Vec<u8>, until: Instant) -> usize {
    let mut taken = 0;
    while Instant::now() < until {
        let mut line = Line::open(address, 8, "large").await.unwrap();
        match line.ask("/api/events", &body).await {
            Ok(202) => taken += 1,
            // It has to wait for its turn, which a client does.
            Ok(503) => sleep(Duration::from_secs(1)).await,
            other => panic!("a large body was answered {other:?}"),
        }
    }
    taken
}

/// The times of publishes that are due at fixed moments, on connections that are there.
async fn publish_times(address: SocketAddr, each: u32, until: Option<Instant>) -> Vec<Duration> {
    let mut lines = Vec::new();
    for _ in 0..PUBLISHERS {
        lines.push(Line::open(address, 9, "publisher").await.unwrap());
    }
    let mut publishers = JoinSet::new();
    let begun = Instant::now() + Duration::from_millis(100);
    for (n, mut line) in (0..PUBLISHERS).zip(lines) {
        publishers.spawn(async move {
            let event =
                json!({"topic": "orders", "kind": "order.placed", "payload": {"order": 7}}).to_string();
            let (mut took, mut due) = (Vec::new(), begun + EVERY / PUBLISHERS * n);
            while u32::try_from(took.len()).unwrap() < each || until.is_some_and(|until| due < until) {
                sleep_until(due).await;
                assert_eq!(line.ask("/api/events", event.as_bytes()).await.unwrap(), 202);
                took.push(due.elapsed());
                due += EVERY;
            }
            took
        });
    }
    publishers.join_all().await.concat()
}

fn percentile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort_unstable();
    times[(times.len() * percent / 100).min(times.len() - 1)]
}

fn told(what: &str, times: &mut [Duration]) -> Duration {
    let [middle, most, last] = [50, 99, 100].map(|percent| percentile(times, percent));
    println!("{what}: {} publishes, median {middle:.1?}, p99 {most:.1?}, longest {last:.1?}", times.len());
    most
}

async fn serve(place: &Place, base: Base) -> (Serving, SocketAddr) {
    let url = match base {
        Base::Sqlite => place.database(),
        Base::Postgres => World::place(base).await,
    };
    let mut command = place.command(&["serve", "--database", &url, "--listen", "127.0.0.1:0"]);
    let serving = command.env("PUNCTUAL_ROOT_KEY", ROOT_KEY).serve();
    let address = serving.address().parse().unwrap();
    let root = format!("authorization: Bearer {ROOT_KEY}\r\n");
    for slug in ["publisher", "workers", "large"] {
        serving.post("/api/tenants", &root, &json!({"slug": slug, "name": slug}));
    }
    (serving, address)
}

/// The crowd is really there, but for a few who are just coming again; none of the claims was refused.
fn assert_crowd(serving: &Serving) {
    let (_, metrics) = serving.get("/metrics", "host: localhost\r\n");
    let count = metrics.lines().find_map(|line| line.strip_prefix("punctual_http_connections "));
    let count: f64 = count.and_then(|number| number.parse().ok()).unwrap_or_default();
    let wanted = 0.9 * f64::from(u32::try_from(STALLED + WAITING).unwrap());
    assert!(count >= wanted, "there are only {count} connections");
    assert!(!metrics.contains("status=\"429\""), "a claim was not allowed to wait");
}

async fn measure(base: Base) -> Measured {
    let _alone = RUNNING.lock().await;
    rlimit::increase_nofile_limit(16_384).unwrap();
    let place = Place::new();
    let (serving, address) = serve(&place, base).await;
    publish_times(address, EACH_FEW, None).await;
    let idle = told("idle", &mut publish_times(address, EACH, None).await);

    let mut crowd = JoinSet::new();
    (0..STALLED).for_each(|n| drop(crowd.spawn(stall(address, n))));
    (0..WAITING).for_each(|n| drop(crowd.spawn(wait_for_work(address, n))));
    // Each claims once before it waits.
    sleep(Duration::from_secs(10)).await;
    assert_crowd(&serving);
    told("beside those who wait", &mut publish_times(address, EACH_FEW, None).await);

    let until = Instant::now() + EVERY * EACH;
    let mut large = JoinSet::new();
    let bodies = [large_body(false), large_body(true)];
    (0..LARGE).for_each(|n| drop(large.spawn(send_large(address, bodies[n % 2].clone(), until))));
    let mut times = publish_times(address, EACH, Some(until)).await;
    let loaded = told("beside large bodies, too", &mut times);
    let done: usize =
        timeout(Duration::from_secs(120), large.join_all()).await.expect("they end").iter().sum();
    let peak = serving.memory_peak_kib() * 1_024 / 1_000;
    assert_crowd(&serving);
    crowd.abort_all();
    let times = loaded.as_secs_f64() / idle.as_secs_f64();
    println!("{done} large bodies, {times:.1} times the idle p99, {} MB at the most", peak / 1_000);
    assert!(done >= LARGE_DONE_MIN, "only {done} large bodies were taken: nothing was measured");
    Measured { idle, loaded }
}

/// What came of it.
struct Measured {
    idle: Duration,
    loaded: Duration,
}

/// PRD-14: 1,100 stalled sockets, 1,500 long polls and six bodies of 32 MiB at once slow another tenant's
/// publishes down by less than ten. The memory of the server is printed: 300 MB are wanted, and not yet sure.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow"]
async fn prd_14_a_crowd_and_large_bodies_slow_no_publisher_down_on_postgres_measured() {
    let mut missed = Vec::new();
    for _ in 0..RUNS {
        let Measured { idle, loaded } = measure(Base::Postgres).await;
        if loaded.as_secs_f64() < TIMES_MAX * idle.as_secs_f64() {
            return;
        }
        missed.push((idle, loaded));
    }
    panic!("idle, and beside the load, a publish has a p99 of {missed:?}");
}

/// The same on SQLite, as a figure: its one writer carries out a large body in one transaction, which nobody
/// can overtake.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow"]
async fn a_crowd_and_large_bodies_beside_a_publisher_on_sqlite_measured() {
    measure(Base::Sqlite).await;
}
