//! Surveys for the tests of the page.

use punctual::Problems;
use punctual::survey::rules::survey::Survey;
use serde_json::{Value, json};

/// Reads a definition that is in order.
pub fn read(definition: &Value) -> Survey {
    let (mut problems, mut warnings) = (Problems::default(), Problems::default());
    Survey::read(definition, &mut problems, &mut warnings).unwrap_or_else(|| panic!("{problems}"))
}

/// One question of each type, in English and Arabic; every text says which it is.
pub fn every_type(default: &str) -> Survey {
    let text = |name: &str| json!({"en": format!("{name}?"), "ar": format!("{name}؟")});
    read(&json!({
        "title": {"en": "How was your visit?", "ar": "كيف كانت زيارتك؟"},
        "locales": ["en", "ar"], "defaultLocale": default, "triggers": [],
        "questions": [
            {"id": "rate", "type": "rating", "text": text("rate"), "required": true,
             "help": {"en": "Five is best", "ar": "خمسة هي الأفضل"}},
            {"id": "grade", "type": "rating", "text": text("grade"), "min": 0, "max": 10},
            {"id": "likely", "type": "nps", "text": text("likely")},
            {"id": "bad", "type": "yesNo", "text": text("bad"), "required": true},
            {"id": "how", "type": "singleChoice", "text": text("how"),
             "options": [{"value": "web", "text": text("web")}, {"value": 2, "text": text("phone")}]},
            {"id": "why", "type": "multiChoice", "text": text("why"), "min": 1, "max": 2,
             "options": [{"value": "price", "text": text("price")}, {"value": 2, "text": text("speed")},
                         {"value": "else", "text": text("else"), "other": true}]},
            {"id": "name", "type": "shortText", "text": text("name"), "min": 2, "max": 40},
            {"id": "story", "type": "longText", "text": text("story")},
            {"id": "cars", "type": "number", "text": text("cars"), "min": 0, "max": 100},
            {"id": "since", "type": "date", "text": text("since"), "min": "2020-01-01", "max": "2026-12-31"},
        ],
    }))
}

/// Questions that rest on answers.
pub fn navigated() -> Survey {
    let text = json!({"en": "x"});
    read(&json!({
        "title": text, "locales": ["en"], "defaultLocale": "en", "triggers": [],
        "questions": [
            {"id": "rate", "type": "rating", "text": text, "required": true},
            {"id": "bad", "type": "yesNo", "text": text, "required": true},
            {"id": "story", "type": "longText", "text": text, "required": true,
             "showIf": {"questionId": "bad", "op": "==", "value": "Yes"}},
            {"id": "call", "type": "yesNo", "text": text,
             "showIf": {"questionId": "story", "op": "exists"}},
            {"id": "name", "type": "shortText", "text": text},
        ],
    }))
}
