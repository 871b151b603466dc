//! The channels that a [`Builder`](super::Builder) was given.

use crate::delivery::run::channel::{Channel, Channels};
use crate::delivery::run::sandbox::Sandbox;
use std::fmt;
use std::sync::Arc;

/// Channels by key, as they were given.
#[derive(Default)]
pub(super) struct ConfiguredChannels(pub(super) Vec<(String, Arc<dyn Channel>)>);

impl fmt::Debug for ConfiguredChannels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.iter().map(|(key, _)| key)).finish()
    }
}

impl ConfiguredChannels {
    pub(super) fn put_together(self, sandbox: Option<&Sandbox>) -> Channels {
        let mut channels = Channels::default();
        for (key, channel) in self.0 {
            channels.add(key, channel);
        }
        let Some(sandbox) = sandbox else { return channels };
        let one: Arc<dyn Channel> = Arc::new(sandbox.clone());
        sandbox.keys().for_each(|key| channels.add(key, Arc::clone(&one)));
        if sandbox.takes_every_memory() {
            channels.add_memory(one);
        }
        channels
    }
}
