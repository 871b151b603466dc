//! The forms in which a locale writes dates, numbers and money.
//!
//! With the feature `locales` they are those of CLDR for every locale that it knows; without it, the few
//! [plain] ones. Both are the same to a template.
//!
//! A locale that is not known has the forms of the tenant's default locale, else English ones, and the
//! template says so in a warning. A region that is not known has the forms of its language.

#[cfg(feature = "locales")]
mod cldr;
#[cfg(any(not(feature = "locales"), test))]
pub(crate) mod plain;

#[cfg(feature = "locales")]
pub(crate) use cldr::{Forms, doubt};
#[cfg(not(feature = "locales"))]
pub(crate) use plain::{Forms, doubt};

use crate::base::document::quote;

#[cfg(feature = "locales")]
type Found = std::rc::Rc<Forms>;
#[cfg(not(feature = "locales"))]
type Found = Forms;

/// The forms for a reader: of a locale, else of the next one that is known, else English ones. A locale that
/// is not known is said.
pub(crate) fn find(tag: &str, default: Option<&str>, warn: &mut impl FnMut(&str)) -> Found {
    if let Some(forms) = Forms::find(tag) {
        return forms;
    }
    let fallback = default.and_then(|tag| Some((tag, Forms::find(tag)?)));
    let (shown_in, forms) = fallback.unwrap_or_else(|| ("en", Forms::english()));
    let (tag, shown_in) = (quote(tag), quote(shown_in));
    warn(&format!("is shown as in `{shown_in}`, because the forms of the locale `{tag}` are not known"));
    forms
}
