//! Bodies that tell their [`Peer`] when they end.

use super::peer::Peer;
use axum::body::{Body, Bytes};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The body of a request.
#[derive(Debug)]
pub struct RequestBody {
    body: Incoming,
    peer: Arc<Peer>,
}

impl RequestBody {
    /// Watches a body.
    pub const fn new(body: Incoming, peer: Arc<Peer>) -> Self {
        Self { body, peer }
    }
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
            self.peer.has_body_to_send();
            return Poll::Pending;
        };
        if frame.is_none() || self.body.is_end_stream() {
            self.peer.has_sent_body();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        self.peer.has_sent_body();
    }
}

/// The body of an answer.
#[derive(Debug)]
pub struct ResponseBody {
    body: Body,
    peer: Arc<Peer>,
}

impl ResponseBody {
    /// Watches a body.
    pub const fn new(body: Body, peer: Arc<Peer>) -> Self {
        Self { body, peer }
    }
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        self.peer.is_answered();
    }
}
