//! A message as a mail: headers and parts.

use crate::mailbox;
use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, MultiPart, SinglePart};
use lettre::{Address, Message};
use punctual::RenderedMessage;
use punctual::base::digest;

/// Digits of a Message-ID before its domain.
const MESSAGE_ID_DIGITS: usize = 40;
/// What stands for a subject that is not there.
const NO_SUBJECT: &str = "(no subject)";

/// Who mails come from.
#[derive(Debug)]
pub(super) struct Sender {
    address: Address,
    name: Option<String>,
    reply_to: Option<Address>,
}

/// A mail, ready to be handed over.
pub(super) struct ComposedMail {
    pub(super) from: Address,
    pub(super) to: Address,
    pub(super) message_id: String,
    pub(super) text: Vec<u8>,
}

impl Sender {
    pub(super) const fn new(address: Address, name: Option<String>, reply_to: Option<Address>) -> Self {
        Self { address, name, reply_to }
    }

    /// The mail of a message; a sentence when there cannot be one.
    pub(super) fn compose(&self, letter: &RenderedMessage) -> Result<ComposedMail, String> {
        let to = mailbox::check(&letter.to).map_err(|said| format!("the address {said}"))?;
        let to: Address = to.parse().map_err(|error| format!("the address is not one: {error}"))?;
        let message_id = self.message_id(letter);
        let mut builder = Message::builder()
            .from(Mailbox::new(self.name.clone(), self.address.clone()))
            .to(Mailbox::new(None, to.clone()))
            .subject(subject(letter))
            .message_id(Some(message_id.clone()));
        if let Some(reply_to) = &self.reply_to {
            builder = builder.reply_to(Mailbox::new(None, reply_to.clone()));
        }
        for (name, value) in unsubscribe(letter) {
            builder = builder.raw_header(HeaderValue::new(HeaderName::new_from_ascii_str(name), value));
        }
        let made = match &letter.html {
            Some(html) => {
                builder.multipart(MultiPart::alternative_plain_html(letter.body.clone(), html.clone()))
            }
            None => builder.singlepart(SinglePart::plain(letter.body.clone())),
        };
        let message = made.map_err(|error| format!("the mail cannot be made: {error}"))?;
        Ok(ComposedMail { from: self.address.clone(), to, message_id, text: message.formatted() })
    }

    /// The same for every try of a message, and for no other message.
    fn message_id(&self, letter: &RenderedMessage) -> String {
        let tenant = letter.tenant.to_string();
        let parts = [tenant.as_bytes(), letter.channel.as_bytes(), letter.idempotency_key.as_bytes()];
        format!("<{}@{}>", &digest::of(parts)[..MESSAGE_ID_DIGITS], self.address.domain())
    }
}

/// In one line, whatever is in it.
fn subject(letter: &RenderedMessage) -> String {
    let subject = letter.subject.as_deref().unwrap_or_default();
    let line: String = subject.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if line.trim().is_empty() { NO_SUBJECT.to_owned() } else { line }
}

/// One click unsubscribes (RFC 8058), when the message has a link for it.
fn unsubscribe(letter: &RenderedMessage) -> Vec<(&'static str, String)> {
    let Some(url) = &letter.unsubscribe_url else { return Vec::new() };
    let plain = url.bytes().all(|b| b.is_ascii_graphic() && !b"<>,".contains(&b));
    if !plain || !(url.starts_with("https://") || url.starts_with("http://")) {
        return Vec::new();
    }
    vec![
        ("List-Unsubscribe", format!("<{url}>")),
        ("List-Unsubscribe-Post", "List-Unsubscribe=One-Click".to_owned()),
    ]
}
