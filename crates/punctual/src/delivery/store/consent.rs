//! The consent of recipients, read before anything is sent to them: one read for a whole batch.
//!
//! A sender asks once for each window of a claim, before its first message: one statement for all addresses
//! of a window, of any number of tenants. For tenants that never had a suppression, a preference or a
//! setting there is nothing to ask: `has_consent!` is an expression for a statement that is made anyway.
//!
//! A suppression that commits after that read is not seen by it. It holds from the next window on.

mod links;
mod preferences;
pub(crate) mod suppressions;

pub use crate::delivery::store::consent::links::LinkConsent;
pub use crate::delivery::store::consent::preferences::{StoredDocument, StoredPreferences, StoredSettings};
pub use crate::delivery::store::consent::suppressions::{
    LiftOutcome, NewSuppression, Suppression, SuppressionFilter,
};

use crate::base::error::{Error, Problems, Result};
use crate::base::tenant::Tenant;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::Tx;
use crate::database::tx::VerbFuture;
use crate::database::value::{Row, Value, params};
use crate::delivery::rules::consent::address::normal;
use crate::delivery::rules::consent::{
    AddressConsent, ConsentContext, ConsentDecision, ConsentQuestion, ConsentScope, RecipientPreferences,
    SuppressionReason, TenantSettings, decide,
};
use std::collections::{BTreeMap, BTreeSet};

/// Whether a tenant has anything that a sender must ask about; `$tenant` is an expression for its number.
macro_rules! has_consent {
    ($tenant:literal) => {
        concat! {"
            exists (select 1 from punctual.consent_tenant k where k.tenant_id = ", $tenant, ")
        "}
    };
}

/// The consent of some recipients of some tenants at one moment.
#[derive(Clone, Debug, Default)]
pub struct Consent {
    houses: BTreeMap<Tenant, ConsentContext>,
    standings: BTreeMap<(Tenant, String), AddressConsent>,
}

impl Consent {
    /// Decides whether, how and when an address, however it is written, may be sent a message. The address
    /// must be one of those that were read.
    #[must_use]
    pub fn verdict(&self, tenant: Tenant, address: &str, asked: &ConsentQuestion<'_>) -> ConsentDecision {
        let Some(house) = self.houses.get(&tenant) else { return ConsentDecision::Send };
        match self.standings.get(&(tenant, normal(address))) {
            Some(standing) => decide(asked, standing, house),
            None => decide(asked, &AddressConsent::default(), house),
        }
    }

    /// The locale that the owner of an address wants, if they said so.
    #[must_use]
    pub fn locale(&self, tenant: Tenant, address: &str) -> Option<&str> {
        self.standing(tenant, address)?.preferences.locale.as_deref()
    }

    /// Returns the standing of an address, if it has one.
    #[must_use]
    pub fn standing(&self, tenant: Tenant, address: &str) -> Option<&AddressConsent> {
        self.standings.get(&(tenant, normal(address)))
    }
}

impl Store {
    /// Whether a tenant ever had a suppression, a preference or a setting.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn has_consent(&self, tenant: Tenant) -> VerbFuture<'_, bool> {
        self.of(tenant).read(tenant, |tx, tenant| {
            Box::pin(async move { Ok(tx.first(HAS_CONSENT, params![tenant.id()]).await?.is_some()) })
        })
    }

    /// Reads the consent of these recipients.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn consent(&self, recipients: Vec<(Tenant, String)>) -> VerbFuture<'_, Consent> {
        self.read(recipients, |tx, recipients| {
            let pairs = recipients.iter().map(|(tenant, address)| (*tenant, address.as_str())).collect();
            Box::pin(read(tx, pairs))
        })
    }
}

statements! {
    const HAS_CONSENT = "
        select 1
        where ", has_consent!("$1");
}

/// Reads the consent of these recipients, in one statement.
pub(crate) async fn read(tx: &mut Tx, recipients: Vec<(Tenant, &str)>) -> Result<Consent> {
    let tenants: BTreeSet<i64> = recipients.iter().map(|(tenant, _)| tenant.id()).collect();
    let addresses: BTreeSet<String> = recipients.iter().map(|(_, address)| normal(address)).collect();
    let tenants: Vec<i64> = tenants.into_iter().collect();
    let addresses: Vec<Option<&str>> = addresses.iter().map(|address| Some(address.as_str())).collect();
    let mut consent = Consent::default();
    for row in tx.query(READ, &[Value::Ints(&tenants), Value::Texts(&addresses)]).await? {
        consent.take(&row)?;
    }
    Ok(consent)
}

statements! {
    /// Every tenant with every address: the pairs that the caller did not ask for are only a little more to
    /// read.
    const READ = "
        select 0, t.id, '', coalesce(s.document, '{}'), t.time_zone, ''
        from punctual.consent_tenant k
        join punctual.tenant t on t.id = k.tenant_id
        left join punctual.tenant_setting s on s.tenant_id = t.id
        where k.tenant_id = any($1::bigint[])
        union all
        select 1, s.tenant_id, s.address, s.channel, s.kind, s.reason
        from punctual.suppression s
        where s.tenant_id = any($1::bigint[]) and s.address = any($2::text[]) and s.lifted_at is null
        union all
        select 2, p.tenant_id, p.address, p.document, '', ''
        from punctual.recipient_preference p
        where p.tenant_id = any($1::bigint[]) and p.address = any($2::text[])
    ";
}

impl Consent {
    fn take(&mut self, row: &Row) -> Result<()> {
        let (tenant, address) = (Tenant::from_row(row.int(1)?), row.text(2)?);
        match row.int(0)? {
            0 => {
                let settings = document(&row.text(3)?, TenantSettings::read)?;
                self.houses.insert(tenant, ConsentContext { settings, time_zone: row.text(4)? });
            }
            1 => {
                let suppressed = (scope(row.text(3)?, row.text(4)?), reason(&row.text(5)?)?);
                self.standings.entry((tenant, address)).or_default().suppressed.push(suppressed);
            }
            _ => {
                let preferences = document(&row.text(3)?, RecipientPreferences::read)?;
                self.standings.entry((tenant, address)).or_default().preferences = preferences;
            }
        }
        Ok(())
    }
}

/// Reads a stored document. Parts that a later version would refuse are left out.
fn document<T: Default>(text: &str, read: fn(&serde_json::Value, &mut Problems) -> Option<T>) -> Result<T> {
    let json = serde_json::from_str(text).map_err(|error| Error::Database(error.into()))?;
    Ok(read(&json, &mut Problems::default()).unwrap_or_default())
}

fn scope(channel: String, kind: String) -> ConsentScope {
    let some = |text: String| Some(text).filter(|text| !text.is_empty());
    ConsentScope { channel: some(channel), kind: some(kind) }
}

fn reason(word: &str) -> Result<SuppressionReason> {
    SuppressionReason::from_word(word)
        .ok_or_else(|| Error::Database(format!("`{word}` is not a reason").into()))
}

/// From now on senders ask about this tenant.
async fn note(tx: &mut Tx, tenant: Tenant) -> Result<()> {
    tx.execute(NOTE, params![tenant.id()]).await?;
    Ok(())
}

statements! {
    const NOTE = "
        insert into punctual.consent_tenant (tenant_id)
        values ($1)
        on conflict do nothing
    ";
}
