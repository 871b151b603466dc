//! The question before a change that cannot be undone.

use super::failure::{CommandFailure, Outcome};
use std::io::{BufRead, IsTerminal, Write};

/// Asks whether to go on, unless `yes` answers that.
///
/// # Errors
/// Without a terminal, or when the answer is no.
pub(super) fn ask(question: &str, yes: bool) -> Outcome {
    if yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        return Err(CommandFailure::usage(format!(
            "{question} There is no terminal to answer: give --yes to continue"
        )));
    }
    eprint!("{question} [y/N] ");
    let mut answer = String::new();
    // Without an answer the answer is no.
    let _ = std::io::stderr().flush().and_then(|()| std::io::stdin().lock().read_line(&mut answer));
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(CommandFailure::failed("nothing was changed")),
    }
}
