//! The whole route table on one screen.

use crate::app::App;
use axum::Router;

/// All routes.
pub fn router(app: App) -> Router {
    Router::new().with_state(app)
}
