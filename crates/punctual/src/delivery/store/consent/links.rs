//! The verbs of an unsubscribe link: look at it, suppress, undo.
//!
//! A link names its recipient itself (`delivery/rules/unsubscribe.rs`), so nothing is kept for it but one
//! secret of the database, made when it is first needed and read once by each process. The encryption key of
//! the process seals it, if it has one.

use crate::base::error::{Error, Result};
use crate::base::random;
use crate::base::sealing::{EncryptionKeys, StoredValue};
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::Tx;
use crate::database::tx::VerbFuture;
use crate::database::value::params;
use crate::delivery::rules::consent::{ConsentScope, SuppressionReason};
use crate::delivery::rules::unsubscribe::{UnsubscribeLink, UnsubscribeSecret};
use crate::delivery::store::consent::suppressions::{lift, names, suppress};
use crate::delivery::store::consent::{NewSuppression, RecipientPreferences, SuppressionFilter, document};

/// How things stand for a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkConsent {
    /// Whether what the link is about is not sent.
    pub suppressed: bool,
    /// Whether this link made the suppression, and so can undo it.
    pub by_link: bool,
    /// The tenant's name.
    pub tenant: String,
    /// The language that the recipient wants, if they said.
    pub locale: Option<String>,
}

/// The author that is stored for an action of the recipient.
const RECIPIENT: &str = "recipient";
const SECRET_NAME: &str = "unsubscribe";

/// The secret, once it was read.
#[derive(Debug, Default)]
struct LinkSecret(tokio::sync::OnceCell<UnsubscribeSecret>);

impl Store {
    /// The secret of this database's links.
    ///
    /// # Errors
    /// When the database does not answer; [`Error::Config`] when a key that this process does not have has
    /// sealed the secret.
    pub fn link_secret(&self) -> VerbFuture<'_, UnsubscribeSecret> {
        VerbFuture::new(async move {
            let known = self.part::<LinkSecret>();
            let fresh = || self.write(random::hex::<32>(), |tx, fresh| Box::pin(secret(tx, fresh)));
            known.0.get_or_try_init(fresh).await.copied()
        })
    }

    /// Checks that this process can read the secret of the links, and has its first key seal it.
    ///
    /// # Errors
    /// [`Error::Config`] when it lacks the key. A database that does not answer or takes no writes is left to
    /// the first use.
    pub fn check_link_secret(&self) -> VerbFuture<'_, ()> {
        VerbFuture::new(async move {
            match self.link_secret().await {
                Err(error @ Error::Config(_)) => Err(error),
                _ => Ok(()),
            }
        })
    }

    /// How things stand for a link; `None` when its tenant is not there.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn look_at_link(&self, link: UnsubscribeLink) -> VerbFuture<'_, Option<LinkConsent>> {
        self.read(link, |tx, link| Box::pin(look(tx, link)))
    }

    /// Suppresses what a link is about. Again changes nothing.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn follow_link(&self, link: UnsubscribeLink) -> VerbFuture<'_, Option<LinkConsent>> {
        self.write(link, |tx, link| Box::pin(follow(tx, link)))
    }

    /// Takes back what a link did, and nothing else. Again changes nothing.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn undo_link(&self, link: UnsubscribeLink) -> VerbFuture<'_, Option<LinkConsent>> {
        self.write(link, |tx, link| Box::pin(undo(tx, link)))
    }
}

/// Reads the secret, which is made if there is none; the first key seals it if it was not by that key.
async fn secret(tx: &mut Tx, fresh: &str) -> Result<UnsubscribeSecret> {
    let keys = tx.part::<EncryptionKeys>();
    let now = tx.now().await?;
    tx.execute(KEEP_SECRET, params![SECRET_NAME, fresh, now]).await?;
    let row = tx.first(SECRET, params![SECRET_NAME]).await?;
    let stored = row.ok_or_else(unreadable)?.text(0)?;
    let (bytes, must_seal) = match keys.read(SECRET_NAME, &stored) {
        StoredValue::Plain => (read_secret(&stored), true),
        StoredValue::Sealed(plain) => (plain.try_into().ok(), false),
        StoredValue::SealedByOlderKey(plain) => (plain.try_into().ok(), true),
        StoredValue::Locked(id) => return Err(locked(&id, &keys)),
    };
    let bytes = bytes.ok_or_else(unreadable)?;
    if let Some(sealed) = keys.seal(SECRET_NAME, &bytes).filter(|_| must_seal) {
        tx.execute(SEAL_SECRET, params![SECRET_NAME, &stored, &sealed]).await?;
    }
    Ok(UnsubscribeSecret::new(bytes))
}

