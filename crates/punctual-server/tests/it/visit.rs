//! Somebody without a key follows a link: the page, the script's beacon, the answers.

use crate::client::{Client, Reply};
use crate::world::{Base, World};
use punctual::delivery::store::entries::actions::{
    ActionOutcome, EntryAction, EntryActionRequest, EntryReference,
};
use punctual::engine::IngestRequest;
use punctual::flow::rules::entry::EntryStatus;
use punctual::flow::rules::public_id::PublicId;
use punctual::flow::store::entries::history::ChangeAuthor;
use punctual::flow::store::flows::FlowDraft;
use punctual::{ClockMode, Tenant};
use punctual_server::app::Settings;
use punctual_server::http::public::visitor::PublicAccess;
use serde_json::{Value, json};

on_each! {
    trg_19_a_survey_is_answered_without_a_script,
    trg_19_the_page_speaks_the_readers_language,
    trg_19_pages_are_dressed_for_strangers,
    trg_20_only_a_person_opens_a_survey,
    trg_21_answers_as_json_count_once,
    trg_21_a_survey_that_is_over_takes_no_answers,
    trg_23_links_that_nobody_has_are_answered_alike,
    trg_23_a_bot_is_cut_off_and_changes_nothing,
    trg_23_an_address_has_its_limit,
}

/// A survey in which a complaint is asked about, as it is sent to somebody who reads Arabic.
pub fn survey() -> Value {
    json!({
        "title": {"en": "How was your visit?", "ar": "كيف كانت زيارتك؟"},
        "locales": ["en", "ar"], "defaultLocale": "en",
        "questions": [
            {"id": "rate", "type": "rating", "required": true, "text": {"en": "How was it?", "ar": "كيف؟"}},
            {"id": "bad", "type": "yesNo", "required": true, "text": {"en": "A complaint?", "ar": "شكوى؟"}},
            {"id": "story", "type": "longText", "required": true, "text": {"en": "What went \
             wrong?", "ar": "ماذا؟"},
             "showIf": {"questionId": "bad", "op": "==", "value": "Yes"}},
            {"id": "why", "type": "multiChoice", "text": {"en": "Why?", "ar": "لماذا؟"},
             "options": [{"value": "price", "text": {"en": "Price", "ar": "السعر"}},
                         {"value": "else", "text": {"en": "Else", "ar": "آخر"}, "other": true}],
             "showIf": {"questionId": "story", "op": "exists"}},
        ],
        "triggers": [{
            "id": "after-visit", "eventKind": "visit-closed", "channel": "memory:default",
            "dedupRecipe": ["templateId", "recipient.address", "candidate.wip"],
            "schedule": {"initialDelay": "0d", "reminders": ["1d"]},
        }],
    })
}

/// Publishes a survey.
pub async fn publish(world: &World, definition: Value) {
    let draft = FlowDraft { name: "Visits".into(), integration_id: None, definition };
    let store = world.engine.store();
    let flow = store.create_flow(Tenant::DEFAULT, draft).await.unwrap();
    store.publish_flow(Tenant::DEFAULT, flow.id).await.unwrap();
}

/// Invites somebody; answers their link.
pub async fn invite(world: &World, wip: &str, locale: Option<&str>) -> PublicId {
    let item = json!({"payload": {"wip": wip}, "recipient": {"address": "+9647700000001", "locale": locale}});
    let event = IngestRequest { event_kind: "visit-closed".into(), items: vec![item] };
    let made = world.engine.ingest(Tenant::DEFAULT, &event).await.unwrap();
    made[0].instances[0].public_id
}

/// A server with one invitation.
async fn invited(base: Base) -> (World, Client, PublicId) {
    let world = World::manual(base).await;
    publish(&world, survey()).await;
    let link = invite(&world, "1", None).await;
    let anybody = world.anybody();
    (world, anybody, link)
}

async fn status(world: &World, link: PublicId) -> EntryStatus {
    let entry = world.engine.store().entry(Tenant::DEFAULT, link).await.unwrap();
    entry.expect("the entry is there").state.status
}

/// Posts a form; answers the status and where it leads.
async fn step(client: &Client, path: &str, form: &str) -> (u16, String) {
    let reply = client.send("POST", path, form).await;
    (reply.status, reply.header("location").to_owned())
}

fn shows(reply: &Reply, parts: &[&str]) {
    for part in parts {
        assert!(reply.text.contains(part), "`{part}` is not in {}", reply.text);
    }
}

