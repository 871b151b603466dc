//! The page of an unsubscribe link, as a pure function: what it is about, how it stands, and a locale.
//!
//! It looks like the survey's page and shares its style, but has no script at all. It speaks English and
//! Arabic; whoever reads another language gets English, marked as such. The address is shown in part only:
//! a message with the link in it may have been passed on.

use super::survey_page::layout::{PageAssets, PageLanguage, document};
use crate::http::html::left_to_right;
use maud::{Markup, html};
use punctual::base::locale::{language, same};
use punctual::base::redaction::mask_address;

/// The field of the form, …
pub const FIELD: &str = "do";
/// … and its value that takes the unsubscribing back.
pub const UNDO: &str = "undo";

/// What a link is about.
#[derive(Clone, Copy, Debug)]
pub struct LinkSubject<'a> {
    /// Whose messages.
    pub address: &'a str,
    /// By which kind of channel.
    pub channel: &'a str,
    /// Whether it is about one kind of messages, not all of that channel.
    pub one_kind: bool,
    /// Who sends them.
    pub tenant: &'a str,
}

/// How things stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkStatus {
    /// They are sent.
    Subscribed,
    /// They are sent again.
    Again,
    /// They are not sent.
    Unsubscribed {
        /// Whether it can be taken back here.
        undo: bool,
    },
}

/// What the page says. `{who}`, `{address}` and `{channel}` are filled in.
#[derive(Debug)]
struct UnsubscribeTexts {
    language: &'static str,
    /// The language's own name.
    name: &'static str,
    /// A heading each, for asking, for what is done, and for what was taken back.
    ask: &'static str,
    done: &'static str,
    again: &'static str,
    /// What is asked, of one kind of messages and of all.
    ask_one: &'static str,
    ask_all: &'static str,
    /// What is done.
    done_one: &'static str,
    done_all: &'static str,
    /// What was taken back.
    again_both: &'static str,
    /// The buttons.
    unsubscribe: &'static str,
    undo: &'static str,
    /// There is no such link.
    unknown: [&'static str; 2],
    email: &'static str,
    sms: &'static str,
    whatsapp: &'static str,
}

const ENGLISH: UnsubscribeTexts = UnsubscribeTexts {
    language: "en",
    name: "English",
    ask: "Unsubscribe?",
    done: "You are unsubscribed",
    again: "You are subscribed again",
    ask_one: "{who} will no longer send messages like this one to {address} ({channel}).",
    ask_all: "{who} will no longer send any messages to {address} ({channel}).",
    done_one: "{who} no longer sends messages like this one to {address} ({channel}).",
    done_all: "{who} no longer sends any messages to {address} ({channel}).",
    again_both: "{who} sends these messages to {address} ({channel}) as before.",
    unsubscribe: "Unsubscribe",
    undo: "Undo",
    unknown: ["Link not found", "The link may be incomplete. Please open it again from your message."],
    email: "email",
    sms: "SMS",
    whatsapp: "WhatsApp",
};

const ARABIC: UnsubscribeTexts = UnsubscribeTexts {
    language: "ar",
    name: "العربية",
    ask: "إلغاء الاشتراك؟",
    done: "تم إلغاء اشتراكك",
    again: "عاد اشتراكك",
    ask_one: "لن ترسل {who} بعد الآن رسائل مثل هذه إلى {address} ({channel}).",
    ask_all: "لن ترسل {who} بعد الآن أي رسائل إلى {address} ({channel}).",
    done_one: "لم تعد {who} ترسل رسائل مثل هذه إلى {address} ({channel}).",
    done_all: "لم تعد {who} ترسل أي رسائل إلى {address} ({channel}).",
    again_both: "ترسل {who} هذه الرسائل إلى {address} ({channel}) كما كان من قبل.",
    unsubscribe: "إلغاء الاشتراك",
    undo: "تراجع",
    unknown: ["الرابط غير موجود", "قد يكون الرابط ناقصًا. يرجى فتحه مرة أخرى من الرسالة."],
    email: "البريد الإلكتروني",
    sms: "الرسائل القصيرة",
    whatsapp: "واتساب",
};

const ALL: [UnsubscribeTexts; 2] = [ENGLISH, ARABIC];
/// The survey's style, relative to this page; without its script.
const ASSETS: PageAssets = PageAssets { folder: "../s/assets/", script: false };

impl UnsubscribeTexts {
    fn of(locale: &str) -> &'static Self {
        const { &ALL }
            .iter()
            .find(|words| same(words.language, language(locale)))
            .unwrap_or(&const { ENGLISH })
    }

    fn channel<'a>(&self, kind: &'a str) -> &'a str
    where
        Self: 'a,
    {
        match kind {
            "email" => self.email,
            "sms" => self.sms,
            "whatsapp" => self.whatsapp,
            other => other,
        }
    }
}

/// Renders the page of a link.
#[must_use]
pub fn render(subject: &LinkSubject<'_>, status: LinkStatus, locale: &str) -> String {
    let texts = UnsubscribeTexts::of(locale);
    let of_kind = |one, all| if subject.one_kind { one } else { all };
    let (heading, sentence, button) = match status {
        LinkStatus::Subscribed => {
            (texts.ask, of_kind(texts.ask_one, texts.ask_all), Some(("unsubscribe", texts.unsubscribe)))
        }
        LinkStatus::Again => (texts.again, texts.again_both, Some(("unsubscribe", texts.unsubscribe))),
        LinkStatus::Unsubscribed { undo } => {
            (texts.done, of_kind(texts.done_one, texts.done_all), undo.then_some((UNDO, texts.undo)))
        }
    };
    let form = html! {
        @if let Some((value, name)) = button {
            form method="post" {
                div class="buttons" {
                    button type="submit" class=[(value != UNDO).then_some("on")] name=(FIELD) value=(value)
                        { (name) }
                }
            }
        }
    };
    render_with(locale, heading, filled(sentence, subject, texts), form)
}

