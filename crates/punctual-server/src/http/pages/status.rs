//! The status page as HTML.

use super::html::{LIVE, escape, frame};
use super::sight::Sight;
use crate::cli::words;
use punctual::operate::store::census::Census;
use punctual::queue::store::dead_letters::DeadLetterSummary;
use punctual::queue::store::queues::{COUNT_MAX, QueueState};
use punctual::{ClockMode, Timestamp};

/// Due work that has waited this long is shown as late.
const LATE_AFTER_SECONDS: u64 = 60;
/// Characters of an error that are shown.
const ERROR_CHARS: usize = 200;

/// The whole page.
pub(super) fn render(sight: &Sight) -> String {
    let complaints = &sight.complaints;
    let main = format!(
        "<header><h1>Punctual</h1>{}<p class=\"about\">{}{}{}</p></header>\n<main>\n{}{}{}{}{}{}</main>\n\
         <footer>As of <time datetime=\"{}\">{}</time></footer>",
        badge(complaints),
        escape(&about(sight)),
        if sight.sandbox { "; <a href=\"/dev/inbox\">sandbox inbox</a>" } else { "" },
        if sight.providers { ", <a href=\"/demo/providers\">fake providers</a>" } else { "" },
        trouble(complaints),
        figures(sight),
        section("queues", "Queues", &queues(sight)),
        section("dead", "Latest dead letters", &letters(sight)),
        section("loops", "Loops of this process", &loops(sight)),
        section("counters", "Since the start", &counters(sight)),
        sight.now,
        to_the_second(sight.now),
    );
    let title = if complaints.is_empty() { "Punctual" } else { "Trouble - Punctual" };
    frame(title, &main, LIVE)
}

/// A moment without its fraction, for people.
pub(super) fn to_the_second(at: Timestamp) -> String {
    let text = at.to_string();
    let whole = text.split_once('.').map(|(whole, _)| whole.to_owned());
    whole.unwrap_or_else(|| text.trim_end_matches('Z').to_owned()).replace('T', " ") + " UTC"
}

fn about(sight: &Sight) -> String {
    let clock = if sight.clock == ClockMode::Manual { ", on a manual clock" } else { "" };
    let demo = if sight.demo { "demo, " } else { "" };
    format!(
        "{demo}{}, role {}, up for {}{clock}",
        sight.database,
        sight.role.word(),
        words::length(sight.uptime)
    )
}

fn badge(complaints: &[String]) -> String {
    let (class, words) = if complaints.is_empty() { ("good", "All well") } else { ("bad", "Trouble") };
    format!("<p class=\"badge {class}\">{words}</p>")
}

fn trouble(complaints: &[String]) -> String {
    if complaints.is_empty() {
        return String::new();
    }
    let items: String = complaints.iter().map(|said| format!("<li>{}</li>", escape(said))).collect();
    format!("<ul class=\"bad\" role=\"status\">{items}</ul>\n")
}

fn section(id: &str, title: &str, body: &str) -> String {
    format!("<section aria-labelledby=\"{id}\"><h2 id=\"{id}\">{title}</h2>{body}</section>\n")
}

fn figures(sight: &Sight) -> String {
    let sum = |of: fn(&QueueState) -> i64| sight.queues.iter().map(|(_, queue)| of(queue)).sum::<i64>();
    let census = sight.health.database.as_ref().ok();
    let claims = census.map_or(0, |census| census.open_claims);
    let dead = census.map_or(0, |census| census.dead_letters);
    let oldest = census.and_then(Census::oldest_due).map(|due| sight.now.since(due));
    let late = oldest.is_some_and(|wait| wait.as_secs() >= LATE_AFTER_SECONDS);
    let wait = oldest.map_or_else(|| "-".into(), |wait| format!("{} ago", words::length(wait)));
    let all = [
        ("Waiting", sum(|q| q.waiting).to_string(), ""),
        ("Due now", sum(|q| q.due).to_string(), ""),
        ("Claims in flight", claims.to_string(), ""),
        ("Dead letters", dead.to_string(), if dead > 0 { "warn" } else { "" }),
        ("Oldest due", wait, if late { "warn" } else { "" }),
    ];
    let cards = all.map(|(name, value, class)| {
        format!("<div class=\"{class}\"><dt>{name}</dt><dd>{}</dd></div>", escape(&value))
    });
    format!("<dl class=\"figures\">{}</dl>\n", cards.concat())
}

fn queues(sight: &Sight) -> String {
    if sight.queues.is_empty() {
        let how = "punctual emit --topic orders --kind order.placed";
        return format!("<p>No queues yet. The first message makes one: <code>{how}</code></p>");
    }
    let tenant = if sight.many_tenants { "<th scope=\"col\">Tenant</th>" } else { "" };
    let rows: String = sight.queues.iter().map(|(slug, queue)| queue_row(sight, slug, queue)).collect();
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"queues\"><table><thead><tr>\
         <th scope=\"col\">Queue</th>{tenant}<th scope=\"col\" class=\"n\">Waiting</th>\
         <th scope=\"col\" class=\"n\">Due</th><th scope=\"col\" class=\"n\">In flight</th>\
         <th scope=\"col\" class=\"n\">Behind key</th>\
         <th scope=\"col\" class=\"n\">Dead</th><th scope=\"col\">Next due</th>\
         </tr></thead><tbody>{rows}</tbody></table></div>"
    )
}

