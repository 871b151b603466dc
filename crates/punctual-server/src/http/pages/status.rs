//! The status page as HTML.

use super::layout::{document, reload};
use super::status_view::StatusView;
use crate::cli::format;
use maud::{Markup, html};
use punctual::operate::store::census::Census;
use punctual::queue::store::dead_letters::DeadLetterSummary;
use punctual::queue::store::queues::{COUNT_MAX, QueueState};
use punctual::{ClockMode, Timestamp};

/// Due work that has waited this long is shown as late.
const LATE_AFTER_SECONDS: u64 = 60;
/// Characters of an error that are shown.
const ERROR_CHARS: usize = 200;

/// Renders the page.
pub(super) fn render(view: &StatusView) -> String {
    let complaints = &view.complaints;
    let body = html! {
        header { h1 { "Punctual" } (badge(complaints)) (about(view)) }
        main {
            (trouble(complaints))
            (figures(view))
            (section("queues", "Queues", queues(view)))
            (section("dead", "Latest dead letters", dead_letters(view)))
            (section("loops", "Loops of this process", loops(view)))
            (section("counters", "Since the start", counters(view)))
        }
        footer { "As of " time datetime=(view.now) { (to_the_second(view.now)) } }
    };
    let title = if complaints.is_empty() { "Punctual" } else { "Trouble - Punctual" };
    document(title, reload(), body)
}

/// A moment without its fraction, for people.
pub(super) fn to_the_second(at: Timestamp) -> String {
    let text = at.to_string();
    let whole = text.split_once('.').map(|(whole, _)| whole.to_owned());
    whole.unwrap_or_else(|| text.trim_end_matches('Z').to_owned()).replace('T', " ") + " UTC"
}

fn about(view: &StatusView) -> Markup {
    html! {
        p class="about" {
            @if view.demo { "demo, " }
            (view.database) ", role " (view.role.word()) ", up for " (format::length(view.uptime))
            @if view.clock == ClockMode::Manual { ", on a manual clock" }
            @if view.sandbox { "; " a href="/dev/inbox" { "sandbox inbox" } }
            @if view.providers { ", " a href="/demo/providers" { "fake providers" } }
        }
    }
}

fn badge(complaints: &[String]) -> Markup {
    let (class, words) = if complaints.is_empty() { ("good", "All well") } else { ("bad", "Trouble") };
    html! { p class={ "badge " (class) } { (words) } }
}

fn trouble(complaints: &[String]) -> Markup {
    html! {
        @if !complaints.is_empty() {
            ul class="bad" role="status" {
                @for complaint in complaints { li { (complaint) } }
            }
        }
    }
}

fn section(id: &str, title: &str, body: Markup) -> Markup {
    html! { section aria-labelledby=(id) { h2 id=(id) { (title) } (body) } }
}

/// Renders a table that scrolls by itself, named by the heading of its section. A column is a title, and
/// whether it holds numbers.
fn table(section: &str, columns: &[(&str, bool)], rows: Markup) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="region" aria-labelledby=(section) {
            table {
                thead {
                    tr {
                        @for (title, is_number) in columns {
                            th scope="col" class=[is_number.then_some("n")] { (title) }
                        }
                    }
                }
                tbody { (rows) }
            }
        }
    }
}

/// Inserts the column of tenants, where there is more than one tenant.
fn with_tenant<'a>(view: &StatusView, at: usize, columns: &[(&'a str, bool)]) -> Vec<(&'a str, bool)> {
    let mut columns = columns.to_vec();
    if view.many_tenants {
        columns.insert(at, ("Tenant", false));
    }
    columns
}

fn figures(view: &StatusView) -> Markup {
    let sum = |of: fn(&QueueState) -> i64| view.queues.iter().map(|(_, queue)| of(queue)).sum::<i64>();
    let census = view.health.database.as_ref().ok();
    let claims = census.map_or(0, |census| census.open_claims);
    let dead = census.map_or(0, |census| census.dead_letters);
    let oldest = census.and_then(Census::oldest_due).map(|due| view.now.since(due));
    let late = oldest.is_some_and(|wait| wait.as_secs() >= LATE_AFTER_SECONDS);
    let wait = oldest.map_or_else(|| "-".into(), |wait| format!("{} ago", format::length(wait)));
    let all = [
        ("Waiting", sum(|q| q.waiting).to_string(), ""),
        ("Due now", sum(|q| q.due).to_string(), ""),
        ("Claims in flight", claims.to_string(), ""),
        ("Dead letters", dead.to_string(), if dead > 0 { "warn" } else { "" }),
        ("Oldest due", wait, if late { "warn" } else { "" }),
    ];
    html! {
        dl class="figures" {
            @for (name, value, class) in all {
                div class=(class) { dt { (name) } dd { (value) } }
            }
        }
    }
}

