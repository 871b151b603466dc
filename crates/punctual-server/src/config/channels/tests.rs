use super::*;
use punctual::base::backoff::Backoff;
use punctual::delivery::rules::channel::UnknownOutcomePolicy;
use punctual::queue::rules::attempt::RetryPolicy;

fn read(text: &str) -> Result<Channels, String> {
    read_with(text, None)
}

fn read_with(text: &str, folder: Option<&Path>) -> Result<Channels, String> {
    let file: BTreeMap<String, Written> = toml::from_str(text).unwrap();
    decide(&file["channels"], folder).map_err(|failure| failure.sentence)
}

const TWILIO: &str = "provider = \"twilio-sms\"\nfrom = \"+15550100\"\naccount_sid = \"AC1\"\n";

/// TRG-17: channels by configuration.
#[test]
fn trg_17_a_channel_of_the_configuration_may_be_in_the_sandbox() {
    let two = "[channels.\"whatsapp:default\"]\nprovider = \"memory\"\nrate_per_second = 5\n\
               [channels.\"email:smtp\"]\nprovider = \"memory\"";
    let channels = read(two).unwrap();
    assert_eq!(channels.sandboxed, ["email:smtp", "whatsapp:default"]);
    assert_eq!(channels.policies["whatsapp:default"].rate_per_second, Some(5));
}

/// NTF-13: the example of the contract, and what may be shown of it.
#[test]
fn ntf_13_the_contracts_example_is_read() {
    // PATH stands in for secrets: it is set wherever tests run.
    let example = "[channels.\"sms:twilio\"]\nprovider = \"twilio-sms\"\nfrom = \"+15550100\"\n\
        account_sid = \"AC1\"\nauth_token  = { env = \"PATH\" }\nrate_per_second = 50\nunknown = \"hold\"\n\
        fallback = \"sms:msg91\"\nin_flight = 8\nmax_attempts = 6\nbreaker_failures = 3\n\
        unknown_retries = 2\n\
        [channels.\"sms:msg91\"]\nprovider = \"msg91\"\nauth_key = \"k3y-k3y\"\n\
        [channels.\"email:smtp\"]\nprovider = \"smtp\"\nurl = \"smtps://relay.example:465\"\n\
        sender = \"noreply@eventhub.example\"";
    let channels = read(example).unwrap();
    let keys: Vec<&str> = channels.real.iter().map(|real| real.key.as_str()).collect();
    assert_eq!(keys, ["email:smtp", "sms:msg91", "sms:twilio"]);
    let want = ChannelPolicy {
        rate_per_second: Some(50),
        in_flight: Some(8),
        unknown: UnknownOutcomePolicy::Hold,
        unknown_retries: Some(2),
        fallback: Some("sms:msg91".into()),
        patience: Some(RetryPolicy { max_attempts: 6, ..punctual::flow::rules::entry::failure::patience() }),
        breaker_failures: Some(3),
    };
    assert_eq!(channels.policies["sms:twilio"], want);
    assert_eq!(channels.policies["sms:msg91"], ChannelPolicy::default());
    let twilio = &channels.real[2];
    assert!(twilio.receipts.is_some() && channels.real[0].receipts.is_none());
    let shown: Vec<&str> = twilio.shown.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(shown, ["account_sid", "base_url", "from"], "no secret is shown");
    let path = std::env::var("PATH").unwrap();
    assert!(!format!("{channels:?}").contains(&path), "debugging shows no secret");
}

