//! Strangers who hold connections: stalled heads and bodies, answers that are not read, idle ones.

use crate::cli::process::{Place, Run};
use axum::Router;
use axum::routing::{get, post};
use punctual_server::connections::{self, ConnectionLimits, Timeouts};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::{Instant, timeout};

/// Sockets that strangers open.
const STRANGERS: usize = 1_100;
/// Addresses that they have.
const ADDRESSES: usize = 5;
const ROOT_KEY: &str = "root-key-of-the-tests-0123456789abcdef";

/// PRD-14: with 1,024 descriptors, however strangers hold their connections, a health check is answered
/// within a second and a publish within two; and operators hear of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prd_14_strangers_cannot_stop_the_server_by_holding_connections() {
    rlimit::increase_nofile_limit(4_096).unwrap();
    let stalled_body = "POST /api/events HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{";
    let key = format!("authorization: Bearer {ROOT_KEY}\r\n");
    let stalled_body = stalled_body.replacen("\r\n", &format!("\r\n{key}"), 1);
    for stalled in ["", "GET /health/live HTTP/1.1\r\nhost: x\r\nx-slow: ", &stalled_body] {
        let place = Place::new();
        let mut command =
            place.command(&["serve", "--database", &place.database(), "--listen", "127.0.0.1:0"]);
        let serving = command.env("PUNCTUAL_ROOT_KEY", ROOT_KEY).serve_with_descriptors(1_024);
        let address: SocketAddr = serving.address().parse().unwrap();
        let mut strangers = Vec::new();
        for n in 0..STRANGERS {
            let mut stranger = connect_from(n % ADDRESSES, address).await;
            stranger.write_all(stalled.as_bytes()).await.ok();
            strangers.push(stranger);
        }
        let health = "GET /health/live HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        let answer = timeout(Duration::from_secs(1), ask(address, health)).await;
        assert!(
            answer.as_ref().is_ok_and(|text| text.starts_with("HTTP/1.1 200")),
            "{stalled:?}: {answer:?}"
        );
        let event = r#"{"topic":"t","kind":"k","payload":1}"#;
        let publish = format!(
            "POST /api/events HTTP/1.1\r\nhost: x\r\n{key}connection: close\r\n\
             content-length: {}\r\n\r\n{event}",
            event.len()
        );
        let answer = timeout(Duration::from_secs(2), ask(address, &publish)).await;
        assert!(
            answer.as_ref().is_ok_and(|text| text.starts_with("HTTP/1.1 202")),
            "{stalled:?}: {answer:?}"
        );
        let metrics =
            ask(address, "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await;
        let cut = "punctual_http_connections_cut_total{reason=\"made-room\"}";
        assert!(metrics.contains(cut), "a metric says that connections gave up their places: {metrics}");
        let begun = Instant::now();
        let (_, _, err) = serving.stop("-TERM");
        assert!(err.contains("the limit of connections was met") && err.contains("limit=\"total\""), "{err}");
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(15), "strangers held up the stop, {stalled:?}: {took:?}");
        drop(strangers);
    }
}

/// Connects from one of the addresses of this host, so that strangers meet the limit of all connections and
/// not only that of one address.
async fn connect_from(host: usize, address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    let last = u8::try_from(host + 2).unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, last], 0))).unwrap();
    socket.connect(address).await.unwrap()
}

/// Sends a request and reads to the end of the answer.
async fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.ok();
    String::from_utf8_lossy(&answer).into_owned()
}

fn limits(max: usize, milliseconds: u64) -> ConnectionLimits {
    let long = Duration::from_secs(3_600);
    let short = Duration::from_millis(milliseconds);
    let timeouts = Timeouts { head: short, body: short, send: short, idle: long };
    ConnectionLimits { max, per_address: max, timeouts }
}

async fn serve(router: Router, limits: ConnectionLimits) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stopper, stop) = tokio::sync::watch::channel(false);
    tokio::spawn(async move {
        connections::serve(listener, router, limits, stop).await;
        drop(stopper);
    });
    address
}

/// Waits until the server closes, and says how long that took.
async fn closed_after(mut stream: TcpStream) -> Duration {
    let begun = Instant::now();
    let mut rest = Vec::new();
    timeout(Duration::from_secs(20), stream.read_to_end(&mut rest)).await.expect("it is closed").ok();
    begun.elapsed()
}

fn router() -> Router {
    let large = || async { "x".repeat(64 * 1024 * 1024) };
    let read = |body: axum::body::Bytes| async move { body.len().to_string() };
    let wait = || async {
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        "waited"
    };
    Router::new().route("/large", get(large)).route("/read", post(read)).route("/wait", get(wait))
}

/// PRD-14: each phase of a request has its time.
#[tokio::test]
async fn prd_14_a_peer_that_does_not_go_on_is_disconnected() {
    let address = serve(router(), limits(100, 300)).await;
    let table = [
        ("half a head", "GET /wait HTTP/1.1\r\nhost"),
        ("half a body", "POST /read HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n12345"),
        ("an answer that is not read", "GET /large HTTP/1.1\r\nhost: x\r\n\r\n"),
    ];
    for (what, request) in table {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        if what.contains("not read") {
            // What the kernel has taken is there; the rest never comes.
            tokio::time::sleep(Duration::from_millis(1_500)).await;
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).await.ok();
            assert!(rest.len() < 64 * 1024 * 1024, "{what}: {} bytes came", rest.len());
            continue;
        }
        let took = closed_after(stream).await;
        let due = Duration::from_millis(200)..Duration::from_secs(10);
        assert!(due.contains(&took), "{what}: closed after {took:?}");
    }
}

/// PRD-14: dripping byte after byte does not buy time.
#[tokio::test]
async fn prd_14_a_head_that_drips_is_disconnected() {
    let address = serve(router(), limits(100, 300)).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let begun = Instant::now();
    while stream.write_all(b"G").await.is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(10), "it still takes bytes");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// PRD-14: time limits are for peers; a request that the server carries out has none of them.
#[tokio::test]
async fn prd_14_a_request_that_waits_in_the_server_is_not_disconnected() {
    let address = serve(router(), limits(100, 300)).await;
    let answer = ask(address, "GET /wait HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert!(answer.ends_with("waited"), "{answer}");
}

/// PRD-14: an idle connection is closed after its time, and not before.
#[tokio::test]
async fn prd_14_an_idle_connection_is_closed() {
    let mut limits = limits(100, 3_600_000);
    limits.timeouts.idle = Duration::from_millis(700);
    let address = serve(router(), limits).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        stream.write_all(b"POST /read HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\n1").await.unwrap();
        let mut answer = [0; 1024];
        let read = stream.read(&mut answer).await.unwrap();
        assert!(answer[..read].starts_with(b"HTTP/1.1 200"), "it is used again and again");
    }
    assert!(closed_after(stream).await < Duration::from_secs(10));
}

/// PRD-14: where every place carries out a request, health checks still get an answer and others a clear no.
#[tokio::test]
async fn prd_14_the_reserve_is_for_health_checks() {
    let router = router().route("/health/live", get(|| async { "alive" }));
    let address = serve(router, limits(1, 3_600_000)).await;
    let mut busy = TcpStream::connect(address).await.unwrap();
    busy.write_all(b"GET /wait HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let alive = ask(address, "GET /health/live HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert!(alive.ends_with("alive"), "{alive}");
    let refused = ask(address, "GET /large HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
    assert!(refused.contains("too-many-connections") && refused.contains("retry-after: 1"), "{refused}");
    let mut answer = String::new();
    busy.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("waited"), "the request that was under way is finished: {answer}");
}