/// Fills a sentence. Each value is isolated, so that a number in an Arabic sentence is not read backwards.
fn filled(sentence: &'static str, subject: &LinkSubject<'_>, texts: &UnsubscribeTexts) -> Markup {
    let parts = sentence.split('{').enumerate().map(|(n, part)| match part.split_once('}') {
        Some(named) if n > 0 => named,
        _ => ("", part),
    });
    html! {
        @for (name, rest) in parts {
            @match name {
                "who" => { bdi { (subject.tenant) } }
                "address" => (left_to_right(mask_address(subject.address))),
                "channel" => { bdi { (texts.channel(subject.channel)) } }
                _ => {}
            }
            (rest)
        }
    }
}

/// Renders the page of a link that does not exist.
#[must_use]
pub fn render_unknown(locale: &str) -> String {
    let [heading, sentence] = UnsubscribeTexts::of(locale).unknown;
    render_plain(locale, heading, sentence)
}

/// Renders the page for a visitor who sent too many requests.
#[must_use]
pub fn render_too_often(locale: &str) -> String {
    let [heading, sentence] = PageLanguage::without_survey(locale).texts.closing.too_often;
    render_plain(locale, heading, sentence)
}

/// Renders the page for a failure of the server.
#[must_use]
pub fn render_trouble(locale: &str) -> String {
    let [heading, sentence] = PageLanguage::without_survey(locale).texts.closing.trouble;
    render_plain(locale, heading, sentence)
}

fn render_plain(locale: &str, heading: &'static str, sentence: &'static str) -> String {
    render_with(locale, heading, html! { (sentence) }, Markup::default())
}

fn render_with(locale: &str, heading: &'static str, sentence: Markup, form: Markup) -> String {
    let language = PageLanguage::without_survey(locale);
    let body = html! {
        (languages(language))
        main class="end" {
            h1 { (heading) }
            p { (sentence) }
            (form)
        }
    };
    document(language, ASSETS, heading, body)
}

fn languages(page: PageLanguage<'_>) -> Markup {
    html! {
        header {
            nav class="languages" aria-label=(page.texts.languages) {
                ul {
                    @for UnsubscribeTexts { language: tag, name, .. } in &ALL {
                        li {
                            a lang=(tag) hreflang=(tag) href={ "?lang=" (tag) }
                                aria-current=[same(tag, language(page.locale)).then_some("true")] { (name) }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUBJECT: LinkSubject<'_> =
        LinkSubject { address: "ana@example.org", channel: "email", one_kind: true, tenant: "Acme <& Sons>" };

    /// NTF-18: it asks, does, and takes back, in both languages and both directions, without a script.
    #[test]
    fn ntf_18_the_page_speaks_two_languages_and_has_no_script() {
        use LinkStatus::{Again, Subscribed, Unsubscribed};
        let table = [
            ("en", Subscribed, "dir=\"ltr\"", "Unsubscribe?", Some("value=\"unsubscribe\"")),
            ("ar-IQ", Subscribed, "dir=\"rtl\"", "إلغاء الاشتراك؟", Some("value=\"unsubscribe\"")),
            ("en", Unsubscribed { undo: true }, "ltr", "You are unsubscribed", Some("value=\"undo\"")),
            ("ar", Unsubscribed { undo: false }, "rtl", "تم إلغاء اشتراكك", None),
            ("de", Again, "lang=\"en\"", "You are subscribed again", Some("value=\"unsubscribe\"")),
        ];
        for (locale, state, has, heading, button) in table {
            let page = render(&SUBJECT, state, locale);
            assert!(page.contains(has) && page.contains(&format!("<h1>{heading}</h1>")), "{page}");
            assert!(page.contains("Acme &lt;&amp; Sons&gt;") && !page.contains("Sons>"), "{page}");
            assert!(page.contains("a•••@example.org") && !page.contains("ana@"), "{page}");
            assert!(
                !page.contains("<script") && !page.contains("://") && !page.contains(" style="),
                "{page}"
            );
            assert!(page.contains("\"../s/assets/survey-"), "{page}");
            match button {
                Some(button) => assert!(page.contains(button) && page.contains("method=\"post\""), "{page}"),
                None => assert!(!page.contains("<form"), "{page}"),
            }
        }
        for locale in ["en", "ar"] {
            for page in [render_unknown(locale), render_too_often(locale), render_trouble(locale)] {
                assert!(page.contains(&format!("lang=\"{locale}\"")) && !page.contains("<form"), "{page}");
            }
        }
    }

    #[test]
    fn the_sentence_says_how_much_it_is_about() {
        let all = LinkSubject { one_kind: false, channel: "push", ..SUBJECT };
        assert!(render(&SUBJECT, LinkStatus::Subscribed, "en").contains("messages like this one"));
        assert!(render(&all, LinkStatus::Subscribed, "en").contains("any messages"));
        assert!(render(&all, LinkStatus::Unsubscribed { undo: true }, "en").contains("<bdi>push</bdi>"));
    }
}
