//! A proxy between a process and the database, which can be cut in the ways links are.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// How a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// As it should be.
    Open,
    /// Every bit of an answer takes a while.
    Slow(Duration),
    /// Half open: what is said is swallowed, and never answered. A connection that was half open
    /// stays so.
    Swallow,
    /// No connection is taken, and those that were are reset.
    Refuse,
    /// The next answer to a commit is lost, and its connection with it.
    LoseCommit,
}

/// The proxy of one process.
pub struct Proxy {
    pub port: u16,
    link: watch::Sender<Link>,
    lost_commits: Arc<AtomicUsize>,
}

impl Proxy {
    /// A proxy to a port of this machine.
    pub async fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (link, seen) = watch::channel(Link::Open);
        let lost_commits = Arc::new(AtomicUsize::new(0));
        tokio::spawn(listen(listener, server, seen, Arc::clone(&lost_commits)));
        Self { port, link, lost_commits }
    }

    /// From now on the link is so.
    pub fn set(&self, link: Link) {
        self.link.send_replace(link);
    }

    /// Resets all connections, and takes new ones.
    pub fn reset(&self) {
        self.set(Link::Refuse);
        self.set(Link::Open);
    }

    /// Answers to commits that were lost so far.
    pub fn lost_commits(&self) -> usize {
        self.lost_commits.load(Ordering::SeqCst)
    }
}

async fn listen(listener: TcpListener, server: u16, link: watch::Receiver<Link>, lost: Arc<AtomicUsize>) {
    // Ends with the proxy: then nobody can change the link any more.
    let mut gone = link.clone();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            ended = gone.changed() => {
                if ended.is_err() {
                    return;
                }
                continue;
            }
        };
        let Ok((client, _)) = accepted else { continue };
        if *link.borrow() != Link::Refuse {
            tokio::spawn(connect(client, server, link.clone(), Arc::clone(&lost)));
        }
    }
}

async fn connect(client: TcpStream, server: u16, link: watch::Receiver<Link>, lost: Arc<AtomicUsize>) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else { return };
    client.set_nodelay(true).ok();
    server.set_nodelay(true).ok();
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let mut cut = link.clone();
    tokio::select! {
        // When one side ends, both do.
        () = pump(from_client, to_server, link.clone(), None) => {}
        () = pump(from_server, to_client, link, Some(lost)) => {}
        _ = cut.wait_for(|link| *link == Link::Refuse) => {}
    }
}

/// Carries bytes in one direction. `lost`: these are the server's answers.
async fn pump(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    link: watch::Receiver<Link>,
    lost: Option<Arc<AtomicUsize>>,
) {
    let mut bytes = vec![0; 16 * 1024];
    let mut half_open = false;
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        let now = *link.borrow();
        half_open |= now == Link::Swallow;
        if half_open {
            continue;
        }
        if let Link::Slow(delay) = now
            && lost.is_some()
        {
            tokio::time::sleep(delay).await;
        }
        if let (Link::LoseCommit, Some(lost)) = (now, &lost)
            && bytes[..count].windows(COMMITTED.len()).any(|part| part == COMMITTED)
        {
            lost.fetch_add(1, Ordering::SeqCst);
            return;
        }
        if to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}

/// What the server says when a transaction has committed.
const COMMITTED: &[u8] = b"COMMIT\0";
