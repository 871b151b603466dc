//! `punctual lease`: list leases, hold one, or run a command under one.

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

/// The subcommands of `lease`.
#[derive(Debug, clap::Subcommand)]
pub(in crate::cli) enum Leases {
    /// List leases by name, held or not
    List {
        #[command(flatten)]
        of: TenantOption,
        /// Maximum number of leases
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1_000))]
        limit: u16,
        /// Only leases after this name
        #[arg(long, default_value = "", hide_default_value = true)]
        after: String,
    },
    /// Acquire a lease if it is free and print its fencing token
    Acquire {
        #[command(flatten)]
        one: LeaseName,
        /// Owner: a name that only this holder uses [default: this machine, and a random word]
        #[arg(long)]
        owner: Option<String>,
    },
    /// Renew a lease
    Renew(LeaseHandle),
    /// Release a lease
    Release(LeaseHandle),
    /// Run a command while holding a lease, and kill it when the lease is lost
    Run(run::Run),
}

/// A lease to acquire, with its length.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct LeaseName {
    /// Name of the lease
    name: String,
    /// Length of the lease without a renewal
    #[arg(long = "for", value_name = "DURATION", default_value = "30s", value_parser = length)]
    length: Duration,
    #[command(flatten)]
    of: TenantOption,
}

/// A held lease.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct LeaseHandle {
    #[command(flatten)]
    one: LeaseName,
    /// Owner that acquired the lease
    #[arg(long)]
    owner: String,
    /// Fencing token that the acquisition printed
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

/// Reports a lease that another owner holds.
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
