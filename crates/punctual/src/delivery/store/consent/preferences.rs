//! The preferences of recipients and the settings of a tenant for all of them: documents that are replaced as
//! a whole.

use crate::base::clock::Timestamp;
use crate::base::error::{Problems, Result};
use crate::base::tenant::Tenant;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::Tx;
use crate::database::tx::VerbFuture;
use crate::database::value::{Row, params};
use crate::delivery::rules::consent::address::{check, normal};
use crate::delivery::rules::consent::{RecipientPreferences, TenantSettings};
use crate::delivery::store::consent::{document, note};
use serde_json::Value as Json;

/// A document, with when and by whom it was written; neither if it was never written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredDocument<T> {
    /// The document.
    pub document: T,
    /// When and by whom it was last written.
    pub written: Option<(Timestamp, String)>,
}

/// The preferences of a recipient.
pub type StoredPreferences = StoredDocument<RecipientPreferences>;
/// The settings of a tenant.
pub type StoredSettings = StoredDocument<TenantSettings>;

impl Store {
    /// Replaces what the owner of an address, however it is written, wants.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] when the address is none.
    pub fn put_preferences<'a>(
        &'a self,
        tenant: Tenant,
        address: &'a str,
        preferences: RecipientPreferences,
        by: &'a str,
    ) -> VerbFuture<'a, StoredPreferences> {
        VerbFuture::new(async move {
            let mut problems = Problems::default();
            check(address, "address", &mut problems);
            problems.into_result()?;
            let text = Json::Object(preferences.to_json()).to_string();
            let request = (tenant, normal(address), text, by.to_owned());
            let written = self
                .of(tenant)
                .write(request, |tx, (tenant, address, text, by)| {
                    Box::pin(async move {
                        let now = tx.now().await?;
                        note(tx, *tenant).await?;
                        tx.execute(PUT_PREFERENCES, params![tenant.id(), &*address, &*text, now, &*by])
                            .await?;
                        Ok((now, by.clone()))
                    })
                })
                .await?;
            Ok(StoredDocument { document: preferences, written: Some(written) })
        })
    }

    /// Reads the preferences of the owner of an address; the default ones if none were stored.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn preferences(&self, tenant: Tenant, address: &str) -> VerbFuture<'_, StoredPreferences> {
        self.of(tenant).read((tenant, normal(address)), |tx, (tenant, address)| {
            Box::pin(async move {
                let row = tx.first(PREFERENCES, params![tenant.id(), address]).await?;
                row.map_or_else(
                    || Ok(StoredDocument::default()),
                    |row| kept(&row, RecipientPreferences::read),
                )
            })
        })
    }

    /// Replaces what a tenant wants for all its recipients.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn put_tenant_settings<'a>(
        &'a self,
        tenant: Tenant,
        settings: TenantSettings,
        by: &'a str,
    ) -> VerbFuture<'a, StoredSettings> {
        VerbFuture::new(async move {
            let text = Json::Object(settings.to_json()).to_string();
            let written = self
                .of(tenant)
                .write((tenant, text, by.to_owned()), |tx, (tenant, text, by)| {
                    Box::pin(put_settings(tx, *tenant, text, by))
                })
                .await?;
            Ok(StoredDocument { document: settings, written: Some(written) })
        })
    }

    /// Reads the settings of a tenant for all its recipients.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn tenant_settings(&self, tenant: Tenant) -> VerbFuture<'_, StoredSettings> {
        self.of(tenant).read(tenant, |tx, tenant| {
            Box::pin(async move {
                let row = tx.first(SETTINGS, params![tenant.id()]).await?;
                row.map_or_else(|| Ok(StoredDocument::default()), |row| kept(&row, TenantSettings::read))
            })
        })
    }
}

async fn put_settings(tx: &mut Tx, tenant: Tenant, text: &str, by: &str) -> Result<(Timestamp, String)> {
    let now = tx.now().await?;
    note(tx, tenant).await?;
    tx.execute(PUT_SETTINGS, params![tenant.id(), text, now, by]).await?;
    Ok((now, by.to_owned()))
}

statements! {
    const PUT_PREFERENCES = "
        insert into punctual.recipient_preference (tenant_id, address, document, updated_at, updated_by)
        values ($1, $2, $3, $4, $5)
        on conflict (tenant_id, address)
        do update set document = excluded.document, updated_at = excluded.updated_at,
            updated_by = excluded.updated_by
    ";

    const PREFERENCES = "
        select document, updated_at, updated_by
        from punctual.recipient_preference
        where tenant_id = $1 and address = $2
    ";

    const PUT_SETTINGS = "
        insert into punctual.tenant_setting (tenant_id, document, updated_at, updated_by)
        values ($1, $2, $3, $4)
        on conflict (tenant_id)
        do update set document = excluded.document, updated_at = excluded.updated_at,
            updated_by = excluded.updated_by
    ";

    const SETTINGS = "
        select document, updated_at, updated_by
        from punctual.tenant_setting
        where tenant_id = $1
    ";
}

fn kept<T: Default>(row: &Row, read: fn(&Json, &mut Problems) -> Option<T>) -> Result<StoredDocument<T>> {
    Ok(StoredDocument {
        document: document(&row.text(0)?, read)?,
        written: Some((row.time(1)?, row.text(2)?)),
    })
}
