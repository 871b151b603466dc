//! Free-text answers of a survey in pages, the newest first.

use super::Id;
use super::results::read_filter;
use crate::app::App;
use crate::auth::Caller;
use crate::http::error::Answer;
use crate::http::openapi::values::{DateTime, PublicIdText};
use crate::http::pagination::{List, Page};
use axum::Json;
use axum::extract::State;
use punctual::engine::{Comment, CommentCursor, CommentFilter};
use punctual::flow::rules::public_id::PublicId;
use punctual::{EntryId, Error, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

/// A free-text answer.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Comment")]
pub struct CommentView {
    question_id: String,
    /// Null for viewers.
    text: Option<String>,
    #[schemars(with = "DateTime")]
    completed_at: Timestamp,
    #[schemars(with = "PublicIdText")]
    public_id: PublicId,
}

impl From<Comment> for CommentView {
    fn from(comment: Comment) -> Self {
        let Comment { question_id, text, completed_at, public_id } = comment;
        Self { question_id, text: Some(text), completed_at, public_id }
    }
}

impl CommentView {
    /// Hides the text from viewers.
    pub(super) fn seen_by(self, caller: &Caller) -> Self {
        Self { text: self.text.and_then(|text| caller.visible_text(text)), ..self }
    }
}

/// `GET /api/surveys/{id}/comments`
///
/// # Errors
/// 404 when there is no such survey or version, 422 for a wrong filter, cursor or limit.
pub async fn comments(
    State(app): State<App>,
    caller: Caller,
    id: Id,
    page: Page,
) -> Answer<Json<List<CommentView>>> {
    let question_id = page.filter("questionId").map(str::to_owned);
    let filter = CommentFilter { responses: read_filter(&page)?, question_id };
    let wrong = || Error::invalid("cursor", "is not a cursor that this list handed out");
    let after = page.after().map(|text| read_place(text).ok_or_else(wrong)).transpose()?;
    let found = app.engine.comments(caller.tenant, id.flow(), &filter, after, page.limit).await?;
    let items = found.comments.into_iter().map(|comment| CommentView::from(comment).seen_by(&caller));
    Ok(Json(page.list_up_to(items.collect(), found.next.map(place_text))))
}

/// A place as a cursor has it: `time:entry:question`, where the end of a response has no question.
fn place_text(place: CommentCursor) -> String {
    let CommentCursor { completed_at, entry, question_id } = place;
    format!("{}:{}:{}", completed_at.as_micros(), entry.0, question_id.unwrap_or_default())
}

fn read_place(text: &str) -> Option<CommentCursor> {
    let (at, rest) = text.split_once(':')?;
    let (entry, question) = rest.split_once(':')?;
    Some(CommentCursor {
        completed_at: Timestamp::from_micros(at.parse().ok()?),
        entry: EntryId(entry.parse().ok().filter(|id| *id > 0)?),
        question_id: Some(question.to_owned()).filter(|id| !id.is_empty()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_was_written() {
        for question in [None, Some("why"), Some("how.other"), Some("a:b")] {
            let place = CommentCursor {
                completed_at: Timestamp::from_micros(-7),
                entry: EntryId(9),
                question_id: question.map(str::to_owned),
            };
            assert_eq!(read_place(&place_text(place.clone())), Some(place));
        }
        for wrong in ["", "1", "1:2", "x:2:", "1:x:", "1:0:", "1:-9223372036854775808:"] {
            assert_eq!(read_place(wrong), None, "{wrong}");
        }
    }
}
