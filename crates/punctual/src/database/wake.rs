//! Wake-ups for other processes' work: notifications of the database, or a change counter.

use crate::base::error::Result;
#[cfg(feature = "sqlite")]
use crate::database::statement::statements;
use crate::database::store::{Backend, Store};
use crate::database::tx::VerbFuture;

/// A subscription to other processes' wake-ups.
#[derive(Debug)]
pub enum WakeSubscription {
    /// Notifications arrive by themselves.
    #[cfg(feature = "postgres")]
    Listening(super::postgres::listen::Listener),
    /// The file's change counter, as it was seen last.
    #[cfg(feature = "sqlite")]
    Counting(Store, i64),
    /// A simulation decides which wake-ups are received, and when.
    #[cfg(all(feature = "testing", feature = "sqlite"))]
    Simulated(std::sync::Arc<dyn super::sqlite::simulated::SimulatedLink>),
}

#[cfg(feature = "sqlite")]
statements! {
    const DATA_VERSION for Sqlite = "
        pragma data_version
    ";
}

impl Store {
    /// Subscribes to wake-ups.
    ///
    /// # Errors
    /// When the database cannot be reached.
    pub fn listen(&self) -> VerbFuture<'_, WakeSubscription> {
        VerbFuture::new(async move {
            match &self.backend {
                #[cfg(feature = "sqlite")]
                Backend::Sqlite(_) => {
                    Ok(WakeSubscription::Counting(self.clone(), self.change_counter().await?))
                }
                #[cfg(feature = "postgres")]
                Backend::Postgres(db) => {
                    super::postgres::listen::Listener::connect(db).await.map(WakeSubscription::Listening)
                }
                #[cfg(all(feature = "testing", feature = "sqlite"))]
                Backend::Simulated(db) => Ok(WakeSubscription::Simulated(std::sync::Arc::clone(&db.link))),
            }
        })
    }

    /// Wakes other processes.
    ///
    /// # Errors
    /// When the database cannot be reached; nothing is lost by that.
    pub fn notify(&self) -> VerbFuture<'_, ()> {
        VerbFuture::new(async move {
            match &self.backend {
                // They see the file change.
                #[cfg(feature = "sqlite")]
                Backend::Sqlite(_) => Ok(()),
                #[cfg(feature = "postgres")]
                Backend::Postgres(db) => db.notify().await,
                #[cfg(all(feature = "testing", feature = "sqlite"))]
                Backend::Simulated(db) => db.link.notify().await,
            }
        })
    }

    #[cfg(feature = "sqlite")]
    async fn change_counter(&self) -> Result<i64> {
        self.read((), |tx, ()| {
            Box::pin(async move { tx.first(DATA_VERSION, &[]).await?.map_or(Ok(0), |row| row.int(0)) })
        })
        .await
    }
}

impl WakeSubscription {
    /// Whether another process may have written work. Waits for that on Postgres; on SQLite the method
    /// returns at once and is called again.
    ///
    /// # Errors
    /// When the subscription is broken: make a new one, and look.
    pub async fn wait(&mut self) -> Result<bool> {
        match self {
            #[cfg(feature = "postgres")]
            Self::Listening(listener) => listener.wait().await.map(|()| true),
            #[cfg(all(feature = "testing", feature = "sqlite"))]
            Self::Simulated(link) => link.wait_for_wake().await.map(|()| true),
            #[cfg(feature = "sqlite")]
            Self::Counting(store, seen) => {
                let counter = store.change_counter().await?;
                let changed = counter != *seen;
                *seen = counter;
                Ok(changed)
            }
        }
    }

    /// Whether the caller must poll.
    #[must_use]
    pub const fn must_poll(&self) -> bool {
        match self {
            #[cfg(feature = "postgres")]
            Self::Listening(_) => false,
            #[cfg(all(feature = "testing", feature = "sqlite"))]
            Self::Simulated(_) => false,
            #[cfg(feature = "sqlite")]
            Self::Counting(..) => true,
        }
    }
}
