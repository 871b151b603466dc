//! What viewers do not see: whole addresses, and what events say of people.
//!
//! A payload is not shown to them at all: nobody knows which of its texts are addresses or names.

use super::raw;
use crate::auth::Caller;
use punctual::access::store::keys::Role;
use punctual::base::masked::masked;
use punctual::delivery::rules::consent::address::normal;
use serde_json::value::RawValue;

impl Caller {
    /// Whether they see addresses and payloads.
    pub(super) fn sees_people(&self) -> bool {
        self.role > Role::Viewer
    }

    /// An address as they may see it.
    pub(super) fn address(&self, address: &str) -> String {
        if self.sees_people() || address.is_empty() { address.to_owned() } else { masked(address) }
    }

    /// A payload, or other JSON that may name people.
    pub(super) fn content(&self, json: String) -> Option<Box<RawValue>> {
        self.sees_people().then(|| raw(json))
    }

    /// A free text that may name people: a comment, or the error of a handler.
    pub(super) fn free_text(&self, text: String) -> Option<String> {
        self.sees_people().then_some(text)
    }

    /// What was said about a message to this address; providers like to repeat it.
    pub(super) fn words(&self, said: &str, address: &str) -> String {
        if self.sees_people() || address.is_empty() {
            return said.to_owned();
        }
        let (normal, shown) = (normal(address), masked(address));
        let bare = normal.trim_start_matches('+');
        [address, &normal, bare]
            .into_iter()
            .filter(|form| !form.is_empty())
            .fold(said.to_owned(), |said, form| said.replace(form, &shown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual::Tenant;

    fn caller(role: Role) -> Caller {
        Caller { tenant: Tenant::DEFAULT, role, name: "x".into(), id: "1".into() }
    }

    /// NTF-19: an address is hidden in every form that a provider may repeat it in.
    #[test]
    fn ntf_19_an_address_is_hidden_in_what_is_said() {
        let (viewer, support) = (caller(Role::Viewer), caller(Role::Support));
        let number = "+964 770 000 0001";
        for said in ["no +964 770 000 0001", "no +9647700000001", "no 9647700000001"] {
            assert_eq!(viewer.words(said, number), "no ••• 0001", "{said}");
            assert_eq!(support.words(said, number), said);
        }
        assert_eq!(viewer.words("no a@b.org", "a@b.org"), "no a•••@b.org");
        assert_eq!(viewer.words("nobody", ""), "nobody");
        assert!(viewer.content("{}".into()).is_none() && support.content("{}".into()).is_some());
        assert_eq!(viewer.free_text("Ana".into()), None);
        assert_eq!(support.free_text("Ana".into()).as_deref(), Some("Ana"));
    }
}
