//! Components: the parts of the engine that a database can have the tables of, or not.
//!
//! Each component has tables of its own and perhaps needs others: a run of a job is a message, so jobs need
//! the outbox. The clock and the tenants belong to no component, since every one stands on them. See
//! `docs/adr/0021-components.md`.

use std::fmt;

/// A part of the engine with tables of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Component {
    /// API keys, settings of tenants, secrets, and idempotency records.
    Access,
    /// Messages with handlers, subscriptions, retries and dead letters. A timer is a message that is due
    /// later, so timers are here, too.
    Outbox,
    /// Received messages, each processed once.
    Inbox,
    /// Leases with fencing tokens.
    Leases,
    /// Cron jobs and their runs.
    Jobs,
    /// Everything that leads to messages to people: event kinds, templates, notifications, surveys,
    /// deliveries, consent.
    Flows,
}

impl Component {
    /// All components, each after those that it needs.
    pub const ALL: [Self; 6] =
        [Self::Access, Self::Outbox, Self::Inbox, Self::Leases, Self::Jobs, Self::Flows];

    /// Returns its name, as the command line and the table of migrations write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Access => "access",
            Self::Outbox => "outbox",
            Self::Inbox => "inbox",
            Self::Leases => "leases",
            Self::Jobs => "jobs",
            Self::Flows => "flows",
        }
    }

    /// Returns the component of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|component| component.name() == name)
    }

    /// Returns the components whose tables its own verbs use as well.
    #[must_use]
    pub const fn needs(self) -> &'static [Self] {
        match self {
            Self::Access | Self::Outbox | Self::Inbox | Self::Leases => &[],
            Self::Jobs => &[Self::Outbox],
            Self::Flows => &[Self::Access, Self::Outbox, Self::Inbox],
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of components.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Components(u8);

impl Components {
    /// No component: only the clock and the tenants.
    pub const NONE: Self = Self(0);
    /// Every component.
    pub const ALL: Self = Self::of(&Component::ALL);

    /// Returns the set of these components and of all that they need.
    #[must_use]
    pub const fn of(components: &[Component]) -> Self {
        let mut bits = 0;
        let mut n = 0;
        while n < components.len() {
            bits |= components[n].bit() | Self::of(components[n].needs()).0;
            n += 1;
        }
        Self(bits)
    }

    /// Returns whether a component is in the set.
    #[must_use]
    pub const fn has(self, component: Component) -> bool {
        self.0 & component.bit() != 0
    }

    /// Returns whether all components of another set are in this one.
    #[must_use]
    pub const fn covers(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// Returns the components that are in both sets.
    #[must_use]
    pub const fn both(self, others: Self) -> Self {
        Self(self.0 & others.0)
    }

    /// Returns the components, each after those that it needs.
    pub fn iter(self) -> impl Iterator<Item = Component> {
        Component::ALL.into_iter().filter(move |component| self.has(*component))
    }

    pub(crate) const fn bits(self) -> u8 {
        self.0
    }

    pub(crate) const fn from_bits(bits: u8) -> Self {
        Self(bits & Self::ALL.0)
    }

    /// Adds one component without those that it needs, as a database may have it.
    #[must_use]
    pub(crate) const fn with(self, component: Component) -> Self {
        Self(self.0 | component.bit())
    }
}

impl fmt::Display for Components {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.iter().map(Component::name).collect();
        f.write_str(&names.join(", "))
    }
}

impl fmt::Debug for Components {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_brings_what_it_needs() {
        assert_eq!(Components::of(&[Component::Jobs]).to_string(), "outbox, jobs");
        assert_eq!(Components::of(&[Component::Flows]).to_string(), "access, outbox, inbox, flows");
        assert_eq!(Components::of(&[Component::Leases]).to_string(), "leases");
        assert!(Components::ALL.covers(Components::of(&[Component::Flows])), "all covers every set");
    }

    #[test]
    fn needs_come_first_and_names_are_read_back() {
        for (n, component) in Component::ALL.into_iter().enumerate() {
            assert_eq!(Component::from_name(component.name()), Some(component));
            assert!(component.needs().iter().all(|need| Component::ALL[..n].contains(need)), "{component}");
        }
        assert_eq!(Component::from_name("lease"), None);
    }
}
