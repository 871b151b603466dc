//! The whole route table on one screen.
//!
//! Who may call a route stands beside it and is checked before anything else; the OpenAPI
//! document, the page of operations and the tests of roles are made from the same table.

pub mod api;
pub mod body_limit;
pub mod body_room;
pub mod dev;
pub mod error;
pub mod health;
pub mod host;
pub(crate) mod html;
pub mod idempotency;
pub mod input;
pub mod metrics;
pub mod middleware;
pub mod openapi;
pub mod ops;
pub mod pages;
pub mod pagination;
pub mod public;
pub mod query_schema;
pub mod stream;
pub mod webhooks;

use crate::app::App;
use crate::auth::{Guard, Need, pass};
use api::access::{keys, tenant_settings, tenants};
use api::delivery::{communication_logs, recipients, resends, suppressions, templates};
use api::flow::{entities, event_kinds, schedules};
use api::jobs::{cron_jobs, leases};
use api::queue::{dead_letters, events, inbox, queues, subscriptions, timers, work};
use api::survey::{instances, surveys, triggers, visits};
use axum::extract::Request;
use axum::handler::Handler;
use axum::http::Method;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, on};
use axum::{Extension, Router};
use body_limit::BodyLimit;
use body_room::BodyRoom;
use dev::{channels, clock, messages};
use error::ApiFailure;
use idempotency::KeyScope;
use ops::outbox;
use pages::docs;
use public::{survey, unsubscribe};
use punctual::access::store::keys::Role;
use query_schema::QuerySchema;
use std::pin::Pin;
use std::sync::Arc;