/// NTF-13: every mistake is one sentence that says what would be right.
#[test]
fn ntf_13_a_channel_that_cannot_be_used_is_refused_in_a_sentence() {
    let smtp = "provider = \"smtp\"\nurl = \"smtp://relay\"\nsender = \"a@example.com\"\n";
    let twilio = format!("{TWILIO}auth_token = \"t0k3n\"\n");
    let table = [
        ("sms", "provider = \"memory\"".to_owned(), "channels.\"sms\": `sms` is not a channel's key"),
        ("sms:a", String::new(), "channels.\"sms:a\": `provider` is missing"),
        ("sms:a", "provider = 5".into(), "`provider` must be a name such as \"twilio-sms\", not 5"),
        (
            "sms:a",
            "provider = \"twillio-sms\"".into(),
            "there is no provider `twillio-sms`; did you mean `twilio-sms`?",
        ),
        (
            "sms:a",
            "provider = \"acme\"".into(),
            "there is no provider `acme`; known are memory, smtp, 360dialog",
        ),
        (
            "sms:a",
            "provider = \"memory\"\nfrom = \"+1\"".into(),
            "`from` is not a setting of the provider `memory`",
        ),
        ("sms:a", TWILIO.into(), "channels.\"sms:a\": auth_token: is missing: the account's auth token"),
        (
            "sms:a",
            format!("{twilio}form = 1"),
            "form: is not a setting of this provider; did you mean `from`?",
        ),
        (
            "sms:a",
            format!("{TWILIO}auth_token = {{ env = \"NOT_SET_9\" }}"),
            "auth_token: the variable NOT_SET_9 is not set",
        ),
        (
            "sms:a",
            format!("{TWILIO}auth_token = {{ file = \"/not/there\" }}"),
            "auth_token: /not/there cannot be read",
        ),
        (
            "sms:a",
            format!("{TWILIO}auth_token = {{ evn = \"X\" }}"),
            "auth_token: must be a text, { env = \"NAME\" }",
        ),
        ("sms:a", format!("{TWILIO}auth_token = [1]"), "auth_token: must be a text"),
        ("sms:a", format!("{TWILIO}auth_token = \"\""), "auth_token: is empty"),
        (
            "email:a",
            twilio.clone(),
            "the provider `twilio-sms` serves sms, not email: call the channel \"sms:a\"",
        ),
        ("sms:a", smtp.into(), "the provider `smtp` serves email, not sms: call the channel \"email:a\""),
        (
            "memory:a",
            twilio.clone(),
            "a key that begins with `memory:` is the sandbox's, not for `twilio-sms`",
        ),
        ("email:a", smtp.replace("a@example.com", "nobody"), "sender: is not a mail address: it has no @"),
        ("sms:a", format!("{twilio}rate_per_second = 0"), "`rate_per_second` must be a whole number"),
        ("sms:a", format!("{twilio}rate_per_second = 0.5"), "`rate_per_second` must be a whole number"),
        ("sms:a", format!("{twilio}rate_per_second = \"50\""), "`rate_per_second` must be a whole number"),
        ("sms:a", format!("{twilio}in_flight = 0"), "`in_flight` must be a whole number from 1"),
        ("sms:a", format!("{twilio}waits = \"1m\""), "`waits` must be a list of 1 to 100 waits such as"),
        ("sms:a", format!("{twilio}waits = []"), "`waits` must be a list of 1 to 100 waits such as"),
        ("sms:a", format!("{twilio}waits = [60]"), "`waits` must be a list of 1 to 100 waits such as"),
        ("sms:a", format!("{twilio}waits = [\"soon\"]"), "`waits`: `soon` is not a duration"),
        ("sms:a", format!("{twilio}waits = [\"0s\"]"), "`waits`: a wait must be longer than nothing"),
        (
            "sms:a",
            format!("{twilio}waits = [\"1m\", \"2m\"]\nmax_attempts = 2"),
            "`waits` has 2, but there are only 1 between 2 tries",
        ),
        (
            "sms:a",
            format!("{twilio}breaker_failures = -1"),
            "`breaker_failures` must be a whole number from 0",
        ),
        ("sms:a", format!("{twilio}max_attempts = 0"), "`max_attempts` must be a whole number from 1"),
        ("sms:a", format!("{twilio}unknown_retries = -1"), "`unknown_retries` must be a whole number from 0"),
        (
            "sms:a",
            format!("{twilio}unknown = \"maybe\""),
            "`unknown` must be \"resend\" or \"hold\", not \"maybe\"",
        ),
        (
            "sms:a",
            format!("{twilio}fallback = \"sms:b\""),
            "`fallback` names `sms:b`, which is not a channel of this file",
        ),
        ("sms:a", format!("{twilio}fallback = \"sms:a\""), "`fallback` leads back to `sms:a`"),
        ("sms:a", format!("{twilio}fallback = 1"), "`fallback` must be the key of another channel"),
    ];
    for (key, lines, want) in table {
        let said = read(&format!("[channels.\"{key}\"]\n{lines}")).unwrap_err();
        assert!(said.contains(want) && !said.contains('\n'), "{lines}: {said}");
        assert!(!said.contains("t0k3n"), "{said}");
    }
    let circle = "[channels.\"sms:a\"]\nprovider = \"memory\"\nfallback = \"sms:b\"\n\
                  [channels.\"sms:b\"]\nprovider = \"memory\"\nfallback = \"sms:a\"";
    assert!(read(circle).unwrap_err().contains("`fallback` leads back to `sms:a`"));
}

