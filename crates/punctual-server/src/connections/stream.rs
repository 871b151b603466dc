//! A stream that tells its [`Peer`] when bytes come and when they are not taken, and gives refusals of the
//! HTTP parser a body.

use super::parser_refusal;
use super::peer::Peer;
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// The stream of one connection.
#[derive(Debug)]
pub struct WatchedStream {
    stream: TcpStream,
    peer: Arc<Peer>,
    /// What is left of the parser's refusal; nothing is written after it.
    refusal: Option<VecDeque<u8>>,
}

impl WatchedStream {
    /// Watches a stream.
    pub const fn new(stream: TcpStream, peer: Arc<Peer>) -> Self {
        Self { stream, peer, refusal: None }
    }

    /// Writes a refusal in place of what the parser wrote, all of it before anything else is accepted.
    fn poll_refusal(&mut self, cx: &mut Context<'_>, head: &[u8]) -> Option<Poll<io::Result<usize>>> {
        if self.refusal.is_none() {
            self.refusal = Some(parser_refusal::replacement(head)?.into());
        }
        let left = self.refusal.as_mut()?;
        while !left.is_empty() {
            match Pin::new(&mut self.stream).poll_write(cx, left.as_slices().0) {
                Poll::Ready(Ok(written)) if written > 0 => drop(left.drain(..written)),
                Poll::Ready(Ok(_)) => return Some(Poll::Ready(Err(io::ErrorKind::WriteZero.into()))),
                other => return Some(other),
            }
        }
        Some(Poll::Ready(Ok(head.len())))
    }

    fn note(&self, written: &Poll<io::Result<usize>>) {
        match written {
            Poll::Pending => self.peer.has_unread(),
            Poll::Ready(Ok(bytes)) => self.peer.has_read(*bytes),
            Poll::Ready(Err(_)) => {}
        }
    }
}

impl AsyncRead for WatchedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, into))?;
        if into.filled().len() > before {
            self.peer.has_sent_bytes();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for WatchedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let refused = self.poll_refusal(cx, bytes);
        let written = refused.unwrap_or_else(|| Pin::new(&mut self.stream).poll_write(cx, bytes));
        self.note(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // A head alone is one part.
        let refused = parts.first().filter(|_| parts.len() == 1).and_then(|head| self.poll_refusal(cx, head));
        let written = refused.unwrap_or_else(|| Pin::new(&mut self.stream).poll_write_vectored(cx, parts));
        self.note(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        // The connection flushes when nothing is left in its buffer.
        self.peer.has_read_all();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
