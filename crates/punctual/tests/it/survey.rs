//! Surveys as strangers write them: broken definitions, each refused by its path with a sentence
//! that helps, and anything at all without a panic.

use proptest::prelude::*;
use punctual::base::error::Problems;
use punctual::survey::rules::survey::Survey;
use serde_json::{Map, Value, json};

/// A survey with a question of each type and a trigger with everything.
fn good() -> Value {
    let text = json!({"en": "Text", "ar": "نص"});
    json!({
        "title": text,
        "locales": ["en", "ar"],
        "defaultLocale": "en",
        "questions": [
            {"id": "rate", "type": "rating", "text": text, "required": true},
            {"id": "why", "type": "multiChoice", "text": text, "options": [
                {"value": "price", "text": text}, {"value": "staff", "text": text},
                {"value": "else", "text": text, "other": true}]},
            {"id": "complaint", "type": "yesNo", "text": text, "help": text},
            {"id": "story", "type": "longText", "text": text, "required": true,
             "showIf": {"questionId": "complaint", "op": "==", "value": "Yes"}},
            {"id": "visits", "type": "number", "text": text, "min": 0, "max": 100},
            {"id": "since", "type": "date", "text": text, "min": "2020-01-01"},
            {"id": "likely", "type": "nps", "text": text},
            {"id": "branch", "type": "singleChoice", "text": text, "options": [
                {"value": 1, "text": text}, {"value": 2, "text": text}]},
            {"id": "name", "type": "shortText", "text": text,
             "showIf": {"questionId": "likely", "op": "<=", "value": 6}},
        ],
        "triggers": [{
            "id": "visit",
            "enabled": true,
            "eventKind": "service-visit-closed",
            "filter": {"questionId": "candidate.jobType", "op": "==", "value": "GR"},
            "dedupRecipe": ["templateId", "recipient.address", "candidate.dealerId", "candidate.wip"],
            "schedule": {"initialDelay": "60d", "reminders": ["5d", "10d", "15d"]},
            "channel": "memory:default",
            "expiry": "30d",
            "subscribers": [{"key": "tickets",
                             "filter": {"questionId": "answers.complaint", "op": "==", "value": "Yes"}}],
            "stopOn": ["visit-cancelled"],
        }],
        "subscribers": [{"key": "bi"}],
    })
}

fn read(definition: &Value) -> (Option<Survey>, Problems) {
    let mut problems = Problems::default();
    let survey = Survey::read(definition, &mut problems, &mut Problems::default());
    assert_eq!(survey.is_none(), !problems.0.is_empty(), "a survey, or what is wrong: {problems}");
    (survey, problems)
}

/// Puts a value where a JSON pointer says, in place of what is there.
fn put(document: &mut Value, pointer: &str, value: Value) {
    let Some((parent, name)) = pointer.rsplit_once('/') else {
        *document = value;
        return;
    };
    match document.pointer_mut(parent).expect(pointer) {
        Value::Array(items) => match name.parse::<usize>().unwrap() {
            n if n < items.len() => items[n] = value,
            _ => items.push(value),
        },
        parent => parent[name] = value,
    }
}

fn many(n: usize, one: impl Fn(usize) -> Value) -> Value {
    (0..n).map(one).collect()
}

