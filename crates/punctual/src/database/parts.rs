//! Parts: state that the domains above the database keep with a store.
//!
//! A domain reaches its part by type. Some parts are given when the store is opened, such as settlement
//! hooks; others are made on first use, such as caches. A copy of the store for a fault or a planted bug
//! keeps what was given, and makes the rest anew.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

/// State of any type.
type Part = Arc<dyn Any + Send + Sync>;

/// The parts of one store.
#[derive(Clone, Default)]
pub(crate) struct Parts {
    given: Arc<[Part]>,
    made: Arc<RwLock<Vec<Part>>>,
}

impl Parts {
    /// Adds a part that copies of the store keep.
    pub(crate) fn give<T: Send + Sync + 'static>(&mut self, part: T) {
        let part: Part = Arc::new(part);
        self.given = self.given.iter().cloned().chain([part]).collect();
    }

    /// Returns the part of a type, made by its default if there is none.
    pub(crate) fn get<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let made = self.made.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = find(&self.given).or_else(|| find(&made)) {
            return known;
        }
        drop(made);
        let mut made = self.made.write().unwrap_or_else(PoisonError::into_inner);
        find(&made).unwrap_or_else(|| {
            let part = Arc::new(T::default());
            made.push(Arc::<T>::clone(&part));
            part
        })
    }

    /// Returns the parts that were given, without those that were made.
    pub(crate) fn given(&self) -> Self {
        Self { given: Arc::clone(&self.given), made: Arc::default() }
    }
}

fn find<T: Send + Sync + 'static>(parts: &[Part]) -> Option<Arc<T>> {
    // The last one: a part that is given again replaces the first.
    parts.iter().rev().find_map(|part| Arc::clone(part).downcast().ok())
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").field("given", &self.given.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_made_once_and_given_parts_are_kept() {
        let mut parts = Parts::default();
        parts.give(7_u32);
        let text = parts.get::<String>();
        assert!(Arc::ptr_eq(&text, &parts.get::<String>()), "a part is made once");
        let copy = parts.given();
        assert_eq!(*copy.get::<u32>(), 7, "a given part is kept");
        assert!(!Arc::ptr_eq(&text, &copy.get::<String>()), "a made part is made anew");
    }
}
