//! Accepts connections and bounds what strangers can hold of the server.
//!
//! Every connection has a `Peer`: which of the two sides has to act, and since when. A `Peer` that
//! does not send its request, does not read its answer, or is idle for too long is disconnected
//! ([`Timeouts`]). When all places are taken, the connection that has kept the server waiting longest gives
//! up its place to a new one; where none does, because every place has a request that is being carried out, a
//! few places are left that answer health checks and refuse everything else with 503.
//!
//! Not promised: fairness between addresses behind one proxy, which are one address here.

mod body;
mod limits;
mod parser_refusal;
mod peer;
mod places;
mod stream;

pub use limits::{ConnectionLimits, Timeouts};

use crate::http::error::ApiFailure;
use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, Request, Response, StatusCode};
use axum::response::IntoResponse;
use body::{RequestBody, ResponseBody};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use peer::Peer;
use places::{Admission, Limit, Place, Places};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use stream::WatchedStream;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tower::ServiceExt;

/// How often connections are looked through for peers that have run out of time.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How long the listener rests when the system has no descriptor for a new connection.
const NO_DESCRIPTOR_PAUSE: Duration = Duration::from_millis(50);
/// The longest head of a request, and what a connection may buffer.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// How long a client that was refused should wait.
const BUSY_SECONDS: u32 = 1;

/// Serves requests until `stop` is true, then finishes those that are under way.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: ConnectionLimits,
    mut stop: watch::Receiver<bool>,
) {
    let places = Arc::new(Places::new(limits));
    let mut connections = JoinSet::new();
    let mut look = tokio::time::interval(LOOK_EVERY);
    loop {
        let accepted = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => break,
            _ = look.tick() => {
                places.disconnect_overdue(&limits.timeouts);
                continue;
            }
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, address)) => {
                let Some(place) = places.admit(address.ip()) else { continue };
                connections.spawn(connection(stream, address, place, router.clone(), stop.clone()));
            }
            Err(error) => rest_after(&error, &places).await,
        }
    }
    drop(listener);
    drain(&mut connections, &places, limits.timeouts.while_stopping()).await;
}

/// Waits for requests under way; peers that keep them waiting still run out of time.
async fn drain(connections: &mut JoinSet<()>, places: &Places, timeouts: Timeouts) {
    let mut look = tokio::time::interval(LOOK_EVERY);
    loop {
        tokio::select! {
            ended = connections.join_next() => if ended.is_none() { return },
            _ = look.tick() => places.disconnect_overdue(&timeouts),
        }
    }
}

/// A connection that broke before it was accepted is nothing to rest for; a lack of descriptors is.
async fn rest_after(error: &std::io::Error, places: &Places) {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    if matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
        return;
    }
    places.out_of_descriptors(error);
    tokio::time::sleep(NO_DESCRIPTOR_PAUSE).await;
}

/// Serves one connection to its end.
async fn connection(
    stream: TcpStream,
    address: SocketAddr,
    place: Place,
    router: Router,
    mut stop: watch::Receiver<bool>,
) {
    // Answers are small and written whole; without it the last part waits for an acknowledgement.
    stream.set_nodelay(true).ok();
    let peer = Arc::clone(place.peer());
    let admission = place.admission();
    let service = service_fn(move |request| {
        let (peer, router) = (Arc::clone(&peer), router.clone());
        async move { Ok::<_, Infallible>(respond(request, address, peer, admission, router).await) }
    });
    let stream = TokioIo::new(WatchedStream::new(stream, Arc::clone(place.peer())));
    // Time is kept by `Places`, which knows of every phase of a connection.
    let mut http = http1::Builder::new();
    http.header_read_timeout(None).max_buf_size(HEAD_BYTES_MAX);
    let mut connection = std::pin::pin!(http.serve_connection(stream, service));
    tokio::select! {
        biased;
        () = place.peer().disconnected() => return,
        _ = connection.as_mut() => return,
        _ = stop.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
    }
    tokio::select! {
        biased;
        () = place.peer().disconnected() => {}
        _ = connection => {}
    }
}

async fn respond(
    request: Request<Incoming>,
    address: SocketAddr,
    peer: Arc<Peer>,
    admission: Admission,
    router: Router,
) -> Response<ResponseBody> {
    let is_health = request.uri().path().starts_with("/health");
    peer.has_sent_head();
    let mut request = request.map(|body| Body::new(RequestBody::new(body, Arc::clone(&peer))));
    request.extensions_mut().insert(ConnectInfo(address));
    let response = match admission {
        Admission::Reserve(limit) if !is_health => busy(limit),
        _ => router.oneshot(request).await.into_response(),
    };
    response.map(|body| ResponseBody::new(body, peer))
}

/// 503 for a connection beyond the limit, which is closed after it.
fn busy(limit: Limit) -> Response<Body> {
    limit.count_refused();
    let said = "this server has as many connections as it may; try again soon";
    let failure = ApiFailure::new(StatusCode::SERVICE_UNAVAILABLE, "too-many-connections", said);
    let mut response = failure.retry_after(BUSY_SECONDS).into_response();
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