/// What is put where, and the words of the one problem that this makes there.
fn broken() -> Vec<(&'static str, Value, &'static str)> {
    let text = json!({"en": "Text", "ar": "نص"});
    let question = |n: usize| json!({"id": format!("q{n}"), "type": "nps", "text": text.clone()});
    let option = |n: usize| json!({"value": n, "text": text.clone()});
    let trigger = |n: usize| {
        let mut trigger = good()["triggers"][0].clone();
        trigger["id"] = json!(format!("t{n}"));
        trigger
    };
    let letter = |n: usize| char::from(b'a' + n as u8);
    let tag = |n: usize| match n {
        0 => json!("en"),
        n => json!(format!("{}{}", letter(n / 26), letter(n % 26))),
    };
    vec![
        // The document itself.
        ("", json!("a survey"), "must be an object with title, locales, defaultLocale, questions"),
        ("/titel", json!({}), "`titel` is not a field; did you mean `title`?"),
        ("/colour", json!("red"), "`colour` is not a field; known are title, locales"),
        ("/title", Value::Null, "is missing: what the survey is called, for each locale"),
        ("/title", json!("Visit"), "must be an object with a text for each locale, such as {\"en\""),
        ("/title/en", Value::Null, "needs a text: this is the survey's default locale"),
        ("/title/en", json!(" "), "needs a text: this is the survey's default locale"),
        ("/title/en", json!(7), "must be a string, not a number"),
        ("/title/en", json!("x".repeat(2001)), "has 2001 characters, at most 2000 are allowed"),
        ("/title/en_US", json!("Visit"), "`en_US` is not a locale: write `en-US`"),
        // Locales.
        ("/locales", Value::Null, "is missing: the locales that the texts are in"),
        ("/locales", json!("en"), "must be a list, not a string"),
        ("/locales", json!([]), "is empty: name at least the default locale"),
        ("/locales/1", json!("Arabic"), "`Arabic` is not a locale: write a language such as `ar`"),
        ("/locales/1", json!(7), "must be a string, not a number"),
        ("/locales/2", json!("EN"), "`EN` is there twice"),
        ("/locales", many(51, tag), "has 51 items, at most 50 are allowed"),
        ("/defaultLocale", Value::Null, "is missing: the locale that every text has"),
        ("/defaultLocale", json!("fr"), "`fr` is not in locales (en, ar)"),
        ("/defaultLocale", json!("english"), "`english` is not a locale"),
        // Questions.
        ("/questions", Value::Null, "is missing: what is asked"),
        ("/questions", json!({}), "must be a list, not an object"),
        ("/questions", many(201, question), "has 201 items, at most 200 are allowed"),
        ("/questions/0", json!("rate"), "must be an object with id, type, text"),
        ("/questions/0/id", Value::Null, "is missing: a name for answers and conditions"),
        ("/questions/0/id", json!(7), "must be a string, not a number"),
        ("/questions/0/id", json!(""), "must not be empty"),
        ("/questions/0/id", json!("a.b"), "`a.b` may have letters from a to z, digits"),
        ("/questions/0/id", json!("x".repeat(101)), "has more than 100 characters"),
        ("/questions/4/id", json!("rate"), "`rate` is the id of an earlier one"),
        ("/questions/0/type", Value::Null, "is missing: one of singleChoice, multiChoice"),
        ("/questions/0/type", json!("stars"), "`stars` is not a type of question; known are"),
        ("/questions/0/type", json!("Rating"), "did you mean `rating`?"),
        ("/questions/0/text", Value::Null, "is missing: the question, for each locale"),
        ("/questions/0/text/ar", json!(["x"]), "must be a string, not a list"),
        ("/questions/0/help", json!("Stars"), "must be an object with a text for each locale"),
        ("/questions/0/required", json!("yes"), "must be true or false, not a string"),
        ("/questions/0/requried", json!(true), "did you mean `required`?"),
        // Bounds.
        ("/questions/0/max", json!(11), "must be a whole number from 0 to 10, not 11"),
        ("/questions/0/min", json!(0.5), "must be a whole number from 0 to 10, not 0.5"),
        ("/questions/0/min", json!(7), "the steps go from 7 to 5, which leaves none"),
        ("/questions/1/min", json!(4), "must be a whole number of choices from 0 to 3, not 4"),
        ("/questions/2/min", json!(1), "makes no sense for a question of type yesNo"),
        ("/questions/7/max", json!(1), "makes no sense for a question of type singleChoice"),
        ("/questions/3/max", json!(0), "must be 1 or more"),
        ("/questions/3/max", json!(10_001), "whole number of characters from 0 to 10000"),
        ("/questions/4/max", json!("many"), "must be a number, not many"),
        ("/questions/4/min", json!(200), "is greater than max: 200 is more than 100"),
        ("/questions/5/max", json!("2026-02-30"), "must be a date such as \"2026-05-14\""),
        ("/questions/6/max", json!(5), "is always 10 for nps: leave it out, or use type rating"),
        // Options.
        ("/questions/0/options", json!([]), "make no sense for a question of type rating"),
        ("/questions/1/options", Value::Null, "is missing: what there is to choose from"),
        ("/questions/1/options", json!([]), "is empty: there is nothing to choose from"),
        ("/questions/1/options", many(101, option), "has 101 items, at most 100"),
        ("/questions/1/options/0", json!("price"), "must be an object with value, text"),
        ("/questions/1/options/0/value", Value::Null, "is missing: what an answer"),
        ("/questions/1/options/0/value", json!(true), "must be a string or a number"),
        ("/questions/1/options/1/value", json!("price"), "`price` is the value of"),
        ("/questions/7/options/1/value", json!("1"), "`1` is the value of an earlier"),
        ("/questions/1/options/0/text", Value::Null, "is missing: what a reader sees"),
        ("/questions/1/options/0/label", json!("x"), "known are value, text, other"),
        // Navigation.
        ("/questions/3/showIf/questionId", json!("complaints"), "did you mean `complaint`?"),
        ("/questions/3/showIf/questionId", json!("likely"), "`likely` is asked later"),
        ("/questions/3/showIf/questionId", json!("story"), "is this question itself"),
        ("/questions/3/showIf/questionId", json!("candidate.x"), "is not a question of this survey"),
        ("/questions/3/showIf", json!("Yes"), "must be an object {questionId, op, value}"),
        ("/questions/3/showIf/op", json!("="), "did you mean `==`?"),
        // Triggers.
        ("/triggers", Value::Null, "is missing: what begins an invitation; an empty list if"),
        ("/triggers", json!("none"), "must be a list, not a string"),
        ("/triggers", many(101, trigger), "has 101 items, at most 100 are allowed"),
        ("/triggers/0", json!([]), "must be an object with id, enabled, eventKind"),
        ("/triggers/0/id", Value::Null, "is missing: a name for this trigger"),
        ("/triggers/0/enabled", json!(1), "must be true or false, not a number"),
        ("/triggers/0/eventKind", Value::Null, "is missing: the kind of events that fire it"),
        ("/triggers/0/eventKind", json!(" x"), "must not begin or end with white space"),
        ("/triggers/0/eventkind", json!("x"), "did you mean `eventKind`?"),
        ("/triggers/0/filter/op", json!("resembles"), "`resembles` is not an operator; known are == !="),
        ("/triggers/0/filter/value", json!(["GR"]), "to compare with several values, use in"),
        ("/triggers/0/dedupRecipe", Value::Null, "is missing: the facts that make two"),
        ("/triggers/0/dedupRecipe", json!([]), "is empty: all events would be the same"),
        ("/triggers/0/dedupRecipe/3", json!(7), "must be a string, not a number"),
        ("/triggers/0/schedule", Value::Null, "is missing: when to send"),
        ("/triggers/0/schedule", json!("1d"), "must be an object with initialDelay, reminders"),
        ("/triggers/0/schedule/delay", json!("1d"), "known are initialDelay, reminders"),
        ("/triggers/0/schedule/initialDelay", Value::Null, "is missing"),
        ("/triggers/0/schedule/initialDelay", json!("soon"), "`soon` is not a duration"),
        ("/triggers/0/schedule/initialDelay", json!(60), "such as \"5d\", not a number"),
        ("/triggers/0/schedule/reminders", json!("5d"), "must be a list, not a string"),
        ("/triggers/0/schedule/reminders/1", json!("10 days"), "is not a duration"),
        ("/triggers/0/schedule/reminders", many(51, |_| json!("1d")), "at most 50"),
        ("/triggers/0/channel", Value::Null, "is missing: the key of a channel"),
        ("/triggers/0/channel", json!("sms"), "`sms` is not a channel's key: write its kind"),
        ("/triggers/0/channel", json!("sms:a b"), "`sms:a b` is not a channel's key"),
        ("/triggers/0/expiry", json!("never"), "`never` is not a duration"),
        ("/triggers/0/expiry", json!("6000w"), "`6000w` is longer than a hundred years"),
        ("/triggers/0/stopOn", json!("sold"), "must be a list, not a string"),
        ("/triggers/0/stopOn/0", json!(7), "must be a kind of event, or {\"eventKind\""),
        // Subscribers.
        ("/triggers/0/subscribers/0/filter/op", Value::Null, "must be one of"),
        ("/subscribers", json!("bi"), "must be a list, not a string"),
        ("/subscribers/0", json!("bi"), "must be an object with key, filter"),
        ("/subscribers/0/key", Value::Null, "is missing: the name of a subscription"),
        ("/triggers/0/subscribers", json!({}), "must be a list, not an object"),
        ("/triggers/0/subscribers/0/topic", json!("x"), "known are key, filter"),
    ]
}

