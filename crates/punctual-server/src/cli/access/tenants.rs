//! `punctual tenants`: create and list.

use crate::cli::failure::Outcome;
use crate::cli::table::Table;
use crate::cli::{GlobalOptions, print_json, print_line};
use punctual::access::store::tenants::{NewTenant, TenantRow};
use punctual::base::limits::LIST_ITEMS_MAX;
use serde_json::{Value, json};

/// The subcommands of `tenants`.
#[derive(Debug, clap::Subcommand)]
pub(in crate::cli) enum Tenants {
    /// Create a tenant
    Create {
        /// Slug, the short name in requests: lower-case letters, digits, hyphens
        slug: String,
        /// Name for people [default: the slug]
        #[arg(long)]
        name: Option<String>,
        /// IANA time zone such as Europe/Berlin [default: UTC]
        #[arg(long, value_name = "ZONE")]
        time_zone: Option<String>,
        /// Language tag [default: en]
        #[arg(long, value_name = "TAG")]
        locale: Option<String>,
    },
    /// List all tenants
    List,
}

impl Tenants {
    pub(in crate::cli) async fn run(self, options: &GlobalOptions) -> Outcome {
        let store = options.store().await?;
        let rows = match self {
            Self::Create { slug, name, time_zone, locale } => {
                let name = name.unwrap_or_else(|| slug.clone());
                let new = NewTenant { slug, name, time_zone, default_locale: locale };
                let row = store.create_tenant(new).await?;
                if options.json {
                    print_json(&to_json(&row));
                } else {
                    print_line(&format!("tenant {} is there", row.slug));
                }
                return Ok(());
            }
            Self::List => store.tenants(0, LIST_ITEMS_MAX).await?,
        };
        if options.json {
            print_json(&json!({"items": rows.iter().map(to_json).collect::<Vec<_>>()}));
        } else {
            print_line(table(&rows).trim_end());
        }
        Ok(())
    }
}

fn table(rows: &[TenantRow]) -> String {
    let mut table = Table::new(&["slug", "name", "time zone", "language", "since"]);
    for row in rows {
        let (zone, locale) = (row.time_zone.clone(), row.default_locale.clone());
        table.row([row.slug.clone(), row.name.clone(), zone, locale, row.created_at.to_string()]);
    }
    table.text()
}

fn to_json(row: &TenantRow) -> Value {
    json!({
        "slug": row.slug,
        "name": row.name,
        "timeZone": row.time_zone,
        "defaultLocale": row.default_locale,
        "createdAt": row.created_at,
    })
}
