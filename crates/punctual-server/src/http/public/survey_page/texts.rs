//! What the page says by itself: English and Arabic here, other languages in `texts.txt`. Everything else is
//! the survey's own text.
//!
//! A language that is not here gets English, in its own direction and marked as English. Sentences
//! with a number avoid its plural, which Arabic has six of.

use crate::http::html::left_to_right;
use maud::{Markup, html};
use punctual::base::locale::{language, same, text_language};
use punctual::survey::rules::answers::AnswerProblem;
use punctual::survey::rules::survey::{Question, QuestionKind};
use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

/// The words of one language. `{}` stands for a number or a date.
#[derive(Debug)]
pub struct PageTexts {
    /// The language they are in.
    pub language: &'static str,
    /// The button to the next step.
    pub next: &'static str,
    /// The button to the step before.
    pub back: &'static str,
    /// The button that hands the answers in.
    pub send: &'static str,
    /// Stands beside a question that must be answered.
    pub required: &'static str,
    /// The name of the bar that shows how far one is.
    pub progress: &'static str,
    /// The name of the list of languages.
    pub languages: &'static str,
    /// Between a step of a scale and the last one.
    pub of: &'static str,
    /// The two ends of the scale from 0 to 10.
    pub nps_ends: [&'static str; 2],
    /// Yes, and no.
    pub yes_no: [&'static str; 2],
    /// The name of the field for words of one's own.
    pub own_words: &'static str,
    /// Above the list of what is wrong.
    pub problems: &'static str,
    /// Before a page's title when something is wrong.
    pub problem_mark: &'static str,
    /// What is asked of a number of choices, a length, a value.
    pub bounds: BoundTexts,
    /// What is wrong with an answer.
    pub wrong: ProblemTexts,
    /// The ends of a visit.
    pub closing: ClosingTexts,
}

/// What is asked of an answer beforehand, and afterwards if it was not so.
#[derive(Debug)]
pub struct BoundTexts {
    /// Fewer choices.
    pub choices_min: &'static str,
    /// More choices.
    pub choices_max: &'static str,
    /// Fewer characters.
    pub chars_min: &'static str,
    /// More characters.
    pub chars_max: &'static str,
    /// A smaller number.
    pub least: &'static str,
    /// A greater number.
    pub greatest: &'static str,
    /// An earlier day.
    pub first: &'static str,
    /// A later day.
    pub last: &'static str,
}

/// What is wrong with an answer of a type.
#[derive(Debug)]
pub struct ProblemTexts {
    /// There is none.
    pub missing: &'static str,
    /// It is not an option.
    pub option: &'static str,
    /// It is not a number.
    pub number: &'static str,
    /// It is not a date; with an example.
    pub date: &'static str,
    /// It is not a text.
    pub text: &'static str,
}

/// The pages that ask nothing: a title and a sentence.
#[derive(Debug)]
pub struct ClosingTexts {
    /// The answers have just come in.
    pub thanks: [&'static str; 2],
    /// They had come in before.
    pub answered: [&'static str; 2],
    /// It is too late, or was withdrawn.
    pub over: [&'static str; 2],
    /// There is no such link.
    pub unknown: [&'static str; 2],
    /// Too much was asked in too short a time.
    pub too_often: [&'static str; 2],
    /// Something broke on our side.
    pub trouble: [&'static str; 2],
}

/// A day as it is to be written.
const DAY: &str = "2026-05-14";

/// Every language, English first.
static ALL: LazyLock<Vec<PageTexts>> =
    LazyLock::new(|| [ENGLISH, ARABIC].into_iter().chain(read(include_str!("texts.txt"))).collect());

/// Reads languages from text: a heading `[language]`, then a line `name = words` for each of its words. Words
/// with a space at an end stand in quotes. What a language lacks is in English.
fn read(text: &'static str) -> impl Iterator<Item = PageTexts> {
    text.split("\n[").filter_map(|part| {
        let (language, lines) = part.trim_start_matches('[').split_once(']')?;
        let pairs = lines.lines().filter_map(|line| line.split_once(" = "));
        let bare = |words: &'static str| {
            words.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(words)
        };
        Some(translated(language, &pairs.map(|(name, words)| (name, bare(words))).collect()))
    })
}

fn translated(language: &'static str, words: &HashMap<&str, &'static str>) -> PageTexts {
    let say = |name: &str, english: &'static str| words.get(name).copied().unwrap_or(english);
    let end = |name: &str, english: [&'static str; 2]| {
        [say(name, english[0]), say(&format!("{name}-text"), english[1])]
    };
    let (bounds, wrong, ends) = (ENGLISH.bounds, ENGLISH.wrong, ENGLISH.closing);
    PageTexts {
        language,
        next: say("next", ENGLISH.next),
        back: say("back", ENGLISH.back),
        send: say("send", ENGLISH.send),
        required: say("required", ENGLISH.required),
        progress: say("progress", ENGLISH.progress),
        languages: say("languages", ENGLISH.languages),
        of: say("of", ENGLISH.of),
        nps_ends: [say("nps-low", ENGLISH.nps_ends[0]), say("nps-high", ENGLISH.nps_ends[1])],
        yes_no: [say("yes", ENGLISH.yes_no[0]), say("no", ENGLISH.yes_no[1])],
        own_words: say("own-words", ENGLISH.own_words),
        problems: say("problems", ENGLISH.problems),
        problem_mark: say("problem-mark", ENGLISH.problem_mark),
        bounds: BoundTexts {
            choices_min: say("choices-min", bounds.choices_min),
            choices_max: say("choices-max", bounds.choices_max),
            chars_min: say("chars-min", bounds.chars_min),
            chars_max: say("chars-max", bounds.chars_max),
            least: say("least", bounds.least),
            greatest: say("greatest", bounds.greatest),
            first: say("first", bounds.first),
            last: say("last", bounds.last),
        },
        wrong: ProblemTexts {
            missing: say("missing", wrong.missing),
            option: say("option", wrong.option),
            number: say("number", wrong.number),
            date: say("date", wrong.date),
            text: say("text", wrong.text),
        },
        closing: ClosingTexts {
            thanks: end("thanks", ends.thanks),
            answered: end("answered", ends.answered),
            over: end("over", ends.over),
            unknown: end("unknown", ends.unknown),
            too_often: end("too-often", ends.too_often),
            trouble: end("trouble", ends.trouble),
        },
    }
}

const ENGLISH: PageTexts = PageTexts {
    language: "en",
    next: "Next",
    back: "Back",
    send: "Send",
    required: "Required",
    progress: "Progress",
    languages: "Language",
    of: " of ",
    nps_ends: ["Not at all likely", "Extremely likely"],
    yes_no: ["Yes", "No"],
    own_words: "In your own words",
    problems: "Please look at this again",
    problem_mark: "Error: ",
    bounds: BoundTexts {
        choices_min: "Choose at least {}.",
        choices_max: "Choose at most {}.",
        chars_min: "Write at least {} characters.",
        chars_max: "Write at most {} characters.",
        least: "At least {}.",
        greatest: "At most {}.",
        first: "Not before {}.",
        last: "Not after {}.",
    },
    wrong: ProblemTexts {
        missing: "Please answer this question.",
        option: "Please choose one of the options.",
        number: "Please write a number, such as 12 or 2.5.",
        date: "Please give a date as year-month-day, such as {}.",
        text: "Please write a text.",
    },
    closing: ClosingTexts {
        thanks: ["Thank you", "Your answers have arrived. You can close this page now."],
        answered: ["Already answered", "We have your answers. There is nothing more to do, thank you."],
        over: ["This survey has ended", "It can no longer be answered. Thank you for looking in."],
        unknown: ["Survey not found", "The link may be incomplete. Please open it again from your message."],
        too_often: ["One moment, please", "There were too many requests. Please try again in a minute."],
        trouble: ["That did not work", "Something went wrong on our side. Please try again in a moment."],
    },
};

const ARABIC: PageTexts = PageTexts {
    language: "ar",
    next: "التالي",
    back: "رجوع",
    send: "إرسال",
    required: "مطلوب",
    progress: "التقدّم",
    languages: "اللغة",
    of: " من ",
    nps_ends: ["غير محتمل إطلاقًا", "محتمل جدًا"],
    yes_no: ["نعم", "لا"],
    own_words: "بكلماتك",
    problems: "يرجى مراجعة ما يلي",
    problem_mark: "خطأ: ",
    bounds: BoundTexts {
        choices_min: "أقل عدد من الاختيارات: {}.",
        choices_max: "أكبر عدد من الاختيارات: {}.",
        chars_min: "أقل عدد من الأحرف: {}.",
        chars_max: "أكبر عدد من الأحرف: {}.",
        least: "الحد الأدنى: {}.",
        greatest: "الحد الأقصى: {}.",
        first: "ليس قبل {}.",
        last: "ليس بعد {}.",
    },
    wrong: ProblemTexts {
        missing: "يرجى الإجابة عن هذا السؤال.",
        option: "يرجى اختيار أحد الخيارات.",
        number: "يرجى كتابة رقم، مثل 12 أو 2.5.",
        date: "يرجى كتابة التاريخ بصيغة سنة-شهر-يوم، مثل {}.",
        text: "يرجى كتابة نص.",
    },
    closing: ClosingTexts {
        thanks: ["شكرًا لك", "وصلتنا إجاباتك. يمكنك إغلاق هذه الصفحة الآن."],
        answered: ["تمت الإجابة من قبل", "لدينا إجاباتك، ولا حاجة إلى أي شيء آخر. شكرًا لك."],
        over: ["انتهى هذا الاستبيان", "لم تعد الإجابة عنه ممكنة. شكرًا لاهتمامك."],
        unknown: ["الاستبيان غير موجود", "قد يكون الرابط ناقصًا. يرجى فتحه مرة أخرى من الرسالة."],
        too_often: ["لحظة من فضلك", "وصلتنا طلبات كثيرة. يرجى المحاولة مرة أخرى بعد دقيقة."],
        trouble: ["تعذّر ذلك", "حدث خطأ من جانبنا. يرجى المحاولة مرة أخرى بعد قليل."],
    },
};

impl PageTexts {
    /// The words for a locale.
    pub fn of(locale: &str) -> &'static Self {
        ALL.iter().find(|words| words.is_in_language_of(locale)).unwrap_or(&const { ENGLISH })
    }

    /// Whether a locale's own language is here.
    pub fn has_language(locale: &str) -> bool {
        ALL.iter().any(|words| words.is_in_language_of(locale))
    }

    fn is_in_language_of(&self, locale: &str) -> bool {
        same(self.language, text_language(locale))
    }

    /// Renders the problem with the answer to a question.
    pub fn problem(&self, wrong: &AnswerProblem, question: &Question) -> Markup {
        let (least, greatest) = self.bounds.ends(&question.kind);
        match wrong {
            AnswerProblem::Missing => html! { (self.wrong.missing) },
            AnswerProblem::Unknown { .. } | AnswerProblem::NotAnOption { .. } => {
                html! { (self.wrong.option) }
            }
            AnswerProblem::Type { .. } => filled(self.wrong.of(&question.kind), DAY),
            AnswerProblem::TooFew(least) => filled(self.bounds.choices_min, least),
            AnswerProblem::TooMany(most) => filled(self.bounds.choices_max, most),
            AnswerProblem::TooShort(least) => filled(self.bounds.chars_min, least),
            AnswerProblem::TooLong(most) => filled(self.bounds.chars_max, most),
            AnswerProblem::TooSmall(end) => filled(least, end),
            AnswerProblem::TooLarge(end) => filled(greatest, end),
        }
    }
}

/// Renders a sentence of ours with `value` in the place of `{}`.
pub fn filled(sentence: &'static str, value: impl fmt::Display) -> Markup {
    match sentence.split_once("{}") {
        Some((before, after)) => html! { (before) (left_to_right(value)) (after) },
        None => html! { (sentence) },
    }
}

impl BoundTexts {
    /// What is said of the two ends of a question's answers.
    pub const fn ends(&self, kind: &QuestionKind) -> (&'static str, &'static str) {
        match kind {
            QuestionKind::MultiChoice(..) => (self.choices_min, self.choices_max),
            QuestionKind::ShortText(_) | QuestionKind::LongText(_) => (self.chars_min, self.chars_max),
            QuestionKind::Date(_) => (self.first, self.last),
            _ => (self.least, self.greatest),
        }
    }
}

impl ProblemTexts {
    const fn of(&self, kind: &QuestionKind) -> &'static str {
        match kind {
            QuestionKind::SingleChoice(_) | QuestionKind::MultiChoice(..) | QuestionKind::YesNo => {
                self.option
            }
            QuestionKind::Rating(_) | QuestionKind::Nps | QuestionKind::Number(_) => self.number,
            QuestionKind::Date(_) => self.date,
            QuestionKind::ShortText(_) | QuestionKind::LongText(_) => self.text,
        }
    }
}

/// Languages by the name their speakers give them. Others are shown by their tag.
const NAMES: [(&str, &str); 25] = [
    ("ar", "العربية"),
    ("bn", "বাংলা"),
    ("ckb", "کوردیی ناوەندی"),
    ("de", "Deutsch"),
    ("en", "English"),
    ("es", "Español"),
    ("fa", "فارسی"),
    ("fr", "Français"),
    ("he", "עברית"),
    ("hi", "हिन्दी"),
    ("id", "Indonesia"),
    ("it", "Italiano"),
    ("ja", "日本語"),
    ("ko", "한국어"),
    ("ku", "Kurdî"),
    ("nl", "Nederlands"),
    ("pl", "Polski"),
    ("pt", "Português"),
    ("ru", "Русский"),
    ("th", "ไทย"),
    ("tr", "Türkçe"),
    ("uk", "Українська"),
    ("ur", "اردو"),
    ("vi", "Tiếng Việt"),
    ("zh", "中文"),
];

/// What a locale is called in its own language, if no other of `locales` is called the same.
pub fn name_of<'l>(locale: &'l str, locales: &[String]) -> &'l str {
    let own = language(locale);
    let alone = locales.iter().filter(|other| same(language(other), own)).count() < 2;
    let known = NAMES.iter().find(|(tag, _)| same(tag, own)).map(|(_, name)| *name);
    known.filter(|_| alone).unwrap_or(locale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_follow_the_language_and_fall_back_to_english() {
        for (locale, next) in [("ar-IQ", "التالي"), ("AR", "التالي"), ("en-GB", "Next"), ("ckb", "Next")]
        {
            assert_eq!(PageTexts::of(locale).next, next, "{locale}");
        }
        assert!(
            PageTexts::has_language("ar-SA")
                && PageTexts::has_language("en")
                && !PageTexts::has_language("ckb")
        );
    }

    #[test]
    fn sentences_with_a_value_have_one_place_for_it() {
        for words in ALL.iter() {
            let b = &words.bounds;
            let ends = [b.least, b.greatest, b.first, b.last, words.wrong.date];
            for sentence in [b.choices_min, b.choices_max, b.chars_min, b.chars_max].into_iter().chain(ends) {
                assert_eq!(sentence.matches("{}").count(), 1, "{sentence}");
            }
        }
    }

    /// TRG-19: each language has all words, and those that run from right to left are in such a script.
    #[test]
    fn trg_19_every_language_has_all_words() {
        let names = |part: &'static str| -> Vec<&'static str> {
            part.lines().filter_map(|line| line.split_once(" = ")).map(|(name, _)| name).collect()
        };
        let parts: Vec<&'static str> = include_str!("texts.txt").split("\n[").collect();
        assert_eq!((names(parts[0]).len(), ALL.len()), (39, parts.len() + 2));
        for (part, words) in parts.iter().zip(ALL.iter().skip(2)) {
            assert_eq!(names(part), names(parts[0]), "{}", words.language);
            for said in [words.next, words.send, words.closing.thanks[1], words.wrong.missing] {
                let rtl = said.chars().any(|c| ('\u{590}'..='\u{6ff}').contains(&c));
                assert_eq!(rtl, punctual::base::locale::right_to_left(words.language), "{said}");
            }
        }
        assert_eq!((PageTexts::of("de-AT").next, PageTexts::of("zh-TW").send), ("Weiter", "送出"));
        assert_eq!((PageTexts::of("fr").of, PageTexts::of("zh").problem_mark), (" sur ", "错误："));
    }

    #[test]
    fn locales_are_called_by_their_own_name_where_it_is_clear() {
        let two = ["en", "ar"].map(String::from);
        assert_eq!((name_of("ar", &two), name_of("en", &two)), ("العربية", "English"));
        let regions = ["en-GB", "en-US", "xx"].map(String::from);
        assert_eq!((name_of("en-US", &regions), name_of("xx", &regions)), ("en-US", "xx"));
    }
}
