//! `punctual keys`: create, list, revoke.

use crate::cli::database::TenantOption;
use crate::cli::failure::{CommandFailure, Outcome};
use crate::cli::table::Table;
use crate::cli::{GlobalOptions, print_json, print_line};
use punctual::access::store::keys::{ApiKey, RevokeOutcome, Role};
use punctual::base::duration;
use punctual::base::limits::LIST_ITEMS_MAX;
use punctual::{KeyId, Store, Timestamp};
use serde_json::{Value, json};

/// The subcommands of `keys`.
#[derive(Debug, clap::Subcommand)]
pub(in crate::cli) enum Keys {
    /// Create a key and show it once
    Create {
        /// Name of the key, also the default source of its messages
        name: String,
        /// Role: viewer, support, author, admin or ops, each with the rights of those before it; or metrics,
        /// which only reads /metrics and the health probes
        #[arg(long, default_value = "author")]
        role: String,
        /// Expire the key after this time, such as 90d
        #[arg(long, value_name = "DURATION", conflicts_with = "expires_at")]
        expires_in: Option<String>,
        /// Expire the key at this moment
        #[arg(long, value_name = "TIME")]
        expires_at: Option<String>,
        #[command(flatten)]
        of: TenantOption,
    },
    /// List keys that are not revoked
    List {
        #[command(flatten)]
        of: TenantOption,
    },
    /// Revoke a key at once
    Revoke {
        /// Id of the key
        id: i64,
        #[command(flatten)]
        of: TenantOption,
    },
}

impl Keys {
    pub(in crate::cli) async fn run(self, options: &GlobalOptions) -> Outcome {
        let store = options.store().await?;
        match self {
            Self::Create { name, role, expires_in, expires_at, of } => {
                let end = end(&store, expires_in.as_deref(), expires_at.as_deref()).await?;
                create(&store, &name, &role, end, &of, options.json).await
            }
            Self::List { of } => list(&store, &of, options.json).await,
            Self::Revoke { id, of } => revoke(&store, id, &of, options.json).await,
        }
    }
}

async fn end(store: &Store, within: Option<&str>, at: Option<&str>) -> Outcome<Option<Timestamp>> {
    match (within, at) {
        (Some(text), _) => {
            let length =
                duration::parse(text).map_err(|e| CommandFailure::usage(format!("--expires-in: {e}")))?;
            Ok(Some(store.now().await?.plus(length)))
        }
        (None, Some(text)) => {
            Timestamp::parse(text).map(Some).map_err(|e| CommandFailure::usage(format!("--expires-at: {e}")))
        }
        (None, None) => Ok(None),
    }
}

async fn create(
    store: &Store,
    name: &str,
    role: &str,
    end: Option<Timestamp>,
    of: &TenantOption,
    as_json: bool,
) -> Outcome {
    let role = Role::from_word(role).ok_or_else(|| {
        let words: Vec<&str> = Role::ALL.iter().map(|(_, word)| *word).collect();
        CommandFailure::usage(format!("`{role}` is not a role; known are {}", words.join(", ")))
    })?;
    let tenant = of.find(store).await?;
    let (key, secret) = store.create_key(tenant, name, role, end).await?;
    if as_json {
        let mut shown = to_json(&key);
        shown["key"] = secret.into();
        print_json(&shown);
    } else {
        eprintln!("key {} ({}, {}), shown only this once:", key.id, key.name, key.role.word());
        print_line(&secret);
    }
    Ok(())
}

async fn list(store: &Store, of: &TenantOption, as_json: bool) -> Outcome {
    let tenant = of.find(store).await?;
    let keys = store.keys(tenant, KeyId(0), LIST_ITEMS_MAX).await?;
    if as_json {
        print_json(&json!({"items": keys.iter().map(to_json).collect::<Vec<_>>()}));
        return Ok(());
    }
    if keys.is_empty() {
        print_line("no keys; `punctual keys create NAME` makes one");
        return Ok(());
    }
    let mut table = Table::new(&["#id", "name", "role", "begins with", "since", "until"]);
    for key in &keys {
        table.row([
            key.id.to_string(),
            key.name.clone(),
            key.role.word().into(),
            key.prefix.clone(),
            key.created_at.to_string(),
            key.expires_at.map_or_else(|| "-".into(), |end| end.to_string()),
        ]);
    }
    print_line(table.text().trim_end());
    Ok(())
}

async fn revoke(store: &Store, id: i64, of: &TenantOption, as_json: bool) -> Outcome {
    let tenant = of.find(store).await?;
    if store.revoke_key(tenant, KeyId(id), Role::Ops).await? != RevokeOutcome::Revoked {
        return Err(CommandFailure::failed(format!("there is no key {id}, or it is revoked already")));
    }
    if as_json {
        print_json(&json!({"revoked": id}));
    } else {
        print_line(&format!("key {id} no longer works"));
    }
    Ok(())
}

fn to_json(key: &ApiKey) -> Value {
    json!({
        "id": key.id,
        "name": key.name,
        "role": key.role.word(),
        "prefix": key.prefix,
        "createdAt": key.created_at,
        "expiresAt": key.expires_at,
    })
}
