//! `punctual lease run NAME -- command`: for scripts that must run on one machine at a time.
//!
//! The command is killed when the lease is lost or may be lost, before another owner can have it, and
//! when this process is asked to stop. Child processes of the command are not killed. The command
//! finds its fencing token in `PUNCTUAL_FENCING_TOKEN`.

use super::{LeaseName, held_by, own_name};
use crate::cli::GlobalOptions;
use crate::cli::failure::{CommandFailure, Outcome};
use crate::cli::server::serve::signals::asked_to_stop;
use punctual::LeaseGuard;
use punctual::jobs::run::lease::CandidateOutcome;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;
use tokio::process::{Child, Command};

/// A command under a lease.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Run {
    #[command(flatten)]
    one: LeaseName,
    /// Owner, for people [default: this machine, and a random word]
    #[arg(long)]
    owner: Option<String>,
    /// Time to wait for the lease while another owner holds it
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = super::length)]
    wait: Duration,
    /// Exit code if another owner holds the lease
    #[arg(long, value_name = "CODE", default_value_t = 1)]
    held_code: u8,
    /// Command with its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl Run {
    pub(super) async fn run(self, options: &GlobalOptions) -> Outcome<ExitCode> {
        let stop = asked_to_stop()?;
        let engine = options.engine().await?;
        let tenant = self.one.of.find(engine.store()).await?;
        let owner = self.owner.clone().unwrap_or_else(own_name);
        let candidate = engine.lease(tenant, &self.one.name).owner(owner).duration(self.one.length);
        let guard = match candidate.acquire_within(self.wait).await? {
            CandidateOutcome::Acquired(guard) => guard,
            CandidateOutcome::Held(lease) => {
                held_by(&lease).report(options.json);
                return Ok(ExitCode::from(self.held_code));
            }
        };
        let ended = self.hold(&guard, stop).await;
        // The command is through, whatever became of it. What is not released ends by itself.
        guard.release().await.ok();
        ended
    }

    async fn hold(&self, guard: &LeaseGuard, stop: impl Future<Output = ()>) -> Outcome<ExitCode> {
        let mut child = self.start(guard)?;
        tokio::select! {
            ended = child.wait() => code(ended),
            loss = guard.lost() => {
                kill(&mut child).await;
                Err(CommandFailure::failed(format!(
                    "the lease `{}` is lost or may be ({loss:?}), so the command was killed",
                    guard.name()
                )))
            }
            () = stop => {
                kill(&mut child).await;
                Err(CommandFailure::failed("asked to stop, so the command was killed"))
            }
        }
    }

    fn start(&self, guard: &LeaseGuard) -> Outcome<Child> {
        let (program, arguments) =
            self.command.split_first().ok_or_else(|| CommandFailure::usage("say which command to run"))?;
        Command::new(program)
            .args(arguments)
            .env("PUNCTUAL_FENCING_TOKEN", guard.token().to_string())
            .kill_on_drop(true)
            .spawn()
            .map_err(|e| CommandFailure::failed(format!("`{program}` cannot be started: {e}")))
    }
}

async fn kill(child: &mut Child) {
    // One that has ended by itself meanwhile cannot be killed, and need not be.
    child.kill().await.ok();
}

/// Returns the command's own exit code; a command that a signal ended has none.
fn code(ended: std::io::Result<ExitStatus>) -> Outcome<ExitCode> {
    let ended = ended
        .map_err(|e| CommandFailure::failed(format!("the command's exit status could not be read: {e}")))?;
    match ended.code() {
        Some(code) => Ok(ExitCode::from(u8::try_from(code).unwrap_or(1))),
        None => Err(CommandFailure::failed(format!("the command was ended: {ended}"))),
    }
}