/// TRG-19, TRG-21: from the first question to the thanks, with plain forms and nothing else.
async fn trg_19_a_survey_is_answered_without_a_script(base: Base) {
    let (world, anybody, link) = invited(base).await;
    let page = format!("/s/{link}");
    shows(
        &anybody.get(&page).await,
        &["name=\"rate\"", "name=\"bad\"", ">Next</button>", "action=\"?step=1\""],
    );
    let wrong = anybody.send("POST", &format!("{page}?step=1"), "bad=Yes").await;
    assert_eq!(wrong.status, 422);
    shows(&wrong, &["href=\"#f-rate\"", "Please answer this question.", "name=\"bad\" id=\"f-bad\" checked"]);
    let there = |n: u8| (303, format!("?step={n}"));
    assert_eq!(step(&anybody, &format!("{page}?step=1"), "rate=2&bad=Yes").await, there(2));
    shows(&anybody.get(&format!("{page}?step=2")).await, &["name=\"story\"", "value=\"back\""]);
    assert_eq!(step(&anybody, &format!("{page}?step=2"), "story=too+slow&.go=back").await, there(1));
    shows(&anybody.get(&format!("{page}?step=1")).await, &["name=\"rate\" checked value=\"2\""]);
    assert_eq!(step(&anybody, &format!("{page}?step=1"), "rate=3&bad=Yes").await, there(2));
    shows(&anybody.get(&format!("{page}?step=2")).await, &["too slow</textarea>"]);
    assert_eq!(step(&anybody, &format!("{page}?step=2"), "story=too+slow").await, there(3));
    // Whoever opens the link again, on any device, goes on where they left off.
    shows(&anybody.get(&page).await, &["name=\"why\"", ">Send</button>"]);
    let last = "why=price&why=else&why.other=too+loud";
    assert_eq!(step(&anybody, &format!("{page}?step=3"), last).await, (303, "?done=1".into()));
    shows(&anybody.get(&format!("{page}?done=1")).await, &["<h1>Thank you</h1>"]);
    shows(&anybody.get(&page).await, &["<h1>Already answered</h1>"]);
    assert_eq!(anybody.send("POST", &format!("{page}?step=3"), last).await.status, 409);
    assert_eq!(status(&world, link).await, EntryStatus::Completed);
    let shown = anybody.sees(&format!("/api/public/survey-instances/{link}")).await;
    assert_eq!((&shown["status"], &shown["answers"]), (&json!("Completed"), &json!({})), "{shown}");
}

/// TRG-19: the recipient's language first, another by choice, and it stays.
async fn trg_19_the_page_speaks_the_readers_language(base: Base) {
    let (world, anybody, link) = invited(base).await;
    let arabic = invite(&world, "2", Some("ar-IQ")).await;
    shows(&anybody.get(&format!("/s/{link}")).await, &["<html lang=\"en\" dir=\"ltr\">"]);
    let browser = anybody.with("accept-language", "fr, ar;q=0.9");
    shows(&browser.get(&format!("/s/{link}")).await, &["<html lang=\"ar\" dir=\"rtl\">"]);
    shows(
        &anybody.get(&format!("/s/{arabic}")).await,
        &["<html lang=\"ar\" dir=\"rtl\">", ">التالي</button>"],
    );
    let chosen = format!("/s/{arabic}?lang=en");
    shows(&anybody.get(&chosen).await, &["<html lang=\"en\" dir=\"ltr\">", "action=\"?step=1&amp;lang=en\""]);
    let lead = step(&anybody, &format!("/s/{arabic}?step=1&lang=en"), "rate=5&bad=Yes").await;
    assert_eq!(lead, (303, "?step=2&lang=en".into()));
    let pages = [
        ("fr, ar;q=0.9", "<html lang=\"fr\" dir=\"ltr\">", "Enquête introuvable"),
        ("is, ar;q=0.9", "<html lang=\"en\" dir=\"ltr\">", "Survey not found"),
        ("ar", "<html lang=\"ar\" dir=\"rtl\">", "الاستبيان غير موجود"),
        ("he-IL", "<html lang=\"he-IL\" dir=\"rtl\">", "הסקר לא נמצא"),
    ];
    for (languages, page, title) in pages {
        let browser = anybody.with("accept-language", languages);
        shows(&browser.get("/s/nothing").await, &[page, title]);
    }
}