/// NTF-24, NTF-17: the waits between tries, and when a breaker opens, are the channel's own.
#[test]
fn ntf_24_a_channel_has_waits_of_its_own() {
    let minutes = |all: &[u64]| all.iter().map(|n| std::time::Duration::from_secs(n * 60)).collect();
    let table = [
        ("waits = [\"1m\", \"5m\"]", 3, minutes(&[1, 5])),
        ("waits = [\"1m\", \"5m\"]\nmax_attempts = 5", 5, minutes(&[1, 5, 5, 5])),
        ("waits = [\"90m\"]\nmax_attempts = 2\nbreaker_failures = 0", 2, minutes(&[90])),
    ];
    for (lines, max_attempts, waits) in table {
        let text = format!("[channels.\"sms:a\"]\nprovider = \"memory\"\n{lines}");
        let policy = read(&text).unwrap().policies["sms:a"].clone();
        assert_eq!(
            policy.patience,
            Some(RetryPolicy { max_attempts, backoff: Backoff::Steps(waits) }),
            "{lines}"
        );
        assert_eq!(policy.breaker_failures, lines.contains("breaker").then_some(0), "{lines}");
    }
}

/// PLT-5: waits that double up to a cap, as those of queues.
#[test]
fn plt_5_a_channels_waits_may_double_up_to_a_cap() {
    let seconds = std::time::Duration::from_secs;
    let usual = punctual::flow::rules::entry::failure::patience().max_attempts;
    let table = [
        ("waits = { from = \"1m\", to = \"1h\" }", usual, (60, 3_600)),
        ("waits = { from = \"5s\", to = \"5s\" }\nmax_attempts = 9", 9, (5, 5)),
    ];
    for (lines, max_attempts, (from, to)) in table {
        let text = format!("[channels.\"sms:a\"]\nprovider = \"memory\"\n{lines}");
        let policy = read(&text).unwrap().policies["sms:a"].clone();
        let backoff = Backoff::Exponential { from: seconds(from), to: seconds(to) };
        assert_eq!(policy.patience, Some(RetryPolicy { max_attempts, backoff }), "{lines}");
    }
    let refused = [
        ("{ from = \"0s\", to = \"1m\" }", "`waits`: `from` must be more than zero"),
        ("{ from = \"2m\", to = \"1m\" }", "and not longer than `to`"),
        ("{ from = \"1m\" }", "`waits` must be a list of 1 to 100 waits such as"),
        ("{ from = \"1m\", to = 60 }", "or { from = \"1m\", to = \"1h\" }"),
        ("{ from = \"1m\", to = \"soon\" }", "`waits`: `soon` is not a duration"),
        ("{ from = \"1m\", to = \"2m\", upto = \"3m\" }", "`waits.upto` is not a setting"),
    ];
    for (waits, said) in refused {
        let text = format!("[channels.\"sms:a\"]\nprovider = \"memory\"\nwaits = {waits}");
        let found = read(&text).unwrap_err();
        assert!(found.contains(said), "`{said}` should be said of {waits}, but it was `{found}`");
    }
}

/// NTF-13: a file beside the configuration is a provider, too.
#[test]
fn ntf_13_a_folder_of_ones_own_adds_providers() {
    let folder = std::env::temp_dir().join(format!("punctual-channels-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = "kind = \"sms\"\naddress = \"phone\"\n[request]\nurl = \"https://sms.example/\"\n\
                body = { json = { to = \"{{to}}\" } }";
    std::fs::write(folder.join("acme.toml"), file).unwrap();
    let text = "[channels.\"sms:acme\"]\nprovider = \"acme\"";
    assert_eq!(read_with(text, Some(&folder)).unwrap().real[0].provider, "acme");
    std::fs::write(folder.join("smtp.toml"), file).unwrap();
    let said = read_with(text, Some(&folder)).unwrap_err();
    assert!(said.contains("smtp.toml: `smtp` is a provider of its own; choose another name"), "{said}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_sandbox_is_there_when_it_is_asked_for() {
    let keys = ["whatsapp:default".to_owned()];
    let takes = |keys: &[String], clock, demo| {
        sandbox(keys, clock, demo).map(|one| (one.takes("memory:x"), one.takes("whatsapp:default")))
    };
    assert_eq!(takes(&[], ClockMode::System, false), None);
    assert_eq!(takes(&[], ClockMode::System, true), Some((true, false)));
    assert_eq!(takes(&[], ClockMode::Manual, false), Some((true, false)));
    assert_eq!(takes(&keys, ClockMode::Manual, false), Some((true, true)));
    assert_eq!(takes(&keys, ClockMode::System, false), Some((false, true)));
}
