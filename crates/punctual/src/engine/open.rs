//! Opens stores with the parts of every domain.

use crate::base::error::Result;
#[cfg(all(feature = "testing", feature = "sqlite"))]
use crate::database::sqlite::simulated::{SimulatedDatabase, SimulatedLink};
use crate::database::store::Store;
use crate::delivery::store::deliveries::DeliveryHook;
use crate::delivery::store::entries::hooks::EntryHooks;
use crate::jobs::store::runs::RunHook;
use crate::queue::store::settle::hooks::{SettlementHook, SettlementHooks};
use crate::survey::store::publish::SurveyHook;

#[cfg(all(feature = "testing", feature = "sqlite"))]
impl SimulatedDatabase {
    /// Returns a store on it, for the user at the other end of this link.
    #[must_use]
    pub fn store(&self, link: std::sync::Arc<dyn SimulatedLink>) -> Store {
        self.connect(link).with_hooks()
    }
}

impl Store {
    /// Opens `sqlite:PATH`, `sqlite::memory:` or `postgres://…`; changes nothing yet.
    ///
    /// # Errors
    /// [`crate::Error::Config`] when the URL or the file cannot be used.
    pub fn open(url: &str, pool_size: usize) -> Result<Self> {
        Ok(Self::connect(url, pool_size)?.with_hooks())
    }

    /// Lets runs of jobs and deliveries commit with settlements, and kinds with changes of their entries, in
    /// every process alike.
    #[must_use]
    pub(crate) fn with_hooks(self) -> Self {
        let hooks: Vec<Box<dyn SettlementHook>> = vec![Box::new(RunHook), Box::new(DeliveryHook)];
        self.with(SettlementHooks::new(hooks)).with(EntryHooks::new(vec![Box::new(SurveyHook)]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::statement::prepared;

    #[test]
    fn statements_composed_for_the_hooks_prepare() {
        let store = Store::open("sqlite::memory:", 1).expect("it opens");
        let texts: Vec<&str> = store.settlement_hooks().texts().collect();
        assert!(
            texts.iter().any(|text| text.contains("punctual.run")),
            "the hook of runs asks for its table"
        );
        for text in texts {
            prepared::check(text, &[]);
        }
    }
}