/// TRG-19: a strict policy, no traces, and files that are kept for good.
async fn trg_19_pages_are_dressed_for_strangers(base: Base) {
    let (_world, anybody, link) = invited(base).await;
    for path in [format!("/s/{link}"), "/s/nothing".into()] {
        let page = anybody.get(&path).await;
        assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
        assert_eq!(
            page.header("content-security-policy"),
            "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; \
             form-action 'self'; \
             base-uri 'none'; frame-ancestors 'none'; connect-src 'self'"
        );
        assert_eq!(
            (page.header("cache-control"), page.header("referrer-policy")),
            ("no-store", "no-referrer")
        );
        assert_eq!((page.header("x-robots-tag"), page.header("set-cookie")), ("noindex", ""));
        for file in page.text.split("\"assets/").skip(1).map(|rest| rest.split('"').next().unwrap()) {
            let file = anybody.get(&format!("/s/assets/{file}")).await;
            assert_eq!((file.status, file.text.is_empty()), (200, false));
            assert!(file.header("cache-control").contains("immutable"), "{file:?}");
        }
    }
    anybody.get("/s/assets/survey-0.css").await.problem(404);
}

/// TRG-20: link previews and mail scanners fetch pages; that opens nothing.
async fn trg_20_only_a_person_opens_a_survey(base: Base) {
    let (world, anybody, link) = invited(base).await;
    for path in [
        format!("/s/{link}"),
        format!("/s/{link}?step=1&lang=ar"),
        format!("/api/public/survey-instances/{link}"),
    ] {
        for method in ["GET", "HEAD"] {
            assert_eq!(anybody.send(method, &path, "").await.status, 200, "{method} {path}");
        }
    }
    assert_eq!(status(&world, link).await, EntryStatus::Pending, "a fetch is no person");
    assert!(anybody.get(&format!("/s/{link}")).await.text.contains("data-opened"));
    let beacon = anybody.send("POST", &format!("/api/SurveyInstances/{link}/opened"), "").await;
    assert_eq!((beacon.status, beacon.text.as_str()), (204, ""));
    assert_eq!(status(&world, link).await, EntryStatus::Opened);
    assert!(!anybody.get(&format!("/s/{link}")).await.text.contains("data-opened"), "once is enough");
    let second = invite(&world, "2", None).await;
    let kept = anybody.send("POST", &format!("/s/{second}?step=1"), "rate=4&.go=keep").await;
    assert_eq!((kept.status, status(&world, second).await), (204, EntryStatus::Opened), "{}", kept.text);
    let again = anybody.get(&format!("/s/{second}")).await;
    shows(&again, &["name=\"rate\" checked value=\"4\""]);
    let third = invite(&world, "3", None).await;
    anybody.send("POST", &format!("/s/{third}?step=1"), "").await;
    assert_eq!(status(&world, third).await, EntryStatus::Opened, "a step that is wrong is a person's, too");
}

/// TRG-21: for front ends of one's own.
async fn trg_21_answers_as_json_count_once(base: Base) {
    let (world, anybody, link) = invited(base).await;
    let shown = anybody.sees(&format!("/api/public/survey-instances/{link}")).await;
    assert_eq!(shown["questions"][0]["text"], json!({"en": "How was it?", "ar": "كيف؟"}));
    assert_eq!((&shown["questions"][0]["min"], &shown["questions"][0]["max"]), (&json!(1), &json!(5)));
    assert_eq!(shown["questions"][2]["showIf"], survey()["questions"][2]["showIf"]);
    assert_eq!(shown["questions"][3]["options"][1]["other"], true);
    assert!(!shown.to_string().contains("+964"), "no address: {shown}");
    let path = format!("/api/SurveyInstances/{link}/responses");
    let table = [
        (
            json!({"answers": {"bad": "Yes", "rates": 1}}),
            vec!["answers.rates", "answers.rate", "answers.story"],
        ),
        (json!({"answers": {"rate": 9, "bad": "No"}}), vec!["answers.rate"]),
        (json!({}), vec!["answers"]),
        (json!({"answers": [], "meta": {"agentId": 7}}), vec!["answers", "meta.agentId"]),
        (json!({"answers": {}, "meta": {"agent": "7"}}), vec!["meta.agent"]),
        (json!([]), vec![""]),
    ];
    for (body, paths) in table {
        assert_eq!(anybody.post(&path, body.clone()).await.problem(422), paths, "{body}");
    }
    anybody.send("POST", &path, "{").await.problem(400);
    let large = format!("{{\"answers\":{{\"story\":\"{}\"}}}}", "x".repeat(1024 * 1024));
    anybody.send("POST", &path, &large).await.problem(413);
    assert_eq!(status(&world, link).await, EntryStatus::Pending, "what was wrong changed nothing");
    let body = json!({"answers": {"rate": 4, "bad": false}, "meta": {"agentId": "a-1"}});
    let done = anybody.does(&path, body.clone(), 200).await;
    assert_eq!(done["publicId"], link.to_string());
    assert!(done["completedAt"].as_str().unwrap().ends_with('Z'), "{done}");
    anybody.post(&path, body).await.problem(409);
    anybody.send("POST", &path, "{").await.problem(409);
    assert_eq!(status(&world, link).await, EntryStatus::Completed);
}

