//! The channel over a provider's file: one request for each message.
//!
//! Promised: an address that cannot be is refused before any call. The whole call, from the first
//! connect to the last byte of the answer, takes no longer than the file allows. Redirects are not
//! followed and no proxy is used, so a secret goes to the host that the configuration names and to no
//! other. What the provider answered is kept in part, without secrets and without the address.
//!
//! | what happened | is |
//! |---|---|
//! | no connection, or no TLS | transient: nothing was sent |
//! | an answer | what the first rule of the file that fits says; else as its status says |
//! | ... 2xx | accepted |
//! | ... 408, 425, 429, 5xx | transient |
//! | ... other 4xx | permanent |
//! | ... another status | unknown |
//! | no answer in time, or the connection broke | no answer: it may have gone out |
//! | 2xx whose body broke off or is larger than 64 KiB | unknown: the body may have said no |
//! | a rule asks for the body, and that cannot be read whole | unknown |
//!
//! Not promised: that the provider keeps its word about the idempotency key. One whose file names a header
//! or a body for the key is taken to send a repeated message once; in other bodies the key is a reference.

mod client;
pub(crate) mod destination;
mod judge;
mod sign;

use crate::file::request::{Auth, Content};
use crate::file::{AddressForm, ProviderFile};
use crate::known::KnownValues;
use crate::mailbox;
use crate::node::fill_fields;
use crate::phone::PhoneNumber;
use crate::redaction::replace_address;
use crate::settings::Settings;
use destination::{ALLOW_HOST, Destinations};
use judge::{Judge, ProviderResponse};
use punctual::base::redaction::mask_address;
use punctual::delivery::run::channel::ChannelResult;
use punctual::{AcceptedMessage, Channel, Problems, RenderedMessage, SendError};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, Url};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

/// An idempotency key longer than this goes as its digest, in bytes.
const KEY_BYTES_MAX: usize = 255;

/// What is shorter is not masked in texts, in bytes.
const ADDRESS_BYTES_MIN: usize = 4;

/// A channel that sends through an HTTP provider. Clones share their connections.
#[derive(Clone, Debug)]
pub struct HttpChannel {
    inner: Arc<Inner>,
}

struct Inner {
    file: Arc<ProviderFile>,
    settings: Settings,
    client: Client,
    destinations: Arc<Destinations>,
    /// The URL with the same word for everything that a message brings.
    shape: Url,
}

/// Without the URL, which may have secrets in it.
impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, settings, .. } = self;
        f.debug_struct("HttpChannel").field("file", file).field("settings", settings).finish_non_exhaustive()
    }
}

/// A request, ready to be sent.
struct ComposedRequest {
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl HttpChannel {
    /// A channel of a provider, with what was given for its settings.
    ///
    /// # Errors
    /// Every setting that cannot be used.
    pub fn new(file: Arc<ProviderFile>, given: BTreeMap<String, String>) -> Result<Self, Problems> {
        let settings = Settings::new(&file.settings, given)?;
        let destinations = Destinations::new(settings.get(ALLOW_HOST), settings.has_secret());
        let destinations = Arc::new(destinations.map_err(|said| problem(ALLOW_HOST, said))?);
        let shape = file.request.url.url_shape(&KnownValues::of_settings(&settings), &file.settings);
        let shape = destinations.parse(&shape).map_err(|said| problem(base_setting(&file), said))?;
        let client = client::build(file.request.timeout, &destinations).map_err(|said| problem("", said))?;
        Ok(Self { inner: Arc::new(Inner { file, settings, client, destinations, shape }) })
    }

    /// The settings of the channel.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }
}

/// The setting that has the provider's address, if one has.
fn base_setting(file: &ProviderFile) -> &str {
    file.settings.iter().find(|setting| setting.url).map_or("request.url", |setting| &setting.name)
}

fn problem(path: &str, said: impl Into<String>) -> Problems {
    let mut problems = Problems::default();
    problems.push(path, said);
    problems
}

impl Channel for HttpChannel {
    fn send(&self, letter: Arc<RenderedMessage>) -> Pin<Box<dyn Future<Output = ChannelResult> + Send>> {
        let inner = Arc::clone(&self.inner);
        Box::pin(async move { inner.send(&letter).await })
    }

    fn provider(&self) -> Option<&str> {
        Some(self.inner.file.name())
    }

    fn takes_idempotency_key(&self) -> bool {
        self.inner.file.takes_idempotency_key()
    }
}

impl Inner {
    async fn send(&self, letter: &RenderedMessage) -> Result<AcceptedMessage, SendError> {
        let clean = |text: &str| self.clean(text, letter);
        let permanent = |said: String| SendError::Permanent { error: clean(&said) };
        let address = address(self.file.address, &letter.to)
            .map_err(|said| permanent(format!("the address {said}")))?;
        let composed = self.compose(letter, address).map_err(permanent)?;
        let request = self
            .client
            .request(composed.method, composed.url)
            .headers(composed.headers)
            .timeout(self.file.request.timeout)
            .body(composed.body);
        let heard = match request.send().await {
            Ok(answer) => ProviderResponse::read(answer).await,
            Err(error) => return Err(judge::unanswered(&error, self.file.request.timeout, &clean)),
        };
        heard.judge(&Judge { file: &self.file, settings: &self.settings, clean: &clean })
    }

