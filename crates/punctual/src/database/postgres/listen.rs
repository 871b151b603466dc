//! Receives wake-ups on a connection of its own.
//!
//! A [`Listener`] exists only while it is subscribed, so its user looks at the tables *after* connecting;
//! that look finds the work of earlier notifications. The listener queries the server now and then, because a
//! link can be half open for hours without an error.

use crate::base::error::{Error, Result};
use crate::base::rehearsal::hastened;
use crate::database::postgres::connect::{ConnectError, NO_ANSWER, at_server, driver_cause};
use crate::database::postgres::{CONNECT_PATIENCE, Postgres, trouble};
use crate::database::statement::statements;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, Config, NoTls};

/// How often an idle listening connection is asked whether it still stands.
const HEARTBEAT: Duration = Duration::from_secs(30);

statements! {
    const LISTEN for Postgres = "
        listen punctual
    ";

    const ALIVE for Postgres = "
        select 1
    ";
}

/// A subscribed connection.
#[derive(Debug)]
pub struct Listener {
    client: Client,
    notified: mpsc::Receiver<()>,
    config: Arc<Config>,
}

impl Listener {
    /// Connects and subscribes.
    pub async fn connect(postgres: &Postgres) -> Result<Self> {
        let refused = |cause| Error::Unavailable(ConnectError::new(&postgres.config, cause).into());
        let connecting = postgres.config.connect(NoTls);
        let connected = tokio::time::timeout(hastened(CONNECT_PATIENCE), connecting).await;
        let connected = connected.map_err(|_| refused(NO_ANSWER.to_owned()))?;
        let (client, mut connection) = connected.map_err(|e| refused(driver_cause(&e)))?;
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
        let listener = Self { client, notified, config: Arc::clone(&postgres.config) };
        listener.ask(LISTEN, hastened(CONNECT_PATIENCE)).await?;
        Ok(listener)
    }

    /// Waits for the next wake-up.
    ///
    /// # Errors
    /// When the connection is gone: connect again, and look.
    pub async fn wait(&mut self) -> Result<()> {
        loop {
            match tokio::time::timeout(HEARTBEAT, self.notified.recv()).await {
                Ok(Some(())) => return Ok(()),
                Ok(None) => return Err(self.unavailable("the listening connection was closed")),
                Err(_) => self.ask(ALIVE, CONNECT_PATIENCE).await?,
            }
        }
    }

    async fn ask(&self, statement: &str, patience: Duration) -> Result<()> {
        match tokio::time::timeout(patience, self.client.batch_execute(statement)).await {
            Ok(asked) => asked.map_err(|e| at_server(&self.config, trouble(e))),
            Err(_) => Err(self.unavailable(NO_ANSWER)),
        }
    }

    fn unavailable(&self, cause: &'static str) -> Error {
        at_server(&self.config, Error::Unavailable(cause.into()))
    }
}
