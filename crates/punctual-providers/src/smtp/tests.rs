use super::*;

fn given(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn the_address_of_a_relay_is_read() {
    let table = [
        ("smtps://relay.example", (true, "relay.example", 465)),
        ("smtp://relay.example", (false, "relay.example", 587)),
        ("smtp://relay.example:25/", (false, "relay.example", 25)),
        ("smtp://[::1]:2525", (false, "[::1]", 2525)),
        ("smtp://[::1]", (false, "[::1]", 587)),
    ];
    for (url, (tls, host, port)) in table {
        assert_eq!(parse_url(url), Ok((tls, host.to_owned(), port)), "{url}");
    }
    for url in [
        "relay.example",
        "http://relay.example",
        "smtp://",
        "smtp://a:b@relay",
        "smtp://relay:x",
        "smtp://a b",
    ] {
        assert!(parse_url(url).is_err(), "{url}");
    }
}

/// NTF-14: every setting that cannot be used is told.
#[test]
fn ntf_14_wrong_settings_are_told() {
    let base = [("url", "smtp://relay.example"), ("sender", "a@example.com")];
    assert!(SmtpChannel::new(given(&base)).is_ok());
    let table: [(&str, &str, &str); 8] = [
        ("sender", "a@example.com\r\nBcc: x", "sender: has a line break in it"),
        ("sender", "nobody", "sender: is not a mail address: it has no @"),
        ("reply_to", "nobody", "reply_to: is not a mail address"),
        ("url", "relay", "url: is not the address of a relay"),
        ("timeout", "1h", "timeout: must be more than 0s, and at most 18s"),
        ("starttls", "maybe", "starttls: must be required, opportunistic or off"),
        ("username", "me", "password: is missing"),
        ("ca", "/nowhere.pem", "ca: /nowhere.pem cannot be read"),
    ];
    for (name, value, want) in table {
        let mut settings = given(&base);
        settings.insert(name.into(), value.into());
        let said = SmtpChannel::new(settings).unwrap_err().to_string();
        assert!(said.contains(want), "{said}");
    }
}

/// NTF-14: a password does not go over the line in the clear.
#[test]
fn ntf_14_a_password_needs_tls() {
    let with = |url: &str, starttls: &str| {
        let pairs = [
            ("url", url),
            ("starttls", starttls),
            ("sender", "a@example.com"),
            ("username", "u"),
            ("password", "p4ssw0rd"),
        ];
        SmtpChannel::new(given(&pairs)).map(|channel| format!("{channel:?}")).map_err(|said| said.to_string())
    };
    for (url, starttls) in [("smtp://relay.example", "off"), ("smtp://relay.example", "opportunistic")] {
        assert!(with(url, starttls).unwrap_err().contains("starttls: must be `required`"));
    }
    for (url, starttls) in
        [("smtp://relay.example", "required"), ("smtps://relay.example", "off"), ("smtp://127.0.0.1", "off")]
    {
        let shown = with(url, starttls).unwrap();
        assert!(!shown.contains("p4ssw0rd"), "{shown}");
    }
}