/// The same where the problem is told at another path.
fn broken_elsewhere() -> Vec<(&'static str, Value, &'static str, &'static str)> {
    vec![
        ("/title/EN", json!("Visit"), "title.en", "is there twice, in capital and in small letters"),
        (
            "/questions/0/min",
            json!(5),
            "questions[0].max",
            "must be greater than min: a rating needs two steps",
        ),
        ("/questions/5/max", json!("2019-12-31"), "questions[5].min", "2020-01-01 is more than 2019-12-31"),
        ("/questions/1/options/0/text", json!({}), "questions[1].options[0].text.en", "needs a text"),
        (
            "/questions/1/options/0/other",
            json!(true),
            "questions[1].options[2].other",
            "only one can take own words",
        ),
        (
            "/triggers/1",
            good()["triggers"][0].clone(),
            "triggers[1].id",
            "`visit` is the id of an earlier one",
        ),
        ("/triggers/0/stopOn/0", json!({}), "triggers[0].stopOn[0].eventKind", "is missing"),
        ("/subscribers/1", json!({"key": "bi"}), "subscribers[1].key", "`bi` is the key of an earlier one"),
    ]
}

/// The path of a JSON pointer: `/questions/0/id` is `questions[0].id`.
fn path_of(pointer: &str) -> String {
    let names = pointer.split('/').skip(1).map(|name| match name.parse::<usize>() {
        Ok(n) => format!("[{n}]"),
        Err(_) => format!(".{name}"),
    });
    names.collect::<String>().trim_start_matches('.').to_owned()
}

