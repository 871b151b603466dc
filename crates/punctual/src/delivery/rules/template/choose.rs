//! Which of several templates a message is worded by.
//!
//! Of those that fit its channel and send, the first by: the most specific scope (the message's own entity
//! before the entities that it leads to, and those before none); the nearest language
//! (the reader's locale, its language, another region of it, then the same for each default, then any);
//! the channel's own key before its kind; the wording of just this send, else of the send before it that
//! has one, else of every send; and at last the newest.

use crate::base::locale;
use crate::delivery::rules::template::definition::TemplateScope;
use crate::delivery::rules::template::set::MessageTemplate;
use crate::queue::rules::message::Entity;

/// The message for which a template is chosen.
#[derive(Clone, Copy, Debug)]
pub struct TemplateQuery<'a> {
    /// The entities whose own templates fit, the most specific first: the message's own entity, such as
    /// survey 7, and the entities that it leads to.
    pub scopes: &'a [Entity],
    /// The key of the channel.
    pub channel: &'a str,
    /// The reader's locale.
    pub locale: Option<&'a str>,
    /// The locales to fall back to, in their order.
    pub defaults: &'a [&'a str],
    /// The number of the send, from 1.
    pub attempt: u32,
}

/// Returns the kind of a channel's key: `sms:twilio` and `memory:sms-2` are `SMS`. A key without a colon is a
/// kind itself.
#[must_use]
pub fn kind_of(channel: &str) -> &str {
    let begins =
        |rest: &str, word: &str| rest.get(..word.len()).is_some_and(|b| b.eq_ignore_ascii_case(word));
    let kind = match channel.split_once(':') {
        Some(("memory", rest)) if begins(rest, "whatsapp") => "WhatsApp",
        Some(("memory", rest)) if begins(rest, "sms") => "SMS",
        Some(("memory", rest)) if begins(rest, "mail") || begins(rest, "email") => "Email",
        Some((kind, _)) => kind,
        None => channel,
    };
    if kind.eq_ignore_ascii_case("mail") {
        return "Email";
    }
    super::definition::KINDS.into_iter().find(|known| known.eq_ignore_ascii_case(kind)).unwrap_or(kind)
}

/// Returns the common name of a channel: its kind, if that is a well-known one, else the key.
#[must_use]
pub fn word_of(channel: &str) -> &str {
    let kind = kind_of(channel);
    if super::definition::KINDS.contains(&kind) { kind } else { channel }
}

/// Whether the name of a channel means this key: the key itself, or its kind, in upper or lower case.
#[must_use]
pub fn is_named(key: &str, named: &str) -> bool {
    key.eq_ignore_ascii_case(named)
        || !named.contains(':') && kind_of(key).eq_ignore_ascii_case(kind_of(named))
}

/// The template for a message, if one fits.
#[must_use]
pub fn choose<'t>(
    templates: &'t [MessageTemplate],
    wanted: &TemplateQuery<'_>,
) -> Option<&'t MessageTemplate> {
    let kind = kind_of(wanted.channel);
    let fitting =
        templates.iter().filter_map(|template| Some((rank(template, kind, wanted).ok()?, template)));
    fitting.max_by_key(|(rank, _)| *rank).map(|(_, template)| template)
}

/// Whether a template is the one that is chosen for a message, or why it is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateVerdict {
    /// Of all that fit it fits best.
    Chosen,
    /// It is for another channel.
    OtherChannel,
    /// It is for an entity that the message is not about.
    OtherScope,
    /// It is for a later send.
    OtherSend,
    /// The chosen one is for an entity nearer to the message.
    WiderScope,
    /// The language of the chosen one is nearer to the reader's.
    FartherLanguage,
    /// The chosen one names the channel itself, and this one its kind.
    NamesKind,
    /// The chosen one is worded for just this send.
    EverySend,
    /// The chosen one was made later.
    Older,
}

