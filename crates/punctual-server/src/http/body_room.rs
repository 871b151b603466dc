//! Room for large bodies: how many bytes of them the server has in memory at once.
//!
//! A body of more than [`SMALL_BYTES_MAX`] takes room for all of it before it is read, and keeps the room
//! until its request is carried out, since what is made of a body takes several times as much. Others wait
//! for their turn, in the order in which they came, with their bytes still at the client; one that waits too
//! long is answered 503. Small bodies never wait.
//!
//! Not promised: fairness between those who send large bodies. A slow one keeps its room until the time for
//! bodies is over.

use super::error::{Answer, ApiFailure};
use axum::http::StatusCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bodies of this size need no room, and are parsed faster than a thread is found for it.
pub const SMALL_BYTES_MAX: usize = 1024 * 1024;
/// All large bodies together, in bytes: one of the largest, or several smaller ones.
const LARGE_BYTES_MAX: usize = super::body_limit::BATCH_BYTES_MAX;
/// How long a body waits for room; a client may then try again.
const PATIENCE: Duration = Duration::from_secs(25);
/// How long a client that waited in vain should pause.
const RETRY_SECONDS: u32 = 2;

/// The room of one server.
#[derive(Clone, Debug)]
pub struct BodyRoom {
    left: Arc<Semaphore>,
    patience: Duration,
}

/// What one body has of it, until the last clone is dropped.
#[derive(Clone, Debug, Default)]
pub struct TakenRoom(#[allow(dead_code, reason = "held, not read")] Option<Arc<OwnedSemaphorePermit>>);

impl Default for BodyRoom {
    fn default() -> Self {
        Self { left: Arc::new(Semaphore::new(LARGE_BYTES_MAX)), patience: PATIENCE }
    }
}

impl BodyRoom {
    /// Takes room for a body of so many bytes, and waits for it if need be.
    ///
    /// # Errors
    /// 503 when others keep it for too long.
    pub async fn take(&self, bytes: usize) -> Answer<TakenRoom> {
        if bytes <= SMALL_BYTES_MAX {
            return Ok(TakenRoom::default());
        }
        let bytes = u32::try_from(bytes.min(LARGE_BYTES_MAX)).unwrap_or(u32::MAX);
        let taken = Arc::clone(&self.left).acquire_many_owned(bytes);
        match tokio::time::timeout(self.patience, taken).await {
            Ok(Ok(permit)) => Ok(TakenRoom(Some(Arc::new(permit)))),
            // The semaphore is never closed.
            Ok(Err(_)) | Err(_) => Err(busy()),
        }
    }
}

fn busy() -> ApiFailure {
    let said = format!(
        "other large requests are being carried out; bodies of up to {} MiB are taken at any time",
        SMALL_BYTES_MAX / (1024 * 1024)
    );
    ApiFailure::new(StatusCode::SERVICE_UNAVAILABLE, "too-many-large-bodies", said).retry_after(RETRY_SECONDS)
}

/// Does what takes a while for so many bytes. Other requests go on meanwhile: this thread gives them to
/// another.
pub fn chew<T>(bytes: usize, run: impl FnOnce() -> T) -> T {
    let is_shared =
        Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread);
    if bytes > SMALL_BYTES_MAX && is_shared { tokio::task::block_in_place(run) } else { run() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn prd_14_large_bodies_wait_for_room_and_small_ones_do_not() {
        let room = BodyRoom { patience: Duration::from_millis(50), ..BodyRoom::default() };
        let first = room.take(LARGE_BYTES_MAX).await.unwrap();
        assert!(room.take(SMALL_BYTES_MAX).await.is_ok());
        let refused = room.take(SMALL_BYTES_MAX + 1).await.unwrap_err();
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        let (second, ()) = tokio::join!(room.take(LARGE_BYTES_MAX / 2), async { drop(first) });
        assert!(second.is_ok(), "a body gets the room that another leaves");
        let third = room.take(LARGE_BYTES_MAX / 2).await;
        assert!(third.is_ok(), "two halves fit");
        assert!(room.take(10 * LARGE_BYTES_MAX).await.is_err(), "and nothing beside them");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_thread_that_chews_is_replaced() {
        let (tell, told) = std::sync::mpsc::channel();
        let other = async move { tell.send(()).unwrap() };
        chew(SMALL_BYTES_MAX + 1, || {
            tokio::spawn(other);
            told.recv_timeout(Duration::from_secs(20)).expect("the only other task runs meanwhile");
        });
    }
}
