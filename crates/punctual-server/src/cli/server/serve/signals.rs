//! SIGTERM and SIGINT ask for a stop.

use crate::cli::failure::{CommandFailure, Outcome};

/// Listens from now on; the returned future ends when a stop is requested.
#[cfg(unix)]
pub(in crate::cli) fn asked_to_stop() -> Outcome<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let cannot = |e: std::io::Error| CommandFailure::failed(format!("signals cannot be heard: {e}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(cannot)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(cannot)?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Listens from now on; the returned future ends when a stop is requested.
#[cfg(not(unix))]
pub(in crate::cli) fn asked_to_stop() -> Outcome<impl Future<Output = ()>> {
    Ok(async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    })
}
