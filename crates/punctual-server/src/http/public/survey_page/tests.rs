//! The page as text: every type, both directions, and what cannot become markup.

use super::*;
use punctual::survey::rules::answers::AnswersError;
use serde_json::json;

fn id() -> PublicId {
    PublicId::from_random([7; 16])
}

fn map(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

/// The page of a step with these answers; `tell` whether it says what is wrong with them.
fn page(survey: &Survey, locale: &str, answers: &Value, at: usize, tell: bool) -> String {
    let answers = map(answers.clone());
    let steps = SurveySteps::of(survey, &answers);
    let wrong =
        survey.accept(&answers).err().filter(|_| tell).map_or_else(Vec::new, |AnswersError(wrong)| wrong);
    render_step(&SurveyStep {
        public_id: id(),
        survey,
        locale,
        chosen: false,
        answers: &answers,
        steps: &steps,
        at,
        wrong: &wrong,
        to_be_opened: true,
    })
}

fn has(page: &str, parts: &[&str]) {
    for part in parts {
        assert!(page.contains(part), "`{part}` is not in\n{page}");
    }
}

/// TRG-19: every type has its fields, tied to its text, with what was answered so far.
#[test]
fn trg_19_every_type_of_question_is_shown_with_its_answer() {
    let survey = sample::every_type("en");
    let answers = json!({"rate": "4", "grade": 0, "likely": 10, "bad": "No", "how": "2",
        "why": ["price", "else"],
        "why.other": "too loud", "name": "Zoë", "story": "a\nb", "cars": 2.5, "since": "2024-02-29"});
    let page = page(&survey, "en", &answers, 0, false);
    has(
        &page,
        &[
            "<html lang=\"en\" dir=\"ltr\">",
            "<form method=\"post\" novalidate autocomplete=\"off\" action=\"?step=1\"",
            "data-opened=\"../api/SurveyInstances/07070707-0707-4707-8707-070707070707/opened\"",
            "<fieldset class=\"question\" role=\"radiogroup\" aria-required=\"true\" \
             aria-describedby=\"h-rate\">",
            "<legend class=\"asked\">rate? <span class=\"tag\">Required</span></legend>",
            "<p class=\"help\" id=\"h-rate\">Five is best</p>",
            "<input type=\"radio\" name=\"rate\" id=\"f-rate\" value=\"1\">",
            "<input type=\"radio\" name=\"rate\" checked value=\"4\"><span class=\"star\">",
            "<span>4<span class=\"unseen\"> of 5</span></span>",
            "<input type=\"radio\" name=\"grade\" id=\"f-grade\" checked value=\"0\"><span class=\"tile\">",
            "<input type=\"radio\" name=\"likely\" checked value=\"10\">",
            "<span>0 – Not at all likely</span>",
            "<input type=\"radio\" name=\"bad\" checked value=\"No\"><span class=\"tile\">No</span>",
            "<input type=\"radio\" name=\"how\" checked value=\"2\"><span>phone?</span>",
            "<input type=\"checkbox\" name=\"why\" id=\"f-why\" checked value=\"price\"><span>price?</span>",
            "<input type=\"checkbox\" name=\"why\" checked value=\"else\">",
            "id=\"f-why.other\" name=\"why.other\" aria-label=\"else?: In your own words\" \
             value=\"too loud\">",
            "<p class=\"help\" id=\"b-why\">Choose at most <bdi dir=\"ltr\">2</bdi>.</p>",
            "<label class=\"asked\" for=\"f-name\">name?</label>",
            "id=\"f-name\" name=\"name\" aria-describedby=\"b-name\" value=\"Zoë\">",
            "Write at least <bdi dir=\"ltr\">2</bdi> characters. Write at most <bdi \
             dir=\"ltr\">40</bdi> characters.",
            "<textarea rows=\"5\" dir=\"auto\" id=\"f-story\" name=\"story\">\na\nb</textarea>",
            "<input autocomplete=\"off\" type=\"text\" inputmode=\"decimal\" id=\"f-cars\"",
            "value=\"2.5\">",
            "type=\"date\" min=\"2020-01-01\" max=\"2026-12-31\" id=\"f-since\"",
            "value=\"2024-02-29\">",
            "<button type=\"submit\" class=\"on\">Send</button>",
        ],
    );
    assert!(!page.contains("aria-invalid") && !page.contains("problems"), "{page}");
    assert_eq!(page.matches(" checked ").count(), 7, "{page}");
}

/// TRG-19: right to left where the locale is, in everything.
#[test]
fn trg_19_arabic_runs_from_right_to_left() {
    let survey = sample::every_type("en");
    let page = page(&survey, "ar", &json!({}), 0, true);
    has(
        &page,
        &[
            "<html lang=\"ar\" dir=\"rtl\">",
            "<h1>كيف كانت زيارتك؟</h1>",
            "<title>خطأ: كيف كانت زيارتك؟</title>",
            "<span class=\"tag\">مطلوب</span>",
            "غير محتمل إطلاقًا",
            "<span class=\"unseen\"> من 5</span>",
            "<span class=\"tile\">نعم</span>",
            "<button type=\"submit\" class=\"on\">إرسال</button>",
            "<a lang=\"en\" hreflang=\"en\" dir=\"ltr\" href=\"?lang=en&amp;step=1\">English</a>",
            "<a lang=\"ar\" hreflang=\"ar\" dir=\"rtl\" href=\"?lang=ar&amp;step=1\" \
             aria-current=\"true\">العربية</a>",
        ],
    );
    assert!(!page.contains("Required"), "{page}");
}

/// TRG-21: what is wrong is told at the top, leads to its field, and is tied to it.
#[test]
fn trg_21_problems_lead_to_their_fields() {
    let survey = sample::every_type("en");
    let wrong =
        json!({"cars": "many", "why": ["price", 2, "else"], "since": "2019-01-01", "name": "x", "bad": "No"});
    let page = page(&survey, "en", &wrong, 0, true);
    has(
        &page,
        &[
            "<title>Error: How was your visit?</title>",
            "role=\"alert\" tabindex=\"-1\" autofocus>",
            "<li><a href=\"#f-rate\">rate?</a><br>Please answer this question.</li>",
            "<li><a href=\"#f-why\">why?</a><br>Choose at most <bdi dir=\"ltr\">2</bdi>.</li>",
            "<li><a href=\"#f-name\">name?</a><br>Write at least <bdi dir=\"ltr\">2</bdi> characters.</li>",
            "<li><a href=\"#f-cars\">cars?</a><br>Please write a number, such as 12 or 2.5.</li>",
            "<li><a href=\"#f-since\">since?</a><br>Not before <bdi dir=\"ltr\">2020-01-01</bdi>.</li>",
            "role=\"radiogroup\" aria-required=\"true\" aria-invalid=\"true\" \
             aria-describedby=\"h-rate e-rate\">",
            "<p class=\"wrong\" id=\"e-rate\">Please answer this question.</p>",
            "name=\"why\" id=\"f-why\" checked aria-invalid=\"true\" value=\"price\">",
            "id=\"f-cars\" name=\"cars\" aria-invalid=\"true\" aria-describedby=\"b-cars e-cars\" \
             value=\"many\">",
        ],
    );
    assert_eq!(page.matches("class=\"wrong\"").count(), 5, "{page}");
}

/// TRG-19: steps have a bar, a way back, and keep the language that was chosen.
#[test]
fn trg_19_steps_lead_on_and_back() {
    let survey = sample::navigated();
    let first = page(&survey, "en", &json!({"rate": 1, "bad": "Yes"}), 0, false);
    has(&first, &["<progress aria-label=\"Progress\" max=\"5\" value=\"0\">", ">Next</button>"]);
    assert!(!first.contains("value=\"back\"") && !first.contains("languages"), "{first}");
    let second = page(&survey, "en", &json!({"rate": 1, "bad": "Yes"}), 1, false);
    has(&second, &["max=\"5\" value=\"2\"", "action=\"?step=2\"", "name=\".go\" value=\"back\">Back<"]);
    assert!(second.find(">Next<") < second.find(">Back<"), "Enter goes on, not back\n{second}");
    let answers = Map::new();
    let both = sample::every_type("en");
    let steps = SurveySteps::of(&both, &answers);
    let chosen = SurveyStep {
        public_id: id(),
        survey: &both,
        locale: "ar",
        chosen: true,
        answers: &answers,
        steps: &steps,
        at: 0,
        wrong: &[],
        to_be_opened: false,
    };
    let chosen = render_step(&chosen);
    has(&chosen, &["action=\"?step=1&amp;lang=ar\""]);
    assert!(!chosen.contains("data-opened") && !chosen.contains("<progress"), "{chosen}");
}

/// A text that lacks the reader's locale is shown in the default one and marked; words of ours, too.
#[test]
fn texts_in_another_language_are_marked() {
    let survey = sample::read(&json!({
        "title": {"ar": "عنوان", "ckb": "ناونیشان"}, "locales": ["ar", "ckb"],
        "defaultLocale": "ar", "triggers": [],
        "questions": [{"id": "a", "type": "shortText", "text": {"ar": "سؤال"}, "required": true}],
    }));
    let page = page(&survey, "ckb", &json!({}), 0, false);
    has(
        &page,
        &[
            "<html lang=\"ckb\" dir=\"rtl\">",
            "<h1>ناونیشان</h1>",
            "<span lang=\"ar\" dir=\"rtl\">سؤال</span>",
            "<span lang=\"en\" dir=\"ltr\">Required</span>",
            "<span lang=\"en\" dir=\"ltr\">Send</span>",
        ],
    );
}

/// TRG-19: whatever somebody writes into a survey or an answer, it stays text.
#[test]
fn trg_19_stored_markup_is_inert() {
    let evil = "</title></textarea><script>alert(1)</script>\"' onfocus=alert(1) autofocus x='<img \
     src=x onerror=alert(1)>";
    let text = json!({"en": evil, "ar": evil});
    let options = json!([{"value": evil, "text": text}, {"value": "o", "text": text, "other": true}]);
    let types = ["rating", "nps", "yesNo", "shortText", "longText", "number", "date"];
    let mut questions: Vec<Value> = types
        .iter()
        .map(|kind| {
            let id = format!("q-{kind}");
            json!({"id": id, "type": kind, "text": text, "help": text, "required": true})
        })
        .collect();
    for kind in ["singleChoice", "multiChoice"] {
        questions.push(json!({"id": kind, "type": kind, "text": text, "help": text, "options": options}));
    }
    let survey = sample::read(&json!({"title": text, "locales": ["en", "ar"], "defaultLocale": "en",
        "triggers": [], "questions": questions}));
    let mut answers: Map<String, Value> =
        types.iter().map(|kind| (format!("q-{kind}"), evil.into())).collect();
    for id in ["singleChoice", "multiChoice", "singleChoice.other", "multiChoice.other"] {
        answers.insert(id.into(), if id == "multiChoice" { json!([evil, "o"]) } else { evil.into() });
    }
    let pages = [
        page(&survey, "en", &answers.clone().into(), 0, true),
        page(&survey, "ar", &answers.into(), 0, false),
        page(&survey, evil, &json!({}), 0, true),
        render_closing_page(ClosingPage::Thanks, Some(&survey), evil),
        render_closing_page(ClosingPage::Unknown, None, evil),
    ];
    for page in pages {
        let scripts = page.matches("<script").count();
        assert_eq!((scripts, page.matches("<img").count()), (1, 0), "{page}");
        // Outside of quotes and tags there is no way to say these.
        assert!(!page.contains("\"' onfocus") && !page.contains("</title></"), "{page}");
        assert_eq!(page.matches("</title>").count(), 1, "{page}");
        assert!(!page.contains(" style=") && !page.contains("javascript:"), "{page}");
    }
}

#[test]
fn ends_say_what_there_is_to_say() {
    let survey = sample::every_type("en");
    let table = [
        (ClosingPage::Thanks, Some(&survey), "ar", "شكرًا لك"),
        (ClosingPage::Thanks, Some(&survey), "en", "Thank you"),
        (ClosingPage::Answered, Some(&survey), "en", "Already answered"),
        (ClosingPage::Over, Some(&survey), "ar", "انتهى هذا الاستبيان"),
        (ClosingPage::Unknown, None, "ar-IQ", "الاستبيان غير موجود"),
        (ClosingPage::Unknown, None, "zz", "Survey not found"),
        (ClosingPage::TooOften, None, "en", "One moment, please"),
        (ClosingPage::Trouble, None, "en", "That did not work"),
    ];
    for (what, survey, locale, said) in table {
        let page = render_closing_page(what, survey, locale);
        has(&page, &[&format!("<h1>{said}</h1>"), &format!("<title>{said}</title>"), "<main"]);
        assert!(!page.contains("<form"), "{page}");
    }
}

/// TRG-19: the files of the page are found by the names it gives them, and by no other.
#[test]
fn the_page_names_files_that_are_there() {
    let page = render_closing_page(ClosingPage::Unknown, None, "en");
    for file in [PageAsset::style(), PageAsset::script()] {
        has(&page, &[&format!("\"assets/{}\"", file.name)]);
        assert_eq!(PageAsset::find(&file.name).map(|found| found.text), Some(file.text));
    }
    assert!(PageAsset::find("survey-0.css").is_none() && PageAsset::find("../style.css").is_none());
}