fn queues(view: &StatusView) -> Markup {
    if view.queues.is_empty() {
        return html! {
            p {
                "No queues yet. The first message makes one: "
                code { "punctual emit --topic orders --kind order.placed" }
            }
        };
    }
    let columns = [
        ("Queue", false),
        ("Waiting", true),
        ("Due", true),
        ("In flight", true),
        ("Behind key", true),
        ("Dead", true),
        ("Next due", false),
    ];
    let rows = html! { @for (slug, queue) in &view.queues { (queue_row(view, slug, queue)) } };
    table("queues", &with_tenant(view, 1, &columns), rows)
}

fn queue_row(view: &StatusView, slug: &str, queue: &QueueState) -> Markup {
    let numbers = [queue.waiting, queue.due, queue.in_flight, queue.behind_their_key];
    html! {
        tr {
            th scope="row" {
                (queue_name(&queue.lane.topic, &queue.lane.subscription))
                @if queue.lane.settings.paused { " " span class="tag" { "paused" } }
            }
            @if view.many_tenants { td { (slug) } }
            @for number in numbers { td class="n" { (format::count(number, COUNT_MAX)) } }
            td class={ "n" @if queue.dead > 0 { " warn" } } { (queue.dead) }
            (moment(queue.oldest_due, view.now))
        }
    }
}

fn queue_name(topic: &str, subscription: &str) -> String {
    if subscription.is_empty() { topic.to_owned() } else { format!("{topic}/{subscription}") }
}

fn moment(at: Option<Timestamp>, now: Timestamp) -> Markup {
    let Some(at) = at else {
        return html! { td { "-" } };
    };
    let late = now.since(at).as_secs() >= LATE_AFTER_SECONDS;
    html! {
        td class=[late.then_some("warn")] { time datetime=(at) title=(at) { (format::from_now(at, now)) } }
    }
}

fn dead_letters(view: &StatusView) -> Markup {
    if view.dead_letters.is_empty() {
        return html! {
            p { "None. What runs out of attempts stays here until it is replayed or purged." }
        };
    }
    let columns = [
        ("Id", true),
        ("Queue", false),
        ("Kind", false),
        ("Died", false),
        ("Attempts", true),
        ("Last error", false),
    ];
    let rows = html! { @for (slug, dead) in &view.dead_letters { (dead_letter_row(view, slug, dead)) } };
    table("dead", &with_tenant(view, 2, &columns), rows)
}

fn dead_letter_row(view: &StatusView, slug: &str, dead: &DeadLetterSummary) -> Markup {
    let error: String = dead.error.chars().take(ERROR_CHARS).collect();
    let at = dead.died_at;
    html! {
        tr {
            th scope="row" class="n" { (dead.id) }
            td { (queue_name(&dead.topic, &dead.subscription)) }
            @if view.many_tenants { td { (slug) } }
            td { (dead.kind) }
            td { time datetime=(at) title=(at) { (format::from_now(at, view.now)) } }
            td class="n" { (dead.attempts) }
            td class="error" { (error) }
        }
    }
}

fn loops(view: &StatusView) -> Markup {
    if view.health.loops.is_empty() {
        return html! { p { "None: on a manual clock nothing runs by itself." } };
    }
    let rows = html! {
        @for status in &view.health.loops {
            tr {
                th scope="row" { (status.name) }
                @match &status.trouble {
                    None => { td { "well" } }
                    Some(trouble) => { td class="warn" { (trouble) } }
                }
                td { (format::length(status.since_success)) " ago" }
                td class="n" { (status.ticks) }
            }
        }
    };
    table("loops", &[("Loop", false), ("State", false), ("Last round", false), ("Rounds", true)], rows)
}

fn counters(view: &StatusView) -> Markup {
    if view.counters.is_empty() {
        return html! { p { "Nothing has been counted yet." } };
    }
    let seconds = view.uptime.as_secs_f64().max(1.0);
    let rows = html! {
        @for (name, sum) in &view.counters {
            tr {
                th scope="row" { (name) }
                td class="n" { (format_args!("{sum:.0}")) }
                td class="n" { (format_args!("{:.2}", sum / seconds)) }
            }
        }
    };
    table("counters", &[("What", false), ("How many", true), ("Per second", true)], rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_shown_to_the_second() {
        for text in ["2026-05-14T05:13:00.25Z", "2026-05-14T05:13:00Z"] {
            assert_eq!(to_the_second(Timestamp::parse(text).unwrap()), "2026-05-14 05:13:00 UTC");
        }
    }

    #[test]
    fn late_work_stands_out() {
        let now = Timestamp::from_micros(1_000_000_000);
        let at = |seconds: i64| moment(Some(Timestamp::from_micros(seconds * 1_000_000)), now).into_string();
        assert!(at(900).contains("class=\"warn\"") && at(900).contains("1 min 40 s ago"));
        assert!(!at(990).contains("warn"));
        assert_eq!(moment(None, now).into_string(), "<td>-</td>");
    }
}
