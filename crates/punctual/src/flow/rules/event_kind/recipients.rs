//! The recipients of an event: paths to their fields.

use crate::base::limits;
use crate::base::locale;
use crate::base::path::{Path, text_of};
use crate::flow::rules::event_kind::look;
use serde_json::Value;
use std::borrow::Cow;

/// Where what is known of recipients stands. Of several paths the first that leads to something counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecipientMapping {
    /// The phone number.
    pub phone: Vec<Path>,
    /// The mailbox.
    pub email: Vec<Path>,
    /// The name.
    pub name: Vec<Path>,
    /// The locale that they read.
    pub locale: Vec<Path>,
    /// Their name in another system.
    pub reference: Vec<Path>,
    /// Their time zone.
    pub zone: Vec<Path>,
    /// The list that each recipient is an element of; the other paths then begin at the element.
    pub each: Option<Path>,
}

/// A recipient of an event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recipient<'a> {
    /// The phone number, as it was given.
    pub phone: Option<String>,
    /// The mailbox, as it was given.
    pub email: Option<String>,
    /// The name.
    pub name: Option<String>,
    /// The locale that they read.
    pub locale: Option<String>,
    /// Their name in another system.
    pub reference: Option<String>,
    /// Their time zone, as it was given.
    pub zone: Option<String>,
    /// The element of the list that they are.
    pub element: Option<Cow<'a, Value>>,
}

/// The fields of a mapping, as they are written.
pub(crate) const FIELDS: [&str; 6] = ["phone", "email", "name", "locale", "ref", "timeZone"];

impl RecipientMapping {
    /// Returns the mapping of events without a defined kind.
    pub(crate) fn undefined() -> Self {
        let mut mapping = Self::default();
        for field in FIELDS {
            let paths = [format!("recipient.{field}"), field.to_owned()];
            *mapping.field(field) = paths.iter().filter_map(|path| Path::parse(path).ok()).collect();
        }
        mapping
    }

    pub(crate) fn field(&mut self, name: &str) -> &mut Vec<Path> {
        match name {
            "phone" => &mut self.phone,
            "email" => &mut self.email,
            "name" => &mut self.name,
            "locale" => &mut self.locale,
            "ref" => &mut self.reference,
            _ => &mut self.zone,
        }
    }

    /// Each field's name with its paths.
    pub(crate) fn fields(&self) -> [(&'static str, &[Path]); 6] {
        let paths: [&[Path]; 6] =
            [&self.phone, &self.email, &self.name, &self.locale, &self.reference, &self.zone];
        std::array::from_fn(|n| (FIELDS[n], paths[n]))
    }

    /// The recipients of an event. One of whom nothing was found is none.
    pub(crate) fn find<'a>(
        &'a self,
        payload: &'a Value,
        state: &'a Value,
    ) -> impl Iterator<Item = Recipient<'a>> {
        let (items, alone): (&[Value], _) = match &self.each {
            None => (&[], Some((payload, None))),
            Some(path) => match look(path, payload, payload, state) {
                Some(Value::Array(items)) => (items, None),
                // One that stands alone is a list of one.
                Some(one) => (&[], Some((one, Some(one)))),
                None => (&[], None),
            },
        };
        let all = alone.into_iter().chain(items.iter().map(|item| (item, Some(item))));
        all.map(move |(here, element)| self.read(here, payload, state, element))
            .filter(Recipient::is_identified)
    }

    /// What an event says of the only recipient that it names, with or without an address.
    pub(crate) fn describe<'a>(&'a self, payload: &'a Value, state: &'a Value) -> Option<Recipient<'a>> {
        self.each.is_none().then(|| self.read(payload, payload, state, None))
    }

    /// Finds the first path, with its field, that leads a recipient of an event to such a value.
    pub(crate) fn find_path(
        &self,
        payload: &Value,
        is_such: impl Fn(Option<&Value>) -> bool,
    ) -> Option<(&'static str, &Path)> {
        let each = self.each.as_ref().and_then(|path| look(path, payload, payload, payload));
        let places: Vec<&Value> = match each {
            Some(Value::Array(items)) => items.iter().collect(),
            other => vec![other.unwrap_or(payload)],
        };
        let all =
            self.fields().into_iter().flat_map(|(name, paths)| paths.iter().map(move |path| (name, path)));
        let mut found =
            all.filter(|(_, path)| places.iter().any(|here| is_such(look(path, here, payload, payload))));
        found.next()
    }

    fn read<'a>(
        &self,
        here: &'a Value,
        payload: &'a Value,
        state: &'a Value,
        element: Option<&'a Value>,
    ) -> Recipient<'a> {
        let text = |paths: &[Path]| {
            let mut found =
                paths.iter().filter_map(|path| look(path, here, payload, state).and_then(text_of));
            found.find(|text| text.chars().count() <= limits::NAME_CHARS_MAX)
        };
        Recipient {
            phone: text(&self.phone),
            email: text(&self.email),
            name: text(&self.name),
            locale: text(&self.locale).and_then(mended),
            reference: text(&self.reference),
            zone: text(&self.zone),
            element: element.map(Cow::Borrowed),
        }
    }
}

impl Recipient<'_> {
    /// The same, to be kept.
    #[must_use]
    pub fn owned(&self) -> Recipient<'static> {
        let element = self.element.as_deref().map(|element| Cow::Owned(element.clone()));
        Recipient {
            phone: self.phone.clone(),
            email: self.email.clone(),
            name: self.name.clone(),
            locale: self.locale.clone(),
            reference: self.reference.clone(),
            zone: self.zone.clone(),
            element,
        }
    }

    fn is_identified(&self) -> bool {
        self.phone.is_some() || self.email.is_some() || self.reference.is_some()
    }
}

/// Returns the canonical form of a locale such as `en_US`; `None` if the text is not a locale.
fn mended(text: String) -> Option<String> {
    let text = text.replace('_', "-");
    locale::check(&text).is_ok().then_some(text)
}