impl TemplateVerdict {
    /// The sentence for it.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Chosen => "it fits best",
            Self::OtherChannel => "it is for another channel",
            Self::OtherScope => "it is for an entity that the event is not about",
            Self::OtherSend => "it is for a later send",
            Self::WiderScope => "the chosen one is for an entity nearer to the event",
            Self::FartherLanguage => "the language of the chosen one is nearer to the recipient's",
            Self::NamesKind => "the chosen one names this channel, and this one only its kind",
            Self::EverySend => "the chosen one is worded for just this send",
            Self::Older => "the chosen one fits as well and was made later",
        }
    }
}

/// Says of each template whether [`choose`] chooses it for a message, and why not.
#[must_use]
pub fn compare<'t>(
    templates: &'t [MessageTemplate],
    wanted: &TemplateQuery<'_>,
) -> Vec<(&'t MessageTemplate, TemplateVerdict)> {
    let kind = kind_of(wanted.channel);
    let ranks: Vec<_> = templates.iter().map(|template| rank(template, kind, wanted)).collect();
    let best = ranks.iter().filter_map(|rank| rank.as_ref().ok()).max().copied();
    let verdict = |rank: Result<Rank, TemplateVerdict>| match (rank, best) {
        (Err(misfit), _) => misfit,
        (Ok(rank), Some(best)) => behind(&rank, &best),
        (Ok(_), None) => TemplateVerdict::Chosen,
    };
    templates.iter().zip(ranks).map(|(template, rank)| (template, verdict(rank))).collect()
}

/// The first part in which a rank is behind the best one.
fn behind(rank: &Rank, best: &Rank) -> TemplateVerdict {
    if rank.0 != best.0 {
        TemplateVerdict::WiderScope
    } else if rank.1 != best.1 {
        TemplateVerdict::FartherLanguage
    } else if rank.2 != best.2 {
        TemplateVerdict::NamesKind
    } else if rank.3 != best.3 {
        TemplateVerdict::EverySend
    } else if rank.4 != best.4 {
        TemplateVerdict::Older
    } else {
        TemplateVerdict::Chosen
    }
}

/// Scope, language, channel, attempt, id: the greatest wins.
type Rank = (usize, usize, bool, u32, i64);

/// How well a template fits, or why it does not.
fn rank(template: &MessageTemplate, kind: &str, wanted: &TemplateQuery<'_>) -> Result<Rank, TemplateVerdict> {
    let of = &template.definition;
    let exact = of.channel == wanted.channel;
    let alike = || !of.channel.contains(':') && kind_of(&of.channel).eq_ignore_ascii_case(kind);
    if !exact && !alike() {
        return Err(TemplateVerdict::OtherChannel);
    }
    let scope = of.scope.as_ref().map_or(Some(0), |scope| closeness(scope, wanted.scopes));
    let scope = scope.ok_or(TemplateVerdict::OtherScope)?;
    let attempt = match of.attempt {
        None => 0,
        Some(1) if wanted.attempt != 1 => return Err(TemplateVerdict::OtherSend),
        Some(n) if n > wanted.attempt => return Err(TemplateVerdict::OtherSend),
        Some(n) => n,
    };
    Ok((scope, nearness(&of.language, wanted), exact, attempt, template.id.0))
}

/// Returns how specific a template's scope is to a message, from 1; `None` if the scope is of no entity of
/// the message.
fn closeness(scope: &TemplateScope, scopes: &[Entity]) -> Option<usize> {
    let place = scopes.iter().position(|entity| entity.kind == scope.kind && entity.id == scope.id)?;
    Some(scopes.len() - place)
}

/// How near a language is to what is wanted; 0 is any other.
fn nearness(language: &str, wanted: &TemplateQuery<'_>) -> usize {
    let tags = wanted.locale.iter().chain(wanted.defaults);
    let steps = tags.flat_map(|tag| {
        let same = locale::same(language, tag);
        let general = locale::same(language, locale::language(tag));
        [same, general, locale::same(locale::language(language), locale::language(tag))]
    });
    // The steps from here to the last one: the earlier one fits, the nearer it is.
    let most = 3 * (wanted.defaults.len() + 1);
    let first = steps.enumerate().find(|(_, fits)| *fits);
    first.map_or(0, |(step, _)| most.saturating_sub(step))
}

#[cfg(test)]
mod tests;
