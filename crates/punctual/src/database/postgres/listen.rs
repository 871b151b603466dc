//! Receives wake-ups on a connection of its own.
//!
//! A [`Listener`] exists only while it is subscribed, so its user looks at the tables *after* connecting;
//! that look finds the work of earlier notifications. The listener queries the server now and then, because a
//! link can be half open for hours without an error.

use crate::base::error::{Error, Result};
use crate::base::rehearsal::hastened;
use crate::database::postgres::{CONNECT_PATIENCE, Postgres, trouble};
use std::future::poll_fn;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, NoTls};

/// How often an idle listening connection is asked whether it still stands.
const HEARTBEAT: Duration = Duration::from_secs(30);

/// A subscribed connection.
#[derive(Debug)]
pub struct Listener {
    client: Client,
    notified: mpsc::Receiver<()>,
}

impl Listener {
    /// Connects and subscribes.
    pub async fn connect(postgres: &Postgres) -> Result<Self> {
        let connecting = postgres.config.connect(NoTls);
        let connected = tokio::time::timeout(hastened(CONNECT_PATIENCE), connecting).await;
        let (client, mut connection) =
            connected.map_err(|e| Error::Unavailable(e.into()))?.map_err(trouble)?;
        // One slot: a wake-up that is not yet received stands for all that follow it.
        let (tell, notified) = mpsc::channel(1);
        let own_name = postgres.name.clone();
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
                if let AsyncMessage::Notification(n) = message
                    && n.payload() != &*own_name
                {
                    tell.try_send(()).ok();
                }
            }
        });
        let listening = client.batch_execute("listen punctual");
        let listening = tokio::time::timeout(hastened(CONNECT_PATIENCE), listening).await;
        listening.map_err(|e| Error::Unavailable(e.into()))?.map_err(trouble)?;
        Ok(Self { client, notified })
    }

    /// Waits for the next wake-up.
    ///
    /// # Errors
    /// When the connection is gone: connect again, and look.
    pub async fn heard(&mut self) -> Result<()> {
        loop {
            match tokio::time::timeout(HEARTBEAT, self.notified.recv()).await {
                Ok(Some(())) => return Ok(()),
                Ok(None) => return Err(Error::Unavailable("the listening connection was closed".into())),
                Err(_) => self.heartbeat().await?,
            }
        }
    }

    async fn heartbeat(&self) -> Result<()> {
        let asked = tokio::time::timeout(CONNECT_PATIENCE, self.client.batch_execute("select 1")).await;
        asked.map_err(|e| Error::Unavailable(e.into()))?.map_err(trouble)
    }
}
