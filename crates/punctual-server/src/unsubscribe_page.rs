//! The page of an unsubscribe link, as a pure function: what it is about, how it stands, and a locale.
//!
//! It looks like the survey's page and shares its style, but has no script at all. It speaks English and
//! Arabic; whoever reads another language gets English, marked as such. The address is shown in part only:
//! a message with the link in it may have been passed on.

use crate::survey_page::frame::{PageFiles, PageLanguage, sheet};
use crate::survey_page::markup::Markup;
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
/// The survey's files, from where this page stands; without its script.
const FILES: PageFiles = PageFiles { at: "../s/assets/", script: false };

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

/// The page of a link.
#[must_use]
pub fn page(about: &LinkSubject<'_>, state: LinkStatus, locale: &str) -> String {
    let words = UnsubscribeTexts::of(locale);
    let of_kind = |one, all| if about.one_kind { one } else { all };
    let (heading, sentence, button) = match state {
        LinkStatus::Subscribed => {
            (words.ask, of_kind(words.ask_one, words.ask_all), Some(("unsubscribe", words.unsubscribe)))
        }
        LinkStatus::Again => (words.again, words.again_both, Some(("unsubscribe", words.unsubscribe))),
        LinkStatus::Unsubscribed { undo } => {
            (words.done, of_kind(words.done_one, words.done_all), undo.then_some((UNDO, words.undo)))
        }
    };
    write(locale, heading, |out| {
        filled(sentence, about, words, out);
        out.raw("</p>\n");
        if let Some((value, name)) = button {
            out.raw("<form method=\"post\">\n<div class=\"buttons\">\n<button type=\"submit\"");
            out.raw_if(value != UNDO, " class=\"on\"").raw(" name=\"").text(FIELD).raw("\" value=\"");
            out.text(value).raw("\">").text(name).raw("</button>\n</div>\n</form>\n");
        }
    })
}

/// A sentence with what it is about. Each stands alone, so that a number in an Arabic sentence is not
/// read backwards.
fn filled(
    sentence: &'static str,
    about: &LinkSubject<'_>,
    words: &'static UnsubscribeTexts,
    out: &mut Markup,
) {
    for (n, part) in sentence.split('{').enumerate() {
        let (name, rest) = if n == 0 { ("", part) } else { part.split_once('}').unwrap_or(("", part)) };
        match name {
            "who" => out.raw("<bdi>").text(about.tenant).raw("</bdi>"),
            "address" => out.raw("<bdi dir=\"ltr\">").text(&mask_address(about.address)).raw("</bdi>"),
            "channel" => out.raw("<bdi>").text(words.channel(about.channel)).raw("</bdi>"),
            _ => out,
        };
        out.text(rest);
    }
}

/// The page of a link that nobody has.
#[must_use]
pub fn unknown(locale: &str) -> String {
    let [heading, sentence] = UnsubscribeTexts::of(locale).unknown;
    plain(locale, heading, sentence)
}

/// The page for somebody who asks too often.
#[must_use]
pub fn too_often(locale: &str) -> String {
    let [heading, sentence] = PageLanguage::alone(locale).words.ends.too_often;
    plain(locale, heading, sentence)
}

/// The page that says that something broke on our side.
#[must_use]
pub fn trouble(locale: &str) -> String {
    let [heading, sentence] = PageLanguage::alone(locale).words.ends.trouble;
    plain(locale, heading, sentence)
}

fn plain(locale: &str, heading: &'static str, sentence: &'static str) -> String {
    write(locale, heading, |out| {
        out.text(sentence).raw("</p>\n");
    })
}

/// Writes a page; `rest` goes on within the paragraph.
fn write(locale: &str, heading: &'static str, rest: impl FnOnce(&mut Markup)) -> String {
    let voice = PageLanguage::alone(locale);
    let title = |out: &mut Markup| {
        out.text(heading);
    };
    sheet(voice, FILES, title, |out| {
        languages(voice, out);
        out.raw("<main class=\"end\">\n<h1>").text(heading).raw("</h1>\n<p>");
        rest(out);
        out.raw("</main>\n");
    })
}

fn languages(voice: PageLanguage<'_>, out: &mut Markup) {
    out.raw("<header>\n<nav class=\"languages\" aria-label=\"")
        .text(voice.words.languages)
        .raw("\">\n<ul>\n");
    for words in &ALL {
        out.raw("<li><a lang=\"").text(words.language).raw("\" hreflang=\"").text(words.language);
        out.raw("\" href=\"?lang=").text(words.language).raw("\"");
        out.raw_if(same(words.language, language(voice.locale)), " aria-current=\"true\"");
        out.raw(">").text(words.name).raw("</a></li>\n");
    }
    out.raw("</ul>\n</nav>\n</header>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABOUT: LinkSubject<'_> =
        LinkSubject { address: "ana@example.org", channel: "email", one_kind: true, tenant: "Acme <& Sons>" };

    /// NTF-18: it asks, does, and takes back, in both languages and both directions, without a script.
    #[test]
    fn ntf_18_the_page_speaks_two_languages_and_has_no_script() {
        let asks = Some("value=\"unsubscribe\"");
        let table = [
            ("en", LinkStatus::Subscribed, "dir=\"ltr\"", "Unsubscribe?", asks),
            ("ar-IQ", LinkStatus::Subscribed, "dir=\"rtl\"", "إلغاء الاشتراك؟", asks),
            (
                "en",
                LinkStatus::Unsubscribed { undo: true },
                "ltr",
                "You are unsubscribed",
                Some("value=\"undo\""),
            ),
            ("ar", LinkStatus::Unsubscribed { undo: false }, "rtl", "تم إلغاء اشتراكك", None),
            (
                "de",
                LinkStatus::Again,
                "lang=\"en\"",
                "You are subscribed again",
                Some("value=\"unsubscribe\""),
            ),
        ];
        for (locale, state, has, heading, button) in table {
            let page = page(&ABOUT, state, locale);
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
            for page in [unknown(locale), too_often(locale), trouble(locale)] {
                assert!(page.contains(&format!("lang=\"{locale}\"")) && !page.contains("<form"), "{page}");
            }
        }
    }

    #[test]
    fn the_sentence_says_how_much_it_is_about() {
        let all = LinkSubject { one_kind: false, channel: "push", ..ABOUT };
        assert!(page(&ABOUT, LinkStatus::Subscribed, "en").contains("messages like this one"));
        assert!(page(&all, LinkStatus::Subscribed, "en").contains("any messages"));
        assert!(page(&all, LinkStatus::Unsubscribed { undo: true }, "en").contains("<bdi>push</bdi>"));
    }
}
