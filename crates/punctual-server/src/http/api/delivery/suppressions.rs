//! Suppressions: who is never sent what. Made again they change nothing, and lifting says what it lifted.

use crate::app::App;
use crate::auth::Caller;
use crate::http::error::Answer;
use crate::http::input::Input;
use crate::http::openapi::values::DateTime;
use crate::http::openapi::words;
use crate::http::pagination::{List, Page};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use punctual::base::document::DocumentObject;
use punctual::base::name::check_name;
use punctual::delivery::rules::consent::address;
use punctual::delivery::rules::consent::{ALL_CHANNELS, ConsentScope, SuppressionReason, channel_kind};
use punctual::delivery::store::consent::{LiftOutcome, NewSuppression, Suppression, SuppressionFilter};
use punctual::{Problems, SuppressionId, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// A suppression.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Suppression")]
pub struct SuppressionView {
    id: String,
    /// In the form it is compared by; masked for viewers.
    address: String,
    /// A kind of channel, or `all`.
    channel: String,
    kind: Option<String>,
    #[schemars(with = "words::SuppressionReason")]
    reason: &'static str,
    #[schemars(with = "DateTime")]
    since: Timestamp,
    /// By whose word: the name of a key, or `recipient`.
    by: String,
    #[schemars(with = "Option<DateTime>")]
    lifted_at: Option<Timestamp>,
    lifted_by: Option<String>,
}

/// What a lifting came to.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LiftedSuppressions")]
pub struct LiftedSuppressions {
    lifted: Vec<SuppressionView>,
    /// What is still in force for that address.
    left: Vec<SuppressionView>,
}

/// `GET /api/suppressions?address=&channel=&kind=&reason=&lifted=`
///
/// # Errors
/// 422 for a wrong cursor, limit or filter.
pub async fn list(State(app): State<App>, caller: Caller, page: Page) -> Answer<Json<List<SuppressionView>>> {
    let mut problems = Problems::default();
    let mut filter = read_filter(&page, &mut problems);
    filter.reason = page.filter("reason").and_then(|word| reason(word, "reason", &mut problems));
    filter.lifted = match page.filter("lifted") {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => {
            problems.push("lifted", "must be true, for lifted ones beside those in force, or false");
            false
        }
    };
    problems.into_result()?;
    let after = SuppressionId(page.after_id()?);
    let found = app.engine.store().suppressions(caller.tenant, filter, after, page.limit + 1).await?;
    let found = found.into_iter().map(|one| shown(&caller, one)).collect();
    Ok(Json(page.list(found, |one: &SuppressionView| one.id.clone())))
}

/// `POST /api/suppressions {address, channel?, kind?, reason?}`: 201 when it is new, 200 when it was there.
///
/// # Errors
/// 422 with every problem.
pub async fn create(
    State(app): State<App>,
    caller: Caller,
    input: Input,
) -> Answer<(StatusCode, Json<SuppressionView>)> {
    let new = read(&input, &caller)?;
    let (made, is_new) = app.engine.store().suppress(caller.tenant, new).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(shown(&caller, made))))
}

/// `DELETE /api/suppressions?address=&channel=&kind=`: lifts what was made for just this channel or kind, or
/// all of an address; says what it lifted, and what is left.
///
/// # Errors
/// 422 without an address.
pub async fn lift(State(app): State<App>, caller: Caller, page: Page) -> Answer<Json<LiftedSuppressions>> {
    let mut problems = Problems::default();
    let filter = read_filter(&page, &mut problems);
    if filter.address.is_none() {
        problems.push("address", "is missing: say whose suppressions are to be lifted");
    }
    problems.into_result()?;
    let LiftOutcome { lifted, left } =
        app.engine.store().lift_suppressions(caller.tenant, filter, &caller.name).await?;
    let show = |all: Vec<Suppression>| all.into_iter().map(|one| shown(&caller, one)).collect();
    Ok(Json(LiftedSuppressions { lifted: show(lifted), left: show(left) }))
}

fn read_filter(page: &Page, problems: &mut Problems) -> SuppressionFilter {
    let address = page.filter("address");
    let (channel, kind) = (page.filter("channel"), page.filter("kind"));
    if let Some(address) = address {
        address::check(address, "address", problems);
    }
    for (name, value) in [("channel", channel), ("kind", kind)] {
        if let Some(value) = value {
            check_name(value, name, problems);
        }
    }
    // What was made for all channels is kept under none.
    let channel =
        channel.map(channel_kind).map(|kind| if kind == ALL_CHANNELS { String::new() } else { kind });
    SuppressionFilter {
        address: address.map(str::to_owned),
        channel,
        kind: kind.map(str::to_owned),
        ..SuppressionFilter::default()
    }
}

fn read(input: &Input, caller: &Caller) -> Answer<NewSuppression> {
    let body = Value::Object(input.object()?);
    let mut problems = Problems::default();
    let part = DocumentObject::read(&body, "", &["address", "channel", "kind", "reason"], &mut problems);
    let mut new = NewSuppression {
        told_at: None,
        address: String::new(),
        scope: ConsentScope::default(),
        reason: SuppressionReason::Manual,
        by: caller.name.clone(),
    };
    if let Some(part) = part {
        if let Some(given) = part.need_text("address", "a phone number, a mailbox", &mut problems) {
            address::check(given, "address", &mut problems);
            given.clone_into(&mut new.address);
        }
        new.scope = ConsentScope::of(&part, &mut problems);
        if let Some(word) = part.get("reason") {
            let word = word.as_str().unwrap_or_default();
            new.reason = reason(word, "reason", &mut problems).unwrap_or(SuppressionReason::Manual);
        }
    }
    problems.into_result()?;
    Ok(new)
}

fn reason(word: &str, path: &str, problems: &mut Problems) -> Option<SuppressionReason> {
    let found = SuppressionReason::from_word(word);
    if found.is_none() {
        let words = SuppressionReason::ALL.map(|(_, word)| word).join(", ");
        problems.push(path, format!("must be one of {words}"));
    }
    found
}

/// Viewers do not see whole addresses.
fn shown(caller: &Caller, one: Suppression) -> SuppressionView {
    let (lifted_at, lifted_by) = one.lifted.unzip();
    SuppressionView {
        id: one.id.to_string(),
        address: caller.visible_address(&one.address),
        channel: one.scope.channel.unwrap_or_else(|| ALL_CHANNELS.to_owned()),
        kind: one.scope.kind,
        reason: one.reason.word(),
        since: one.since,
        by: one.by,
        lifted_at,
        lifted_by,
    }
}