/// TRG-3: each broken definition is refused with just the path that is broken and words that help.
#[test]
fn trg_3_broken_definitions_are_refused_by_path() {
    let (survey, problems) = read(&good());
    assert!(survey.is_some(), "{problems}");
    let here = broken().into_iter().map(|(pointer, value, words)| (pointer, value, path_of(pointer), words));
    let elsewhere = broken_elsewhere().into_iter();
    let elsewhere = elsewhere.map(|(pointer, value, path, words)| (pointer, value, path.to_owned(), words));
    let (mut cases, mut failures) = (0, Vec::new());
    for (pointer, value, path, words) in here.chain(elsewhere) {
        let mut definition = good();
        put(&mut definition, pointer, value);
        let (_, problems) = read(&definition);
        let right = matches!(problems.0.as_slice(), [one] if one.path == path && one.message.contains(words));
        if !right {
            failures.push(format!("{pointer} should say `{path}: {words}`, but says `{problems}`"));
        }
        cases += 1;
    }
    assert!(failures.is_empty(), "{} cases fail:\n{}", failures.len(), failures.join("\n"));
    assert!(cases >= 60, "only {cases} cases");
}

/// TRG-3: all problems of a document are told at once.
#[test]
fn trg_3_all_problems_are_told_at_once() {
    let mut definition = good();
    let broken = [
        ("/title/en", Value::Null),
        ("/questions/0/type", json!("stars")),
        ("/questions/1/options/0/value", Value::Null),
        ("/questions/3/showIf/questionId", json!("nobody")),
        ("/triggers/0/schedule/initialDelay", json!("soon")),
        ("/triggers/0/channel", json!("sms")),
        ("/subscribers/0/key", json!("")),
    ];
    for (pointer, value) in broken.clone() {
        put(&mut definition, pointer, value);
    }
    let (_, problems) = read(&definition);
    assert_eq!(problems.0.len(), broken.len(), "{problems}");
}

/// TRG-3: the largest definition within the limits is read, and its conditions are looked at.
#[test]
fn trg_3_the_largest_definition_is_read() {
    let text = json!({"en": "Text", "ar": "نص"});
    let question = |n: usize| {
        let mut question = json!({"id": format!("q{n}"), "type": "multiChoice", "text": text.clone(),
            "options": many(100, |n| json!({"value": n, "text": text.clone()}))});
        if n > 0 {
            question["showIf"] = json!({"questionId": "q0", "op": "contains", "value": n % 100});
        }
        question
    };
    let mut definition = good();
    definition["questions"] = many(200, question);
    definition["triggers"] = many(100, |n| {
        let mut trigger = good()["triggers"][0].clone();
        trigger["id"] = json!(format!("t{n}"));
        trigger
    });
    let (survey, problems) = read(&definition);
    let survey = survey.unwrap_or_else(|| panic!("{problems}"));
    let answers =
        survey.accept(json!({"q0": [7, 8], "q107": [1], "q109": [1]}).as_object().unwrap()).unwrap();
    let kept: Vec<&str> = answers.given.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!((kept, answers.dropped), (vec!["q0", "q107"], vec!["q109".to_owned()]));
}

