//! Log lines, on stderr: stdout is for the output of commands.

use crate::config::LogFormat;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt;

/// The default of `RUST_LOG`.
const FILTER_DEFAULT: &str = "warn,punctual=info";

/// Starts logging. A second call changes nothing.
pub(in crate::cli) fn begin(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(FILTER_DEFAULT));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let begun = match format {
        LogFormat::Text => {
            let colour = std::io::IsTerminal::is_terminal(&std::io::stderr());
            lines.with_ansi(colour).finish().try_init()
        }
        LogFormat::Json => lines.json().flatten_event(true).finish().try_init(),
    };
    // Only the second of two servers in one process comes here, and it logs like the first.
    let _ = begun;
}
