//! Mail through a relay, by SMTP.
//!
//! Promised: no send takes longer than its `timeout`, whatever the relay does. The Message-ID is made
//! of the idempotency key, so it is the same for every try and a relay or mailbox can tell. Nothing in
//! a message can begin a header of its own. With `starttls = "required"`, the default, nothing is sent
//! over a connection that is not encrypted.
//!
//! | what happened | is |
//! |---|---|
//! | no connection, no TLS, or the relay does not want *us* (greeting, AUTH) | transient: nothing was sent |
//! | 4xx to MAIL, RCPT, DATA or the text | transient |
//! | 5xx to MAIL, RCPT, DATA or the text | permanent |
//! | cut or silent before the text | transient |
//! | cut or silent once the text has begun | unknown: the relay may have it |
//!
//! Not promised: that a mail that was taken arrives. What bounces comes back to the sender's mailbox.

mod connection;
mod message;

use crate::CALL_TIMEOUT_MAX;
use crate::mailbox;
use crate::redaction::replace_address;
use crate::settings::{Setting, Settings};
use connection::{Connections, MailFailure, Relay, Tls};
use lettre::Address;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use message::{ComposedMail, Sender};
use punctual::base::clock;
use punctual::base::{duration, redaction};
use punctual::delivery::run::channel::ChannelResult;
use punctual::{AcceptedMessage, Channel, Problems, RenderedMessage, SendError};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// What a relay says is cut here, in characters.
const SAID_CHARS_MAX: usize = 500;
/// Where relays listen, when nobody says: with TLS from the start, and without.
const PORTS: (u16, u16) = (465, 587);

/// The settings of a channel by SMTP.
#[must_use]
pub fn smtp_settings() -> Vec<Setting> {
    let setting =
        |name: &str, about: &str| Setting { name: name.into(), about: about.into(), ..Setting::default() };
    let usual =
        |name, about, default: &str| Setting { default: Some(default.into()), ..setting(name, about) };
    vec![
        Setting { required: true, ..setting("url", "the relay: smtps://host or smtp://host, with :port") },
        Setting { required: true, ..setting("sender", "the address that mails come from") },
        setting("sender_name", "the display name of the sender"),
        setting("reply_to", "the address for replies"),
        setting("username", "the user name at the relay"),
        Setting { secret: true, ..setting("password", "its password") },
        usual("starttls", "for smtp://: required, opportunistic or off", "required"),
        setting("ca", "a file with a CA certificate (PEM) for the relay, besides the usual ones"),
        setting("hello", "the host name in our greeting"),
        usual("timeout", "the time limit of a send", "15s"),
    ]
}

/// A channel that sends mail through a relay. Clones share their connections.
#[derive(Clone, Debug)]
pub struct SmtpChannel {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    settings: Settings,
    sender: Sender,
    connections: Connections,
    timeout: Duration,
}

impl SmtpChannel {
    /// A channel with what was given for its settings.
    ///
    /// # Errors
    /// Every setting that cannot be used.
    pub fn new(given: BTreeMap<String, String>) -> Result<Self, Problems> {
        let settings = Settings::new(&smtp_settings(), given)?;
        let mut problems = Problems::default();
        let sender = read_sender(&settings, &mut problems);
        let timeout = read_timeout(&settings, &mut problems);
        let relay = read_relay(&settings, &mut problems);
        match (sender, relay) {
            (Some(sender), Some(relay)) if problems.0.is_empty() => {
                let connections = Connections::new(relay);
                Ok(Self { inner: Arc::new(Inner { settings, sender, connections, timeout }) })
            }
            _ => Err(problems),
        }
    }
}

impl SmtpChannel {
    /// The settings of the channel.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }
}

impl Channel for SmtpChannel {
    fn send(&self, letter: Arc<RenderedMessage>) -> Pin<Box<dyn Future<Output = ChannelResult> + Send>> {
        let inner = Arc::clone(&self.inner);
        Box::pin(async move { inner.send(&letter).await })
    }

    fn provider(&self) -> Option<&str> {
        Some(crate::provider::SMTP)
    }
}

impl Inner {
    async fn send(&self, letter: &RenderedMessage) -> Result<AcceptedMessage, SendError> {
        let clean = |error: String| self.clean(&error, letter);
        let composed = self.sender.compose(letter).map_err(|e| SendError::Permanent { error: clean(e) })?;
        let sent = self.deliver(&composed).await;
        match sent {
            Ok(answer) => {
                let answer = Some(clean(answer)).filter(|answer| !answer.is_empty());
                Ok(AcceptedMessage { message_id: Some(composed.message_id), answer })
            }
            Err(MailFailure::Transient(error)) => {
                Err(SendError::Transient { error: clean(error), retry_after: None })
            }
            Err(MailFailure::Permanent(error)) => Err(SendError::Permanent { error: clean(error) }),
            Err(MailFailure::Unknown(error)) => Err(SendError::NoAnswer { error: clean(error) }),
        }
    }

    /// Up to the text, then the text: only what happens from there on is in doubt.
    async fn deliver(&self, composed: &ComposedMail) -> Result<String, MailFailure> {
        let started = clock::monotonic();
        let limit = self.timeout;
        let ready = tokio::time::timeout(limit, self.connections.ready(composed)).await;
        let late =
            || MailFailure::Transient(format!("the relay was not ready for the text within {limit:?}"));
        let mut connection = ready.map_err(|_| late())??;
        let left = limit.saturating_sub(started.elapsed());
        let answered = tokio::time::timeout(left, connection.text(&composed.text)).await;
        let silent = || MailFailure::Unknown(format!("no answer within {limit:?}; it may have been sent"));
        let answer = answered.map_err(|_| silent())?;
        if !matches!(answer, Err(MailFailure::Unknown(_))) {
            self.connections.keep(connection);
        }
        answer
    }

