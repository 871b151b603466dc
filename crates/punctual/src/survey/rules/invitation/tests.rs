//! The texts of invitations, with and without templates.

use super::*;
use crate::base::zone::Zone;
use crate::delivery::rules::template::segments::Segments;
use crate::delivery::rules::template::{TemplateDefinition, TemplateScope};
use crate::flow::rules::entity::EntitySnapshot;
use crate::flow::rules::event_kind::Recipient;
use serde_json::{Value, json};

fn titles() -> LocalizedText {
    let mut titles = LocalizedText::default();
    titles.insert("en", "Service \"CSI\"");
    titles.insert("ar", "رضا العملاء");
    titles
}

/// Words a send of a survey in English and Arabic, for a reader of this locale.
fn choose_and_word(set: &TemplateSet, reader: Option<&str>, invitation: &Invitation<'_>) -> InvitationText {
    let locales = ["en", "ar"].map(String::from);
    let survey_locale = locale::choose(&locales, reader, invitation.default_locale);
    let recipient = Recipient { locale: reader.map(str::to_owned), ..Recipient::default() };
    let occasion = EventValues { recipient: &recipient, ..invitation.occasion };
    let invitation = &Invitation { survey_locale, occasion, ..*invitation };
    word(set, InvitationWords::choose(set, invitation), invitation)
}

fn invitation<'a>(title: &'a LocalizedText, payload: &'a Value) -> Invitation<'a> {
    static NOBODY: LazyLock<Recipient<'static>> = LazyLock::new(Recipient::default);
    let occasion = EventValues {
        payload,
        entity: None,
        snapshot: &EntitySnapshot::Unknown,
        recipient: &NOBODY,
        related: &[],
        given: &[],
        payload_prefix: None,
    };
    Invitation {
        flow: FlowId(7),
        title,
        default_locale: "en",
        survey_locale: "en",
        channel: "whatsapp:default",
        attempt: 1,
        public_id: "abc",
        survey_url: "https://feedback.example.com/s/0c6XQ9jT4mUq2vW8yZ1bKd",
        unsubscribe_url: None,
        address: "+964 770 000 0001",
        kind: EventKind::undefined(),
        occasion,
    }
}

/// TRG-18: without a template there is a text for the locale and the send.
#[test]
fn trg_18_our_own_words_follow_locale_and_send() {
    let (title, payload) = (titles(), json!({}));
    let base = invitation(&title, &payload);
    let set = TemplateSet::default();
    let table = [
        (Some("en"), 1, "en", "Please take a moment", "Service"),
        (Some("en-GB"), 2, "en-GB", "A friendly reminder", "Service"),
        (Some("en"), 5, "en", "A friendly reminder", "Service"),
        (Some("ar"), 1, "ar", "رأيك يهمنا", "رضا العملاء"),
        (Some("ar-IQ"), 2, "ar-IQ", "تذكير", "رضا العملاء"),
        (Some("fr"), 1, "en", "Please take a moment", "Service"),
        (None, 1, "en", "Please take a moment", "Service"),
    ];
    for (locale, attempt, tag, begins, named) in table {
        let said = choose_and_word(&set, locale, &Invitation { attempt, ..base });
        assert!(said.body.starts_with(begins) && said.body.ends_with(base.survey_url), "{}", said.body);
        assert!(said.body.contains(named), "{}", said.body);
        assert_eq!((said.locale.as_str(), said.template, said.html), (tag, None, None));
        let subject = said.subject.unwrap();
        assert!(subject.contains(named) && !subject.contains("{{"), "{subject}");
        if tag.starts_with("en") {
            assert_eq!(Segments::of(&said.body).count, 1, "{}", said.body);
        }
    }
    let arabic = TemplateSet { default_locale: "ar".into(), ..TemplateSet::default() };
    let said = choose_and_word(&arabic, Some("fr"), &Invitation { default_locale: "xx", ..base });
    assert_eq!(said.locale, "ar", "the tenant's language before English");
}

