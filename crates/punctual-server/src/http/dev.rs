//! For staging and tests: the clock is there when it is a manual one, the sandbox on a manual clock,
//! in the demo, and where a channel is configured to be in it.

pub mod channels;
pub mod clock;
pub mod messages;

use super::error::{Answer, ApiFailure};
use crate::app::App;
use punctual::Sandbox;

/// The sandbox of this process.
///
/// # Errors
/// 409 when there is none.
pub(super) fn sandbox(app: &App) -> Answer<&Sandbox> {
    let said = "this server has no sandbox: what it sends goes out. Start it with --clock manual, or give a \
                channel the provider \"memory\"";
    app.engine.sandbox().ok_or_else(|| ApiFailure::conflict(said))
}