    fn clean(&self, text: &str, letter: &RenderedMessage) -> String {
        let text = self.settings.redacted(text);
        let text = match letter.to.trim() {
            "" => text,
            to => replace_address(&text, to, &redaction::mask_address(to)),
        };
        // Cut last: half a secret would not be found.
        text.chars().take(SAID_CHARS_MAX).collect()
    }
}

fn read_sender(settings: &Settings, problems: &mut Problems) -> Option<Sender> {
    let mut address = |name: &str| {
        let text = settings.get(name)?;
        let read = mailbox::check(text).and_then(|text| text.parse::<Address>().map_err(|e| e.to_string()));
        read.map_err(|said| problems.push(name, said)).ok()
    };
    let (sender, reply_to) = (address("sender"), address("reply_to"));
    Some(Sender::new(sender?, settings.get("sender_name").map(str::to_owned), reply_to))
}

fn read_timeout(settings: &Settings, problems: &mut Problems) -> Duration {
    let timeout = settings.get("timeout").map(duration::parse).unwrap_or(Ok(CALL_TIMEOUT_MAX));
    match timeout {
        Ok(timeout) if !timeout.is_zero() && timeout <= CALL_TIMEOUT_MAX => return timeout,
        Ok(_) => problems.push("timeout", format!("must be more than 0s, and at most {CALL_TIMEOUT_MAX:?}")),
        Err(said) => problems.push("timeout", said),
    }
    CALL_TIMEOUT_MAX
}

fn read_relay(settings: &Settings, problems: &mut Problems) -> Option<Relay> {
    let (from_start, host, port) = match settings.get("url").map(parse_url)? {
        Ok(read) => read,
        Err(said) => {
            problems.push("url", said);
            return None;
        }
    };
    let credentials = match (settings.get("username"), settings.get("password")) {
        (Some(name), Some(password)) => Some(Credentials::new(name.to_owned(), password.to_owned())),
        (None, None) => None,
        (Some(_), None) => return tell(problems, "password", "is missing: `username` does not go without"),
        (None, Some(_)) => return tell(problems, "username", "is missing: `password` does not go without"),
    };
    let parameters = read_tls(&host, settings, problems)?;
    let tls = match settings.get("starttls") {
        _ if from_start => Tls::FromStart(parameters),
        None | Some("required") => Tls::Required(parameters),
        Some("opportunistic") => Tls::Opportunistic(parameters),
        Some("off") => Tls::Off,
        Some(_) => return tell(problems, "starttls", "must be required, opportunistic or off"),
    };
    let own_machine = ["localhost", "127.0.0.1", "[::1]"].contains(&host.as_str());
    if credentials.is_some() && matches!(tls, Tls::Off | Tls::Opportunistic(_)) && !own_machine {
        let said = "must be `required` when there is a password, which would go over the line in the clear";
        return tell(problems, "starttls", said);
    }
    let hello = settings.get("hello").map_or_else(ClientId::default, |name| ClientId::Domain(name.into()));
    let host = host.trim_matches(['[', ']']).to_owned();
    Some(Relay { host, port, tls, credentials, hello })
}

fn tell<T>(problems: &mut Problems, path: &str, said: &str) -> Option<T> {
    problems.push(path, said);
    None
}

/// Whether TLS is there from the start, the host and the port.
fn parse_url(url: &str) -> Result<(bool, String, u16), String> {
    let form = "write smtps://host, or smtp://host:587";
    let (from_start, rest) = match (url.strip_prefix("smtps://"), url.strip_prefix("smtp://")) {
        (Some(rest), _) => (true, rest),
        (_, Some(rest)) => (false, rest),
        _ => return Err(format!("is not the address of a relay: {form}")),
    };
    let rest = rest.trim_end_matches('/');
    if rest.contains('@') {
        return Err("must not have a name and a password in it: give `username` and `password`".into());
    }
    let usual = if from_start { PORTS.0 } else { PORTS.1 };
    let (host, port) = match rest.rsplit_once(':').filter(|(_, port)| !port.contains(']')) {
        Some((host, port)) => {
            (host, port.parse().map_err(|_| format!("has no port behind the colon: {form}"))?)
        }
        None => (rest, usual),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    if host.is_empty() || !host.chars().all(plain) {
        return Err(format!("has no host: {form}"));
    }
    Ok((from_start, host.to_owned(), port))
}

fn read_tls(host: &str, settings: &Settings, problems: &mut Problems) -> Option<TlsParameters> {
    let mut builder = TlsParameters::builder(host.trim_matches(['[', ']']).to_owned());
    if let Some(path) = settings.get("ca") {
        let read = std::fs::read(path).map_err(|error| format!("{path} cannot be read: {error}"));
        let certificate = read.and_then(|pem| {
            Certificate::from_pem(&pem).map_err(|error| format!("{path} has no certificate: {error}"))
        });
        match certificate {
            Ok(certificate) => builder = builder.add_root_certificate(certificate),
            Err(said) => return tell(problems, "ca", &said),
        }
    }
    builder.build_rustls().map_err(|error| problems.push("url", error.to_string())).ok()
}

#[cfg(test)]
mod tests;
