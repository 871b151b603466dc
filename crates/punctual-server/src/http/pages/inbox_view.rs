//! The inbox as HTML: each message as its reader would see it, with its delivery around it.

use super::inbox::InboxView;
use super::layout::{document, message_style};
use super::status::to_the_second;
use maud::{Markup, html};
use punctual::Tenant;
use punctual::base::locale::right_to_left;
use punctual::delivery::run::sandbox::{SandboxFilter, SandboxMessage, SandboxOutcome};

/// Renders the page.
pub(super) fn render(view: &InboxView) -> String {
    let body = html! {
        header {
            h1 { "Sandbox inbox" }
            p class="about" { "What was sent in this process by channels that reach nobody." }
        }
        main {
            (clock(view))
            (filter(view))
            (summary(view))
            ol class="letters" { @for received in &view.messages { (item(received)) } }
            (older(view))
        }
    };
    document("Sandbox inbox - Punctual", message_style(), body)
}

/// The address of the page with these filters, and perhaps an action of one of its buttons.
pub(super) fn address(wanted: &SandboxFilter, action: Option<&str>) -> String {
    let before = wanted.before.map(|number| number.to_string());
    let pairs = [
        ("do", action),
        ("channel", wanted.channel.as_deref()),
        ("to", wanted.to.as_deref()),
        ("before", before.as_deref()),
    ];
    let pairs = pairs.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
    if query.is_empty() { "/dev/inbox".into() } else { format!("/dev/inbox?{query}") }
}

fn button(wanted: &SandboxFilter, action: &str, text: &str) -> Markup {
    html! { form method="post" action=(address(wanted, Some(action))) { button { (text) } } }
}

fn clock(view: &InboxView) -> Markup {
    let wanted = SandboxFilter { before: None, ..view.wanted.clone() };
    let all = [("tick", "Do what is due"), ("hour", "1 hour on"), ("day", "1 day on"), ("week", "1 week on")];
    html! {
        @if let Some(now) = view.now {
            section class="clock" aria-label="Manual clock" {
                p { "It is " time datetime=(now) { (to_the_second(now)) } " and stays so." }
                @for (action, text) in all { (button(&wanted, action, text)) }
            }
        }
    }
}

fn filter(view: &InboxView) -> Markup {
    let chosen = view.wanted.channel.as_deref();
    let mut channels = view.channels.clone();
    channels.extend(chosen.map(str::to_owned));
    html! {
        form class="filter" method="get" action="/dev/inbox" {
            label {
                "Channel "
                select name="channel" {
                    option value="" { "all" }
                    @for key in &channels { option selected[chosen == Some(key)] { (key) } }
                }
            }
            label {
                "To "
                input name="to" value=(view.wanted.to.as_deref().unwrap_or_default()) autocomplete="off";
            }
            button { "Show" }
        }
    }
}

fn summary(view: &InboxView) -> Markup {
    html! {
        div class="summary" {
            p role="status" {
                @match view.total {
                    0 => "No messages.",
                    1 => "1 message.",
                    n => { (n) " messages, the newest first." }
                }
                @if view.dropped > 0 { " " (view.dropped) " older ones had to go for newer ones." }
            }
            @if view.total > 0 {
                (button(&SandboxFilter { before: None, ..view.wanted.clone() }, "clear", "Clear these"))
            }
        }
    }
}

fn older(view: &InboxView) -> Markup {
    let Some(last) = view.messages.last().filter(|_| view.more) else { return Markup::default() };
    let wanted = SandboxFilter { before: Some(last.number), ..view.wanted.clone() };
    html! { p { a href=(address(&wanted, None)) { "Older ones" } } }
}

fn item(received: &SandboxMessage) -> Markup {
    let message = &received.message;
    let direction = if right_to_left(&message.locale) { "rtl" } else { "ltr" };
    html! {
        li {
            article {
                p class="to" {
                    "To " bdi { (message.to) } " by " (message.channel) ", "
                    time datetime=(message.sent_at) { (to_the_second(message.sent_at)) }
                }
                div class="bubble" lang=(message.locale) dir=(direction) {
                    @if let Some(subject) = &message.subject { h2 { (subject) } }
                    (text(received))
                }
                @if let Some(as_html) = &message.html {
                    details { summary { "As HTML" } pre { (as_html) } }
                }
                p class="about" { (about(received)) }
            }
        }
    }
}

/// Renders the text, with the survey's URL in it as a link.
fn text(received: &SandboxMessage) -> Markup {
    let (body, url) = (received.message.body.as_str(), received.message.survey_url.as_deref());
    let Some(url) = url.filter(|url| url.starts_with("https://") || url.starts_with("http://")) else {
        return html! { p { (body) } };
    };
    let link = |text: &str| html! { a href=(url) rel="noreferrer noopener" { (text) } };
    html! {
        p { @for (n, part) in body.split(url).enumerate() { @if n > 0 { (link(url)) } (part) } }
        @if !body.contains(url) { p lang="en" dir="ltr" { (link("Open the survey")) } }
    }
}

fn about(received: &SandboxMessage) -> Markup {
    let message = &received.message;
    html! {
        @match message.attempt {
            n if message.public_id.is_none() => { "Send " (n) }
            0 | 1 => "Invitation",
            n => { "Reminder " (n - 1) }
        }
        @if message.tenant != Tenant::DEFAULT { " of tenant " (message.tenant) }
        ", delivered as " (received.message_id)
        @match received.outcome {
            SandboxOutcome::Sent => "",
            SandboxOutcome::Timeout => ", but the sender got no answer",
        }
        "."
        @if let Some(first) = &received.duplicate_of {
            " " strong class="warn" { "The same as " (first) ", sent again." }
        }
    }
}
