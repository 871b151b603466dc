//! Redaction of personal data for viewers: addresses are masked, payloads and free texts are left out.
//!
//! A payload is left out as a whole, because any of its texts may be an address or a name.

use super::raw;
use crate::auth::Caller;
use punctual::access::store::keys::Role;
use punctual::base::redaction::mask_address;
use punctual::delivery::rules::consent::address::normal;
use serde_json::value::RawValue;

impl Caller {
    /// Whether the caller may see addresses and payloads.
    pub(super) fn can_see_personal_data(&self) -> bool {
        self.role > Role::Viewer
    }

    /// Returns an address, masked for viewers.
    pub(super) fn visible_address(&self, address: &str) -> String {
        if self.can_see_personal_data() || address.is_empty() {
            address.to_owned()
        } else {
            mask_address(address)
        }
    }

    /// Returns a payload, or other JSON that may name people; `None` for viewers.
    pub(super) fn visible_payload(&self, json: String) -> Option<Box<RawValue>> {
        self.can_see_personal_data().then(|| raw(json))
    }

    /// Returns a free text that may name people, such as a comment or an error; `None` for viewers.
    pub(super) fn visible_text(&self, text: String) -> Option<String> {
        self.can_see_personal_data().then_some(text)
    }

    /// Masks an address in a text about a message to it, in every form in which providers repeat it.
    pub(super) fn redact(&self, said: &str, address: &str) -> String {
        if self.can_see_personal_data() || address.is_empty() {
            return said.to_owned();
        }
        let (normal, shown) = (normal(address), mask_address(address));
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
            assert_eq!(viewer.redact(said, number), "no ••• 0001", "{said}");
            assert_eq!(support.redact(said, number), said);
        }
        assert_eq!(viewer.redact("no a@b.org", "a@b.org"), "no a•••@b.org");
        assert_eq!(viewer.redact("nobody", ""), "nobody");
        assert!(
            viewer.visible_payload("{}".into()).is_none() && support.visible_payload("{}".into()).is_some()
        );
        assert_eq!(viewer.visible_text("Ana".into()), None);
        assert_eq!(support.visible_text("Ana".into()).as_deref(), Some("Ana"));
    }
}