async fn change(world: &World, id: PublicId, action: EntryAction) {
    let (name, author) = (EntryReference::PublicId(id), ChangeAuthor::new("sue", "asked for"));
    let request = EntryActionRequest { name, action, author };
    assert_eq!(world.engine.change_entry(Tenant::DEFAULT, request).await.unwrap(), ActionOutcome::Done);
}

/// TRG-21: withdrawn and deleted.
async fn trg_21_a_survey_that_is_over_takes_no_answers(base: Base) {
    let (world, anybody, link) = invited(base).await;
    let path = format!("/api/SurveyInstances/{link}/responses");
    let body = json!({"answers": {"rate": 4, "bad": "No"}});
    change(&world, link, EntryAction::Cancel).await;
    anybody.post(&path, body.clone()).await.problem(410);
    anybody.post(&path, json!({})).await.problem(410);
    for method in ["GET", "POST"] {
        let page = anybody.send(method, &format!("/s/{link}?step=1"), "rate=1").await;
        assert_eq!(page.status, 410);
        shows(&page, &["This survey has ended"]);
    }
    let second = invite(&world, "2", None).await;
    change(&world, second, EntryAction::Delete).await;
    assert_eq!(anybody.get(&format!("/s/{second}")).await.status, 404);
    anybody.post(&format!("/api/SurveyInstances/{second}/responses"), body).await.problem(404);
}

/// TRG-23: an id that nobody has and a text that is none cannot be told apart.
async fn trg_23_links_that_nobody_has_are_answered_alike(base: Base) {
    let (_world, anybody, _) = invited(base).await;
    let unknown = "8f3a1c4e-0b5d-4e6f-a7b8-c9d0e1f2a3b4";
    let shapes: [(&str, &str, &str); 6] = [
        ("GET", "/s/{}", ""),
        ("POST", "/s/{}", "rate=1"),
        ("GET", "/api/public/survey-instances/{}", ""),
        ("POST", "/api/SurveyInstances/{}/opened", ""),
        ("POST", "/api/SurveyInstances/{}/responses", "{\"answers\":{}}"),
        ("POST", "/api/SurveyInstances/{}/responses", "{"),
    ];
    for (method, shape, body) in shapes {
        let mut said = Vec::new();
        for id in [unknown, "nothing", "1", "%00", &unknown.to_uppercase()] {
            let reply = anybody.send(method, &shape.replace("{}", id), body).await;
            assert_eq!(reply.status, 404, "{method} {shape} {id}");
            said.push(reply.text);
        }
        said.dedup();
        assert_eq!(said.len(), 1, "{said:?}");
    }
}

/// TRG-23: a bot that posts a thousand times to a link is told to wait, and nothing comes of it.
async fn trg_23_a_bot_is_cut_off_and_changes_nothing(base: Base) {
    let (world, anybody, link) = invited(base).await;
    let path = format!("/api/SurveyInstances/{link}/responses");
    let mut cut_off = 0;
    for n in 0..1_000 {
        let reply = anybody.post(&path, json!({"answers": {"rate": n}})).await;
        if reply.status == 429 {
            reply.problem(429);
            assert!(reply.header("retry-after").parse::<u32>().is_ok_and(|wait| wait >= 1), "{reply:?}");
            cut_off += 1;
        } else {
            reply.problem(422);
        }
    }
    assert!(cut_off >= 800, "only {cut_off} of 1000 were cut off");
    assert_eq!(status(&world, link).await, EntryStatus::Pending);
}

/// TRG-23: whoever asks too often gets a page that says so; another address is not concerned.
async fn trg_23_an_address_has_its_limit(base: Base) {
    let settings = Settings { public: PublicAccess::new(5, true), ..Settings::default() };
    let world = World::start(base, ClockMode::Manual, settings).await;
    publish(&world, survey()).await;
    let link = invite(&world, "1", None).await;
    let from = |address: &str| world.anybody().with("x-forwarded-for", address);
    for _ in 0..5 {
        assert_eq!(from("1.2.3.4").get(&format!("/s/{link}")).await.status, 200);
    }
    let page = from("1.2.3.4").get(&format!("/s/{link}")).await;
    assert_eq!((page.status, page.header("retry-after").is_empty()), (429, false));
    shows(&page, &["One moment, please"]);
    from("1.2.3.4").get(&format!("/api/public/survey-instances/{link}")).await.problem(429);
    assert_eq!(from("1.2.3.5").get(&format!("/s/{link}")).await.status, 200);
    assert_eq!(world.root().get("/api/queues").await.status, 200, "callers with a key are not strangers");
}