fn queue_row(sight: &Sight, slug: &str, queue: &QueueState) -> String {
    let tenant = if sight.many_tenants { format!("<td>{}</td>", escape(slug)) } else { String::new() };
    let paused = if queue.lane.settings.paused { " <span class=\"tag\">paused</span>" } else { "" };
    let number = |n: i64| format!("<td class=\"n\">{}</td>", words::count(n, COUNT_MAX));
    let dead = if queue.dead > 0 { " warn" } else { "" };
    format!(
        "<tr><th scope=\"row\">{}{paused}</th>{tenant}{}{}{}{}<td class=\"n{dead}\">{}</td>{}</tr>",
        escape(&queue_name(&queue.lane.topic, &queue.lane.subscription)),
        number(queue.waiting),
        number(queue.due),
        number(queue.in_flight),
        number(queue.behind_their_key),
        queue.dead,
        moment(queue.oldest_due, sight.now),
    )
}

fn queue_name(topic: &str, subscription: &str) -> String {
    if subscription.is_empty() { topic.to_owned() } else { format!("{topic}/{subscription}") }
}

fn moment(at: Option<Timestamp>, now: Timestamp) -> String {
    let Some(at) = at else {
        return "<td>-</td>".into();
    };
    let late = now.since(at).as_secs() >= LATE_AFTER_SECONDS;
    let class = if late { " class=\"warn\"" } else { "" };
    format!("<td{class}><time datetime=\"{at}\" title=\"{at}\">{}</time></td>", words::from_now(at, now))
}

fn letters(sight: &Sight) -> String {
    if sight.letters.is_empty() {
        return "<p>None. What runs out of attempts stays here until it is replayed or purged.</p>".into();
    }
    let rows: String = sight.letters.iter().map(|(slug, letter)| letter_row(sight, slug, letter)).collect();
    let tenant = if sight.many_tenants { "<th scope=\"col\">Tenant</th>" } else { "" };
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"dead\"><table><thead><tr>\
         <th scope=\"col\" class=\"n\">Id</th><th scope=\"col\">Queue</th>{tenant}<th scope=\"col\">Kind</th>\
         <th scope=\"col\">Died</th><th scope=\"col\" class=\"n\">Attempts</th>\
         <th scope=\"col\">Last error</th>\
         </tr></thead><tbody>{rows}</tbody></table></div>"
    )
}

fn letter_row(sight: &Sight, slug: &str, letter: &DeadLetterSummary) -> String {
    let tenant = if sight.many_tenants { format!("<td>{}</td>", escape(slug)) } else { String::new() };
    let error: String = letter.error.chars().take(ERROR_CHARS).collect();
    let at = letter.died_at;
    format!(
        "<tr><th scope=\"row\" class=\"n\">{}</th><td>{}</td>{tenant}<td>{}</td>\
         <td><time datetime=\"{at}\" title=\"{at}\">{}</time></td><td class=\"n\">{}</td>\
         <td class=\"error\">{}</td></tr>",
        letter.id,
        escape(&queue_name(&letter.topic, &letter.subscription)),
        escape(&letter.kind),
        words::from_now(at, sight.now),
        letter.attempts,
        escape(&error),
    )
}

fn loops(sight: &Sight) -> String {
    if sight.health.loops.is_empty() {
        return "<p>None: on a manual clock nothing runs by itself.</p>".into();
    }
    let rows: String = sight
        .health
        .loops
        .iter()
        .map(|status| {
            let state = match &status.trouble {
                None => "<td>well</td>".to_owned(),
                Some(said) => format!("<td class=\"warn\">{}</td>", escape(said)),
            };
            format!(
                "<tr><th scope=\"row\">{}</th>{state}<td>{} ago</td><td class=\"n\">{}</td></tr>",
                escape(status.name),
                words::length(status.since_success),
                status.ticks
            )
        })
        .collect();
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"loops\"><table><thead><tr>\
         <th scope=\"col\">Loop</th><th scope=\"col\">State</th><th scope=\"col\">Last round</th>\
         <th scope=\"col\" class=\"n\">Rounds</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )
}

fn counters(sight: &Sight) -> String {
    let seconds = sight.uptime.as_secs_f64().max(1.0);
    let rows: String = sight
        .counters
        .iter()
        .map(|(name, sum)| {
            let rate = sum / seconds;
            format!(
                "<tr><th scope=\"row\">{}</th><td class=\"n\">{sum:.0}</td>\
                 <td class=\"n\">{rate:.2}</td></tr>",
                escape(name)
            )
        })
        .collect();
    if rows.is_empty() {
        return "<p>Nothing has been counted yet.</p>".into();
    }
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"counters\"><table><thead><tr>\
         <th scope=\"col\">What</th><th scope=\"col\" class=\"n\">How many</th>\
         <th scope=\"col\" class=\"n\">Per second</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )
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
        let at = |seconds: i64| moment(Some(Timestamp::from_micros(seconds * 1_000_000)), now);
        assert!(at(900).contains("class=\"warn\"") && at(900).contains("1 min 40 s ago"));
        assert!(!at(990).contains("warn"));
        assert_eq!(moment(None, now), "<td>-</td>");
    }
}