    /// Returns the text without secrets, and with the address masked however it is written.
    fn clean(&self, text: &str, letter: &RenderedMessage) -> String {
        let mut text = self.settings.redacted(text);
        let mut forms = vec![letter.to.trim().to_owned()];
        if let Ok(number) = PhoneNumber::parse(&letter.to) {
            forms.extend([number.as_str(), number.digits(), number.national()].map(str::to_owned));
        }
        // Shorter ones are no addresses, and would be found in many a word.
        for form in forms.iter().filter(|form| form.len() >= ADDRESS_BYTES_MIN) {
            text = replace_address(&text, form, &mask_address(&letter.to));
        }
        text
    }

    fn compose(
        &self,
        letter: &RenderedMessage,
        address: Map<String, Value>,
    ) -> Result<ComposedRequest, String> {
        let request = &self.file.request;
        let mut known = KnownValues::new(letter, &self.settings, address);
        let (kind, body) = self.body(&mut known)?;
        let url = self.url(&known)?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        for (name, text) in &request.headers {
            headers.insert(name, value(name, &text.line(&known))?);
        }
        if let Some((name, text)) = &request.idempotency {
            headers.insert(name, value(name, &fitting(text.line(&known)))?);
        }
        match &request.auth {
            None => {}
            Some(Auth::Basic { user, password }) => {
                let word = sign::basic(&user.line(&known), &password.line(&known));
                headers.insert(AUTHORIZATION, value(&AUTHORIZATION, &word)?);
            }
            Some(Auth::Bearer { token }) => {
                let word = format!("Bearer {}", token.line(&known));
                headers.insert(AUTHORIZATION, value(&AUTHORIZATION, &word)?);
            }
            Some(Auth::AzureHmac { key }) => {
                let signed = sign::azure(&request.method, &url, &body, &key.line(&known))?;
                for (name, word) in signed {
                    headers.insert(name.clone(), value(&name, &word)?);
                }
            }
        }
        Ok(ComposedRequest { method: request.method.clone(), url, headers, body })
    }

    /// The URL for a message: the host of the configuration, and the path of the file. A value is encoded as
    /// a part of one segment; one that would be no segment or another (empty, `.`, `..`) is refused.
    fn url(&self, known: &KnownValues<'_>) -> Result<Url, String> {
        let text = self.file.request.url.url(known, &self.file.settings);
        let url = self.destinations.parse(&text).map_err(|said| format!("the provider's address {said}"))?;
        if !same_place(&self.shape, &url) {
            return Err(
                "a value would change the path of the provider's address: it is empty, `.` or `..`".into()
            );
        }
        Ok(url)
    }

    fn body(&self, known: &mut KnownValues<'_>) -> Result<(&'static str, Vec<u8>), String> {
        let body = self.file.request.bodies.iter().find(|body| body.fits(known));
        let Some(body) = body else {
            return Err("the letter lacks what this provider needs, such as its own template".into());
        };
        Ok(match &body.content {
            Content::Json(node) => {
                let tree = node.fill(known).unwrap_or_else(|| Value::Object(Map::new()));
                ("application/json", tree.to_string().into_bytes())
            }
            Content::Form(fields) => {
                let mut form = form_urlencoded::Serializer::new(String::new());
                for (name, value) in fill_fields(fields, known) {
                    match value {
                        Value::String(text) => form.append_pair(&name, &text),
                        other => form.append_pair(&name, &other.to_string()),
                    };
                }
                ("application/x-www-form-urlencoded", form.finish().into_bytes())
            }
        })
    }
}

/// Whether two URLs have the same host and the same segments, but for their words.
fn same_place(shape: &Url, url: &Url) -> bool {
    let segments =
        |url: &Url| -> Vec<bool> { url.path_segments().into_iter().flatten().map(str::is_empty).collect() };
    shape.origin() == url.origin() && segments(shape) == segments(url)
}

/// The address in the forms that files may name.
fn address(form: AddressForm, to: &str) -> Result<Map<String, Value>, String> {
    let mut names = Map::new();
    let mut give = |name: &str, text: &str| _ = names.insert(name.to_owned(), text.into());
    match form {
        AddressForm::Phone => {
            let number = PhoneNumber::parse(to)?;
            give("to", number.as_str());
            give("toDigits", number.digits());
            give("toCountryCode", number.country_code());
            give("toNational", number.national());
        }
        AddressForm::Email => give("to", mailbox::check(to)?),
        AddressForm::Any => give("to", to),
    }
    Ok(names)
}

/// A key that a header can carry.
fn fitting(key: String) -> String {
    let plain = key.len() <= KEY_BYTES_MAX && key.bytes().all(|b| b.is_ascii_graphic());
    if plain { key } else { punctual::base::digest::of([key.as_bytes()]) }
}

fn value(name: &HeaderName, text: &str) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::from_str(text)
        .map_err(|_| format!("the header {name} cannot carry what it would have to"))?;
    // Not shown by whoever debugs the client.
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod mutated;
