//! Pages for recipients: the survey and the unsubscribe link. They need no key, no cookie and no script.

pub mod survey;
pub mod survey_page;
pub mod unsubscribe;
pub mod unsubscribe_page;
pub mod visitor;
