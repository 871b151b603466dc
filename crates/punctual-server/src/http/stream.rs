//! Answers that are written while they are read from the database.
//!
//! Such an answer is complete only if its producer says so. When the producer fails, panics or is dropped
//! before that, the body ends with an error and the connection is closed without the final chunk, so that a
//! client cannot take a part for the whole.

use axum::body::{Body, Bytes};
use http_body::Frame;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// Chunks that wait for a slow reader.
const CHUNKS_MAX: usize = 2;

/// A chunk, or the end.
#[derive(Debug)]
enum Part {
    Chunk(Bytes),
    End,
}

/// The producer's half of a streamed body.
#[derive(Debug)]
pub struct ChunkSender(mpsc::Sender<Part>);

/// The reader of a streamed answer is gone.
#[derive(Clone, Copy, Debug)]
pub struct ReaderGone;

impl ChunkSender {
    /// Sends a chunk, as soon as the reader has taken those before it.
    ///
    /// # Errors
    /// [`ReaderGone`] when there is nobody to send it to.
    pub async fn send(&self, text: String) -> Result<(), ReaderGone> {
        self.0.send(Part::Chunk(Bytes::from(text))).await.map_err(|_| ReaderGone)
    }

    /// Marks the answer as complete.
    pub async fn finish(self) {
        // A reader that is gone needs no mark.
        let _ = self.0.send(Part::End).await;
    }
}

/// Makes a body and the sender that fills it.
pub fn channel() -> (ChunkSender, Body) {
    let (to, from) = mpsc::channel(CHUNKS_MAX);
    (ChunkSender(to), Body::new(StreamedBody { from, ended: false }))
}

/// The reader's half.
struct StreamedBody {
    from: mpsc::Receiver<Part>,
    ended: bool,
}

impl http_body::Body for StreamedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        self.from.poll_recv(cx).map(|part| match part {
            Some(Part::Chunk(bytes)) => Some(Ok(Frame::data(bytes))),
            Some(Part::End) => {
                self.ended = true;
                None
            }
            None => {
                self.ended = true;
                Some(Err(io::Error::other("the answer broke off before its end")))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::to_bytes;

    #[tokio::test]
    async fn a_body_is_whole_only_if_its_producer_says_so() {
        for finishes in [true, false] {
            let (sender, body) = channel();
            tokio::spawn(async move {
                sender.send("a".into()).await.unwrap();
                if finishes {
                    sender.finish().await;
                }
            });
            assert_eq!(to_bytes(body, 10).await.is_ok(), finishes);
        }
    }
}
