//! One precedence of settings for every command: flag, environment, file, default.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "test code")]

use super::process::{Place, Run};
use serde_json::Value;

/// PRD-9: commands work on the database that the file names, as the server does.
#[test]
fn prd_9_every_command_uses_the_database_of_the_file() {
    let place = Place::new();
    let database = place.database();
    let file = place.file("punctual.toml", &format!("database = \"{database}\"\n"));
    place.json(&["migrate"]);
    place.json(&["emit", "--topic", "orders", "--kind", "k", "--payload", "1"]);
    let waiting = |arguments: &[&str], variable: Option<&str>| {
        let mut command = place.command(&[&["status", "--json"], arguments].concat());
        variable.map(|path| command.env("PUNCTUAL_CONFIG", path));
        let said = command.said();
        assert_eq!(said.code, 0, "{arguments:?}: {said:?}");
        serde_json::from_str::<Value>(&said.out).unwrap()["queues"][0]["waiting"].clone()
    };
    assert_eq!(waiting(&["--config", &file], None), 1);
    assert_eq!(waiting(&[], Some(&file)), 1);
    for command in [&["doctor"][..], &["keys", "list"], &["dead-letters", "list"], &["timer", "list"]] {
        let said = place.command(&[command, &["--config", &file]].concat()).said();
        assert_eq!(said.code, 0, "{command:?}: {said:?}");
    }
    let other = format!("{database}.other");
    let said = place.command(&["status", "--config", &file, "--database", &other]).said();
    assert_eq!(said.code, 3, "a flag goes before the file: {said:?}");
    let said = place.command(&["status", "--config", "missing.toml"]).said();
    assert_eq!(said.code, 2, "{said:?}");
}

/// PRD-9: each value with where it came from, and no secret.
#[test]
fn prd_9_the_settings_are_shown_with_their_sources() {
    let place = Place::new();
    let text = "database = \"postgres://anna:hush@db/shop\"\nrole = \"worker\"\nlisten = \"127.0.0.1:9\"\n\
                root_key = \"hush-hush-hush-hush-hush-hush-hush\"\n[public]\nurl = \"https://x.example\"\n";
    let file = place.file("punctual.toml", text);
    let show = ["config", "show", "--config", &file, "--listen", "127.0.0.1:8"];
    let mut command = place.command(&show);
    command.arg("--json").env("PUNCTUAL_ROLE", "api").env("PUNCTUAL_POOL_SIZE", "5");
    let said = command.said();
    assert_eq!(said.code, 0, "{said:?}");
    let shown: Value = serde_json::from_str(&said.out).unwrap();
    let settings = shown["settings"].as_array().unwrap();
    for (name, value, source) in [
        ("database", "postgres://anna:***@db/shop", "file"),
        ("listen", "127.0.0.1:8", "flag"),
        ("role", "api", "environment"),
        ("pool_size", "5", "environment"),
        ("clock", "system", "default"),
        ("retention", "30d", "default"),
        ("run_retention", "30d", "default"),
        ("message_id_retention", "800d", "default"),
        ("root_key", "***", "file"),
        ("public.url", "https://x.example", "file"),
        ("public.requests_per_minute", "600", "default"),
    ] {
        let found = settings.iter().find(|setting| setting["name"] == name).unwrap();
        assert_eq!((&found["value"], &found["source"]), (&value.into(), &source.into()), "{name}");
    }
    let text = place.command(&show).said();
    assert!(!text.out.contains("hush") && !said.out.contains("hush"), "{}", text.out);
    assert!(text.out.lines().any(|line| line.starts_with("listen") && line.contains("flag")), "{}", text.out);
}
