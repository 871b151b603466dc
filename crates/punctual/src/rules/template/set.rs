//! The templates of one tenant for one kind of events, ready to be used.

use super::definition::{Compiled, Definition};
use crate::base::id::TemplateId;
use crate::rules::zone::Zone;

/// A template that is in use.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageTemplate {
    /// Its id.
    pub id: TemplateId,
    /// Which version of it this is, from 1.
    pub version: u32,
    /// As it was defined.
    pub definition: Definition,
    /// Its texts.
    pub texts: Compiled,
}

/// What the wording of a tenant's messages needs.
#[derive(Clone, Debug)]
pub struct TemplateSet {
    /// The templates in use.
    pub templates: Vec<MessageTemplate>,
    /// The tenant's language.
    pub default_locale: String,
    /// The tenant's zone, in which moments are shown.
    pub zone: Zone,
}

impl Default for TemplateSet {
    fn default() -> Self {
        Self { templates: Vec::new(), default_locale: "en".into(), zone: Zone::utc() }
    }
}
