//! Connections to a relay: made, greeted, kept for the next mail.

use super::message::ComposedMail;
use lettre::transport::smtp::Error;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{AsyncSmtpConnection, TlsParameters};
use lettre::transport::smtp::commands::{Data, Mail, Rcpt, Rset};
use lettre::transport::smtp::extension::{ClientId, Extension, MailParameter};
use punctual::base::clock;
use punctual::base::clock::Monotonic;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Connections that are kept when nobody needs them.
const IDLE_MAX: usize = 8;
/// How long one is kept.
const IDLE_FOR: Duration = Duration::from_secs(30);

/// The relay, and how to speak to it.
pub(super) struct Relay {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) tls: Tls,
    pub(super) credentials: Option<Credentials>,
    pub(super) hello: ClientId,
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// When a connection is encrypted.
pub(super) enum Tls {
    FromStart(TlsParameters),
    Required(TlsParameters),
    Opportunistic(TlsParameters),
    Off,
}

/// Why a mail was not taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MailFailure {
    Transient(String),
    Permanent(String),
    Unknown(String),
}

/// Connections to one relay.
#[derive(Debug)]
pub(super) struct Connections {
    relay: Relay,
    idle: Mutex<Vec<(Connection, Monotonic)>>,
}

/// One connection.
pub(super) struct Connection(AsyncSmtpConnection);

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connection")
    }
}

impl Connections {
    pub(super) const fn new(relay: Relay) -> Self {
        Self { relay, idle: Mutex::new(Vec::new()) }
    }

    /// A connection whose relay waits for the text of this mail.
    pub(super) async fn ready(&self, mail: &ComposedMail) -> Result<Connection, MailFailure> {
        let mut connection = match self.kept().await {
            Some(connection) => connection,
            None => self.relay.connect().await?,
        };
        match connection.announce(mail).await {
            Ok(()) => Ok(connection),
            Err(failed) => {
                // The relay said no to this mail; the connection itself may be as good as before.
                if connection.0.command(Rset).await.is_ok() {
                    self.keep(connection);
                }
                Err(failed)
            }
        }
    }

    /// Keeps a connection for the next mail.
    pub(super) fn keep(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if !connection.0.has_broken() && idle.len() < IDLE_MAX {
            idle.push((connection, clock::monotonic()));
        }
    }

    /// A connection that was kept and still answers.
    async fn kept(&self) -> Option<Connection> {
        loop {
            let (mut connection, since) = {
                let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
                idle.pop()?
            };
            if since.elapsed() < IDLE_FOR && connection.0.test_connected().await {
                return Some(connection);
            }
        }
    }
}

impl Relay {
    async fn connect(&self) -> Result<Connection, MailFailure> {
        // What goes wrong here is about us and the relay, not about a mail: another time it may go well.
        let refused = |what: &str| {
            let what = what.to_owned();
            move |error: Error| MailFailure::Transient(format!("{what}: {error}"))
        };
        let from_start = match &self.tls {
            Tls::FromStart(parameters) => Some(parameters.clone()),
            _ => None,
        };
        let address = (self.host.as_str(), self.port);
        let mut stream = AsyncSmtpConnection::connect_tokio1(address, None, &self.hello, from_start, None)
            .await
            .map_err(refused("no connection to the relay"))?;
        match &self.tls {
            Tls::Required(parameters) => {
                if !stream.can_starttls() {
                    return Err(MailFailure::Transient(
                        "the relay offers no STARTTLS, which is required".into(),
                    ));
                }
                let begun = stream.starttls(parameters.clone(), &self.hello).await;
                begun.map_err(refused("no TLS with the relay"))?;
            }
            Tls::Opportunistic(parameters) if stream.can_starttls() => {
                let begun = stream.starttls(parameters.clone(), &self.hello).await;
                begun.map_err(refused("no TLS with the relay"))?;
            }
            Tls::FromStart(_) | Tls::Opportunistic(_) | Tls::Off => {}
        }
        if let Some(credentials) = &self.credentials {
            let known = [Mechanism::Plain, Mechanism::Login];
            stream.auth(&known, credentials).await.map_err(refused("the relay does not let us in"))?;
        }
        Ok(Connection(stream))
    }
}

impl Connection {
    /// From whom and to whom, and that the text comes.
    async fn announce(&mut self, mail: &ComposedMail) -> Result<(), MailFailure> {
        let mut parameters = Vec::new();
        if !mail.from.to_string().is_ascii() || !mail.to.to_string().is_ascii() {
            if !self.0.server_info().supports_feature(Extension::SmtpUtfEight) {
                let said = "the relay takes no addresses with other letters than a to z (SMTPUTF8)";
                return Err(MailFailure::Permanent(said.into()));
            }
            parameters.push(MailParameter::SmtpUtfEight);
        }
        let from = self.0.command(Mail::new(Some(mail.from.clone()), parameters)).await;
        from.map_err(|error| before_text("MAIL", &error))?;
        let to = self.0.command(Rcpt::new(mail.to.clone(), Vec::new())).await;
        to.map_err(|error| before_text("RCPT", &error))?;
        let data = self.0.command(Data).await;
        data.map_err(|error| before_text("DATA", &error)).map(drop)
    }

    /// The text; what the relay says when it has it.
    pub(super) async fn text(&mut self, text: &[u8]) -> Result<String, MailFailure> {
        match self.0.message(text).await {
            Ok(response) => Ok(response.message().collect::<Vec<_>>().join(" ")),
            Err(error) if error.is_permanent() => Err(MailFailure::Permanent(told("the text", &error))),
            Err(error) if error.is_transient() => Err(MailFailure::Transient(told("the text", &error))),
            Err(error) => {
                let said = format!("the connection broke after the text; it may have been sent: {error}");
                Err(MailFailure::Unknown(said))
            }
        }
    }
}

fn before_text(stage: &str, error: &Error) -> MailFailure {
    let said = told(stage, error);
    if error.is_permanent() { MailFailure::Permanent(said) } else { MailFailure::Transient(said) }
}

fn told(stage: &str, error: &Error) -> String {
    format!("the relay's answer to {stage}: {error}")
}