/// TRG-18: a survey's own words, with the candidate's values, the link and the reader's dates.
#[test]
fn trg_18_a_template_words_the_send() {
    let definition = TemplateDefinition {
        event_type: EVENT_TYPE.into(),
        channel: "WhatsApp".into(),
        language: "ar".into(),
        scope: Some(TemplateScope { kind: SCOPE.into(), id: "7".into() }),
        subject: Some("{{surveyTitle}} {{attempt}}".into()),
        body:
            "{{customerName}} {{candidate.wip}} {{at|date}} {{surveyUrl}} {{nothing}} {{recipient.address}}"
                .into(),
        html: Some("<p>{{CustomerName}}</p>".into()),
        ..TemplateDefinition::default()
    };
    let texts = definition.compile().unwrap();
    let template = MessageTemplate { id: TemplateId(3), version: 2, definition, texts };
    let zone = Zone::find("Asia/Baghdad").unwrap();
    let set = TemplateSet { templates: vec![template], zone, ..TemplateSet::default() };
    let payload = json!({"CustomerName": "Kadhem & Co", "wip": 40956, "at": "2026-05-14T22:00:00Z",
        "surveyUrl": "https://evil.example"});
    let title = titles();
    let said = choose_and_word(&set, Some("ar-IQ"), &invitation(&title, &payload));
    let body = "Kadhem & Co 40956 ١٥ أيار ٢٠٢٦ https://feedback.example.com/s/0c6XQ9jT4mUq2vW8yZ1bKd  \
        +964 770 000 0001";
    assert_eq!(said.body, body, "a payload cannot put its own link there");
    assert_eq!(said.subject.as_deref(), Some("رضا العملاء 1"));
    assert_eq!(said.html.as_deref(), Some("<p>Kadhem &amp; Co</p>"));
    assert_eq!((said.template, said.locale.as_str()), (Some((TemplateId(3), 2)), "ar-IQ"));
    assert_eq!(said.warnings, ["body: `{{nothing}}` has no value"]);
    let english = choose_and_word(&set, Some("en"), &invitation(&title, &payload));
    assert_eq!(english.locale, "ar", "the only words there are");
    let other = Invitation { flow: FlowId(8), ..invitation(&title, &payload) };
    let other = choose_and_word(&set, Some("ar"), &other);
    assert_eq!(other.template, None, "another survey's words are not taken");
}

/// The language is part of what a delivery fixes: a reader who changes theirs meanwhile is sent the same.
#[test]
fn ntf_5_our_own_text_keeps_the_language_of_its_version() {
    let (title, payload, set) = (titles(), json!({}), TemplateSet::default());
    let english = own_version(&set, "en", "en-GB");
    assert_eq!((english, own_version(&set, "en", "ar-IQ")), (1, 2));
    let said = word(&set, InvitationWords::Own(english), &invitation(&title, &payload));
    assert!(said.locale == "en" && said.body.starts_with("Please take a moment"), "{said:?}");
}

/// TRG-18: every language has an invitation and a reminder, each with the title and the link, in its own
/// script; no two languages have the same words.
#[test]
fn trg_18_our_own_words_are_whole_in_every_language() {
    let (mut title, payload, set) = (LocalizedText::default(), json!({}), TemplateSet::default());
    title.insert("en", "CSI");
    let base = invitation(&title, &payload);
    let mut seen = std::collections::BTreeSet::new();
    for own in &own_texts::ALL {
        let survey_locale = own.language;
        for attempt in [1, 2] {
            let invitation = Invitation { survey_locale, attempt, ..base };
            let said = word(&set, InvitationWords::choose(&set, &invitation), &invitation);
            let subject = said.subject.clone().unwrap();
            assert_eq!((said.locale.as_str(), said.template), (survey_locale, None));
            for text in [&said.body, &subject] {
                assert!(text.contains("CSI") && !text.contains("{{"), "{survey_locale}: {text}");
                let words = text.replace(base.survey_url, "");
                let rtl = words.chars().any(|c| ('\u{590}'..='\u{6ff}').contains(&c));
                assert_eq!(rtl, locale::right_to_left(survey_locale), "{survey_locale}: {words}");
            }
            assert!(seen.insert(said.body.clone()), "{survey_locale}: {}", said.body);
            assert!(
                said.body.ends_with(base.survey_url),
                "{survey_locale}: the link is the last: {}",
                said.body
            );
            assert!(Segments::of(&said.body).count <= 4, "{survey_locale}: {}", said.body);
        }
    }
}

/// TRG-18: the words of a survey in one language are in that language, whatever region and script it names;
/// a language that is not here gets English.
#[test]
fn trg_18_our_own_words_are_in_the_language_of_the_survey() {
    let set = TemplateSet::default();
    let of = |survey_locale: &str| {
        let version = own_version(&set, survey_locale, survey_locale);
        own_texts::ALL[usize::try_from(version).unwrap() - 1]
    };
    let table = [
        ("de-AT", "de"),
        ("pt-BR", "pt"),
        ("FA-IR", "fa"),
        ("nn-NO", "nb"),
        ("iw", "he"),
        ("zh", "zh"),
        ("zh-Hans-HK", "zh"),
        ("zh-TW", "zh-Hant"),
        ("zh-Hant-HK", "zh-Hant"),
        ("xx", "en"),
    ];
    for (survey_locale, language) in table {
        assert_eq!(of(survey_locale).language, language, "{survey_locale}");
    }
}