fn any_json() -> impl Strategy<Value = Value> {
    let words = prop::sample::select(vec![
        "",
        " ",
        "en",
        "ar",
        "rate",
        "why",
        "complaint",
        "Yes",
        "No",
        "nps",
        "rating",
        "multiChoice",
        "5d",
        "memory:default",
        "2026-05-14",
        "12",
        "price",
        "else",
        "own words",
        "نص",
        "\u{0}",
        "==",
        "exists",
    ]);
    let fields = prop::sample::select(vec![
        "title",
        "locales",
        "questions",
        "triggers",
        "id",
        "type",
        "text",
        "options",
        "value",
        "min",
        "max",
        "showIf",
        "questionId",
        "op",
        "all",
        "not",
        "schedule",
        "reminders",
        "en",
        "ar",
        "x",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (-2_i64..12).prop_map(Value::from),
        words.prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(fields.clone(), inner, 0..6).prop_map(|fields| fields
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect()),
        ]
    })
}

fn any_place() -> impl Strategy<Value = &'static str> {
    prop::sample::select(broken().into_iter().map(|(pointer, ..)| pointer).collect::<Vec<_>>())
}

/// Answers that are often right: some to each question, in all the forms a program or form sends.
fn any_answers() -> impl Strategy<Value = Map<String, Value>> {
    let often = |values: Value| {
        let right = prop::sample::select(values.as_array().unwrap().clone());
        prop_oneof![20 => right, 1 => any_json()]
    };
    let questions = [
        ("rate", json!([1, "5", 3.0, "٤"])),
        (
            "why",
            json!([["price"], "staff", ["else", "price"], ["my own words", "staff"], "  \u{1}loud\r\n ", []]),
        ),
        ("why.other", json!(["in my own words", "price", "\u{7}", ""])),
        ("complaint", json!(["Yes", "No", true, false])),
        ("story", json!(["It was\r\nlate", " x ", "\u{0}\u{1}a", "نص"])),
        ("visits", json!([0, 1.5, "99.0", "1e1", -0.0])),
        ("since", json!(["2026-05-14", " 2020-01-01 "])),
        ("likely", json!([0, "6", 10])),
        ("branch", json!([1, "2", 2.0])),
        ("name", json!(["Zoë", "a\tb\n"])),
    ];
    let given =
        questions.map(|(id, values)| prop::option::weighted(0.8, often(values)).prop_map(move |v| (id, v)));
    given.prop_map(|all| all.into_iter().filter_map(|(id, value)| Some((id.to_owned(), value?))).collect())
}

proptest! {
    /// TRG-3: anything at all is read or refused.
    #[test]
    fn trg_3_any_json_is_read_or_refused(value in any_json()) {
        read(&value);
    }

    /// TRG-3: a definition with anything anywhere is read or refused, and what was read can be asked.
    #[test]
    fn trg_3_a_definition_with_anything_in_it_is_read_or_refused(
        place in any_place(), value in any_json(), answers in any_answers(),
    ) {
        let mut definition = good();
        put(&mut definition, place, value);
        if let (Some(survey), _) = read(&definition) {
            let _ = survey.accept(&answers);
            assert!(survey.next(&answers, None).len() <= survey.questions.len());
        }
    }

    /// TRG-21: a canonical answer set is accepted as it is, and loses nothing.
    #[test]
    fn trg_21_canonical_answers_are_their_own_canonical_form(answers in any_answers()) {
        let survey = read(&good()).0.unwrap();
        if let Ok(once) = survey.accept(&answers) {
            let twice = survey.accept(&once.to_json());
            let twice = twice.unwrap_or_else(|refused| panic!("{:?}: {}", once, refused.problems()));
            prop_assert_eq!(twice.given, once.given);
            prop_assert_eq!(twice.dropped, Vec::<String>::new());
        }
    }

    /// TRG-19, TRG-21: page by page one is asked just what the whole is checked for.
    #[test]
    fn trg_19_the_pages_make_up_the_path(answers in any_answers()) {
        let survey = read(&good()).0.unwrap();
        let (mut so_far, mut asked) = (Map::new(), Vec::<String>::new());
        loop {
            let page = survey.next(&so_far, asked.last().map(String::as_str));
            if page.is_empty() {
                break;
            }
            for question in page {
                for id in [question.id.clone(), question.other_id()] {
                    so_far.extend(answers.get(&id).map(|value| (id, value.clone())));
                }
                asked.push(question.id.clone());
            }
        }
        let path: Vec<String> = survey.visible(&answers).iter().map(|question| question.id.clone()).collect();
        prop_assert_eq!(asked, path);
    }
}
