//! The inbox as HTML: each message as its reader would see it, with what is known of it around.

use super::html::{escape, frame};
use super::inbox::Sight;
use super::status::to_the_second;
use punctual::Tenant;
use punctual::base::locale::right_to_left;
use punctual::delivery::run::sandbox::{SandboxFilter, SandboxMessage, SandboxOutcome};
use std::fmt::Write;

const STYLE: &str = "<link rel=\"stylesheet\" href=\"/dev/inbox.css\">";

/// The whole page.
pub(super) fn render(sight: &Sight) -> String {
    let items: String = sight.letters.iter().map(|received| item(received)).collect();
    let main = format!(
        "<header><h1>Sandbox inbox</h1><p class=\"about\">What was sent in this process by channels that \
         reach nobody.</p></header>\n<main>\n{}{}{}<ol class=\"letters\">{items}</ol>\n{}</main>",
        clock(sight),
        filter(sight),
        summary(sight),
        older(sight),
    );
    frame("Sandbox inbox - Punctual", &main, STYLE)
}

/// The address of the page with these filters, and perhaps something to do.
pub(super) fn address(wanted: &SandboxFilter, deed: Option<&str>) -> String {
    let before = wanted.before.map(|number| number.to_string());
    let pairs = [
        ("do", deed),
        ("channel", wanted.channel.as_deref()),
        ("to", wanted.to.as_deref()),
        ("before", before.as_deref()),
    ];
    let pairs = pairs.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let query: Vec<String> = pairs.map(|(name, value)| format!("{name}={}", percent(value))).collect();
    if query.is_empty() { "/dev/inbox".into() } else { format!("/dev/inbox?{}", query.join("&")) }
}

fn percent(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            other => {
                let _ = write!(out, "%{other:02X}");
            }
        }
        out
    })
}

fn button(wanted: &SandboxFilter, deed: &str, words: &str) -> String {
    let action = escape(&address(wanted, Some(deed)));
    format!("<form method=\"post\" action=\"{action}\"><button>{words}</button></form>")
}

fn clock(sight: &Sight) -> String {
    let Some(now) = sight.now else { return String::new() };
    let wanted = SandboxFilter { before: None, ..sight.wanted.clone() };
    let all = [("tick", "Do what is due"), ("hour", "1 hour on"), ("day", "1 day on"), ("week", "1 week on")];
    format!(
        "<section class=\"clock\" aria-label=\"Manual clock\"><p>It is \
         <time datetime=\"{now}\">{}</time> and stays so.</p>{}</section>\n",
        to_the_second(now),
        all.map(|(deed, words)| button(&wanted, deed, words)).concat()
    )
}

fn filter(sight: &Sight) -> String {
    let chosen = sight.wanted.channel.as_deref();
    let mut channels = sight.channels.clone();
    channels.extend(chosen.map(str::to_owned));
    let options: String = channels
        .iter()
        .map(|key| {
            let selected = if chosen == Some(key) { " selected" } else { "" };
            format!("<option{selected}>{}</option>", escape(key))
        })
        .collect();
    format!(
        "<form class=\"filter\" method=\"get\" action=\"/dev/inbox\"><label>Channel <select name=\"channel\">\
         <option value=\"\">all</option>{options}</select></label><label>To <input name=\"to\" value=\"{}\" \
         autocomplete=\"off\"></label><button>Show</button></form>\n",
        escape(sight.wanted.to.as_deref().unwrap_or_default())
    )
}

fn summary(sight: &Sight) -> String {
    let words = match sight.total {
        0 => "No messages.".to_owned(),
        1 => "1 message.".to_owned(),
        n => format!("{n} messages, the newest first."),
    };
    let gone = match sight.dropped {
        0 => String::new(),
        n => format!(" {n} older ones had to go for newer ones."),
    };
    let clear = if sight.total == 0 {
        String::new()
    } else {
        button(&SandboxFilter { before: None, ..sight.wanted.clone() }, "clear", "Clear these")
    };
    format!("<div class=\"summary\"><p role=\"status\">{words}{gone}</p>{clear}</div>\n")
}

fn older(sight: &Sight) -> String {
    let Some(last) = sight.letters.last().filter(|_| sight.more) else { return String::new() };
    let wanted = SandboxFilter { before: Some(last.number), ..sight.wanted.clone() };
    format!("<p><a href=\"{}\">Older ones</a></p>\n", escape(&address(&wanted, None)))
}

fn item(received: &SandboxMessage) -> String {
    let letter = &received.message;
    let direction = if right_to_left(&letter.locale) { "rtl" } else { "ltr" };
    let subject =
        letter.subject.as_deref().map_or_else(String::new, |text| format!("<h2>{}</h2>", escape(text)));
    let html = letter.html.as_deref().map_or_else(String::new, |text| {
        format!("<details><summary>As HTML</summary><pre>{}</pre></details>", escape(text))
    });
    format!(
        "<li><article><p class=\"to\">To <bdi>{}</bdi> by {}, <time datetime=\"{}\">{}</time></p>\
         <div class=\"bubble\" lang=\"{}\" dir=\"{direction}\">{subject}{}</div>{html}\
         <p class=\"about\">{}</p></article></li>\n",
        escape(&letter.to),
        escape(&letter.channel),
        letter.sent_at,
        to_the_second(letter.sent_at),
        escape(&letter.locale),
        text(received),
        about(received),
    )
}

/// The text, in which the link to the survey is one.
fn text(received: &SandboxMessage) -> String {
    let letter = &received.message;
    let body = escape(&letter.body);
    let is_web = |url: &&str| url.starts_with("https://") || url.starts_with("http://");
    let Some(url) = letter.survey_url.as_deref().filter(is_web).map(escape) else {
        return format!("<p>{body}</p>");
    };
    let link = |words: &str| format!("<a href=\"{url}\" rel=\"noreferrer noopener\">{words}</a>");
    if body.contains(&url) {
        return format!("<p>{}</p>", body.replace(&url, &link(&url)));
    }
    format!("<p>{body}</p><p lang=\"en\" dir=\"ltr\">{}</p>", link("Open the survey"))
}

fn about(received: &SandboxMessage) -> String {
    let letter = &received.message;
    let which = match letter.attempt {
        n if letter.public_id.is_none() => format!("Send {n}"),
        0 | 1 => "Invitation".to_owned(),
        n => format!("Reminder {}", n - 1),
    };
    let tenant = if letter.tenant == Tenant::DEFAULT {
        String::new()
    } else {
        format!(" of tenant {}", letter.tenant)
    };
    let outcome = match received.outcome {
        SandboxOutcome::Sent => "",
        SandboxOutcome::Timeout => ", but the sender got no answer",
    };
    let double = received.duplicate_of.as_deref().map_or_else(String::new, |first| {
        format!(" <strong class=\"warn\">The same as {}, sent again.</strong>", escape(first))
    });
    format!("{which}{tenant}, delivered as {}{outcome}.{double}", escape(&received.message_id))
}