fn locked(id: &str, keys: &EncryptionKeys) -> Error {
    let found = match keys.ids().as_slice() {
        [] => "no key is set".to_owned(),
        ids => format!("none of the keys that are set ({}) opens it", ids.join(", ")),
    };
    Error::Config(format!(
        "the secret of the unsubscribe links (table punctual.secret, name `{SECRET_NAME}`) is sealed by the \
         encryption key `{id}`, and {found}: add that key to PUNCTUAL_ENCRYPTION_KEY, or to \
         Builder::encryption_keys, and start again; it may stand behind the key that seals"
    ))
}

fn unreadable() -> Error {
    Error::Database("the secret of the unsubscribe links cannot be read".into())
}

fn read_secret(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    for (n, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * n..2 * n + 2)?, 16).ok()?;
    }
    Some(bytes)
}

statements! {
    const KEEP_SECRET = "
        insert into punctual.secret (name, value, made_at)
        values ($1, $2, $3)
        on conflict do nothing
    ";

    /// Another process may have sealed it meanwhile.
    const SEAL_SECRET = "
        update punctual.secret
        set value = $3
        where name = $1 and value = $2
    ";

    const SECRET = "
        select value
        from punctual.secret
        where name = $1
    ";
}

fn scope(link: &UnsubscribeLink) -> ConsentScope {
    ConsentScope { channel: Some(link.channel.clone()), kind: link.kind.clone() }
}

async fn follow(tx: &mut Tx, link: &UnsubscribeLink) -> Result<Option<LinkConsent>> {
    // A deleted tenant has no messages to stop.
    if look(tx, link).await?.is_none() {
        return Ok(None);
    }
    let new = NewSuppression {
        told_at: None,
        address: link.address.clone(),
        scope: scope(link),
        reason: SuppressionReason::Unsubscribe,
        by: RECIPIENT.into(),
    };
    suppress(tx, link.tenant, &new).await?;
    look(tx, link).await
}

async fn undo(tx: &mut Tx, link: &UnsubscribeLink) -> Result<Option<LinkConsent>> {
    let scope = scope(link);
    let (channel, kind) = names(&scope);
    let own = SuppressionFilter {
        address: Some(link.address.clone()),
        channel: Some(channel.to_owned()),
        kind: Some(kind.to_owned()),
        reason: Some(SuppressionReason::Unsubscribe),
        lifted: false,
    };
    lift(tx, link.tenant, &own, None, RECIPIENT).await?;
    look(tx, link).await
}

async fn look(tx: &mut Tx, link: &UnsubscribeLink) -> Result<Option<LinkConsent>> {
    let scope = scope(link);
    let (channel, kind) = names(&scope);
    let row = params![link.tenant.id(), &link.address, channel, kind, SuppressionReason::Unsubscribe.word()];
    let Some(row) = tx.first(LOOK, row).await? else { return Ok(None) };
    let wanted: Option<RecipientPreferences> =
        row.maybe_text(1)?.map(|text| document(&text, RecipientPreferences::read)).transpose()?;
    Ok(Some(LinkConsent {
        suppressed: row.flag(2)?,
        by_link: row.flag(3)?,
        tenant: row.text(0)?,
        locale: wanted.and_then(|wanted| wanted.locale),
    }))
}

statements! {
    /// A wider suppression covers what a link is about, a narrower one does not.
    const LOOK = "
        select t.name,
            (
                select p.document
                from punctual.recipient_preference p
                where p.tenant_id = t.id and p.address = $2
            ),
            case
                when exists (
                    select 1
                    from punctual.suppression s
                    where s.tenant_id = t.id
                        and s.address = $2
                        and s.lifted_at is null
                        and s.channel in ('', $3)
                        and s.kind in ('', $4)
                ) then 1
                else 0
            end,
            case
                when exists (
                    select 1
                    from punctual.suppression s
                    where s.tenant_id = t.id
                        and s.address = $2
                        and s.lifted_at is null
                        and s.channel = $3
                        and s.kind = $4
                        and s.reason = $5
                ) then 1
                else 0
            end
        from punctual.tenant t
        where t.id = $1
    ";
}
