//! The status page's data, read once for each page.

use super::counters;
use crate::app::{App, Role};
use crate::http::health::complaints;
use punctual::engine::Health;
use punctual::queue::store::dead_letters::DeadLetterSummary;
use punctual::queue::store::queues::QueueState;
use punctual::{ClockMode, Result, Timestamp};
use std::collections::BTreeMap;
use std::time::Duration;

/// Tenants whose queues are shown.
const TENANTS_MAX: usize = 50;
/// Dead letters that are shown.
const DEAD_LETTERS_SHOWN: usize = 10;

/// The data of the status page.
#[derive(Debug)]
pub(super) struct StatusView {
    /// The authority's time.
    pub now: Timestamp,
    /// How long this process has run.
    pub uptime: Duration,
    /// The source of the time.
    pub clock: ClockMode,
    /// The role of this process.
    pub role: Role,
    /// The database's name for people.
    pub database: &'static str,
    /// Whether this is the demo.
    pub demo: bool,
    /// Whether there are fake providers to look into.
    pub providers: bool,
    /// Whether there is a sandbox to look into.
    pub sandbox: bool,
    /// The engine's health.
    pub health: Health,
    /// The complaints of the health check.
    pub complaints: Vec<String>,
    /// Queues with their tenant's slug.
    pub queues: Vec<(String, QueueState)>,
    /// Whether there is more than one tenant.
    pub many_tenants: bool,
    /// The latest dead letters, the newest first, with their tenant's slug.
    pub dead_letters: Vec<(String, DeadLetterSummary)>,
    /// Counters since the start.
    pub counters: BTreeMap<String, f64>,
}

impl StatusView {
    /// Reads the data.
    ///
    /// # Errors
    /// When the database does not answer.
    pub(super) async fn load(app: &App) -> Result<Self> {
        let store = app.engine.store();
        let tenants = store.tenants(0, TENANTS_MAX).await?;
        let (mut queues, mut dead_letters) = (Vec::new(), Vec::new());
        for row in &tenants {
            let slug = || row.slug.clone();
            queues.extend(store.queues(row.tenant).await?.into_iter().map(|queue| (slug(), queue)));
            let dead = store.latest_dead_letters(row.tenant, DEAD_LETTERS_SHOWN).await?;
            dead_letters.extend(dead.into_iter().map(|letter| (slug(), letter)));
        }
        dead_letters.sort_by_key(|(_, letter)| std::cmp::Reverse(letter.died_at));
        dead_letters.truncate(DEAD_LETTERS_SHOWN);
        let health = app.engine.health().await;
        let metrics = app.settings.metrics.as_ref().map(|m| m.render()).unwrap_or_default();
        Ok(Self {
            now: store.now().await?,
            uptime: app.settings.started.0.elapsed(),
            clock: app.engine.clock(),
            role: app.settings.role,
            database: store.dialect().name(),
            demo: app.settings.demo,
            providers: app.settings.fakes.is_some(),
            sandbox: app.engine.sandbox().is_some(),
            complaints: complaints(app, &health),
            health,
            queues,
            many_tenants: tenants.len() > 1,
            dead_letters,
            counters: counters::since_start(&metrics),
        })
    }
}
