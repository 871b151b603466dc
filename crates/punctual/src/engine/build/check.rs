//! Checks the settings of a [`Builder`] before a database is opened.

use super::Builder;
use crate::base::component::{Component, Components};
use crate::base::error::{Error, Problems, Result};
use crate::base::limits;
use crate::base::name::check_name;
use crate::delivery::rules::channel::check_key;
use crate::delivery::run::sandbox::Sandbox;
use crate::queue::rules::message::check_topic;
use crate::queue::run::handlers::HandlerKey;
use std::collections::BTreeSet;

impl Builder {
    /// Checks every setting and reports all problems at once.
    pub(super) fn check(&self) -> Result<()> {
        let mut problems = Problems::default();
        for (n, slot) in self.handlers.iter().enumerate() {
            let path = match &slot.key {
                HandlerKey::Topic(topic) => {
                    let path = format!("handlers[{n}].topic");
                    check_topic(topic, &path, &mut problems);
                    path
                }
                HandlerKey::Subscriber(name) => {
                    let path = format!("handlers[{n}].name");
                    check_name(name, &path, &mut problems);
                    path
                }
            };
            if self.handlers[..n].iter().any(|s| s.key == slot.key) {
                problems.push(path, "has a handler already");
            }
        }
        self.check_components(&mut problems);
        self.check_channels(&mut problems);
        self.check_encryption_keys(&mut problems);
        for (name, job) in &self.jobs {
            let mut found = Problems::default();
            job.check(name, &mut found);
            for problem in found.0 {
                problems.push(format!("jobs.{name}.{}", problem.path), problem.message);
            }
        }
        if self.lease < limits::LEASE_MIN || self.lease > limits::LEASE_MAX {
            problems.push("lease", "must be between 1 second and 24 hours");
        }
        if self.poll_max < limits::POLL_MIN {
            problems
                .push("maxPollingInterval", "must be at least 250 ms: wake-ups make it fast, not polling");
        }
        if self.poll_max > limits::POLL_MAX {
            problems.push(
                "maxPollingInterval",
                "must be at most 30 seconds: the SQL functions tell no worker of what is due in more than \
                 a minute, and rely on every worker looking before",
            );
        }
        if !self.survey_url.contains("{publicId}") {
            problems.push("surveyUrl", "must have {publicId} in it, where the entry's id belongs");
        }
        let inbox = [("inbox.retention", self.inbox.retention), ("inbox.every", self.inbox.every)];
        for (name, length) in self.retention.named().into_iter().chain(inbox) {
            if length.is_zero() {
                problems.push(name, "must be longer than zero");
            }
        }
        if problems.0.is_empty() { Ok(()) } else { Err(Error::Invalid(problems)) }
    }

    /// Checks that nothing was given to a component that the engine is built without.
    fn check_components(&self, problems: &mut Problems) {
        if self.components == Components::NONE {
            problems.push("components", "must name at least one component");
        }
        let given = [
            ("handlers", Component::Outbox, !self.handlers.is_empty()),
            ("jobs", Component::Jobs, !self.jobs.is_empty()),
            ("channels", Component::Flows, !self.channels.0.is_empty() || self.sandbox.is_some()),
            ("channelPolicies", Component::Flows, !self.policies.is_empty()),
            ("encryptionKeys", Component::Flows, !self.encryption_keys.0.is_empty()),
            ("unsubscribeUrl", Component::Flows, self.unsubscribe_url.is_some()),
        ];
        for (path, component, is_given) in given {
            if is_given && !self.components.has(component) {
                problems.push(path, format!("need the component `{component}`: add it to the components"));
            }
        }
    }

    /// Checks the ids of encryption keys: they are stored before a colon, and tell keys apart.
    fn check_encryption_keys(&self, problems: &mut Problems) {
        let ids = self.encryption_keys.ids();
        for (n, id) in ids.iter().enumerate() {
            let path = format!("encryption_keys[{n}].id");
            check_name(id, &path, problems);
            if id.contains(':') {
                problems.push(&path, "must not contain `:`");
            }
            if ids[..n].contains(id) {
                problems.push(&path, format!("`{id}` is the id of another key: give each key its own"));
            }
        }
    }

    fn check_channels(&self, problems: &mut Problems) {
        let mut seen = BTreeSet::new();
        let given = self.channels.0.iter().map(|(key, _)| key.as_str());
        let boxed = self.sandbox.iter().flat_map(Sandbox::keys);
        for (n, key) in given.chain(boxed).enumerate() {
            let path = format!("channels[{n}]");
            check_key(key, &path, problems);
            if !seen.insert(key) {
                problems.push(path, format!("`{key}` is there already"));
            }
        }
    }
}