/// Every route but the pages.
#[must_use]
pub fn table() -> Vec<Route> {
    [
        queue_routes(),
        survey_routes(),
        public_routes(),
        job_and_timer_routes(),
        template_routes(),
        delivery_routes(),
        consent_routes(),
        admin_routes(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Messages, queues and what they leave behind.
#[rustfmt::skip]
fn queue_routes() -> Vec<Route> {
    use Need::Key;
    use Role::{Author, Support, Viewer};
    vec![
        route("POST /api/events",                                Key(Support), events::publish),
        route("GET /api/events/{id}",                            Key(Viewer),  events::show),

        route("GET /api/queues",                                 Key(Viewer),  queues::list),
        route("GET /api/queues/{topic}",                         Key(Viewer),  queues::show),
        route("PUT /api/queues/{topic}",                         Key(Author),  queues::change),
        route("POST /api/queues/{topic}/pause",                  Key(Author),  queues::pause),
        route("POST /api/queues/{topic}/resume",                 Key(Author),  queues::resume),
        route("POST /api/queues/{topic}/claim",                  Key(Support), work::claim),
        route("POST /api/queues/{topic}/ack",                    Key(Support), work::ack),
        route("POST /api/queues/{topic}/abandon",                Key(Support), work::abandon),
        route("POST /api/queues/{topic}/fail",                   Key(Support), work::fail),
        route("POST /api/queues/{topic}/extend",                 Key(Support), work::extend),
        route("POST /api/queues/{topic}/{subscription}/claim",   Key(Support), work::claim),
        route("POST /api/queues/{topic}/{subscription}/ack",     Key(Support), work::ack),
        route("POST /api/queues/{topic}/{subscription}/abandon", Key(Support), work::abandon),
        route("POST /api/queues/{topic}/{subscription}/fail",    Key(Support), work::fail),
        route("POST /api/queues/{topic}/{subscription}/extend",  Key(Support), work::extend),

        route("GET /api/subscriptions",                          Key(Viewer),  subscriptions::list),
        route("GET /api/subscriptions/{topic}/{name}",           Key(Viewer),  subscriptions::show),
        route("PUT /api/subscriptions/{topic}/{name}",           Key(Author),  subscriptions::put),
        route("DELETE /api/subscriptions/{topic}/{name}",        Key(Author),  subscriptions::delete),

        route("GET /api/dead-letters",                           Key(Viewer),  dead_letters::list),
        route("GET /api/dead-letters/{id}",                      Key(Viewer),  dead_letters::show),
        route("POST /api/dead-letters/replay",                   Key(Support), dead_letters::replay),
        route("POST /api/dead-letters/purge",                    Key(Support), dead_letters::purge),
    ]
}

/// Surveys, the events that trigger them, and what became of each invitation.
#[rustfmt::skip]
fn survey_routes() -> Vec<Route> {
    use Need::Key;
    use Role::{Author, Support, Viewer};
    vec![
        route("POST /api/surveys",                               Key(Author),  surveys::create),
        route("GET /api/surveys",                                Key(Viewer),  surveys::list),
        route("GET /api/surveys/{id}",                           Key(Viewer),  surveys::show),
        route("PUT /api/surveys/{id}",                           Key(Author),  surveys::change),
        route("POST /api/surveys/{id}/publish",                  Key(Author),  surveys::publish),
        route("POST /api/surveys/{id}/unpublish",                Key(Author),  surveys::unpublish),
        route("GET /api/surveys/{id}/versions/{n}",              Key(Viewer),  surveys::version),
        route("GET /api/surveys/{id}/results",                   Key(Viewer),  surveys::results),
        route("GET /api/surveys/{id}/comments",                  Key(Viewer),  surveys::comments),
        route("GET /api/surveys/{id}/responses.csv",             Key(Support), surveys::export),
        route("POST /api/surveys/{id}/triggers/{triggerId}/send", Key(Support), surveys::send),

        route("POST /api/triggers/ingest",                       Key(Support), triggers::ingest),
        route("POST /api/Surveys/Triggers/ingest",               Key(Support), triggers::ingest),
        route("POST /api/triggers/explain",                      Key(Viewer),  triggers::explain),

        route("GET /api/survey-instances",                       Key(Viewer),  instances::list),
        route("GET /api/survey-instances/{publicId}",            Key(Viewer),  instances::show),
        route("DELETE /api/survey-instances/{publicId}",         Key(Support), instances::delete),
        route("POST /api/survey-instances/{publicId}/cancel",    Key(Support), instances::cancel),
    ]
}

/// Jobs, timers, leases and the inbox.
#[rustfmt::skip]
fn job_and_timer_routes() -> Vec<Route> {
    use Need::Key;
    use Role::{Author, Support, Viewer};
    vec![
        route("GET /api/jobs",                                   Key(Viewer),  cron_jobs::list),
        route("GET /api/jobs/{name}",                            Key(Viewer),  cron_jobs::show),
        route("PUT /api/jobs/{name}",                            Key(Author),  cron_jobs::put),
        route("DELETE /api/jobs/{name}",                         Key(Author),  cron_jobs::delete),
        route("POST /api/jobs/{name}/enable",                    Key(Author),  cron_jobs::enable),
        route("POST /api/jobs/{name}/disable",                   Key(Author),  cron_jobs::disable),
        route("POST /api/jobs/{name}/trigger",                   Key(Support), cron_jobs::trigger),
        route("GET /api/jobs/{name}/runs",                       Key(Viewer),  cron_jobs::runs),
        route("GET /api/jobs/{name}/next",                       Key(Viewer),  cron_jobs::next),

        route("POST /api/timers",                                Key(Support), timers::schedule),
        route("GET /api/timers",                                 Key(Viewer),  timers::list),
        route("GET /api/timers/{id}",                            Key(Viewer),  timers::show),
        route("DELETE /api/timers/{id}",                         Key(Support), timers::cancel),
        route("POST /api/timers/{id}/move",                      Key(Support), timers::put_off),
        route("POST /api/timers/cancel",                         Key(Support), timers::cancel_all),
        route("POST /api/timers/move",                           Key(Support), timers::put_off_all),

        route("GET /api/leases",                                 Key(Viewer),  leases::list),
        route("GET /api/leases/{name}",                          Key(Viewer),  leases::show),
        route("POST /api/leases/{name}/acquire",                 Key(Support), leases::acquire),
        route("POST /api/leases/{name}/renew",                   Key(Support), leases::renew),
        route("POST /api/leases/{name}/release",                 Key(Support), leases::release),

        route("GET /api/inbox",                                  Key(Viewer),  inbox::list),
        route("POST /api/inbox/begin",                           Key(Support), inbox::begin),
        route("POST /api/inbox/complete",                        Key(Support), inbox::complete),
        route("POST /api/inbox/fail",                            Key(Support), inbox::fail),
        route("POST /api/inbox/dead",                            Key(Support), inbox::dead),
        route("POST /api/inbox/replay",                          Key(Support), inbox::replay),
    ]
}

/// What people are told, and what it is made from.
#[rustfmt::skip]
fn template_routes() -> Vec<Route> {
    use Need::Key;
    use Role::{Author, Support, Viewer};
    vec![
        route("GET /api/message-templates",                      Key(Viewer),  templates::list),
        route("POST /api/message-templates",                     Key(Author),  templates::create),
        route("GET /api/message-templates/{id}",                 Key(Viewer),  templates::show),
        route("PUT /api/message-templates/{id}",                 Key(Author),  templates::change),
        route("DELETE /api/message-templates/{id}",              Key(Author),  templates::delete),
        route("POST /api/message-templates/{id}/preview",        Key(Viewer),  templates::preview),
        route("GET /api/message-templates/{id}/versions/{n}",    Key(Viewer),  templates::version),

        route("GET /api/event-kinds",                            Key(Viewer),  event_kinds::list),
        route("GET /api/event-kinds/{kind}",                     Key(Viewer),  event_kinds::show),
        route("PUT /api/event-kinds/{kind}",                     Key(Author),  event_kinds::put),
        route("DELETE /api/event-kinds/{kind}",                  Key(Author),  event_kinds::delete),

        route("GET /api/entities/{type}/{id}",                   Key(Viewer),  entities::show),
        route("PUT /api/entities/{type}/{id}",                   Key(Support), entities::put),
        route("DELETE /api/entities/{type}/{id}",                Key(Support), entities::delete),
    ]
}

/// What people were told, and what they are told again.
#[rustfmt::skip]
fn delivery_routes() -> Vec<Route> {
    use Need::Key;
    use Role::{Support, Viewer};
    vec![
        route("GET /api/communication-logs",                     Key(Viewer),  communication_logs::list),
        route("GET /api/communication-logs/{id}",                Key(Viewer),  communication_logs::show),
        route("GET /api/automation-schedules",                   Key(Viewer),  schedules::list),
        route("GET /api/automation-schedules/{id}",              Key(Viewer),  schedules::show),
        route("GET /api/automation-schedules/{id}/trace",        Key(Viewer),  schedules::trace),
        route("POST /api/automation-schedules/replay",           Key(Support), schedules::replay),
        route("POST /api/automation-schedules/{id}/hold",        Key(Support), schedules::hold),
        route("POST /api/automation-schedules/{id}/release",     Key(Support), schedules::release),
        route("POST /api/automation-schedules/{id}/retry",       Key(Support), schedules::retry),
        route("POST /api/automation-schedules/{id}/cancel",      Key(Support), schedules::cancel),
        route("POST /api/bookings/{id}/resend-notification",     Key(Support), resends::booking),
        route("POST /api/entities/{type}/{id}/resend-notification", Key(Support), resends::entity),
    ]
}

/// Who may be sent what, how and when.
#[rustfmt::skip]
fn consent_routes() -> Vec<Route> {
    use Need::Key;
    use Role::{Admin, Support, Viewer};
    vec![
        route("GET /api/suppressions",                           Key(Viewer),  suppressions::list),
        route("POST /api/suppressions",                          Key(Support), suppressions::create),
        route("DELETE /api/suppressions",                        Key(Support), suppressions::lift),
        route("GET /api/recipients/{address}/preferences",       Key(Viewer),  recipients::show),
        route("PUT /api/recipients/{address}/preferences",       Key(Support), recipients::put),
        route("GET /api/tenant-settings",                        Key(Viewer),  tenant_settings::show),
        route("PUT /api/tenant-settings",                        Key(Admin),   tenant_settings::put),
    ]
}

/// What somebody with a link may do, and providers by their signature. Each counts how often it is asked
/// ([`public::visitor`]).
#[rustfmt::skip]
fn public_routes() -> Vec<Route> {
    use Need::Nothing;
    vec![
        route("GET /s/{publicId}",                               Nothing,      survey::show),
        route("POST /s/{publicId}",                              Nothing,      survey::take),
        route("GET /u/{token}",                                  Nothing,      unsubscribe::show),
        route("POST /u/{token}",                                 Nothing,      unsubscribe::act),
        route("GET /webhooks/{provider}",                        Nothing,      webhooks::hear),
        route("POST /webhooks/{provider}",                       Nothing,      webhooks::hear),
        route("GET /api/public/survey-instances/{publicId}",     Nothing,      visits::show),
        route("POST /api/SurveyInstances/{publicId}/opened",     Nothing,      visits::opened),
        route("POST /api/SurveyInstances/{publicId}/responses",  Nothing,      visits::respond),
    ]
}

/// Tenants, keys, the clock, the sandbox, and what operators and programs look at.
#[rustfmt::skip]
fn admin_routes() -> Vec<Route> {
    use Need::{Key, Metrics, Nothing, Private, Probe};
    use Role::{Admin, Ops};
    vec![
        route("POST /api/tenants",                               Key(Ops),     tenants::create),
        route("GET /api/tenants",                                Key(Ops),     tenants::list),
        route("POST /api/keys",                                  Key(Admin),   keys::create),
        route("GET /api/keys",                                   Key(Admin),   keys::list),
        route("DELETE /api/keys/{id}",                           Key(Admin),   keys::revoke),

        route("GET /ops/outbox",                                 Key(Ops),     outbox::list),
        route("POST /ops/outbox/replay",                         Key(Ops),     outbox::replay),

        route("POST /api/scheduler/tick",                        Key(Ops),     clock::tick),
        route("GET /dev/clock",                                  Key(Ops),     clock::show),
        route("POST /dev/clock",                                 Key(Ops),     clock::travel),
        route("GET /dev/messages",                               Key(Ops),     messages::list),
        route("DELETE /dev/messages",                            Key(Ops),     messages::clear),
        route("GET /dev/channels/{key}",                         Key(Ops),     channels::show),
        route("PUT /dev/channels/{key}",                         Key(Ops),     channels::script),

        route("GET /health",                                     Private(Ops), health::details),
        route("GET /health/live",                                Probe,        health::live),
        route("GET /health/ready",                               Probe,        health::ready),
        route("GET /metrics",                                    Metrics,      metrics::render),
        route("GET /openapi.json",                               Nothing,      openapi::show),
        route("GET /docs",                                       Nothing,      docs::show),
    ]
}

/// A row of the table.
#[derive(Debug)]
pub struct Route {
    /// Its method and path.
    pub name: &'static str,
    /// Who may call it.
    pub need: Need,
    handler: RouteHandler,
}

/// A handler of any route. They are all of this one type, so that routing, layers and services are compiled
/// once.
#[derive(Clone)]
struct RouteHandler(Arc<dyn Fn(Request, App) -> ResponseFuture + Send + Sync>);

/// The answer to a request, on its way.
type ResponseFuture = Pin<Box<dyn Future<Output = Response> + Send>>;

impl Handler<(), App> for RouteHandler {
    type Future = ResponseFuture;

    fn call(self, request: Request, app: App) -> ResponseFuture {
        (self.0)(request, app)
    }
}

impl std::fmt::Debug for RouteHandler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RouteHandler")
    }
}

impl Route {
    /// Its method and its path.
    #[must_use]
    pub fn method_and_path(&self) -> (&'static str, &'static str) {
        self.name.split_once(' ').unwrap_or(("GET", self.name))
    }
}

fn route<H, T>(name: &'static str, need: Need, handler: H) -> Route
where
    H: Handler<T, App>,
    T: 'static,
{
    let handler = RouteHandler(Arc::new(move |request, app| Box::pin(handler.clone().call(request, app))));
    Route { name, need, handler }
}

/// All routes, each behind its guard, and what surrounds them.
pub fn router(app: App) -> Router {
    let guard = Guard::new(app.clone());
    let mut all = Router::new();
    for route in table() {
        let (method, path) = route.method_and_path();
        let filter = method.parse::<Method>().ok().and_then(|method| MethodFilter::try_from(method).ok());
        let scope = KeyScope::of(&route);
        let mut run = on(filter.unwrap_or(MethodFilter::GET), route.handler);
        run = match scope {
            None => run,
            Some(KeyScope::Tenant) => run.route_layer(from_fn_with_state(app.clone(), idempotency::once)),
            Some(KeyScope::Link) => {
                run.route_layer(from_fn_with_state(app.clone(), idempotency::once_for_link))
            }
        };
        // Strangers add parameters of their own to links, and providers to callbacks.
        if matches!(route.need, Need::Key(_)) {
            let schema = QuerySchema::of(route.name);
            run = run.route_layer(from_fn_with_state(schema, query_schema::check));
        }
        let check = (guard.clone(), route.need);
        let limit = Extension(BodyLimit::of(route.name, route.need));
        all = all.route(path, run.route_layer(from_fn_with_state(check, pass)).route_layer(limit));
    }
    all.merge(pages::routes())
        .fallback(not_found)
        .method_not_allowed_fallback(wrong_method)
        .layer(Extension(BodyRoom::default()))
        .layer(from_fn(input::refuse_encoded))
        .layer(from_fn_with_state(app.clone(), host::check))
        .layer(from_fn(middleware::handle))
        .with_state(app)
}

async fn not_found() -> ApiFailure {
    ApiFailure::not_found("there is no such path; /docs lists them all")
}

async fn wrong_method(path: Option<axum::extract::MatchedPath>) -> impl IntoResponse {
    let path = path.as_ref().map_or("", |p| p.as_str());
    let table = table();
    let here = table.iter().map(Route::method_and_path).filter(|(_, p)| *p == path);
    error::method_not_allowed(&here.map(|(method, _)| method).collect::<Vec<_>>().join(", "))
}
