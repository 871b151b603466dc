//! `punctual lease`: look at leases, hold one, or run a command under one.

mod run;

use crate::cli::database::TenantOption;
use crate::cli::failure::{CommandFailure, Outcome};
use crate::cli::table::Table;
use crate::cli::{GlobalOptions, format, print_json, print_line};
use punctual::base::duration;
use punctual::base::random;
use punctual::jobs::store::leases::{AcquireOutcome, Lease, LeaseHold, ReleaseOutcome, RenewOutcome};
use punctual::{FencingToken, Store};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::Duration;

/// What to do with leases.
#[derive(Debug, clap::Subcommand)]
pub(in crate::cli) enum Leases {
    /// List them by name, held or not
    List {
        #[command(flatten)]
        of: TenantOption,
        /// How many at most
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1_000))]
        limit: u16,
        /// Only those behind this name
        #[arg(long, default_value = "", hide_default_value = true)]
        after: String,
    },
    /// Hold a lease, if nobody does; prints its fencing token
    Acquire {
        #[command(flatten)]
        one: LeaseName,
        /// Who holds it: a name that only this holder uses [default: this machine, and a random word]
        #[arg(long)]
        owner: Option<String>,
    },
    /// Hold a lease for longer
    Renew(LeaseHandle),
    /// Give a lease back
    Release(LeaseHandle),
    /// Run a command while holding a lease, and kill it when the lease is lost
    Run(run::Run),
}

/// One lease, and how long it is to be held.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct LeaseName {
    /// Its name
    name: String,
    /// How long it is held without being renewed
    #[arg(long = "for", value_name = "DURATION", default_value = "30s", value_parser = length)]
    length: Duration,
    #[command(flatten)]
    of: TenantOption,
}

/// A lease that is held.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct LeaseHandle {
    #[command(flatten)]
    one: LeaseName,
    /// Who acquired it
    #[arg(long)]
    owner: String,
    /// The fencing token that was printed then
    #[arg(long)]
    token: i64,
}

fn length(text: &str) -> Result<Duration, String> {
    duration::parse(text)
}

fn own_name() -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "cli".into());
    format!("{host}-{}-{}", std::process::id(), random::hex::<4>())
}

impl Leases {
    pub(in crate::cli) async fn run(self, options: &GlobalOptions) -> Outcome<ExitCode> {
        if let Self::Run(run) = self {
            return run.run(options).await;
        }
        let store = options.store().await?;
        match self {
            Self::List { of, limit, after } => list(&store, &of, &after, limit, options.json).await?,
            Self::Acquire { one, owner } => acquire(&store, one, owner, options.json).await?,
            Self::Renew(held) => renew(&store, held, options.json).await?,
            Self::Release(held) => release(&store, held, options.json).await?,
            Self::Run(_) => {}
        }
        Ok(ExitCode::SUCCESS)
    }
}

async fn list(store: &Store, of: &TenantOption, after: &str, limit: u16, as_json: bool) -> Outcome {
    let leases = store.leases(of.find(store).await?, after, limit.into()).await?;
    if as_json {
        print_json(&json!({"items": leases.iter().map(to_json).collect::<Vec<_>>()}));
        return Ok(());
    }
    if leases.is_empty() {
        print_line("no leases");
        return Ok(());
    }
    let mut table = Table::new(&["lease", "holder", "#token", "ends", "last held by"]);
    for lease in &leases {
        let (holder, ends) = match lease.holder() {
            Some(holder) => (holder.to_owned(), format::from_now(lease.expires_at, lease.now)),
            None => ("-".into(), "-".into()),
        };
        table.row([lease.name.clone(), holder, lease.token.to_string(), ends, lease.owner.clone()]);
    }
    print_line(table.text().trim_end());
    Ok(())
}

fn to_json(lease: &Lease) -> Value {
    json!({
        "name": lease.name,
        "held": lease.is_held(),
        "holder": lease.holder(),
        "lastHolder": lease.owner,
        "fencingToken": lease.token,
        "acquiredAt": lease.acquired_at,
        "renewedAt": lease.renewed_at,
        "expiresAt": lease.expires_at,
        "releasedAt": lease.released_at,
        "serverTime": lease.now,
    })
}

fn say(lease: &Lease, as_json: bool) {
    if as_json {
        print_json(&to_json(lease));
        return;
    }
    print_line(&format!(
        "{} is held by {} under fencing token {} until {}",
        lease.name, lease.owner, lease.token, lease.expires_at
    ));
}

/// A lease that somebody else holds.
fn held_by(lease: &Lease) -> CommandFailure {
    CommandFailure::failed(format!(
        "the lease `{}` is held by {} until {}",
        lease.name, lease.owner, lease.expires_at
    ))
}

async fn acquire(store: &Store, one: LeaseName, owner: Option<String>, as_json: bool) -> Outcome {
    let tenant = one.of.find(store).await?;
    let owner = owner.unwrap_or_else(own_name);
    match store.acquire_lease(tenant, &one.name, &owner, one.length).await? {
        AcquireOutcome::Acquired(lease) => say(&lease, as_json),
        AcquireOutcome::Held(lease) => return Err(held_by(&lease)),
    }
    Ok(())
}

impl LeaseHandle {
    fn holding(&self) -> LeaseHold {
        LeaseHold { name: self.one.name.clone(), owner: self.owner.clone(), token: FencingToken(self.token) }
    }

    fn lost(&self) -> CommandFailure {
        CommandFailure::failed(format!(
            "fencing token {} of {} does not hold the lease `{}`: it ended, was released, or is another's",
            self.token, self.owner, self.one.name
        ))
    }
}

async fn renew(store: &Store, held: LeaseHandle, as_json: bool) -> Outcome {
    let tenant = held.one.of.find(store).await?;
    match store.renew_lease(tenant, held.holding(), held.one.length).await? {
        RenewOutcome::Renewed(lease) => say(&lease, as_json),
        RenewOutcome::Lost => return Err(held.lost()),
    }
    Ok(())
}

async fn release(store: &Store, held: LeaseHandle, as_json: bool) -> Outcome {
    let tenant = held.one.of.find(store).await?;
    match store.release_lease(tenant, held.holding()).await? {
        ReleaseOutcome::Released if as_json => print_json(&json!({"released": true})),
        ReleaseOutcome::Released => print_line(&format!("{} is free", held.one.name)),
        ReleaseOutcome::Lost => return Err(held.lost()),
    }
    Ok(())
}
