//! Free-text answers in pages.

use crate::bench::{Bench, TENANT, seconds};
use crate::invitation::{engine, invite, publish, survey};
use punctual::engine::{Comment, CommentCursor, CommentFilter, SubmitOutcome};
use punctual::flow::store::flows::FlowDraft;
use punctual::survey::store::results::ResultFilter;
use punctual::{Engine, Error, FlowId};
use serde_json::{Value, json};

cases![
    trg_26_free_texts_come_newest_first_in_pages,
    trg_26_free_texts_are_filtered,
    trg_26_a_question_without_free_text_is_refused,
];

/// A survey with two free texts beside a rating, one of them after an option of one's own.
fn definition() -> Value {
    survey(|d| {
        d["questions"] = json!([
            {"id": "rate", "type": "rating", "text": {"en": "How?", "ar": "كيف؟"}},
            {"id": "why", "type": "longText", "text": {"en": "Why?", "ar": "لماذا؟"}},
            {"id": "how", "type": "singleChoice", "text": {"en": "How?", "ar": "كيف؟"}, "options": [
                {"value": "car", "text": {"en": "By car", "ar": "سيارة"}},
                {"value": "else", "text": {"en": "Otherwise", "ar": "أخرى"}, "other": true}]},
        ]);
    })
}

async fn answer(engine: &Engine, wip: &str, answers: Value) {
    let id = invite(engine, wip).await;
    let done = engine.submit(id, answers.as_object().unwrap().clone(), None).await.unwrap();
    assert!(matches!(done, SubmitOutcome::Done { .. }), "{done:?}");
}

/// Every page, with so many comments on each.
async fn pages(engine: &Engine, flow: FlowId, filter: &CommentFilter, limit: usize) -> Vec<Vec<Comment>> {
    let (mut pages, mut after) = (Vec::new(), None::<CommentCursor>);
    loop {
        let page = engine.comments(TENANT, flow, filter, after, limit).await.unwrap();
        pages.push(page.comments);
        after = page.next;
        if after.is_none() {
            return pages;
        }
    }
}

fn texts(comments: &[Comment]) -> Vec<&str> {
    comments.iter().map(|comment| comment.text.as_str()).collect()
}

/// TRG-26: several responses of one moment and several texts of one response are not lost between pages.
async fn trg_26_free_texts_come_newest_first_in_pages(t: &Bench) {
    let (engine, _) = engine(t).await;
    let flow = publish(&engine, definition()).await;
    answer(&engine, "1", json!({"why": "a"})).await;
    answer(&engine, "2", json!({"rate": 3})).await;
    answer(&engine, "3", json!({"why": "c", "how": "else", "how.other": "b"})).await;
    engine.travel(t.now().await.plus(seconds(1)), true).await.unwrap();
    answer(&engine, "4", json!({"why": "d"})).await;
    let all = CommentFilter::default();
    for limit in 1..=5 {
        let pages = pages(&engine, flow, &all, limit).await;
        assert_eq!(texts(&pages.concat()), ["d", "b", "c", "a"], "{limit} on each page");
        assert!(pages.iter().all(|page| (1..=limit).contains(&page.len())), "{limit}: {pages:?}");
    }
    // A comment that comes while somebody reads belongs to no later page.
    let first = engine.comments(TENANT, flow, &all, None, 2).await.unwrap();
    answer(&engine, "5", json!({"why": "e"})).await;
    let second = engine.comments(TENANT, flow, &all, first.next, 2).await.unwrap();
    assert_eq!((texts(&second.comments), second.next), (vec!["c", "a"], None));
}

/// TRG-26: by question, version, trigger and time; each response is read by its own version.
async fn trg_26_free_texts_are_filtered(t: &Bench) {
    let (engine, _) = engine(t).await;
    let flow = publish(&engine, definition()).await;
    answer(&engine, "1", json!({"why": "old", "how": "else", "how.other": "by bus"})).await;
    let moment = t.now().await.plus(seconds(60));
    engine.travel(moment, true).await.unwrap();
    let mut changed = definition();
    changed["questions"].as_array_mut().unwrap().pop();
    let draft = FlowDraft { name: "n".into(), integration_id: None, definition: changed };
    engine.store().change_flow(TENANT, flow, draft).await.unwrap();
    engine.store().publish_flow(TENANT, flow).await.unwrap();
    answer(&engine, "2", json!({"why": "new"})).await;
    let of = |number: Option<u32>, question: Option<&str>| CommentFilter {
        responses: ResultFilter { number, ..ResultFilter::default() },
        question_id: question.map(str::to_owned),
    };
    let when = |from, to| CommentFilter {
        responses: ResultFilter { from, to, ..ResultFilter::default() },
        question_id: None,
    };
    let nobody = Some("nobody".to_owned());
    let nobody = ResultFilter { trigger_id: nobody, ..ResultFilter::default() };
    let table = [
        (of(None, None), vec!["new", "by bus", "old"]),
        (of(None, Some("why")), vec!["new", "old"]),
        (of(Some(1), Some("how.other")), vec!["by bus"]),
        (of(Some(2), None), vec!["new"]),
        (when(Some(moment), None), vec!["new"]),
        (when(None, Some(moment)), vec!["by bus", "old"]),
        (CommentFilter { responses: nobody, question_id: None }, vec![]),
    ];
    for (filter, wanted) in table {
        let found = pages(&engine, flow, &filter, 2).await.concat();
        assert_eq!(texts(&found), wanted, "{filter:?}");
    }
}

/// TRG-26: a misspelt question is told, and a survey that is not there is not found.
async fn trg_26_a_question_without_free_text_is_refused(t: &Bench) {
    let (engine, _) = engine(t).await;
    let flow = publish(&engine, definition()).await;
    for id in ["rate", "how", "why.other", "nobody"] {
        let filter = CommentFilter { question_id: Some(id.to_owned()), ..CommentFilter::default() };
        let refused = engine.comments(TENANT, flow, &filter, None, 1).await.unwrap_err();
        assert!(
            matches!(&refused, Error::Invalid(said) if said.0[0].path == "questionId"),
            "{id}: {refused}"
        );
    }
    let missing = engine.comments(TENANT, FlowId(999), &CommentFilter::default(), None, 1).await;
    assert!(matches!(missing, Err(Error::NotFound(_))), "{missing:?}");
}
